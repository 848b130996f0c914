"""What people look at: pages, figures, tables."""

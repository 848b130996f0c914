"""Contact sheets: a few scenes, episodes or analogies on one page."""

"""`alebrije demo` and `alebrije toys`."""

"""One module a command; the group ``farm`` is a package."""

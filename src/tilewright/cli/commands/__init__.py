"""The commands: each is one module; the group ``farm`` is a package."""

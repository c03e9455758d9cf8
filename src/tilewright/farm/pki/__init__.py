"""The farm's certificates: made, named, kept in files, shown to others (docs/farm.md)."""

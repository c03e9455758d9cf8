"""The farm's certificates: the authority that issues them, their files, and mutual TLS (docs/farm.md)."""

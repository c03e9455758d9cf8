"""Versions of installed packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version(package: str) -> str | None:
    """Version of a package, found without importing it; ``None`` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None

"""What is installed beside Tilewright."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version(package: str) -> str | None:
    """The version of a package, which is not imported; ``None`` where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None

"""Names of device classes, from vendors' device names, in characters that are valid everywhere."""

from __future__ import annotations

import re

from tilewright.core import digest

LONGEST = 100
"""Largest length of a class's name."""


def words(text: str) -> list[str]:
    """The words of a name, in lower case; numbers keep their points."""
    return re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)*", text.lower())


def slug(text: str, longest: int = LONGEST) -> str:
    """A name of letters, digits, points, plus signs and hyphens."""
    plain = re.sub(r"[^a-z0-9.+]+", "-", text.lower()).strip("-")
    return plain if len(plain) <= longest else f"{plain[: longest - 9]}-{digest(plain)[:8]}"

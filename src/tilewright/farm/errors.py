"""What can go wrong in a farm that its user can mend."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class FarmError(TilewrightError):
    """A farm's certificates, settings or connections are not as they must be."""

    kind = "farm"


class Refused(FarmError):
    """A peer was turned down: who it is, or what it asked for, is not allowed."""

    kind = "refused"


class Taken(Refused):
    """Another process has the name. It may be dead, which shows after a few heartbeats."""

    kind = "taken"

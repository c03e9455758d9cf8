"""What can go wrong in a farm that its user can mend."""

from __future__ import annotations

from tilewright.errors import TilewrightError

NONSENSE = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading plain values of a peer raises where they are not what they should be."""


class FarmError(TilewrightError):
    """A farm's certificates, settings or connections are not as they must be."""

    kind = "farm"


class Refused(FarmError):
    """A peer was turned down: who it is, or what it asked for, is not allowed."""

    kind = "refused"


class Taken(Refused):
    """Another process has the name. It may be dead, which shows after a few heartbeats."""

    kind = "taken"


class Stale(FarmError):
    """It is not known who is revoked, so that no signature counts. A newer list may come."""

    kind = "stale"


class LinkClosed(FarmError):
    """The connection is gone, or nobody answered on it."""

    kind = "link_closed"


class Unreachable(FarmError):
    """Nobody answers at the farm's address. It may be there later."""

    kind = "unreachable"


class NotStored(FarmError):
    """The server is there, but keeps nothing: no such queue yet, or no room."""

    kind = "not_stored"

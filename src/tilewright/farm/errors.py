"""Errors of a farm that its user can correct."""

from __future__ import annotations

from tilewright.errors import TilewrightError

NONSENSE = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""Exceptions that reading a peer's plain values raises where they are malformed."""


class FarmError(TilewrightError):
    """A farm's certificates, settings or connections are at fault."""

    kind = "farm"


class Refused(FarmError):
    """The farm refuses a peer: its identity or its request is not allowed."""

    kind = "refused"


class Taken(Refused):
    """Another process has the name. If that process is dead, the farm notices after a few heartbeats."""

    kind = "taken"


class Stale(FarmError):
    """No current list of revoked certificates is known, so no signature counts. A newer list may arrive."""

    kind = "stale"


class LinkClosed(FarmError):
    """The connection is lost, or the other end did not answer."""

    kind = "link_closed"


class Unreachable(FarmError):
    """No server answers at the farm's address. A later attempt may succeed."""

    kind = "unreachable"


class NotStored(FarmError):
    """The server answers, but does not store the message: the queue does not exist yet, or the server has no room."""

    kind = "not_stored"

"""Who a certificate belongs to: roles, names, the URI that states both, and a scheduler's hosts."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence

from tilewright.errors import UsageError
from tilewright.farm.errors import Refused

ROLES = ("scheduler", "runner", "builder", "client")
AUTHORITY = "ca"  # the authority's folder, name and role

_SCHEME = "tilewright"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def identity(role: str, name: str) -> str:
    """The URI in a certificate that says whose it is."""
    return f"{_SCHEME}:{role}:{name}"


def parse_identity(uris: Iterable[str]) -> tuple[str, str]:
    """Role and name from a certificate's URIs. Raises ``Refused`` unless exactly one is ours, and well formed."""
    ours = [u for u in uris if u.startswith(f"{_SCHEME}:")]
    parts = ours[0].split(":") if len(ours) == 1 else []
    if len(parts) != 3 or parts[1] not in ROLES or not _NAME.fullmatch(parts[2]):
        raise Refused("the certificate has no role in a farm", "Issue one with `tilewright farm issue`")
    return parts[1], parts[2]


def check_name(name: str) -> str:
    """``name`` if a certificate may have it. Raises ``UsageError``."""
    if not _NAME.fullmatch(name) or name.lower() == AUTHORITY:
        raise UsageError(
            f"{name!r} can't be a certificate's name",
            "Use up to 64 letters, digits, dots, hyphens and underscores, a letter or digit first; ca is taken",
        )
    return name


def scheduler_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """What a scheduler's certificate names: loopback, and ``hosts`` or else this machine's name.

    Raises ``UsageError`` for what is neither a host's name nor an address.
    """
    found = [_host(h) for h in hosts or (socket.gethostname(),)]
    for host, form in zip(hosts, found, strict=False):
        if form is None:
            raise UsageError(f"{host!r} is neither a host's name nor an address", "Write farm.example.org or 192.0.2.7")
    return tuple(dict.fromkeys((*_LOOPBACK, *(f for f in found if f))))


def _host(host: str) -> str | None:
    """A host's name as it stands, an address in its short form; ``None`` for anything else."""
    try:
        address = str(ipaddress.ip_address(host))
    except ValueError:
        # What ends like an address is compared as one, never as a name.
        return host if _HOST.fullmatch(host) and not host.rpartition(".")[2].isdigit() else None
    return None if "%" in address else address  # an interface's name means nothing elsewhere

"""Parses and joins the addresses of a farm's servers, and recognises addresses of this machine."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from tilewright.farm.errors import FarmError

PORT = 8786


def parse_address(address: str) -> tuple[str, list[tuple[str, int]]]:
    """Returns the scheme (``tls`` or ``tcp``), and the host and port of every server in ``tls://HOST:PORT,HOST:PORT``.

    Raises ``FarmError``.
    """
    scheme, sep, rest = address.partition("://")
    if not sep:
        scheme, rest = "tls", address
    servers = []
    for part in rest.split(","):
        try:
            parts = urlsplit(f"//{part}")
            host, port = parts.hostname, parts.port or PORT
        except ValueError:
            host, port = None, 0
        if scheme not in ("tls", "tcp") or not host or part.endswith(":") or "@" in part or "/" in part:
            raise FarmError(f"{address!r} is not a farm address", "Write tls://HOST:PORT")
        servers.append((host, port))
    return scheme, servers


def joined(host: str, port: int | str) -> str:
    """Host and port as one text; an IPv6 host gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host, given as a name or an IP address, is this machine's loopback."""
    address = ip_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """Parses an IP address; ``None`` for a host name."""
    try:
        return ip_address(host)
    except ValueError:
        return None

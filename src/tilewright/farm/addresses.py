"""Addresses of machines: of a farm's servers, of this machine."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from tilewright.farm.errors import FarmError

PORT = 8786


def parse_address(address: str) -> tuple[str, list[tuple[str, int]]]:
    """Scheme (``tls`` or ``tcp``), and host and port of every server in ``tls://HOST:PORT,HOST:PORT``.

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
    """Host and port as addresses have them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address given by name or number is this machine's own."""
    address = ip_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a text is; ``None`` for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None

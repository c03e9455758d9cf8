"""Options that the farm's commands share."""

from __future__ import annotations

from pathlib import Path

from tilewright.cli.declare import argument, option
from tilewright.core import UsageError

CERTS = option(
    envvar="TILEWRIGHT_CERTS",
    show_envvar=True,
    metavar="DIR",
    help="Certificates: the folder that `farm init` wrote, or the role's folder in it.",
)
ADDRESS = argument(metavar="ADDRESS", required=False, envvar="TILEWRIGHT_FARM")


def address_of(address: str | None) -> str:
    """A farm's address as given. Raises ``UsageError`` where there is none."""
    if not address:
        raise UsageError("no farm is named", "Give tls://HOST:PORT, or set TILEWRIGHT_FARM")
    return address


def certs_for(address: str, certs: Path | None) -> Path | None:
    """``--certs`` as it counts for an address: one in the clear takes none."""
    return None if certs is None or address.startswith("tcp://") else certs.expanduser()

"""Options that the farm's commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.cli.declare import argument, option
from tilewright.core import UsageError

CERTS = option(
    envvar="TILEWRIGHT_CERTS",
    show_envvar=True,
    metavar="DIR",
    help="Folder of certificates: the one that farm init wrote, or the role's folder in it.",
)


def certs_for(address: str, certs: Path | None) -> Path | None:
    """The folder ``--certs``; ``None`` for an unencrypted address (``tcp://``)."""
    return None if certs is None or address.startswith("tcp://") else certs.expanduser()


@dataclass(frozen=True)
class Reached:
    """Options by which a command reaches its farm: the address, as an argument or as ``--farm``, and the
    certificates."""

    certs: Path | None = CERTS
    farm: str | None = option(metavar="ADDRESS", help="The farm's address, if it is not given as ADDRESS.")
    address: str | None = argument(metavar="[ADDRESS]", required=False, envvar="TILEWRIGHT_FARM")

    @property
    def given(self) -> str | None:
        """The given address, if any."""
        return self.farm or self.address

    @property
    def where(self) -> str:
        """The address. Raises ``UsageError`` without an address."""
        if not self.given:
            raise UsageError("no farm address is given", "Write tls://HOST:PORT, or set TILEWRIGHT_FARM")
        return self.given

    @property
    def credentials(self) -> Path | None:
        """The folder of certificates for this address; ``None`` for an unencrypted address."""
        return certs_for(self.where, self.certs)

"""Identities in certificates: roles, names, the URI that states both, and the files that list them.

Times are seconds since the epoch.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import UsageError
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.pki.private_files import explained

ROLES = ("server", "administrator", "client", "runner", "builder", "reader")
RETIRED = "scheduler"  # the role that 0.1 had instead of the server's
AUTHOR = "author"  # role under which a revoked key that signs bundles is listed. No certificate has this role
ISSUE_SERVER = "Issue a server's: `tilewright farm issue server --role server --host HOST --dir DIR`"
AUTHORITY = "ca"  # the authority's folder, name and role
USERS = "users.json"
DAY = 86400
CLOCKS = float(DAY)  # seconds that the clocks of two machines may differ
_COPY = "Copy DIR/ca/users.json there again"

_SCHEME = "tilewright"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_URI = re.compile(rf"{_SCHEME}:({'|'.join((*ROLES, RETIRED, AUTHOR))}):({_NAME.pattern})(:[0-9a-f]{{1,40}})?")


@dataclass(frozen=True)
class Peer:
    """A certificate's holder, validity and hosts. Times are seconds since the epoch.

    ``user``: the URI in the certificate, by which a server knows its holder. ``hosts``: the names and addresses at
    which a server answers. ``revoked``: when the certificate was revoked.
    """

    user: str
    role: str
    name: str
    serial: int
    not_after: float
    not_before: float = 0.0
    hosts: tuple[str, ...] = ()
    revoked: float | None = None

    def __str__(self) -> str:
        return f"{self.role} {self.name}"

    def days_left(self, now: float | None = None) -> int:
        """Whole days until the certificate ends; negative when it has ended. ``now``: this machine's clock by
        default."""
        return math.floor((self.not_after - (time.time() if now is None else now)) / DAY)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "serial": f"{self.serial:x}"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Peer:
        found = _URI.fullmatch(data.get("user", identity(data["role"], data["name"])))  # 0.1 stored no user
        if not found or found.group(1, 2) != (data["role"], data["name"]):
            raise ValueError("a user of two names")
        serial, hosts = int(data["serial"], 16), tuple(data.get("hosts", ()))
        times = float(data["not_after"]), float(data.get("not_before", 0.0))
        return cls(found[0], found[1], found[2], serial, *times, hosts, data.get("revoked"))


def identity(role: str, name: str, serial: int | None = None) -> str:
    """The URI in a certificate that names its holder. Certificates issued by 0.1 have no serial number in it."""
    return f"{_SCHEME}:{role}:{name}" + ("" if serial is None else f":{serial:x}")


def key_serial(public: bytes) -> int:
    """The serial number that stands for a key that signs bundles (32 bytes, Ed25519) in a revocation list: 159 bits of
    the key's hash, as long as a certificate's serial number."""
    return int.from_bytes(hashlib.sha256(b"tilewright bundle key\0" + public).digest()[:20]) >> 1


def author(public: bytes, revoked: float, until: float) -> Peer:
    """The entry of a revoked key that signs bundles, as an authority lists it until the authority's end. Its name holds
    the key."""
    name = "ed25519-" + base64.urlsafe_b64encode(public).decode().rstrip("=")
    serial = key_serial(public)
    return Peer(identity(AUTHOR, name, serial), AUTHOR, name, serial, until, revoked, revoked=revoked)


def parse_identity(uris: Iterable[str]) -> tuple[str, str, str]:
    """Finds a certificate's ``tilewright:`` URI; returns the URI, the role and the name. Raises ``Refused`` unless
    there is exactly one, and it is well formed."""
    ours = [u for u in uris if u.startswith(f"{_SCHEME}:")]
    found = _URI.fullmatch(ours[0]) if len(ours) == 1 else None
    if not found:
        raise Refused("the certificate has no role in a farm", "Issue one with `tilewright farm issue`")
    if found[1] == RETIRED:
        raise Refused("the certificate is a scheduler's, of Tilewright 0.1", ISSUE_SERVER)
    return found[0], found[1], found[2]


def check_name(name: str) -> None:
    """Raises ``UsageError`` if no certificate may have the name."""
    if not _NAME.fullmatch(name) or name.lower() == AUTHORITY:
        raise UsageError(
            f"{name!r} cannot be a certificate's name",
            "Use up to 64 letters, digits, dots, hyphens and underscores, a letter or digit first; ca is taken",
        )


def read_users(path: Path) -> list[Peer]:
    """Reads the certificates that a server lets in from ``users.json``, ended ones included. Raises ``FarmError``."""
    return _read_peers(path, "users", ROLES, _COPY)


def read_list(path: Path) -> str:
    """The signed list of revoked certificates in a ``users.json``, as PEM; empty in one of an earlier version.

    Raises ``FarmError``.
    """
    return str(_read_file(path, _COPY).get("revoked", ""))


def read_issued(path: Path) -> list[Peer]:
    """Reads the certificates that an authority has issued. Raises ``FarmError``."""
    return _read_peers(path, "issued", (*ROLES, RETIRED, AUTHOR), "Restore it from a backup")


def _read_file(path: Path, hint: str) -> Mapping[str, Any]:
    with explained(path):
        text = path.read_bytes()
    try:
        data: Mapping[str, Any] = json.loads(text)
        if data["version"] != 1:
            raise FarmError(f"{path} was written by a newer Tilewright", "Use that version")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FarmError(f"{path} is damaged", hint) from None
    return data


def _read_peers(path: Path, key: str, roles: Collection[str], hint: str) -> list[Peer]:
    data = _read_file(path, hint)
    try:
        peers = [Peer.from_json(e) for e in data[key]]
        if any(p.role not in roles for p in peers):
            raise ValueError("another role")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FarmError(f"{path} is damaged", hint) from None
    return peers


def list_json(key: str, rows: Sequence[Mapping[str, Any]], **more: str) -> bytes:
    """The content of a file with a list under ``key`` and further fields, as JSON."""
    return json.dumps({"version": 1, key: rows, **more}, indent=1).encode() + b"\n"


def minute(seconds: float) -> str:
    """Formats a time in seconds since the epoch to the minute, for messages."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))

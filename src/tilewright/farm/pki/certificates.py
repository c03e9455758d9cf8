"""The farm's own certificate authority: a folder that makes, renews, revokes and lists certificates.

``DIR/ca`` holds the authority (``ca.pem``, ``ca.key``) and the records of issued and revoked certificates
(``issued.json``). Only certificate commands need ``DIR/ca``; it belongs on no machine of the farm. Every other folder
is of one certificate: ``ca.pem``, ``cert.pem`` and ``key.pem``, to be copied to the machine that uses it. A server's
folder also has ``users.json``: the certificates that it lets in, and the signed list of revoked certificates.
``DIR/ca/revoked.pem`` has only that list, for readers of bundles.

Importing this raises ``FarmError`` where ``cryptography`` is missing.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.errors import UsageError
from tilewright.farm.budgets import REVOKED
from tilewright.farm.errors import FarmError
from tilewright.farm.pki import x509
from tilewright.farm.pki.identity import (
    AUTHORITY,
    CLOCKS,
    DAY,
    ROLES,
    USERS,
    Peer,
    author,
    check_name,
    identity,
    list_json,
    read_issued,
    read_list,
)
from tilewright.farm.pki.private_files import explained, require_private
from tilewright.farm.pki.revocations import WARNING_DAYS, RevocationList, Revocations
from tilewright.files import locked, replace_files

LEAF_DAYS = 365
AUTHORITY_DAYS = 3650
LIST_DAYS = 365  # days for which the first list of revoked certificates counts; a later list keeps the last's duration

CA, CERT, KEY = "ca.pem", "cert.pem", "key.pem"
LIST = "revoked.pem"
_AUTHORITY_KEY, _ISSUED = "ca.key", "issued.json"
_USER = ("user", "role", "name", "serial", "not_after")  # fields of a certificate in users.json
_SKEW = DAY  # a certificate is valid from a day before its issue, for machines whose clocks are behind


@dataclass(frozen=True)
class Revocation:
    """The certificates that a call revoked, and the servers' folders whose ``users.json`` it replaced."""

    certificates: list[Peer]
    folders: list[Path]


def create_authority(folder: Path, hosts: Sequence[str] = (), days: int = LEAF_DAYS) -> None:
    """Creates an authority in a new or empty folder, and a first certificate of each role, named after the role.

    ``hosts``: names and addresses at which the server answers, beside loopback; this machine's name if empty. Creates
    all files or none. Raises ``UsageError`` for a folder that is in use, ``FarmError``.
    """
    hosts = x509.server_hosts(hosts)
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(folder):
            if any(folder.iterdir()):
                hint = (
                    "Choose a new or an empty one; with `tilewright farm issue` an authority makes further certificates"
                )
                raise UsageError(f"{folder} is not empty", hint)
            folder.chmod(0o700)
            home, now = folder / AUTHORITY, int(time.time())
            # A random name tells two farms apart in error messages and in look-ups by name.
            name, end = f"tilewright farm {secrets.token_hex(4)}", now + AUTHORITY_DAYS * DAY
            pem, key = x509.make_certificate(Peer("", AUTHORITY, name, x509.new_serial(), end, now - _SKEW))
            try:
                home.mkdir(mode=0o700)
                replace_files(home, {CA: pem, _AUTHORITY_KEY: key, _ISSUED: list_json("issued", [])})
                authority = _Authority(folder)
                for role in ROLES:
                    authority.add(role, role, days, hosts if role == "server" else (), now)
            except BaseException:
                for part in (AUTHORITY, *ROLES):
                    shutil.rmtree(folder / part, ignore_errors=True)
                raise


def issue(
    folder: Path,
    name: str,
    role: str | None = None,
    days: int = LEAF_DAYS,
    hosts: Sequence[str] = (),
    *,
    renew: bool = False,
    now: float | None = None,
) -> Path:
    """Issues a certificate into its folder ``DIR/NAME``, which is returned. ``now``: this machine's clock by default.

    ``renew``: another certificate, with a new key, for a name that has a certificate; role and hosts default to the
    earlier ones. The earlier certificate stays valid, so that machines can change over one by one.

    Raises ``UsageError`` for a name, role or host that is not possible, ``FarmError``.
    """
    check_name(name)
    with _open_authority(folder) as authority:
        earlier = next((i for i in reversed(authority.issued) if i.name == name), None)
        if renew:
            if earlier is None:
                raise UsageError(f"{name} has no certificate to renew", "Remove --renew to issue its first one")
            if role not in (None, earlier.role):
                raise UsageError(f"{name} is a {earlier.role}, not a {role}", "Issue the other role under another name")
            role, hosts = earlier.role, hosts or earlier.hosts
        elif earlier is not None or (folder / name).exists():
            raise UsageError(
                f"{folder / name} exists already", "Choose another name, or add --renew to replace its certificate"
            )
        if role not in ROLES:
            raise UsageError(f"{role!r} is not a role", f"Use one of {', '.join(ROLES)}")
        if role == "server":
            hosts = x509.server_hosts(hosts)
        elif hosts:
            raise UsageError("only a server's certificate names hosts", f"Remove --host for role {role}")
        authority.add(name, role, days, hosts, int(time.time() if now is None else now))
    return folder / name


def revoke(
    folder: Path, name_or_serial: str | None = None, *, bundle_key: bytes | None = None, days: int | None = None
) -> Revocation:
    """Revokes every certificate of a name, or the certificate with a serial number (hexadecimal).

    Also revokes ``bundle_key``, the 32 bytes of a public key that signs bundles. Without name and key it only signs the
    list again.

    Signs a new list of revoked certificates that counts for ``days`` (default: the last list's duration). Rewrites
    ``users.json`` in the authority's folder and the servers' folders that are still here. Certificates that were
    revoked earlier keep their time. Raises ``UsageError`` if no certificate has the name or number, ``FarmError``.
    """
    when = float(int(time.time()))
    with _open_authority(folder) as authority:
        users = set()
        if name_or_serial is not None:
            serial = name_or_serial.replace(":", "").lower().lstrip("0")
            users = {i.user for i in authority.issued if name_or_serial == i.name or serial == f"{i.serial:x}"}
            if not users:
                raise UsageError(
                    f"no certificate has the name or serial number {name_or_serial!r}", "See `tilewright farm certs`"
                )
        if bundle_key is not None:
            key = author(bundle_key, when, authority.signer[0].not_valid_after_utc.timestamp())
            users.add(key.user)
            if all(i.user != key.user for i in authority.issued):
                authority.issued = [*authority.issued, key]
        # Revoked by user: all certificates that 0.1 issued to a name are one user, which the server can't tell apart.
        authority.issued = [
            replace(i, revoked=when) if i.user in users and i.revoked is None else i for i in authority.issued
        ]
        authority.save(sign_again=True, days=days)
        return Revocation([i for i in authority.issued if i.user in users], server_folders(folder))


def revocation_list(folder: Path) -> RevocationList | None:
    """The newest list of revoked certificates that an authority has signed; ``None`` without a list, or if the list has
    ended."""
    found = _last_list(folder)
    return found if found is not None and found.until >= time.time() else None


def _last_list(folder: Path) -> RevocationList | None:
    """The last list that an authority signed, even if it has ended."""
    with contextlib.suppress(FarmError, ValueError):  # users.json is damaged, or has no list
        pem = read_list(folder / AUTHORITY / USERS)
        return Revocations(folder / AUTHORITY / CA).read(x509.revocation_list_der(pem.encode()))
    return None


def listing(folder: Path) -> list[Peer]:
    """The authority's certificate and every certificate that it has issued, oldest first.

    In the folder of a single certificate, as on a farm's machine: the authority's certificate and that certificate,
    without revocations. Raises ``FarmError`` for any other folder.
    """
    home = folder / AUTHORITY
    with explained(folder):
        if (home / _ISSUED).exists():
            issued = read_issued(home / _ISSUED)
        elif (folder / CERT).exists():
            home, issued = folder, [read(folder / CERT)]
        else:
            raise FarmError(f"{folder} holds no certificates", "Name the folder that `tilewright farm init` made")
    return [x509.describe(x509.read_certificate(home / CA), ("", AUTHORITY, AUTHORITY)), *issued]


def expiring(certificates: Iterable[Peer], *, now: float | None = None) -> list[Peer]:
    """The certificates that have ended or end within 30 days. Revoked and renewed certificates, and certificates of
    retired roles, are left out."""
    newest = {c.name: c for c in certificates if c.revoked is None and c.role in (AUTHORITY, *ROLES)}
    return [c for c in newest.values() if c.days_left(now) < WARNING_DAYS]


def server_folders(folder: Path) -> list[Path]:
    """The servers' folders beside an authority, whose ``users.json`` it keeps up to date."""
    names = {i.name for i in read_issued(folder / AUTHORITY / _ISSUED) if i.role == "server"}
    with explained(folder):
        return [folder / name for name in sorted(names) if (folder / name / CERT).exists()]


def read(path: Path) -> Peer:
    """Reads the holder of the certificate in a PEM file. Raises ``FarmError``, and ``Refused`` if it is not a
    farm's."""
    return x509.describe(x509.read_certificate(path))


class _Authority:
    """An open authority: its folder, its certificate and key, and the certificates that it has issued."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / AUTHORITY
        path = self.home / _AUTHORITY_KEY
        require_private(path)
        try:
            key = x509.load_key(path.read_bytes())
        except ValueError:
            raise FarmError(f"{path} is not the key of an authority", "Restore it from a backup") from None
        self.signer, self.issued = (x509.read_certificate(self.home / CA), key), read_issued(self.home / _ISSUED)

    def save(self, *, sign_again: bool = False, days: int | None = None) -> bytes:
        """Writes ``issued.json``, and ``users.json`` for the authority and every server; returns ``users.json``.

        With ``sign_again``, signs the list of revoked certificates even if it is unchanged, to count for ``days``.
        """
        # All certificates of 0.1 for one user look alike: if one is revoked, none is listed.
        gone = {i.user for i in self.issued if i.revoked is not None}
        rows = [i.to_json() for i in self.issued if i.user not in gone and i.role in ROLES]
        pem = self._revoked(sign_again, days)
        users = list_json("users", [{k: row[k] for k in _USER} for row in rows], revoked=pem.decode())
        issued = list_json("issued", [i.to_json() for i in self.issued])
        replace_files(self.home, {_ISSUED: issued, LIST: pem, USERS: users})
        for home in server_folders(self.folder):
            replace_files(home, {USERS: users})
        return users

    def _revoked(self, sign_again: bool, days: int | None) -> bytes:
        """The signed list of revoked certificates: today's list if its content is unchanged, else a list with a greater
        number."""
        before, now = _last_list(self.folder), int(time.time())
        # An ended certificate counts on no machine, even if clocks differ. Leaving it out bounds the list.
        gone = {i.serial: i.revoked for i in self.issued if i.revoked is not None and i.not_after + 2 * CLOCKS > now}
        REVOKED.check(len(gone))
        if not sign_again and before and before.serials == gone.keys() and 0 <= now - before.made < DAY:
            return x509.revocation_list_pem(before.der)
        # At least the clock: an authority restored from a backup must not reuse the numbers of its later lists.
        number = max(now, before.number + 1 if before else 0)
        lasts = days * DAY if days else int(before.until - before.made) if before else LIST_DAYS * DAY
        end = min(now + lasts, int(self.signer[0].not_valid_after_utc.timestamp()))
        return x509.make_revocation_list(gone, number, now, max(end, now + 1), self.signer)

    def add(self, name: str, role: str, days: int, hosts: Sequence[str], now: int) -> None:
        """Issues a certificate into its folder. It is recorded before its files exist, so that every certificate can be
        revoked."""
        left = int(self.signer[0].not_valid_after_utc.timestamp() - now) // DAY
        if not 1 <= days <= left:
            hint = f"Use 1 to {left} days" if left > 0 else "Make a new one with `tilewright farm init`"
            raise UsageError(f"{days} days are too many: the authority itself ends in {left} days", hint)
        serial, end, begin = x509.new_serial(), float(now + days * DAY), float(now - _SKEW)
        entry = Peer(identity(role, name, serial), role, name, serial, end, begin, tuple(hosts))
        certificate, key = x509.make_certificate(entry, self.signer)
        home, before = self.folder / name, self.issued
        try:
            self.issued = [*before, entry]
            users = {USERS: self.save()}
            home.mkdir(mode=0o700, exist_ok=True)
            # The certificate's file is replaced last: without it nothing has been issued.
            more = users if role == "server" else {}
            replace_files(home, {CA: (self.home / CA).read_bytes(), **more, KEY: key, CERT: certificate})
        except BaseException:
            self.issued = before
            with contextlib.suppress(OSError):
                home.rmdir()  # fails if the folder is not empty
            with contextlib.suppress(OSError, FarmError):
                self.save()
            raise


@contextlib.contextmanager
def _open_authority(folder: Path) -> Iterator[_Authority]:
    """The authority in ``folder``, locked: other processes wait."""
    with explained(folder):
        if not (folder / AUTHORITY).is_dir():
            raise FarmError(f"{folder} has no authority", "Make one with `tilewright farm init`, or name its folder")
        with locked(folder):
            yield _Authority(folder)

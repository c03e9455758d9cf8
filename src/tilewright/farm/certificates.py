"""The farm's own certificate authority: a folder that makes, renews, revokes and lists certificates.

``DIR/ca`` holds the authority (``ca.pem``, ``ca.key``), what it has issued (``issued.json``) and what it has
revoked (``crl.pem``). It is needed for these commands alone and belongs on no machine of the farm. Every
other folder is one certificate's: ``ca.pem``, ``cert.pem``, ``key.pem`` and ``crl.pem``, to be copied to the
machine that uses it.

Times are seconds since the epoch. ``now`` is this machine's clock unless given.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import UsageError
from tilewright.farm.errors import FarmError
from tilewright.farm.identity import AUTHORITY, ROLES, check_name, identity, parse_identity, scheduler_hosts
from tilewright.farm.private_files import explained, locked, replace_files, require_private, write_folder

if TYPE_CHECKING:
    from tilewright.farm import x509

WARNING_DAYS = 30  # how long before its end a certificate is worth a warning
LEAF_DAYS = 365
AUTHORITY_DAYS = 3650

CA, CERT, KEY, CRL = "ca.pem", "cert.pem", "key.pem", "crl.pem"
_AUTHORITY_KEY, _ISSUED = "ca.key", "issued.json"

_DAY = 86400
_SKEW = _DAY  # certificates are valid from a day back, for machines whose clocks are behind


@dataclass(frozen=True)
class Issued:
    """A certificate. ``hosts``: the names and addresses at which a scheduler answers. ``revoked``: when it was."""

    name: str
    role: str
    serial: int
    not_before: float
    not_after: float
    hosts: tuple[str, ...] = ()
    revoked: float | None = None

    def days_left(self, now: float | None = None) -> int:
        """Whole days until it ends; negative when it has ended."""
        return math.floor((self.not_after - _now(now)) / _DAY)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "serial": f"{self.serial:x}",
            "not_before": self.not_before,
            "not_after": self.not_after,
            "hosts": list(self.hosts),
            "revoked": self.revoked,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Issued:
        revoked = data["revoked"]
        return cls(
            str(data["name"]),
            str(data["role"]),
            int(data["serial"], 16),
            float(data["not_before"]),
            float(data["not_after"]),
            tuple(str(h) for h in data["hosts"]),
            None if revoked is None else float(revoked),
        )


@dataclass(frozen=True)
class Revocation:
    """Which certificates a call revoked, and the folders whose ``crl.pem`` it replaced."""

    certificates: tuple[Issued, ...]
    folders: tuple[Path, ...]


# --------------------------------------------------------------------------- what the commands do


def create_authority(
    folder: Path, hosts: Sequence[str] = (), days: int = LEAF_DAYS, *, now: float | None = None
) -> list[Issued]:
    """Make an authority in a new or empty folder, and a first certificate of each role, named after it.

    ``hosts``: where the scheduler answers, beside this machine's own loopback; this machine's name if empty.
    Either everything is made or nothing. Raises ``UsageError`` for a folder that is in use, ``FarmError``.
    """
    _require_cryptography()
    from tilewright.farm import x509

    hosts = scheduler_hosts(hosts)
    begin = int(_now(now))
    with explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with locked(folder):
            if (folder / AUTHORITY).exists():
                mend = "Issue further certificates with `tilewright farm issue`, or choose another folder"
                raise UsageError(f"{folder} already has an authority", mend)
            if any(folder.iterdir()):
                raise UsageError(f"{folder} is not empty", "Choose a new or an empty folder")
            draft = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
            placed: list[Path] = []
            try:
                key = x509.new_key()
                certificate = x509.make_authority(key, begin - _SKEW, begin + AUTHORITY_DAYS * _DAY)
                authority = _Authority(draft, certificate, key, [])
                files = {CA: authority.pem, _AUTHORITY_KEY: x509.key_pem(key), CRL: authority.crl(begin)}
                write_folder(draft / AUTHORITY, files)
                for role in ROLES:
                    authority.add(role, role, days, hosts if role == "scheduler" else (), begin)
                folder.chmod(0o700)
                for part in (*ROLES, AUTHORITY):  # the authority last: its folder says that all is there
                    placed.append(folder / part)
                    os.rename(draft / part, folder / part)
            except BaseException:
                for path in placed:
                    shutil.rmtree(path, ignore_errors=True)
                raise
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return authority.issued


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
    """Make a certificate and its folder ``DIR/NAME``, which is returned.

    ``renew``: another certificate, with a new key, for a name that has one; role and hosts default to the
    earlier ones. The earlier certificate stays valid, so that machines can change over one by one.
    Raises ``UsageError`` for what cannot be issued, ``FarmError``.
    """
    check_name(name)
    with _open_authority(folder) as authority:
        earlier = next((i for i in reversed(authority.issued) if i.name == name), None)
        if renew:
            if earlier is None:
                raise UsageError(f"{name} has no certificate to renew", "Leave --renew out to issue its first one")
            if role not in (None, earlier.role):
                raise UsageError(f"{name} is a {earlier.role}, not a {role}", "Issue the other role under another name")
            role, hosts = earlier.role, hosts or earlier.hosts
        elif earlier is not None or (folder / name).exists():
            raise UsageError(
                f"{folder / name} exists already", "Take another name, or --renew to replace its certificate"
            )
        if role not in ROLES:
            raise UsageError(f"{role!r} is no role", f"Use one of {', '.join(ROLES)}")
        if hosts and role != "scheduler":
            raise UsageError(
                f"a {role}'s certificate names no hosts", "Only a scheduler is connected to: leave --host out"
            )
        if role == "scheduler":
            hosts = scheduler_hosts(hosts)
        authority.add(name, role, days, hosts, int(_now(now)))
    return folder / name


def revoke(folder: Path, name_or_serial: str, *, now: float | None = None) -> Revocation:
    """Revoke every certificate of a name, or the one of a serial number (hexadecimal).

    Rewrites ``ca/crl.pem`` and copies it to the certificates' folders that are still here. What was revoked
    earlier keeps its time. Raises ``UsageError`` if there is no such certificate, ``FarmError``.
    """
    when = int(_now(now))
    serial = name_or_serial.replace(":", "").lower().lstrip("0")
    with _open_authority(folder) as authority:
        wanted = {i.serial for i in authority.issued if i.name == name_or_serial}
        wanted = wanted or {i.serial for i in authority.issued if f"{i.serial:x}" == serial}
        if not wanted:
            raise UsageError(
                f"no certificate has the name or serial number {name_or_serial!r}", "See `tilewright farm certs`"
            )
        authority.issued = [
            replace(i, revoked=float(when)) if i.serial in wanted and i.revoked is None else i for i in authority.issued
        ]
        authority.save()
        crl = authority.crl(when)
        homes = [h for h in sorted(folder.iterdir()) if h.name != AUTHORITY and _belongs(h, authority.pem)]
        for home in (folder / AUTHORITY, *homes):
            replace_files(home, {CRL: crl})
        return Revocation(tuple(i for i in authority.issued if i.serial in wanted), tuple(homes))


def listing(folder: Path) -> list[Issued]:
    """The authority's certificate and every one that it has issued, oldest first.

    In a single certificate's folder, as a machine of the farm has it: the authority's and that one.
    Raises ``FarmError`` for a folder that is neither.
    """
    _require_cryptography()
    from tilewright.farm import x509

    with explained(folder):
        whole, single = (folder / AUTHORITY / _ISSUED).exists(), (folder / CERT).exists()
        has_crl = (folder / CRL).exists()
    if whole:
        certificate = _certificate(folder / AUTHORITY / CA)
        issued = _read_issued(folder / AUTHORITY / _ISSUED)
    elif single:
        certificate = _certificate(folder / CA)
        own = read(folder / CERT)
        gone = revoked(folder / CRL, folder / CA) if has_crl else {}
        issued = [replace(own, revoked=gone.get(own.serial))]
    else:
        raise FarmError(f"{folder} holds no certificates", "Name the folder that `tilewright farm init` made")
    f = x509.fields(certificate)
    return [Issued(AUTHORITY, AUTHORITY, f.serial, f.not_before, f.not_after), *issued]


def expiring(certificates: Iterable[Issued], *, now: float | None = None, days: int = WARNING_DAYS) -> list[Issued]:
    """Those that end within ``days`` or have ended, without those that were revoked or renewed since."""
    newest = {c.name: c for c in certificates if c.revoked is None}
    return [c for c in newest.values() if c.not_after < _now(now) + days * _DAY]


# --------------------------------------------------------------------------- reading what is there


def read(path: Path) -> Issued:
    """The certificate in a PEM file. Raises ``FarmError``, and ``Refused`` if it is of no farm."""
    _require_cryptography()
    from tilewright.farm import x509

    certificate = _certificate(path)
    try:
        f = x509.fields(certificate)
    except ValueError as e:
        raise FarmError(f"{path} is damaged: {e}", "Copy it again from where it was issued") from None
    role, name = parse_identity(f.uris)
    return Issued(name, role, f.serial, f.not_before, f.not_after, f.hosts)


def issued_by(cert: Path, ca: Path) -> bool:
    """Whether the authority in ``ca`` issued the certificate in ``cert``. Raises ``FarmError``."""
    _require_cryptography()
    from tilewright.farm import x509

    return x509.signed_by(_certificate(cert), _certificate(ca))


def revoked(crl: Path, ca: Path) -> dict[int, float]:
    """Serial number -> when it was revoked. Raises ``FarmError`` unless the authority in ``ca`` signed the list."""
    _require_cryptography()
    from tilewright.farm import x509

    with explained(crl):
        pem = crl.read_bytes()
    try:
        return x509.read_revocations(pem, _certificate(ca))
    except ValueError as e:
        raise FarmError(f"the revocation list {crl} can't be trusted: {e}", "Copy ca/crl.pem there again") from None


# --------------------------------------------------------------------------- the authority's folder


@dataclass
class _Authority:
    """An authority at work: its folder, its certificate and key, what it has issued."""

    folder: Path
    certificate: x509.Certificate
    key: x509.Key
    issued: list[Issued]

    @property
    def pem(self) -> bytes:
        from tilewright.farm import x509

        return x509.certificate_pem(self.certificate)

    def crl(self, now: int) -> bytes:
        from tilewright.farm import x509

        gone = {i.serial: i.revoked for i in self.issued if i.revoked is not None}
        return x509.make_revocations(self.certificate, self.key, gone, now - _SKEW)

    def save(self) -> None:
        text = json.dumps({"version": 1, "issued": [i.to_json() for i in self.issued]}, indent=1)
        replace_files(self.folder / AUTHORITY, {_ISSUED: text.encode() + b"\n"})

    def add(self, name: str, role: str, days: int, hosts: Sequence[str], now: int) -> None:
        """Issue a certificate into its folder. It is listed before it exists, so that none escapes revocation."""
        from tilewright.farm import x509

        if not 1 <= days <= AUTHORITY_DAYS:
            raise UsageError(f"{days} days is no time a certificate can last", f"Use 1 to {AUTHORITY_DAYS} days")
        left = int(x509.fields(self.certificate).not_after - now) // _DAY
        if days > left:
            mend = f"Use at most {left} days" if left > 0 else "Make a new one with `tilewright farm init`"
            raise UsageError(f"the authority itself ends in {left} days", mend)
        before = list(self.issued)
        entry = Issued(name, role, x509.new_serial(), float(now - _SKEW), float(now + days * _DAY), tuple(hosts))
        self.issued.append(entry)
        try:
            self.save()
            key = x509.new_key()
            certificate = x509.make_certificate(
                self.certificate,
                self.key,
                key,
                uri=identity(role, name),
                hosts=hosts,
                server=role == "scheduler",
                serial=entry.serial,
                not_before=int(entry.not_before),
                not_after=int(entry.not_after),
            )
            # The certificate takes its place last: without it nothing has been issued.
            files = {
                CA: self.pem,
                CRL: self.crl(now),
                KEY: x509.key_pem(key),
                CERT: x509.certificate_pem(certificate),
            }
            home = self.folder / name
            if home.exists():
                replace_files(home, files)
            else:
                write_folder(home, files)
        except BaseException:
            self.issued = before
            with contextlib.suppress(OSError):
                self.save()
            raise


@contextlib.contextmanager
def _open_authority(folder: Path) -> Iterator[_Authority]:
    """The authority in ``folder``, to itself: other processes wait."""
    _require_cryptography()
    from tilewright.farm import x509

    home = folder / AUTHORITY
    with explained(folder):
        there = home.is_dir()
    if not there:
        raise FarmError(f"{folder} has no authority", "Make one with `tilewright farm init`, or name its folder")
    with explained(folder), locked(home):
        path = home / _AUTHORITY_KEY
        require_private(path)
        try:
            key = x509.load_key(path.read_bytes())
        except ValueError:
            raise FarmError(f"{path} is no key of an authority", "Restore it from a backup") from None
        yield _Authority(folder, _certificate(home / CA), key, _read_issued(home / _ISSUED))


def _certificate(path: Path) -> x509.Certificate:
    from tilewright.farm import x509

    with explained(path):
        pem = path.read_bytes()
    try:
        return x509.load_certificate(pem)
    except ValueError:
        raise FarmError(f"{path} is no certificate", "Copy it again from where it was issued") from None


def _read_issued(path: Path) -> list[Issued]:
    with explained(path):
        text = path.read_text()
    try:
        data = json.loads(text)
        if data["version"] != 1:
            raise FarmError(f"{path} was written by a newer Tilewright", "Use that version")
        return [Issued.from_json(i) for i in data["issued"]]
    except (ValueError, KeyError, TypeError):
        raise FarmError(f"{path} is damaged", "Restore it from a backup") from None


def _belongs(home: Path, ca: bytes) -> bool:
    """Whether a folder holds a certificate of this authority."""
    try:
        return (home / CERT).is_file() and (home / CA).read_bytes() == ca
    except OSError:
        return False


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise FarmError("the farm's certificates need cryptography", "pip install 'tilewright[farm]'") from None


def _now(now: float | None) -> float:
    return time.time() if now is None else now

"""``tilewright farm init|issue|revoke|certs``: the farm's certificates. These commands need no running farm."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.declare import argument, declared, option
from tilewright.cli.output import report, table
from tilewright.farm.pki.identity import AUTHORITY, ROLES

if TYPE_CHECKING:
    from tilewright.farm.pki.identity import Peer

_USE = {
    "server": "the machine that runs farm server",
    "administrator": "people who drain, quarantine and release runners",
    "client": "people who run tune --farm",
    "runner": "every machine that runs farm runner",
    "builder": "every machine that runs farm builder",
    "reader": "programs that only watch: a dashboard, farm status",
}

_DAYS = option(low=1, high=3650, default=365, help="Days until the certificate ends.")
_HOSTS = option(
    "--host",
    metavar="NAME",
    help="Host name or address of the server; may be repeated. localhost, 127.0.0.1 and ::1 are always included. "
    "[default: this machine's name]",
)
_FOLDER = option("--dir", default=Path(), metavar="DIR", help="The folder that farm init made.")


@declared("init")
def init(folder: Path = argument(metavar="DIR"), hosts: tuple[str, ...] = _HOSTS, days: int = _DAYS) -> None:
    """Make a farm's certificate authority, and one certificate for each role.

    DIR must be new or empty. It gets a folder for each role, which you copy to the machines of that role, and DIR/ca,
    which makes and revokes certificates and stays offline.

    \b
    Examples:
      tilewright farm init farm --host farm.example.org
      tilewright farm init farm --host farm.example.org --host 192.0.2.7 --days 90
    """
    from tilewright.farm.pki.certificates import create_authority, listing

    create_authority(folder, hosts, days)
    authority, *issued = listing(folder)
    data = {
        "folder": str(folder), "authority": _row(authority), "users": _users(folder),
        "certificates": [{**_row(c), "folder": str(folder / c.name)} for c in issued],
    }  # fmt: skip
    report(
        data,
        "Copy each folder to its machine, and pass it there as --certs:",
        *(f"  {folder / c.name}: to {_USE[c.role]}{_answers(c)}" for c in issued),
        f"Keep {folder / 'ca'} offline: its ca.key makes certificates of every role.",
        _copy_users("After every farm issue and farm revoke,", folder),
        f"They end on {_day(issued[0].not_after)}. Renew each: tilewright farm issue NAME --renew --dir {folder}",
    )


@declared("issue")
def issue(
    name: str = argument(),
    role: str | None = option(type=click.Choice(ROLES), help="Role that the certificate grants; --renew keeps it."),
    days: int = _DAYS,
    hosts: tuple[str, ...] = _HOSTS,
    renew: bool = option(help="Replace the certificate of a name that has one, with a new key."),
    folder: Path = _FOLDER,
) -> None:
    """Make another certificate, in the folder DIR/NAME.

    Make one for each machine and person, so that you can revoke them one by one. After --renew the earlier
    certificate stays valid until it ends or is revoked. The server accepts the new certificate once it has the new
    users.json.

    \b
    Examples:
      tilewright farm issue gpu-7 --role runner --dir farm
      tilewright farm issue alice --role client --days 30 --dir farm
      tilewright farm issue server --renew --dir farm
    """
    from tilewright.core import UsageError
    from tilewright.farm.pki.certificates import issue as issue_certificate
    from tilewright.farm.pki.certificates import listing

    if role is None and not renew:
        raise UsageError("a new certificate needs a role", f"Pass --role: one of {', '.join(ROLES)}")
    home = issue_certificate(folder, name, role, days, hosts, renew=renew)
    made = next(c for c in reversed(listing(folder)) if c.name == name)
    report(
        {"folder": str(home), "certificate": _row(made), "users": _users(folder)},
        f"{home}: certificate of {made.role} {made.name}, valid until {_day(made.not_after)}{_answers(made)}",
        "Copy the folder to its machine, and pass it there as --certs.",
        _copy_users("So that the server accepts it,", folder),
    )


@declared("revoke")
def revoke(
    name: str | None = argument(metavar="[NAME|SERIAL]", required=False),
    key: str | None = option("--bundle-key", metavar="KEY|FILE", help="Revoke this key, which signs bundles."),
    days: int | None = option(
        low=1, high=3650, help="Days that the list is valid. [default: as the last list; 365 for the first]"
    ),
    folder: Path = _FOLDER,
) -> None:
    """Revoke certificates by name or serial number, or a key that signs bundles, and sign the list of all revoked.

    The list takes effect once you copy the new users.json to the server's machine: a running server reads it without a
    restart and sends it to every machine of the farm. Readers of bundles who follow the farm (bundle key follow) have
    the list within a minute. DIR/ca/revoked.pem is the list alone, to publish as a URL or a file. Without NAME and
    --bundle-key the command signs the same list again.

    \b
    Examples:
      tilewright farm revoke gpu-7 --dir farm
      tilewright farm revoke 3f9a01c277d04b6e --dir farm
      tilewright farm revoke --bundle-key author.pem.pub --dir farm
      tilewright farm revoke --days 90 --dir farm
    """
    from tilewright.bundles.keys import public_key
    from tilewright.farm.pki.certificates import revocation_list
    from tilewright.farm.pki.certificates import revoke as revoke_certificates
    from tilewright.runtime.bundle.trusted import parse_key

    bundle_key = None if key is None else parse_key(public_key(key)[0])
    done = revoke_certificates(folder, name, bundle_key=bundle_key, days=days)
    signed = revocation_list(folder)
    rows, users = [_row(c) for c in done.certificates], _users(folder)
    report(
        {"revoked": rows, "users": users, "list": signed.to_json() if signed else None},
        *(f"revoked {c.role} {c.name}, serial {c.serial:x}" for c in done.certificates),
        *([f"signed {signed}"] if signed is not None else []),
        _copy_users("So that it takes effect,", folder),
    )


@declared("certs")
def certs(folder: Path = argument(metavar="[DIR]", default=Path(), envvar="TILEWRIGHT_CERTS")) -> None:
    """List a farm's certificates, and warn of certificates that end within 30 days.

    DIR is the folder that farm init made, or one certificate's folder on its machine. [default: $TILEWRIGHT_CERTS, else
    the current folder]

    \b
    Examples:
      tilewright farm certs farm
      tilewright farm certs /etc/tilewright/runner --json
    """
    from tilewright.farm.pki.certificates import expiring, listing, revocation_list
    from tilewright.farm.pki.revocations import SIGN_LIST, WARNING_DAYS

    now = time.time()
    found = listing(folder)
    ending = expiring(found, now=now)
    for c in ending:
        left = c.days_left(now)
        when = f"ends in {left} days" if left >= 0 else "has ended"
        hint = (
            "Make a new authority with tilewright farm init, and copy its certificates to every machine"
            if c.role == "ca"
            else f"Run tilewright farm issue {c.name} --renew, and copy its folder again"
        )
        click.echo(f"warning: the certificate of {c.role} {c.name} {when}. {hint}", err=True)
    is_authority = (folder / AUTHORITY).is_dir()
    signed = revocation_list(folder) if is_authority else None
    if is_authority and (signed is None or signed.days_left(now) < WARNING_DAYS):
        when = "has ended, or does not exist" if signed is None else f"ends in {signed.days_left(now)} days"
        click.echo(f"warning: the list of revoked certificates {when}. {SIGN_LIST}", err=True)
    rows = []
    for c in found:
        left = c.days_left(now)
        state = "revoked" if c.revoked is not None else "ended" if left < 0 else "valid"
        rows.append((c.name, c.role, _day(c.not_before), _day(c.not_after), left, state, f"{c.serial:x}"))
    data = {
        "folder": str(folder), "certificates": [_row(c, now) for c in found],
        "expiring": [_row(c, now) for c in ending], "list": signed.to_json() if signed else None,
    }  # fmt: skip
    columns = ("name", "role", "from", "until", "days left", "state", "serial")
    report(data, table(*columns, rows=rows, overflow="fold"))


def _row(certificate: Peer, now: float | None = None) -> dict[str, Any]:
    return {**certificate.to_json(), "days_left": certificate.days_left(now)}


def _users(folder: Path) -> list[str]:
    """The ``users.json`` files to copy to the servers' machines: of every server's folder, else the authority's."""
    from tilewright.farm.pki.certificates import server_folders
    from tilewright.farm.pki.identity import USERS

    return [str(home / USERS) for home in server_folders(folder) or [folder / AUTHORITY]]


def _copy_users(when: str, folder: Path) -> str:
    files = " and ".join(_users(folder))
    return f"{when} copy {files} to the server's machine, beside its cert.pem. A running server takes it up by itself."


def _answers(certificate: Peer) -> str:
    return f"; server at {', '.join(certificate.hosts)}" if certificate.hosts else ""


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))

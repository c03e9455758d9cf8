"""``tilewright farm init|issue|revoke|certs``: the farm's certificates. No part of it needs a running farm."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.options import json_option
from tilewright.cli.output import console, emit_json, table
from tilewright.database.text import safe_text
from tilewright.farm.pki.identity import AUTHORITY, ROLES

if TYPE_CHECKING:
    from tilewright.farm.pki.identity import Peer

_USE = {
    "server": "the machine that runs `tilewright farm server`",
    "administrator": "whoever drains, quarantines and releases runners",
    "client": "whoever runs `tilewright tune --farm`",
    "runner": "every machine that runs `tilewright farm runner`",
    "builder": "every machine that runs `tilewright farm builder`",
    "reader": "whatever only watches: a dashboard, `tilewright farm status`",
}

_days_option = click.option(
    "--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long certificates last."
)
_hosts_option = click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Where the server is reached: a host's name or address; repeatable. [default: this machine's name] "
    "localhost, 127.0.0.1 and ::1 are always in.",
)
_dir_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default=True,
    metavar="DIR",
    help="The folder that `farm init` made.",
)


@click.command("init")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@_hosts_option
@_days_option
@json_option
def init(folder: Path, hosts: tuple[str, ...], days: int, as_json: bool) -> None:
    """Make a farm's certificate authority and a first certificate of each role.

    DIR, new or empty, gets one folder a role, to be copied to the machines that play it, and DIR/ca, which
    makes and revokes certificates and stays offline.

    \b
    Examples:
      tilewright farm init farm --host farm.example.org
      tilewright farm init farm --host farm.example.org --host 192.0.2.7 --days 90
    """
    from tilewright.farm.pki.certificates import create_authority, listing

    create_authority(folder, hosts, days)
    authority, *issued = listing(folder)
    if as_json:
        certificates = [{**_row(c), "folder": str(folder / c.name)} for c in issued]
        emit_json(
            {
                "folder": str(folder),
                "authority": _row(authority),
                "certificates": certificates,
                "users": _texts(_users(folder)),
            }
        )
        return
    _say("Copy each folder to its machine and name it there with --certs:")
    for c in issued:
        _say(f"  {safe_text(folder / c.name)}: to {_USE[c.role]}{_answers(c)}")
    _say(f"{safe_text(folder / 'ca')} stays offline: whoever has ca.key can make certificates of every role.")
    _say_users("After every later issue and revoke,", _users(folder))
    _say(
        f"They end on {_day(issued[0].not_after)}. Renew: tilewright farm issue NAME --renew --dir {safe_text(folder)}"
    )


@click.command("issue")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), help="What its holder may be. With --renew: as before.")
@_days_option
@_hosts_option
@click.option("--renew", is_flag=True, help="Replace the certificate of a name that has one, with a new key.")
@_dir_option
@json_option
def issue(
    name: str, role: str | None, days: int, hosts: tuple[str, ...], renew: bool, folder: Path, as_json: bool
) -> None:
    """Make another certificate, in the folder DIR/NAME.

    One for each machine and person lets you revoke them one by one. After --renew the earlier certificate stays
    valid until it ends or is revoked. The server lets the new one in when it has the new users.json.

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
    if as_json:
        emit_json({"folder": str(home), "certificate": _row(made), "users": _texts(_users(folder))})
        return
    whose = f"{made.role} {safe_text(made.name)}"
    _say(f"{safe_text(home)}: the certificate of {whose}, until {_day(made.not_after)}{_answers(made)}")
    _say("Copy the folder to its machine and name it there with --certs.")
    _say_users("To have it let in,", _users(folder))


@click.command("revoke")
@click.argument("name", metavar="[NAME|SERIAL]", required=False)
@click.option("--bundle-key", "key", metavar="KEY|FILE", help="A key that signs bundles: revoke it.")
@click.option(
    "--days", type=click.IntRange(1, 3650), help="How long the list counts. [default: as the last, 365 at first]"
)
@_dir_option
@json_option
def revoke(name: str | None, key: str | None, days: int | None, folder: Path, as_json: bool) -> None:
    """Revoke every certificate of a name, or the one with a serial number, and sign the list of those revoked.

    It holds once the new users.json is on the server's machine: a running server takes it up by itself, and every
    machine of the farm has the list a moment later, readers of bundles who follow the farm within a minute
    (tilewright bundle key follow). DIR/ca/revoked.pem is the list alone, for those who get it from a URL or a file.
    Without a name or a key nothing more is revoked, and the list is signed again.

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
    if as_json:
        rows = [_row(c) for c in done.certificates]
        emit_json({"revoked": rows, "users": _texts(_users(folder)), "list": signed.to_json() if signed else None})
        return
    for c in done.certificates:
        _say(f"revoked {c.role} {safe_text(c.name)}, serial {c.serial:x}")
    if signed is not None:
        _say(f"signed {signed}")
    _say_users("Until then the farm goes by the list of before:", _users(folder))


@click.command("certs")
@click.argument("folder", metavar="[DIR]", default=Path(), envvar="TILEWRIGHT_CERTS", type=click.Path(path_type=Path))
@json_option
def certs(folder: Path, as_json: bool) -> None:
    """List a farm's certificates, and warn of those that end within 30 days.

    DIR is what `farm init` made, or one certificate's folder on the machine that uses it; when it is left out,
    $TILEWRIGHT_CERTS, else this folder.

    \b
    Examples:
      tilewright farm certs farm
      tilewright farm certs /etc/tilewright/runner --json
    """
    from tilewright.farm.pki.certificates import expiring, listing, revocation_list
    from tilewright.farm.pki.revocations import SIGN_ANEW, WARNING_DAYS

    now = time.time()
    found = listing(folder)
    ending = expiring(found, now=now)
    for c in ending:
        left = c.days_left(now)
        when = f"ends in {left} days" if left >= 0 else "has ended"
        hint = (
            "make a new authority with `tilewright farm init` and change every machine over"
            if c.role == "ca"
            else f"tilewright farm issue {c.name} --renew, and copy its folder again"
        )
        click.echo(f"warning: the certificate of {c.role} {c.name} {when}: {hint}", err=True)
    is_authority = (folder / AUTHORITY).is_dir()
    signed = revocation_list(folder) if is_authority else None
    if is_authority and (signed is None or signed.days_left(now) < WARNING_DAYS):
        when = "has ended, or was never made" if signed is None else f"ends in {signed.days_left(now)} days"
        click.echo(f"warning: the list of revoked certificates {when}. {SIGN_ANEW}", err=True)
    if as_json:
        emit_json(
            {
                "folder": str(folder),
                "certificates": [_row(c, now) for c in found],
                "expiring": [_row(c, now) for c in ending],
                "list": signed.to_json() if signed else None,
            }
        )
        return
    shown = table("name", "role", "from", "until", "days left", "state", "serial", overflow="fold")
    for c in found:
        left = c.days_left(now)
        state = "revoked" if c.revoked is not None else "ended" if left < 0 else "valid"
        shown.add_row(
            safe_text(c.name), c.role, _day(c.not_before), _day(c.not_after), str(left), state, f"{c.serial:x}"
        )
    console().print(shown)


def _row(certificate: Peer, now: float | None = None) -> dict[str, Any]:
    return {**certificate.to_json(), "days_left": certificate.days_left(now)}


def _users(folder: Path) -> list[Path]:
    """What to copy to the servers' machines: the list in every server's folder, or else the authority's."""
    from tilewright.farm.pki.certificates import server_folders
    from tilewright.farm.pki.identity import USERS

    return [home / USERS for home in server_folders(folder) or [folder / AUTHORITY]]


def _say_users(when: str, paths: list[Path]) -> None:
    files = " and ".join(safe_text(p) for p in paths)
    _say(f"{when} copy {files} to the server's machine, beside its cert.pem. A running server takes it up by itself.")


def _texts(paths: list[Path]) -> list[str]:
    return [str(p) for p in paths]


def _answers(certificate: Peer) -> str:
    return f"; it answers at {', '.join(safe_text(h) for h in certificate.hosts)}" if certificate.hosts else ""


def _say(line: str) -> None:
    """A line that is never folded: paths and commands are there to be copied."""
    console().print(line, soft_wrap=True)


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))

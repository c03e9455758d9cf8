"""``tilewright bundle``: one file of kernels, signed, to serve from and to export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.commands.farm.options import CERTS
from tilewright.cli.declare import argument, declared, option, wants_json
from tilewright.cli.options import DB, open_database
from tilewright.cli.output import Ticker, console, report, seconds, table
from tilewright.core import UsageError
from tilewright.database.text import safe_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from tilewright.runtime.bundle.reader import Bundle

_KEY = option(metavar="FILE", help="Private key that signs it: tilewright bundle key new.")
_TRUST = option(
    metavar="KEY|unsigned",
    help="Open it if this key has signed it (ed25519:...), or whoever has. [default: the user's trusted keys]",
)


@click.group("bundle")
def command() -> None:
    """Build, sign, inspect, verify and export bundles: one file of kernels for Library.

    \b
    Examples:
      tilewright bundle key new author.pem
      tilewright bundle build --db tuned.db -o kernels.twb --key author.pem
      tilewright bundle key trust author.pem.pub
      tilewright bundle inspect kernels.twb
      tilewright bundle verify kernels.twb --run
    """


@declared("build", command)
def build(
    output: str = option("-o", "--output", required=True, metavar="FILE", help="The bundle."),
    key: str | None = _KEY,
    unsigned: bool = option(help="Sign it by no key."),
    op: str | None = option(metavar="OP", help="Only this operator."),
    target: str | None = option(metavar="NAME", help="Only kernels for this target, such as cpu:avx2. [default: all]"),
    db: str | None = DB,
) -> None:
    """Write the best verified kernels of a database to a bundle.

    The same kernels, options and key give the same bytes.

    \b
    Examples:
      tilewright bundle build --db tuned.db -o kernels.twb --key author.pem
      tilewright bundle build --op matmul -o matmul.twb --unsigned
    """
    from tilewright.bundles.build import build as write

    if unsigned == (key is not None):
        raise UsageError(
            "it is not said who signs the bundle" if key is None else "--key and --unsigned are given together",
            "Give --key FILE (tilewright bundle key new makes one) or --unsigned",
        )
    signer = None if key is None else _private(key)
    with open_database(db) as database:
        ticker = Ticker("read {:,} of {:,} kernels")
        count = write(database, Path(output), signer, op=op, target=target, progress=ticker)
    size = os.path.getsize(output)
    by = "unsigned" if signer is None else f"signed by {_public(signer)}"
    data = {"file": output, "kernels": count, "bytes": size, "signer": None if signer is None else _public(signer)}
    report(data, f"{output}: {count} kernel{'s' * (count != 1)}, {size / 1e6:.1f} MB, {by}")


@declared("sign", command)
def sign(
    file: str = argument(metavar="FILE"),
    output: str | None = option("-o", "--output", metavar="FILE", help="Where to write it. [default: in place]"),
    key: str = option(required=True, metavar="FILE", help="Private key: tilewright bundle key new."),
    trust: tuple[str, ...] = _TRUST,
) -> None:
    """Sign a bundle, or sign it anew by another key. Every byte is checked first.

    \b
    Examples:
      tilewright bundle sign kernels.twb --trust unsigned --key author.pem
      tilewright bundle sign kernels.twb --key new.pem -o rotated.twb
    """
    from tilewright.bundles.build import sign_again

    bundle = _open(file, trust)
    bundle.check()
    signer = _private(key)
    sign_again(bundle.path, Path(output or file), signer)
    report({"file": output or file, "signer": _public(signer)}, f"{output or file} is signed by {_public(signer)}")


@declared("inspect", command)
def inspect(file: str = argument(metavar="FILE"), trust: tuple[str, ...] = _TRUST) -> None:
    """List what a bundle holds, and who signed it.

    \b
    Examples:
      tilewright bundle inspect kernels.twb
      tilewright bundle inspect kernels.twb --trust unsigned --json
    """
    from tilewright.bundles.contents import kernels

    bundle = _open(file, trust)
    found = kernels(bundle)
    facts = {"file": file, "bytes": bundle.header.size, "made_by": bundle.index.made_by, **_signer(bundle)}
    rows = (
        (e.op, e.label, e.target.name, e.target.threads, e.schedule.template, seconds(e.seconds), e.device_model)
        for e in (k.entry for k in found)
    )
    columns = ("operator", "parameters", "target", "threads", "template", "time", "tuned on")
    report(
        {**facts, "kernels": [k.to_json() for k in found]}, table(*columns, rows=rows, overflow="fold"),
        f"{len(found)} kernels, {bundle.header.size / 1e6:.1f} MB, {_by(bundle)}, {bundle.index.made_by}",
    )  # fmt: skip


@declared("verify", command)
def verify(
    file: str = argument(metavar="FILE"),
    run: bool = option(help="Also run each kernel, and compare it with its reference."),
    trust: tuple[str, ...] = _TRUST,
) -> int:
    """Check a bundle's signature and every byte of it, and that each kernel loads.

    Exit code 1 if something is wrong, 3 if no kernel of it is for this machine.

    \b
    Examples:
      tilewright bundle verify kernels.twb
      tilewright bundle verify kernels.twb --run --json
    """
    from tilewright.bundles.check import check

    bundle = _open(file, trust)
    rows, problems, skipped = [], 0, 0
    out = console(stderr=wants_json())
    for c in check(bundle, run=run):
        problems += bool(c.problem)
        skipped += bool(c.skipped)
        e = c.kernel.entry
        state = "wrong" if c.problem else "skipped" if c.skipped else "right" if run else "loads"
        why = c.problem or c.skipped
        rows.append(
            {"operator": e.op, "params": e.params, "target": e.target.name, "state": state, "problem": why or None}
        )
        if why:
            out.print(safe_text(f"{e.op} {e.label} ({e.target.name}): {state}: {why}"))
    good = len(rows) - problems - skipped
    line = (
        f"{file}: {_by(bundle)}; every byte is right; {good} of {len(rows)} kernels "
        f"{'match their reference' if run else 'load'}{f', {skipped} are for other machines' if skipped else ''}"
    )
    report({"file": file, **_signer(bundle), "kernels": rows, "wrong": problems, "skipped": skipped}, line)
    return 1 if problems else 3 if rows and not good else 0


@declared("export", command)
def export(
    file: str = argument(metavar="FILE"),
    form: str = option("--format", type=click.Choice(["c", "wheel"]), required=True, help="What to write."),
    output: str = option("-o", "--output", default=".", metavar="FOLDER", help="Where to write it."),
    name: str | None = option(
        metavar="NAME", help="Of the library or package. [default: tilewright, tilewright_kernels]"
    ),
    version: str = option(default="1.0", metavar="VERSION", help="Of the wheel."),
    op: str | None = option(metavar="OP", help="Only this operator."),
    target: str | None = option(metavar="NAME", help="Of this target, where there are several."),
    threads: int | None = option(low=1, help="For so many threads, where there are several."),
    no_check: bool = option(help="Do not compare what was compiled with the reference."),
    trust: tuple[str, ...] = _TRUST,
) -> None:
    """Compile a bundle's kernels into a C library, or into a wheel that needs numpy alone.

    c: a header, a static and a shared library. Kernels of processors only; what was compiled is compared with the
    reference where this machine can run it.

    \b
    Examples:
      tilewright bundle export kernels.twb --format c -o lib
      tilewright bundle export kernels.twb --format wheel --name my_kernels --version 1.2 -o dist
    """  # fmt: skip
    from tilewright.bundles.contents import kernels
    from tilewright.bundles.export.functions import choose, functions
    from tilewright.bundles.export.library import build_c, write_c
    from tilewright.bundles.export.wheel import wheel_name, write_wheel

    bundle = _open(file, trust)
    chosen = functions(choose(kernels(bundle), op, target, threads))
    name = name or ("tilewright" if form == "c" else "tilewright_kernels")
    if form == "wheel":
        wheel_name(name, version, chosen[0].kernel.entry.target.arch)
    ticker = Ticker("compiled {:,} of {:,} sources")
    library = build_c(bundle, chosen, name, check=not no_check, progress=ticker)
    if form == "c":
        files = write_c(library, Path(output), name)
    else:
        files = [write_wheel(library, chosen, Path(output), name, version)]
    data = {
        "files": [str(f) for f in files], "functions": [f"{name}_{f.name}" for f in chosen], "checked": library.checked,
    }  # fmt: skip
    checked = f"{library.checked} of {len(chosen)} functions were compared with their reference"
    report(data, *map(str, files), checked)


# --------------------------------------------------------------------------- keys


@command.group("key")
def key() -> None:
    """Make keys that sign bundles; say whose bundles are opened.

    \b
    Examples:
      tilewright bundle key new author.pem
      tilewright bundle key trust author.pem.pub
      tilewright bundle key revoke author.pem.pub
    """


@declared("new", key)
def new(file: str = argument(metavar="FILE")) -> None:
    """Write a private key, and its public key to FILE.pub.

    \b
    Examples:
      tilewright bundle key new author.pem
    """
    from tilewright.bundles.keys import new_key

    public = new_key(Path(file))
    report({"private": file, "public": f"{file}.pub", "key": public},
        public, f"{file} is private: whoever has it can sign as you. Hand out {file}.pub",
    )  # fmt: skip


@declared("show", key)
def show(key: str = argument(metavar="FILE")) -> None:
    """Print the public key of a private or public one.

    \b
    Examples:
      tilewright bundle key show author.pem
    """
    from tilewright.bundles.keys import public_key

    public, name = public_key(key)
    report({"key": public, "name": name}, public)


@declared("list", key)
def list_() -> None:
    """List the keys that are trusted here, and those revoked.

    \b
    Examples:
      tilewright bundle key list
    """
    from tilewright.runtime.bundle.trusted import read_keys, write_key

    keys = read_keys()
    rows = [
        {"key": write_key(public), "name": name, "state": state}
        for state, some in (("trusted", keys.trusted), ("revoked", keys.revoked))
        for public, name in some.items()
    ]
    lines = [f"{r['state']} {r['key']} {r['name']}" for r in rows] or [f"{keys.where} trusts no key"]
    follows = [{"place": place, "certs": certs} for place, certs in keys.follows]
    lines += [f"follows {f['place']} ({f['certs']})" for f in follows]
    report({"file": keys.where, "keys": rows, "follows": follows}, *lines)


@declared("trust", key)
def trust_(
    key: str = argument(metavar="KEY|FILE"),
    name: str = option(default="", help="What it is called in messages. [default: the file's]", show_default=False),
) -> None:
    """Open the bundles that a key signs: a public key, or a file with one.

    \b
    Examples:
      tilewright bundle key trust author.pem.pub --name "kernels team"
    """
    _change(key, name, False)


@declared("revoke", key)
def revoke(
    key: str = argument(metavar="KEY|FILE"),
    name: str = option(default="", help="What it is called in messages. [default: the file's]", show_default=False),
) -> None:
    """Refuse the bundles that a key signed, for good, on this machine. For all machines that follow a farm:
    tilewright farm revoke --bundle-key KEY.

    \b
    Examples:
      tilewright bundle key revoke author.pem.pub
    """
    _change(key, name, True)


@declared("follow", key)
def follow(place: str = argument(metavar="ADDRESS|URL|FILE"), certs: Path | None = CERTS) -> None:
    """Have a farm's list of revoked certificates count for bundles, wherever they are opened as this user.

    The list comes from the farm's server (tls://HOST:PORT), from a URL, or from a file: DIR/ca/revoked.pem, which every
    `tilewright farm revoke` writes. --certs names a folder with the ca.pem of the farm's authority.

    \b
    Examples:
      tilewright bundle key follow tls://farm.example.org:8786 --certs certs/reader
      tilewright bundle key follow https://example.org/revoked.pem --certs certs/reader
      tilewright bundle key follow /mnt/keys/revoked.pem --certs certs/reader
    """
    from tilewright.farm.following import Followed
    from tilewright.runtime.bundle.trusted import add_list

    if certs is None:
        raise UsageError("it is not said which authority signs the list", "Pass --certs DIR: a folder with its ca.pem")
    home = certs.expanduser().absolute()
    where = place if "://" in place else str(Path(place).expanduser().absolute())
    newest = Followed(where, home).ask()
    file = add_list(where, str(home))
    data = {"place": where, "certs": str(home), "file": str(file), "list": newest.to_json()}
    report(data, f"{file} follows {where}: {newest}")


def _change(given: str, name: str, revoked: bool) -> None:
    from tilewright.bundles.keys import public_key
    from tilewright.runtime.bundle.trusted import change_keys, parse_key

    public, own = public_key(given)
    where = change_keys(parse_key(public), name or own, revoke=revoked)
    state = "revoked" if revoked else "trusted"
    report({"key": public, "state": state, "file": str(where)}, f"{public} is {state} in {where}")


# --------------------------------------------------------------------------- shared


def _open(file: str, trust: tuple[str, ...]) -> Bundle:
    from tilewright.bundles.contents import open_bundle
    from tilewright.runtime.bundle.trusted import UNSIGNED

    if UNSIGNED in trust and len(trust) > 1:
        raise UsageError("--trust unsigned takes everybody's", "Leave the keys out, or unsigned")
    return open_bundle(file, UNSIGNED if UNSIGNED in trust else trust or False)


def _signer(bundle: Bundle) -> dict[str, Any]:
    from tilewright.runtime.bundle.trusted import write_key

    public = bundle.header.public
    return {"signer": write_key(public) if public else None, "signer_name": bundle.signer or None}


def _by(bundle: Bundle) -> str:
    return f"signed by {bundle.signer}" if bundle.signer else "unsigned"


def _private(file: str) -> Ed25519PrivateKey:
    from tilewright.bundles.keys import load_key

    return load_key(Path(file).expanduser())


def _public(key: Ed25519PrivateKey) -> str:
    from tilewright.runtime.bundle.trusted import write_key

    return write_key(key.public_key().public_bytes_raw())

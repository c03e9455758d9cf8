"""``tilewright bundle``: signed files of kernels, to serve and to export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.commands.farm.options import CERTS
from tilewright.cli.declare import argument, declared, option, wants_json
from tilewright.cli.options import DB, ONLY_OP, open_database
from tilewright.cli.output import Ticker, console, report, seconds, table
from tilewright.core import UsageError
from tilewright.database.text import safe_text
from tilewright.units import FINAL_TIME

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from tilewright.runtime.bundle.reader import Bundle

_KEY = option(metavar="FILE", help="Private key that signs the bundle: tilewright bundle key new makes one.")
_TRUST = option(
    metavar="KEY|unsigned",
    help="Public key (ed25519:...) whose bundles to open, or unsigned for any bundle. May be repeated. "
    "[default: the user's trusted keys]",
)


@click.group("bundle")
def command() -> None:
    """Build, sign, inspect, verify and export bundles. A bundle is one signed file of kernels, which Library serves.

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
    output: str = option("-o", "--output", required=True, metavar="FILE", help="Bundle to write."),
    key: str | None = _KEY,
    unsigned: bool = option(help="Write a bundle without a signature."),
    op: str | None = ONLY_OP,
    target: str | None = option(metavar="NAME", help="Only kernels for this target, such as cpu:avx2. [default: all]"),
    db: str | None = DB,
) -> None:
    """Write the fastest verified kernel of each task of a database to a bundle.

    The same kernels, options and key give the same bytes.

    \b
    Examples:
      tilewright bundle build --db tuned.db -o kernels.twb --key author.pem
      tilewright bundle build --op matmul -o matmul.twb --unsigned
    """
    from tilewright.bundles.build import build as write

    if unsigned == (key is not None):
        raise UsageError(
            "no signing key is given" if key is None else "--key and --unsigned are given together",
            "Pass --key FILE (tilewright bundle key new FILE makes one), or --unsigned",
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
    output: str | None = option("-o", "--output", metavar="FILE", help="Bundle to write. [default: replace FILE]"),
    key: str = option(
        required=True, metavar="FILE", help="Private key that signs: tilewright bundle key new makes one."
    ),
    trust: tuple[str, ...] = _TRUST,
) -> None:
    """Sign a bundle, or replace its signature. The command checks every byte first.

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
    """List the kernels of a bundle, and who signed it.

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
    columns = ("operator", "parameters", "target", "threads", "template", FINAL_TIME, "tuned on")
    report(
        {**facts, "kernels": [k.to_json() for k in found]}, table(*columns, rows=rows, overflow="fold"),
        f"{len(found)} kernels, {bundle.header.size / 1e6:.1f} MB, {_by(bundle)}, {bundle.index.made_by}",
    )  # fmt: skip


@declared("verify", command)
def verify(
    file: str = argument(metavar="FILE"),
    run: bool = option(help="Also run each kernel, and compare its outputs with the reference."),
    trust: tuple[str, ...] = _TRUST,
) -> int:
    """Check a bundle's signature and bytes, and load each kernel.

    Exit code 1 if a check fails, 3 if no kernel of the bundle is for this machine.

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
        f"{file}: {_by(bundle)}; every byte is intact; {good} of {len(rows)} kernels "
        f"{'match their reference' if run else 'load'}{f', {skipped} are for other machines' if skipped else ''}"
    )
    report({"file": file, **_signer(bundle), "kernels": rows, "wrong": problems, "skipped": skipped}, line)
    return 1 if problems else 3 if rows and not good else 0


@declared("export", command)
def export(
    file: str = argument(metavar="FILE"),
    form: str = option(
        "--format",
        type=click.Choice(["c", "wheel"]),
        required=True,
        help="c: a header, a static and a shared library; wheel: a Python package.",
    ),
    output: str = option("-o", "--output", default=".", metavar="FOLDER", help="Folder to write to."),
    name: str | None = option(
        metavar="NAME", help="Name of the library or package. [default: tilewright, tilewright_kernels]"
    ),
    version: str = option(default="1.0", metavar="VERSION", help="Version of the wheel."),
    op: str | None = ONLY_OP,
    target: str | None = option(metavar="NAME", help="Target of the kernels, if the bundle has several."),
    threads: int | None = option(
        low=1, help="Threads of the kernels, if the bundle has kernels for several numbers of threads."
    ),
    no_check: bool = option(help="Do not compare the compiled functions with the reference."),
    trust: tuple[str, ...] = _TRUST,
) -> None:
    """Compile a bundle's kernels into a C library, or into a wheel that needs numpy alone.

    Both hold kernels for processors only. The command compares each compiled function with the reference, if this
    machine can run it.

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
    """Make keys that sign bundles, and choose the keys whose bundles to open.

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
        public, f"Keep {file} secret: it signs bundles in your name. Give others {file}.pub",
    )  # fmt: skip


@declared("show", key)
def show(key: str = argument(metavar="FILE")) -> None:
    """Print the public key of a key file, private or public.

    \b
    Examples:
      tilewright bundle key show author.pem
    """
    from tilewright.bundles.keys import public_key

    public, name = public_key(key)
    report({"key": public, "name": name}, public)


@declared("list", key)
def list_() -> None:
    """List the keys that this user trusts, and the revoked keys.

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
    lines = [f"{r['state']} {r['key']} {r['name']}" for r in rows] or [f"{keys.where} lists no key"]
    follows = [{"place": place, "certs": certs} for place, certs in keys.follows]
    lines += [f"follows {f['place']} ({f['certs']})" for f in follows]
    report({"file": keys.where, "keys": rows, "follows": follows}, *lines)


@declared("trust", key)
def trust_(
    key: str = argument(metavar="KEY|FILE"),
    name: str = option(default="", help="Name of the key in messages. [default: the file's name]", show_default=False),
) -> None:
    """Trust a public key, or a file with one: open the bundles that it signs.

    \b
    Examples:
      tilewright bundle key trust author.pem.pub --name "kernels team"
    """
    _change(key, name, False)


@declared("revoke", key)
def revoke(
    key: str = argument(metavar="KEY|FILE"),
    name: str = option(default="", help="Name of the key in messages. [default: the file's name]", show_default=False),
) -> None:
    """Refuse the bundles that a key signed, on this machine.

    To refuse them on all machines that follow a farm: tilewright farm revoke --bundle-key KEY.

    \b
    Examples:
      tilewright bundle key revoke author.pem.pub
    """
    _change(key, name, True)


@declared("follow", key)
def follow(place: str = argument(metavar="ADDRESS|URL|FILE"), certs: Path | None = CERTS) -> None:
    """Apply a farm's list of revoked certificates to all bundles that this user opens.

    The list comes from the farm's server (tls://HOST:PORT), from a URL, or from a file: DIR/ca/revoked.pem, which
    farm revoke writes. --certs names a folder with the ca.pem of the farm's authority.

    \b
    Examples:
      tilewright bundle key follow tls://farm.example.org:8786 --certs certs/reader
      tilewright bundle key follow https://example.org/revoked.pem --certs certs/reader
      tilewright bundle key follow /mnt/keys/revoked.pem --certs certs/reader
    """
    from tilewright.farm.following import Followed
    from tilewright.runtime.bundle.trusted import add_list

    if certs is None:
        raise UsageError(
            "the list needs the certificate of the authority that signs it",
            "Pass --certs DIR: a folder with its ca.pem",
        )
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
        raise UsageError("--trust unsigned accepts any key, and keys are given too", "Remove the keys, or unsigned")
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

"""``tilewright farm doctor``: lists what a farm needs, and what is missing on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.cli.commands.farm.options import Reached
from tilewright.cli.declare import declared, options
from tilewright.cli.output import report
from tilewright.core import TilewrightError
from tilewright.database.text import visible_text
from tilewright.installed import installed_version
from tilewright.units import counted


@declared("doctor")
def doctor(
    reached: Reached = options(Reached),
) -> int:
    """List what a farm needs and whether this machine has it; with ADDRESS, check that farm's server.

    Exit code 1 if something is missing.

    \b
    Examples:
      tilewright farm doctor
      tilewright farm doctor tls://farm.example.org:8786 --certs certs
    """
    from rich.text import Text

    checks: list[dict[str, Any]] = [
        *(_check(name, partial(_package, name)) for name in ("nats-py", "msgpack", "cryptography")),
        _check("nats-server", _binary),
    ]
    if (certs := reached.certs) is not None and reached.given is None:
        checks.append(_check("certificates", lambda: _certificates(certs)))
    if reached.given is not None:
        checks.append(_check(f"farm {reached.where}", lambda: _farm(reached)))
    wrong = [c for c in checks if not c["ok"]]
    lines = []
    for c in checks:
        mark = Text.assemble(("ok", "green"), "     ") if c["ok"] else Text("missing", "red")
        lines.append(mark.append(visible_text(f" {c['name']}: {c['found']}")))
        lines += [Text(visible_text(f"        {c['mend']}"))] if c["mend"] else []
    report({"ok": not wrong, "checks": checks}, *lines)
    return 1 if wrong else 0


def _check(name: str, find: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"name": name, "ok": True, "found": find(), "mend": ""}
    except TilewrightError as e:
        return {"name": name, "ok": False, "found": e.message, "mend": e.hint}


def _package(name: str) -> str:
    version = installed_version(name)
    if version is None:
        raise TilewrightError("not installed", "Run: pip install 'tilewright[farm]'")
    return version


def _binary() -> str:
    from tilewright.farm.server import find_server

    path, number = find_server()
    return f"{'.'.join(map(str, number))} at {path} (only the server's machine needs it)"


def _certificates(certs: Path) -> str:
    from tilewright.farm.pki.certificates import expiring, listing

    found = listing(certs.expanduser())
    soon = expiring(found)
    if soon:
        names = ", ".join(sorted({c.name for c in soon}))
        raise TilewrightError(f"{names} end within 30 days", "Renew each: tilewright farm issue NAME --renew")
    return f"{len(found)} certificates, none ends within 30 days"


def _farm(reached: Reached) -> str:
    from tilewright.farm.client import Farm
    from tilewright.farm.subjects import LOOKERS

    with Farm(reached.where, reached.credentials, patience=10.0, roles=LOOKERS) as farm:
        status = farm.status()
    server = status["server"]
    if status["trouble"]:
        raise TilewrightError(
            str(status["trouble"]), "Free space on the server's disk; the server then continues by itself"
        )
    engine = server.get("engine", "a server that another program runs")
    servers, workers = counted(server.get("peers", 1), "server"), counted(len(status["workers"]), "worker")
    return f"{engine}, JetStream stores, {servers}, {workers}"

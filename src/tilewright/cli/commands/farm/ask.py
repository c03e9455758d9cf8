"""``tilewright farm status|drain|quarantine|release|ping|ready``: questions to a farm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.cli.commands.farm.options import ADDRESS, CERTS, address_of, certs_for
from tilewright.cli.declare import argument, declared, option, wants_json
from tilewright.cli.output import console, report
from tilewright.core import TilewrightError
from tilewright.database.text import safe_text
from tilewright.farm.client import Farm
from tilewright.farm.subjects import LOOKERS

SHORT = 10.0  # seconds for which a question waits for a server that is away
SOON = 30 * 86400.0  # seconds before a certificate's end from which it is shown in red

FARM = option("--farm", envvar="TILEWRIGHT_FARM", show_envvar=True, metavar="ADDRESS", help="tls://HOST:PORT")


def _farm(address: str | None, certs: Path | None, roles: Sequence[str] = LOOKERS) -> Farm:
    where = address_of(address)
    return Farm(where, certs_for(where, certs), patience=SHORT, roles=roles)


@declared("status")
def status(
    certs: Path | None = CERTS,
    live: bool = option(help="Show it again every second, until Ctrl-C."),
    address: str | None = ADDRESS,
) -> int:
    """Show a farm's runners, device classes, queue, utilisation and quarantine."""
    with _farm(address, certs) as farm:
        if wants_json() or not live:
            found = farm.status()
            report(found, _table(found))
            return 0
        from rich.live import Live

        with Live(console=console(), auto_refresh=False) as view:
            while True:
                view.update(_table(farm.status()), refresh=True)
                time.sleep(1.0)


@declared("drain")
def drain(certs: Path | None = CERTS, address: str | None = FARM, runner: str = argument()) -> int:
    """Let RUNNER (or a builder) finish what it does, take nothing more, and leave."""
    return _tell("drain", runner, "finishes what it does, then leaves", address, certs)


@declared("quarantine")
def quarantine(
    certs: Path | None = CERTS,
    address: str | None = FARM,
    why: str = option(default="by command", help="Shown in the status.", show_default=False),
    runner: str = argument(),
) -> int:
    """Give RUNNER nothing more until it is released."""
    return _tell("quarantine", runner, "is in quarantine", address, certs, why=why)


@declared("release")
def release(certs: Path | None = CERTS, address: str | None = FARM, runner: str = argument()) -> int:
    """End RUNNER's quarantine."""
    return _tell("release", runner, "is released", address, certs)


def _tell(what: str, name: str, done: str, address: str | None, certs: Path | None, **more: str) -> int:
    with _farm(address, certs, ("administrator",)) as farm:
        farm.ask(what, timeout=SHORT, name=name, **more)
    report({"name": name, "done": what}, f"{name} {done}")
    return 0


@declared("ping")
def ping(certs: Path | None = CERTS, address: str | None = ADDRESS) -> int:
    """Exit with 0 if the farm's server and keeper answer, with 1 if not: a liveness check."""
    began = time.perf_counter()
    with _farm(address, certs) as farm:
        answers = farm.ask("status", timeout=SHORT) is not None
    took = time.perf_counter() - began
    report({"answers": answers, "seconds": round(took, 4)}, f"{address} answers")
    return 0


@declared("ready")
def ready(
    certs: Path | None = CERTS,
    runners: int = option(low=0, default=1, help="How many must be there."),
    device: str | None = option(metavar="CLASS", help="Of this device class."),
    address: str | None = ADDRESS,
) -> int:
    """Exit with 0 if enough runners are there and take work, with 1 if not: a readiness check."""
    with _farm(address, certs) as farm:
        there = {name: len(found) for name, found in farm.devices().items() if device in (None, name)}
    count = sum(there.values())
    if count >= runners or wants_json():
        report({"ready": count >= runners, "runners": there}, f"{count} runner(s) take work")
    if count < runners:
        what = f" of class {device}" if device else ""
        raise TilewrightError(
            f"{count} of {runners} runner(s){what} take work", "See tilewright farm status, or start more runners"
        )
    return 0


def _table(found: Mapping[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    workers = Table(title=f"Tilewright {found['tilewright']} farm, up {_span(found['uptime'])}", title_justify="left")
    for column, side in (
        ("name", "left"), ("offers", "left"), ("busy", "right"), ("running", "right"), ("queued", "right"),
        ("done", "right"), ("certificate", "left"), ("state", "left"),
    ):  # fmt: skip
        workers.add_column(column, justify=side, overflow="fold")  # type: ignore[arg-type]
    for w in found["workers"]:
        offers = w["places"] if w["role"] == "runner" else sorted(set(w["offers"].values()))
        workers.add_row(
            safe_text(w["name"]), "\n".join(map(safe_text, offers)), f"{w['busy']:.0%}", f"{w['running']}/{w['lanes']}",
            str(w["queued"]), str(w["done"]), _certificate(w), _state(w),
        )  # fmt: skip
    for name, why in found["quarantined_away"].items():
        workers.add_row(safe_text(name), "", "", "", "", "", "", f"[red]away, in quarantine: {safe_text(why)}[/red]")
    queue = Table(title="Queues", title_justify="left")
    for column in ("what", "workers", "waiting", "in hand"):
        queue.add_column(column, justify="left" if column == "what" else "right", overflow="fold")
    for name, place in found["places"].items():
        queue.add_row(safe_text(name), str(place["workers"]), str(place["waiting"]), str(place["in_hand"]))
    clients = sum(c["connected"] for c in found["clients"])
    away = len(found["clients"]) - clients
    last = f"{clients} client(s) connected, {away} away; "
    return Group(
        workers,
        queue,
        Text(last + f"{found['refused']} refused"),
        Text(_engine(found), style="red" if found["trouble"] else ""),
    )


def _engine(found: Mapping[str, Any]) -> str:
    """The server in a line: its version, connections, what it stores, and what is wrong."""
    server = found["server"]
    parts = [str(server.get("engine", "a server that this keeper does not run"))]
    if server.get("peers", 1) > 1:
        parts.append(f"{server['peers']} servers in {safe_text(server['cluster'])}")
    if "connections" in server:
        parts.append(f"{server['connections']} connection(s)")
        parts.append(f"{(server['storage'] or 0) / (1 << 20):.0f} of {server['limit'] / (1 << 20):.0f} MiB stored")
    return ", ".join(parts) + (f"; {safe_text(found['trouble'])}" if found["trouble"] else "")


def _state(w: Mapping[str, Any]) -> str:
    if w["quarantine"]:
        return f"[red]quarantine: {safe_text(w['quarantine'])}[/red]"
    if w["draining"]:
        return "[yellow]draining[/yellow]"
    return safe_text(w["note"]) or "idle"


def _certificate(w: Mapping[str, Any]) -> str:
    if not w["certificate"]:
        return "none"
    left = w["expires"] - time.time()
    text = f"{safe_text(w['certificate'])}, {_span(max(0.0, left))} left"
    return f"[red]{text}[/red]" if left < SOON else text


def _span(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"

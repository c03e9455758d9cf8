"""``tilewright farm status|drain|quarantine|release|ping|ready``: short requests to a farm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.cli.commands.farm.options import Reached
from tilewright.cli.declare import argument, declared, option, options, wants_json
from tilewright.cli.output import console, report
from tilewright.core import TilewrightError
from tilewright.database.text import safe_text
from tilewright.farm.client import Farm
from tilewright.farm.health import SOON, Problem, problems, worker_state
from tilewright.farm.subjects import LOOKERS
from tilewright.units import counted, duration

SHORT = 10.0  # seconds that a question waits for a server that does not answer

REACHED = options(Reached)
NAME = argument(metavar="NAME")


def _farm(reached: Reached, roles: Sequence[str] = LOOKERS) -> Farm:
    return Farm(reached.where, reached.credentials, patience=SHORT, roles=roles)


@declared("status")
def status(
    live: bool = option(help="Refresh the table every second, until Ctrl-C."), reached: Reached = REACHED
) -> int:
    """Show what is wrong in a farm, then its runners, builders, device classes and queues.

    With --json, the key problems lists what is wrong, the worst first.

    \b
    Examples:
      tilewright farm status tls://farm.example.org:8786 --certs certs
      tilewright farm status --live
    """
    with _farm(reached) as farm:
        if wants_json() or not live:
            found = farm.status()
            wrong = problems(found, farm.address)
            report({**found, "problems": [p.to_json() for p in wrong]}, _table(found, wrong))
            return 0
        from rich.live import Live

        with Live(console=console(), auto_refresh=False) as view:
            while True:
                found = farm.status()
                view.update(_table(found, problems(found, farm.address)), refresh=True)
                time.sleep(1.0)


@declared("drain")
def drain(name: str = NAME, reached: Reached = REACHED) -> int:
    """Have a runner or builder finish its work, take no more, and leave the farm.

    NAME is its name in farm status.

    \b
    Examples:
      tilewright farm drain gpu-7 tls://farm.example.org:8786 --certs certs
    """
    return _command("drain", name, "finishes its work, then leaves the farm", reached)


@declared("quarantine")
def quarantine(
    why: str = option(default="by command", help="Reason that farm status shows.", show_default=False),
    name: str = NAME,
    reached: Reached = REACHED,
) -> int:
    """Give a runner no more work until farm release.

    NAME is its name in farm status.

    \b
    Examples:
      tilewright farm quarantine gpu-7 tls://farm.example.org:8786 --why "fan replaced"
    """
    return _command("quarantine", name, "is in quarantine", reached, why=why)


@declared("release")
def release(name: str = NAME, reached: Reached = REACHED) -> int:
    """End a runner's quarantine.

    NAME is its name in farm status.

    \b
    Examples:
      tilewright farm release gpu-7 tls://farm.example.org:8786
    """
    return _command("release", name, "takes work again", reached)


def _command(what: str, name: str, done: str, reached: Reached, **more: str) -> int:
    with _farm(reached, ("administrator",)) as farm:
        farm.ask(what, timeout=SHORT, name=name, **more)
    report({"name": name, "done": what}, f"{name} {done}")
    return 0


@declared("ping")
def ping(reached: Reached = REACHED) -> int:
    """Liveness check: exit code 0 if the farm's server and keeper answer, 1 if not.

    \b
    Examples:
      tilewright farm ping tls://farm.example.org:8786 --certs certs
    """
    began = time.perf_counter()
    with _farm(reached) as farm:
        answers = farm.ask("status", timeout=SHORT) is not None
    took = time.perf_counter() - began
    report({"answers": answers, "seconds": round(took, 4)}, f"{reached.where} answers")
    return 0


@declared("ready")
def ready(
    runners: int = option(low=0, default=1, metavar="N", help="Number of runners that must take work."),
    device: str | None = option(metavar="CLASS", help="Count runners of this device class only."),
    reached: Reached = REACHED,
) -> int:
    """Readiness check: exit code 0 if enough runners take work, 1 if not.

    \b
    Examples:
      tilewright farm ready tls://farm.example.org:8786 --runners 4
    """
    with _farm(reached) as farm:
        there = {name: len(found) for name, found in farm.devices().items() if device in (None, name)}
    count = sum(there.values())
    if count >= runners or wants_json():
        report({"ready": count >= runners, "runners": there}, f"runners that take work: {count}")
    if count < runners:
        what = f" of class {device}" if device else ""
        raise TilewrightError(f"{count} of {runners} runners{what} take work", "See why: tilewright farm status")
    return 0


def _table(found: Mapping[str, Any], wrong: Sequence[Problem]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    workers = Table(
        title=f"Tilewright {found['tilewright']} farm, up {duration(found['uptime'])}", title_justify="left"
    )
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
    last = f"{counted(clients, 'client')} connected, {away} away; "
    return Group(
        *(_wrong(problem) for problem in wrong),
        workers,
        queue,
        Text(last + f"{found['refused']} refused"),
        Text(_engine(found)),
    )


def _wrong(problem: Problem) -> Any:
    """A problem with its hint on the line below."""
    from rich.text import Text

    return Text.assemble((safe_text(problem.message), "red"), f"\n  {safe_text(problem.hint)}")


def _engine(found: Mapping[str, Any]) -> str:
    """The server in one line: its version, connections and stored bytes."""
    server = found["server"]
    parts = [str(server.get("engine", "a server that another program runs"))]
    if server.get("peers", 1) > 1:
        parts.append(f"{server['peers']} servers in {safe_text(server['cluster'])}")
    if "connections" in server:
        parts.append(counted(server["connections"], "connection"))
        parts.append(f"{(server['storage'] or 0) / (1 << 20):.0f} of {server['limit'] / (1 << 20):.0f} MiB stored")
    return ", ".join(parts)


def _state(w: Mapping[str, Any]) -> str:
    state = worker_state(w)
    match state:
        case "quarantined":
            return f"[red]quarantined: {safe_text(w['quarantine'])}[/red]"
        case "silent":
            return f"[red]silent for {duration(w['silent'])}[/red]"
        case "draining":
            return "[yellow]draining[/yellow]"
    return safe_text(w["note"]) or state


def _certificate(w: Mapping[str, Any]) -> str:
    if not w["certificate"]:
        return "none"
    left = w["expires"] - time.time()
    text = f"{safe_text(w['certificate'])}, {duration(max(0.0, left))} left"
    return f"[red]{text}[/red]" if left < SOON else text

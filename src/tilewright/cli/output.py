"""What every command prints: JSON alone on stdout, everything for a person on stderr or a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.declare import wants_json
from tilewright.database.text import safe_text
from tilewright.units import with_unit

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod, RenderableType
    from rich.table import Table

    from tilewright.core import Task
    from tilewright.database import StoredKernel

SCHEMA = 1
"""Version of the ``--json`` objects; breaking changes bump it."""

_EVERY = 2.0  # seconds between lines of progress


def emit_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout, with the schema's version."""
    click.echo(json.dumps({"schema": SCHEMA, **value}))


def emit_error(json_mode: bool, kind: str, message: str, hint: str) -> None:
    """One clear line on stderr; under ``--json`` also the error object on stdout. Nobody need read either."""
    with suppress(BrokenPipeError):
        say(" ".join(f"{message}{'.' if hint else ''} {hint}".split()))
    if json_mode:
        with suppress(BrokenPipeError):
            emit_json({"error": {"kind": kind, "message": message, "mend": hint}})


def report(data: dict[str, Any], *shown: RenderableType) -> None:
    """What came of a command on stdout: as JSON, or for a person, in lines, tables and other things that Rich draws."""
    if wants_json():
        emit_json(data)
        return
    out = console()
    for one in shown:
        if isinstance(one, str):  # never folded: paths and commands are there to be copied
            out.print(safe_text(one), soft_wrap=True)
        else:
            out.print(one)


def console(stderr: bool = False) -> Console:
    """A rich console; a file or a pipe gets plain text, wide enough for the tables."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal or "COLUMNS" in os.environ else 140
    return Console(stderr=stderr, highlight=False, width=width)


def say(line: str) -> None:
    """A line for a person, on stderr."""
    click.echo(f"tilewright: {line}", err=True)


def say_none(kind: str, make: str, op: str | None, params: Sequence[str]) -> None:
    """That a database holds no such ``kind`` of thing of an operator, and the command to ``make`` one."""
    of = f" of {' '.join((op, *params))}" if op else ""
    say(f"no {kind}{of} is stored here. {make} one: {program()} tune {op or 'OP'} {' '.join(params)}".rstrip())


class Ticker:
    """A line on stderr every few seconds of a long piece of work."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.said = time.monotonic()

    def __call__(self, first: int, second: int) -> None:
        now = time.monotonic()
        if now - self.said >= _EVERY:
            self.said = now
            say(self.what.format(first, second))


def table(
    *columns: str, rows: Iterable[Iterable[object]] = (), overflow: OverflowMethod = "ellipsis",
    title: str | None = None, whole: str | None = None,
) -> Table:  # fmt: skip
    """A plain table of ``rows``, whose cells are texts from anywhere. ``overflow``: what becomes of texts that are too
    long for their column. ``whole``: a column whose texts stay in one piece, so that they can be copied."""
    from rich.table import Column, Table

    heads = (Column(name, overflow=overflow, no_wrap=name == whole) for name in columns)
    shown = Table(*heads, box=None, pad_edge=False, title=title, title_justify="left")
    for row in rows:
        shown.add_row(*("" if cell is None else safe_text(cell) for cell in row))
    return shown


def program() -> str:
    """How to call this command again: its name where it is on the path, else the path to it."""
    here = sys.argv[0]
    if shutil.which("tilewright") or os.path.basename(here) != "tilewright":
        return "tilewright"
    return os.path.relpath(here)


def task_json(task: Task) -> dict[str, Any]:
    """A task as the commands' JSON has it."""
    workload, target = task.workload, task.target
    return {
        "workload": workload.label, "workload_key": workload.key, "target": target.name, "threads": target.threads,
    }  # fmt: skip


def kernel_json(kernel: StoredKernel) -> dict[str, Any]:
    """A stored kernel as the commands' JSON has it."""
    workload = kernel.task.workload
    return {
        "op": workload.op, "params": dict(workload.params), **task_json(kernel.task),
        "device_model": kernel.device_model, "final_seconds": kernel.seconds, "seconds": kernel.seconds,
        "gflops": workload.flops / kernel.seconds / 1e9,
        "peak_fraction": kernel.peak_fraction, "template": kernel.schedule.template,
        "schedule": dict(kernel.schedule.values), "rounding": kernel.program.rounding, "state": kernel.state,
        "run": kernel.run_id, "trial": kernel.trial_number, "artifact": kernel.artifact_sha256,
        "compiler": kernel.compiler,
    }  # fmt: skip


def moment(value: float) -> str:
    """Seconds since the epoch as local time: ``2026-11-21 09:30``."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(value))


def shown_path(path: str) -> str:
    """A file's path as seen from here where it lies below, else as it is; addresses of databases too."""
    below = os.path.relpath(path) if "://" not in path else path
    return path if below.startswith(os.pardir) else below


def seconds(value: float | None) -> str:
    """A duration for a person: ``17.6 us``, ``1.19 ms``."""
    return "-" if value is None else with_unit(value, "s")


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def rate(task: Task, value: float | None, share: float | None, here: bool = False) -> str:
    """``231 GFLOP/s, 81.2% of the FMA peak``: how fast a call of ``value`` seconds is, and its share of the arithmetic
    peak, which by the kind of target is measured (``here``: by this command) or stated.

    Work that is mostly moving is in bytes a second, which no peak of arithmetic bounds. A share above one is not shown,
    but its two causes are: the kernel does fewer operations than were counted, or other programs slowed the processor
    down while the peak was measured.
    """
    from tilewright.backends import backend_for
    from tilewright.kernels.speed import is_compute_bound, is_share, speed

    shown = speed(task.workload, value)
    if share is None or not is_compute_bound(task.workload):
        return shown
    measured = backend_for(task.target).in_process
    peak = ("the FMA peak" + (" measured here" if here else "")) if measured else "the vendor's peak"
    if not is_share(share):
        disturbed = ", or other programs ran while the peak was measured" if measured else ""
        return f"{shown}, above {peak}: the kernel does fewer operations than the operator counts{disturbed}"
    return f"{shown}, {percent(share)} of {peak}"

"""Output of all commands: results on stdout, as JSON or for people, and messages on stderr."""

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
    """Prints one JSON object on stdout, with the schema's version."""
    click.echo(json.dumps({"schema": SCHEMA, **value}))


def emit_error(json_mode: bool, kind: str, message: str, hint: str) -> None:
    """Prints an error as one line on stderr, and with ``--json`` as an object on stdout. A closed pipe is ignored."""
    with suppress(BrokenPipeError):
        say(" ".join(f"{message}{'.' if hint else ''} {hint}".split()))
    if json_mode:
        with suppress(BrokenPipeError):
            emit_json({"error": {"kind": kind, "message": message, "mend": hint}})


def report(data: dict[str, Any], *shown: RenderableType) -> None:
    """Prints a command's result on stdout: ``data`` as JSON with ``--json``, else ``shown``: lines, tables and other
    renderables of Rich."""
    if wants_json():
        emit_json(data)
        return
    out = console()
    for one in shown:
        if isinstance(one, str):  # never wrapped, so that paths and commands can be copied
            out.print(safe_text(one), soft_wrap=True)
        else:
            out.print(one)


def console(stderr: bool = False) -> Console:
    """A console of Rich. A file or a pipe gets plain text, wide enough for tables."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal or "COLUMNS" in os.environ else 140
    return Console(stderr=stderr, highlight=False, width=width)


def say(line: str) -> None:
    """Prints a line for people on stderr."""
    click.echo(f"tilewright: {line}", err=True)


def say_none(kind: str, make: str, op: str | None, params: Sequence[str]) -> None:
    """Prints that a database holds no ``kind`` (run, kernel) of an operator, and the command to ``make`` one."""
    of = f" of {' '.join((op, *params))}" if op else ""
    say(f"no {kind}{of} is stored here. {make} one: {program()} tune {op or 'OP'} {' '.join(params)}".rstrip())


class Ticker:
    """Progress of long work: prints a line on stderr every few seconds."""

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
    """A plain table of ``rows``; cells are escaped, since their texts may come from other users. ``overflow``:
    treatment of texts that are too long for their column. ``whole``: a column whose texts are never wrapped, to be
    copied."""
    from rich.table import Column, Table

    heads = (Column(name, overflow=overflow, no_wrap=name == whole) for name in columns)
    shown = Table(*heads, box=None, pad_edge=False, title=title, title_justify="left")
    for row in rows:
        shown.add_row(*("" if cell is None else safe_text(cell) for cell in row))
    return shown


def program() -> str:
    """The command line's first word: ``tilewright`` if it is on the PATH, else the path of this program."""
    here = sys.argv[0]
    if shutil.which("tilewright") or os.path.basename(here) != "tilewright":
        return "tilewright"
    return os.path.relpath(here)


def task_json(task: Task) -> dict[str, Any]:
    """A task in the format of the commands' JSON."""
    workload, target = task.workload, task.target
    return {
        "workload": workload.label, "workload_key": workload.key, "target": target.name, "threads": target.threads,
    }  # fmt: skip


def kernel_json(kernel: StoredKernel) -> dict[str, Any]:
    """A stored kernel in the format of the commands' JSON."""
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
    """Formats seconds since the epoch as local time: ``2026-11-21 09:30``."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(value))


def shown_path(path: str) -> str:
    """A file's path, relative if it lies below the current folder; a database's URL is unchanged."""
    below = os.path.relpath(path) if "://" not in path else path
    return path if below.startswith(os.pardir) else below


def seconds(value: float | None) -> str:
    """Formats a duration, as ``17.6 us`` or ``1.19 ms``."""
    return "-" if value is None else with_unit(value, "s")


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def rate(task: Task, value: float | None, share: float | None, here: bool = False) -> str:
    """States the speed of a call of ``value`` seconds, as ``231 GFLOP/s, 81.2% of the FMA peak``.

    The peak is measured on CPUs (``here``: by this command) and the vendor's on GPUs. Memory-bound workloads are in
    bytes a second, without a share. A share above 1 is not shown; its possible causes are: the kernel does fewer
    operations than the operator counts, or other programs ran while the peak was measured.
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

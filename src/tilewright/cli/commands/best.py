"""``tilewright best``: the fastest stored kernel of an operator, and its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from tilewright.backends import backend_for, is_emulated
from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import (
    DB,
    DTYPE,
    OP,
    PARAMS,
    TARGET,
    THREADS,
    matches,
    open_database,
    parse_params,
    stored_workload,
    target_of,
)
from tilewright.cli.output import kernel_json, rate, report
from tilewright.core import Task, TilewrightError
from tilewright.kernels.codegen.prelude import without_prelude
from tilewright.kernels.expression.program import Program
from tilewright.size_ranges import sizes_in
from tilewright.units import FINAL_TIME, counted, named_time

if TYPE_CHECKING:
    from tilewright.database import Database, StoredKernel

NEAR = 3
"""Number of similar kernels that are named if the requested kernel is not stored."""


@declared("best")
def command(
    op: str = OP,
    params: tuple[str, ...] = PARAMS,
    dtype: str | None = DTYPE,
    target: str = TARGET,
    threads: int = THREADS,
    source: bool = option(help="Print the kernel's source, without the support headers that it includes."),
    full_source: bool = option(help="Print the whole file that was compiled, support headers first."),
    db: str | None = DB,
) -> None:
    """Show the fastest stored kernel of an operator.

    \b
    Examples:
      tilewright best matmul m=512 n=512 k=512
      tilewright best matmul m=512 n=512 k=512 --source
      tilewright best matmul m=512 n=512 k=512 --full-source > kernel.cpp
      tilewright best matmul m=512 n=512 k=512 --target cuda:sm_90a --full-source > kernel.cu
    """
    task = Task(stored_workload(op, params, dtype, db), target_of(target, threads))
    with open_database(db) as database:
        kernel = _best(database, task)
        wanted = kernel is not None and (source or full_source)
        artifact = database.artifact(kernel.artifact_sha256) if kernel and wanted else None
        others = [] if kernel else _others(database, task, parse_params(params, dtype))
    if kernel is None:
        where = "" if backend_for(task.target).in_process else f" --target {target}"
        near = f"The database holds {'; '.join(others)}. " if others else ""
        raise TilewrightError(
            f"no kernel is stored for {task.workload.label} on {task.target.name}, {counted(threads, 'thread')}",
            f"{near}Tune it: tilewright tune {op} {' '.join(params)}{where}",
        )
    task = kernel.task  # the range's task, if a kernel of a range serves these sizes
    printed = {}
    if artifact is not None:
        printed = {"source": artifact.source, "kernel_source": without_prelude(artifact.source, artifact.target)}
    if printed and not wants_json():
        click.echo(printed["source" if full_source else "kernel_source"])
        return
    lines = [
        f"{task.workload.label} on {task.target.name} x{threads}: {named_time(FINAL_TIME, kernel.seconds)}, "
        f"{rate(task, kernel.seconds, kernel.peak_fraction)} ({kernel.state})",
        *([] if backend_for(task.target).in_process else [f"measured on {kernel.device_model}"]),
        f"template {kernel.schedule.template}, run {kernel.run_id}, trial {kernel.trial_number}",
        " ".join(f"{k}={v}" for k, v in kernel.schedule.values.items()),
    ]
    if kernel.program.rounding > 1:
        lines.append(
            f"its sums may round {kernel.program.rounding:.2g} times as far as the program's order of summation"
        )
    report({**kernel_json(kernel), **printed}, *lines)


def _best(database: Database, task: Task) -> StoredKernel | None:
    """The task's best kernel on this processor; for a GPU, which need not be in this machine, the last stored kernel.

    A kernel that was measured on the emulator is returned only if there is no other.
    """
    backend = backend_for(task.target)
    if backend.in_process:
        model = backend.place(task.target, "auto", task.target.threads)[1].model
        return database.best(task, model) or _of_range(database, task, model)
    found = [k for k in database.kernels() if k.rank == 1 and k.task.key == task.key]
    found.sort(key=lambda k: (not is_emulated(k.device_model), k.updated or 0.0), reverse=True)
    return found[0] if found else None


def _others(database: Database, task: Task, asked: Mapping[str, str]) -> list[str]:
    """Stored kernels for the requested parameters with other attributes (constant inputs, a layout), targets or
    threads."""
    found = (k.task for k in database.kernels(task.workload.op) if k.rank == 1 and matches(k.task.workload, asked))
    return [f"{t.workload.label} on {t.target.name} x{t.target.threads}" for t in found][:NEAR]


def _of_range(database: Database, task: Task, device_model: str) -> StoredKernel | None:
    """The best kernel of the smallest range that contains the task's sizes."""
    params = dict(task.workload.params)
    found = []
    for k in database.kernels(task.workload.op):
        ranges = k.task.workload.ranges
        if not ranges or (k.rank, k.device_model, k.task.target.key) != (1, device_model, task.target.key):
            continue
        sizes = sizes_in(dict(k.task.workload.params), params)
        if sizes is not None and Program.loads(k.task.workload.program).at(sizes).dumps() == task.workload.program:
            found.append((math.prod(e.high - e.low + 1 for e in ranges.values()), k))
    return min(found, key=lambda f: f[0])[1] if found else None

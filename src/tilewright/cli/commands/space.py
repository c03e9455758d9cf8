"""``tilewright space``: how many schedules an operator has, its knobs, and one sample."""

from __future__ import annotations

import random

import click

from tilewright.cli.options import (
    json_option,
    operator_arguments,
    target_of,
    target_option,
    threads_option,
    workload_of,
)
from tilewright.cli.output import console, emit_json, table


@click.command("space")
@operator_arguments
@target_option
@threads_option
@click.option("--seed", type=int, default=0, show_default=True, help="Which schedule to sample.")
@click.option("--source", is_flag=True, help="Print the sampled schedule's kernel source.")
@json_option
def command(
    op: str,
    params: tuple[str, ...],
    dtype: str | None,
    target: str,
    threads: int,
    seed: int,
    source: bool,
    as_json: bool,
) -> None:
    """Show an operator's schedule space: size, knobs and a sampled schedule.

    \b
    Examples:
      tilewright space matmul m=512 n=512 k=512
      tilewright space matmul m=512 n=512 k=512 --seed 7 --source
      tilewright space matmul m=512 n=512 k=512 --target cuda:sm_90a --source
    """
    from tilewright.core import Candidate, Task
    from tilewright.kernels.templates import lower, task_space
    from tilewright.search_space import UnionSpace

    task = Task(workload_of(op, params, dtype), target_of(target, threads))
    space = task_space(task)
    sampled = space.sample(random.Random(seed))
    text = lower(Candidate(task, sampled)).source if source else None
    spaces = space.spaces if isinstance(space, UnionSpace) else (space,)
    if as_json:
        emit_json(
            {
                "workload": task.workload.label,
                "target": task.target.name,
                "size": space.size,
                "templates": [s.to_json() for s in spaces],
                "sample": sampled.to_json(),
                **({"source": text} if text else {}),
            }
        )
        return
    out = console()
    out.print(f"{task.workload.label} on {task.target.name}, {threads} thread(s): {space.size:,} legal schedules")
    for s in spaces:
        shown = table("knob", "half", "values", "sampled", title=f"template {s.template} version {s.version}")
        for k in s.knobs:
            chosen = str(sampled.values[k.name]) if s.template == sampled.template else ""
            shown.add_row(k.name, k.half, " ".join(map(str, k.values)), chosen)
        out.print(shown)
        if s.note:
            out.print(s.note)
    if text:
        out.print(text, markup=False)

"""``tilewright space``: shows the search space of an operator: its knobs, and one schedule."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tilewright.cli.declare import declared, option
from tilewright.cli.options import DTYPE, OP, PARAMS, TARGET, THREADS, target_of, workload_of
from tilewright.cli.output import report, table
from tilewright.units import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.search_space import Choice, SearchSpace


@declared("space")
def command(
    op: str = OP,
    params: tuple[str, ...] = PARAMS,
    dtype: str | None = DTYPE,
    target: str = TARGET,
    threads: int = THREADS,
    seed: int = option(default=0, help="Seed of the sampled schedule."),
    source: bool = option(help="Print the source of the sampled schedule's kernel."),
) -> None:
    """Show an operator's search space: number of schedules, knobs, and one sampled schedule.

    \b
    Examples:
      tilewright space matmul m=512 n=512 k=512
      tilewright space matmul m=512 n=512 k=512 --seed 7 --source
      tilewright space matmul m=512 n=512 k=512 --target cuda:sm_90a --source
    """
    from rich.text import Text

    from tilewright.core import Candidate, Task
    from tilewright.kernels.templates import lower, task_space
    from tilewright.search_space import UnionSpace, knob

    task = Task(workload_of(op, params, dtype), target_of(target, threads))
    space = task_space(task)
    sampled = space.sample(random.Random(seed))
    text = lower(Candidate(task, sampled)).source if source else None
    spaces = space.spaces if isinstance(space, UnionSpace) else (space,)
    shown: list[RenderableType] = []
    for s in spaces:
        chosen = sampled.values if s.template == sampled.template else {}
        rows = (
            (k.name, knob(s.template, k.name).label, k.half, " ".join(map(str, k.values)), chosen.get(k.name))
            for k in s.knobs
        )
        title = f"template {s.template} version {s.version}"
        shown += [
            table("knob", "meaning", "half", "values", "sampled", rows=rows, title=title),
            *([s.note] if s.note else []),
        ]
    report(
        {
            "workload": task.workload.label, "target": task.target.name, "size": space.size,
            "templates": [{**s.to_json(), "knobs": [_row(s, k) for k in s.knobs]} for s in spaces],
            "sample": sampled.to_json(),
            **({"source": text} if text else {}),
        },
        f"{task.workload.label} on {task.target.name}, {counted(threads, 'thread')}: {space.size:,} legal schedules",
        *shown, *([Text(text)] if text else []),
    )  # fmt: skip


def _row(space: SearchSpace, choice: Choice) -> dict[str, Any]:
    """A knob as JSON, with its label and explanation."""
    from tilewright.search_space import knob

    meant = knob(space.template, choice.name)
    return {**choice.to_json(), "label": meant.label, "sentence": meant.sentence}

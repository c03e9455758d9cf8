"""``tilewright prepare``: ranks and compiles kernels on a machine without a GPU, for a run on a GPU."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.backends import EMULATOR
from tilewright.backends.cores import available_cores
from tilewright.cli.commands.check import cuda_target
from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import DTYPE, OP, PARAMS, parse_params
from tilewright.cli.output import emit_json, program, seconds
from tilewright.cli.output import say as tell
from tilewright.cli.progress import Steps
from tilewright.kernels.operators import get_operator

if TYPE_CHECKING:
    from tilewright.core import Workload
    from tilewright.kernels.operator import Operator
    from tilewright.tuner.prepare import Prepared

VERIFY_SECONDS = 20.0
"""Estimated seconds of a kernel on the emulator above which it is checked at smaller sizes."""


@declared("prepare")
def command(
    op: str = OP,
    params: tuple[str, ...] = PARAMS,
    dtype: str | None = DTYPE,
    target: str | None = option(metavar="NAME", help="Target of the code: cuda:sm_80, ... [default: cuda:sm_90a]"),
    device: str = option(
        type=click.Choice(["cuda", "emulator"]),
        default="cuda",
        help="Device that will run the kernels; emulator tries the whole workflow without a GPU.",
    ),
    out: str = option(required=True, metavar="DIR", help="Folder to write to."),
    keep: int = option(low=1, default=32, help="Number of kernels to compile, besides the default."),
    pool: int = option(low=1, default=512, help="Number of schedules to rank."),
    near: float = option(
        low=0.0,
        high=1.0,
        default=0.5,
        help="Share of the ranked schedules that differ from the default in one or two knobs.",
    ),
    verify: int = option(low=0, default=4, help="Number of kernels to check on the emulator."),
    seed: int = option(low=0, default=0, help="Seed of the schedules."),
    jobs: int | None = option(low=1, help="Number of compilers that run at a time. [default: number of cores]"),
) -> int:
    """Rank schedules for a GPU, check some on the emulator, and compile the best. The command needs no GPU.

    DIR gets prepared.json and the compiled kernels; a machine with a GPU then only loads and measures them. A second
    prepare reuses the compiled kernels in DIR.

    \b
    Examples:
      tilewright prepare matmul m=4096 n=4096 k=4096 --dtype bfloat16 --target cuda:sm_90a --out prepared
      tilewright prepare matmul m=4095 n=4095 k=4095 --keep 64 --pool 2048 --out prepared
    """
    from tilewright.core import Task
    from tilewright.tuner.prepare import prepare, write

    operator = get_operator(op)
    task = Task(operator.workload(**parse_params(params, dtype)), cuda_target(target))
    small = _small(operator, task.workload) if verify else None
    workers = jobs or available_cores()
    stage = Steps("", 0)

    def say(what: str, done: int, of: int) -> None:
        nonlocal stage
        if what != stage.what:
            stages.close()
            stage = stages.enter_context(Steps(what, of))
        while stage.done < done:
            stage.step()

    try:
        with ExitStack() as stages:
            prepared = prepare(
                task, Path(out), keep=keep, pool=pool, verify=verify, small=small, near=near, seed=seed,
                workers=workers, emulated=device == EMULATOR, say=say,
            )  # fmt: skip
    except KeyboardInterrupt:
        tell("stopped early, before prepared.json was written. Run the command again: compiled kernels are kept")
        return 130
    path = write(prepared, Path(out))
    if wants_json():
        data = prepared.to_json()
        data["kernels"] = len(prepared.kernels)
        emit_json({"file": str(path), **data})
    else:
        _print(prepared, path)
    return 1 if prepared.bugs else 3 if any(c.state == "unchecked" for c in prepared.checked) else 0


def _small(operator: Operator, workload: Workload) -> Workload | None:
    """A workload of smaller sizes to check on; ``None`` if the workload's own sizes are small enough."""
    from tilewright.checking import cost as check_cost
    from tilewright.checking.check import ORDERS, SETS

    own = check_cost.estimate(workload, [()], len(ORDERS), len(SETS))
    if own <= VERIFY_SECONDS and check_cost.tensor_bytes(workload) <= check_cost.MEMORY:
        return None
    flops = VERIFY_SECONDS * check_cost.RATES[""] / (len(ORDERS) * len(SETS))
    return check_cost.smaller(operator, dict(workload.params), flops)


def _print(prepared: Prepared, path: Path) -> None:
    task = prepared.task
    gate = prepared.gate
    click.echo(f"{task.workload.label} on {task.target.name}: {prepared.pool} schedules, ranked by {prepared.prior}")
    for what, refused in (("before", gate["before"]), ("after", gate["after"])):
        if refused:
            click.echo(f"  refused {what} compiling: {', '.join(f'{n} {k}' for k, n in refused.items())}")
    right = sum(c.state == "right" for c in prepared.checked)
    click.echo(f"  checked on the emulator: {right} right, {len(prepared.bugs)} with bugs")
    for note in prepared.notes:
        click.echo(f"  note: {note}")
    for c in prepared.bugs:
        f, s = c.findings[0], c.subject.schedule
        click.echo(f"  BUG {s.template if s else ''}: {f.kind} {f.place}: {f.message}")
    for reason in dict.fromkeys(x for c in prepared.checked for x in c.unchecked):
        click.echo(f"  not checked: {reason}")
    spent = ", ".join(f"{k} {seconds(v)}" for k, v in prepared.seconds.items())
    click.echo(f"  compiled {len(prepared.kernels)} kernels with {prepared.compiler} ({spent})")
    where = f"--device {EMULATOR}" if prepared.emulated else "--target cuda"
    click.echo(f"wrote {path}. On the machine that measures: {program()} tune ... {where} --prepared {path.parent}")

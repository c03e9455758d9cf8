"""``tilewright tune``: search, and say what was won."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tilewright.cli.options import (
    db_option,
    device_option,
    find_operator,
    json_option,
    operator_arguments,
    parse_params,
    target_option,
    threads_option,
)
from tilewright.cli.output import console, emit_json, percent, program, rate, seconds
from tilewright.core import TilewrightError

if TYPE_CHECKING:
    from tilewright.runtime.compare import Comparison
    from tilewright.tuner import TuneResult


@click.command("tune")
@operator_arguments
@target_option
@threads_option
@device_option
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=None,
    help="Trials of the run in all, failures included. [default: 200]",
)
@click.option(
    "--time-budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Stop proposing after S seconds.",
)
@click.option("--strategy", default=None, metavar="NAME", help="evolutionary, random or grid. [default: evolutionary]")
@click.option("--cost-model", default=None, metavar="NAME", help="xgboost, roofline or random. [default: xgboost]")
@click.option("--seed", type=int, default=None, help="The same seed and results give the same proposals. [default: 0]")
@db_option
@click.option("--resume", metavar="RUN", help='Go on with a run: its identifier, or "last".')
@json_option
def command(
    op: str,
    params: tuple[str, ...],
    dtype: str | None,
    target: str,
    threads: int,
    device: str,
    trials: int | None,
    time_budget: float | None,
    strategy: str | None,
    cost_model: str | None,
    seed: int | None,
    db: str | None,
    resume: str | None,
    as_json: bool,
) -> int:
    """Search for the fastest kernel of an operator and store every trial.

    OP is an operator's name (see: tilewright ops) or FILE.py:function. Ctrl-C ends the search and
    keeps everything measured; a second Ctrl-C stops at once.

    \b
    Examples:
      tilewright tune matmul m=512 n=512 k=512 --trials 64
      tilewright tune matmul m=1024 n=1024 k=1024 activation=relu bias=true --threads 2
      tilewright tune my_ops.py:sqdist m=256 n=256 k=64 --json
      tilewright tune matmul m=512 n=512 k=512 --resume last --trials 400
    """
    from tilewright.cli.progress import progress
    from tilewright.tuner import tune

    operator = find_operator(op)
    values = parse_params(params, dtype)
    watcher = progress()
    try:
        result = tune(
            operator,
            trials=trials,
            target=target,
            threads=threads,
            device=device,
            time_budget=time_budget,
            strategy=strategy,
            cost_model=cost_model,
            seed=seed,
            db=db,
            resume=resume,
            observer=watcher,
            params=values,
        )
    finally:
        watcher.close()
    comparison = None if result.interrupted or result.best is None else _against_numpy(result)
    problem = None if result.best else _no_success(result)
    if as_json:
        data = result.to_json()
        data["speedup_over_numpy"] = comparison.ratios[0].ratio if comparison and comparison.ratios else None
        if problem:
            data["error"] = {"kind": problem.kind, "message": problem.message, "mend": problem.mend}
        emit_json(data)
    else:
        _panel(result, comparison, op, params)
    if result.interrupted:
        click.echo("tilewright: stopped early; everything measured is stored. Go on with --resume last", err=True)
        return 130
    if problem:
        click.echo(f"tilewright: {problem}", err=True)
        return 1
    return 0


def _no_success(result: TuneResult) -> TilewrightError:
    failed = ", ".join(f"{n} {k}" for k, n in result.failed.items()) or "none was run"
    return TilewrightError(f"no trial succeeded: {failed}", f"See what failed: tilewright show {result.run}")


def _against_numpy(result: TuneResult) -> Comparison | None:
    """A short paired comparison with NumPy, where it has the operator."""
    from tilewright.backends.cpu.device import parse_device
    from tilewright.runtime.compare import compare

    if result.best is None:
        return None
    threads = result.task.target.threads
    try:
        cores = parse_device(result.device, threads).cores
        rounds = 11 if result.best.seconds < 0.1 else 5
        return compare(result.database, result.task.workload, threads=threads, cores=cores, rounds=rounds)
    except TilewrightError as e:
        click.echo(f"tilewright: not compared with numpy: {e}", err=True)
        return None


def _panel(result: TuneResult, comparison: Comparison | None, op: str, params: tuple[str, ...]) -> None:
    from rich.markup import escape
    from rich.panel import Panel

    task = result.task
    lines = []
    if result.best:
        best = result.best
        lines.append(
            f"best       {seconds(best.seconds)}, {rate(task.workload.flops, best.seconds)}, "
            f"{percent(best.peak_fraction)} of the FMA peak measured here"
        )
        if comparison and comparison.ratios:
            r = comparison.ratios[0]
            lines.append(f"numpy      ours is {r.ratio:.2f}x as fast, paired ({r.low:.2f} to {r.high:.2f})")
        lines.append(f"schedule   {best.template}: {' '.join(f'{k}={v}' for k, v in best.schedule.values.items())}")
        if result.kept:
            lines.append("           (the kernel of an earlier run won the final and stays)")
    failed = ", ".join(f"{n} {k}" for k, n in result.failed.items()) or "none"
    lines.append(f"trials     {result.trials}, {result.structures} distinct structures, failed: {failed}")
    lines.append(f"time       {result.seconds:.1f} s, {result.trials / max(result.seconds, 1e-9):.1f} trials a second")
    lines.append(f"saved in   {result.database} as run {result.run}")
    target = f" --threads {task.target.threads}" if task.target.threads > 1 else ""
    lines.append(f"next       {program()} bench {op} {' '.join(params)}{target} --db {result.database}")
    console().print(
        Panel(escape("\n".join(lines)), title=escape(task.workload.label), title_align="left", expand=False)
    )

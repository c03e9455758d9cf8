"""``tilewright tune``: searches for the fastest kernel, and prints the result."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.backends import backend_for
from tilewright.cli import complete
from tilewright.cli.commands.farm.options import CERTS
from tilewright.cli.declare import declared, option, options, wants_json
from tilewright.cli.options import (
    DB,
    DEVICE,
    DTYPE,
    OP_IF_ANY,
    PARAMS,
    TARGET,
    THREADS,
    Duration,
    parse_params,
)
from tilewright.cli.output import console, program, rate, report, say, seconds, shown_path
from tilewright.cli.paired import keep
from tilewright.cli.user_kernel import OwnKernel, user_kernel_of
from tilewright.core import DatabaseError, TilewrightError
from tilewright.kernels.operators import get_operator
from tilewright.units import CALL_TIME, FINAL_TIME, Gain, named_time

if TYPE_CHECKING:
    from tilewright.baselines.compare import Comparison
    from tilewright.farm.client import Farm
    from tilewright.tuner import TuneResult


@declared("tune")
def command(
    op: str | None = OP_IF_ANY,
    params: tuple[str, ...] = PARAMS,
    dtype: str | None = DTYPE,
    target: str = TARGET,
    threads: int = THREADS,
    device: str = DEVICE,
    trials: int | None = option(
        low=0,
        envvar="TILEWRIGHT_TRIALS",
        help="Trials of the run, failures included. 0: no trials, the cost model's choice is checked and stored. "
        "[default: 200, fewer once more trials are expected to gain less than noise]",
    ),
    time_budget: float | None = option(
        type=Duration(), metavar="S", help="Seconds for the search and the final together; also 90s, 30m, 2h."
    ),
    until_converged: bool = option(
        help="Stop once more trials are expected to gain less than noise, after --trials at the latest. "
        "[default: on without --trials and --time-budget]"
    ),
    strategy: str | None = option(
        metavar="NAME",
        shell_complete=complete.strategies,
        help="Proposes the schedules: evolutionary, random, grid, optuna-tpe, optuna-cmaes, optuna-gp, optuna-qmc, "
        "optuna-random. [default: evolutionary]",
    ),
    cost_model: str | None = option(
        metavar="NAME",
        shell_complete=complete.cost_models,
        help="Predicts the times: xgboost, roofline, gpu, random. [default: xgboost]",
    ),
    seed: int | None = option(
        help="Seed of the strategy: the same seed and results give the same proposals. [default: 0]"
    ),
    own: OwnKernel = options(OwnKernel),
    prepared: str | None = option(metavar="DIR", help="First try the kernels that tilewright prepare wrote to DIR."),
    farm: str | None = option(
        envvar="TILEWRIGHT_FARM", show_envvar=True, metavar="ADDRESS", help="Measure on a farm: tls://HOST:PORT."
    ),
    certs: Path | None = CERTS,
    priority: str = option(
        type=click.Choice(("low", "normal", "high")),
        default="normal",
        help="Share of a farm's time: high gets four times as many seconds as normal, low a quarter.",
        show_default=False,
    ),
    tasks: str | None = option(
        metavar="FILE",
        help="Tune the tasks of a TOML file under one budget: --time-budget, or --trials of all together. "
        "--target overrides the file's target.",
    ),
    from_misses: bool = option(help="Tune the misses of programs (see: tilewright misses), most work first."),
    portfolio: int | None = option(
        low=1, metavar="K", help="Number of kernels that serve a range (m=1..4096) at most. [default: 4]"
    ),
    db: str | None = DB,
    resume: str | None = option(metavar="RUN", help='Continue a run: its identifier, or "last".'),
    take_over: bool = option(
        help="Also continue a run that another host lists as running. Its process must have ended."
    ),
) -> int:
    """Search for the fastest kernel of an operator and store every trial.

    OP is an operator's name (see: tilewright ops), FILE.py:function, or a C++ or CUDA file with a kernel of
    your own, whose macros are its knobs. Ctrl-C ends the search, stores all measurements, and holds a short final; a
    second Ctrl-C stops at once.

    \b
    Examples:
      tilewright tune matmul m=512 n=512 k=512 --trials 64
      tilewright tune matmul m=1024 n=1024 k=1024 activation=relu bias=true --threads 2
      tilewright tune my_ops.py:sqdist m=256 n=256 k=64 --json
      tilewright tune matmul m=512 n=512 k=512 --resume last --trials 400
      tilewright tune matmul m=4096 n=4096 k=4096 dtype=bfloat16 --target cuda
      tilewright tune --tasks tasks.toml --time-budget 30m
      tilewright tune --from-misses --time-budget 30m
      tilewright tune matmul m=1..4096 n=512 k=512 --portfolio 6
      tilewright tune mm.cpp --entry mm --knob BM=32,64 --reference matmul m=512 n=512 k=512
      tilewright tune matmul m=512 n=512 k=512 --farm tls://farm.example.org:8786 --certs certs --device all
    """
    # Set before NumPy is imported: OpenBLAS's idle threads would spin on the cores on which kernels are timed.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from tilewright.tuner import TuneSettings, tune, tune_all
    from tilewright.tuner.progress import PlainProgress, progress

    _require_own_place(db)
    settings = TuneSettings(
        trials, time_budget, until_converged, target, device, strategy=strategy, cost_model=cost_model, seed=seed, db=db
    )

    def connected() -> AbstractContextManager[Farm | None]:
        return _farm(farm, certs, priority) if farm else nullcontext()

    if tasks is not None or from_misses:
        alone: dict[str, Any] = {
            "OP": op, "--dtype": dtype, "--portfolio": portfolio, "--prepared": prepared, "--take-over": take_over,
            **own.given(),
        }  # fmt: skip
        if from_misses:
            from tilewright.cli.many import tune_misses

            return tune_misses(settings, {**alone, "--tasks": tasks, "--farm": farm, "--resume": resume})
        from tilewright.cli.many import tune_tasks
        from tilewright.tuner.task_file import read_tasks, target_of

        listed = read_tasks(Path(str(tasks)), threads)
        if target == "auto":
            settings = replace(settings, target=target_of(Path(str(tasks))))
        with connected() as connection:
            return tune_tasks(listed, replace(settings, farm=connection), alone, resume)
    if op is None:
        raise click.MissingParameter(param_hint="'OP'", param_type="argument")
    kernel = user_kernel_of(op, own)
    operator = kernel or get_operator(op)
    values = parse_params(params, dtype)
    if portfolio is not None or (kernel is None and get_operator(op).workload(**values).ranges):
        from tilewright.cli.many import tune_for_range
        from tilewright.tuner.many import TuneTask

        task = TuneTask(get_operator(op), values, threads=threads, portfolio=portfolio)
        unfit: dict[str, Any] = {"--prepared": prepared, "--take-over": take_over, **own.given()}
        with connected() as connection:
            return tune_for_range(task, replace(settings, farm=connection), unfit, resume)
    how = {**vars(settings), "threads": threads, "resume": resume, "take_over": take_over, "prepared": prepared}
    several = farm is not None and (device == "all" or "," in device)
    found: Mapping[str, TuneResult | TilewrightError]
    with connected() as connection:
        how |= {"params": values, "farm": connection}
        if several:
            found = tune_all(operator, observer=lambda name: PlainProgress(f"{name}: "), **how)
        else:
            with closing(progress(PlainProgress)) as watcher:
                result = tune(operator, observer=watcher, **how)
            found = {result.device: result}
    words = (kernel.reference if kernel else op, *(f"{k}={v}" for k, v in values.items()))
    rows, codes = {}, [0]
    for name, one in found.items():
        rows[name], code = _report_result(one, words, f"{name}: " if several else "", compares=farm is None)
        codes.append(code)
    report({"classes": rows} if several else next(iter(rows.values())))
    return max(codes)


def _report_result(
    result: TuneResult | TilewrightError, words: Sequence[str], prefix: str, *, compares: bool
) -> tuple[dict[str, Any], int]:
    """Prints a run's result; returns its JSON and the exit code.

    ``words``: the operator and its parameters. ``prefix``: the device class, if there are several runs. ``compares``:
    whether the kernel is compared with NumPy.
    """
    data: dict[str, Any] = {}
    problem = result if isinstance(result, TilewrightError) else _no_success(result)
    code = problem.exit_code if problem else 0
    if not isinstance(result, TilewrightError):
        comparison = _against_numpy(result) if compares and not problem and not result.interrupted else None
        data = result.to_json()
        if compares:
            data["speedup_over_numpy"] = comparison.ratios[0].ratio if comparison and comparison.ratios else None
        if not wants_json():
            _panel(result, comparison, words[0], words[1:])
        if result.interrupted:
            say("stopped early; all measurements are stored. Continue with --resume last")
            code = 130
    if problem:
        data["error"] = problem.to_json()
        say(f"{prefix}{problem}")
    return data, code


def _require_own_place(db: str | None) -> None:
    """Raises ``DatabaseError`` for a database in a folder that other users can write: no program would open it later.

    If ``db`` names a missing folder, which the run will make, this is printed: the name may be mistyped.
    """
    from tilewright.paths import default_path
    from tilewright.runtime.trust import require_place

    if db is not None and "://" in db:
        return
    path = Path(db) if db is not None else Path(default_path())
    try:
        require_place(path)
    except DatabaseError as e:
        raise DatabaseError(e.message, "Name one in a folder of your own: --db ~/tuned.db") from None
    if db is not None and not path.parent.exists():
        say(f"there is no folder {path.parent}: the run makes it")


def _farm(address: str, certs: Path | None, priority: str) -> Farm:
    from tilewright.cli.commands.farm.options import certs_for
    from tilewright.farm.client import Farm

    return Farm(address, certs_for(address, certs), say=say, priority=priority)


def _no_success(result: TuneResult) -> TilewrightError | None:
    """The error for a run without a correct kernel, even if an earlier run has stored one; ``None`` after success."""
    if result.best and not result.all_failed:
        return None
    again = f"{program()} show {result.run} --db {shown_path(result.database)}"
    return TilewrightError(result.no_success, f"See what failed: {again}")


def _against_numpy(result: TuneResult) -> Comparison | None:
    """A short paired comparison with NumPy; ``None`` if NumPy lacks the operator or the kernel cannot be called
    here."""
    from tilewright.backends.cpu.device import parse_device
    from tilewright.baselines.compare import compare
    from tilewright.baselines.libraries import BASELINES

    served = "://" not in result.database and backend_for(result.task.target).in_process
    if result.best is None or not served or BASELINES["numpy"].missing(result.task.workload):
        return None
    threads = result.task.target.threads
    try:
        cores = parse_device(result.device, threads).cores
        rounds = 11 if result.best.seconds < 0.1 else 5
        found = compare(result.database, result.task.workload, threads=threads, cores=cores, rounds=rounds)
        keep(result.database, found)
        return found
    except TilewrightError as e:
        say(f"no comparison with NumPy: {e}")
        return None


def _gate(gate: Mapping[str, Any]) -> str:
    """States how many kernels the static checks refused before compiling or measuring, and why."""
    reasons = Counter(gate["before"]) + Counter(gate["after"])
    refused = ", ".join(f"{n} {why}" for why, n in reasons.most_common()) or "none"
    share = gate["gate_seconds"] / max(gate["compile_seconds"], 1e-9)
    return f"{gate['seen']} kernels checked before they run, refused: {refused}; took {share:.1%} of the compile time"


def _panel(result: TuneResult, comparison: Comparison | None, op: str, params: Sequence[str]) -> None:
    from rich.markup import escape
    from rich.panel import Panel

    from tilewright.insight.result import call_line
    from tilewright.tuner.result import ENDS

    task = result.task
    lines = []
    if result.best and result.all_failed:
        stays = named_time(FINAL_TIME, result.best.seconds)
        lines.append(f"best       none in this run; the kernel of an earlier run stays, {stays}")
    elif result.best:
        best = result.best
        lines.append(f"{FINAL_TIME} {seconds(best.seconds)}, {rate(task, best.seconds, best.peak_fraction, here=True)}")
        if comparison and comparison.ratios:
            r = comparison.ratios[0]
            lines.append(f"{CALL_TIME}  {Gain(r.ratio, r.low, r.high).text('NumPy')}")
        lines.append(f"gain       {result.gain_text()}")
        lines.append(f"schedule   {best.template}: {' '.join(f'{k}={v}' for k, v in best.schedule.values.items())}")
        if note := result.search_note():
            lines.append(f"search     {note}")
        if result.kept:
            lines.append("           (the kernel of an earlier run won the final, and stays)")
    failed = ", ".join(f"{n} {k}" for k, n in result.failed.items()) or "none"
    if result.gate:
        lines.append(f"gate       {_gate(result.gate)}")
    lines.append(f"trials     {result.trials}, {result.structures} distinct structures, failed: {failed}")
    if result.ended != "trials":
        lines.append(f"ended      {ENDS[result.ended]}")
    lines.append(f"time       {result.seconds:.1f} s, {result.trials / max(result.seconds, 1e-9):.1f} trials a second")
    database = shown_path(result.database)
    lines.append(f"saved in   {database} as run {result.run}")
    target = f" --threads {task.target.threads}" if task.target.threads > 1 else ""
    if "://" in result.database:
        lines.append(f"next       {program()} db export --best best.db --db {database}")
    elif not result.best:
        lines.append(f"next       {program()} show {result.run} --db {database}")
    elif backend_for(task.target).in_process:
        lines.append(f"next       {program()} bench {op} {' '.join(params)}{target} --db {database}")
        lines.append(f"in Python  {call_line(task, (op, *params), database)}")
    else:
        target = f" --target {task.target.name}"
        lines.append(f"next       {program()} best {op} {' '.join(params)}{target} --source --db {database}")
    console().print(
        Panel(escape("\n".join(lines)), title=escape(task.workload.label), title_align="left", expand=False)
    )

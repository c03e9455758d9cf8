"""``tilewright bench``: a paired comparison of the stored kernel with other libraries."""

from __future__ import annotations

import click

from tilewright.backends import backend_of
from tilewright.cli.declare import declared, option
from tilewright.cli.options import DB, DTYPE, OP, PARAMS, THREADS, location, stored_workload
from tilewright.cli.output import rate, report, say, seconds, table
from tilewright.cli.paired import keep
from tilewright.core import Task, UsageError
from tilewright.units import CALL_TIME, Gain, counted, named_time


@declared("bench")
def command(
    op: str = OP,
    params: tuple[str, ...] = PARAMS,
    dtype: str | None = DTYPE,
    threads: int = THREADS,
    device: str = option(default="auto", help="Device that measures: cpu:0, cpu:0-1."),
    against: str = option(
        default="numpy,openblas",
        metavar="NAMES",
        help="Libraries to compare with, separated by commas: numpy, openblas, torch, torch-compile, memcpy.",
    ),
    rounds: int = option(low=3, default=21, help="Paired samples for each library."),
    db: str | None = DB,
) -> None:
    """Compare the stored kernel with other libraries, timed in turns in one process.

    A ratio above 1 says that the tuned kernel is faster.

    \b
    Examples:
      tilewright bench matmul m=512 n=512 k=512
      tilewright bench matmul m=512 n=512 k=512 --against numpy,openblas,torch --json
    """
    from tilewright.backends.cpu.device import parse_device
    from tilewright.backends.cpu.targets import parse_target
    from tilewright.baselines.compare import check_baselines, compare

    if device != "auto" and not backend_of(device).in_process:
        raise UsageError(
            f"bench compares kernels on processors, not on {device}",
            "For a GPU run benchmarks/gpu_acceptance.py: it compares with cuBLAS, cuDNN and Triton",
        )
    workload = stored_workload(op, params, dtype, db)
    baselines = [n.strip() for n in against.split(",") if n.strip()]
    check_baselines(baselines)
    where = parse_device(device, threads)
    backend = backend_of(where.name)
    for w in backend.warnings(where):
        say(f"{w}; the times are noisy")
    with backend.lock(where, lambda holder: click.echo(f"waiting for {where.name}: {holder}", err=True)):
        result = compare(
            location(db),
            workload,
            against=baselines,
            threads=threads,
            cores=where.cores,
            rounds=rounds,
        )
    keep(location(db), result)
    ours, peak, share = result.our_seconds, result.peak_flops, result.peak_fraction
    speed = rate(Task(workload, parse_target("auto", threads)), ours, share, here=True)
    rows = [
        (r.baseline, Gain(r.ratio, r.low, r.high).text(r.baseline), seconds(r.seconds), r.kernels or r.variant)
        for r in result.ratios
    ]
    rows += [(name, f"not compared: {why}", "", "") for name, why in result.skipped.items()]
    report(
        {
            "workload": workload.label, "threads": threads, "device": where.name, "call_seconds": ours, "seconds": ours,
            "gflops": workload.flops / ours / 1e9, "peak_gflops": peak / 1e9, "peak_fraction": share,
            "ratios": [{**vars(r), "rival": r.baseline, "way": r.variant} for r in result.ratios],
            "skipped": dict(result.skipped),
        },
        f"{workload.label}, {counted(threads, 'thread')}: {named_time(CALL_TIME, ours)} from Python, {speed}",
        table("library", "tuned is", f"its {CALL_TIME}", "its variant", rows=rows),
    )  # fmt: skip

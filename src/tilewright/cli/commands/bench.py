"""``tilewright bench``: the stored kernel beside other libraries, paired in one run."""

from __future__ import annotations

import click

from tilewright.backends import backend_of
from tilewright.cli.options import (
    db_option,
    json_option,
    operator_arguments,
    stored_workload,
    threads_option,
)
from tilewright.cli.output import console, emit_json, rate, say, seconds, table
from tilewright.cli.paired import keep
from tilewright.core import Task, UsageError
from tilewright.database.text import safe_text


@click.command("bench")
@operator_arguments
@threads_option
@click.option("--device", default="auto", show_default=True, help="Cores to measure on: cpu:0, cpu:0-1.")
@click.option(
    "--against",
    default="numpy,openblas",
    show_default=True,
    metavar="NAMES",
    help="numpy, openblas, torch, torch-compile, memcpy; by comma.",
)
@click.option("--rounds", type=click.IntRange(min=3), default=21, show_default=True, help="Paired samples a baseline.")
@db_option
@json_option
def command(
    op: str,
    params: tuple[str, ...],
    dtype: str | None,
    threads: int,
    device: str,
    against: str,
    rounds: int,
    db: str | None,
    as_json: bool,
) -> None:
    """Compare the stored kernel with other libraries: paired ratios in one run, above 1 is faster.

    \b
    Examples:
      tilewright bench matmul m=512 n=512 k=512
      tilewright bench matmul m=512 n=512 k=512 --against numpy,openblas,torch --json
    """
    from tilewright.backends.cpu.device import DeviceLock, noise_warnings, parse_device
    from tilewright.backends.cpu.targets import parse_target
    from tilewright.baselines.compare import check_baselines, compare
    from tilewright.paths import default_path

    if device != "auto" and not backend_of(device).in_process:
        raise UsageError(
            f"bench compares kernels on processors, not on {device}",
            "On a GPU, benchmarks/gpu_acceptance.py tunes and pairs kernels with cuBLAS, cuDNN and Triton",
        )
    workload = stored_workload(op, params, dtype, db)
    baselines = [n.strip() for n in against.split(",") if n.strip()]
    check_baselines(baselines)
    where = parse_device(device, threads)
    for w in noise_warnings():
        say(f"{w}; figures are noisy")
    with DeviceLock(where, on_wait=lambda holder: click.echo(f"waiting for {where.name}: {holder}", err=True)):
        result = compare(
            db or default_path(),
            workload,
            against=baselines,
            threads=threads,
            cores=where.cores,
            rounds=rounds,
        )
    keep(db or default_path(), result)
    ours = result.our_seconds
    peak = result.peak_flops
    share = result.peak_fraction
    if as_json:
        emit_json(
            {
                "workload": workload.label,
                "threads": threads,
                "device": where.name,
                "seconds": ours,
                "gflops": workload.flops / ours / 1e9,
                "peak_gflops": peak / 1e9,
                "peak_fraction": share,
                "ratios": [{**r.__dict__, "rival": r.baseline, "way": r.variant} for r in result.ratios],
                "skipped": dict(result.skipped),
            }
        )
        return
    out = console()
    task = Task(workload, parse_target("auto", threads))
    out.print(
        safe_text(
            f"{workload.label}, {threads} thread(s): {seconds(ours)} a call from Python, "
            f"{rate(task, ours, share, here=True)}"
        )
    )
    shown = table("baseline", "ours is faster by", "quartiles", "its time", "its variant")
    for r in result.ratios:
        shown.add_row(
            r.baseline, f"{r.ratio:.2f}x", f"{r.low:.2f} to {r.high:.2f}", seconds(r.seconds), r.kernels or r.variant
        )
    for name, why in result.skipped.items():
        shown.add_row(name, "-", why, "", "")
    out.print(shown)

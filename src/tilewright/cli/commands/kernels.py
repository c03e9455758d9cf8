"""``tilewright kernels``: what is stored, and would be served."""

from __future__ import annotations

import click

from tilewright.cli import complete
from tilewright.cli.options import db_option, json_option, matches, open_database, parse_params
from tilewright.cli.output import console, emit_json, say_none, seconds, table
from tilewright.database.text import safe_text


@click.command("kernels")
@click.argument("op", required=False, metavar="[OP]", shell_complete=complete.operators)
@click.argument("params", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=complete.parameters)
@db_option
@json_option
def command(op: str | None, params: tuple[str, ...], db: str | None, as_json: bool) -> None:
    """List the stored kernels, the best of each task, last changed first.

    OP: of this operator only, of whatever file it came from; KEY=VALUE: whose parameters are these.

    \b
    Examples:
      tilewright kernels
      tilewright kernels matmul dtype=bfloat16 --json
    """
    from tilewright.kernels.speed import speed

    asked = parse_params(params, None)
    with open_database(db) as database:
        kept = [k for k in database.kernels(op) if k.rank == 1 and matches(k.task.workload, asked)]
    if as_json:
        emit_json(
            {
                "kernels": [
                    {
                        "op": k.task.workload.op,
                        "params": dict(k.task.workload.params),
                        "workload": k.task.workload.label,
                        "target": k.task.target.name,
                        "threads": k.task.target.threads,
                        "device_model": k.device_model,
                        "seconds": k.seconds,
                        "gflops": k.task.workload.flops / k.seconds / 1e9,
                        "peak_fraction": k.peak_fraction,
                        "template": k.schedule.template,
                        "state": k.state,
                        "run": k.run_id,
                    }
                    for k in kept
                ]
            }
        )
        return
    if not kept:
        say_none("kernel", "Tune", op, params)
        return
    columns = ("workload", "target", "time", "rate", "template", "state", "run")
    shown = table(*columns, overflow="fold", whole="run")
    for k in kept:
        target = k.task.target
        shown.add_row(
            safe_text(k.task.workload.label),
            safe_text(f"{target.name} x{target.threads}"),
            seconds(k.seconds),
            speed(k.task.workload, k.seconds),
            safe_text(k.schedule.template),
            k.state,
            safe_text(k.run_id or "-"),
        )
    console().print(shown)

"""``tilewright kernels``: lists the stored kernels, which Library serves."""

from __future__ import annotations

from tilewright.cli.declare import declared, wants_json
from tilewright.cli.options import DB, OP_IF_ANY, PARAMS, matches, open_database, parse_params, stored_name
from tilewright.cli.output import kernel_json, report, say_none, seconds, table
from tilewright.units import FINAL_TIME


@declared("kernels")
def command(
    op: str | None = OP_IF_ANY,
    params: tuple[str, ...] = PARAMS,
    db: str | None = DB,
) -> None:
    """List the stored kernels, the fastest of each task, newest first.

    OP and KEY=VALUE limit the list to kernels of one operator (a name, or FILE.py:function) with the parameters.

    \b
    Examples:
      tilewright kernels
      tilewright kernels matmul dtype=bfloat16 --json
    """
    from tilewright.kernels.speed import speed

    asked = parse_params(params, None)
    with open_database(db) as database:
        kept = [k for k in database.kernels(op and stored_name(op)) if k.rank == 1 and matches(k.task.workload, asked)]
    if not kept and not wants_json():
        say_none("kernel", "Tune", op, params)
        return
    rows = (
        (
            k.task.workload.label, f"{k.task.target.name} x{k.task.target.threads}", seconds(k.seconds),
            speed(k.task.workload, k.seconds), k.schedule.template, k.state, k.run_id or "-",
        )
        for k in kept
    )  # fmt: skip
    columns = ("workload", "target", FINAL_TIME, "rate", "template", "state", "run")
    report({"kernels": [kernel_json(k) for k in kept]}, table(*columns, rows=rows, overflow="fold", whole="run"))

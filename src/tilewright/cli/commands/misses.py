"""``tilewright misses``: lists programs' look-ups that found no tuned kernel."""

from __future__ import annotations

from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import DB, open_database
from tilewright.cli.output import moment, report, say, table


@declared("misses")
def command(
    limit: int = option(low=1, default=20, metavar="N", help="Number of misses to list at most."),
    forget: bool = option(help="Remove all misses from the database."),
    db: str | None = DB,
) -> None:
    """List misses: look-ups of programs that found no tuned kernel, most work first.

    A program counts its misses if it opens tilewright.Library with a database that it can write.

    \b
    Examples:
      tilewright misses
      tilewright tune --from-misses --time-budget 30m
    """
    from tilewright.backends import parse_target
    from tilewright.tuner.from_misses import missed

    with open_database(db, readonly=not forget) as database:
        found = missed(database, parse_target("auto"))
        if forget:
            database.remove_misses([m.miss for m in found])
    shown = found[:limit]
    notes = [" (tuned since)" if m.tuned else f" ({m.problem})" if m.problem else "" for m in shown]
    cells = [(f"{m.miss.count:,}", moment(m.miss.last), m.command + n) for m, n in zip(shown, notes, strict=True)]
    rows = [
        {
            "operator": m.miss.op, "params": dict(m.miss.params), "calls": m.miss.count, "last": m.miss.last,
            "tuned": m.tuned, "problem": m.problem or None, "command": m.command,
        }
        for m in shown
    ]  # fmt: skip
    listed = [table("calls", "last", "command that tunes it", rows=cells, overflow="fold")] if found else []
    report({"misses": rows, "all": len(found)}, *listed)
    if not wants_json():
        left = (
            f"removed {len(found)} misses" if forget else "Tune them: tilewright tune --from-misses --time-budget 30m"
        )
        say(left if found else "no misses are stored")

"""``tilewright misses``: what programs asked for and did not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import DB, open_database
from tilewright.cli.output import moment, report, say, table

if TYPE_CHECKING:
    pass


@declared("misses")
def command(
    limit: int = option(low=1, default=20), forget: bool = option(help="Forget them all."), db: str | None = DB
) -> None:
    """List what programs asked for and did not have, by how much work it was.

    Programs count it that call tilewright.Library with a database that they can write. Operators of your own that
    bear no name here are tuned by their file.

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
    listed = [table("calls", "last", "what would tune it", rows=cells, overflow="fold")] if found else []
    report({"misses": rows, "all": len(found)}, *listed)
    if not wants_json():
        left = f"forgot {len(found)}" if forget else "tilewright tune --from-misses --time-budget 30m tunes them"
        say(left if found else "no misses are stored")

"""``tilewright misses``: what programs asked for and did not have."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.options import db_option, json_option, open_database
from tilewright.cli.output import console, emit_json, say, table
from tilewright.database.text import safe_text

if TYPE_CHECKING:
    from tilewright.tuner.from_misses import Missed


@click.command("misses")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--forget", is_flag=True, help="Forget them all.")
@db_option
@json_option
def command(limit: int, forget: bool, db: str | None, as_json: bool) -> None:
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
    if as_json:
        emit_json({"misses": [_row(m) for m in shown], "all": len(found)})
        return
    if not found:
        say("no misses are stored")
        return
    out = table("calls", "last", "what would tune it", overflow="fold")
    for m in shown:
        note = " (tuned since)" if m.tuned else f" ({m.problem})" if m.problem else ""
        last = time.strftime("%Y-%m-%d %H:%M", time.localtime(m.miss.last))
        out.add_row(f"{m.miss.count:,}", last, safe_text(m.command + note))
    console().print(out)
    if forget:
        say(f"forgot {len(found)}")
    else:
        say("tilewright tune --from-misses --time-budget 30m tunes them")


def _row(m: Missed) -> dict[str, Any]:
    return {
        "operator": m.miss.op, "params": dict(m.miss.params), "calls": m.miss.count, "last": m.miss.last,
        "tuned": m.tuned, "problem": m.problem or None, "command": m.command,
    }  # fmt: skip

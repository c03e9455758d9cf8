"""``tilewright lock``: write down which kernel answers each task."""

from __future__ import annotations

import click

from tilewright.cli.options import db_option, json_option
from tilewright.cli.output import report


@click.command("lock")
@click.option("-o", "--output", default="kernels.lock", show_default=True, metavar="FILE", help="The lock file.")
@db_option
@json_option
def command(output: str, db: str | None, as_json: bool) -> int:
    """Write a lock file: Library(DB, pinned=FILE) then serves just these kernels, whatever is tuned later.

    The file names kernels and holds none: keep it with the database that it was made of (tilewright db export
    --best makes a small one).

    \b
    Examples:
      tilewright lock --db serve.db
      tilewright lock --db serve.db -o kernels.lock --json
    """
    from tilewright.paths import default_path
    from tilewright.runtime.kernels import open_kernels
    from tilewright.runtime.pins import write_pins

    store = open_kernels(db or default_path())
    count = write_pins(output, store.every())
    report(as_json, {"file": output, "kernels": count}, f"{output} pins {count} kernel{'s' * (count != 1)}")
    return 0

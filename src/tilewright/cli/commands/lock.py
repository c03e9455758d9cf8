"""``tilewright lock``: writes a lock file, which pins Library to the kernels stored now."""

from __future__ import annotations

from tilewright.cli.declare import declared, option
from tilewright.cli.options import DB, location
from tilewright.cli.output import report


@declared("lock")
def command(
    output: str = option("-o", "--output", default="kernels.lock", metavar="FILE", help="Lock file to write."),
    db: str | None = DB,
) -> int:
    """Write a lock file: Library(DB, pinned=FILE) then serves only these kernels, whatever is tuned later.

    The file contains the kernels' names, not their code. Keep it with the database that it was made from; tilewright db
    export --best makes a small one.

    \b
    Examples:
      tilewright lock --db serve.db
      tilewright lock --db serve.db -o kernels.lock --json
    """
    from tilewright.runtime.kernels import open_kernels
    from tilewright.runtime.pins import write_pins

    store = open_kernels(location(db))
    count = write_pins(output, store.every())
    report({"file": output, "kernels": count}, f"{output} pins {count} kernel{'s' * (count != 1)}")
    return 0

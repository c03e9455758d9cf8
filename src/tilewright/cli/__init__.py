"""The ``tilewright`` command. One file a command; each imports what it needs when it runs."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Entry point of the console script."""
    # What imports make stays to the end: looking for garbage in it takes a fifth of a short command's time.
    gc.set_threshold(20_000)
    try:
        from tilewright.cli.app import run
    except ModuleNotFoundError as e:
        if e.name not in ("click", "rich"):
            raise
        sys.stderr.write(f"tilewright: the command line needs {e.name}. Run: pip install 'tilewright[tune]'\n")
        sys.exit(1)
    code = run()
    gc.freeze()
    sys.exit(code)

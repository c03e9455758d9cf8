"""The ``tilewright`` command. Each command is one file, which imports its dependencies when it runs."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Entry point of the console script."""
    # Imported objects live to the end: garbage collection among them takes a fifth of a short command's time.
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

"""The ``tilewright`` command. One file a command; each imports what it needs when it runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from tilewright.cli.app import run
    except ModuleNotFoundError as e:
        if e.name not in ("click", "rich"):
            raise
        sys.stderr.write(f"tilewright: the command line needs {e.name}. Install it: pip install 'tilewright[tune]'\n")
        sys.exit(1)
    sys.exit(run())

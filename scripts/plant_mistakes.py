"""Plant mistakes in a copy of the package, one at a time, and run the tests that must notice each.

``tests/mistakes.toml`` lists them: the file, the text and what replaces it, and the tests. A change that makes the test
suite smaller or faster runs this before and after::

    python scripts/plant_mistakes.py [--share=N] [NUMBER ...]

``--share``: as continuous integration runs the tests over kernels, one case in so many.

Exit code: 0 if every mistake was noticed, else 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent


def mistakes() -> list[dict[str, object]]:
    """The mistakes of the list, in its order."""
    listed: list[dict[str, object]] = tomllib.loads((ROOT / "tests" / "mistakes.toml").read_text("utf-8"))["mistake"]
    return listed


def noticed(mistake: dict[str, object], folder: Path, options: Sequence[str] = ()) -> bool:
    """Whether a test fails with the mistake planted.

    ``folder`` gets the copy of the package; ``options`` are those of pytest.
    """
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    file = source / "tilewright" / str(mistake["file"])
    file.write_text(file.read_text("utf-8").replace(str(mistake["text"]), str(mistake["mistake"])), "utf-8")
    tests = mistake["tests"]
    assert isinstance(tests, list)
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not nightly", "-p", "no:cacheprovider"]
    command += [*options, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 2):
        sys.exit(f"the tests {tests} do not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode != 0


def main(arguments: list[str]) -> int:
    missed = 0
    options = [a for a in arguments if a.startswith("--share=")]
    numbers = [a for a in arguments if a not in options]
    for number, mistake in enumerate(mistakes(), 1):
        if numbers and str(number) not in numbers:
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = noticed(mistake, Path(folder), options)
        missed += not found
        said = "noticed" if found else "NOT NOTICED"
        print(f"{number:2} {said:11} {time.monotonic() - begin:5.1f} s  {mistake['what']}", flush=True)
    print(f"{missed} mistakes were not noticed" if missed else "All mistakes were noticed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

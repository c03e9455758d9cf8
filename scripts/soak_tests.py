#!/usr/bin/env python3
"""Runs the test suite again and again, each time in another order, beside a busy loop on each core.

    python scripts/soak_tests.py                        five runs of what `make test` runs
    python scripts/soak_tests.py --runs 20 -- tests/cli tests/dashboard
    python scripts/soak_tests.py --runs 1 --seed 7      the order of seed 7 once more

What follows ``--`` goes to pytest. Files are shuffled, and the tests in each file, so that what a module sets up
serves all of its tests. The order of two tests depends on the seed and their names alone: fewer tests of the same seed
keep it. With several jobs, who runs what depends on their speed too; ``--jobs 0`` repeats an order exactly.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
PYTEST = "import sys; sys.path.append(sys.argv.pop(1)); import pytest; sys.exit(pytest.main())"
PATIENCE = 20.0  # seconds for pytest to end by itself after Ctrl-C


# --------------------------------------------------------------------------- the part inside pytest (-p soak_tests)


def rank(seed: int, item: pytest.Item) -> list[float]:
    """Where a test comes: by its file, then its class, then itself."""
    nodes = item.listchain()
    first = next(i for i, node in enumerate(nodes) if isinstance(node, pytest.File))
    return [random.Random(f"{seed} {node.nodeid}").random() for node in nodes[first:]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak")
    group.addoption("--soak-seed", type=int, help="the seed of the order")
    group.addoption("--soak-report", help="a file for what passed and failed")


@pytest.hookimpl(tryfirst=True)  # pytest then puts tests of one parameter of a fixture together again
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--soak-seed")
    if seed is not None:
        items.sort(key=lambda item: rank(seed, item))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--soak-report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Counter(Path(config.getoption("--soak-report"))))


class Counter:
    """What passed and failed, written down as it happens: a run that is killed has said most of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: dict[str, Any] = {"passed": 0, "skipped": 0, "failed": []}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed(report.nodeid)
        elif report.skipped:
            self.said["skipped"] += 1
        elif report.when == "call":
            self.said["passed"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._write()

    def _failed(self, name: str) -> None:
        if name not in self.said["failed"]:
            self.said["failed"].append(name)
            self._write()

    def _write(self) -> None:
        self.path.write_text(json.dumps(self.said), encoding="utf-8")


# --------------------------------------------------------------------------- the part that starts pytest


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that only compute."""
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            loops.append(subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True))
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


def one_run(seed: int, jobs: int, given: Sequence[str], log: Path) -> tuple[int, dict[str, Any]]:
    """Pytest's exit code, and what passed and failed."""
    report = log.with_suffix(".json")
    command = [
        sys.executable, "-c", PYTEST, str(Path(__file__).parent), "-q", "-n", str(jobs), "--dist", "worksteal",
        "-m", "not nightly", "-p", "soak_tests", f"--soak-seed={seed}", f"--soak-report={report}", *given,
    ]  # fmt: skip
    report.unlink(missing_ok=True)  # pytest would look for its settings beside a file that is there
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = child.wait()
        finally:
            end(child)
    said = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return code, {"passed": 0, "skipped": 0, "failed": [], **said}


def end(child: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does, so that fixtures stop what they started; then at once, with what it left behind."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE)
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def arguments() -> argparse.Namespace:
    words, given = sys.argv[1:], []
    if "--" in words:
        at = words.index("--")
        words, given = words[:at], words[at + 1 :]
    parser = argparse.ArgumentParser(
        usage="%(prog)s [options] [-- pytest's]", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=5, help="how often (5)")
    parser.add_argument("--seed", type=int, help="of the first run; each further one adds 1 (random)")
    parser.add_argument("--jobs", type=int, default=3, help="pytest's processes; 0: its own (3)")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="busy loops (one for each core)")
    parser.add_argument("--logs", type=Path, help="a folder for what pytest prints (a temporary one)")
    args = parser.parse_args(words)
    args.given = given
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1_000_000)
    return args


def main() -> int:
    args = arguments()
    logs: Path = args.logs or Path(tempfile.mkdtemp(prefix="soak-"))
    logs.mkdir(parents=True, exist_ok=True)
    failing: list[int] = []
    print(f"{args.runs} runs, {args.jobs} jobs, {args.busy} busy loops; what pytest prints: {logs}", flush=True)
    with busy(args.busy):
        for seed in range(args.seed, args.seed + args.runs):
            log = logs / f"seed-{seed}.txt"
            began = time.monotonic()
            code, said = one_run(seed, args.jobs, args.given, log)
            seconds = time.monotonic() - began
            counts = f"{said['passed']} passed, {len(said['failed'])} failed, {said['skipped']} skipped"
            print(f"seed {seed}: {seconds:.0f} s, {counts}" + (f", exit code {code}" if code else ""), flush=True)
            for name in said["failed"]:
                print(f"  {name}", flush=True)
            if code:
                failing.append(seed)
    for seed in failing:
        words = ["--runs", "1", "--seed", str(seed), "--jobs", str(args.jobs), "--busy", str(args.busy)]
        command = shlex.join([sys.executable, __file__, *words, *(["--", *args.given] if args.given else [])])
        print(f"{logs / f'seed-{seed}.txt'}; to repeat it:\n  {command}")
    return 1 if failing else 0


def stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)  # a shell's background jobs ignore it
    signal.signal(signal.SIGTERM, stop)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)

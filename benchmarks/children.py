"""What the benchmarks of networks share: each row is made by a child process, so a crash or a time-out is one, too."""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from itertools import cycle, islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from rows import Row, Rows
from tilewright.backends.cpu.device import device_model, measure_machine
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.measure.lifetime import die_with_parent

Make = Callable[..., Row]
"""A function of a module's top level: it runs in a child."""

LEAVING = 5.0
"""Seconds that a child has to end after its answer."""
GRACE = 0.5
"""Seconds that what a child started has to end by itself."""
ENDING = 0.05
"""Seconds between looks at children that are to end."""
_running: set[BaseProcess] = set()
_CONTEXT = multiprocessing.get_context("forkserver")


def preload(*modules: str) -> None:
    """Have these modules imported once for all children."""
    _CONTEXT.set_forkserver_preload(list(modules))


def in_child(make: Make, arguments: Sequence[Any], seconds: float, cores: Collection[int] = ()) -> Row:
    """What ``make(*arguments)`` returns in a process of its own; how it ended where it returns nothing in time.

    ``cores``: those that the process may use; all unless given.
    """
    here, there = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_run, args=(there, make, arguments, cores))
    process.start()
    _running.add(process)
    there.close()
    try:
        if not here.poll(seconds):
            return {"failed": f"no result after {seconds:.0f} s"}
        row: Row = here.recv()
        process.join(LEAVING)
        return row
    except EOFError:
        process.join()
        code = process.exitcode or 0
        return {"failed": f"crashed: {signal.Signals(-code).name if code < 0 else f'exit status {code}'}"}
    finally:
        _running.discard(process)
        _end(process)
        process.join()


def _run(answer: Connection, make: Make, arguments: Sequence[Any], cores: Collection[int]) -> None:
    os.setpgid(0, 0)  # compilers and workers of the child end with it
    if cores:
        os.sched_setaffinity(0, cores)
    die_with_parent(os.getppid())
    try:
        row = make(*arguments)
    except Exception as e:
        traceback.print_exc()
        row = {"failed": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"}
    answer.send(row)


def _end(process: BaseProcess) -> None:
    """End a child and what it started."""
    process.terminate()
    with contextlib.suppress(ProcessLookupError):
        assert process.pid  # 0 would be our own
        # A compiler that is killed leaves half a library in Inductor's cache, which ends whoever reads it.
        os.killpg(process.pid, signal.SIGTERM)
        process.join(GRACE)
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def missing(
    rows: Rows, asked: Iterable[tuple[Row, Make, Sequence[Any]]], seconds: float, jobs: int = 1
) -> Generator[Row]:
    """Make the rows that are not there yet, as they come: each the facts given and what its child adds.

    Of several ``jobs`` at once each has a core of its own: those that tune on one core wait for each other.
    """
    waiting = [a for a in asked if rows.key_of(a[0]) not in rows.rows]
    free: SimpleQueue[Collection[int]] = SimpleQueue()
    for core in islice(cycle(sorted(os.sched_getaffinity(0))), jobs):
        free.put((core,) if jobs > 1 else ())

    def made(make: Make, arguments: Sequence[Any]) -> Row:
        cores = free.get()
        try:
            return in_child(make, arguments, seconds, cores)
        finally:
            free.put(cores)

    with ThreadPoolExecutor(jobs) as pool:
        going = {pool.submit(made, make, arguments): facts for facts, make, arguments in waiting}
        try:
            for done in as_completed(going):
                yield rows.add({**going[done], **done.result()})
        finally:  # where it is interrupted, nobody waits for the others
            pool.shutdown(wait=False, cancel_futures=True)
            while wait(going, timeout=ENDING).not_done:
                for process in tuple(_running):
                    _end(process)


# --------------------------------------------------------------------------- the program around them


def options(description: str | None, what: str) -> argparse.ArgumentParser:
    """The options that these benchmarks have; ``what`` a row is of, as in ``problem``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help=f"{what}s whose name holds a TEXT")
    parser.add_argument("--check", action="store_true", help="compare the results with float64's")
    parser.add_argument("--tune", type=float, default=0.0, metavar="SECONDS", help=f"tune each {what}, and time it")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--timeout", type=float, default=300.0, help=f"seconds of a {what}, beside 3 times --tune")
    parser.add_argument("--jobs", type=int, default=2, help=f"{what}s at once, where none is timed")
    parser.add_argument("--out", help=f"write NAME.jsonl and NAME.md; {what}s that are in it are not repeated")
    parser.add_argument("--json", action="store_true", help="print the rows instead of the table")
    return parser


def budget(tune: float) -> Row:
    """Arguments of a tuner: so many seconds, or for a check the first kernel of each task."""
    return {"time_budget": tune} if tune else {"trials": 1, "cost_model": "random"}


def run(
    asked: Sequence[tuple[Row, Make, Sequence[Any]]], key: Sequence[str], args: argparse.Namespace, title: str,
    table: Callable[[Sequence[Row]], str],
) -> None:  # fmt: skip
    """Make the rows that are missing, and print and write all of them as a table, in the order asked for."""
    settings = {"tune": args.tune, "check": args.check or bool(args.tune)}
    facts = {"device": device_model(), "rounds": args.rounds}
    facts |= {**measure_machine(), "noise": noise_warnings()} if args.tune else {}
    rows = Rows(Path(f"{args.out}.jsonl") if args.out else None, settings, facts, key)
    for row in missing(rows, asked, args.timeout + 3 * args.tune, 1 if args.tune else args.jobs):
        said = row.get("failed") or ("taken whole" if row["whole"] else f"left: {', '.join(row['left'])}")
        print("/".join(str(row[k]) for k in key), said, file=sys.stderr, flush=True)
    chosen = [rows.rows[tuple(facts[k] for k in key)] for facts, _, _ in asked]
    text = f"{title}, {rows.head['device']}, {rows.head['date']}. "
    if args.tune:
        text += (
            f"Each was tuned for {args.tune:.0f} s. Ratios are the rival's time over ours (above 1: ours is faster), "
            f"medians of {rows.head['rounds']} paired rounds with the interval that holds the median. "
        )
    text = f"{text.strip()}\n\n{table(chosen)}\n"
    print(json.dumps({"machine": rows.head, "rows": chosen}) if args.json else text)
    if args.out:
        Path(f"{args.out}.md").write_text(text)

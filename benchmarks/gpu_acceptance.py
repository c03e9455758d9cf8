"""All that only a GPU can tell, in three commands with a hard deadline each. It runs from the source tree.

    python benchmarks/gpu_acceptance.py correctness --out DIR    is it right?
    python benchmarks/gpu_acceptance.py first-light --out DIR    how fast are prepared kernels, beside the libraries?
    python benchmarks/gpu_acceptance.py tune --out DIR           how fast are tuned ones?
    python benchmarks/gpu_acceptance.py status --out DIR         write what was seen into docs/gpu_status.md
    python benchmarks/gpu_acceptance.py prepare --out prepared   beforehand, without a GPU: what first-light takes

Each result is a line of DIR/COMMAND.jsonl as soon as it is known. Run again, a command goes on where it stopped. Exit
code 1: something is wrong; 3: something was not done. ``--driver emulator`` runs everything on small shapes without a
GPU; nothing that it times means anything.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).resolve().parent)]

from acceptance.children import Children, Job  # noqa: E402
from acceptance.rows import AGAIN, Row, Rows, Teller, line_of, read, wrong  # noqa: E402
from acceptance.shapes import ODD, TUNED, timed  # noqa: E402
from acceptance.world import World  # noqa: E402
from cuda_cases import Shape  # noqa: E402
from tilewright.backends.toolchain import CompileError, Rejected  # noqa: E402
from tilewright.core import Task, TilewrightError  # noqa: E402

DEADLINES = {"correctness": 300.0, "first-light": 540.0, "tune": 540.0}
"""Seconds that a command may take."""
PATIENCE = {"sanitizer": 120.0, "triton": 180.0}
"""Seconds that a child may take between two signs of life, where a minute is too little: slow tools, Triton tuning."""
AT_ONCE = max(4, (os.cpu_count() or 1) // 2)
"""Children of correctness, which times nothing, that run beside each other."""


# --------------------------------------------------------------------------- what a command consists of


def names(options: argparse.Namespace, world: World) -> Iterator[str]:
    """A command's jobs in order: a part, a slash, and what of it."""
    shapes = [s.workload for s in timed(world.emulated)]
    if options.command == "correctness":
        from acceptance.correctness import TOOLS, primitives
        from acceptance.serving import FRAMEWORKS

        yield from (f"conformance/{p}" for p in primitives(world))
        yield from (f"odd/{s.workload.label}" for s in ODD)
        yield from (f"serving/{what}" for what in (*FRAMEWORKS, "range"))
        yield from (f"sanitizer/{tool}" for tool in TOOLS)
    elif options.command == "first-light":
        yield from (f"light/{w.label}" for w in shapes)
        yield from (f"triton/{w.label}" for w in shapes if w.op in ("matmul", "attention"))
    else:
        yield from (f"tune/{w.label}" for w in (shapes if options.only else shapes[:TUNED]))


def jobs(options: argparse.Namespace, world: World, rows: Rows) -> Iterator[Job]:
    """The jobs that can be done here; what cannot becomes a row."""
    import importlib.util

    from acceptance.correctness import OPTIONS, sanitizer

    tool = sanitizer()
    missing_of = {"sanitizer": "" if tool else "compute-sanitizer is not installed"}
    if world.emulated:
        missing_of["triton"] = "Triton needs a GPU"
    elif importlib.util.find_spec("triton") is None:
        missing_of["triton"] = "Triton is not installed"
    wanted = options.only.split(",") if options.only else [""]
    for name in names(options, world):
        part, _, rest = name.partition("/")
        missing = missing_of.get(part, "")
        if not any(w in name for w in wanted):
            continue
        if missing:
            print(f"skipped   {name}  {missing}", flush=True)
            rows.add({"id": name, "state": "skipped", "message": missing})
            continue
        command = [sys.executable, __file__, options.command, "--out", str(options.out), "--child", name]
        command += ["--driver", world.driver.name, "--schedules", str(options.schedules), "--each", str(options.each)]
        command += ["--prepared", str(options.prepared)] if options.prepared else []
        before = (str(tool), "--tool", rest, *OPTIONS) if part == "sanitizer" else ()
        yield Job(name, (*before, *command), PATIENCE.get(part, 60.0), judged=part == "sanitizer")


def work(options: argparse.Namespace) -> int:
    """A child's part: the job that ``--child`` names."""
    from tilewright.measure.lifetime import die_with_parent

    die_with_parent(os.getppid())
    part, _, rest = options.child.partition("/")
    tell = Teller(())
    try:
        world = World(options.driver)
        known = [r for r in read(_file(options)) if r["device"] == world.place.device.model]
        tell = Teller(known)
        _do(part, rest, options, world, tell, known)
    except (CompileError, Rejected) as e:
        tell.row(options.child, "failed", message=line_of(e))
    except TilewrightError as e:
        tell.row(options.child, "skipped", message=line_of(e))
    return 0


def _do(
    part: str, rest: str, options: argparse.Namespace, world: World, tell: Teller, known: Sequence[Row]
) -> None:  # fmt: skip
    from acceptance import correctness, first_light

    wanted = first_light.Wanted(options.prepared, options.out, options.schedules)
    if part == "conformance":
        correctness.conform(world, tell, rest)
    elif part == "odd":
        correctness.odd(world, tell, _shape(ODD, rest))
    elif part == "sanitizer":
        correctness.sanitize(world, tell, rest)
    elif part == "serving":
        from acceptance.serving import serve

        serve(world, tell, rest, options.out)
    elif part == "tune":
        from acceptance.tuning import tuned

        tuned(world, tell, _shape(timed(world.emulated), rest), wanted, options.each, known)
    else:
        task = Task(_shape(timed(world.emulated), rest).workload, world.target)
        do = first_light.light if part == "light" else first_light.beside_triton
        do(world, tell, task, wanted, known)


def _shape(shapes: Sequence[Shape], label: str) -> Shape:
    return next(s for s in shapes if s.workload.label == label)


# --------------------------------------------------------------------------- the commands


def run(options: argparse.Namespace) -> int:
    """One of the three: its jobs in children, until all are done or the time is over."""
    begin = time.monotonic()
    end = begin + (options.seconds or DEADLINES[options.command])
    try:
        world = World(options.driver)
    except TilewrightError as e:
        print(f"nothing was run: {e}", file=sys.stderr)
        return 3
    facts = {"device": world.place.device.model, "date": time.strftime("%Y-%m-%d")}
    rows = Rows(_file(options), facts)
    children = Children(rows, end)
    undone = children.run(list(jobs(options, world, rows)), AT_ONCE if options.command == "correctness" else 1)
    states = Counter(r["state"] for r in rows)
    print(f"\n{options.command} on {facts['device']}, {time.monotonic() - begin:.0f} s: {rows.path}")
    print(", ".join(f"{n} {state}" for state, n in states.most_common()))
    if undone:
        print(f"the time was over before: {', '.join(undone)}")
    if any(wrong(r) for r in rows):
        return 1
    return 3 if undone or not states.keys().isdisjoint(AGAIN) else 0


def prepare(options: argparse.Namespace) -> int:
    """The shapes of first-light by ``tilewright prepare``, one folder each; those that are there stay."""
    from acceptance.first_light import slug
    from tilewright.building.prepared import FILE
    from tilewright.cli.app import run as tilewright

    emulated = options.driver == "emulator"
    worst = 0
    for shape in timed(emulated):
        folder = options.out / slug(shape.label)
        if (folder / FILE).is_file():
            print(f"{shape.label}: there already")
            continue
        words = ["prepare", shape.op, *(f"{k}={str(v).lower() if v is True else v}" for k, v in shape.params)]
        words += ["--target", options.target, "--out", str(folder), "--keep", str(options.schedules)]
        words += ["--verify", str(options.verify), *(["--device", "emulator"] if emulated else [])]
        worst = max(worst, tilewright(words))
    return worst


def status(options: argparse.Namespace) -> int:
    """What was seen on a GPU, into the page."""
    from acceptance.status import written

    before = options.page.read_text(encoding="utf-8")
    text, said = written(before, options.out)
    options.page.write_text(text, encoding="utf-8")
    print(said)
    return 0 if text != before else 3


def _file(options: argparse.Namespace) -> Path:
    return Path(options.out) / f"{options.command}.jsonl"


def _terminated(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    does: dict[str, Callable[[argparse.Namespace], int]] = {**dict.fromkeys(DEADLINES, run), "status": status}
    for name in (*DEADLINES, "prepare", "status"):
        sub = commands.add_parser(name)
        sub.add_argument("--out", type=Path, required=True, help="folder of the rows, or of what is prepared")
        if name != "status":
            sub.add_argument("--driver", choices=("cupy", "pycuda", "emulator"), help="[cupy, else pycuda]")
            sub.add_argument("--schedules", type=int, default=30, help="of a shape, beside the default [30]")
        if name in DEADLINES:
            sub.add_argument("--seconds", type=float, help=f"all of it at most [{DEADLINES[name]:g}]")
            sub.add_argument("--each", type=float, default=60.0, help="tune: seconds of trials a shape [60]")
            sub.add_argument("--prepared", type=Path, help="what `prepare` wrote")
            sub.add_argument("--only", help="jobs whose names hold one of these, comma separated")
            sub.add_argument("--child", help=argparse.SUPPRESS)
    commands.choices["prepare"].add_argument("--target", default="cuda:sm_90a", help="[cuda:sm_90a]")
    commands.choices["prepare"].add_argument("--verify", type=int, default=2, help="kernels to run on the emulator [2]")
    commands.choices["status"].add_argument("--page", type=Path, default=ROOT / "docs" / "gpu_status.md")
    options = parser.parse_args(argv)
    if getattr(options, "child", None):
        return work(options)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return {**does, "prepare": prepare}[options.command](options)
    except KeyboardInterrupt:
        print("stopped; run it again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""All that only a GPU can tell, in one command with a hard deadline. It runs from the source tree.

    python benchmarks/gpu_acceptance.py prepare --out prepared     beforehand, without a GPU: kernels to time
    python benchmarks/gpu_acceptance.py rent --out DIR --prepared prepared --minutes 8
    python benchmarks/gpu_acceptance.py programs --out DIR --minutes 10            whole networks beside PyTorch's ways
    python benchmarks/gpu_acceptance.py status --out DIR           write what was seen into docs/gpu_status.md

Parts of ``rent`` in order: smoke, is it right? light, how fast is it, beside the libraries? changed, more checks of
templates that changed since earlier rows; tune, what does some seconds of tuning find? triton, how fast is Triton?
``programs`` has one part, of that name: forward passes, first answers and training steps of whole networks.
Each result is a line of DIR/rent.jsonl, or DIR/programs.jsonl, as soon as it is known. Run again, it goes on where it
stopped. Exit code 1: something is wrong; 3: something was not done. ``--driver emulator`` runs everything on small
shapes without a GPU; nothing that it times means anything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).resolve().parent)]

from acceptance.children import Children, Job  # noqa: E402
from acceptance.comparing import changed, compared, rows_of  # noqa: E402
from acceptance.rows import AGAIN, SPOILT, Row, Rows, Teller, line_of, read, wrong  # noqa: E402
from acceptance.shapes import ODD, label_of, timed, tuned  # noqa: E402
from acceptance.world import World  # noqa: E402
from cuda_cases import Shape  # noqa: E402
from tilewright.backends.driver import DeviceError  # noqa: E402
from tilewright.backends.toolchain import CompileError, Rejected  # noqa: E402
from tilewright.core import TilewrightError  # noqa: E402

FILE = "rent.jsonl"
PROGRAMS = "programs"
"""The command that runs whole networks, its only part, and its file of rows."""
PARTS = {"smoke": 0.25, "light": 0.75, "changed": 0.85, "tune": 1.0, "triton": 1.0}
"""In order, and by which share of the time each ends at the latest."""
PATIENCE = {"sanitizer": 120.0, "triton": 120.0, PROGRAMS: 180.0}
PATIENT = 60.0
"""Seconds that a child may take between two signs of life; more for slow tools, and where Triton tunes."""
AT_ONCE = max(4, (os.cpu_count() or 1) // 2)
"""Children that run beside each other in parts that time nothing."""
TIMING = ("light", "tune", "triton", PROGRAMS)
OLD = sorted((ROOT / "benchmarks" / "results").glob("gpu_*/"))


# --------------------------------------------------------------------------- what a part consists of


def names(part: str, world: World, news: Collection[str]) -> Iterator[str]:
    """What a part does, in order: of which kind, a slash, and what. ``news``: templates that changed."""
    from acceptance.correctness import TOOLS, primitives
    from acceptance.serving import FRAMEWORKS, SEQUENCE

    if part == PROGRAMS:
        from acceptance.programs import names as of_programs

        yield from of_programs()
    elif part == "smoke":
        yield from (f"serving/{what}" for what in (*FRAMEWORKS, "range", SEQUENCE))
        yield from (f"conformance/{p}" for p in primitives(world))
        yield from (f"odd/{label_of(s)}" for s in ODD)
    elif part == "changed" and news:
        yield from (f"sanitizer/{tool}" for tool in TOOLS)
        yield from (f"more/{label_of(s)}" for s in ODD)
    elif part == "light":
        yield from (f"light/{label_of(s)}" for s in timed(world.emulated))
    elif part == "tune":
        yield from (f"tune/{label_of(s)}" for s in tuned(world.emulated))
    elif part == "triton":
        yield from (f"triton/{label_of(s)}" for s in tuned(world.emulated) if s.op in ("matmul", "attention"))


def wanted(part: str, options: argparse.Namespace, world: World, news: Collection[str], rows: Rows) -> list[str]:
    """Those that were asked for and can be done here; what cannot becomes a row."""
    import importlib.util

    from acceptance.correctness import sanitizer

    if part == PROGRAMS and importlib.util.find_spec("torch") is None:
        rows.add({"id": PROGRAMS, "state": "skipped", "message": "PyTorch is not installed"})
        return []
    missing = {"sanitizer": "" if sanitizer() else "compute-sanitizer is not installed"}
    if world.emulated:
        missing["triton"] = "Triton needs a GPU"
    elif importlib.util.find_spec("triton") is None:
        missing["triton"] = "Triton is not installed"
    found = []
    for name in names(part, world, news):
        problem = missing.get(name.partition("/")[0], "")
        if not any(w in f"{part}:{name}" for w in (options.only or "").split(",")):
            continue
        if problem:
            print(f"skipped   {name}  {problem}", flush=True)
            rows.add({"id": name, "state": "skipped", "message": problem})
        else:
            found.append(name)
    return found


def jobs(part: str, todo: Sequence[str], options: argparse.Namespace, world: World, end: float) -> list[Job]:
    """Children for a part: one where it times something, else several that share the work."""
    from acceptance.correctness import OPTIONS, sanitizer

    alone = [[name] for name in todo if name.startswith(("serving", "sanitizer", PROGRAMS))]
    shared = [name for name in todo if [name] not in alone]
    count = 1 if part in TIMING else AT_ONCE
    groups = [*alone, *filter(None, (shared[n::count] for n in range(count)))]
    found = []
    for group in groups:
        kind, _, rest = group[0].partition("/")
        command = [sys.executable, __file__, options.command, "--out", str(options.out), "--child", json.dumps(group)]
        command += ["--driver", world.driver.name, "--schedules", str(options.schedules), "--each", str(options.each)]
        command += ["--scratch", str(options.scratch), "--until", str(time.time() + end - time.monotonic())]
        command += ["--prepared", str(options.prepared)] if options.prepared else []
        command += ["--compare", *map(str, options.compare)]
        before = (str(sanitizer()), "--tool", rest, *OPTIONS) if kind == "sanitizer" else ()
        found.append(Job(tuple(group), (*before, *command), PATIENCE.get(kind, PATIENT)))
    return found


def work(options: argparse.Namespace) -> int:
    """A child's part: what ``--child`` names."""
    from tilewright.measure.lifetime import die_with_parent

    die_with_parent(os.getppid())
    todo: list[str] = json.loads(options.child)
    tell = Teller(())
    try:
        with World(options.driver) as world:
            known = [r for r in read(options.out / file_of(options)) if r["device"] == world.place.device.model]
            tell = Teller(known)
            for name in filter(tell.wants, todo):
                with tell.whole(name):
                    try:
                        _do(name, options, world, tell, known)
                    except (CompileError, Rejected) as e:
                        tell.row(name, "failed", message=line_of(e))
                    except TilewrightError as e:
                        tell.row(name, "skipped", message=line_of(e))
                        if isinstance(e, DeviceError) and e.sticky:
                            return SPOILT
    except TilewrightError as e:
        tell.row(todo[0], "skipped", message=line_of(e))
    return 0


def _do(name: str, options: argparse.Namespace, world: World, tell: Teller, known: Sequence[Row]) -> None:
    from acceptance import correctness, light

    kind, _, rest = name.partition("/")
    choice = light.Wanted(options.prepared, options.scratch, options.schedules)
    if kind == "conformance":
        correctness.conform(world, tell, rest)
    elif kind == "odd":
        correctness.odd(world, tell, _shape(ODD, rest))
    elif kind == "more":
        correctness.more(world, tell, _shape(ODD, rest), changed(rows_of(options.compare)))
    elif kind == "sanitizer":
        correctness.sanitize(world, tell, rest, changed(rows_of(options.compare)))
    elif kind == "serving":
        from acceptance.serving import serve

        serve(world, tell, rest, options.scratch)
    elif kind == PROGRAMS:
        from acceptance.programs import measured

        measured(world, tell, name, options.scratch / PROGRAMS, options.each, known)
    elif kind == "light":
        light.light(world, tell, _shape(timed(world.emulated), rest), choice, known)
    elif kind == "triton":
        light.beside_triton(world, tell, _shape(tuned(world.emulated), rest), choice, known)
    else:
        from acceptance import tuning

        left = options.until - time.time()
        tuning.tuned(world, tell, _shape(tuned(world.emulated), rest), choice, options.each, left, known)


def _shape(shapes: Sequence[Shape], label: str) -> Shape:
    return next(s for s in shapes if label_of(s) == label)


# --------------------------------------------------------------------------- the commands


def file_of(options: argparse.Namespace) -> str:
    """The name of a command's file of rows."""
    return f"{PROGRAMS}.jsonl" if options.command == PROGRAMS else FILE


def rent(options: argparse.Namespace) -> int:
    """Part after part in children, until all is done or the time is over."""
    begin, length = time.monotonic(), 60.0 * options.minutes
    options.scratch = options.scratch or options.out / "scratch"
    options.scratch.mkdir(parents=True, exist_ok=True)
    try:
        world = World(options.driver)
    except TilewrightError as e:
        print(f"nothing was run: {e}", file=sys.stderr)
        return 3
    device = world.place.device.model
    rows = Rows(options.out / file_of(options), {"device": device, "date": time.strftime("%Y-%m-%d")})
    old = rows_of(options.compare)
    news = changed(old)
    if news:
        print(f"changed since {len(old)} earlier rows: {', '.join(sorted(news))}", flush=True)
    parts = {PROGRAMS: 1.0} if options.command == PROGRAMS else PARTS
    undone = {part: wanted(part, options, world, news, rows) for part in parts}
    tried: set[str] = set()
    for part, share in [*parts.items(), *dict.fromkeys(parts, 1.0).items()]:  # again what a share was too short for
        todo = [name for name in undone[part] if name not in tried]
        if busy := world.others():
            rows.add({"id": f"others/{part}", "state": "note", "message": f"{busy} other processes use the device"})
        began, end = time.monotonic(), begin + share * length
        every = jobs(part, todo, options, world, end)
        for beside in [[job] for job in every] if part == PROGRAMS else [every]:  # programs would disturb each other
            Children(rows, end).run(beside)
        if todo:
            print(f"-- {part}: {time.monotonic() - began:.0f} s", flush=True)
        tried.update(r["id"] for r in rows if r["id"] in todo)
        undone[part] = [name for name in undone[part] if not rows.done(name)]
    left = [name for names in undone.values() for name in names]
    for name in {*left} - {r["id"] for r in rows}:
        rows.add({"id": name, "state": "skipped", "message": "the time was over"})
    states = Counter(r["state"] for r in rows)
    if options.command == PROGRAMS:
        from acceptance.programs import summary

        text = summary(list(rows))
    else:
        text = compared(old, list(rows), device)
        (options.out / "compared.md").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\n\non {device}, {time.monotonic() - begin:.0f} s: {rows.path}")
    print(", ".join(f"{n} {state}" for state, n in states.most_common()))
    if left:
        print(f"not done: {', '.join(left)}")
    if any(wrong(r) for r in rows):
        return 1
    return 3 if left or not states.keys().isdisjoint(AGAIN) else 0


def prepare(options: argparse.Namespace) -> int:
    """The default and its best neighbours of every shape by ``tilewright prepare``, one folder each; those that are
    there already stay, unless templates changed since."""
    from acceptance.light import slug
    from tilewright.building.prepared import CACHE
    from tilewright.cli.app import run as tilewright

    emulated = options.driver == "emulator"
    worst = 0
    for shape in dict.fromkeys((*timed(emulated), *tuned(emulated))):
        label = label_of(shape)
        folder = options.out / slug(label)
        if _current(folder):
            print(f"{label}: there already")
            continue
        words = ["prepare", shape.op, *(f"{k}={str(v).lower() if v is True else v}" for k, v in shape.params)]
        words += ["--target", options.target, "--out", str(folder), "--keep", str(options.schedules), "--near", "1"]
        words += ["--pool", str(options.pool), "--verify", str(options.verify)]
        code = tilewright([*words, *(["--device", "emulator"] if emulated else [])])
        shutil.rmtree(folder / CACHE, ignore_errors=True)  # the kernels lie beside it
        worst = max(worst, 0 if code == 2 else code)  # a shape that the language does not take is for rent to tell
    return worst


def _current(folder: Path) -> bool:
    """Whether a folder holds the default, and all that it holds is legal."""
    from tilewright.building.prepared import FILE, read
    from tilewright.kernels.templates import default_schedule, task_space

    if not (folder / FILE).is_file():
        return False
    try:
        loaded = read(folder)
        space = task_space(loaded.task)
        for candidate, _ in loaded.items:
            space.check(candidate.schedule)
    except TilewrightError:
        return False
    return any(c.schedule == default_schedule(loaded.task) for c, _ in loaded.items)


def status(options: argparse.Namespace) -> int:
    """What was seen on a GPU, into the page."""
    from acceptance.status import written

    before = options.page.read_text(encoding="utf-8")
    text, said = written(before, options.out)
    options.page.write_text(text, encoding="utf-8")
    print(said)
    return 0 if text != before else 3


def _terminated(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    does = {"rent": rent, PROGRAMS: rent, "prepare": prepare, "status": status}
    for name in does:
        sub = commands.add_parser(name)
        sub.add_argument("--out", type=Path, required=True, help="folder of the rows, or of what is prepared")
        if name != "status":
            kept = 4 if name == "prepare" else 2
            sub.add_argument("--driver", choices=("cupy", "pycuda", "emulator"), help="[cupy, else pycuda]")
            sub.add_argument("--schedules", type=int, default=kept, help=f"of a shape, beside the default [{kept}]")
    for name, minutes, each in (("rent", 8.0, 20.0), (PROGRAMS, 10.0, 12.0)):
        one = commands.choices[name]
        one.add_argument("--minutes", type=float, default=minutes, help=f"all of it at most [{minutes:g}]")
        one.add_argument(
            "--each", type=float, default=each, help=f"seconds of trials a shape, or of tuning a program [{each:g}]"
        )
        one.add_argument("--prepared", type=Path, help="what `prepare` wrote")
        one.add_argument("--scratch", type=Path, help="folder of databases and of compiled code [OUT/scratch]")
        one.add_argument("--only", help="what holds one of these in PART:KIND/SHAPE, comma separated")
        one.add_argument("--compare", type=Path, nargs="*", default=OLD, help="folders of earlier rows [committed]")
        one.add_argument("--child", help=argparse.SUPPRESS)
        one.add_argument("--until", type=float, help=argparse.SUPPRESS)
    two = commands.choices["prepare"]
    two.add_argument("--target", default="cuda:sm_90a", help="[cuda:sm_90a]")
    two.add_argument("--pool", type=int, default=64, help="neighbours to rank [64]")
    two.add_argument("--verify", type=int, default=0, help="kernels of each to run on the emulator [0]")
    commands.choices["status"].add_argument("--page", type=Path, default=ROOT / "docs" / "gpu_status.md")
    options = parser.parse_args(argv)
    if getattr(options, "child", None):
        return work(options)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return does[options.command](options)
    except KeyboardInterrupt:
        print("stopped; run it again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""Hardware counters of kernels beside their bounds, by NVIDIA's profiler ``ncu`` on a GPU, with a hard deadline.

    python benchmarks/gpu_profile.py --out DIR [--prepared FOLDER] [--minutes 1.5] ["matmul m=512 n=512 k=512" ...]

Each shape's default schedule, compiled as it was prepared (by ``gpu_acceptance.py prepare`` or ``tilewright prepare``),
else now; without shapes those that first-light times. Each is a line of DIR/profile.jsonl. Run again, it goes on where
it stopped. Exit code 3: counters cannot be read here, or the deadline left something undone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).resolve().parent)]

from acceptance.rows import Rows  # noqa: E402
from acceptance.shapes import timed  # noqa: E402
from cuda_cases import Shape, parse_shape  # noqa: E402
from tilewright.building import prepared  # noqa: E402
from tilewright.checking.check import subject_of  # noqa: E402
from tilewright.checking.machine_code import compiled_costs  # noqa: E402
from tilewright.core import Artifact, Candidate, Target, TargetUnavailable, Task, TilewrightError  # noqa: E402
from tilewright.insight.counters import Profile, Read, Reader, read_subject  # noqa: E402
from tilewright.kernels.templates import default_schedule  # noqa: E402

TOGETHER = 4
"""Kernels that one run of ncu profiles: it takes seconds to start."""
LEAST = 10.0
"""Seconds without which no run of ncu is begun."""

Items = dict[str, tuple[Candidate, Artifact]]


def found_in(root: Path | None, target: Target) -> Items:
    """The default schedules prepared for this architecture, else the best ones, by the workload's key."""
    items: Items = {}
    for folder in prepared.folders(root) if root is not None else ():
        loaded = prepared.read(folder)
        if loaded.task.target.name != target.name or loaded.emulated or not loaded.items:
            continue
        default = default_schedule(loaded.task)
        items[loaded.task.workload.key] = next((x for x in loaded.items if x[0].schedule == default), loaded.items[0])
    return items


def read(shape: Shape, target: Target, items: Items) -> Read:
    """A shape's kernel, compiled, with the bound that this device gives it. Raises ``TilewrightError``."""
    task = Task(shape.workload, target)
    if task.workload.key not in items:
        return read_subject(subject_of(Candidate(task, default_schedule(task))))
    candidate, artifact = items[task.workload.key]
    subject = replace(subject_of(candidate), target=target, program=artifact.program)
    code = Path(artifact.path).read_bytes()
    [costs] = compiled_costs([subject], code)
    return Read(subject, code, costs)


def profile_all(shapes: Sequence[Shape], reader: Reader, items: Items, rows: Rows, end: float) -> list[str]:
    """Profile shapes, some together, until ``end`` (of ``time.monotonic``); those that were left undone."""
    left = [s for s in shapes if not rows.done(_name(s))]
    while left and end - time.monotonic() > LEAST:
        group, left = left[:TOGETHER], left[TOGETHER:]
        compiled: list[tuple[Shape, Read]] = []
        for shape in group:
            try:
                compiled.append((shape, read(shape, reader.place.target, items)))
            except TilewrightError as e:
                rows.add({"id": _name(shape), "state": "failed", "message": str(e)})
        for shape, item, seen in _profiled(compiled, reader, end):
            _add(rows, shape, item, seen)
    return [s.label for s in left]


Seen = tuple[Profile, ...] | TilewrightError


def _profiled(compiled: Sequence[tuple[Shape, Read]], reader: Reader, end: float) -> list[tuple[Shape, Read, Seen]]:
    """Together; where that fails, each by itself, so that one costs no other."""
    if not compiled:
        return []
    try:
        seen: list[Seen] = reader.profiles([x for _, x in compiled], max(1.0, end - time.monotonic()))
    except TargetUnavailable:
        raise
    except TilewrightError as e:
        if len(compiled) > 1 and end - time.monotonic() > LEAST:
            return [x for one in compiled for x in _profiled([one], reader, end)]
        seen = [e] * len(compiled)
    return [(shape, item, s) for (shape, item), s in zip(compiled, seen, strict=True)]


def _add(rows: Rows, shape: Shape, item: Read, seen: Seen) -> None:
    schedule = item.subject.schedule
    row: dict[str, Any] = {"id": _name(shape), "schedule": schedule.to_json() if schedule else None}
    if isinstance(seen, TilewrightError):
        row |= {"state": "failed", "message": str(seen)}
    else:
        row |= {"state": "measured", "profiles": [p.to_json() for p in seen]}
    rows.add(row)
    print(f"{row['state']:<10}{shape.label}", flush=True)
    for p in () if isinstance(seen, TilewrightError) else seen:
        ratios = (f"{r.name} {r.share:.0%}" for r in p.resources if r.share is not None)
        bound = f", bound {p.reached:.0%} of it by {p.by}" if p.reached is not None else ""
        print(f"  {p.cycles:.4g} clocks{bound}: {', '.join(ratios)}", flush=True)


def _name(shape: Shape) -> str:
    return f"profile/{shape.label}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", type=parse_shape, metavar="SHAPE", help="operator and sizes, in one word")
    parser.add_argument("--out", type=Path, required=True, help="folder of profile.jsonl")
    parser.add_argument("--prepared", type=Path, help="folder of prepared kernels")
    parser.add_argument("--minutes", type=float, default=1.5, help="deadline [1.5]")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    try:
        reader = Reader.find()
        facts = {"device": reader.place.device.model, "date": time.strftime("%Y-%m-%d")}
        rows = Rows(options.out / "profile.jsonl", facts)
        items = found_in(options.prepared, reader.place.target)
        left = profile_all(options.shapes or timed(emulated=False), reader, items, rows, end)
    except TilewrightError as e:
        print(f"gpu_profile: {e}", file=sys.stderr)
        return 3
    for label in left:
        print(f"not done: {label}", file=sys.stderr)
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main())

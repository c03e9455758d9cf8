"""Do the checks notice mistakes? Mutants of every CUDA template's kernels, run on the emulator.

    python benchmarks/cuda_mutants.py --out benchmarks/results/cuda_mutants
    python benchmarks/cuda_mutants.py --quick

Each mutant is one mistake in the generated text (kinds: see benchmarks/mutants.py): a barrier, wait, commit,
guard or reset left out, or an index, address or pipeline constant off by one. A mutant is killed by
a bug or a wrong result in any of three thread orders, or else under a sanitizer. Survivors that cannot be
told from the original by any run are listed with the reason in benchmarks/cuda_mutants_equivalent.json and
leave the score; all others count against it.

The kernels chosen for each template bring out all of its code paths; further random schedules are added with
--extra. Results are kept in NAME.jsonl as they come: run again, it goes on where it stopped. Exit code 1 if
less than 95% are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from cuda_cases import DEEP, Shape, cuda_templates, parse_shape, say, shapes_of
from mutant_runs import run_mutants
from mutants import KINDS, mutants
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.checking.check import Checker, Subject, subject_of
from tilewright.core import Candidate, Schedule, Task, TilewrightError
from tilewright.kernels.templates import get_template

WANTED = 0.95
CONTRACTIONS = ("cuda_simt", "cuda_mma", "cuda_wgmma", "cuda_grouped", "cuda_grouped_wgmma")
"""Templates whose kernels go round a ring of tiles."""
PERSISTENT = ("cuda_wgmma", "cuda_grouped_wgmma")
"""Templates whose blocks walk over tiles: on so few multiprocessors they have several of the small shapes each."""
FEW_SMS = 2
ARCH = "sm_90a"
EQUIVALENT = Path(__file__).resolve().parent / "cuda_mutants_equivalent.json"


@dataclass(frozen=True)
class Kernel:
    """A kernel to be mutated: a template's schedule at a shape."""

    template: str
    shape: Shape
    schedule: Schedule
    subject: Subject

    @property
    def key(self) -> str:
        return sha256((self.shape.label + self.subject.source).encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        return f"{self.shape.label}: {' '.join(f'{k}={v}' for k, v in self.schedule.values.items())}"


def feature_lines(source: str) -> set[str]:
    """The distinct lines of a kernel, numbers aside: what code paths it has."""
    return {re.sub(r"\b\d+\b|0x[0-9a-f]+|tw_[0-9a-f]{20}", "#", line.strip()) for line in source.split("\n")} - {""}


def covering(template: str, tries: int, most: int, seed: int = 0) -> list[Kernel]:
    """Few kernels that together have (nearly) every line that ``tries`` random ones have, chosen greedily."""
    target = cuda_target(ARCH)
    if template in PERSISTENT:
        target = replace(target, limits=tuple((k, FEW_SMS if k == "sms" else v) for k, v in target.limits))
    rng = random.Random(f"{seed} {template}")
    shapes = DEEP.get(template) or shapes_of(template, target)
    pool: list[tuple[Kernel, set[str]]] = []
    for n in range(tries):
        shape = shapes[n % len(shapes)]
        task = Task(shape.workload, target)
        chosen = get_template(template)
        schedule = chosen.default(task) if n < len(shapes) else chosen.space(task).sample(rng)
        if not goes_round(task, schedule, shape):
            continue
        subject = subject_of(Candidate(task, schedule))
        pool.append((Kernel(template, shape, schedule, subject), feature_lines(subject.source)))
    found: list[Kernel] = []
    covered: set[str] = set()
    while pool and len(found) < most:
        # New lines for their length: short kernels have fewer mutants that say the same.
        best = max(pool, key=lambda p: (len(p[1] - covered) ** 2 / len(p[1]), p[0].key))
        if not best[1] - covered:
            break
        found.append(best[0])
        covered |= best[1]
        pool.remove(best)
    return found


def goes_round(task: Task, schedule: Schedule, shape: Shape) -> bool:
    """Whether each piece of K has more tiles than the pipeline has stages: else much of it never matters."""
    if schedule.template not in CONTRACTIONS:
        return True
    sizes = dict(shape.params)
    depth = int(sizes.get("k") or int(sizes["ci"]) * int(sizes["kh"]) * int(sizes["kw"]))
    known = get_template(schedule.template).static(task, schedule)
    return depth / known["tile_k"] / known["split_k"] >= known["stages"] + 2


class Log:
    """Verdicts by kernel in a file of JSON lines; safe from several threads."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.rows: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # the last line of a run that was killed
                self.rows[row["kernel"]] = row

    def add(self, row: dict[str, Any]) -> None:
        with self.lock:
            self.rows[row["kernel"]] = row
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a") as f:
                    f.write(json.dumps(row) + "\n")


def examine(
    kernel: Kernel, cache: Path | None = None, sample: int | None = None, sanitize: bool = True
) -> dict[str, Any]:
    """Run a kernel's mutants (or a ``sample`` of them); a row of the log."""
    began = time.perf_counter()
    found = mutants(kernel.subject.source)
    if sample is not None and len(found) > sample:
        found = random.Random(kernel.key).sample(found, sample)
    checker = Checker(kernel.subject.workload, first=True, cache=cache)
    verdicts = [v.to_json() for v in run_mutants(kernel.subject, checker, found=found, sanitize=sanitize)]
    return {
        "kernel": kernel.key, "template": kernel.template, "shape": kernel.shape.label,
        "schedule": dict(kernel.schedule.values), "seconds": round(time.perf_counter() - began, 1),
        "source": kernel.subject.source, "verdicts": verdicts,
    }  # fmt: skip


def equivalents(path: Path = EQUIVALENT) -> list[dict[str, Any]]:
    """Mutants known to change nothing. Regular expressions: ``template`` and ``change`` (and ``text``, the
    line; ``source``, the kernel), ``unless`` for what must not be in the kernel; ``at_most`` names a knob that
    the first group of ``change`` must not exceed, ``schedule`` gives knobs' values, ``shape`` is the workload's
    label. ``reason`` says why no run can tell."""
    data: list[dict[str, Any]] = json.loads(path.read_text())["equivalent"] if path.exists() else []
    return data


def explained(row: dict[str, Any], verdict: dict[str, Any], known: Sequence[dict[str, Any]]) -> str | None:
    """Why a survivor cannot be killed, if that is known."""
    for e in known:
        change = re.search(e["change"], verdict["change"])
        if (
            change is None
            or not re.fullmatch(e["template"], row["template"])
            or not re.fullmatch(e["kind"], verdict["kind"])
            or not re.search(e.get("text", ""), verdict["text"])
            or not re.search(e.get("source", ""), row["source"])
            or not re.search(e.get("shape", ""), row["shape"])
            or ("unless" in e and re.search(e["unless"], row["source"]))
            or any(row["schedule"].get(k) != v for k, v in e.get("schedule", {}).items())
            or ("at_most" in e and int(change.group(1)) > int(row["schedule"].get(e["at_most"], 0)))
        ):
            continue
        return str(e["reason"])
    return None


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts by template and kind, and the survivors."""
    known = equivalents()
    counts: dict[str, dict[str, dict[str, int]]] = {}
    survivors: list[dict[str, Any]] = []
    by: dict[str, int] = {}
    for row in rows:
        kinds = counts.setdefault(row["template"], {})
        for v in row["verdicts"]:
            state = v["state"]
            reason = explained(row, v, known) if state == "survived" else None
            if reason:
                state = "equivalent"
            c = kinds.setdefault(v["kind"], {})
            c[state] = c.get(state, 0) + 1
            if v["state"] == "survived":
                about = {k: v[k] for k in ("kind", "line", "change", "text")}
                survivors.append({"template": row["template"], "shape": row["shape"], **about, "reason": reason,
                                  "schedule": row["schedule"]})  # fmt: skip
            if v["state"] == "killed":
                how = f"{v['by']}{' under a sanitizer' if re.search('address|thread', v['how']) else ''}"
                by[how] = by.get(how, 0) + 1
    total = _sum(k for kinds in counts.values() for k in kinds.values())
    born = sum(total.values()) - total["stillborn"]
    share = round(total["killed"] / born, 4) if born else 1.0
    return {
        "counts": counts,
        "total": total,
        "score": _score(total),
        "killed_of_all": share,
        "killed_by": by,
        "survivors": survivors,
    }


def _sum(parts: Any) -> dict[str, int]:
    out = dict.fromkeys(("killed", "survived", "equivalent", "stillborn", "unchecked"), 0)
    for p in parts:
        for k, n in p.items():
            out[k] += n
    return out


def _score(c: dict[str, int]) -> float:
    judged = c.get("killed", 0) + c.get("survived", 0) + c.get("unchecked", 0)
    return c.get("killed", 0) / judged if judged else 1.0


def table(data: dict[str, Any]) -> str:
    """The summary as Markdown, then the survivors and their reasons."""
    lines = [
        "| template | kind | killed | survived | equivalent | do not compile | share killed |",
        "|---|" + "---|" * 6,
    ]
    for template, kinds in data["counts"].items():
        for kind in [*(k for k in KINDS if k in kinds), "all"]:
            c = _sum(kinds.values()) if kind == "all" else _sum([kinds[kind]])
            lines.append(
                f"| {template} | {kind} | {c['killed']} | {c['survived'] + c['unchecked']} | {c['equivalent']} "
                f"| {c['stillborn']} | {100 * _score(c):.1f}% |"
            )
    lines += [
        "",
        "Killed by: " + ", ".join(f"{k} {n}" for k, n in sorted(data["killed_by"].items(), key=lambda p: -p[1])),
    ]
    groups: dict[tuple[str, str, str], int] = {}
    for s in data["survivors"]:
        what = re.sub(r"\d+", "#", f"{s['change']}  in  {s['text']}")
        key = (s["template"], s["reason"] or "NOT EXPLAINED", f"{s['kind']}: `{what}`")
        groups[key] = groups.get(key, 0) + 1
    if groups:
        lines += ["", "Survivors (numbers as #):", ""]
    for (template, reason, what), n in sorted(groups.items()):
        lines.append(f"- {template}, {n}x {what} - {reason}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--templates", nargs="+", default=None)
    parser.add_argument("--kernels", type=int, default=12, help="kernels of each template, at most")
    parser.add_argument("--tries", type=int, default=600, help="random kernels from which these are chosen")
    parser.add_argument("--sample", type=int, default=None, help="mutants of each kernel, at most")
    parser.add_argument("--minutes", type=float, default=None, help="start no kernel after so long")
    parser.add_argument("--quick", action="store_true", help="two kernels a template, 25 mutants each")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shape", help="mutate the default schedule of one shape: 'matmul m=33 n=65 k=17'")
    parser.add_argument("--out", help="NAME: verdicts go to NAME.jsonl, results to NAME.json and NAME.md")
    args = parser.parse_args()
    if args.quick:
        args.kernels, args.sample, args.tries = 2, 25, 40
    log = Log(Path(f"{args.out}.jsonl") if args.out else None)
    chosen: list[Kernel] = []
    for template in args.templates or cuda_templates():
        if args.shape:
            chosen.append(default_kernel(template, parse_shape(args.shape)))
        else:
            chosen += covering(template, args.tries, args.kernels, args.seed)
    todo = [k for k in chosen if k.key not in log.rows]
    say(f"{len(chosen)} kernels, {len(chosen) - len(todo)} of them known from before")
    began = time.monotonic()
    complete = True

    def work(kernel: Kernel) -> None:
        nonlocal complete
        if args.minutes is not None and time.monotonic() - began > 60 * args.minutes:
            complete = False
            return
        try:
            row = examine(kernel, sample=args.sample)
        except TilewrightError as e:
            complete = False
            say(f"{kernel.template} {kernel.label}: {e}")
            return
        log.add(row)
        states = [v["state"] for v in row["verdicts"]]
        say(
            f"{kernel.template} {kernel.label}: {states.count('killed')} of {len(states)} killed, "
            f"{states.count('survived')} survived, {row['seconds']} s"
        )

    pool = ThreadPoolExecutor(args.jobs)
    try:
        for f in [pool.submit(work, k) for k in todo]:
            f.result()
    except KeyboardInterrupt:
        complete = False
        pool.shutdown(wait=False, cancel_futures=True)
        say("stopped early; what was found is kept, run again to go on")
    rows = [log.rows[k.key] for k in chosen if k.key in log.rows]
    data = {
        "date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "architecture": ARCH, "complete": complete,
        "kernels": len(rows), "seconds": round(sum(r["seconds"] for r in rows), 1), **summary(rows),
    }  # fmt: skip
    total = data["total"]
    text = (
        f"{sum(total.values())} mutants of {len(rows)} kernels for {ARCH}, {data['date']}"
        f"{'' if complete else ', not complete'}: {total['killed']} killed, {total['survived']} survived unexplained, "
        f"{total['equivalent']} equivalent, {total['stillborn']} do not compile; {100 * data['score']:.1f}% killed "
        f"({100 * data['killed_of_all']:.1f}% with the equivalent ones counted as alive).\n\n"
        f"{table(data)}\n"
    )
    print(text)
    if args.out:
        Path(f"{args.out}.json").write_text(json.dumps(data, indent=1) + "\n")
        Path(f"{args.out}.md").write_text(text)
    return 130 if not complete else 1 if data["score"] < WANTED else 0


def default_kernel(template: str, shape: Shape) -> Kernel:
    """A template's default schedule at a shape."""
    task = Task(shape.workload, cuda_target(ARCH))
    schedule = get_template(template).default(task)
    return Kernel(template, shape, schedule, subject_of(Candidate(task, schedule)))


if __name__ == "__main__":
    sys.exit(main())

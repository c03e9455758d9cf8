"""A farm and its clients for minutes on a machine that fails all the time, and what is wrong with their history.

    python benchmarks/farm_history.py --minutes 30 --seed 1

Runners of two device classes, a builder, a server and three clients that tune small operators into two databases are
killed, stopped, cut off, given wrong clocks and full disks; the clients' disk loses what was not synced, the server's
all that it had; workers come and go. The seed decides what is done to whom. Every process writes down what it
does, and a checker (``tests/harness/history.py``) decides from that and from the databases whether any trial was lost,
doubled or attributed wrongly. A row for each seed in ``benchmarks/results/farm_history.{jsonl,md}``; ``--history``
keeps the folder with the history and the logs. The exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tilewright.backends.cpu.device import device_model

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness import preloaded
from harness.history import check
from harness.history_farm import Faults, World
from harness.recorded import read

RESULTS = Path(__file__).parent / "results" / "farm_history"


def measure(folder: Path, minutes: float, seed: int) -> dict[str, Any]:
    """One history, in ``folder``, and what is wrong with it."""
    began = time.monotonic()
    with World(folder, seed) as world:
        faults = Faults(world)
        faults.run(minutes)
        try:
            world.finish()
            stuck = []
        except TimeoutError as e:
            stuck = [str(e)]
        rows = world.rows()
    history = read(world.events)
    events = Counter(e["event"] for e in history)
    return {
        "date": datetime.date.today().isoformat(), "host": device_model(), "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(), "seed": seed, "minutes": minutes,
        "seconds": round(time.monotonic() - began), "faults": dict(sorted(faults.counts.items())),
        "events": len(history), "jobs": events["requested"], "sent": events["sent"], "done": events["done"],
        "runs": sum(r.table == "run" for r in rows), "trials": sum(r.table == "trial" for r in rows),
        "acknowledged": sum(len(e["trials"]) for e in history if e["event"] == "stored"),
        "failed": dict(Counter(r.outcome["failure"] for r in rows if r.table == "trial" and "failure" in r.outcome)),
        "violations": stuck + check(history, rows),
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as Markdown."""
    kinds = sorted({k for r in rows for k in r["faults"]})
    lines = ["Each history of a farm under faults, and what its checker found wrong.", ""]
    lines += ["| seed | minutes | faults | jobs (done) | runs | trials acknowledged | in the databases | wrong |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for r in rows:
        wrong = "nothing" if not r["violations"] else f"**{len(r['violations'])}**: " + "; ".join(r["violations"][:3])
        lines.append(
            f"| {r['seed']} | {r['minutes']:g} | {sum(r['faults'].values())} | {r['jobs']:,} ({r['done']:,}) "
            f"| {r['runs']} | {r['acknowledged']:,} | {r['trials']:,} | {wrong} |"
        )
    lines += ["", "| fault | " + " | ".join(f"seed {r['seed']}" for r in rows) + " |", "|---" * (len(rows) + 1) + "|"]
    lines += [f"| {k} | " + " | ".join(str(r["faults"].get(k, 0)) for r in rows) + " |" for k in kinds]
    first = rows[0]
    return [*lines, "", f"{first['host']}, {first['cores']} cores, Python {first['python']}, {first['date']}.", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="of faults; runs are ended after them")
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one history for each")
    parser.add_argument("--history", metavar="FOLDER", help="keep events, logs and databases there")
    parser.add_argument("--out", default=str(RESULTS))
    options = parser.parse_args()
    if preloaded.reason():
        sys.exit(f"no faults can be made here: {preloaded.reason()}")
    if options.history and Path(options.history).exists():
        sys.exit(f"{options.history} is there already: name another folder")
    out = Path(options.out).with_suffix(".jsonl")
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    wrong = False
    for seed in options.seed:
        folder = Path(tempfile.mkdtemp(prefix="tw-history-"))
        try:
            row = measure(folder / "farm", options.minutes, seed)
        finally:
            if options.history:
                shutil.copytree(folder / "farm", Path(options.history) / str(seed))
            shutil.rmtree(folder)
        wrong |= bool(row["violations"])
        print(f"seed {seed}: {row['trials']} trials, {sum(row['faults'].values())} faults", flush=True)
        for said in row["violations"]:
            print(f"  {said}", flush=True)
        rows = sorted([r for r in rows if r["seed"] != seed] + [row], key=lambda r: int(r["seed"]))
        out.write_text("".join(json.dumps(r) + "\n" for r in rows))
        out.with_suffix(".md").write_text("\n".join(table(rows)))
    sys.exit(wrong)


if __name__ == "__main__":
    main()

"""The fault matrix: every fault of a farm in the middle of a tuning run, and what the run is worth afterwards.

    python benchmarks/farm_faults.py            pretended devices: a minute
    python benchmarks/farm_faults.py --real     real kernels on the first two cores: half an hour, on a quiet machine

The first part tunes a matmul with 300 trials on four runners whose times depend on the schedule alone, once undisturbed
and once with each fault: the database must hold each trial exactly once, and the same schedule must win. The second
tunes a real matmul on two runners, several times with each fault and several times without; paired comparisons on the
farm compare every winner with the first one. The median of the disturbed winners must reach 0.97 of the undisturbed
winners' speed. Each part writes its rows of
``benchmarks/results/farm_faults.{jsonl,md}``; the exit status is 1 if something is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.device import device_model
from tilewright.core import Artifact, Candidate, Schedule
from tilewright.database import Database
from tilewright.farm.client import Farm
from tilewright.farm.pki import certificates
from tilewright.tuner import tune
from tilewright.tuner.farm_target import farm_targets

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.farm import FarmProcesses
from harness.farm_fault_matrix import FAULTS, Fault, postgresql_restarted
from harness.farm_faults import Halfway, Scene, Stored

RESULTS = Path(__file__).parent / "results" / "farm_faults"
LEAST = 0.97
SESSIONS = 50
DUELS = 5
NONE = "none: other runs"


@dataclass(frozen=True)
class Row:
    """A run with a fault. ``ratio``: speed of its winner over that of the undisturbed run's, paired."""

    part: str
    fault: str
    trials: int
    once: bool
    same_winner: bool | None
    ratio: float | None
    failed: dict[str, int]
    seconds: float
    seen: str
    problems: list[str]

    @property
    def ok(self) -> bool:
        return not self.problems and self.once and self.same_winner is not False and (self.ratio or 1.0) >= LEAST


def _count(failures: dict[str, str]) -> dict[str, int]:
    return {kind: list(failures.values()).count(kind) for kind in sorted(set(failures.values()))}


# --------------------------------------------------------------------------- pretended times


def pretended(trials: int, pick: str) -> Iterator[Row]:
    """Every fault on four runners that only pretend."""
    with tempfile.TemporaryDirectory(prefix="tw-faults-") as name:
        folder = Path(name)
        os.environ["TILEWRIGHT_CACHE"] = str(folder / "cache")
        certificates.create_authority(folder / "certs")
        expected: dict[str, Stored] = {}
        for number, fault in enumerate([*FAULTS.values(), *_with_postgresql()]):
            if pick not in fault.name:
                continue
            if fault.strategy not in expected:
                with _scene(folder / fault.strategy, trials, fault.strategy) as scene:
                    scene.tune()
                    expected[fault.strategy] = scene.stored()
            with _database(fault, folder / f"{number}") as location:
                yield _disturbed(fault, folder, number, trials, expected[fault.strategy], location)


def _scene(folder: Path, trials: int, strategy: str, **more: object) -> Scene:
    folder.mkdir(exist_ok=True)
    return Scene(folder, trials, strategy=strategy, **more)  # type: ignore[arg-type]


def _disturbed(fault: Fault, folder: Path, number: int, trials: int, expected: Stored, location: str) -> Row:
    certs = folder / "certs" if fault.tls else None
    began = time.monotonic()
    with _scene(
        folder / f"{number}", trials, fault.strategy, undisturbed=expected, certs=certs, runners=fault.runners,
        location=location,
    ) as scene:  # fmt: skip
        try:
            seen, problems = fault.disturb(scene), []
        except Exception as e:
            seen, problems = "", [f"{type(e).__name__}: {e}"]
        found = scene.stored()
    problems += found.problems(expected)
    once = found.numbers == tuple(range(trials)) and len(set(found.keys)) == trials
    return Row(
        "pretended", fault.name, len(found.numbers), once, found.best == expected.best, None,
        _count(found.failures), round(time.monotonic() - began, 1), seen.replace(str(folder), "..."), problems,
    )  # fmt: skip


@contextlib.contextmanager
def _database(fault: Fault, folder: Path) -> Iterator[str]:
    if fault.disturb is not _restarted:
        yield ""
        return
    from tilewright.database.migrate import upgrade_database

    _SERVER.append(_postgres().Server())
    try:
        location = _SERVER[-1].url(_SERVER[-1].create())
        upgrade_database(location)
        yield location
    finally:
        _SERVER.pop().close()


_SERVER: list = []


def _restarted(scene: Scene) -> str:
    return postgresql_restarted(scene, _SERVER[-1].restart)


def _with_postgresql() -> list[Fault]:
    return [Fault("PostgreSQL restarted", _restarted)] if _postgres().binaries() else []


def _postgres():
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import postgres

    return postgres


# --------------------------------------------------------------------------- real times


class RealFarm:
    """Processes on this machine's first two cores, and runs of one matmul on them."""

    def __init__(self, folder: Path, trials: int, size: int) -> None:
        self.folder, self.trials = folder, trials
        self.params = {"m": size, "n": size, "k": size}
        self.certs = folder / "certs"
        certificates.create_authority(self.certs)
        self.cores = sorted(os.sched_getaffinity(0))[:2]
        self.farm = FarmProcesses(folder, self.certs, heartbeat=1.0)

    def __enter__(self) -> RealFarm:
        with contextlib.ExitStack() as undo:
            undo.enter_context(self.farm)
            self.farm.server()
            self.farm.builder()
            for n in range(len(self.cores)):
                self.runner(n)
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.farm.__exit__(None, None, None)

    def runner(self, n: int) -> None:
        self.farm.runner(f"core-{n}", f"cpu:{self.cores[n]}")
        self.farm.wait_for(lambda: f"core-{n}" in self.names())

    def names(self) -> list[str]:
        with self.client() as farm:
            return [w["name"] for w in farm.status()["workers"]]

    def client(self) -> Farm:
        return Farm(self.farm.address, self.certs, patience=120.0)

    def while_running(self, n: int, action: Callable[[], object]) -> Callable[[], None]:
        """What does something soon, while a runner is at work."""

        def wait() -> None:
            with self.client() as farm:
                for _ in range(6000):
                    if any(w["name"] == f"core-{n}" and w["running"] for w in farm.status()["workers"]):
                        break
                    time.sleep(0.01)
            action()

        return threading.Thread(target=wait, daemon=True).start

    def signal(self, name: str, number: int) -> None:
        os.kill(self.farm.processes[name].pid, number)

    def child(self, n: int) -> int:
        """The process in which a runner measures."""
        pid = self.farm.processes[f"core-{n}"].pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                return int(child)
        return 0

    def tune(self, name: str, action: Callable[[], object] | None = None, resume: bool = False) -> Stored:
        """A run into a database of its own; ``action`` in its middle."""
        location = self.folder / f"{name}.db"
        observer = Halfway(self.trials // 2, action) if action else None
        with self.client() as farm:
            tune(
                "matmul", trials=self.trials, db=location, farm=farm, observer=observer, params=self.params,
                **({"resume": "last"} if resume else {"seed": 1}),
            )  # fmt: skip
        return Stored.of(location)

    def tune_and_kill(self, name: str) -> Stored:
        """The run's process gets SIGKILL at the half of its trials; another goes on."""
        location = self.folder / f"{name}.db"
        sizes = [f"{k}={v}" for k, v in self.params.items()]
        process = subprocess.Popen(
            [sys.executable, "-m", "tilewright", "tune", "matmul", *sizes, "--trials", str(self.trials), "--seed", "1",
             "--farm", self.farm.address, "--certs", str(self.certs), "--db", str(location), "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while process.poll() is None:
            time.sleep(0.5)
            with contextlib.suppress(Exception), Database.open(str(location)) as database:
                if len(database.trials(database.run("last").id)) >= self.trials // 2:
                    break
        process.kill()
        process.wait()
        return self.tune(name, resume=True)

    def ratio(self, one: str, other: str) -> float:
        """Speed of a run's winner over another's: the median of several comparisons on the farm, each built alone."""
        with self.client() as farm:
            place = farm_targets(farm)[0]
            with place.builder() as builder, place.runner() as runner:
                items = []
                for name in (one, other):
                    with Database.open(str(self.folder / f"{name}.db")) as database:
                        run = database.run("last")
                        best = database.best(run.task, run.device_model)
                    candidate = Candidate(run.task, Schedule.from_json(best.schedule.to_json()))
                    built = builder.build([candidate], alone=True)[0]
                    assert isinstance(built, Artifact), built
                    items.append((candidate, built))
                task = items[0][0].task
                ratios = sorted(runner.compare(task, items[1], items[0], SESSIONS).ratio for _ in range(DUELS))
        return ratios[DUELS // 2]


def real(trials: int, size: int, pick: str, times: int) -> Iterator[Row]:
    """Faults of real processes, each ``times`` times, and as many further runs without one.

    Two searches by real times differ without a fault too: so medians are compared, and the first row has the spread.
    """
    with tempfile.TemporaryDirectory(prefix="tw-faults-") as name:
        os.environ["TILEWRIGHT_CACHE"] = str(Path(name) / "cache")
        ArtifactCache()
        with RealFarm(Path(name), trials, size) as farm:
            farm.tune("undisturbed")
            rows: dict[str, list[Row]] = {}
            for n in range(times):
                for fault, begin in _real_faults(farm).items():
                    if pick in fault or fault == NONE:
                        row = _real_row(farm, fault, f"{n}-{fault.replace(' ', '-')}", begin)
                        rows.setdefault(fault, []).append(row)
                        print(f"  {fault}: {row.ratio} {'; '.join(row.problems)}", flush=True)
            usual = statistics.median([1.0, *(r.ratio or 0.0 for r in rows.get(NONE, ()))])
            for found in rows.values():
                yield _merged(found, usual)


def _merged(rows: list[Row], usual: float) -> Row:
    """Several times the same fault: the median of speeds relative to the usual one, everything that went wrong."""
    ratios = sorted(round((r.ratio or 0.0) / usual, 4) for r in rows)
    failed = {kind: sum(r.failed.get(kind, 0) for r in rows) for kind in sorted({k for r in rows for k in r.failed})}
    return replace(
        rows[0], once=all(r.once for r in rows), ratio=statistics.median(ratios), failed=failed,
        seconds=statistics.median(r.seconds for r in rows), problems=[p for r in rows for p in r.problems],
        seen=f"{len(rows)} runs: {ratios[0]:.3f} to {ratios[-1]:.3f}",
    )  # fmt: skip


def _real_faults(farm: RealFarm) -> dict[str, Callable[[str], Stored]]:
    def in_run(action: Callable[[], object] | None) -> Callable[[str], Stored]:
        return lambda name: farm.tune(name, action)

    def again(name: str, start: Callable[[], object]) -> Callable[[], None]:
        def replace() -> None:
            farm.signal(name, signal.SIGKILL)
            farm.farm.processes[name].wait()
            time.sleep(2.0)
            start()

        return replace

    def pause() -> None:
        farm.signal("core-0", signal.SIGSTOP)
        time.sleep(10.0)  # longer than its silence is borne
        farm.signal("core-0", signal.SIGCONT)

    actions: dict[str, Callable[[], object]] = {
        "child killed": farm.while_running(0, lambda: os.kill(farm.child(0), signal.SIGKILL)),
        "child stopped": farm.while_running(0, lambda: os.kill(farm.child(0), signal.SIGSTOP)),
        "runner killed, started again": farm.while_running(0, again("core-0", lambda: farm.runner(0))),
        "runner silent for 10 s": farm.while_running(0, pause),
        "server killed, started again": farm.while_running(
            0, again("server", lambda: farm.farm.server(farm.farm.port))
        ),
        "builder killed, started again": again("builder", farm.farm.builder),
        "runner drained, started again": farm.while_running(0, lambda: _drained(farm)),
    }
    found = {fault: in_run(action) for fault, action in actions.items()}
    return {NONE: in_run(None), **found, "client killed, resumed": farm.tune_and_kill}


def _drained(farm: RealFarm) -> None:
    farm.signal("core-0", signal.SIGTERM)
    farm.farm.processes["core-0"].wait()
    farm.runner(0)


def _real_row(farm: RealFarm, fault: str, name: str, begin: Callable[[str], Stored]) -> Row:
    began = time.monotonic()
    problems = []
    try:
        found = begin(name)
    except Exception as e:
        problems = [f"{type(e).__name__}: {e}"]
        found = Stored.of(farm.folder / f"{name}.db")
    seconds = time.monotonic() - began
    if found.state != "done":
        problems.append(f"the run is {found.state}")
    once = found.numbers == tuple(range(farm.trials)) and len(set(found.keys)) == farm.trials
    ratio = round(farm.ratio(name, "undisturbed"), 4) if found.best else 0.0
    return Row(
        "real", fault, len(found.numbers), once, None, ratio, _count(found.failures), round(seconds, 1), "", problems
    )


# --------------------------------------------------------------------------- the report


def table(rows: list[dict[str, object]]) -> list[str]:
    """The rows as Markdown, a table a part."""
    lines = []
    for part, head in (
        ("pretended", "Four runners whose times depend on the schedule alone: the same schedule must win."),
        (
            "real",
            f"Two runners on a core each, real times: winners must reach {LEAST} of undisturbed ones' speed (medians).",
        ),
    ):
        found = [r for r in rows if r["part"] == part]
        if not found:
            continue
        last = "same winner" if part == "pretended" else "paired ratio"
        lines += [head, "", f"| fault | trials, each once | {last} | failed trials | run (s) | how it was seen |"]
        lines += ["|---|---|---|---|---|---|"]
        for r in found:
            failed = ", ".join(f"{n} {k}" for k, n in dict(r["failed"]).items()) or "none"  # type: ignore[call-overload]
            won = r["ratio"] if r["same_winner"] is None else "yes" if r["same_winner"] else "**no**"
            trials = r["trials"] if r["once"] else f"**{r['trials']}, not once**"
            seen = "; ".join(map(str, r["problems"])) or str(r["seen"])  # type: ignore[call-overload]
            lines.append(f"| {r['fault']} | {trials} | {won} | {failed} | {r['seconds']} | {seen.replace('|', '/')} |")
        first = found[0]
        place = f"{first['host']}, {first['cores']} cores, Python {first['python']}, {first['date']}"
        lines += ["", f"{place}.", ""]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", action="store_true", help="the part with real kernels")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--size", type=int, default=256, help="of the real matmul's sides")
    parser.add_argument("--times", type=int, default=3, help="how often each fault of the part with real kernels")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults whose name has this text")
    parser.add_argument("--out", default=str(RESULTS))
    options = parser.parse_args()
    part = "real" if options.real else "pretended"
    facts = {
        "date": datetime.date.today().isoformat(), "host": device_model(), "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }  # fmt: skip
    if options.real:
        found = real(options.trials, options.size, options.only, options.times)
    else:
        found = pretended(options.trials, options.only)
    rows = []
    missed = False
    for row in found:
        rows.append({**facts, **asdict(row), "ok": row.ok})
        missed |= not row.ok
        print(
            f"{'ok    ' if row.ok else 'MISSED'} {row.fault}: {row.ratio or ''} {'; '.join(row.problems) or row.seen}",
            flush=True,
        )
    out = Path(options.out)
    kept = []
    if out.with_suffix(".jsonl").exists():
        kept = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    rows = sorted([r for r in kept if r["part"] != part] + rows, key=lambda r: str(r["part"]))
    with out.with_suffix(".jsonl").open("w") as file:
        file.writelines(json.dumps(r) + "\n" for r in rows)
    out.with_suffix(".md").write_text("\n".join(table(rows)))
    sys.exit(missed)


if __name__ == "__main__":
    main()

"""Peers of a farm that record their events: the command line's runners and builders, and a tuning client.

    python -m harness.recorded FOLDER farm runner ...     like python -m tilewright farm runner ...
    python -m harness.recorded FOLDER client SETTINGS     tunes into a database, one run after the other

Each process appends its events to its own file in FOLDER, as lines of JSON. Times come from the machine's monotonic
clock, which all processes share and which no fault changes. ``harness/history.py`` defines the events.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core import Schedule, Task, TilewrightError, TrialRecord
from tilewright.database import Database
from tilewright.database.runs import Runs
from tilewright.farm.client import Farm
from tilewright.farm.workers.service import Service
from tilewright.farm.workers.work import Held, Reply
from tilewright.tuner import Observer, tune

OPERATORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("matmul", {"m": 24, "n": 32, "k": 16}), ("matmul", {"m": 7, "n": 48, "k": 20}), ("transpose", {"shape": "48,40"}),
    ("softmax", {"shape": "16,96"}), ("softmax", {"shape": "6,300"}), ("matmul", {"m": 64, "n": 16, "k": 8}),
)  # fmt: skip
"""Operators to tune: their kernels take microseconds, and their spaces hold more schedules than a run has trials."""


class Recorder:
    """Appends events to a file. Each event is written before the process does its next step."""

    def __init__(self, folder: Path, who: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.who = who
        self._file = os.open(folder / f"{who}-{os.getpid()}.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def __call__(self, event: str, **more: Any) -> None:
        said = {"at": time.monotonic(), "event": event, "who": self.who, **more}
        os.write(self._file, (json.dumps(said) + "\n").encode())


def read(folder: Path) -> list[dict[str, Any]]:
    """All events, in the order of their times. The last line of a killed process may be incomplete."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        whole, _, _torn = path.read_bytes().rpartition(b"\n")
        found += [json.loads(line) for line in whole.splitlines()]
    return sorted(found, key=lambda e: float(e["at"]))


def keys(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Schedule keys of the kernels in a message."""
    return [Schedule.from_json(i["schedule"]).key for i in items]


# --------------------------------------------------------------------------- runners and builders


def work(folder: Path, arguments: list[str]) -> None:
    """Run the command line's runner or builder, and record each job's result before it is sent."""
    from tilewright.cli import main

    record = Recorder(folder, arguments[arguments.index("--name") + 1] if "--name" in arguments else "server")
    execute = Service._execute

    def recorded(self: Service, job: Held) -> Reply:
        reply = execute(self, job)
        payload = job.payload
        about: dict[str, Any] = {"job": job.id, "session": job.session, "user": job.client, "result": reply.result}
        about |= {"delivered": job.delivered, "dropped": job.dropped, "place": self._able["places"]}
        if self.role == "runner":
            about |= {"do": payload["do"], "task": Task.from_json(payload["task"]).key, "keys": keys(payload["items"])}
        record("done", role=self.role, **about)
        return reply

    Service._execute = recorded  # type: ignore[method-assign]
    sys.argv = ["tilewright", *arguments]
    main()


# --------------------------------------------------------------------------- clients


@dataclass(frozen=True)
class Settings:
    """A client's settings. ``device``: a device class. ``stop``: a file; once it exists, the client ends after its
    run."""

    name: str
    address: str
    certs: str
    database: str
    device: str
    seed: int
    trials: int
    stop: str
    resume: str | None = None


class RecordingFarm(Farm):
    """A connection that records its jobs."""

    def __init__(self, record: Recorder, address: str, certs: str) -> None:
        self._record = record
        super().__init__(address, certs, patience=120.0, say=lambda line: record("said", line=line))

    @property
    def session(self) -> str:
        return self._session

    def _queue_up(self, job: Any) -> None:
        payload = job.payload
        more = {"keys": keys(payload["items"])} if "items" in payload else {}
        self._record(
            "requested", job=job.id, session=self._session, place=job.place, do=payload.get("do", "build"), **more
        )
        super()._queue_up(job)

    async def _send(self, job: Any) -> None:
        self._record("sent", job=job.id, session=self._session, attempt=job.times)
        await super()._send(job)

    def _finish(self, job: Any, result: Any) -> None:
        self._record("received", job=job.id, session=self._session, taken=job.id in self._jobs, result=result)
        super()._finish(job, result)


class Watcher(Observer):
    """Records the begin of the run, and sleeps between trials."""

    def __init__(self, record: Recorder, farm: RecordingFarm, settings: Settings, rng: random.Random) -> None:
        self._record, self._farm, self._settings, self._rng = record, farm, settings, rng
        self.run: str | None = None

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        self.run = run_id
        s = self._settings
        self._record(
            "run", run=run_id, database=Path(s.database).name, session=self._farm.session, task=task.key,
            device=s.device, user=Path(s.certs).name, done=done, wanted=total,
        )  # fmt: skip

    def warning(self, message: str) -> None:
        self._record("said", line=message)

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        time.sleep(self._rng.uniform(0.0, 0.4))


def client(folder: Path, settings: Settings) -> None:
    """Tune one operator after the other until the file ``stop`` exists; resume each run that failed."""
    record = Recorder(folder, settings.name)
    _record_trials(record)
    rng = random.Random(f"{settings.seed} {time.monotonic()}")
    run = settings.resume
    while run is not None or not Path(settings.stop).exists():
        run = _tune(record, settings, rng, run)
    record("left")


def _record_trials(record: Recorder) -> None:
    add_trials, finish_run = Runs.add_trials, Runs.finish_run

    def recorded(self: Runs, run_id: str, records: Iterable[TrialRecord]) -> None:
        records = list(records)
        trials = [[r.number, r.schedule.key, r.outcome.to_json()] for r in records]
        about = {"run": run_id, "database": Path(self.location).name, "batch": time.monotonic_ns(), "trials": trials}
        record("storing", **about)
        add_trials(self, run_id, records)
        record("stored", **about)

    def finished(self: Runs, run_id: str, state: str, summary: Mapping[str, Any] | None = None) -> None:
        finish_run(self, run_id, state, summary)
        record("ended", run=run_id, database=Path(self.location).name, state=state)

    Runs.add_trials = recorded  # type: ignore[method-assign]
    Runs.finish_run = finished  # type: ignore[method-assign]


def _tune(record: Recorder, settings: Settings, rng: random.Random, run: str | None) -> str | None:
    """Do a run, or resume ``run``; returns the run to resume next, if it failed."""
    op, sizes = rng.choice(OPERATORS)
    try:
        if run is not None:
            with Database.open(settings.database) as database:
                workload = database.run(run).task.workload
            op, sizes = workload.op, dict(workload.params)
        with RecordingFarm(record, settings.address, settings.certs) as farm:
            watcher = Watcher(record, farm, settings, rng)
            more: dict[str, Any] = {"resume": run} if run else {"seed": rng.randrange(1 << 30), "cost_model": "random"}
            try:
                tune(
                    op, trials=settings.trials, device=settings.device, db=settings.database, farm=farm,
                    observer=watcher, params=sizes, **more,
                )  # fmt: skip
            finally:
                run = watcher.run or run
        return None
    except TilewrightError as e:
        record("failed", run=run, error=e.message, hint=e.hint)
        time.sleep(1.0)
        return run
    except Exception:
        record("crashed", run=run, error=traceback.format_exc())
        time.sleep(1.0)
        return run


def main() -> None:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    if what == "client":
        client(folder, Settings(**json.loads(sys.argv[3])))
    else:
        work(folder, sys.argv[2:])


if __name__ == "__main__":
    main()

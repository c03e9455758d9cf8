"""Peers of a farm that write down what they do: the command line's runners and builders, and a tuning client.

    python -m harness.recorded FOLDER farm runner ...     as python -m tilewright farm runner ...
    python -m harness.recorded FOLDER client SETTINGS     runs into a database, one after the other

Each process appends events to a file of its own in FOLDER, as lines of JSON. Their times are the machine's monotonic
clock, which all processes share and no fault changes. ``harness/history.py`` says what an event means.
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
"""What is tuned: kernels of microseconds, with more schedules than a run has trials."""


class Recorder:
    """Appends events to a file: each is on its way to the disk before what follows it happens."""

    def __init__(self, folder: Path, who: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.who = who
        self._file = os.open(folder / f"{who}-{os.getpid()}.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def __call__(self, event: str, **more: Any) -> None:
        said = {"at": time.monotonic(), "event": event, "who": self.who, **more}
        os.write(self._file, (json.dumps(said) + "\n").encode())


def read(folder: Path) -> list[dict[str, Any]]:
    """All events, in the order of their times. The last line of a process that was killed may be torn."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        whole, _, _torn = path.read_bytes().rpartition(b"\n")
        found += [json.loads(line) for line in whole.splitlines()]
    return sorted(found, key=lambda e: float(e["at"]))


def keys(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """The schedules of kernels as messages carry them."""
    return [Schedule.from_json(i["schedule"]).key for i in items]


# --------------------------------------------------------------------------- runners and builders


def work(folder: Path, arguments: list[str]) -> None:
    """Be what the command line starts, and write down each job's result before it is sent."""
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
    """A client: ``device`` is a device class; ``stop``, a file whose presence ends it after its run."""

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
    """A connection that writes down its jobs."""

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
    """Writes down when the run begins, and lets time pass between trials."""

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
    """Tune one operator after the other until told to stop; a run that failed is gone on with."""
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
    """A run, or the rest of one; returns which one to go on with, if any."""
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

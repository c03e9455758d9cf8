"""Which job goes to which worker: the scheduler's decisions, without any input or output.

A *place* names what can do a job: a device class (``cpu-...``), or a compiler (``build:...``). Every worker
gets as many jobs as it can run at once and a few more, so that it never waits for the next one; what it has not
begun is taken back without blame when it leaves. A job whose worker is lost while it runs is given to another
one, a bounded number of times. Clients share a place by the seconds that their jobs took.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ATTEMPTS = 3  # workers that one job may cost before it is given up
STRIKES = 3  # failures of a device in a row before it is quarantined
AHEAD = 1  # jobs that wait at a worker beside those that it runs
GUESS = 0.5  # seconds that a job of a place is taken to last before one has


@dataclass
class Job:
    """A piece of work. ``needs``: hashes of the artifacts that it takes. ``lost``: workers that it cost."""

    id: str
    client: str
    place: str
    payload: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    since: float = 0.0
    lost: list[str] = field(default_factory=list)
    guess: float = 0.0


@dataclass
class Worker:
    """A connected runner or builder. ``jobs`` are in its hands, the first ``lanes`` of them running."""

    name: str
    places: frozenset[str]
    lanes: int
    since: float
    jobs: list[str] = field(default_factory=list)
    draining: bool = False
    busy: float = 0.0  # seconds of finished jobs, over all lanes
    done: int = 0
    begun: dict[str, float] = field(default_factory=dict)  # when the running jobs began

    @property
    def room(self) -> int:
        return self.lanes + AHEAD - len(self.jobs)


@dataclass
class Record:
    """What is remembered of a worker's name while it is away."""

    strikes: int = 0
    quarantine: str = ""  # why; empty: not quarantined


class Queue:
    """Jobs, workers and who gets what next. ``now`` is a steady clock's seconds wherever it appears."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.records: dict[str, Record] = {}
        self.jobs: dict[str, Job] = {}  # every job that is not finished
        self.empty_since: dict[str, float] = {}  # places without a worker, and since when
        self._waiting: dict[str, dict[str, OrderedDict[str, None]]] = {}  # place -> client -> ids in order
        self._served: dict[str, dict[str, float]] = {}  # place -> client -> seconds
        self._typical: dict[str, float] = {}  # place -> seconds of a job, smoothed

    # ------------------------------------------------------------------ workers

    def join(self, name: str, places: Iterable[str], lanes: int, now: float) -> Worker:
        """A worker is there. Its record of earlier failures still counts."""
        worker = self.workers[name] = Worker(name, frozenset(places), lanes, now)
        self.records.setdefault(name, Record())
        for place in worker.places:
            self.empty_since.pop(place, None)
        return worker

    def adopt(self, name: str, held: Iterable[str], now: float) -> None:
        """A worker that was cut off is back with jobs in its hands: those still wanted stay with it."""
        worker = self.workers[name]
        for job_id in held:
            job = self.jobs.get(job_id)
            if job is not None and self._unqueue(job):
                self._hand(job, worker, now)

    def leave(self, name: str, now: float, why: str) -> list[Job]:
        """A worker is gone: its jobs wait again. Returns those that have cost too many workers."""
        worker = self.workers.pop(name, None)
        if worker is None:
            return []
        hopeless = []
        running = set(worker.jobs[: worker.lanes])
        if running and not worker.draining:
            self.strike(name, why, now)
        for job_id in reversed(worker.jobs):
            job = self.jobs[job_id]
            self._settle(job, 0.0)
            if job_id in running and not worker.draining:
                job.lost.append(name)
                if len(job.lost) >= ATTEMPTS:
                    del self.jobs[job_id]
                    hopeless += [job] if job.client else []  # else it was cancelled meanwhile
                    continue
            self._enqueue(job, first=True)
        for place in worker.places:
            if not any(place in w.places for w in self.workers.values()):
                self.empty_since[place] = now
        return hopeless

    def give_back(self, name: str, ids: Iterable[str]) -> None:
        """A worker returns jobs that it has not begun."""
        worker = self.workers[name]
        for job_id in ids:
            if job_id in worker.jobs:
                worker.jobs.remove(job_id)
                worker.begun.pop(job_id, None)
                job = self.jobs[job_id]
                self._settle(job, 0.0)
                self._enqueue(job, first=True)

    def strike(self, name: str, why: str, now: float) -> None:
        """The worker's device failed, not a kernel. Enough in a row quarantine it."""
        record = self.records.setdefault(name, Record())
        record.strikes += 1
        if record.strikes >= STRIKES and not record.quarantine:
            self.quarantine(name, f"{record.strikes} failures in a row, the last: {why}", now)

    def quarantine(self, name: str, why: str, now: float) -> None:
        """Give a worker nothing more, and take back what it has not begun."""
        self.records.setdefault(name, Record()).quarantine = why
        worker = self.workers.get(name)
        if worker is not None:
            self.give_back(name, worker.jobs[worker.lanes :])

    def release(self, name: str) -> bool:
        """End a worker's quarantine. ``False`` when there is none."""
        record = self.records.get(name)
        if record is None or not record.quarantine:
            return False
        self.records[name] = Record()
        return True

    # ------------------------------------------------------------------ jobs

    def submit(self, job: Job, now: float) -> bool:
        """Take a job; ``False`` when it is known already (a client that was cut off sends its jobs again)."""
        if job.id in self.jobs:
            return False
        job.since = now
        self.jobs[job.id] = job
        if not any(job.place in w.places for w in self.workers.values()):
            self.empty_since.setdefault(job.place, now)
        served = self._served.setdefault(job.place, {})
        if job.client not in served:
            # A newcomer starts level with those who are there, not with a claim on the past.
            # What they are charged for jobs in hand is a guess, and this one has none.
            settled = {c: s - self._guessed(c, job.place) for c, s in served.items()}
            active = [settled[c] for c in self._waiting.get(job.place, {}) if c in settled]
            served[job.client] = min(active, default=max(settled.values(), default=0.0))
        self._enqueue(job)
        return True

    def cancel(self, ids: Iterable[str], client: str) -> dict[str, list[str]]:
        """Forget jobs; what already runs finds no taker. Returns what waits at workers, by name, to be called back."""
        recall: dict[str, list[str]] = {}
        for job_id in ids:
            job = self.jobs.get(job_id)
            if job is not None and job.client == client:
                if self._unqueue(job):
                    del self.jobs[job_id]
                else:
                    job.client = ""
                    for w in self.workers.values():
                        if job_id in w.jobs[w.lanes :]:
                            recall.setdefault(w.name, []).append(job_id)
        for name, waiting in recall.items():
            self.give_back(name, waiting)
        return recall

    def drop_client(self, client: str) -> dict[str, list[str]]:
        """A client is gone for good; returns as :meth:`cancel`."""
        recall = self.cancel([j.id for j in self.jobs.values() if j.client == client], client)
        for served in self._served.values():
            served.pop(client, None)
        return recall

    def finish(self, name: str, job_id: str, seconds: float, now: float) -> Job | None:
        """A worker's result has come. The job, or ``None`` if nobody waits for it any more (a stale result)."""
        worker = self.workers.get(name)
        if worker is not None and job_id in worker.jobs:
            worker.jobs.remove(job_id)
            worker.begun.pop(job_id, None)
            worker.busy += seconds
            worker.done += 1
            for n in worker.jobs[: worker.lanes]:
                worker.begun.setdefault(n, now)
        job = self.jobs.pop(job_id, None)
        if job is None:
            return None
        self._unqueue(job)
        for other in self.workers.values():  # a job given to a second worker while the first was cut off
            if job_id in other.jobs and other is not worker:
                self.jobs[job_id] = Job(job.id, "", job.place, {}, guess=job.guess)
        self._settle(job, seconds)
        old = self._typical.get(job.place, seconds)
        self._typical[job.place] = 0.8 * old + 0.2 * seconds
        return job if job.client else None

    def cleared(self, name: str) -> None:
        """A worker's device did its work: failures before count no more."""
        self.records.setdefault(name, Record()).strikes = 0

    def hopeless(self, now: float, patience: float) -> list[Job]:
        """Jobs that no worker could do for ``patience`` seconds; they are forgotten.

        A worker in quarantine, or one that leaves, can do none.
        """
        able = {p for w in self.workers.values() for p in w.places if self._able(w)}
        for place in {j.place for j in self.jobs.values()}:
            if place in able:
                self.empty_since.pop(place, None)
            else:
                self.empty_since.setdefault(place, now)
        late = {p for p, since in self.empty_since.items() if now - since > patience}
        found = [j for j in self.jobs.values() if j.place in late and now - j.since > patience]
        for job in found:
            self._unqueue(job)
            del self.jobs[job.id]
        return found

    def assign(self, now: float) -> Iterator[tuple[Worker, Job]]:
        """Hand out what can be handed out now, the emptiest workers first."""
        while True:
            wanted = {place for place, clients in self._waiting.items() if clients}
            free = [w for w in self.workers.values() if not w.places.isdisjoint(wanted) and self._open(w)]
            given = False
            for worker in sorted(free, key=lambda w: (max(0, len(w.jobs) - w.lanes + 1), len(w.jobs) / w.lanes)):
                job = self._next(worker)
                if job is not None:
                    self._hand(job, worker, now)
                    given = True
                    yield worker, job
            if not given:
                return

    def _open(self, worker: Worker) -> bool:
        return worker.room > 0 and self._able(worker)

    def _able(self, worker: Worker) -> bool:
        return not worker.draining and not self.records[worker.name].quarantine

    def _next(self, worker: Worker) -> Job | None:
        best: tuple[float, str] | None = None
        for place in worker.places:
            served = self._served.get(place, {})
            for client, ids in self._waiting.get(place, {}).items():
                if ids and (best is None or served.get(client, 0.0) < best[0]):
                    fitting = self._fitting(worker, ids)
                    if fitting is not None:
                        best = (served.get(client, 0.0), fitting)
        if best is None:
            return None
        job = self.jobs[best[1]]
        self._unqueue(job)
        return job

    def _fitting(self, worker: Worker, ids: Iterable[str]) -> str | None:
        """The first job that this worker should take: not one that it was lost with, if another worker can."""
        for job_id in ids:
            job = self.jobs[job_id]
            if worker.name not in job.lost:
                return job_id
            others = (w for w in self.workers.values() if job.place in w.places and w.name not in job.lost)
            if all(self.records[w.name].quarantine or w.draining for w in others):
                return job_id
        return None

    def _hand(self, job: Job, worker: Worker, now: float) -> None:
        worker.jobs.append(job.id)
        if len(worker.jobs) <= worker.lanes:
            worker.begun[job.id] = now
        job.guess = self._typical.get(job.place, GUESS)
        served = self._served.setdefault(job.place, {})
        served[job.client] = served.get(job.client, 0.0) + job.guess

    def _guessed(self, client: str, place: str) -> float:
        return sum(j.guess for j in self.jobs.values() if j.client == client and j.place == place)

    def _settle(self, job: Job, seconds: float) -> None:
        """Replace the guess by which a client was charged."""
        served = self._served.get(job.place, {})
        if job.client in served:
            served[job.client] += seconds - job.guess
        job.guess = 0.0

    def _enqueue(self, job: Job, first: bool = False) -> None:
        if not job.client:
            self.jobs.pop(job.id, None)
            return
        ids = self._waiting.setdefault(job.place, {}).setdefault(job.client, OrderedDict())
        ids[job.id] = None
        if first:
            ids.move_to_end(job.id, last=False)

    def _unqueue(self, job: Job) -> bool:
        clients = self._waiting.get(job.place, {})
        ids = clients.get(job.client)
        if ids is None or job.id not in ids:
            return False
        del ids[job.id]
        if not ids:
            del clients[job.client]
        return True

    # ------------------------------------------------------------------ what there is

    def waiting(self, place: str) -> int:
        """Jobs of a place that no worker has yet."""
        return sum(len(ids) for ids in self._waiting.get(place, {}).values())

    def places(self) -> set[str]:
        return {p for w in self.workers.values() for p in w.places} | {p for p, c in self._waiting.items() if c}

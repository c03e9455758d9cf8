"""Children that do the work: one may die or hang, and costs the one row that it was at.

A child does several things by name, and says in lines of JSON what it is at and what it found (``rows.Teller``); all
else that it prints is shown. One that dies is started again and goes on behind the row to blame.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Union

from acceptance.rows import Row, Rows

Lines = queue.SimpleQueue[Union[str, None]]
"""What a child prints, ``None`` at its end."""
ATTEMPTS = 2
MARK = "========="
"""How lines of compute-sanitizer begin."""


@dataclass(frozen=True)
class Job:
    """A child's work: the names of what it does, in order, its command, and the seconds without a word after which it
    hangs."""

    names: tuple[str, ...]
    command: tuple[str, ...]
    patience: float


@dataclass
class Ended:
    """How a child ended: its exit status, ``None`` where it was killed, and what it was at; ``late``: the deadline had
    passed. ``findings``: what compute-sanitizer wrote since the last row."""

    code: int | None = None
    at: Row = field(default_factory=dict)
    late: bool = False
    said: str = ""
    findings: list[str] = field(default_factory=list)

    def describe(self, patience: float) -> str:
        if self.code is None:
            return f"no sign of life for {patience:g} s"
        how = f"killed by {signal.Signals(-self.code).name}" if self.code < 0 else f"exit status {self.code}"
        return f"{how}: {self.said}" if self.said else how


class Children:
    """Runs jobs, some at a time, until ``end`` (of ``time.monotonic``), when all that is left is killed."""

    def __init__(self, rows: Rows, end: float) -> None:
        self.rows = rows
        self.end = end
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> None:
        """Run jobs beside each other."""
        pool = ThreadPoolExecutor(max(1, len(jobs)))
        try:
            for done in [pool.submit(self._job, job) for job in jobs]:
                done.result()
        finally:
            self.end = 0.0  # an interrupted run ends its children too
            with self._lock:
                for process in self._running:
                    _kill(process)
            pool.shutdown(cancel_futures=True)

    def _job(self, job: Job) -> None:
        """Run a job to its end, or to the deadline; a child that twice never came to its work is given up."""
        broken = 0
        while broken < ATTEMPTS and time.monotonic() < self.end:
            left = [name for name in job.names if not self.rows.done(name)]
            if not left:
                return
            before = len(list(self.rows))
            ended = self._child(job)
            if ended.late:
                return
            if ended.code == 0:
                if ended.findings:  # at its end, behind all rows
                    self._add({"id": job.names[-1], "state": "errors"}, ended.findings)
                return
            if ended.at and not self.rows.done(ended.at["id"]):
                state = "timeout" if ended.code is None else "crash"
                self._add({**ended.at, "state": state, "message": ended.describe(job.patience)}, ended.findings)
            elif len(list(self.rows)) == before:
                self._add({"id": left[0], "state": "broken", "message": ended.describe(job.patience)}, ended.findings)
                broken += 1

    def _child(self, job: Job) -> Ended:
        ended = Ended()
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                job.command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True,
                errors="replace", start_new_session=True,
            )  # fmt: skip
            with self._lock:
                self._running.add(process)
            lines: Lines = queue.SimpleQueue()
            assert process.stdout is not None
            reader = threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True)
            reader.start()
            try:
                self._follow(process, lines, job, ended)
            finally:
                _kill(process)
                process.wait()
                reader.join(5.0)
                with self._lock:
                    self._running.discard(process)
            errors.seek(0)
            ended.said = " ".join(errors.read().split())[-300:]
        return ended

    def _follow(self, process: subprocess.Popen[str], lines: Lines, job: Job, ended: Ended) -> None:
        while True:
            left = self.end - time.monotonic()
            try:
                line = lines.get(timeout=max(0.0, min(job.patience, left)))
            except queue.Empty:
                ended.late = time.monotonic() >= self.end
                return
            if line is None:
                ended.code = process.wait()
                ended.late = ended.code < 0 and time.monotonic() >= self.end
                return
            self._line(line.rstrip("\n"), ended)

    def _line(self, line: str, ended: Ended) -> None:
        try:
            said = json.loads(line) if line.startswith("{") else None
        except ValueError:
            said = None
        if said == {}:
            return  # a sign of life
        if isinstance(said, dict) and "at" in said:
            ended.at = {"id": said.pop("at"), **said}
        elif isinstance(said, dict) and "id" in said:
            self._add(said, ended.findings)
            ended.findings = []
        elif line.startswith(MARK):
            text = line.removeprefix(MARK).strip()
            if text and text != "COMPUTE-SANITIZER" and "SUMMARY: 0 " not in text:
                ended.findings.append(text)
        else:
            print(f"  {line}", flush=True)

    def _add(self, row: Row, findings: Sequence[str]) -> None:
        if findings:
            row = {**row, "state": "errors" if row["state"] == "clean" else row["state"], "findings": findings[:40]}
        self.rows.add(row)
        about = row.get("message") or row.get("summary") or ""
        print(f"{row['state']:9} {row['id']}{f'  {about}' if about else ''}", flush=True)


def _pump(stream: IO[str], lines: Lines) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)


def _kill(process: subprocess.Popen[str]) -> None:
    """End a child and its group; what it started beside dies with it (``measure.lifetime``)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)

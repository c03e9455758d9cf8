"""A fuzzing session: tests batches of programs on each target in child processes, and minimises failures."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz import calls, ranges
from fuzz.check import Doctor, Failure, Note, examine, prepare
from fuzz.child import Clock, Send, run
from fuzz.findings import Log
from fuzz.generate import program
from fuzz.machines import machine, opencl_device
from fuzz.minimise import minimised
from fuzz.tree import Case

SILENCE = 150.0
"""Seconds without a message after which a child counts as hanging."""
TARGETS = ("cpu", "portable", "emulator", "opencl", "ranges", "calls")
BATCH = {"cpu": 8, "portable": 8, "emulator": 4, "opencl": 6, "ranges": 2, "calls": 20}
SCHEDULES = {"cpu": 3, "portable": 2, "emulator": 1, "opencl": 1, "ranges": 4}
SHARES = {"cpu": 6, "portable": 2, "emulator": 1, "opencl": 1, "ranges": 1, "calls": 1}
"""Weight of each target: number of batches in a round."""


@dataclass
class Options:
    seed: int = 0
    programs: int = 1000
    minutes: float = 60.0
    targets: tuple[str, ...] = TARGETS
    tries: int = 80
    doctor: Doctor = str


@dataclass
class Counts:
    programs: int = 0
    kernels: int = 0
    findings: int = 0
    by_target: dict[str, int] = field(default_factory=dict)


def _opencl() -> bool:
    """Whether an OpenCL device exists. A child process asks, because the driver starts threads, which a fork loses."""
    return any(m.get("device") for m in run(lambda send: send({"device": opencl_device()}), SILENCE))


def _noting(send: Send, number: int) -> Note:
    return lambda text: send({"number": number, "doing": text})


def _judge(send: Send, number: int, failure: Failure | None, target: str) -> None:
    """Send the result of a kernel: its failure, or that it is correct."""
    failed = failure and {"number": number, "failure": {**failure.to_json(), "target": target}}
    send(failed or {"right": 1})


class Session:
    """A session of ``programs`` programs for each target.

    Targets take turns, so that a short time limit covers all targets.
    """

    def __init__(self, options: Options, log: Log, say: Callable[[str], None] = print) -> None:
        self.o, self.log, self.say = options, log, say
        self.counts = Counts()
        self.seen: set[tuple[str, str, str]] = set()
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz"))

    def run(self) -> Counts:
        clock = Clock(self.o.minutes)
        targets = [t for t in self.o.targets if t != "opencl" or _opencl()]
        left = {t: iter(self._batches(t)) for t in targets}
        turns = [t for t in targets for _ in range(SHARES[t])]
        try:
            while left and not clock.over:
                for target in turns:
                    numbers = next(left[target], None) if target in left else None
                    if numbers is None:
                        left.pop(target, None)
                    elif not clock.over:
                        self._batch(target, numbers)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        rate = self.counts.programs / max(clock.minutes, 1e-9)
        self.say(
            f"{self.counts.programs} programs ({', '.join(f'{n} {t}' for t, n in self.counts.by_target.items())}), "
            f"{self.counts.kernels} kernels, {self.counts.findings} findings in {clock.minutes:.1f} minutes: "
            f"{rate:.0f} programs a minute"
        )
        return self.counts

    def _batches(self, target: str) -> Iterator[range]:
        first = self.log.done(self.o.seed, target)
        for n in range(first, self.o.programs, BATCH[target]):
            yield range(n, min(n + BATCH[target], self.o.programs))

    def _batch(self, target: str, numbers: range) -> None:
        """Test a batch. After a program that ends its child process, a new child tests the rest."""
        while numbers:
            at, doing, failed = numbers.start, "", list[tuple[int, Failure]]()
            for message in run(self._work(target, numbers), SILENCE):
                if "doing" in message:
                    at, doing = message["number"], message["doing"]
                elif "failure" in message:
                    failed.append((message["number"], Failure(**message["failure"])))
                elif "right" in message:
                    self.counts.kernels += message["right"]
                elif message.get("end"):
                    kind = "hang" if "no word" in message["end"] else "crash"
                    words = doing.split(" ", 1)
                    failed.append((at, Failure(kind, f"{message['end']}: {doing}", target, *words[:1], *words[1:2])))
                    break
            else:
                at = numbers.stop - 1
            for number, failure in failed:
                self._found(number, failure)
            ended = any(f.kind in ("hang", "crash") for _, f in failed)
            after = min(numbers.stop, at + 1) if ended else numbers.stop
            self.counts.programs += after - numbers.start
            self.counts.by_target[target] = self.counts.by_target.get(target, 0) + after - numbers.start
            self.log.write(seed=self.o.seed, target=target, done=after - 1)
            numbers = range(after, numbers.stop)

    def _work(self, target: str, numbers: range) -> Callable[[Send], None]:
        if target == "calls":
            return lambda send: self._calls(numbers, send)
        if target == "ranges":
            return lambda send: self._ranges(numbers, send)
        return lambda send: self._programs(target, [program(self.o.seed, n) for n in numbers], send)

    def _programs(self, target: str, cases: list[Case], send: Send, only: str = "", choice: int | None = None) -> None:
        where = machine(target, self.folder, cases[0].number // BATCH[target] if choice is None else choice)
        prepared = []
        for case in cases:
            send({"number": case.number, "doing": "reference"})
            p = prepare(case)
            if isinstance(p, Failure):
                send({"number": case.number, "failure": {**p.to_json(), "target": target}})
            elif p is not None:
                prepared.append(p)

        def note(text: str) -> None:
            number, doing = text.split(" ", 1)
            send({"number": int(number), "doing": doing.removeprefix(f"{target} ")})

        for case, failure in examine(prepared, where, SCHEDULES[target], note, only, self.o.doctor):
            _judge(send, case.number, failure, target)

    def _ranges(self, numbers: range, send: Send) -> None:
        for n in numbers:
            case, where = ranges.ranged(self.o.seed, n), machine("cpu", self.folder, n)
            for failure in ranges.examine(case, where, SCHEDULES["ranges"], self.o.seed, _noting(send, n)):
                _judge(send, n, failure, "ranges")

    def _calls(self, numbers: range, send: Send) -> None:
        lib = calls.library(self.folder)
        for n in numbers:
            for failure in calls.examine(lib, self.o.seed, n, _noting(send, n)):
                _judge(send, n, failure, "calls")

    # ------------------------------------------------------------------ failures

    def _found(self, number: int, failure: Failure) -> None:
        """Log a failure with its minimised program, once for each program, template and kind of failure."""
        key = (str(number), failure.template, failure.kind)
        if key in self.seen:
            return
        self.seen.add(key)
        self.counts.findings += 1
        case: Case | None = None
        if failure.target not in ("ranges", "calls"):
            case = minimised(program(self.o.seed, number), lambda c: self.fails(c, failure), self.o.tries)
            failure = self.failure(case, failure) or failure
        path = self.log.finding(self.o.seed, number, failure, case)
        self.say(
            f"{failure.target} {number} {failure.template}: {failure.kind}: {failure.message}"
            + (f" ({path})" if path else "")
        )

    def fails(self, case: Case, like: Failure) -> bool:
        """Whether a program has a failure like ``like``, on its target with its template."""
        return self.failure(case, like) is not None

    def failure(self, case: Case, like: Failure) -> Failure | None:
        """The failure of a program that is like ``like``, if any."""
        choice = case.number // BATCH[like.target]
        doing = ""
        for message in run(lambda send: self._programs(like.target, [case], send, like.template, choice), SILENCE):
            doing = message.get("doing", doing)
            found = Failure(**message["failure"]) if "failure" in message else None
            if message.get("end"):
                kind = "hang" if "no word" in message["end"] else "crash"
                found = Failure(kind, f"{message['end']}: {doing}", like.target, like.template, like.schedule)
            if found is not None and found.like(like):
                return found
        return None


def replay(path: Path, say: Callable[[str], None] = print) -> bool:
    """Run the program of a finding's file; returns whether it still fails."""
    from fuzz.findings import replayed

    target, template, case = replayed(path)
    session = Session(Options(targets=(target,)), Log(path.with_suffix(".log"), resume=True), say)
    for message in run(lambda send: session._programs(target, [case], send, template), SILENCE):
        found: Any = message.get("failure") or message.get("end")
        if found:
            say(str(found))
            return True
    return False


__all__ = ["TARGETS", "Options", "Session", "replay"]

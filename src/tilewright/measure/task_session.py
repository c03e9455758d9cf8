"""State of a measuring child between requests: current task, inputs and references, loaded code, and incumbent."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tilewright.core import Failure, FailureKind, Measurement, Outcome
from tilewright.kernels.expression.program import Program
from tilewright.measure.messages import At, Compare, Done, KernelFile, Measure, Request, Verify
from tilewright.measure.timing import PairedComparison
from tilewright.serialization import Json
from tilewright.verifying.verify import ALL_SETS, FEW_SETS, Problem, Verifier

LOADED = 48  # largest number of libraries or modules that stay loaded

Tell = Callable[[Json], None]


class Code(Protocol):
    """A library or module in memory."""

    def close(self) -> None: ...


@dataclass(kw_only=True)
class Loaded:
    """A kernel in memory. ``own``: its last measured time in seconds. ``seconds``: its reference time, by which the
    ratios of other kernels are multiplied."""

    key: str
    code: Code
    own: float = 0.0
    seconds: float = 0.0


K = TypeVar("K", bound=Loaded)
C = TypeVar("C", bound=Code)


class TaskSession(ABC, Generic[K]):
    """State of one child: settings for its lifetime, and the current task.

    ``spoilt``: the device is in a bad state, so the child must end after the current reply.
    """

    spoilt = False
    program: Program
    verifier: Verifier

    def __init__(self, settings: Mapping[str, Any], tell: Tell) -> None:
        self.cold: bool = settings["cache_state"] == "cold"
        self.folder = Path(settings["references"]) if settings["references"] else None
        self.tell = tell
        self.code: OrderedDict[str, Any] = OrderedDict()  # by hash, most recently used last
        self._reset("")

    def _reset(self, text: str) -> None:
        self.text = text
        self.constants_passed = 0
        self.passed: set[str] = set()
        self.incumbent: K | None = None

    def handle(self, request: Request) -> Done:
        """Serve one request."""
        if request.program != self.text:
            self._reset(request.program)
            self.tell(At())
            self.program = Program.loads(self.text)
            self.verifier = Verifier(self.program, self.folder)
        self.constants_passed = request.constants_passed
        match request:
            case Measure():
                self._measure(request)
                return Done()
            case Verify():
                return Done(failure=self._verify_only(request.item, request.turn))
            case Compare():
                return Done(comparison=self._compare(request))
        raise TypeError(f"a child serves no {type(request).__name__}")

    @property
    def _state(self) -> str:
        return "cold" if self.cold else "warm"

    def _prepare(self, item: KernelFile, sets: Sequence[int] = ALL_SETS) -> None:
        """Make inputs and references of these sets, outside any kernel's time limit."""
        how = item.program.align, item.program.rounding
        for n in sets:
            if not self.verifier.has(n, *how):
                self.tell(At())
                self.verifier.input_set(n, *how)

    def _verify_only(self, item: KernelFile, turn: int | None) -> Failure | None:
        """Check one kernel on every input set, or on set number ``turn``; returns its failure or ``None``."""
        sets = ALL_SETS if turn is None else (ALL_SETS[turn % len(ALL_SETS)],)
        self._prepare(item, sets)
        self.tell(At(0))

        def check() -> tuple[Outcome, None]:
            problem = self._check(self._load(item), sets)
            return (Failure(problem.kind, str(problem)) if problem else Failure(FailureKind.WRONG_RESULT, "")), None

        outcome, _ = self._guarded(check)
        return outcome if isinstance(outcome, Failure) and outcome.message else None

    # ------------------------------------------------------------------ one trial

    def _try(self, item: KernelFile, pairs: int) -> Outcome:
        """Check a kernel, then time it with at most ``pairs`` samples.

        The first correct kernel of a run becomes the incumbent.
        """
        outcome, kernel = self._guarded(partial(self._trial, item, pairs))
        if kernel is not None and self.incumbent is None and isinstance(outcome, Measurement):
            self.incumbent = kernel
            kernel.seconds = kernel.own = outcome.seconds
        return outcome

    def _trial(self, item: KernelFile, pairs: int) -> tuple[Outcome, K | None]:
        began = time.perf_counter()
        kernel = self._load(item)
        problem = self._check(kernel, FEW_SETS if item.binary in self.passed else ALL_SETS)
        checked = time.perf_counter()
        if problem:
            return Failure(problem.kind, str(problem)), None
        self.passed.add(item.binary)
        found = self._time(kernel, pairs)
        now = time.perf_counter()
        return replace(found, verify_seconds=checked - began, measure_seconds=now - checked), kernel

    def _guarded(self, work: Callable[[], tuple[Outcome, K | None]]) -> tuple[Outcome, K | None]:
        """The result of ``work``, or the ``Failure`` for its exception."""
        try:
            return work()
        except Exception as e:
            failure = self._failure(e)
            if failure is None:
                raise
            return failure, None

    def _adopt(self, item: KernelFile | None) -> None:
        """Make a kernel the incumbent that other kernels are timed against."""
        if item is not None and self.incumbent is not None and self.incumbent.key == item.key:
            return
        self.incumbent = None
        if item is None:
            return
        self.tell(At(incumbent=True))
        self.incumbent = k = self._time_incumbent(item)
        if k is not None:
            # Keep the run's scale, even if the machine's speed has changed: times of all trials must be comparable.
            k.seconds = item.seconds or k.own

    def _kept(self, item: KernelFile, load: Callable[[str, str], C]) -> C:
        """An item's loaded code; loads it by ``load`` from its path and hash if needed."""
        code: C = self.code.pop(item.sha256, None) or load(item.path, item.sha256)
        self.code[item.sha256] = code
        while len(self.code) > LOADED:
            _, old = self.code.popitem(last=False)
            if self.incumbent is None or self.incumbent.code is not old:
                old.close()
        return code

    # ------------------------------------------------------------------ per kind of device

    @abstractmethod
    def _measure(self, request: Measure) -> None:
        """Check and time the request's items, and report each outcome."""

    @abstractmethod
    def _load(self, item: KernelFile, copy: bool = False) -> K:
        """Load the request's kernel. With ``copy``, load a second copy of its code, which the caller closes."""

    @abstractmethod
    def _check(self, kernel: K, sets: Sequence[int]) -> Problem | None:
        """Check a kernel on these input sets; returns the problem or ``None``."""

    @abstractmethod
    def _time(self, kernel: K, pairs: int) -> Measurement:
        """Time a correct kernel, against the incumbent if there is one."""

    @abstractmethod
    def _time_incumbent(self, item: KernelFile) -> K | None:
        """Load a kernel and measure its ``own`` time; ``None`` if that fails, which only loses the comparison."""

    @abstractmethod
    def _failure(self, error: Exception) -> Failure | None:
        """The ``Failure`` for the exception of a trial; ``None`` for an exception of tilewright itself."""

    @abstractmethod
    def _compare(self, request: Compare) -> PairedComparison:
        """Compare the request's two kernels."""

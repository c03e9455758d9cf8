"""Checks GPU kernels on the emulator: their source is compiled for the CPU, and their threads are interleaved.

Every kernel runs in several orders of its threads and blocks, on random and on exact inputs. Asynchronous copies
are performed as late, or as early, as allowed. Its output is compared with the float64 reference
as in measurement (:class:`~tilewright.verifying.verify.Verifier`). Uninitialised local variables start with
garbage (:mod:`~tilewright.checking.poison`). Sanitizers are builds of their own. Checks that could not run
are listed in ``unchecked``.
"""

from __future__ import annotations

import copy
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.backends.toolchain import CompileTimeout
from tilewright.checking import native
from tilewright.checking.places import named
from tilewright.checking.poison import HEADER as POISON_HEADER
from tilewright.checking.poison import poisoned
from tilewright.core import Candidate, LaunchProgram, Pairs, Schedule, Target, TilewrightError, UsageError, Workload
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import get_template, lower
from tilewright.kernels.templates.user_kernel import UserTemplate
from tilewright.kernels.templates.user_kernel.source import relabelled
from tilewright.serialization import Json
from tilewright.verifying.buffers import GuardedArray
from tilewright.verifying.verify import InputSet, Verifier

if TYPE_CHECKING:
    from tilewright.backends.emulator import EmulatedKernel

SANITIZERS = ("address", "undefined", "thread")
ORDERS = ("fifo/lazy", "lifo/eager", "random:0/lazy")
"""Orders in which threads run, and the times of asynchronous copies."""
SETS = (0, 2)
"""Indices into ``inputs.RECIPES``: random normal values, and whole numbers whose sums are exact."""
TIMEOUT = 60.0  # largest duration of a run in seconds

_LOCATING = (("thread",), ("address", "undefined"))
_FIRST_LINE = '#line 1 "kernel"\n'
_ORDER = re.compile(r"(fifo|lifo|random:\d+)/(lazy|eager)")
_COMPILER = re.compile(r"^kernel:(\d+)(?::\d+)?: (?:fatal )?error: (.*)$", re.MULTILINE)


class CannotCheck(TilewrightError):
    """A kernel cannot be checked: no compiler, or a sanitizer that does not run here."""

    kind = "cannot_check"
    exit_code = 3


def parse_orders(texts: Sequence[str]) -> tuple[str, ...]:
    """Parse orders such as ``fifo/lazy``; raises ``UsageError`` for any other text."""
    for text in texts:
        if not _ORDER.fullmatch(text):
            raise UsageError(
                f"{text!r} is not an order", "Write fifo, lifo or random:SEED, a slash, then lazy or eager: lifo/eager"
            )
    if not texts:
        raise UsageError("no order is given", f"Give some of {', '.join(ORDERS)}")
    return tuple(texts)


def parse_sanitizers(texts: Sequence[str]) -> tuple[str, ...]:
    """Names of sanitizers in a fixed order; raises ``UsageError`` for an unknown name."""
    for text in texts:
        if text not in SANITIZERS:
            raise UsageError(f"{text!r} is not a sanitizer", f"Use some of {', '.join(SANITIZERS)}")
    return tuple(s for s in SANITIZERS if s in texts)


def sanitizer_builds(sanitize: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Builds for these sanitizers: address and undefined share a build, thread has its own."""
    memory = tuple(s for s in sanitize if s != "thread")
    return (*((memory,) if memory else ()), *((("thread",),) if "thread" in sanitize else ()))


@dataclass(frozen=True)
class Subject:
    """A kernel to check: its source (line numbers start at 1), its launches, and its workload."""

    target: Target
    workload: Workload
    source: str
    program: LaunchProgram
    launch: Pairs = ()
    schedule: Schedule | None = None
    listing: str = ""  # the text that line numbers refer to, if it is not the source

    @property
    def native(self) -> bool:
        """Whether the kernel is a processor's own, which runs without the emulator."""
        return self.target.kind == "cpu"

    @property
    def symbols(self) -> tuple[str, ...]:
        return self.program.symbols

    @property
    def arguments(self) -> dict[str, int]:
        """Values of the launch arguments."""
        return {name: int(value) for name, value in self.launch}

    def line(self, number: int | None) -> str:
        """A line of the kernel's text, stripped; empty for an unknown line."""
        lines = (self.listing or self.source).split("\n")
        return lines[number - 1].strip() if number is not None and 0 < number <= len(lines) else ""


def subject_of(candidate: Candidate) -> Subject:
    """The kernel that a template prints for a candidate. Raises ``IllegalSchedule``."""
    kernel = lower(candidate)
    source = kernel.source.removeprefix(_FIRST_LINE)
    task = candidate.task
    template = get_template(candidate.schedule.template)
    listing = ""
    if isinstance(template, UserTemplate):
        listing = template.kernel.listing
        source = relabelled(source, template.kernel.label, '"kernel"')
    return Subject(
        task.target, task.workload, source, kernel.program, candidate.schedule.launch, candidate.schedule, listing
    )


@dataclass(frozen=True)
class Finding(Json):
    """A bug: its kind, its place in the kernel, and the run that found it.

    ``kind``: ``wrong_result``, ``overflow``, ``lost_accuracy``, ``compile``, ``launch`` (the device would refuse it),
    or a finding of the emulator:
    ``out_of_bounds_global``, ``out_of_bounds_shared``, ``race``, ``divergence``, ``deadlock``,
    ``misaligned``, ``undefined``... ``line`` counts from 1 in the kernel's own text.
    """

    kind: str
    message: str
    line: int | None = None
    text: str = ""
    block: str = ""
    thread: str = ""
    order: str = ""
    inputs: str = ""
    sanitizer: str = ""

    @property
    def place(self) -> str:
        """``line 12, block (0, 1, 0), thread (33, 0, 0)``, with the known parts only."""
        parts = [f"line {self.line}"] if self.line is not None else []
        parts += [f"block {self.block}"] if self.block else []
        parts += [f"thread {self.thread}"] if self.thread else []
        return ", ".join(parts)


@dataclass
class Checked:
    """The result for one kernel. ``seconds``: durations of ``build`` and ``run``."""

    subject: Subject
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    profile: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"build": 0.0, "run": 0.0})

    @property
    def state(self) -> str:
        """``right``, ``bug`` or ``unchecked``; a kernel with a bug is never ``unchecked``."""
        return "bug" if self.findings else "unchecked" if self.unchecked else "right"

    def add(self, finding: Finding) -> None:
        """Add a finding unless it is known: findings with equal kind and line are one bug."""
        same = ((f.kind, f.line) == (finding.kind, finding.line) for f in self.findings)
        if not any(same):
            self.findings.append(finding)

    def to_json(self) -> dict[str, Any]:
        schedule = self.subject.schedule
        return {
            "state": self.state,
            "template": schedule.template if schedule else None,
            "schedule": dict(schedule.values) if schedule else None,
            "bugs": [f.to_json() for f in self.findings],
            "unchecked": self.unchecked,
            "runs": self.runs,
            "seconds": {k: round(v, 4) for k, v in self.seconds.items()},
            **({"profile": dict(self.profile)} if self.profile else {}),
        }


class _Found(Exception):
    """Ends a run whose output is meaningless because the emulator stopped it."""


class Checker:
    """Checks kernels of one workload; safe to use from several threads.

    ``sanitize`` names builds besides the plain one: address and undefined share one. ``first`` stops at the
    first bug; without it, sanitizers search for a missing line of a bug. ``profile`` counts memory
    traffic in one extra run. ``cache`` is the folder of compiled emulations. The constructor makes inputs and
    reference once (it may take seconds).
    """

    def __init__(
        self,
        workload: Workload,
        *,
        orders: Sequence[str] = ORDERS,
        sanitize: Sequence[str] = (),
        sets: Sequence[int] = SETS,
        profile: bool = False,
        first: bool = False,
        timeout: float = TIMEOUT,
        references: Path | None = None,
        cache: Path | None = None,
    ) -> None:
        self.workload = workload
        self.orders = parse_orders(orders)
        self.sanitize = parse_sanitizers(sanitize)
        self.profile = profile
        self.first = first
        self.timeout = timeout
        self.cache = cache
        self.plain = True
        program = Program.loads(workload.program)
        self.verifier = Verifier(program, references)
        self.data = [self.verifier.input_set(n) for n in sets]
        self._own = threading.local()

    @property
    def builds(self) -> tuple[tuple[str, ...], ...]:
        """Sanitizers of each build, the plain one first."""
        return (*(((),) if self.plain else ()), *sanitizer_builds(self.sanitize))

    def watching(self, sanitize: Sequence[str]) -> Checker:
        """A copy that shares the inputs, with these sanitizers and without the plain build."""
        other = copy.copy(self)
        other.sanitize, other.plain = parse_sanitizers(sanitize), False
        other._own = threading.local()
        return other

    def check(self, subject: Subject) -> Checked:
        """Build and run one kernel in every requested way. Raises ``CannotCheck`` without a compiler."""
        from tilewright.backends.limits import refusal

        result = Checked(subject)
        refused = None if subject.native else refusal(subject.program, subject.target, subject.arguments)
        if refused is not None:
            result.add(Finding("launch", refused))
            return result
        for sanitize in self.builds:
            if not self._check_build(subject, sanitize, result):
                break
        if not self.first and result.findings and not any(f.line for f in result.findings):
            self._locate(subject, result)
        if self.profile and not result.findings:
            self._profile(subject, result)
        return result

    def _locate(self, subject: Subject, result: Checked) -> None:
        """Search for the line of a wrong result with sanitizers that were not requested: they often find it."""
        for sanitize in _LOCATING:
            if set(sanitize) <= set(self.sanitize) or any(f.kind == "compile" for f in result.findings):
                continue
            tried = Checked(subject)
            watching = self.watching(sanitize)
            watching.orders = self.orders[:1]
            watching._check_build(subject, sanitize, tried)
            result.runs += tried.runs
            for k, v in tried.seconds.items():
                result.seconds[k] += v
            found = [f for f in tried.findings if f.line is not None]
            for f in found:
                result.add(f)
            if found:
                return

    def check_all(self, subjects: Sequence[Subject], workers: int = 1) -> Iterator[tuple[int, Checked]]:
        """Check many kernels at once; yields each kernel's index and result, in the order of completion."""
        pool = ThreadPoolExecutor(workers, "check")
        waiting: dict[Future[Checked], int] = {}
        rest = iter(enumerate(subjects))
        try:
            while True:
                while len(waiting) < workers and (item := next(rest, None)) is not None:
                    waiting[pool.submit(self.check, item[1])] = item[0]
                if not waiting:
                    return
                for f in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(f), f.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ one build

    def _check_build(self, subject: Subject, sanitize: tuple[str, ...], result: Checked) -> bool:
        """Check one build of a kernel. Returns whether to continue with the next build."""
        kernel = self._build(subject, sanitize, result)
        if kernel is None:
            return False
        # Sanitizers watch memory accesses, whose addresses do not depend on values: one input set is enough.
        sets = self.data[:1] if sanitize else self.data
        for order in self.orders[:1] if subject.native else self.orders:
            for data in sets:
                before = len(result.findings)
                alive = self._run(kernel, subject, order, data, sanitize, result)
                if self.first and result.findings:
                    return False
                if not alive:
                    return True
                if len(result.findings) > before:
                    break  # other inputs would find this bug again; another order may find more
        return True

    def _build(
        self, subject: Subject, sanitize: tuple[str, ...], result: Checked, profile: bool = False
    ) -> EmulatedKernel | None:
        from tilewright.backends import emulator

        began = time.perf_counter()
        head = prelude(subject.target, emulated=True)

        def compiled(text: str) -> EmulatedKernel:
            if subject.native:
                return native.build(head + text, subject.symbols[0], subject.target, sanitize, self.cache)
            return emulator.build(
                head + text, subject.symbols, sanitize=sanitize, profile=profile, cache=self.cache
            )  # fmt: skip

        try:
            # The thread sanitizer would report these writes on stacks that threads of other blocks used before.
            unset = subject.source if "thread" in sanitize else poisoned(subject.source)
            if unset != subject.source:
                with suppress(emulator.CompileError):  # then report the errors of the original text
                    return compiled(POISON_HEADER + _FIRST_LINE + unset)
            return compiled(_FIRST_LINE + subject.source)
        except CompileTimeout as e:
            result.unchecked.append(e.message)
            return None
        except emulator.CompileError as e:
            for finding in compile_findings(subject, e.log or e.message):
                result.add(finding)
            return None
        except TilewrightError as e:
            raise CannotCheck(e.message, e.hint) from e
        finally:
            result.seconds["build"] += time.perf_counter() - began

    def _run(
        self, kernel: EmulatedKernel, subject: Subject, order: str, data: InputSet,
        sanitize: tuple[str, ...], result: Checked,
    ) -> bool:  # fmt: skip
        """Run once and compare. Returns whether another run of this build may find more."""
        from tilewright.backends import emulator

        schedule, copies = order.split("/")
        shown = "" if subject.native else order
        alive = True

        def run(_pointers: Sequence[int]) -> None:
            nonlocal alive
            inputs, outputs = [g.array for g in mine.inputs], [g.array for g in mine.outputs]
            if subject.native:
                report = native.run(kernel, inputs, *outputs, timeout=self.timeout)
            else:
                report = emulator.run(
                    kernel, subject.program, subject.arguments, inputs, *outputs,
                    order=schedule, copies=copies, timeout=self.timeout,
                )  # fmt: skip
            result.runs += 1
            result.seconds["run"] += report.seconds
            for bug in report.bugs:
                result.add(
                    Finding(
                        bug.kind, named(bug.message, subject.workload), bug.line, subject.line(bug.line),
                        _triple(bug.block), _triple(bug.thread), shown, data.recipe.name, ",".join(sanitize),
                    )
                )  # fmt: skip
                alive &= bug.kind not in ("timeout", "launch")
            if report.unchecked and report.unchecked not in result.unchecked:
                result.unchecked.append(report.unchecked)
                alive = False
            if report.bugs or report.unchecked:
                raise _Found

        mine = self._mine(data)
        try:
            problem = self.verifier.check_set(run, mine)
        except _Found:
            return alive
        if problem:
            result.add(Finding(problem.kind.value, str(problem), order=shown, inputs=data.recipe.name))
        return True

    def _mine(self, data: InputSet) -> InputSet:
        """The input set with output buffers of this thread."""
        outputs: dict[int, list[GuardedArray]] = self._own.__dict__.setdefault("outputs", {})
        if id(data) not in outputs:
            outputs[id(data)] = [
                GuardedArray(g.array.shape, g.array.dtype, data.recipe.place, name=g.name) for g in data.outputs
            ]
        return replace(data, outputs=outputs[id(data)])

    def _profile(self, subject: Subject, result: Checked) -> None:
        from tilewright.backends import emulator

        kernel = self._build(subject, (), result, profile=True)
        if kernel is None:
            return
        mine = self._mine(self.data[0])
        report = emulator.run(
            kernel, subject.program, subject.arguments, [g.array for g in mine.inputs],
            *(g.array for g in mine.outputs), order="fifo", copies="lazy", timeout=self.timeout,
        )  # fmt: skip
        result.seconds["run"] += report.seconds
        result.profile = report.profile


def compile_findings(subject: Subject, text: str, most: int = 5) -> list[Finding]:
    """The compiler's errors in the kernel's text; the whole message if no error is there."""
    found = [
        Finding("compile", message.strip(), int(line), subject.line(int(line)))
        for line, message in _COMPILER.findall(text)
    ]
    return found[:most] or [Finding("compile", text.strip())]


def _triple(where: Sequence[int] | None) -> str:
    """Text such as ``(1, 0, 0)`` for the emulator's indices of a block or thread."""
    return "" if where is None else f"({', '.join(map(str, where))})"

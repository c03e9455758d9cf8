"""Runs a user's own kernel under sanitizers before it may win: correct results alone do not prove a kernel legal."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from tilewright.checking import cost
from tilewright.checking.check import SANITIZERS, SETS, Checked, Checker, Finding, Subject, subject_of
from tilewright.core import Candidate, Failure, FailureKind, IllegalSchedule, Task, TilewrightError, evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.user_kernel import UserTemplate

_SECONDS = 10.0  # estimated duration of a run above which smaller sizes are checked
_WHOLE = 1024  # largest number of threads of a grid for which one order shows every race between blocks
_KINDS = {
    "compile": FailureKind.COMPILE, "launch": FailureKind.LAUNCH, "timeout": FailureKind.TIMEOUT,
    "overflow": FailureKind.OVERFLOW, "lost_accuracy": FailureKind.LOST_ACCURACY,
    **dict.fromkeys(("wrong_result", "race", "uninitialized"), FailureKind.WRONG_RESULT),
}  # fmt: skip
"""Kinds of failure by kinds of finding; all other findings would crash a kernel on a GPU."""


class Watch:
    """Checks kernels of one workload after another. Not safe to use from several threads at once.

    ``references``: the folder of stored reference results. ``strict``: a kernel fails if no sanitizer runs.
    """

    def __init__(self, references: Path | None, strict: bool = True) -> None:
        self._references, self._strict = references, strict
        self._checker: Checker | None = None
        self._known: dict[str, Failure | None] = {}

    def problem(self, candidate: Candidate) -> Failure | None:
        """The failure of a user's kernel; ``None`` without a finding, and for kernels of other templates."""
        try:
            template = get_template(candidate.schedule.template)
        except TilewrightError:
            return None
        if not isinstance(template, UserTemplate):
            return None
        try:
            subject = subject_of(_small(candidate, template))
        except IllegalSchedule as e:
            return Failure(FailureKind.LAUNCH, str(e))
        key = f"{subject.workload.key} {subject.source}"
        if key not in self._known:
            self._known[key] = self._look(
                subject, subject.workload.label if subject.workload != candidate.task.workload else ""
            )
        return self._known[key]

    def _look(self, subject: Subject, sizes: str) -> Failure | None:
        if self._checker is None or self._checker.workload != subject.workload:
            self._checker = Checker(subject.workload, sets=SETS[:1], first=True, references=self._references)
        checker = self._checker
        launches = subject.program.every_launch
        threads = max(math.prod(evaluate(e, subject.arguments) for e in x.grid) * math.prod(x.block) for x in launches)
        races = checker.watching(("thread",))
        races.orders = checker.orders[:1] if threads <= _WHOLE else checker.orders[:2]
        for watching in (checker.watching([s for s in SANITIZERS if s != "thread"]), races):
            found = _failure(watching.check(subject), self._strict)
            if found is not None:
                return replace(found, message=f"{found.message}{f' [at {sizes}]' if sizes else ''}")
        return None


def _failure(checked: Checked, strict: bool) -> Failure | None:
    if checked.findings:
        first = checked.findings[0]
        return Failure(_KINDS.get(first.kind, FailureKind.CRASH), told(first))
    if checked.unchecked and strict:
        return Failure(FailureKind.RESOURCES, f"it cannot be checked: {checked.unchecked[0]}")
    return None


def told(finding: Finding) -> str:
    """A finding in one line: kind, place, message, and the line's text."""
    place = f" at {finding.place}" if finding.place else ""
    text = f": `{finding.text}`" if finding.text else ""
    return f"{finding.kind}{place}: {finding.message}{text}"


def _small(candidate: Candidate, template: UserTemplate) -> Candidate:
    """The candidate; if its runs would take long, the same knobs at smaller sizes, if they are legal there."""
    task = candidate.task
    seconds = cost.estimate(task.workload, [("thread",)], 1, 1)
    if seconds <= _SECONDS and cost.tensor_bytes(task.workload) <= cost.MEMORY:
        return candidate
    share = task.workload.flops * _SECONDS / seconds
    smaller = cost.smaller(template.kernel.operator, dict(task.workload.params), share)
    if smaller is None:
        return candidate
    there = Task(smaller, task.target)
    try:
        template.space(there).check(candidate.schedule)
    except (IllegalSchedule, TilewrightError):
        return candidate
    return Candidate(there, candidate.schedule)

"""Running a kernel's mutants on the emulator: which mistakes the checks notice.

A mutant is *killed* by any bug or wrong result. One that passes the plain runs goes on to the sanitizers;
one that passes these too has *survived*. One that does not compile is *stillborn* and does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutants import Mutant, applied, choose, mutants, with_switch
from tilewright.checking.check import Checked, Checker, Subject
from tilewright.core import TilewrightError

SANITIZERS = (("thread",), ("address", "undefined"))
"""Builds for mutants that pass the plain one, in this order."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: ``killed``, ``survived``, ``stillborn`` or ``unchecked``, and by what.

    ``by`` is the finding's kind, ``how`` the run: order, inputs, sanitizer. ``text`` is the mutated line.
    """

    mutant: Mutant
    state: str
    by: str = ""
    how: str = ""
    line_text: str = ""

    def to_json(self) -> dict[str, Any]:
        m = self.mutant
        return {
            "key": m.key, "kind": m.kind, "line": m.line, "change": m.change, "text": self.line_text,
            "state": self.state, "by": self.by, "how": self.how,
        }  # fmt: skip


class Switched:
    """A kernel with a switch over its mutants; those that the compiler refuses beside the others stand alone.

    Raises ``TilewrightError`` where the kernel without any mistake is not right.
    """

    def __init__(self, subject: Subject, checker: Checker, found: Sequence[Mutant]) -> None:
        self.subject = subject
        self.numbers = {n + 1: m for n, m in enumerate(found) if m.edits}
        while True:
            self.switched = with_switch(subject, self.numbers)
            result = checker.check(self.switched)
            refused = {f.line for f in result.findings if f.kind == "compile"}
            if not refused or not self.numbers:
                break
            # An error that points elsewhere than at its cause: then each mutant stands alone.
            dropped = {n for n, m in self.numbers.items() if m.line in refused} or set(self.numbers)
            self.numbers = {n: m for n, m in self.numbers.items() if n not in dropped}
        if result.state != "right":
            what = result.findings[0].message if result.findings else result.unchecked[0]
            raise TilewrightError(f"the kernel is not right to begin with: {what}", "Check it with tilewright check")
        self.seconds = result.seconds["run"] / max(result.runs, 1)
        chosen = {id(m) for m in self.numbers.values()}
        self.alone = [m for m in found if id(m) not in chosen]

    def mutated(self, mutant: Mutant) -> Subject:
        """A subject with one mistake."""
        for number, m in self.numbers.items():
            if m is mutant:
                return choose(self.switched, number)
        return replace(self.subject, source=applied(self.subject.source, mutant))


def run_mutants(
    subject: Subject, checker: Checker, *, found: Sequence[Mutant] | None = None, sanitize: bool = True
) -> Iterator[Verdict]:
    """The verdict on every mutant (or on those ``found``), as they come. ``checker`` must stop at the first bug."""
    listed = mutants(subject.source) if found is None else list(found)
    switched = Switched(subject, checker, listed)
    patient = checker.timeout
    # A mutant that loops for ever is killed: soon, but never because the machine is busy.
    quick = checker.watching(())
    quick.plain, quick.timeout = True, min(patient, 5.0 + 30 * switched.seconds)
    builds = [quick.watching(s) for s in SANITIZERS] if sanitize else []
    for b in builds:
        b.timeout = patient
    for m in listed:
        yield _verdict(m, switched.mutated(m), subject.line(m.line), [quick, *builds])


def _verdict(mutant: Mutant, subject: Subject, text: str, checkers: Sequence[Checker]) -> Verdict:
    unchecked: list[str] = []
    for checker in checkers:
        result: Checked = checker.check(subject)
        if result.findings:
            f = result.findings[0]
            if f.kind == "compile":
                return Verdict(mutant, "stillborn", "compile", "", text)
            how = ", ".join(x for x in (f.order, f.inputs, f.sanitizer) if x)
            return Verdict(mutant, "killed", f.kind, how, text)
        unchecked += result.unchecked
    if unchecked:
        return Verdict(mutant, "unchecked", "", unchecked[0], text)
    return Verdict(mutant, "survived", "", "", text)

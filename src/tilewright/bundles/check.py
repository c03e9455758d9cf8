"""Checks a bundle: every byte, that its kernels load, and that their results match the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tilewright.backends import backend_for
from tilewright.bundles.contents import Kernel, code_of, kernels, task_of
from tilewright.core import Artifact, Candidate, TilewrightError
from tilewright.measure.local_target import find_local_target
from tilewright.runtime.bundle.reader import Bundle


@dataclass(frozen=True)
class Checked:
    """A kernel's verdict: ``problem``, or ``skipped`` with the reason why this machine cannot run it, or neither."""

    kernel: Kernel
    problem: str = ""
    skipped: str = ""


def check(bundle: Bundle, *, run: bool = False) -> Iterator[Checked]:
    """Loads every kernel of this machine and, with ``run``, compares it with its reference in a child process.

    Every byte of the bundle is checked first. Raises ``DatabaseError`` for a damaged bundle.
    """
    bundle.check()
    found = sorted(kernels(bundle), key=lambda k: (k.entry.target.kind, k.entry.target.key))
    for _, group in groupby(found, key=lambda k: k.entry.target.key):
        same = list(group)
        target = same[0].entry.target
        backend = backend_for(target)
        if not backend.runs_here(target):
            yield from (Checked(k, skipped=f"this machine lacks {target.name}") for k in same)
        elif not run and not backend.in_process:
            yield from (Checked(k, skipped="kernels of a device load with --run alone") for k in same)
        elif run:
            yield from _run(bundle, same)
        else:
            yield from (Checked(k, problem=_load(bundle, k)) for k in same)


def _load(bundle: Bundle, kernel: Kernel) -> str:
    """The reason why a processor's kernel cannot be loaded; empty if it can."""
    from tilewright.backends.cpu.loader import load_bytes

    e = kernel.entry
    try:
        library = load_bytes(code_of(bundle, kernel), e.sha256)
        try:
            library.kernel(e.program, {k: int(v) for k, v in e.schedule.launch}, e.target.threads)
        finally:
            library.close()
    except TilewrightError as problem:
        return problem.message
    return ""


def _run(bundle: Bundle, same: list[Kernel]) -> Iterator[Checked]:
    """Compares the kernels' stored code with their references."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        pairs = []
        for kernel in same:
            e, row = kernel.entry, kernel.row
            path = Path(folder, e.sha256)
            path.write_bytes(code_of(bundle, kernel))
            stored = Artifact(str(path), e.sha256, e.program, e.target, row["compiler"], (), row["source_sha256"])
            pairs.append((kernel, stored))
        yield from run_kernels(bundle, pairs)


def run_kernels(bundle: Bundle, pairs: Sequence[tuple[Kernel, Artifact]]) -> Iterator[Checked]:
    """Compares kernels of one target, each with the given code, with their references in a child process."""
    target = pairs[0][0].entry.target
    with ExitStack() as stack:
        try:
            place = find_local_target(target, "auto", target.threads)
            stack.enter_context(place.lock(on_wait=lambda holder: None))
            runner = stack.enter_context(place.runner())
        except TilewrightError as problem:
            why = problem.message
            yield from (Checked(k, skipped=why) for k, _ in pairs)
            return
        for kernel, artifact in pairs:
            task = task_of(bundle, kernel)
            failure = runner.verify(task, (Candidate(task, kernel.entry.schedule), artifact))
            yield Checked(kernel, problem=f"{failure.kind.value}: {failure.message}" if failure else "")

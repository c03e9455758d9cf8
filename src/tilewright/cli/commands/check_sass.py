"""``tilewright check --sass``: the cost of kernels by their machine code, and with ``--profile`` measured on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.counters import print_profile
from tilewright.cli.declare import wants_json
from tilewright.cli.output import console, emit_json, percent, table
from tilewright.cli.progress import Steps
from tilewright.core import TilewrightError

if TYPE_CHECKING:
    from tilewright.checking.check import Subject
    from tilewright.checking.machine_code import KernelCost
    from tilewright.insight.counters import Profile, Reader

MOST_CLASSES = 6


def report_sass(subjects: Sequence[Subject], reader: Reader | None) -> int:
    """Compiles, disassembles and reports every kernel; returns exit code 1 if a kernel's machine code is wrong.

    ``reader`` also reads the kernels' hardware counters.
    """
    from tilewright.insight.counters import read_subject

    items = []
    with Steps("reading", len(subjects)) as steps:
        for s in subjects:
            items.append(read_subject(s))
            steps.step("")
    seen: list[tuple[Profile, ...] | TilewrightError] | None = None if reader is None else reader.profiles(items)
    found = [(x.subject, c) for x in items for c in x.costs]
    code = int(any(c.code.hasty for _, c in found))
    if wants_json():
        first = subjects[0]
        kernels = [{**c.to_json(), "schedule": dict(s.schedule.values) if s.schedule else None} for s, c in found]
        data: dict[str, Any] = {"workload": first.workload.label, "target": first.target.name, "kernels": kernels}
        if seen is not None:
            data["profiles"] = [
                {"error": p.to_json()} if isinstance(p, TilewrightError) else [x.to_json() for x in p] for p in seen
            ]
        emit_json(data)
        return code
    out = console()
    shown = table("kernel", "registers", "spills", "loop", "MMA", "per MMA", "bound by", "cycles", "of the peak")
    for s, c in found:
        loop = c.to_json()["loop"]
        per = loop["per_mma"]
        shown.add_row(
            _name(s, c), str(c.registers), f"{c.spills} B" if c.spills else "-", str(loop["instructions"]),
            str(loop["mma"]), f"{per:.2f}" if per else "-", c.bound.by if c.bound else "-",
            f"{c.bound.cycles:.3g}" if c.bound else "-", percent(c.bound.share) if c.bound and c.bound.share else "-",
        )  # fmt: skip
    out.print(shown)
    for s, c in found:
        if c.code.hasty:
            out.print(
                f"bug: {_name(s, c)} reads accumulators before the MMA ends ({c.code.hasty[0].opcode}): the assembler "
                "moved the read in front of the wait",
                style="red",
            )
    if len(subjects) == 1:
        for _, c in found:
            if c.bound is None:
                continue
            kinds = list(c.to_json()["loop"]["classes"].items())
            out.print(f"instructions in the main loop: {', '.join(f'{n} {k}' for k, n in kinds[:MOST_CLASSES])}")
            clocks = sorted(c.bound.loop.items(), key=lambda x: -x[1])
            out.print(f"clocks per iteration of a block: {', '.join(f'{k} {v:.0f}' for k, v in clocks if v)}")
    for item, profile in zip(items, seen or (), strict=False):
        if isinstance(profile, TilewrightError):
            out.print(f"no counters of {_name(item.subject, item.costs[0])}: {profile}", markup=False)
            continue
        names = {c.name: _name(item.subject, c) for c in item.costs}
        for p in profile:
            print_profile(out, names[p.kernel], p)
    return code


def _name(subject: Subject, cost: KernelCost) -> str:
    """A kernel's name: its template, with the kernel's suffix if its schedule has several kernels."""
    first = min(subject.symbols, key=len)
    return (cost.template or first) + cost.name.removeprefix(first)

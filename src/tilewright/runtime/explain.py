"""Explanations of how a library answers calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.core import Value
from tilewright.runtime.entry import Entry
from tilewright.serialization import Json


@dataclass(frozen=True)
class Explanation(Json):
    """How calls with these parameters are answered, and why.

    ``tier``: ``exact`` (a kernel tuned for the parameters) or ``range`` (one tuned for a range that holds them).
    Without a tuned kernel, a kernel is compiled: from the schedule of the ``nearest`` tuned sizes, from the cost
    model's choice (``foreseen``), or from the template's ``default``. ``fallback`` is NumPy, or the interpreter for
    your own operator. ``reason``: one line for a person. ``schedule``: the kernel's knobs. ``seconds``: the kernel's
    final time. ``device_model``: the hardware on which it was tuned. ``run``: the tuning run. ``rounding``: bound on
    the kernel's rounding error relative to the program's order of summation, above 1 for another order
    (docs/tolerances.md).
    """

    tier: str
    reason: str
    op: str
    params: Mapping[str, Value]
    template: str | None = None
    schedule: Mapping[str, Value] = field(default_factory=dict)
    seconds: float | None = None
    target: str | None = None
    device_model: str | None = None
    threads: int | None = None
    run: str | None = None
    rounding: float = 1.0

    def __str__(self) -> str:
        what = " ".join([self.op, *(f"{k}={v}" for k, v in self.params.items() if v != "")])
        return f"{what}: {self.tier}: {self.reason}"


def explained(entry: Entry, reason: str) -> Explanation:
    """The explanation of a stored kernel; ``reason``: notes on the choice."""
    return Explanation(
        tier=entry.tier,
        reason=f"{' and '.join(map(repr, entry.of.values()))} has it; {reason}" if entry.of else reason,
        op=entry.op,
        params=dict(entry.params),
        template=entry.schedule.template,
        schedule=dict(entry.schedule.values),
        seconds=entry.seconds,
        target=entry.target.name,
        device_model=entry.device_model,
        threads=entry.target.threads,
        run=entry.run,
        rounding=entry.program.rounding,
    )

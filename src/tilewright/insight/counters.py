"""Compares a kernel's hardware counters with the bound of its machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.backends.driver import NoDriver
from tilewright.core import Target, TilewrightError
from tilewright.serialization import Json

if TYPE_CHECKING:
    from tilewright.backends.cuda.bound import Bound
    from tilewright.backends.cuda.ncu import Counters, Profiler
    from tilewright.checking.check import Subject
    from tilewright.checking.machine_code import KernelCost
    from tilewright.measure.local_target import LocalTarget

RESOURCES = ("issue", "tensor", "fma", "registers", "mufu", "shared", "l2", "dram")
"""Resources of a bound, in the order of tables. GPUs have no counter of register banks (``registers``)."""
BESIDE = (
    "nanoseconds", "instructions", "registers", "occupancy", "blocks", "bank_conflicts", "shared_banks", "alu", "fp64",
    "l2_slices", "l2_bytes", "dram_bytes",
)  # fmt: skip
"""Further quantities that are read, by :attr:`~tilewright.backends.cuda.ncu.Quantity.key`."""


@dataclass(frozen=True)
class Resource(Json):
    """Clocks of an SM, on average, in which a resource is busy: by the ``bound``, and as ``measured``; ``None`` if
    unknown. ``share``: measured busy clocks over all clocks of the kernel."""

    name: str
    bound: float | None
    measured: float | None
    share: float | None

    @property
    def ratio(self) -> float | None:
        """The bound's busy clocks over the measured busy clocks: above 1 the bound overestimates the resource's use."""
        return self.bound / self.measured if self.bound is not None and self.measured else None


@dataclass(frozen=True)
class Profile(Json):
    """The counters of one kernel. ``cycles``: measured clocks; ``bound``: clocks of its bound, ``None`` without one;
    ``by``: the resource that bounds it; ``others``: further quantities by key."""

    kernel: str
    cycles: float
    bound: float | None
    by: str
    resources: tuple[Resource, ...]
    others: Mapping[str, float]

    @property
    def reached(self) -> float | None:
        """The bound's clocks over the measured clocks: 1 means that the kernel is at the bound."""
        return self.bound / self.cycles if self.bound is not None and self.cycles else None


def beside(counters: Counters, bound: Bound | None, clock_hz: float) -> Profile:
    """Combines a launch's counters with its kernel's bound, whose memory clocks assume the frequency ``clock_hz``."""
    read = counters.values
    cycles = read.get("cycles", 0.0)
    busy = dict(bound.busy) if bound is not None else {}
    # Memory has its own clock. The bound's memory clocks are converted to the SM's measured frequency.
    slower = cycles / read["nanoseconds"] * 1e9 / clock_hz if read.get("nanoseconds") else 1.0
    if "dram" in busy:
        busy["dram"] *= slower
    found = []
    for name in RESOURCES:
        share = None if name == "registers" or name not in read else read[name] / 100
        if share is not None or busy.get(name):
            found.append(Resource(name, busy.get(name), None if share is None else share * cycles, share))
    least = None if bound is None else bound.cycles * (slower if bound.by == "dram" else 1.0)
    others = {key: read[key] for key in BESIDE if key in read}
    return Profile(counters.kernel, cycles, least, bound.by if bound else "", tuple(found), others)


@dataclass(frozen=True)
class Read:
    """A compiled subject: its code, and the costs of its kernels by their machine code."""

    subject: Subject
    code: bytes
    costs: tuple[KernelCost, ...]


def read_subject(subject: Subject) -> Read:
    """Compiles a subject and reads its machine code. Raises as :func:`tilewright.checking.machine_code.costs` does."""
    from tilewright.checking.machine_code import compiled, compiled_costs

    code, log = compiled([subject])
    [costs] = compiled_costs([subject], code, log)
    return Read(subject, code, costs)


@dataclass(frozen=True)
class Reader:
    """Reads the counters of kernels on a device of this machine by ``ncu``."""

    place: LocalTarget
    profiler: Profiler

    @classmethod
    def find(cls, target: Target | str = "cuda") -> Reader:
        """Finds a device for ``target`` and ``ncu``. Raises ``NoCounters`` without them."""
        from tilewright.backends.cuda.ncu import NoCounters, find_profiler
        from tilewright.backends.cuda.targets import gpus
        from tilewright.measure.local_target import find_local_target

        try:
            gpus()
            return cls(find_local_target(target), find_profiler())
        except NoDriver as e:
            hint = "Profile on a machine with an NVIDIA GPU"
            raise NoCounters(f"no counters can be read: {e.message}", hint) from None

    def profiles(self, items: Sequence[Read], deadline: float = 120.0) -> list[tuple[Profile, ...] | TilewrightError]:
        """Reads the counters of the kernels of compiled subjects, in the order of their launches.

        A subject whose counters cannot be read has an error in its place. One run of ``ncu`` reads all subjects, in at
        most ``deadline`` seconds. Raises ``NoCounters`` if the system denies access, ``TilewrightError`` if ``ncu``
        fails.
        """
        from tilewright.measure.counters import Compiled, read_counters

        asked = [Compiled(x.subject.workload, x.subject.program, x.subject.launch, x.code) for x in items]
        with self.place.lock(on_wait=lambda _holder: None):
            seen = read_counters(asked, self.place, self.profiler, deadline)
        out: list[tuple[Profile, ...] | TilewrightError] = []
        for item, counters in zip(items, seen, strict=True):
            if isinstance(counters, TilewrightError):
                out.append(counters)
                continue
            clock = float(item.subject.target.limit["clock_hz"])
            out.append(tuple(beside(counters[k.name], k.bound, clock) for k in item.costs if k.name in counters))
        return out

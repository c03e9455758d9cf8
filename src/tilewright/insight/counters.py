"""A kernel's hardware counters beside the bound of its machine code: what takes the time, and where the bound errs."""

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
"""Those of a bound, as they are shown. GPUs have no counter of the banks of their registers (``registers``)."""
BESIDE = (
    "nanoseconds", "instructions", "registers", "occupancy", "blocks", "bank_conflicts", "shared_banks", "alu", "fp64",
    "l2_slices", "l2_bytes", "dram_bytes",
)  # fmt: skip
"""What else is read, by :attr:`~tilewright.backends.cuda.ncu.Quantity.key`."""


@dataclass(frozen=True)
class Resource(Json):
    """Clocks of a multiprocessor, on average, in which a resource is busy: by the ``bound``, and as ``measured``;
    ``None`` where that is not known. ``share``: the measured ones, of all clocks of the kernel."""

    name: str
    bound: float | None
    measured: float | None
    share: float | None

    @property
    def ratio(self) -> float | None:
        """The bound's clocks to the measured ones: above 1 the bound asks for more than there was."""
        return self.bound / self.measured if self.bound is not None and self.measured else None


@dataclass(frozen=True)
class Profile(Json):
    """One kernel: ``cycles`` that it took, those of its ``bound`` (``None``: it has none) and what that is ``by``, its
    resources, and what else was read, by key."""

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
    """Counters of a launch beside the bound of its kernel, whose clocks of memory are at ``clock_hz``."""
    read = counters.values
    cycles = read.get("cycles", 0.0)
    busy = dict(bound.busy) if bound is not None else {}
    # Memory has a clock of its own: its seconds are other clocks of a multiprocessor that runs at another frequency.
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
    """A compiled subject: its code, and what its machine code costs."""

    subject: Subject
    code: bytes
    costs: tuple[KernelCost, ...]


def read_subject(subject: Subject) -> Read:
    """Compile a subject and read its machine code. Raises like :func:`tilewright.checking.machine_code.costs`."""
    from tilewright.checking.machine_code import compiled, compiled_costs

    code, log = compiled([subject])
    [costs] = compiled_costs([subject], code, log)
    return Read(subject, code, costs)


@dataclass(frozen=True)
class Reader:
    """Reads the counters of kernels on a device of this machine, by its ``ncu``."""

    place: LocalTarget
    profiler: Profiler

    @classmethod
    def find(cls, target: Target | str = "cuda") -> Reader:
        """Raises ``NoCounters`` without ``ncu`` or a GPU that runs code for ``target``."""
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
        """The kernels of compiled subjects with their counters, in the order of their launches, or why a subject has
        none. One run of ``ncu`` reads all, in at most ``deadline`` seconds.

        Raises ``NoCounters`` where the system does not let them be read, and ``TilewrightError`` where ``ncu`` fails.
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

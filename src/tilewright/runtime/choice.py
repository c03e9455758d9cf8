"""Chooses which of the kernels that fit a request is served on a processor or device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.backends import Backend, cores, is_emulated
from tilewright.backends.cpu.device import device_model
from tilewright.backends.cpu.targets import runs_here
from tilewright.caching import cached_property
from tilewright.core import ABI_VERSION
from tilewright.runtime.entry import Entry
from tilewright.units import counted

if TYPE_CHECKING:
    from tilewright.backends.driver import Context


@dataclass(frozen=True)
class Found:
    """A look-up's result: the kernel, or ``None``. ``reason``: why no kernel was found, or notes on the choice.

    ``elsewhere``: kernels exist, but none runs here.
    """

    entry: Entry | None
    reason: str
    elsewhere: bool = False


class Place(ABC):
    """A processor or device that runs kernels.

    ``name``: its name in messages. ``asked``: the requested limit of a kernel's threads.
    """

    name: str
    asked: int | None = None

    @property
    def target(self) -> str:
        """The key of the target that kernels are tuned for here; empty for the processor, whose target is detected on
        demand."""
        return ""

    @property
    @abstractmethod
    def model(self) -> str:
        """The device model under which results are stored."""

    @property
    def threads(self) -> int | None:
        """The most threads that a kernel may use now; ``None`` on a device."""
        return None

    @abstractmethod
    def runs(self, entry: Entry) -> bool:
        """Whether a kernel's code runs here."""


class Processor(Place):
    """This machine's processor. ``asked``: the most threads of a kernel."""

    name = "this machine"

    def __init__(self, asked: int | None) -> None:
        self.asked = asked

    @property
    def model(self) -> str:
        return device_model()

    @property
    def threads(self) -> int:
        available = cores.available_cores()
        return available if self.asked is None else min(self.asked, available)

    def runs(self, entry: Entry) -> bool:
        return runs_here(entry.target)


class OnDevice(Place):
    """A device behind a driver."""

    def __init__(self, backend: Backend, context: Context) -> None:
        self.backend, self.context = backend, context
        self.name = context.model

    @cached_property
    def target(self) -> str:
        return next((t.key for t in self.backend.targets() if self.backend.serves(t, self.context)), "")

    @property
    def model(self) -> str:
        return self.context.model

    def runs(self, entry: Entry) -> bool:
        # An emulator's results are never served on a device: their times mean nothing.
        same = is_emulated(entry.device_model) == is_emulated(self.model)
        return same and entry.target.kind in self.backend.kinds and self.backend.serves(entry.target, self.context)


def choose(entries: Sequence[Entry], place: Place) -> Found:
    """The best usable kernel of entries that all fit the request."""
    if not entries:
        return Found(None, "nothing was tuned for it")
    here = [e for e in entries if place.runs(e)]
    if not here:
        return Found(None, f"tuned only for {each(e.target.name for e in entries)}, which {place.name} lacks", True)
    sound = [e for e in here if e.state == "verified" and e.program.abi == ABI_VERSION]
    if not sound:
        return Found(None, "its kernel is stale: run `tilewright verify`")
    limit = place.threads
    fitting = [e for e in sound if limit is None or e.target.threads <= limit]
    if not fitting:
        counts = each(str(e.target.threads) for e in sound)
        return Found(None, f"tuned only for {counts} threads, and no more than {limit} may run")
    # Of two programs under one name, the user means the latest.
    latest = max(fitting, key=lambda e: e.updated).workload_key
    model = place.model
    best = max(
        (e for e in fitting if e.workload_key == latest),
        key=lambda e: (
            e.device_model == model,
            e.target.threads,
            -e.seconds if e.device_model == model else 0.0,  # another machine's times are not comparable
            e.target.vector_bytes,
            e.updated,
        ),
    )
    notes = [f"tuned on {best.device_model}" + ("" if best.device_model == model else f", not on this {model}")]
    programs = len({e.workload_key for e in entries})
    if programs > 1:
        notes.append(f"the last tuned of {programs} programs of that name and parameters")
    if place.asked is not None and best.target.threads != place.asked:
        notes.append(f"for {counted(best.target.threads, 'thread')}, {place.asked} asked for")
    return Found(best, "; ".join(notes))


def narrowest(entries: Sequence[Entry]) -> list[Entry]:
    """The entries with the narrowest range of sizes."""
    least = min((e.span for e in entries), default=0)
    return [e for e in entries if e.span == least]


def choose_sized(exact: Sequence[Entry], ranged: Iterable[Entry], place: Place) -> Found:
    """The best usable kernel tuned for the exact sizes, else the best one of the narrowest range that contains them."""
    found = choose(exact, place)
    if found.entry is None and (fitting := list(ranged)):
        return choose(narrowest(fitting), place)
    return found


def each(names: Iterable[str]) -> str:
    """Distinct names, joined for a sentence."""
    return " and ".join(sorted(set(names)))

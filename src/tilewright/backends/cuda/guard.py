"""Looks at a GPU before and after a batch is timed there, and says when its times are void."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tilewright.backends.cuda.health import Health, Probe, Smi, disturbances, identify, new_ecc_errors, throttle
from tilewright.backends.driver import Context
from tilewright.core import Pairs, Value

PAUSES = (1.0, 5.0)
"""Seconds to wait before what was void is timed again, so often and no more: heat and passing processes go."""


class Guard:
    """Judges what was timed between ``begin`` and ``end``.

    Processes that were there before this one's parent count as the device's ordinary state: holding a context takes
    no time, and nvidia-smi does not say who works. They are told of (``facts``, and when a run starts); whoever
    comes later makes a sample void. In a container process ids are the host's, unknown in there, this process's own
    among them: then those that are there at the start are taken for old.
    """

    def __init__(self, probe: Probe, pauses: Sequence[float] = PAUSES) -> None:
        self._probe = probe
        self.pauses = tuple(pauses)
        self._family = frozenset((os.getpid(), os.getppid()))
        self._known: frozenset[int] | None = None
        self._after: Health | None = None
        self._before = self._look()

    def begin(self) -> None:
        """Look before samples are taken."""
        self._before, self._after = self._look(), None

    def end(self) -> tuple[str, ...]:
        """Look again: why the samples in between are void, one line each; empty when nothing speaks against them,
        or the device cannot be looked at."""
        self._after = self._look()
        if self._before is None or self._after is None:
            return ()
        return disturbances(self._before, self._after, self._known or ())

    def _look(self) -> Health | None:
        health = self._probe()
        if health is not None and self._known is None:
            self._known = self._family | {p for p in health.processes if not _came_later(p)}
        return health

    @property
    def memory_failed(self) -> bool:
        """Whether the device's memory had an uncorrected error in between."""
        looks = self._before, self._after
        return looks[0] is not None and looks[1] is not None and new_ecc_errors(looks[0].facts, looks[1].facts) > 0

    @property
    def facts(self) -> Pairs:
        """What was seen, to store with the measurements."""
        if self._before is None or self._after is None:
            return ()
        before, after = self._before.facts, self._after.facts
        out: list[tuple[str, Value]] = []
        if before.reasons is not None or after.reasons is not None:
            out.append(("throttle", ",".join(throttle(before, after)) or "none"))
        if after.ecc_uncorrected is not None:
            out.append(("ecc_uncorrected", after.ecc_uncorrected))
        listed = self._after.processes
        # Where any is listed this process is, too, under whatever number.
        unnamed = 1 if listed and os.getpid() not in listed else 0
        out.append(("other_processes", len(listed - self._family) - unnamed))
        return tuple(out)


def guard_of(context: Context) -> Guard | None:
    """What looks at a context's device; ``None`` where nothing can: the emulator, or no working nvidia-smi."""
    bus_id = str(dict(context.facts).get("pci", ""))
    if not bus_id:
        return None
    smi = Smi()
    identity = identify(context.index, bus_id, context.model, smi)
    if identity.facts is None:
        return None
    return Guard(lambda: smi.health(bus_id, identity.uuid))


def _came_later(pid: int) -> bool:
    """Whether a process is younger than this one's parent; not where the system does not say."""
    started, ours = _started(pid), _started(os.getppid())
    return started is not None and ours is not None and started > ours


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did (``proc_pid_stat(5)``, field 22)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None

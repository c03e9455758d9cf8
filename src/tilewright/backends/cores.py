"""Which cores this process may use, by the scheduler's affinity and the control group's quota; the machine's memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilewright.paths import text_of

CGROUP = Path("/sys/fs/cgroup")


def affinity() -> tuple[int, ...]:
    """Numbers of the cores that this process may run on, sorted."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def physical_memory() -> int:
    """The machine's memory in bytes; 0 where that is not known."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return 0


def available_cores() -> int:
    """How many cores this process may keep busy: its affinity, and no more than its quota; at least 1."""
    quota = cpu_quota()
    cores = len(affinity())
    return cores if quota is None else max(1, min(cores, int(quota + 0.001)))


@dataclass(frozen=True)
class Throttling:
    """How often, and for how many seconds in all, the quota stopped this process's group."""

    periods: int
    seconds: float


def cpu_quota(root: Path = CGROUP, membership: str | None = None) -> float | None:
    """Processor time a second that the control group allows, in cores; ``None`` for no limit.

    The tightest limit of the group and those above it counts, in version 1 and 2 hierarchies.
    """
    limits = []
    for folder in _folders(root, membership):
        limit = _quota_of(folder)
        if limit is not None:
            limits.append(limit)
    return min(limits) if limits else None


def throttling(root: Path = CGROUP, membership: str | None = None) -> Throttling:
    """What the control group reports of throttling; zeros where it reports nothing."""
    worst = Throttling(0, 0.0)
    for folder in _folders(root, membership):
        pairs = dict(line.split(maxsplit=1) for line in text_of(folder / "cpu.stat").splitlines() if " " in line)
        periods = _number(pairs.get("nr_throttled"))
        # Version 2 counts microseconds, version 1 nanoseconds.
        seconds = _number(pairs.get("throttled_usec")) / 1e6 or _number(pairs.get("throttled_time")) / 1e9
        worst = Throttling(max(worst.periods, int(periods)), max(worst.seconds, seconds))
    return worst


def _quota_of(folder: Path) -> float | None:
    words = text_of(folder / "cpu.max").split()
    if not words:
        words = [text_of(folder / f"cpu.cfs_{what}_us").strip() for what in ("quota", "period")]
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit():
        return None
    quota, period = int(words[0]), int(words[1])
    return quota / period if quota > 0 and period > 0 else None


def _folders(root: Path, membership: str | None) -> list[Path]:
    """The folders that describe this process's group and its ancestors, in every cpu hierarchy."""
    text = membership if membership is not None else text_of(Path("/proc/self/cgroup"))
    folders = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            bases = [root, root / "unified"]
        elif "cpu" in controllers.split(","):
            bases = [root / controllers, root / "cpu", root / "cpu,cpuacct"]
        else:
            continue
        group = Path(path.lstrip("/"))
        folders += [base / part for base in bases for part in (group, *group.parents)]
    # In a container the path often lies outside its own view: the root describes the container then.
    return [f for f in dict.fromkeys([*folders, root, root / "cpu"]) if f.is_dir()]


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def parse_cores(text: str) -> tuple[int, ...]:
    """``0-1,4`` as numbers, sorted."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        # A range is bounded so that a typing error does not fill the memory.
        cores.update(range(int(first), min(int(last or first), int(first) + 65535) + 1))
    return tuple(sorted(cores))


def format_cores(cores: Iterable[int]) -> str:
    """Numbers as ``0-1,4``."""
    parts: list[list[int]] = []
    for c in sorted(cores):
        if parts and parts[-1][1] == c - 1:
            parts[-1][1] = c
        else:
            parts.append([c, c])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)

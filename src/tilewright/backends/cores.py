"""The cores that this process may use, from affinity and the control group's quota; the machine's memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilewright.paths import text_of

CGROUP = Path("/sys/fs/cgroup")


def affinity() -> tuple[int, ...]:
    """Sorted numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def physical_memory() -> int:
    """The machine's memory in bytes; 0 if unknown."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return 0


def available_cores() -> int:
    """Number of cores that this process may keep busy: the smaller of its affinity and its quota, at least 1."""
    quota = cpu_quota()
    cores = len(affinity())
    return cores if quota is None else max(1, min(cores, int(quota + 0.001)))


@dataclass(frozen=True)
class Throttling:
    """Number of throttled periods of this process's group, and their total seconds."""

    periods: int
    seconds: float


def cpu_quota(root: Path = CGROUP, membership: str | None = None) -> float | None:
    """Quota of the control group in cores; ``None`` without a limit.

    The tightest limit of the group and its ancestors counts, in version 1 and 2 hierarchies.
    """
    limits = []
    for folder in _folders(root, membership):
        limit = _quota_of(folder)
        if limit is not None:
            limits.append(limit)
    return min(limits) if limits else None


def throttling(root: Path = CGROUP, membership: str | None = None) -> Throttling:
    """The control group's throttling; zeros if it reports none."""
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
    """Folders of this process's group and its ancestors, in every cpu hierarchy."""
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
    # In a container the path is often invisible: then the root describes the container.
    return [f for f in dict.fromkeys([*folders, root, root / "cpu"]) if f.is_dir()]


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def parse_cores(text: str) -> tuple[int, ...]:
    """Sorted core numbers from a text such as ``0-1,4``."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        # Limit the range, so that a typing error does not fill the memory.
        cores.update(range(int(first), min(int(last or first), int(first) + 65535) + 1))
    return tuple(sorted(cores))


def format_cores(cores: Iterable[int]) -> str:
    """Core numbers as a text such as ``0-1,4``."""
    parts: list[list[int]] = []
    for c in sorted(cores):
        if parts and parts[-1][1] == c - 1:
            parts[-1][1] = c
        else:
            parts.append([c, c])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)

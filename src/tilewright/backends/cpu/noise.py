"""Reasons to distrust a measurement on this machine, from the system's state, without measuring."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from tilewright.backends.cores import affinity, cpu_quota, throttling
from tilewright.paths import text_of

_BUSY = 0.15  # share of a core's time
_STOLEN = 0.05
_SAMPLE = 0.2  # seconds: twenty of the kernel's clock ticks


def noise_warnings(cores: Iterable[int] | None = None, sample: float = _SAMPLE) -> list[str]:
    """Short reasons why times measured now would be noisy; empty without one.

    ``cores``: the cores to measure on (default: all that this process may use). Sleeps for ``sample``
    seconds.
    """
    wanted = tuple(cores) if cores is not None else affinity()
    before = _processor_times()
    time.sleep(sample)
    found = load_warnings(before, _processor_times(), wanted)
    quota = quota_warning(len(wanted))
    governor = governor_warning(wanted)
    battery = "the machine runs on battery" if on_battery() else None
    return [*found, *(w for w in (quota, governor, battery) if w)]


def load_warnings(before: str, after: str, cores: Iterable[int]) -> list[str]:
    """Warnings from two readings of ``/proc/stat``: cores that are busy, or taken by the hypervisor."""
    old, new = _parse_stat(before), _parse_stat(after)
    out = []
    for core in cores:
        if core not in old or core not in new:
            continue
        spent = [max(0, b - a) for a, b in zip(old[core], new[core], strict=False)]
        total = sum(spent[:8])
        if total == 0:
            continue
        idle = spent[3] + spent[4]
        stolen = spent[7] if len(spent) > 7 else 0
        if (total - idle - stolen) / total > _BUSY:
            out.append(f"core {core} is busy ({100 * (total - idle - stolen) / total:.0f}% with other work)")
        if stolen / total > _STOLEN:
            out.append(f"the hypervisor takes {100 * stolen / total:.0f}% of core {core}")
    return out


def quota_warning(cores: int) -> str | None:
    """Warning about a processor quota that has throttled this process, or cannot keep the cores busy."""
    quota = cpu_quota()
    if quota is None:
        return None
    stopped = throttling()
    if quota < cores or stopped.periods:
        times = f", and has stopped it {stopped.periods} times" if stopped.periods else ""
        return f"a quota holds this process to {quota:g} cores{times}"
    return None


def governor_warning(cores: Iterable[int], root: Path = Path("/sys/devices/system/cpu")) -> str | None:
    """Warning about a frequency governor other than ``performance``."""
    for core in cores:
        name = text_of(root / f"cpu{core}" / "cpufreq" / "scaling_governor").strip()
        if name and name != "performance":
            return f"the frequency governor of core {core} is {name}, not performance"
    return None


def on_battery(root: Path = Path("/sys/class/power_supply")) -> bool:
    """Whether a battery of the machine itself (not of a mouse) is discharging."""
    if not root.is_dir():
        return False
    for supply in root.iterdir():
        kind, scope, status = (text_of(supply / n).strip() for n in ("type", "scope", "status"))
        if kind == "Battery" and scope != "Device" and status == "Discharging":
            return True
    return False


def _processor_times() -> str:
    return text_of(Path("/proc/stat"))


def _parse_stat(text: str) -> dict[int, list[int]]:
    out = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit():
            numbers = [int(n) for n in rest.split() if n.isdigit()]
            if len(numbers) >= 5:
                out[int(name[3:])] = numbers
    return out

"""The circumstances of a measurement, stored with it: few and short."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from tilewright.core import Device, Pairs


@lru_cache(maxsize=1)
def tilewright_version() -> str:
    """Installed version, or ``source`` when run from a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tilewright")
    except PackageNotFoundError:
        return "source"


def environment(device: Device, core: int | None, compiler: str, root: Path = Path("/sys/devices/system/cpu")) -> Pairs:
    """Device model, compiler, versions, and of a core its clock's governor and frequency where they are known; of a
    GPU the child adds the driver's facts and the clocks."""
    facts: list[tuple[str, str | float]] = list(_versions(device, compiler))
    if core is None:
        return tuple(facts)
    clock = root / f"cpu{core}" / "cpufreq"
    governor = _read(clock / "scaling_governor")
    if governor:
        facts.append(("governor", governor))
    khz = _read(clock / "scaling_cur_freq")
    if khz.isdigit():
        facts.append(("mhz", round(int(khz) / 1000)))
    return tuple(facts)


def _versions(device: Device, compiler: str) -> tuple[tuple[str, str], ...]:
    return (
        ("device", device.model),
        ("compiler", compiler),
        ("tilewright", tilewright_version()),
        ("numpy", np.__version__),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

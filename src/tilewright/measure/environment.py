"""The circumstances of a measurement, stored with it: few and short."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tilewright.core import Device, Pairs
from tilewright.installed import installed_version
from tilewright.paths import text_of


@lru_cache(maxsize=1)
def tilewright_version() -> str:
    """Installed version, or ``source`` when run from a source tree that is not installed."""
    return installed_version("tilewright") or "source"


def environment(device: Device, core: int | None, compiler: str, root: Path = Path("/sys/devices/system/cpu")) -> Pairs:
    """Device model, compiler, versions, and of a core its clock's governor and frequency where they are known; of a
    GPU the child adds the driver's facts and the clocks."""
    facts: list[tuple[str, str | float]] = list(_versions(device, compiler))
    if core is None:
        return tuple(facts)
    clock = root / f"cpu{core}" / "cpufreq"
    governor = text_of(clock / "scaling_governor").strip()
    if governor:
        facts.append(("governor", governor))
    khz = text_of(clock / "scaling_cur_freq").strip()
    if khz.isdigit():
        facts.append(("mhz", round(int(khz) / 1000)))
    return tuple(facts)


def _versions(device: Device, compiler: str) -> tuple[tuple[str, str], ...]:
    return (
        ("device", device.model),
        ("compiler", compiler),
        ("tilewright", tilewright_version()),
        ("numpy", installed_version("numpy") or ""),
    )

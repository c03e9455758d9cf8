"""CPU devices: sets of cores, by name (``cpu:0``, ``cpu:0-1``, ``cpu:0,2``), and facts about the machine."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.backends.classes import slug, words
from tilewright.backends.cores import affinity, available_cores, cpu_quota, format_cores, parse_cores
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.backends.cpu.targets import available, cache_sizes, detect, host_arch, host_isa, sysctl
from tilewright.core import Device, TilewrightError, UsageError, digest
from tilewright.units import counted

_VECTOR_FEATURES = ("amx", "avx", "bf16", "f16c", "fma", "fp16", "fphp", "i8mm", "neon", "sse", "sve", "sme")


@dataclass(frozen=True)
class CpuDevice(Device):
    """A CPU device: a set of cores that kernels run on."""

    @property
    def cores(self) -> tuple[int, ...]:
        """Sorted core numbers."""
        return parse_cores(self.name.partition(":")[2])


def parse_device(text: str = "auto", threads: int = 1) -> CpuDevice:
    """The device that ``auto``, ``cpu`` or ``cpu:CORES`` names, for kernels of ``threads`` threads.

    ``auto`` takes the first cores that this process may use. Raises ``UsageError`` for a malformed
    name, cores that this process may not use, or fewer cores than threads.
    """
    allowed = affinity()
    if isinstance(threads, bool) or threads < 1:
        raise UsageError(f"{threads} threads are not possible", "Write 1 or more")
    if text in ("auto", "cpu"):
        if threads > available_cores():
            raise UsageError(
                f"{threads} threads do not fit on {counted(available_cores(), 'available core')}",
                f"Write {available_cores()} or fewer",
            )
        return _device(allowed[:threads])
    kind, _, rest = text.partition(":")
    if kind != "cpu" or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", rest):
        raise UsageError(f"unknown device {text!r}", "Use auto, cpu:0, cpu:0-1 or cpu:0,2")
    cores = parse_cores(rest)
    absent = sorted(set(cores) - set(allowed))
    if absent or not cores:
        raise UsageError(
            f"device {text} has cores that this process may not use: {format_cores(absent)}",
            f"Use cores among {format_cores(allowed)}",
        )
    if threads > len(cores):
        raise UsageError(f"{threads} threads do not fit on {text}", f"Name {threads} cores, or write auto")
    return _device(cores)


def _device(cores: Iterable[int]) -> CpuDevice:
    return CpuDevice(f"cpu:{format_cores(cores)}", device_model())


@lru_cache(maxsize=1)
def device_model() -> str:
    """The processor's name with family and model numbers: stored kernels belong to it."""
    if sys.platform == "darwin":
        return sysctl("machdep.cpu.brand_string") or platform.processor() or "unknown"
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    return parse_model(text) or platform.processor() or host_arch()


def parse_model(text: str) -> str:
    """The model in a ``/proc/cpuinfo`` text; empty if the text names none."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            found.setdefault(name.strip(), value.strip())
    if "model name" in found and "cpu family" in found:
        # Virtual machines often show only a family's name; the numbers identify the member.
        numbers = f"family {found['cpu family']} model {found.get('model', '?')}"
        return f"{' '.join(found['model name'].split())} ({numbers})"
    if "CPU part" in found:
        part = f"implementer {found.get('CPU implementer', '?')} part {found['CPU part']}"
        return f"{found['model name']} ({part})" if "model name" in found else part
    return found.get("model name", found.get("Hardware", ""))


def describe_machine(measure: bool = True) -> dict[str, Any]:
    """Facts about this machine and the tools on it, as JSON, for ``tilewright doctor``.

    With ``measure``, also peak float32 operations and memory bandwidth of one core, which takes about half
    a second and needs a compiler. A missing fact is ``None``, with the reason under ``problems``.
    """
    from tilewright.backends.cpu.compiler import find_compiler

    l1, l2, l3 = cache_sizes()
    problems: list[str] = []
    compiler = None
    try:
        compiler = find_compiler()
    except TilewrightError as e:
        problems.append(str(e))
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "arch": host_arch(),
        "model": device_model(),
        "isa": sorted(f for f in host_isa() if f.startswith(_VECTOR_FEATURES)),
        "cores": os.cpu_count(),
        "affinity": list(affinity()),
        "quota": cpu_quota(),
        "available_cores": available_cores(),
        "caches": {"l1": l1, "l2": l2, "l3": l3},
        "targets": [t.name for t in available()],
        "target": detect().name,
        "compiler": None,
        "peak_gflops": None,
        "read_gbytes": None,
        "copy_gbytes": None,
        "noise": noise_warnings(),
        "problems": problems,
    }
    if compiler is not None:
        facts["compiler"] = {"path": compiler.path, "family": compiler.family, "version": compiler.version}
        if measure:
            try:
                facts |= measure_machine()
            except TilewrightError as e:
                problems.append(str(e))
    return facts


COPIED = 64 << 20, 256 << 20
"""Least and largest number of bytes copied to measure bandwidth."""


def measure_machine(seconds: float = 0.15) -> dict[str, float]:
    """Peak GFLOP/s (float32) and GB/s (read, copied) of one core."""
    from tilewright.backends.cpu.peak import PeakProbe

    least, most = COPIED
    with PeakProbe(detect(), affinity()[:1]) as probe:
        return {
            "peak_gflops": probe.sample(seconds) / 1e9,
            "read_gbytes": probe.bandwidth() / 1e9,
            "copy_gbytes": probe.copy_bandwidth(min(max(least, 3 * cache_sizes()[2]), most), seconds) / 1e9,
        }


def cpu_class(model: str, variant: str, cores: int) -> str:
    """Device class such as ``cpu-amd-epyc-9b45-f26m17-avx512bf16-2c``: model, best instruction set, cores."""
    short = re.sub(r"\(family (\w+) model (\w+)\)", r"f\1m\2", model)
    named = [w for w in words(short) if w not in ("cpu", "processor", "r", "tm")]
    return slug("-".join(["cpu", *(named or [digest(model)[:8]]), variant, f"{cores}c"]))

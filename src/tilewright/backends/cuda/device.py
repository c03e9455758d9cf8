"""CUDA devices by name (``cuda:0``), their device classes, and facts about the machine."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.backends import Described
from tilewright.backends.classes import slug, words
from tilewright.backends.cuda import archs, cupy_driver, nvml, nvrtc
from tilewright.backends.cuda.driver import DRIVERS, get_driver
from tilewright.backends.cuda.health import GpuFacts, Identity, identify
from tilewright.backends.cuda.targets import Gpu, gpus, target_of
from tilewright.backends.driver import NotInstalled
from tilewright.core import Device, Pairs, TilewrightError, UsageError, Value, digest
from tilewright.units import counted

_WORDS = {"nvidia", "geforce", "tesla", "graphics", "gpu", "generation", "device"}
"""Words of a GPU's name that a device class omits."""


@dataclass(frozen=True)
class CudaDevice(Device):
    """One GPU. ``index``: its number in this process; ``bus_id``: its PCI address; ``limits``: its own limits."""

    kind: str = "cuda"
    index: int = 0
    bus_id: str = ""
    limits: Pairs = ()

    @property
    def cores(self) -> tuple[int, ...]:
        """The number of its lock: from the PCI address, as CUDA_VISIBLE_DEVICES renumbers devices."""
        match = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\.([0-9a-fA-F]+)", self.bus_id)
        if match is None:
            return (self.index,)
        domain, bus, slot, function = (int(x, 16) for x in match.groups())
        return ((domain << 16) | (bus << 8) | (slot << 3) | function,)


def parse_device(text: str = "cuda") -> CudaDevice:
    """The device named ``cuda`` (the first) or ``cuda:N``.

    Raises ``UsageError`` for a malformed name or a missing number, ``NoDriver`` without a GPU.
    """
    match = re.fullmatch(r"cuda(?::(\d+))?", text)
    if match is None:
        raise UsageError(f"unknown device {text!r}", "Use cuda:0, cuda:1, ...")
    found = gpus()
    index = int(match[1] or 0)
    if index >= len(found):
        raise UsageError(f"there is no device {text}", f"Use {' or '.join(f'cuda:{g.index}' for g in found)}")
    return _device(found[index])


def _device(gpu: Gpu) -> CudaDevice:
    driver = nvrtc.driver_version()
    facts: Pairs = (
        ("cuda_driver", f"{driver[0]}.{driver[1]}" if driver else ""),
        ("nvidia_driver", nvml.display_driver()),
        ("pci", gpu.bus_id),
    )
    return CudaDevice(
        f"cuda:{gpu.index}", gpu.model, facts=facts, index=gpu.index, bus_id=gpu.bus_id, limits=gpu.limits
    )


def noise_warnings(device: CudaDevice) -> list[str]:
    """Conditions that may disturb timings on a device, one line each."""
    out = []
    others = nvml.other_processes(device.bus_id)
    if others:
        out.append(
            f"{counted(len(others), 'other process')} computing on {device.name}: {', '.join(map(str, others[:4]))}"
        )
    slow = nvml.slowed_by(device.bus_id)
    if slow:
        out.append(f"the clocks of {device.name} are held down by {' and '.join(slow)}")
    return out


def describe(device: CudaDevice) -> Described:
    """A GPU's class, identity, memory, driver and labels."""
    memory = int(dict(device.limits).get("memory_bytes", 0))
    which = identify(device.index, device.bus_id, device.model)
    facts = _smi_facts(which, device.model)
    versions = dict(device.facts)
    names = (("NVIDIA", versions.get("nvidia_driver")), ("CUDA", versions.get("cuda_driver")))
    labels: dict[str, Value | None] = {
        "pci": device.bus_id, "mig": which.profile or None, "power_limit_w": facts.power_limit,
        "persistence": facts.persistence,
    }  # fmt: skip
    return Described(
        gpu_class(device.model, memory, which), which.uuid, device.bus_id, memory=memory,
        driver=" ".join(f"{name} {version}" for name, version in names if version),
        labels=tuple((name, value) for name, value in labels.items() if value is not None),
    )  # fmt: skip


def gpu_class(model: str, memory: int, which: Identity) -> str:
    """Device class such as ``h200-141g-700w`` or ``a100-sxm4-40g-400w-mig-3g.20gb``: model, GiB (rounded up), power
    limit, slice.

    ``memory``: bytes as CUDA reports them, used if nvidia-smi reports none.
    """
    facts = _smi_facts(which, model)
    named = [w for w in words(facts.name) if w not in _WORDS and not re.fullmatch(r"\d+gb", w)]
    parts = [*(named or [digest(facts.name)[:8]]), f"{math.ceil((facts.memory or memory) / (1 << 30))}g"]
    if facts.power_limit:
        parts.append(f"{round(facts.power_limit)}w")
    if which.profile:
        parts.append(f"mig-{which.profile.lower()}")
    return slug("-".join(parts))


def _smi_facts(which: Identity, model: str) -> GpuFacts:
    """nvidia-smi's facts about a GPU; without nvidia-smi, CUDA's name of the whole GPU."""
    return which.facts or GpuFacts(which.uuid, "", model.partition(" MIG ")[0])


def describe_cuda(load: bool = True) -> dict[str, Any]:
    """CUDA compilers, drivers and devices of this machine, as JSON, for ``tilewright doctor``.

    ``load``: also import the installed bindings, to test them. This function does not raise: a missing or broken part
    is ``None`` or empty, with its reason and remedy under ``problems``.
    """
    problems: list[str] = []
    compiler: dict[str, Any] | None = None
    try:
        found = nvrtc.find_nvrtc()
        compiler = {
            "path": found.path, "version": f"{found.version[0]}.{found.version[1]}",
            "targets": [f"cuda:{v}" for v in archs.VARIANTS if found.supports(v)],
        }  # fmt: skip
    except TilewrightError as e:
        problems.append(str(e))
    devices: list[dict[str, Any]] = []
    try:
        for gpu in gpus():
            device = _device(gpu)
            entry: dict[str, Any] = {"name": device.name, "model": device.model, **dict(device.facts), "target": None}
            devices.append({**entry, **_target_facts(gpu, problems), "clocks": dict(nvml.clocks(device.bus_id))})
            problems += noise_warnings(device)
    except TilewrightError as e:
        problems.append(str(e))
    release = nvrtc.driver_version()
    return {
        "nvrtc": compiler,
        "cuda_driver": f"{release[0]}.{release[1]}" if release else None,
        "nvidia_driver": nvml.display_driver() or None,
        "drivers": _drivers(problems, load, bool(devices)),
        "devices": devices,
        "problems": problems,
    }


def _target_facts(gpu: Gpu, problems: list[str]) -> Mapping[str, Any]:
    try:
        target = target_of(gpu)
    except TilewrightError as e:
        problems.append(str(e))
        return {}
    return {"target": target.name, "limits": {**dict(gpu.limits), **target.limit}}


def _drivers(problems: list[str], load: bool, wanted: bool) -> dict[str, Any]:
    """The bindings: version, and whether they work (``None``: not tried)."""
    packages = cupy_driver.installed_packages()
    out: dict[str, Any] = {}
    for name in DRIVERS:
        if name == "emulator":
            continue
        entry: dict[str, Any] = {"installed": False, "works": None}
        if load or not packages:
            try:
                entry |= {"installed": True, "version": getattr(get_driver(name), "version", None), "works": True}
            except NotInstalled as e:
                if name == "cupy" and wanted:  # without a GPU a missing package is no problem
                    problems.append(str(e))
            except TilewrightError as e:
                entry |= {"installed": True, "works": False, "problem": e.message}
                if wanted:
                    problems.append(str(e))
        out[name] = entry
    if packages:
        out["cupy"] |= {"installed": True, "packages": packages}
    return out


def cuda_rows(cuda: dict[str, Any]) -> list[tuple[str, str]]:
    """Lines of ``doctor`` about CUDA: the compiler, the GPUs, and the packages that access them."""
    nvrtc = cuda["nvrtc"]
    targets = " ".join(t.partition(":")[2] for t in nvrtc["targets"]) if nvrtc else ""
    rows = [("nvrtc", f"{nvrtc['version']} at {nvrtc['path']}, for {targets}" if nvrtc else "none")]
    for d in cuda["devices"]:
        rows.append((d["name"], f"{d['model']}, target {d['target'] or 'none'}, CUDA driver {cuda['cuda_driver']}"))
    if not cuda["devices"]:
        rows.append(("gpu", f"none: {'; '.join(p.partition('. ')[0] for p in cuda['problems'])}"))
    for name, entry in cuda["drivers"].items():
        if entry["installed"]:
            state = {True: "works", False: f"does not work: {entry.get('problem', '')}", None: "not tried"}[
                entry["works"]
            ]
            rows.append((name, f"{entry.get('version') or ''} {state}".strip()))
    return rows

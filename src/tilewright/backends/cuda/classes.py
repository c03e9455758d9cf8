"""Which GPUs are one class, and what is told of a GPU."""

from __future__ import annotations

import math
import re

from tilewright.backends import Described
from tilewright.backends.classes import slug, words
from tilewright.backends.cuda.device import CudaDevice
from tilewright.backends.cuda.health import GpuFacts, Identity, identify
from tilewright.core import Value, digest

_WORDS = {"nvidia", "geforce", "tesla", "graphics", "gpu", "generation", "device"}
"""What says nothing."""


def describe(device: CudaDevice) -> Described:
    """A GPU's class, identity, memory, driver and labels."""
    memory = int(dict(device.limits).get("memory_bytes", 0))
    which = identify(device.index, device.bus_id, device.model)
    facts = _facts(which, device.model)
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
    """``h200-141g-700w``, ``a100-sxm4-40g-400w-mig-3g.20gb``: model, GiB (rounded up), power limit, slice.

    ``memory``: bytes by CUDA's count, used where nvidia-smi gives none.
    """
    facts = _facts(which, model)
    named = [w for w in words(facts.name) if w not in _WORDS and not re.fullmatch(r"\d+gb", w)]
    parts = [*(named or [digest(facts.name)[:8]]), f"{math.ceil((facts.memory or memory) / (1 << 30))}g"]
    if facts.power_limit:
        parts.append(f"{round(facts.power_limit)}w")
    if which.profile:
        parts.append(f"mig-{which.profile.lower()}")
    return slug("-".join(parts))


def _facts(which: Identity, model: str) -> GpuFacts:
    """What nvidia-smi says of a GPU; without it, the name that CUDA gives the whole."""
    return which.facts or GpuFacts(which.uuid, "", model.partition(" MIG ")[0])

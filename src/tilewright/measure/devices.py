"""The devices of this machine: which there are, what each is, and what class of devices it belongs to.

A class (``h200-141g-700w``, ``cpu-amd-epyc-9b45-f26m17-avx512bf16-2c``) names devices on which the same kernels take
the same time, so far as their makers tell: it is made of what does not change while a device is in use.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import platform
import re
import socket
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cpu.device import CpuDevice, affinity, available_cores, format_cores
from tilewright.backends.cuda import archs, probe
from tilewright.backends.cuda.device import CudaDevice
from tilewright.backends.cuda.health import GpuFacts, Identity, identify
from tilewright.building.toolchain import toolchain_for
from tilewright.core import Pairs, Target, TilewrightError, UsageError, Value, digest
from tilewright.measure.places import Place, find_place
from tilewright.measure.runner import memory_limit
from tilewright.serialization import Json

_LONGEST = 300  # characters of a text
_CLASS = 100

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_GPU_WORDS = {"nvidia", "geforce", "tesla", "graphics", "gpu", "generation", "device"}
_CPU_WORDS = {"cpu", "processor", "r", "tm"}


@dataclass(frozen=True)
class DeviceDescription(Json):
    """A device and its host.

    ``device``: its name on its host (``cpu:0-1``, ``cuda:0``, ``emulator:0``); ``model``: under which kernels are
    stored; ``device_class``: what ``--device`` asks for; ``uuid``: of a GPU or a MIG device, or a hash that stays the
    same for the same cores of the same host; ``target``: what it was described for; ``cores``: how many a CPU device
    has (0 for a GPU); ``memory``: bytes that kernels may use; ``compiler``, ``driver``: names and versions, empty
    where there is none.
    """

    device: str
    model: str
    device_class: str
    uuid: str
    target: Target
    cores: int
    memory: int
    compiler: str = ""
    driver: str = ""
    host: str = ""
    labels: Pairs = ()


# --------------------------------------------------------------------------- finding


def find(device: str = "auto", target: str = "auto", threads: int = 1) -> Place:
    """Where to measure. ``auto``: the first GPU that kernels are generated for, else all cores that this process may
    use. Raises like :func:`tilewright.measure.places.find_place`."""
    kind = target.partition(":")[0]
    if device == "auto" and kind in ("auto", "cpu"):
        device = ((_gpus() if kind == "auto" else []) or _shares(1))[0]
    return find_place(target, device, threads)


def find_all(count: int | None = None) -> list[str]:
    """Every GPU that kernels are generated for, else all cores that this process may use. ``count``: so many GPUs, or
    parts of the cores. Raises ``UsageError`` for more than there are."""
    gpus = _gpus()
    most, what = (len(gpus), "GPU(s)") if gpus else (available_cores(), "core(s)")
    if count is not None and count > most:
        raise UsageError(f"{count} runners need as many devices, and there are {most} {what}", f"Use {most} or fewer")
    return gpus[:count] or _shares(count or 1)


def _gpus() -> list[str]:
    return [f"cuda:{g.index}" for g in probe.gpus_or_none() if archs.variants_for(g.cc)]


def _shares(n: int) -> list[str]:
    """The cores that this process may use, in ``n`` parts."""
    cores = affinity()[: available_cores()]
    return [f"cpu:{format_cores(cores[i * len(cores) // n : (i + 1) * len(cores) // n])}" for i in range(n)]


# --------------------------------------------------------------------------- describing


def describe_place(place: Place) -> DeviceDescription:
    """The device of a place. What is said of any device is what is said of the emulator; others add their own."""
    target, device = place.target, place.device
    found = DeviceDescription(
        device=device.name,
        model=_line(device.model),
        device_class=f"emulator-{_slug(target.variant)}",
        uuid=host_identity(device.name),
        target=target,
        cores=0,
        memory=memory_limit(),
        compiler=_line(_compiler(place)),
        host=_line(socket.gethostname()),
        labels=(("arch", target.arch), ("variant", target.variant), ("system", _line(platform.system()))),
    )
    if isinstance(device, CudaDevice):
        return _of_gpu(found, device)
    if isinstance(device, CpuDevice):
        cores = len(device.cores)
        labels = (*found.labels, ("isa", " ".join(target.isa)[:_LONGEST]))
        return replace(found, device_class=cpu_class(device.model, target.variant, cores), cores=cores, labels=labels)
    return found


def _of_gpu(found: DeviceDescription, device: CudaDevice) -> DeviceDescription:
    memory = int(dict(device.limits).get("memory_bytes", 0))
    which = identify(device.index, device.bus_id, device.model)
    facts = _facts(which, device.model)
    versions = dict(device.facts)
    names = (("NVIDIA", versions.get("nvidia_driver")), ("CUDA", versions.get("cuda_driver")))
    labels: dict[str, Value | None] = {
        "pci": device.bus_id, "mig": which.profile or None, "power_limit_w": facts.power_limit,
        "persistence": facts.persistence,
    }  # fmt: skip
    return replace(
        found,
        device_class=gpu_class(device.model, memory, which),
        uuid=which.uuid or host_identity(device.bus_id),
        memory=memory,
        driver=_line(" ".join(f"{name} {version}" for name, version in names if version)),
        labels=(*found.labels, *((name, value) for name, value in labels.items() if value is not None)),
    )


def _compiler(place: Place) -> str:
    """What would compile for the target here, as artifacts name it; empty without one: measuring needs none."""
    try:
        return toolchain_for(place.target, ArtifactCache(), place.emulated).version
    except TilewrightError:
        return ""


# --------------------------------------------------------------------------- classes


def gpu_class(model: str, memory: int, which: Identity) -> str:
    """``h200-141g-700w``, ``a100-sxm4-40g-400w-mig-3g.20gb``: model, GiB (rounded up), power limit, slice.

    ``memory``: bytes by CUDA's count, used where nvidia-smi gives none.
    """
    facts = _facts(which, model)
    words = [w for w in _words(facts.name) if w not in _GPU_WORDS and not re.fullmatch(r"\d+gb", w)]
    parts = [*(words or [digest(facts.name)[:8]]), f"{math.ceil((facts.memory or memory) / (1 << 30))}g"]
    if facts.power_limit:
        parts.append(f"{round(facts.power_limit)}w")
    if which.profile:
        parts.append(f"mig-{which.profile.lower()}")
    return _slug("-".join(parts))


def _facts(which: Identity, model: str) -> GpuFacts:
    """What nvidia-smi says of a GPU; without it, the name that CUDA gives the whole."""
    return which.facts or GpuFacts(which.uuid, "", model.partition(" MIG ")[0])


def cpu_class(model: str, variant: str, cores: int) -> str:
    """``cpu-amd-epyc-9b45-f26m17-avx512bf16-2c``: model, best instruction set, cores."""
    short = re.sub(r"\(family (\w+) model (\w+)\)", r"f\1m\2", model)
    words = [w for w in _words(short) if w not in _CPU_WORDS]
    return _slug("-".join(["cpu", *(words or [digest(model)[:8]]), variant, f"{cores}c"]))


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)*", text.lower())


def _slug(text: str) -> str:
    plain = re.sub(r"[^a-z0-9.+]+", "-", text.lower()).strip("-")
    return plain if len(plain) <= _CLASS else f"{plain[: _CLASS - 9]}-{digest(plain)[:8]}"


# --------------------------------------------------------------------------- this host


def host_identity(part: str, machine_ids: tuple[Path, ...] = _MACHINE_IDS) -> str:
    """A stable name for ``part`` (cores, a device) of this host that gives nothing away.

    Made of the machine's id and the host's name: containers of one image may share the former.
    """
    secret = ""
    for path in machine_ids:
        with contextlib.suppress(OSError):
            secret = secret or path.read_text(errors="replace").strip()
    if not secret:
        node = uuid.getnode()
        secret = "" if node >> 40 & 1 else f"{node:012x}"  # that bit says that the number is random
    keyed = hmac.new(secret.encode(), f"tilewright {socket.gethostname()} {part}".encode(), "sha256")
    return f"host-{keyed.hexdigest()[:32]}"


def _line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:_LONGEST]

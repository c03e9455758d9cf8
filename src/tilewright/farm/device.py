"""What a runner says of its device: what it is, which one it is, and what class of devices it belongs to.

A class (``h200-141g-700w``, ``cpu-amd-epyc-9b45-f26m17-avx512bf16-2c``) names devices on which the same kernels take
the same time, so far as their makers tell: it is made of what does not change while a device is in use.
"""

from __future__ import annotations

import hmac
import math
import os
import platform
import re
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core import Pairs, Target, TilewrightError, Value, digest
from tilewright.farm.errors import FarmError
from tilewright.measure.places import Place, find_place

if TYPE_CHECKING:
    from tilewright.backends.cuda.health import Identity

_LONGEST = 300  # characters of a text
_CLASS = 100
_MOST = 64  # labels, instruction sets, limits
_BYTES = 1 << 60
_INTEGER = 1 << 63

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_MEND = "Use the same Tilewright version on both ends"


@dataclass(frozen=True)
class RunnerDevice:
    """A runner's device, as it travels.

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

    def to_json(self) -> dict[str, Any]:
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**data, "target": self.target.to_json(), "labels": dict(self.labels)}

    @staticmethod
    def from_json(data: Any) -> RunnerDevice:
        """From what a runner sent, which may be anything. Raises ``FarmError`` that names the field at fault."""
        values = _fields(data, {f.name for f in fields(RunnerDevice)}, "device description")
        found = RunnerDevice(
            device=_matching(values, "device", r"cpu:\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*|(cuda|emulator):\d{1,4}"),
            model=_text(values, "model", least=1),
            device_class=_matching(values, "device_class", r"[a-z0-9][a-z0-9.+-]*", _CLASS),
            uuid=_matching(values, "uuid", r"[A-Za-z0-9][A-Za-z0-9/-]*"),
            target=target_from_json(values["target"]),
            cores=_integer(values, "cores", 0, 1 << 16),
            memory=_integer(values, "memory", 0, _BYTES),
            compiler=_text(values, "compiler"),
            driver=_text(values, "driver"),
            host=_text(values, "host"),
            labels=_pairs(values, "labels"),
        )
        where = found.device.partition(":")[0]
        if found.target.kind != ("cpu" if where == "cpu" else "cuda"):
            raise _bad("target", f"{found.target.kind} code does not run on {found.device}")
        if where == "cpu" and not 1 <= found.target.threads <= found.cores:
            raise _bad("target", f"{found.target.threads} threads do not fit on {found.cores} core(s)")
        return found


# --------------------------------------------------------------------------- describing


def find(device: str = "auto", target: str = "auto", threads: int = 1) -> Place:
    """Where a runner measures. ``auto``: the first GPU that kernels are generated for, else all cores that this
    process may use. Raises like :func:`tilewright.measure.places.find_place`."""
    from tilewright.backends.cpu.device import affinity, available_cores, format_cores
    from tilewright.backends.cuda import archs, probe

    kind = target.partition(":")[0]
    if device == "auto" and kind in ("auto", "cpu"):
        gpus = probe.gpus_or_none() if kind == "auto" else ()
        usable = [g.index for g in gpus if archs.variants_for(g.cc)]
        device = f"cuda:{usable[0]}" if usable else f"cpu:{format_cores(affinity()[: available_cores()])}"
    return find_place(target, device, threads)


def describe(device: str = "auto", target: str = "auto", threads: int = 1) -> RunnerDevice:
    """A device of this machine, as ``find`` finds it. Raises like it."""
    return describe_place(find(device, target, threads))


def describe_place(place: Place) -> RunnerDevice:
    """The device of a place."""
    if place.emulated:
        return _described(
            place, f"emulator-{_slug(place.target.variant)}", host_identity(place.device.name), 0, host_memory()
        )
    if place.driver is not None:
        return _describe_gpu(place)
    from tilewright.backends.cpu.device import CpuDevice

    assert isinstance(place.device, CpuDevice)
    cores = place.device.cores
    labels = (("isa", " ".join(place.target.isa)[:_LONGEST]),)
    return _described(
        place, cpu_class(place.device.model, place.target.variant, len(cores)), host_identity(place.device.name),
        len(cores), host_memory(), labels=labels,
    )  # fmt: skip


def _describe_gpu(place: Place) -> RunnerDevice:
    from tilewright.backends.cuda.device import CudaDevice
    from tilewright.backends.cuda.health import identify

    device = place.device
    assert isinstance(device, CudaDevice)
    memory = int(dict(device.limits).get("memory_bytes", 0))
    which = identify(device.index, device.bus_id, device.model)
    known = dict(device.facts)
    driver = " ".join(
        f"{name} {version}"
        for name, version in (("NVIDIA", known.get("nvidia_driver")), ("CUDA", known.get("cuda_driver")))
        if version
    )
    labels: list[tuple[str, Value]] = [("pci", device.bus_id)]
    if which.profile:
        labels.append(("mig", which.profile))
    if which.facts is not None and which.facts.power_limit is not None:
        labels.append(("power_limit_w", which.facts.power_limit))
    if which.facts is not None and which.facts.persistence is not None:
        labels.append(("persistence", which.facts.persistence))
    return _described(
        place, gpu_class(device.model, memory, which), which.uuid or host_identity(device.bus_id), 0, memory,
        driver, tuple(labels),
    )  # fmt: skip


def _described(
    place: Place, device_class: str, identity: str, cores: int, memory: int, driver: str = "", labels: Pairs = ()
) -> RunnerDevice:
    return RunnerDevice(
        device=place.device.name,
        model=_line(place.device.model),
        device_class=device_class,
        uuid=identity,
        target=place.target,
        cores=cores,
        memory=memory,
        compiler=_line(_compiler(place)),
        driver=_line(driver),
        host=_line(socket.gethostname()),
        labels=(
            ("arch", place.target.arch),
            ("variant", place.target.variant),
            ("system", _line(platform.system())),
            *labels,
        ),
    )


def _compiler(place: Place) -> str:
    """What would compile for the target here, as artifacts name it; empty without one: a runner needs none."""
    from tilewright.backends.cpu.cache import ArtifactCache
    from tilewright.measure.toolchain import toolchain_for

    try:
        return toolchain_for(place.target, ArtifactCache(), place.emulated).version
    except TilewrightError:
        return ""


# --------------------------------------------------------------------------- classes

_GPU_WORDS = {"nvidia", "geforce", "tesla", "graphics", "gpu", "generation", "device"}
_CPU_WORDS = {"cpu", "processor", "r", "tm"}


def gpu_class(model: str, memory: int, which: Identity) -> str:
    """``h200-141g-700w``, ``a100-sxm4-40g-400w-mig-3g.20gb``: model, GiB (rounded up), power limit, slice.

    ``memory``: bytes by CUDA's count, used where nvidia-smi gives none.
    """
    facts = which.facts
    name = facts.name if facts is not None else model.partition(" MIG ")[0]
    words = [w for w in _words(name) if w not in _GPU_WORDS and not re.fullmatch(r"\d+gb", w)]
    total = facts.memory if facts is not None and facts.memory else memory
    parts = [*(words or [digest(name)[:8]]), f"{math.ceil(total / (1 << 30))}g"]
    if facts is not None and facts.power_limit:
        parts.append(f"{round(facts.power_limit)}w")
    if which.profile:
        parts.append(f"mig-{which.profile.lower()}")
    return _slug("-".join(parts))


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
    secret = next((text for p in machine_ids if (text := _read(p))), "")
    if not secret:
        node = uuid.getnode()
        secret = "" if node >> 40 & 1 else f"{node:012x}"  # that bit says that the number is random
    keyed = hmac.new(secret.encode(), f"tilewright {socket.gethostname()} {part}".encode(), "sha256")
    return f"host-{keyed.hexdigest()[:32]}"


def host_memory() -> int:
    """Bytes of memory of this machine; 0 where that is not known."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:_LONGEST]


# --------------------------------------------------------------------------- what comes from outside


def target_from_json(data: Any) -> Target:
    """A target that a peer sent. Raises ``FarmError`` that names the field at fault.

    What it says is of the right kind and size; whether such a target exists is for whoever compiles for it.
    """
    names = {f.name for f in fields(Target)}
    values = _fields(data, names, "target", optional={"limits"})
    if values["kind"] not in ("cpu", "cuda"):
        raise _bad("target.kind", "no such kind of target")
    isa = values["isa"]
    if not isinstance(isa, list | tuple) or len(isa) > _MOST or not all(_is_word(x) for x in isa):
        raise _bad("target.isa", "no list of instruction sets")
    numbers = {n: _integer(values, n, 0, _BYTES, "target.") for n in ("l1_bytes", "l2_bytes", "l3_bytes")}
    return Target(
        kind=values["kind"],
        variant=_matching(values, "variant", r"[a-z0-9_]+", 40, "target."),
        arch=_matching(values, "arch", r"[a-z0-9_]+", 40, "target."),
        isa=tuple(isa),
        vector_bytes=_integer(values, "vector_bytes", 1, 1 << 16, "target."),
        registers=_integer(values, "registers", 1, 1 << 16, "target."),
        threads=_integer(values, "threads", 1, 1 << 16, "target."),
        limits=_pairs(values, "limits", "target.") if "limits" in values else (),
        **numbers,
    )


def _fields(data: Any, names: set[str], what: str, optional: set[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise FarmError(f"a {what} is a map, not {type(data).__name__}", _MEND)
    for name in sorted(names - (optional or set())):
        if name not in data:
            raise FarmError(f"a {what} lacks {name}", _MEND)
    unknown = [n for n in data if n not in names]
    if unknown:
        raise FarmError(f"a {what} has {len(unknown)} unknown field(s), such as {ascii(unknown[0])[:60]}", _MEND)
    return data


def _bad(name: str, why: str) -> FarmError:
    return FarmError(f"{name} of a device: {why}", _MEND)


def _text(values: Mapping[str, Any], name: str, prefix: str = "", least: int = 0) -> str:
    value = values[name]
    if not isinstance(value, str) or not least <= len(value) <= _LONGEST or not value.isprintable():
        raise _bad(prefix + name, f"no printable text of {least} to {_LONGEST} characters")
    return value


def _matching(values: Mapping[str, Any], name: str, pattern: str, most: int = _LONGEST, prefix: str = "") -> str:
    value = values[name]
    if not isinstance(value, str) or len(value) > most or not re.fullmatch(pattern, value, re.ASCII):
        raise _bad(prefix + name, "not of the form that it must have")
    return value


def _integer(values: Mapping[str, Any], name: str, least: int, most: int, prefix: str = "") -> int:
    value = values[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _bad(prefix + name, f"no whole number of {least} to {most}")
    return value


def _pairs(values: Mapping[str, Any], name: str, prefix: str = "") -> Pairs:
    found = values[name]
    if not isinstance(found, Mapping) or len(found) > _MOST or not all(_is_word(k) for k in found):
        raise _bad(prefix + name, f"no map of {_MOST} names at most")
    checks: dict[type, Callable[[Any], bool]] = {
        bool: lambda _: True,
        int: lambda x: -_INTEGER <= x < _INTEGER,
        float: math.isfinite,
        str: lambda x: len(x) <= _LONGEST and x.isprintable(),
    }
    for key, value in found.items():
        check = checks.get(type(value))
        if check is None or not check(value):
            raise _bad(f"{prefix}{name}.{key}", "no short text, finite number or truth value")
    return tuple(found.items())


def _is_word(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[a-z0-9_.]{1,40}", text) is not None

"""The devices of this machine: their names, descriptions and device classes.

A class (``h200-141g-700w``, ``cpu-amd-epyc-9b45-f26m17-avx512bf16-2c``) names devices on which the same kernels take
the same time, as far as the specification says. Only properties that do not change during use are part of its name.
"""

from __future__ import annotations

import contextlib
import hmac
import platform
import socket
import uuid
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tilewright import backends
from tilewright.backends.cores import affinity, available_cores, format_cores
from tilewright.core import Pairs, Target, TilewrightError, UsageError
from tilewright.measure.local_target import LocalTarget, find_local_target
from tilewright.serialization import Json
from tilewright.units import counted

_LONGEST = 300  # characters of a description's text

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


@dataclass(frozen=True)
class DeviceDescription(Json):
    """A device and its host.

    ``device``: its name on its host (``cpu:0-1``, ``cuda:0``, ``emulator:0``). ``model``: the name under which kernels
    are stored. ``device_class``: the value for ``--device``. ``uuid``: of a GPU or a MIG device, or a hash that is
    stable for the same cores of the same host. ``target``: the described target. ``cores``: number of cores of a CPU
    device (0 for a GPU). ``memory``: bytes that kernels may use. ``compiler``, ``driver``: names and versions, empty
    without one.
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


# --------------------------------------------------------------------------- discovery


def find(device: str = "auto", target: str = "auto", threads: int = 1) -> LocalTarget:
    """Find a measurement target. ``auto``: the first GPU that kernels are generated for, else all cores that this
    process may use. Raises like :func:`tilewright.measure.local_target.find_local_target`."""
    if device == "auto":
        backend = backends.choose_backend(target)
        if target == "auto" or backend.in_process:
            device = (backends.device_names() if target == "auto" else backend.devices())[0]
    return find_local_target(target, device, threads)


def find_all(count: int | None = None) -> list[str]:
    """Names of all GPUs that kernels are generated for, else of all cores that this process may use. ``count``: number
    of GPUs, or of equal parts of the cores. Raises ``UsageError`` if the machine has fewer."""
    found = list(backends.device_names())
    gpus = not backends.backend_of(found[0]).in_process
    most, what = (len(found), "GPU") if gpus else (available_cores(), "core")
    if count is not None and count > most:
        raise UsageError(
            f"{count} runners need {count} devices, but this machine has {counted(most, what)}", f"Use {most} or fewer"
        )
    return found[:count] if gpus else parts(count or 1)


def parts(count: int) -> list[str]:
    """All cores that this process may use, divided into ``count`` devices."""
    cores = affinity()[: available_cores()]
    ends = [n * len(cores) // count for n in range(count + 1)]
    name = backends.device_names()[0].partition(":")[0]
    return [f"{name}:{format_cores(cores[a:b])}" for a, b in pairwise(ends)]


# --------------------------------------------------------------------------- description


def describe_device(place: LocalTarget) -> DeviceDescription:
    """Describe the device of a measurement target, with its backend's facts."""
    from tilewright.measure.runner import memory_limit

    target, device = place.target, place.device
    said = place.backend.describe(target, device)
    own = tuple((k, v[:_LONGEST] if isinstance(v, str) else v) for k, v in said.labels)
    return DeviceDescription(
        device=device.name,
        model=_line(device.model),
        device_class=said.device_class,
        uuid=said.uuid or host_identity(said.place or device.name),
        target=target,
        cores=said.cores,
        memory=said.memory or memory_limit(),
        compiler=_line(_compiler(place)),
        driver=_line(said.driver),
        host=_line(socket.gethostname()),
        labels=(("arch", target.arch), ("variant", target.variant), ("system", _line(platform.system())), *own),
    )


def _compiler(place: LocalTarget) -> str:
    """Version of the compiler for the target, as in artifacts; empty without a compiler: measuring needs none."""
    try:
        return place.backend.toolchain(place.target).version
    except TilewrightError:
        return ""


# --------------------------------------------------------------------------- this host


def host_identity(part: str, machine_ids: tuple[Path, ...] = _MACHINE_IDS) -> str:
    """A stable name for ``part`` (cores, a device) of this host that does not reveal the host.

    A keyed hash of the machine's id and the host's name: containers of one image may share the machine's id.
    """
    secret = ""
    for path in machine_ids:
        with contextlib.suppress(OSError):
            secret = secret or path.read_text(errors="replace").strip()
    if not secret:
        node = uuid.getnode()
        secret = "" if node >> 40 & 1 else f"{node:012x}"  # this bit marks a random number, not a hardware address
    keyed = hmac.new(secret.encode(), f"tilewright {socket.gethostname()} {part}".encode(), "sha256")
    return f"host-{keyed.hexdigest()[:32]}"


def _line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:_LONGEST]

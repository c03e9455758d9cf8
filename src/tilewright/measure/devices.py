"""The devices of this machine: which there are, what each is, and what class of devices it belongs to.

A class (``h200-141g-700w``, ``cpu-amd-epyc-9b45-f26m17-avx512bf16-2c``) names devices on which the same kernels take
the same time, so far as their makers tell: it is made of what does not change while a device is in use.
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
from tilewright.measure.places import Place, find_place
from tilewright.serialization import Json
from tilewright.units import counted

_LONGEST = 300  # characters of a text

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


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
    if device == "auto":
        backend = backends.choose_backend(target)
        if target == "auto" or backend.in_process:
            device = (backends.device_names() if target == "auto" else backend.devices())[0]
    return find_place(target, device, threads)


def find_all(count: int | None = None) -> list[str]:
    """Every GPU that kernels are generated for, else all cores that this process may use. ``count``: so many GPUs, or
    parts of the cores. Raises ``UsageError`` for more than there are."""
    found = list(backends.device_names())
    gpus = not backends.backend_of(found[0]).in_process
    most, what = (len(found), "GPU") if gpus else (available_cores(), "core")
    if count is not None and count > most:
        raise UsageError(
            f"{count} runners need {count} devices, but this machine has {counted(most, what)}", f"Use {most} or fewer"
        )
    return found[:count] if gpus else parts(count or 1)


def parts(count: int) -> list[str]:
    """All cores that this process may use, as so many devices."""
    cores = affinity()[: available_cores()]
    ends = [n * len(cores) // count for n in range(count + 1)]
    name = backends.device_names()[0].partition(":")[0]
    return [f"{name}:{format_cores(cores[a:b])}" for a, b in pairwise(ends)]


# --------------------------------------------------------------------------- describing


def describe_place(place: Place) -> DeviceDescription:
    """The device of a place, as its backend describes it."""
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


def _compiler(place: Place) -> str:
    """What would compile for the target here, as artifacts name it; empty without one: measuring needs none."""
    try:
        return place.backend.toolchain(place.target).version
    except TilewrightError:
        return ""


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

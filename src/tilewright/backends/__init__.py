"""Backends: all that is particular to one kind of device. This registry finds them by name.

A new backend is one package that implements :class:`Backend` and one line in ``BACKENDS``; nothing outside of it asks
for a kind by name. Nothing here is imported until it is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol, cast

from tilewright.core import Device, LaunchProgram, Pairs, Target, Task, UsageError
from tilewright.forking import steady
from tilewright.plugins import find, installed
from tilewright.serialization import Json

if TYPE_CHECKING:
    from tilewright.backends.cache import ArtifactCache
    from tilewright.backends.driver import Context, Guard
    from tilewright.backends.toolchain import Toolchain

CACHES = ("l1", "l2", "l3")


@dataclass(frozen=True)
class Peaks(Json, sparse=("caches",)):
    """What a device reaches at most: ``flops``, operations a second on a task's elements, and ``bandwidth``, bytes from
    memory a second; ``None`` where it is not known. ``caches``: bytes from a cache a second, of those that are known.
    """

    flops: float | None = None
    bandwidth: float | None = None
    caches: Mapping[str, float] = field(default_factory=dict)


NO_PEAKS = Peaks()
"""Nothing is known of a device."""


@dataclass(frozen=True)
class Built:
    """A library on disk: its path, the SHA-256 of its bytes, and what made it.

    ``compiler`` is the compiler's version string; ``cached`` says that nothing was compiled.
    """

    path: str
    sha256: str
    compiler: str
    flags: tuple[str, ...]
    cached: bool


class Kernel(Protocol):
    """A loaded kernel with its launch arguments bound."""

    def run(self, pointers: Sequence[int]) -> None:
        """Call it once with the addresses of its inputs and output. Raises ``LaunchError``."""

    def time(self, pointers: Sequence[int], repeats: int = 1, clock: str = "monotonic") -> float:
        """Seconds a call, over ``repeats`` calls."""


class Library(Protocol):
    """Code in this process."""

    sha256: str

    def kernel(self, program: LaunchProgram, launch: Mapping[str, int], threads: int = 1) -> Kernel:
        """A callable for one launch program. Raises ``LoadError`` for a symbol that is not there."""

    def close(self) -> None:
        """Unload it, once nobody else uses it."""


@dataclass(frozen=True)
class Described:
    """What a backend says of a device: the class of devices on which the same kernels take the same time, what tells
    it apart (``uuid``, or what is its own on this host: ``place``), cores (0 but for a CPU), bytes of memory."""

    device_class: str
    uuid: str = ""
    place: str = ""
    cores: int = 0
    memory: int = 0
    driver: str = ""
    labels: Pairs = ()


@dataclass(frozen=True)
class Report:
    """A backend's part of ``tilewright doctor``: ``facts`` as JSON, ``rows`` of a title and a line, ``problems`` that
    stand in the way of tuning."""

    facts: Mapping[str, Any]
    rows: Sequence[tuple[str, str]] = ()
    problems: Sequence[str] = field(default=())


class Backend(Protocol):
    """All that is particular to one kind of device.

    ``kinds``: of targets that it serves. ``emulated``: what it measures says nothing about a device, and is never
    served. ``in_process``: kernels are functions of this process and its memory is theirs; otherwise there is a driver,
    which :meth:`open` reaches. What most backends do alike is done here.
    """

    name: str
    kinds: tuple[str, ...]
    emulated: bool
    in_process: bool

    @property
    def device_form(self) -> str:
        """Its devices' names, as a regular expression."""

    # targets

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        """The targets that run on this machine, best first."""

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        """The target of a name. Raises ``UsageError`` or ``TargetUnavailable``."""

    def runs_here(self, target: Target) -> bool:
        """Whether code for ``target`` runs on this machine."""

    # code

    def toolchain(self, target: Target, cache: ArtifactCache | None = None) -> Toolchain:
        """What compiles for a target. Raises ``TilewrightError`` where the compiler is missing."""

    def compilers(self) -> Mapping[str, str]:
        """Versions of the compilers that this machine has, by the targets' ``arch``; farm builders offer them."""

    def refusal(self, program: LaunchProgram, target: Target) -> str | None:
        """Why a kernel cannot run on a target, from its launches alone; ``None`` when it may. What it gives may have
        a ``reason``, a word to count by."""
        return None

    def build(self, sources: Sequence[str], target: Target, cache: Path | None = None) -> Built:
        """Compile one translation unit, through a cache.

        Raises ``CompileError``, and ``Rejected`` where a kernel asks for more than the target has.
        """
        from tilewright.backends.cache import ArtifactCache
        from tilewright.backends.toolchain import DEADLINE

        toolchain = self.toolchain(target, ArtifactCache(cache))
        done = toolchain.compile("\n".join(sources), (), DEADLINE)
        return Built(done.path, done.sha256, toolchain.version, toolchain.flags, done.cached)

    def load(self, data: bytes, sha256: str | None = None) -> Library:
        """Load a library from its bytes, checking their hash. Raises ``LoadError``."""

    # devices

    def devices(self) -> tuple[str, ...]:
        """Names of this machine's devices that kernels are generated for."""

    def place(self, target: str | Target, device: str, threads: int) -> tuple[Target, Device]:
        """The target and the device that two names mean; either may be ``auto``, the target a stored one.

        Raises ``UsageError`` where the two do not go together, ``TargetUnavailable`` where the machine lacks them.
        """

    def build_cores(self, device: Device) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where compilers run while the device is measured, and its own cores, where they run only while it is not."""

    def lock(
        self, device: Device, on_wait: Callable[[str], None], stop: threading.Event | None = None
    ) -> AbstractContextManager[object]:
        """Exclusive use of a device among this user's processes; waits for it, until ``stop`` is set."""

    def warnings(self, device: Device) -> list[str]:
        """Reasons to distrust times taken on a device."""
        return []

    def peaks(self, task: Task, device: Device) -> Peaks:
        """What a device reaches at most on a task's elements."""

    def ceilings(self, task: Task) -> Peaks:
        """The same as stated, without a device."""
        return NO_PEAKS

    def describe(self, target: Target, device: Device) -> Described:
        """What a device is, to others."""

    def report(self, load: bool) -> Report:
        """What is here, for ``doctor``; ``load``: also by measuring and by importing what takes long."""

    # measuring and serving

    def settings(self, device: Device, memory: int) -> dict[str, Any]:
        """What a measuring child is told of its device: ``cores`` to run on, ``device`` (its number), ``cache_state``,
        ``memory`` (bytes that it may map, of ``memory``), ``rotate_bytes`` of operand sets (0: by the device), and
        ``confinable``: whether kernels are code of this machine's processors, which a sandbox can bound."""

    def open(self, index: int, driver: str | None = None) -> Context:
        """A device by its number, through its driver, or through one of several by name."""

    def guard(self, context: Context) -> Guard | None:
        """What looks at a device around a batch; ``None`` where nothing can."""
        return None

    def serves(self, target: Target, context: Context) -> bool:
        """Whether a context's device runs code for a target."""


BACKENDS = {
    "cpu": "tilewright.backends.cpu.backend:CpuBackend",
    "cuda": "tilewright.backends.cuda.backend:CudaBackend",
    "emulator": "tilewright.backends.emulator.backend:EmulatorBackend",
    "opencl": "tilewright.backends.opencl.backend:OpenClBackend",
}
"""Name, also that of its devices and, but for the emulator's, of its targets -> where it is, as ``module:class``."""

EMULATOR = "emulator"
"""The emulator's backend, and the device model under which its results are stored."""

AUTO = ("cuda", "cpu")
"""Whose devices ``auto`` means, the first that has one: others are asked for by name."""


def get_backend(name: str) -> Backend:
    """A backend by name. Raises ``UsageError`` for an unknown one, which names the target that may be meant."""
    if name not in BACKENDS and name not in installed("backends"):
        named = [t.name for b in BACKENDS for t in get_backend(b).targets() if t.variant == name]
        if named:
            raise UsageError(
                f"unknown backend {name!r}", f"Did you mean {named[0]}? {name} is a target of that backend"
            )
    if name not in BACKENDS:
        return cast(Backend, find("backends", name, BACKENDS, by_path=False)())
    with steady:
        made = resolve_name(BACKENDS[name])
    return cast(Backend, made())


def backend_for(target: Target, emulated: bool = False) -> Backend:
    """The backend that builds and loads for ``target``; ``emulated``: the one that does so for the emulator."""
    return get_backend(EMULATOR if emulated else target.kind)


def backend_of(device: str) -> Backend:
    """The backend of a device by the device's name (``cuda:0``). Raises ``UsageError``."""
    name = device.partition(":")[0]
    if name not in (known := (*BACKENDS, *installed("backends"))):
        raise UsageError(f"unknown device {device!r}", f"Names begin with {', '.join(known)}")
    return get_backend(name)


def choose_backend(target: str = "auto", device: str = "auto") -> Backend:
    """The backend that a target and a device mean, by their names; the CPU's where both are ``auto``."""
    kind, where = target.partition(":")[0], device.partition(":")[0]
    if (where in BACKENDS or where in installed("backends")) and (kind == "auto" or kind in get_backend(where).kinds):
        return get_backend(where)
    if where == EMULATOR:
        return get_backend(where)
    return get_backend("cpu" if kind == "auto" else kind)


def device_names() -> tuple[str, ...]:
    """The devices that ``auto`` means: GPUs that kernels are generated for, else all cores as one."""
    return next(names for names in (get_backend(n).devices() for n in AUTO) if names)


def parse_target(text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
    """The target that ``auto``, ``KIND`` or ``KIND:VARIANT`` names, whatever its backend."""
    kind = text.partition(":")[0]
    return get_backend("cpu" if kind == "auto" else kind).parse_target(text, threads, allow_foreign)


def is_emulated(model: str) -> bool:
    """Whether a device model is the emulator's: what it stored is never served on a device."""
    return EMULATOR in model

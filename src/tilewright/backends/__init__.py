"""Backends: the code for one kind of device each. This registry finds them by name.

A new backend is a package that implements :class:`Backend`, and a line in ``BACKENDS``; no code outside of it
depends on its name. Backends are imported on first use.
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
    """Peak rates of a device: ``flops``, operations per second on a task's elements, and ``bandwidth``, bytes per
    second from memory; ``None`` if unknown. ``caches``: bytes per second from each cache with a known rate.
    """

    flops: float | None = None
    bandwidth: float | None = None
    caches: Mapping[str, float] = field(default_factory=dict)


NO_PEAKS = Peaks()
"""Peak rates of an unknown device."""


@dataclass(frozen=True)
class Built:
    """A library on disk: its path, the SHA-256 of its bytes, its compiler and flags.

    ``compiler`` is the compiler's version string; ``cached``: whether the library came from the cache.
    """

    path: str
    sha256: str
    compiler: str
    flags: tuple[str, ...]
    cached: bool


class Kernel(Protocol):
    """A loaded kernel with its launch arguments bound."""

    def run(self, pointers: Sequence[int]) -> None:
        """Call the kernel once with the addresses of its inputs and output. Raises ``LaunchError``."""

    def time(self, pointers: Sequence[int], repeats: int = 1, clock: str = "monotonic") -> float:
        """Seconds per call, over ``repeats`` calls."""


class Library(Protocol):
    """Code loaded into this process."""

    sha256: str

    def kernel(self, program: LaunchProgram, launch: Mapping[str, int], threads: int = 1) -> Kernel:
        """A callable for one launch program. Raises ``LoadError`` for a missing symbol."""

    def close(self) -> None:
        """Unload the library once it has no other users."""


@dataclass(frozen=True)
class Described:
    """A backend's description of a device: the class of devices with equal times for equal kernels, a unique id
    (``uuid``, or ``place``: unique on this host), number of cores (0 except for a CPU), bytes of memory."""

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
    prevent tuning."""

    facts: Mapping[str, Any]
    rows: Sequence[tuple[str, str]] = ()
    problems: Sequence[str] = field(default=())


class Backend(Protocol):
    """The code for one kind of device.

    ``kinds``: of targets that it serves. ``emulated``: its times mean nothing for a device, and its kernels are never
    served. ``in_process``: kernels are functions of this process and use its memory; otherwise there is a driver,
    which :meth:`open` returns. Methods with a body hold the behaviour common to most backends.
    """

    name: str
    kinds: tuple[str, ...]
    emulated: bool
    in_process: bool

    @property
    def device_form(self) -> str:
        """Regular expression of its devices' names."""

    # targets

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        """The targets that run on this machine, best first."""

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        """The target with this name. Raises ``UsageError`` or ``TargetUnavailable``."""

    def runs_here(self, target: Target) -> bool:
        """Whether code for ``target`` runs on this machine."""

    # code

    def toolchain(self, target: Target, cache: ArtifactCache | None = None) -> Toolchain:
        """The toolchain for a target. Raises ``TilewrightError`` if the compiler is missing."""

    def compilers(self) -> Mapping[str, str]:
        """Versions of the compilers that this machine has, by the targets' ``arch``; farm builders offer them."""

    def refusal(self, program: LaunchProgram, target: Target) -> str | None:
        """Why a kernel cannot run on a target, from its launches alone; ``None`` if it may. The returned text may have
        a ``reason``, a category for counting."""
        return None

    def build(self, sources: Sequence[str], target: Target, cache: Path | None = None) -> Built:
        """Compile one translation unit, through a cache.

        Raises ``CompileError``, and ``Rejected`` for a kernel that exceeds the target's resources.
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
        """The target and the device for two names; either may be ``auto``, and the target a stored one.

        Raises ``UsageError`` if the two do not match, ``TargetUnavailable`` if the machine lacks either.
        """

    def build_cores(self, device: Device) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Cores for compilers during a measurement of the device, and the device's cores, for compilers otherwise."""

    def lock(
        self, device: Device, on_wait: Callable[[str], None], stop: threading.Event | None = None
    ) -> AbstractContextManager[object]:
        """Exclusive use of a device among this user's processes; waits for the device until ``stop`` is set."""

    def warnings(self, device: Device) -> list[str]:
        """Reasons to distrust times measured on a device."""
        return []

    def peaks(self, task: Task, device: Device) -> Peaks:
        """Peak rates of a device on a task's elements."""

    def ceilings(self, task: Task) -> Peaks:
        """Peak rates as specified, without a device."""
        return NO_PEAKS

    def describe(self, target: Target, device: Device) -> Described:
        """Describe a device to other machines."""

    def report(self, load: bool) -> Report:
        """Facts for ``doctor``; ``load``: include measurements and slow imports."""

    # measuring and serving

    def settings(self, device: Device, memory: int) -> dict[str, Any]:
        """Settings of a device for a measuring child: ``cores`` to run on, ``device`` (its number), ``cache_state``,
        ``memory`` (bytes that it may map, of ``memory``), ``rotate_bytes`` of operand sets (0: by the device), and
        ``confinable``: whether kernels are code of this machine's processors, which a sandbox can limit."""

    def open(self, index: int, driver: str | None = None) -> Context:
        """Open a device by its number, through its driver or the driver called ``driver``."""

    def guard(self, context: Context) -> Guard | None:
        """A guard that watches a device during a batch; ``None`` without one."""
        return None

    def serves(self, target: Target, context: Context) -> bool:
        """Whether a context's device runs code for a target."""


BACKENDS = {
    "cpu": "tilewright.backends.cpu.backend:CpuBackend",
    "cuda": "tilewright.backends.cuda.backend:CudaBackend",
    "emulator": "tilewright.backends.emulator.backend:EmulatorBackend",
    "opencl": "tilewright.backends.opencl.backend:OpenClBackend",
}
"""Backend by name, as ``module:class``. Its devices and (except the emulator's) its targets have the same name."""

EMULATOR = "emulator"
"""The emulator's backend, and the device model under which its results are stored."""

AUTO = ("cuda", "cpu")
"""Backends whose devices ``auto`` means, the first with a device; all other devices are requested by name."""


def get_backend(name: str) -> Backend:
    """Return a backend by name. Raises ``UsageError`` for an unknown name, with a hint if the name is a target's."""
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
    """The backend that builds and loads for ``target``; ``emulated``: the emulator's backend."""
    return get_backend(EMULATOR if emulated else target.kind)


def backend_of(device: str) -> Backend:
    """The backend of a device by the device's name (``cuda:0``). Raises ``UsageError``."""
    name = device.partition(":")[0]
    if name not in (known := (*BACKENDS, *installed("backends"))):
        raise UsageError(f"unknown device {device!r}", f"Names begin with {', '.join(known)}")
    return get_backend(name)


def choose_backend(target: str = "auto", device: str = "auto") -> Backend:
    """The backend for the names of a target and a device; the CPU's if both are ``auto``."""
    kind, where = target.partition(":")[0], device.partition(":")[0]
    if (where in BACKENDS or where in installed("backends")) and (kind == "auto" or kind in get_backend(where).kinds):
        return get_backend(where)
    if where == EMULATOR:
        return get_backend(where)
    return get_backend("cpu" if kind == "auto" else kind)


def device_names() -> tuple[str, ...]:
    """The devices that ``auto`` means: GPUs that kernels are generated for, else all cores as one device."""
    return next(names for names in (get_backend(n).devices() for n in AUTO) if names)


def parse_target(text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
    """The target named ``auto``, ``KIND`` or ``KIND:VARIANT``, of any backend."""
    kind = text.partition(":")[0]
    return get_backend("cpu" if kind == "auto" else kind).parse_target(text, threads, allow_foreign)


def is_emulated(model: str) -> bool:
    """Whether a device model is the emulator's, whose stored kernels are never served."""
    return EMULATOR in model

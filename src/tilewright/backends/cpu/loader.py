"""Loading libraries from their bytes, and calling their kernels.

The bytes are hashed once and loaded from that same memory (an anonymous sealed file; a private
folder where the system has none), so what was checked is what runs, also where the temporary folder
is mounted ``noexec``. All libraries of a process share the first one's thread pool.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256 as sha256_of
from pathlib import Path
from typing import Protocol

from tilewright.backends.cores import available_cores
from tilewright.backends.cpu.structures import SUPPORT, prototypes, structures, unload
from tilewright.backends.driver import LaunchError, LoadError
from tilewright.core import ABI_VERSION, LaunchProgram, TilewrightError, evaluate
from tilewright.forking import steady
from tilewright.paths import cache_root

CLOCKS = {"monotonic": 0, "cpu": 1}
"""Clock names: elapsed time, and the calling thread's processor time."""

SUPPORT_ABI = 1  # the support object's interface that this loader speaks (TW_SUPPORT_ABI in tw.h)


STRUCTURES = structures(SUPPORT / "tw.h")
"""What artifacts take: ``tw_call``, ``tw_loaded``, ..."""

Launch, Call, Loaded, Zone = (STRUCTURES[n] for n in ("tw_launch", "tw_call", "tw_loaded", "tw_zone"))


def failed(code: int, symbol: str) -> LaunchError:
    """For a kernel that returned a nonzero code."""
    return LaunchError(f"kernel {symbol} failed with code {code}")


class Block(Protocol):
    """Memory at an address, for as long as this object lives."""

    address: int


Allocate = Callable[[str, int], Block]
"""Gives memory for a purpose, in words: of a number of bytes, aligned to 4096."""


def _fresh(purpose: str, size: int) -> Block:
    return Memory(size)


_FUNCTIONS = prototypes(SUPPORT / "tw.h", STRUCTURES)
_REQUIRED = (
    "tw_support_abi", "tw_env_get", "tw_pool_cores", "tw_pool_workers", "tw_run", "tw_alloc", "tw_free", "tw_flush",
    "tw_time", "tw_time_rounds", "tw_peak_flops", "tw_bandwidth", "tw_copy_bandwidth",
)  # fmt: skip
"""Functions that every library has; others came later."""

_loaded: dict[str, LoadedLibrary] = {}
_watched: ctypes.Array[ctypes.Structure] | None = None
_host: LoadedLibrary | None = None  # never closed: its pool's threads run its code


class LoadedLibrary:
    """A library in this process: its kernels, and the support functions linked into it."""

    def __init__(self, handle: ctypes.CDLL, sha256: str) -> None:
        self.handle = handle
        self.sha256 = sha256
        self.uses = 1
        for name, (restype, argtypes) in _FUNCTIONS.items():
            if function := getattr(handle, name, None):
                function.restype, function.argtypes = restype, argtypes
            elif name in _REQUIRED:
                raise LoadError(
                    f"library {sha256[:12]} lacks the support functions", "Build it again with this version"
                )
        self.abi: int = handle.tw_support_abi()

    def address(self, symbol: str) -> int:
        """Address of a function. Raises ``LoadError`` when there is none of that name."""
        try:
            pointer = getattr(self.handle, symbol)
        except (AttributeError, ValueError):  # no function of that name, or no name of a function
            raise LoadError(f"library {self.sha256[:12]} has no kernel {ascii(symbol)[1:-1]}") from None
        return ctypes.cast(pointer, ctypes.c_void_p).value or 0

    def kernel(self, program: LaunchProgram, launch: Mapping[str, int], threads: int = 1) -> LoadedKernel:
        """A callable for one launch program with its launch arguments fixed."""
        return LoadedKernel(self, program, launch, threads)

    def close(self) -> None:
        """Unload once every ``load_*`` that returned this library has been closed.

        Its kernels must not be called afterwards. The library that owns the process's thread pool
        stays.
        """
        with steady:
            self.uses -= 1
            if self.uses != 0 or self is _host:
                return
            if _loaded.get(self.sha256) is self:
                del _loaded[self.sha256]
            unload(self.handle)


class LoadedKernel:
    """A kernel with its launch arguments bound; call it with the tensors' addresses.

    Safe from several threads: each has a workspace of its own. The GIL is released while it runs.
    """

    def __init__(self, library: LoadedLibrary, program: LaunchProgram, launch: Mapping[str, int], threads: int) -> None:
        if program.abi != ABI_VERSION:
            raise LoadError(
                f"the kernel's interface has version {program.abi}, this is {ABI_VERSION}", "Build it again"
            )
        self.library = library  # keeps the code mapped
        self.program = program
        self.threads = threads
        try:
            values = [[int(launch[name]) for name in x.arguments] for x in program.launches]
            self.workspace_bytes = int(evaluate(program.workspace, launch))
            self.zero_fill = int(evaluate(program.zero_fill, launch))
            self.prepacks = [
                (x.input, int(evaluate(x.bytes, launch)), library.address(x.launch.symbol),
                 [int(launch[name]) for name in x.launch.arguments])
                for x in program.prepack
            ]  # fmt: skip
        except KeyError as e:
            raise LoadError(f"the kernel's launch argument {e.args[0]!r} has no value") from None
        except (TypeError, ValueError, IndexError, ArithmeticError, RecursionError) as e:
            raise LoadError(f"the kernel's launch program is invalid ({type(e).__name__}: {e})") from None
        if not 0 < program.align <= 1 << 16 or program.align & (program.align - 1):
            raise LoadError(f"the kernel asks for arrays that begin at multiples of {program.align} bytes")
        if not 0 <= self.zero_fill <= self.workspace_bytes:
            raise LoadError(f"{self.zero_fill} bytes to clear in a workspace of {self.workspace_bytes}")
        if self.workspace_bytes >= 1 << 48:
            raise LoadError(f"there is no memory for a workspace of {self.workspace_bytes} bytes")
        self._support = process_host().handle
        self._arguments = [(ctypes.c_longlong * max(1, len(v)))(*v) for v in values]
        self._launches = (Launch * len(values))(
            *(
                Launch(library.address(x.symbol), ctypes.addressof(a))
                for x, a in zip(program.launches, self._arguments, strict=True)
            )
        )
        self._env = process_env(threads)
        self._local = threading.local()
        self._tw_run = self._support.tw_run

    def call(self, tensors: int, workspace: int) -> ctypes.Structure:
        """A ``struct tw_call`` on tensors, by the address of their addresses, and on a workspace, by its address."""
        launches = self._launches
        return Call(ctypes.addressof(launches), len(launches), tensors, workspace, self.zero_fill, self._env)

    def described(self, served: int, release: bool = False) -> ctypes.Structure:
        """The kernel as tables of calls in C hold it (``struct tw_loaded``); this object owns what it points to.

        ``served``: address of the count of calls; ``release``: whether other Python threads run meanwhile.
        """
        launches = self._launches
        return Loaded(
            len(launches), ctypes.addressof(launches), self.workspace_bytes, self.zero_fill, self.program.align,
            release, self._env, served,
        )  # fmt: skip

    def run(self, pointers: Sequence[int]) -> None:
        """Call it once. ``pointers``: the inputs' addresses in call order, then the output's.

        They are trusted: sizes, alignment and overlap are the caller's to check. Raises
        ``LaunchError``.
        """
        self._prepare(pointers).run()

    def run_packed(self, pointers: Sequence[int]) -> None:
        """The same where constant inputs lie at ``pointers`` as :meth:`pack` rearranged them."""
        prepared: PreparedCall | None = getattr(self._local, "packed", None)
        if prepared is None:
            prepared = self._local.packed = PreparedCall(self, (0,) * len(pointers))
        prepared.tensors[:] = list(pointers)
        prepared.run()

    def time(self, pointers: Sequence[int], repeats: int = 1, clock: str = "monotonic") -> float:
        """Seconds a call, over ``repeats`` calls back to back."""
        seconds: float = self._support.tw_time(self._prepare(pointers).reference, repeats, CLOCKS[clock])
        if seconds < 0:
            raise failed(int(-seconds), self.symbol)
        return seconds

    @property
    def symbol(self) -> str:
        return self.program.launches[0].symbol if self.program.launches else "(empty)"

    def prepare(self, pointers: Sequence[int], allocate: Allocate = _fresh) -> PreparedCall:
        """A ``struct tw_call`` of its own, with its own workspace, for repeated use in one thread.

        ``allocate`` gives the workspace, and memory for each constant input that is rearranged.
        """
        return PreparedCall(self, tuple(pointers), allocate)

    def _prepare(self, pointers: Sequence[int]) -> PreparedCall:
        prepared: PreparedCall | None = getattr(self._local, "call", None)
        if prepared is None or len(prepared.tensors) != max(1, len(pointers)):
            prepared = self._local.call = PreparedCall(self, tuple(pointers))
        else:
            prepared.use(pointers)
        return prepared

    def pack(self, pointers: Sequence[int], allocate: Allocate = _fresh) -> dict[int, Block]:
        """The rearranged form of each constant input that has one, by the input's number.

        ``pointers`` as for :meth:`run`; those of other inputs are not read. Raises ``LaunchError``.
        """
        packed: dict[int, Block] = {}
        tensors = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        for number, size, address, values in self.prepacks:
            memory = packed[number] = allocate(f"rearranged input number {number}", size)
            arguments = (ctypes.c_longlong * max(1, len(values)))(*values)
            launch = Launch(address, ctypes.addressof(arguments))
            call = Call(
                ctypes.addressof(launch), 1, ctypes.addressof(tensors), memory.address, 0, self._env
            )  # fmt: skip
            code = self._tw_run(ctypes.addressof(call))
            if code:
                raise failed(code, self.symbol)
        return packed


class PreparedCall:
    """``struct tw_call`` with everything it points to. ``reference`` is its address.

    Constant inputs that the kernel rearranges are read once, when pointers are given.
    """

    def __init__(self, kernel: LoadedKernel, pointers: tuple[int, ...], allocate: Allocate = _fresh) -> None:
        self.kernel = kernel
        self.allocate = allocate
        self.tensors = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        self.packed: dict[int, Block] = {}
        if any(pointers):
            self.use(pointers)
        self.workspace = allocate("workspace", kernel.workspace_bytes)
        self.call = kernel.call(ctypes.addressof(self.tensors), self.workspace.address)
        self.reference = ctypes.addressof(self.call)

    def run(self) -> None:
        """Call it once on the tensors that it has. Raises ``LaunchError``."""
        code = self.kernel._tw_run(self.reference)
        if code:
            raise failed(code, self.kernel.symbol)

    def use(self, pointers: Sequence[int]) -> None:
        """Take other tensors: the inputs' addresses in call order, then the output's."""
        self.tensors[: len(pointers)] = list(pointers)
        self.packed = self.kernel.pack(pointers, self.allocate)
        for number, memory in self.packed.items():
            self.tensors[number] = memory.address


class TurningCall(PreparedCall):
    """Calls that take turns, one in each run. They differ in where their constant inputs lie: of these there are
    ``copies``. ``constants``: bytes of each, by the input's number. ``memory``: what the copies may lie in, if it is
    large enough; :attr:`memory` is what they lie in. ``before``: an earlier call of the same kernel on equal constants,
    whose copies are used.

    Where the host library is older than calls that take turns there is one copy.
    """

    memory: Memory | None = None

    def __init__(
        self, kernel: LoadedKernel, pointers: tuple[int, ...], copies: int, constants: Mapping[int, int],
        memory: Memory | None = None, before: TurningCall | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel, pointers)
        host = process_host().handle
        if copies < 2 or not hasattr(host, "tw_run_next"):
            return
        sizes = {**constants, **{n: size for n, size, _, _ in kernel.prepacks}}
        spans = {n: -(-size // _APART) * _APART for n, size in sizes.items()}
        whole, held = (copies - 1) * sum(spans.values()), None if before is None else before.memory
        found = held or memory
        self.memory = found if found is not None and found.size >= whole else Memory(whole)
        place, tensors = self.memory.address, [self.tensors]
        for _ in range(copies - 1):
            tensors.append(type(self.tensors)(*self.tensors))
            for n, size in sizes.items():
                if held is None:
                    ctypes.memmove(place, self.tensors[n] or 0, size)
                tensors[-1][n] = place
                place += spans[n]
        self._calls = (Call * copies)(*(kernel.call(ctypes.addressof(t), self.workspace.address) for t in tensors))
        self._keep = tensors
        self._turns = STRUCTURES["tw_turns"](ctypes.addressof(self._calls), copies, 0)
        self._arguments = (ctypes.c_longlong * 1)(ctypes.addressof(self._turns))
        function = ctypes.cast(host.tw_run_next, ctypes.c_void_p).value
        self._launch = Launch(function, ctypes.addressof(self._arguments))
        self.call = Call(ctypes.addressof(self._launch), 1, 0, 0, 0, kernel._env)
        self.reference = ctypes.addressof(self.call)


_APART = 4096
"""Bytes: copies of constant inputs begin at multiples."""


class Memory:
    """Zeroed memory, aligned to 4096 bytes (large blocks to huge pages), freed with this object."""

    def __init__(self, size: int) -> None:
        support = process_host().handle
        self.size = size
        self.address: int = (support.tw_alloc(size) or 0) if size else 0
        self._free = support.tw_free
        if size and not self.address:
            raise TilewrightError(f"no memory for a workspace of {size} bytes", "Use smaller sizes or fewer threads")

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self._free(self.address, self.size)
            self.address = 0


def time_rounds(
    calls: Sequence[PreparedCall],
    rounds: int,
    repeats: Sequence[int] | int = 1,
    clock: str = "monotonic",
    flush: Memory | None = None,
) -> list[list[float]]:
    """Time several calls interleaved: seconds per run of each call, round by round.

    Every round times each call once over ``repeats`` runs (one number, or one a call); the order
    turns by one from round to round. Of several calls each runs once more before it is timed, so that it finds the
    caches as its own calls leave them. ``flush`` (several times the last-level cache) is walked before
    each timing instead, so that calls start with cold operands. Raises ``LaunchError``.
    """
    if not calls or rounds < 1:
        return [[] for _ in calls]
    many = [repeats] * len(calls) if isinstance(repeats, int) else list(repeats)
    if len(many) != len(calls) or min(many) < 1:
        raise ValueError("repeats: one positive number, or one a call")
    references = (ctypes.c_void_p * len(calls))(*(c.reference for c in calls))
    counts = (ctypes.c_long * len(calls))(*many)
    out = (ctypes.c_double * (rounds * len(calls)))()
    code = process_host().handle.tw_time_rounds(
        references, counts, len(calls), rounds, CLOCKS[clock],
        flush.address if flush else None, flush.size if flush else 0, out,
    )  # fmt: skip
    if code:
        raise failed(code, "+".join(c.kernel.symbol for c in calls))
    flat = list(out)
    return [flat[i :: len(calls)] for i in range(len(calls))]


def run_calls(calls: ctypes.Array[ctypes.Structure]) -> None:
    """Run calls one after the other, in C where a loaded library can: the host first, whose threads then stay awake
    from one call to the next. Raises ``LaunchError``.
    """
    able: ctypes.CDLL | None = process_host().handle
    if not hasattr(able, "tw_run_calls"):
        with steady:
            libraries = tuple(_loaded.values())
        able = next((x.handle for x in libraries if hasattr(x.handle, "tw_run_calls")), None)
    if able is not None:
        code = able.tw_run_calls(calls, ctypes.c_long(len(calls)))
    else:  # libraries built before there was tw_run_calls
        run = process_host().handle.tw_run
        code = next((c for call in calls if (c := run(ctypes.addressof(call)))), 0)
    if code:
        raise failed(code, "of a sequence")


def watch(zones: Sequence[ctypes.Structure]) -> None:
    """Have a fatal access to one of these zones told on standard error, where the host library can: in one line, with
    the zone's name and how far from it. Those of the call before are forgotten.
    """
    global _watched  # noqa: PLW0603 - a process has one handler
    host = process_host().handle
    if hasattr(host, "tw_watch"):  # libraries built before there was one
        watched = (Zone * len(zones))(*zones)
        host.tw_watch(watched, len(zones))
        _watched = watched


# --------------------------------------------------------------------------- the process's host library


def process_host() -> LoadedLibrary:
    """The library whose thread pool and support functions this process uses."""
    if _host is None:
        raise LoadError("no library is loaded yet", "Load one first")
    return _host


def process_env(threads: int) -> int:
    """Address of the ``struct tw_env`` for kernels of so many threads; valid for good."""
    return int(process_host().handle.tw_env_get(threads))


# --------------------------------------------------------------------------- loading


def load_path(path: str | os.PathLike[str], sha256: str | None = None, copy: bool = False) -> LoadedLibrary:
    """Load the library in a file as :func:`load_bytes` does. Raises ``LoadError``."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise LoadError(f"cannot read library {path}: {e.strerror}", "Build it again") from e
    return load_bytes(data, sha256, copy)


def load_bytes(data: bytes, sha256: str | None = None, copy: bool = False) -> LoadedLibrary:
    """Load a library from its bytes, checking their hash when one is given.

    The same bytes are loaded once; with ``copy`` once more, to other addresses and pages. Raises ``LoadError``.
    """
    actual = sha256_of(data).hexdigest()
    if sha256 is not None and sha256 != actual:
        raise LoadError(f"library {sha256[:12]} is damaged: its bytes hash to {actual[:12]}", "Build it again")
    global _host  # noqa: PLW0603 - one pool a process is the point
    with steady:
        found = None if copy else _loaded.get(actual)
        if found is not None:
            found.uses += 1
            return found
        library = LoadedLibrary(_dlopen(data, actual), actual)
        if library.abi != SUPPORT_ABI:
            raise LoadError(
                f"library {actual[:12]} has support version {library.abi}, this is {SUPPORT_ABI}",
                "Build it again",
            )
        if not copy:
            _loaded[actual] = library
        if _host is None:
            library.handle.tw_pool_cores(available_cores())
            _host = library
        return library


_serial = itertools.count()


def _dlopen(data: bytes, name: str) -> ctypes.CDLL:
    problem: OSError | None = None
    try:
        return _dlopen_memory(data, name)
    except (OSError, AttributeError) as e:
        if isinstance(e, OSError):
            problem = e
    for folder in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), str(cache_root())):
        if not folder or not os.path.isdir(folder):
            continue
        try:
            return _dlopen_file(data, name, folder)
        except OSError as e:
            problem = e
    raise LoadError(f"library {name[:12]} cannot be loaded: {problem}", "Build it again on this machine") from problem


_MFD_EXEC = 0x10  # Linux 6.3: without it, some settings forbid executing the file
_MFD_FLAGS = 0x3  # close on exec, sealable


def _dlopen_memory(data: bytes, name: str) -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError("no memory files")
    try:
        fd = os.memfd_create(f"tilewright-{name[:12]}", _MFD_FLAGS | _MFD_EXEC)
    except OSError:
        fd = os.memfd_create(f"tilewright-{name[:12]}", _MFD_FLAGS)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        _seal(fd)
        return ctypes.CDLL(_unique_fd_path(fd), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    finally:
        os.close(fd)


def _unique_fd_path(fd: int) -> str:
    # The dynamic linker takes a path that it has seen for the same library, and numbers of closed
    # files come again: spell a serial number in redundant path parts.
    spelled = "".join("/." if bit == "1" else "//" for bit in f"{next(_serial):b}")
    return f"/proc/self/fd{spelled}/{fd}"


def _seal(fd: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)


def _dlopen_file(data: bytes, name: str, folder: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="tilewright-", dir=folder) as private:  # mode 0700
        path = os.path.join(private, f"{name}.so")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o500)
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)

"""Loads libraries from their bytes, and calls their kernels.

The bytes are hashed once and loaded from that same memory (an anonymous sealed file; a private
folder on systems without one). So the process runs exactly the bytes that were checked, even if the temporary folder
is mounted ``noexec``. All libraries of a process share the first library's thread pool.
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

SUPPORT_ABI = 1  # version of the support object's interface that this loader uses (TW_SUPPORT_ABI in tw.h)


STRUCTURES = structures(SUPPORT / "tw.h")
"""C structures of artifacts by name: ``tw_call``, ``tw_loaded``, ..."""

Launch, Call, Loaded, Zone = (STRUCTURES[n] for n in ("tw_launch", "tw_call", "tw_loaded", "tw_zone"))


def failed(code: int, symbol: str) -> LaunchError:
    """The error for a kernel that returned a nonzero code."""
    return LaunchError(f"kernel {symbol} failed with code {code}")


class Block(Protocol):
    """Memory at an address, for the lifetime of this object."""

    address: int


Allocate = Callable[[str, int], Block]
"""Allocates memory for a purpose (a text): the given number of bytes, aligned to 4096."""


def _fresh(purpose: str, size: int) -> Block:
    return Memory(size)


_FUNCTIONS = prototypes(SUPPORT / "tw.h", STRUCTURES)
_REQUIRED = (
    "tw_support_abi", "tw_env_get", "tw_pool_cores", "tw_pool_workers", "tw_run", "tw_alloc", "tw_free", "tw_flush",
    "tw_time", "tw_time_rounds", "tw_peak_flops", "tw_bandwidth", "tw_copy_bandwidth",
)  # fmt: skip
"""Functions that every library has; older libraries lack the other functions."""

_loaded: dict[str, LoadedLibrary] = {}
_watched: ctypes.Array[ctypes.Structure] | None = None
_host: LoadedLibrary | None = None  # never closed: its thread pool runs its code


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
        """Address of a function. Raises ``LoadError`` for a missing symbol."""
        try:
            pointer = getattr(self.handle, symbol)
        except (AttributeError, ValueError):  # a missing symbol, or an invalid name
            raise LoadError(f"library {self.sha256[:12]} has no kernel {ascii(symbol)[1:-1]}") from None
        return ctypes.cast(pointer, ctypes.c_void_p).value or 0

    def kernel(self, program: LaunchProgram, launch: Mapping[str, int], threads: int = 1) -> LoadedKernel:
        """A callable for one launch program with its launch arguments fixed."""
        return LoadedKernel(self, program, launch, threads)

    def close(self) -> None:
        """Unload the library once every ``load_*`` call that returned it has been matched by a close.

        Its kernels must not be called afterwards. The library that owns the process's thread pool
        stays loaded.
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

    Safe from several threads: each thread has its own workspace. The GIL is released while the kernel runs.
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
        """A ``struct tw_call``. ``tensors``: address of the tensors' addresses; ``workspace``: its address."""
        launches = self._launches
        return Call(ctypes.addressof(launches), len(launches), tensors, workspace, self.zero_fill, self._env)

    def described(self, served: int, release: bool = False) -> ctypes.Structure:
        """The kernel as a ``struct tw_loaded`` for call tables in C; this object owns the memory it points to.

        ``served``: address of the call counter; ``release``: whether the call releases the GIL.
        """
        launches = self._launches
        return Loaded(
            len(launches), ctypes.addressof(launches), self.workspace_bytes, self.zero_fill, self.program.align,
            release, self._env, served,
        )  # fmt: skip

    def run(self, pointers: Sequence[int]) -> None:
        """Call the kernel once. ``pointers``: the inputs' addresses in call order, then the output's.

        The addresses are trusted: the caller must check sizes, alignment and overlap. Raises
        ``LaunchError``.
        """
        self._prepare(pointers).run()

    def run_packed(self, pointers: Sequence[int]) -> None:
        """:meth:`run` with constant inputs already packed by :meth:`pack`: ``pointers`` has the packed addresses."""
        prepared: PreparedCall | None = getattr(self._local, "packed", None)
        if prepared is None:
            prepared = self._local.packed = PreparedCall(self, (0,) * len(pointers))
        prepared.tensors[:] = list(pointers)
        prepared.run()

    def time(self, pointers: Sequence[int], repeats: int = 1, clock: str = "monotonic") -> float:
        """Seconds per call, over ``repeats`` calls back to back."""
        seconds: float = self._support.tw_time(self._prepare(pointers).reference, repeats, CLOCKS[clock])
        if seconds < 0:
            raise failed(int(-seconds), self.symbol)
        return seconds

    @property
    def symbol(self) -> str:
        return self.program.launches[0].symbol if self.program.launches else "(empty)"

    def prepare(self, pointers: Sequence[int], allocate: Allocate = _fresh) -> PreparedCall:
        """A call with its own ``struct tw_call`` and workspace, for repeated use in one thread.

        ``allocate`` provides the workspace, and memory for each packed constant input.
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
        """Pack each constant input that the kernel prepacks; returns the memory by the input's index.

        ``pointers`` as for :meth:`run`; other inputs are not read. Raises ``LaunchError``.
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
    """A ``struct tw_call`` with all memory that it points to. ``reference`` is its address.

    Constant inputs that the kernel prepacks are read once, when pointers are given.
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
        """Call the kernel once on the current tensors. Raises ``LaunchError``."""
        code = self.kernel._tw_run(self.reference)
        if code:
            raise failed(code, self.kernel.symbol)

    def use(self, pointers: Sequence[int]) -> None:
        """Bind other tensors: the inputs' addresses in call order, then the output's."""
        self.tensors[: len(pointers)] = list(pointers)
        self.packed = self.kernel.pack(pointers, self.allocate)
        for number, memory in self.packed.items():
            self.tensors[number] = memory.address


class TurningCall(PreparedCall):
    """Calls that rotate: each run uses the next copy of the constant inputs, of ``copies`` in total.

    ``constants``: bytes of each constant input by its index. ``memory``: memory to reuse for the copies if it is large
    enough; :attr:`memory` is the memory in use. ``before``: an earlier call of the same kernel on equal constants,
    whose copies are used.

    If the host library is too old for rotating calls, there is one copy.
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
"""Alignment of copies of constant inputs in bytes."""


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

    Every round times each call once over ``repeats`` runs (one number for all, or one per call); the order
    rotates by one from round to round. With several calls, each runs once untimed before it is timed, so that it finds
    the caches as its own calls leave them. With ``flush`` (several times the last-level cache), that memory is read
    before each timing instead, so that calls start with cold operands. Raises ``LaunchError``.
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
    """Run calls one after the other, in C if a loaded library supports it. The host library is preferred: its threads
    stay awake from one call to the next. Raises ``LaunchError``.
    """
    able: ctypes.CDLL | None = process_host().handle
    if not hasattr(able, "tw_run_calls"):
        with steady:
            libraries = tuple(_loaded.values())
        able = next((x.handle for x in libraries if hasattr(x.handle, "tw_run_calls")), None)
    if able is not None:
        code = able.tw_run_calls(calls, ctypes.c_long(len(calls)))
    else:  # libraries from before tw_run_calls
        run = process_host().handle.tw_run
        code = next((c for call in calls if (c := run(ctypes.addressof(call)))), 0)
    if code:
        raise failed(code, "of a sequence")


def watch(zones: Sequence[ctypes.Structure]) -> None:
    """Report a fatal access to a zone in one line on standard error, with the zone's name and the distance. Older host
    libraries do not support it. The zones replace those of the last call.
    """
    global _watched  # noqa: PLW0603 - a process has one handler
    host = process_host().handle
    if hasattr(host, "tw_watch"):  # older libraries lack it
        watched = (Zone * len(zones))(*zones)
        host.tw_watch(watched, len(zones))
        _watched = watched


# --------------------------------------------------------------------------- the process's host library


def process_host() -> LoadedLibrary:
    """The library with the thread pool and the support functions of this process."""
    if _host is None:
        raise LoadError("no library is loaded yet", "Load one first")
    return _host


def process_env(threads: int) -> int:
    """Address of the ``struct tw_env`` for kernels of ``threads`` threads; valid for the process's lifetime."""
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
    """Load a library from its bytes, and check their hash if one is given.

    Equal bytes are loaded once; ``copy`` loads them again, to other addresses and pages. Raises ``LoadError``.
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


_MFD_EXEC = 0x10  # Linux 6.3: some settings forbid executing the file without it
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
    # The dynamic linker identifies a library by its path, and numbers of closed files are reused: encode a serial
    # number in redundant path parts.
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

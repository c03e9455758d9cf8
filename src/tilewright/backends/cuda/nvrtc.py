"""NVRTC, NVIDIA's run-time compiler: CUDA C++ in, cubin out. It needs no GPU and no driver.

This process loads the library through ctypes to query its version and architectures, and worker processes compile
(``compiler_worker.py``). The search executes no file: libraries are opened by path, in the order of :func:`candidates`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.backends.compiler_worker import LibraryCompiler
from tilewright.backends.confine import one_line
from tilewright.backends.toolchain import DEADLINE, CompileError, first_error
from tilewright.core import TargetUnavailable, TilewrightError

_VARIABLE = "TILEWRIGHT_NVRTC"
_HINT = (
    "pip install 'tilewright[cuda13]' (or 'tilewright[cuda12]' for a driver of CUDA 12), install the CUDA toolkit and "
    f"set CUDA_HOME, or set {_VARIABLE} to the path of libnvrtc.so"
)
_OUT_OF_MEMORY = 1
_MAJORS = (13, 12)  # CUDA releases whose libraries are searched by name on the loader's path


class NoNvrtc(TargetUnavailable):
    """NVRTC is missing, cannot be loaded, or does not support the architecture."""


class Nvrtc:
    """One NVRTC library. Safe to use from several threads.

    ``version``: major and minor CUDA release; ``archs``: compute capabilities that it compiles for (80, 90, ...);
    ``key``: differs between builds of one version.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._library = ctypes.CDLL(path)
            self._declare()
        except OSError as e:
            raise NoNvrtc(f"{path} cannot be loaded: {one_line(str(e))}", _HINT) from None
        except AttributeError as e:
            raise NoNvrtc(f"{path} is not an NVRTC of CUDA 11.2 or later: {one_line(str(e))}", _HINT) from None
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        self.version = (major.value, minor.value)
        self._load_builtins()
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
        known = (ctypes.c_int * max(1, count.value))()
        self._check(self._library.nvrtcGetSupportedArchs(known), "nvrtcGetSupportedArchs")
        self.archs = tuple(sorted(known[: count.value]))

    @property
    def name(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    @property
    def key(self) -> str:
        size = 0
        with contextlib.suppress(OSError):
            size = os.stat(self.path).st_size
        return f"{self.name} {size}"

    def supports(self, arch: str) -> bool:
        """Whether it compiles for an architecture such as ``sm_90a``."""
        match = re.fullmatch(r"sm_(\d+)[af]?", arch)
        return match is not None and int(match[1]) in self.archs

    def compile(self, source: str, options: Sequence[str], deadline: float = DEADLINE) -> tuple[bytes, str]:
        """Cubin and log of one translation unit, compiled by a worker process.

        Raises ``CompileError`` with the first diagnostic, or if the source crashes the compiler, and
        ``CompileTimeout`` past ``deadline`` seconds.
        """
        if "\0" in source:
            raise CompileError("the source holds a zero byte")
        worker = LibraryCompiler(self.name, "tilewright.backends.cuda.compile")
        return worker.compile(source, (self.path, *options), deadline)

    def compile_here(self, source: str, options: Sequence[str]) -> tuple[bytes, str]:
        """Cubin and log, compiled in this process, which a source may crash. Raises ``CompileError``."""
        program = ctypes.c_void_p()
        lib = self._library
        text = source.encode()
        self._check(
            lib.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None), "nvrtcCreateProgram"
        )
        try:
            encoded = [o.encode() for o in options]
            status = lib.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
            log = self._bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status == _OUT_OF_MEMORY:
                raise MemoryError
            if status != 0:
                said = log if log.strip() else f"{self.name}: {self._error(status)}"
                raise CompileError(first_error(said, 1), log)
            return self._bytes(program, "CUBIN"), log
        finally:
            lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _load_builtins(self) -> None:
        # NVRTC opens this companion by its bare name; some releases do not search their own folder for it.
        beside = Path(self.path).parent / f"libnvrtc-builtins.so.{self.version[0]}.{self.version[1]}"
        if os.path.isabs(self.path) and beside.exists():
            with contextlib.suppress(OSError):
                self._builtins = ctypes.CDLL(str(beside))

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
        out = ctypes.create_string_buffer(max(1, size.value))
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, out), f"nvrtcGet{what}")
        return out.raw[: size.value]

    def _error(self, status: int) -> str:
        text: bytes | None = self._library.nvrtcGetErrorString(status)
        return text.decode(errors="replace") if text else f"status {status}"

    def _check(self, status: int, what: str) -> None:
        if status != 0:
            raise TilewrightError(f"{what} of {self.path} failed: {self._error(status)}", _HINT)

    def _declare(self) -> None:
        p, i, size = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_size_t)
        text, ints = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)
        signatures: dict[str, tuple[Any, ...]] = {
            "nvrtcVersion": (ints, ints),
            "nvrtcGetNumSupportedArchs": (ints,),
            "nvrtcGetSupportedArchs": (ints,),
            "nvrtcCreateProgram": (ctypes.POINTER(p), text, text, i, p, p),
            "nvrtcCompileProgram": (p, i, ctypes.POINTER(text)),
            "nvrtcGetProgramLogSize": (p, size),
            "nvrtcGetProgramLog": (p, text),
            "nvrtcGetCUBINSize": (p, size),
            "nvrtcGetCUBIN": (p, text),
            "nvrtcDestroyProgram": (ctypes.POINTER(p),),
        }
        for name, arguments in signatures.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = i, arguments
        self._library.nvrtcGetErrorString.restype = text
        self._library.nvrtcGetErrorString.argtypes = (i,)


# --------------------------------------------------------------------------- search


def candidates() -> tuple[str, ...]:
    """Paths and names of libraries that may be NVRTC, best first; paths with a folder exist.

    $TILEWRIGHT_NVRTC alone if it is set. Otherwise: NVIDIA's wheels (CuPy also searches them), the environment's own
    lib folder (conda), $CUDA_HOME and $CUDA_PATH, /usr/local/cuda*, and the loader's path.
    """
    given = os.environ.get(_VARIABLE, "").strip()
    if given:
        return (given,)
    paths: list[str] = []
    for folder in _wheel_folders():
        paths += _libraries(folder)
    paths += _libraries(Path(sys.prefix) / "lib")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        root = os.environ.get(variable, "").strip()
        if root:
            paths += _toolkit(Path(root))
    for root_path in sorted(Path("/usr/local").glob("cuda*"), key=_version_of, reverse=True):
        paths += _toolkit(root_path)
    paths += [f"libnvrtc.so.{major}" for major in _MAJORS]
    unique: dict[str, str] = {}
    for path in paths:
        unique.setdefault(os.path.realpath(path) if os.path.isabs(path) else path, path)
    return tuple(unique.values())


def find_nvrtc(arch: str | None = None) -> Nvrtc:
    """Find the NVRTC to use, for an architecture if one is given.

    The first of :func:`candidates` that opens, supports ``arch``, and is not of a later CUDA generation than this
    machine's driver, if it has one. Raises ``NoNvrtc`` with versions and the architecture.
    """
    found: list[Nvrtc] = []
    problems: list[TilewrightError] = []
    given = bool(os.environ.get(_VARIABLE, "").strip())
    for path in candidates():
        try:
            found.append(opened(path))
        except TilewrightError as e:
            # A name that the loader cannot find is no problem; a file that does not open is one.
            if os.path.isabs(path) or given:
                problems.append(e)
    if not found:
        if problems:
            raise problems[0]
        raise NoNvrtc("no NVRTC found: CUDA code cannot be compiled on this machine", _HINT)
    driver = driver_version()
    fit = found if driver is None or given else [n for n in found if n.version[0] <= driver[0]]
    if not fit and driver is not None:
        raise NoNvrtc(
            f"{found[0].name} makes code that this driver (CUDA {driver[0]}.{driver[1]}) cannot load",
            f"pip install 'tilewright[cuda{driver[0]}]', or update the driver",
        )
    if arch is None:
        return fit[0]
    for n in fit:
        if n.supports(arch):
            return n
    best = max(fit, key=lambda n: n.version)
    raise NoNvrtc(
        f"{best.name} is too old for {arch}: it compiles for {', '.join(f'sm_{a}' for a in best.archs)}",
        f"Install a later one: {_HINT}",
    )


@lru_cache(maxsize=16)
def opened(path: str) -> Nvrtc:
    """The library at a path, opened once."""
    return Nvrtc(path)


def driver_version() -> tuple[int, int] | None:
    """The CUDA release that this machine's driver supports, as major and minor; ``None`` without a driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        version = ctypes.c_int()
        if library.cuDriverGetVersion(ctypes.byref(version)) != 0 or version.value <= 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def _wheel_folders() -> list[Path]:
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    roots = list(spec.submodule_search_locations or ()) if spec else []
    folders = [f for root in roots for f in Path(root).glob("*/lib")]
    # nvidia/cu13/lib since CUDA 13, nvidia/cuda_nvrtc/lib before.
    return sorted(folders, key=lambda f: _version_of(f.parent), reverse=True)


def _toolkit(root: Path) -> list[str]:
    folders = [root / "lib64", root / "lib", *sorted(root.glob("targets/*/lib"))]
    return [p for f in folders for p in _libraries(f)]


def _libraries(folder: Path) -> list[str]:
    try:
        names = [n for n in os.listdir(folder) if re.fullmatch(r"libnvrtc\.so(\.\d+)*", n)]
    except OSError:
        return []
    names.sort(key=lambda n: [int(x) for x in re.findall(r"\d+", n)], reverse=True)
    return [str((folder / n).absolute()) for n in names]


def _version_of(path: Path) -> list[int]:
    return [int(x) for x in re.findall(r"\d+", path.name)]

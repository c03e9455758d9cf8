"""Compiles a kernel's source for the emulator: prelude and kernel in, a program out (or a library, for the driver).

Only the kernel's own translation unit is compiled each time. The runtime is compiled once for each
compiler and set of sanitizers, and linked.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import Compiler, compiled, find_compiler, link_flags
from tilewright.backends.toolchain import CompileError, CompileTimeout
from tilewright.core import UsageError, digest

RUNTIME = Path(__file__).parent / "runtime"
SANITIZERS = ("address", "undefined", "thread")
DEADLINE = 120.0  # seconds; an ordinary kernel takes 0.2 s, the runtime 2 s

_COMMON = (
    "-std=c++17", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-omit-frame-pointer",
    "-fno-strict-aliasing", "-fvisibility=hidden", "-ffp-contract=off",
)  # fmt: skip
# Kernels: -O1 compiles fastest, and sanitizers' reports keep their lines.
_KERNEL = ("-O1", "-fno-math-errno", "-w")
# Line numbers take a seventh of a compilation, so only sanitizers, and a rebuild after a crash, have them.
_LINES = ("-g1", "-gdwarf-4")
# The compiler must not insert calls of memcpy and memset into the runtime: the thread sanitizer intercepts them.
_RUNTIME = ("-O2", "-fno-builtin", "-Wall", "-Wextra", "-Werror")
_GCC_RUNTIME = ("-fno-tree-loop-distribute-patterns",)


@dataclass(frozen=True)
class EmulatedKernel:
    """A compiled source: a program that :func:`~.run.run` starts.

    ``unchecked``: why its sanitizers are missing (then ``path`` is empty and it cannot run). ``unit``: the
    compiled text; ``cache``: the cache's folder.
    """

    path: str
    symbols: tuple[str, ...]
    sanitize: tuple[str, ...] = ()
    profile: bool = False
    unchecked: str = ""
    sha256: str = ""
    compiler: str = ""
    cached: bool = False
    seconds: float = field(default=0.0, compare=False)
    unit: str = field(default="", compare=False, repr=False)
    cache: Path | None = None


def build(
    source: str,
    symbols: Sequence[str],
    *,
    sanitize: Sequence[str] = (),
    profile: bool = False,
    cache: Path | None = None,
) -> EmulatedKernel:
    """Compile ``source`` (emulated prelude and kernels) for the kernels named ``symbols``.

    ``sanitize``: any of ``address``, ``undefined`` and ``thread`` (the last excludes ``address``).
    ``profile`` makes :func:`~.run.run` count memory traffic. ``cache``: the cache's folder (default:
    the user's). If the compiler lacks a sanitizer, the result's ``unchecked`` says so. Raises
    ``CompileError`` with the first diagnostic, ``UsageError``, and ``TilewrightError`` without a compiler.
    """
    chosen = check_sanitizers(sanitize)
    compiler = find_compiler()
    unit = translation_unit(source, symbols)
    kernel = EmulatedKernel("", tuple(symbols), chosen, profile, compiler=compiler.version, unit=unit, cache=cache)
    key = kernel_key(unit, compiler, chosen, False)
    return made(kernel, compiler, key, lambda store: compile_unit(unit, compiler, chosen, False, store))


def made(
    kernel: EmulatedKernel, compiler: Compiler, key: str, compile_program: Callable[[ArtifactCache], bytes]
) -> EmulatedKernel:
    """``kernel`` with its program, cached or new; ``unchecked`` says which sanitizer the compiler lacks."""
    store = ArtifactCache(kernel.cache)
    begin = time.perf_counter()
    path = store.get(key)
    cached = path is not None
    if path is None:
        if missing := missing_sanitizer(compiler, kernel.sanitize):
            return replace(kernel, unchecked=missing)
        path = store.put(key, compile_program(store))
    if not os.access(path, os.X_OK):
        os.chmod(path, stat.S_IRWXU)
    return replace(kernel, path=path, sha256=Path(path).stem, cached=cached, seconds=time.perf_counter() - begin)


def with_lines(kernel: EmulatedKernel) -> str:
    """Path of the kernel's program with line numbers; compiled again if it lacks them."""
    if kernel.sanitize or not kernel.unit:
        return kernel.path
    compiler, store = find_compiler(), ArtifactCache(kernel.cache)
    key = kernel_key(kernel.unit, compiler, (), False, lines=True)
    return store.made_once(key, lambda: compile_unit(kernel.unit, compiler, (), False, store, lines=True))


def check_sanitizers(sanitize: Sequence[str]) -> tuple[str, ...]:
    """The requested sanitizers in a fixed order, each once. Raises ``UsageError``."""
    for name in sanitize:
        if name not in SANITIZERS:
            raise UsageError(f"unknown sanitizer {name!r}", f"Use some of {', '.join(SANITIZERS)}")
    if "thread" in sanitize and "address" in sanitize:
        raise UsageError("the address and the thread sanitizer exclude each other", "Run twice, once with each of them")
    return tuple(name for name in SANITIZERS if name in sanitize)


def translation_unit(source: str, symbols: Sequence[str]) -> str:
    """``source`` followed by the table of its kernels. Raises ``UsageError``."""
    for symbol in symbols:
        if not re.fullmatch(r"[A-Za-z_]\w*", symbol, re.ASCII):
            raise UsageError(f"{symbol!r} is not a kernel's name")
    if not symbols:
        raise UsageError("no kernel is named")
    calls = "\n".join(f"TW_EMU_CALL({s})" for s in symbols)
    clusters = {name: blocks for blocks, name in re.findall(r"TW_CLUSTER\((\d+)\) void (\w+)\(", source)}
    table = "\n".join(f"TW_EMU_ENTRY({s}, {clusters.get(s, 1)})" for s in symbols)
    return (
        f'{source}\n#line 1 "entries"\n#include "emu.h"\n{calls}\n'
        f"const emu::Entry emu::entries[] = {{\n{table}\n}};\nconst int emu::entry_count = {len(symbols)};\n"
    )


def sanitizer_flags(sanitize: Sequence[str]) -> tuple[str, ...]:
    """Flags for compiling kernels and for linking."""
    if not sanitize:
        return ()
    out = [f"-fsanitize={','.join(sanitize)}"]
    if "undefined" in sanitize:
        out += ["-fno-sanitize=vptr", "-fno-sanitize-recover=undefined"]
    return tuple(out)


def kernel_flags(sanitize: Sequence[str], lines: bool = False) -> tuple[str, ...]:
    """Flags for compiling kernels. ``lines``: add line numbers even without sanitizers."""
    return (*_COMMON, *_KERNEL, *(_LINES if lines or sanitize else ()), *sanitizer_flags(sanitize))


def _link_flags(compiler: Compiler, sanitize: Sequence[str], shared_library: bool) -> tuple[str, ...]:
    """Flags for linking, without the compiler driver's default libraries, which take longer than all other work."""
    if shared_library:
        return link_flags(compiler)
    return ("-pie",) if sanitize else ("-pie", "-nodefaultlibs", "-Wl,--as-needed", "-lm", "-lgcc", "-lc")


@lru_cache(maxsize=1)
def runtime_hash() -> str:
    """Hash of all source files of the runtime."""
    return digest([[p.name, sha256(p.read_bytes()).hexdigest()] for p in sorted(RUNTIME.rglob("*")) if p.is_file()])


def kernel_key(
    unit: str, compiler: Compiler, sanitize: Sequence[str], shared_library: bool, lines: bool = False
) -> str:
    """Cache key of a build: its arguments determine the program's bytes."""
    return digest(
        ["emulated", compiler.key, runtime_hash(), list(kernel_flags(sanitize, lines)),
         list(_link_flags(compiler, sanitize, shared_library)), sha256(unit.encode()).hexdigest()]
    )  # fmt: skip


def compile_unit(
    unit: str,
    compiler: Compiler,
    sanitize: Sequence[str],
    shared_library: bool,
    cache: ArtifactCache,
    deadline: float = DEADLINE,
    lines: bool = False,
) -> bytes:
    """Compile a translation unit and link it with the runtime; returns the program's or library's bytes."""
    runtime = runtime_object(compiler, sanitize, shared_library, cache)
    options = [*kernel_flags(sanitize, lines), f"-I{RUNTIME}"]
    command = [*compiler.command, *options, "-x", "c++", "-", "-x", "none", runtime]
    return compiled([*command, *_link_flags(compiler, sanitize, shared_library)], unit, deadline)


def runtime_object(compiler: Compiler, sanitize: Sequence[str], shared_library: bool, cache: ArtifactCache) -> str:
    """Path of the compiled runtime; built once and cached."""
    defines = [f"-DTW_EMU_{short}" for name, short in _DEFINES.items() if name in sanitize]
    options = [*_COMMON, *_RUNTIME, *(_GCC_RUNTIME if compiler.family == "gcc" else ()), *defines]
    unused = ("host.cpp", "crash.cpp") if shared_library else ("library.cpp",)
    key = digest(["emulator", runtime_hash(), compiler.key, options, shared_library])
    return cache.made_once(key, lambda: _runtime([*compiler.command, *options, f"-I{RUNTIME}"], unused))


def _runtime(command: Sequence[str], unused: Sequence[str]) -> bytes:
    # One translation unit, so that the C library's headers are parsed once.
    names = sorted(p.name for p in RUNTIME.glob("*.cpp") if p.name not in unused)
    unit = "".join(f'#include "{name}"\n' for name in names)
    return compiled([*command, "-c", "-x", "c++", "-"], unit, DEADLINE)


_DEFINES = {"address": "ASAN", "undefined": "UBSAN", "thread": "TSAN"}


@lru_cache(maxsize=16)
def missing_sanitizer(compiler: Compiler, sanitize: tuple[str, ...]) -> str:
    """Why this compiler cannot use these sanitizers; empty if it can."""
    if not sanitize:
        return ""
    try:
        compiled([*compiler.command, *sanitizer_flags(sanitize), "-x", "c++", "-"], "int main() {}", DEADLINE)
    except CompileTimeout:
        raise
    except CompileError as e:
        return f"{compiler.version.split()[0]} has no {' and '.join(sanitize)} sanitizer here ({e.message})"
    return ""

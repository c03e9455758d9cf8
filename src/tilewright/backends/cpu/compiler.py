"""Finds the system's C++ compiler, and runs it: from source text to the bytes of a shared library.

Source enters by standard input, and the output does not depend on the place or time of the compilation.
So equal inputs give equal bytes. Libraries need libc and libm only: libstdc++ and libgcc's shared
half are not linked, and an undefined symbol is an error of the build, not of the load.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.confine import MEMORY, confined, environment, one_line, scratch
from tilewright.backends.cpu.structures import SUPPORT
from tilewright.backends.cpu.targets import flags, host_arch
from tilewright.backends.toolchain import DEADLINE, CompileError, CompileTimeout, first_error
from tilewright.caching import cached_property
from tilewright.core import Target, TilewrightError, digest

_OUT_OF_TIME = "CPU time limit exceeded"
_OUT_OF_MEMORY = ("out of memory", "virtual memory exhausted", "bad_alloc", "annot allocate memory")

_NAMES = ("g++", "c++", "clang++")
_HINT = (
    "Install one: `apt install g++` (Debian, Ubuntu), `dnf install gcc-c++` (Fedora), "
    "`pacman -S gcc` (Arch), `xcode-select --install` (macOS), or set CXX to its path"
)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its path, its dialect (``gcc``, ``clang``, ``apple-clang``), its version.

    ``version`` identifies the compiler at any path, machine and release included; ``arguments``: words that
    $CXX has after the path (``ccache g++``).
    """

    path: str
    family: str
    version: str
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        return [self.path, *self.arguments]

    @cached_property
    def key(self) -> str:
        """Identity for cache keys: path-independent."""
        return digest([self.family, self.version, list(self.arguments)])


def find_compiler(arch: str | None = None) -> Compiler:
    """The C++ compiler: $CXX if set, else the first of g++, c++, clang++ on the path.

    For a foreign ``arch``, the GNU cross compiler of that name (``aarch64-linux-gnu-g++``). Raises
    ``TilewrightError`` that names the package to install.
    """
    if arch is not None and arch != host_arch():
        return _find_cross(arch)
    return _find(os.environ.get("CXX", "").strip(), os.environ.get("PATH", os.defpath))


def _find_cross(arch: str) -> Compiler:
    name = f"{arch}-linux-gnu-g++"
    path = shutil.which(name)
    if path is None:
        package = f"g++-{arch.replace('_', '-')}-linux-gnu"
        raise TilewrightError(f"no C++ compiler for {arch}: {name} is not on the path", f"apt install {package}")
    return _identify(path, ())


@lru_cache(maxsize=8)
def _find(cxx: str, search: str) -> Compiler:
    if cxx:
        try:
            words = shlex.split(cxx)
        except ValueError:
            words = [cxx]
        path = shutil.which(words[0], path=search)
        if path is None:
            raise TilewrightError(f"CXX names {words[0]!r}, which is not a program on the path", _HINT)
        return _identify(path, tuple(words[1:]))
    problem: TilewrightError | None = None
    for name in _NAMES:
        path = shutil.which(name, path=search)
        if path is None:
            continue
        try:
            return _identify(path, ())
        except TilewrightError as e:
            problem = problem or e
    raise problem or TilewrightError("no C++ compiler found", _HINT)


def _identify(path: str, arguments: tuple[str, ...]) -> Compiler:
    said = []
    for query in ("--version", "-dumpmachine"):
        try:
            done = subprocess.run(
                [path, *arguments, query], capture_output=True, text=True, timeout=20, check=False,
                stdin=subprocess.DEVNULL, env=environment(), errors="replace",
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as e:
            raise TilewrightError(f"the C++ compiler {path} does not run ({one_line(str(e))})", _HINT) from None
        if done.returncode != 0 or not done.stdout.strip():
            why = one_line(done.stderr) or f"it answered {query} with status {done.returncode}"
            raise TilewrightError(f"the C++ compiler {path} does not work: {why}", _HINT)
        said.append(done.stdout.strip())
    first = said[0].splitlines()[0]
    if "Apple" in first:
        family = "apple-clang"
    elif "clang" in first.lower():
        family = "clang"
    elif "gcc" in first.lower() or "g++" in first.lower() or "Free Software Foundation" in said[0]:
        family = "gcc"
        # The first word is the name of the call: c++ and g++ are one compiler.
        first = "gcc " + first.partition(" ")[2]
    else:
        raise TilewrightError(f"{path} is neither GCC nor Clang: it says {one_line(first)!r}", _HINT)
    return Compiler(path, family, f"{first} {said[1]}", arguments)


# --------------------------------------------------------------------------- running it


def compile_library(
    source: str,
    target: Target,
    compiler: Compiler,
    cache: ArtifactCache | None = None,
    deadline: float = DEADLINE,
) -> bytes:
    """Compile one C++ translation unit and link it with the support object.

    ``cache`` keeps the support object (default: the user's cache). The compiler is confined
    (``confine.py``): limits, a clean environment, and its end at ``deadline`` (seconds). Raises
    ``CompileError`` with the first diagnostic.
    """
    support = support_object(target, compiler, cache or ArtifactCache(), deadline)
    command = [*compiler.command, "-x", "c++", *flags(target, compiler.family), "-", "-x", "none", support]
    return compiled([*command, *link_flags(compiler)], source, deadline)


def link_flags(compiler: Compiler) -> tuple[str, ...]:
    """Linker flags for a shared library that needs libc and libm only."""
    if sys.platform == "darwin":
        return ("-shared", "-nostdlib++", "-Wl,-x", "-Wl,-undefined,error")
    linker = (
        "--build-id=none",
        "-z,defs",
        "-z,noexecstack",
        "-z,now",
        "--as-needed",
        "--hash-style=gnu",
        "-s",
    )
    # Without start files: a library without constructors needs none of their code.
    plugin = ("-fno-use-linker-plugin",) if compiler.family == "gcc" else ()
    return (
        "-shared", "-nostartfiles", "-nodefaultlibs", *plugin, *(f"-Wl,{x}" for x in linker),
        "-lm", "-lgcc", "-lc",
    )  # fmt: skip


def support_sources() -> tuple[Path, ...]:
    """The C and C++ files that make up the support object, sorted by name."""
    return tuple(sorted(p for p in SUPPORT.iterdir() if p.suffix in (".c", ".cpp")))


@lru_cache(maxsize=1)
def support_hash() -> str:
    """Hash of all files of the support object, headers included."""
    files = sorted(p for p in SUPPORT.iterdir() if p.suffix in (".c", ".cpp", ".h"))
    return digest([[p.name, sha256(p.read_bytes()).hexdigest()] for p in files])


def support_object(target: Target, compiler: Compiler, cache: ArtifactCache, deadline: float = DEADLINE) -> str:
    """Path of the compiled support object for a target and compiler; built once and cached."""
    options = support_flags(target, compiler)
    key = digest(["support", support_hash(), compiler.key, list(options)])
    return cache.made_once(key, lambda: _support(options, compiler, deadline))


def _support(options: tuple[str, ...], compiler: Compiler, deadline: float) -> bytes:
    with scratch() as folder:
        objects = []
        for source in support_sources():
            objects.append(os.path.join(folder, source.stem + ".o"))
            command = [*compiler.command, *options, "-c", "-x", _LANGUAGE[source.suffix], "-"]
            language = "-std=c++17" if source.suffix == ".cpp" else "-std=gnu11"
            run_compiler([*command, language, f"-I{SUPPORT}", "-o", objects[-1]], source.read_text(), deadline)
        merged = os.path.join(folder, "support.o")
        run_compiler([*compiler.command, "-r", "-nostdlib", *objects, "-o", merged], "", deadline)
        return Path(merged).read_bytes()


_LANGUAGE = {".c": "c", ".cpp": "c++"}


def support_flags(target: Target, compiler: Compiler) -> tuple[str, ...]:
    """A target's flags without those for C++ alone."""
    only_cxx = ("-std=c++17", "-fno-rtti", "-fno-threadsafe-statics")
    return tuple(f for f in flags(target, compiler.family) if f not in only_cxx)


def compiled(command: Sequence[str], source: str, deadline: float) -> bytes:
    """The output file of a compiler for a text, run by :func:`run_compiler`."""
    with scratch() as folder:
        out = os.path.join(folder, "out")
        run_compiler([*command, "-o", out], source, deadline)
        return Path(out).read_bytes()


def run_compiler(command: Sequence[str], source: str, deadline: float) -> None:
    """Run a confined compiler on a text within ``deadline`` seconds. Raises ``CompileError`` with its messages."""
    ran = confined(command, source, deadline)
    if ran.timed_out or _OUT_OF_TIME in ran.said:
        raise CompileTimeout(f"the compiler took more than {deadline:g} s and was stopped", ran.said)
    if not ran.started:
        raise TilewrightError(f"the C++ compiler does not start: {one_line(ran.said)}", _HINT)
    if ran.status != 0:
        if "No space left on device" in ran.said:
            raise TilewrightError("the disk is full: the compiler cannot write", "Free some space, or set TMPDIR")
        if any(words in ran.said for words in _OUT_OF_MEMORY):
            raise CompileError(f"the compiler needs more than {MEMORY >> 30} GiB of memory", ran.said)
        raise CompileError(first_error(ran.said, ran.status), ran.said)

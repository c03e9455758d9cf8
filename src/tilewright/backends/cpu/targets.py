"""CPU targets: instruction sets that code is generated for, and the compiler flags for them.

A target never means "all features of this machine": its features are listed explicitly. So a library
built on one machine of a mixed fleet runs, or is refused, on another.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tilewright.core import Target, TargetUnavailable, UsageError
from tilewright.paths import text_of

CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Variant:
    """One instruction set: the features whose flags are used, and its vector unit."""

    arch: str | None  # None: every architecture
    isa: tuple[str, ...]
    vector_bytes: int
    registers: int


_AVX512 = ("avx2", "avx512bw", "avx512dq", "avx512f", "avx512vl", "f16c", "fma")

VARIANTS = {
    # Instructions of Cooper Lake, Sapphire Rapids and Zen 4 for products of bfloat16 and of 8-bit numbers.
    "avx512bf16": Variant("x86_64", (*_AVX512, "avx512bf16", "avx512vnni"), 64, 32),
    "avx512": Variant("x86_64", _AVX512, 64, 32),
    "avx2": Variant("x86_64", ("avx2", "f16c", "fma"), 32, 16),
    "neon": Variant("aarch64", ("neon",), 16, 32),
    "portable": Variant(None, (), 16, 16),
}
"""Best first: detection takes the first variant that runs here."""

_BASELINE = {"x86_64": ("sse2",), "aarch64": ("neon",)}


@lru_cache(maxsize=1)
def host_arch() -> str:
    """This machine's architecture in one spelling: ``x86_64``, ``aarch64``, or the system's own name."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@lru_cache(maxsize=1)
def host_isa() -> frozenset[str]:
    """Instruction set features of this machine (``avx2``, ``neon``, ...), as its system reports them."""
    arch = host_arch()
    found = set(_BASELINE.get(arch, ()))
    if sys.platform == "darwin":
        found |= _darwin_features()
    else:
        found |= parse_cpuinfo(text_of(Path("/proc/cpuinfo")))
    return frozenset(found)


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Features that all processors of a ``/proc/cpuinfo`` text have, in the spelling of ``-m`` flags."""
    lines = [m.group(1).split() for m in re.finditer(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)]
    if not lines:
        return frozenset()
    # Cores may differ: a feature counts only if all cores have it.
    common = set(lines[0]).intersection(*lines[1:])
    return frozenset("neon" if f == "asimd" else f.replace("avx512_", "avx512") for f in common)


def _darwin_features() -> set[str]:
    names = sysctl("machdep.cpu.features") + " " + sysctl("machdep.cpu.leaf7_features")
    return {n.lower().replace(".", "_").replace("avx512_", "avx512") for n in names.split()}


def sysctl(name: str) -> str:
    try:
        done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


@lru_cache(maxsize=1)
def cache_sizes() -> tuple[int, int, int]:
    """Bytes of this machine's data caches: L1 and L2 of the first core, and the last level.

    A level that the system does not report gets a typical size.
    """
    default = (32 << 10, 1 << 20, 16 << 20)
    if sys.platform == "darwin":
        names = ("hw.perflevel0.l1dcachesize", "hw.perflevel0.l2cachesize", "hw.l3cachesize")
        sizes = [int(text) if (text := sysctl(n)).isdigit() else 0 for n in names]
        return (sizes[0] or default[0], sizes[1] or default[1], sizes[2] or sizes[1] or default[2])
    return read_caches(CPU / "cpu0" / "cache") or default


def read_caches(folder: Path) -> tuple[int, int, int] | None:
    """Data cache sizes under a ``cache`` folder of sysfs; ``None`` if it reports no L1.

    On machines with two levels the second also counts as the last level.
    """
    levels: dict[int, int] = {}
    for index in sorted(folder.glob("index[0-9]*")):
        level, kind, size = (text_of(index / name).strip() for name in ("level", "type", "size"))
        match = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind == "Instruction" or not level.isdigit() or match is None:
            continue
        levels[int(level)] = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
    if not levels.get(1):
        return None
    l2 = levels.get(2) or levels.get(3) or 1 << 20
    return levels[1], l2, levels.get(3) or l2


def _make(variant: str, threads: int) -> Target:
    v = VARIANTS[variant]
    arch = v.arch or host_arch()
    l1, l2, l3 = cache_sizes()
    isa, registers = v.isa, v.registers
    if v.arch is None:
        isa = _BASELINE.get(arch, ())
        registers = 32 if arch == "aarch64" else v.registers
    return Target(
        kind="cpu", variant=variant, arch=arch, isa=tuple(sorted(isa)), vector_bytes=v.vector_bytes,
        registers=registers, threads=threads, l1_bytes=l1, l2_bytes=l2, l3_bytes=l3,
    )  # fmt: skip


def runs_here(target: Target) -> bool:
    """Whether code for ``target`` runs on this machine."""
    return target.kind == "cpu" and target.arch == host_arch() and set(target.isa) <= host_isa()


def available(threads: int = 1) -> tuple[Target, ...]:
    """The targets that run on this machine, best first."""
    return tuple(t for t in (_make(v, threads) for v in VARIANTS) if runs_here(t))


def detect(threads: int = 1) -> Target:
    """The best target of this machine."""
    return available(threads)[0]


def parse_target(text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
    """The target that ``auto``, ``cpu`` or ``cpu:VARIANT`` names.

    Raises ``UsageError`` for an unknown name, and ``TargetUnavailable`` for a known one that does
    not run on this machine unless ``allow_foreign``.
    """
    if isinstance(threads, bool) or threads < 1:
        raise UsageError(f"{threads} threads are not possible", "Write 1 or more")
    if text in ("auto", "cpu"):
        return detect(threads)
    kind, _, variant = text.partition(":")
    known = ["auto", "cpu", *(f"cpu:{v}" for v in VARIANTS)]
    if kind != "cpu" or variant not in VARIANTS:
        raise UsageError(f"unknown target {text!r}", f"Use one of {', '.join(known)}")
    target = _make(variant, threads)
    if not allow_foreign and not runs_here(target):
        raise TargetUnavailable(
            f"target {text} does not run on this machine: {_lacks(target)}",
            f"Use {' or '.join(t.name for t in available())}, or auto",
        )
    return target


def _lacks(target: Target) -> str:
    if target.arch != host_arch():
        return f"it is {host_arch()}, not {target.arch}"
    return f"it lacks {', '.join(missing(target.isa))}"


def missing(isa: Iterable[str]) -> list[str]:
    """Features among ``isa`` that this machine lacks, sorted."""
    return sorted(set(isa) - host_isa())


def flags(target: Target, family: str) -> tuple[str, ...]:
    """Flags of a compiler family for ``target``: explicit instruction set, optimisation, and the language.

    No flag depends on the compiling machine. The only relaxation of floating point is the contraction to
    fused multiply-adds.
    """
    out = ["-std=c++17", "-O2", "-fPIC", *COMMON_FLAGS]
    if target.arch == "x86_64":
        # Name the baseline too: distributions configure compilers with higher ones.
        out += ["-march=x86-64", "-mtune=generic"]
        out += [f"-m{feature}" for feature in target.isa]
        if target.vector_bytes == VARIANTS["avx512"].vector_bytes:
            out.append("-mprefer-vector-width=512")
    elif target.arch == "aarch64":
        out.append("-march=armv8-a")
    if family == "gcc":
        # Vector arguments wider than the baseline are internal, so the note about their ABI is useless.
        out.append("-Wno-psabi")
    return tuple(out)


COMMON_FLAGS = (
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-fno-threadsafe-statics",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-ffp-contract=fast",
    # Alignment makes a kernel run equally fast alone and beside other kernels in one library.
    "-falign-functions=64",
)

"""Compiles CUDA C++ into cubins, through a cache that also stores each kernel's resources.

It includes the static gate, which refuses kernels that cannot run, or cannot be fast, without a GPU: by the cubin and
the assembler's log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import cubin, ptxas
from tilewright.backends.cuda.nvrtc import Nvrtc, find_nvrtc
from tilewright.backends.limits import Refusal
from tilewright.backends.toolchain import DEADLINE, Compiled, CompileError, Rejected
from tilewright.core import Pairs, Target, UsageError, Value, digest

_FORMAT = 1  # of the note stored with a cubin in the cache
_WARP = 32
_GRAIN = 8  # registers per thread are allocated in multiples of this

FLAGS = (
    "-std=c++17",
    "--ptxas-options=-v",  # costs nothing; its log is the only source of spills
    "--diag-suppress=177",  # unused functions: a prelude has more functions than one kernel needs
)


def flags(target: Target) -> tuple[str, ...]:
    """NVRTC's options for a target. None relaxes floating point; fused multiply-adds are allowed, as by default."""
    return (f"--gpu-architecture={target.variant}", *FLAGS)


class NvrtcToolchain:
    """Compiles for one target with NVRTC. Safe to call from several threads, which compile at the same time.

    Raises ``NoNvrtc`` without an NVRTC that supports the architecture.
    """

    emulated = False
    batch = 1  # kernels per unit: four together save 14% of the time, but a refused kernel rejects the whole unit

    def __init__(self, target: Target, cache: ArtifactCache | None = None, nvrtc: Nvrtc | None = None) -> None:
        if target.kind != "cuda":
            raise UsageError(f"NVRTC does not compile for {target.name}", "Use a target of kind cuda")
        self.target = target
        self.cache = cache or ArtifactCache()
        self.nvrtc = nvrtc or find_nvrtc(target.variant)
        self.version = self.nvrtc.name
        self.flags = flags(target)

    def key(self, unit: str) -> str:
        """Cache key of a cubin: source, options and compiler determine its bytes."""
        return digest(["cubin", self.nvrtc.key, list(self.flags), sha256(unit.encode()).hexdigest()])

    def compile(self, unit: str, symbols: Sequence[str] = (), deadline: float = DEADLINE) -> Compiled:
        """Compile a unit within ``deadline`` seconds, then check its kernels (all, or those named) at the static gate.

        Raises ``CompileError``, and ``Rejected`` by the gate. The cache makes a repetition free.
        """
        key = self.key(unit)
        compiled, warnings = self._cached(key) or self._compile(unit, key, deadline)
        for symbol in symbols or compiled.resources:
            own = compiled.resources.get(symbol)
            if own is None:
                raise CompileError(
                    f"the source has no kernel {symbol}: {', '.join(compiled.resources) or 'none'} in it"
                )
            refused = refusal(dict(own), warnings, self.target, symbol)
            if refused is not None:
                raise Rejected(refused, refused.reason)
        return compiled

    def _compile(self, unit: str, key: str, deadline: float) -> tuple[Compiled, tuple[ptxas.Warning, ...]]:
        data, log = self.nvrtc.compile(unit, self.flags, deadline)
        report = ptxas.parse_log(log)
        resources = resources_of(data, report)
        path = self.cache.put(key, data)
        note = {
            "format": _FORMAT,
            "resources": {k: dict(v) for k, v in resources.items()},
            "warnings": [[w.code, w.text, w.function] for w in report.warnings],
        }
        self.cache.put(_note_key(key), json.dumps(note).encode())
        return Compiled(path, Path(path).stem, False, resources), report.warnings

    def _cached(self, key: str) -> tuple[Compiled, tuple[ptxas.Warning, ...]] | None:
        path, note_path = self.cache.get(key), self.cache.get(_note_key(key))
        if path is None or note_path is None:
            return None
        try:
            note: dict[str, Any] = json.loads(Path(note_path).read_bytes())
            if note["format"] != _FORMAT:
                return None
            resources = {k: tuple(v.items()) for k, v in note["resources"].items()}
            warnings = tuple(ptxas.Warning(*w) for w in note["warnings"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return Compiled(path, Path(path).stem, True, resources), warnings


def resources_of(data: bytes, report: ptxas.Report) -> dict[str, Pairs]:
    """Static resources of each kernel from a cubin and its log; they become features of the cost model.

    ``registers``, ``spill_bytes`` (stored and loaded), ``stack_bytes`` per thread; static ``shared_bytes`` per block;
    ``constant_bytes``, ``code_bytes``; ``max_threads`` per block (0: unbounded).
    """
    out: dict[str, Pairs] = {}
    for name, info in cubin.parse(data).kernels.items():
        said = report.kernels.get(name, ptxas.Usage())
        out[name] = (
            ("registers", info.registers),
            ("spill_bytes", said.spill_stores + said.spill_loads),
            ("stack_bytes", info.stack_bytes),
            ("shared_bytes", info.shared_bytes),
            ("constant_bytes", info.constant_bytes),
            ("code_bytes", info.code_bytes),
            ("max_threads", info.max_threads),
        )
    return out


def refusal(
    resources: Mapping[str, Value], warnings: tuple[ptxas.Warning, ...], target: Target, symbol: str
) -> Refusal | None:
    """Why a kernel is refused, or ``None``: by its resources (:func:`resources_of`) and the log's warnings."""
    limit = target.limit
    registers, threads = int(resources["registers"]), int(resources["max_threads"])
    spills = int(resources["spill_bytes"])
    if spills:
        return Refusal("spills", f"registers run out: {spills} bytes a thread are spilled to memory")
    most = int(limit["registers_per_sm"])
    taken = -(-threads // _WARP) * _WARP * (-(-registers // _GRAIN) * _GRAIN)
    if taken > most:
        return Refusal(
            "registers", f"{threads} threads of {registers} registers take {taken}, {target.name} has {most}"
        )
    total = int(resources["shared_bytes"])
    room = int(limit["shared_per_block"])
    if total > room:
        return Refusal("shared memory", f"{total} bytes of shared memory a block, {target.name} has {room}")
    for w in warnings:
        if w.serial and w.function in ("", symbol):
            return Refusal("assembler warning", f"the assembler warns ({w.code}): {w.text}")
    return None


def _note_key(key: str) -> str:
    return digest(["cubin note", key])

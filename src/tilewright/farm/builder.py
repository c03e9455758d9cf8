"""A builder: compiles what clients print, for targets whose compiler this machine has. It needs no device.

It takes source and target, never flags or paths: its own prelude goes in front, its own compiler's flags follow
from the target, and sources that would read files or steer the compiler are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cpu.compiler import DEADLINE, CompileError, find_compiler
from tilewright.core import Target, TilewrightError, UsageError, digest
from tilewright.farm.connect import Door
from tilewright.farm.protocol import LIMIT
from tilewright.farm.service import Reply, Say, Service, error_of
from tilewright.farm.sources import check_source
from tilewright.kernels.codegen.prelude import prelude
from tilewright.measure.toolchain import Toolchain, toolchain_for

ARCHS = ("x86_64", "aarch64")
NVRTC = "nvrtc"
LARGEST = LIMIT - (1 << 20)  # bytes of compiled code: it travels in one message


def place_name(kind: str, arch: str, compiler: str, emulated: bool = False) -> str:
    """The queue of builders that give the same code: ``build:cpu:x86_64:1a2b3c4d``, by their compiler's version."""
    what = "emulator" if emulated else kind
    return f"build:{what}:{arch}:{digest([compiler])[:8]}"


def offers() -> dict[str, str]:
    """What this machine compiles: the compiler's version by queue."""
    found = {}
    for arch in ARCHS:
        try:
            version = find_compiler(arch).version
        except TilewrightError:
            continue
        found[place_name("cpu", arch, version)] = version
        if arch == _host():
            found[place_name("cuda", "cuda", version, emulated=True)] = version
    cuda = _nvrtc_version()
    if cuda:
        found[place_name("cuda", "cuda", cuda)] = cuda
    return found


def _host() -> str:
    import platform

    return platform.machine()


def _nvrtc_version() -> str:
    from tilewright.backends.cuda.nvrtc import find_nvrtc

    try:
        return find_nvrtc().name
    except (TilewrightError, OSError):
        return ""


class Builder(Service):
    """Compiles up to ``lanes`` units at once."""

    role = "builder"

    def __init__(
        self, door: Door, name: str, cache: ArtifactCache, lanes: int = 1, say: Say = lambda _line: None,
        toolchain: Callable[[Target, ArtifactCache, bool], Toolchain] = toolchain_for,
    ) -> None:  # fmt: skip
        self.lanes = lanes
        super().__init__(door, name, cache, say)
        self._offers = offers()
        if not self._offers:
            raise UsageError(
                "this machine has no compiler to build with", "Install g++, or a package that brings NVRTC"
            )
        self._toolchain = toolchain
        self._toolchains: dict[str, Toolchain] = {}

    def greeting(self) -> dict[str, Any]:
        return {"places": sorted(self._offers), "offers": self._offers}

    def execute(self, payload: Mapping[str, Any], paths: Mapping[str, str]) -> Reply:
        target = known_target(Target.from_json(payload["target"]))
        emulated = bool(payload["emulated"])
        source, symbols = str(payload["source"]), [str(s) for s in payload["symbols"]]
        try:
            check_source(source, symbols, "cuda" if target.kind == "cuda" else "cpu")
            toolchain = self._for(target, emulated)
            front = prelude(target, emulated=True) if emulated else prelude(target)
            deadline = min(DEADLINE, float(payload["deadline"]))
            done = toolchain.compile(f"{front}\n{source}", symbols, deadline)
        except TilewrightError as e:
            reason = getattr(e, "reason", None)
            kind = "compile" if isinstance(e, CompileError) or e.kind == "compile" else e.kind
            said = {"error": {**error_of(e), "kind": kind, "reason": None if reason is None else str(reason)}}
            host = type(e) is TilewrightError  # no disk space, a compiler that does not start: not the source's fault
            return Reply(said, strike=e.message if host else "", again=host)
        data = Path(done.path).read_bytes()
        if len(data) > LARGEST:
            message = f"the compiled code has {len(data)} bytes, over the limit of {LARGEST}"
            return Reply({"error": {"kind": "compile", "message": message, "mend": "", "reason": None}})
        result = {
            "sha256": done.sha256, "cached": done.cached, "compiler": toolchain.version,
            "flags": list(toolchain.flags), "resources": {s: dict(pairs) for s, pairs in done.resources.items()},
        }  # fmt: skip
        return Reply(result, (data,))

    def _for(self, target: Target, emulated: bool) -> Toolchain:
        key = digest([target.key, emulated])
        if key not in self._toolchains:
            self._toolchains[key] = self._toolchain(target, self.cache, emulated)
        return self._toolchains[key]


def known_target(asked: Target) -> Target:
    """This installation's own target of that name: compiler flags follow from it, never from a message.

    Raises ``UsageError`` for a target that is not known here.
    """
    from tilewright.backends import parse_target

    own = parse_target(asked.name, asked.threads, allow_foreign=True)
    if own.key != asked.key:
        raise UsageError(f"{asked.name[:80]} means something else here", "Install the same Tilewright on both")
    return own


def default_lanes() -> int:
    """One compiler a core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

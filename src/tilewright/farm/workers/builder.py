"""A builder: compiles clients' sources for targets whose compiler this machine has. It needs no device.

It takes a source and a target, never flags or paths. It puts its own prelude in front of the source, and uses its own
compiler's flags.
from the target, and sources that would read files or steer the compiler are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilewright.backends import BACKENDS, backend_for, get_backend, parse_target
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cores import affinity
from tilewright.backends.toolchain import DEADLINE, CompileError, Toolchain
from tilewright.core import Target, TilewrightError, UsageError, digest
from tilewright.farm.budgets import MESSAGE
from tilewright.farm.link import Endpoint, Say
from tilewright.farm.workers.service import Service
from tilewright.farm.workers.work import Reply
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.codegen.sources import check_source

KEPT = 64  # targets whose toolchain is cached; each number of threads is a target of its own


def offers() -> dict[str, str]:
    """Places that this machine can serve as a builder, and their compiler's version.

    A place's name has a hash of the compiler's version, as ``build:cpu:x86_64:1a2b3c4d``, so that all builders of a
    place generate equal code.
    """
    return {
        f"build:{name}:{arch}:{digest([version])[:8]}": version
        for name in BACKENDS
        for arch, version in get_backend(name).compilers().items()
    }


def local_toolchain(target: Target, cache: ArtifactCache, emulated: bool) -> Toolchain:
    """This machine's own compiler for a target. Raises like :meth:`~tilewright.backends.Backend.toolchain`."""
    return backend_for(target, emulated).toolchain(target, cache)


class Builder(Service):
    """Compiles up to ``lanes`` units at once."""

    role = "builder"

    def __init__(
        self, endpoint: Endpoint, name: str, cache: ArtifactCache, lanes: int = 1, say: Say = lambda _line: None,
        toolchain: Callable[[Target, ArtifactCache, bool], Toolchain] = local_toolchain,
    ) -> None:  # fmt: skip
        self.lanes = lanes
        super().__init__(endpoint, name, cache, say)
        self._offers = offers()
        if not self._offers:
            raise UsageError("this machine has no compiler", "Install g++, or a package that brings NVRTC")
        self._toolchain = functools.lru_cache(KEPT)(lambda target, emulated: toolchain(target, cache, emulated))

    def greeting(self) -> dict[str, Any]:
        return {"places": sorted(self._offers), "offers": self._offers}

    def execute(self, payload: Mapping[str, Any], paths: Mapping[str, str]) -> Reply:
        target = known_target(Target.from_json(payload["target"]))
        emulated = bool(payload["emulated"])
        source, symbols = str(payload["source"]), [str(s) for s in payload["symbols"]]
        try:
            check_source(source, symbols, target.kind)
            toolchain = self._toolchain(target, emulated)
            deadline = min(DEADLINE, float(payload["deadline"]))
            done = toolchain.compile(f"{prelude(target, emulated)}\n{source}", symbols, deadline)
            data = Path(done.path).read_bytes()
            if len(data) > MESSAGE.most:  # the code travels in one message
                raise CompileError(f"the compiled code has {len(data)} bytes, over the limit of {MESSAGE.most}")
        except TilewrightError as e:
            said = {"error": {**e.to_json(), "reason": str(getattr(e, "reason", ""))}}
            host = type(e) is TilewrightError  # the host's fault, not the source's: a full disk, a broken compiler
            return Reply(said, strike=e.message if host else "", again=host)
        result = {
            "sha256": done.sha256, "cached": done.cached, "compiler": toolchain.version,
            "flags": list(toolchain.flags), "resources": {s: dict(pairs) for s, pairs in done.resources.items()},
        }  # fmt: skip
        return Reply(result, (data,))


def known_target(asked: Target) -> Target:
    """This installation's own target of a name: compiler flags follow from it, never from a message.

    Raises ``UsageError`` for a target that is unknown or different here.
    """
    own = parse_target(asked.name, asked.threads, allow_foreign=True)
    if own.key != asked.key:
        raise UsageError(
            f"{asked.name[:80]} means something else here", "Install the same version of Tilewright on both machines"
        )
    return own


def default_lanes() -> int:
    """Number of units to compile at once: one for each core that this process may use."""
    return len(affinity())

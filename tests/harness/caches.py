"""Caches of a test's own that hold what every kernel is linked with, as the session's does: compiling it takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import find_compiler, support_object
from tilewright.backends.emulator.build import runtime_object
from tilewright.core import Target


class _Giving(ArtifactCache):
    """The session's cache, which gives another one what is made once."""

    def __init__(self, to: ArtifactCache) -> None:
        super().__init__()
        self.to = to

    def made_once(self, key: str, make: Callable[[], bytes]) -> str:
        path = super().made_once(key, make)
        self.to.put(key, Path(path).read_bytes())
        return path


def with_support(folder: Path, target: Target) -> ArtifactCache:
    """A cache that holds a target's support object and nothing else."""
    cache = ArtifactCache(folder)
    support_object(target, find_compiler(), _Giving(cache))
    return cache


def with_runtime(folder: Path, shared_library: bool, sanitize: Sequence[str] = ()) -> ArtifactCache:
    """A cache that holds the emulator's runtime, of programs or of libraries, and nothing else."""
    cache = ArtifactCache(folder)
    runtime_object(find_compiler(), sanitize, shared_library, _Giving(cache))
    return cache

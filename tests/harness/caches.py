"""A test's own artifact caches, filled with the objects that every kernel links, whose compilation takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import find_compiler, support_object
from tilewright.backends.emulator.build import runtime_object
from tilewright.core import Target


class _Giving(ArtifactCache):
    """The session's cache, which also puts each object that is made once into the cache ``to``."""

    def __init__(self, to: ArtifactCache) -> None:
        super().__init__()
        self.to = to

    def made_once(self, key: str, make: Callable[[], bytes]) -> str:
        path = super().made_once(key, make)
        self.to.put(key, Path(path).read_bytes())
        return path


def with_support(folder: Path, target: Target) -> ArtifactCache:
    """Returns a cache that holds only a target's support object."""
    cache = ArtifactCache(folder)
    support_object(target, find_compiler(), _Giving(cache))
    return cache


def with_runtime(folder: Path, shared_library: bool, sanitize: Sequence[str] = ()) -> ArtifactCache:
    """Returns a cache that holds only the emulator's runtime: the shared library's, or the program's."""
    cache = ArtifactCache(folder)
    runtime_object(find_compiler(), sanitize, shared_library, _Giving(cache))
    return cache

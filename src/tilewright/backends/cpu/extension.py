"""Extensions: a C++ file of this package compiled against another package's headers, cached by compiler and by the
other package's version.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import Compiler, compiled, find_compiler, support_hash
from tilewright.backends.cpu.structures import SUPPORT
from tilewright.backends.toolchain import CompileError, CompileTimeout
from tilewright.core import digest

_DEADLINE = 300.0  # seconds: PyTorch's headers take ten seconds on an idle machine


@dataclass(frozen=True)
class Extension:
    """``source``, and the ``headers`` beside it, with the flags and libraries that the other package needs.

    ``version``: identifies that package's build; ``log``: receives the compiler's errors.
    """

    source: Path
    version: Sequence[str]
    flags: Sequence[str]
    libraries: Sequence[str]
    log: logging.Logger
    headers: Sequence[str] = ()

    def path(self) -> str | None:
        """Path of the library, compiled if needed; ``None`` if the headers do not compile.

        Raises ``TilewrightError`` without a compiler or a cache.
        """
        path = self.cached(self._compiled)
        return path if os.path.getsize(path) else None  # an empty file records a failed compilation

    def cached(self, make: Callable[[Compiler, Sequence[str]], bytes]) -> str:
        """Path of the library in the cache; ``make`` makes it from a compiler and its command if it is missing."""
        compiler = find_compiler()
        beside = [f"-I{self.source.parent}"] if self.headers else []
        flags = [
            "-std=c++20", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", *self.flags, f"-I{SUPPORT}", *beside,
        ]  # fmt: skip
        texts = [sha256(p.read_bytes()).hexdigest() for p in (self.source, *map(self.source.with_name, self.headers))]
        command = [*compiler.command, "-x", "c++", *flags, "-"]
        key = digest([compiler.key, *self.version, support_hash(), flags, *texts])
        path, _ = ArtifactCache().made(key, lambda: make(compiler, command))
        return path

    def _compiled(self, compiler: Compiler, command: Sequence[str]) -> bytes:
        """The library's bytes; empty if the headers do not compile."""
        try:
            return compiled([*command, *self.libraries], self.source.read_text(), _DEADLINE)
        except CompileTimeout:
            raise
        except CompileError as e:
            self.log.warning("calls go through Python, which is slower: %s", e)
            return b""

"""Runs NVRTC in a worker process, which a source may crash."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.compiler_worker import serve
from tilewright.backends.cuda.nvrtc import opened


def compiled(source: str, arguments: Sequence[str]) -> tuple[bytes, str]:
    """Cubin and log of a source. ``arguments``: the library's path, then its options."""
    return opened(arguments[0]).compile_here(source, arguments[1:])


if __name__ == "__main__":
    serve(compiled)

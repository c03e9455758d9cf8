"""The prelude of CUDA kernels, for NVRTC or for the emulator. Kernels see equal functions in both."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from tilewright.kernels.primitives import PRIMITIVES


@lru_cache(maxsize=32)
def prelude(cc: int, emulated: bool) -> str:
    """C++17 text of all primitives that compute capability ``cc`` (80 for 8.0) supports.

    The NVRTC text needs no header and no include folder. The emulated text starts with ``#include "emu.h"``, the
    emulator's runtime.
    """
    folder = files(__package__) / "headers" / "cuda"
    first = "emulator" if emulated else "cuda"
    texts = [(folder / f"{name}.h").read_text(encoding="utf-8") for name in (first, "common")]
    texts.append("namespace tw {\n")
    texts += [p.emulated if emulated else p.ptx for p in PRIMITIVES if p.known_to(cc)]
    texts.append("}  // namespace tw\n")
    lines = "".join(texts).splitlines(keepends=True)
    # The compiler does not need the comments and blank lines, which explain a primitive to readers.
    return "".join(line for line in lines if line.strip() and not line.lstrip().startswith("//"))

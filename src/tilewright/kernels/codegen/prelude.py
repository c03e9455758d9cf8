"""The text at the top of every translation unit: types, memory access and math for a target."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tilewright.core import Target
from tilewright.kernels.codegen.sources import GPUS

# Printed in this order: tanh and erf depend on exp. All code is a template or inlined, so functions that a kernel does
# not use cost only parsing (2 ms for all of it).
_HEADERS = (
    "base",
    "vector",
    "half",
    "fp8",
    "interleave",
    "sqrt",
    "floor",
    "division",
    "exp",
    "log",
    "tanh",
    "erf",
    "trig",
    "pow",
    "tf32",
)
_END = "\n}  // namespace tw\n"
"""The last line of every prelude."""


def prelude(target: Target, emulated: bool = False) -> str:
    """The C++17 prelude of kernel sources for ``target``.

    On a CPU it fixes the vector width (``target.vector_bytes``); the compiler's own feature macros choose between
    masked instructions and portable code. For CUDA it holds the architecture's primitives, for NVRTC or (``emulated``)
    as C++ for the emulator.
    """
    if target.kind in GPUS and "cc" not in target.limit:
        return ""  # its toolchain translates the source and adds a prelude itself
    if target.kind in GPUS:
        from tilewright.kernels.codegen import cuda_prelude as cuda

        return cuda.prelude(int(target.limit["cc"]), emulated)
    return _prelude(target.vector_bytes)


def without_prelude(source: str, target: Target) -> str:
    """A translation unit without its prelude; the unit may come from an earlier version with another prelude."""
    head = prelude(target)
    return source[len(head) :] if source.startswith(head) else source.rpartition(_END)[2]


@lru_cache(maxsize=8)
def _prelude(vector_bytes: int) -> str:
    folder = Path(__file__).with_name("headers")
    texts = [(folder / f"{name}.h").read_text(encoding="utf-8") for name in _HEADERS]
    lines = "".join(texts).splitlines(keepends=True)
    # The compiler does not need the whole-line comments, which explain a header to readers.
    code = "".join(line for line in lines if not line.lstrip().startswith("//"))
    return f"#define TW_VECTOR_BYTES {vector_bytes}\n{code}"

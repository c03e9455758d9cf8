"""The text at the top of every translation unit: types, memory access and math for a target."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tilewright.core import Target
from tilewright.kernels.codegen.sources import GPUS

# In the order in which they are printed: tanh and erf stand on exp. Everything is a template or
# inlined, so what a kernel does not use costs parsing only (2 ms for all of it).
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
    """C++17 text that kernel sources for ``target`` stand on.

    On a CPU it fixes the vector width (``target.vector_bytes``); the compiler's own feature macros
    choose between masked instructions and portable code. For CUDA it holds the primitives that the
    architecture has, for NVRTC or (``emulated``) by their meaning for the emulator.
    """
    if target.kind in GPUS and "cc" not in target.limit:
        return ""  # its toolchain translates, and brings its own
    if target.kind in GPUS:
        from tilewright.kernels.codegen import cuda_prelude as cuda

        return cuda.prelude(int(target.limit["cc"]), emulated)
    return _prelude(target.vector_bytes)


def without_prelude(source: str, target: Target) -> str:
    """The kernel's own part of a translation unit, which may be of an earlier version with another prelude."""
    head = prelude(target)
    return source[len(head) :] if source.startswith(head) else source.rpartition(_END)[2]


@lru_cache(maxsize=8)
def _prelude(vector_bytes: int) -> str:
    folder = Path(__file__).with_name("headers")
    texts = [(folder / f"{name}.h").read_text(encoding="utf-8") for name in _HEADERS]
    lines = "".join(texts).splitlines(keepends=True)
    # Whole-line comments help the reader of a header, not the compiler.
    code = "".join(line for line in lines if not line.lstrip().startswith("//"))
    return f"#define TW_VECTOR_BYTES {vector_bytes}\n{code}"

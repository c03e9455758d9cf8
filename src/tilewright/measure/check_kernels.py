"""CUDA kernels of the measuring child that check results on the device.

No kernel says which mistake it found: each sets a word to 1 for a possible mistake, and the verifier then checks on the
host.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.backends import Backend
from tilewright.backends.driver import Context
from tilewright.backends.toolchain import DEADLINE
from tilewright.core import TilewrightError
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.numerics import decode

THREADS = 128
EACH = 32  # elements per thread, if the result is large enough
MOST_BLOCKS = 2048
PARTS = 256  # largest number of partial sums of a checksum: one per block
SHARED = 3 * 8 * THREADS  # bytes of shared memory per block of a projection

_FORMATS = ("u8", "u16", "f32", "f64", "i32", "i64")
"""Element formats of outputs: suffixes of the kernels' names."""

SYMBOLS = (
    *(f"tw_{what}_{name}" for name in _FORMATS for what in ("check", "project")),
    "tw_check_filled", "tw_check_same", "tw_checksum",
)  # fmt: skip


def source() -> str:
    """Return the translation unit without a prelude."""
    text = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
    return f'#define TW_THREADS {THREADS}\n#line 1 "checks"\n{text}'


def format_of(dtype: str) -> tuple[str, np.dtype[np.generic]]:
    """Format name of a dtype, and the NumPy dtype of its bounds."""
    small = {1: "u8", 2: "u16"}.get(ITEMSIZE[dtype])
    if small is not None:
        return small, np.dtype(np.float32)
    return f"{dtype[0]}{8 * ITEMSIZE[dtype]}", np.dtype(dtype)


def table_of(dtype: str) -> npt.NDArray[np.float32] | None:
    """Values of a dtype's bit patterns as float32; ``None`` for a dtype of more than 16 bits, which needs no table."""
    size = ITEMSIZE[dtype]
    if size > 2:
        return None
    codes = np.arange(1 << 8 * size, dtype=np.uint16 if size == 2 else np.uint8)
    kind = np.dtype(np.uint8) if dtype == "bool" else numpy_dtype(dtype)
    return decode(codes.view(kind), dtype).astype(np.float32)


def check_code(backend: Backend, context: Context) -> bytes | None:
    """Compile the check kernels for a context's device; ``None`` if that fails."""
    targets = (t for t in backend.targets() if "cc" in t.limit and backend.serves(t, context))
    target = next(targets, None)
    if target is None:
        return None
    try:
        toolchain = backend.toolchain(target)
        unit = prelude(target, toolchain.emulated) + source()
        return Path(toolchain.compile(unit, SYMBOLS, DEADLINE).path).read_bytes()
    except (TilewrightError, OSError):
        return None

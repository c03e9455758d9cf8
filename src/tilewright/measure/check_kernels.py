"""CUDA kernels of the measuring child's own that look for mistakes where a result lies: on the device.

None says what is wrong: each sets a word to 1 where something may be, and the verifier then judges on the host.
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
from tilewright.verifying.inputs import decoded

THREADS = 128
EACH = 32  # elements of a thread, where there are as many
MOST_BLOCKS = 2048
PARTS = 256  # sums that a checksum is given in, at most: one a block
SHARED = 3 * 8 * THREADS  # bytes of shared memory of a projection's block

# `places`: where an output's elements are that bounds are known of; null where they are all of them, in order.
# `table`: values of the bit patterns of a type of one or two bytes. A low bound that is NaN asks for NaN.
_COMPARED = """
template <class T> struct tw_check_plain { TW_DEVICE T get(T x, const float *) { return x; } };
template <class T> struct tw_check_coded { TW_DEVICE float get(T x, const float *table) { return table[x]; } };

template <class C, class T, class V>
TW_DEVICE void tw_check_all(const T *out, const V *low, const V *high, const long long *places, long long n,
                            const float *table, unsigned *wrong) {
    const long long step = (long long)gridDim.x * @THREADS@;
    for (long long i = (long long)blockIdx.x * @THREADS@ + threadIdx.x; i < n; i += step) {
        const V x = C::get(out[places ? places[i] : i], table), a = low[i], b = high[i];
        if (!(a != a ? x != x : x >= a && x <= b)) *wrong = 1;
    }
}

// Sums along an axis of `length` elements, `inner` apart, with whole weights. They are exact, in any order, where
// elements are whole numbers and the sum of all sizes is far below 2^53; anything else is left to the host.
// `bits`: larger elements than 2^bits may have been rounded, by half a unit of their last place.
template <class C, class T>
TW_DEVICE void tw_project_all(const T *out, const double *weights, const double *wanted, const double *rest,
                              long long length, long long inner, int bits, const float *table, unsigned *wrong,
                              double *sums) {
    const double largest = (double)(1ll << bits);
    const long long row = blockIdx.x, first = row / inner * length * inner + row % inner;
    double sum = 0.0, size = 0.0, allowed = 0.0;
    bool whole = true;
    for (long long k = threadIdx.x; k < length; k += @THREADS@) {
        const long long at = first + k * inner;
        const double x = (double)C::get(out[at], table), more = rest ? rest[at] : 0.0, w = weights[k];
        const double big = x < 0.0 ? -x : x, less = more < 0.0 ? -more : more, by = w < 0.0 ? -w : w;
        whole = whole && big < 4503599627370496.0 && less < 4503599627370496.0 && (double)(long long)x == x &&
                (double)(long long)more == more;
        if (!whole) break;
        sum += (x - more) * w;
        size += (big + less) * by;
        union { double value; unsigned long long word; } unit;
        unit.value = big;
        unit.word = ((unit.word >> 52) - bits) << 52;
        if (big > largest) allowed += unit.value * by;
    }
    sums[threadIdx.x] = sum;
    sums[@THREADS@ + threadIdx.x] = size;
    sums[2 * @THREADS@ + threadIdx.x] = allowed;
    if (!whole) *wrong = 1;
    tw::sync();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < @THREADS@; t++) {
        sum += sums[t];
        size += sums[@THREADS@ + t];
        allowed += sums[2 * @THREADS@ + t];
    }
    const double apart = sum - wanted[row];
    if (!(size < 4503599627370496.0 && (apart < 0.0 ? -apart : apart) <= allowed)) *wrong = 1;
}
"""

_ONE = """
TW_KERNEL(@THREADS@, 1) void tw_check_@NAME@(const @T@ *out, const @V@ *low, const @V@ *high, const long long *places,
                                             long long n, const float *table, unsigned *wrong) {
    tw_check_all<@C@<@T@>>(out, low, high, places, n, table, wrong);
}
TW_KERNEL(@THREADS@, 1) void tw_project_@NAME@(const @T@ *out, const double *weights, const double *wanted,
                                               const double *rest, long long length, long long inner, int bits,
                                               const float *table, unsigned *wrong) {
    TW_SHARED(shared);
    tw_project_all<@C@<@T@>>(out, weights, wanted, rest, length, inner, bits, table, wrong, (double *)shared);
}
"""

# Bytes are compared in words as far as they are aligned.
_BYTES = """
TW_KERNEL(@THREADS@, 1) void tw_check_filled(const unsigned char *at, long long n, int byte, unsigned *wrong) {
    const long long step = (long long)gridDim.x * @THREADS@, first = (long long)blockIdx.x * @THREADS@ + threadIdx.x;
    const long long before = -(unsigned long long)at & 7, head = before < n ? before : n, words = (n - head) / 8;
    const unsigned long long filled = 0x0101010101010101ull * (unsigned)byte;
    for (long long i = first; i < words; i += step)
        if (((const unsigned long long *)(at + head))[i] != filled) *wrong = 1;
    if (first < head && at[first] != byte) *wrong = 1;
    if (first < n - head - 8 * words && at[head + 8 * words + first] != byte) *wrong = 1;
}
TW_KERNEL(@THREADS@, 1) void tw_check_same(const unsigned char *a, const unsigned char *b, long long n,
                                           unsigned *wrong) {
    const long long step = (long long)gridDim.x * @THREADS@, first = (long long)blockIdx.x * @THREADS@ + threadIdx.x;
    long long done = 0;
    if ((((unsigned long long)a | (unsigned long long)b) & 7) == 0) {
        done = n / 8 * 8;
        for (long long i = first; i < n / 8; i += step)
            if (((const unsigned long long *)a)[i] != ((const unsigned long long *)b)[i]) *wrong = 1;
    }
    for (long long i = done + first; i < n; i += step)
        if (a[i] != b[i]) *wrong = 1;
}
// Each word times an odd number of its own, summed: a word that changes changes the sum.
TW_KERNEL(@THREADS@, 1) void tw_checksum(const unsigned long long *at, long long n, unsigned long long *parts) {
    TW_SHARED(shared);
    unsigned long long *sums = (unsigned long long *)shared, sum = 0;
    const long long step = (long long)gridDim.x * @THREADS@;
    for (long long i = (long long)blockIdx.x * @THREADS@ + threadIdx.x; i < n; i += step)
        sum += at[i] * (2 * (unsigned long long)i + 1);
    sums[threadIdx.x] = sum;
    tw::sync();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < @THREADS@; t++) sum += sums[t];
    parts[blockIdx.x] = sum;
}
"""

_FORMATS = {
    "u8": ("unsigned char", "float", "tw_check_coded"), "u16": ("unsigned short", "float", "tw_check_coded"),
    "f32": ("float", "float", "tw_check_plain"), "f64": ("double", "double", "tw_check_plain"),
    "i32": ("int", "int", "tw_check_plain"), "i64": ("long long", "long long", "tw_check_plain"),
}  # fmt: skip
"""Elements of an output, their values, and how one gives the other."""

SYMBOLS = (
    *(f"tw_{what}_{name}" for name in _FORMATS for what in ("check", "project")),
    "tw_check_filled", "tw_check_same", "tw_checksum",
)  # fmt: skip


def source() -> str:
    """The translation unit, without a prelude."""
    parts = [_COMPARED, _BYTES]
    for name, (element, value, how) in _FORMATS.items():
        one = _ONE
        for hole, text in (("NAME", name), ("T", element), ("V", value), ("C", how)):
            one = one.replace(f"@{hole}@", text)
        parts.append(one)
    return '#line 1 "checks"\n' + "".join(parts).replace("@THREADS@", str(THREADS))


def format_of(dtype: str) -> tuple[str, np.dtype[np.generic]]:
    """The name of a dtype's format, and the NumPy dtype of its bounds."""
    small = {1: "u8", 2: "u16"}.get(ITEMSIZE[dtype])
    if small is not None:
        return small, np.dtype(np.float32)
    return f"{dtype[0]}{8 * ITEMSIZE[dtype]}", np.dtype(dtype)


def table_of(dtype: str) -> npt.NDArray[np.float32] | None:
    """Values of a dtype's bit patterns as the verifier reads them; ``None`` for one that is its own value."""
    size = ITEMSIZE[dtype]
    if size > 2:
        return None
    codes = np.arange(1 << 8 * size, dtype=np.uint16 if size == 2 else np.uint8)
    kind = np.dtype(np.uint8) if dtype == "bool" else numpy_dtype(dtype)
    return decoded(codes.view(kind), dtype).astype(np.float32)


def check_code(backend: Backend, context: Context) -> bytes | None:
    """These kernels, compiled for a context's device; ``None`` where they cannot be."""
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

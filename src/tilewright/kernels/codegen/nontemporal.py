"""Non-temporal stores: the C++ helper functions that kernels print, and the condition for their use."""

from __future__ import annotations

from tilewright.core import Target
from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import ITEMSIZE

NON_TEMPORAL = """// Stores past the caches, where the address allows it.
template <class T, class V> TW_INLINE void stream(T *p, V v) {
    if (((unsigned long)p & (sizeof(V) - 1)) != 0) tw::store(p, v);
#if defined(__AVX512F__)
    else if constexpr (sizeof(V) == 64) __builtin_ia32_movntps512((float *)p, (tw::vec<float, 16>)v);
#endif
#if defined(__AVX__)
    else if constexpr (sizeof(V) == 32) __builtin_ia32_movntps256((float *)p, (tw::vec<float, 8>)v);
#endif
#if defined(__SSE2__)
    else if constexpr (sizeof(V) == 16) __builtin_ia32_movntps((float *)p, (tw::vec<float, 4>)v);
#endif
    else tw::store(p, v);
}
TW_INLINE void streamed() {
#if defined(__SSE2__)
    __builtin_ia32_sfence();
#endif
}
"""


def can_bypass_caches(dtype: str, target: Target, lanes: int, moves: bool = False) -> bool:
    """Whether ``lanes`` elements form one vector of the target that is stored without rounding.

    Narrow types qualify only if the value moves unchanged from a read (``moves``).
    """
    plain = moves or DTYPES[dtype].bits >= 32
    return plain and target.arch == "x86_64" and lanes * ITEMSIZE[dtype] == target.vector_bytes

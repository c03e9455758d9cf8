"""What the kernels beside this file compute. Tilewright checks every combination of their macros against it.

    tilewright tune examples/own_kernel/dense.cpp --entry dense --reference examples/own_kernel/reference.py:dense \\
        --knob BM=2,4,6,8 --knob BN=16,32,48,64 --constraint "BM*BN <= 256" m=256 n=256 k=256
    tilewright tune examples/own_kernel/dense.cu --entry dense --reference examples/own_kernel/reference.py:dense \\
        --knob BM=32,64,128 --knob BN=32,64,128 --knob BK=8,16 --knob TM=4,8 --knob TN=4,8 \\
        --constraint "32 <= (BM/TM) * (BN/TN) <= 512" --grid "ceildiv(n, BN), ceildiv(m, BM)" --block "BN/TN, BM/TM" \\
        m=1024 n=1024 k=1024
"""

from __future__ import annotations

from tilewright import operator, te


@operator(example={"m": 256, "n": 256, "k": 256})
def dense(m: int, n: int, k: int) -> te.TensorRef:
    """A dense layer: ``out = max(a @ b + bias, 0)``."""
    a, b, bias = te.input("a", (m, k)), te.input("b", (k, n)), te.input("bias", (n,))
    product = te.compute((m, n), lambda i, j: te.sum(k, lambda r: a[i, r] * b[r, j]))
    return te.compute((m, n), lambda i, j: te.maximum(product[i, j] + bias[j], 0.0))

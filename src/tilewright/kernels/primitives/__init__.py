"""The registry of primitives: one module and one line each, in an order in which they can be printed."""

from __future__ import annotations

from tilewright.kernels.primitives import (
    atomic_add,
    convert,
    cp_async,
    exchange,
    exp2_approx,
    global_memory,
    ldmatrix,
    math,
    math_erf,
    math_exp,
    math_log,
    math_rsqrt,
    math_tanh,
    mma_bf16,
    mma_f16,
    mma_s8,
    mma_tf32,
    round_tf32,
    shared_memory,
    shuffle,
    sync,
    threadfence,
)
from tilewright.kernels.primitives.primitive import Primitive

PRIMITIVES: tuple[Primitive, ...] = (
    sync.PRIMITIVE,
    threadfence.PRIMITIVE,
    global_memory.PRIMITIVE,
    shared_memory.PRIMITIVE,
    cp_async.PRIMITIVE,
    convert.PRIMITIVE,
    round_tf32.PRIMITIVE,
    ldmatrix.PRIMITIVE,
    mma_f16.PRIMITIVE,
    mma_bf16.PRIMITIVE,
    mma_tf32.PRIMITIVE,
    mma_s8.PRIMITIVE,
    shuffle.PRIMITIVE,
    exchange.PRIMITIVE,
    atomic_add.PRIMITIVE,
    math.PRIMITIVE,
    math_exp.PRIMITIVE,
    exp2_approx.PRIMITIVE,
    math_log.PRIMITIVE,
    math_rsqrt.PRIMITIVE,
    math_tanh.PRIMITIVE,
    math_erf.PRIMITIVE,
)

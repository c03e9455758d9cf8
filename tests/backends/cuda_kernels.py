"""Small CUDA kernels for the tests of this folder."""

from __future__ import annotations

import functools

import pytest

from tilewright.backends.cuda.nvrtc import NoNvrtc, Nvrtc, find_nvrtc

SAXPY = """
#line 1 "kernel"
extern "C" __global__ void __launch_bounds__(256) tw_contract_saxpy(
    const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out, unsigned char *ws, int n, int a) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""

# Static and dynamic shared memory, a launch bound, more than one parameter type.
SHARED = """
extern "C" __global__ void __launch_bounds__(128) tw_shared(float *out, long long n, double scale) {
    __shared__ float tile[200];
    extern __shared__ float more[];
    tile[threadIdx.x] = out[threadIdx.x];
    more[threadIdx.x] = out[threadIdx.x + n];
    __syncthreads();
    out[threadIdx.x] = (float)scale * tile[199 - threadIdx.x] + more[127 - threadIdx.x];
}
"""

# Far more live values than the registers that two blocks of 512 threads leave.
SPILLING = """
extern "C" __global__ void __launch_bounds__(512, 2) tw_spill(float *out, const float *in) {
    float v[96];
#pragma unroll
    for (int i = 0; i < 96; i++) v[i] = in[threadIdx.x + 512 * i];
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int i = 0; i < 96; i++) v[i] = v[i] * v[(i * 7 + 3) % 96] + v[(i + 1) % 96];
    }
#pragma unroll
    for (int i = 0; i < 96; i++) out[threadIdx.x + 512 * i] = v[i];
}
"""

# Indexed at run time: local memory without spills.
STACK = """
extern "C" __global__ void tw_stack(float *x, int n) {
    float a[40];
    for (int i = 0; i < 40; i++) a[i] = x[i];
    a[n] = 3;
    a[n * 3] = 4;
    x[0] = a[n + 1] + a[x[2] > 0];
}
"""

TWO = SAXPY + SHARED


@functools.lru_cache(maxsize=1)
def _find() -> Nvrtc | str:
    try:
        return find_nvrtc()
    except NoNvrtc as e:
        return str(e)


def nvrtc() -> Nvrtc:
    """The compiler under test, or the reason why there is none."""
    found = _find()
    if isinstance(found, str):
        pytest.skip(found)
    return found


# Accumulators touched between asynchronous Tensor Core instructions: the assembler makes these wait for each other.
SERIAL = """
extern "C" __global__ void __launch_bounds__(128) tw_serial(float *out, unsigned long long a, unsigned long long b) {
    float d[4] = {0, 0, 0, 0};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < 4; i++) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a + i), "l"(b + i));
        d[0] += out[i];
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++) out[threadIdx.x + 128 * i] = d[i];
}
"""

"""Handwritten CUDA matmul kernels, right and wrong in many ways; the emulator runs them."""

from __future__ import annotations

from tilewright.core import Candidate, Launch, LaunchProgram, Prepack
from tilewright.kernels.templates.base import LoweredKernel

SIZES = {"m": 12, "n": 10, "k": 20}
THREADS = 32

# What a thread does for element `e` of the output; `mm()` gives that element, `guard` is the usual bound.
BODIES = {
    "good": "if (e < M * N) out[e] = mm(1);",
    "slow": "if (e < M * N) out[e] = mm(400);",
    "hang": "volatile int spin = 1; while (spin) {}",
    "segfault": "*(volatile int *)16 = 1;",
    "exit": "__builtin_trap();",
    "wrong": "if (e < M * N) out[e] = mm(1) + (e == 5 ? 0.01f : 0.0f);",
    "unwritten": "if (e < M * N - 1) out[e] = mm(1);",
    "overrun": "out[e] = e < M * N ? mm(1) : 1.0f;",
    "underrun": "if (e < M * N) out[e] = mm(1); if (e == 0) out[-1] = 1.0f;",
    "overread": "if (e < M * N) out[e] = mm(1) + 0.0f * x0[M * K + e];",
    "inputs": "if (e < M * N) out[e] = mm(1); if (e == 0) ((float *)x1)[3] = 7.0f;",
    "workspace": "float *w = (float *)ws; if (e < M * N) { w[e] = mm(1); out[e] = w[e]; }",
    "workspace_overrun": "float *w = (float *)ws; if (e < M * N) out[e] = mm(1); if (e == 0) w[M * N] = 1.0f;",
    "workspace_dirty": "float *w = (float *)ws; if (e < M * N) out[e] = mm(1) + 0.0f * w[e];",
    "zeroed": "float *w = (float *)ws; if (e < M * N) out[e] = mm(1) + w[e];",
    "argument": "if (e < M * N) out[e] = mm(reps);",
    "misaligned": "if (e < M * N) out[e] = mm(1); if (e == 0) tw::load_shared<float>(smem + 1);",
    "divergence": "if (e < M * N) out[e] = mm(1); if (threadIdx.x < 16) tw::sync();",
    "broken": "this does not compile;",
    "packed": "if (e < M * N) { float s = x1[N * K]; for (int i = 0; i < K; i++) s += x0[e / N * K + i] * "
    "x1[e % N * K + i]; out[e] = s; }",
    "pack_overrun": "if (e < M * N) out[e] = mm(1);",
    "two": "float *w = (float *)ws; if (e < M * N) w[e] = mm(1);",
}
PACKED = {
    "packed": "if (e < N * K) memory[e] = x1[e % K * N + e / K];",
    "pack_overrun": "if (e < N * K + 1) memory[e] = e < N * K ? x1[e] : 1.0f;",
}
"""What a thread does for element `e` of the second input where that is rearranged once; of "packed" a zero follows."""
NAMED = {"good": "good"}
WORKSPACE = {
    "workspace": 4 * 120, "workspace_overrun": 4 * 120, "workspace_dirty": 4 * 120, "zeroed": 4 * 120,
    "two": 4 * 120, "huge": 1 << 60,
}  # fmt: skip


def lower(candidate: Candidate) -> LoweredKernel:
    """A kernel from a schedule that names one of ``BODIES``."""
    name = str(candidate.schedule.values["body"])
    sizes = dict(candidate.task.workload.params)
    symbol = candidate.symbol
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    arguments = ", int reps" if name == "argument" else ""
    source = f"""#line 1 "kernel"
TW_KERNEL({THREADS}, 1) void {symbol}(const float *__restrict__ x0, const float *__restrict__ x1,
        float *__restrict__ out, unsigned char *ws{arguments}) {{
    TW_SHARED(smem);
    const int M = {m}, N = {n}, K = {k}, e = int(blockIdx.x) * {THREADS} + int(threadIdx.x);
    (void)smem; (void)ws; (void)M; (void)N; (void)K; (void)e;
    auto mm = [&](int times) {{
        float s = 0.0f;
        for (volatile int t = 0; t < times; t = t + 1) {{
            s = 0.0f;
            for (int i = 0; i < K; i++) s += x0[e / N * K + i] * x1[i * N + e % N];
        }}
        return s;
    }};
    (void)mm;
    {BODIES.get(name, BODIES["good"])}
}}
"""
    grid = (-(-int(m) * int(n) // THREADS),)
    if name == "grid":
        grid = (1 << 31,)
    block = (THREADS,) if name != "threads" else (2048,)
    shared = 256 if name != "shared" else 1 << 20
    launches = [Launch(symbol, ("reps",) if arguments else (), grid, block, shared)]
    if name == "two":  # the second launch reads what the first one wrote
        source += f"""TW_KERNEL({THREADS}, 1) void {symbol}_b(const float *__restrict__ x0, const float *__restrict__ x1,
        float *__restrict__ out, unsigned char *ws) {{
    const int e = int(blockIdx.x) * {THREADS} + int(threadIdx.x);
    if (e < {m} * {n}) out[e] = ((float *)ws)[e];
}}
"""
        launches.append(Launch(f"{symbol}_b", (), grid, block))
    prepack: tuple[Prepack, ...] = ()
    if name in PACKED:
        source += f"""TW_KERNEL({THREADS}, 1) void {symbol}_pack(const float *__restrict__ x1, float *memory) {{
    const int N = {n}, K = {k}, e = int(blockIdx.x) * {THREADS} + int(threadIdx.x);
    {PACKED[name]}
}}
"""
        size, given = int(n) * int(k), (("tensor", 1), ("workspace", 0))
        pack = Launch(f"{symbol}_pack", (), (-(-(size + 1) // THREADS),), block, parameters=given)
        prepack = (Prepack(1, 4 * (size + (name == "packed")), pack),)
    program = LaunchProgram(
        tuple(launches), workspace=WORKSPACE.get(name, 0), zero_fill=480 if name == "zeroed" else 0, align=4,
        prepack=prepack,
    )  # fmt: skip
    return LoweredKernel(symbol, source, program)

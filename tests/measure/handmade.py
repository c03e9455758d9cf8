"""Handwritten matmul kernels, right and wrong in many ways."""

from __future__ import annotations

from tilewright.core import Candidate, Launch, LaunchProgram, Prepack
from tilewright.kernels.templates.base import LoweredKernel

SIZES = {"m": 24, "n": 20, "k": 40}

# Bodies of a matmul with A, B, C, M, N, K in scope; `mm(reps)` computes it naively, reps times.
BODIES = {
    "good": "mm(1);",
    "slow": "mm(30);",
    "hang": "for (volatile int spin = 1; spin;) {} ",
    "segfault": "*(volatile int *)16 = 1;",
    "abort": "__builtin_trap();",
    "exit": "_exit(3);",
    "nonzero": "mm(1); return 7;",
    "wrong": "mm(1); C[5] += 0.01f;",
    "skip_k": "for (long i = 0; i < M; i++) for (long j = 0; j < N; j++) { float s = 0; "
    "for (long k = 0; k + 1 < K; k++) s += A[i * K + k] * B[k * N + j]; C[i * N + j] = s; }",
    "tail": "mm(1); C[M * N - 1] = C[M * N - 2];",
    "unwritten": "float last = C[M * N - 1]; mm(1); C[M * N - 1] = last;",
    "overrun": "mm(1); C[M * N] = 1;",
    "far_overrun": "mm(1); C[M * N + (10 << 20)] = 1;",
    "far_underrun": "mm(1); C[-(10 << 20)] = 1;",
    "underrun": "mm(1); C[-1] = 1;",
    "overread": "mm(1); C[0] += 0 * *(volatile const float *)(A + M * K);",
    "far_read": "mm(1); volatile float x = B[K * N + 5000]; (void)x;",
    "inputs": "mm(1); ((float *)B)[3] += 1;",
    "aligned": "if ((long)A % 8) __builtin_trap(); mm(1);",
    "workspace": "float *w = (float *)workspace; for (int n = 0; n < 10; n++) w[n] = 1; mm(1);",
    "workspace_overrun": "((float *)workspace)[1024 + 3] = 1; mm(1);",
    "workspace_far": "((float *)workspace)[10 << 20] = 1; mm(1);",
    "pack": "mm(1);",
    "pack_overrun": "mm(1);",
    "workspace_dirty": "mm(1); C[0] += ((float *)workspace)[0] * 0;",
    "broken": "this does not compile;",
    "argument": "mm(args[0]);",
}
WORKSPACE = {
    "workspace": 4096,
    "workspace_overrun": 4098,
    "workspace_far": 4096,
    "workspace_dirty": 64,
    "huge": 1 << 60,
}


def lower(candidate: Candidate) -> LoweredKernel:
    """A kernel from a schedule that names one of ``BODIES``."""
    name = str(candidate.schedule.values["body"])
    sizes = dict(candidate.task.workload.params)
    symbol = candidate.symbol
    source = f"""
extern "C" void _exit(int);
TW_ENTRY({symbol}) {{
    const long M = {sizes["m"]}, N = {sizes["n"]}, K = {sizes["k"]};
    const float *A = (const float *)tensors[0], *B = (const float *)tensors[1];
    float *C = (float *)tensors[2];
    (void)args; (void)workspace; (void)env; (void)M; (void)N; (void)K; (void)A; (void)B; (void)C;
    auto mm = [&](long reps) {{
        for (volatile long r = 0; r < reps; r = r + 1)
            for (long i = 0; i < M; i++)
                for (long j = 0; j < N; j++) {{
                    float s = 0;
                    for (long k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
                    C[i * N + j] = s;
                }}
    }};
    (void)mm;
    {BODIES.get(name, "mm(1);")}
    return 0;
}}
"""
    arguments = ("reps",) if name == "argument" else ()
    prepack: tuple[Prepack, ...] = ()
    if name in ("pack", "pack_overrun"):  # B as it is, and perhaps one element more
        count = int(sizes["n"]) * int(sizes["k"])
        prepack = (Prepack(1, 4 * count, Launch(f"{symbol}_pack", ())),)
        source += f"""
TW_ENTRY({symbol}_pack) {{
    (void)args; (void)env;
    for (long i = 0; i < {count + (name == "pack_overrun")}; i++) ((float *)workspace)[i] = i < {count} ? ((const float *)tensors[1])[i] : 1;
    return 0;
}}
"""
    program = LaunchProgram((Launch(symbol, arguments),), workspace=WORKSPACE.get(name, 0), prepack=prepack)
    return LoweredKernel(symbol, source, program)

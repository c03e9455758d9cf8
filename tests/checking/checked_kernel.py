"""A handwritten tiled product with a ring of asynchronous copies, and ways to break it."""

from __future__ import annotations

import re

from tilewright.backends.cuda.archs import target
from tilewright.checking.check import Subject
from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.operators import get_operator

M, N, K = 38, 37, 29

_SOURCE = """\
TW_KERNEL(128, 1) void demo(const float *__restrict__ x0, const float *__restrict__ x1, float *__restrict__ out, unsigned char *ws) {
    TW_SHARED(smem);
    const int tid = threadIdx.x;
    const int tiles = (N + 31) / 32;
    const int bm = blockIdx.x / tiles * 32, bn = blockIdx.x % tiles * 32;
    float *a = (float *)smem, *b = a + 3 * 256;
    float acc[2][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) acc[i][j] = 0.f;
    const int row = tid / 8 * 2, col = tid % 8 * 4;
    const int nk = (K + 7) / 8;
    auto load = [&](int stage, int k0) {
        for (int e = tid; e < 256; e += 128) {
            const int r = e / 8, k = e % 8;
            const bool ok = bm + r < M && k0 + k < K;
            tw::cp_async<4>(tw::shared_address(a + stage * 256 + k * 32 + r), x0 + (bm + r) * K + k0 + k, ok ? 4 : 0);
            const int c = e % 32, q = e / 32;
            const bool in = bn + c < N && k0 + q < K;
            tw::cp_async<4>(tw::shared_address(b + stage * 256 + q * 32 + c), x1 + (k0 + q) * N + bn + c, in ? 4 : 0);
        }
    };
    for (int s = 0; s < 2; s++) {
        if (s < nk) load(s, s * 8);
        tw::cp_commit();
    }
    for (int kt = 0; kt < nk; kt++) {
        tw::cp_wait<1>();
        tw::sync();
        if (kt + 2 < nk) load((kt + 2) % 3, (kt + 2) * 8);
        tw::cp_commit();
        const float *as = a + kt % 3 * 256, *bs = b + kt % 3 * 256;
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    acc[i][j] += tw::load_shared<float>(as + k * 32 + row + i) * tw::load_shared<float>(bs + k * 32 + col + j);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            const int m = bm + row + i, n = bn + col + j;
            if (m < M && n < N) tw::store_global(out + m * N + n, acc[i][j]);
        }
}
"""

SOURCE = re.sub(r"\b[MNK]\b", lambda x: str({"M": M, "N": N, "K": K}[x.group()]), _SOURCE)
WORKLOAD = get_operator("matmul").workload(m=M, n=N, k=K)
PROGRAM = LaunchProgram((Launch("demo", grid=(4, 1, 1), block=(128, 1, 1), shared=6144),), align=4)


def subject(*changes: tuple[str, str], program: LaunchProgram = PROGRAM) -> Subject:
    """The kernel, with the first occurrence of each text replaced."""
    source = SOURCE
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new, 1)
    return Subject(target("sm_80"), WORKLOAD, source, program)


def line_of(text: str) -> int:
    """The line, from 1, of the kernel's own text that holds ``text``."""
    return next(n for n, line in enumerate(SOURCE.split("\n"), 1) if text in line)

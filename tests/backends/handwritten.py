"""Kernels written by hand for the backend's tests."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.backends.cpu.loader import LoadedLibrary

Load = Callable[..., LoadedLibrary]
"""The fixture of that name: source and target to a loaded library."""

ENV = """
struct tw_env {
    void (*parallel_for)(void *, long, void (*)(void *, long, long), void *);
    void *pool;
    long threads;
};
#define ENTRY(name) extern "C" __attribute__((visibility("default"))) \\
    int name(void *const *tensors, const long long *args, void *workspace, const tw_env *env)
"""

SAXPY = (
    ENV
    + """
ENTRY(tw_contract_saxpy) {
    const float *x = (const float *)tensors[0], *y = (const float *)tensors[1];
    float *out = (float *)tensors[2];
    if (args[0] < 0) return 7;
    for (long i = 0; i < args[0]; i++) out[i] = (float)args[1] * x[i] + y[i];
    return 0;
}
"""
)

# c = a b for n x n, a row a task, vectors of the target's width; each worker counts in the workspace.
MATMUL = (
    ENV
    + """
typedef float v __attribute__((vector_size(VECTOR), aligned(4), may_alias));
struct call { const float *a, *b; float *c; long n; long *count; };
static void row(void *p, long i, long worker) {
    const call *q = (const call *)p;
    const long lanes = VECTOR / 4;
    for (long j = 0; j < q->n; j += lanes) {
        v sum = {};
        for (long k = 0; k < q->n; k++) sum += q->a[i * q->n + k] * *(const v *)&q->b[k * q->n + j];
        *(v *)&q->c[i * q->n + j] = sum;
    }
    q->count[16 * worker]++;
}
ENTRY(tw_matmul) {
    call q = {(const float *)tensors[0], (const float *)tensors[1], (float *)tensors[2], (long)args[0],
              (long *)workspace};
    env->parallel_for(env->pool, q.n, row, &q);
    long rows = 0;
    for (long w = 0; w < env->threads; w++) rows += q.count[16 * w];
    return rows == q.n ? 0 : 1;
}
"""
)

"""Kernels written by hand, and databases that hold them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backends.cpu.device import device_model
from tilewright.backends.cpu.targets import detect
from tilewright.core import Launch, LaunchProgram, Prepack, Schedule, Target, Task, Workload
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators import get_operator

SOURCE = r"""
#include <unistd.h>
struct tw_env {
    void (*parallel_for)(void *, long, void (*)(void *, long, long), void *);
    void *pool;
    long threads;
};
#define KERNEL extern "C" __attribute__((visibility("default"))) int
#define ARGUMENTS void *const *t, const long long *args, void *workspace, const struct tw_env *env

static void mm_row(const float *a, const float *b, float *c, long i, long n, long k)
{
    for (long j = 0; j < n; j++) {
        float sum = 0;
        for (long r = 0; r < k; r++)
            sum += a[i * k + r] * b[r * n + j];
        c[i * n + j] = sum;
    }
}

KERNEL tw_t_mm(ARGUMENTS)  // args: m, n, k
{
    for (long i = 0; i < args[0]; i++)
        mm_row((const float *)t[0], (const float *)t[1], (float *)t[2], i, args[1], args[2]);
    return 0;
}

KERNEL tw_t_mm_twice(ARGUMENTS)  // wrong on purpose, to tell it from the other
{
    tw_t_mm(t, args, workspace, env);
    for (long i = 0; i < args[0] * args[1]; i++)
        ((float *)t[2])[i] *= 2;
    return 0;
}

struct job { void *const *t; const long long *args; };
static void mm_task(void *ctx, long task, long)
{
    const job *j = (const job *)ctx;
    mm_row((const float *)j->t[0], (const float *)j->t[1], (float *)j->t[2], task, j->args[1], j->args[2]);
}

KERNEL tw_t_mm_pool(ARGUMENTS)
{
    job j = {t, args};
    env->parallel_for(env->pool, args[0], mm_task, &j);
    return 0;
}

KERNEL tw_t_mm_trans(ARGUMENTS)  // b is (n, k)
{
    const float *a = (const float *)t[0], *b = (const float *)t[1];
    for (long i = 0; i < args[0]; i++)
        for (long j = 0; j < args[1]; j++) {
            float sum = 0;
            for (long r = 0; r < args[2]; r++)
                sum += a[i * args[2] + r] * b[j * args[2] + r];
            ((float *)t[2])[i * args[1] + j] = sum;
        }
    return 0;
}

KERNEL tw_t_turn(ARGUMENTS)  // b, as (n, k), into the memory given
{
    const float *b = (const float *)t[1];
    for (long j = 0; j < args[1]; j++)
        for (long r = 0; r < args[2]; r++)
            ((float *)workspace)[j * args[2] + r] = b[r * args[1] + j];
    return args[0] == 13 ? 3 : 0;  // thirteen rows fail on purpose
}

KERNEL tw_t_sqdist(ARGUMENTS)
{
    const float *x = (const float *)t[0], *y = (const float *)t[1];
    for (long i = 0; i < args[0]; i++)
        for (long j = 0; j < args[1]; j++) {
            float sum = 0;
            for (long r = 0; r < args[2]; r++) {
                float d = x[i * args[2] + r] - y[j * args[2] + r];
                sum += d * d;
            }
            ((float *)t[2])[i * args[1] + j] = sum;
        }
    return 0;
}

KERNEL tw_t_scale(ARGUMENTS)  // args: n. Goes through the workspace, slowly, so that sharing one would show
{
    float *w = (float *)workspace;
    for (long i = 0; i < args[0]; i++)
        w[i] += ((const float *)t[0])[i] * *(const float *)t[1];
    usleep(1000);
    for (long i = 0; i < args[0]; i++)
        ((float *)t[2])[i] = w[i];
    return 0;
}

KERNEL tw_t_wait(ARGUMENTS)  // until another thread writes to the input, for a minute at most
{
    const volatile float *x = (const float *)t[0];
    for (int i = 0; i < 60000 && x[0] == 0; i++)
        usleep(1000);
    *(float *)t[1] = x[0];
    return x[0] == 0;
}

KERNEL tw_t_parted(ARGUMENTS)  // args: m, n
{
    const float *x = (const float *)t[0];
    for (long i = 0; i < args[0]; i++) {
        long long at = 0;
        ((float *)t[1])[i] = 2 * x[i * args[1]];
        ((float *)t[2])[i] = -x[i * args[1]];
        for (long j = 1; j < args[1]; j++)
            at = x[i * args[1] + j] > x[i * args[1] + at] ? j : at;
        ((long long *)t[3])[i] = at;
    }
    return 0;
}

KERNEL tw_t_fail(ARGUMENTS) { return 3; }
"""


@operator
def sqdist(m: int, n: int, k: int) -> te.TensorRef:
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))


@operator
def scale(n: int) -> te.TensorRef:
    x, s = te.input("x", (n,)), te.scalar("s")
    return te.compute((n,), lambda i: x[i] * s[()])


@operator(infer=lambda shapes: dict(zip(("m", "n"), shapes[0], strict=True)))
def parted(m: int, n: int) -> tuple[te.TensorRef, ...]:
    """Of each row: the first element twice, and negated; where the largest is."""
    x = te.input("x", (m, n))
    return (
        te.compute((m,), lambda i: x[i, 0] * 2),
        te.compute((m,), lambda i: -x[i, 0]),
        te.compute((m,), lambda i: te.argmax(n, lambda k: x[i, k])),
    )


@operator
def wait(n: int) -> te.TensorRef:
    x = te.input("x", (n,))
    return te.compute((1,), lambda i: x[i])


@dataclass(frozen=True)
class Built:
    data: bytes
    sha256: str
    compiler: str

    def stored(self, target: Target) -> StoredArtifact:
        text = SOURCE
        return StoredArtifact(
            self.sha256, self.data, target, self.compiler, (), text, hashlib.sha256(text.encode()).hexdigest()
        )


@dataclass
class Maker:
    """Writes databases of kernels as a tuning run would."""

    path: Path
    built: Built

    def add(
        self,
        workload: Workload,
        symbol: str,
        *,
        target: Target | None = None,
        model: str | None = None,
        state: str = "verified",
        seconds: float = 1e-6,
        workspace: Any = 0,
        zero_fill: Any = 0,
        align: int = 1,
        threads: int = 1,
        sha256: str | None = None,
        prepack: tuple[int, str, Any] | None = None,
    ) -> None:
        target = target or detect(threads)
        params = dict(workload.params)
        told = ((e.argument, e.high) for e in workload.ranges.values())  # in front of the sizes that are fixed
        fixed = ((n, int(v)) for n, v in params.items() if isinstance(v, int) and not isinstance(v, bool))
        launch = (*told, *fixed)
        names = tuple(n for n, _ in launch)
        schedule = Schedule("handwritten", 1, (("symbol", symbol),), launch)
        packs = ()
        if prepack is not None:
            number, packer, size = prepack
            packs = (Prepack(number, size, Launch(packer, names)),)
        program = LaunchProgram((Launch(symbol, names),), workspace, zero_fill, align, prepack=packs)
        artifact = self.built.stored(target)
        kernel = StoredKernel(Task(workload, target), "", 1, schedule, program, seconds, artifact.sha256, state=state)
        with Database.open(self.path) as db:
            task = Task(workload, target)
            db.set_kernels(task, model or device_model(), None, [kernel], [artifact])

    def matmul(self, m: int, n: int, k: int, symbol: str = "tw_t_mm", **how: Any) -> None:
        params = how.pop("params", {})
        self.add(get_operator("matmul").workload(m=m, n=n, k=k, **params), symbol, **how)


def random(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)

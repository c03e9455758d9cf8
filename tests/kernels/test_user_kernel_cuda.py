"""CUDA's own words on the emulator: they mean what they mean on a GPU, and NVRTC knows each of them too."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_cuda import HEAD, KERNEL, Own

from tilewright.backends.cuda.nvrtc import NoNvrtc
from tilewright.backends.emulator import CompileError

T = np.arange(32)
ALL = 0xFFFFFFFF
Puts = list[tuple[str, Any]]
"""Expressions, and what they are: the same for all threads, or one number each."""


def check(own: Own, expected: list[Any], order: str = "random:1") -> None:
    """NVRTC compiles it, and on the emulator it puts these numbers."""
    report, out = own.run(len(expected), order)
    assert report.ok, report.bugs
    for n, (got, wanted) in enumerate(zip(out, expected, strict=True)):
        wanted = np.broadcast_to(np.asarray(wanted, float), got.shape)
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-12, err_msg=f"put number {n}")
    try:
        own.compiled_by_nvrtc()
    except NoNvrtc as e:
        pytest.skip(str(e))


BITS: Puts = [
    ("__popc(t) + __popcll(1ull << t)", [v.bit_count() + 1 for v in range(32)]),
    ("__clz(t)", [32 - v.bit_length() for v in range(32)]),
    ("__clzll(t)", [64 - v.bit_length() for v in range(32)]),
    ("__ffs(8 * t)", [((8 * v) & -(8 * v)).bit_length() for v in range(32)]),
    ("__ffsll(0)", 0),
    ("__brev(t)", [int(f"{v:032b}"[::-1], 2) for v in range(32)]),
    ("__brevll(1)", 2.0**63),
    ("__byte_perm(0x33221100, 0x77665544, 0x7531)", 0x77553311),
    ("__funnelshift_l(0x80000000u, 1, 1)", 3),
    ("__funnelshift_r(0, 1, 4)", 1 << 28),
    ("__funnelshift_lc(5, 1, 40)", 5),
    ("__funnelshift_rc(5, 7, 32)", 7),
    ("__fns(0b10110, 0, 2)", 2),
    ("__mul24(-3, 5)", -15),
    ("__umul24(0x1000003, 2)", 6),
    ("__mulhi(1 << 20, -(1 << 20))", -256),
    ("__umulhi(0xffffffffu, 2)", 1),
    ("__mul64hi(1ll << 40, 1ll << 40)", 1 << 16),
    ("__umul64hi(1ull << 63, 4)", 2),
    ("__sad(-3, 4, 10u)", 17),
    ("__usad(3, 1, 1)", 3),
    ("__hadd(-3, 0)", -2),
    ("__rhadd(-3, 0)", -1),
    ("__uhadd(0xffffffffu, 3)", 0x80000001),
    ("__urhadd(2, 3)", 3),
    ("__dp4a(0x01020304, 0x01010101, 5)", 15),
    ("__dp4a((int)0xff000000, 0x02000000, 0)", -2),
    ("__dp4a(0xff000000u, 0x02000000u, 0u)", 510),
    ("__dp2a_lo(0x00030002, 0x04030201, 1)", 1 + 2 * 1 + 3 * 2),
    ("__dp2a_hi(0x00030002, 0x04030201, 1)", 1 + 2 * 3 + 3 * 4),
    ("__vadd4(0x01ff7f80, 0x01020304)", 0x02018284),
    ("__vsub2(0x00010002, 0x00020001)", 0xFFFF0001),
    ("__vmaxs4(0x7f80ff01, 0)", 0x7F000001),
    ("__vminu2(0xffff0001, 0x00020002)", 0x00020001),
    ("__vcmpeq4(0x01020304, 0x01000300)", 0xFF00FF00),
    ("__vsetgtu2(0x00050001, 0x00040002)", 0x00010000),
    ("__vavgu4(0x01010101, 0x02020202)", 0x02020202),
    ("__vsadu4(0x01050000, 0x05010000)", 8),
    ("__vaddss4(0x7f800000, 0x01ff0000)", 0x7F800000),
    ("__vabs2(0xffff0001)", 0x00010001),
]
LANES: Puts = [
    ("__shfl_sync(~0u, 10 * t, 5)", 50),
    ("__shfl_sync(~0u, t, 9, 8)", T // 8 * 8 + 1),
    ("__shfl_up_sync(~0u, 1.0f * t, 3)", np.where(T < 3, T, T - 3)),
    ("__shfl_up_sync(~0u, t, 3, 8)", np.where(T % 8 < 3, T, T - 3)),
    ("__shfl_down_sync(~0u, (long long)t, 4)", np.where(T < 28, T + 4, T)),
    ("__shfl_down_sync(~0u, (double)t, 4, 16)", np.where(T % 16 < 12, T + 4, T)),
    ("__shfl_xor_sync(~0u, (unsigned)t, 1)", T ^ 1),
    ("__shfl_xor_sync(~0u, t, 8, 4)", np.where((T ^ 8) < T // 4 * 4 + 4, T ^ 8, T)),
    ("__ballot_sync(~0u, t > 3)", 0xFFFFFFF0),
    ("__any_sync(~0u, t == 3)", 1),
    ("__all_sync(~0u, t < 31)", 0),
    ("__all_sync(~0u, 1)", 1),
    ("__match_any_sync(~0u, t % 4)", [sum(1 << i for i in range(32) if i % 4 == v % 4) for v in T]),
    ("__match_all_sync(~0u, t, &same)", 0),
    ("__match_all_sync(~0u, 7.0, &same)", ALL),
    ("same", 1),
    ("__activemask()", ALL),
    ("__reduce_add_sync(~0u, (unsigned)t)", 496),
    ("__reduce_min_sync(~0u, t - 4)", -4),
    ("__reduce_max_sync(~0u, (unsigned)t)", 31),
    ("__reduce_or_sync(~0u, 1u << t)", ALL),
    ("__reduce_and_sync(~0u, (unsigned)t | 64)", 64),
    ("t < 16 ? __shfl_down_sync(0xffffu, t, 8, 16) : -1", np.where(T < 8, T + 8, np.where(T < 16, T, -1))),
    ("t % 2 ? __popc(__activemask()) : 0", np.where(T % 2, 16, 0)),
    ("t < 8 ? __reduce_add_sync(0xffu, 1) : __reduce_add_sync(0xffffff00u, 2)", np.where(T < 8, 8, 48)),
]
VECTORS: Puts = [
    ("make_char4(1, 2, 3, -4).w", -4),
    ("sizeof(float3) + make_float3(1, 2, 3).z", 15),
    ("make_uint4(1, 2, 3, 4).w", 4),
    ("dim3(2, 3).x * 100 + dim3(2, 3).y * 10 + dim3(2, 3).z", 231),
    ("dim3().x", 1),
    ("uint3(threadIdx).x", T),
    ("dim3(blockDim).x", 32),
    ("make_double4(1, 2, 3, 4).w + alignof(float4)", 20),
    ("make_ulonglong2(1, 2).y + make_longlong1(5).x", 7),
    ("make_short2(1, -2).y + make_ushort4(1, 2, 3, 4).z", 1),
    ("alignof(int2) + alignof(uchar4) + alignof(float3) + alignof(double2)", 8 + 4 + 4 + 16),
    ("__ldg((const double2 *)x + t / 2).x", T // 2 * 2),
    ("__ldcs(x + t) + __ldca(x + t) + __ldcg(x + t) + __ldlu(x + t) + __ldcv(x + t)", 5 * T),
    ("min(t, 3u)", np.minimum(T, 3)),
    ("max(-1, 2u)", ALL),
    ("min(1.5f, 2.0)", 1.5),
    ("max(1ll, -5ll)", 1),
    ("max(1.0f, 0.0f / 0.0f)", 1),
    ("umin(3, 4) + llmax(-1, 4) + ullmin(5, 6)", 12),
    ("min(2ul, 1ul)", 1),
    ("__float_as_int(1.0f)", 0x3F800000),
    ("__int_as_float(0x40000000) + __uint_as_float(0x3f800000)", 3),
    ("__double_as_longlong(1.0)", float(0x3FF0000000000000)),
    ("__longlong_as_double(0x4000000000000000ll)", 2),
    ("__double2hiint(1.0) + __double2loint(1.0)", 0x3FF00000),
    ("__hiloint2double(0x3ff00000, 0)", 1),
]
ROUNDING: Puts = [
    ("__float2int_rn(2.5f)", 2),
    ("__float2int_rz(-2.7f)", -2),
    ("__float2int_ru(2.1f)", 3),
    ("__float2int_rd(-2.1f)", -3),
    ("__float2uint_rz(-3.f)", 0),
    ("__float2int_rz(1e20f)", 2147483647),
    ("__float2int_rn(0.0f / 0.0f)", 0),
    ("__double2ull_rz(1e19)", 1e19),
    ("__double2ll_rd(-1.2)", -2),
    ("__int2float_rn(16777217)", 16777216),
    ("__int2float_ru(16777217)", 16777218),
    ("__int2float_rz(-16777217)", -16777216),
    ("__uint2float_rd(4294967295u)", 4294967040),
    ("__ll2double_rn(1ll << 60)", 2.0**60),
    ("__double2float_ru(0.1) > __double2float_rd(0.1)", 1),
    ("__fadd_rn(1.f, 1e-10f)", 1),
    ("__fadd_ru(1.f, 1e-10f) > 1.f", 1),
    ("__dadd_rd(1, -1e-30) < 1", 1),
    ("__fsub_rn(3, 1) + __fmul_rn(2, 3)", 8),
    ("__fmaf_rn(2, 3, 4) + __fma_rn(2, 3, 4)", 20),
    ("__fsqrt_rn(9) + __frcp_rn(4) + __ddiv_rn(1, 4)", 3.5),
    ("__frsqrt_rn(4)", 0.5),
]
FUNCTIONS: Puts = [
    ("__expf(1)", math.e),
    ("__logf(2) + __log2f(8) + __log10f(100)", math.log(2) + 5),
    ("__sinf(0) + __cosf(0) + __tanf(0) + __tanhf(0) + __powf(2, 3)", 9),
    ("__fdividef(1, 4)", 0.25),
    ("__saturatef(3) + __saturatef(-1) + __saturatef(0.0f / 0.0f)", 1),
    ("rsqrtf(4) + rsqrt(16.0) + rcbrt(8.0)", 1.25),
    ("sinpi(0.5) + cospif(1) + sinpi(7.0)", 0),
    ("erfinv(0.5)", 0.4769362762044699),
    ("erfcinv(0.1)", 1.163087153676674),
    ("erfcx(2.0)", 0.2553956763105057),
    ("erfcx(30.0)", 0.018795888861416752),
    ("normcdf(1.0)", 0.8413447460685429),
    ("normcdfinv(0.975)", 1.959963984540054),
    ("norm3d(1, 2, 2) + rnorm4df(1, 1, 1, 1) + rhypot(3, 4)", 3.7),
    ("exp10f(2)", 100),
    ("fmaf(1, 2, 3) + fminf(1, 2) + floorf(1.5f) + fabsf(-1)", 8),
    ("abs(-3) + abs(-1.5f) + abs(-2.5)", 7),
    ("ldexpf(1, 3) + fmodf(5, 3) + copysignf(1, -1) + llrint(2.5)", 11),
]
SYSTEM: Puts = [
    ("(clock64() != 0) + (clock() != 0)", 2),
    ('printf("%d\\n", t) >= 0', 1),
    ("__syncthreads_count(t < 5)", 5),
    ("__syncthreads_or(t == 40) != 0", 0),
    ("__syncthreads_or(t == 4) != 0", 1),
    ("__syncthreads_and(t < 40) != 0", 1),
    ("__syncthreads_and(t < 4) != 0", 0),
    ("warpSize", 32),
    ("w[t % 3] + z[1]", [5, 6, 7] * 10 + [5, 6]),
    ("count", 3),
]
GLOBALS = "__constant__ float w[3] = {5, 6, 7}; static __constant__ int z[2]; __device__ int count = 3;\n"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (BITS, ""),
        (LANES, "int same = 0;"),
        (VECTORS, ""),
        (ROUNDING, ""),
        (FUNCTIONS, ""),
        (SYSTEM, "assert(t < 32); __nanosleep(10); if (t > 31) __trap(); __threadfence(); __threadfence_block();"),
    ],
    ids=["bits", "lanes", "vectors", "rounding", "functions", "system"],
)
def test_words_of_cuda_mean_on_the_emulator_what_they_mean_on_a_gpu(tmp_path: Path, words: Puts, first: str) -> None:
    body = first + "\n".join(f"PUT({expression});" for expression, _ in words)
    check(Own(tmp_path, body, GLOBALS), [value for _, value in words])


def test_atomics_of_every_kind_and_type_add_up(tmp_path: Path) -> None:
    body = """
__shared__ int s[10]; __shared__ unsigned u[2]; __shared__ float f1; __shared__ double d1;
__shared__ unsigned long long q; __shared__ long long m; __shared__ unsigned short h[2];
if (t == 0) {
    for (int i = 0; i < 10; i++) s[i] = 0;
    s[3] = -1, s[4] = 1000, u[0] = 0, u[1] = 5, f1 = 0, d1 = 0, q = 0, m = -5, h[0] = h[1] = 0;
}
__syncthreads();
atomicAdd(&s[0], t); atomicSub(&s[1], t); atomicMax(&s[2], t); atomicAnd(&s[3], ~(1 << t % 8)); atomicMin(&s[4], t + 7);
atomicOr(&s[5], 1 << t); atomicXor(&s[6], t); atomicAdd_block(&s[7], 1); atomicAdd_system(&s[8], 1); atomicExch(&s[9], 7);
atomicInc(&u[0], 9); atomicDec(&u[1], 7); atomicAdd(&f1, 1); atomicAdd(&d1, 0.5); atomicAdd(&q, 1ull << 33);
atomicMax(&m, (long long)t << 40); atomicCAS(&h[1], (unsigned short)0, (unsigned short)9);
__syncthreads();
for (int i = 0; i < 10; i++) PUT(s[i]);
PUT(u[0]); PUT(u[1]); PUT(f1); PUT(d1); PUT(q); PUT(m); PUT(h[1]);
"""
    check(
        Own(tmp_path, body),
        [496, -496, 31, -256, 7, -1, 0, 32, 32, 7, 32 % 10, (5 - 32) % 8, 32, 16, 2.0**38, 31 * 2.0**40, 9],
    )


def test_threads_that_wait_for_a_lock_let_its_holder_run(tmp_path: Path) -> None:
    body = """
__shared__ int lock, sum;
if (t == 0) lock = sum = 0;
__syncthreads();
for (bool had = false; !had;)
    if (atomicCAS(&lock, 0, 1) == 0) {
        __threadfence_block();
        volatile int *s = &sum;
        *s = *s + 1;
        __threadfence_block();
        atomicExch(&lock, 0);
        had = true;
    }
__syncthreads();
PUT(sum);
"""
    for order in ("fifo", "lifo", "random:2"):
        check(Own(tmp_path, body), [32], order)


def test_the_last_block_sees_what_the_others_wrote(tmp_path: Path) -> None:
    body = """
__shared__ bool last;
if (t == 0) {
    part[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
}
__syncthreads();
float sum = 0;
for (int i = 0; last && i < (int)gridDim.x; i++) sum += part[i];
PUT(sum);
"""
    report, out = Own(tmp_path, body, "__device__ volatile float part[4]; __device__ unsigned done;\n", blocks=4).run()
    assert report.ok, report.bugs
    assert sorted(out[0, ::32]) == [0, 0, 0, 10]


# --------------------------------------------------------------------------- shared memory

FORMS = [
    "__shared__ float s[32];",
    "__shared__ unsigned int s[32];",
    "__shared__ unsigned long long s[32];",
    "int unsigned __shared__ s[32];",
    "static __shared__ double s[32], q[4]; q[0] = 1;",
    "volatile __shared__ int s[32];",
    "__shared__ volatile long s[40];",
    "__shared__ alignas(16) float s[32];",
    "alignas(32) __shared__ float s[32];",
    "__shared__ __align__(256) float s[1 << 5];",
    "__shared__ float s __align__(16)[32];",
    "__shared__ __attribute__((aligned(16))) short s[32];",
    "__shared__ float // a comment; with a semicolon\n s[\n32];",
    "__shared__ int a, s[32], b[2][3]; a = 1; b[1][2] = a;",
    "__shared__ struct { float v[32]; int k; } u; float *s = u.v;",
    "__shared__ struct Named { float v[32]; int k; } u; float *s = u.v;",
    "__shared__ Pair<int, 32> q; int *s = q.v;",
    "__shared__ float4 q[8]; float *s = (float *)q;",
    "__shared__ unsigned char raw[128]; float *s = reinterpret_cast<float *>(raw);",
    "__shared__ float *p[2], s[32]; p[0] = s;",
    "__shared__ decltype(sinf(1)) s[32]; asm volatile(\"\" ::: \"memory\");",
    "__shared__ float (*p)[32]; __shared__ float m[2][32]; p = m; float *s = m[1];",
    "__shared__ float s[sizeof(float) * 8 < 40 ? 32 : 1];",
    "__shared__ int s[32]; { __shared__ float s[3]; s[0] = 1; }",
    "auto twice = [&](int i) { __shared__ int k[32]; k[i] = 2 * i; __syncthreads(); return k[31 - i]; };\n"
    "__shared__ int s[32]; if (twice(t) != 62 - 2 * t) return;",
    "QUALIFIED float s[32];",
    "DECLARED(float, s, 32)",
    "float *s = instance<float>(); if (s == (void *)instance<int>()) return;",
    "Holder h; float *s = h.memory();",
    "float *s = outside;",
    "float *s = inside::mine();",
]  # fmt: skip
BEFORE = """
#define QUALIFIED volatile __shared__
#define DECLARED(T, name, N) \\
    __shared__ T name[N];    \\
    (void)name;
template <class T, int N> struct Pair { T v[N]; };
template <class T> __device__ T *instance() { __shared__ T v[32]; return v; }
struct Holder { __device__ float *memory() { __shared__ float v[32]; return v; } };
__shared__ float outside[32];
namespace inside { struct Other { int x; }; __shared__ float hidden[32]; __device__ float *mine() { return hidden; } }
"""


def test_shared_variables_of_every_form_are_one_for_a_block_and_each_instance(tmp_path: Path) -> None:
    body = "\n".join(f"{{ {form} s[t] = x[t]; __syncthreads(); PUT(s[31 - t] + blockIdx.x); }}" for form in FORMS)
    mirrored = np.concatenate([31 - T, 63 - T + 1])
    for order in ("fifo", "random:1"):
        check(
            Own(tmp_path, body.replace("x[t]", "x[32 * blockIdx.x + t]"), BEFORE, blocks=2),
            [mirrored] * len(FORMS), order,
        )  # fmt: skip


@pytest.mark.parametrize(
    "declared", ["float s[]", "__align__(16) int s[]", "float4 v[]; float *s = &v->x", "int m[][8]; int *s = m[0]"]
)
def test_dynamic_shared_memory_of_every_form_is_that_of_the_launch(tmp_path: Path, declared: str) -> None:
    body = "s[t] = x[t]; __syncthreads(); PUT(s[31 - t]);"
    check(Own(tmp_path, f"extern __shared__ {declared}; {body}", shared=128), [31 - T])
    if "*" not in declared:
        check(Own(tmp_path, body, f"extern __shared__ {declared};\n", shared=128), [31 - T])


def test_an_illegal_declaration_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="__managed__ memory is shared with a host program"):
        Own(tmp_path, "PUT(m);", "__managed__ int m;\n").run()
    with pytest.raises(CompileError, match="the emulator reads __shared__ where it declares a variable"):
        Own(tmp_path, "__shared__ int m = 3; PUT(m);").run()
    with pytest.raises(CompileError, match="inline assembly is a GPU's"):
        Own(tmp_path, 'int r; asm volatile("mov.u32 %%0, %%%%laneid;" : "=r"(r)); PUT(r);').run()


@pytest.mark.parametrize("order", ["fifo", "lifo", "random:3"])
def test_shared_memory_that_nobody_wrote_shows_in_some_order(tmp_path: Path, order: str) -> None:
    """A maximum hides what is no number, and a minimum what is large."""
    own = Own(tmp_path, "__shared__ float s[32]; PUT(fmaxf(s[t], 1.0f) == 1.0f && fminf(s[t], 1.0f) == 1.0f);")
    _, out = own.run(1, order)
    assert out[0, 0] == (order == "fifo")


# --------------------------------------------------------------------------- how a kernel ends


def test_threads_that_returned_are_waited_for_by_nobody(tmp_path: Path) -> None:
    body = """
PUT(0);
if (t >= 40) return;
__shared__ int s[40];
s[t] = t;
__syncthreads();
int v = s[39 - t];
if (t < 32) v += 0 * __shfl_xor_sync(~0u, v, 1);
else v += __reduce_add_sync(~0u, 1);
__syncwarp();
if (__syncthreads_count(1) == 40) out[t] = v;
"""
    check(Own(tmp_path, body, threads=64), [[*(39 - T), *(39 - T[:8] - 32 + 8), *[0] * 24]])


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("if (t % 2) __syncthreads();\nPUT(1);", "divergence", "wait at the block barrier"),
        ("if (t < 16) __syncthreads(); else\n__syncthreads();\nPUT(1);", "divergence", "at different barriers"),
        ("if (t < 16) __shfl_sync(~0u, t, 0);\nPUT(1);", "divergence", "wait at __shfl_sync"),
        ("PUT(__shfl_sync(1u, t, 0));", "undefined", "does not name this lane"),
        ("PUT(__shfl_sync(~0u, t, 0, 5));", "undefined", "width 5"),
        ("PUT(1); assert(t != 7);", "crash", "assertion failed: t != 7"),
        ("PUT(1); if (t == 7) __trap();", "crash", "__trap()"),
        ("__shared__ float s[12289]; s[t] = 1; PUT(s[t]);", "launch", "brings static shared memory to 49156 bytes"),
        ("PUT(atomicAdd((int *)((char *)out + 2), 0));", "misaligned", "4 bytes"),
    ],
)  # fmt: skip
def test_what_no_gpu_would_do_is_a_bug_at_its_line(tmp_path: Path, body: str, kind: str, says: str) -> None:
    report, _ = Own(tmp_path, body).run()
    (bug,) = report.bugs
    assert (bug.kind, says in bug.message) == (kind, True), bug
    assert bug.line is not None
    assert bug.line >= 8


def test_a_block_larger_than_the_bound_that_its_kernel_declares_is_refused(tmp_path: Path) -> None:
    for bound, ok in (("32, 2", True), ("B / 2", False)):
        text = HEAD + KERNEL.replace("__global__ void", f"__global__ void __launch_bounds__({bound})") % "PUT(1);"
        report, _ = Own(tmp_path, "", text=text).run()
        assert report.ok == ok
        assert ok or report.bugs[0].message == "a block of 32 threads, and __launch_bounds__ says 16 at most"


def test_as_much_static_shared_memory_as_there_is_may_be_declared(tmp_path: Path) -> None:
    check(Own(tmp_path, "__shared__ float s[12288]; s[t] = t; PUT(s[t]);"), [T])


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("__shared__ float s[32], z[32]; z[t] = s[t] = t; PUT(s[t + 1]);", "out_of_bounds_shared", "byte 128 of s (128 bytes"),
        ("__shared__ float s[32]; s[t] = t; PUT(s[t - 1]);", "out_of_bounds_shared", "byte -4 of s (128 bytes"),
        ("PUT(x[t + 1]);", "out_of_bounds_global", "past the end of input 0"),
    ],
)  # fmt: skip
def test_reads_next_to_an_array_are_found_at_their_line(tmp_path: Path, body: str, kind: str, says: str) -> None:
    report, _ = Own(tmp_path, body).run(sanitize=("address",))
    if report.unchecked:
        pytest.skip(report.unchecked)
    (bug,) = report.bugs
    assert (bug.kind, bug.line, says in bug.message) == (kind, 8, True), bug

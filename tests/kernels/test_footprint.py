"""The footprint's numbers against counts from an instrumented build, and its shape."""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.core import Candidate, Schedule, Target, Task
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import Program
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged, divided
from tilewright.kernels.loopnest.footprint import FEATURES, footprint
from tilewright.kernels.templates import TEMPLATES, get_template
from tilewright.testing import programs
from tilewright.testing.kernels import launch_values, random_arrays, task_of

BACKEND = get_backend("cpu")
PORTABLE = Target("cpu", "portable", "x86_64", (), 16, 16, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=16 << 20)

# Values that count: Number is one float, Many a vector of them, Cell a float in memory.
INSTRUMENTS = """
static long long counts[3];  // flops, loads, stores
struct Number { float v; Number() = default; Number(float x) : v(x) {} };
struct Cell { float v; operator Number() const { counts[1]++; return v; }
              Cell &operator=(Number x) { counts[2]++; v = x.v; return *this; } };
#define OP(o) static inline Number operator o(Number a, Number b) { counts[0]++; return a.v o b.v; }
OP(+) OP(-) OP(*) OP(/)
static inline Number operator-(Number a) { counts[0]++; return -a.v; }
static inline bool operator>(Number a, Number b) { return a.v > b.v; }
static inline bool operator<(Number a, Number b) { return a.v < b.v; }
static inline bool operator!=(Number a, Number b) { return a.v != b.v; }
template <int L> struct Many { float v[L]; };
#define VOP(o) template <int L> static inline Many<L> operator o(Many<L> a, Many<L> b) { \\
    counts[0] += L; for (int l = 0; l < L; l++) a.v[l] = a.v[l] o b.v[l]; return a; } \\
  template <int L> static inline Many<L> operator o(Many<L> a, Number b) { return a o cn::splat<Many<L>>(b); } \\
  template <int L> static inline Many<L> operator o(Number a, Many<L> b) { return cn::splat<Many<L>>(a) o b; }
namespace cn {
template <class M> static inline M splat(Number x) { M m; for (float &e : m.v) e = x.v; return m; }
}
VOP(+) VOP(-) VOP(*) VOP(/)
namespace cn {
template <class M> static inline M load(const Cell *p) {
  M m; counts[1] += sizeof(M) / 4; for (unsigned l = 0; l < sizeof(M) / 4; l++) m.v[l] = p[l].v; return m; }
template <class M> static inline M load_n(const Cell *p, long n) {
  M m = {}; counts[1] += n; for (long l = 0; l < n; l++) m.v[l] = p[l].v; return m; }
template <class M> static inline M load_step(const Cell *p, long s, long n = sizeof(M) / 4) {
  M m = {}; counts[1] += n; for (long l = 0; l < n; l++) m.v[l] = p[l * s].v; return m; }
template <int L> static inline void store_step(Cell *p, long s, Many<L> m, long n = L) {
  counts[2] += n; for (long l = 0; l < n; l++) p[l * s].v = m.v[l]; }
template <int L> static inline void store(Cell *p, Many<L> m) {
  counts[2] += L; for (int l = 0; l < L; l++) p[l].v = m.v[l]; }
template <int L> static inline void store_n(Cell *p, Many<L> m, long n) {
  counts[2] += n; for (long l = 0; l < n; l++) p[l].v = m.v[l]; }
template <class T> static inline Number max(Number a, Number b) { counts[0]++; return a.v > b.v ? a : b; }
template <class M> static inline M max(M a, M b) {
  for (unsigned l = 0; l < sizeof(M) / 4; l++) a.v[l] = max<Number>(a.v[l], b.v[l]).v; return a; }
static inline Number abs(Number x) { counts[0]++; return x.v < 0 ? -x.v : x.v; }
static inline Number exp(Number x) { counts[0]++; return __builtin_expf(x.v); }
static inline Number erf(Number x) { counts[0]++; return __builtin_erff(x.v); }
#define MANY(f) template <int L> static inline Many<L> f(Many<L> m) { \\
  counts[0] += L; for (float &e : m.v) e = f(Number(e)).v; counts[0] -= L; return m; }
MANY(abs) MANY(exp) MANY(erf)
}
extern "C" __attribute__((visibility("default"))) long long *tw_counts() { return counts; }
"""


@dataclass(frozen=True)
class Counts:
    flops: int
    loads: int
    stores: int


def measure(task: Task, schedule: Schedule, program: Program) -> Counts:
    """Run a kernel of the generic template with every float replaced by one that counts."""
    candidate = Candidate(task, schedule)
    kernel = get_template(schedule.template).lower(candidate)
    source = re.sub(r"(const )?\bfloat \*", r"\1Cell *", kernel.source)
    source = re.sub(r"tw::vec<float, (\d+)>", r"Many<\1>", source)
    source = re.sub(r"\bfloat\b", "Number", source)
    source = re.sub(r"tw::(load|load_n|load_step|store|store_n|store_step|splat|max|abs|exp|erf)\b", r"cn::\1", source)
    library = ctypes.CDLL(BACKEND.build([prelude(task.target), INSTRUMENTS, source], task.target).path)
    library.tw_counts.restype = ctypes.POINTER(ctypes.c_longlong * 3)
    arrays = [*random_arrays(program), np.zeros(program.output.shape, np.float32)]
    workspace = np.zeros(1 << 16, np.uint8)
    values = [launch_values(candidate)[a] for a in kernel.program.launches[0].arguments]

    class Env(ctypes.Structure):
        _fields_ = (("parallel_for", ctypes.c_void_p), ("pool", ctypes.c_void_p), ("threads", ctypes.c_long))

    library.tw_counts().contents[:] = [0, 0, 0]  # an equal library may be loaded already
    code = getattr(library, kernel.symbol)(
        (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)),
        (ctypes.c_longlong * max(1, len(values)))(*values),
        ctypes.c_void_p(workspace.ctypes.data),
        ctypes.byref(Env(None, None, 1)),
    )
    assert code == 0
    return Counts(*library.tw_counts().contents)


# Sizes that vectors of 4 divide: lanes of a masked tail would count as work.
CASES: dict[str, Callable[[], Program]] = {
    "matmul": lambda: programs.matmul(8, 24, 5),
    "matmul_epilogue": lambda: programs.matmul_epilogue(4, 16, 7),
    "chebyshev": lambda: programs.chebyshev(8, 12, 5),
    "softmax": lambda: programs.softmax(8, 16),
}


@pytest.mark.parametrize("case", CASES)
def test_counts_of_an_instrumented_build(case: str) -> None:
    program = CASES[case]()
    task = task_of(program, PORTABLE)
    template = TEMPLATES["cpu_generic"]
    rng = random.Random(case)
    space = template.space(task)
    # Sums across lanes do fewer additions than points, by design: leave those schedules out.
    drawn = (space.sample(rng) for _ in range(10_000))
    wanted = [s for s in drawn if not any(str(v).startswith("r") for k, v in s.structure if k.endswith("_vector"))]
    for schedule in [
        *wanted[:3],
        *[s for s in wanted if any(k.endswith("_vector") and v != "none" for k, v in s.structure)][:2],
    ]:
        f = footprint(template.nests(task, schedule), PORTABLE)
        seen = measure(task, schedule, program)
        assert f["flops"] == seen.flops, dict(schedule.values)
        assert f["stores"] == seen.stores
        # A read that is the same in all lanes is one scalar read for the whole vector.
        if f["vector.share"] == 0:
            assert f["loads"] == seen.loads, dict(schedule.values)
        else:
            assert f["loads"] / 4 <= seen.loads <= f["loads"]


@cache
def every_task() -> list[Task]:
    targets = [Target("cpu", "portable", "x86_64", (), 16, 16, threads) for threads in (1, 3)]
    return [task_of(program, t) for program in (build() for build in programs.PROGRAMS.values()) for t in targets]


@pytest.mark.parametrize("template", TEMPLATES)
def test_names_and_values_for_every_template(template: str) -> None:
    rng, made = random.Random(5), TEMPLATES[template]
    for task in every_task():
        if not made.matches(task):
            continue
        for _ in range(2):
            nests = made.nests(task, made.space(task).sample(rng))
            f = footprint(nests, task.target)
            assert tuple(f) == tuple(FEATURES)
            assert all(np.isfinite(v) and v >= 0 and isinstance(v, float) for v in f.values()), f
            for share in ("parallel.share", "vector.useful", "vector.share", "block.useful", "vector.even"):
                assert 0 <= f[share] <= 1, share
            assert f["bytes.l2"] >= f["bytes.l3"] >= 0


def tiled(m: int, n: int, k: int, bm: int, bk: int) -> LoopNest:
    """c[i, j] += a[i, k] b[k, j]: blocks of i and k, a register tile of 4 by 8."""
    i, j, r = axis("i"), axis("j"), axis("k")
    return LoopNest(
        "c",
        {"i": m, "j": n, "k": k},
        (
            Loop("k", k, bk, level="l2"), Loop("i", m, bm, level="l2"), Loop("j", n, 8), Loop("i", bm, 4),
            Loop("k", bk, 1), Loop("i", 4, 1, "unroll"), Loop("j", 8, 1, "vector"),
        ),
        (Access("a", (i, r), "float32"), Access("b", (r, j), "float32"), Access("c", (i, j), "float32", store=True)),
    )  # fmt: skip


def test_numbers_worked_out_by_hand() -> None:
    target = Target("cpu", "x", "x86_64", (), 32, 16, l1_bytes=4 << 10, l2_bytes=64 << 10, l3_bytes=1 << 20)
    f = footprint([tiled(64, 64, 64, 64, 64)], target)
    assert f["flops"] == 2 * 64**3
    assert f["points"] == 64**3
    assert f["loads"] == 2 * 64**3
    assert f["stores"] == 64 * 64
    # Each trip of the k loop reads 4 of a and 8 of b; the tile of c stays in registers.
    assert f["bytes.l1"] == 4 * ((4 + 8) * 64**3 / 32 + 64 * 64)
    assert f["bytes.compulsory"] == 3 * 64 * 64 * 4
    # All of it fits L2: nothing moves beyond.
    assert (f["bytes.l3"], f["bytes.memory"]) == (0, 0)
    # Inside the loop over i (4 rows of a, 8 columns of b in 64-byte lines, c): fits L1 without b's lines only.
    assert f["work.1"] == 4 * 64 * 4 + 64 * 64 + 4 * 64
    assert (f["block.points"], f["block.outputs"], f["block.registers"]) == (32, 32, 4)
    assert (f["vector.length"], f["vector.useful"], f["unroll"]) == (8, 1, 4)
    assert f["trips.inner"] == 64
    assert f["iterations"] == 64**3 / 32
    assert f["stores.repeated"] == 1
    assert f["parallel"] == 1


def test_blocking_the_reduction_repeats_the_stores() -> None:
    f = footprint([tiled(64, 64, 64, 64, 16)], PORTABLE)
    assert f["stores.repeated"] == 4
    assert f["stores"] == 4 * 64 * 64


def test_traffic_falls_with_blocks_that_fit() -> None:
    target = Target("cpu", "x", "x86_64", (), 32, 16, l1_bytes=16 << 10, l2_bytes=128 << 10, l3_bytes=1 << 30)
    plain = footprint([tiled(1024, 1024, 1024, 1024, 1024)], target)
    blocked = footprint([tiled(1024, 1024, 1024, 64, 128)], target)
    assert blocked["bytes.l2"] < plain["bytes.l2"]
    assert blocked["bytes.l3"] < plain["bytes.l3"] / 2
    assert blocked["reuse.l2"] > plain["reuse.l2"]
    assert plain["bytes.compulsory"] == blocked["bytes.compulsory"]


def test_rows_a_power_of_two_apart_fill_few_sets_and_a_page_each() -> None:
    # 64 sets in L1, so that all 64 rows begin in one set where they are 4096 bytes apart; and the panels fit otherwise.
    target = Target("cpu", "x", "x86_64", (), 64, 32, l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=1 << 25)

    def of(width: int) -> dict[str, float]:
        i, j, r = axis("i"), axis("j"), axis("k")
        reads = (
            Access("a", (i, r), "float32"), Access("b", (r, j), "float32"), Access("c", (i, j), "float32", store=True)
        )  # fmt: skip
        loops = (Loop("j", width, 16), Loop("i", 64, 4), Loop("k", 64, 1), Loop("i", 4, 1, "unroll"),
                 Loop("j", 16, 1, "vector"))  # fmt: skip
        return footprint([LoopNest("c", {"i": 64, "j": width, "k": 64}, loops, reads)], target)

    apart, even = of(1024), of(1040)
    assert apart["bytes.l2"] == pytest.approx(even["bytes.l2"], rel=0.05)
    assert even["sets.l2"] == even["bytes.l2"]
    assert apart["sets.l2"] > 2 * apart["bytes.l2"]
    # Each of the 64 column tiles visits a page in each of the 64 rows of b, more than are kept in mind.
    assert apart["pages.streams"] >= 64 * 64


def test_reads_of_a_block_are_vectors_and_single_elements() -> None:
    target = Target("cpu", "x", "x86_64", (), 32, 16)
    f = footprint([tiled(64, 64, 64, 64, 64)], target)
    # 4 of a and one vector of b for every 4 by 8 block of c and every k; rows of 64 floats begin at lines.
    assert f["reads.block"] == 5 * (64 / 4) * (64 / 8) * 64
    assert f["reads.split"] == 0
    assert footprint([tiled(64, 63, 64, 64, 64)], target)["reads.split"] > 0


def test_windows_that_are_copied_apart_take_the_bytes_of_every_use() -> None:
    i, r = axis("i"), axis("r")
    reads = (Access("x", (i + r,), "float32"), Access("y", (i,), "float32", store=True))
    loops = (Loop("i", 96, 1), Loop("r", 32, 1))

    def of(size: int, moves: float) -> dict[str, float]:
        staged = (Staged("x", 0, Layout.row_major(size), "l1", moves),)
        return footprint([LoopNest("y", {"i": 96, "r": 32}, loops, reads, staged)], PORTABLE)

    apart, once = of(96 * 32, 2.0), of(96 + 31, 2.0)
    assert apart["moves.staged"] == 2 * 96 * 32
    assert once["moves.staged"] == 2 * (96 + 31)
    assert of(127, 0.0)["moves.staged"] == 0
    assert apart["pages.first"] >= once["pages.first"]


def test_overlapping_windows_count_once() -> None:
    i, r = axis("i"), axis("r")
    reads = (Access("x", (i + r,), "float32"), Access("y", (i,), "float32", store=True))
    f = footprint([LoopNest("y", {"i": 100, "r": 5}, (Loop("i", 100, 1), Loop("r", 5, 1)), reads)], PORTABLE)
    assert f["bytes.compulsory"] == (104 + 100) * 4
    strided = (Access("x", (i * 2 + r,), "float32"), reads[1])
    f = footprint([LoopNest("y", {"i": 100, "r": 5}, (Loop("i", 100, 1), Loop("r", 5, 1)), strided)], PORTABLE)
    assert f["bytes.compulsory"] == (2 * 99 + 5 + 100) * 4


def test_split_axes_and_gathers() -> None:
    i, j = axis("i"), axis("j")
    whole = i * 8 + j
    fused = (Access("x", (whole // 4, whole % 4), "float32"), Access("y", (i, j), "float32", store=True))
    f = footprint([LoopNest("y", {"i": 4, "j": 8}, (Loop("i", 4, 1), Loop("j", 8, 1)), fused)], PORTABLE)
    assert f["bytes.compulsory"] == 2 * 32 * 4
    task = task_of(programs.gather(), PORTABLE)
    template = TEMPLATES["cpu_generic"]
    f = footprint(template.nests(task, template.default(task)), PORTABLE)
    assert f["loads"] == 2 * 21 * 6  # the table and its index


def test_rows_of_a_flat_tensor_are_counted_like_those_of_a_matrix() -> None:
    i, j = axis("i"), axis("j")
    loops = (Loop("i", 64, 4), Loop("j", 128, 16), Loop("i", 4, 1), Loop("j", 16, 1, "vector"))
    small = Target("cpu", "x", "x86_64", (), 32, 16, l1_bytes=1 << 10, l2_bytes=4 << 10, l3_bytes=1 << 20)

    def of(*at: Expr) -> dict[str, float]:
        accesses = (Access("x", at, "float32"), Access("y", at, "float32", store=True))
        return footprint([LoopNest("y", {"i": 64, "j": 128}, loops, accesses)], small)

    assert of(i * 128 + j) == of(i, j)


def test_work_is_divided_among_tasks_from_the_outermost_loop_on() -> None:
    loops = [Loop("i", 4, 1, "chunked"), Loop("j", 10, 2, "chunked"), Loop("k", 7, 1)]
    assert divided(loops, 1) == (Loop("i", 4, 1), Loop("j", 10, 2), Loop("k", 7, 1))
    assert divided(loops, 8) == (
        Loop("i", 4, 1, "parallel", "l2"), Loop("j", 10, 6, "parallel", "l2"), Loop("j", 6, 2), Loop("k", 7, 1),
    )  # fmt: skip


def test_parallel_tasks_and_threads() -> None:
    i = axis("i")
    reads = (Access("x", (i,), "float32"), Access("y", (i,), "float32", store=True))
    nest = LoopNest("y", {"i": 100}, (Loop("i", 100, 20, "parallel"), Loop("i", 20, 1)), reads)
    f = footprint([nest], Target("cpu", "x", "x86_64", (), 16, 16, threads=4))
    assert f["parallel"] == 5
    assert f["parallel.share"] == 5 / 8
    assert f["depth.parallel"] == 1


def test_footprints_of_staged_copies_are_counted() -> None:
    base = tiled(64, 64, 64, 16, 64)
    staged = Staged("a", 2, Layout.row_major(16, 64), "l2")
    f = footprint([LoopNest(base.name, base.axes, base.loops, base.accesses, (staged,))], PORTABLE)
    assert f["bytes.staged"] == 4 * 16 * 64 * 4  # four blocks of i
    before = Staged("a", None, Layout.row_major(64, 64), "l2")
    f = footprint([LoopNest(base.name, base.axes, base.loops, base.accesses, (before,))], PORTABLE)
    assert f["bytes.staged"] == 0  # it was copied before the first call


def test_several_nests_add_up() -> None:
    one, two = tiled(32, 32, 32, 32, 32), tiled(32, 32, 32, 32, 32)
    single, both = footprint([one], PORTABLE), footprint([one, two], PORTABLE)
    for name in ("flops", "points", "loads", "stores", "bytes.l1", "iterations"):
        assert both[name] == 2 * single[name], name
    assert both["nests"] == 2


def test_results_do_not_depend_on_what_was_asked_before() -> None:
    task = task_of(programs.conv2d(), PORTABLE)
    template = TEMPLATES["cpu_generic"]
    schedule = template.default(task)
    before = footprint(template.nests(task, schedule), PORTABLE)
    for _ in range(3):
        footprint(template.nests(task, template.space(task).sample(random.Random(1))), PORTABLE)
    assert footprint(template.nests(task, schedule), PORTABLE) == before

"""The Tensor Core template: its contract on the emulator, what it matches, and what it chooses."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.backends.cuda.archs import VARIANTS
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.emulator import build, run
from tilewright.core import Candidate, IllegalSchedule, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, full_source, templates_for
from tilewright.kernels.templates.cuda_mma.match import match
from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.cuda_template import CudaTemplateContract, empty_output
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of

MMA = CUDA_MMA


def factor(x: te.Expr) -> te.Expr:
    """An element as Tensor Cores multiply it."""
    return te.round_tf32(x) if x.dtype == "float32" else te.cast(x, "int32" if x.dtype == "int8" else "float32")


def product(dtype: str, m: int, n: int, k: int, rows: str = "mk", columns: str = "kn", out: str = "") -> Program:
    """A matrix product: ``rows`` and ``columns`` name the operands' axes, the outer one first."""
    size = {"m": m, "n": n, "k": k}
    x, y = (te.input(name, (size[o[0]], size[o[1]]), dtype) for name, o in (("x", rows), ("y", columns)))

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        at = {"m": i, "n": j, "k": r}
        return factor(x[at[rows[0]], at[rows[1]]]) * factor(y[at[columns[0]], at[columns[1]]])

    z = te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r)))
    return te.program(te.compute((m, n), lambda i, j: te.cast(z[i, j], out)) if out else z)[0]


def batched() -> Program:
    """A batch axis inside of a row, which no vector crosses."""
    x, y = te.input("x", (9, 3, 24), "bfloat16"), te.input("y", (3, 24, 40), "bfloat16")
    return te.program(te.compute((9, 3, 40), lambda i, b, j: te.sum(
        24, lambda r: factor(x[i, b, r]) * factor(y[b, r, j]))))[0]  # fmt: skip


def conv_nhwc(dtype: str = "float16") -> Program:
    """Padded, strided and dilated, channels innermost: vectors of channels under one guard."""
    c, o, h, w = 16, 24, 7, 6
    x, f = te.input("x", (2, h, w, c), dtype), te.input("f", (3, 3, c, o), dtype)

    def at(b: te.Expr, y: te.Expr, z: te.Expr, q: te.Expr) -> te.Expr:
        return factor(te.select((y >= 0) & (y < h) & (z >= 0) & (z < w), x[b, y, z, q], 0))

    z = te.compute((2, 4, 4, o), lambda b, i, j, p: te.sum((3, 3, c), lambda r, s, q: at(
        b, i * 2 + r - 1, j * 2 + s * 2 - 2, q) * factor(f[r, s, q, p])))  # fmt: skip
    return te.program(te.compute((2, 4, 4, o), lambda b, i, j, p: te.cast(z[b, i, j, p], dtype)))[0]


def conv_nchw() -> Program:
    """Channels outermost: a guard that changes from element to element, in both directions."""
    x, f = te.input("x", (2, 3, 6, 7), "bfloat16"), te.input("f", (20, 3, 3, 3), "bfloat16")

    def at(b: te.Expr, c: te.Expr, y: te.Expr, z: te.Expr) -> te.Expr:
        inside = (y >= 0) & (y < 6) & (z >= 0) & (z < 7)
        return te.select(inside, factor(x[b, c, y, z]), 0.0)

    return te.program(te.compute((2, 20, 6, 7), lambda b, o, i, j: te.sum((3, 3, 3), lambda c, r, s: at(
        b, c, i + r - 1, j + s - 1) * factor(f[o, c, r, s]))))[0]  # fmt: skip


def dense() -> Program:
    """Bias, an activation and a residual, all 16-bit."""
    x, y = te.input("x", (20, 64), "bfloat16"), te.input("y", (48, 64), "bfloat16")
    bias, more = te.input("bias", (48,), "bfloat16"), te.input("more", (20, 48), "bfloat16")
    z = te.compute((20, 48), lambda i, j: te.sum(64, lambda r: factor(x[i, r]) * factor(y[j, r])))

    def finish(i: te.Expr, j: te.Expr) -> te.Expr:
        v = z[i, j] + te.cast(bias[j], "float32")
        return te.cast(v / (1.0 + te.exp(-v)) + te.cast(more[i, j], "float32"), "bfloat16")

    return te.program(te.compute((20, 48), finish))[0]


def quantised() -> Program:
    """8-bit operands, a scale, and a saturated 8-bit result."""
    x, y = te.input("x", (24, 64), "int8"), te.input("y", (32, 64), "int8")
    z = te.compute((24, 32), lambda i, j: te.sum(64, lambda r: factor(x[i, r]) * factor(y[j, r])))
    q = te.compute((24, 32), lambda i, j: te.floor(te.cast(z[i, j], "float32") * 0.5))
    return te.program(te.compute((24, 32), lambda i, j: te.cast(
        te.minimum(te.maximum(q[i, j], -128.0), 127.0), "int8")))[0]  # fmt: skip


LAYOUTS = tuple((a, b) for a in ("mk", "km") for b in ("kn", "nk"))
OUT = {"bfloat16": "bfloat16", "float16": "float16", "float32": "", "int8": ""}

PRODUCTS: dict[str, Callable[[], Program]] = {
    f"{dtype}_{a}_{b}_{label}": lambda dtype=dtype, size=size, a=a, b=b: product(dtype, *size, a, b, OUT[dtype])
    for dtype in OUT
    for a, b in LAYOUTS
    for label, size in (("odd", (33, 39, 71)), ("even", (48, 40, 80)))
    # Two 16-bit types differ in one instruction: every layout of one is enough.
    if dtype != "float16" or (a, b) == ("mk", "kn")
}
PRODUCTS |= {
    "row": lambda: product("bfloat16", 1, 40, 136, out="bfloat16"),
    "column": lambda: product("float16", 70, 1, 33, "km", "nk"),
    "shallow": lambda: product("int8", 5, 7, 1),
    "pairs": lambda: product("bfloat16", 18, 22, 70, "km", "nk"),
    **{f.__name__: f for f in (batched, conv_nhwc, conv_nchw, dense, quantised)},
}


QUICK = {
    name: build
    for name, build in PRODUCTS.items()
    if not name.endswith("_even") or name.startswith(("bfloat16_km_nk", "float32_km_kn", "int8_mk_kn"))
}


class TestContract(CudaTemplateContract):
    """Every layout of every dtype at odd sizes; aligned ones where they take another path."""

    templates = ("cuda_mma",)
    programs = QUICK


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_mma",)
    programs = PRODUCTS
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 12


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_mma",)
    programs = PRODUCTS
    schedules = 3
    sanitize = ("address", "undefined")


# --------------------------------------------------------------------------- what matches


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_match(name: str) -> None:
    found = match(PRODUCTS[name]().dumps())
    assert found is not None
    assert found.instruction.dtype in OUT


OTHERS = (
    "matmul", "matmul_epilogue", "conv2d", "doubles", "long_integers", "scaled", "squared_distance", "products", "least",
    "gathered", "depthwise", "rows", "fused",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_contractions_are_left_to_ordinary_units(name: str) -> None:
    """Float32 without TF32 rounding, other bodies, other reductions, scales inside of the sum."""
    task = task_of(CONTRACTIONS[name](), cuda_target("sm_80"))
    assert not MMA.matches(task)
    with pytest.raises(IllegalSchedule, match="no product"):
        MMA.space(task)


def _simple(term: Callable[[te.Expr, te.Expr], te.Expr], x: str, y: str) -> Program:
    a, b = te.input("x", (16, 32), x), te.input("y", (32, 16), y)
    return te.program(te.compute((16, 16), lambda i, j: te.sum(32, lambda r: term(a[i, r], b[r, j]))))[0]


@pytest.mark.parametrize(
    ("term", "x", "y"),
    [
        (lambda a, b: te.cast(a, "int32") * te.cast(b, "int32"), "uint8", "uint8"),
        (lambda a, b: te.cast(a, "float32") * te.cast(b, "float32"), "float16", "bfloat16"),
        (lambda a, b: te.round_tf32(a) * b, "float32", "float32"),
        (lambda a, b: te.cast(a, "float64") * te.cast(b, "float64"), "float16", "float16"),
        (lambda a, b: te.cast(a, "float32") * te.cast(b, "float32"), "int8", "int8"),
        (lambda a, b: te.cast(a, "float32") * te.cast(b, "float32") * 2.0, "float16", "float16"),
        (lambda a, b: te.cast(a, "float32") - te.cast(b, "float32"), "float16", "float16"),
    ],
)
def test_near_misses(term: Callable[[te.Expr, te.Expr], te.Expr], x: str, y: str) -> None:
    assert match(_simple(term, x, y).dumps()) is None


def test_a_padding_other_than_zero_is_no_product() -> None:
    x, y = te.input("x", (16, 32), "float16"), te.input("y", (32, 16), "float16")
    bad = te.compute((16, 16), lambda i, j: te.sum(32, lambda r: te.select(
        r < i, te.cast(x[i, r], "float32"), 1.0) * te.cast(y[r, j], "float32")))  # fmt: skip
    assert match(te.program(bad)[0].dumps()) is None


def test_it_comes_before_ordinary_units() -> None:
    task = _matmul(64, 64, 64)
    assert [t.name for t in templates_for(task)][:2] == ["cuda_mma", "cuda_simt"]
    assert default_schedule(task).template == "cuda_mma"


# --------------------------------------------------------------------------- schedules


def _matmul(m: int, n: int, k: int, variant: str = "sm_90a", dtype: str = "bfloat16", **more: object) -> Task:
    if dtype == "float32":
        more["precision"] = "tf32"
    workload = get_operator("matmul").workload(m=m, n=n, k=k, dtype=dtype, **more)
    return Task(workload, cuda_target(variant))


SHAPES = (
    (4096, 4096, 4096), (8192, 8192, 8192), (1, 4096, 4096), (8, 4096, 4096), (16, 4096, 4096), (64, 4096, 4096),
    (1000, 37, 513), (4095, 4095, 4095), (49, 512, 4608), (3136, 64, 576),
)  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_defaults_of_the_usual_shapes(variant: str) -> None:
    """Legal everywhere; enough blocks for the machine, and large tiles where there is work for them."""
    for dtype in OUT if variant == "sm_90a" else ("bfloat16",):
        for m, n, k in SHAPES:
            task = _matmul(m, n, k, variant, dtype)
            schedule = MMA.default(task)
            MMA.space(task).check(schedule)
            p = MMA.plan(MMA.found(task.workload.program), task.target, schedule.values)
            if m >= 4095:
                assert p.bm * p.bn >= 128 * 128
                assert not p.split_k
            if m <= 16:
                assert p.bm == 16
            if (m, n) == (49, 512):
                assert p.split_k
    assert MMA.default(_matmul(4095, 4095, 4095, variant)).values["copy_b"] == "pack"


@pytest.mark.parametrize("dtype", OUT)
def test_members_keep_within_the_machine(dtype: str) -> None:
    rng = random.Random(dtype)
    for layout in ({}, {"trans_a": True, "trans_b": True}):
        for variant in ("sm_80", "sm_90a", "sm_120"):
            task = _matmul(1000, 513, 260, variant, dtype, **layout)
            limits = task.target.limit
            space = MMA.space(task)
            assert space.size > 1000
            for schedule in (space.sample(rng) for _ in range(10)):
                p = MMA.plan(MMA.found(task.workload.program), task.target, schedule.values)
                blocks = p.min_blocks
                assert p.shared <= limits["shared_per_block"]
                assert blocks * (p.shared + limits["shared_reserved"]) <= limits["shared_per_sm"]
                assert p.registers <= 255
                assert p.registers * p.threads * blocks <= limits["registers_per_sm"]
                assert p.threads * blocks <= limits["threads_per_sm"]
                for s in p.sides:
                    assert s.direct == (s.copy > 0)
                    assert s.copy <= s.source.vector * s.item
                    assert s.rounds(p.threads) <= 16 or not s.direct


def test_rules_say_why() -> None:
    task = _matmul(4096, 4096, 4096, "sm_120")
    space = MMA.space(task)
    good = dict(MMA.default(task).values)
    for change, reason in (
        ({"WARPS_M": 8, "BM": 64}, "a warp has at least 16 rows"),
        ({"WARPS_N": 1, "WARPS_M": 1}, "accumulators"),
        ({"BK": 128, "STAGES": 5}, "shared memory"),
        ({"min_blocks": 3}, "shared memory"),
        ({"split_k": True}, "split_k says"),
    ):
        with pytest.raises(IllegalSchedule, match=reason):
            space.schedule({**good, **change})


def test_alignment_is_that_of_the_widest_access() -> None:
    def align(k: int, copy: str) -> int:
        task = _matmul(64, 63, k, trans_b=True)
        values = {**MMA.default(task).values, "copy_a": copy, "copy_b": copy}
        return MMA.lower(Candidate(task, MMA.space(task).schedule(values))).program.align

    assert align(64, "async16") == 16
    assert align(68, "async8") == 8
    assert align(66, "async4") == 4
    assert align(65, "gather") == align(65, "pack") == 2


# --------------------------------------------------------------------------- memory


@pytest.mark.parametrize("dtype", OUT)
@pytest.mark.parametrize("layout", [(False, False), (True, True)])
def test_default_schedules_waste_no_shared_or_global_memory_cycles(dtype: str, layout: tuple[bool, bool]) -> None:
    """Aligned shapes: ``ldmatrix`` without bank conflicts, whole sectors in every global access."""
    task = _matmul(128, 128, 128, "sm_90a", dtype, trans_a=layout[0], trans_b=layout[1])
    program = Program.loads(task.workload.program)
    candidate = Candidate(task, MMA.default(task))
    made = MMA.lower(candidate)
    symbols = [x.symbol for x in made.program.launches]
    kernel = build(full_source(candidate, emulated=True), symbols, profile=True)
    inputs = random_arrays(program, 3)
    got = empty_output(program.output.shape, program.output.dtype)
    report = run(kernel, made.program, launch_values(candidate), inputs, got)
    assert report.ok, report.bugs
    check(program, inputs, got)
    profile = report.profile
    assert profile["ldmatrix_conflicts"] == 0
    assert profile["idle_stages"] == 0 or profile["waits"] > 0
    for kind in ("global_load", "global_store"):
        assert profile[kind]["sectors"] == profile[kind]["ideal_sectors"], (kind, profile["lines"])


def test_numbers_of_a_schedule() -> None:
    task = _matmul(4096, 4096, 4096)
    numbers = MMA.static(task, MMA.default(task))
    assert numbers["tensor_core"] == 1
    assert numbers["waves"] == pytest.approx(512 / 132)
    assert numbers["shared_bytes"] == 4 * (128 + 256) * 64 * 2
    assert np.isclose(numbers["shared_bytes_per_flop"], 2 * (64 + 64) / (2 * 64 * 64))

"""Convolutions whose channels are outermost, rearranged first: the rewrite, the template, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from mma_programs import factor

from harness.nvrtc import measured, spilled
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.emulator import run
from tilewright.core import Candidate, IllegalSchedule, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.primitives.mma_types import ROUNDING
from tilewright.kernels.reference import evaluate
from tilewright.kernels.rewrite.layout_transform import channels_last, side_by_side
from tilewright.kernels.templates import default_schedule, templates_for
from tilewright.kernels.templates.partition import k_contiguous
from tilewright.kernels.templates.partition.template import CUDA_RELAID
from tilewright.testing.cuda_template import CudaTemplateContract, empty_output, emulated
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of


def conv(dtype: str = "bfloat16", **params: object) -> Program:
    sizes = {"n": 2, "ci": 16, "h": 7, "w": 9, "co": 24, "kh": 3, "kw": 3, "padding": 1, "dtype": dtype, **params}
    return Program.loads(get_operator("conv2d").workload(**sizes).program)


def line() -> Program:
    """One dimension, strided, and what follows the sum."""
    x, f = te.input("x", (3, 8, 40), "float16"), te.input("f", (20, 8, 5), "float16")
    bias = te.input("bias", (20,), "float32")
    z = te.compute(
        (3, 20, 18), lambda b, o, i: te.sum((8, 5), lambda c, r: factor(x[b, c, i * 2 + r]) * factor(f[o, c, r]))
    )
    return te.program(te.compute((3, 20, 18), lambda b, o, i: te.maximum(z[b, o, i] + bias[o], 0.0)))[0]


def sums() -> Program:
    """Whole numbers."""
    x, f = te.input("x", (2, 16, 21), "int8"), te.input("f", (9, 16, 4), "int8")
    z = te.compute(
        (2, 9, 18), lambda b, o, i: te.sum((16, 4), lambda c, r: factor(x[b, c, i + r]) * factor(f[o, c, r]))
    )
    return te.program(z)[0]


CONVOLUTIONS: dict[str, Callable[[], Program]] = {
    "padded": conv,
    "weights once": lambda: conv(constant="weight"),
    "strided": lambda: conv("float16", stride=2, dilation=2, bias=True, activation="relu"),
    "bytes": sums,
    "doubles": lambda: conv("float64", padding=0),
    "line": line,
}


class TestContract(CudaTemplateContract):
    templates = ("cuda_relaid",)
    programs = CONVOLUTIONS
    targets = ("sm_80",)


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_relaid",)
    programs = CONVOLUTIONS
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 8


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_rearranged_program_is_the_same(name: str) -> None:
    program = CONVOLUTIONS[name]()
    found = channels_last(program)
    assert found is not None
    other, copies = found
    assert copies == 2
    assert [len(s.reduce) for s in other.stages[:2]] == [0, 0]
    inputs = random_arrays(program, 1)
    np.testing.assert_allclose(evaluate(other, inputs), evaluate(program, inputs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "program",
    [
        lambda: conv(layout="NHWC"),
        lambda: conv(kh=1, kw=1, padding=0),
        lambda: conv(groups=16, co=16),
        lambda: Program.loads(get_operator("matmul").workload(m=8, n=8, k=8, dtype="bfloat16").program),
        lambda: Program.loads(get_operator("softmax").workload(shape=(4, 8)).program),
    ],
    ids=["channels last", "one tap", "in groups", "product", "rows"],
)
def test_nothing_else_is_rearranged(program: Callable[[], Program]) -> None:
    assert channels_last(program()) is None


def test_cuda_relaid_is_the_default_where_vectors_of_channels_are_whole() -> None:
    def task(variant: str = "sm_80", **params: object) -> Task:
        sizes = {
            "n": 2,
            "ci": 16,
            "h": 7,
            "w": 9,
            "co": 24,
            "kh": 3,
            "kw": 3,
            "padding": 1,
            "dtype": "bfloat16",
            **params,
        }
        return Task(get_operator("conv2d").workload(**sizes), cuda_target(variant))

    for variant in ("sm_80", "sm_90a", "sm_120"):
        assert default_schedule(task(variant)).template == "cuda_relaid"
    assert default_schedule(task(dtype="float64")).template == "cuda_relaid"
    # Ordinary units read float64 as it lies.
    ordinary = task("sm_86", dtype="float64")
    for other in (task(ci=3), task(ci=20), task(dtype="float32"), task(layout="NHWC"), ordinary):
        assert "cuda_relaid" not in [t.name for t in templates_for(other)]
    with pytest.raises(IllegalSchedule, match="no input to rearrange"):
        CUDA_RELAID.program(task(layout="NHWC"))


def test_both_copies_are_one_launch_where_their_blocks_are_of_one_size() -> None:
    task = Task(
        get_operator("conv2d").workload(n=1, ci=16, h=7, w=9, co=24, kh=3, kw=3, dtype="bfloat16"), cuda_target("sm_80")
    )
    schedule = CUDA_RELAID.default(task)
    together = CUDA_RELAID.lower(Candidate(task, schedule))
    assert len(together.program.launches) == 2
    assert together.source.count("TW_KERNEL(") == 2
    copies = together.program.launches[0]
    assert sorted(n for kind, n in copies.parameters if kind == "tensor") == [0, 1]
    threads = next(x for x in CUDA_RELAID.space(task).options["p1.threads"] if x != schedule.values["p0.threads"])
    apart = CUDA_RELAID.space(task).schedule({**schedule.values, "p1.threads": threads})
    assert len(CUDA_RELAID.lower(Candidate(task, apart)).program.launches) == 3


def test_constant_weights_are_copied_once() -> None:
    sizes = {"n": 1, "ci": 64, "h": 7, "w": 9, "co": 24, "kh": 3, "kw": 3, "dtype": "bfloat16"}
    for variant in ("sm_80", "sm_90a"):
        task, plain = (
            Task(get_operator("conv2d").workload(**sizes, **more), cuda_target(variant))
            for more in ({"constant": "weight"}, {})
        )
        kernel, every = (CUDA_RELAID.lower(Candidate(t, CUDA_RELAID.default(t))) for t in (task, plain))
        (pack,) = kernel.program.prepack
        assert (pack.input, pack.bytes) == (1, 24 * 64 * 9 * 2)
        assert [n for kind, n in pack.launch.parameters if kind == "tensor"] == [1]
        copy, product, *merge = kernel.program.launches  # the copy is of the image, else of both
        assert len(every.program.launches) == 2 + len(merge)
        assert ("tensor", 1) not in copy.parameters
        assert [x.early for x in (copy, product, *merge)] == [False, False, *[True] * len(merge)]
        traffic = [CUDA_RELAID.static(t, CUDA_RELAID.default(t))["global_bytes"] for t in (task, plain)]
        assert traffic[0] < traffic[1]


def test_rows_of_images_that_are_whole_lines_may_stay_where_they_are() -> None:
    program = conv(n=1, ci=64, h=5, w=64, co=24, constant="weight", bias=True, activation="relu")
    task = task_of(program, cuda_target("sm_90a"))
    space, schedule = CUDA_RELAID.space(task), CUDA_RELAID.default(task)
    assert schedule.values["cut"] == "s1:cuda_map s0:cuda_map s2+s3+s4:cuda_wgmma"
    [cut] = [str(x) for x in space.options["cut"] if str(x).startswith("s1:cuda_map s0+s2")]
    candidate = Candidate(task, space.schedule({**schedule.values, "cut": cut}))
    kernel = CUDA_RELAID.lower(candidate)
    assert (len(kernel.program.prepack), len(kernel.program.launches)) == (1, 1)
    assert "tma_load_4d" in kernel.source
    assert spilled(task, candidate.schedule) == 0
    inputs, got = random_arrays(program, 1), empty_output(program.output.shape, program.output.dtype)
    report = run(emulated([kernel], task.target), kernel.program, launch_values(candidate), inputs, got)
    assert report.ok, report.bugs
    check(program, inputs, got)
    narrow = task_of(conv(n=2, ci=64, h=16, w=32, co=24), cuda_target("sm_90a"))
    assert not any("s0+s2" in str(x) for x in CUDA_RELAID.space(narrow).options["cut"])


@pytest.mark.parametrize("sizes", [(16, 256, 14, 256), (2, 320, 128, 320), (32, 128, 28, 128)])
def test_bound_weights_leave_half_of_the_peak(sizes: tuple[int, int, int, int]) -> None:
    """Of the matrix units, by the bounds of a call's launches: memory for the image's copy, the product's own."""
    n, ci, side, co = sizes
    more = {"kh": 3, "kw": 3, "padding": 1, "dtype": "bfloat16", "constant": "weight"}
    workload = get_operator("conv2d").workload(n=n, ci=ci, h=side, w=side, co=co, **more)
    task = Task(workload, cuda_target("sm_90a"))
    found = measured(task, default_schedule(task))
    [product] = [c.bound for c in found if c.bound is not None]
    limit = task.target.limit
    copied = 2 * 2 * n * ci * side * side / float(limit["bandwidth"]) * float(limit["clock_hz"])
    assert product.share * product.cycles / (product.cycles + copied) >= 0.5


TURNED: dict[str, Callable[[], Program]] = {
    "tf32": lambda: Program.loads(
        get_operator("matmul").workload(m=72, n=40, k=68, precision="tf32_truncated", trans_a=True).program
    ),
    "bytes": lambda: Program.loads(get_operator("matmul").workload(m=70, n=48, k=80, dtype="int8", bias=True).program),
    "scaled": lambda: Program.loads(get_operator("scaled_mm").workload(m=66, n=144, k=272, bias=True).program),
}


@pytest.mark.parametrize("name", TURNED)
def test_operands_of_products_are_turned_for_warp_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(k_contiguous, "LEAST_USES", 1)
    monkeypatch.setattr(k_contiguous, "LEAST_FLOPS", 1)
    k_contiguous.k_contiguous.cache_clear()
    program = TURNED[name]()
    task = task_of(program, cuda_target("sm_90a"))
    assert CUDA_RELAID.matches(task)
    schedule = CUDA_RELAID.default(task)
    assert str(schedule.values["cut"]).endswith("cuda_wgmma")
    kernel = CUDA_RELAID.lower(Candidate(task, schedule))
    made = emulated([kernel], task.target)
    inputs = random_arrays(program, 1)
    for order, copies in (("fifo", "lazy"), ("lifo", "eager"), ("random:3", "lazy")):
        got = empty_output(program.output.shape, program.output.dtype)
        launch = launch_values(Candidate(task, schedule))
        report = run(made, kernel.program, launch, inputs, got, order=order, copies=copies)
        assert report.ok, report.bugs
        check(program, inputs, got)
    k_contiguous.k_contiguous.cache_clear()


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("matmul", {"precision": "tf32_truncated"}),
        ("matmul", {"precision": "tf32_truncated", "trans_a": True, "trans_b": True}),
        ("matmul", {"dtype": "int8"}),
        ("scaled_mm", {}),
        ("scaled_mm", {"by_column": True}),
    ],
)
def test_large_products_are_bound_by_nine_tenths_whatever_their_layout(op: str, params: dict[str, object]) -> None:
    task = Task(get_operator(op).workload(m=4096, n=4096, k=4096, **params), cuda_target("sm_90a"))
    schedule = default_schedule(task)
    assert schedule.template == "cuda_relaid"
    bounds = [c.bound for c in measured(task, schedule) if c.bound is not None]
    assert [b.share > 0.9 for b in bounds] == [True]


PARTS: dict[str, tuple[str, dict[str, object]]] = {
    "odd": ("matmul", {"m": 70, "n": 48, "k": 33}),
    "layer": ("matmul", {"m": 72, "n": 40, "k": 68, "trans_a": True, "trans_b": True, "bias": True}),
    "batches": ("batch_matmul", {"b": 3, "m": 20, "n": 24, "k": 36}),
}


def of_parts(name: str) -> Program:
    op, params = PARTS[name]
    return Program.loads(get_operator(op).workload(**params, precision="tf32x3").program)


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_tf32_are_written_side_by_side(name: str) -> None:
    program = of_parts(name)
    found = side_by_side(program)
    assert found is not None
    other, copies = found
    assert copies == 2
    assert all(s.extents[-1] % 4 == 0 and s.extents[-2] == 3 for s in other.stages[:2])
    inputs = random_arrays(program, 1)
    np.testing.assert_allclose(evaluate(other, inputs), evaluate(program, inputs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variant", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", PARTS)
def test_products_of_tf32_parts_are_those_of_tensor_cores(name: str, variant: str) -> None:
    op, params = PARTS[name]
    task = Task(get_operator(op).workload(**params, precision="tf32x3"), cuda_target(variant))
    program, schedule = Program.loads(task.workload.program), default_schedule(task)
    assert schedule.template == "cuda_relaid"
    assert str(schedule.values["cut"]).endswith("cuda_wgmma" if variant == "sm_90a" else "cuda_mma")
    kernel = CUDA_RELAID.lower(Candidate(task, schedule))
    # Matrix units cut sums off: ordinary units add up those of single tiles of k. Of TF32 alone nobody asked for that.
    assert " += part[" in kernel.source
    rounded = replace(task, workload=replace(task.workload, precision="tf32"))
    assert " += part[" not in CUDA_RELAID.lower(Candidate(rounded, default_schedule(rounded))).source
    inputs, got = random_arrays(program, 1), empty_output(program.output.shape, program.output.dtype)
    report = run(
        emulated([kernel], task.target), kernel.program, launch_values(Candidate(task, schedule)), inputs, got
    )  # fmt: skip
    assert report.ok, report.bugs
    check(program, inputs, got)


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("matmul", {"m": 24, "n": 40, "k": 68, "precision": "tf32_truncated"}),
        ("matmul", {"m": 16, "n": 48, "k": 80, "dtype": "int8"}),
        ("scaled_mm", {"m": 24, "n": 144, "k": 272}),
    ],
)
def test_constant_operands_are_turned_however_seldom_they_are_read(op: str, params: dict[str, object]) -> None:
    target = cuda_target("sm_90a")
    assert not CUDA_RELAID.matches(Task(get_operator(op).workload(**params), target))
    task = Task(get_operator(op).workload(**params, constant="b"), target)
    schedule = default_schedule(task)
    assert schedule.template == "cuda_relaid"
    assert str(schedule.values["cut"]).endswith("cuda_wgmma")
    kernel = CUDA_RELAID.lower(Candidate(task, schedule))
    assert [(x.input, len(kernel.program.launches)) for x in kernel.program.prepack] == [(1, 1)]
    # Matrix units round sums of 8-bit reals further, also behind a copy.
    assert kernel.program.rounding == (ROUNDING if op == "scaled_mm" else 1.0)
    program = Program.loads(task.workload.program)
    inputs, got = random_arrays(program, 1), empty_output(program.output.shape, program.output.dtype)
    launch = launch_values(Candidate(task, schedule))
    report = run(emulated([kernel], target), kernel.program, launch, inputs, got)
    assert report.ok, report.bugs
    check(program, inputs, got)


def test_a_product_of_one_part_is_left_alone() -> None:
    for precision in ("ieee", "tf32"):
        workload = get_operator("matmul").workload(m=8, n=8, k=8, precision=precision)
        assert side_by_side(Program.loads(workload.program)) is None
    a, b = te.input("a", (8, 9), "float32"), te.input("b", (9, 8), "float32")
    shifted = te.compute(
        (8, 8), lambda i, j: te.sum((2, 9), lambda p, r: te.select(p == 0, a[i, r], -a[i, r]) * te.round_tf32(b[r, j]))
    )
    doubled = te.compute((8,), lambda i: te.sum(9, lambda r: 2.0 * a[i, r]))
    squares = te.compute(
        (8,), lambda i: te.sum(9, lambda r: te.round_tf32(te.cast(r, "float32")) * te.round_tf32(a[i, r]))
    )
    for tensor in (shifted, doubled, squares):
        assert side_by_side(te.program(tensor)[0]) is None


def test_parts_are_turned_in_tiles_where_k_is_not_contiguous() -> None:
    task = Task(get_operator("matmul").workload(m=4096, n=4096, k=4096, precision="tf32x3"), cuda_target("sm_90a"))
    schedule = default_schedule(task)
    assert (schedule.values["p0.tile"], schedule.values["p1.tile"]) == (0, 32)
    kernel = CUDA_RELAID.lower(Candidate(task, schedule))
    assert len(kernel.program.launches) == 2
    assert (
        "const int i1 = int(unsigned(block) % 3u);" in kernel.source
    )  # which part: blocks that read one tile are neighbours


def test_products_that_read_an_operand_seldom_leave_it_as_it_is() -> None:
    for m in (512, 2047):
        task = Task(get_operator("matmul").workload(m=m, n=4096, k=4096, dtype="int8"), cuda_target("sm_90a"))
        assert not CUDA_RELAID.matches(task)
    along = get_operator("matmul").workload(m=4096, n=4096, k=4096, dtype="int8", trans_b=True)
    assert not CUDA_RELAID.matches(Task(along, cuda_target("sm_90a")))

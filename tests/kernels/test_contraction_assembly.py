"""Instructions of a contraction's innermost loops, as the compiler of each instruction set prints them."""

from __future__ import annotations

import re

import pytest

from tilewright.backends.cpu.targets import host_arch, parse_target
from tilewright.core import Candidate, Value
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.cpu_contraction.template import CPU_CONTRACTION
from tilewright.testing.assembly import InnermostLoop, assembly, innermost_loops
from tilewright.testing.kernels import task_of

X86 = pytest.mark.skipif(host_arch() != "x86_64", reason="no x86 compiler here")


def program(op: str, **params: int | bool | str) -> Program:
    return Program.loads(get_operator(op).workload(**params).program)


MATMUL = program("matmul", m=240, n=480, k=256, bias=True, activation="relu")
EDGES = program("matmul", m=100, n=85, k=75)
WINDOW = program(
    "conv2d", n=1, ci=64, h=28, w=28, co=96, kh=3, kw=3, padding=1, layout="NHWC", constant="weight"
)  # fmt: skip


def tile_loops(p: Program, target: str, **knobs: Value) -> dict[tuple[int, int], InnermostLoop]:
    """The longest loop of each register tile of a schedule, by rows and vectors; what is not given is the default's."""
    task = task_of(p, parse_target(target, allow_foreign=True))
    values = {**CPU_CONTRACTION.default(task).values, **knobs}
    kernel = CPU_CONTRACTION.lower(Candidate(task, CPU_CONTRACTION.space(task).schedule(values)))
    found: dict[tuple[int, int], InnermostLoop] = {}
    for loop in innermost_loops(assembly(kernel, task.target)):
        name = re.search(r"mk_(\d+)x(\d+)", loop.function)
        if name and loop.multiply_adds:
            tile = int(name[1]), int(name[2])
            found[tile] = max(loop, found.get(tile, loop), key=lambda x: x.multiply_adds)
    return found


def check_lean(loops: dict[tuple[int, int], InnermostLoop], unroll: int) -> None:
    """Every multiply-add once, every element of A and vector of B read once, nothing on the stack."""
    assert loops
    for (rows, vectors), loop in loops.items():
        text = f"{rows}x{vectors}:\n" + "\n".join(loop.instructions)
        assert loop.multiply_adds == rows * vectors * unroll, text
        assert loop.loads <= (rows + vectors) * unroll, text
        assert loop.stack == 0, text


@X86
@pytest.mark.parametrize(
    ("rows", "vectors", "unroll"), [(6, 2, 1), (6, 2, 4), (6, 2, 8), (5, 2, 4), (4, 3, 1), (2, 5, 1)]
)
def test_avx2_tiles_leave_nothing_to_the_stack(rows: int, vectors: int, unroll: int) -> None:
    check_lean(tile_loops(MATMUL, "cpu:avx2", MR=rows, NV=vectors, unroll=unroll, a="direct", b="pack"), unroll)


@X86
@pytest.mark.parametrize(("rows", "vectors", "unroll"), [(14, 2, 4), (12, 2, 4), (8, 3, 4), (6, 4, 4), (4, 6, 2)])
def test_avx512_tiles_leave_nothing_to_the_stack(rows: int, vectors: int, unroll: int) -> None:
    check_lean(tile_loops(MATMUL, "cpu:avx512", MR=rows, NV=vectors, unroll=unroll, a="direct", b="pack"), unroll)


@pytest.mark.needs("aarch64-linux-gnu-g++")
@pytest.mark.parametrize(("rows", "vectors", "unroll"), [(6, 4, 2), (8, 3, 4), (5, 4, 4)])
def test_neon_tiles_leave_nothing_to_the_stack(rows: int, vectors: int, unroll: int) -> None:
    check_lean(tile_loops(MATMUL, "cpu:neon", MR=rows, NV=vectors, unroll=unroll, a="direct", b="pack"), unroll)


@X86
def test_a_single_vector_of_columns_takes_all_16_registers() -> None:
    p = program("conv2d", n=1, ci=64, h=14, w=14, co=8, kh=1, kw=1, layout="NHWC", constant="weight")
    check_lean(tile_loops(p, "cpu:avx2", MR=14, NV=1, unroll=4), 4)


@X86
@pytest.mark.parametrize("a", ["direct", "pack"])
def test_edges_keep_their_sums_in_registers(a: str) -> None:
    loops = tile_loops(EDGES, "cpu:avx2", MR=6, NV=2, unroll=4, a=a, b="direct", prefetch_b=0)
    assert {rows for rows, _ in loops} == {5, 6}
    assert all(x.stack == 0 for x in loops.values())


@X86
@pytest.mark.parametrize("a", ["clip", "copy"])
def test_windows_keep_their_sums_in_registers(a: str) -> None:
    loops = tile_loops(WINDOW, "cpu:avx2", a=a, b="prepack")
    assert loops
    assert all(x.stack == 0 for x in loops.values())


@X86
@pytest.mark.parametrize("extent", [7, 14, 28, 56, 112, 128, 512])
def test_default_tiles_of_16_registers_have_accumulators_enough(extent: int) -> None:
    """Ten sums in flight keep two units busy for five cycles; every size divides into tiles that have them."""
    p = program("conv2d", n=1, ci=32, h=extent, w=extent, co=128, kh=1, kw=1, layout="NHWC", constant="weight")
    task = task_of(p, parse_target("cpu:avx2", allow_foreign=True))
    values = CPU_CONTRACTION.default(task).values
    assert 10 <= int(values["MR"]) * int(values["MH"]) * int(values["NV"]) <= 12
    assert int(values["NV"]) > 1


def test_spills_copies_and_second_reads_are_counted() -> None:
    loops = innermost_loops(
        """
_Z4tilev:
	xorl	eax, eax
.L2:
	vmovups	ymm1, YMMWORD PTR [rdx]
	prefetcht0	[rdx+64]
	vbroadcastss	ymm2, DWORD PTR 4[rsi]
	vfmadd231ps	ymm3, ymm1, ymm2
	vfmadd231ps	ymm4, ymm2, YMMWORD PTR [rdx]
	vmovaps	ymm5, ymm4
	vmovaps	YMMWORD PTR -32[rsp], ymm5
	sub	rdi, 1
	jne	.L2
	ret
_Z4armsv:
.L5:
.L6:
	ldp	q0, q1, [x1], 32
	ld1r	{v2.4s}, [x2]
	fmla	v3.4s, v0.4s, v2.s[0]
	str	q3, [sp, 16]
	subs	x0, x0, #1
	bne	.L6
	cbnz	x3, .L5
	ret
"""
    )
    assert [(x.function, x.multiply_adds, x.loads, x.stack, x.copies) for x in loops] == [
        ("_Z4tilev", 2, 3, 1, 1), ("_Z4armsv", 1, 3, 1, 0)
    ]  # fmt: skip

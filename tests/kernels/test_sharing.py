"""How work is divided among many threads: balance, traffic and cache lines, by arithmetic alone."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Task, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cpu_contraction import space as contraction
from tilewright.kernels.templates.cpu_contraction.match import Contraction
from tilewright.kernels.templates.cpu_contraction.match import match as match_contraction
from tilewright.kernels.templates.cpu_dot import space as dot
from tilewright.kernels.templates.cpu_dot.match import match as match_dot
from tilewright.kernels.templates.sharing import (
    LINE,
    TASKS,
    TRAFFIC_RATIO,
    Axis,
    balance,
    divisions,
    on_lines,
    part_counts,
    traffic,
)
from tilewright.kernels.templates.tiles import Blocks, ceildiv

THREADS = (4, 8, 16, 64, 128)
LEAST_BALANCE = {4: 0.9, 8: 0.9, 16: 0.9, 64: 0.85, 128: 0.6}
"""Of a default, over the shapes below; 128 threads meet images of 25 pixels."""


def conv(n: int, h: int, ci: int, co: int, k: int, s: int, p: int, **more: Value) -> tuple[str, dict[str, Value]]:
    return "conv2d", {
        "n": n, "ci": ci, "h": h, "w": h, "co": co, "kh": k, "kw": k, "stride": s, "padding": p, "layout": "NHWC",
        "constant": "weight", **more,
    }  # fmt: skip


SUITE: dict[str, tuple[str, dict[str, Any]]] = {
    "conv1d": ("conv1d", {"n": 1, "ci": 256, "w": 64, "co": 256, "kw": 5, "padding": 2, "layout": "NWC"}),
    "stem": conv(1, 224, 3, 64, 7, 2, 3),
    "pointwise": conv(1, 56, 64, 64, 1, 1, 0),
    "14x14x256": conv(1, 14, 256, 256, 3, 1, 1),
    "7x7x512": conv(1, 7, 512, 512, 3, 1, 1),
    "7x7x512 of 16": conv(16, 7, 512, 512, 3, 1, 1),
    "grouped": conv(1, 14, 256, 256, 3, 1, 1, groups=4),
    "dilated": conv(1, 7, 512, 512, 3, 1, 1, dilation=2),
    "transposed": (
        "conv_transpose2d",
        {"n": 1, "ci": 256, "h": 8, "w": 8, "co": 128, "kh": 4, "kw": 4, "stride": 2, "padding": 1, "layout": "NHWC"},
    ),
    "128": ("matmul", {"m": 128, "n": 128, "k": 128}),
    "512x32x512": ("matmul", {"m": 512, "n": 32, "k": 512}),
    "512": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "1024": ("matmul", {"m": 1024, "n": 1024, "k": 1024}),
    "16 of 128": ("batch_matmul", {"b": 16, "m": 128, "n": 128, "k": 128}),
}


def task(case: str, threads: int, variant: str = "avx512", **more: Value) -> Task:
    name, params = SUITE[case]
    target = parse_target(f"cpu:{variant}", threads=threads, allow_foreign=True)
    return Task(get_operator(name).workload(**params, **more), target)


def shared(t: Task, values: Any) -> tuple[Contraction, int, tuple[Axis, ...]]:
    found = match_contraction(Program.loads(t.workload.program))
    assert found is not None
    key = tuple(values[n] for n in contraction.WAY)
    form = next(f for f in contraction.forms(found, t.target) if f.key == key)
    tile = (int(values["MR"]), int(values["MH"]), int(values["NV"]))
    d = (found.narrow or found) if values["narrow"] else found
    return d, *contraction.shared_axes(found, t.target, form, tile)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("case", list(SUITE))
def test_defaults_are_balanced(case: str, threads: int) -> None:
    t = task(case, threads)
    v = get_template("cpu_contraction").default(t).values
    _, outer, axes = shared(t, v)
    division = (int(v["TM"]), int(v["TN"]), int(v["TK"]))
    got = balance(threads, outer, axes, division)
    assert got >= LEAST_BALANCE[threads]
    # Too few tasks only where as many as the threads would wait longer for the slowest.
    rows, columns = axes[0].tiles, axes[1].tiles
    for m, n in itertools.product(
        range(1, min(rows, TASKS * threads) + 1), range(1, min(columns, TASKS * threads) + 1)
    ):
        if threads <= outer * m * n <= TASKS * threads:
            assert got >= 0.95 * balance(threads, outer, axes, (m, n, 1)), (m, n)


def begins(extent: int, size: int, parts: int, times: int = 1) -> list[int]:
    """First elements of the parts, by another way than the blocks': as the kernel counts."""
    blocks = Blocks(extent, size)
    total = blocks.count * times
    lengths = [size if b < blocks.full else size - 1 for b in range(blocks.count)] * times
    return [sum(lengths[: j * total // parts]) for j in range(parts)]


@pytest.mark.parametrize("variant", ["avx512", "avx2", "neon"])
@pytest.mark.parametrize("threads", [4, 16, 128])
@pytest.mark.parametrize("case", ["7x7x512", "128", "512", "grouped", "16 of 128"])
def test_no_two_tasks_write_one_line(case: str, variant: str, threads: int) -> None:
    t, rng = task(case, threads, variant), random.Random(0)
    space = get_template("cpu_contraction").space(t)
    for s in (get_template("cpu_contraction").default(t), *(space.sample(rng) for _ in range(20))):
        v = s.values
        d, _, _ = shared(t, v)
        lanes = t.target.vector_bytes // 4
        vectors = begins(ceildiv(d.n.size, lanes), int(v["NV"]), int(v["TN"]))
        assert all(x * lanes * 4 % LINE == 0 for x in vectors)
        assert d.n.size * ITEMSIZE[d.output.dtype] % LINE == 0  # rows begin on lines


def test_columns_stay_whole_where_rows_begin_within_lines() -> None:
    target = parse_target("cpu:avx512", threads=16, allow_foreign=True)
    template = get_template("cpu_contraction")
    many = template.space(Task(get_operator("matmul").workload(m=1024, n=1000, k=64), target))
    assert {s.values["TN"] for s in (many.sample(random.Random(i)) for i in range(50))} == {1}
    # Four rows are one task: columns share lines there, or threads would have none.
    v = template.default(Task(get_operator("matmul").workload(m=4, n=1000, k=64), target)).values
    assert int(v["TN"]) > 1


def test_k_is_divided_where_rows_and_columns_do_not_suffice() -> None:
    t = task("512x32x512", 64)
    v = get_template("cpu_contraction").default(t).values
    assert int(v["TK"]) > 1
    assert v["split_k"]
    wide = get_template("cpu_contraction").space(task("512", 64))
    assert all(wide.sample(random.Random(i)).values["TK"] == 1 for i in range(50))


@pytest.mark.parametrize("threads", [3, 12, 16, 96, 128])
@pytest.mark.parametrize("tiles", [(1, 1), (7, 8), (14, 16), (40, 32), (1000, 3)])
@pytest.mark.parametrize("outer", [1, 4, 100])
def test_no_division_is_beaten_by_another(threads: int, tiles: tuple[int, int], outer: int) -> None:
    axes = tuple(
        Axis(n, part_counts(threads, outer, n, n), float(other))
        for n, other in zip(tiles, reversed(tiles), strict=True)
    )
    found = divisions(threads, outer, axes)
    assert 1 <= len(found) <= 16
    for d, even in found.items():
        assert even == balance(threads, outer, axes, d) <= 1
        assert outer * math.prod(d) <= max(outer, TASKS * threads)
        for e in found:
            assert not (found[e] > even and traffic(axes, e) < traffic(axes, d))
            assert not (found[e] >= even and traffic(axes, e) * TRAFFIC_RATIO < traffic(axes, d))


def test_512_on_16_threads_can_be_4_by_4() -> None:
    axes = (Axis(64, part_counts(16, 1, 64, 128), 512.0 * 512), Axis(16, part_counts(16, 1, 16, 32), 512.0 * 512))
    assert (4, 4) in divisions(16, 1, axes)


def test_parts_begin_on_lines() -> None:
    assert on_lines(Blocks(32, 3), 1, (1, 2, 4, 8), 64) == (1, 2, 4, 8)
    # Blocks of three and two half lines: 32 = 10 * 3 + 2, and 5 blocks are 15.
    assert on_lines(Blocks(12, 3), 1, (1, 2, 4), 32) == (1, 2)
    assert on_lines(Blocks(8, 2), 1, (1, 2, 4), 32) == (1, 2, 4)


@pytest.mark.parametrize("threads", THREADS)
def test_products_of_16_bits_are_shared_out(threads: int) -> None:
    t = task("512", threads, dtype="bfloat16")
    template = get_template("cpu_dot")
    v = template.default(t).values
    found = match_dot(Program.loads(t.workload.program))
    assert found is not None
    outer, axes = dot.shared_axes(found, t.target, (int(v["MR"]), int(v["NV"])))
    assert balance(threads, outer, axes, (int(v["TM"]), int(v["TN"]), int(v["TK"]))) >= 0.85
    lanes = t.target.vector_bytes // 4
    starts = begins(ceildiv(512, lanes), int(v["NV"]), int(v["TN"]))
    assert all(x * lanes * ITEMSIZE[found.output.dtype] % LINE == 0 for x in starts)
    space = template.space(t)
    for i in range(10):
        space.check(space.sample(random.Random(i)))


@pytest.mark.parametrize("threads", [4, 16, 64])
def test_winograd_has_a_task_for_every_thread(threads: int) -> None:
    t = task("14x14x256", threads)
    template = get_template("cpu_winograd")
    v = template.default(t).values
    assert int(v["TT"]) * int(v["TP"]) >= threads
    space = template.space(t)
    for i in range(10):
        space.check(space.sample(random.Random(i)))


def test_one_and_two_threads_have_the_spaces_that_recordings_were_made_in() -> None:
    one, two = (get_template("cpu_contraction").space(task("512", n)) for n in (1, 2))
    assert [k.name for k in two.knobs[: len(one.knobs)]] == [k.name for k in one.knobs]
    assert {k.name: k.values for k in two.knobs[len(one.knobs) :]} == {
        "split_k": (False, True), "TM": (1, 2, 4, 8), "TN": (1, 2, 4, 8), "TK": (1, 2, 4),
    }  # fmt: skip

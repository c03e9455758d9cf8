"""Shared-memory layouts of the Tensor Core template: no two elements in one place, no bank conflicts.

Banks are computed from the layout and from how the instructions read, apart from the printed code.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.cuda_mma.geometry import STAGING_GAP, STAGING_RUN, shared_layout, staging_pitch
from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA

TILES = (16, 32, 64, 128, 256)
ITEMS = (1, 2, 4)
DOUBLE = 8


def place(layout: Layout, item: int, row: int, k: int) -> int:
    """Byte of an element."""
    return layout.offset(row, k) * item


def depths(item: int) -> tuple[int, ...]:
    return tuple(b // item for b in (64, 128, 256)) if item < DOUBLE else (16, 32, 64)


CASES = [(r, d, i, "k") for i in ITEMS for r in TILES for d in depths(i)]
CASES += [(r, d, i, "row") for i in (2, 4) for r in TILES for d in depths(i)]
CASES += [(r, d, DOUBLE, o) for o in ("k", "row") for r in TILES for d in depths(DOUBLE)]


def lines(addresses: list[int], size: int) -> int:
    """Cycles of one access of 32 banks: how often the fullest bank is asked for different words."""
    words: dict[int, set[int]] = {}
    for a in addresses:
        for w in range(a // 4, (a + size - 1) // 4 + 1):
            words.setdefault(w % 32, set()).add(w)
    return max(len(x) for x in words.values())


@pytest.mark.parametrize(("rows", "depth", "item", "order"), CASES)
def test_every_element_has_its_own_place(rows: int, depth: int, item: int, order: str) -> None:
    layout = shared_layout(rows, depth, item, order)
    found = {layout.offset(r, k) for r in range(rows) for k in range(depth)}
    assert found == set(range(rows * depth))


@pytest.mark.parametrize(("rows", "depth", "item", "order"), CASES)
def test_sixteen_bytes_stay_together(rows: int, depth: int, item: int, order: str) -> None:
    """What one asynchronous copy writes and one row of a matrix is."""
    layout = shared_layout(rows, depth, item, order)
    step = 16 // item
    for slow, fast in itertools.product(range(depth if order == "row" else rows), range(0, 16 * step, step)):
        if fast >= (rows if order == "row" else depth):
            continue
        at = [(slow, fast + e) if order == "k" else (fast + e, slow) for e in range(step)]
        first = place(layout, item, *at[0])
        assert first % 16 == 0
        assert [place(layout, item, *x) for x in at] == [first + e * item for e in range(step)]


@pytest.mark.parametrize(("rows", "depth", "item", "order"), CASES)
def test_fragments_are_read_without_bank_conflicts(rows: int, depth: int, item: int, order: str) -> None:
    layout = shared_layout(rows, depth, item, order)
    step = 16 // item
    if item == DOUBLE:  # half a warp reads at once: four rows by four steps of k
        for row, k in itertools.product(range(0, rows, 4), range(0, depth, 4)):
            assert lines([place(layout, item, row + i // 4, k + i % 4) for i in range(16)], 8) == 1
    elif order == "k":  # a matrix: eight rows, 16 bytes of k
        for row, k in itertools.product(range(0, rows, 8), range(0, depth, step)):
            assert lines([place(layout, item, row + i, k) for i in range(8)], 16) == 1
    elif item == 2:  # transposed: eight steps of k, 16 bytes of rows
        for row, k in itertools.product(range(0, rows, 8), range(0, depth, 8)):
            assert lines([place(layout, item, row, k + i) for i in range(8)], 16) == 1
    else:  # one word a lane: eight rows by four steps of k
        for row, k in itertools.product(range(0, rows, 8), range(0, depth, 4)):
            assert lines([place(layout, item, row + i // 4, k + i % 4) for i in range(32)], 4) == 1


@pytest.mark.parametrize(("rows", "depth", "item", "order"), CASES)
def test_copies_are_written_without_bank_conflicts(rows: int, depth: int, item: int, order: str) -> None:
    """Eight lanes write neighbouring pieces of 16 bytes."""
    layout = shared_layout(rows, depth, item, order)
    line, step = (depth if order == "k" else rows), 16 // item
    for first in range(0, rows * depth // step, 8):
        at = [divmod(c, line // step) for c in range(first, first + 8)]
        spots = [(s, f * step) if order == "k" else (f * step, s) for s, f in at]
        assert lines([place(layout, item, *x) for x in spots], 16) == 1


def test_schedules_use_these_layouts() -> None:
    """Tiles of random members are among the cases above."""
    template = CUDA_MMA
    rng = random.Random(1)
    for dtype, more in (
        ("bfloat16", {}), ("float32", {"precision": "tf32"}), ("int8", {}), ("float64", {}),
    ):  # fmt: skip
        for trans in (False, True):
            workload = get_operator("matmul").workload(m=512, n=512, k=512, dtype=dtype, trans_a=trans, **more)
            task = Task(workload, cuda_target("sm_90a"))
            found = template.found(Program.loads(workload.program))
            for schedule in (template.space(task).sample(rng) for _ in range(40)):
                for s in template.plan(found, task.target, schedule.values).sides:
                    assert (s.rows, s.depth, s.item, s.order) in CASES
                    assert s.layout == shared_layout(s.rows, s.depth, s.item, s.order)


def _spot(row: int, column: int) -> int:
    """Index in a staging buffer of column ``column`` of the row that begins at ``row``: a gap follows each run."""
    return row + column + column // STAGING_RUN * STAGING_GAP


@pytest.mark.parametrize("columns", [8, 16, 32, 64, 128, 256])
def test_staging_strips_are_aligned_and_free_of_conflicts(columns: int) -> None:
    """Every element has its own place, pieces of 16 bytes are aligned, pairs are written without conflicts."""
    row = staging_pitch(columns)
    spots = {_spot(r * row, c) for r in range(16) for c in range(columns)}
    assert len(spots) == 16 * columns
    assert max(spots) < 16 * row
    assert all(_spot(r * row, c) % 4 == 0 for r in range(16) for c in range(0, columns, 4))
    for first, j in itertools.product((0, 16), range(columns // 8)):
        lanes = range(first, first + 16)
        assert lines([4 * _spot(i // 4 * row, j * 8 + i % 4 * 2) for i in lanes], 8) == 1


@pytest.mark.parametrize(("columns", "values"), [(64, 4), (64, 8), (128, 8), (128, 16), (256, 16)])
def test_staging_strips_are_read_without_bank_conflicts(columns: int, values: int) -> None:
    """Eight lanes read 16 bytes each, of ``values`` elements a lane."""
    row, pieces = staging_pitch(columns), columns // values
    for first, q in itertools.product(range(0, 16 * pieces, 8), range(0, values, 4)):
        at = [_spot(e // pieces * row, e % pieces * values) + q for e in range(first, first + 8)]
        assert lines([4 * x for x in at], 16) == 1

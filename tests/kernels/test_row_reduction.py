"""The family of row reductions: which programs are of it, and their rows and columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import row_programs
from row_programs import program_of

from harness import gpu_programs
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.row_reduction import RowReduction, row_reduction
from tilewright.kernels.operators import get_operator
from tilewright.testing import contractions, programs

MEMBERS: dict[str, Callable[[], Program]] = {**row_programs.ROWS, **gpu_programs.ROWS}


def matched(program: Program) -> RowReduction:
    found = row_reduction(program)
    assert found is not None
    return found


def _pool(**sizes: int) -> Program:
    return Program.loads(get_operator("avg_pool1d").workload(n=1, c=2, w=12, padding=0, **sizes).program)


def _others() -> dict[str, Program]:
    x, y, z = te.input("x", (6, 8)), te.input("y", (8, 6)), te.input("z", (6, 8))
    one = te.compute((6,), lambda i: te.sum(8, lambda k: x[i, k]))
    down = te.compute((8,), lambda j: te.sum(6, lambda k: x[k, j]))
    first = te.compute((8,), lambda i: te.sum(6, lambda k: y[i, k]))
    rolled = te.compute((6, 8), lambda i, j: te.exp(x[i, (j + 1) % 8]))
    index, table = te.input("index", (6,), "int32"), te.input("table", (3, 5, 8))
    return {
        "a product": contractions.aligned(),
        "an outer product": program_of(te.compute((6, 6), lambda i, j: te.sum(8, lambda k: x[i, k] * z[j, k]))),
        "a gathered product": contractions.gathered(),
        "a chosen product": program_of(
            te.compute((6, 5), lambda i, j: te.sum(8, lambda k: x[i, k] * table[index[i], j, k]))
        ),
        "distances": programs.chebyshev(),
        "a convolution": programs.conv2d(),
        "windows that overlap": gpu_programs.max_pool(),
        "a window of a row": program_of(te.compute((6, 6), lambda i, j: te.max(3, lambda k: x[i, j + k]))),
        "no reduction": gpu_programs.chain(),
        "a scan": programs.running_sums(),
        "other rows": program_of(te.compute((6, 8), lambda i, j: x[i, j] - one[i] - down[j])),
        "other columns": program_of(te.compute((6, 8), lambda i, j: one[i] + first[j] + x[i, j])),
        "another row": program_of(te.compute((6, 8), lambda i, j: x[i, j] / one[5 - i])),
        "another element": program_of(te.compute((6,), lambda i: te.sum(8, lambda k: rolled[i, 7 - k]))),
        "a neighbour's value": program_of(te.compute((6,), lambda i: one[te.minimum(i + 1, 5)] + one[i])),
        "a repeated row": program_of(te.compute((6, 2), lambda i, j: one[i] * 2.0)),
    }


@pytest.mark.parametrize("name", MEMBERS)
def test_row_reductions_are_matched(name: str) -> None:
    found = matched(MEMBERS[name]())
    assert {s.kind for s in found.stages} <= {"scalar", "reduction", "element"}
    assert found.result.name == found.program.output.name


@pytest.mark.parametrize("name", _others())
def test_other_programs_are_no_row_reductions(name: str) -> None:
    assert row_reduction(_others()[name]) is None


def test_windows_are_rows_where_they_share_nothing() -> None:
    assert row_reduction(_pool(kernel_size=3, stride=2)) is None
    found = matched(_pool(kernel_size=3))
    assert (found.rows, found.columns) == ((("i2", 8),), (("r0", 3),))
    assert matched(_pool(kernel_size=12)).height == 2


def test_a_row_may_be_weighted() -> None:
    x, w = te.input("x", (2, 3, 8)), te.input("w", (2, 8))
    found = matched(program_of(te.compute((2, 3), lambda b, i: te.sum(8, lambda k: x[b, i, k] * w[b, k]))))
    assert (found.height, found.width) == (6, 8)


def test_neighbouring_axes_are_merged() -> None:
    found = matched(row_programs.norm(3, 5, 70))
    assert (found.rows, found.columns) == ((("i0", 3),), (("r1", 350),))
    # The weight of a channel tells its axes apart.
    found = matched(row_programs.group_norm(2, 3, 4, 19))
    assert [[n for _, n in axes] for axes in (found.rows, found.columns)] == [[2, 3], [4, 19]]
    found = matched(gpu_programs.group_norm(2, 3, 4, 5))
    assert (found.height, found.width) == (6, 20)
    assert [s.kind for s in found.stages] == ["reduction", "reduction", "element"]
    assert found.passes == 3


def test_axes_of_one_element_are_no_axes() -> None:
    assert matched(row_programs.kept_dims(4, 33)).extents == {"i0": 4, "r0": 33}
    assert matched(row_programs.softmax(5, 1)).extents == {"i0": 5}


def test_elements_of_a_single_row_are_no_scalars_though_the_row_keeps_its_axes() -> None:
    from tilewright.kernels import nn

    def define() -> te.TensorRef:
        x = te.input("x", (1, 1, 64))
        return nn.mean(nn.mul(x, x), -1, keepdim=True)

    assert [s.kind for s in matched(te.trace(define)[0]).stages] == ["element", "reduction", "scalar"]


def test_the_output_may_have_another_order() -> None:
    found = matched(gpu_programs.softmax_channels(2, 5, 6, 7))
    assert (found.height, found.width) == (2 * 6 * 7, 5)
    # Channels are the columns: a step of one is 42 elements of the output.
    assert found.where.of(found.column_axes[-1]) == 42

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.core import FailureKind
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluated_points
from tilewright.verifying.buffers import PAGE
from tilewright.verifying.inputs import Array, Recipe
from tilewright.verifying.projection import project
from tilewright.verifying.verify import Verifier, mismatch, sample_blocks, timing_inputs

F = np.float32


def matmul(m: int, n: int, k: int, **attributes: Any) -> Program:
    return Program.loads(get_operator("matmul").workload(m=m, n=n, k=k, **attributes).program)


def as_kernel(p: Program, compute: Callable[..., Array]) -> Callable[[Sequence[int]], None]:
    """A kernel that works on addresses, from a function of arrays."""

    def run(pointers: Sequence[int]) -> None:
        views = []
        for t, address in zip((*p.inputs, *p.outputs), pointers, strict=True):
            dtype = np.dtype(t.dtype)
            data = (ctypes.c_char * (t.size * dtype.itemsize)).from_address(address)
            views.append(np.frombuffer(data, dtype).reshape(t.shape))
        results = compute(*views[: len(p.inputs)])
        if results is not None:
            for view, result in zip(views[len(p.inputs) :], results if p.results else [results], strict=True):
                view[...] = result

    return run


def product(a: Array, b: Array) -> Array:
    return np.asarray(a @ b, F)


def test_right_and_wrong() -> None:
    p = matmul(7, 9, 33)
    v = Verifier(p)
    assert v.check(as_kernel(p, product)) is None
    problem = v.check(as_kernel(p, lambda a, b: product(a[:, 1:], b[1:])))
    assert problem
    assert "element (0, 0) is" in problem
    assert "of 63 wrong (normal inputs, seed 0)" in problem


def infinite(a: Array, b: Array) -> Array:
    out = product(a, b)
    out[3, 4] = np.inf
    return out


@pytest.mark.parametrize(
    ("compute", "kind", "message"),
    [
        (lambda a, b: product(a[:, 1:], b[1:]), FailureKind.WRONG_RESULT, "element (0, 0) is"),
        (lambda a, b: product(a, b) * F(1.001), FailureKind.LOST_ACCURACY, "element (0, "),
        (infinite, FailureKind.OVERFLOW, "element (3, 4) is inf"),
        (lambda a, b: product(a, b) * F(np.nan), FailureKind.WRONG_RESULT, "is nan"),
    ],
)
def test_overflow_lost_accuracy_and_wrong_results_are_three_outcomes(
    compute: Callable[..., Array], kind: FailureKind, message: str
) -> None:
    p = matmul(7, 9, 33)
    problem = Verifier(p).check(as_kernel(p, compute))
    assert problem is not None
    assert (problem.kind, message in problem) == (kind, True), problem


def test_whole_numbers_leave_no_room() -> None:
    """What passes for rounding elsewhere is found where there is none."""
    problem = Verifier(matmul(7, 9, 33)).check(
        as_kernel(matmul(7, 9, 33), lambda a, b: np.nextafter(product(a, b), F(np.inf)))
    )
    assert problem
    assert "of 63 wrong (whole inputs" in problem
    assert problem.kind is FailureKind.WRONG_RESULT  # nothing is rounded, so nothing is lost by rounding


def test_nothing_written_is_found() -> None:
    p = matmul(7, 9, 33)
    problem = Verifier(p).check(as_kernel(p, lambda a, b: None))  # type: ignore[arg-type, return-value]
    assert problem
    assert "is nan" in problem


def test_changed_inputs_are_found_and_mended() -> None:
    p = matmul(7, 9, 33)
    v = Verifier(p)

    def spoil(a: Array, b: Array) -> Array:
        out = product(a, b)
        b[2, 2] = 0
        return out

    assert "changes its input number 1" in (v.check(as_kernel(p, spoil)) or "")
    assert v.check(as_kernel(p, product)) is None


def test_every_set_is_placed_its_own_way() -> None:
    v = Verifier(matmul(8, 16, 16))
    addresses = [v.input_set(n).pointers for n in range(3)]
    assert any(a % 64 for a in addresses[2])
    assert all(a % 4 == 0 for set_ in addresses for a in set_)
    assert all(a % 64 == 0 for n in range(3) for a in v.input_set(n, 64).pointers)


def test_gather_indices_are_legal() -> None:
    table, rows = te.input("table", (5, 4)), te.input("rows", (30,), "int64")
    p, _ = te.program(te.compute((30, 4), lambda i, j: table[rows[i], j]), [table, rows])
    assert Verifier(p).check(as_kernel(p, lambda t, r: t[r])) is None
    assert Verifier(p).check(as_kernel(p, lambda t, r: t[r - 1]))


def test_positions_of_maxima_must_be_equal() -> None:
    x = te.input("x", (20, 50))
    p, _ = te.program(te.compute((20,), lambda i: te.argmax(50, lambda r: x[i, r])))
    assert Verifier(p).check(as_kernel(p, lambda x: x.argmax(1))) is None
    # Whole numbers have ties: the last of equals is wrong.
    assert "whole" in (Verifier(p).check(as_kernel(p, lambda x: 49 - x[:, ::-1].argmax(1))) or "")


def test_rounding_before_a_step_may_move_few_results() -> None:
    x = te.input("x", (100, 100))
    p, _ = te.program(te.compute((100, 100), lambda i, j: te.floor(x[i, j] * 30.1)))
    honest = lambda x: np.floor(x * F(30.1))  # noqa: E731
    assert Verifier(p).check(as_kernel(p, honest)) is None
    assert Verifier(p).check(as_kernel(p, lambda x: np.floor(x * F(30.5))))


def test_domains_of_logs_are_respected() -> None:
    x = te.input("x", (64,))
    p, _ = te.program(te.compute((64,), lambda i: te.log(x[i]) * te.sqrt(x[i])))
    v = Verifier(p)
    assert v.check(as_kernel(p, lambda x: np.log(x) * np.sqrt(x))) is None
    assert all(np.isfinite(i.low).all() for n in range(3) for i in v.input_set(n).expected[0].intervals)
    assert v.check(as_kernel(p, lambda x: np.log(x) * np.sqrt(x) * F(1.0001)))
    assert (timing_inputs(p, v, 1)[0].array > 0).all()  # type: ignore[operator]


def test_timing_buffers_lie_as_numpy_and_the_runtime_place_them() -> None:
    x = te.input("x", (64,))
    p, _ = te.program(te.compute((64,), lambda i: x[i] + 1.0))
    for shift in range(3):
        given, out = timing_inputs(p, Verifier(p), 1, shift)
        # Every other placement is that of a caller who passes a large ``out`` of NumPy's.
        large = shift % 2 == 1
        assert (given.address % 64, out.address % 64) == (16, 16 if large else 0)
        assert (given.address % PAGE == out.address % PAGE) == large


# --------------------------------------------------------------------------- several outputs


def moments() -> Program:
    """The mean of rows, where it is largest among rows, and the rows less their mean."""
    x = te.input("x", (12, 40))
    mean = te.compute((12,), lambda i: te.sum(40, lambda k: x[i, k] / 40.0))
    most = te.compute((), lambda: te.argmax(12, lambda k: mean[k]))
    return te.program((te.compute((12, 40), lambda i, j: x[i, j] - mean[i]), mean, most))[0]


def _moments(x: Array) -> tuple[Array, Array, Array]:
    mean = np.asarray(x.mean(1), F)
    return x - mean[:, None], mean, np.argmax(mean)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: (*_moments(x)[:2], 12), "output number 2: element () is 12, expected"),
        (lambda x: (_moments(x)[0], x.mean(1) * F(1.001), _moments(x)[2]), "output number 1: element ("),
        (lambda x: (_moments(x)[0] + F(1), *_moments(x)[1:]), "output number 0: element (0, 0) is"),
        (lambda x: None, "output number 0: element (0, 0) is nan"),
    ],
)
def test_each_of_several_outputs_has_a_reference_and_a_tolerance(wrong: Any, message: str) -> None:
    p = moments()
    v = Verifier(p)
    assert v.check(as_kernel(p, _moments)) is None
    problem = v.check(as_kernel(p, wrong))
    assert problem
    assert problem.startswith(message)


def test_a_write_beyond_the_second_output_is_found() -> None:
    p = moments()

    def run(pointers: Sequence[int]) -> None:
        as_kernel(p, _moments)(pointers)
        ctypes.memset(pointers[2] + 12 * 4, 0, 4)

    problem = Verifier(p).check_set(run, Verifier(p).input_set(1))  # at the start of its pages: room behind it
    assert problem
    assert problem.startswith("writes outside output number 1")


def test_timing_buffers_of_several_outputs() -> None:
    p = moments()
    assert [g.array.shape for g in timing_inputs(p, Verifier(p), 1)] == [(12, 40), (12, 40), (12,), ()]


# --------------------------------------------------------------------------- large problems


def test_blocks_touch_every_corner_and_cross_every_row_and_column() -> None:
    shape = (100, 70)
    seen = np.zeros(shape, bool)
    for b in sample_blocks(shape, lambda _: 0.0, 1.0):
        seen[b] = True
    assert seen[0, 0] and seen[0, -1] and seen[-1, 0] and seen[-1, -1]  # noqa: PT018
    assert seen.any(0).all()
    assert seen.any(1).all()
    assert len(sample_blocks(shape, lambda _: 1.0, 1.0)) == 4


def test_a_line_that_costs_too_much_leaves_room_for_pieces_of_it_around_tile_edges() -> None:
    shape = (4096, 64)

    def cost(block: tuple[slice, ...]) -> float:
        return 1e-3 * (block[0].stop - block[0].start)  # rows cost, columns do not

    chosen = sample_blocks(shape, cost, 1.0)
    assert sum(map(cost, chosen)) <= 1.0
    pieces = [b[0] for b in chosen if b[0].stop - b[0].start == 4]
    assert len(pieces) == 16
    assert all((b.start + 2) % 16 == 0 for b in pieces)


def test_blocks_of_attention_cost_what_they_are_computed_from() -> None:
    """A column of the result needs every score, a row as many as there are keys."""
    program = Program.loads(get_operator("attention").workload(b=1, h=2, lq=64, lk=64, d=8).program)
    one = slice(0, 1)
    row, column = (one, one, one, slice(0, 8)), (one, one, slice(0, 64), one)
    assert evaluated_points(program, column) > 32 * evaluated_points(program, row)


@pytest.fixture
def large() -> tuple[Program, Verifier]:
    p = matmul(700, 600, 256)
    return p, Verifier(p, full=0.0)


def test_large_problems_are_checked_by_blocks_and_projection(large: tuple[Program, Verifier]) -> None:
    p, v = large
    assert v.check(as_kernel(p, product)) is None
    assert len(v.input_set(0).expected[0].intervals) > 1
    assert v.input_set(2).expected[0].projection is not None


def test_one_wrong_element_outside_all_blocks_is_found(large: tuple[Program, Verifier]) -> None:
    p, v = large
    v.input_set(2)
    seen = np.zeros((700, 600), bool)
    for i in v.input_set(2).expected[0].intervals:
        seen[i.block] = True
    at = tuple(np.argwhere(~seen)[1234])

    def slightly(a: Array, b: Array) -> Array:
        c = product(a, b)
        c[at] += 1
        return c

    problem = v.check(as_kernel(p, slightly))
    assert problem
    assert "projected" in problem


@pytest.mark.parametrize("attributes", [{}, {"bias": True}, {"trans_b": True}])
def test_projection_of_products(attributes: dict[str, bool]) -> None:
    p = matmul(12, 10, 8, **attributes)
    rng = np.random.default_rng(0)
    values = [rng.integers(-3, 4, t.shape).astype(F) for t in p.inputs]
    found = project(p, values, 1)
    assert found is not None
    b = values[1].T if "trans_b" in attributes else values[1]
    out = values[0] @ b + (values[2] if "bias" in attributes else 0)
    assert found.wrong(out) == 0
    out[3, 4] += 1
    assert found.wrong(out) == 1


def test_an_infinity_is_wrong_in_a_projection() -> None:
    p = matmul(12, 10, 8)
    values = [np.ones(t.shape, F) for t in p.inputs]
    found = project(p, values, 1)
    assert found is not None
    out = values[0] @ values[1]
    assert found.wrong(out) == 0
    out[3, 4] = np.inf
    assert found.wrong(out) == 1


def test_projection_of_a_convolution() -> None:
    operator = get_operator("conv2d")
    p = Program.loads(operator.workload(n=2, ci=3, h=6, w=5, co=4, kh=3, kw=3).program)
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, t.shape).astype(F) for t in p.inputs)
    found = project(p, [x, w], 1)
    assert found is not None
    assert operator.numpy is not None
    out = np.array(operator.numpy(x, w))
    assert found.wrong(out) == 0
    out[1, 0, 2, 2] -= 1
    assert found.wrong(out) == 1


def test_what_is_no_contraction_is_not_projected() -> None:
    x, y = te.input("x", (5, 6)), te.input("y", (5, 6))
    distance = te.compute((5, 5), lambda i, j: te.sum(6, lambda r: (x[i, r] - y[j, r]) ** 2))
    largest = te.compute((5,), lambda i: te.max(6, lambda r: x[i, r]))
    for out in (distance, largest, te.compute((5, 6), lambda i, j: x[i, j])):
        p, _ = te.program(out)
        assert project(p, [np.ones(t.shape, F) for t in p.inputs], 0) is None


def test_references_that_are_not_finite() -> None:
    from tilewright.verifying.references import as_interval

    value = np.array([np.nan, np.inf, -np.inf, 1e300, 1.0])
    i = as_interval((slice(0, 5),), value, np.array([0, 0, 0, 0, np.inf]), np.dtype(F))
    recipe = Recipe("normal", 0, "end")
    assert mismatch(np.array([np.nan, np.inf, -np.inf, np.inf, 7], F), i, recipe) is None
    for n, bad in enumerate([1.0, np.nan, np.inf, 3.0, np.nan]):
        got = np.array([np.nan, np.inf, -np.inf, np.inf, 7], F)
        got[n] = bad
        assert mismatch(got, i, recipe)

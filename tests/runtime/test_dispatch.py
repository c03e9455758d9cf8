"""``library.<operator>(arrays)``: tuned where it can be, else whatever numpy says."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random, sqdist

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.runtime import Library, pycall, resolve

pytestmark = pytest.mark.filterwarnings("ignore::tilewright.MissedKernelWarning")  # test_missed.py


@pytest.fixture(params=["native", "python"])
def library(request: pytest.FixtureRequest, library: Library, monkeypatch: pytest.MonkeyPatch) -> Library:
    """With a table in C in front, and without."""
    if request.param == "python":
        monkeypatch.setattr(pycall, "builtins_in", lambda handle: None)
        monkeypatch.setattr(resolve, "current", lambda: None)
    assert inspect.isbuiltin(library.matmul) == (request.param == "native")
    return library


A, B = random(4, 4), random(4, 4, seed=1)


def counted(library: Library, tier: str, reason: str | None = None) -> int:
    stats = library.stats()
    return stats.reasons.get(reason, 0) if reason else stats.tiers[tier]


def test_tuned_shapes_go_to_their_kernel(library: Library) -> None:
    out = np.empty((4, 4), np.float32)
    for _ in range(3):
        assert library.matmul(A, B, out=out) is out
        np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
        assert library.matmul(A, B, out) is out
        np.testing.assert_allclose(library.matmul(random(3, 7), random(7, 5)), random(3, 7) @ random(7, 5), rtol=1e-4)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 12}
    assert library.stats().reasons == {}


def test_what_was_tuned_under_another_name_of_one_computation_answers(library: Library) -> None:
    for _ in range(2):
        np.testing.assert_allclose(library.linear(A, B, bias=False), A @ B.T, rtol=1e-4, atol=1e-5)
    assert counted(library, "exact") == 2
    assert library.explain("linear", m=4, n=4, k=4, bias=False).tier == "exact"
    np.testing.assert_allclose(library.linear(A, B, B[0]), A @ B.T + B[0], rtol=1e-4, atol=1e-5)
    assert counted(library, "fallback") == 1


def test_attributes_choose_among_kernels(library: Library) -> None:
    for _ in range(2):
        np.testing.assert_allclose(library.matmul(A, B, trans_b=True), A @ B.T, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(library.matmul(A, B, trans_b=False), A @ B, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(library.matmul(A, B, trans_a=True), A.T @ B, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(library.matmul(A, B, activation="relu"), np.maximum(A @ B, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(library.matmul(A, B, B[0], bias=True), A @ B + B[0], rtol=1e-4, atol=1e-5)
    out = np.empty((4, 4), np.float32)
    assert library.matmul(A, B, trans_b=True, out=out) is out
    assert library.matmul(A, B, out=out, trans_b=True) is out
    assert library.matmul(A, B, trans_a=True, out=out) is out
    np.testing.assert_allclose(out, A.T @ B, rtol=1e-4, atol=1e-5)
    assert counted(library, "exact") == 8
    assert counted(library, "fallback", "untuned") == 7


def test_attributes_that_the_operator_lacks(library: Library) -> None:
    with pytest.raises(TypeError):
        library.matmul(A, B, nonsense=1)
    with pytest.raises(UsageError, match="activation"):
        library.matmul(A, B, activation="cube")
    assert library.matmul(A, B, dtype=np.float64).dtype == np.float64  # numpy's own


def _unaligned() -> np.ndarray[Any, Any]:
    view = np.zeros(65, np.uint8)[1:].view(np.float32).reshape(4, 4)
    view[...] = A
    return view


NUMPY_TAKES = [
    ("untuned", lambda: (random(5, 6), random(6, 2))),
    ("untuned", lambda: (A.astype(np.float64), B.astype(np.float64))),
    ("untuned", lambda: (random(4), random(4))),
    ("untuned", lambda: (random(4, 4), random(4))),
    ("untuned", lambda: (random(2, 4, 4), random(4, 4))),
    ("untuned", lambda: (random(2, 1, 4, 4), random(3, 4, 4))),
    ("strides", lambda: (A.T, B)),
    ("strides", lambda: (A, B[::-1])),
    ("strides", lambda: (random(8, 8)[::2, ::2], B)),
    ("strides", lambda: (np.broadcast_to(A[0], (4, 4)), B)),
    ("alignment", lambda: (_unaligned(), B)),
    ("dtype", lambda: (A.astype(np.int32), B.astype(np.int32))),
    ("dtype", lambda: (A, B.astype(np.float64))),
    ("dtype", lambda: (A.astype(">f4"), B)),
    ("dtype", lambda: (A.astype(np.complex64), B)),
    ("dtype", lambda: (A > 0, B > 0)),
    ("dtype", lambda: (A.astype(object), B.astype(object))),
    ("empty", lambda: (random(0, 4), B)),
    ("empty", lambda: (random(4, 0), random(0, 4))),
    ("type", lambda: (A.tolist(), B)),
    ("type", lambda: (A, B.tolist())),
    ("type", lambda: (A.view(np.matrix), B)),
    ("type", lambda: (np.ma.masked_array(A), B)),
]


@pytest.mark.parametrize(("reason", "make"), NUMPY_TAKES)
def test_answers_what_numpy_answers(library: Library, reason: str, make: Any) -> None:
    want = np.matmul(*make())
    for n in range(1, 4):
        got = library.matmul(*make())
        assert type(got) is type(want)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype != object:
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert counted(library, "fallback", reason) == n
        assert library.stats().calls == n


def test_outputs_that_no_kernel_takes(library: Library) -> None:
    want = A @ B
    wide = np.zeros((4, 8), np.float32)
    for out, reason in (
        (wide[:, ::2], "strides"),
        (np.zeros((4, 4), np.float32, order="F"), "strides"),
        (np.zeros((4, 4), np.float64), "dtype"),
        (_unaligned(), "alignment"),
    ):
        for _ in range(2):
            assert library.matmul(A, B, out=out) is out
            np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)
        assert counted(library, "fallback", reason) >= 2
    assert (wide[:, 1::2] == 0).all()


def test_an_output_among_the_inputs(library: Library) -> None:
    a = A.copy()
    for n in range(1, 4):
        want = a @ B
        assert library.matmul(a, B, out=a) is a
        np.testing.assert_allclose(a, want, rtol=1e-4, atol=1e-5)
        assert counted(library, "fallback", "overlap") == n
    block = random(9, 4)
    want = block[:4] @ B
    library.matmul(block[:4], B, out=block[2:6])
    np.testing.assert_allclose(block[2:6], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "args",
    [(), (A,), (A, random(3, 3)), (None, B), (A, None), ("a", "b"), (A, random(5, 4), None), (A, B, A, B, A)],
)
def test_refuses_what_numpy_refuses(library: Library, args: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        np.matmul(*args)
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)):
            library.matmul(*args)


def test_refuses_a_readonly_output(library: Library) -> None:
    out = np.zeros((4, 4), np.float32)
    out.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            library.matmul(A, B, out=out)
    assert (out == 0).all()


def test_a_layout_that_changes_between_calls(library: Library) -> None:
    a = A.copy()
    np.testing.assert_allclose(library.matmul(a, B), a @ B, rtol=1e-4, atol=1e-5)
    a.shape = (2, 8)
    with pytest.raises(ValueError, match="matmul"):
        library.matmul(a, B)
    np.testing.assert_allclose(library.matmul(a, random(8, 3)), a @ random(8, 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_indices_and_lengths_do_not_widen_a_result(library: Library, real: type) -> None:
    rows, matrices, heads = np.ones((4, 3), real), np.ones((2, 3, 5), real), np.ones((2, 1, 6, 8), real)
    index = np.array([0, 1, 1, 0])
    assert library.embedding(index, rows).dtype == real
    assert library.grouped_matmul(rows, matrices, index.astype(np.int32)).dtype == real
    assert library.attention(heads, heads, heads, index[1:3].astype(np.int32), lengths=True).dtype == real


def test_the_first_error_is_told(library: Library) -> None:
    """Also where the last array could have been the output."""
    heads = np.ones((2, 1, 6, 8), np.float32)
    with pytest.raises(UsageError, match=r"\(2, 1, 6, 8\), \(3,\) do not go together"):
        library.attention(heads, heads, heads, np.ones(3, np.int32), lengths=True)


def test_operators_without_a_kernel(library: Library) -> None:
    a, b = random(2, 3, 4), random(2, 4, 5)
    np.testing.assert_allclose(library.batch_matmul(a, b), a @ b, rtol=1e-4, atol=1e-5)
    x = random(3, 8)
    e = np.exp(x - x.max(1, keepdims=True))
    out = np.empty_like(x)
    for _ in range(2):
        got = library.softmax(x)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-5)
        assert library.softmax(x, out=out) is out
        np.testing.assert_allclose(out, got)
    assert counted(library, "fallback", "untuned") == 5


def test_operators_of_users_are_served(library: Library) -> None:
    x, y = random(4, 5), random(3, 5, seed=1)
    want = ((x[:, None] - y[None]) ** 2).sum(-1)
    out = np.empty((4, 3), np.float32)
    for _ in range(2):
        np.testing.assert_allclose(library.sqdist(x, y), want, rtol=1e-5)
        assert library.sqdist(x, y, out=out) is out
        np.testing.assert_allclose(library.sqdist(np.asfortranarray(x), y), want, rtol=1e-5)
        both = np.concatenate([x.ravel(), y.ravel()])
        xx, yy, over = both[:20].reshape(4, 5), both[20:].reshape(3, 5), both[6:18].reshape(4, 3)
        assert library.sqdist(xx, yy, out=over) is over
        np.testing.assert_allclose(over, want, rtol=1e-5)
    np.testing.assert_allclose(library.sqdist(x, y, m=4), want, rtol=1e-5)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 9}
    assert library.stats().reasons == {"strides": 2, "overlap": 2}


def test_users_operators_with_what_was_not_tuned(library: Library) -> None:
    x, y = random(4, 5), random(3, 5)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"sqdist was not tuned for inputs .*m=4 n=3 k=5"):
            library.sqdist(random(9, 5), y)
        with pytest.raises(UsageError, match="float64"):
            library.sqdist(x.astype(np.float64), y)
        with pytest.raises(UsageError, match="not tuned"):
            library.sqdist(x, y, p=3)
        with pytest.raises(TypeError, match="list"):
            library.sqdist(x.tolist(), y)
        with pytest.raises(TypeError, match="None"):
            library.sqdist(x, None)
        with pytest.raises(TypeError, match="matrix"):
            library.sqdist(x.view(np.matrix), y)
        with pytest.raises(UsageError):
            library.sqdist(x)
        with pytest.raises(UsageError):
            library.sqdist()


def test_a_number_for_a_scalar(library: Library) -> None:
    x = random(64)
    for s in (2.0, np.float32(2), np.array(2, np.float32)):
        np.testing.assert_allclose(library.scale(x, s), 2 * x, rtol=1e-6)


def test_unknown_operators_are_missing_attributes(library: Library) -> None:
    with pytest.raises(AttributeError, match=r"no operator 'sqidst'\. Did you mean sqdist\? Known are .*sqdist"):
        _ = library.sqidst
    assert not hasattr(library, "_ipython_display_")
    assert {"matmul", "sqdist", "softmax", "plan"} <= set(dir(library))
    assert library.operators() == tuple(sorted({*OPERATORS, "scale", "sqdist"}))


def test_sizes_that_the_inputs_do_not_show(maker: Maker) -> None:
    # Two workloads that take equal inputs and differ in a size that only the result shows.
    @operator
    def tile(n: int, times: int) -> te.TensorRef:
        x = te.input("x", (n,))
        return te.compute((times, n), lambda i, j: x[j] + te.cast(i, "float32") * 0.0)

    for times in (1, 2):
        maker.add(tile.workload(n=4, times=times), "tw_t_fail")
    library = Library(maker.path)
    with pytest.raises(UsageError, match="differ in times"):
        library.tile(random(4))


def test_several_numbers_in_an_attribute(maker: Maker, either: str) -> None:
    @operator
    def spread(n: int, step: te.Ints = 1) -> te.TensorRef:
        x, s = te.input("x", (n,)), te.scalar("s")
        factor = step if isinstance(step, int) else sum(step)
        return te.compute((n,), lambda i: x[i] * s[()] * float(factor))

    scaled = {"workspace": 16, "zero_fill": 16}
    maker.add(spread.workload(n=4, step=(2, 1)), "tw_t_scale", **scaled)
    maker.add(spread.workload(n=4, step=3), "tw_t_scale", **scaled)
    library = Library(maker.path)
    x, two = random(4), np.float32(2)
    for step in ((2, 1), "2,1", [2, 1], np.array([2, 1]), 3, "3,3", (3, 3)):
        plan = library.plan("spread", n=4, step=step)
        assert library.explain("spread", n=4, step=step).tier == "exact"
        np.testing.assert_allclose(plan(x, two), 2 * x, rtol=1e-6)
    given = [2, 1]
    np.testing.assert_allclose(library.spread(x, np.array(2, np.float32), step=given), 2 * x, rtol=1e-6)
    np.testing.assert_allclose(library.spread(x, np.array(2, np.float32), step=(3, 3)), 2 * x, rtol=1e-6)
    given[:] = [5, 1]  # the same list object with other numbers is another attribute
    for step in (given, (1, 2), "2"):
        with pytest.raises(UsageError):
            library.spread(x, np.array(2, np.float32), step=step)
    with pytest.raises(UsageError, match="spread is not known"):
        library.plan("spread", n=4, step=(1, 2))


def test_attributes_of_built_in_operators_without_a_kernel(maker: Maker) -> None:
    library = Library(maker.path)
    x, weight = random(1, 2, 9, 8), random(3, 2, 3, 3)
    expected = get_operator("conv2d").numpy(x, weight, stride=(2, 1), padding=1)
    np.testing.assert_array_equal(library.conv2d(x, weight, stride=(2, 1), padding=1), expected)
    np.testing.assert_array_equal(library.conv2d(x, weight, stride="2,1", padding=[1, 1]), expected)
    pooled = library.max_pool2d(x, kernel_size=(3, 2))
    assert pooled.shape == (1, 2, 3, 4)
    with pytest.raises(UsageError, match="max_pool2d needs kernel_size"):
        library.max_pool2d(x)
    with pytest.raises(UsageError, match="Did you mean stride"):
        library.conv2d(x, weight, strides=2)


def test_becomes_native_with_the_first_kernel(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pycall, "_made", [])
    library = Library(maker.path, watch=False)  # a refresh amid the call would put it off to the next one
    before = library.matmul
    assert not inspect.isbuiltin(before)
    np.testing.assert_allclose(before(A, B), A @ B, rtol=1e-5)
    assert library.matmul is before
    maker.matmul(4, 4, 4)
    maker.matmul(3, 5, 7)
    a, b = random(3, 7), random(7, 5)
    np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4)
    assert inspect.isbuiltin(library.matmul)
    assert counted(library, "exact") == 1


@pytest.mark.nightly
def test_the_table_stays_bounded(filled_database: Path) -> None:
    library = Library(filled_database)
    library.matmul(A, B)
    table = library._dispatches["matmul"]._table
    assert table is not None
    for n in range(1, 4200):
        library.matmul(np.ones((1, n), np.float32), np.ones((n, 1), np.float32))
    assert 0 < table.entries <= 4096
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 2, "fallback": 4199}


def test_workload_of_another_program_under_a_built_in_name(maker: Maker) -> None:
    maker.matmul(4, 4, 4)
    mine = get_operator("matmul").workload(m=4, n=4, k=4)
    other = sqdist.workload(m=4, n=4, k=4)
    maker.add(replace(other, op="matmul", params=mine.params, defaults=mine.defaults), "tw_t_sqdist")
    library = Library(maker.path)
    told = library.explain("matmul", m=4, n=4, k=4)
    assert "the last tuned of 2 programs" in told.reason
    np.testing.assert_allclose(library.matmul(A, B), ((A[:, None] - B[None]) ** 2).sum(-1), rtol=1e-4)


def test_users_operators_copy_arrays_of_another_layout_beside_a_plain_number(library: Library) -> None:
    x, out = random(128)[::2], np.zeros(128, np.float32)[::2]
    want = x * np.float32(3)
    for number in (3, 3.0, np.float32(3), np.array(3, np.float32)):
        np.testing.assert_allclose(library.scale(x, number), want, rtol=1e-6)
        assert library.scale(x, number, out=out) is out
        np.testing.assert_allclose(out, want, rtol=1e-6)
        with pytest.raises(UsageError, match="float64"):
            library.scale(x.astype(np.float64), number)
    assert library.stats().reasons == {"strides": 8}

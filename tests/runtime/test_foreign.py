"""Arrays of other frameworks: read where they lie, answered in kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from runtime_kernels import Maker, random

from harness.dlpack import Plain
from tilewright.core import UsageError
from tilewright.runtime import Library
from tilewright.runtime.foreign import borrow

A, B = random(4, 4), random(4, 4, seed=1)


class Elsewhere:
    """An array in the memory of another device."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("not asked")


def test_a_tuned_kernel_answers_in_kind(library: Library, either: str) -> None:
    a, b = strict.asarray(A), strict.asarray(B)
    for n in range(1, 3):
        c = library.matmul(a, b)
        assert type(c) is type(a)
        np.testing.assert_allclose(np.from_dlpack(c), A @ B, rtol=1e-4, atol=1e-5)
        assert library.stats().tiers["exact"] == n
    plan = library.plan("matmul", m=4, n=4, k=4)
    assert type(plan(a, b)) is type(a)
    np.testing.assert_allclose(np.from_dlpack(plan(a, b)), A @ B, rtol=1e-4, atol=1e-5)
    turned = library.matmul(a, b, trans_b=True)
    np.testing.assert_allclose(np.from_dlpack(turned), A @ B.T, rtol=1e-4, atol=1e-5)


def test_an_output_is_written_in_place(library: Library, either: str) -> None:
    a, b = strict.asarray(A), strict.asarray(B)
    plan = library.plan("matmul", m=4, n=4, k=4)
    for call in (library.matmul, plan):
        out = strict.zeros((4, 4), dtype=strict.float32)
        assert call(a, b, out=out) is out
        np.testing.assert_allclose(np.from_dlpack(out), A @ B, rtol=1e-4, atol=1e-5)
        assert call(A, B, out=out) is out
        assert call(a, b, out) is out


def test_nothing_is_copied() -> None:
    a = strict.asarray(A)
    lent = borrow("f", (a, A))
    assert lent is not None
    assert np.shares_memory(lent.args[0], np.from_dlpack(a))
    assert lent.args[1] is A
    result = random(3, 3)
    assert np.shares_memory(np.from_dlpack(lent.give(result, "float32")), result)
    assert borrow("f", (A, 1.0, None, [1]), (A,)) is None


def test_what_speaks_dlpack_alone_gets_numpy(library: Library) -> None:
    c = library.matmul(Plain(A), Plain(B))
    assert type(c) is np.ndarray
    np.testing.assert_allclose(c, A @ B, rtol=1e-4, atol=1e-5)
    assert library.stats().tiers["exact"] == 1


def test_what_was_not_tuned_is_answered_in_kind_too(library: Library) -> None:
    a, b = strict.asarray(random(5, 6)), strict.asarray(random(6, 2))
    c = library.matmul(a, b)
    assert type(c) is type(a)
    np.testing.assert_allclose(np.from_dlpack(c), random(5, 6) @ random(6, 2), rtol=1e-4, atol=1e-5)
    empty = library.matmul(strict.zeros((0, 4), dtype=strict.float32), strict.asarray(B))
    assert (type(empty), empty.shape) == (type(a), (0, 4))
    with pytest.raises(UsageError, match="sqdist was not tuned"):
        library.sqdist(a, b)


def test_constants_are_bound(maker: Maker, either: str) -> None:
    prepack = (1, "tw_t_turn", ["*", "n", "k", 4])
    maker.matmul(4, 4, 4, "tw_t_mm_trans", params={"constant": "b"}, prepack=prepack)
    call = Library(maker.path).plan("matmul", m=4, n=4, k=4, constant="b").bind(b=strict.asarray(B))
    c = call(strict.asarray(A))
    assert type(c) is type(strict.asarray(A))
    np.testing.assert_allclose(np.from_dlpack(c), A @ B, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["matmul", "plan"])
def test_what_cannot_be_read_is_named(library: Library, name: str) -> None:
    call = library.matmul if name == "matmul" else library.plan("matmul", m=4, n=4, k=4)
    with pytest.raises(TypeError, match=r"matmul: argument 2 is on a device of test_foreign. Move it"):
        call(A, Elsewhere())
    with pytest.raises(TypeError, match=r"but another is a array_api_strict Array. Pass arrays of one framework"):
        call(strict.asarray(A), Plain(B))
    locked = A.copy()
    locked.flags.writeable = False
    with pytest.raises(ValueError, match=r"out is a harness Plain that cannot be written"):
        call(A, B, out=Plain(locked))


def test_a_wrong_shape_or_dtype_is_an_error_of_the_plan(library: Library) -> None:
    plan = library.plan("matmul", m=4, n=4, k=4)
    with pytest.raises(ValueError, match=r"matmul: a has shape \(3, 4\)"):
        plan(strict.asarray(A[:3]), strict.asarray(B))
    with pytest.raises(TypeError, match="matmul: b has dtype float64"):
        plan(strict.asarray(A), strict.asarray(B.astype(np.float64)))


def test_a_users_operator(library: Library, tmp_path: Path) -> None:
    x, y = random(4, 5), random(3, 5, seed=1)
    d = library.sqdist(strict.asarray(x), strict.asarray(y))
    np.testing.assert_allclose(np.from_dlpack(d), ((x[:, None] - y[None]) ** 2).sum(-1), rtol=1e-5)

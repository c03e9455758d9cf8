"""``inspect.signature`` of what users call."""

from __future__ import annotations

import inspect

from runtime_kernels import Maker, scale, sqdist

from tilewright.runtime import Library


def test_plans_methods_and_operators_have_signatures(maker: Maker, either: str) -> None:
    maker.matmul(4, 4, 4)
    maker.add(scale.workload(n=64), "tw_t_scale", workspace=["*", "n", 4], zero_fill=["*", "n", 4])
    prepack = (1, "tw_t_turn", ["*", "n", "k", 4])
    maker.matmul(4, 4, 4, "tw_t_mm_trans", params={"constant": "b"}, prepack=prepack)
    library = Library(maker.path)
    assert str(inspect.signature(library.plan("matmul", m=4, n=4, k=4))) == "(a, b, /, out=None)"
    assert str(inspect.signature(library.plan("matmul", m=5, n=4, k=4))) == "(a, b, /, out=None)"  # numpy's
    assert str(inspect.signature(library.plan("matmul", m=4, n=4, k=4, constant="b"))) == "(a, b, /, out=None)"
    assert str(inspect.signature(library.plan("scale", n=64))) == "(x, s, /, out=None)"
    assert str(inspect.signature(library.matmul)) == "(*arrays, out=None, **attributes)"
    assert str(inspect.signature(library.softmax)) == "(*arrays, out=None, **attributes)"
    assert list(inspect.signature(sqdist).parameters) == ["m", "n", "k"]

"""The tuned kernels of a workload whose sizes are ranges: one for each size, and whether there is one for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random

from tilewright.kernels.operators import get_operator
from tilewright.runtime import Library
from tilewright.runtime.tuned import Tuned

MATMUL = get_operator("matmul")


def workload(m: int | str) -> Any:
    return MATMUL.workload(m=m, n=3, k=4)


def add(maker: Maker, m: str, symbol: str = "tw_t_mm") -> None:
    """A kernel for a range of rows, which it is told."""
    maker.add(workload(m), symbol)


def tuned(maker: Maker, m: str) -> Tuned:
    with Library(maker.path, threads=1, watch=False) as library:
        found = library.resolver.tuned(workload(m))
    assert found is not None
    return found


def product(found: Tuned, m: int) -> Any:
    """What the kernel of a size makes of some operands, over their product."""
    a, b, c = random(m, 4), random(4, 3, seed=1), np.zeros((m, 3), np.float32)
    found.kernel({"m": m}).run([x.ctypes.data for x in (a, b, c)])
    return np.median(c / (a @ b))


def test_the_kernel_for_the_fewest_sizes_serves_a_size(maker: Maker) -> None:
    add(maker, "1..8")
    add(maker, "3..4", "tw_t_mm_twice")
    maker.matmul(6, 3, 4, "tw_t_mm_twice")
    found = tuned(maker, "1..8")
    assert found.serves_all
    assert [round(float(product(found, m))) for m in range(1, 9)] == [1, 1, 2, 2, 1, 2, 1, 1]


def test_kernels_of_parts_serve_all_where_they_meet(maker: Maker) -> None:
    add(maker, "1..3")
    add(maker, "5..8")
    assert not tuned(maker, "1..8").serves_all
    assert tuned(maker, "5..7").serves_all
    with pytest.raises(LookupError, match=r"nothing was tuned for matmul of \{'m': 4\}"):
        tuned(maker, "1..8").kernel({"m": 4})
    maker.matmul(4, 3, 4)
    found = tuned(maker, "1..8")
    assert found.serves_all
    assert round(float(product(found, 4))) == 1
    assert tuned(maker, "2..20").entry({"m": 9}) is None


def test_kernels_of_other_programs_serve_nothing(maker: Maker) -> None:
    add(maker, "1..8")
    with Library(maker.path, threads=1, watch=False) as library:
        assert library.resolver.tuned(MATMUL.workload(m="1..8", n=3, k=4, trans_b=True)) is None
        assert library.resolver.tuned(MATMUL.workload(m="1..8", n="1..3", k=4)) is None
        assert library.resolver.tuned(MATMUL.workload(m="9..12", n=3, k=4)) is None

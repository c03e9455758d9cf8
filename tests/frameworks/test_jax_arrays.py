"""JAX arrays in this processor's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.runtime.foreign import borrow

jax: Any = pytest.importorskip("jax", reason="JAX is not installed: make test-torch")
jnp: Any = pytest.importorskip("jax.numpy", reason="JAX is not installed: make test-torch")

M, N, K = 8, 16, 12


def operands(dtype: Any = "float32") -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.standard_normal(s), dtype=dtype) for s in ((M, K), (K, N)))  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_tuned_kernel_answers_in_kind(library: tilewright.Library, dtype: str) -> None:
    a, b = operands(dtype)
    wanted = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    plan = library.plan("matmul", m=M, n=N, k=K, dtype=dtype)
    for c in (library.matmul(a, b), plan(a, b)):
        assert isinstance(c, jax.Array)
        assert (c.dtype, c.shape) == (a.dtype, (M, N))
        np.testing.assert_allclose(
            np.asarray(c, np.float64), wanted, rtol=2e-2 if dtype != "float32" else 1e-4, atol=1e-2
        )
    assert library.stats().tiers["exact"] == 2


def test_inputs_are_not_copied() -> None:
    a, _ = operands()
    lent = borrow("f", (a,))
    assert lent is not None
    assert lent.args[0].__array_interface__["data"][0] == a.unsafe_buffer_pointer()


def test_arrays_that_cannot_be_written_or_read(library: tilewright.Library) -> None:
    a, b = operands()
    with pytest.raises(ValueError, match=r"out is .* that cannot be written. Leave it out"):
        library.matmul(a, b, out=jnp.zeros((M, N)))
    with pytest.raises(TypeError, match="numpy cannot read"):
        jax.jit(library.matmul)(a, b)

"""``tilewright.jax``: the answers and gradients of kernels are JAX's in float64, and where nothing is tuned JAX answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from harness.default_kernels import default_kernels
from harness.shared import made_once
from tilewright.core import Workload

jax: Any = pytest.importorskip("jax", reason="JAX is not installed: make test-torch")
jnp: Any = pytest.importorskip("jax.numpy", reason="JAX is not installed: make test-torch")

import tilewright.jax as tj  # noqa: E402
from tilewright.jax import formulas  # noqa: E402

Function = Callable[..., Any]
F = formulas.FORMULAS


def heads(*, causal: bool = False, gqa: bool = False) -> tuple[Function, Function]:
    return (
        lambda q, k, v: tj.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa),
        lambda q, k, v: F["scaled_dot_product_attention"](q, k, v, None, causal, None, gqa),
    )


CASES: dict[str, tuple[Function, Function, Sequence[tuple[int, ...]]]] = {
    "matmul": (tj.matmul, jnp.matmul, [(4, 6), (6, 5)]),
    "matmul turned": (
        lambda a, b: tj.matmul(a, b, trans_a=True, trans_b=True), lambda a, b: a.T @ b.T, [(6, 4), (5, 6)],
    ),
    "matmul of rows": (tj.matmul, jnp.matmul, [(2, 3, 6), (6, 5)]),
    "batch_matmul": (
        lambda a, b: tj.batch_matmul(a, b, trans_b=True), lambda a, b: a @ b.swapaxes(-1, -2), [(2, 4, 6), (2, 5, 6)],
    ),
    "linear": (tj.linear, lambda x, w, b: x @ w.T + b, [(2, 3, 6), (5, 6), (5,)]),
    "conv2d": (
        lambda x, w, b: tj.conv2d(x, w, b, stride=(2, 1), padding=1),
        lambda x, w, b: F["conv2d"](x, w, b, (2, 1), (1, 1), (1, 1), 1), [(2, 4, 8, 7), (6, 4, 3, 3), (6,)],
    ),
    "conv2d of groups": (
        lambda x, w: tj.conv2d(x, w, dilation=2, groups=2),
        lambda x, w: F["conv2d"](x, w, None, (1, 1), (0, 0), (2, 2), 2), [(1, 4, 8, 8), (6, 2, 3, 3)],
    ),
    "conv3d": (
        tj.conv3d, lambda x, w: F["conv3d"](x, w, None, (1,) * 3, (0,) * 3, (1,) * 3, 1), [(1, 2, 4, 4, 4), (3, 2, 2, 2, 2)],
    ),
    "conv_transpose1d": (
        lambda x, w, b: tj.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1, groups=2),
        lambda x, w, b: F["conv_transpose1d"](x, w, b, (2,), (1,), (1,), 2, (1,)), [(1, 4, 8), (4, 3, 3), (6,)],
    ),
    "conv_transpose2d": (
        lambda x, w: tj.conv_transpose2d(x, w, stride=2, dilation=2),
        lambda x, w: F["conv_transpose2d"](x, w, None, (2, 2), (0, 0), (0, 0), 1, (2, 2)), [(2, 4, 4, 5), (4, 3, 3, 3)],
    ),
    "layer_norm": (
        lambda x, w, b: tj.layer_norm(x, (6,), w, b), lambda x, w, b: F["layer_norm"](x, (6,), w, b, 1e-5), [(4, 6), (6,), (6,)],
    ),
    "rms_norm": (
        lambda x, w: tj.rms_norm(x, 6, w), lambda x, w: F["rms_norm"](x, (6,), w, 1e-6), [(4, 6), (6,)],
    ),
    "softmax": (tj.softmax, jax.nn.softmax, [(4, 6)]),
    "log_softmax of columns": (lambda x: tj.log_softmax(x, 0), lambda x: jax.nn.log_softmax(x, 0), [(4, 6)]),
    "attention": (*heads(causal=True, gqa=True), [(1, 4, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8)]),
    "attention without heads": (*heads(), [(2, 5, 8), (2, 6, 8), (2, 6, 8)]),
}  # fmt: skip
"""Ours, JAX's, and shapes of the arrays."""

BATCHED = ("matmul", "batch_matmul", "linear", "conv2d", "log_softmax of columns", "layer_norm", "attention")
"""What is tried under ``jax.vmap``: of the first array, of all arrays of products and attention."""


def axes(name: str, count: int) -> tuple[int | None, ...]:
    return (0,) * count if "matmul" in name or "attention" in name else (0, *(None,) * (count - 1))


def arrays(shapes: Sequence[tuple[int, ...]], dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.standard_normal(s), dtype) for s in shapes]


def many(name: str, dtype: str = "float32") -> list[Any]:
    """A case's arrays with an axis of three in front of those of :func:`axes`."""
    _, _, shapes = CASES[name]
    return arrays([s if a is None else (3, *s) for s, a in zip(shapes, axes(name, len(shapes)), strict=True)], dtype)


def trained(function: Function, count: int) -> Function:
    """The result, and the gradients of all arrays."""

    def both(*given: Any) -> tuple[Any, Any]:
        out, back = jax.vjp(function, *given)
        return out, back(jnp.cos(jnp.arange(out.size, dtype=out.dtype)).reshape(out.shape))

    return jax.jit(both, compiler_options={"xla_backend_optimization_level": 0})


class Recording(tilewright.Library):
    """A library without kernels that remembers what it was asked for."""

    asked: list[Workload]

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        find = self.resolver.find

        def noted(workload: Workload, device: Any = None) -> Any:
            self.asked.append(workload)
            return find(workload, device)

        self.resolver.find = noted  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "jax_operators", _compile) / "t.db"


def _compile(folder: Path) -> None:
    recording = Recording(folder / "empty.db", missing_ok=True, watch=False)
    recording.asked = []
    tj.use(recording)
    for name, (ours, _, shapes) in CASES.items():
        trained(ours, len(shapes)).lower(*arrays(shapes))
        if name in BATCHED:
            jax.jit(jax.vmap(ours, axes(name, len(shapes)))).lower(*many(name))
    default_kernels(recording.asked, folder / "t.db")


@pytest.fixture
def library(kernels: Path) -> Iterator[tilewright.Library]:
    yield tj.use(tilewright.Library(kernels, watch=False))
    jax.clear_caches()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[tilewright.Library]:
    yield tj.use(tilewright.Library(tmp_path / "empty.db", missing_ok=True, watch=False))
    jax.clear_caches()


def close(got: Any, wanted: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float64), b, rtol=1e-4, atol=1e-4)


def in_float64(function: Function, given: Sequence[Any]) -> Any:
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*(jnp.asarray(np.asarray(a, np.float64)) for a in given)))


@pytest.mark.parametrize("name", CASES)
def test_kernels_give_jax_s_results_and_gradients(library: tilewright.Library, name: str) -> None:
    ours, theirs, shapes = CASES[name]
    given = arrays(shapes)
    close(trained(ours, len(shapes))(*given), in_float64(trained(theirs, len(shapes)), given))
    stats = library.stats()
    assert stats.tiers["exact"] > 0
    assert stats.tiers["fallback"] == 0


@pytest.mark.parametrize("name", BATCHED)
def test_kernels_answer_under_vmap(library: tilewright.Library, name: str) -> None:
    ours, theirs, shapes = CASES[name]
    over, given = axes(name, len(shapes)), many(name)
    close(jax.jit(jax.vmap(ours, over))(*given), in_float64(jax.vmap(theirs, over), given))
    assert library.stats().tiers["exact"] == 1
    assert library.stats().tiers["fallback"] == 0


@pytest.mark.parametrize("name", ["matmul", "conv2d", "layer_norm", "attention"])
def test_jax_answers_where_nothing_is_tuned(empty: tilewright.Library, name: str) -> None:
    ours, theirs, shapes = CASES[name]
    given = arrays(shapes)
    close(trained(ours, len(shapes))(*given), in_float64(trained(theirs, len(shapes)), given))
    stats = empty.stats()
    assert stats.tiers["exact"] == 0
    assert stats.reasons == {"untuned": stats.tiers["fallback"]}
    assert stats.tiers["fallback"] > 1


def test_weights_that_vmap_changes_are_left_to_jax(library: tilewright.Library) -> None:
    x, w, b = arrays([(4, 6), (3, 5, 6), (5,)])
    close(jax.vmap(tj.linear, (None, 0, None))(x, w, b), jnp.einsum("ij,bkj->bik", x, w) + b)
    vectors = jax.vmap(tj.matmul, (0, 0))(x, x)
    close(vectors, (x * x).sum(1))
    assert library.stats().reasons == {"shape": 2}


def test_products_of_matrices_of_unequal_number_align_under_vmap(empty: tilewright.Library) -> None:
    a, b = arrays([(2, 4, 6), (3, 6, 5)])
    close(jax.vmap(tj.matmul, (None, 0))(a, b), jnp.stack([a @ m for m in b]))
    turned = jnp.moveaxis(b, 0, 1)
    close(
        jax.vmap(tj.matmul, (1, None), 1)(turned, a[0, :, :5].T),
        jax.vmap(jnp.matmul, (1, None), 1)(turned, a[0, :, :5].T),
    )


def test_forward_mode_and_second_derivatives_are_jax_s(library: tilewright.Library) -> None:
    a, b = arrays([(4, 6), (6, 5)])

    def derivatives(f: Function) -> Any:
        def squares(a: Any) -> Any:
            return (f(a, b) ** 2).sum()

        def twice(a: Any) -> Any:
            return (jax.grad(squares)(a) ** 2).sum()

        return jax.jit(lambda a, b: (jax.jvp(f, (a, b), (b.T[:4] + 1, b)), jax.hessian(squares)(a), jax.grad(twice)(a)))

    for ours, theirs in ((tj.matmul, jnp.matmul), (lambda a, b: tj.softmax(a @ b), lambda a, b: jax.nn.softmax(a @ b))):
        close(derivatives(ours)(a, b), derivatives(theirs)(a, b))


def test_gradients_flow_through_vmap_scan_and_remat(library: tilewright.Library) -> None:
    a, b = arrays([(3, 4, 6), (6, 6)])

    def loss(product: Function) -> Function:
        def steps(x: Any, w: Any) -> Any:
            step = jax.checkpoint(lambda h, _: (jnp.tanh(product(h, w)), None))
            return jax.lax.scan(step, x, None, length=2)[0].sum()

        return lambda x, w: jax.vmap(steps, (0, None))(x, w).sum()

    close(jax.jit(jax.grad(loss(tj.matmul), (0, 1)))(a, b), jax.jit(jax.grad(loss(jnp.matmul), (0, 1)))(a, b))
    each = jax.jit(jax.vmap(jax.grad(lambda x: tj.softmax(tj.matmul(x, b)).max() ** 2)))
    close(each(a), jax.jit(jax.vmap(jax.grad(lambda x: jax.nn.softmax(x @ b).max() ** 2)))(a))


def test_sharded_programs_sum_the_gradients_of_what_all_devices_share(library: tilewright.Library) -> None:
    a, b = arrays([(4, 6), (6, 5)])
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    split, whole = jax.P("x"), jax.P()

    def mapped(f: Function) -> Any:
        within = jax.shard_map(f, mesh=mesh, in_specs=(split, whole), out_specs=split)
        return jax.jit(jax.grad(lambda a, b: (within(a, b) ** 2).sum(), (0, 1)))(a, b)

    close(mapped(tj.matmul), mapped(jnp.matmul))
    assert library.stats().tiers["exact"] == 3

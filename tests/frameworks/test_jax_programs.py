"""Programs of JAX that call kernels: how long they keep them, their memory, threads, and what is refused."""

from __future__ import annotations

import copy
import gc
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from harness.default_kernels import default_kernels
from harness.shared import made_once
from tilewright import te
from tilewright.core import TilewrightError
from tilewright.kernels.operator import operator
from tilewright.kernels.operators import get_operator

jax: Any = pytest.importorskip("jax", reason="JAX is not installed: make test-torch")
jnp: Any = pytest.importorskip("jax.numpy", reason="JAX is not installed: make test-torch")

import tilewright.jax as tj  # noqa: E402
from tilewright.jax import native  # noqa: E402
from tilewright.jax.serving import serving  # noqa: E402

M, N, K = 8, 16, 12
compiled = pytest.mark.skipif(native.native() is None, reason="no compiler for JAX's headers")


@operator
def jax_parts(m: int, n: int, factor: float = 2.0) -> tuple[te.TensorRef, ...]:
    x = te.input("x", (m, n))
    return (
        te.compute((m, n), lambda i, j: x[i, j] * factor),
        te.compute((m,), lambda i: te.sum(n, lambda k: x[i, k])),
    )


@operator
def jax_places(m: int, n: int) -> te.TensorRef:
    x = te.input("x", (m, n), low=-9.0, high=9.0)
    return te.compute((m,), lambda i: te.argmax(n, lambda k: x[i, k]))


@pytest.fixture(scope="session")
def more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "jax_programs", _compile) / "t.db"


def _compile(folder: Path) -> None:
    product = get_operator("matmul").workload
    default_kernels(
        [
            product(m=M, n=M, k=M), product(m=M, n=N, k=K, dtype="float64"), product(m=M, n=N, k=K),
            jax_parts.workload(m=4, n=6), jax_places.workload(m=4, n=6),
        ],
        folder / "t.db",
    )  # fmt: skip


@pytest.fixture
def library(more: Path) -> Iterator[tilewright.Library]:
    yield tj.use(tilewright.Library(more, watch=False))
    jax.clear_caches()


def random(*shape: int, dtype: str = "float32") -> Any:
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), dtype)


def served(library: tilewright.Library) -> int:
    return library.stats().tiers["exact"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_kernels_answer_in_each_dtype(tuned: Path, dtype: str) -> None:
    library = tj.use(tilewright.Library(tuned, watch=False))
    a, b = random(M, K, dtype=dtype), random(K, N, dtype=dtype)
    got = jax.jit(tj.matmul)(a, b)
    assert (got.dtype, got.shape) == (a.dtype, (M, N))
    wanted = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    np.testing.assert_allclose(
        np.asarray(got, np.float64), wanted, rtol=1e-4 if dtype == "float32" else 2e-2, atol=1e-2
    )
    assert served(library) == 1


def test_kernels_answer_in_float64_where_jax_has_it(library: tilewright.Library) -> None:
    with jax.enable_x64(True):
        a, b = random(M, K, dtype="float64"), random(K, N, dtype="float64")
        got = tj.matmul(a, b)
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, np.asarray(a) @ np.asarray(b), rtol=1e-13, atol=1e-13)
    assert served(library) == 1


def test_shapes_alone_ask_for_no_kernel(library: tilewright.Library) -> None:
    a, b = (jax.ShapeDtypeStruct(s, "bfloat16") for s in ((M, K), (K, N)))
    made = jax.eval_shape(lambda a, b: tj.softmax(tj.matmul(a, b)), a, b)
    assert (made.shape, made.dtype) == ((M, N), jnp.bfloat16)
    assert library.stats().calls == 0


def test_compiled_functions_keep_their_kernels_and_new_ones_take_others(
    library: tilewright.Library, tmp_path: Path
) -> None:
    a, b = random(M, K), random(K, N)
    before = jax.jit(tj.matmul)
    wanted = before(a, b)
    empty = tj.use(tilewright.Library(tmp_path / "empty.db", missing_ok=True, watch=False))
    gc.collect()
    np.testing.assert_array_equal(before(a, b), wanted)
    assert served(library) == 2
    np.testing.assert_allclose(tj.matmul(a, b), wanted, rtol=1e-5, atol=1e-5)
    later = jax.jit(partial(tj.matmul))
    later(a, b)
    assert empty.stats().reasons == {"untuned": 2}


def test_what_is_tuned_meanwhile_answers_what_is_traced_then(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    library = tj.use(tilewright.Library(path, missing_ok=True, watch=False))
    a, b = random(M, K), random(K, N)
    before = jax.jit(tj.matmul)
    before(a, b), tj.matmul(a, b)
    default_kernels([get_operator("matmul").workload(m=M, n=N, k=K)], path)
    library.refresh()
    before(a, b).block_until_ready()
    assert served(library) == 0
    jax.block_until_ready((tj.matmul(a, b), jax.jit(partial(tj.matmul))(a, b)))
    assert served(library) == 2


def test_programs_for_a_gpu_are_jax_s_own(library: tilewright.Library) -> None:
    a, b = random(M, K), random(K, N)
    made = jax.export.export(jax.jit(partial(tj.matmul)), platforms=["cuda"])(a, b).mlir_module()
    assert "dot_general" in made
    assert "custom_call" not in made
    assert library.stats().reasons == {"type": 1}


def test_arrays_that_are_given_away_or_given_twice_are_right(library: tilewright.Library) -> None:
    w = random(M, M) / 4
    step = jax.jit(partial(tj.matmul), donate_argnums=0)
    both = jax.jit(lambda x, w: (tj.matmul(x, w), x * 2), donate_argnums=0)
    x, wanted = random(M, M) + 0, np.asarray(random(M, M))
    for _ in range(3):
        x, wanted = step(x, w), wanted @ np.asarray(w)
    twice, doubled = both(x, w)
    np.testing.assert_allclose(doubled, wanted * 2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(twice, wanted @ np.asarray(w), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tj.matmul(w, w), np.asarray(w) @ np.asarray(w), rtol=1e-4, atol=1e-5)
    assert served(library) == 5


def test_transposed_and_sliced_arrays_are_read_as_they_are(library: tilewright.Library) -> None:
    a, b = random(M + 1, M), random(M, 2 * M)
    got = jax.jit(lambda a, b: tj.matmul(a[1:].T, b[:, ::2]).T)(a, b)
    np.testing.assert_allclose(got, (np.asarray(a)[1:].T @ np.asarray(b)[:, ::2]).T, rtol=1e-4, atol=1e-5)
    assert served(library) == 1


@compiled
def test_memory_at_addresses_that_a_kernel_does_not_take_is_copied(library: tilewright.Library) -> None:
    found = library.resolver.find(get_operator("matmul").workload(m=M, n=N, k=K)).served
    assert found is not None
    strict = copy.copy(found.kernel)
    strict.program = replace(strict.program, align=1 << 16)
    a, b = random(M, K), random(K, N)
    assert a.unsafe_buffer_pointer() % (1 << 16) or b.unsafe_buffer_pointer() % (1 << 16)
    (got,) = native.answer(replace(found, kernel=strict), (a, b), -7)
    np.testing.assert_allclose(got, np.asarray(a) @ np.asarray(b), rtol=1e-4, atol=1e-5)
    assert served(library) == 1


def test_threads_share_compiled_functions(library: tilewright.Library) -> None:
    compute = jax.jit(jax.value_and_grad(lambda a, b: tj.matmul(a, b).sum()))
    b = random(K, N)

    def work(seed: int) -> bool:
        a = random(M, K) + seed
        wanted = np.asarray(a) @ np.asarray(b)
        ok = [np.allclose(compute(a, b)[0], wanted.sum(), rtol=1e-4, atol=1e-3) for _ in range(20)]
        return all(ok) and np.allclose(tj.matmul(a, b), wanted, rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))
    assert served(library) == 12 * 21


def test_without_a_compiler_kernels_are_called_back(
    library: tilewright.Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none() -> Any:
        raise TilewrightError("no C++ compiler found", "Install one")

    monkeypatch.setattr(native, "extension", none)
    monkeypatch.setattr(native, "_loaded", [])
    a, b = random(M, K), random(K, N)
    with caplog.at_level(logging.WARNING, "tilewright.jax"):
        got = jax.jit(tj.matmul)(a, b)
        total, rows = jax.jit(lambda x: tj.call(jax_parts, x))(random(4, 6))
    assert [r.getMessage() for r in caplog.records] == [
        "kernels are called back in Python, which is slower: no C++ compiler found. Install one"
    ]
    np.testing.assert_allclose(got, np.asarray(a) @ np.asarray(b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows, total.sum(1) / 2, rtol=1e-4, atol=1e-5)
    assert served(library) == 2


@compiled
def test_a_kernel_that_this_process_lacks_is_named(library: tilewright.Library) -> None:
    a, b = random(M, K), random(K, N)
    result = jax.ShapeDtypeStruct((M, N), "float32")
    call = jax.ffi.ffi_call(native.TARGET, result, vmap_method="sequential")
    with pytest.raises(jax.errors.JaxRuntimeError, match="this process has not loaded kernel 0000000000000005"):
        call(a, b, kernel=np.int64(5)).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match="a call without the number of its kernel"):
        call(a, b).block_until_ready()
    here = native.native()
    assert here is not None
    found = library.resolver.find(get_operator("matmul").workload(m=M, n=N, k=K)).served
    assert found is not None
    number = here.number(found, 0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="matmul: the kernel takes other arrays"):
        call(a[1:], b, kernel=np.int64(number)).block_until_ready()
    assert served(library) == 0


def test_operators_of_one_s_own_are_called(library: tilewright.Library) -> None:
    x = random(4, 6)
    scaled, sums = jax.jit(lambda x: tj.call("jax_parts", x, factor=2.0))(x)
    np.testing.assert_allclose(scaled, np.asarray(x) * 2)
    np.testing.assert_allclose(sums, np.asarray(x).sum(1), rtol=1e-5, atol=1e-6)
    many = jnp.stack([x, x + 1, x - 1])
    np.testing.assert_allclose(jax.vmap(lambda x: tj.call(jax_parts, x)[1])(many), many.sum(2), rtol=1e-4, atol=1e-5)
    assert served(library) == 4
    with jax.enable_x64(True):
        np.testing.assert_array_equal(tj.call(jax_places, x), np.asarray(x).argmax(1))
    with pytest.raises(tilewright.TilewrightError, match="jax_places gives int64, which JAX is told not to have"):
        tj.call(jax_places, x)
    with pytest.raises(
        tilewright.TilewrightError, match=r"^jax_parts was not tuned for inputs \(6, 4\) float32. It was"
    ):
        tj.call(jax_parts, x.T)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda x: tj.call(jax_parts, x)[1].sum())(x)


def test_a_library_that_checks_looks_at_values(more: Path) -> None:
    library = tj.use(tilewright.Library(more, check=True, watch=False))
    x = random(4, 6)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(tj.call(jax_places, x), np.asarray(x).argmax(1))
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=r"jax_places: x\[0, 0\] is 10.0, and its values are between"
        ):
            tj.call(jax_places, x.at[0, 0].set(10)).block_until_ready()
    assert served(library) == 1


def test_numpy_answers_calls_of_built_in_operators_that_nobody_tuned(library: tilewright.Library) -> None:
    x = random(3, 5)
    np.testing.assert_allclose(jax.jit(lambda x: tj.call("softmax", x))(x), jax.nn.softmax(x), rtol=1e-5, atol=1e-6)
    assert library.stats().reasons == {"untuned": 1}


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda a, b: tj.matmul(a, a), TypeError, r"^tilewright.jax.matmul: .*contracting dimensions.*same shape"),
        (lambda a, b: tj.matmul(a, None), TypeError, r"^tilewright.jax.matmul: b is None, and no array. Pass jnp.asarray"),
        (lambda a, b: tj.linear(a, [[1.0]]), TypeError, r"^tilewright.jax.linear: weight is list, and no array"),
        (tj.batch_matmul, ValueError, r"^tilewright.jax.batch_matmul: .* Use matmul$"),
        (tj.conv2d, ValueError, r"^tilewright.jax.conv2d: x has 2 axes, not 4: shape \(8, 12\)$"),
        (lambda a, b: tj.conv1d(a[None], b[None], stride=(1, 2)), ValueError, r"stride has 2 numbers, not 1$"),
        (lambda a, b: tj.conv1d(a[None], b[None], padding="same"), ValueError, r"padding='same' is not a whole number of at least 0"),
        (lambda a, b: tj.conv1d(a[None], b[None], stride=0), ValueError, r"stride=0 is not a whole number of at least 1"),
        (lambda a, b: tj.softmax(a, 2), ValueError, r"^tilewright.jax.softmax: axis 2 of an array of shape \(8, 12\)$"),
        (lambda a, b: tj.layer_norm(a, 3), ValueError, r"^tilewright.jax.layer_norm: .* does not end in .*\(3,\)$"),
        (lambda a, b: tj.rms_norm(a, 12, b), ValueError, r"^tilewright.jax.rms_norm: weight has shape \(12, 16\), not"),
        (lambda a, b: tj.scaled_dot_product_attention(a, a, a), ValueError, r"have 2, 2 and 2 axes, not 3 or 4 each$"),
        (lambda a, b: tj.call("nothing", a), TilewrightError, r"^nothing was not tuned for inputs \(8, 12\) float32"),
        (lambda a, b: tj.use("/nonexistent/t.db"), TilewrightError, r"^there is no database at /nonexistent/t.db"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_in_one_line(
    library: tilewright.Library, make: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as told:
        make(random(M, K), random(K, N))
    assert "\n" not in str(told.value)
    assert serving.library is library


def test_a_kernel_that_is_passed_over_for_a_dtype_is_told_once(library: tilewright.Library) -> None:
    a, b = jnp.ones((M, K), jnp.int32), jnp.ones((K, N), jnp.int32)
    with pytest.warns(tilewright.MissedKernelWarning, match=r"^tilewright.jax.matmul: a kernel .*JAX answers instead$"):
        assert (jax.jit(tj.matmul)(a, b) == K).all()
    tj.matmul(a, b)
    assert library.stats().reasons == {"dtype": 2}

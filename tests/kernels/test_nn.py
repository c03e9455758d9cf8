"""Functions of nn and their operators against SciPy and PyTorch, beside the contract; and wrong input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from tilewright import nn
from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.testing.operator import random_inputs

Array = np.ndarray[Any, Any]


def value(name: str, **params: object) -> tuple[Array, list[Array]]:
    workload = get_operator(name).workload(**{"dtype": "float64", **params})
    inputs = random_inputs(workload, 1)
    return evaluate(Program.loads(workload.program), inputs), inputs


def computed(out: te.TensorRef, *inputs: tuple[te.TensorRef, Array]) -> Array:
    return evaluate(te.program(out, [ref for ref, _ in inputs])[0], [v for _, v in inputs])


# ------------------------------------------------------------------ attributes that random cases do not reach

CASES: list[tuple[str, dict[str, Value]]] = [
    ("einsum", {"a": "2,3,7,4", "b": "2,3,5,4", "equation": "bhqd,bhkd->bhqk"}),
    ("einsum", {"a": "6,5,5", "equation": "bii->bi"}),
    ("einsum", {"a": "6,5", "equation": "ij->"}),
    ("einsum", {"a": "6,5", "equation": "ij->ji"}),
    ("einsum", {"a": "6,5", "b": "5,4", "c": "4,3", "equation": "ij,jk,kl->il"}),
    ("einsum", {"a": "6,5", "b": "5,4", "equation": " ij , jk "}),
    ("einsum", {"a": "3", "b": "4", "equation": "i,j->ij"}),
    ("elementwise", {"shape": "6,5", "fn": "gelu(x*2 + y) - z", "y_shape": "5", "z_shape": "6,1"}),
    ("elementwise", {"shape": "6,5", "fn": "where(x > y, x, y)"}),
    ("attention", {"b": 2, "h": 4, "lq": 6, "lk": 9, "d": 5, "hk": 2, "dv": 3, "is_causal": True, "scale": 0.3}),
    ("attention", {"b": 2, "h": 2, "lq": 6, "lk": 9, "d": 5, "mask": "float", "mask_shape": "2,1,1,9"}),
    ("attention", {"b": 3, "h": 2, "lq": 2, "lk": 9, "d": 5, "hk": 1, "lengths": True}),
    ("attention", {"b": 3, "h": 2, "lq": 2, "lk": 9, "d": 5, "lengths": True, "is_causal": True, "mask": "float"}),
    (
        "attention",
        {"b": 2, "h": 4, "lq": 2, "lk": 12, "d": 5, "hk": 2, "dv": 3, "page": 4, "pages": 9, "lengths": True},
    ),
    ("attention", {"b": 2, "h": 2, "lq": 2, "lk": 12, "d": 5, "page": 3, "is_causal": True, "mask": "bool"}),
    ("attention", {"b": 1, "h": 2, "lq": 6, "lk": 9, "d": 5, "score_mod": "30*tanh(score/30) - 0.1*abs(q - k)*(h+1)"}),
    ("layer_norm", {"shape": "3,4,5", "normalized_shape": "4,5", "residual": True}),
    ("rms_norm", {"shape": "3,4,5", "normalized_shape": "4,5", "weight": False}),
    ("softmax_backward", {"shape": "3,4,5", "dim": 1}),
    ("log_softmax_backward", {"shape": "3,4,5"}),
    ("layer_norm_backward", {"shape": "3,4,5", "normalized_shape": "4,5"}),
    ("rms_norm_backward", {"shape": "3,4,5", "weight": False}),
    ("permute", {"shape": "3,4,5", "dims": "-1,0,1"}),
    ("norm", {"shape": "3,4,5", "dim": "0,-1", "ord": "inf", "keepdim": True}),
    ("sum", {"shape": "3,4,5", "dim": "-1,0"}),
    ("argmax", {"shape": "3,4,5"}),
    ("embedding", {"shape": "3,4", "num_embeddings": 9, "embedding_dim": 5, "index_dtype": "int32"}),
    ("linear", {"m": 5, "n": 6, "k": 7, "activation": "silu", "residual": True}),
    ("bmm", {"b": 2, "m": 5, "n": 6, "k": 7}),
    ("logsumexp", {"shape": "3,4,5", "dim": "-1,0", "keepdim": True}),
    ("pad", {"shape": "3,4,5", "pad": "-1,2,0,3", "value": 0.5}),
    ("cat", {"a": "3,4", "b": "3,1", "c": "3,5", "dim": -1}),
    ("group_norm", {"shape": "2,6,3,4", "num_groups": 3}),
    ("group_norm", {"shape": "2,6,5", "num_groups": 2, "affine": False}),
    ("gelu", {"shape": "6,5", "approximate": "tanh"}),
    ("add", {"shape": "6,5", "other_shape": "5"}),
    ("mul", {"shape": "6,5", "other_shape": "6,1"}),
    ("dequant_matmul", {"m": 5, "n": 6, "k": 12, "group_size": 4, "trans_b": True, "bias": True, "activation": "silu"}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("name", "params"), CASES)
def test_numpy_and_infer_agree(name: str, params: dict[str, Value], dtype: str) -> None:
    op = get_operator(name)
    workload = op.workload(**{**params, "dtype": dtype})
    inputs = random_inputs(workload, 3)
    want = evaluate(Program.loads(workload.program), inputs)
    got = decode(op.numpy(*inputs, **dict(workload.params)), workload.output.dtype)  # type: ignore[misc]
    near = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(got, want, rtol=near, atol=near)
    attributes = {k: v for k, v in workload.params if k not in op.sizes or k in op.told}
    assert op.infer is not None
    assert op.infer([s.shape for s in workload.inputs], **attributes) == dict(workload.params)


Q, KEPT = (2, 4, 3, 8), (2, 4, 9, 8)


@pytest.mark.parametrize(
    ("shapes", "attributes"),
    [
        ([Q, KEPT, KEPT], {"mask": "float"}), ([Q, KEPT, KEPT, (3, 9)], {}), ([Q, KEPT[1:], KEPT], {}),
        ([Q, KEPT, KEPT], {"lengths": True}), ([Q, KEPT, KEPT, (3,)], {"lengths": True}),
        ([Q, KEPT, KEPT], {"page": 4}), ([Q, KEPT, KEPT, ()], {"page": 4}),
        ([Q, (7, 4, 4, 8), (7, 4, 4, 8), (2,)], {"page": 4}), ([Q, (7, 4), (7, 4), (2, 3)], {"page": 4}),
    ],
)  # fmt: skip
def test_inputs_of_attention_that_do_not_go_together(shapes: list[Any], attributes: dict[str, Any]) -> None:
    infer = get_operator("attention").infer
    assert infer is not None
    with pytest.raises(UsageError, match="attention"):
        infer(shapes, **attributes)


SAME: list[tuple[str, dict[str, Value], str, dict[str, Value]]] = [
    ("linear", {"m": 8, "n": 9, "k": 10}, "matmul", {"m": 8, "n": 9, "k": 10, "trans_b": True, "bias": True}),
    ("bmm", {"b": 2, "m": 8, "n": 9, "k": 10}, "batch_matmul", {"b": 2, "m": 8, "n": 9, "k": 10}),
    ("relu", {"shape": "8,9"}, "elementwise", {"shape": "8,9"}),
    ("gelu", {"shape": "8,9"}, "elementwise", {"shape": "8,9", "fn": "gelu(x)"}),
    ("silu", {"shape": "8,9"}, "elementwise", {"shape": "8,9", "fn": "silu(x)"}),
    ("sigmoid", {"shape": "8,9"}, "elementwise", {"shape": "8,9", "fn": "sigmoid(x)"}),
    ("add", {"shape": "8,9", "other_shape": "9"}, "elementwise", {"shape": "8,9", "fn": "x + y", "y_shape": "9"}),
    ("mul", {"shape": "8,9"}, "elementwise", {"shape": "8,9", "fn": "x * y"}),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "params", "other", "same"), SAME)
def test_two_names_of_one_computation_share_their_kernels(
    name: str, params: dict[str, Value], other: str, same: dict[str, Value], dtype: str
) -> None:
    mine, its = get_operator(name).workload(**params, dtype=dtype), get_operator(other).workload(**same, dtype=dtype)
    assert mine.key == its.key


# ------------------------------------------------------------------ against other libraries


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_and_its_logarithm(dim: int) -> None:
    got, (x,) = value("softmax", shape="4,5,6", dim=dim)
    np.testing.assert_allclose(got, scipy.special.softmax(x, axis=dim), rtol=1e-12)
    got, (x,) = value("log_softmax", shape="4,5,6", dim=dim)
    np.testing.assert_allclose(got, scipy.special.log_softmax(x, axis=dim), rtol=1e-11, atol=1e-12)


def test_attention_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    f = torch.nn.functional.scaled_dot_product_attention
    for params, more in (
        ({"is_causal": True}, {"is_causal": True}),
        ({"hk": 2, "scale": 0.2}, {"enable_gqa": True, "scale": 0.2}),
        ({"mask": "bool", "mask_shape": "2,1,7,9"}, {}),
        ({"mask": "float"}, {}),
    ):
        got, inputs = value("attention", b=2, h=4, lq=7, lk=9, d=5, **params)
        query, key, v, *mask = (torch.from_numpy(a) for a in inputs)
        want = f(query, key, v, attn_mask=mask[0] if mask else None, **more).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_norms_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    got, (x, w, b) = value("layer_norm", shape="6,4,5", normalized_shape="4,5", eps=1e-3)
    want = torch.nn.functional.layer_norm(*map(torch.from_numpy, (x,)), (4, 5), *map(torch.from_numpy, (w, b)), 1e-3)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-11)
    got, (x, w) = value("rms_norm", shape="6,9")
    want = torch.nn.functional.rms_norm(torch.from_numpy(x), (9,), torch.from_numpy(w), 1e-6)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-11)
    for ord in ("2", "1", "inf"):
        got, (x,) = value("norm", shape="3,4,5", dim="1,2", ord=ord)
        np.testing.assert_allclose(got, torch.linalg.vector_norm(torch.from_numpy(x), float(ord), (1, 2)), rtol=1e-12)


@pytest.mark.parametrize(("name", "params"), [
    ("softmax", {"dim": 1}), ("log_softmax", {"dim": 2}), ("layer_norm", {"normalized_shape": "5,6"}), ("rms_norm", {}),
])  # fmt: skip
def test_gradients_are_the_slopes_of_what_they_belong_to(name: str, params: dict[str, Any]) -> None:
    """The change of ``sum(grad_output * f(x))`` along a direction, by central differences in float64."""
    own = {"bias": False} if name == "layer_norm" else {}
    rng = np.random.default_rng(0)
    x, g, direction = (rng.standard_normal((3, 5, 6)) for _ in range(3))
    forward = Program.loads(get_operator(name).workload(shape="3,5,6", dtype="float64", **params, **own).program)
    rest = [rng.standard_normal(t.shape) for t in forward.inputs[1:]]
    high, low, middle = (evaluate(forward, [x + s * direction, *rest]) for s in (1e-5, -1e-5, 0.0))
    slope = float((g * (high - low)).sum()) / 2e-5
    backward = get_operator(f"{name}_backward").workload(shape="3,5,6", dtype="float64", **params)
    saved = middle if "softmax" in name else x
    got = evaluate(Program.loads(backward.program), [g, saved, *rest])
    np.testing.assert_allclose(float((got * direction).sum()), slope, rtol=1e-6, atol=1e-7)


def test_a_row_of_equal_values_has_a_finite_norm() -> None:
    for name in ("layer_norm", "rms_norm"):
        op = get_operator(name)
        workload = op.workload(shape="2,8", weight=False, **({"bias": False} if name == "layer_norm" else {}))
        out = evaluate(Program.loads(workload.program), [np.zeros((2, 8), np.float32)])
        np.testing.assert_array_equal(out, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "params",
    [{"batch": "2,3", "conj_a": True}, {"trans_a": True, "trans_b": True}, {"trans_b": True, "conj_b": True}],
)
def test_complex_products_in_numpy_agree(params: dict[str, Value], dtype: str) -> None:
    op = get_operator("complex_matmul")
    workload = op.workload(m=5, n=6, k=7, dtype=dtype, **params)
    inputs = random_inputs(workload, 3)
    got = op.numpy(*inputs, **dict(workload.params))  # type: ignore[misc]
    want = evaluate(Program.loads(workload.program), inputs)
    np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-5)
    assert op.infer is not None
    attributes = {k: v for k, v in workload.params if k not in op.sizes or k in op.told}
    assert op.infer([s.shape for s in workload.inputs], **attributes) == dict(workload.params)


def test_complex_functions_compute_what_numpy_does() -> None:
    x, y = te.input("x", (3, 4, 5, 2), "float64"), te.input("y", (5, 6, 2), "float64")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(t.shape) for t in (x, y))
    u, v = (z.view(np.complex128)[..., 0] for z in (a, b))
    got = np.ascontiguousarray(computed(nn.complex_matmul(nn.conj(x), y), (x, a), (y, b)))
    np.testing.assert_allclose(got.view(np.complex128)[..., 0], u.conj() @ v)


def test_matmul_bmm_and_linear() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5))
    x, y = te.input("x", a.shape, "float64"), te.input("y", b.shape, "float64")
    np.testing.assert_allclose(computed(nn.matmul(x, y), (x, a), (y, b)), a @ b)
    np.testing.assert_allclose(computed(nn.bmm(x, y), (x, a), (y, b)), a @ b)
    shared = te.input("y", (4, 5), "float64")
    np.testing.assert_allclose(computed(nn.matmul(x, shared), (x, a), (shared, b[0])), a @ b[0])
    weight, bias = te.input("w", (5, 4), "float64"), te.input("b", (5,), "float64")
    got = computed(nn.linear(x, weight, bias), (x, a), (weight, b[0].T.copy()), (bias, b[1, 0]))
    np.testing.assert_allclose(got, a @ b[0] + b[1, 0])


def test_quantised_results_are_rounded_to_even_and_saturate() -> None:
    op = get_operator("quantized_matmul")
    workload = op.workload(m=1, n=6, k=1, out_dtype="int8")
    a, b = np.int8([[1]]), np.int8([[1, 3, 5, -1, -3, 127]])
    for half, want in (
        (2.0, [0, 2, 2, 0, -2, 64]),
        (0.1, [10, 30, 50, -10, -30, 127]),
        (-0.1, [-10, -30, -50, 10, 30, -128]),
    ):
        inputs = [a, b, np.ones(6, np.float32), np.float32(half)]
        got = evaluate(Program.loads(workload.program), inputs)
        np.testing.assert_array_equal(got, [want])
        np.testing.assert_array_equal(op.numpy(*inputs, **dict(workload.params)), [want])  # type: ignore[misc]


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_blocks_of_eight_bit_reals_are_scaled(by_column: bool, trans_b: bool) -> None:
    op = get_operator("scaled_mm")
    workload = op.workload(m=5, n=11, k=13, block=4, by_column=by_column, trans_b=trans_b, out_dtype="float32")
    a, b, scale_a, scale_b = inputs = random_inputs(workload, 1)
    x, y = (decode(v, "float8_e4m3fn").astype(np.float64) for v in (a, b))
    y, of_b = (y.T, scale_b.T) if trans_b else (y, scale_b)
    want = np.zeros((5, 11))
    for i, j, r in np.ndindex(5, 11, 13):
        want[i, j] += x[i, r] * scale_a[i, r // 4] * y[r, j] * of_b[r // 4, j if by_column else j // 4]
    assert of_b.shape == (4, 11 if by_column else 3)
    np.testing.assert_allclose(evaluate(Program.loads(workload.program), inputs), want, rtol=1e-12, atol=1e-12)
    got = op.numpy(*inputs, **dict(workload.params))  # type: ignore[misc]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    told = {k: v for k, v in workload.params if k not in op.sizes}
    assert op.infer is not None
    assert op.infer([s.shape for s in workload.inputs], **told) == dict(workload.params)


def test_indices_outside_of_a_table_read_its_ends() -> None:
    op = get_operator("embedding")
    workload = op.workload(shape="4", num_embeddings=3, embedding_dim=2)
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    inputs = [np.array([-5, 0, 2, 99]), table]
    for got in (evaluate(Program.loads(workload.program), inputs), op.numpy(*inputs)):  # type: ignore[misc]
        np.testing.assert_array_equal(got, table[[0, 0, 2, 2]])


def test_a_query_that_sees_nothing_is_not_a_number() -> None:
    workload = get_operator("attention").workload(b=1, h=1, lq=2, lk=3, d=4, mask="bool")
    inputs = random_inputs(workload)
    inputs[3] = np.array([[True, True, False], [False] * 3])
    out = evaluate(Program.loads(workload.program), inputs)
    assert np.isfinite(out[0, 0, 0]).all()
    assert np.isnan(out[0, 0, 1]).all()


# ------------------------------------------------------------------ wrong input

WRONG: list[tuple[str, dict[str, object], str]] = [
    ("softmax", {"shape": "4,5", "dim": 2}, "dim=2"),
    ("softmax", {"shape": "4,0"}, "shape"),
    ("sum", {"shape": "4,5", "dim": "1,-1"}, "twice"),
    ("argmax", {"shape": "4,5,6", "dim": "0,1"}, "dim"),
    ("norm", {"shape": "4,5", "ord": "3"}, "ord"),
    ("layer_norm", {"shape": "4,5", "normalized_shape": "4"}, "normalized_shape=4"),
    ("layer_norm", {"shape": "4,5", "eps": -1.0}, "eps"),
    ("permute", {"shape": "4,5", "dims": "0,0"}, "dims"),
    ("permute", {"shape": "4,5", "dims": "0,1,2"}, "dims"),
    ("transpose", {"shape": "4,5", "dim0": 4}, "dim0"),
    ("cumsum", {"shape": "4,5", "dim": -3}, "dim=-3"),
    ("cast", {"shape": "4", "out_dtype": "complex64"}, "out_dtype"),
    ("einsum", {"a": "4,5", "b": "6,7", "equation": "ij,jk->ik"}, "axis j has size 5 and size 6"),
    ("einsum", {"a": "4,5", "equation": "ij,jk->ik"}, "names 2 operands"),
    ("einsum", {"a": "4,5", "equation": "ijk->i"}, "the letters 'ijk'"),
    ("einsum", {"a": "4,5", "equation": "ij->ii"}, "twice"),
    ("einsum", {"a": "4,5", "equation": "ij->k"}, "no operand"),
    ("einsum", {"a": "4,5", "equation": "...j->j"}, "'.'"),
    ("attention", {"b": 1, "h": 4, "lq": 4, "lk": 4, "d": 4, "hk": 3}, "divide"),
    ("attention", {"b": 1, "h": 4, "lq": 4, "lk": 3, "d": 4, "lengths": True, "is_causal": True}, "lq=4 lk=3"),
    ("attention", {"b": 1, "h": 4, "lq": 4, "lk": 6, "d": 4, "page": 4}, "page=4 pages=0"),
    ("attention", {"b": 1, "h": 4, "lq": 4, "lk": 6, "d": 4, "pages": 4}, "page=0 pages=4"),
    ("attention", {"b": 1, "h": 4, "lq": 4, "lk": 4, "d": 4, "mask_shape": "4,4"}, "mask_shape"),
    ("attention", {"b": 1, "h": 4, "lq": 4, "lk": 4, "d": 4, "mask": "bool", "mask_shape": "4,5"}, "stretch"),
    ("attention", {"b": 64, "h": 64, "lq": 4096, "lk": 4096, "d": 256}, "elements"),
    ("dequant_matmul", {"m": 4, "n": 4, "k": 10, "group_size": 3}, "group_size=3"),
    ("scaled_mm", {"m": 4, "n": 4, "k": 10, "block": 0}, "block cannot be 0"),
    ("embedding", {"shape": "4", "num_embeddings": 0, "embedding_dim": 4}, "num_embeddings"),
]


@pytest.mark.parametrize(("name", "params", "says"), WRONG)
def test_wrong_parameters_name_operator_attribute_and_rule(name: str, params: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        get_operator(name).workload(**params)
    assert name in caught.value.message
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "make",
    [
        lambda x, y, i: nn.matmul(x, y),
        lambda x, y, i: nn.bmm(x, y),
        lambda x, y, i: nn.complex_matmul(x, y),
        lambda x, y, i: nn.conj(x),
        lambda x, y, i: nn.linear(x, y),
        lambda x, y, i: nn.linear(x, te.input("w", (7, 5)), te.input("b", (5,))),
        lambda x, y, i: nn.embedding(x, y),
        lambda x, y, i: nn.embedding(i, i),
        lambda x, y, i: nn.mean(i),
        lambda x, y, i: nn.norm(i),
        lambda x, y, i: nn.grouped_matmul(x, te.input("w", (2, 5, 6)), x),
        nn.dequant_matmul,
        lambda x, y, i: nn.quantized_matmul(x, te.input("w", (5, 6)), x),
        lambda x, y, i: nn.scaled_mm(x, te.input("w", (5, 6)), x, x),
        lambda x, y, i: nn.scaled_mm(*(te.input("e", (4, 4), "float8_e5m2") for _ in range(2)), x, x),
        lambda x, y, i: nn.requantize(x, y),
        lambda x, y, i: nn.elementwise("x + y", x=x, y=y),
        lambda x, y, i: nn.elementwise("x"),
        lambda x, y, i: nn.einsum("ij,ij->i", x, te.input("z", (4, 5), "float64")),
        lambda x, y, i: nn.einsum("ij->i"),
        lambda x, y, i: nn.scaled_dot_product_attention(x, x, x),
        lambda x, y, i: nn.rms_norm(x, (5,), y),
    ],
)
def test_tensors_that_do_not_go_together(make: Callable[..., te.TensorRef]) -> None:
    x, y, i = te.input("x", (4, 5)), te.input("y", (6, 7)), te.input("i", (4,), "int32")
    with pytest.raises(UsageError) as caught:
        make(x, y, i)
    assert caught.value.hint

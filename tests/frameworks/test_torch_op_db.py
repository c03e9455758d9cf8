"""PyTorch's own sample inputs (``op_db``) of the operators claimed: every one agrees with PyTorch's answer."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

import tilewright.torch as tt  # noqa: E402
from tilewright.torch.backend import place  # noqa: E402
from tilewright.torch.operators import NAMES  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _methods = pytest.importorskip(
        "torch.testing._internal.common_methods_invocations", reason="PyTorch's tests need expecttest"
    )

PRODUCTS = ("mm", "bmm", "matmul", "addmm", "nn.functional.linear", "__rmatmul__")
WINDOWS = ("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d")
ROWS = (
    "nn.functional.layer_norm", "nn.functional.rms_norm", "nn.functional.group_norm", "softmax", "log_softmax", "sum",
    "mean", "amax", "amin", "nn.functional.scaled_dot_product_attention",
)  # fmt: skip
ELEMENTS = (
    "add", "sub", "mul", "div", "maximum", "minimum", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh",
    "sigmoid", "nn.functional.relu", "nn.functional.silu", "nn.functional.gelu", "erf", "sin", "cos", "log1p", "pow",
    "nn.functional.hardtanh",
)  # fmt: skip
CHOSEN = (
    "index_select", "gather", "scatter", "scatter_add", "index_add", "index_put", "nn.functional.embedding", "repeat",
    "nn.functional.interpolate",
)  # fmt: skip
CLAIMED = (*PRODUCTS, *WINDOWS, *ROWS, *ELEMENTS)
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
OURS = {"nn.functional." + n: n for n in NAMES} | {n: n for n in NAMES}
WINDOW = ("stride", "padding", "output_padding", "dilation")
TRANSPOSED = ("nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d")
KINDS = ("float32", "bfloat16")


def samples(name: str, kind: str, gradients: bool = False) -> list[tuple[Any, Any]]:
    dtype = getattr(torch, kind)
    found = []
    for info in _methods.op_db:
        if info.name == name and dtype in info.dtypes:
            # Not sample_inputs: it reads the source of the whole stack, to seed by the name of a test of PyTorch's own.
            found += [(info, s) for s in info.sample_inputs_func(info, "cpu", dtype, gradients)]
    assert found
    return found


def close(got: Any, wanted: Any, kind: str) -> None:
    how = {"rtol": 4e-2, "atol": 4e-2} if kind == "bfloat16" else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(got, wanted, equal_nan=True, **how)


class Traced:
    """A function's graph of ATen's operators with every part that we know computed by its program's own meaning."""

    def __init__(self, path: Path) -> None:
        self.library = tilewright.Library(path, missing_ok=True, watch=False)
        self.placed = 0

    def __call__(self, function: Any, args: Any) -> Any:
        from torch.fx.experimental.proxy_tensor import make_fx

        module = make_fx(function, tracing_mode="fake")(*args)
        kernels = place(module, lambda w, _: self.library.resolver.untuned(w, "a test"))
        if kernels is None:
            return module(*args)
        self.placed += len(kernels.parts)
        return module(kernels.graph, *args)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "kind"), [*((n, k) for n in CLAIMED for k in KINDS), *((n, "float32") for n in CHOSEN)]
)
def test_compiled_operators_agree(name: str, kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    traced = Traced(tmp_path / "t.db")
    for info, sample in samples(name, kind):
        if sample.kwargs.get("dropout_p"):
            continue  # each call draws its own numbers
        flat, spec = torch.utils._pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        places = [n for n, a in enumerate(flat) if isinstance(a, torch.Tensor)]

        def call(*tensors: Any, flat: Any = flat, spec: Any = spec, places: Any = places, op: Any = info.op) -> Any:
            given = list(flat)
            for n, t in zip(places, tensors, strict=True):
                given[n] = t
            args, keywords = torch.utils._pytree.tree_unflatten(given, spec)
            return op(*args, **keywords)

        tensors = [flat[n] for n in places]
        with torch.no_grad():
            close(traced(call, tensors), call(*tensors), kind)
    assert traced.placed > 0


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [n for n in (*CLAIMED, *TRANSPOSED) if n in OURS])
def test_custom_operators_agree(name: str, kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    tt.use(tilewright.Library(tmp_path / "t.db", missing_ok=True, watch=False))
    op = getattr(torch.ops.tilewright, OURS[name])
    taken = {a.name for a in op.default._schema.arguments}
    tried = 0
    for info, sample in samples(name, kind, gradients=kind == "float32"):
        given = {
            k: [v] if k in WINDOW and isinstance(v, int) else v for k, v in sample.kwargs.items() if k != "dropout_p"
        }
        strings = any(isinstance(a, str) for a in (*sample.args, *given.values()))
        if sample.kwargs.get("dropout_p") or not set(given) <= taken or strings or len(sample.args) >= len(taken):
            continue  # dropout, dtype= and padding="same" are no arguments of ours
        wanted = info.op(sample.input, *sample.args, **sample.kwargs)
        got = op(sample.input, *sample.args, **given)
        close(got, wanted, kind)
        tried += 1
        leaves = [t for t in torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
                  if isinstance(t, torch.Tensor) and t.requires_grad]  # fmt: skip
        if leaves and wanted.numel():
            flow = torch.randn_like(wanted)
            ours, theirs = (torch.autograd.grad(y, leaves, flow) for y in (got, wanted))
            for a, b in zip(ours, theirs, strict=True):
                close(a, b, kind)
    assert tried > 0

"""Tensors of several types in one call or graph: what is served, what PyTorch answers, and what is said of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
F: Any = torch.nn.functional

import tilewright.torch as tt  # noqa: E402
from tilewright.kernels.anonymous import from_program  # noqa: E402
from tilewright.runtime.missed import MissedKernelWarning  # noqa: E402
from tilewright.runtime.requests import request  # noqa: E402
from tilewright.torch import backend  # noqa: E402
from tilewright.torch.requests import described  # noqa: E402

nn, T = torch.nn, torch.ops.tilewright
HOW: dict[str, Any] = {"trials": 1, "cost_model": "random"}
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning"),
]


@pytest.fixture(autouse=True)
def empty(fresh: None, tmp_path: Path) -> None:
    tt.use(tilewright.Library(tmp_path / "empty.db", missing_ok=True, watch=False))


def exact(library: Any) -> int:
    return int(library.stats().tiers["exact"])


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_norms_of_16_bit_reals_with_float32_weights(name: str, tmp_path: Path) -> None:
    own = (torch.randn(16), torch.randn(16)) if name == "layer_norm" else (torch.randn(16),)
    args = (torch.randn(4, 16).bfloat16(), [16], *own, 1e-4)
    wanted = getattr(F, name)(*args)
    torch.testing.assert_close(getattr(T, name)(*args), wanted)  # by PyTorch
    asked = request(name, described(args))
    assert [s.dtype for s in asked.workload.inputs] == ["bfloat16", *["float32"] * len(own)]
    path = tmp_path / "t.db"
    tilewright.tune(from_program(asked.workload.op, asked.workload.program), dtype="bfloat16", **HOW, db=path)
    library = tt.use(path)
    for _ in range(2):
        got = getattr(T, name)(*args)
        torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)
        assert got.dtype == wanted.dtype
    assert exact(library) == 2


def test_what_pytorch_refuses_is_refused_and_a_missed_kernel_said_once(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune("matmul", m=4, n=8, k=16, trans_b=True, **HOW, db=path)
    tilewright.tune("layer_norm", shape="4,16", normalized_shape="16", eps=1e-4, **HOW, db=path)
    tt.use(path)
    x, weight, scale = torch.randn(4, 16), torch.randn(8, 16), torch.randn(16)
    for number in range(3):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError, match="same dtype"):
                T.linear(x, weight[: 8 - number].bfloat16())
            got = T.layer_norm(x.bfloat16(), [16], scale, scale, 1e-4)
        torch.testing.assert_close(got, F.layer_norm(x.bfloat16(), [16], scale, scale, 1e-4))
        missed = [w for w in said if w.category is MissedKernelWarning]
        assert len(missed) == (2 if number == 0 else 0)
        for w, name in zip(missed, ("linear", "layer_norm"), strict=False):
            assert f"tilewright::{name}: a kernel is tuned for these shapes, but for float32" in str(w.message)
            assert w.filename == __file__
    assert tt.library().stats().reasons["dtype"] >= 2


def test_autocast_computes_products_in_its_type_as_pytorch_does(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune("matmul", m=4, n=8, k=16, trans_b=True, dtype="bfloat16", **HOW, db=path)
    library = tt.use(path)
    x, weight = torch.randn(4, 16, requires_grad=True), torch.randn(8, 16, requires_grad=True)
    image, kernel = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    q = torch.randn(1, 2, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        for a, b in ((x, weight), (x, weight.bfloat16()), (x.bfloat16(), weight)):
            got, wanted = T.linear(a, b), F.linear(a, b)
            assert got.dtype == wanted.dtype == torch.bfloat16
            torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)
        assert exact(library) == 3
        for got, wanted in (
            (T.mm(x.double(), weight.double().t()), torch.mm(x.double(), weight.double().t())),
            (T.conv2d(image, kernel), F.conv2d(image, kernel)),
            (T.scaled_dot_product_attention(q, q, q), F.scaled_dot_product_attention(q, q, q)),
            (T.softmax(x, -1), torch.softmax(x, -1)),
            (T.layer_norm(x, [16]), F.layer_norm(x, [16])),
            (T.rms_norm(x, [16]), F.rms_norm(x, [16])),
        ):
            assert got.dtype == wanted.dtype
            torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)
        run = torch.compile(T.linear, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(run(x, weight), F.linear(x, weight), rtol=2e-2, atol=2e-2)
        ours, theirs = (torch.autograd.grad(f(x, weight).float().sum(), (x, weight)) for f in (T.linear, F.linear))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)


class Casts(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Any, rows: Any) -> Any:
        y = self.second(F.gelu(self.first(self.norm(x))))
        return (x + y)[rows].float() * 0.5 + rows[:, None]


@pytest.mark.parametrize("gradients", [False, True])
def test_graphs_of_several_types_agree(gradients: bool, tmp_path: Path) -> None:
    library = tilewright.Library(tmp_path / "t.db", missing_ok=True, watch=False)
    asked: list[Any] = []

    def find(workload: Any, device: Any = None) -> Any:
        asked.append({s.dtype for s in (*workload.inputs, workload.output)})
        return library.resolver.untuned(workload, "a test")

    def make(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, find, backend.Rest("eager"))

    module, x, rows = Casts(), torch.randn(6, 16), torch.tensor([0, 3, 5])
    run = torch.compile(module, backend=make, fullgraph=True)
    with torch.set_grad_enabled(gradients), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(run(x, rows), module(x, rows), rtol=5e-2, atol=5e-2)
        if gradients:
            ours, theirs = (torch.autograd.grad(f(x, rows).sum(), list(module.parameters())) for f in (run, module))
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-1, atol=1e-1)
    assert {"float32", "bfloat16"} in asked, "casts are parts of kernels"


def test_optimize_serves_graphs_of_several_types(tmp_path: Path) -> None:
    norm = nn.LayerNorm(16).eval()
    x = torch.randn(4, 16).bfloat16()
    fast = tt.optimize(norm, (x,), db=tmp_path / "t.db", rest="eager", compare=False, **HOW)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), norm(x), rtol=2e-2, atol=2e-2)
    assert exact(fast.library) == 2

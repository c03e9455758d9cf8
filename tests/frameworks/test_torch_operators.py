"""``torch.ops.tilewright``: answers, gradients, fake tensors, tuned kernels and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

import tilewright.torch as tt  # noqa: E402
from tilewright.torch.operators import DECLARATIONS, NAMES, filled  # noqa: E402

T = torch.ops.tilewright
M, N, K = 8, 16, 12


@pytest.fixture(autouse=True)
def nothing_tuned(tmp_path: Path) -> tilewright.Library:
    return tt.use(tilewright.Library(tmp_path / "empty.db", missing_ok=True, watch=False))


def r(*shape: int) -> Any:
    return torch.randn(*shape, requires_grad=True)


CALLS: list[tuple[str, Any]] = [
    ("mm", lambda: (r(3, 4), r(4, 5))),
    ("bmm", lambda: (r(2, 3, 4), r(2, 4, 5))),
    ("matmul", lambda: (r(2, 3, 4), r(4, 5))),
    ("matmul", lambda: (r(4), r(4, 5))),
    ("matmul", lambda: (r(2, 4, 4), r(4))),
    ("matmul", lambda: (r(4), r(4))),
    ("matmul", lambda: (r(2, 1, 3, 4), r(5, 4, 6))),
    ("linear", lambda: (r(2, 3, 4), r(5, 4), r(5))),
    ("linear", lambda: (r(4), r(5, 4))),
    ("conv1d", lambda: (r(1, 4, 8), r(6, 4, 3))),
    ("conv2d", lambda: (r(1, 4, 8, 8), r(6, 2, 3, 3), r(6), [2, 1], [1], [1], 2)),
    ("conv2d", lambda: (r(4, 8, 8), r(6, 4, 3, 3))),
    ("conv3d", lambda: (r(1, 2, 5, 5, 5), r(2, 2, 3, 3, 3))),
    ("conv_transpose1d", lambda: (r(1, 4, 8), r(4, 3, 3), r(6), [2], [1], [1], 2, [1])),
    ("conv_transpose2d", lambda: (r(2, 4, 5, 5), r(4, 6, 3, 3))),
    ("layer_norm", lambda: (r(3, 4), [4], r(4), r(4))),
    ("layer_norm", lambda: (r(3, 2, 4), [2, 4])),
    ("layer_norm", lambda: (r(3, 4), [4], None, r(4))),
    ("rms_norm", lambda: (r(3, 4), [4], r(4), 1e-6)),
    ("rms_norm", lambda: (r(3, 4), [4])),
    ("softmax", lambda: (r(3, 4), -1)),
    ("log_softmax", lambda: (r(3, 4), 0)),
    ("softmax_backward", lambda: (torch.randn(3, 4), torch.randn(3, 4), -1)),
    ("log_softmax_backward", lambda: (torch.randn(3, 4), torch.randn(3, 4), 0)),
    ("layer_norm_backward", lambda: (torch.randn(3, 4), torch.randn(3, 4), [4], torch.randn(4))),
    ("rms_norm_backward", lambda: (torch.randn(3, 2, 4), torch.randn(3, 2, 4), [2, 4])),
    ("scaled_dot_product_attention", lambda: (r(1, 4, 5, 8), r(1, 2, 6, 8), r(1, 2, 6, 8), None, True, None, True)),
    ("scaled_dot_product_attention", lambda: (r(1, 2, 5, 8), r(1, 2, 6, 8), r(1, 2, 6, 8), r(5, 6))),
    ("scaled_dot_product_attention", lambda: (r(2, 5, 8), r(2, 6, 8), r(2, 6, 8))),
]


@pytest.mark.parametrize(("name", "make"), CALLS, ids=[f"{n}{i}" for i, (n, _) in enumerate(CALLS)])
def test_operators_are_well_formed_and_agree_with_pytorch(name: str, make: Any) -> None:
    torch.manual_seed(0)
    args = make()
    op = getattr(T, name).default
    torch.library.opcheck(op, args)
    function = next(d.function for d in DECLARATIONS if d.name == name)
    got, wanted = op(*args), function(*filled(name, args))
    torch.testing.assert_close(got, wanted)
    tensors = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    if not tensors:
        assert name.endswith("_backward")
        return
    flow = torch.randn_like(wanted)
    ours, theirs = (torch.autograd.grad(y, tensors, flow) for y in (got, wanted))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_every_operator_is_tried() -> None:
    assert {n for n, _ in CALLS} == set(NAMES)


def test_a_tuned_kernel_serves_the_product_and_its_gradients(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    how: dict[str, Any] = {"trials": 1, "cost_model": "random", "db": path}
    tilewright.tune("matmul", m=M, n=N, k=K, **how)
    tilewright.tune("matmul", m=M, n=K, k=N, trans_b=True, **how)
    tilewright.tune("matmul", m=K, n=N, k=M, trans_a=True, **how)
    library = tt.use(path)
    a, b = r(M, K), r(K, N)
    got = T.mm(a, b)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 1}
    flow = torch.randn(M, N)
    ga, gb = torch.autograd.grad(got, (a, b), flow)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 3}
    torch.testing.assert_close(got, a @ b)
    torch.testing.assert_close(ga, flow @ b.T)
    torch.testing.assert_close(gb, a.T @ flow)
    rows = a.detach().reshape(2, 4, K)
    torch.testing.assert_close(T.matmul(rows, b.detach()), rows @ b)
    assert library.stats().tiers["exact"] == 4


def test_tuned_kernels_serve_the_gradients_of_a_convolution(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    how: dict[str, Any] = {"trials": 1, "cost_model": "random", "db": path}
    window = {"stride": 2, "padding": 1}
    tilewright.tune("conv_transpose2d", n=2, ci=6, h=4, w=4, co=4, kh=3, kw=3, output_padding="1,1", **window, **how)
    tilewright.tune("conv2d", n=4, ci=2, h=8, w=8, co=6, kh=4, kw=4, dilation=2, padding=1, **how)
    library = tt.use(path)
    x, w, bias = r(2, 4, 8, 8), r(6, 4, 3, 3), r(6)
    got = T.conv2d(x, w, bias, [2], [1])
    flow = torch.randn_like(got)
    ours = torch.autograd.grad(got, (x, w, bias), flow)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 2, "fallback": 1}
    wanted = torch.nn.functional.conv2d(x, w, bias, 2, 1)
    for a, b in zip(ours, torch.autograd.grad(wanted, (x, w, bias), flow), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    # the gradient of a transposed convolution is a convolution, and both have gradients in turn
    y = r(2, 6, 4, 4)
    up = T.conv_transpose2d(y, w, None, [2], [1], [1])
    torch.testing.assert_close(up, torch.nn.functional.conv_transpose2d(y, w, None, 2, 1, 1), rtol=1e-4, atol=1e-4)
    assert library.stats().tiers["exact"] == 3
    torch.autograd.gradgradcheck(
        lambda a, b: T.conv2d(a, b, None, [2], [1]),
        (r(1, 1, 4, 4).double().detach().requires_grad_(), r(2, 1, 3, 3).double().detach().requires_grad_()),
    )


def rows(name: str, m: int = 6, n: int = 8) -> tuple[dict[str, Any], tuple[Any, ...], Any]:
    """What is tuned for the gradient of a call, the call's arguments, and PyTorch's own operator."""
    if "softmax" in name:
        return {"shape": f"{m},{n}"}, (r(m, n), -1), getattr(torch, name)
    own: tuple[Any, ...] = (r(m, n), [n], r(n), *([r(n)] if name == "layer_norm" else []), 1e-4)
    return {"shape": f"{m},{n}", "normalized_shape": f"{n}", "eps": 1e-4}, own, getattr(torch.nn.functional, name)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_tuned_kernels_serve_the_gradients_of_rows(name: str, tmp_path: Path) -> None:
    params, args, function = rows(name)
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    flow = torch.randn(8, 6).t()  # as it lies after a transposition
    wanted = torch.autograd.grad(function(*args), tensors, flow)
    for tuned in (False, True):
        if tuned:
            path = tmp_path / "t.db"
            tilewright.tune(f"{name}_backward", **params, trials=1, cost_model="random", db=path)
            tt.use(path)
        library = tt.library()
        for _ in range(2):
            got = torch.autograd.grad(getattr(T, name)(*args), tensors, flow)
            for a, b in zip(got, wanted, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        assert library.stats().tiers["exact"] == (2 if tuned else 0)
    # a gradient whose own gradient is recorded is PyTorch's
    few = rows(name, 2, 3)[1]
    double = [a.detach().double().requires_grad_() if isinstance(a, torch.Tensor) else a for a in few]
    torch.autograd.gradgradcheck(getattr(T, name), double)
    assert library.stats().tiers["exact"] == 2
    with pytest.raises(tilewright.UsageError, match="a gradient's kernel has no gradient itself"):
        T.softmax_backward(r(2, 3), r(2, 3), -1).sum().backward()


def test_compiled_gradients_of_softmax_are_served(tmp_path: Path) -> None:
    from tilewright.torch.backend import tilewright as backend

    path = tmp_path / "t.db"
    tilewright.tune("softmax_backward", shape="6,8", trials=1, cost_model="random", db=path)
    library = tt.use(path)
    x, flow = r(6, 8), torch.randn(6, 8)
    run = torch.compile(lambda t: torch.softmax(t, -1), backend=backend, options={"rest": "eager"})
    (got,) = torch.autograd.grad(run(x), (x,), flow)
    (wanted,) = torch.autograd.grad(torch.softmax(x, -1), (x,), flow)
    torch.testing.assert_close(got, wanted)
    assert library.stats().tiers["exact"] == 1


def test_new_kernels_are_noticed_and_misses_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune("softmax", shape="4,8", trials=1, cost_model="random", db=path)
    library = tt.use(tilewright.Library(path, watch=False))
    x = torch.randn(3, 8)
    torch.testing.assert_close(T.softmax(x, -1), torch.softmax(x, -1))
    assert library.stats().reasons == {"untuned": 1}
    library._look()
    tilewright.tune("softmax", shape="3,8", trials=1, cost_model="random", db=path)
    library._look()
    torch.testing.assert_close(T.softmax(x, -1), torch.softmax(x, -1))
    assert library.stats().tiers["exact"] == 1
    library.close()
    from tilewright.database import Database

    with Database.open(path) as database:
        (miss,) = database.misses()
        assert (miss.op, dict(miss.params)["shape"], miss.count) == ("softmax", "3,8", 1)


def test_refusals_are_one_clear_line() -> None:
    a = torch.randn(8, 8)
    with pytest.raises(TypeError, match=r"^tilewright::mm: argument 2 is on the device meta, not cpu. Move it there$"):
        T.mm(a, a.to("meta"))
    with pytest.raises(TypeError, match=r"^tilewright::mm: argument 1 has the layout torch.sparse_coo"):
        T.mm(a.to_sparse(), a)
    with pytest.raises(RuntimeError, match="same dtype"):
        T.mm(a, a.double())
    freed = torch.zeros(8, 8)
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"^tilewright::mm: argument 1: its memory was freed$"):
        T.mm(freed, a)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        T.mm(a, torch.randn(3, 3))

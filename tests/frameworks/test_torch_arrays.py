"""PyTorch tensors in this processor's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from harness.dlpack import Plain
from tilewright.runtime.checked import Checked
from tilewright.runtime.foreign import borrow

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

M, N, K = 8, 16, 12


def operands(dtype: Any = None) -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(0)
    return tuple(torch.randn(s, generator=made).to(dtype or torch.float32) for s in ((M, K), (K, N)))  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_a_tuned_kernel_answers_in_kind(library: tilewright.Library, name: str) -> None:
    a, b = operands(getattr(torch, name))
    wanted = (a.double() @ b.double()).numpy()
    plan = library.plan("matmul", m=M, n=N, k=K, dtype=name)
    out = torch.empty((M, N), dtype=a.dtype)
    for c in (library.matmul(a, b), library.matmul(a, b, out=out), plan(a, b), plan(a, b, out=out), plan(a, b, out)):
        assert type(c) is torch.Tensor
        assert (c.dtype, c.device.type, tuple(c.shape)) == (a.dtype, "cpu", (M, N))
        np.testing.assert_allclose(c.double().numpy(), wanted, rtol=2e-2 if name != "float32" else 1e-4, atol=1e-2)
    assert c is out
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 5}


def test_nothing_is_copied() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8):
        a = torch.zeros((3, 4)).to(dtype)
        lent = borrow("f", (a,))
        assert lent is not None
        assert lent.args[0].__array_interface__["data"][0] == a.data_ptr()
        back = lent.give(lent.args[0].copy(), str(dtype).removeprefix("torch."))
        assert (back.dtype, back.shape) == (dtype, a.shape)


def test_gradients_are_not_dropped_in_silence(library: tilewright.Library) -> None:
    a, b = operands()
    a.requires_grad_()
    plan = library.plan("matmul", m=M, n=N, k=K)
    for call in (library.matmul, plan):
        with pytest.raises(
            TypeError, match=r"argument 1 requires a gradient.*torch.no_grad\(\), or pass its detach\(\)"
        ):
            call(a, b)
        with torch.no_grad():
            assert not call(a, b).requires_grad
        assert not call(a.detach(), b).requires_grad


def test_parameters_are_tensors_too(library: tilewright.Library) -> None:
    a, b = operands()
    weight = torch.nn.Parameter(b, requires_grad=False)
    assert type(library.matmul(a, weight)) is torch.Tensor
    assert library.stats().tiers["exact"] == 1


def test_layouts_that_no_kernel_takes(library: tilewright.Library) -> None:
    a, b = operands()
    with pytest.warns(tilewright.MissedKernelWarning, match="a has strides"):
        torch.testing.assert_close(library.matmul(a.T.contiguous().T, b), a @ b)
    torch.testing.assert_close(library.matmul(a[:1].expand(M, K), b), a[:1].expand(M, K) @ b)
    assert library.matmul(a[:0], b).shape == (0, N)
    flat = torch.zeros(M * N)
    with pytest.warns(tilewright.MissedKernelWarning, match="out shares memory with a"):
        library.matmul(flat[: M * K].view(M, K), b, out=flat.view(M, N))
    assert library.stats().tiers["exact"] == 0


def test_what_cannot_be_read_is_named(library: tilewright.Library) -> None:
    a, b = operands()
    plan = library.plan("matmul", m=M, n=N, k=K)
    freed = torch.zeros((M, K))
    freed.untyped_storage().resize_(0)
    for call in (library.matmul, plan):
        with pytest.raises(TypeError, match=r"on the device meta. Pass its cpu\(\)"):
            call(a.to("meta"), b)
        with pytest.raises(TypeError, match=r"layout torch.sparse_coo. Pass its to_dense\(\)"):
            call(a.to_sparse(), b)
        with pytest.raises(TypeError, match="negated or conjugated"):
            call(torch.imag(torch.complex(a, a).conj()), b)
        with pytest.raises(ValueError, match="argument 1: its memory was freed"):
            call(freed, b)
    with pytest.raises(TypeError, match="a has dtype float64"):
        plan(a.double(), b)
    with pytest.raises(TypeError, match="a has dtype bfloat16, not float32"):
        plan(a.bfloat16(), b)


def test_tensors_without_memory(library: tilewright.Library) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    a, b = operands()
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(a)
        with pytest.raises(TypeError, match="FakeTensor"):
            library.matmul(fake, mode.from_tensor(b))
    with pytest.raises(TypeError, match="numpy cannot read"):
        torch.func.vmap(lambda x: library.matmul(x, b))(a[None])


def test_constants_are_bound(library: tilewright.Library) -> None:
    a, b = operands()
    call = library.plan("matmul", m=M, n=N, k=K, constant="b").bind(b=b)
    wanted = a @ b
    b.zero_()  # what was bound is a copy
    torch.testing.assert_close(call(a), wanted)


def test_what_was_not_tuned(library: tilewright.Library) -> None:
    a, b = operands()
    torch.testing.assert_close(library.matmul(a[:3], b), a[:3] @ b)
    half = library.matmul(a[:3].bfloat16(), b.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(library.softmax(a), torch.softmax(a, 1))
    with pytest.raises(TypeError, match="Pass arrays of one framework"):
        library.matmul(a, Plain(b.numpy()))


@pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this PyTorch has no DLPack exchange API (2.10)"
)
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_calls_do_not_come_to_python(library: tilewright.Library, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.runtime import checked, dispatch

    a, b = operands(getattr(torch, name))
    plan = library.plan("matmul", m=M, n=N, k=K, dtype=name)
    wanted = plan(a, b)
    method = library.matmul
    method(a, b), method(a, b)  # the first finds the kernel, the second the table

    def refuse(*_: Any) -> None:
        raise AssertionError("this call came to Python")

    monkeypatch.setattr(checked, "borrow", refuse)
    monkeypatch.setattr(dispatch, "borrow", refuse)
    before = library.stats().tiers["exact"]
    out = torch.empty((M, N), dtype=a.dtype)
    for c in (plan(a, b), plan(a, b, out=out), plan(a, b, out), library.matmul(a, b), library.matmul(a, b, out=out)):
        assert (type(c), c.dtype) == (torch.Tensor, a.dtype)
        assert torch.equal(c, wanted)
        assert c.data_ptr() % 64 == 0
    assert c is out
    assert library.stats().tiers["exact"] == before + 5
    for strange in (
        (a.requires_grad_(), b), (a.detach()[:3], b), (a.detach().double(), b), (a.detach().T.contiguous().T, b),
        (a.detach().to("meta"), b), (a.detach().to_sparse(), b), (torch.nn.Parameter(a.detach()), b), (a.detach(), b, b),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="came to Python"):
            plan(*strange)
    with pytest.raises(AssertionError, match="came to Python"):
        plan(a.detach(), b, out=torch.zeros((M, N)).T.contiguous().T)
    both = torch.zeros(M * N, dtype=a.dtype)
    with pytest.raises(AssertionError, match="came to Python"):
        plan(both[: M * K].view(M, K), b, out=both.view(M, N))


@pytest.mark.filterwarnings("ignore::tilewright.MissedKernelWarning")
def test_numbers_without_a_kernel_stay_whole_numbers(library: tilewright.Library) -> None:
    """What was found for bfloat16 is not what whole numbers of as many bits get."""
    a, b = operands(torch.bfloat16)
    for _ in range(3):
        assert library.matmul(a, b).dtype == torch.bfloat16
        whole = library.matmul(a.view(torch.int16).abs() % 7, b.view(torch.int16).abs() % 7)
        assert whole.dtype == torch.int16
        assert torch.equal(whole, (a.view(torch.int16).abs() % 7) @ (b.view(torch.int16).abs() % 7))


def test_several_outputs_are_a_tuple_of_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tilewright.tune("var_mean", shape="4,6", dim=1, trials=1, cost_model="random", db=tmp_path / "t.db")
    library = tilewright.Library(tmp_path / "t.db")
    x, shared = torch.randn(4, 6), torch.empty(4)
    plan = library.plan("var_mean", shape="4,6", dim=1)
    library.var_mean(x, dim=1)  # from here on the table knows it
    with pytest.raises(ValueError, match="arrays of out share memory"):
        plan(x, out=(shared, shared))
    monkeypatch.setattr(Checked, "answer", None)  # known calls do not come to Python
    for call in (plan, lambda x, **out: library.var_mean(x, dim=1, **out)):
        given = torch.empty(4), torch.empty(4)
        assert call(x, out=given) is given
        for var, mean in (given, call(x)):
            torch.testing.assert_close(var, x.var(1))
            torch.testing.assert_close(mean, x.mean(1))


@pytest.mark.filterwarnings("ignore::tilewright.MissedKernelWarning")
@pytest.mark.parametrize("tuned", [False, True])
def test_results_of_other_types_than_the_arguments(tuned: bool, tmp_path: Path) -> None:
    library = tilewright.Library(tmp_path / "t.db", missing_ok=True)
    a, b = operands()
    names = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float16")
    if tuned:
        for name in names:
            tilewright.tune(
                "cast", shape=f"{M},{K}", out_dtype=name, trials=1, cost_model="random", db=tmp_path / "t.db"
            )
        library = tilewright.Library(tmp_path / "t.db")
    for name in names:
        wanted = a.to(getattr(torch, name))
        for _ in range(3):  # the first finds what answers, later ones a table
            got = library.cast(a, out_dtype=name)
            assert got.dtype == wanted.dtype
            assert torch.equal(got.float(), wanted.float())
            given = torch.empty_like(wanted)
            for args, out in (((a, given), {}), ((a,), {"out": given})):
                assert library.cast(*args, **out, out_dtype=name) is given
                assert torch.equal(given.float(), wanted.float())
                given.zero_()
    assert library.stats().tiers["exact"] == 36 * tuned
    few, whole = a.to(torch.float8_e5m2), b.to(torch.int8)
    product = library.scaled_mm(few, b.to(few.dtype), torch.ones(M, 1), torch.ones(1, 1))
    assert product.dtype == torch.bfloat16
    torch.testing.assert_close(product, (few.float() @ b.to(few.dtype).float()).bfloat16())
    bias = torch.ones(N, dtype=torch.bfloat16)
    summed = library.quantized_matmul(whole.T.contiguous(), whole, torch.ones(N), bias, bias=True, out_dtype="bfloat16")
    assert torch.equal(summed, (whole.T.float() @ whole.float() + 1).bfloat16())
    with pytest.raises(tilewright.UsageError, match=r"matmul takes no float8_e5m2\. It takes float32, "):
        library.matmul(few, b.to(few.dtype))

"""Calls of ``torch.ops.tilewright`` that C++ answers, and those that it leaves to Python."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

import tilewright.torch as tt  # noqa: E402
from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.torch import backend, native, operators, placed  # noqa: E402
from tilewright.torch.serving import serving  # noqa: E402

M, N, K = 8, 16, 12
T = torch.ops.tilewright
pytestmark = pytest.mark.skipif(serving.native is None, reason="no compiler for PyTorch's headers")


def operands(dtype: Any = None) -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(0)
    return tuple(torch.randn(s, generator=made).to(dtype or torch.float32) for s in ((M, K), (K, N)))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def compiled() -> None:
    """What answers here lies in the cache of processes that tests start too; it takes seconds to compile."""
    here = serving.native
    assert here is not None
    native.extension().cached(lambda *_: Path(here.path).read_bytes())


@pytest.fixture
def library(tuned: Path) -> tilewright.Library:
    return tt.use(tilewright.Library(tuned, watch=False))


class CameToPython(Exception):
    pass


def refuse(*_: Any) -> None:
    raise CameToPython


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_known_calls_do_not_come_to_python(
    library: tilewright.Library, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = operands(getattr(torch, kind))
    wanted = T.mm(a, b)
    monkeypatch.setattr(operators, "serve", refuse)
    with torch.inference_mode():
        assert torch.equal(T.mm(a, b), wanted)
    got = T.mm(a, b)
    assert torch.equal(got, wanted)
    assert (got.requires_grad, got.is_contiguous(), got.dtype) == (False, True, a.dtype)
    assert torch.equal(T.mm(a[:], mat2=b), wanted)  # another tensor of the same kind
    with torch.no_grad():
        assert torch.equal(T.mm(a.clone().requires_grad_(), b), wanted)
    assert library.stats().tiers["exact"] == 5
    with pytest.raises(CameToPython):
        T.mm(a.T.contiguous().T, b)
    with pytest.raises(CameToPython):
        T.matmul(a, b)  # another operator
    with pytest.raises(CameToPython):
        T.mm(a.double(), b.double())
    odd = torch.frombuffer(bytearray(M * K * a.element_size() + 1), dtype=a.dtype, offset=1).view(M, K)
    with pytest.raises(CameToPython):
        T.mm(odd, b)
    library.refresh()
    with pytest.raises(CameToPython):
        T.mm(a, b)


def test_gradients_still_flow(library: tilewright.Library) -> None:
    a, b = operands()
    T.mm(a, b)
    a.requires_grad_()
    got = T.mm(a, b)
    assert got.requires_grad
    (ga,) = torch.autograd.grad(got.sum(), a)
    torch.testing.assert_close(ga, torch.ones(M, N) @ b.T)
    assert library.stats().tiers["exact"] == 2
    torch.library.opcheck(T.mm.default, (a, b))


def test_what_was_known_is_refused_where_its_memory_is_gone(library: tilewright.Library) -> None:
    a, b = operands()
    T.mm(a, b)
    freed = torch.zeros(M, K)
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"^tilewright::mm: argument 1: its memory was freed$"):
        T.mm(freed, b)
    with pytest.raises(TypeError, match=r"argument 2 is on the device meta"):
        T.mm(a, b.to("meta"))
    assert T.mm(a.to("meta"), b.to("meta")).device.type == "meta"
    assert library.stats().tiers["exact"] == 1


def test_modes_and_transforms_see_the_operator(library: tilewright.Library) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._python_dispatch import TorchDispatchMode

    a, b = operands()
    T.mm(a, b)
    seen: list[Any] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    with Mode():
        T.mm(a, b)
    assert seen == [T.mm.default]
    graph = make_fx(T.mm)(a, b).graph
    assert T.mm.default in [n.target for n in graph.nodes]
    negative = torch.complex(a, -a).conj().imag  # its elements are stored with the other sign
    assert negative.is_neg()
    torch.testing.assert_close(T.mm(negative.contiguous(), b), a @ b)
    torch.testing.assert_close(T.mm(negative, b), a @ b)


def test_another_library_answers_and_counts_from_then_on(
    library: tilewright.Library, tuned: Path, tmp_path: Path
) -> None:
    a, b = operands()
    for _ in range(3):
        T.mm(a, b)
    other = tt.use(tilewright.Library(tuned, watch=False))
    for _ in range(2):
        T.mm(a, b)
    empty = tt.use(tilewright.Library(tmp_path / "none.db", missing_ok=True, watch=False))
    torch.testing.assert_close(T.mm(a, b), a @ b)
    assert [x.stats().tiers["exact"] for x in (library, other, empty)] == [3, 2, 0]
    assert empty.stats().reasons == {"untuned": 1}


def test_a_kernel_that_is_withdrawn_is_no_longer_called(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune("matmul", m=4, n=4, k=4, cost_model="random", db=path, trials=1)
    library = tt.use(tilewright.Library(path, watch=False))
    library._look()
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    T.mm(a, b)
    native = serving.native
    assert native is not None
    assert native.kinds == 1
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM kernel")
    library._look()
    assert native.kinds == 0
    torch.testing.assert_close(T.mm(a, b), a @ b)
    assert library.stats().tiers["exact"] == 1
    assert library.stats().reasons == {"untuned": 1}


def test_threads_call_while_answers_are_forgotten(library: tilewright.Library) -> None:
    a, b = operands()
    wanted = T.mm(a, b)
    wrong: list[Any] = []
    calls = 300

    def work() -> None:
        for _ in range(calls):
            if not torch.equal(T.mm(a, b), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        serving.forget()
    for t in threads:
        t.join()
    assert not wrong
    assert library.stats().tiers["exact"] == 4 * calls + 1
    native = serving.native
    assert native is not None
    native.clear()
    assert not native._kept  # nobody uses what was dropped


def test_a_forked_child_goes_on(tuned: Path, compiled: None) -> None:
    program = (
        "import os, torch, tilewright.torch as tt\n"
        "from tilewright.torch.serving import serving\n"
        "assert serving.native is not None\n"
        f"tt.use({str(tuned)!r})\n"
        f"a, b = torch.randn({M}, {K}), torch.randn({K}, {N})\n"
        "mm = torch.ops.tilewright.mm\n"
        "wanted = mm(a, b)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if torch.equal(mm(a, b), wanted) else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["0"], ran.stderr


def test_compiled_graphs_take_the_same_way(library: tilewright.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = operands()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: x @ y, backend=backend.tilewright, options={"rest": "eager"})
    wanted = compiled(a, b)
    before = library.stats().tiers["exact"]
    assert before == 1
    monkeypatch.setattr(placed.Placed, "__call__", refuse)
    assert torch.equal(compiled(a, b), wanted)
    assert library.stats().tiers["exact"] == before + 1


RESULTS: dict[str, Any] = {
    "int64": lambda x: x.argmax(1), "bool": lambda x: x > 0, "float64": lambda x: x.double() * 3,
    "int32": lambda x: (x > 0).int() * 5, "uint8": lambda x: (x > 0).to(torch.uint8),
    "int8": lambda x: (x > 0).to(torch.int8), "float16": lambda x: x.half() * 3, "bfloat16": lambda x: x.bfloat16() * 3,
}  # fmt: skip


@pytest.mark.parametrize("kind", RESULTS)
def test_results_of_every_type_come_from_compiled_graphs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, asked = torch.randn(4, 9), []
    torch._dynamo.reset()

    def compiled(find: Any) -> Any:
        def make(graph: Any, inputs: Any) -> Any:
            return backend.compiled(graph, inputs, find, backend.Rest("eager"))

        torch._dynamo.reset()
        return torch.compile(RESULTS[kind], backend=make)

    compiled(lambda workload, _: asked.append(workload))(x)
    default_kernels(asked, tmp_path / "t.db")
    library = tt.use(tilewright.Library(tmp_path / "t.db", watch=False))
    placed_kernels = compiled(lambda workload, device: library.resolver.find(workload, device).served)
    for _ in range(2):
        got = placed_kernels(x)
        assert got.dtype is getattr(torch, kind)
        assert torch.equal(got, RESULTS[kind](x))
        monkeypatch.setattr(placed.Placed, "__call__", refuse)
    assert library.stats().tiers["exact"] == 2


def test_a_kernel_of_a_range_answers_every_size(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune_range(
        "matmul", params={"m": "1..4", "n": 8, "k": 8}, kernels=1, db=path, trials=2, cost_model="random"
    )
    library = tt.use(path)
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: T.mm(a, b) + 1, dynamic=True, backend="aot_eager", fullgraph=True)
    b = torch.randn(8, 8)
    for m in (2, 3, 3, 4):
        a = torch.randn(m, 8)
        torch.testing.assert_close(compiled(a, b), a @ b + 1)
    tiers = library.stats().tiers
    assert tiers["range"] + tiers["exact"] == 4
    assert tiers["range"] > 0


def test_without_a_compiler_python_answers(tuned: Path) -> None:
    program = (
        "import torch, tilewright.torch as tt\n"
        "from tilewright.torch.serving import serving\n"
        f"library = tt.use({str(tuned)!r})\n"
        f"a, b = torch.randn({M}, {K}, requires_grad=True), torch.randn({K}, {N})\n"
        "assert serving.native is None\n"
        "y = torch.ops.tilewright.mm(a, b)\n"
        "torch.testing.assert_close(y, a @ b)\n"
        "torch.testing.assert_close(torch.autograd.grad(y.sum(), a)[0], torch.ones_like(y) @ b.T)\n"
        "torch.testing.assert_close(torch.ops.tilewright.mm(a.detach(), b), (a @ b).detach())\n"
        "print(library.stats().tiers['exact'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, "CXX": "none"}
    )
    assert ran.stderr == ""
    assert ran.stdout.split() == ["2"]


class Compared(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x.argmax(1), x > 0


def test_known_calls_of_kernels_that_give_whole_numbers_and_truths_do_not_come_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (x, _), module = operands(), Compared()
    how = {"trials": 1, "rest": "eager", "cost_model": "random", "compare": False}
    fast = tt.optimize(module, (x,), db=tmp_path / "t.db", **how)
    monkeypatch.setattr(placed.Placed, "__call__", refuse)
    with torch.no_grad():
        for got, wanted in zip(fast(x), module(x), strict=True):
            assert got.dtype == wanted.dtype
            assert torch.equal(got, wanted)
    assert fast.library.stats().calls == 4

"""Graphs of PyTorch with channels last where that is faster: what is placed, what moves, and what optimize chooses."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
F: Any = torch.nn.functional

import tilewright.torch as tt  # noqa: E402
from tilewright.torch import backend, placed  # noqa: E402
from tilewright.torch.layouts import dense  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
I = (2, 8, 9, 7)  # noqa: E741


class Timed:
    """Serves every part by the program's own meaning, and says that those with channels last take ``last`` seconds."""

    def __init__(self, path: Path, last: float, moves: float = 1e-6, first: float = 1e-3) -> None:
        self.library = tilewright.Library(path, missing_ok=True, watch=False)
        self.last, self.moves, self.first = last, moves, first
        self.constants: set[bool] = set()

    def __call__(self, workload: Any, device: Any = None) -> Any:
        self.constants.add(any(s.constant for s in workload.inputs))
        served = self.library.resolver.untuned(workload, "a test")
        kind = "moves" if workload.op.startswith("permute") else "last" if "_nhwc" in workload.op else "first"
        return replace(served, explanation=replace(served.explanation, seconds=getattr(self, kind)))

    def compile(self, module: Any, keep: bool) -> tuple[Any, list[str]]:
        ran: list[str] = []

        def make(graph: Any, inputs: Any) -> Any:
            def find(workload: Any, device: Any = None) -> Any:
                served = self(workload)
                checked = served.checked

                def counted(*args: Any, **how: Any) -> Any:
                    ran.append(workload.op)
                    return checked(*args, **how)

                for name in ("align", "inputs", "outputs"):
                    setattr(counted, name, getattr(checked, name))
                return replace(served, checked=counted)

            return backend.compiled(graph, inputs, find, backend.Rest("eager"), keep)

        return torch.compile(module, backend=make, fullgraph=True), ran


def block() -> Any:
    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.Conv2d(16, 8, 3, stride=2)
            self.deep, self.norm, self.head = nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(16), nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            y = self.two(F.relu(self.norm(self.one(x))))
            y = F.relu(F.max_pool2d(F.pad(self.deep(y) + 0.5, (1, 1, 1, 1)), 2))
            return y, self.head(y.mean((2, 3)))

    made = Block().eval()
    made.norm.running_mean.normal_()
    made.norm.running_var.uniform_(0.5, 2.0)
    return made


@pytest.mark.parametrize("keep", [True, False], ids=["weights kept", "weights given"])
@pytest.mark.parametrize("last", [1e-5, 1.0], ids=["last is faster", "first is faster"])
@pytest.mark.parametrize("form", ["contiguous_format", "channels_last"])
def test_the_faster_layout_is_placed_and_right(keep: bool, last: float, form: str, tmp_path: Path) -> None:
    how = {"memory_format": getattr(torch, form)}
    module, x = block().to(**how), torch.randn(I).to(**how)
    timed = Timed(tmp_path / "t.db", last)
    run, ran = timed.compile(module, keep)
    with torch.no_grad():
        for _ in range(2):
            got, wanted = run(x), module(x)
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
            assert [t.stride() for t in got] == [t.stride() for t in wanted]
            module.one.weight.mul_(1.5)  # what is kept is made anew
    kinds = [any(t in n for t in ("nhwc", "permute")) for n in ran]
    assert ran
    assert any(kinds) == (last < 1e-3)
    if last < 1e-3 and form == "channels_last":
        assert not any(n.startswith("permute") for n in ran), "the input lies so, and so shall the output"
    assert (True in timed.constants) == keep, "kernels that rearrange weights are found where these are kept"


def test_moves_that_cost_too_much_are_not_made(tmp_path: Path) -> None:
    module, x = nn.Conv2d(8, 8, 3), torch.randn(I)
    run, ran = Timed(tmp_path / "t.db", last=5e-4, moves=1.0).compile(module, True)
    with torch.no_grad():
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
    assert [n.rpartition("_")[0] for n in ran] == ["conv2d"]


def test_training_with_channels_last(tmp_path: Path) -> None:
    found = []
    for compile in (lambda m: m, lambda m: Timed(tmp_path / "t.db", 1e-5).compile(m, False)[0]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
        x = torch.randn(I, requires_grad=True)
        loss = compile(module)(x).square().mean()
        loss.backward()
        found.append([loss, x.grad, *(p.grad for p in module.parameters())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)


def test_optimize_states_both_layouts_and_serves_the_faster(tmp_path: Path) -> None:
    from tilewright.database import Database

    path = tmp_path / "t.db"
    module, x = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 1)).eval(), torch.randn(1, 8, 10, 10)
    how: dict[str, Any] = {"rest": "eager", "cost_model": "random", "seed": 0, "compare": False}
    fast = tt.optimize(module, (x,), db=path, trials=2, **how)
    with Database.open(path) as database:
        names = {r.task.workload.op.rpartition("_")[0] for r in database.runs()}
    assert names == {"conv2d_relu", "conv2d_relu_nhwc", "conv2d", "conv2d_nhwc", "permute"}
    before = fast.library.stats().tiers["exact"]
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
        served = fast.library.stats().tiers["exact"] - before
        assert 2 <= served <= 4
        torch.testing.assert_close(fast(2 * x), module(2 * x), rtol=1e-4, atol=1e-4)  # without Python
        assert fast.library.stats().tiers["exact"] == before + 2 * served


def test_weights_in_another_order_are_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(tmp_path / "t.db", 1e-5)
    module, x = nn.Conv2d(8, 8, 3), torch.randn(I)
    made: list[int] = []
    keep = placed.Packed.__init__

    def counted(self: Any, *args: Any, **how: Any) -> None:
        made.append(1)
        keep(self, *args, **how)

    monkeypatch.setattr(placed.Packed, "__init__", counted)
    run, _ = timed.compile(module, True)
    with torch.no_grad():
        for changes in (0, 1, 1):
            if changes:
                module.weight.mul_(2.0)
            for _ in range(3):
                torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-4)
    assert len(made) == 3


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (1, 3, 1), (0, 3, 2), (2, 1, 5, 1)], ids=str)
def test_dense_in_an_order_of_axes_is_what_pytorch_calls_contiguous(shape: tuple[int, ...]) -> None:
    orders = list(itertools.permutations(range(len(shape))))
    tensor = torch.empty(shape)
    cut = torch.empty([n + 1 for n in shape])[tuple(slice(n) for n in shape)]
    repeated = torch.empty([1] * len(shape)).expand(shape)
    for value in (tensor, cut, repeated):
        for stored, axes in itertools.product(orders, orders):
            moved = value.permute(stored)
            assert dense(moved, axes) == moved.permute(axes).is_contiguous()

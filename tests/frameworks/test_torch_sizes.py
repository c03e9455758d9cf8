"""Compiled graphs whose sizes change: kernels of ranges and of single sizes, PyTorch where there is none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
F: Any = torch.nn.functional

import tilewright.torch as tt  # noqa: E402
from tilewright.backends import parse_target  # noqa: E402
from tilewright.core import UsageError  # noqa: E402
from tilewright.torch import backend  # noqa: E402
from tilewright.torch.dynamic import marked  # noqa: E402
from tilewright.torch.optimize import _captured  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
HOW: dict[str, Any] = {"trials": 1, "cost_model": "random"}


def served(library: Any) -> dict[str, int]:
    return {n: c for n, c in library.stats().tiers.items() if c}


class Only:
    """Serves parts by their program's meaning, where their first size is one of these; counts by size."""

    def __init__(self, path: Path, sizes: tuple[int, ...]) -> None:
        self.library = tilewright.Library(path, missing_ok=True, watch=False)
        self.sizes, self.asked, self.graphs = sizes, Counter[int](), 0

    def __call__(self, workload: Any, device: Any = None) -> Any:
        size = workload.output.shape[0]
        self.asked[size] += 1
        return self.library.resolver.untuned(workload, "a test") if size in self.sizes else None

    def compile(self, module: Any, **how: Any) -> Any:
        def make(graph: Any, inputs: Any) -> Any:
            self.graphs += 1
            return backend.compiled(graph, inputs, self, backend.Rest("eager"))

        return torch.compile(module, backend=make, fullgraph=True, **how)


def heads(p: Any, x: Any) -> Any:
    b, rows, _ = x.shape
    y = p[0](x).view(b, rows, 2, 4).transpose(1, 2)
    return x + p[1](F.softmax(y @ y.mT, -1).matmul(y).transpose(1, 2).reshape(b * rows, 8)).view(b, rows, 8)


class Heads(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, x: Any) -> Any:
        return heads(self.parts, x)


MODULES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), (8,)),
    "conv": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)).eval(), (4, 8, 8)),
    "attention": (Heads, (5, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dynamic", [True, None])
def test_every_size_is_right_and_nothing_is_compiled_again(name: str, dynamic: bool | None, tmp_path: Path) -> None:
    module, shape = MODULES[name][0](), MODULES[name][1]
    only = Only(tmp_path / "t.db", (3, 4, 6, 7, 15, 20, 30, 35))
    run = only.compile(module, dynamic=dynamic)
    made: list[int] = []
    with torch.no_grad():
        for batch in (3, 4, 5, 7, 6, 2, 4, 5):
            x = torch.randn(batch, *shape)
            torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
            made.append(only.graphs)
    assert made[1:] == made[1:2] * 7, "the second size may make a graph of changing sizes"
    assert only.library.stats().tiers["fallback"] > 0  # what kernels would have answered
    asked = dict(only.asked)
    with torch.no_grad():
        for batch in (4, 5, 7):
            run(torch.randn(batch, *shape))
    assert only.asked == asked, "sizes seen before are known"


def test_training_at_changing_sizes(tmp_path: Path) -> None:
    found = []
    only = Only(tmp_path / "t.db", (4, 5, 7, 8, 16))
    for compile in (lambda m: m, lambda m: only.compile(m, dynamic=True)):
        torch.manual_seed(0)
        module = MODULES["mlp"][0]()
        run = compile(module)
        graphs = 0
        for batch in (4, 6, 7, 5):
            x = torch.randn(batch, 8, requires_grad=True)
            run(x).square().mean().backward()
            graphs = graphs or only.graphs
            assert only.graphs == graphs
        found.append([x.grad, *(p.grad for p in module.parameters())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)
    assert only.library.stats().tiers["fallback"] > 0


@pytest.mark.usefixtures("backend_by_name")
@pytest.mark.parametrize("rest", ["inductor", "eager"])
def test_kernels_of_ranges_serve_every_batch(rest: str, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune_range(
        "matmul", params={"m": "2..8", "n": 16, "k": 8, "trans_b": True, "bias": True}, kernels=1, db=path, **HOW
    )
    tilewright.tune("matmul", m=9, n=16, k=8, trans_b=True, bias=True, db=path, **HOW)
    library = tt.use(path)
    module = nn.Linear(8, 16)
    run = torch.compile(module, backend="tilewright", fullgraph=True, dynamic=True, options={"rest": rest})
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for batch in (5, 3, 8, 9, 20):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
        assert served(library) == {"range": 2, "exact": 2}, "the ends of a range have kernels of their own"
        for _ in range(4):
            run(torch.randn(3, 8))  # answered without Python
        assert served(library) == {"range": 6, "exact": 2}
        tilewright.tune("matmul", m=20, n=16, k=8, trans_b=True, bias=True, db=path, **HOW)
        tt.library()._look()
        x = torch.randn(20, 8)
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
    assert served(library) == {"range": 6, "exact": 3}, "what was tuned meanwhile"
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= compiled + 1


def test_a_range_serves_graphs_of_fixed_sizes(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune_range("softmax", params={"shape": "1..6,8"}, kernels=1, db=path, **HOW)
    library = tt.use(path)
    how: dict[str, Any] = {"backend": backend.tilewright, "options": {"rest": "eager"}, "fullgraph": True}
    run = torch.compile(lambda x: torch.softmax(x, -1), dynamic=False, **how)
    x = torch.randn(5, 8)
    torch.testing.assert_close(run(x), torch.softmax(x, -1))
    assert served(library) == {"range": 1}


def linear() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU()).eval()


@pytest.mark.parametrize("exported", [False, True])
def test_optimize_tunes_ranges_of_dynamic_axes(exported: bool, tmp_path: Path) -> None:
    module, x = linear(), torch.randn(3, 8)
    given, how = module, {"dynamic_shapes": {"input": {0: (2, 5)}}}
    if exported:
        rows = torch.export.Dim("rows", min=2, max=5)
        given, how = torch.export.export(module, (x,), dynamic_shapes=({0: rows},)), {}
    run = tt.optimize(given, (x,), db=tmp_path / "t.db", rest="eager", compare=False, **how, **HOW)
    run.library.restart_stats()
    with torch.no_grad():
        for rows in range(2, 6):
            y = torch.randn(rows, 8)
            torch.testing.assert_close(run(y), module(y), rtol=1e-4, atol=1e-5)
        found = served(run.library)
        assert sum(found.values()) == 4
        assert found["range"] >= 1
        if not exported:  # an exported program refuses sizes outside of its own ranges
            y = torch.randn(7, 8)
            torch.testing.assert_close(run(y), module(y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"y": {0: (2, 5)}}, "no argument 'y'"),
        ({"input": {0: (5, 2)}}, "outside of 5 to 2"),
        ({"input": {0: (4, 9)}}, "axis 0 of argument 0 has 3 elements"),
        ({"input": {7: (2, 5)}}, "has no axis 7"),
        ({"input": {0: "many"}}, "has no least and greatest size"),
        (({0: (2, 5)}, None), "not of 1 arguments"),
    ],
)
def test_dynamic_axes_that_are_none_are_refused(axes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tt.optimize(linear(), (torch.randn(3, 8),), dynamic_shapes=axes)


def test_images_of_changing_height_are_tasks_with_ranges() -> None:
    module, x = MODULES["conv"][0](), torch.randn(2, 4, 12, 8)
    marked_module, example = marked(module, (x,), ({0: (2, 4), 2: (8, 16)},))
    with torch.no_grad():
        _, tasks = _captured(marked_module, example, backend.Rest("eager"), parse_target("cpu"))
    shapes = {t.workload.op.partition("_")[0]: [repr(n) for n in t.workload.output.shape] for t in tasks}
    assert shapes["max"] == ["n0=2..4", "6", "n1=6..14:(n1 // 2)", "3"]
    assert shapes["conv2d"] == ["n0=2..4", "6", "n1=8..16:(n1 - 2)", "6"]

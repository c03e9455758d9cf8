"""What PyTorch's caches of compiled graphs make of placed kernels, and what outlives a module."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

import tilewright.torch as tt  # noqa: E402
from tilewright.torch import backend, native, placed  # noqa: E402
from tilewright.torch.serving import serving  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
HOW: dict[str, Any] = {"rest": "eager", "cost_model": "random", "compare": False}


@pytest.fixture(scope="module")
def compiled() -> None:
    """The library that answers here lies in the cache of processes that tests start: it takes seconds to compile."""
    here = serving.native
    if here is not None:
        native.extension().cached(lambda *_: Path(here.path).read_bytes())


@pytest.mark.usefixtures("compiled")
def test_graphs_in_inductors_cache_are_right_in_other_processes(tmp_path: Path) -> None:
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_FX_GRAPH_CACHE": "1"}

    def hits(*places: str) -> list[int]:
        command = [sys.executable, str(Path(__file__).with_name("torch_pairs.py")), str(tmp_path / "t.db"), *places]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert ran.returncode == 0, ran.stderr[-2000:]
        return [int(n) for n in ran.stdout.split()]

    assert hits("0")[0] < 20
    second, both = hits("1", "0")
    assert both - second >= 20, "the cache has the graphs of the first process"


class Products(nn.Module):  # type: ignore[misc]
    """Two products by weights of one shape: one kernel, named once."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Parameter(torch.randn(12, 16)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return x @ self.one, x @ self.two


def products(tuned: Path) -> tuple[Any, Any, placed.Placed]:
    """A module, the same compiled for weights that seldom change, and its kernel."""
    library = tilewright.Library(tuned, watch=False)

    def make(graph: Any, inputs: Any) -> Any:
        def find(workload: Any, device: Any) -> Any:
            return library.resolver.find(workload, device).served

        return backend.compiled(graph, inputs, find, backend.Rest("eager"), optimizing=True)

    module = Products()
    run = torch.compile(module, backend=make, fullgraph=True)
    with torch.no_grad():
        run(torch.randn(8, 12))
    (kernel,) = placed._placed[max(placed._placed)].parts.values()
    assert isinstance(kernel, placed.Placed)
    assert kernel._kept == (1,), "the kernel of constant weights has them rearranged"
    return module, run, kernel


def rearranged(kernel: placed.Placed) -> list[weakref.ref[Any]]:
    return [weakref.ref(m) for p in kernel._packed.values() for m in p.memory.values()]


def test_one_kernel_serves_several_weights(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, run, kernel = products(tuned)
    x = torch.randn(8, 12)
    assert len(kernel._packed) == 2
    if serving.native is not None:  # both are answered without Python
        monkeypatch.setattr(placed.Placed, "__call__", None)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
        assert len(kernel._packed) == 2
        monkeypatch.undo()
        module.two.mul_(2.0)
        module.one.data = torch.randn(12, 16)
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
    assert len(kernel._packed) == 2


def test_rearranged_weights_are_freed_with_the_weights(tuned: Path) -> None:
    module, run, kernel = products(tuned)
    x = torch.randn(8, 12)
    before = rearranged(kernel)
    kinds = 0 if serving.native is None else serving.native.kinds
    weight = weakref.ref(module.two.untyped_storage())
    module.two = nn.Parameter(torch.randn(12, 16))
    assert weight() is None
    assert [m() is None for m in before] == [False, True]
    with torch.no_grad():
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
    assert len(kernel._packed) == 2
    before = rearranged(kernel)
    del module, run
    assert [m() for m in before] == [None, None], "the module is gone, and PyTorch still has its graph"
    assert not kernel._packed
    assert serving.native is None or serving.native.kinds == kinds - 2


@pytest.mark.skipif(serving.native is None, reason="no compiler for PyTorch's headers")
def test_calls_of_a_graph_are_forgotten_with_it(tuned: Path) -> None:
    here = serving.native
    assert here is not None
    gc.collect()
    kinds, graphs = here.kinds, len(placed._placed)
    tt.use(tuned)
    run = torch.compile(lambda a, b: a @ b, backend=backend.tilewright, options={"rest": "eager"}, fullgraph=True)
    a, b = torch.randn(8, 12), torch.randn(12, 16)
    kinds = here.kinds
    torch.testing.assert_close(run(a, b), a @ b)
    assert here.kinds == kinds + 1
    torch._dynamo.reset()
    del run
    gc.collect()
    assert (here.kinds, len(placed._placed)) == (kinds, graphs)


def test_a_kernel_of_no_graph_here_is_an_error() -> None:
    with pytest.raises(tilewright.TilewrightError, match="a graph calls kernel abc, which this process did not place"):
        torch.ops.tilewright.kernel(torch.tensor(-1), "abc", [2], torch.float32, [torch.zeros(2)], [])


def test_modules_of_one_class_are_all_served(tmp_path: Path) -> None:
    """Dynamo compiles a function eight times at most, and modules of a class share theirs."""
    x = torch.randn(3, 8)
    for _ in range(6):
        module = nn.Linear(8, 4).eval()
        fast = tt.optimize(module, (x,), db=tmp_path / "t.db", trials=1, **HOW)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
        assert fast.library.stats().calls == 2

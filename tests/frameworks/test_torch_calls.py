"""What stands between the kernels of a compiled graph: nothing of PyTorch's; and nothing of ours where no kernel is placed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

import tilewright.torch as tt  # noqa: E402
from tilewright.torch import backend, placed  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Products(nn.Module):  # type: ignore[misc]
    """Two products that a kernel computes; what stands between them Inductor leaves to PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Parameter(torch.randn(12, 16)) for _ in range(2))
        self.register_buffer("seen", torch.zeros(8, 16))

    def forward(self, x: Any) -> Any:
        y = (x @ self.one).sort(0)[0]
        self.seen.copy_(y)
        return y, x.sort(1)[0] @ self.two


@pytest.fixture
def library(tuned: Path) -> tilewright.Library:
    return tt.use(tilewright.Library(tuned, watch=False))


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("it was called")


@pytest.mark.skipif(placed.call is placed._answer, reason="no compiler for the headers of PyTorch and Python")
@pytest.mark.parametrize("rest", backend.REST)
def test_known_calls_pass_neither_the_dispatcher_nor_python(
    rest: str, library: tilewright.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[Any] = []

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    module, x = Products(), torch.randn(8, 12)
    run = torch.compile(module, backend=backend.tilewright, options={"rest": rest}, fullgraph=True)
    with torch.no_grad():
        wanted = module(x)
        torch.testing.assert_close(run(x), wanted)
        monkeypatch.setattr(placed.Placed, "__call__", refuse)
        module.seen.zero_()
        torch.testing.assert_close(run(x), wanted)
        torch.testing.assert_close(module.seen, wanted[0], msg="the buffer is written in the graph")
        compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        with Mode():
            placed.call(*_call(x, module.one), out=torch.empty(8, 16))
        assert torch.ops.tilewright.kernel.default not in seen
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled
    assert library.stats().tiers["exact"] == 5


def _call(*inputs: Any) -> tuple[Any, ...]:
    (kernels,) = [k for k in placed._placed.values() if len(k.parts) == 1]
    return (kernels.graph, *inputs, next(iter(kernels.parts)))


@pytest.mark.usefixtures("library")
def test_inductors_code_calls_kernels_as_functions_in_memory_that_it_plans() -> None:
    from torch._inductor.utils import run_and_get_code

    module, x = Products(), torch.randn(8, 12)
    run = torch.compile(module, backend=backend.tilewright, fullgraph=True)
    with torch.no_grad():
        _, (code,) = run_and_get_code(run, x)
    assert code.count("tilewright_call(") == 2
    assert "ops.tilewright" not in code
    assert code.count("out=buf") == 2


def test_results_lie_as_eager_ones_where_inductor_takes_another_layout(tmp_path: Path) -> None:
    library = tilewright.Library(tmp_path / "t.db", missing_ok=True, watch=False)

    def find(workload: Any, device: Any = None) -> Any:
        return library.resolver.untuned(workload, "a test") if workload.op.startswith("conv2d_relu") else None

    def compile(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, find, backend.Rest("inductor"))

    module = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 1))
    x = torch.randn(2, 4, 6, 6)
    with torch.no_grad():
        got, wanted = torch.compile(module, backend=compile, fullgraph=True)(x), module(x)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert got.stride() == wanted.stride()
    assert library.stats().calls == 1


def test_calls_of_odd_memory_are_answered_by_python(library: tilewright.Library) -> None:
    module, x = Products(), torch.randn(8, 12)
    with torch.no_grad():
        torch.compile(module, backend=backend.tilewright, options={"rest": "eager"}, fullgraph=True)(x)
        odd = torch.frombuffer(bytearray(8 * 16 * 4 + 1), dtype=torch.float32, offset=1).view(8, 16)
        for out in (odd, torch.empty(8, 16)):
            for given in (x, x.T.contiguous().T):
                placed.call(*_call(given, module.one), out=out)
                torch.testing.assert_close(out, given @ module.one)
    with pytest.raises(tilewright.TilewrightError, match="which this process did not place"):
        placed.call(torch.tensor(-1), x, "abc", out=torch.empty(8, 16))


@pytest.mark.parametrize("trained", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("options", [{}, {"mode": "max-autotune"}], ids=["defaults", "mode"])
def test_a_graph_without_kernels_is_just_what_inductor_makes(
    trained: bool, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor import compile_fx

    given: list[tuple[Any, Any]] = []
    made: list[Callable[..., Any]] = []

    def theirs(module: Any, inputs: Any, **how: Any) -> Any:
        given.append((module, how["config_patches"]))
        made.append(module.forward)
        return made[-1]

    monkeypatch.setattr(compile_fx, "compile_fx", theirs)
    rest = backend.Rest.of(options.get("mode"), None)

    def compile(graph: Any, inputs: Any) -> Any:
        found = backend.compiled(graph, inputs, lambda *_: None, rest)
        assert (given, [found]) == ([(graph, dict(rest.options))], made)
        return found

    module, x = Products(), torch.randn(8, 12)
    with torch.set_grad_enabled(trained):
        torch.testing.assert_close(torch.compile(module, backend=compile, fullgraph=True)(x), module(x))
    assert len(made) == 1


@pytest.mark.parametrize("rest", backend.REST)
def test_kernels_of_constant_weights_serve_training_too(rest: str, tuned: Path) -> None:
    library = tilewright.Library(tuned, watch=False)

    def find(workload: Any, device: Any = None) -> Any:
        constant = any(s.constant for s in workload.inputs)
        return library.resolver.untuned(workload, "a test") if constant else None

    def compile(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, find, backend.Rest(rest), optimizing=True)

    module, x = nn.Linear(12, 16), torch.randn(8, 12)
    torch.testing.assert_close(torch.compile(module, backend=compile, fullgraph=True)(x), module(x))
    assert library.stats().calls == 1


def test_a_kernel_of_the_gradient_alone_is_placed(tuned: Path) -> None:
    library = tilewright.Library(tuned, watch=False)
    asked: list[tuple[int, ...]] = []

    def find(workload: Any, device: Any = None) -> Any:
        asked.append(workload.output.shape)
        found = library.resolver.untuned(workload, "a test")
        return found if workload.output.shape == (12, 8) else None  # of the weight, not of the result

    def compile(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, find, backend.Rest("inductor"))

    x, w = torch.randn(4, 12), torch.randn(12, 8, requires_grad=True)
    run = torch.compile(lambda x, w: x @ w, backend=compile, fullgraph=True)
    run(x, w).backward(torch.ones(4, 8))
    torch.testing.assert_close(w.grad, x.T @ torch.ones(4, 8))
    assert library.stats().calls == 1

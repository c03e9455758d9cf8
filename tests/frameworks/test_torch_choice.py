"""What is left to Inductor since a kernel would not gain by it, and which form of a module ``optimize`` keeps."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
F: Any = torch.nn.functional

import tilewright.torch as tt  # noqa: E402
from tilewright.measure import comparing  # noqa: E402
from tilewright.torch import backend, placed  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
ROUNDS = 12
FEWER = "kernels but for elementwise chains"


class Of(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x: Any) -> Any:
        return self.function(x, self.weight)


def placed_of(function: Any, fuses: bool, seconds: float | None, path: Path) -> list[str]:
    """The operations of the kernels that are placed where every part has one that takes so many seconds."""
    library = tilewright.Library(path, missing_ok=True, watch=False)
    ran: list[str] = []

    def find(workload: Any, device: Any = None) -> Any:
        served = library.resolver.untuned(workload, "a test")
        checked = served.checked

        def counted(*args: Any, **how: Any) -> Any:
            ran.append(workload.op.rpartition("_")[0])
            return checked(*args, **how)

        for name in ("align", "inputs", "outputs"):
            setattr(counted, name, getattr(checked, name))
        return replace(served, checked=counted, explanation=replace(served.explanation, seconds=seconds))

    def make(graph: Any, inputs: Any) -> Any:
        def forward(graph: Any, _: Any) -> Any:
            kernels = backend.place(graph, find, fuses=fuses)
            run = backend.run_eagerly(graph)
            return run if kernels is None else kernels.bound(run)

        return backend.of_aten(graph, inputs, forward, forward)

    module, x = Of(function), torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(module, backend=make, fullgraph=True)(x), module(x))
    return ran


@pytest.mark.parametrize(
    ("function", "eagerly", "fused"),
    [
        (lambda x, w: F.silu(x) * 2, ["silu_mul"], ["silu_mul"]),
        (lambda x, w: (2 * x).lgamma(), ["mul"], []),
        (lambda x, w: x.lgamma().view(-1).relu(), ["relu"], []),
        (lambda x, w: F.gelu(x.lgamma()), ["gelu"], ["gelu"]),
        (lambda x, w: (x.sort(0)[0] @ w).sort(1)[0], ["matmul"], ["matmul"]),
        (lambda x, w: torch.softmax(x.lgamma(), 1), ["softmax"], ["softmax"]),
    ],
    ids=["alone", "before", "behind a view", "not light", "product", "softmax"],
)
def test_light_elementwise_operations_beside_one_of_inductors_stay_with_it(
    function: Any, eagerly: list[str], fused: list[str], tmp_path: Path
) -> None:
    assert placed_of(function, False, None, tmp_path / "t.db") == eagerly
    torch._dynamo.reset()
    assert placed_of(function, True, None, tmp_path / "t.db") == fused


@pytest.mark.parametrize(("seconds", "kept"), [(0.5e-6, 1), (2e-6, 2)])
def test_a_kernel_that_takes_less_than_its_call_is_left_to_inductor_unless_that_calls_too(
    seconds: float, kept: int, tmp_path: Path
) -> None:
    def both(x: Any, w: Any) -> Any:
        return torch.softmax(x, 1), x @ w

    assert len(placed_of(both, True, seconds, tmp_path / "t.db")) == kept
    torch._dynamo.reset()
    assert len(placed_of(both, False, seconds, tmp_path / "t.db")) == 2


@pytest.mark.parametrize(("optimizing", "count"), [(False, 2), (True, 1)])
def test_the_backend_takes_every_kernel_of_the_database_and_optimize_those_that_gain(
    optimizing: bool, count: int, tmp_path: Path
) -> None:
    library = tilewright.Library(tmp_path / "t.db", missing_ok=True, watch=False)
    kernels: list[Any] = []

    def tiny(workload: Any, device: Any = None) -> Any:
        served = library.resolver.untuned(workload, "a test")
        return replace(served, explanation=replace(served.explanation, seconds=0.5e-6))

    def make(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, tiny, backend.Rest("inductor"), optimizing, kernels.append)

    module, x = Of(lambda x, w: (torch.softmax(x, 1), x @ w)), torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(module, backend=make, fullgraph=True)(x), module(x))
    assert [len(k.parts) for k in kernels] == [count]


def test_optimize_gives_the_module_as_pytorch_runs_it_where_that_is_faster_than_inductor(
    tuned_parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(forms: Any, **_: Any) -> Any:
        return {name: [1.0 if name == "eager alone" else 2.0] * ROUNDS for name in forms}

    from torch._dynamo.utils import counters

    monkeypatch.setattr(comparing, "in_turns", timed)
    module, x = Of(product_and_chain), torch.randn(4, 8)
    fast = tt.optimize(module, (x,), **{**tuned_parts, "rest": "inductor"})
    assert (fast.comparison.kept, set(fast.comparison.ratios)) == ("eager alone", {"all kernels", "inductor alone"})
    counters.clear()
    for y in (x, torch.randn(2, 8)):
        assert torch.equal(fast(y), module(y))
    assert not counters["stats"], "nothing is compiled any more"


class Counting(Of):
    """Its calls change a buffer."""

    def __init__(self) -> None:
        super().__init__(product_and_chain)
        self.register_buffer("last", torch.zeros(4, 8))

    def forward(self, x: Any) -> Any:
        self.last.copy_(x)
        return super().forward(x)


def product_and_chain(x: Any, w: Any) -> Any:
    return F.silu((x @ w).lgamma())


@pytest.fixture(scope="module")
def tuned_parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Arguments of ``optimize`` with which the product and the chain behind the sum are tuned."""
    how: dict[str, Any] = {"db": tmp_path_factory.mktemp("choice") / "t.db", "trials": 2}
    how |= {"rest": "eager", "cost_model": "random"}
    tt.optimize(Of(product_and_chain), (torch.randn(4, 8),), **how, compare=False)
    return how


@pytest.mark.parametrize("faster", ["all kernels", "eager alone", FEWER])
def test_optimize_keeps_the_form_that_is_faster(
    faster: str, tuned_parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(forms: Any, **_: Any) -> Any:
        assert set(forms) == {"all kernels", "eager alone", FEWER}
        for run in forms.values():
            run()
        return {name: [1.0 if name == faster else 2.0] * ROUNDS for name in forms}

    monkeypatch.setattr(comparing, "in_turns", timed)
    module, x = Of(product_and_chain), torch.randn(4, 8)
    known = set(placed._placed.values())
    fast = tt.optimize(module, (x,), **tuned_parts)
    assert fast.comparison.kept == faster
    assert [r[0] for r in fast.comparison.ratios.values()] == [2.0, 2.0]
    assert fast.library.stats().calls == 0, "those that were timed are not counted"
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    placed_now = {"all kernels": 2, "eager alone": 0, FEWER: 1}[faster]
    assert fast.library.stats().calls == placed_now
    made = [len(k.parts) for k in set(placed._placed.values()) - known]
    assert sum(made) == placed_now, "the other forms have let go of their kernels"


def cancelling(x: Any, w: Any) -> Any:
    """Rounding alone: in float64 it is about 1e-17."""
    y = x @ w
    return (y - y.mean(1, keepdim=True)).mean(1) / 8


def test_optimize_takes_results_of_rounding_alone_and_refuses_what_is_further_from_float64() -> None:
    optimize = importlib.import_module("tilewright.torch.optimize")
    module, x = Of(cancelling), torch.randn(4, 8)
    wanted = optimize._Wanted(module, (x,))
    with torch.no_grad():
        wanted.check(-wanted.leaves[0])
        with pytest.raises(tilewright.TilewrightError, match="differs from the module by"):
            wanted.check(wanted.leaves[0] + 1e-5)
    truths = optimize._Wanted(Of(lambda x, w: x > 0), (x,))
    with pytest.raises(tilewright.TilewrightError, match="differs from the module in 1 elements"):
        truths.check((x > 0) ^ (x == x.flatten()[3]))


@pytest.mark.parametrize(("module", "calls"), [(Counting, 2), (nn.Identity, 0)])
def test_a_module_that_its_calls_change_or_without_kernels_is_not_timed(
    module: Any, calls: int, tuned_parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "in_turns", None)
    fast = tt.optimize(module(), (torch.randn(4, 8),), **tuned_parts)
    assert fast.comparison is None
    assert fast.library.stats().calls == calls


def test_dynamo_makes_the_graphs_of_all_forms_once_and_inductor_compiles_none_twice(
    tuned_parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.utils import counters
    from torch._inductor import compile_fx

    whole: list[Any] = []
    make = compile_fx.compile_fx

    def noted(*args: Any, **how: Any) -> Any:
        whole.append(args[0])
        return make(*args, **how)

    monkeypatch.setattr(compile_fx, "compile_fx", noted)
    monkeypatch.setattr(comparing, "in_turns", lambda forms, **_: {name: [1.0] * ROUNDS for name in forms})
    counters.clear()
    module, x = Of(lambda x, w: torch.logsumexp(x @ w, 1)), torch.randn(4, 8)
    fast = tt.optimize(module, (x,), **{**tuned_parts, "rest": "inductor"})
    assert len(fast.comparison.ratios) == 2
    assert counters["stats"]["unique_graphs"] == 1
    assert len(whole) == 1


def test_a_call_with_gradients_is_compiled_as_the_form_that_is_kept(tuned_parts: dict[str, Any]) -> None:
    module, x = Of(product_and_chain), torch.randn(4, 8)
    fast = tt.optimize(module, (x,), **tuned_parts, compare=False)
    with torch.no_grad():
        wanted = module(x)
    before = fast.library.stats().calls
    made = fast(x)
    torch.testing.assert_close(made.detach(), wanted, rtol=1e-4, atol=1e-5)
    assert fast.library.stats().calls == before + 2
    made.sum().backward()
    assert module.weight.grad is not None


class Warns(Of):
    """Its calls warn in their midst."""

    def forward(self, x: Any) -> Any:
        y = x @ self.weight
        warnings.warn("of such sizes", stacklevel=1)
        return F.silu(y.lgamma())


def test_a_module_that_warns_is_one_graph_and_its_calls_warn(tuned_parts: dict[str, Any]) -> None:
    from torch._dynamo.utils import counters

    module, x = Warns(product_and_chain), torch.randn(4, 8)
    counters.clear()
    with pytest.warns(UserWarning, match="of such sizes"):
        fast = tt.optimize(module, (x,), **tuned_parts, compare=False)
    assert counters["stats"]["unique_graphs"] == 1
    with torch.no_grad(), pytest.warns(UserWarning, match="of such sizes"):
        made = fast(x)
    assert fast.library.stats().calls
    with torch.no_grad(), pytest.warns(UserWarning, match="of such sizes"):
        torch.testing.assert_close(made, module(x), rtol=1e-4, atol=1e-5)


def test_random_numbers_beside_a_kernel_are_inductors(tuned_parts: dict[str, Any]) -> None:
    module, x = Of(lambda x, w: F.silu((x @ w).lgamma()) + 1e-6 * torch.rand(4, 16)), torch.randn(4, 8)
    fast = tt.optimize(module, (x,), **{**tuned_parts, "rest": "inductor"}, compare=False)
    with torch.no_grad():
        assert not torch.equal(fast(x), fast(x))
        torch.testing.assert_close(fast(x), module(x), rtol=1e-3, atol=1e-4)
    assert fast.library.stats().calls

"""``nn.RNN``, ``nn.GRU`` and ``nn.LSTM``: what of them kernels compute, and what stays PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

from test_torch_compile import Lambda, Reference  # noqa: E402

import tilewright.torch as tt  # noqa: E402
from tilewright.torch import backend, recurrent  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.usefixtures("fresh", "allowed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def allowed() -> Iterator[None]:
    """Dynamo hands on recurrent layers only where it is told to."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def assert_same(got: Any, wanted: Any) -> None:
    leaves = torch.utils._pytree.tree_leaves
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def states(kind: str, count: int, rows: int) -> Any:
    made = tuple(torch.randn(count, rows, 6) for _ in range(2))
    return made if kind == "LSTM" else made[0]


LAYERS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "lstm": ("LSTM", {"batch_first": True, "num_layers": 2}, True),
    "lstm_both_ways": ("LSTM", {"bidirectional": True, "bias": False}, False),
    "gru": ("GRU", {"num_layers": 3}, False),
    "gru_both_ways": ("GRU", {"bidirectional": True, "num_layers": 2, "batch_first": True}, True),
    "rnn": ("RNN", {"bidirectional": True}, True),
    "rnn_relu": ("RNN", {"nonlinearity": "relu", "bias": False}, False),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_what_pytorchs_do_by_one_kernel_for_all_steps(name: str, tmp_path: Path) -> None:
    kind, how, given = LAYERS[name]
    layer = getattr(nn, kind)(5, 6, **how).eval()
    module = Lambda(lambda p, x, *s: p[0](x.tanh(), *s), layer)
    x = torch.randn(4, 3, 5)
    count = how.get("num_layers", 1) * (2 if how.get("bidirectional") else 1)
    args = (x, states(kind, count, 4 if how.get("batch_first") else 3)) if given else (x,)
    reference = Reference(tmp_path / "none.db")
    with torch.no_grad():
        assert_same(reference.compile(module)(*args), module(*args))
    asked = {op for op in reference.asked if op.split("_")[0] == kind.lower()}
    assert len(asked) == (2 if how.get("bidirectional") else 1)  # layers with one program share it


def test_an_input_without_a_batch_is_taken(tmp_path: Path) -> None:
    layer, x = nn.GRU(5, 6).eval(), torch.randn(7, 5)
    with torch.no_grad():
        assert_same(Reference(tmp_path / "none.db").compile(layer)(x), layer(x))


def lowered_graphs(module: Any, *args: Any) -> list[bool]:
    """Of each graph of Dynamo's, whether layers in it are lowered; the result is held to be PyTorch's."""
    found: list[bool] = []

    def make(graph: Any, inputs: Any) -> Any:
        found.append(recurrent.lowered(graph, inputs) is not None)
        return backend.compiled(graph, inputs, lambda *_: None, backend.Rest("eager"))

    compiled = torch.compile(module, backend=make)
    torch.manual_seed(1)
    wanted = module(*args)
    torch.manual_seed(1)
    assert_same(compiled(*args), wanted)
    return found


def test_without_a_kernel_a_layer_is_pytorchs_own() -> None:
    with torch.no_grad():
        assert lowered_graphs(nn.LSTM(5, 6).eval(), torch.randn(4, 3, 5)) == [True]


def test_training_is_left_to_pytorch() -> None:
    layer, x = nn.GRU(5, 6), torch.randn(4, 3, 5)
    assert not any(lowered_graphs(layer, x))
    compiled = torch.compile(layer, backend=lambda g, i: backend.compiled(g, i, lambda *_: None, backend.Rest("eager")))
    compiled(x)[0].sum().backward()
    got = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    layer(x)[0].sum().backward()
    assert_same(got, [p.grad for p in layer.parameters()])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    "module",
    [lambda: nn.LSTM(5, 6, proj_size=3).eval(), lambda: nn.GRU(5, 6).to(torch.bfloat16).eval()],
    ids=["projection", "bfloat16"],
)
def test_layers_of_other_kinds_are_left_to_pytorch(module: Any) -> None:
    layer = module()
    with torch.no_grad():
        assert not any(lowered_graphs(layer, torch.randn(4, 3, 5, dtype=layer.weight_ih_l0.dtype)))


def test_a_layer_that_drops_is_left_to_pytorch() -> None:
    with torch.no_grad():
        assert recurrent.lowered(_traced(nn.LSTM(5, 6, 2, dropout=0.5).train()), []) is None
        assert recurrent.lowered(_traced(nn.LSTM(5, 6, 2, dropout=0.5).eval()), []) is not None


def _traced(layer: Any) -> Any:
    """Dynamo's graph of a layer."""
    found: list[Any] = []

    def keep(graph: Any, inputs: Any) -> Any:
        found.append(graph)
        return graph.forward

    torch.compile(layer, backend=keep)(torch.randn(4, 3, 5))
    return found[0]


def test_optimize_tunes_a_layer_and_serves_it(tmp_path: Path) -> None:
    module = Lambda(lambda p, x: p[1](p[0](x)[0][:, -1]), nn.LSTM(5, 16, batch_first=True), nn.Linear(16, 3)).eval()
    x = torch.randn(2, 6, 5)
    with torch._dynamo.config.patch(allow_rnn=False), torch.no_grad():
        made = tt.optimize(
            module, (x,), db=tmp_path / "t.db", trials=3, rest="eager", cost_model="random", compare=False
        )
        assert_same(made(x), module(x))
    # The input product, the steps, and the last product, in two calls each.
    assert {n: c for n, c in made.library.stats().tiers.items() if c} == {"exact": 6}

"""Samples of PyTorch's own (``op_db``): what the importer takes means what PyTorch computes, by the float64 interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

from tilewright.graph import Graph  # noqa: E402
from tilewright.graph.groups import state_nodes  # noqa: E402
from tilewright.graph.operations import ATEN  # noqa: E402
from tilewright.kernels.expression.program import Program  # noqa: E402
from tilewright.kernels.reference import evaluate  # noqa: E402
from tilewright.torch.decompositions import decompositions  # noqa: E402
from tilewright.torch.importer import imported  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _methods = pytest.importorskip(
        "torch.testing._internal.common_methods_invocations", reason="PyTorch's tests need expecttest"
    )

SAMPLES = 3
LARGEST = 5000
"""Elements of a sample's tensors, more of which take the interpreter long."""
LEAST = {"float64": 280, "int64": 180}
"""Operators of which a sample at least is taken whole."""
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
pytestmark = pytest.mark.filterwarnings("ignore")
leaves_of = torch.utils._pytree.tree_flatten


def samples(kind: str) -> Any:
    """Operators with their samples: functions of tensors, and those tensors."""
    dtype = getattr(torch, kind)
    for info in _methods.op_db:
        if dtype not in info.dtypes:
            continue
        torch.manual_seed(0)
        drawn = info.sample_inputs_func(info, "cpu", dtype, False)
        for _, sample in zip(range(SAMPLES), drawn, strict=False):
            leaves, spec = leaves_of(((sample.input, *sample.args), sample.kwargs))
            tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
            plain = all(t.layout is torch.strided and not t.is_complex() and 0 < t.numel() <= LARGEST for t in tensors)
            if tensors and plain:
                yield info.name, called(info, leaves, spec), tensors


def called(info: Any, leaves: list[Any], spec: Any) -> Callable[..., list[Any]]:
    """The operator as a function of its tensors that gives a list of tensors."""

    def call(*tensors: Any) -> list[Any]:
        rest = iter(tensors)
        given = [next(rest) if isinstance(x, torch.Tensor) else x for x in leaves]
        args, kwargs = torch.utils._pytree.tree_unflatten(given, spec)
        return [t for t in leaves_of(info(*args, **kwargs))[0] if isinstance(t, torch.Tensor)]

    return call


def computed(graph: Graph, output: str, given: dict[str, Any]) -> Any:
    """A value of the graph, by the interpreter."""
    needed, nodes = {output}, []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.insert(0, node)
            needed.update(node.reads)
    text, reads = state_nodes(graph, nodes)
    arrays = [given[r].numpy() if r in given else graph.constants[r] for r in reads]
    return evaluate(Program.loads(text), [np.array(a, order="C", copy=True).reshape(a.shape) for a in arrays])


def test_every_name_of_the_table_is_an_operator_of_pytorch() -> None:
    for name in sorted(ATEN):
        operator, _, overload = name.partition(".")
        if operator != "tilewright":
            assert hasattr(getattr(torch.ops.aten, operator), overload or "default"), name


@pytest.mark.parametrize("kind", list(LEAST))
def test_what_is_taken_whole_is_what_pytorch_computes(kind: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    taken = set()
    for name, call, tensors in samples(kind):
        try:
            wanted = call(*(t.clone() for t in tensors))
            traced = make_fx(torch.func.functionalize(call), decomposition_table=decompositions(), tracing_mode="fake")
            module = traced(*tensors)
        except Exception:  # what PyTorch does not trace is no graph
            continue
        module.graph.eliminate_dead_code()
        found = imported(module)
        if found is None or any(n.opaque for n in found.graph.nodes):
            continue
        inputs = [n.name for n in module.graph.nodes if n.op == "placeholder"]
        given = dict(zip(inputs, tensors, strict=True))
        given |= {n.name: getattr(module, n.target) for n in module.graph.nodes if n.op == "get_attr"}
        (outputs,) = next(n for n in module.graph.nodes if n.op == "output").args
        for node, value in zip(outputs, wanted, strict=True):
            if node.name in given or node.name in found.graph.constants:
                continue
            got = computed(found.graph, node.name, given)
            assert got.shape == tuple(value.shape), name
            close = CLOSE.get(value.dtype, 0.0)
            shown = f"{name} of {[tuple(t.shape) for t in tensors]}"
            np.testing.assert_allclose(got, value.double().numpy(), rtol=close, atol=close, err_msg=shown)
            taken.add(name)
    assert len(taken) >= LEAST[kind]


@pytest.mark.parametrize("ahead", [False, True])
def test_an_encoder_layer_that_pytorch_computes_at_once_is_taken_apart(ahead: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=ahead).double().eval()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    names = ("self_attn.in_proj", "self_attn.out_proj", "norm1", "norm2", "linear1", "linear2")
    weights = [
        layer.get_parameter(f"{n}{'_' if n.endswith('in_proj') else '.'}{k}") for n in names for k in ("weight", "bias")
    ]

    def at_once(x: Any, *w: Any) -> Any:
        forward = torch.ops.aten._transformer_encoder_layer_fwd
        return forward(x, 16, 2, *w[:4], False, ahead, 1e-5, *w[4:])

    with torch.no_grad():
        given = [x, *(w.detach() for w in weights)]
        found = imported(torch.fx.experimental.proxy_tensor.make_fx(at_once, tracing_mode="fake")(*given))
        assert found is not None
        assert not found.left
        (output,) = found.graph.outputs
        got = computed(found.graph, output, dict(zip((s.name for s in found.graph.inputs), given, strict=True)))
        np.testing.assert_allclose(got, layer(x), atol=1e-9)

"""Samples of PyTorch's own (``op_db``): what the importer takes means what PyTorch computes, by the float64 interpreter and
by compiled kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

import tilewright  # noqa: E402
from tilewright.graph import Graph  # noqa: E402
from tilewright.graph.groups import state_nodes  # noqa: E402
from tilewright.graph.operations import ATEN  # noqa: E402
from tilewright.kernels.reference import evaluate  # noqa: E402
from tilewright.torch.importer import imported  # noqa: E402

pytest.importorskip("expecttest", reason="PyTorch's tests need expecttest")
from op_db_kernels import KINDS, Compiled, Sample, Traced, name_of, op_db, samples  # noqa: E402

SAMPLES = 2
LARGEST = 5000
"""Elements of a sample's tensors, more of which take the interpreter long."""
LEAST = {"float64": 280, "int64": 180}
"""Operators of which a sample at least is taken whole."""
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
PARTS = 16
pytestmark = pytest.mark.filterwarnings("ignore")


def computed(graph: Graph, output: str, given: dict[str, Any]) -> Any:
    """A value of the graph, by the interpreter."""
    needed, nodes = {output}, []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.insert(0, node)
            needed.update(node.reads)
    program, reads = state_nodes(graph, nodes)
    arrays = [given[r].numpy() if r in given else graph.constants[r] for r in reads]
    return evaluate(program, [np.array(a, order="C", copy=True).reshape(a.shape) for a in arrays])


def test_every_name_of_the_table_is_an_operator_of_pytorch() -> None:
    for name in sorted(ATEN):
        operator, _, overload = name.partition(".")
        if operator != "tilewright":
            assert hasattr(getattr(torch.ops.aten, operator), overload or "default"), name


@pytest.mark.parametrize("kind", list(LEAST))
def test_an_eighth_of_what_is_taken_whole_is_what_pytorch_computes(kind: str) -> None:
    eighth = Random(sources()).sample(op_db, len(op_db) // 8)
    assert len(taken_whole(eighth, kind)) >= 0.06 * LEAST[kind]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", list(LEAST))
def test_what_is_taken_whole_is_what_pytorch_computes(kind: str) -> None:
    assert len(taken_whole(op_db, kind)) >= LEAST[kind]


def taken_whole(operators: Sequence[Any], kind: str) -> set[str]:
    """The operators of which a sample's graph is taken whole, and its values agree with PyTorch's."""
    found = set()
    for sample in (s for info in operators for s in samples(info, kind, SAMPLES, forms=["as given"])):
        if not all(0 < t.numel() <= LARGEST for t in sample.tensors):
            continue
        traced = Traced(sample)
        try:
            traced()
        except Exception:  # what PyTorch does not trace is no graph
            continue
        if check(sample, traced.graph):
            found.add(sample.name)
    return found


def check(sample: Sample, module: Any) -> bool:
    """Compares the values of a graph that is taken whole with PyTorch's; whether there are some."""
    found = None if module is None else imported(module)
    if found is None or any(n.opaque for n in found.graph.nodes):
        return False
    inputs = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    given = dict(zip(inputs, sample.tensors, strict=True))
    given |= {n.name: getattr(module, n.target) for n in module.graph.nodes if n.op == "get_attr"}
    (outputs,) = next(n for n in module.graph.nodes if n.op == "output").args
    compared = False
    for node, value in zip(outputs, module(*(t.clone() for t in sample.tensors)), strict=True):
        if not isinstance(value, torch.Tensor) or node.name in given or node.name in found.graph.constants:
            continue
        got = computed(found.graph, node.name, given)
        assert got.shape == tuple(value.shape), sample.name
        close = CLOSE.get(value.dtype, 0.0)
        np.testing.assert_allclose(got, value.double().numpy(), rtol=close, atol=close, err_msg=str(sample))
        compared = True
    return compared


@pytest.mark.parametrize("padding", ["border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_a_position_that_is_no_number_is_the_first_where_none_is_outside(mode: str, padding: str) -> None:
    x = torch.arange(25.0, dtype=torch.float64).view(1, 1, 5, 5) + 1
    nan = math.nan
    grid = torch.tensor([[nan, nan], [nan, 0.25], [0.3, nan], [0.1, 0.2]], dtype=torch.float64).view(1, 1, 4, 2)
    how = {"mode": mode, "padding_mode": padding, "align_corners": False}
    assert taken(lambda x, g: [torch.nn.functional.grid_sample(x, g, **how)], [x, grid])


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_smoothed_sizes_take_the_places_that_pytorch_does(mode: str, aligned: bool) -> None:
    x = torch.randn(1, 2, 9, 14, dtype=torch.float64)
    how = {"size": (4, 17), "mode": mode, "align_corners": aligned, "antialias": True}
    assert taken(lambda x: [torch.nn.functional.interpolate(x, **how)], [x])


@pytest.mark.parametrize("number", [-1, 300, 44])
def test_a_number_that_the_type_does_not_hold_wraps(number: int) -> None:
    x = torch.tensor([255, 44, 2], dtype=torch.uint8)
    assert taken(lambda x: [x == number, x < number], [x])


def taken(call: Any, tensors: list[Any]) -> bool:
    """Whether a function is taken whole; its values are compared with PyTorch's."""
    traced = Traced(Sample("a function", "as given", call, tensors))
    traced()
    return check(traced.sample, traced.graph)


def sources() -> int:
    """A number of the files that say what operators compute: which samples run changes with them."""
    package = Path(tilewright.__file__).parent
    files = sorted(f for part in ("graph", "kernels") for f in (package / part).rglob("*.py"))
    return int(sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:8], 16)


@pytest.mark.parametrize("kind", ["float32", "int64", "bfloat16"])
def test_compiled_kernels_of_some_operators_agree_with_eager(kind: str, tmp_path: Path) -> None:
    compiled = Compiled(tmp_path)
    for info in Random(sources()).sample([i for i in op_db if getattr(torch, kind) in i.dtypes], 10):
        assert compiled.run(samples(info, kind, 1, sources())).wrong == [], name_of(info)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_kernels_of_all_operators_agree_with_eager(kind: str, part: int, tmp_path: Path) -> None:
    """In whole: ``python scripts/op_db_kernels.py``."""
    compiled = Compiled(tmp_path)
    assert [w for info in op_db[part::PARTS] for w in compiled.run(samples(info, kind, 1)).wrong] == []


@pytest.fixture
def emulated(tmp_path: Path) -> Iterator[Compiled]:
    """Kernels for GPUs, on tensors of the emulated device."""
    pytest.importorskip("torch", minversion="2.11", reason="PyTorch 2.11 is not installed: make test-torch")
    from harness.torch_device import Devices, using

    with using(Devices()):
        yield Compiled(tmp_path, "emulator", "emulator:0")


def test_kernels_for_gpus_of_some_operators_agree_with_eager(emulated: Compiled) -> None:
    chosen = Random(sources()).sample([i for i in op_db if torch.float32 in i.dtypes], 8)
    for info in chosen:
        assert emulated.run(samples(info, "float32", 1, sources(), ["as given", "special"])).wrong == [], name_of(info)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int64"])
def test_kernels_for_gpus_of_all_operators_agree_with_eager(kind: str, part: int, emulated: Compiled) -> None:
    """In whole: ``python scripts/op_db_kernels.py --emulator``."""
    assert [w for info in op_db[part::PARTS] for w in emulated.run(samples(info, kind, 1)).wrong] == []


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

"""Graphs whose tensors say that they are on a GPU, which need none: they are taken as the processor's, and Inductor's
code for them calls kernels on the GPU, within its CUDA graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
F: Any = torch.nn.functional

from test_torch_compile import MODULES, Reference, module_of  # noqa: E402

from harness.fake_cuda import fake_cuda, graphs_of  # noqa: E402
from tilewright.torch import backend  # noqa: E402
from tilewright.torch.importer import imported  # noqa: E402

nn, aten = torch.nn, torch.ops.aten
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SHAPE = (1, 2, 8, 16)
"""Batch, heads, positions and features of an attention."""


@pytest.fixture
def fake() -> Iterator[Callable[[Any], Any]]:
    with fake_cuda() as made:
        yield made


def groups(module: Any) -> list[tuple[str, str, bool]]:
    """The groups of a graph that compute something: family, workload, and whether a kernel may be placed."""
    placing, _ = backend.prepared(module, lambda *_: None, frozenset(), True, True)
    found = [] if placing is None else placing.channels.groups
    return [
        (g.family, g.workload.key if g.workload else "", placing.placeable(g)) for g in found if g.family != "view"
    ]  # fmt: skip


def traced(call: Any, *tensors: Any) -> Any:
    """The graph of a function of tensors without memory."""
    return torch.fx.experimental.proxy_tensor.make_fx(call)(*tensors)


ODD = {"masked": "its mask", "mixed_types": "its range", "in_place": "the number that it writes"}
"""Modules that have a tensor on the processor wherever the module is."""


@pytest.mark.parametrize("name", [n for n in MODULES if n not in ODD])
def test_graphs_on_a_gpu_are_taken_as_the_processors(name: str) -> None:
    module, x = module_of(name), torch.randn(MODULES[name][1])
    here = [groups(g) for g in graphs_of(module, (x,))]
    with fake_cuda() as fake:
        there = [groups(g) for g in graphs_of(fake(module), fake((x,)))]
    assert there == here


def test_recurrent_layers_on_a_gpu_are_taken_as_the_processors() -> None:
    layer, x = nn.LSTM(4, 6, 2).eval(), torch.randn(3, 2, 4)
    here = [groups(g) for g in graphs_of(layer, (x,))]
    with fake_cuda() as fake:
        assert [groups(g) for g in graphs_of(fake(layer), fake((x,)))] == here
    assert "recurrent" in {family for family, *_ in here[0]}


def attention(name: str, **how: Any) -> Callable[..., Any]:
    """A function of queries, keys and values by one of PyTorch's operators for GPUs, or the processor's by its name."""
    operator = getattr(aten, f"_scaled_dot_product_{name}")
    rest = {"efficient_attention": (None, True), "cudnn_attention": (None, False)}.get(name, ())
    return lambda q, k, v: operator(q, k, v, *rest, **how)[0]


HERE = "flash_attention_for_cpu"
THERE = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")


def computed(module: Any) -> list[tuple[str, str]]:
    return [(family, workload) for family, workload, _ in groups(module)]


@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.5}], ids=str)
def test_forms_of_attention_on_a_gpu_are_attention(how: Any) -> None:
    q, k, v = (torch.randn(SHAPE) for _ in range(3))
    wanted = computed(traced(attention(HERE, **how), q, k, v))
    assert [family for family, _ in wanted] == ["attention"]
    with fake_cuda() as fake:
        for name in THERE:
            assert computed(traced(attention(name, **how), *fake((q, k, v)))) == wanted


def left(call: Any, *tensors: Any) -> set[str]:
    """Why operators of a function are left."""
    found = imported(traced(call, *tensors))
    assert found is not None
    return set(found.left.values())


def test_what_differs_among_forms_of_attention(fake: Any) -> None:
    q, few, long = fake((torch.randn(1, 4, 8, 16), torch.randn(1, 2, 8, 16), torch.randn(1, 4, 12, 16)))
    assert [family for family, _ in computed(traced(attention("flash_attention"), q, few, few))] == ["attention"]
    for name in THERE:
        assert "it drops at random" in left(attention(name, dropout_p=0.1), q, q, q)
        ends = "its last query sees all keys" in left(attention(name, is_causal=True), q, long, long)
        assert ends == (name in ("flash_attention", "cudnn_attention"))


def test_queries_that_a_mask_blinds_are_zeros_on_a_gpu_too(fake: Any) -> None:
    q, bias = fake((torch.randn(SHAPE), torch.full((1, 2, 8, 8), -math.inf)))
    graph = traced(lambda q, b: aten._scaled_dot_product_efficient_attention(q, q, q, b, False)[0], q, bias)
    placing, covers = backend.prepared(graph, lambda *_: None, frozenset(), True, True)
    assert placing is not None
    assert [n.target for n in covers] == [aten.masked_fill.Scalar]
    assert "attention" in {g.family for g in placing.channels.groups}


class OnBoth(nn.Module):  # type: ignore[misc]
    """Reads a number of the processor's, a buffer that it brings to the input's device, and joins what it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.shift = torch.ones(8)  # no buffer: it stays where it is

    def forward(self, x: Any, y: Any) -> Any:
        a = torch.minimum(self.one(x), torch.tensor(0.5)) + self.shift.to(x.device)
        return a, a + self.two(y).to(x.device)


def test_parts_of_several_devices_are_left_and_numbers_are_not(fake: Any) -> None:
    module = OnBoth().eval()
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        here, number = OnBoth().eval().two, torch.ones(8)
    fake(module.one)
    module.two, module.shift = here, number
    (graph,) = graphs_of(module, (fake(torch.randn(3, 8)), torch.randn(3, 8)))
    found = imported(graph)
    assert found is not None
    assert found.left == {"_to_copy": "its tensors are on several devices"}
    families = [family for family, *_ in groups(graph)]
    assert families.count("contraction") == 2
    assert families.count("opaque") == 1


@pytest.mark.parametrize("parts", [True, False], ids=["in parts", "whole"])
def test_inductors_cuda_graphs_hold_the_calls_of_kernels(
    parts: bool, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.utils import counters
    from torch._inductor import codecache, compile_fx, config, scheduler

    code: list[str] = []
    given: list[dict[str, Any]] = []
    write, inner = codecache.PyCodeCache.write, compile_fx._compile_fx_inner

    def written(source: str, *more: Any, **how: Any) -> Any:
        code.append(source)
        return write(source, *more, **how)

    def noted(*args: Any, **how: Any) -> Any:
        given.append(how)
        return inner(*args, **how)

    monkeypatch.setattr(codecache.PyCodeCache, "write", written)
    monkeypatch.setattr(compile_fx, "_compile_fx_inner", noted)
    # Triton, which prints loops, needs a GPU: these graphs have calls alone.
    printer = SimpleNamespace(ready_to_flush=lambda: False, codegen_sync=lambda: None, flush=lambda: None)
    monkeypatch.setattr(scheduler.Scheduler, "create_backend", lambda self, device: printer)
    counters.clear()
    module, x = fake(module_of("mlp").eval()), fake(torch.randn(3, 8))
    reference, rest = Reference(tmp_path / "t.db"), backend.Rest("inductor")
    made = []

    def make(graph: Any, inputs: Any) -> Any:
        made.append(backend.compiled(graph, inputs, reference, rest))
        return graph.forward

    with torch.no_grad(), config.patch({"triton.cudagraphs": True, "graph_partition": parts, "fx_graph_cache": False}):
        torch.compile(module, backend=make, fullgraph=True)(x)
    assert len(made) == 1
    assert code[-1].count("tilewright_call(arg0_1, ") == 2
    assert code[-1].count("empty_strided_cuda(") == 2
    assert ("def partition_0" in code[-1], "def partition_1" in code[-1]) == (parts, False)
    assert not counters["inductor"]["cudagraph_skips"]
    (how,) = given
    assert 0 in how["static_input_idxs"], "what stands for the graph's kernels"
    assert len(how["static_input_idxs"]) == 5, "and the parameters"
    assert len(reference.asked) == 2

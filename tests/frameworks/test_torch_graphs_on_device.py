"""Compiled graphs whose tensors are on a device: kernels of the emulator in them, compared with PyTorch's operators."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", minversion="2.11", reason="PyTorch 2.11 is not installed: make test-torch")
F: Any = torch.nn.functional

import tilewright  # noqa: E402
import tilewright.torch as tt  # noqa: E402
from harness import torch_device  # noqa: E402
from harness.checking_driver import checking  # noqa: E402
from harness.emulated_gpu import TARGET, store  # noqa: E402
from tilewright.backends.cache import ArtifactCache  # noqa: E402
from tilewright.backends.emulator.backend import EmulatorBackend  # noqa: E402
from tilewright.core import Task, UsageError  # noqa: E402
from tilewright.kernels.templates import templates_for  # noqa: E402
from tilewright.runtime.gpu_plan import GpuKernel  # noqa: E402
from tilewright.torch import backend, placed  # noqa: E402
from tilewright.torch.serving import serving  # noqa: E402

nn = torch.nn
HOW: dict[str, Any] = {"rest": "eager", "cost_model": "random", "seed": 0, "compare": False}
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def devices() -> Iterator[torch_device.Devices]:
    with torch_device.using(torch_device.Devices()) as made:
        yield made


class Emulated:
    """Gives a kernel for every part on the device: a template's default, compiled when it is asked for.

    ``template``: which one's, and none for images with channels last.
    """

    def __init__(self, path: Path, template: str = "") -> None:
        self.path, self.cache, self.template = path, ArtifactCache(), template
        self.library = tilewright.Library(path, missing_ok=True, watch=False)
        self.asked: list[tuple[str, Any]] = []

    def __call__(self, workload: Any, device: Any = None) -> Any:
        self.asked.append((workload.op.rpartition("_")[0], device))
        if device is None or (self.template and "nhwc" in workload.op):
            return None
        found = self.library.resolver.find(workload, device).served
        if found is None:
            name = self.template or templates_for(Task(workload, TARGET))[0].name
            store(self.path, self.cache, workload, name)
            found = tilewright.Library(self.path, watch=False).resolver.find(workload, device).served
        assert found is not None
        return found

    def compile(self, module: Any, optimizing: bool = False, **how: Any) -> Any:
        def make(graph: Any, inputs: Any) -> Any:
            return backend.compiled(graph, inputs, self, backend.Rest("eager"), optimizing)

        return torch.compile(module, backend=make, fullgraph=True, **how)


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...], list[str]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), (3, 8), ["linear_gelu", "linear"]),
    "conv": (
        lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()),
        (2, 4, 6, 6),
        ["conv2d_batch_norm_relu"],
    ),
    "norm": (lambda: nn.Sequential(nn.LayerNorm(8), nn.Softmax(-1)), (5, 8), ["layer_norm_softmax"]),
    "attention": (Attention, (2, 5, 8), ["linear", "matmul", "softmax_where"]),
}
"""What makes a module, the shape of its input, and parts of it."""


def both(name: str) -> tuple[Any, Any, Any, Any]:
    """A module and its input on the processor, and the same on the device."""
    torch.manual_seed(0)
    make, shape, _ = MODULES[name]
    module, x = make().eval(), torch.randn(shape)
    there = make().eval()
    there.load_state_dict(module.state_dict())
    return module, x, there.to("emulator"), x.to("emulator")


@pytest.mark.parametrize("name", list(MODULES))
def test_parts_on_a_device_are_computed_there(
    name: str, devices: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x, there, y = both(name)
    emulated = Emulated(tmp_path / "t.db")
    with torch.no_grad():
        wanted, run = module(x), emulated.compile(there)
        for _ in range(2):
            got = run(y)
            assert (got.device, got.stride()) == (y.device, wanted.stride())
            torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5)
        if serving.native is not None:
            monkeypatch.setattr(placed.Placed, "__call__", None)  # known calls do not come to Python
            torch.testing.assert_close(run(y).cpu(), wanted, rtol=1e-4, atol=1e-5)
    assert {device for _, device in emulated.asked} == {("emulator", 0)}
    assert {part for part, _ in emulated.asked} >= set(MODULES[name][2])


@pytest.mark.parametrize("name", ["mlp", "norm"])
def test_a_training_step_on_a_device_agrees_with_the_processors(name: str, devices: Any, tmp_path: Path) -> None:
    module, x, there, y = both(name)
    emulated = Emulated(tmp_path / "t.db")
    found = []
    for part, run, given in ((module, module, x), (there, emulated.compile(there), y)):
        given.requires_grad_()
        optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
        for _ in range(2):
            loss = run(given).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found.append([t.cpu() for t in (loss, given.grad, *part.state_dict().values())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)
    assert len(emulated.asked) > len(MODULES[name][2]), "parts of both graphs"


class OnTwo(nn.Module):  # type: ignore[misc]
    """Products on the processor and on the device, of the same sizes, and what joins them."""

    def __init__(self) -> None:
        super().__init__()
        self.here, self.there = nn.Linear(8, 8), nn.Linear(8, 8).to("emulator")

    def forward(self, x: Any, y: Any) -> Any:
        return self.here(x), self.there(y), self.there(y) * torch.tensor(2.0), self.here(x).to("emulator") + y


def test_parts_are_placed_where_their_tensors_are(devices: Any, tmp_path: Path) -> None:
    module, x = OnTwo(), torch.randn(3, 8)
    y = x.to("emulator")
    emulated = Emulated(tmp_path / "t.db")
    processor = tilewright.Library(tmp_path / "none.db", missing_ok=True)

    def find(workload: Any, device: Any) -> Any:
        emulated.asked.append((workload.op, device))
        return emulated(workload, device) if device else processor.resolver.untuned(workload, "a test")

    def make(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, find, backend.Rest("eager"))

    with torch.no_grad():
        wanted = module(x, y)
        got = torch.compile(module, backend=make, fullgraph=True)(x, y)
    for a, b in zip(got, wanted, strict=True):
        assert a.device == b.device
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-4, atol=1e-5)
    assert {device for _, device in emulated.asked} == {None, ("emulator", 0)}


def test_weights_are_rearranged_once_on_the_device(
    devices: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    module, x = nn.Conv2d(16, 24, 3, padding=1).half(), torch.randn(1, 16, 5, 6).half()
    there, y = nn.Conv2d(16, 24, 3, padding=1).half().to("emulator"), x.to("emulator")
    there.load_state_dict(module.state_dict())
    held: list[int] = []
    hold = GpuKernel.hold

    def counted(self: Any, *given: Any) -> Any:
        held.append(1)
        return hold(self, *given)

    monkeypatch.setattr(GpuKernel, "hold", counted)
    run = Emulated(tmp_path / "t.db", "cuda_relaid").compile(there, optimizing=True)

    def agrees() -> int:
        held.clear()
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(run(y).cpu(), module(x), rtol=2e-2, atol=2e-2)
        return len(held)

    assert agrees() == 1
    assert agrees() == 0
    with torch.no_grad():
        there.weight.mul_(2.0)
        module.weight.mul_(2.0)
    assert agrees() == 1
    weight = weakref.ref(there.weight.untyped_storage())
    there.weight = nn.Parameter(torch.zeros_like(there.weight))
    assert weight() is None, "what a kernel keeps is freed with the weight"
    module.weight.data.zero_()
    assert agrees() == 1


def test_a_graph_of_the_device_holds_a_compiled_modules_calls(tmp_path: Path) -> None:
    with checking() as driver, torch_device.using(driver), torch.no_grad():
        module, x, there, y = both("mlp")
        run = Emulated(tmp_path / "t.db").compile(there)
        torch.testing.assert_close(run(y).cpu(), module(x), rtol=1e-4, atol=1e-5)
        torch.accelerator.synchronize()
        graph, side = torch.accelerator.Graph(), torch.Stream(device="emulator:0")
        side.wait_stream(torch.accelerator.current_stream())
        with side, graph:
            got = run(y)
        for _ in range(2):
            x.mul_(2.0)
            y.copy_(x)
            graph.replay()
            torch.testing.assert_close(got.cpu(), module(x), rtol=1e-4, atol=1e-5)


def test_one_kernel_serves_a_range_of_sizes_on_a_device(devices: Any, tmp_path: Path) -> None:
    module, x = nn.Linear(8, 4), torch.randn(3, 8)
    there = nn.Linear(8, 4).to("emulator")
    there.load_state_dict(module.state_dict())
    how = HOW | {"dynamic_shapes": ({0: (2, 5)},), "trials": 1}
    fast = tt.optimize(there, (x.to("emulator"),), db=tmp_path / "t.db", **how)
    with torch.no_grad():
        for rows in (2, 3, 5):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(fast(x.to("emulator")).cpu(), module(x), rtol=1e-4, atol=1e-5)
    stats = fast.library.stats()
    assert stats.calls == stats.tiers["range"] + stats.tiers["exact"]
    assert stats.tiers["range"]


def test_optimize_tunes_for_the_device_of_the_module(devices: Any, tmp_path: Path) -> None:
    module, x, there, y = both("mlp")
    fast = tt.optimize(there, (y,), db=tmp_path / "t.db", trials=2, **HOW | {"compare": True})
    assert set(fast.comparison.ratios) | {fast.comparison.kept} == {"all kernels", "eager alone"}
    again = tt.optimize(there, (y,), db=tmp_path / "t.db", trials=2, **HOW)  # nothing is left to be tuned
    with torch.no_grad():
        torch.testing.assert_close(again(y).cpu(), module(x), rtol=1e-4, atol=1e-5)
        assert again.library.stats().tiers["exact"] == 4
        there[0].weight.mul_(2.0)
        module[0].weight.mul_(2.0)
        torch.testing.assert_close(again(y).cpu(), module(x), rtol=1e-4, atol=1e-5)


def test_pytorch_computes_what_memory_was_too_small_to_tune(
    devices: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = EmulatorBackend.settings
    monkeypatch.setattr(EmulatorBackend, "settings", lambda self, *given: settings(self, *given) | {"memory": 1000})
    module, x = nn.Linear(64, 64), torch.randn(4, 64)
    there = nn.Linear(64, 64).to("emulator")
    there.load_state_dict(module.state_dict())
    with caplog.at_level("WARNING", "tilewright.torch"):
        fast = tt.optimize(there, (x.to("emulator"),), db=tmp_path / "t.db", trials=1, **HOW)
    (said,) = [r.getMessage() for r in caplog.records if r.name == "tilewright.torch"]
    assert said.startswith("PyTorch computes 1 of 1 parts, because no kernel was found for them. linear_")
    assert "no trial succeeded" in said
    assert "memory" in said.lower()
    with torch.no_grad():
        torch.testing.assert_close(fast(x.to("emulator")).cpu(), module(x))


def test_what_optimize_refuses_of_devices(devices: Any) -> None:
    module, x, there, y = both("mlp")
    for problem, args, how in (
        ("the module and the example are on cpu and emulator:0", (there, (x,)), {}),
        ("threads=2 is for processors, and the module is on emulator:0", (there, (y,)), {"threads": 2}),
        ("there are no kernels for the device meta", (module.to("meta"), (x.to("meta"),)), {}),
    ):
        with pytest.raises(UsageError, match=problem):
            tt.optimize(*args, **how)

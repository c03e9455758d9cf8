"""``torch.ops.tilewright`` on tensors of a device: the emulator's, which PyTorch's registrations for CUDA serve too."""

from __future__ import annotations

import ctypes
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", minversion="2.11", reason="PyTorch 2.11 is not installed: make test-torch")

import tilewright  # noqa: E402
import tilewright.torch as tt  # noqa: E402
from harness import emulated_gpu, torch_device  # noqa: E402
from harness.checking_driver import checking  # noqa: E402
from harness.shared import made_once  # noqa: E402
from tilewright.backends.cache import ArtifactCache  # noqa: E402
from tilewright.backends.cuda.backend import CudaBackend  # noqa: E402
from tilewright.backends.cuda.driver import DRIVERS  # noqa: E402
from tilewright.backends.driver import NoDriver, address_of  # noqa: E402
from tilewright.backends.emulator.backend import EmulatorBackend  # noqa: E402
from tilewright.backends.emulator.driver import EmulatorFunction  # noqa: E402
from tilewright.backends.launches import Memory  # noqa: E402
from tilewright.core import Workload  # noqa: E402
from tilewright.kernels.operators import get_operator  # noqa: E402
from tilewright.runtime.requests import HEADS, Tensor, request  # noqa: E402
from tilewright.torch import operators  # noqa: E402
from tilewright.torch.serving import serving  # noqa: E402

T = torch.ops.tilewright
needs_compiler = pytest.mark.skipif(serving.native is None, reason="no compiler for PyTorch's headers")
PRODUCTS = {
    "one launch": ((33, 24), (24, 40), torch.float32),
    "scratch memory": ((33, 128), (128, 40), torch.float32),
    "tensor maps": ((40, 72), (72, 48), torch.bfloat16),
}
CONVOLUTION: dict[str, Any] = {"n": 1, "ci": 16, "h": 5, "w": 6, "co": 24, "kh": 3, "kw": 3, "dtype": "float16"}
SHAPE = 2, 4, 16, 32
"""Of attention: images, heads, positions, features."""


@pytest.fixture
def devices() -> Iterator[torch_device.Devices]:
    with torch_device.using(torch_device.Devices()) as made:
        yield made


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Emulated kernels of matmul, as ``emulated_gpu.fill`` lists them."""
    fill = lambda folder: (emulated_gpu.fill(folder, ArtifactCache()), None)[1]  # noqa: E731
    return made_once(tmp_path_factory, "gpu", fill) / "t.db"


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution with channels last, one with constant weights, a softmax, and an attention whose heads lie behind the
    positions."""
    return made_once(tmp_path_factory, "gpu_calls", _fill) / "t.db"


def _fill(folder: Path) -> None:
    for workload, template in (
        (get_operator("conv2d").workload(**CONVOLUTION, layout="NHWC"), "cuda_simt"),
        (get_operator("conv2d").workload(**CONVOLUTION, constant="weight"), "cuda_relaid"),
        (get_operator("softmax").workload(shape="6,20", dim=-1), "cuda_rows"),
        (attention(), "cuda_attention"),
    ):
        emulated_gpu.store(folder / "t.db", ArtifactCache(), workload, template)


def attention() -> Workload:
    heads = Tensor(SHAPE, "float16", dense=False, order=HEADS)
    return request("scaled_dot_product_attention", [heads, heads, heads, None, False, None, False]).workload


@pytest.fixture
def library(devices: torch_device.Devices, stored: Path) -> tilewright.Library:
    return tt.use(tilewright.Library(stored, watch=False))


@pytest.fixture
def more(devices: torch_device.Devices, others: Path) -> tilewright.Library:
    return tt.use(tilewright.Library(others, watch=False))


def operands(kind: str = "one launch", device: str = "emulator:0") -> tuple[Any, Any]:
    left, right, dtype = PRODUCTS[kind]
    made = torch.Generator().manual_seed(0)
    return tuple(torch.randn(s, generator=made).to(dtype).to(device) for s in (left, right))


def close(got: Any, wanted: Any, tolerance: float = 1e-2) -> None:
    torch.testing.assert_close(got.cpu().double(), wanted.cpu().double(), rtol=tolerance, atol=tolerance)


def served(library: tilewright.Library) -> dict[str, int]:
    return {n: c for n, c in (library.stats().tiers | library.stats().reasons).items() if c}


def refuse(*_: Any) -> None:
    raise AssertionError("this call came to Python")


# --------------------------------------------------------------------------- what kernels answer


@needs_compiler
@pytest.mark.parametrize("kind", PRODUCTS)
def test_known_calls_are_queued_without_python(
    library: tilewright.Library, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = operands(kind)
    wanted = a.cpu().double() @ b.cpu().double()
    close(T.mm(a, b), wanted)
    monkeypatch.setattr(operators, "serve", refuse)
    for x, y in ((a, b), (a.clone(), b.clone())):  # tensor maps are of other addresses
        got = T.mm(x, y)
        assert (got.device, got.dtype, got.is_contiguous()) == (a.device, a.dtype, True)
        close(got, wanted)
    assert served(library) == {"exact": 3}
    with pytest.raises(AssertionError, match="came to Python"):
        T.mm(*operands(kind, "emulator:1"))  # another device has memory and kernels of its own
    with pytest.raises(AssertionError, match="came to Python"):
        T.mm(a[:5], b)


@needs_compiler
def test_what_the_driver_refuses_comes_to_python(
    library: tilewright.Library, devices: torch_device.Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = operands()
    T.mm(a, b)
    devices.contexts[0].shared.blocked = 1
    close(T.mm(a, b), a.cpu() @ b.cpu())
    monkeypatch.setattr(operators, "serve", refuse)
    with pytest.raises(AssertionError, match="came to Python"):
        T.mm(a, b)
    assert served(library) == {"exact": 2}


@needs_compiler
def test_the_devices_context_is_the_threads_while_a_kernel_is_queued(
    library: tilewright.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a driver with contexts, as CUDA's is; the emulator has none."""
    theirs, ours = 11, 22
    now, told = [theirs], []
    pointer = ctypes.c_void_p

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(pointer))
    def current(found: Any) -> int:
        found[0] = now[0]
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, pointer)
    def make_current(context: int) -> int:
        now[0] = context
        told.append(context)
        return 0

    def native(function: EmulatorFunction) -> Any:
        functions = {"current": address_of(current), "make_current": address_of(make_current), "context": ours}
        return replace(plain(function), **functions)

    plain: Any = EmulatorFunction.native
    monkeypatch.setattr(EmulatorFunction, "native", native)
    a, b = operands("scratch memory")
    T.mm(a, b)
    for now[0], switched in ((theirs, [ours, theirs]), (ours, [])):
        told.clear()
        close(T.mm(a, b), a.cpu() @ b.cpu())
        assert told == switched
    assert served(library) == {"exact": 3}


def test_every_device_has_kernels_of_its_own(library: tilewright.Library) -> None:
    for device in ("emulator:0", "emulator:1", "cpu", "emulator:1"):
        for kind in ("one launch", "scratch memory"):
            a, b = operands(kind, device)
            for _ in range(2):
                got = T.mm(a, b)
                assert got.device == a.device
                close(got, a.cpu() @ b.cpu())
    assert torch.accelerator.current_device_index() == 0
    assert served(library) == {"exact": 12, "fallback": 4, "untuned": 4}


def test_calls_are_queued_on_the_current_stream_of_the_tensors_device(
    library: tilewright.Library, devices: torch_device.Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.runtime.gpu_plan import GpuKernel

    streams: list[int] = []
    queue = GpuKernel.queue
    monkeypatch.setattr(GpuKernel, "native", lambda _: None)
    monkeypatch.setattr(GpuKernel, "queue", lambda k, p, w, s: (streams.append(s), queue(k, p, w, s))[1])
    a, b = operands(device="emulator:1")
    side = torch.Stream(device="emulator:1")
    T.mm(a, b)
    with side:
        T.mm(a, b)
    assert streams == [0, side.native_handle]


def test_gradients_are_ours_again(library: tilewright.Library) -> None:
    a, b = operands()
    a.requires_grad_()
    for _ in range(2):
        got = T.mm(a, b)
        (ga,) = torch.autograd.grad(got.sum(), a)
        assert ga.device == a.device
        close(ga, torch.ones(33, 40) @ b.cpu().T)
    assert served(library) == {"exact": 2, "fallback": 2, "strides": 2}  # the sum's gradient is expanded
    layer = torch.nn.Parameter(b.T.contiguous())
    bias = torch.nn.Parameter(torch.zeros(40, device=a.device))
    T.linear(a, layer, bias).square().sum().backward()
    close(layer.grad, (2 * (a.detach().cpu() @ b.cpu())).T @ a.detach().cpu(), 1e-3)


def test_autocast_narrows_products_and_widens_rows(library: tilewright.Library, devices: torch_device.Devices) -> None:
    a, b = operands("tensor maps")
    x, y = a.float(), b.float()
    with torch.autocast("emulator", dtype=torch.bfloat16):
        got = T.mm(x, y)
        rows = T.softmax(a, -1)
        assert T.mm(x.double(), y.double()).dtype == torch.float64
    assert (got.dtype, rows.dtype) == (torch.bfloat16, torch.float32)
    close(got, a.cpu().double() @ b.cpu().double())
    close(rows, torch.softmax(a.cpu().double(), -1))
    assert served(library)["exact"] == 1


# --------------------------------------------------------------------------- other orders of axes


@pytest.mark.parametrize("kernel_last", [True, False], ids=["weights as the kernel reads them", "PyTorch's weights"])
def test_convolutions_read_channels_last_as_they_lie(
    more: tilewright.Library, kernel_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(s, generator=made).half() for s in ((1, 16, 5, 6), (24, 16, 3, 3)))
    wanted = torch.conv2d(x.double(), weight.double())
    x = x.to(memory_format=torch.channels_last).to("emulator")
    weight = weight.to(memory_format=torch.channels_last).to("emulator")
    if kernel_last:
        weight = weight.permute(2, 3, 1, 0).contiguous().permute(3, 2, 0, 1)
    got = T.conv2d(x, weight)
    assert served(more) == {"exact": 1}
    if kernel_last and serving.native is not None:
        monkeypatch.setattr(operators, "serve", refuse)
    for made in (got, T.conv2d(x, weight)):
        assert made.is_contiguous(memory_format=torch.channels_last)
        assert made.shape == wanted.shape
        close(made, wanted, 2e-2)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_what_pytorch_answers_lies_as_a_kernels_result(more: tilewright.Library, device: str) -> None:
    x = torch.randn(2, 3, 4, 5, device=device)
    if device == "cpu":
        last, weight = x.to(memory_format=torch.channels_last), torch.randn(6, 3, 2, 2)
        assert T.conv2d(last, weight).is_contiguous(memory_format=torch.channels_last)
        assert T.conv2d(x, weight).is_contiguous()
    assert T.softmax(x.transpose(1, 2), -1).is_contiguous()
    assert served(more)["fallback"] > 0


def test_fake_tensors_lie_as_results_do(devices: torch_device.Devices) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(1, 16, 5, 6, device="cuda", memory_format=torch.channels_last)
        weight = torch.empty(24, 16, 3, 3, device="cuda")
        got = T.conv2d(x, weight)
        assert got.device.type == "cuda"
        assert got.is_contiguous(memory_format=torch.channels_last)
        assert T.conv2d(torch.empty_like(x, memory_format=torch.contiguous_format), weight).is_contiguous()
        assert T.mm(torch.empty(2, 3, device="cuda"), torch.empty(3, 4, device="cuda")).device.type == "cuda"
        with pytest.raises(TypeError, match=r"argument 2 is on the device cpu, not cuda:0\. Move it there"):
            T.mm(torch.empty(2, 3, device="cuda"), torch.empty(3, 4))


def test_attention_reads_heads_where_projections_write_them(more: tilewright.Library) -> None:
    b, h, length, d = SHAPE
    made = torch.Generator().manual_seed(0)
    written = [torch.randn(b, length, h, d, generator=made).half().to("emulator") for _ in range(3)]
    heads = [t.transpose(1, 2) for t in written]
    wanted = torch.nn.functional.scaled_dot_product_attention(*(t.cpu().double() for t in heads))
    for _ in range(2):
        got = T.scaled_dot_product_attention(*heads)
        assert got.is_contiguous()
        close(got, wanted)
    assert served(more) == {"exact": 2}
    close(T.scaled_dot_product_attention(heads[0].contiguous(), *heads[1:]), wanted)  # nothing was tuned for it
    assert served(more) == {"exact": 2, "fallback": 1, "untuned": 1}


def test_constant_weights_are_rearranged_in_pytorchs_memory(
    devices: torch_device.Devices, others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the driver's, of which PyTorch may keep all; and the weight itself is not held."""
    library = tilewright.Library(others, watch=False)
    workload = get_operator("conv2d").workload(**CONVOLUTION, constant="weight")
    found = library.resolver.find(workload, ("emulator", 0)).served
    assert found is not None
    x, weight = torch.randn(1, 16, 5, 6).half(), torch.randn(24, 16, 3, 3).half()
    on, given = x.to("emulator"), weight.to("emulator")
    monkeypatch.setattr(Memory, "allocate", refuse)
    plan = found.call.keeping({1: given})
    held = weakref.ref(given)
    del given
    assert held() is None
    monkeypatch.undo()
    out = torch.empty(1, 24, 3, 4, dtype=torch.float16, device="emulator")
    plan(on, out=out)
    close(out, torch.conv2d(x.double(), weight.double()), 2e-2)


# --------------------------------------------------------------------------- what kernels do not take


def test_pytorch_answers_what_no_kernel_takes_and_why_is_counted(library: tilewright.Library) -> None:
    a, b = operands()
    odd = torch.empty(33 * 24 + 1, device=a.device)[1:].view(33, 24).copy_(a)
    for x, y in (
        (a[:5], b), (a[:0], b), (a[:, ::2], b[::2]), (a.int(), b.int()), (odd, b),
    ):  # fmt: skip
        got = T.mm(x, y)
        assert got.device == a.device
        close(got, x.cpu().double() @ y.cpu().double(), 1e-4)
    found = served(library)
    assert found.pop("fallback") == 4 + ("alignment" in found)
    assert found.pop("exact", 0) + found.pop("alignment", 0) == 1
    assert found == {"untuned": 1, "empty": 1, "strides": 1, "dtype": 1}


def test_devices_that_do_not_fit_together_are_named_in_one_line(library: tilewright.Library) -> None:
    a, b = operands()
    for x, y, what in (
        (a, b.cpu(), "argument 2 is on the device cpu, not emulator:0. Move it there"),
        (a.cpu(), b, "argument 2 is on the device emulator:0, not cpu. Move it there"),
        (a, b.to("emulator:1"), "argument 2 is on the device emulator:1, not emulator:0. Move it there"),
        (a.to("meta"), b, "argument 2 is on the device emulator:0, not meta. Move it there"),
    ):
        for _ in range(2):
            with pytest.raises(TypeError) as caught:
                T.mm(x, y)
            assert str(caught.value) == f"tilewright::mm: {what}"
    assert served(library) == {}


def test_kernels_for_another_architecture_are_said_once(
    devices: torch_device.Devices, library: tilewright.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "serves", CudaBackend.serves)  # the emulator takes every architecture's
    context = devices.contexts[0]
    context.limits = tuple({**dict(context.limits), "cc": 80}.items())
    a, b = operands()
    with pytest.warns(tilewright.MissedKernelWarning) as caught:
        got = [T.mm(a, b), T.mm(a, b), T.mm(*operands("scratch memory"))]
    close(got[0], a.cpu() @ b.cpu())
    assert [str(w.message) for w in caught] == [
        "tilewright::mm: a kernel is tuned only for cuda:sm_90a, which emulator lacks. PyTorch answers instead"
    ]
    assert served(library) == {"fallback": 3, "device": 3}


def test_a_device_that_no_driver_reaches_is_said_once(
    library: tilewright.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DRIVERS, "emulator", f"{__name__}:unreachable")
    a, b = operands()
    with pytest.warns(tilewright.MissedKernelWarning) as caught:
        got = [T.mm(a, b), T.mm(a, b), T.mm(b.T.contiguous(), a.T.contiguous())]
    close(got[0], a.cpu() @ b.cpu())
    (said,) = (str(w.message) for w in caught)
    assert said.startswith("kernels on ")
    assert said.endswith(": CuPy is not installed. pip install it. PyTorch answers instead")
    assert served(library) == {"fallback": 3, "device": 3}


def unreachable() -> None:
    raise NoDriver("CuPy is not installed", "pip install it")


def test_a_kernel_that_was_tuned_meanwhile_is_taken(
    devices: torch_device.Devices, stored: Path, tmp_path: Path
) -> None:
    from shutil import copy

    with tilewright.Library(tmp_path / "none.db", missing_ok=True, watch=False) as empty, warnings.catch_warnings():
        tt.use(empty)
        a, b = operands()
        T.mm(a, b)
        assert served(empty) == {"fallback": 1, "untuned": 1}
        copy(stored, tmp_path / "none.db")
        empty.refresh()
        close(T.mm(a, b), a.cpu() @ b.cpu())
        assert served(empty)["exact"] == 1


# --------------------------------------------------------------------------- order of work


@pytest.fixture
def checked(stored: Path) -> Iterator[tilewright.Library]:
    """A library on devices whose work is ordered. What nothing orders is an error at the end."""
    with checking() as driver, torch_device.using(driver):
        yield tt.use(tilewright.Library(stored, watch=False))
        tt.use(None)


@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "the first call"])
def test_a_graph_holds_calls(checked: tilewright.Library, kind: str, known: bool) -> None:
    a, b = operands(kind)
    if known:
        T.mm(a, b)
        torch.accelerator.synchronize()
    graph, side = torch.accelerator.Graph(), torch.Stream(device="emulator:0")
    side.wait_stream(torch.accelerator.current_stream())
    with side, graph:
        T.mm(a, b)  # its memory goes to the next one
        got = T.mm(a, b)
    for seed in (1, 2):
        a.copy_(torch.randn(a.shape, generator=torch.Generator().manual_seed(seed)).to(a.dtype))
        graph.replay()
        close(got, a.cpu().double() @ b.cpu().double(), 3e-2)
    assert served(checked)["exact"] == 2 + known


@pytest.mark.parametrize("seed", range(10))
def test_streams_in_any_order_keep_memory_apart(checked: tilewright.Library, seed: int) -> None:
    """Results and scratch memory are freed while work is queued, and go to nothing that runs before that has."""
    draw = Random(seed)
    streams = [torch.accelerator.current_stream(), *(torch.Stream(device="emulator:0") for _ in range(2))]
    given = {kind: operands(kind) for kind in ("one launch", "scratch memory")}
    torch.accelerator.synchronize()
    results: list[tuple[Any, Any, Any]] = []
    for _ in range(12):
        kind, stream = draw.choice(list(given)), draw.choice(streams)
        a, b = given[kind]
        with stream:
            results.append((T.mm(a, b), stream, a.cpu().double() @ b.cpu().double() if draw.random() < 0.1 else None))
        if draw.random() < 0.5:
            got, stream, wanted = results.pop(draw.randrange(len(results)))
            if wanted is not None:
                torch.accelerator.current_stream().wait_stream(stream)
                close(got, wanted)
                got.record_stream(torch.accelerator.current_stream())
    torch.accelerator.synchronize()  # what is read belongs to the caller, who frees it now

"""Tensors of PyTorch on the emulated device, and the runtime's kernels on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", minversion="2.11", reason="PyTorch 2.11 is not installed: make test-torch")

import tilewright  # noqa: E402
from harness import emulated_gpu, torch_device  # noqa: E402
from harness.shared import made_once  # noqa: E402
from tilewright.backends.cache import ArtifactCache  # noqa: E402


@pytest.fixture
def devices() -> Iterator[torch_device.Devices]:
    with torch_device.using(torch_device.Devices()) as made:
        yield made


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of emulated kernels of matmul, as ``emulated_gpu.fill`` lists them."""
    return (
        made_once(tmp_path_factory, "gpu", lambda folder: (emulated_gpu.fill(folder, ArtifactCache()), None)[1])
        / "t.db"
    )


def operands(k: int = 24, device: str = "emulator:0") -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(k)
    return tuple(torch.randn(s, generator=made).to(device) for s in ((33, k), (k, 40)))


def test_operators_of_pytorch_are_computed_on_the_device(devices: torch_device.Devices) -> None:
    a, b = operands()
    assert (a.device, a.device.type, a.is_emulator) == (torch.device("emulator:0"), "emulator", True)
    torch.testing.assert_close((a @ b).cpu(), a.cpu() @ b.cpu())
    assert a.T[1:3].contiguous().tolist() == a.cpu().T[1:3].tolist()
    torch.testing.assert_close(a.to("emulator:1").double().cpu(), a.cpu().double())
    layer = torch.nn.Linear(24, 3).to("emulator")
    layer(a).square().sum().backward()
    assert layer.weight.grad.device == a.device
    x = torch.arange(4, device="emulator").resize_(6)
    assert x[:4].tolist() == [0, 1, 2, 3]
    assert {t.data_ptr() for t in (a, b)} <= dict(devices.contexts[0].memory_table()).keys()


def test_a_call_by_name_takes_tensors_on_the_device(devices: torch_device.Devices, stored: Path) -> None:
    with tilewright.Library(stored) as library:
        for k in (24, 128):  # the second has scratch memory
            for device in ("emulator:0", "emulator:1"):
                a, b = operands(k, device)
                for _ in range(2):
                    c = library.matmul(a, b)
                    assert c.device == a.device
                    torch.testing.assert_close(c.cpu(), a.cpu() @ b.cpu(), rtol=1e-4, atol=1e-4)
                out = torch.empty_like(c)
                assert library.plan_gpu("matmul", a, b)(a, b, out=out) is out
                assert torch.equal(out, c)
        assert library.stats().tiers["exact"] == 12
        with pytest.raises(ValueError, match="several GPUs"):
            library.matmul(a, b.to("emulator:0"))
        with pytest.raises(TypeError, match="Move it to the device of the others"):
            library.matmul(a, b.cpu())
        with pytest.raises(TypeError, match="requires a gradient"):
            library.matmul(a.requires_grad_(), b)

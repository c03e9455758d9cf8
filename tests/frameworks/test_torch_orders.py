"""Streams, allocator and graphs of PyTorch, under the driver that complains of what nothing orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", minversion="2.11", reason="PyTorch 2.11 is not installed: make test-torch")

import tilewright  # noqa: E402
from harness import random_orders, torch_device  # noqa: E402
from harness.checking_driver import CheckingContext, CheckingDriver  # noqa: E402
from harness.shared import made_once  # noqa: E402
from tilewright.backends.emulator import arrays  # noqa: E402
from tilewright.runtime import gpu_plan  # noqa: E402

SAMPLE = 20
"""Programs of each test run; every night there are a thousand."""


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "ordered", random_orders.fill) / "t.db"


@pytest.fixture
def driver() -> Iterator[CheckingDriver]:
    with torch_device.using(CheckingDriver()) as made:
        yield made


@pytest.fixture
def library(stored: Path, driver: CheckingDriver) -> Iterator[tilewright.Library]:
    with tilewright.Library(stored, watch=False) as made:
        yield made


def complaints(driver: CheckingDriver) -> str:
    driver.order.flush()
    return "\n".join(driver.order.complaints)


def operands(k: int = random_orders.SHORT) -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(k)
    return tuple(torch.randn(s, generator=made).to("emulator:0") for s in ((33, k), (k, 40)))


def streams() -> tuple[Any, Any]:
    """Two that wait for what the current stream has queued."""
    made = torch.Stream(device="emulator:0"), torch.Stream(device="emulator:0")
    for s in made:
        s.wait_stream(torch.accelerator.current_stream())
    return made


# --------------------------------------------------------------------------- random programs


def test_random_programs_pass_without_a_complaint(stored: Path) -> None:
    for seed in range(SAMPLE):
        random_orders.run(stored, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SAMPLE, 1000, 98))
def test_a_thousand_random_programs_pass_without_a_complaint(stored: Path, first: int) -> None:
    for seed in range(first, first + 98):
        random_orders.run(stored, seed)


_of = gpu_plan.Kept.of


@pytest.mark.parametrize(
    ("where", "name", "spoilt"),
    [
        (gpu_plan.Kept, "of", lambda self, owner, stream: _of(self, owner, None)),
        (arrays, "captured", lambda like: False),
        (CheckingContext, "synchronize", lambda self: None),
    ],
    ids=[
        "one scratch memory for all streams",
        "a plan's scratch memory in a graph",
        "constants that nothing waits for",
    ],
)
def test_random_programs_find_a_runtime_that_orders_too_little(
    where: Any, name: str, spoilt: Callable[..., Any], stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, spoilt)
    for seed in range(2 * SAMPLE):
        try:
            random_orders.run(stored, seed)
        except AssertionError as e:
            told = "\n".join([str(e), *getattr(e, "__notes__", [])])
            assert any(what in told for what in ("nothing orders them", "was freed", "nothing waited for"))
            return
    pytest.fail("no program found it")


# --------------------------------------------------------------------------- mistakes of programs


def test_a_call_on_a_stream_that_does_not_wait_for_its_inputs(
    library: tilewright.Library, driver: CheckingDriver
) -> None:
    a, b = operands()
    with torch.Stream(device="emulator:0"):
        library.matmul(a, b).cpu()
    assert "nothing orders them" in complaints(driver)


def test_a_result_that_another_stream_does_not_wait_for(library: tilewright.Library, driver: CheckingDriver) -> None:
    a, b = operands()
    first, second = streams()
    with first:
        c = library.matmul(a, b)
    with second:
        wrong = c.cpu()
    assert not torch.allclose(wrong, a.cpu() @ b.cpu())
    assert "nothing orders them" in complaints(driver)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_tensor_that_is_dropped_while_another_stream_uses_it(
    recorded: bool, library: tilewright.Library, driver: CheckingDriver
) -> None:
    a, b = operands()
    wanted = a.cpu() @ b.cpu()
    first, _ = streams()
    with first:
        c = library.matmul(a, b)
    if recorded:
        a.record_stream(first)
    del a
    again = torch.zeros(33, random_orders.SHORT, device="emulator:0")
    with first:
        torch.testing.assert_close(c.cpu(), wanted, rtol=1e-4, atol=1e-4)  # the memory was not written yet
    assert not again.any()
    assert ("nothing orders them" in complaints(driver)) != recorded


def test_one_output_for_two_streams(library: tilewright.Library, driver: CheckingDriver) -> None:
    a, b = operands()
    out = torch.zeros(33, 40, device="emulator:0")
    for s in streams():
        with s:
            library.matmul(a, b, out=out)
    assert "nothing orders them" in complaints(driver)


def test_a_graph_keeps_the_memory_of_its_calls(library: tilewright.Library, driver: CheckingDriver) -> None:
    a, b = operands(random_orders.LONG)
    first, second = streams()
    plan = library.plan_gpu("matmul", a, b)
    graph = torch.accelerator.Graph()
    with first:
        plan(a, b)
        with graph:
            made = plan(a, b)
    del plan
    for _ in range(2):
        with second:
            second.wait_stream(first)
            graph.replay()
            torch.testing.assert_close(made.cpu(), a.cpu() @ b.cpu(), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="so it cannot be captured"), first, torch.accelerator.Graph():
        torch.neg(a)
    assert not complaints(driver)


def test_a_graph_whose_inputs_are_gone(library: tilewright.Library, driver: CheckingDriver) -> None:
    a, b = operands()
    graph = torch.accelerator.Graph()
    first, _ = streams()
    with first, graph:
        made = library.matmul(a, b)
    torch.accelerator.synchronize()
    del a
    graph.replay()
    assert made.shape == (33, 40)
    assert "is replayed on 3168 bytes" in complaints(driver)


@pytest.mark.parametrize(
    "wrong", [lambda a: a.cpu(), lambda a: torch.accelerator.synchronize(0), lambda a: torch.accelerator.current_stream().query()]
)  # fmt: skip
def test_what_a_capture_does_not_allow(wrong: Callable[[Any], Any], driver: CheckingDriver) -> None:
    a, _ = operands()
    first, _ = streams()
    with first, torch.accelerator.Graph():
        wrong(a)
    assert "is captured" in complaints(driver)

"""The driver that orders work (``harness.checking_driver``): it lets right programs pass and complains of wrong ones."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright
from harness.checking_driver import CheckingContext, CheckingDriver
from harness.emulated_gpu import DeviceArray, random
from tilewright.runtime.gpu import GpuRuntime

Complaints = Callable[[], str]


@pytest.fixture
def driver() -> CheckingDriver:
    return CheckingDriver()


@pytest.fixture
def device(driver: CheckingDriver) -> CheckingContext:
    return driver.contexts[0]


@pytest.fixture
def complaints(driver: CheckingDriver) -> Complaints:
    """Does what is queued, and gives what was wrong, a line each."""

    def given() -> str:
        driver.order.flush()
        return "\n".join(driver.order.complaints)

    return given


@pytest.fixture
def library(gpu_kernels: Path, driver: CheckingDriver) -> Iterator[tilewright.Library]:
    with tilewright.Library(gpu_kernels, watch=False) as made:
        made.resolver.gpu = GpuRuntime(made._store, made._counters, driver.open)
        yield made


def arrays(device: CheckingContext, k: int = 24, stream: int = 0) -> list[DeviceArray]:
    values = (random(33, k), random(k, 40, seed=1), np.zeros((33, 40), np.float32))
    return [DeviceArray(device, x, stream=stream) for x in values]


def joined(driver: CheckingDriver, first: int, second: int) -> None:
    """The second stream waits for what the first has queued."""
    driver.order.record(7, driver.order.stream(0, first))
    driver.order.block(7, driver.order.stream(0, second))


# --------------------------------------------------------------------------- right programs


def test_a_call_is_done_when_its_result_is_read(
    library: tilewright.Library, driver: CheckingDriver, device: CheckingContext, complaints: Complaints
) -> None:
    a, b, out = arrays(device)
    library.matmul(a, b, out=out)
    queue = driver.order.stream(0, 0)
    assert queue.done < queue.count
    np.testing.assert_allclose(out.get(), a.get() @ b.get(), rtol=1e-4, atol=1e-4)
    assert queue.done == queue.count
    assert not complaints()


def test_streams_that_wait_for_each_other_are_ordered(
    driver: CheckingDriver, device: CheckingContext, complaints: Complaints
) -> None:
    x, y = device.allocate(64), device.allocate(64)
    device.fill(x, 1, 64, 1)
    joined(driver, 1, 2)
    device.copy(y, x, 64, 2)
    joined(driver, 2, 0)
    out = np.empty(64, np.uint8)
    device.download(y, out)
    assert set(out) == {1}
    device.free(x)
    assert not complaints()


def test_a_graph_is_replayed_in_the_order_of_its_stream(device: CheckingContext, complaints: Complaints) -> None:
    x, y = device.allocate(64), device.allocate(64)
    graph = device.capture(lambda: device.copy(y, x, 64))
    for n in (1, 2):
        device.fill(x, n, 64)
        graph.launch()
        out = np.empty(64, np.uint8)
        device.download(y, out)
        assert set(out) == {n}
    assert not complaints()


def test_parts_of_one_allocation_are_told_apart(
    library: tilewright.Library, driver: CheckingDriver, device: CheckingContext, complaints: Complaints
) -> None:
    values = random(33, 24), random(24, 40, seed=1)
    sizes = [4096, 4096, 5280, 4096, 5280]  # the second and the fourth: for nobody
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    base = device.allocate(sum(sizes))
    a, b = DeviceArray(device, values[0]), DeviceArray(device, values[1])
    plan = library.plan_gpu("matmul", a, b)
    for start, x in ((starts[0], a), (starts[3], b)):
        device.copy(base + start, x.address, x.get().nbytes)
    for stream, out in ((1, starts[2]), (2, starts[4])):  # beside each other
        joined(driver, 0, stream)
        plan.kernel.queue([base + starts[0], base + starts[3], base + out], 0, stream)
    assert not complaints()


# --------------------------------------------------------------------------- wrong ones


def test_a_result_that_is_read_before_it_is_written(
    library: tilewright.Library, device: CheckingContext, complaints: Complaints
) -> None:
    a, b, out = arrays(device, stream=5)
    library.matmul(a, b, out=out)
    assert not np.allclose(out.get(), a.get() @ b.get())  # stream 0 does not wait for stream 5
    assert complaints().startswith("tw_")
    assert "on stream 5 of device 0 writes 5280 bytes" in complaints()
    assert complaints().endswith("a copy to the host on stream 0 of device 0 reads: nothing orders them")


def test_memory_that_nobody_wrote(device: CheckingContext, complaints: Complaints) -> None:
    device.copy(device.allocate(64), device.allocate(64), 64)
    assert "a copy of 64 bytes on stream 0 of device 0 reads 64 bytes" in complaints()
    assert "before it is written" in complaints()


def test_one_scratch_memory_for_two_streams(
    library: tilewright.Library, driver: CheckingDriver, device: CheckingContext, complaints: Complaints
) -> None:
    a, b, out = arrays(device, 128)
    plan = library.plan_gpu("matmul", a, b)
    assert plan.kernel.workspace
    other = arrays(device, 128)[2]
    scratch = device.allocate(plan.kernel.workspace)
    for stream, result in ((1, out), (2, other)):
        joined(driver, 0, stream)
        plan.kernel.queue([a.address, b.address, result.address], scratch, stream)
    assert f"{plan.kernel.workspace} bytes at {scratch:#x}" in complaints()
    assert "nothing orders them" in complaints()


def test_memory_that_is_freed_while_it_is_used(device: CheckingContext, complaints: Complaints) -> None:
    x = device.allocate(64)
    device.fill(x, 0, 64, 3)
    device.free(x)
    assert "is freed, and nothing waited for a fill of 64 bytes on stream 3 of device 0" in complaints()


def test_memory_that_is_used_after_it_was_freed(device: CheckingContext, complaints: Complaints) -> None:
    x, y = device.allocate(64), device.allocate(64)
    device.fill(x, 0, 64)
    device.synchronize()
    device.free(x)
    device.copy(y, x, 64)
    assert "which is no memory of a device" in complaints()


def test_memory_of_another_device(
    library: tilewright.Library, driver: CheckingDriver, device: CheckingContext, complaints: Complaints
) -> None:
    a, b, out = arrays(device)
    plan = library.plan_gpu("matmul", a, b)
    far = DeviceArray(driver.contexts[1], random(33, 24))
    plan.kernel.queue([far.address, b.address, out.address], 0, 0)
    assert "on stream 0 of device 0 takes 3168 bytes" in complaints()
    assert "of device 1" in complaints()


def test_a_stream_of_another_device(driver: CheckingDriver, device: CheckingContext, complaints: Complaints) -> None:
    device.fill(device.allocate(8), 0, 8, 9)
    other = driver.contexts[1]
    other.fill(other.allocate(8), 0, 8, 9)
    assert complaints() == "stream 9 of device 0 is used as one of device 1"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda d: d.allocate(8), "allocating 8 bytes"),
        (lambda d: d.synchronize(), "waiting for device 0"),
        (lambda d: d.upload(d.place, np.zeros(8, np.uint8)), "a copy from the host"),
        (lambda d: d.download(d.place, np.zeros(8, np.uint8)), "a copy to the host"),
        (lambda d: d.free(d.place), "freeing memory"),
    ],
)
def test_what_cannot_be_captured(
    wrong: Callable[[CheckingContext], object], named: str, device: CheckingContext, complaints: Complaints
) -> None:
    device.place = device.allocate(8)  # type: ignore[attr-defined]
    device.fill(device.place, 0, 8)  # type: ignore[attr-defined]
    device.synchronize()
    device.capture(lambda: wrong(device) and None)
    assert f"{named} while stream -1 of device 0 is captured" in complaints()


def test_a_graph_whose_memory_was_freed(device: CheckingContext, complaints: Complaints) -> None:
    x = device.allocate(64)
    graph = device.capture(lambda: device.fill(x, 0, 64))
    graph.launch()
    device.synchronize()
    device.free(x)
    assert not complaints()
    device.allocate(64)  # where the other was, perhaps
    graph.launch()
    assert "a fill of 64 bytes is replayed on 64 bytes" in complaints()


def test_a_plan_that_goes_while_its_calls_are_queued_is_waited_for(
    library: tilewright.Library, driver: CheckingDriver, device: CheckingContext, complaints: Complaints
) -> None:
    a, b, out = arrays(device, 128)
    plan = library.plan_gpu("matmul", a, b)
    plan(a, b, out=out)
    del plan
    gc.collect()
    np.testing.assert_allclose(out.get(), a.get() @ b.get(), rtol=1e-4, atol=1e-4)
    assert not complaints()

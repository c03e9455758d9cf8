"""The emulator behind the CUDA driver's protocol, and as a toolchain of the builder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from elf import LIBRARIES, Elf
from emulated import SIZE, THREADS, numbers, reversed_blocks, unit

from tilewright.backends.arguments import Arguments
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.targets import parse_target
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.driver import (
    Context,
    DeviceError,
    LaunchError,
    LoadError,
    Module,
    NoDriver,
    OutOfMemory,
    prepare,
)
from tilewright.backends.emulator import CompileError
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorDriver
from tilewright.backends.emulator.toolchain import EmulatorToolchain
from tilewright.core import Launch, UsageError

BODIES = {
    "reverse": "s[t] = x0[i]; tw::sync(); out[i] = s[63 - t];",
    "scale": "out[i] *= (float)n;",
    "diverges": "if (t < 5) tw::sync();\nout[i] = 1;",
    "overruns": "tw::store_global(out + n, 1.0f);",
}
SHAPE = ((4, 1, 1), (THREADS, 1, 1), 512)


@pytest.fixture(scope="module")
def toolchain(cache: ArtifactCache) -> EmulatorToolchain:
    return EmulatorToolchain(archs.target("sm_90a"), cache)


@pytest.fixture(scope="module")
def code(toolchain: EmulatorToolchain) -> bytes:
    return Path(toolchain.compile(unit(BODIES), list(BODIES)).path).read_bytes()


@pytest.fixture
def context() -> Context:
    return get_driver("emulator").open(0)


@pytest.fixture
def module(context: Context, code: bytes) -> Module:
    return context.load(code)


def place(context: Context, size: int = 4 * SIZE) -> int:
    address = context.allocate(size)
    assert address % 256 == 0
    return address


def test_the_emulators_driver_launches_kernels(context: Context, module: Module) -> None:
    x0, out = place(context), place(context)
    context.upload(x0, numbers())
    context.fill(out, 0xFF, 4 * SIZE)
    for launch, values in (
        (Launch("reverse", ("n",), ("blocks",), (THREADS,), 512), {"n": 1, "blocks": 4}),
        (Launch("scale", ("n",), (4,), (THREADS,), 512), {"n": 3}),
    ):
        made = prepare(launch, 2, values)
        made.point([x0, out], 0)
        module.function(launch.symbol).launch(made.grid, made.block, made.shared, made.arguments)
    context.synchronize()
    got = np.empty(SIZE, np.float32)
    context.download(out, got)
    np.testing.assert_array_equal(got, reversed_blocks(numbers()) * 3)
    context.copy(x0, out, 4 * SIZE)
    context.download(x0, got)
    np.testing.assert_array_equal(got, reversed_blocks(numbers()) * 3)
    context.free(x0)
    context.free(out)
    module.close()
    module.close()
    with pytest.raises(LoadError, match="closed"):
        module.function("scale")


def test_captured_work_is_done_when_its_graph_is_launched_with_the_arguments_of_its_capture(
    context: Context, module: Module
) -> None:
    outs = [place(context) for _ in range(2)]
    scale = module.function("scale")
    arguments = Arguments([("pointer", 0), ("pointer", 0), ("pointer", 0), ("int32", 3)])

    def work() -> None:
        for out in outs:
            context.fill(out, 0, 4 * SIZE)
            context.copy(out, source, 4 * SIZE)
            arguments.values[1] = out
            scale.launch(*SHAPE, arguments)

    source = place(context)
    context.upload(source, numbers())
    for out in outs:
        context.upload(out, np.ones(SIZE, np.float32))
    graph = context.capture(work)
    assert graph is not None
    arguments.values[1] = 0
    got = np.empty(SIZE, np.float32)
    for wanted in (np.ones(SIZE, np.float32), numbers() * 3, numbers() * 3):
        for out in outs:
            context.download(out, got)
            np.testing.assert_array_equal(got, wanted)
        graph.launch()


def test_kernels_are_right_in_every_order_of_blocks(code: bytes) -> None:
    for order, copies in (("lifo", "eager"), ("random:7", "lazy")):
        context = EmulatorDriver(order, copies).open(0)
        x0, out = context.allocate(4 * SIZE), context.allocate(4 * SIZE)
        context.upload(x0, numbers())
        parameters = [("pointer", x0), ("pointer", out), ("pointer", 0), ("int32", 1)]
        context.load(code).function("reverse").launch(*SHAPE, Arguments(parameters))
        got = np.empty(SIZE, np.float32)
        context.download(out, got)
        np.testing.assert_array_equal(got, reversed_blocks(numbers()))


def test_events_and_facts(context: Context) -> None:
    a, b = context.event(), context.event()
    a.record()
    context.busy(0.001)
    b.record()
    assert 0 <= context.elapsed(a, b) < 1
    assert context.model == "emulator"
    assert set(archs.target("sm_90a").limit) <= set(dict(context.limits))
    assert int(dict(context.limits)["memory_bytes"]) > 0
    assert context.clocks() == {}
    with pytest.raises(DeviceError, match="not recorded"):
        context.elapsed(a, context.event())


def test_refused_launches_leave_the_device_well(context: Context, module: Module) -> None:
    out = place(context)
    four = [("pointer", out), ("pointer", out), ("pointer", 0), ("int32", 1)]
    scale = module.function("scale")
    for shape, parameters, message in (
        (((4, 1, 1), (2048, 1, 1), 0), four, "too many threads"),
        (((4, 1, 1), (64, 1, 1), 1 << 20), four, "227 KiB"),
        (((1 << 33, 1, 1), (64, 1, 1), 0), four, "impossible grid"),
        (SHAPE, four[:3], "another number of parameters"),
        (SHAPE, [*four[:3], ("int64", 1)], "parameter 3 has 4 bytes, not 8"),
        (SHAPE, [*four[:3], ("half", 1)], "unknown kind"),
    ):
        with pytest.raises(LaunchError, match=message):
            scale.launch(*shape, Arguments(parameters))
    context.fill(out, 0, 4 * SIZE)
    scale.launch(*SHAPE, Arguments(four))
    context.synchronize()


@pytest.mark.parametrize(
    ("name", "message"),
    [("diverges", r"divergence in line \d+, block \(0, 0, 0\)"), ("overruns", "out_of_bounds_global.*past the end")],
)
def test_bugs_spoil_the_context(context: Context, module: Module, name: str, message: str) -> None:
    x0, out = place(context), place(context)
    parameters = [("pointer", x0), ("pointer", out), ("pointer", 0), ("int32", SIZE)]
    with pytest.raises(DeviceError, match=message) as e:
        module.function(name).launch(*SHAPE, Arguments(parameters))
    assert e.value.sticky
    for use in (context.synchronize, lambda: context.allocate(4), lambda: context.busy(0.1)):
        with pytest.raises(DeviceError, match=message):
            use()


def test_a_module_runs_on_after_a_bug(code: bytes) -> None:
    # The runtime drops the fibers that a failed launch left behind.
    for name in ("diverges", "reverse"):
        context = EmulatorContext(EmulatorDriver())
        x0, out = context.allocate(4 * SIZE), context.allocate(4 * SIZE)
        context.upload(x0, numbers())
        loaded = context.load(code)
        parameters = [("pointer", x0), ("pointer", out), ("pointer", 0), ("int32", 1)]
        if name == "diverges":
            with pytest.raises(DeviceError):
                loaded.function(name).launch(*SHAPE, Arguments(parameters))
        else:
            loaded.function(name).launch(*SHAPE, Arguments(parameters))
            got = np.empty(SIZE, np.float32)
            context.download(out, got)
            np.testing.assert_array_equal(got, reversed_blocks(numbers()))


def test_the_emulators_memory_is_allocated_and_freed(context: Context) -> None:
    total = int(dict(context.limits)["memory_bytes"])
    with pytest.raises(OutOfMemory, match="out of memory"):
        context.allocate(total + 1)
    address = place(context, 100)
    with pytest.raises(DeviceError, match="not all in one allocation") as e:
        context.upload(address, np.zeros(101, np.uint8))
    assert not e.value.sticky
    with pytest.raises(DeviceError, match="not an allocated address"):
        context.free(address + 1)
    with pytest.raises(ValueError, match="contiguous"):
        context.download(address, np.zeros((4, 4), np.uint8)[:, 0])
    empty = np.empty(0, np.float32)
    context.upload(context.allocate(0), empty)


def test_devices_and_code_that_are_not_there(context: Context, module: Module) -> None:
    driver = get_driver("emulator")
    assert (driver.name, driver.count()) == ("emulator", 1)
    with pytest.raises(NoDriver, match="no emulated device 1"):
        driver.open(1)
    with pytest.raises(LoadError, match="cannot load this code"):
        context.load(b"\x7fELF is not enough")
    with pytest.raises(LoadError, match="no kernel absent"):
        module.function("absent")


# ------------------------------------------------------------------ toolchain


@pytest.mark.skipif(not os.path.exists("/proc/self/exe"), reason="reads ELF")
def test_a_library_needs_libc_and_libm_only(code: bytes) -> None:
    elf = Elf(code)
    assert elf.needed() <= LIBRARIES
    assert all(name.startswith("tw_emu_") for name in elf.exported())
    assert b".debug" not in code


def test_the_emulators_toolchain_caches_programs(toolchain: EmulatorToolchain) -> None:
    text = unit({"k": "out[i] = 1;"})
    first, again = toolchain.compile(text, ["k"], 60.0), toolchain.compile(text, ["k"], 60.0)
    assert (first.cached, again.cached, first.sha256) == (False, True, again.sha256)
    assert first.resources == {}
    assert Path(first.path).stem == first.sha256
    assert toolchain.key(text) == toolchain.key(text)
    assert toolchain.key(text) != toolchain.key(text + " ")
    assert toolchain.emulated
    assert toolchain.version.startswith("emulated by ")


def test_the_emulators_toolchain_refuses_wrong_sources(toolchain: EmulatorToolchain, cache: ArtifactCache) -> None:
    with pytest.raises(CompileError, match="undeclared"):
        toolchain.compile(unit({"k": "out[i] = undeclared;"}), ["k"], 60.0)
    with pytest.raises(CompileError, match="no kernel is named"):
        toolchain.compile(unit({}), [], 60.0)
    with pytest.raises(UsageError, match="kind cuda"):
        EmulatorToolchain(parse_target("cpu:portable"), cache)

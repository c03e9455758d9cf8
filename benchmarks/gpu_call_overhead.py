"""The host time of a GPU call before the driver: a plan on a device and lib.matmul, on the emulator's driver.

    python benchmarks/gpu_call_overhead.py --check --out benchmarks/results/gpu_call_overhead.json

There is no GPU in it: CUDA's targets and launch path run on the emulator's driver, whose ``launch`` is replaced by
nothing, so what is timed is all that happens on the host up to it, and the way back. What a real driver does in a
launch, and what reading an address costs with CuPy's or PyTorch's own arrays, it does not show: the arrays here have
``__cuda_array_interface__``, a ready dictionary, and ``out`` is given.

The contestants take turns within each round of one process. Beside them: np.matmul on 4x4 arrays and np.add on one
number as known quantities, the launches alone, prepared, without a check, and the same launches by the emulator's
driver as it is. A ratio is the median over rounds of a contestant's time / np.matmul's, so drift cancels out; times are
on the thread's CPU clock. ``--check`` exits with 1 where a promise is not kept: a call asks the driver for launches
alone, runs few functions, is counted, and takes at most 15 microseconds (that, with 21 rounds or more).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright
from tilewright.backends.cpu.device import device_model
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorDriver
from tilewright.runtime.gpu import GpuRuntime
from tilewright.tuner import Observer

SIZES = {"m": 4, "n": 4, "k": 4}
PROMISE = 15e-6  # seconds
FUNCTIONS = 60  # Python's and C's, that a call may run before the driver
ENOUGH = 21  # rounds that time is judged by


class Device(EmulatorContext):
    """The emulated device; ``asked`` counts what it is asked for. Where it is ``idle`` a launch does nothing."""

    def __init__(self) -> None:
        super().__init__(EmulatorDriver())
        self.idle = False
        self.asked: dict[str, int] = {}

    def note(self, what: str) -> None:
        self.asked[what] = self.asked.get(what, 0) + 1

    def allocate(self, size: int) -> int:
        self.note("allocate")
        return super().allocate(size)

    def free(self, address: int) -> None:
        self.note("free")
        super().free(address)

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        self.note("fill")
        super().fill(address, byte, size, stream)

    def synchronize(self) -> None:
        self.note("synchronize")
        super().synchronize()

    def launch(self, *given: Any) -> None:
        if not self.idle:
            self.note("launch")
            super().launch(*given)


class DeviceArray:
    """A dense array in the device's memory."""

    def __init__(self, device: Device, values: np.ndarray[Any, Any]) -> None:
        self.device, self.like = device, values
        self.address = device.allocate(values.nbytes)
        device.upload(self.address, values)
        self._face = {
            "shape": values.shape, "typestr": values.dtype.str, "data": (self.address, False), "version": 3,
            "strides": None,
        }  # fmt: skip

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._face

    def get(self) -> np.ndarray[Any, Any]:
        out = np.empty_like(self.like)
        self.device.download(self.address, out)
        return out


def tuned(folder: str) -> str:
    """A database with a matmul for the emulator."""
    path = os.path.join(folder, "gpu.db")
    tilewright.tune(
        "matmul", params=SIZES, trials=1, cost_model="random", seed=0, db=path, target="cuda:sm_90a",
        device="emulator", observer=Observer(),
    )  # fmt: skip
    return path


def functions(call: Callable[[], Any]) -> int:
    """How many functions, of Python and of C, a call runs."""
    count = 0

    def told(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(told)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count - 1  # setprofile itself


def measure(folder: str, rounds: int, count: int) -> dict[str, Any]:
    device = Device()
    library = tilewright.Library(tuned(folder), watch=False)
    library.resolver.gpu = GpuRuntime(library._store, library._counters, lambda index: device)
    rng = np.random.default_rng(0)
    host = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2)]
    product = np.empty((4, 4), np.float32)
    a, b = (DeviceArray(device, x) for x in host)
    out = DeviceArray(device, product)
    plan = library.plan_gpu("matmul", a, b)
    bare = plan.kernel.loaded.bind([a.address, b.address, out.address], 0)
    one, two, three = (np.ones(1, np.float32) for _ in range(3))

    def timed(call: Callable[[], Callable[[], None]], idle: bool = True, calls: int = count) -> Callable[[], float]:
        def run() -> float:
            device.idle = idle
            loop = call()
            start = time.thread_time_ns()
            for _ in range(calls):
                loop()
            return (time.thread_time_ns() - start) / calls

        return run

    contestants = {
        "np.matmul": timed(lambda: lambda: np.matmul(*host, out=product)),
        "np.add": timed(lambda: lambda: np.add(one, two, out=three)),
        "plan": timed(lambda: lambda: plan(a, b, out=out)),
        "lib.matmul": timed(lambda: lambda: library.matmul(a, b, out=out)),
        "launches alone": timed(lambda: bare),
        "launches alone, by the emulator": timed(lambda: bare, idle=False, calls=max(1, count // 100)),
    }
    asked: dict[str, dict[str, int]] = {}
    runs: dict[str, int] = {}
    for name, call in (("plan", plan), ("lib.matmul", library.matmul)):
        device.idle = False
        call(a, b, out=out)
        device.asked.clear()
        device.fill(out.address, 0xFF, product.nbytes)
        call(a, b, out=out)
        if not np.allclose(out.get(), host[0] @ host[1], rtol=1e-4, atol=1e-5):
            raise SystemExit(f"{name} is wrong")
        asked[name] = {k: n for k, n in device.asked.items() if k != "fill"}
        device.idle = True
        runs[name] = functions(lambda: call(a, b, out=out)) - 1  # the lambda  # noqa: B023
    before = library.stats().tiers["exact"]
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for r in range(rounds):
        for name, run in list(contestants.items())[:: -1 if r % 2 else 1]:
            samples[name].append(run())
    rows = {}
    for name, times in samples.items():
        ratios = sorted(t / base for t, base in zip(times, samples["np.matmul"], strict=True))
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        middle = statistics.median(times) / 1e3
        rows[name] = {"microseconds": middle, "ratio": statistics.median(ratios), "low": low, "high": high}
    return {
        "schema": 1, "date": time.strftime("%Y-%m-%d"), "device": device_model(), "driver": "emulator", "shape": SIZES,
        "rounds": rounds, "calls_a_round": count, "rows": rows, "asked": asked, "functions": runs,
        "uncounted": 2 * rounds * count - (library.stats().tiers["exact"] - before),
        "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip


def broken(found: dict[str, Any]) -> list[str]:
    """Promises that were not kept."""
    said = []
    for name in ("plan", "lib.matmul"):
        if set(found["asked"][name]) != {"launch"}:
            said.append(f"{name} asks the driver for {found['asked'][name]}, not for launches alone")
        if found["functions"][name] > FUNCTIONS:
            said.append(f"{name} runs {found['functions'][name]} functions, more than {FUNCTIONS}")
        if found["rounds"] >= ENOUGH and found["rows"][name]["microseconds"] > PROMISE * 1e6:
            said.append(f"{name} takes {found['rows'][name]['microseconds']:.1f} us, more than {PROMISE * 1e6:.0f}")
    if found["uncounted"]:
        said.append(f"{found['uncounted']} calls were not counted")
    return said


def table(found: dict[str, Any]) -> str:
    lines = [
        "| call, `out` given | us before the driver | times np.matmul (quartiles) | functions run |",
        "|---|---|---|---|",
    ]
    for name, row in found["rows"].items():
        ratio = f"{row['ratio']:.2f} ({row['low']:.2f}-{row['high']:.2f})"
        lines.append(f"| {name} | {row['microseconds']:.2f} | {ratio} | {found['functions'].get(name, '')} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=2000, help="calls of each contestant in a round")
    parser.add_argument("--out", type=Path, help="write the result here as JSON, and beside it as text")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a promise is not kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(folder, options.rounds, options.calls)
    text = (
        f"Host time of a GPU call on the emulator's driver, whose launch is replaced by nothing (no GPU: not silicon), "
        f"4x4 float32.\n{found['device']}, {found['date']}, Python {found['python']}, "
        f"medians of {found['rounds']} paired rounds.\n\n{table(found)}\n"
    )
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(text)
    problems = broken(found)
    if options.check and problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()

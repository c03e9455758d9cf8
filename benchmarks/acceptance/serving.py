"""Is what was tuned here served here? Arrays of CuPy and PyTorch, by name, by plans, in CUDA graphs, and sizes of a
range; and the host time of a call, with a framework's own product beside it."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

import tilewright
from acceptance.rows import Teller
from acceptance.world import World
from tilewright.tuner import Observer

FRAMEWORKS = ("cupy", "torch")
SEQUENCE = "sequence"
"""Kernels as a model on a device calls them, which needs no framework."""
SQUARE, RUNS = 48, 4
SIZES = {"m": 300, "n": 200, "k": 104}
SMALL = {"m": 8, "n": 8, "k": 8}
"""Little enough that a GPU is done before the next call comes: what is timed is the host."""
LAYER = {"n": 512, "k": 256}
RANGE = "1..256"
HELD = (1, 17, 64, 200, 256)
"""Rows of a layer: those that it is tuned for, and those that are asked for."""
DTYPE = "float16"
TOLERANCE = 2.0**-8
TRIALS = 4
ROUNDS, CALLS = 31, 300


class Framework:
    """What differs between CuPy and PyTorch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Any = importlib.import_module(name)
        self._random = np.random.default_rng(0)

    def array(self, values: Any) -> Any:
        values = np.asarray(values, DTYPE)
        return self.module.asarray(values) if self.name == "cupy" else self.module.from_numpy(values).cuda()

    def draw(self, sizes: dict[str, int]) -> tuple[Any, Any, Any]:
        """Two operands, and an output of wrong numbers."""
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        a, b = (self.array(self._random.standard_normal(s)) for s in ((m, k), (k, n)))
        return a, b, self.array(np.full((m, n), np.nan))

    def synchronize(self) -> None:
        self.module.cuda.runtime.deviceSynchronize() if self.name == "cupy" else self.module.cuda.synchronize()

    def values(self, array: Any) -> Any:
        self.synchronize()
        return (array.get() if self.name == "cupy" else array.cpu().numpy()).astype(np.float64)

    def capture(self, call: Callable[[], Any]) -> Callable[[], None]:
        """A graph of one call, as a user of the framework makes it; the first call warms up."""
        if self.name == "torch":
            torch = self.module
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                call()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                call()
            return cast(Callable[[], None], graph.replay)
        stream = self.module.cuda.Stream(non_blocking=True)
        self.synchronize()
        with stream:
            call()
            stream.begin_capture()
            call()
            graph = stream.end_capture()
        return lambda: graph.launch(stream)


def serve(world: World, tell: Teller, what: str, folder: Path) -> None:
    """One framework's calls, those of a range, or those of a sequence, of a database in ``folder``."""
    name = f"serving/{what}"
    if what == SEQUENCE:
        with tell.trusted():
            _sequence(world, tell, folder)
        return
    needs = "torch" if what == "range" else what
    if world.emulated or importlib.util.find_spec(needs) is None:
        missing = "there is no GPU" if world.emulated else f"{needs} is not installed"
        tell.row(name, "skipped", message=missing)
        return
    with tell.trusted():
        if what == "range":
            _range(world, tell, folder)
        else:
            _framework(world, tell, Framework(what), folder)


def _tuned(world: World, folder: Path, what: str, *every: Mapping[str, Any]) -> tilewright.Library:
    db = folder / f"serving-{what}.db"
    for sizes in every:
        tilewright.tune(
            "matmul", params={"dtype": DTYPE, **sizes}, target=world.target.name, device=world.place.device.name,
            trials=TRIALS, db=db, observer=Observer(),
        )  # fmt: skip
    return tilewright.Library(db, watch=False)


def _framework(world: World, tell: Teller, framework: Framework, folder: Path) -> None:
    base = f"serving/{framework.name}"
    tell.at(base)
    with _tuned(world, folder, framework.name, SIZES, SMALL) as library:
        a, b, out = framework.draw(SIZES)
        plan = library.plan_gpu("matmul", a, b)
        calls: dict[str, Callable[[], Any]] = {
            "by name": lambda: library.matmul(a, b),
            "by name, out": lambda: library.matmul(a, b, out=out),
            "again": lambda: library.matmul(a, b, out=out),
            "plan": lambda: plan(a, b, out=out),
        }
        for label, call in calls.items():
            with tell.unit(f"{base}/{label}"):
                out[:] = float("nan")
                _judge(tell, f"{base}/{label}", framework, (a, b), call())
        with tell.unit(f"{base}/graph"):
            replay = framework.capture(lambda: plan(a, b, out=out))
            x, y, _ = framework.draw(SIZES)
            a[:], b[:], out[:] = x, y, float("nan")
            framework.synchronize()
            replay()
            _judge(tell, f"{base}/graph", framework, (x, y), out)
        with tell.unit(f"{base}/host"):
            _host(tell, f"{base}/host", framework, library)


def _judge(tell: Teller, name: str, framework: Framework, operands: tuple[Any, Any], out: Any) -> None:
    a, b = map(framework.values, operands)
    _told(tell, name, framework.values(out), a @ b)


def _told(tell: Teller, name: str, got: Any, want: Any) -> None:
    off = float(np.max(np.abs(got - want)) / np.sqrt(np.mean(want**2)))
    right = off <= TOLERANCE
    tell.row(name, "right" if right else "wrong_result", message="" if right else f"off by {off:g}", off=off)


def _host(tell: Teller, name: str, framework: Framework, library: tilewright.Library) -> None:
    """Seconds of the host for a call whose kernel is over before the next, launch included; ratios of paired rounds."""
    a, b, out = framework.draw(SMALL)
    plan, matmul = library.plan_gpu("matmul", a, b), framework.module.matmul
    calls: dict[str, Callable[[], Any]] = {
        "plan": lambda: plan(a, b, out=out),
        "by name": lambda: library.matmul(a, b, out=out),
        framework.name: lambda: matmul(a, b, out=out),
    }
    times: dict[str, list[float]] = {label: [] for label in calls}
    for call in calls.values():
        call()
    for r in range(ROUNDS):
        for label, call in list(calls.items())[:: -1 if r % 2 else 1]:
            framework.synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[label].append((time.perf_counter() - began) / CALLS)
    ratios = {
        label: statistics.median(o / t for o, t in zip(times[framework.name], seconds, strict=True))
        for label, seconds in times.items()
    }
    host_us = {label: 1e6 * statistics.median(seconds) for label, seconds in times.items()}
    said = ", ".join(f"{label} {us:.1f} us" for label, us in host_us.items())
    tell.row(name, "measured", summary=said, host_us=host_us, ratios=ratios, rounds=ROUNDS)


def _range(world: World, tell: Teller, folder: Path) -> None:
    framework, db = Framework("torch"), folder / "serving-range.db"
    tell.at("serving/range")
    tilewright.tune_range(
        "matmul", params={"m": RANGE, **LAYER, "dtype": DTYPE}, kernels=2, trials=3 * TRIALS, target=world.target.name,
        device=world.place.device.name, db=db, observer=lambda place: Observer(),
    )  # fmt: skip
    with tilewright.Library(db, watch=False) as library:
        for m in HELD:
            name = f"serving/range/m={m}"
            with tell.unit(name):
                a, b, out = framework.draw({"m": m, **LAYER})
                found = library.explain_gpu("matmul", a, b)
                if found is None:
                    tell.row(name, "failed", message="nothing answers")
                    continue
                library.matmul(a, b, out=out)
                _judge(tell, name, framework, (a, b), out)


def _sequence(world: World, tell: Teller, folder: Path) -> None:
    """Two products by constants in one allocation: queued, captured as a graph, and launched as one."""
    from tilewright.core import TensorSpec
    from tilewright.kernels.operators import get_operator
    from tilewright.runtime.device_sequence import DeviceSequence, Stage
    from tilewright.runtime.slots import Step

    base, n = f"serving/{SEQUENCE}", SQUARE
    tell.at(base)
    params = {"m": n, "n": n, "k": n, "dtype": DTYPE, "constant": "b"}
    with _tuned(world, folder, SEQUENCE, params) as library:
        tuned = library.resolver.tuned(get_operator("matmul").workload(**params), (world.place.backend.name, 0))
        if tuned is None:
            tell.row(base, "failed", message="nothing serves it")
            return
        draw = np.random.default_rng(0).standard_normal
        names = ("x", "u", "y", "v", "z")
        values = {name: TensorSpec(name, (n, n), DTYPE) for name in names}
        constants = {name: (draw((n, n)) / n**0.5).astype(DTYPE) for name in "uv"}
        steps = [Step(tuned.kernel, ("x", "u"), "y"), Step(tuned.kernel, ("y", "v"), "z")]
        sequence = DeviceSequence([Stage(steps[:1], ["x"]), Stage(steps[1:], [], ["z"])], values, constants)
        for run in range(RUNS):
            x = draw((n, n)).astype(DTYPE)
            with tell.unit(f"{base}/run {run}"):
                sequence.run(0, {"x": x})
                got = sequence.run(1, {})["z"]
                want = x.astype("f8") @ constants["u"].astype("f8") @ constants["v"].astype("f8")
                _told(tell, f"{base}/run {run}", got.astype("f8"), want)

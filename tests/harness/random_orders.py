"""Random programs of streams, calls, captures, replays and frees on PyTorch's device ``emulator``.

The programs are correctly ordered: the checking driver (``checking_driver``) must not complain of them, and their
results must equal the CPU's.

A program keeps PyTorch's rules. A stream waits for the writer of a tensor that it reads, and for all users of a tensor
that it writes. A tensor used on another stream than its own gets ``record_stream`` before it is dropped. A graph's
inputs live as long as the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

import tilewright
from harness import torch_device
from harness.checking_driver import checking
from harness.emulated_gpu import store
from tilewright.backends.cache import ArtifactCache
from tilewright.kernels.operators import get_operator
from tilewright.torch import use

CONV = {"n": 1, "ci": 16, "h": 5, "w": 6, "co": 24, "kh": 3, "kw": 3, "padding": 1, "dtype": "float16"}
SHORT, LONG, HALF = 24, 128, 72
"""K of the matmul kernels: with one launch, with split K and a workspace, and with tensor maps."""


def fill(folder: Path) -> None:
    """Store the kernels that programs call in the database ``t.db``."""
    path, cache, matmul = folder / "t.db", ArtifactCache(), get_operator("matmul")
    store(path, cache, matmul.workload(m=33, n=40, k=SHORT), "cuda_simt")
    store(path, cache, matmul.workload(m=33, n=40, k=SHORT, constant="b"), "cuda_simt")
    store(path, cache, matmul.workload(m=33, n=40, k=LONG), "cuda_simt", split=True)
    store(path, cache, matmul.workload(m=33, n=40, k=LONG, constant="b"), "cuda_simt", split=True)
    store(path, cache, matmul.workload(m=40, n=48, k=HALF, dtype="bfloat16"), "cuda_wgmma")
    store(path, cache, get_operator("conv2d").workload(**CONV, constant="weight"), "cuda_relaid")


@dataclass(eq=False)
class Value:
    """A tensor on a device, its expected contents, and the streams that use it since its last write."""

    tensor: Any
    truth: Any
    home: Any
    writer: Any
    users: set[Any] = field(default_factory=set)
    held: int = 0  # number of graphs that hold it


@dataclass(eq=False)
class Graph:
    """A captured graph of calls. A replay computes each result again, from its inputs' present contents."""

    graph: Any
    device: int
    inputs: list[Value]
    outputs: list[tuple[Value, Callable[[], Any]]]
    last: Any = None  # stream of its last replay; the next replay waits for it, because both use the graph's memory


class Program:
    """A random program on a library's kernels."""

    def __init__(self, library: tilewright.Library, seed: int) -> None:
        self.library, self.random = library, Random(seed)
        self.streams = [
            [torch.accelerator.current_stream(d), *(torch.Stream(device=f"emulator:{d}") for _ in range(2))]
            for d in range(torch_device.COUNT)
        ]
        self.values: list[Value] = []
        self.graphs: list[Graph] = []
        self.plans: dict[Any, Any] = {}
        self.bound: list[tuple[int, Any, str, Any]] = []  # device, bound call, operation, constant
        self.device, self.stream = 0, self.streams[0][0]
        self.made = 0

    def run(self, steps: int) -> None:
        """Take random steps, and check every value at the end."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (3, self.switch), (3, self.make), (1, self.move), (8, self.call), (2, self.write), (2, self.bind), (4, self.call_bound),
            (2, self.capture), (5, self.replay), (3, self.read), (4, self.drop), (1, self.forget), (1, self.wait),
        ]  # fmt: skip
        weights, functions = [w for w, _ in actions], [f for _, f in actions]
        for action in self.random.choices(functions, weights, k=steps):
            action()
        for value in list(self.values):
            self.look(value)
        for device in range(torch_device.COUNT):  # before tensors are dropped
            torch.accelerator.synchronize(device)

    # ------------------------------------------------------------------ order

    def reading(self, value: Value, stream: Any = None) -> None:
        """Order a read of a value on the current stream after the value's last write."""
        stream = stream or self.stream
        if value.writer != stream:
            self.follow(value.writer, stream)
        value.users.add(stream)

    def writing(self, value: Value, stream: Any = None) -> None:
        """Order a write of a value on the current stream after all its users."""
        stream = stream or self.stream
        for other in {value.writer, value.home, *value.users} - {stream}:
            self.follow(other, stream)
        value.writer, value.users = stream, {stream}

    def follow(self, first: Any, second: Any) -> None:
        if self.random.random() < 0.5:
            second.wait_stream(first)
        else:
            second.wait_event(first.record_event())

    # ------------------------------------------------------------------ actions

    def switch(self) -> None:
        self.device = self.random.randrange(torch_device.COUNT)
        self.stream = self.random.choice(self.streams[self.device])

    def fresh(self, *shape: int, dtype: Any = torch.float32) -> Any:
        self.made += 1
        return torch.randn(shape, generator=torch.Generator().manual_seed(self.made)).to(dtype)

    def adopt(self, tensor: Any, truth: Any) -> Value:
        made = Value(tensor, truth, self.stream, self.stream)
        self.values.append(made)
        return made

    def make(self) -> Value:
        k = self.random.choice((SHORT, LONG, HALF))
        left = self.random.random() < 0.5
        if k == HALF:
            truth = self.fresh(*((40, k) if left else (k, 48)), dtype=torch.bfloat16)
        else:
            truth = self.fresh(*((33, k) if left else (k, 40)))
        with self.stream:
            return self.adopt(truth.to(f"emulator:{self.device}"), truth)

    def move(self) -> None:
        """Copy a value to the other device, on the source's stream, after the work on the target's stream."""
        mine = [v for v in self.values if self.here(v)]
        if not mine:
            return
        value, source = self.random.choice(mine), self.stream
        self.reading(value)
        self.device = 1 - self.device
        self.stream = self.random.choice(self.streams[self.device])
        with source, self.stream:
            self.adopt(value.tensor.to(f"emulator:{self.device}"), value.truth)

    def given(self, *shape: int, dtype: Any = torch.float32) -> Value:
        """Returns a value of this shape and type on the current device, an existing or a new one."""
        fit = [
            v for v in self.values if v.tensor.shape == shape and v.tensor.dtype == dtype and self.here(v)
        ]  # fmt: skip
        if fit and self.random.random() < 0.7:
            return self.random.choice(fit)
        truth = self.fresh(*shape, dtype=dtype)
        with self.stream:
            return self.adopt(truth.to(f"emulator:{self.device}"), truth)

    def here(self, value: Value) -> bool:
        return bool(value.tensor.device.index == self.device)

    def operands(self) -> tuple[Value, Value]:
        k = self.random.choice((SHORT, LONG, LONG, LONG, HALF))
        rows, columns, dtype = (40, 48, torch.bfloat16) if k == HALF else (33, 40, torch.float32)
        return self.given(rows, k, dtype=dtype), self.given(k, columns, dtype=dtype)

    def product(self, a: Value, b: Value, out: Any = None) -> Any:
        """Compute a matmul through a random interface: by name, plan or PyTorch operator."""
        way = self.random.choice(("name", "plan", "plan", "operator" if out is None else "name"))
        if way == "name":
            return self.library.matmul(a.tensor, b.tensor, out=out)
        if way == "operator":
            return torch.ops.tilewright.matmul(a.tensor, b.tensor)
        key = (self.device, a.tensor.shape)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self.library.plan_gpu("matmul", a.tensor, b.tensor)
        return plan(a.tensor, b.tensor, out=out)

    def call(self) -> None:
        a, b = self.operands()
        shape, dtype = (a.tensor.shape[0], b.tensor.shape[1]), a.tensor.dtype
        into = [v for v in self.values if v.tensor.shape == shape and self.here(v) and v.tensor.dtype == dtype]
        self.reading(a), self.reading(b)
        truth = a.truth @ b.truth
        if into and self.random.random() < 0.4:
            out = self.random.choice(into)
            self.writing(out)
            with self.stream:
                self.product(a, b, out.tensor)
            out.truth = truth
        else:
            with self.stream:
                self.adopt(self.product(a, b), truth)

    def write(self) -> None:
        """Overwrite a value with new elements from the host."""
        mine = [v for v in self.values if self.here(v)]
        if mine:
            value = self.random.choice(mine)
            value.truth = self.fresh(*value.tensor.shape, dtype=value.tensor.dtype)
            self.writing(value)
            with self.stream:
                value.tensor.copy_(value.truth)

    def bind(self) -> None:
        if self.random.random() < 0.5:
            k = self.random.choice((SHORT, LONG))
            x, weight, name, how = self.given(33, k), self.given(k, 40), "b", {}
            op = "matmul"
        else:
            x, weight = self.given(1, 16, 5, 6, dtype=torch.float16), self.given(24, 16, 3, 3, dtype=torch.float16)
            op, name, how = "conv2d", "weight", {"padding": 1}
        self.reading(x), self.reading(weight)
        with self.stream:
            plan = self.library.plan_gpu(op, x.tensor, weight.tensor, constant=name, **how)
            self.bound.append((self.device, plan.bind(**{name: weight.tensor}), op, weight.truth))

    def call_bound(self) -> None:
        mine = [b for b in self.bound if b[0] == self.device]
        if not mine:
            return
        _, plan, op, weight = self.random.choice(mine)
        x = self.given(33, weight.shape[0]) if op == "matmul" else self.given(1, 16, 5, 6, dtype=torch.float16)
        self.reading(x)
        with self.stream:
            self.adopt(plan(x.tensor), _computed(op, x.truth, weight))

    def capture(self) -> None:
        """Capture some calls, each on inputs that outlive the graph, or on the result of an earlier captured call."""
        stream = self.random.choice(self.streams[self.device][1:])
        before, self.stream = self.stream, stream
        pairs = [self.operands() for _ in range(self.random.randint(1, 3))]
        for a, b in pairs:
            self.reading(a), self.reading(b)
            with self.stream:  # loads the kernels before the capture
                self.library.matmul(a.tensor, b.tensor), torch.ops.tilewright.matmul(a.tensor, b.tensor)
                if (self.device, a.tensor.shape) in self.plans:
                    self.plans[self.device, a.tensor.shape](a.tensor, b.tensor)
        graph = torch.accelerator.Graph()
        outputs = []
        others = [s for s in self.streams[self.device][1:] if s != stream]
        with torch.device(f"emulator:{self.device}"), self.stream:
            graph.capture_begin()
            for a, b in pairs:
                beside = self.random.choice(others) if self.random.random() < 0.3 else None
                if beside is not None:
                    beside.wait_stream(stream)
                with beside or stream:
                    made = self.product(a, b)
                    for _ in range(self.random.randrange(2)):
                        self.product(a, b)  # the result is dropped at once
                if beside is not None:
                    stream.wait_stream(beside)
                    made.record_stream(stream)
                if self.random.random() < 0.7:
                    value = Value(made, None, stream, stream)
                    outputs.append((value, lambda a=a, b=b: a.truth @ b.truth))
                del made
            graph.capture_end()
        inputs = [v for pair in pairs for v in pair]
        for v in inputs:
            v.held += 1
        self.graphs.append(Graph(graph, self.device, inputs, outputs))
        self.stream = before

    def replay(self) -> None:
        mine = [g for g in self.graphs if g.device == self.device]
        if not mine:
            return
        found = self.random.choice(mine)
        for v in found.inputs:
            self.reading(v)
        for v, _ in found.outputs:
            self.writing(v)
        if found.last is not None:
            self.follow(found.last, self.stream)
        found.last = self.stream
        with self.stream:
            found.graph.replay()
        for v, compute in found.outputs:
            v.truth = compute()
            if v not in self.values:
                v.held += 1
                self.values.append(v)

    def read(self) -> None:
        if self.values:
            self.look(self.random.choice(self.values))

    def look(self, value: Value) -> None:
        stream = self.random.choice(self.streams[value.tensor.device.index])
        self.reading(value, stream)
        with stream:
            found = value.tensor.cpu()
        close = {"rtol": 2e-2, "atol": 2e-1} if found.dtype != torch.float32 else {"rtol": 1e-4, "atol": 1e-3}
        torch.testing.assert_close(found, value.truth, **close)

    def drop(self) -> None:
        free = [v for v in self.values if not v.held]
        if not free:
            return
        value = self.random.choice(free)
        self.values.remove(value)
        for other in {value.writer, *value.users} - {value.home}:
            if self.random.random() < 0.7:
                value.tensor.record_stream(other)
            else:
                self.follow(other, value.home)

    def forget(self) -> None:
        """Drop a plan, a bound plan, a graph, or the allocator's free memory."""
        what = self.random.choice(("plan", "bound", "graph", "memory"))
        if what == "plan" and self.plans:
            self.plans.pop(self.random.choice(list(self.plans)))
        elif what == "bound" and self.bound:
            self.bound.remove(self.random.choice(self.bound))
        elif what == "graph" and self.graphs:
            found = self.random.choice(self.graphs)
            self.graphs.remove(found)
            for v in found.inputs:
                v.held -= 1
            for v, _ in found.outputs:
                if v in self.values:
                    self.values.remove(v)
        else:
            torch.accelerator.empty_cache()

    def wait(self) -> None:
        if self.random.random() < 0.5:
            self.stream.synchronize()
        else:
            torch.accelerator.synchronize(self.device)


def _computed(op: str, x: Any, weight: Any) -> Any:
    if op == "matmul":
        return x @ weight
    return torch.nn.functional.conv2d(x.float(), weight.float(), padding=1).half()


def run(database: Path, seed: int, steps: int = 30) -> None:
    """Run one program with its own library and driver. Raises ``AssertionError`` for complaints and wrong results."""
    with checking(seed) as driver, torch_device.using(driver), tilewright.Library(database, watch=False) as library:
        use(library)
        try:
            Program(library, seed).run(steps)
            assert not library.stats().tiers["fallback"]  # each call used a stored kernel
        finally:
            use(None)

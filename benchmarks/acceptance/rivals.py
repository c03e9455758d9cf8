"""One shape's operands as PyTorch's tensors: our kernels checked against PyTorch on them, and timed beside libraries.

On the GPU every side runs the same rotated operand sets (together at least three times the L2 cache) in CUDA graphs, so
that none pays for Python. For the emulator the tensors lie in this process, PyTorch computes on the processor, and
times, which mean nothing, are the clock's on the wall.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from acceptance.world import Bind, World
from tilewright.baselines.pytorch import Variants, as_array, compared, variants_of
from tilewright.core import Task, Workload
from tilewright.kernels.expression.expr import FLOATS, ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.verifying.exact import whole_reach

Call = Callable[[int], None]
"""Queue the computation on operand set number ``i``."""
Timer = Callable[[], float]
"""Seconds a call, one sample."""

TOLERANCE = {"bfloat16": 2.0**-6, "float16": 2.0**-9, "float32": 1e-4, "float64": 1e-9}
"""By the output's type: how far a result may lie from float64's, times its size and the typical size in its row."""
TF32 = 2.0**-8
SAMPLE = 2e-3
"""Seconds that a sample takes at least, about."""
SAMPLES = 9
PRODUCTS = ("matmul", "batch_matmul", "scaled_mm", "attention", "capsule_conv2d")
"""Beside convolutions: what is measured against the arithmetic peak."""


def torch_problem(world: World) -> str | None:
    """Why there is no PyTorch to compare with, or ``None``."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    if world.emulated:
        return None
    if world.driver.name != "cupy":
        return f"CUDA graphs need CuPy, not {world.driver.name}"
    import torch

    return None if torch.cuda.is_available() else f"PyTorch {torch.__version__} sees no GPU"


def has_rival(workload: Workload) -> bool:
    """Whether a library computes this operator."""
    return workload.op == "scaled_mm" or compared(workload)


def operations(workload: Workload) -> float:
    """Operations that a call needs: of causal attention, those on keys that a query sees."""
    sizes = dict(workload.params)
    if not sizes.get("is_causal"):
        return float(workload.flops)
    queries, keys = int(sizes["lq"]), int(sizes["lk"])
    return workload.flops * sum(min(i + 1, keys) for i in range(queries)) / (queries * keys)


def size_of(workload: Workload) -> int:
    """Bytes of the operands."""
    return sum(math.prod(s.shape) * ITEMSIZE[s.dtype] for s in (*workload.inputs, *workload.outputs))


def speed(world: World, task: Task, seconds: float) -> dict[str, Any]:
    """What a time is as a rate, and as a share of what bounds the operator, where that is known."""
    peaks = world.place.peaks(task)
    op = task.workload.op
    arithmetic = op in PRODUCTS or op.startswith("conv")
    rate = (operations(task.workload) if arithmetic else size_of(task.workload)) / seconds
    peak = peaks.flops if arithmetic else peaks.bandwidth
    return {"rate": rate, "unit": "operations/s" if arithmetic else "bytes/s", "share": rate / peak if peak else None}


@dataclass(frozen=True)
class Checked:
    """Operands, what PyTorch finds in float64, and whether our result must equal that to the bit."""

    inputs: Sequence[Any]
    want: Any
    exact: bool


class Bench:
    """Operands of one task; checks and timers of our kernels and of libraries on them."""

    def __init__(self, world: World, task: Task) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = task.workload.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = task.workload.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        if world.emulated:
            torch.set_num_threads(1)
        self.torch: Any = torch
        self.world, self.task, self.workload = world, task, task.workload
        self.where = "cpu" if world.emulated else "cuda"
        size = size_of(task.workload)
        l2 = int(world.target.limit["l2_bytes"])
        self.sets = 2 if world.emulated else max(2, min(64, -(-3 * l2 // size)))
        self._random = torch.Generator(device=self.where).manual_seed(0)
        self.inputs = [self._draw(None) for _ in range(self.sets)]
        kind = getattr(torch, task.workload.output.dtype)
        self.outputs = [torch.empty(task.workload.output.shape, dtype=kind, device=self.where) for _ in self.inputs]
        guess = max(task.workload.flops / 4e14, size / 4e12, 3e-6)
        self.launches = self.sets if world.emulated else max(self.sets, min(400, int(SAMPLE / guess)))

    def _draw(self, reach: int | None) -> list[Any]:
        """Inputs: normal where they are real, or whole numbers from ``-reach`` to ``reach``."""
        torch, found = self.torch, []
        for spec in self.workload.inputs:
            kind, options = getattr(torch, spec.dtype), {"device": self.where, "generator": self._random}
            if spec.dtype == "bool":
                found.append(torch.rand(spec.shape, **options) < 0.5)
            elif reach is not None:
                found.append(torch.randint(-reach, reach + 1, spec.shape, **options).to(kind))
            elif kind.is_floating_point:
                found.append(torch.randn(spec.shape, **options).to(kind))
            else:
                found.append(torch.randint(-127, 128, spec.shape, dtype=kind, **options))
        return found

    # ------------------------------------------------------------------ ours

    def address(self, tensor: Any) -> int:
        """Where a kernel finds a tensor: a copy in the emulated device's memory, or where it lies."""
        if not self.world.emulated:
            return int(tensor.data_ptr())
        values = as_array(tensor)
        address = self.world.context.allocate(values.nbytes)
        self.world.context.upload(address, values)
        return address

    def ours(self, bind: Bind) -> Call:
        """A kernel's calls on the operand sets."""
        addresses = [[self.address(t) for t in (*x, y)] for x, y in zip(self.inputs, self.outputs, strict=True)]
        queues = [bind(a) for a in addresses]
        if self.world.emulated:
            return lambda i: queues[i]()
        stream = self.torch.cuda.current_stream
        return lambda i: queues[i](stream().cuda_stream)

    def problem(self, bind: Bind) -> tuple[str, float]:
        """What is wrong with a kernel, empty where nothing is, and how far it is from float64 (norms)."""
        error = math.nan
        for case in self._cases:
            out = self.torch.full_like(self.outputs[0], math.nan if self.outputs[0].is_floating_point() else 85)
            addresses = [self.address(t) for t in (*case.inputs, out)]
            self._synchronize()
            bind(addresses)()
            self.world.context.synchronize()
            if self.world.emulated:
                values = as_array(out)
                self.world.context.download(addresses[-1], values)  # into the tensor: they share their memory
            got = out.double()
            if case.exact:
                wrong = got != case.want.to(out.dtype).double()
            else:
                scale = case.want.abs() + case.want.square().mean(-1, keepdim=True).sqrt()
                wrong = ~((got - case.want).abs() <= self._tolerance * scale)
                error = float((got - case.want).norm() / case.want.norm())
            if count := int(wrong.sum()):
                at = tuple(int(x) for x in self.torch.unravel_index(wrong.flatten().int().argmax(), wrong.shape))
                kind = "whole" if case.exact else "normal"
                found = f"element {at} is {float(got[at])}, PyTorch's {float(case.want[at])}"
                return f"{found}; {count} of {wrong.numel()} wrong ({kind} inputs)", error
        return "", error

    @property
    def _tolerance(self) -> float:
        return TF32 if self.workload.precision == "tf32" else TOLERANCE.get(self.workload.output.dtype, 0.0)

    @cached_property
    def _cases(self) -> list[Checked]:
        """Normal inputs, and whole ones where every sum of them is exact in any order."""
        program = Program.loads(self.workload.program)
        reach, exact = whole_reach(program)
        found = [Checked(self.inputs[0], self._wanted(self.inputs[0]), self.workload.output.dtype not in FLOATS)]
        if exact >= {s.name for s in program.stages}:
            whole = self._draw(reach)
            found.append(Checked(whole, self._wanted(whole), True))
        return found

    def _wanted(self, inputs: Sequence[Any]) -> Any:
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        if self.workload.op == "scaled_mm":
            return self._scaled(wide)
        variant = next(iter(variants_of(self.workload, wide).values()))
        return variant.result(variant.run(*variant.tensors)).double()

    def _scaled(self, wide: Sequence[Any]) -> Any:
        """A product of blocks with scales, of ``b`` turned, in float64."""
        (a, b, scale_a, scale_b), block = wide, int(dict(self.workload.params)["block"])
        of_a, of_b = (x.repeat_interleave(block, 1) for x in (scale_a, scale_b))
        return (a * of_a) @ (b * of_b.repeat_interleave(block, 0)).T

    # ------------------------------------------------------------------ the libraries

    def libraries(self) -> dict[str, Call]:
        """PyTorch's libraries by name, each way in which a user would call them; none where it has no such call."""
        torch, workload = self.torch, self.workload
        if not has_rival(workload):
            return {}
        if workload.op == "scaled_mm":
            return {"cublaslt": self._block_scaled()}
        if workload.op == "matmul" and len(workload.inputs) == 2 and workload.inputs[0].dtype != "int8":
            return {name: self._product(name) for name in ("cublas", "cublaslt")}
        every = [variants_of(workload, x) for x in self.inputs]
        if workload.op == "attention":
            kinds = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
            backends = torch.nn.attention.SDPBackend
            return {f"sdpa {k.lower().split('_')[0]}": self._forced(every, getattr(backends, k)) for k in kinds}
        family = "cudnn" if workload.op.startswith("conv") else "torch"
        return {f"{family} {name}": _variant(every, name) for name in every[0]}

    def _product(self, library: str) -> Call:
        torch, params = self.torch, dict(self.workload.params)
        sides = [
            (a.mT if params.get("trans_a") else a, b.mT if params.get("trans_b") else b) for a, b in self.inputs
        ]  # fmt: skip

        def call(i: int) -> None:
            if self.where == "cuda":
                torch.backends.cuda.preferred_blas_library(library)
            torch.matmul(*sides[i], out=self.outputs[i])

        return call

    def _block_scaled(self) -> Call:
        """PyTorch wants scales of rows with m contiguous, those of blocks as they lie turned."""
        torch = self.torch
        sides = [(a, b.t(), x.t().contiguous().t(), y.t()) for a, b, x, y in self.inputs]

        def call(i: int) -> None:
            a, b, x, y = sides[i]
            torch._scaled_mm(a, b, scale_a=x, scale_b=y, out_dtype=self.outputs[i].dtype, use_fast_accum=False)

        return call

    def _forced(self, every: Sequence[Variants], backend: Any) -> Call:
        from torch.nn.attention import sdpa_kernel

        def call(i: int) -> None:
            with sdpa_kernel(backend):
                v = every[i]["eager"]
                v.run(*v.tensors)

        return call

    def triton(self) -> Call | None:
        """Triton's kernel for the problem, which it tunes itself; ``None`` where there is none."""
        op, params = self.workload.op, dict(self.workload.params)
        if self.workload.inputs[0].dtype not in ("float16", "bfloat16"):
            return None
        plain = len(self.workload.inputs) == (2 if op == "matmul" else 3)
        if op == "matmul" and plain and not params.get("trans_a") and not params.get("trans_b"):
            from acceptance.triton_kernels import run_product

            return lambda i: run_product(*self.inputs[i], out=self.outputs[i])
        if op == "attention" and plain and params["lq"] == params["lk"] and int(params["lq"]) % 128 == 0:
            from acceptance.triton_kernels import run_attention

            causal = bool(params.get("is_causal"))
            return lambda i: run_attention(*self.inputs[i], out=self.outputs[i], causal=causal)
        return None

    # ------------------------------------------------------------------ times

    def timer(self, call: Call) -> Timer:
        """Samples of a call; what a library chooses at its first call is chosen here."""
        if self.world.emulated:
            call(0)
            return lambda: _wall(call, self.launches, self.sets)
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for i in range(self.sets):
                call(i)
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(self.launches):
                call(i % self.sets)
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def sample() -> float:
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            return float(start.elapsed_time(stop)) / 1e3 / self.launches

        return sample

    def _synchronize(self) -> None:
        if self.where == "cuda":
            self.torch.cuda.synchronize()


def _variant(every: Sequence[Variants], name: str) -> Call:
    def call(i: int) -> None:
        v = every[i][name]
        v.run(*v.tensors)

    return call


def _wall(call: Call, launches: int, sets: int) -> float:
    began = time.perf_counter()
    for i in range(launches):
        call(i % sets)
    return (time.perf_counter() - began) / launches


def median(sample: Timer) -> float:
    """Seconds a call: the middle of some samples, the first two left out."""
    return statistics.median([sample() for _ in range(SAMPLES + 2)][2:])


def pairs_of(ours: Timer, theirs: Timer, seconds: float) -> list[tuple[float, float]]:
    """Interleaved samples of the two sides, the order alternating, for about ``seconds``."""
    for side in (ours, theirs, ours, theirs):
        side()
    samples: list[tuple[float, float]] = []
    end = time.monotonic() + seconds
    while len(samples) < SAMPLES or (time.monotonic() < end and len(samples) < 201):
        if len(samples) % 2:
            b = theirs()
            samples.append((ours(), b))
        else:
            a = ours()
            samples.append((a, theirs()))
    return samples


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Median of the ratios and its 95% confidence interval by order statistics."""
    ordered = sorted(ratios)
    n = len(ordered)
    half = 0.98 * n**0.5
    low, high = max(0, int(n / 2 - half)), min(n - 1, int(n / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]

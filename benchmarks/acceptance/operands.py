"""One shape's operands as PyTorch's tensors, drawn where our kernels and the libraries read them, and what is right.

For the emulator the tensors lie in this process, and PyTorch computes on the processor.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from acceptance import reference
from acceptance.world import Bind, World
from tilewright.baselines.pytorch import as_array
from tilewright.core import Task, Workload
from tilewright.kernels.expression.expr import FLOATS, ITEMSIZE
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.reference import index_bounds
from tilewright.verifying.exact import whole_reach

Call = Callable[[int], None]
"""Queue the computation on operand set number ``i``."""

TOLERANCE = {"bfloat16": 2.0**-6, "float16": 2.0**-9, "float32": 1e-4, "float64": 1e-9}
"""By the output's type: how far a result may lie from float64's, times its size and the typical size in its row."""
TF32 = 2.0**-8


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


def size_of(workload: Workload) -> int:
    """Bytes of the operands."""
    return sum(math.prod(s.shape) * ITEMSIZE[s.dtype] for s in (*workload.inputs, *workload.outputs))


@dataclass(frozen=True)
class Checked:
    """Operands, what PyTorch finds in float64, and whether our result must equal that to the bit."""

    inputs: Sequence[Any]
    want: Any
    exact: bool


class Operands:
    """Operand sets of one task, together at least three times the L2 cache, and the check of a kernel on them."""

    def __init__(self, world: World, task: Task) -> None:
        import torch

        as_tf32 = task.workload.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = as_tf32
        torch.backends.cudnn.benchmark = False  # for float64; libraries choose by it
        if world.emulated:
            torch.set_num_threads(1)
        self.torch: Any = torch
        self.world, self.task, self.workload = world, task, task.workload
        self.where = "cpu" if world.emulated else "cuda"
        l2 = int(world.target.limit["l2_bytes"])
        self.sets = 2 if world.emulated else max(2, min(64, -(-3 * l2 // size_of(task.workload))))
        self._random = torch.Generator(device=self.where).manual_seed(0)
        self._program = Program.loads(task.workload.program)
        self._bounds = index_bounds(self._program)
        self.inputs = [self._draw() for _ in range(self.sets)]
        kind = getattr(torch, task.workload.output.dtype)
        self.outputs = [torch.empty(task.workload.output.shape, dtype=kind, device=self.where) for _ in self.inputs]

    def clear(self) -> None:
        """Let go of all tensors."""
        self.inputs.clear()
        self.outputs.clear()
        self.__dict__.pop("_cases", None)

    def _draw(self, reach: int | None = None, lengths: bool = False) -> list[Any]:
        """Inputs: normal where they are real, or whole numbers from ``-reach`` to ``reach``. Whole ones are indices,
        lengths (all of them the greatest, unless they are to differ), or over a range of their own."""
        return [self._drawn(tensor, reach, lengths) for tensor in self._program.inputs]

    def _drawn(self, tensor: Tensor, reach: int | None, lengths: bool) -> Any:
        torch, kind = self.torch, getattr(self.torch, tensor.dtype)
        options = {"device": self.where, "generator": self._random}
        if tensor.dtype == "bool":
            return torch.rand(tensor.shape, **options) < 0.5
        if kind.is_floating_point and reach is None:
            return torch.randn(tensor.shape, **options).to(kind)
        bound = self._bounds.get(tensor.name)
        if bound is not None and bound == math.prod(tensor.shape):  # pages of a cache: each is one sequence's
            return torch.randperm(bound, **options).to(kind).view(tensor.shape)
        if bound is None and tensor.high is not None and not lengths and not kind.is_floating_point:
            return torch.full(tensor.shape, int(tensor.high), dtype=kind, device=self.where)
        if bound is not None:
            return torch.randint(0, bound, tensor.shape, **options).to(kind)
        most = 127 if reach is None else reach
        low, high = (int(x) if x is not None else y for x, y in ((tensor.low, -most), (tensor.high, most)))
        return torch.randint(low, high + 1, tensor.shape, **options).to(kind)

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

    @property
    def checked_by(self) -> str:
        """What says whether a result is right."""
        return "PyTorch" if reference.known(self.workload) else "the reference"

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
        reach, exact = whole_reach(self._program)
        normal = self._draw(lengths=True)
        wanted = reference.result(self.workload, normal)
        found = [Checked(normal, wanted, self.workload.output.dtype not in FLOATS)]
        if exact >= {s.name for s in self._program.stages}:
            whole = self._draw(reach, lengths=True)
            found.append(Checked(whole, reference.result(self.workload, whole), True))
        return found

    def _synchronize(self) -> None:
        if self.where == "cuda":
            self.torch.cuda.synchronize()

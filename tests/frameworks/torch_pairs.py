"""Pairs of modules whose compiled graphs look alike: run as a process, which compiles the first or the second of each.

Parts are served by what their programs mean (NumPy), except products, which PyTorch computes behind them: so nothing is
tuned, and Inductor's graphs have no C++ to compile.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import tilewright
from tilewright.torch import backend

nn = torch.nn
ROWS, IMAGE = (8, 16), (1, 4, 8, 8)


class Of(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def typed(dtype: torch.dtype) -> Callable[[], nn.Module]:
    def made(x: Any) -> Any:
        y = (x * 1.5).relu().to(dtype)
        return y @ y.mT

    return lambda: Of(made)


def conv(**how: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Conv2d(4, 4, 3, **how)


Pair = tuple[Callable[[], nn.Module], Callable[[], nn.Module], tuple[int, ...], dict[str, Any]]
F32, F16, F64, BF16 = torch.float32, torch.float16, torch.float64, torch.bfloat16
PAIRS: dict[str, Pair] = {
    "float32, float16": (typed(F32), typed(F16), ROWS, {}),
    "float64, bfloat16": (typed(F64), typed(BF16), ROWS, {}),
    "float16, float64": (typed(F16), typed(F64), ROWS, {}),
    "sums of rows, of columns": (lambda: Of(lambda x: x.sum(1)), lambda: Of(lambda x: x.sum(0)), ROWS, {}),
    "a sum, a maximum": (lambda: Of(lambda x: x.sum(1)), lambda: Of(lambda x: x.amax(1)), ROWS, {}),
    "kept axes": (lambda: Of(lambda x: x.mean(1)), lambda: Of(lambda x: x.mean(1, keepdim=True)), ROWS, {}),
    "strides": (conv(padding=1), conv(padding=1, stride=2), IMAGE, {}),
    "paddings": (conv(padding=1), conv(), IMAGE, {}),
    "dilations": (conv(padding=2), conv(padding=2, dilation=2), IMAGE, {}),
    "same shapes": (conv(padding=2, dilation=2), conv(padding=1), IMAGE, {}),
    "windows": (lambda: nn.MaxPool2d(2), lambda: nn.AvgPool2d(2), IMAGE, {}),
    "sizes of windows": (lambda: nn.AvgPool2d(2), lambda: nn.AvgPool2d(4), IMAGE, {}),
    "numbers": (lambda: Of(lambda x: x * 2 + 1), lambda: Of(lambda x: x * 3 - 1), ROWS, {}),
    "axes of a softmax": (lambda: nn.Softmax(1), lambda: nn.Softmax(0), ROWS, {}),
    "a norm's epsilon": (lambda: nn.LayerNorm(16), lambda: nn.LayerNorm(16, eps=0.5), ROWS, {}),
    "activations": (nn.GELU, nn.SiLU, ROWS, {}),
    "autocast": (lambda: nn.Conv2d(4, 4, 1), lambda: nn.Conv2d(4, 4, 1), IMAGE, {"cast": True}),
    "sizes that change": (
        lambda: Of(lambda x: x.sum(1)), lambda: Of(lambda x: x.half().sum(1)), ROWS, {"dynamic": True},
    ),
    "shapes that change": (
        lambda: Of(F.silu), lambda: Of(lambda x: F.silu(x).flatten()), ROWS, {"dynamic": True},
    ),
    "gradients": (
        lambda: Of(lambda x: F.gelu(x).sum(1)), lambda: Of(lambda x: F.silu(x).amax(1)), ROWS, {"train": True},
    ),
}  # fmt: skip


def compile_and_compare(place: int, library: tilewright.Library) -> None:
    def find(workload: Any, device: Any = None) -> Any:
        product = workload.op.startswith(("mm", "matmul"))
        return None if product else library.resolver.untuned(workload, "a test")

    def make(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, find, backend.Rest("inductor"))

    for name, pair in PAIRS.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        module, how = pair[place](), pair[3]
        cast = torch.autocast("cpu", BF16) if "cast" in how and place else contextlib.nullcontext()
        run = torch.compile(module, backend=make, fullgraph=True, dynamic=how.get("dynamic", False))
        served = library.stats().calls
        found = []
        for call in (module, run):
            x = torch.linspace(-2, 2, 512)[: torch.Size(pair[2]).numel()].view(pair[2]).requires_grad_("train" in how)
            with torch.set_grad_enabled("train" in how), cast:
                result = call(x)
            if "train" in how:
                result.square().sum().backward()
            found.append([result.detach(), x.grad])
        low = found[0][0].dtype in (F16, BF16)
        close = {"rtol": 3e-2, "atol": 3e-2} if low else {"rtol": 1e-4, "atol": 1e-5}
        for got, wanted in zip(found[1], found[0], strict=True):
            torch.testing.assert_close(got, wanted, **close, msg=lambda text, name=name: f"{name}: {text}")
        assert library.stats().calls > served, f"{name}: nothing was placed"


if __name__ == "__main__":
    torch.set_num_threads(1)
    database, *places = sys.argv[1:]
    for place in places:
        compile_and_compare(int(place), tilewright.Library(database, missing_ok=True, watch=False))
        hits = torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"]
        print(hits)

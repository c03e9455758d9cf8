"""Traces of modules for CUDA without a GPU: PyTorch traces them with fake tensors, which have no memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tilewright.torch import native
from tilewright.torch.backend import of_aten, run_eagerly
from tilewright.torch.captured import handing_on
from tilewright.torch.recurrent import lowered

DEVICE = torch.device("cuda", 0)


@cache
def ready() -> None:
    """Register a CUDA device with PyTorch, for the rest of the process."""
    if torch.version.cuda is None:
        extension = replace(native.extension(), source=Path(__file__).with_suffix(".cpp"), headers=())
        path = extension.path()
        assert path is not None, "fake_cuda.cpp does not compile"
        ctypes.CDLL(path)


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """The attention operators that PyTorch chooses on a GPU, for a PyTorch without CUDA that cannot choose."""
    how = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
    if attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, **how)[0]
    if attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, 0.0, float("-inf")).to(query.dtype)
    bias = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, bias, False, **how)[0]


@contextmanager
def fake_cuda() -> Iterator[Callable[[Any], Any]]:
    """Enters a mode of fake tensors; yields a function that makes a tensor or tuple fake, or a module in place."""
    ready()
    mode, proxies = FakeTensorMode(allow_non_fake_inputs=True), torch.fx.experimental.proxy_tensor

    def fake(a: Any) -> Any:
        if isinstance(a, torch.nn.Parameter):
            return torch.nn.Parameter(fake(a.detach()), a.requires_grad)
        if isinstance(a, torch.Tensor):
            return FakeTensor(mode, a.detach().to("meta"), DEVICE)
        if isinstance(a, tuple | list):
            return type(a)(map(fake, a))
        for part in a.modules() if isinstance(a, torch.nn.Module) else ():
            for held in (part._parameters, part._buffers, vars(part)):
                held.update({n: fake(t) for n, t in held.items() if isinstance(t, torch.Tensor)})
        return a

    with ExitStack() as stack:
        stack.enter_context(mode)
        if torch.version.cuda is None:
            library: Any = torch.library.Library("aten", "IMPL")
            stack.callback(library._destroy)
            for key in ("CUDA", "AutogradCUDA"):
                library.impl("scaled_dot_product_attention", _attention, key)
        for place, name, instead in (
            (torch.nn.RNNBase, "flatten_parameters", lambda self: None),  # it calls cuDNN
            (proxies, "CONSTANT_NUMEL_LIMIT", 0),  # PyTorch computes constants up to this size on the device
            (FakeTensorMode, "avoid_device_init", property(lambda self: True)),
        ):
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, instead)
        yield fake


def graphs_of(module: Any, arguments: Sequence[Any]) -> list[torch.fx.GraphModule]:
    """Returns the graphs of ATen operators that PyTorch traces for a call without gradients."""
    found: list[torch.fx.GraphModule] = []

    def note(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Any:
        found.append(graph)
        return run_eagerly(graph)

    def made(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return of_aten(lowered(graph, inputs) or graph, inputs, note, note)

    torch._dynamo.reset()
    compile: Any = torch.compile
    with torch.no_grad(), handing_on():
        compile(module, backend=made, dynamic=False)(*arguments)
    return found

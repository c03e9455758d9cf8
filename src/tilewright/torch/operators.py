"""``torch.ops.tilewright``: PyTorch's operators, answered by tuned kernels, with ATen's schemas.

Each operator has an implementation for the CPU and for backends' devices, one for fake tensors, a gradient, and one
clear error for other devices. Results are dense: row-major, or channels last where a convolution reads images with
channels last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from tilewright.core import TilewrightError
from tilewright.torch import gradients
from tilewright.torch.serving import check_memory, format_of, reference, serve, serving


@dataclass(frozen=True)
class Declaration:
    """An operator; ``function``: PyTorch's function with equal arguments."""

    name: str
    arguments: str
    function: Callable[..., torch.Tensor]
    gradient: gradients.Gradient

    @property
    def narrows(self) -> bool:
        """Whether autocast computes it in the low-precision type, as PyTorch does: products, convolutions and
        attention."""
        return not self.name.endswith(("softmax", "norm", "_backward"))

    @property
    def widens(self) -> bool:
        """Whether autocast on a GPU computes it in float32, as PyTorch does: softmax and norms."""
        return self.name.endswith(("softmax", "norm"))

    @property
    def schema(self) -> str:
        return f"{self.name}({self.arguments}) -> Tensor"


def _convolution(rank: int, function: Callable[..., torch.Tensor]) -> Declaration:
    window = f"SymInt[{rank}] stride=1, SymInt[{rank}] padding=0, SymInt[{rank}] dilation=1, SymInt groups=1"
    arguments = f"Tensor input, Tensor weight, Tensor? bias=None, {window}"
    return Declaration(f"conv{rank}d", arguments, function, gradients.CONVOLUTION)


def _transposed(rank: int, function: Callable[..., torch.Tensor]) -> Declaration:
    window = (
        f"SymInt[{rank}] stride=1, SymInt[{rank}] padding=0, SymInt[{rank}] output_padding=0, SymInt groups=1, "
        f"SymInt[{rank}] dilation=1"
    )
    arguments = f"Tensor input, Tensor weight, Tensor? bias=None, {window}"
    return Declaration(f"conv_transpose{rank}d", arguments, function, gradients.TRANSPOSED)


def _attention(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None, gqa: bool) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=gqa)


DECLARATIONS = (
    Declaration("mm", "Tensor self, Tensor mat2", torch.mm, gradients.MM),
    Declaration("bmm", "Tensor self, Tensor mat2", torch.bmm, gradients.BMM),
    Declaration("matmul", "Tensor self, Tensor other", torch.matmul, gradients.MATMUL),
    Declaration("linear", "Tensor input, Tensor weight, Tensor? bias=None", F.linear, gradients.LINEAR),
    _convolution(1, F.conv1d),
    _convolution(2, F.conv2d),
    _convolution(3, F.conv3d),
    _transposed(1, F.conv_transpose1d),
    _transposed(2, F.conv_transpose2d),
    Declaration(
        "layer_norm",
        "Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05",
        F.layer_norm,
        gradients.LAYER_NORM,
    ),
    Declaration(
        "rms_norm",
        "Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None",
        F.rms_norm,
        gradients.RMS_NORM,
    ),
    *(
        Declaration(
            name,
            "Tensor grad_output, Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float eps=" + eps,
            partial(gradients.norm_backward, centred),
            gradients.NONE,
        )
        for name, eps, centred in (("layer_norm_backward", "1e-05", True), ("rms_norm_backward", "1e-06", False))
    ),
    *(
        Declaration(
            name,
            "Tensor grad_output, Tensor output, int dim",
            partial(gradients.softmax_backward, name),
            gradients.NONE,
        )
        for name in ("softmax_backward", "log_softmax_backward")
    ),
    Declaration("softmax", "Tensor self, int dim", torch.softmax, gradients.SOFTMAX),
    Declaration("log_softmax", "Tensor self, int dim", torch.log_softmax, gradients.LOG_SOFTMAX),
    Declaration(
        "scaled_dot_product_attention",
        "Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, bool is_causal=False, float? scale=None, "
        "bool enable_gqa=False",
        _attention,
        gradients.ATTENTION,
    ),
)
"""Every operator. ``scaled_dot_product_attention`` has no dropout: the gradient would need the same random numbers."""


@dataclass(frozen=True)
class Registration:
    """An operator to register: its schema, its Python implementation, and the implementation for fake tensors."""

    schema: str
    kernel: Callable[..., torch.Tensor]
    fake: Callable[..., torch.Tensor]

    @property
    def name(self) -> str:
        return self.schema.partition("(")[0]


NAMES = tuple(d.name for d in DECLARATIONS)

_libraries: list[Any] = []  # own the registrations


def _fake(name: str, function: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
    devices = [a.device if isinstance(a, torch.Tensor) else None for a in args]
    odd = next((n for n, d in enumerate(devices) if d not in (None, devices[0])), None)
    if odd is not None:
        raise TypeError(
            f"tilewright::{name}: argument {odd + 1} is on the device {devices[odd]}, not {devices[0]}. Move it there"
        )
    given = filled(name, args)
    made = function(*given)
    return torch.empty_like(made, memory_format=format_of(name, given))


def _elsewhere(name: str, *args: Any) -> torch.Tensor:
    check_memory(name, args)
    place = next((n for n, a in enumerate(args) if isinstance(a, torch.Tensor) and a.layout is not torch.strided), 0)
    raise TypeError(
        f"tilewright::{name}: argument {place + 1} has the layout {args[place].layout}. Pass its to_dense()"
    )


def filled(name: str, args: tuple[Any, ...], keywords: dict[str, Any] | None = None) -> tuple[Any, ...]:
    """All arguments of an operator, with the defaults that the dispatcher leaves out."""
    given = keywords or {}
    declared = getattr(torch.ops.tilewright, name).default._schema.arguments
    rest = declared[len(args) :]
    return (*args, *(given.get(a.name, a.default_value) for a in rest))


def _kernel(name: str, *args: Any) -> torch.Tensor:
    return serve(name, filled(name, args))


DEVICES = ("CPU", "CUDA", "PrivateUse1")
"""PyTorch's dispatch keys of devices that kernels are registered for; the last key is a third-party device."""


def _autocast(name: str, device: str, narrows: bool, *args: Any) -> torch.Tensor:
    """The operator in autocast's type, or in float32 for an operator that does not ``narrow``; float64 is kept, as in
    PyTorch."""
    kind = torch._C._get_privateuse1_backend_name() if device == "PrivateUse1" else device.lower()
    dtype = torch.get_autocast_dtype(kind) if narrows else torch.float32

    def cast(a: Any) -> Any:
        narrow = isinstance(a, torch.Tensor) and a.is_floating_point() and a.dtype != torch.float64
        return a.to(dtype) if narrow else a

    found: Any = torch._C
    key = getattr(found.DispatchKey, f"Autocast{device}")
    with found._ExcludeDispatchKeyGuard(found.DispatchKeySet(key)):
        made: torch.Tensor = getattr(torch.ops.tilewright, name).default(*map(cast, args))
        return made


def register(graphs: Registration) -> None:
    """Defines the operators, and the operator of compiled graphs, once; a second call does nothing.

    The Python implementations get the operators' own names or, if C++ answers first, the namespace that C++ falls back
    on. The operator ``graphs`` of compiled graphs always runs in Python.
    """
    from torch._library.autograd import Info, make_autograd_impl

    if _libraries:
        return
    made: Any = torch.library
    defined = made.Library("tilewright", "DEF")
    python = defined if serving.native is None else made.Library("tilewright_python", "DEF")
    _libraries.extend((defined, python))
    answered = [
        Registration(d.schema, partial(_kernel, d.name), partial(_fake, d.name, d.function)) for d in DECLARATIONS
    ]
    for r, computing in (*((r, python) for r in answered), (graphs, defined)):
        for library in {id(x): x for x in (defined, computing)}.values():
            library.define(r.schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.register_fake(f"tilewright::{r.name}", r.fake, lib=defined)
        for device in DEVICES:
            computing.impl(r.name, r.kernel, device)
    for d in DECLARATIONS:
        reference(d.name, d.function)
        op = getattr(torch.ops.tilewright, d.name).default
        gradient = make_autograd_impl(op, Info(d.gradient.backward, d.gradient.save))
        python.impl(d.name, gradient, "Autograd", with_keyset=True)
        defined.impl(d.name, partial(_elsewhere, d.name), "CompositeExplicitAutograd")
        for device in DEVICES:
            if d.narrows or (d.widens and device != "CPU"):
                defined.impl(d.name, partial(_autocast, d.name, device, d.narrows), f"Autocast{device}")
    if serving.native is not None and not serving.native.register(NAMES):
        raise TilewrightError("PyTorch refuses kernels in C++", "Set CXX=none: operators then go through Python")

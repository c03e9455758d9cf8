"""PyTorch as a baseline: the fastest of the ways in which a user would compute a workload with it.

A variant is a layout (contiguous, channels last) and, where the workload's weights are constant, weights prepacked by
oneDNN or MKL. Inputs are converted before the clock starts. An operator is one function here and one entry in
``_MAKERS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

with suppress(ImportError):  # the list of compared operators needs no torch
    import torch
    import torch.nn.functional as f

if TYPE_CHECKING:
    from tilewright.core import Value, Workload

Array = np.ndarray[Any, Any]
Tensor = Any  # torch is typed only where it is installed


@dataclass(frozen=True)
class Variant:
    """One way to compute: ``run(*tensors)``, and the conversion of its result into the workload's output."""

    run: Callable[..., Tensor]
    tensors: tuple[Tensor, ...]
    result: Callable[[Tensor], Tensor] = lambda y: y


Variants = dict[str, Variant]
Params = Mapping[str, "Value"]
Maker = Callable[[Params, dict[str, Tensor], frozenset[str]], Variants]


def variants(workload: Workload, inputs: Sequence[Array]) -> Variants:
    """Every variant by name. Raises ``KeyError`` for an operator that is not compared with PyTorch."""
    tensors = [as_tensor(a, s.dtype) for s, a in zip(workload.inputs, inputs, strict=True)]
    return variants_of(workload, tensors, frozenset(s.name for s in workload.inputs if s.constant))


def variants_of(workload: Workload, tensors: Sequence[Tensor], constants: frozenset[str] = frozenset()) -> Variants:
    """Every variant by name, for tensors on any device; ``constants`` names inputs that the CPU's libraries may
    prepack."""
    named = {s.name: t for s, t in zip(workload.inputs, tensors, strict=True)}
    return _MAKERS[workload.op](dict(workload.params), named, constants)


def compared(workload: Workload) -> bool:
    """Whether this operator is compared with PyTorch."""
    return workload.op in _MAKERS


def as_tensor(a: Array, dtype: str) -> Tensor:
    """An array as a tensor of ``dtype``, sharing its memory; a bfloat16 array holds bits."""
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if dtype == "bfloat16" else torch.from_numpy(a)


def as_array(y: Tensor) -> Array:
    """A result as an array; reals that NumPy lacks become bits."""
    y = y.contiguous()
    if y.dtype == torch.bfloat16 or (y.is_floating_point() and y.itemsize == 1):
        y = y.view(torch.uint16 if y.itemsize == 2 else torch.uint8)
    out: Array = y.numpy()
    return out


def _each(value: Value, axes: int) -> list[int]:
    """A per-axis attribute, such as ``2`` or ``2,1``, as a list."""
    parts = [int(p) for p in str(value).split(",")]
    return parts * axes if len(parts) == 1 else parts


def _activate(name: str) -> Callable[[Tensor], Tensor]:
    known: dict[str, Callable[[Tensor], Tensor]] = {
        "none": lambda y: y,
        "relu": f.relu,
        "gelu": f.gelu,
        "gelu_tanh": lambda y: f.gelu(y, approximate="tanh"),
        "silu": f.silu,
    }
    return known[name]


# --------------------------------------------------------------------------- products


def _matmul(p: Params, t: dict[str, Tensor], constants: frozenset[str]) -> Variants:
    (_, a), (b_name, b), *more = t.items()
    a = a.transpose(-1, -2) if p.get("trans_a") else a
    b = b.transpose(-1, -2) if p.get("trans_b") else b
    bias, residual = t.get("bias"), t.get("residual")
    after = _activate(str(p.get("activation", "none")))

    def finish(y: Tensor) -> Tensor:
        y = after(y if bias is None else y + bias)
        return y if residual is None else y + residual

    plain = not more and p.get("activation", "none") == "none"
    if a.dtype == torch.int8:
        return {"int_mm": Variant(lambda a, b: finish(torch._int_mm(a, b)), (a, b))}
    found = {"eager": Variant(torch.matmul if plain else lambda a, b: finish(a @ b), (a, b))}
    if bias is not None and a.ndim == 2:
        found["linear"] = Variant(
            lambda a, w: after(f.linear(a, w, bias)) + (0 if residual is None else residual), (a, b.t().contiguous())
        )
    if b_name in constants and a.ndim == 2 and a.dtype in (torch.float32, torch.bfloat16):
        transposed = b.t().contiguous()
        packed = torch.ops.mkldnn._reorder_linear_weight(transposed, a.shape[0])
        found["oneDNN, packed"] = Variant(
            lambda a, w: finish(torch.ops.mkldnn._linear_pointwise(a, w, None, "none", [], "")), (a, packed)
        )
        backends: Any = torch.backends
        if a.dtype == torch.float32 and backends.mkl.is_available():
            mkl = torch.ops.mkl._mkl_reorder_linear_weight(transposed, a.shape[0])
            found["MKL, packed"] = Variant(
                lambda a, w, o: finish(torch.ops.mkl._mkl_linear(a, w, o, None, a.shape[0])), (a, mkl, transposed)
            )
    return found


def _complex_matmul(p: Params, t: dict[str, Tensor], constants: frozenset[str]) -> Variants:
    a, b = (
        z.transpose(-1, -2) if p[f"trans_{name}"] else z
        for name, z in ((name, torch.view_as_complex(x)) for name, x in t.items())
    )
    a, b = (z.conj() if p[f"conj_{name}"] else z for name, z in (("a", a), ("b", b)))
    return {"eager": Variant(torch.matmul, (a, b), torch.view_as_real)}


# --------------------------------------------------------------------------- convolutions


@dataclass(frozen=True)
class _Conv:
    """A convolution over ``axes`` axes in PyTorch's own layout, channels first, from its parameters and tensors.

    ``constant``: whether its weight is constant; ``result``: converts PyTorch's result into the workload's output.
    """

    axes: int
    transposed: bool
    p: Params
    t: dict[str, Tensor]
    constant: bool
    result: Callable[[Tensor], Tensor]

    def each(self, name: str, default: int) -> list[int]:
        """An attribute by axis."""
        return _each(self.p.get(name, default), self.axes)

    def variants(self, x: Tensor, w: Tensor) -> Variants:
        """Every variant of the convolution."""
        stride, padding, dilation = self.each("stride", 1), self.each("padding", 0), self.each("dilation", 1)
        groups, bias, after = int(self.p.get("groups", 1)), self.t.get("bias"), _finish(self.p, self.t)
        extra = {"output_padding": self.each("output_padding", 0)} if self.transposed else {}
        plain = getattr(f, f"conv{'_transpose' if self.transposed else ''}{self.axes}d")

        def eager(x: Tensor, w: Tensor) -> Tensor:
            return after(plain(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, **extra))

        x, w = x.contiguous(), w.contiguous()
        found = {"contiguous": Variant(eager, (x, w), self.result)}
        if self.axes == 1:
            return found | self.as_rows(x, w)
        form = torch.channels_last if self.axes == 2 else torch.channels_last_3d
        near = x.to(memory_format=form)
        found["channels last"] = Variant(eager, (near, w.to(memory_format=form)), self.result)
        if not self.constant or (self.transposed and self.axes == 3):
            return found
        onednn = torch.ops.mkldnn
        how = (padding, *extra.values(), stride, dilation, groups)
        if self.transposed:
            pack, pointwise = onednn._reorder_convolution_transpose_weight, onednn._convolution_transpose_pointwise
        else:
            pack, pointwise = onednn._reorder_convolution_weight, onednn._convolution_pointwise
        packed = pack(w, *how, list(x.shape))

        def rearranged(x: Tensor, w: Tensor) -> Tensor:
            return after(pointwise(x, w, bias, *how, "none", [], ""))

        found["oneDNN, packed"] = Variant(rearranged, (x, packed), self.result)
        found["oneDNN, packed, channels last"] = Variant(rearranged, (near, packed), self.result)
        return found

    def as_rows(self, x: Tensor, w: Tensor) -> Variants:
        """Variants of a one-dimensional convolution as a two-dimensional one of height 1, which oneDNN computes
        faster."""
        rows = dict(self.p)
        for name, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)):
            rows[name] = f"{default},{self.each(name, default)[0]}"
        flat = replace(self, axes=2, p=rows, result=lambda y: self.result(y.squeeze(2)))
        return {f"as 2-D, {name}": v for name, v in flat.variants(x.unsqueeze(2), w.unsqueeze(2)).items()}


def _conv(axes: int, transposed: bool = False) -> Maker:
    def maker(p: Params, t: dict[str, Tensor], constants: frozenset[str]) -> Variants:
        x, w, last = t["input"], t["weight"], str(p["layout"]).endswith("C")
        back = (0, *range(2, axes + 2), 1)
        if last:
            x = x.permute(0, axes + 1, *range(1, axes + 1))
            w = w.permute(*((axes, axes + 1) if transposed else (axes + 1, axes)), *range(axes))
        result: Callable[[Tensor], Tensor] = (lambda y: y.permute(back)) if last else (lambda y: y)
        return _Conv(axes, transposed, p, t, "weight" in constants, result).variants(x, w)

    return maker


def _finish(p: Params, t: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """Batch normalisation and activation after a convolution."""
    activate = _activate(str(p.get("activation", "none")))
    if not p.get("batch_norm"):
        return activate
    mean, var = t["running_mean"], t["running_var"]
    weight, bias, eps = t.get("bn_weight"), t.get("bn_bias"), float(p.get("eps", 1e-5))
    return lambda y: activate(f.batch_norm(y, mean, var, weight, bias, False, 0.0, eps))


def _capsule(p: Params, t: dict[str, Tensor], constants: frozenset[str]) -> Variants:
    x, w = t["input"], t["weight"]
    n, h, wide, cap, inner, ci = x.shape
    kh, kw, _, out, _, co = w.shape
    # Each row of the pose matrix becomes an image.
    x = x.permute(0, 3, 4, 5, 1, 2).reshape(n * cap, inner * ci, h, wide)
    w = w.permute(3, 5, 2, 4, 0, 1).reshape(out * co, inner * ci, kh, kw)

    def back(y: Tensor) -> Tensor:
        return y.reshape(n, cap, out, co, *y.shape[2:]).permute(0, 4, 5, 1, 2, 3)

    return _Conv(2, False, p, {}, "weight" in constants, back).variants(x, w)


# --------------------------------------------------------------------------- rows


def _softmax(name: str) -> Maker:
    def maker(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
        dim = int(p.get("dim", -1))
        return {"eager": Variant(lambda x: getattr(f, name)(x, dim), tuple(t.values()))}

    return maker


def _layer_norm(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    x, weight, bias = t["input"], t.get("weight"), t.get("bias")
    shape = list(weight.shape) if weight is not None else _each(p.get("normalized_shape", x.shape[-1]), 1)
    eps = float(p.get("eps", 1e-5))
    return _of_sum(lambda x: f.layer_norm(x, shape, weight, bias, eps), t)


def _rms_norm(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    x, weight = t["input"], t.get("weight")
    shape = list(weight.shape) if weight is not None else [x.shape[-1]]
    eps = float(p.get("eps", 1e-6))
    return _of_sum(lambda x: f.rms_norm(x, shape, weight, eps), t)


def _of_sum(run: Callable[[Tensor], Tensor], t: dict[str, Tensor]) -> Variants:
    """``run`` of the input, after its residual is added, if there is one."""
    if "residual" in t:
        return {"eager": Variant(lambda x, r: run(x + r), (t["input"], t["residual"]))}
    return {"eager": Variant(run, (t["input"],))}


def _group_norm(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    groups, eps, weight, bias = int(p["num_groups"]), float(p["eps"]), t.get("weight"), t.get("bias")
    return {"eager": Variant(lambda x: f.group_norm(x, groups, weight, bias, eps), (t["input"],))}


def _norm(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    (x,) = t.values()
    dim = [int(d) for d in str(p["dim"]).split(",")]
    order, keep = float(p.get("ord", 2)), bool(p.get("keepdim", False))
    return {"eager": Variant(lambda x: torch.linalg.vector_norm(x, order, dim=dim, keepdim=keep), (x,))}


# --------------------------------------------------------------------------- attention


def _attention(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    q, k, v, mask = t["query"], t["key"], t["value"], t.get("attn_mask")
    scale = float(p["scale"]) if p.get("scale") else None
    shared = q.shape[1] != k.shape[1]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return f.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=bool(p.get("is_causal", False)), scale=scale, enable_gqa=shared
        )

    return {"eager": Variant(run, (q, k, v))}


def _tbs(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    q, k = t.values()
    return {
        "eager": Variant(lambda q, k: torch.softmax(q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1), -1), (q, k)),
    }


# --------------------------------------------------------------------------- maps and reductions


def _elementwise(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    from tilewright.kernels.nn.formula import FUNCTIONS, names

    text = str(p["fn"])
    names("elementwise", text)  # refuses any text that is not a plain formula
    known = {n: getattr(torch, n, None) for n in FUNCTIONS}
    known |= {"relu": f.relu, "gelu": f.gelu, "gelu_tanh": _activate("gelu_tanh"), "silu": f.silu}
    run = eval(f"lambda {', '.join(t)}: {text}", {"__builtins__": {}, "inf": math.inf, "pi": math.pi, **known})
    return {"eager": Variant(run, tuple(t.values()))}


def _permute(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    (x,) = t.values()
    dims = [int(d) for d in str(p["dims"]).split(",")]
    return {"eager": Variant(lambda x: x.permute(dims).contiguous(), (x,))}


def _transpose(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
    (x,) = t.values()
    first, second = int(p["dim0"]), int(p["dim1"])
    return {"eager": Variant(lambda x: x.transpose(first, second).contiguous(), (x,))}


def _reduction(name: str) -> Maker:
    def maker(p: Params, t: dict[str, Tensor], _: frozenset[str]) -> Variants:
        (x,) = t.values()
        dims = [int(d) for d in str(p["dim"]).split(",")]
        keep = bool(p.get("keepdim", False))
        over = dims[0] if name in ("argmax", "argmin", "prod") else dims
        return {"eager": Variant(lambda x: getattr(torch, name)(x, over, keepdim=keep), (x,))}

    return maker


_REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin")

_MAKERS: dict[str, Maker] = {
    **{name: _reduction(name) for name in _REDUCTIONS},
    "elementwise": _elementwise,
    "permute": _permute,
    "transpose": _transpose,
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "complex_matmul": _complex_matmul,
    "conv1d": _conv(1),
    "conv2d": _conv(2),
    "conv3d": _conv(3),
    "conv_transpose1d": _conv(1, transposed=True),
    "conv_transpose2d": _conv(2, transposed=True),
    "capsule_conv2d": _capsule,
    **{name: _softmax(name) for name in ("softmax", "log_softmax")},
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "norm": _norm,
    "attention": _attention,
    "tbs": _tbs,
}

"""Descriptions of PyTorch's tensors that requests depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright.runtime.requests import DTYPES, Tensor

_DTYPES = {getattr(torch, n): n for n in DTYPES}


def described(args: Sequence[Any]) -> list[Any]:
    """The arguments, with tensors replaced by descriptions."""
    return [_described(a) for a in args]


def _described(a: Any) -> Any:
    if not isinstance(a, torch.Tensor):
        return a
    plain = a.layout is torch.strided and not a.is_neg() and not a.is_conj()
    dense = plain and a.is_contiguous()
    transposed = plain and not dense and a.dim() > 1 and a.transpose(-1, -2).is_contiguous()
    order: tuple[int, ...] = ()
    if plain and not dense:
        strides = a.stride()
        order = tuple(sorted(range(a.dim()), key=lambda d: (-strides[d], d)))
        order = order if a.permute(order).is_contiguous() else ()
    return Tensor(tuple(a.shape), _DTYPES.get(a.dtype, str(a.dtype)), dense, transposed, plain, order)

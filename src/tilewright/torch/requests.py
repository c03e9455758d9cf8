"""What a call of a PyTorch operator asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright.runtime import requests
from tilewright.runtime.requests import NoRequest, Request, Tensor

_DTYPES = {getattr(torch, n): n for n in requests.DTYPES}


def request(name: str, args: Sequence[Any]) -> Request:
    """The request of ``torch.ops.tilewright.<name>(*args)``, with defaults filled in. Raises ``NoRequest``."""
    return requests.request(name, described(args))


def described(args: Sequence[Any]) -> list[Any]:
    """The arguments with every tensor as far as requests depend on it."""
    return [_described(a) for a in args]


def _described(a: Any) -> Any:
    if not isinstance(a, torch.Tensor):
        return a
    plain = a.layout is torch.strided and not a.is_neg() and not a.is_conj()
    dense = plain and a.is_contiguous()
    turned = plain and not dense and a.dim() > 1 and a.transpose(-1, -2).is_contiguous()
    order: tuple[int, ...] = ()
    if plain and not dense:
        strides = a.stride()
        order = tuple(sorted(range(a.dim()), key=lambda d: (-strides[d], d)))
        order = order if a.permute(order).is_contiguous() else ()
    return Tensor(tuple(a.shape), _DTYPES.get(a.dtype, str(a.dtype)), dense, turned, plain, order)


__all__ = ["NoRequest", "Request", "described", "request"]

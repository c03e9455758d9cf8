"""What a workload's result is: PyTorch's in float64, on the device where its operands lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.baselines.pytorch import compared, variants_of
from tilewright.core import Value, Workload

Tensor = Any  # PyTorch's
SCORES = 1 << 27
"""Scores of an attention that are computed at once: 1 GiB in float64."""
UNKNOWN_HERE = ("mask", "score_mod")
"""Attributes of an attention that are left to the project's own reference, where they are set."""


def known(workload: Workload) -> bool:
    """Whether :func:`result` computes it."""
    params = dict(workload.params)
    if workload.op == "attention":
        return all(params.get(name, "none") in ("none", "") for name in UNKNOWN_HERE)
    if workload.op == "dequant_matmul" and (params.get("bias") or params.get("activation", "none") != "none"):
        return False
    return workload.op in _OWN or compared(workload)


def result(workload: Workload, inputs: Sequence[Tensor]) -> Tensor:
    """In float64; whole numbers stay what they are."""
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    if own := _OWN.get(workload.op):
        return own(dict(workload.params), wide)
    variant = next(iter(variants_of(workload, wide).values()))
    return variant.result(variant.run(*variant.tensors)).double()


def _scaled(params: Mapping[str, Value], inputs: Sequence[Tensor]) -> Tensor:
    """A product of blocks with scales."""
    a, b, scale_a, scale_b, *bias = inputs
    block, columns = int(params["block"]), int(params["n"])
    if params["trans_b"]:
        b, scale_b = b.T, scale_b.T
    of_b = scale_b.repeat_interleave(block, 0)[: b.shape[0]]
    if not params["by_column"]:
        of_b = of_b.repeat_interleave(block, 1)[:, :columns]
    out = (a * scale_a.repeat_interleave(block, 1)[:, : a.shape[1]]) @ (b * of_b)
    return out + bias[0] if bias else out


def _grouped(_params: Mapping[str, Value], inputs: Sequence[Tensor]) -> Tensor:
    """Each row by the matrix of its group."""
    x, weight, group = inputs
    out = x.new_empty(x.shape[0], weight.shape[2])
    for g in range(weight.shape[0]):
        mine = group == g
        out[mine] = x[mine] @ weight[g]
    return out


def _dequantised(params: Mapping[str, Value], inputs: Sequence[Tensor]) -> Tensor:
    """A product with int8 weights."""
    x, weight, scale = inputs
    weight = (weight.T if params["trans_b"] else weight).double()
    if size := int(params["group_size"]):
        scale = scale.repeat_interleave(size, 0)
    return x @ (weight * scale)


def _attention(params: Mapping[str, Value], inputs: Sequence[Tensor]) -> Tensor:
    """Sequence by sequence and head of keys by head, so that long ones fit in memory."""
    import torch

    query, key, value, *rest = inputs
    table = rest.pop() if params["page"] else None
    lengths = rest.pop() if params["lengths"] else None
    (b, h, lq, d), lk = query.shape, int(params["lk"])
    heads = int(params["hk"] or h)
    each, scale = h // heads, float(params["scale"] or 1 / math.sqrt(d))
    out = query.new_empty(b, h, lq, value.shape[-1])
    step = max(1, SCORES // (each * lk))
    for n in range(b):
        keys, values = (
            (x[table[n].long()].flatten(0, 1).transpose(0, 1) for x in (key, value))
            if table is not None
            else (key[n], value[n])
        )
        held = lk if lengths is None else int(lengths[n])
        for g in range(heads):
            k, v = keys[g, :held], values[g, :held]
            for first in range(0, lq, step):
                q = query[n, g * each : (g + 1) * each, first : first + step]
                score = q @ k.T * scale
                if params["is_causal"]:
                    shift = first if lengths is None else first + held - lq
                    unseen = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).triu(shift + 1)
                    score.masked_fill_(unseen, -math.inf)
                out[n, g * each : (g + 1) * each, first : first + step] = score.softmax(-1) @ v
    return out


_OWN: dict[str, Callable[[Mapping[str, Value], Sequence[Tensor]], Tensor]] = {
    "scaled_mm": _scaled,
    "grouped_matmul": _grouped,
    "dequant_matmul": _dequantised,
    "attention": _attention,
}

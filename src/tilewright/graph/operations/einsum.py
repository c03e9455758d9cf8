"""Einstein summation."""

from __future__ import annotations

from typing import Any

from tilewright.graph.operations.handlers import Attributes, OnnxBuild, onnx
from tilewright.graph.operations.table import register
from tilewright.kernels import nn, te

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _einsum(*operands: te.TensorRef, equation: str) -> te.TensorRef:
    return nn.einsum(equation, *operands)


register("einsum", "contraction", _einsum)


@onnx("Einsum")
def _onnx_einsum(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """An ellipsis stands for the axes that the letters leave, which stretch."""
    text = "".join(a["equation"].decode().split())
    left, arrow, right = text.partition("->")
    terms, operands = left.split(","), list(node.input)
    if "." in text:
        ranks = [len(build.shape(x)) - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)]
        most = max(r for r, t in zip(ranks, terms, strict=True) if "." in t)
        free = [c for c in LETTERS if c not in text][:most]
        if not arrow:
            letters = left.replace("...", "").replace(",", "")
            right = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        terms = [t.replace("...", "".join(free[most - r :])) for t, r in zip(terms, ranks, strict=True)]
        right = right.replace("...", "".join(free))
        arrow = "->"
    sizes: dict[str, int] = {}
    for t, x in zip(terms, operands, strict=True):
        for c, n in zip(t, build.shape(x), strict=True):
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    for k, (t, x) in enumerate(zip(terms, operands, strict=True)):
        ones = [d for d, (c, n) in enumerate(zip(t, build.shape(x), strict=True)) if n != sizes[c]]
        if ones:  # an axis of one element belongs to all
            operands[k] = build.reshaped(x, [n for d, n in enumerate(build.shape(x)) if d not in ones])
            terms[k] = "".join(c for d, c in enumerate(t) if d not in ones)
    build.add("einsum", operands, node.output[0], equation=",".join(terms) + arrow + right)

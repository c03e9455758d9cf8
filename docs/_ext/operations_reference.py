"""What of PyTorch's and ONNX's operators kernels compute, as the table of operations has it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tilewright.graph.operations import ATEN, ONNX, REFUSED


def aten(_docs: Path) -> str:
    """ATen's operators, overloads of one together."""
    return _listed({name.partition(".")[0] for name in ATEN if not name.startswith("tilewright.")})


def onnx(_docs: Path) -> str:
    """ONNX's operators, those of other domains last, and what is left."""
    own, others = (_listed(n for n in ONNX if ("." in n) is other) for other in (False, True))
    left = sorted(n for n in REFUSED if n[0].isupper())
    reasons = "\n".join(f"| `{n}` | {REFUSED[n]} |" for n in left)
    return f"{own}\n{others}\nLeft to onnxruntime:\n\n| operator | why |\n|---|---|\n{reasons}\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in sorted(names)) + ".\n"

"""Libraries that compute the same, as a user of PyTorch would call them, and Triton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acceptance.operands import Call, Operands
from tilewright.baselines.pytorch import Variants, compared, variants_of
from tilewright.core import Workload

OWN = ("scaled_mm", "grouped_matmul")
"""Operators whose calls are written here."""


def has_rival(workload: Workload) -> bool:
    """Whether a library computes this operator. PyTorch's attention knows neither pages nor lengths."""
    params = dict(workload.params)
    return (workload.op in OWN or compared(workload)) and not params.get("page") and not params.get("lengths")


def as_they_lie(workload: Workload, name: str) -> bool:
    """Whether a library of :func:`libraries` reads the operands in our layout, not one of its own choice."""
    last = str(dict(workload.params).get("layout", "")).endswith("C")
    return last or not name.endswith(" channels last")


def libraries(x: Operands) -> dict[str, Call]:
    """PyTorch's libraries by name, each way in which a user would call them; none where it has no such call."""
    torch, workload = x.torch, x.workload
    torch.backends.cudnn.benchmark = True
    if not has_rival(workload):
        return {}
    if workload.op == "scaled_mm":
        return {"cublaslt": _block_scaled(x)}
    if workload.op == "grouped_matmul":
        return {"torch grouped_mm, rows in order": _grouped(x)}
    if workload.op == "matmul" and len(workload.inputs) == 2 and workload.inputs[0].dtype != "int8":
        return {name: _product(x, name) for name in ("cublas", "cublaslt")}
    every = [variants_of(workload, inputs) for inputs in x.inputs]
    if workload.op == "attention":
        kinds = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
        backends = torch.nn.attention.SDPBackend
        return {f"sdpa {k.lower().split('_')[0]}": _forced(every, getattr(backends, k)) for k in kinds}
    family = "cudnn" if workload.op.startswith("conv") else "torch"
    return {f"{family} {name}": _variant(every, name) for name in every[0]}


def _product(x: Operands, library: str) -> Call:
    torch, params = x.torch, dict(x.workload.params)
    sides = [
        (a.mT if params.get("trans_a") else a, b.mT if params.get("trans_b") else b) for a, b in x.inputs
    ]  # fmt: skip

    def call(i: int) -> None:
        if x.where == "cuda":
            torch.backends.cuda.preferred_blas_library(library)
        torch.matmul(*sides[i], out=x.outputs[i])

    return call


def _block_scaled(x: Operands) -> Call:
    """PyTorch wants scales of rows with m contiguous, also those of ``b``'s columns; those of blocks as they lie
    turned."""
    torch, by_column = x.torch, bool(dict(x.workload.params)["by_column"])
    sides = [
        (a, b.t(), of_a.t().contiguous().t(), (of_b.t().contiguous() if by_column else of_b.t()))
        for a, b, of_a, of_b in x.inputs
    ]

    def call(i: int) -> None:
        a, b, of_a, of_b = sides[i]
        torch._scaled_mm(a, b, scale_a=of_a, scale_b=of_b, out_dtype=x.outputs[i].dtype, use_fast_accum=False)

    return call


def _grouped(x: Operands) -> Call:
    """PyTorch takes rows that lie in the order of their groups, and where each group ends; ours finds them."""
    torch, sides = x.torch, []
    for rows, weight, group in x.inputs:
        counts = torch.bincount(group, minlength=weight.shape[0])
        sides.append((rows[group.argsort()].contiguous(), weight, counts.cumsum(0).to(torch.int32)))

    def call(i: int) -> None:
        rows, weight, ends = sides[i]
        torch._grouped_mm(rows, weight, offs=ends)

    return call


def _forced(every: Sequence[Variants], backend: Any) -> Call:
    from torch.nn.attention import sdpa_kernel

    def call(i: int) -> None:
        with sdpa_kernel(backend):
            v = every[i]["eager"]
            v.run(*v.tensors)

    return call


def _variant(every: Sequence[Variants], name: str) -> Call:
    def call(i: int) -> None:
        v = every[i][name]
        v.run(*v.tensors)

    return call


def triton(x: Operands) -> Call | None:
    """Triton's kernel for the problem, which it tunes itself; ``None`` where there is none."""
    op, params, inputs = x.workload.op, dict(x.workload.params), x.workload.inputs
    if inputs[0].dtype not in ("float16", "bfloat16"):
        return None
    plain = len(inputs) == (2 if op == "matmul" else 3)
    if op == "matmul" and plain and not params.get("trans_a") and not params.get("trans_b"):
        from acceptance.triton_kernels import run_product

        return lambda i: run_product(*x.inputs[i], out=x.outputs[i])
    same = op == "attention" and plain and params["lq"] == params["lk"] and not params["hk"] and not params["dv"]
    if same and int(params["lq"]) % 128 == 0:
        from acceptance.triton_kernels import run_attention

        causal = bool(params.get("is_causal"))
        return lambda i: run_attention(*x.inputs[i], out=x.outputs[i], causal=causal)
    return None

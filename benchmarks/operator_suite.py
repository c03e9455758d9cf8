"""Rows, maps, 16-bit, int8 and complex products and attention, against PyTorch and memcpy, one core.

    python benchmarks/operator_suite.py --out benchmarks/results/operator_suite

``memcpy`` copies as many bytes as the operator reads and writes: the bound of whatever is limited by memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suite import Case, arguments, run

ROWS = ("1024,1024", "32,8192")
CUBES = ((128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (1, 4096, 4096), (16, 4096, 1024))


def cases() -> Iterator[Case]:
    """The cases, by group."""
    for op in ("softmax", "layer_norm", "rms_norm"):
        for shape in ROWS:
            yield Case("rows", f"{op} {shape}", op, {"shape": shape})
    for shape in ("1024,1024", "2048,2048", "4096,4096"):
        yield Case("maps", f"transpose {shape}", "transpose", {"shape": shape})
    yield Case("maps", "permute 8,512,64,16", "permute", {"shape": "8,512,64,16", "dims": "0,2,1,3"})
    yield Case("maps", "permute 64,128,512", "permute", {"shape": "64,128,512", "dims": "2,0,1"})
    for shape in ("1024,1024", "4096,4096"):
        yield Case("maps", f"gelu(x*2 + y) {shape}", "elementwise", {"shape": shape, "fn": "gelu(x*2 + y)"})
        yield Case("maps", f"relu(x) + y {shape}", "elementwise", {"shape": shape, "fn": "relu(x) + y"})
    for dtype in ("bfloat16", "int8"):
        for m, n, k in CUBES:
            params: dict[str, Any] = {"m": m, "n": n, "k": k, "dtype": dtype, "constant": "b"}
            yield Case(dtype, f"matmul {m}x{n}x{k}", "matmul", params)
    for m, n, k in ((96, 96, 96), *CUBES[1:3]):
        yield Case("complex", f"complex_matmul {m}x{n}x{k}", "complex_matmul", {"m": m, "n": n, "k": k})
    for length in (512, 2048):
        for causal in (False, True):
            params = {"b": 1, "h": 8, "lq": length, "lk": length, "d": 64, "is_causal": causal}
            yield Case("attention", f"8 heads, {length} long{', causal' if causal else ''}", "attention", params)


def facts() -> dict[str, Any]:
    """What torch says of itself."""
    import torch

    return {"torch": torch.__version__, "torch_capability": torch.backends.cpu.get_cpu_capability()}


if __name__ == "__main__":
    run(list(cases()), ("torch", "memcpy"), arguments(__doc__).parse_args(), "Operators, float32 unless said,", facts)

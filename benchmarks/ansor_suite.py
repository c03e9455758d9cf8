"""Ansor's single-operator suite (arXiv 2006.06762, appendix C) and subgraphs, against PyTorch, one core.

    python benchmarks/ansor_suite.py --out benchmarks/results/ansor_suite
    python benchmarks/ansor_suite.py --subgraphs --out benchmarks/results/ansor_subgraphs

Ten operators, four shapes, batch 1 and 16, float32. Ours reads activations in NHWC and weights that are
constant, hence rearranged before the first call; torch is the best of its layouts, with its weights
rearranged by oneDNN too. The subgraphs are compared with torch.compile's default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from suite import Case, arguments, run
from tilewright.core import Value

C1D = ((256, 64, 128, 3, 2, 1), (128, 128, 256, 1, 2, 0), (64, 256, 256, 5, 1, 2), (32, 512, 512, 3, 1, 1))
C2D = ((224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 64, 1, 1, 0), (14, 14, 256, 256, 3, 1, 1), (7, 7, 512, 512, 3, 1, 1))
GRP = ((56, 56, 64, 128, 3, 2, 1), *C2D[1:])  # three channels do not fall into four groups
GMM = ((128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024))
DEP = ((112, 112, 32, 3, 1, 1), (112, 112, 64, 3, 2, 1), (14, 14, 512, 3, 2, 1), (7, 7, 1024, 3, 1, 1))
T2D = ((4, 4, 512, 256, 4, 2, 1), (8, 8, 256, 128, 4, 2, 1), (16, 16, 128, 64, 4, 2, 1), (32, 32, 64, 3, 4, 2, 1))
CAP = ((16, 16, 32, 32, 3, 2, 1), (8, 8, 32, 32, 3, 1, 1), (16, 16, 8, 16, 3, 2, 1), (8, 8, 16, 16, 3, 1, 1))
NRM = ((256, 256), (512, 512), (1024, 1024), (4096, 1024))
CONV_LAYER = ((224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 64, 3, 2, 1), (28, 28, 128, 256, 1, 2, 0), C2D[3])
TBS = ((128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128))


def _name(shape: tuple[int, ...], n: int) -> str:
    return f"{'x'.join(map(str, shape))} b{n}"


def conv2d(shape: tuple[int, ...], n: int, **more: Value) -> dict[str, Value]:
    """Parameters of a convolution from (H, W, Ci, Co, k, s, p)."""
    h, w, ci, co, k, s, p = shape
    return {
        "n": n, "ci": ci, "h": h, "w": w, "co": co, "kh": k, "kw": k, "stride": s, "padding": p, "layout": "NHWC",
        "constant": "weight", **more,
    }  # fmt: skip


def cases() -> Iterator[Case]:
    """The suite."""
    for n in (1, 16):
        for s in C1D:
            length, ci, co, k, stride, p = s
            params: Mapping[str, Value] = {
                "n": n, "ci": ci, "w": length, "co": co, "kw": k, "stride": stride, "padding": p, "layout": "NWC",
                "constant": "weight",
            }  # fmt: skip
            yield Case("C1D", _name(s, n), "conv1d", params)
        for s in C2D:
            yield Case("C2D", _name(s, n), "conv2d", conv2d(s, n))
        for s in C2D:
            params = conv2d(s, n) | {"d": 16, "kd": s[4], "layout": "NDHWC"}
            yield Case("C3D", _name(s, n), "conv3d", params)
        for s in GMM:
            params = {"b": n, "m": s[0], "n": s[1], "k": s[2]}
            yield Case("GMM", _name(s, n), "batch_matmul", params)
        for s in GRP:
            yield Case("GRP", _name(s, n), "conv2d", conv2d(s, n, groups=4))
        for s in C2D:
            yield Case("DIL", _name(s, n), "conv2d", conv2d(s, n, dilation=2))
        for s in DEP:
            h, w, c, *rest = s
            yield Case("DEP", _name(s, n), "conv2d", conv2d((h, w, c, c, *rest), n, groups=c))
        for s in T2D:
            yield Case("T2D", _name(s, n), "conv_transpose2d", conv2d(s, n))
        for s in CAP:
            h, w, ci, co, k, stride, p = s
            params = {
                "n": n, "h": h, "w": w, "ci": ci, "co": co, "kh": k, "kw": k, "cap_h": 4, "cap_k": 4, "cap_w": 4,
                "stride": stride, "padding": p, "constant": "weight",
            }  # fmt: skip
            yield Case("CAP", _name(s, n), "capsule_conv2d", params)
        for s in NRM:
            yield Case("NRM", _name(s, n), "norm", {"shape": f"{n},{s[0]},{s[1]}", "dim": "1,2"})


def subgraphs() -> Iterator[Case]:
    """Convolution, batch normalisation and ReLU; two transposes, a batched product and a softmax."""
    constants = "weight,running_mean,running_var,bn_weight,bn_bias"
    for n in (1, 16):
        for s in CONV_LAYER:
            params = conv2d(s, n, batch_norm=True, activation="relu") | {"constant": constants}
            yield Case("ConvLayer", _name(s, n), "conv2d", params)
        for length, heads, hidden in TBS:
            size = {"b": n, "seq": length, "heads": heads, "hidden": hidden}
            yield Case("TBS", _name((length, heads, hidden), n), "tbs", size)


def facts() -> dict[str, Any]:
    """What torch says of itself."""
    import torch

    return {"torch": torch.__version__, "torch_capability": torch.backends.cpu.get_cpu_capability()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--subgraphs", action="store_true", help="ConvLayer and TBS against torch.compile")
    args = parser.parse_args()
    if args.subgraphs:
        run(list(subgraphs()), ("torch-compile", "torch"), args, "Ansor's subgraphs, float32,", facts)
    else:
        run(list(cases()), ("torch",), args, "Ansor's operator suite, float32,", facts)


if __name__ == "__main__":
    main()

"""What the CUDA benchmarks run: odd shapes of every template, and how they are dealt out.

Sizes are small enough for the emulator and awkward on purpose: primes, ones, sizes below and just above a
tile, every layout, every dtype, fused epilogues, convolutions with padding, strides and dilation.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import operator, te
from tilewright.core import Target, Task, Value, Workload
from tilewright.kernels.operator import Operator
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import TEMPLATES

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
SHAPES_A_SCHEDULE = 4


@operator
def squared_distance(m: int, n: int, k: int, dtype: str = "float32") -> te.TensorRef:
    """``out[i, j] = sum_k (a[i, k] - b[j, k])^2``: a contraction that is no product."""
    a, b = te.input("a", (m, k)), te.input("b", (n, k))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (a[i, r] - b[j, r]) ** 2))


@operator
def max_plus(m: int, n: int, k: int) -> te.TensorRef:
    """``out[i, j] = max_k (a[i, k] + b[k, j])``: another monoid than the sum."""
    a, b = te.input("a", (m, k)), te.input("b", (k, n))
    return te.compute((m, n), lambda i, j: te.max(k, lambda r: a[i, r] + b[r, j]))


_OWN: dict[str, Operator] = {"squared_distance": squared_distance, "max_plus": max_plus}


@dataclass(frozen=True)
class Shape:
    """An operator with sizes and attributes."""

    op: str
    params: tuple[tuple[str, Value], ...]

    @property
    def operator(self) -> Operator:
        return _OWN.get(self.op) or get_operator(self.op)

    @property
    def workload(self) -> Workload:
        return self.operator.workload(**dict(self.params))

    @property
    def label(self) -> str:
        return " ".join([self.op, *(f"{k}={v}" for k, v in self.params)])


def parse_shape(text: str) -> Shape:
    """A shape from its label: ``matmul m=33 n=65 k=17``."""
    op, *pairs = text.split()
    params: list[tuple[str, Value]] = []
    for pair in pairs:
        name, _, value = pair.partition("=")
        number: Value = int(value) if value.isdigit() else {"true": True, "false": False}.get(value, value)
        params.append((name, number))
    return Shape(op, tuple(params))


SIMT = tuple(
    map(
        parse_shape,
        (
            "matmul m=33 n=65 k=17",
            "matmul m=1 n=130 k=67",
            "matmul m=70 n=1 k=37 trans_b=true",
            "matmul m=64 n=64 k=64",
            "matmul m=129 n=31 k=8 trans_a=true",
            "matmul m=47 n=53 k=1 trans_a=true trans_b=true",
            "matmul m=36 n=44 k=100 bias=true activation=relu",
            "matmul m=19 n=72 k=131 residual=true activation=gelu",
            "matmul m=40 n=40 k=257 trans_b=true",
            "matmul m=23 n=29 k=31 dtype=float64",
            "matmul m=65 n=34 k=33 dtype=float16",
            "matmul m=34 n=66 k=40 dtype=bfloat16 bias=true activation=silu",
            "matmul m=17 n=48 k=65 dtype=int8",
            "batch_matmul b=3 m=17 n=33 k=20",
            "batch_matmul b=2 m=40 n=24 k=9 trans_b=true bias=true",
            "conv2d n=1 ci=3 h=9 w=11 co=5 kh=3 kw=3 padding=1",
            "conv2d n=2 ci=4 h=12 w=8 co=16 kh=3 kw=3 stride=2 padding=1 bias=true activation=relu",
            "conv2d n=1 ci=8 h=7 w=7 co=9 kh=3 kw=2 dilation=2",
            "squared_distance m=37 n=29 k=23",
            "max_plus m=30 n=41 k=19",
        ),
    )
)
"""For templates without Tensor Cores."""

MMA = tuple(
    map(
        parse_shape,
        (
            "matmul m=33 n=65 k=17 dtype=float16",
            "matmul m=1 n=136 k=64 dtype=float16",
            "matmul m=70 n=8 k=33 dtype=float16 trans_b=true",
            "matmul m=64 n=64 k=64 dtype=float16",
            "matmul m=130 n=31 k=48 dtype=float16 trans_a=true",
            "matmul m=48 n=56 k=72 dtype=float16 trans_a=true trans_b=true",
            "matmul m=40 n=40 k=257 dtype=float16 bias=true activation=relu",
            "matmul m=80 n=96 k=144 dtype=bfloat16",
            "matmul m=17 n=72 k=130 dtype=bfloat16 residual=true activation=gelu",
            "matmul m=36 n=100 k=1 dtype=bfloat16 trans_b=true",
            "matmul m=65 n=34 k=96 dtype=bfloat16 out_dtype=float32 trans_a=true",
            "matmul m=64 n=72 k=40 precision=tf32",
            "matmul m=31 n=33 k=37 precision=tf32 trans_b=true",
            "matmul m=40 n=16 k=68 precision=tf32 trans_a=true bias=true",
            "matmul m=48 n=80 k=64 dtype=int8",
            "matmul m=33 n=17 k=97 dtype=int8 trans_b=true",
            "matmul m=50 n=64 k=32 dtype=int8 trans_a=true",
            "batch_matmul b=3 m=40 n=33 k=24 dtype=float16",
            "batch_matmul b=2 m=17 n=64 k=80 dtype=bfloat16 trans_b=true bias=true",
            "batch_matmul b=2 m=24 n=24 k=33 precision=tf32",
        ),
    )
)
"""For templates that use Tensor Cores."""

WGMMA = tuple(
    map(
        parse_shape,
        (
            "matmul m=33 n=64 k=24 dtype=float16",
            "matmul m=1 n=136 k=64 dtype=float16",
            "matmul m=70 n=8 k=32 dtype=float16 trans_b=true",
            "matmul m=136 n=31 k=48 dtype=float16 trans_a=true trans_b=true",
            "matmul m=48 n=56 k=72 dtype=bfloat16 trans_a=true",
            "matmul m=40 n=40 k=264 dtype=bfloat16 bias=true activation=relu",
            "matmul m=130 n=264 k=144 dtype=bfloat16 residual=true",
            "matmul m=65 n=40 k=96 dtype=bfloat16 out_dtype=float32",
            "matmul m=33 n=17 k=96 dtype=int8 trans_b=true",
            "scaled_mm m=70 n=256 k=272 trans_b=true",
            "scaled_mm m=13 n=136 k=272 trans_b=true by_column=true bias=true",
            "matmul m=70 n=40 k=100 trans_b=true precision=tf32_truncated",
            "batch_matmul b=3 m=40 n=32 k=24 dtype=float16",
            "batch_matmul b=2 m=17 n=64 k=80 dtype=bfloat16 trans_b=true bias=true",
            "conv2d n=2 ci=40 h=9 w=7 co=24 kh=3 kw=3 padding=1 stride=2 layout=NHWC dtype=float16",
        ),
    )
)
"""For warp groups: rows of whole pieces of 16 bytes."""

ROWS = tuple(
    map(
        parse_shape,
        (
            "softmax shape=9,52",
            "softmax shape=3,1300",
            "softmax shape=2,5,6,7 dim=1",
            "softmax shape=5,136 dtype=float16",
            "log_softmax shape=35,67 dtype=bfloat16",
            "layer_norm shape=7,64 dtype=float16",
            "layer_norm shape=3,5,130",
            "rms_norm shape=33,24",
            "rms_norm shape=2,2050 dtype=bfloat16",
            "argmax shape=11,130 dtype=float16",
            "argmax shape=3,1600",
            "sum shape=40,96 dtype=int32",
            "sum shape=1,6000 dtype=float64",
            "sum shape=70,45 dim=0",
            "amax shape=19,23",
            "norm shape=6,75",
        ),
    )
)
"""For templates of rows."""

PLAIN = tuple(
    map(
        parse_shape,
        (
            "elementwise shape=12,40",
            "elementwise shape=1023 dtype=float16",
            "cast shape=33,31 dtype=float16",
            "transpose shape=72,100",
            "transpose shape=33,35 dtype=float64",
            "transpose shape=52,36 dtype=int8",
            "permute shape=2,40,68 dims=0,2,1 dtype=float16",
            "permute shape=3,17,4,20 dims=2,3,0,1",
            "batch_norm shape=2,5,6,8",
            "embedding shape=21 num_embeddings=11 embedding_dim=24",
        ),
    )
)
"""For templates without reductions."""

WINDOWS = tuple(
    map(
        parse_shape,
        (
            "conv2d n=2 ci=5 h=9 w=11 co=5 kh=3 kw=3 padding=1 groups=5",
            "conv2d n=1 ci=16 h=9 w=10 co=16 kh=3 kw=3 padding=1 stride=2 groups=16 layout=NHWC dtype=float16",
            "conv1d n=2 ci=6 w=40 co=12 kw=5 groups=6",
            "max_pool2d n=2 c=3 h=13 w=12 kernel_size=3 stride=2 padding=1",
            "avg_pool2d n=1 c=8 h=10 w=7 kernel_size=3 stride=1 layout=NHWC",
            "max_pool1d n=3 c=2 w=50 kernel_size=4 stride=1",
        ),
    )
)
"""For stencils."""

ATTENTIONS = tuple(
    map(
        parse_shape,
        (
            "attention b=1 h=2 lq=37 lk=50 d=16 dtype=float16",
            "attention b=1 h=2 lq=70 lk=70 d=24 dtype=bfloat16 is_causal=true",
            "attention b=2 h=4 hk=2 lq=40 lk=130 d=72 dtype=float16",
            "attention b=1 h=1 lq=9 lk=260 d=32 dtype=bfloat16",
            "attention b=2 h=2 hk=1 lq=40 lk=72 d=16 page=24 lengths=true dtype=float16",
            "attention b=1 h=2 lq=21 lk=37 d=12",
            "attention b=1 h=2 lq=33 lk=40 d=7 is_causal=true",
        ),
    )
)
"""Of 16-bit operands and float32, with few queries and with more."""

GROUPED = tuple(
    map(
        parse_shape,
        (
            "grouped_matmul m=33 n=65 k=17 groups=4",
            "grouped_matmul m=70 n=36 k=40 groups=3",
            "grouped_matmul m=5 n=31 k=67 groups=9",
            "grouped_matmul m=23 n=29 k=31 groups=2 dtype=float64",
            "grouped_matmul m=64 n=64 k=64 groups=4 dtype=float16",
            "grouped_matmul m=37 n=31 k=48 groups=5 dtype=float16",
            "grouped_matmul m=17 n=72 k=33 groups=3 dtype=bfloat16",
            "grouped_matmul m=130 n=40 k=136 groups=6 dtype=bfloat16",
        ),
    )
)
"""For rows that choose their matrix."""

GROUPED_WGMMA = tuple(
    map(
        parse_shape,
        (
            "grouped_matmul m=64 n=64 k=64 groups=4 dtype=float16",
            "grouped_matmul m=37 n=40 k=48 groups=5 dtype=float16",
            "grouped_matmul m=17 n=72 k=33 groups=3 dtype=bfloat16",
            "grouped_matmul m=130 n=40 k=136 groups=6 dtype=bfloat16",
        ),
    )
)
"""For warp groups that multiply them."""

SHAPES: dict[str, Sequence[Shape]] = {
    "cuda_attention": ATTENTIONS, "cuda_simt": SIMT, "cuda_mma": MMA, "cuda_wgmma": WGMMA, "cuda_grouped": GROUPED,
    "cuda_grouped_wgmma": GROUPED_WGMMA, "cuda_rows": ROWS,
    "cuda_map": PLAIN, "cuda_stencil": WINDOWS, "cuda_generic": (*ROWS, *PLAIN, *WINDOWS),
}  # fmt: skip

DEEP: dict[str, Sequence[Shape]] = {
    "cuda_grouped": tuple(
        map(
            parse_shape,
            (
                "grouped_matmul m=160 n=70 k=200 groups=3",
                "grouped_matmul m=150 n=72 k=400 groups=3 dtype=float16",
                "grouped_matmul m=160 n=133 k=401 groups=4 dtype=bfloat16",
            ),
        )
    ),
    "cuda_grouped_wgmma": tuple(
        map(
            parse_shape,
            (
                "grouped_matmul m=160 n=72 k=520 groups=3 dtype=float16",
                "grouped_matmul m=150 n=136 k=651 groups=2 dtype=bfloat16",
            ),
        )
    ),
    "cuda_simt": tuple(
        map(
            parse_shape,
            (
                "matmul m=150 n=70 k=200",
                "matmul m=67 n=133 k=261 trans_a=true trans_b=true bias=true activation=relu",
                "matmul m=136 n=72 k=256",
                "batch_matmul b=2 m=70 n=65 k=150 trans_b=true",
                "conv2d n=2 ci=16 h=11 w=9 co=70 kh=3 kw=3 padding=1",
                "matmul m=70 n=37 k=150 dtype=float64",
                "matmul m=70 n=66 k=200 dtype=float16 residual=true",
                "squared_distance m=70 n=69 k=150",
            ),
        )
    ),
    "cuda_mma": tuple(
        map(
            parse_shape,
            (
                "matmul m=150 n=72 k=400 dtype=float16",
                "matmul m=136 n=136 k=512 dtype=bfloat16 trans_b=true bias=true activation=relu",
                "matmul m=67 n=133 k=401 dtype=float16 trans_a=true trans_b=true",
                "matmul m=72 n=136 k=392 dtype=bfloat16 trans_a=true",
                "matmul m=70 n=68 k=204 precision=tf32",
                "matmul m=72 n=72 k=200 precision=tf32 trans_a=true residual=true",
                "matmul m=80 n=80 k=640 dtype=int8 trans_b=true",
                "scaled_mm m=72 n=136 k=640 block=64 trans_b=true",
                "batch_matmul b=2 m=70 n=72 k=264 dtype=float16",
            ),
        )
    ),
    "cuda_wgmma": tuple(
        map(
            parse_shape,
            (
                "matmul m=150 n=72 k=520 dtype=float16",
                "matmul m=136 n=136 k=648 dtype=bfloat16 trans_b=true bias=true activation=relu",
                "matmul m=72 n=136 k=520 dtype=bfloat16 trans_a=true",
                "matmul m=80 n=80 k=1040 dtype=int8 trans_b=true",
                "scaled_mm m=72 n=136 k=1040 trans_b=true",
                "batch_matmul b=2 m=70 n=72 k=520 dtype=float16",
                "conv2d n=2 ci=120 h=9 w=8 co=72 kh=3 kw=3 padding=1 layout=NHWC dtype=bfloat16",
            ),
        )
    ),
}
"""Shapes with so many tiles along every axis that pipelines go round and tiles come in groups."""


def cuda_templates() -> list[str]:
    """The templates that generate CUDA, by name."""
    return [n for n, t in TEMPLATES.items() if "cuda" in t.kinds]


def shapes_of(template: str, target: Target) -> list[Shape]:
    """The shapes that a template can compute: its own list, or whatever of all lists it matches."""
    listed = SHAPES.get(template, (*SIMT, *MMA))
    return [s for s in listed if TEMPLATES[template].matches(Task(s.workload, target))]


def dealt(shapes: Sequence[Shape], count: int, each: int = SHAPES_A_SCHEDULE, seed: int = 0) -> list[list[Shape]]:
    """``each`` different shapes for every one of ``count`` schedules; all shapes come up equally often."""
    rng = random.Random(seed)
    out: list[list[Shape]] = []
    deck: list[Shape] = []
    for _ in range(count):
        hand: list[Shape] = []
        while len(hand) < min(each, len(shapes)):
            if not deck:
                deck = list(shapes)
                rng.shuffle(deck)
            at = next((n for n, s in enumerate(deck) if s not in hand), None)
            if at is None:
                deck = []
                continue
            hand.append(deck.pop(at))
        out.append(hand)
    return out


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

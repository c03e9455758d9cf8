"""The shapes of an acceptance run. On the emulator small ones stand for those that are timed."""

from __future__ import annotations

from cuda_cases import Shape, parse_shape
from tilewright.core import TilewrightError


def _shapes(text: str) -> tuple[Shape, ...]:
    return tuple(parse_shape(line) for line in text.strip().splitlines())


ODD = _shapes("""
matmul m=127 n=129 k=65 dtype=bfloat16
matmul m=1 n=4096 k=512 dtype=bfloat16
matmul m=1000 n=37 k=513 dtype=bfloat16
matmul m=256 n=256 k=256 dtype=float16
matmul m=255 n=120 k=72 dtype=float16 trans_a=true
matmul m=64 n=200 k=104 dtype=bfloat16 trans_b=true
matmul m=77 n=91 k=33 dtype=float16 trans_a=true trans_b=true
matmul m=128 n=128 k=96 precision=tf32
matmul m=63 n=61 k=59 precision=tf32 trans_b=true
matmul m=192 n=136 k=160 dtype=int8
matmul m=65 n=70 k=75 dtype=int8 trans_b=true
matmul m=129 n=127 k=63
matmul m=1 n=1000 k=300
matmul m=300 n=200 k=100 dtype=float64
matmul m=96 n=80 k=64 dtype=bfloat16 bias=true activation=gelu residual=true
matmul m=100 n=90 k=80 bias=true activation=relu
matmul m=70 n=40 k=100 trans_b=true precision=tf32_truncated
matmul m=129 n=65 k=68 trans_a=true precision=tf32_truncated
matmul m=97 n=72 k=67 bias=true precision=tf32x3
scaled_mm m=70 n=256 k=272 trans_b=true
scaled_mm m=13 n=136 k=272 trans_b=true by_column=true bias=true
scaled_mm m=72 n=136 k=640 block=64 dtype=float8_e5m2
batch_matmul b=3 m=65 n=72 k=40 dtype=bfloat16
grouped_matmul m=130 n=72 k=104 groups=5 dtype=bfloat16
grouped_matmul m=97 n=61 k=45 groups=7
conv1d n=2 ci=24 w=33 co=20 kw=5 padding=2 stride=2 dtype=float16
conv2d n=2 ci=5 h=13 w=17 co=12 kh=3 kw=3 padding=1
conv2d n=2 ci=32 h=15 w=13 co=40 kh=3 kw=3 padding=1 stride=2 groups=2 layout=NHWC dtype=bfloat16
conv2d n=1 ci=19 h=14 w=14 co=21 kh=3 kw=3 padding=2 dilation=2 dtype=float16
conv2d n=3 ci=72 h=15 w=13 co=40 kh=3 kw=5 padding=1,2 stride=2,1 layout=NHWC dtype=bfloat16
conv2d n=2 ci=24 h=15 w=17 co=24 kh=3 kw=3 padding=1 groups=24 layout=NHWC dtype=bfloat16
conv3d n=1 ci=8 d=7 h=9 w=8 co=12 kd=3 kh=3 kw=3 padding=1 layout=NDHWC dtype=bfloat16
conv3d n=2 ci=40 d=5 h=9 w=8 co=24 kd=3 kh=1 kw=2 padding=1,0,0 layout=NDHWC dtype=float16
conv_transpose2d n=2 ci=16 h=9 w=8 co=12 kh=4 kw=4 stride=2 padding=1 dtype=bfloat16
conv_transpose2d n=1 ci=16 h=9 w=8 co=12 kh=3 kw=3 stride=2 padding=1 layout=NHWC
capsule_conv2d n=1 h=8 w=8 ci=8 co=12 kh=3 kw=3 cap_h=4 cap_k=4 cap_w=4 stride=2 padding=1 dtype=float16
softmax shape=37,1000
softmax shape=9,33000 dtype=bfloat16
layer_norm shape=130,769 dtype=float16
rms_norm shape=65,4096
permute shape=30,41,52 dims=2,0,1 dtype=float16
transpose shape=1025,515
max_pool2d n=2 c=24 h=15 w=14 kernel_size=3 stride=2 padding=1
sum shape=300,77 dim=0
argmax shape=100,3000 dim=1
attention b=2 h=4 lq=129 lk=200 d=64 dtype=bfloat16
attention b=1 h=6 hk=2 lq=97 lk=97 d=128 is_causal=true dtype=float16
attention b=1 h=2 lq=70 lk=130 d=80 mask=bool dtype=bfloat16
attention b=1 h=3 lq=90 lk=90 d=64 is_causal=true
attention b=2 h=2 hk=1 lq=40 lk=72 d=16 page=24 lengths=true dtype=float16
attention b=3 h=8 hk=2 lq=200 lk=320 d=64 page=64 lengths=true is_causal=true dtype=bfloat16
attention b=1 h=4 lq=3 lk=2048 d=128 dtype=float16
cumsum shape=37,1000 dim=1
""")
"""What must be right: tile edges, sizes that are no multiple of 8, single rows, every layout, one of every operator."""

LIGHT = _shapes("""
matmul m=4096 n=4096 k=4096 dtype=bfloat16
matmul m=16 n=28672 k=4096 trans_b=true dtype=bfloat16
attention b=1 h=32 hk=8 lq=8192 lk=8192 d=128 is_causal=true dtype=bfloat16
scaled_mm m=4096 n=24576 k=1536 trans_b=true
grouped_matmul m=8192 n=28672 k=4096 groups=8 dtype=bfloat16
attention b=64 h=32 hk=8 lq=1 lk=4096 d=128 page=64 lengths=true dtype=bfloat16
dequant_matmul m=16 n=14336 k=4096 group_size=128 trans_b=true dtype=bfloat16
conv2d n=16 ci=64 h=56 w=56 co=64 kh=3 kw=3 padding=1 layout=NHWC dtype=bfloat16
matmul m=8192 n=28672 k=4096 trans_b=true dtype=bfloat16
matmul m=1024 n=1024 k=1024 dtype=bfloat16
attention b=1 h=16 lq=16384 lk=16384 d=128 dtype=bfloat16
matmul m=1 n=6144 k=4096 trans_b=true dtype=bfloat16
matmul m=128 n=4096 k=14336 trans_b=true dtype=bfloat16
attention b=1 h=128 lq=4096 lk=4096 d=192 dv=128 is_causal=true dtype=bfloat16
scaled_mm m=128 n=7168 k=16384 trans_b=true
rms_norm shape=8192,4096 residual=true dtype=bfloat16
softmax shape=256,128256 dtype=bfloat16
conv2d n=2 ci=320 h=128 w=128 co=320 kh=3 kw=3 padding=1 layout=NHWC dtype=bfloat16
attention b=2 h=16 lq=4096 lk=4096 d=64 is_causal=true dtype=bfloat16
matmul m=16 n=4096 k=4096 dtype=bfloat16
grouped_matmul m=32768 n=1536 k=2048 groups=128 dtype=bfloat16
matmul m=4096 n=4096 k=4096
matmul m=4096 n=4096 k=4096 precision=tf32x3
attention b=2 h=10 lq=4096 lk=4096 d=64 dtype=bfloat16
matmul m=4096 n=4096 k=8192 trans_a=true dtype=bfloat16
conv2d n=32 ci=256 h=14 w=14 co=256 kh=3 kw=3 padding=1 layout=NHWC dtype=bfloat16
attention b=1 h=32 hk=8 lq=1 lk=131072 d=128 dtype=bfloat16
scaled_mm m=4096 n=4096 k=4096 trans_b=true
grouped_matmul m=512 n=1536 k=2048 groups=128 dtype=bfloat16
matmul m=32 n=128256 k=4096 trans_b=true dtype=bfloat16
attention b=1 h=24 lq=4608 lk=4608 d=128 dtype=bfloat16
conv2d n=16 ci=3 h=224 w=224 co=64 kh=7 kw=7 stride=2 padding=3 layout=NHWC dtype=bfloat16
group_norm shape=2,320,128,128 num_groups=32 dtype=bfloat16
matmul m=4096 n=4096 k=4096 dtype=float64
matmul m=64 n=57344 k=8192 trans_b=true dtype=bfloat16
scaled_mm m=64 n=2112 k=7168 trans_b=true
scaled_mm m=4096 n=4096 k=7168 trans_b=true by_column=true
attention b=8 h=20 lq=1500 lk=1500 d=64 dtype=bfloat16
matmul m=4096 n=10240 k=8192 trans_b=true dtype=bfloat16
attention b=2 h=16 lq=2048 lk=2048 d=128 dtype=bfloat16
attention b=2 h=16 lq=4096 lk=4096 d=128 is_causal=true dtype=bfloat16
softmax shape=8192,4096
matmul m=4096 n=4096 k=4096 trans_b=true precision=tf32_truncated
conv2d n=16 ci=256 h=14 w=14 co=256 kh=3 kw=3 padding=1 layout=NCHW dtype=bfloat16 constant=weight
conv2d n=16 ci=256 h=14 w=14 co=256 kh=3 kw=3 padding=1 layout=NCHW dtype=bfloat16
attention b=1 h=16 lq=1024 lk=1024 d=64
conv2d n=16 ci=128 h=28 w=28 co=128 kh=3 kw=3 padding=1 groups=128 layout=NHWC dtype=bfloat16
conv_transpose2d n=16 ci=256 h=16 w=16 co=128 kh=4 kw=4 stride=2 padding=1 layout=NHWC dtype=bfloat16
matmul m=49 n=512 k=4608 dtype=bfloat16
layer_norm shape=8192,4096 dtype=bfloat16
grouped_matmul m=8192 n=2048 k=7168 groups=256 dtype=bfloat16
""")
"""What is timed, the most telling first: products, attentions, convolutions and rows of models in use. The last is more
than the language takes, and becomes a row that says so."""

SMALL = _shapes("""
matmul m=64 n=48 k=40 dtype=bfloat16
conv2d n=1 ci=16 h=8 w=8 co=16 kh=3 kw=3 padding=1 layout=NHWC dtype=bfloat16
attention b=1 h=2 lq=48 lk=48 d=32 is_causal=true dtype=bfloat16
conv2d n=1 ci=16 h=8 w=8 co=16 kh=3 kw=3 padding=1 dtype=bfloat16 constant=weight
softmax shape=12,40
scaled_mm m=24 n=256 k=256 trans_b=true
dequant_matmul m=8 n=24 k=32 group_size=16 trans_b=true dtype=bfloat16
grouped_matmul m=8192 n=2048 k=7168 groups=256 dtype=bfloat16
""")
"""The emulator's; of the last but one PyTorch has no call, and the last is too large."""

TUNED = _shapes("""
matmul m=4096 n=4096 k=4096 dtype=bfloat16
matmul m=1024 n=1024 k=1024 dtype=bfloat16
matmul m=16 n=4096 k=4096 dtype=bfloat16
attention b=2 h=16 lq=4096 lk=4096 d=64 is_causal=true dtype=bfloat16
matmul m=4096 n=4096 k=4096
dequant_matmul m=16 n=14336 k=4096 group_size=128 trans_b=true dtype=bfloat16
conv2d n=16 ci=256 h=14 w=14 co=256 kh=3 kw=3 padding=1 layout=NCHW dtype=bfloat16
scaled_mm m=4096 n=4096 k=4096 trans_b=true
""")
"""What is tuned with the time that is left."""


def timed(emulated: bool) -> tuple[Shape, ...]:
    return SMALL if emulated else LIGHT


def tuned(emulated: bool) -> tuple[Shape, ...]:
    return SMALL[:1] if emulated else TUNED


def label_of(shape: Shape) -> str:
    """The workload's label; of one that the language does not take, the shape's own."""
    try:
        return shape.workload.label
    except TilewrightError:
        return shape.label

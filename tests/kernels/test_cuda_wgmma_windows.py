"""Convolutions by warp groups, whose windows the copy engine follows: on the emulator, what matches, what is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from convolution_programs import convolution, transposed
from mma_programs import conv_nhwc
from test_cuda_wgmma import computes, small, together

from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Candidate, Task, Walk
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule
from tilewright.kernels.templates.cuda_mma.default import seconds as by_warps
from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA
from tilewright.kernels.templates.cuda_wgmma.default import seconds as by_groups
from tilewright.kernels.templates.cuda_wgmma.match import match, refuses
from tilewright.kernels.templates.cuda_wgmma.template import CUDA_WGMMA
from tilewright.kernels.templates.cuda_wgmma.window import depth, window
from tilewright.testing.cuda_template import CudaTemplateContract


def filters_last(dtype: str, out: str, channels: int, padding: int = 1, filters: int = 24) -> Program:
    """3 by 3, the filters' channels next to each other, as PyTorch's ``channels_last`` has them."""
    x, w = te.input("x", (2, 5, 6, channels), dtype), te.input("w", (filters, 3, 3, channels), dtype)
    acc = "int32" if dtype == "int8" else "float32"

    def factor(v: te.Expr) -> te.Expr:
        return te.truncate_tf32(v) if dtype == "float32" else te.cast(v, acc)

    def at(n: te.Expr, y: te.Expr, z: te.Expr, c: te.Expr) -> te.Expr:
        return te.select((y >= 0) & (y < 5) & (z >= 0) & (z < 6), factor(x[n, y, z, c]), 0)

    size = 2 * padding - 2
    z = te.compute((2, 5 + size, 6 + size, filters), lambda n, i, j, o: te.sum((3, 3, channels), lambda r, s, c: (
        at(n, i + r - padding, j + s - padding, c) * factor(w[o, r, s, c]))))  # fmt: skip
    return te.program(te.compute(z.shape, lambda *at: te.cast(z[at], out)))[0]


def one_image() -> Program:
    """No dimension of images."""
    x, w = te.input("x", (7, 7, 64), "float16"), te.input("w", (2, 3, 64, 72), "float16")
    return te.program(te.compute((6, 5, 72), lambda i, j, o: te.sum((2, 3, 64), lambda r, s, c: (
        te.cast(x[i + r, j + s, c], "float32") * te.cast(w[r, s, c, o], "float32")))))[0]  # fmt: skip


def flipped() -> Program:
    """A true convolution: taps run against the image."""
    x, w = te.input("x", (3, 9, 64), "float16"), te.input("w", (3, 64, 16), "float16")
    return te.program(te.compute((3, 7, 16), lambda n, i, o: te.sum((3, 64), lambda r, c: (
        te.cast(x[n, i + 2 - r, c], "float32") * te.cast(w[r, c, o], "float32")))))[0]  # fmt: skip


def channels_first() -> Program:
    """The result's channels outermost: windows are columns of the product."""
    x, w = te.input("x", (2, 5, 6, 64), "bfloat16"), te.input("w", (72, 3, 3, 64), "bfloat16")

    def at(n: te.Expr, y: te.Expr, z: te.Expr, c: te.Expr) -> te.Expr:
        return te.select((y >= 0) & (y < 5) & (z >= 0) & (z < 6), te.cast(x[n, y, z, c], "float32"), 0.0)

    return te.program(te.compute((2, 72, 5, 6), lambda n, o, i, j: te.sum((3, 3, 64), lambda r, s, c: (
        at(n, i + r - 1, j + s - 1, c) * te.cast(w[o, r, s, c], "float32")))))[0]  # fmt: skip


def planes(images: int, channels: int, size: tuple[int, int], taps: tuple[int, int], padding: int = 1) -> Program:
    """An image whose channels are outermost too, filters' channels innermost."""
    (height, width), (kh, kw), filters = size, taps, 72
    x = te.input("x", (images, channels, height, width), "bfloat16")
    w = te.input("w", (filters, kh, kw, channels), "bfloat16")

    def at(n: te.Expr, c: te.Expr, y: te.Expr, z: te.Expr) -> te.Expr:
        inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
        return te.select(inside, te.cast(x[n, c, y, z], "float32"), 0.0)

    shape = (images, filters, height + 2 * padding - kh + 1, width + 2 * padding - kw + 1)
    z = te.compute(shape, lambda n, o, i, j: te.sum((kh, kw, channels), lambda r, s, c: (
        at(n, c, i + r - padding, j + s - padding) * te.cast(w[o, r, s, c], "float32"))))  # fmt: skip
    return te.program(te.compute(shape, lambda *at: te.cast(z[at], "bfloat16")))[0]


def lines() -> Program:
    """Planes of one dimension, of groups, and what follows the sum."""
    x, w = te.input("x", (3, 128, 64), "float16"), te.input("w", (2, 40, 3, 64), "float16")
    z = te.compute((3, 2, 40, 64), lambda n, g, o, i: te.sum((3, 64), lambda s, c: (
        te.select((i + s >= 1) & (i + s < 65), te.cast(x[n, g * 64 + c, i + s - 1], "float32"), 0.0)
        * te.cast(w[g, o, s, c], "float32"))))  # fmt: skip
    return te.program(te.compute(z.shape, lambda *at: te.cast(te.maximum(z[at], 0.0), "float16")))[0]


def masked() -> Program:
    """The first column of the image counts as zero too."""
    x, w = te.input("x", (2, 5, 6, 64), "bfloat16"), te.input("w", (3, 64, 24), "bfloat16")

    def at(n: te.Expr, y: te.Expr, z: te.Expr, c: te.Expr) -> te.Expr:
        return te.select((z >= 1) & (z < 6), te.cast(x[n, y, z, c], "float32"), 0.0)

    return te.program(te.compute((2, 5, 6, 24), lambda n, i, j, o: te.sum((3, 64), lambda s, c: (
        at(n, i, j + s - 1, c) * te.cast(w[s, c, o], "float32")))))[0]  # fmt: skip


WINDOWS: Mapping[str, Callable[[], Program]] = {
    "padded": lambda: convolution("NHWC", "bfloat16", 32, 24, (6, 7), (3, 3), padding=1, bias=True),
    "strided": lambda: convolution("NHWC", "float16", 72, 72, (9, 11), (3, 3), padding=1, stride=2, dilation=2),
    "line": lambda: convolution("NWC", "float16", 128, 72, (70,), (5,), padding=2, stride=3),
    "volume": lambda: convolution("NDHWC", "bfloat16", 40, 72, (3, 4, 3), (3, 1, 2), padding=1),
    "points": lambda: convolution("NHWC", "float16", 192, 40, (9, 7), (1, 1), stride=2),
    "groups": lambda: convolution("NHWC", "bfloat16", 128, 48, (6, 7), (3, 3), padding=1, groups=2),
    "filters_last": lambda: filters_last("bfloat16", "bfloat16", 72),
    "tf32": lambda: filters_last("float32", "float32", 36),
    "bytes": lambda: filters_last("int8", "int32", 128),
    "eight_bit_reals": lambda: filters_last("float8_e4m3fn", "bfloat16", 64),
    "one_image": one_image,
    "flipped": flipped,
    "channels_first": channels_first,
    "planes": lambda: planes(2, 128, (2, 64), (3, 3)),
    "planes_of_parts": lambda: planes(1, 72, (3, 136), (2, 9), padding=0),  # 128 pixels a row, channels filled up
    "points_of_planes": lambda: planes(3, 64, (8, 8), (1, 1), padding=0),  # an image is a line
    "lines": lines,
}


class TestContract(CudaTemplateContract):
    templates = ("cuda_wgmma",)
    programs = WINDOWS
    targets = ("sm_90a",)
    architecture = "sm_90a"


MORE = {**WINDOWS, "many": lambda: filters_last("float16", "float16", 64, padding=4, filters=40)}
CHOSEN: Mapping[str, tuple[dict[str, object], ...]] = {
    "filters_last": (
        {"CLUSTER": "1x2", "BN": 16, "persistent": True},
        {"persistent": True, "ping_pong": True, "GROUPS": 2, "BN": 8, "STAGES": 3},
    ),
    "line": ({"CLUSTER": "1x2", "BN": 64, "BK": 128},),
    "volume": ({"CLUSTER": "1x2", "BN": 64},),
    "strided": ({"split_k": True, "SPLIT": 4, "BN": 64}, {"SWAP": True, "BN": 8, "persistent": True}),
    "one_image": ({"CLUSTER": "1x2", "BN": 64},),  # one block's part begins behind the last pixel
    "channels_first": (
        {"CLUSTER": "2x1", "BN": 32, "persistent": True},
        {"CLUSTER": "2x2", "BN": 32},
    ),
    "planes": (
        {"SWAP": False, "CLUSTER": "2x1", "BN": 64, "persistent": True},
        {"SWAP": False, "CLUSTER": "1x2", "BN": 64},
    ),
    "planes_of_parts": (
        {"SWAP": False, "CLUSTER": "1x2", "BN": 64, "BK": 128},
        {"SWAP": False, "BN": 128, "persistent": True, "ping_pong": True, "GROUPS": 2, "BM": 64},
        {"SWAP": False, "BN": 64, "split_k": True, "SPLIT": 2},
    ),
    # Five tiles of pixels, and of filters.
    "many": (
        {"CLUSTER": "1x4", "BN": 8, "persistent": True},
        {"CLUSTER": "2x2", "BN": 16},
        {"CLUSTER": "4x1", "BN": 32, "persistent": True},
    ),
}


def chosen(name: str) -> list[Candidate]:
    return [small(name, more, programs=MORE) for more in CHOSEN[name]]


@pytest.mark.parametrize("name", CHOSEN)
def test_parts_of_windows_compute_the_reference(name: str) -> None:
    """Pixels that blocks of a cluster copy for each other, that walks go on to, or that pieces of k begin at."""
    candidates = chosen(name)
    sources = [CUDA_WGMMA.lower(c).source for c in candidates]
    assert any("multicast_" in x for x in sources) == any("CLUSTER" in x for x in CHOSEN[name])
    assert all(("tma_im2col" in x) != name.startswith("planes") for x in sources)
    computes(candidates, together(chosen, tuple(CHOSEN)))


def test_threads_exchange_pairs_where_four_results_lie_in_order() -> None:
    """Straight from registers; sums of parts of k, of 32 bits, fill sectors as they are."""
    whole, parts = chosen("planes_of_parts")[1:]
    assert [x.count("tw::shuffle_xor") for x in (CUDA_WGMMA.lower(c).source for c in (whole, parts))] == [2, 0]
    one = small("channels_first", {}, programs=MORE)  # 30 pixels an image
    assert "tw::shuffle_xor" not in CUDA_WGMMA.lower(one).source


# --------------------------------------------------------------------------- what matches


def test_what_a_copy_is_told() -> None:
    """Corners, steps and offsets of a window of 3 by 3 that is spread by 2 and moves by 2."""
    found = match(WINDOWS["strided"]())
    assert found is not None
    w = window(found.a)
    assert w is not None
    assert window(found.b) is None
    assert (w.sizes, w.counts, w.channels, w.taps.size) == ((72, 11, 9, 2), (5, 4, 2), 72, 9)
    assert w.walk == Walk((-1, -1), (-3, -3), (2, 2))  # of 11 by 9 pixels the first ones to 7 and 5
    assert [o.coef for o in w.offsets] == [{"r1": 2}, {"r0": 2}]
    k = depth(found)
    assert (k.steps(64), k.options, k.padded, k.multiplied(128)) == (18, (64, 128), (9, 72), 80)


REFUSED: Mapping[str, tuple[Callable[[], Program], str]] = {
    "masked": (masked, "no tensor map"),
    "rounded": (lambda: conv_nhwc("float32"), "rounds operand x0 to TF32"),
    "channels outermost": (lambda: convolution("NCHW", "float16", 64, 24, (6, 7), (3, 3)), "no tensor map"),
    "phases": (lambda: transposed("NHWC", "float16", 64, 24, (4, 6), (4, 4)), "no tensor map"),
    "long steps": (lambda: convolution("NWC", "float16", 64, 24, (70,), (3,), stride=9), "no tensor map"),
    "far taps": (lambda: convolution("NHWC", "float16", 64, 8, (1, 270), (1, 3), dilation=(1, 130)), "no tensor map"),
    "few channels": (lambda: convolution("NHWC", "float16", 24, 24, (6, 7), (3, 3)), "24 channels, of 64"),
    "thin pixels": (lambda: convolution("NHWC", "float16", 36, 24, (6, 7), (3, 3)), "whole number of 16 bytes"),
    "odd groups": (lambda: convolution("NHWC", "float16", 80, 32, (6, 7), (3, 3), groups=2), "groups of channels"),
    "bytes apart": (lambda: convolution("NHWC", "int8", 128, 32, (6, 7), (3, 3)), "8-bit elements"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_windows_that_cannot_be_copied_are_refused_with_the_reason(name: str) -> None:
    program, reason = REFUSED[name]
    found = match(program())
    assert found is not None
    assert reason in refuses(found)


def _task(**more: object) -> Task:
    sizes = {"n": 32, "ci": 64, "h": 56, "w": 56, "co": 64, "kh": 3, "kw": 3, "padding": 1, "dtype": "bfloat16"}
    return Task(get_operator("conv2d").workload(**{**sizes, **more}), cuda_target("sm_90a"))


def test_the_window_form_is_the_default_where_channels_fill_copies() -> None:
    assert default_schedule(_task(layout="NHWC")).template == "cuda_wgmma"
    assert default_schedule(_task(layout="NHWC", ci=24)).template == "cuda_mma"
    relaid = default_schedule(_task())
    assert relaid.template == "cuda_relaid"
    assert str(relaid.values["cut"]).endswith("s2:cuda_wgmma")


def test_blocks_of_few_windows_stand_alone() -> None:
    """On an H200 one tile a block takes 8.9 us here, in clusters of two 9.9 us."""
    task = _task(n=16, ci=256, h=14, w=14, co=256)
    schedule = default_schedule(task)
    assert [v for k, v in schedule.values.items() if k.startswith("p2.") and k.endswith("CLUSTER")] == ["1x1"]


def test_the_window_forms_estimate_is_below_that_of_single_copies() -> None:
    task = _task(layout="NHWC")
    times = []
    for template, seconds in ((CUDA_WGMMA, by_groups), (CUDA_MMA, by_warps)):
        found = template.found(Program.loads(task.workload.program))
        times.append(seconds(found, task.target, template.default(task).values))
    assert times[0] < 0.7 * times[1]

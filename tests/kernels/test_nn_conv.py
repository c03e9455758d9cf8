"""Convolutions of ``tilewright.nn`` and their operators: meaning, form, and what is refused."""

from __future__ import annotations

import random as chance
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from windowed_reference import LAYOUTS, conv, conv_transpose, first, kernel_last, last, random, run, traced

from tilewright import nn, operator, te
from tilewright.core import UsageError
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator_file import load_operator
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.testing.operator import random_inputs

EXAMPLES = Path(__file__).parents[2] / "examples"
NEAR = {"rtol": 1e-10, "atol": 1e-11}


def _numbers(rng: chance.Random, axes: int, values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(rng.choice(values) for _ in range(axes))


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_convolutions_in_both_layouts(spatial: int) -> None:
    rng = chance.Random(spatial)
    fn, name = getattr(nn, f"conv{spatial}d"), LAYOUTS[spatial][1]
    for seed in range(8):
        groups = (1, 2, 3)[seed % 3]
        ci, co = groups * rng.choice((1, 2)), groups * rng.choice((1, 2))
        stride, padding = _numbers(rng, spatial, (1, 2, 3)), _numbers(rng, spatial, (0, 1, 2))
        dilation, kernel = _numbers(rng, spatial, (1, 2)), _numbers(rng, spatial, (1, 2, 3))
        x, b = random(2, ci, *_numbers(rng, spatial, (5, 6)), seed=seed), random(co)
        w = random(co, ci // groups, *kernel, seed=seed)
        expected = conv(x, w, b, stride, padding, dilation, groups)
        how = (stride, padding, dilation, groups)
        np.testing.assert_allclose(run(lambda x, w, b, fn=fn, how=how: fn(x, w, b, *how), x, w, b), expected, **NEAR)
        got = run(lambda x, w, b, fn=fn, how=how: fn(x, w, b, *how, layout=name), last(x), kernel_last(w), b)
        np.testing.assert_allclose(first(got), expected, **NEAR)


@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("dilated", [False, True])
def test_transposed_convolutions_in_both_layouts(spatial: int, dilated: bool) -> None:
    rng = chance.Random(spatial)
    fn, name = getattr(nn, f"conv_transpose{spatial}d"), LAYOUTS[spatial][1]
    for seed in range(10):
        groups = (1, 2, 3)[seed % 3]
        ci, og = groups * rng.choice((1, 2)), rng.choice((1, 2))
        stride = _numbers(rng, spatial, (1, 2, 3, 4) if dilated else (1, 2, 3))
        padding = _numbers(rng, spatial, (0, 1))
        dilation = _numbers(rng, spatial, (1, 2, 3) if dilated else (1,))
        kernel = _numbers(rng, spatial, (2, 3, 4))
        extra = tuple(rng.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True))
        x, b = random(2, ci, *_numbers(rng, spatial, (3, 4)), seed=seed), random(og * groups)
        w = random(ci, og, *kernel, seed=seed)
        expected = conv_transpose(x, w, b, stride, padding, extra, groups, dilation)
        how = (stride, padding, extra, groups, dilation)
        np.testing.assert_allclose(run(lambda x, w, b, fn=fn, how=how: fn(x, w, b, *how), x, w, b), expected, **NEAR)
        got = run(lambda x, w, b, fn=fn, how=how: fn(x, w, b, *how, layout=name), last(x), kernel_last(w, (0, 1)), b)
        np.testing.assert_allclose(first(got), expected, **NEAR)


@pytest.mark.parametrize("padding", [0, 1, 3, 4])
def test_transposed_convolutions_whose_steps_share_a_divisor_compute_what_taps_meet(padding: int) -> None:
    for stride, dilation, kernel, extra in ((2, 2, 3, 0), (4, 2, 3, 3), (2, 4, 2, 1), (6, 4, 3, 5), (3, 3, 3, 2)):
        x, w = random(1, 2, 4), random(2, 3, kernel)
        how = (stride, padding, extra, 1, dilation)
        expected = conv_transpose(x, w, np.zeros(3), *((n,) for n in (stride, padding, extra)), 1, (dilation,))
        np.testing.assert_allclose(
            run(lambda x, w, how=how: nn.conv_transpose1d(x, w, None, *how), x, w), expected, **NEAR
        )
        program = te.program(nn.conv_transpose1d(te.input("x", (1, 2, 4)), te.input("w", (2, 3, kernel)), None, *how))[
            0
        ]
        met, spread = program.stages
        every = np.gcd(stride, dilation)
        assert met.extents[2] <= -(-spread.extents[2] // every)
        assert met.reduce == (2, -(-kernel * every // stride))


@pytest.mark.parametrize(
    ("fn", "sizes", "how"),
    [(nn.conv_transpose2d, (4, 4), (2, 1, 9999, 1, 10000)), (nn.conv_transpose1d, (1 << 23,), (2, 1, 0, 1, 2))],
)
def test_transposed_convolutions_read_within_results_too_large_to_look_at_every_point(fn, sizes, how) -> None:
    x, w = te.input("x", (1, 2, *sizes)), te.input("w", (2, 3, *(1 for _ in sizes)))
    met, spread = te.program(fn(x, w, None, *how))[0].stages
    assert np.prod(spread.extents) > np.prod(met.extents) > 1 << 22


def test_a_dilation_beyond_every_memory_is_a_usage_error_that_names_the_limit() -> None:
    x, w = te.input("x", (1, 2, 4, 4)), te.input("w", (2, 3, 1, 1))
    with pytest.raises(UsageError, match="have at most 2147483647"):
        te.program(nn.conv_transpose2d(x, w, None, 2, 1, 10**6 - 1, 1, 10**6))


def test_a_transposed_convolution_of_which_taps_meet_nothing_is_zero() -> None:
    x, w = random(1, 1, 1), random(1, 1, 2)
    got = run(lambda x, w: nn.conv_transpose1d(x, w, None, 2, 1, 0, 1, 2), x, w)
    assert got.tolist() == [[[0.0]]]


def test_capsules_multiply_matrices() -> None:
    x, w = random(2, 5, 4, 2, 3, 2), random(3, 2, 3, 4, 2, 5)
    got = run(lambda x, w: nn.capsule_conv2d(x, w, stride=(2, 1), padding=(1, 0)), x, w)
    image = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0), (0, 0), (0, 0)))
    assert got.shape == (2, 3, 3, 2, 4, 5)
    for i, j in np.ndindex(3, 3):
        window = image[:, 2 * i : 2 * i + 3, j : j + 2]
        np.testing.assert_allclose(got[:, i, j], np.einsum("nrspkc,rskqco->npqo", window, w), **NEAR)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(40))
def test_convolutions_agree_with_pytorch(seed: int) -> None:
    torch = pytest.importorskip("torch")
    rng = chance.Random(seed)
    spatial = rng.choice((1, 2, 3))
    groups = rng.choice((1, 1, 2, 3))
    ci, og = groups * rng.choice((1, 2)), rng.choice((1, 2, 3))
    stride, padding = _numbers(rng, spatial, (1, 2, 3)), _numbers(rng, spatial, (0, 1, 2))
    dilation, kernel = _numbers(rng, spatial, (1, 2)), _numbers(rng, spatial, (1, 2, 3))
    x, b = random(2, ci, *_numbers(rng, spatial, (5, 6, 7))), random(og * groups)
    for name, shape, how in (
        ("conv", (og * groups, ci // groups), (stride, padding, dilation, groups)),
        ("conv_transpose", (ci, og), (stride, padding, (0,) * spatial, groups, dilation)),
    ):
        if name == "conv_transpose" and spatial == 3:
            continue
        w = random(*shape, *kernel)
        ours, theirs = getattr(nn, f"{name}{spatial}d"), getattr(torch.nn.functional, f"{name}{spatial}d")
        try:
            expected = theirs(*map(torch.tensor, (x, w, b)), *how).numpy()
        except RuntimeError:  # an output without elements
            with pytest.raises(UsageError):
                run(lambda x, w, b, ours=ours, how=how: ours(x, w, b, *how), x, w, b)
            continue
        np.testing.assert_allclose(
            run(lambda x, w, b, ours=ours, how=how: ours(x, w, b, *how), x, w, b), expected, **NEAR
        )


# --------------------------------------------------------------------------- the form that templates match


def _reads(program: Program) -> list[list[str]]:
    return [[repr(i) for i in load.args] for load in program.stages[0].loads()]


def test_stride_one_no_padding_and_one_group_leave_no_trace() -> None:
    program = traced(nn.conv2d, random(1, 2, 5, 5), random(3, 2, 1, 1))
    (stage,) = program.stages
    assert "select" not in {e.op for e in stage.body[0].walk()}
    assert _reads(program) == [["i0", "r0", "(i2 + r1)", "(i3 + r2)"], ["i1", "r0", "r1", "r2"]]


def test_channels_last_reduces_over_channels_innermost() -> None:
    program = traced(
        lambda x, w: nn.conv2d(x, w, padding=(1, 0), groups=2, layout="NHWC"), random(1, 5, 6, 4), random(3, 2, 2, 8)
    )
    (stage,) = program.stages
    assert (stage.extents, stage.reduce) == ((1, 5, 5, 8), (3, 2, 2))
    assert _reads(program) == [
        ["i0", "((i1 + r0) - 1)", "(i2 + r1)", "(((i3 // 4) * 2) + r2)"], ["r0", "r1", "r2", "i3"],
    ]  # fmt: skip
    guards = [e for e in stage.body[0].walk() if e.op == "select"]
    assert [repr(g.args[0]) for g in guards] == ["((((i1 + r0) - 1) >= 0) & (((i1 + r0) - 1) < 5))"]


def test_depthwise_reads_the_output_channel() -> None:
    program = traced(lambda x, w: nn.conv2d(x, w, groups=4), random(1, 4, 5, 5), random(4, 1, 3, 3))
    assert _reads(program)[0][1] == "(i1 + r0)"
    assert program.stages[0].reduce == (1, 3, 3)


def test_transposed_convolutions_multiply_no_inserted_zeros() -> None:
    x, w = random(1, 8, 4, 4), random(8, 3, 4, 4)
    program = traced(lambda x, w: nn.conv_transpose2d(x, w, stride=2, padding=1), x, w)
    (stage,) = program.stages
    assert (stage.extents, stage.reduce) == ((1, 3, 8, 8), (8, 2, 2))
    assert _reads(program) == [
        ["i0", "r0", "(((i2 + 1) // 2) - r1)", "(((i3 + 1) // 2) - r2)"],
        ["r0", "i1", "((r1 * 2) + ((i2 + 1) % 2))", "((r2 * 2) + ((i3 + 1) % 2))"],
    ]
    assert sum(e.op == "select" for e in stage.body[0].walk()) == 1  # 2 divides 4: every tap exists
    odd = traced(lambda x, w: nn.conv_transpose2d(x, w, stride=2), x, random(8, 3, 3, 3))
    assert odd.stages[0].reduce == (8, 2, 2)
    assert sum(e.op == "select" for e in odd.stages[0].body[0].walk()) == 2
    last_layout = traced(
        lambda x, w: nn.conv_transpose2d(x, w, stride=2, layout="NHWC"), random(1, 4, 4, 8), random(4, 4, 8, 3)
    )
    assert last_layout.stages[0].reduce == (2, 2, 8)


def test_missing_taps_read_nothing() -> None:
    # An odd kernel with an even stride: half of the outputs have fewer taps, and what is next to them stays out.
    x, w = random(1, 1, 3), random(1, 1, 3)
    x[0, 0, 1] = np.nan
    got = run(lambda x, w: nn.conv_transpose1d(x, w, stride=2), x, w)
    assert np.isnan(got[0, 0]).tolist() == [False, False, True, True, True, False, False]


def test_sixteen_bits_are_computed_in_float32_and_rounded_once() -> None:
    op = get_operator("conv2d")
    sizes = {"n": 1, "ci": 2, "h": 5, "w": 5, "co": 3, "kh": 3, "kw": 3, "padding": 1, "dtype": "bfloat16"}
    (plain,) = Program.loads(op.workload(**sizes).program).stages
    assert plain.monoid is not None
    assert plain.monoid.identity[0].dtype == "float32"
    assert plain.dtype == "bfloat16"
    (select,) = [e for e in plain.body[0].walk() if e.op == "select"]
    assert select.args[1].op == "cast"
    stages = Program.loads(op.workload(**sizes, bias=True, batch_norm=True, activation="relu").program).stages
    assert [s.dtype for s in stages] == ["float32", "float32", "float32", "bfloat16"]


# --------------------------------------------------------------------------- composition


def test_a_layer_is_the_composition_of_its_parts() -> None:
    @operator(dtypes=("float32", "float64"))
    def layer(n: int, dtype: str = "float32") -> te.TensorRef:
        x, w, b = (te.input(name, s) for name, s in (("x", (n, 3, 6, 6)), ("w", (4, 3, 3, 3)), ("b", (4,))))
        vectors = [te.input(name, (4,)) for name in ("mean", "var", "scale", "shift")]
        return nn.relu(nn.batch_norm(nn.conv2d(x, w, b, padding=1), *vectors))

    op = get_operator("conv2d")
    sizes = {"n": 2, "ci": 3, "h": 6, "w": 6, "co": 4, "kh": 3, "kw": 3, "padding": 1}
    whole = op.workload(**sizes, bias=True, batch_norm=True, activation="relu")
    assert layer.workload(n=2).key == whole.key
    assert [s.name for s in whole.inputs] == [
        "input", "weight", "bias", "running_mean", "running_var", "bn_weight", "bn_bias",
    ]  # fmt: skip
    x, w, b, mean, var, scale, shift = inputs = random_inputs(whole, positive=True)
    y = conv(x, w, b, (1, 1), (1, 1), (1, 1), 1)
    y, mean, var, scale, shift = y, *(v.astype(float).reshape(-1, 1, 1) for v in (mean, var, scale, shift))
    expected = np.maximum((y - mean) / np.sqrt(var + 1e-5) * scale + shift, 0)
    np.testing.assert_allclose(evaluate(Program.loads(whole.program), inputs), expected, rtol=1e-6)


def test_constant_weights_are_marked() -> None:
    op = get_operator("conv_transpose2d")
    workload = op.workload(**op.example, constant="weight")
    assert [s.constant for s in workload.inputs] == [False, True]


def test_the_example_bottleneck_computes_three_convolutions_and_a_sum() -> None:
    workload = load_operator(f"{EXAMPLES / 'custom_ops.py'}:bottleneck").workload(
        n=1, c=3, h=5, w=4, m=2, dtype="float64"
    )
    x, down, deep, up = inputs = random_inputs(workload)
    y = np.maximum(x @ down[0, 0], 0)
    padded = np.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = sum(padded[:, r : r + 5, s : s + 4] * deep[r, s, 0] for r in range(3) for s in range(3))
    expected = np.maximum(y, 0) @ up[0, 0] + x
    np.testing.assert_allclose(evaluate(Program.loads(workload.program), inputs), expected, **NEAR)


def test_nn_is_imported_when_it_is_used() -> None:
    import tilewright

    assert "nn" in dir(tilewright)
    assert tilewright.nn is nn


# --------------------------------------------------------------------------- what is refused

CONV = {"n": 1, "ci": 4, "h": 6, "w": 6, "co": 6, "kh": 3, "kw": 3}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"groups": 3}, "conv2d: groups=3 does not divide ci=4"),
        ({"groups": 4}, "conv2d: groups=4 does not divide co=6"),
        ({"groups": 8}, "groups=8 does not divide ci=4"),
        ({"groups": 0}, "groups=0 is below 1"),
        ({"stride": 0}, "stride=0 is below 1"),
        ({"stride": "1,0"}, "stride=1,0 is below 1"),
        ({"stride": (1, 2, 3)}, "stride=1,2,3 has 3 numbers"),
        ({"padding": -1}, "padding=-1 is below 0"),
        ({"dilation": "2,0"}, "dilation=2,0 is below 1"),
        ({"dilation": 3}, "a window of 3, dilation=3, reaches over 7 elements, past an input of 6"),
        ({"kh": 7}, "a window of 7, dilation=1, reaches over 7"),
        ({"layout": "NCW"}, "layout cannot be 'NCW'"),
        ({"ci": 0}, "ci=0 is not positive"),
        ({"stride": "wide"}, "stride=wide is not a whole number or several"),
        ({"batch_norm": True, "eps": -1}, "eps=-1.0 is negative"),
        ({"n": 10**6, "h": 10**3}, "conv2d: tensor input has 1000000x4x1000x6 = 2.4e.10 elements"),
    ],
)  # fmt: skip
def test_convolutions_that_cannot_be(bad: dict[str, Any], says: str) -> None:
    op = get_operator("conv2d")
    assert op.workload(**CONV)
    with pytest.raises(UsageError, match=says) as caught:
        op.workload(**{**CONV, **bad})
    assert caught.value.hint
    assert caught.value.message.startswith("conv2d")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"output_padding": 2}, "output_padding=2 with stride=2 dilation=1"),
        ({"output_padding": "0,-1"}, "output_padding=0,-1 is below 0"),
        ({"padding": 8}, "padding=8 leaves -3 elements of an input of 6 and a window of 3"),
        ({"groups": 4}, "groups=4 does not divide co=6"),
        ({"dilation": 0}, "dilation=0 is below 1"),
    ],
)
def test_transposed_convolutions_that_cannot_be(bad: dict[str, Any], says: str) -> None:
    op = get_operator("conv_transpose2d")
    good = {**CONV, "stride": 2}
    assert op.workload(**good, output_padding=1).output.shape == (1, 6, 14, 14)
    assert op.workload(**good, output_padding=2, dilation=3)
    with pytest.raises(UsageError, match=says) as caught:
        op.workload(**{**good, **bad})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("fn", "shapes", "how", "says"),
    [
        (nn.conv2d, ((1, 4, 6, 6), (6, 3, 3, 3)), {}, "conv2d: input has 4 channels, and weight takes 3"),
        (nn.conv2d, ((1, 4, 6), (6, 4, 3, 3)), {}, "conv2d: input has shape .1, 4, 6."),
        (nn.conv2d, ((1, 4, 6, 6), (6, 4, 3)), {}, "conv2d: weight has shape"),
        (nn.conv2d, ((1, 4, 6, 6), (6, 4, 3, 3), (5,)), {}, "bias has shape .5,."),
        (nn.conv1d, ((1, 4, 6), (6, 4, 3)), {"layout": "NHWC"}, "conv1d: unknown layout 'NHWC'"),
        (nn.conv1d, ((1, 4, 6), (6, 4, 3)), {"stride": 1.5}, "stride=1.5 is not a whole number"),
        (nn.conv_transpose2d, ((1, 4, 6, 6), (5, 4, 3, 3)), {}, "input has 4 channels and weight takes 5"),
        (nn.capsule_conv2d, ((1, 4, 4, 2, 2, 3), (3, 3, 4, 2, 3, 5)), {}, "2x2 matrices in 3 channels, and weight 4x2"),
        (nn.capsule_conv2d, ((1, 2, 4, 2, 2, 3), (3, 3, 2, 2, 3, 5)), {}, "past an input of 2"),
    ],
)
def test_operands_that_do_not_conform(fn: Any, shapes: Any, how: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        fn(*(te.input(f"x{n}", s) for n, s in enumerate(shapes)), **how)
    assert caught.value.hint


def test_operands_of_two_types() -> None:
    x, w = te.input("x", (1, 4, 6, 6), "float16"), te.input("w", (6, 4, 3, 3), "float64")
    with pytest.raises(UsageError, match="input is float16 and weight is float64"):
        nn.conv2d(x, w)
    assert nn.conv2d(x, te.input("w", (6, 4, 3, 3), "bfloat16")).dtype == "float32"
    assert nn.conv2d(*(te.input(n, s, "int8") for n, s in (("x", (1, 4, 6, 6)), ("w", (6, 4, 3, 3))))).dtype == "int32"


def test_refusals_name_the_users_operator_too() -> None:
    @operator
    def mine(n: int) -> te.TensorRef:
        return nn.conv1d(te.input("x", (1, 4, n)), te.input("w", (6, 4, 3)))

    with pytest.raises(UsageError, match="mine: conv1d: a window of 3"):
        mine.workload(n=2)


@pytest.mark.parametrize(
    ("shapes", "attributes", "says"),
    [
        ([(1, 4, 6, 6), (6, 4, 3)], {}, "have 4 and 4 axes"),
        ([(1, 4, 6, 6)], {}, "have 4 and 4 axes"),
        ([(1, 4, 6, 6), (6, 4, 3, 3)], {"groups": 2}, "weight takes 4 in each of 2 groups"),
        ([(1, 4, 6, 6), (6, 4, 3, 3)], {"bias": True}, "These attributes take"),
        ([(1, 4, 6, 6), (6, 4, 3, 3), (6,), (6,), (6,)], {"batch_norm": True}, "These attributes take"),
    ],
)
def test_arrays_that_do_not_conform(shapes: Any, attributes: dict[str, Any], says: str) -> None:
    op = get_operator("conv2d")
    assert op.infer is not None
    with pytest.raises(UsageError, match=says):
        op.infer(shapes, **attributes)


# --------------------------------------------------------------------------- the suite's shapes


@pytest.mark.parametrize(
    ("op", "params", "shape"),
    [
        ("conv1d", {"n": 16, "ci": 64, "w": 256, "co": 128, "kw": 3, "stride": 2, "padding": 1}, (16, 128, 128)),
        ("conv2d", {"n": 16, "ci": 3, "h": 224, "w": 224, "co": 64, "kh": 7, "kw": 7, "stride": 2, "padding": 3},
         (16, 64, 112, 112)),
        ("conv2d", {"n": 16, "ci": 64, "h": 56, "w": 56, "co": 128, "kh": 3, "kw": 3, "stride": 2, "padding": 1,
                    "groups": 4, "layout": "NHWC"}, (16, 28, 28, 128)),
        ("conv3d", {"n": 16, "ci": 3, "d": 16, "h": 224, "w": 224, "co": 64, "kd": 7, "kh": 7, "kw": 7, "stride": 2,
                    "padding": 3}, (16, 64, 8, 112, 112)),
        ("conv_transpose2d", {"n": 16, "ci": 512, "h": 4, "w": 4, "co": 256, "kh": 4, "kw": 4, "stride": 2,
                              "padding": 1}, (16, 256, 8, 8)),
        ("conv_transpose2d", {"n": 16, "ci": 64, "h": 112, "w": 112, "co": 32, "kh": 5, "kw": 5, "stride": 2,
                              "padding": 2, "dilation": "1,2", "groups": 4}, (16, 32, 223, 227)),
        ("capsule_conv2d", {"n": 16, "h": 16, "w": 16, "ci": 32, "co": 32, "kh": 3, "kw": 3, "cap_h": 4, "cap_k": 4,
                            "cap_w": 4, "stride": 2, "padding": 1}, (16, 8, 8, 4, 4, 32)),
    ],
)  # fmt: skip
def test_reads_are_proved_without_looking_at_points(
    op: str, params: dict[str, Any], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.kernels.expression import bounds

    monkeypatch.setattr(bounds, "_MAX_POINTS", 0)
    assert get_operator(op).workload(**params).output.shape == shape

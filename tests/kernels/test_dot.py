"""Products of 16-bit reals and bytes: the contract on every target, matching, extremes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.backends.cpu.loader import load_path
from tilewright.backends.cpu.targets import available, parse_target
from tilewright.core import Candidate, IllegalSchedule, Target
from tilewright.kernels import te
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.numerics import from_bfloat16
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates.cpu_contraction.kinds import BF16, kind_of
from tilewright.kernels.templates.cpu_contraction.match import constant
from tilewright.kernels.templates.cpu_dot.match import match
from tilewright.kernels.templates.cpu_dot.space import direct_a, direct_b
from tilewright.kernels.templates.cpu_dot.template import CPU_DOT
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of
from tilewright.testing.template import TemplateContract

Expr = te.Expr
TEMPLATE = CPU_DOT


def matmul(**params: int | bool | str) -> Program:
    return Program.loads(get_operator("batch_matmul" if "b" in params else "matmul").workload(**params).program)


def padded_conv(layout: str, dtype: str, out: str) -> Program:
    """A 3 by 3 convolution with padding and a stride, channels outermost or innermost."""
    n, ci, h, w, co, kk, pad, stride = 2, 5, 7, 9, 6, 3, 1, 2
    ho, wo = (h + 2 * pad - kk) // stride + 1, (w + 2 * pad - kk) // stride + 1
    total = "int32" if dtype == "int8" else "float32"
    outer = layout == "NCHW"
    x = te.input("x", (n, ci, h, w) if outer else (n, h, w, ci), dtype)
    f = te.input("f", (co, ci, kk, kk) if outer else (kk, kk, ci, co), dtype)

    def at(b: Expr, c: Expr, y: Expr, z: Expr) -> Expr:
        inside = (y >= 0) & (y < h) & (z >= 0) & (z < w)
        read = te.cast(x[b, c, y, z] if outer else x[b, y, z, c], total)
        return te.select(inside, read, te.cast(0, total))

    def value(b: Expr, o: Expr, y: Expr, z: Expr) -> Expr:
        def term(c: Expr, r: Expr, s: Expr) -> Expr:
            weight = te.cast(f[o, c, r, s] if outer else f[r, s, c, o], total)
            return at(b, c, y * stride + r - pad, z * stride + s - pad) * weight

        if outer:
            return te.sum((ci, kk, kk), term)
        return te.sum((kk, kk, ci), lambda r, s, c: term(c, r, s))

    if outer:
        return te.program(te.compute((n, co, ho, wo), value, dtype=out))[0]
    return te.program(te.compute((n, ho, wo, co), lambda b, y, z, o: value(b, o, y, z), dtype=out))[0]


def requantised(m: int = 9, n: int = 37, k: int = 21) -> Program:
    """int8 times int8, a scale per column, a zero point, and back to int8."""
    x, y = te.input("x", (m, k), "int8"), te.input("y", (n, k), "int8")
    scale, start = te.input("scale", (n,)), te.input("start", (n,), "int32")
    s = te.compute((m, n), lambda i, j: te.sum(k, lambda r: te.cast(x[i, r], "int32") * te.cast(y[j, r], "int32")))

    def body(i: Expr, j: Expr) -> Expr:
        v = te.cast(s[i, j] + start[j], "float32") * scale[j]
        return te.cast(te.minimum(te.maximum(te.floor(v + 0.5), -128.0), 127.0), "int8")

    return te.program(te.compute((m, n), body))[0]


def quantised(**params: int | bool | str) -> Program:
    """The operator's own rounding, to nearest even."""
    return Program.loads(get_operator("quantized_matmul").workload(out_dtype="int8", **params).program)


def dequantised(m: int = 7, n: int = 35, k: int = 18) -> Program:
    """bfloat16 times int8 weights with a scale per column."""
    x, w = te.input("x", (m, k), "bfloat16"), te.input("w", (k, n), "int8")
    scale = te.input("scale", (n,))

    def term(i: Expr, j: Expr, r: Expr) -> Expr:
        return te.cast(x[i, r], "float32") * (te.cast(w[r, j], "float32") * scale[j])

    return te.program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r)), dtype="bfloat16"))[0]


def shifted_bytes(m: int = 6, n: int = 20, k: int = 11) -> Program:
    """Bytes less their zero points: no padded reads, but whole numbers."""
    x, y = te.input("x", (m, k), "uint8"), te.input("y", (k, n), "int8")

    def term(i: Expr, j: Expr, r: Expr) -> Expr:
        return (te.cast(x[i, r], "int32") - 113) * te.cast(y[r, j], "int32")

    return te.program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r))))[0]


def bytes_of(a: str, b: str, m: int = 9, n: int = 25, k: int = 13) -> Program:
    x, y = te.input("x", (m, k), a), te.input("y", (k, n), b)

    def term(i: Expr, j: Expr, r: Expr) -> Expr:
        return te.cast(x[i, r], "int32") * te.cast(y[r, j], "int32")

    return te.program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r))))[0]


def gathered_bias(m: int = 5, n: int = 34, k: int = 6) -> Program:
    """An epilogue that reads a table by a column's index."""
    x, y = te.input("x", (m, k), "float16"), te.input("y", (k, n), "float16")
    table, index = te.input("table", (9,)), te.input("index", (n,), "int32")

    def term(i: Expr, j: Expr, r: Expr) -> Expr:
        return te.cast(x[i, r], "float32") * te.cast(y[r, j], "float32")

    s = te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r)))
    return te.program(te.compute((m, n), lambda i, j: s[i, j] + table[index[j]], dtype="float16"))[0]


PROGRAMS = {
    "bf16": lambda: matmul(m=13, n=37, k=19, dtype="bfloat16"),
    "bf16_trans": lambda: matmul(m=18, n=41, k=34, dtype="bfloat16", trans_a=True, trans_b=True, out_dtype="float32"),
    "bf16_batch": lambda: matmul(b=3, m=7, n=33, k=10, dtype="bfloat16", bias=True, activation="gelu", residual=True),
    "f16": lambda: matmul(m=11, n=150, k=35, dtype="float16", bias=True, activation="relu"),
    "f16_trans": lambda: matmul(m=9, n=21, k=16, dtype="float16", trans_b=True),
    "int8": lambda: matmul(m=14, n=39, k=23, dtype="int8"),
    "int8_trans": lambda: matmul(m=9, n=70, k=18, dtype="int8", trans_a=True, trans_b=True, residual=True),
    "int8_real": lambda: matmul(b=2, m=5, n=18, k=65, dtype="int8", out_dtype="bfloat16", bias=True, activation="silu"),
    "vector_bf16": lambda: matmul(m=1, n=100, k=70, dtype="bfloat16"),
    "vector_int8": lambda: matmul(m=1, n=70, k=101, dtype="int8", trans_b=True),
    "column_bf16": lambda: matmul(m=40, n=1, k=33, dtype="bfloat16", out_dtype="float32"),
    "conv_nchw": lambda: padded_conv("NCHW", "bfloat16", "float32"),
    "conv_nhwc": lambda: padded_conv("NHWC", "float16", "float16"),
    "conv_int8": lambda: padded_conv("NHWC", "int8", "int32"),
    "conv_int8_nchw": lambda: padded_conv("NCHW", "int8", "float32"),
    "requantised": requantised,
    "quantised": lambda: quantised(m=11, n=45, k=30, bias=True, activation="relu", constant="weight"),
    "quantised_trans": lambda: quantised(m=5, n=35, k=21, trans_b=True, activation="gelu"),
    "dequantised": dequantised,
    "shifted_bytes": shifted_bytes,
    "u8s8": lambda: bytes_of("uint8", "int8"),
    "s8u8": lambda: bytes_of("int8", "uint8"),
    "u8u8": lambda: bytes_of("uint8", "uint8"),
    "gathered_bias": gathered_bias,
    "guarded": lambda: guarded_epilogue(inside=True),
}


EVERYWHERE = ("cpu:avx512bf16", "cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")


ALWAYS = ("bf16", "bf16_trans", "f16", "int8", "int8_real", "vector_int8", "conv_nchw", "quantised")


class TestDot(TemplateContract):
    templates = ("cpu_dot",)
    programs = {k: PROGRAMS[k] for k in ALWAYS}  # noqa: RUF012
    schedules = 1


@pytest.mark.nightly
class TestDotThoroughly(TemplateContract):
    templates = ("cpu_dot",)
    programs = PROGRAMS
    schedules = 8
    targets = EVERYWHERE


# --------------------------------------------------------------------------- what runs here, exactly


def targets_here() -> list[Target]:
    return [t for t in available() if t.variant != "portable"][:1] + [t for t in available() if t.variant == "portable"]


Knobs = Mapping[str, int | str | bool]


def run(program: Program, target: Target, inputs: list[np.ndarray], *each: Knobs) -> list[np.ndarray]:
    """The results of some schedules, default ones but for such knobs; constant inputs are packed before."""
    task = task_of(program, target)
    default, space = TEMPLATE.default(task).values, TEMPLATE.space(task)
    candidates = [Candidate(task, space.schedule({**default, **knobs})) for knobs in each]
    kernels = {c.symbol: TEMPLATE.lower(c) for c in candidates}
    built = get_backend("cpu").build([prelude(target), *(k.source for k in kernels.values())], target, None)
    kind = np.dtype("uint16" if program.output.dtype == "bfloat16" else program.output.dtype)
    outs = []
    for candidate in candidates:
        kernel = kernels[candidate.symbol]
        loaded = load_path(built.path).kernel(kernel.program, launch_values(candidate), target.threads)
        out = np.zeros(program.output.shape, kind)
        call = loaded.prepare([*(a.ctypes.data for a in inputs), out.ctypes.data])
        for _ in range(2):  # packed memory serves more than one call
            out.view(np.uint8)[...] = 0xA5
            call.run()
        outs.append(out)
    return outs


@pytest.mark.parametrize("target", targets_here(), ids=lambda t: t.variant)
@pytest.mark.parametrize(
    ("kinds", "packs"),
    [
        (("int8", "int8"), ("none", "whole")), (("uint8", "int8"), ("none", "blocks", "whole")),
        (("int8", "uint8"), ("blocks",)), (("uint8", "uint8"), ("whole",)),
    ],
)  # fmt: skip
def test_bytes_are_summed_exactly_at_their_extremes(
    kinds: tuple[str, str], packs: tuple[str, ...], target: Target
) -> None:
    """No step saturates: -128 * -128 and 255 * -128 over a long k, and every other pair of extremes."""
    k = 4099
    program = bytes_of(*kinds, m=4, n=19, k=k)
    ends = [np.array([np.iinfo(t).min, np.iinfo(t).max], t) for t in kinds]
    x = ends[0][np.arange(4) % 2].repeat(k).reshape(4, k)
    y = np.tile(ends[1][(np.arange(19) // 2) % 2], (k, 1))
    x[2:, ::3] = ends[0][0]
    for got in run(program, target, [x, np.ascontiguousarray(y)], *({"pack_b": pack} for pack in packs)):
        np.testing.assert_array_equal(got, x.astype(np.int64) @ y.astype(np.int64))


@pytest.mark.parametrize(
    ("trans_b", "dtype", "target"),
    [
        *((False, dtype, targets_here()[0]) for dtype in ("bfloat16", "int8", "float16")),
        *((True, dtype, targets_here()[-1]) for dtype in ("bfloat16", "int8", "float16")),
        (True, "bfloat16", targets_here()[0]), (False, "int8", targets_here()[-1]),
    ],
    ids=lambda x: x.variant if isinstance(x, Target) else str(x),
)  # fmt: skip
def test_constant_weights_are_packed_once(dtype: str, trans_b: bool, target: Target) -> None:
    out = "int32" if dtype == "int8" else "float32"
    program = matmul(m=5, n=50, k=70, dtype=dtype, out_dtype=out, trans_b=trans_b, constant="b")
    inputs = random_arrays(program)
    for got in run(program, target, inputs, {"KC": 16}, {"KC": 70}):
        check(program, inputs, got)
    task = task_of(program, target)
    lowered = TEMPLATE.lower(Candidate(task, TEMPLATE.default(task)))
    assert [x.input for x in lowered.program.prepack] == [1]


def test_a_constant_that_is_read_elsewhere_keeps_its_place() -> None:
    x, w = te.input("x", (6, 8), "bfloat16"), te.input("w", (8, 9), "bfloat16", constant=True)

    def term(i: Expr, j: Expr, r: Expr) -> Expr:
        return te.cast(x[i, r], "float32") * te.cast(w[r, j], "float32")

    s = te.compute((6, 9), lambda i, j: te.sum(8, lambda r: term(i, j, r)))
    program = te.program(te.compute((6, 9), lambda i, j: s[i, j] + te.cast(w[i, j], "float32")))[0]
    found = match(program)
    assert found is not None
    assert constant(found, "b") is None


@pytest.mark.parametrize("target", targets_here(), ids=lambda t: t.variant)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_infinities_and_nan_go_where_they_belong(dtype: str, target: Target) -> None:
    """Padding with zeros must not turn an infinity into NaN, nor a NaN of one row reach another."""
    program = matmul(m=3, n=20, k=5, dtype=dtype, out_dtype="float32")
    inputs = random_arrays(program)
    bits = [a.view(np.uint16) for a in inputs]
    infinity, nan = (0x7F80, 0x7FC0) if dtype == "bfloat16" else (0x7C00, 0x7E00)
    bits[0][0, 4], bits[0][1, 0] = infinity, nan
    for got in run(program, target, inputs, {"pack_b": "none"}, {"pack_b": "whole"}):
        assert np.isinf(got[0]).all()
        assert np.isnan(got[1]).all()
        assert np.isfinite(got[2]).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
def test_results_are_within_the_tolerance_of_tuning(dtype: str) -> None:
    """The tolerance that measuring uses: rounding errors of float32 sums, far below a 16-bit input's."""
    program = matmul(m=8, n=40, k=301, dtype=dtype, out_dtype="int32" if dtype == "int8" else "float32")
    inputs = random_arrays(program)
    wide = [from_bfloat16(a) if dtype == "bfloat16" else a for a in inputs]
    a, b = (x.astype(np.float64) for x in wide)
    bound = 2 * 2 * 2.0**-24 * np.sqrt(301) * (np.abs(a @ b) + 5 * np.sqrt(a**2 @ b**2))
    (got,) = run(program, targets_here()[0], inputs, {})
    assert (np.abs(got - a @ b) <= bound).all()


# --------------------------------------------------------------------------- matching


KINDS = {
    "avx512bf16": ("bf16", "f32", "u8s8", "u8s8", "s16", "i32"),
    "avx512": ("f32", "f32", "s16", "s16", "s16", "i32"),
    "avx2": ("f32", "f32", "s16", "s16", "s16", "i32"),
    "neon": ("f32", "f32", "i32", "i32", "i32", "i32"),
}


@pytest.mark.parametrize("variant", list(KINDS))
def test_each_variant_has_its_dot_instructions(variant: str) -> None:
    target = parse_target(f"cpu:{variant}", allow_foreign=True)
    programs = [PROGRAMS[k]() for k in ("bf16", "f16", "int8", "u8s8", "u8u8", "shifted_bytes")]
    found = [match(p) for p in programs]
    assert tuple(kind_of(c, target).name for c in found if c is not None) == KINDS[variant]


def halves(body: str, dtype: str = "bfloat16") -> Program:
    """Programs near the class."""
    m, n, k = 4, 6, 5
    x, y = te.input("x", (m, k), dtype), te.input("y", (k, n), dtype)

    def f(v: Expr) -> Expr:
        return te.cast(v, "float32")

    bodies = {
        "sum": lambda i, j: te.sum(k, lambda r: f(x[i, r]) + f(y[r, j])),
        "max": lambda i, j: te.max(k, lambda r: f(x[i, r]) * f(y[r, j])),
        "square": lambda i, j: te.sum(k, lambda r: f(x[i, r]) * f(y[r, j]) * f(y[r, j]) * f(x[i, r])),
        "one_side": lambda i, j: te.sum(k, lambda r: f(y[r, j])),
        "both": lambda i, j: te.sum(k, lambda r: f(x[i, r]) * f(y[r, j]) + 1.0),
        "narrow": lambda i, j: te.sum(k, lambda r: x[i, r] * y[r, j]),
    }
    return te.program(te.compute((m, n), bodies[body], dtype="float32"))[0]


def guarded_epilogue(inside: bool) -> Program:
    x, y, b = te.input("x", (4, 5), "float16"), te.input("y", (5, 6), "float16"), te.input("b", (3,))

    def term(i: Expr, j: Expr, r: Expr) -> Expr:
        return te.cast(x[i, r], "float32") * te.cast(y[r, j], "float32")

    def value(j: Expr) -> Expr:
        return b[j // 2] if inside else te.select(j < 3, b[j], 0.0)

    s = te.compute((4, 6), lambda i, j: te.sum(5, lambda r: term(i, j, r)))
    return te.program(te.compute((4, 6), lambda i, j: te.select(s[i, j] > 0, s[i, j], value(j))))[0]


@pytest.mark.parametrize("body", ["sum", "max", "one_side", "both", "narrow"])
def test_what_is_no_such_product_is_refused(body: str) -> None:
    assert match(halves(body)) is None


def test_more_programs_that_are_refused() -> None:
    assert match(matmul(m=4, n=5, k=6)) is None  # float32: another template's
    assert match(matmul(m=4, n=5, k=6, dtype="float64")) is None
    assert match(guarded_epilogue(inside=False)) is None  # its read may lie outside
    assert match(guarded_epilogue(inside=True)) is not None
    assert match(halves("square")) is None  # a function of the two sides, but no product
    with pytest.raises(IllegalSchedule, match="Use another template"):
        TEMPLATE.space(task_of(guarded_epilogue(inside=False), targets_here()[0]))


def test_operands_are_read_in_place_where_their_layout_allows() -> None:
    def found(**params: int | bool | str) -> tuple[bool, bool]:
        c = match(matmul(m=8, n=9, k=6, dtype="bfloat16", **params))
        assert c is not None
        return direct_a(c, BF16), direct_b(c)

    assert found() == (True, True)
    assert found(trans_a=True) == (False, True)
    assert found(trans_b=True) == (True, False)


@pytest.mark.parametrize(
    ("threads", "target"),
    # Threads change nothing in the text of a kernel: two of them, and so two parts, are tried once.
    [*((7, t) for t in targets_here()), (2, targets_here()[0])],
    ids=lambda x: x.variant if isinstance(x, Target) else str(x),
)
@pytest.mark.parametrize("label", ["bfloat16", "float16", "int8", "constant"])
def test_tasks_share_a_long_sum(label: str, threads: int, target: Target) -> None:
    """Their parts end at blocks of k, the last one within a unit; what follows the sum is computed once."""
    if label == "constant":
        program = quantised(m=5, n=14, k=777, bias=True, activation="relu", constant="weight")
    else:
        program = matmul(m=5, n=14, k=777, dtype=label, bias=True, out_dtype="float32")
    shared, inputs = replace(target, threads=threads), random_arrays(program)
    task = task_of(program, shared)
    assert TEMPLATE.default(task).values["TK"] == min(threads, 3)
    expected = evaluate(program, inputs)
    packs = next(k.values for k in TEMPLATE.space(task).knobs if k.name == "pack_b")
    few = packs if threads > 2 else packs[-1:]
    for got in run(program, shared, inputs, *({"pack_b": str(pack), "half_b": False} for pack in few)):
        check(program, inputs, got, expected)


def test_a_schedule_outside_of_the_space_is_refused() -> None:
    task = task_of(PROGRAMS["bf16"](), parse_target("cpu:avx512bf16", allow_foreign=True))
    within = TEMPLATE.space(task)
    with pytest.raises(IllegalSchedule, match="tile"):
        within.check(within.schedule({**TEMPLATE.default(task).values, "MR": 13, "NV": 3}))

"""Printed expressions and loops: texts, and what they compute when compiled."""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Mapping

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.kernels import te
from tilewright.kernels.codegen.emitter import Emitter, Scope
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.codegen.printer import Printer, number
from tilewright.kernels.codegen.ranges import index_range
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import INDEX, Expr, axis, cast, const, load, select
from tilewright.kernels.loopnest import Loop, LoopNest

BACKEND = get_backend("cpu")
HOST = BACKEND.targets()[0]
i, j = axis("i"), axis("j")


def text(e: Expr, ranges: Mapping[str, tuple[int, int]] | None = None) -> str:
    return Printer({"i": "i", "j": "j"}, lambda x, _: f"{x.value}[...]", ranges=ranges or {}).text(e)


def build(body: str) -> ctypes.CDLL:
    """Compile C++ functions that ``EXPORT`` marks, for this machine."""
    export = '#define EXPORT extern "C" __attribute__((visibility("default")))\n'
    return ctypes.CDLL(BACKEND.build([prelude(HOST), export, body], HOST).path)


# ------------------------------------------------------------------ literals


def test_literals_are_printed_exactly() -> None:
    assert number(3, INDEX) == "3L"
    assert number(-1, "int32") == "-1"
    assert number(True, "bool") == "true"
    assert number(float("-inf"), "float32") == "-__builtin_inff()"
    assert number(float("inf"), "float64") == "__builtin_inf()"
    assert number(float("nan"), "float32") == '__builtin_nanf("")'
    assert number(-0.0, "float32") == "-0.0f"
    assert number(2.0, "float64") == "2.0"


def test_literals_are_exact_when_compiled() -> None:
    rng = random.Random(0)
    reals = [0.1, 1e-45, 3.4028234663852886e38, -1e-310, 5e-324, 1.7976931348623157e308, 1 / 3, 1e6, 123456.5]
    reals += [struct.unpack("d", rng.randbytes(8))[0] for _ in range(200)]
    reals = [x for x in reals if math.isfinite(x)]
    small = [x for x in reals if abs(x) < 3.4e38]
    whole = [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**40]
    doubles = ", ".join(number(x, "float64") for x in reals)
    floats = ", ".join(number(x, "float32") for x in small)
    longs = ", ".join(number(x, "int64") for x in whole)
    library = build(
        f"EXPORT double d[] = {{{doubles}}}; EXPORT float f[] = {{{floats}}}; EXPORT long n[] = {{{longs}}};"
    )
    assert list((ctypes.c_double * len(reals)).in_dll(library, "d")) == reals
    got = np.array((ctypes.c_float * len(small)).in_dll(library, "f"), np.float32)
    np.testing.assert_array_equal(got, np.array(small, np.float32))
    assert list((ctypes.c_long * len(whole)).in_dll(library, "n")) == whole


# ------------------------------------------------------------------ whole-number division


def test_division_is_cheap_where_the_operand_cannot_be_negative() -> None:
    assert text((i + 3) // 5) == "((i + 3L) / 5L)"
    assert text((i * 2 + j) % 6) == "(((i * 2L) + j) % 6L)"
    assert text((i - 1) // 5, {"i": (0, 9)}) == "tw::floordiv<long>((i - 1L), 5L)"
    assert text((i - 1) // 5, {"i": (1, 9)}) == "((i - 1L) / 5L)"
    assert text((i - 1) % 8) == "((i - 1L) & 7)"
    assert text((i - 1) // 4) == "((i - 1L) >> 2)"


def test_division_rounds_down() -> None:
    cases = [(i - 7) // 3, (i - 7) % 3, (i - 7) // 4, (i - 7) % 4, (5 - i) // 6, (5 - i) % 6, i // 5, i % 5]
    body = "".join(f"EXPORT long q{n}(long i) {{ return {text(e)}; }}\n" for n, e in enumerate(cases))
    lanes = 4
    for n, e in enumerate(cases):
        printed = Printer({"i": "i"}, lambda *_: "", lanes=lanes, vector="i", ranges={"i": (0, 40)}).text(e)
        body += f"EXPORT void v{n}(long i, long *out) {{ tw::store(out, {printed}); }}\n"
    library = build(body)
    for n, e in enumerate(cases):
        scalar, vector = getattr(library, f"q{n}"), getattr(library, f"v{n}")
        scalar.restype = ctypes.c_long
        for at in range(20):
            expected = [value(e, at + k) for k in range(lanes)]
            assert scalar(ctypes.c_long(at)) == expected[0], (e, at)
            out = (ctypes.c_long * lanes)()
            vector(ctypes.c_long(at), out)
            assert list(out) == expected, (e, at)


def value(e: Expr, at: int) -> int:
    if e.op == "const":
        return int(e.value)  # type: ignore[arg-type]
    if e.op == "axis":
        return at
    a, b = (value(x, at) for x in e.args)
    return {"add": a + b, "sub": a - b, "mul": a * b, "floordiv": a // (b or 1), "mod": a % (b or 1)}[e.op]


def test_ranges_of_index_expressions_are_found() -> None:
    axes = {"i": (0, 9), "j": (2, 4)}
    assert index_range(i * 3 - j, axes) == (-4, 25)
    assert index_range((i - 5) // 2, axes) == (-3, 2)
    assert index_range((i - 5) % 4, axes) == (0, 3)
    assert index_range(te.cast(i * 3, "int8"), axes) == (0, 27)
    assert index_range(te.cast(i * 30, "int8"), axes) == (-128, 127)  # it wraps
    assert index_range(te.cast(i - 1, "uint8"), axes) == (0, 255)
    assert index_range(j % 8, axes) == (2, 4)
    assert index_range(te.minimum(i, j), axes) == (0, 4)
    assert index_range(te.maximum(i, 3), axes) == (3, 9)
    assert index_range(-i, axes) == (-9, 0)
    assert index_range(axis("free"), axes) == (0, math.inf)
    assert index_range(axis("free") * -2, axes) == (-math.inf, math.inf)
    assert index_range(cast(load("x", "uint8", ()), INDEX), axes) == (0, 255)
    assert index_range(cast(load("x", "int64", ()), INDEX), axes) == (-math.inf, math.inf)


# ------------------------------------------------------------------ values


def test_scalars_print_lazily() -> None:
    x = load("x", "float32", (i,))
    assert text(select(i > 0, x, 0.0)) == "((i > 0L) ? x[...] : 0.0f)"
    assert text(cast(x, "int8")) == "(signed char)(x[...])"
    assert text(cast(x, "float64") * 0.5) == "((double)(x[...]) * 0.5)"
    assert text(te.exp(-x)) == "tw::exp(float((-x[...])))"
    assert text(cast(x, "bool") & (i < j)) == "((x[...] != 0) && (i < j))"


def vector(e: Expr, var: Mapping[str, str] | None = None) -> str:
    names = dict(var or {})
    return Printer(
        {"i": "i", "j": "j"}, lambda x, _: f"{x.value}[]", names, 8, "j", frozenset(names), ranges={"j": (0, 99)}
    ).text(e)


def test_vectors_widen_what_is_the_same_in_all_lanes() -> None:
    row, column = load("r", "float32", (i,)), load("c", "float32", (j,))
    assert vector(row) == "tw::splat<tw::vec<float, 8>>(r[])"
    assert vector(row * column) == "((float)(r[]) * c[])"
    assert vector(te.exp(row) + column) == "((float)(tw::exp(float(r[]))) + c[])"
    assert vector(te.maximum(row, column)) == ("tw::max<tw::vec<float, 8>>(tw::splat<tw::vec<float, 8>>(r[]), c[])")
    assert vector(Expr("var", "float32", (), "l0") + row, {"l0": "a"}) == "(a + (float)(r[]))"


def test_conditions_of_a_whole_vector_are_tested_once() -> None:
    x = load("x", "float32", (i, j))
    printed = vector(select((i > 2) & (j > 3), x, 0.0))
    assert printed.startswith("((i > 2L) ? tw::select(")
    assert printed.endswith(": tw::splat<tw::vec<float, 8>>(0.0f))")


def test_guards_reach_the_reads_behind_them() -> None:
    seen: list[tuple[str, str | None]] = []

    def read(e: Expr, guard: str | None) -> str:
        seen.append((str(e.value), guard))
        return f"{e.value}[]"

    a, b, c = (load(n, "float32", (j,)) for n in "abc")
    inner = select(j > 5, b, c)
    printer = Printer({"j": "j"}, read, lanes=8, vector="j", ranges={"j": (0, 99)})
    printer.text(a + select(j < 9, inner, 0.0))
    guards = dict(seen)
    assert guards["a"] is None
    assert guards["b"] is not None
    assert guards["b"].startswith("tw::both(")
    assert guards["c"] is not None
    assert "(~" in guards["c"]


def test_repeated_values_are_computed_once() -> None:
    x, y = load("x", "float32", (i,)), load("y", "float32", (i,))
    common = te.exp(x * 2.0)
    lines: list[str] = []
    names = iter("abcdef")
    printer = Printer({"i": "i"}, lambda e, _: f"{e.value}[i]")
    body = common + select(i > 0, common * y, y + 1.0)
    printer.bind([body], lines.append, lambda stem: next(names))
    assert lines == ["const float a = tw::exp(float((x[i] * 2.0f)));"]
    # y is read behind the condition only: it stays there.
    assert printer.text(body) == "(a + ((i > 0L) ? (a * y[i]) : (y[i] + 1.0f)))"


# ------------------------------------------------------------------ loops


def covered(
    nest: LoopNest, arguments: Mapping[str, int], blocks: dict[str, tuple[int, ...]] | None = None,
    tasks: str = "1L", offsets: Mapping[str, str] | None = None,
) -> np.ndarray:  # fmt: skip
    """How often each point is visited when the printed loops run; threads take tasks in any order."""
    names = list(nest.axes)
    emitter = Emitter("tw_loops")
    emitter.tensors({"count": "long"})
    emitter.arguments(tuple(arguments))

    def body(w: Writer, s: Scope) -> None:
        flat = "0"
        loops = []
        for a in names:
            loops.append(
                f"for (long p_{a} = {s.tiles[a].start}; p_{a} < {s.tiles[a].start} + {s.tiles[a].count}; p_{a}++)"
            )
            flat = f"({flat}) * {nest.axes[a]} + p_{a}"
        w.line(f"{' '.join(loops)} count[{flat}]++;")

    emitter.nest(emitter.entry, nest, body, blocks=blocks, tasks=tasks, offsets=offsets)
    library = ctypes.CDLL(BACKEND.build([prelude(HOST), emitter.unit()], HOST).path)
    counts = np.zeros(tuple(nest.axes.values()), np.int64)
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
    parallel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long, task, ctypes.c_void_p)

    @parallel
    def run(pool: object, tasks: int, fn: object, ctx: object) -> None:
        for t in reversed(range(tasks)):
            fn(ctx, t, t % 2)  # type: ignore[operator]

    class Env(ctypes.Structure):
        _fields_ = (("run", parallel), ("pool", ctypes.c_void_p), ("threads", ctypes.c_long))

    values = (ctypes.c_longlong * max(1, len(arguments)))(*arguments.values())
    assert (
        library.tw_loops((ctypes.c_void_p * 1)(counts.ctypes.data), values, None, ctypes.byref(Env(run, None, 2))) == 0
    )
    return counts


def test_nested_tiles_with_tails_visit_every_point_once() -> None:
    def loops(mc: int, kc: int) -> LoopNest:
        return LoopNest("x", {"i": 29, "k": 23}, (
            Loop("i", 29, mc, "parallel", argument="MC"), Loop("k", 23, kc, argument="KC"),
            Loop("i", mc, 4), Loop("k", kc, 5), Loop("k", 5, 2, "unroll"), Loop("i", 4, 1, "unroll"),
        ), ())  # fmt: skip

    for mc, kc in ((8, 10), (29, 23), (5, 1), (40, 64)):
        assert (covered(loops(mc, kc), {"MC": mc, "KC": kc}) == 1).all(), (mc, kc)


def test_parallel_loops_next_to_each_other_are_one_set_of_tasks() -> None:
    nest = LoopNest("x", {"i": 11, "j": 7, "k": 3}, (
        Loop("j", 7, 7), Loop("i", 11, 4, "parallel"), Loop("j", 7, 3, "parallel"), Loop("k", 3, 1, "parallel"),
        Loop("i", 4, 1), Loop("j", 3, 1),
    ), ())  # fmt: skip
    assert (covered(nest, {}) == 1).all()


def test_parallel_loops_inside_of_serial_ones() -> None:
    nest = LoopNest("x", {"i": 9, "j": 5}, (
        Loop("i", 9, 2), Loop("j", 5, 2, "parallel"), Loop("i", 2, 1, "parallel"), Loop("j", 2, 1),
    ), ())  # fmt: skip
    assert (covered(nest, {}) == 1).all()


@pytest.mark.parametrize("tasks", [1, 4, 5, 63, 500])
def test_chunked_loops_are_divided_among_tasks(tasks: int) -> None:
    nest = LoopNest("x", {"i": 11, "j": 23, "k": 3}, (
        Loop("i", 11, 1, "chunked"), Loop("j", 23, 5, "chunked", argument="T"), Loop("k", 3, 2, "chunked"),
        Loop("j", 5, 2), Loop("k", 2, 1),
    ), ())  # fmt: skip
    for step in (5, 23, 40):
        assert (covered(nest, {"T": step, "N": tasks}, tasks="N") == 1).all(), step


@pytest.mark.parametrize("offset", [0, 1, 3, 4])
def test_the_first_chunked_tile_is_longer_by_an_offset(offset: int) -> None:
    nest = LoopNest("x", {"i": 21, "j": 2}, (Loop("i", 21, 4, "chunked", argument="T"), Loop("j", 2, 1)), ())
    for step in (4, 8, 30):
        given = {"T": step, "S": offset}
        assert (covered(nest, given, tasks="3L", offsets={"i": "S"}) == 1).all(), step


@pytest.mark.parametrize("extent", [1, 3, 8, 13, 16, 21])
def test_blocks_of_several_sizes(extent: int) -> None:
    nest = LoopNest("x", {"i": extent, "j": 3}, (
        Loop("i", extent, 10, argument="T"), Loop("i", 10, 8, level="register"), Loop("j", 3, 2, level="register"),
    ), ())  # fmt: skip
    for blocks in ({"i": (8, 4), "j": (2, 1)}, {"i": (8, 1), "j": (2,)}):
        assert (covered(nest, {"T": 10}, blocks) == 1).all(), blocks


def test_hooks_stand_around_the_loops_they_name() -> None:
    nest = LoopNest("x", {"i": 4, "r": 3}, (Loop("i", 4, 1), Loop("r", 3, 1)), ())
    w = Writer()
    Emitter("e").nest(
        w, nest, lambda w, s: w.line("body;"),
        before={1: lambda w, s: w.line(f"start {s.at('i')};")}, after={1: lambda w, s: w.line("end;"), 0: lambda w, s: w.line("done;")},
    )  # fmt: skip
    assert [x.strip() for x in w.lines] == [
        "for (long i_1 = 0; i_1 < 4L; i_1++) {", "start i_1;", "for (long r_2 = 0; r_2 < 3L; r_2++) {", "body;", "}",
        "end;", "}", "done;",
    ]  # fmt: skip


def test_run_time_steps_leave_no_trace_of_their_value() -> None:
    def printed(step: int) -> str:
        w = Writer()
        nest = LoopNest("x", {"i": 64}, (Loop("i", 64, step, argument="T"), Loop("i", step, 1)), ())
        Emitter("e").nest(w, nest, lambda w, s: w.line(s.tiles["i"].count))
        return w.text()

    assert printed(8) == printed(64) == printed(100)


def test_constants_of_expressions_fold() -> None:
    assert text(const(3, INDEX) + const(4, INDEX)) == "7L"

"""Results judged on the device: its verdict on planted mistakes is the verifier's, whatever the types and shapes.

The check's kernels run on the emulator; what a kernel under test would leave is written into the device's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.build import NvrtcToolchain
from tilewright.backends.cuda.nvrtc import NoNvrtc
from tilewright.core import Device, LaunchProgram
from tilewright.dtypes import numpy_dtype
from tilewright.kernels import te
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.measure.check_kernels import SYMBOLS, format_of, source, table_of
from tilewright.measure.gpu_session import GpuSession, _CheckedRun
from tilewright.measure.messages import KernelFile
from tilewright.verifying.inputs import Array
from tilewright.verifying.projection import Projection
from tilewright.verifying.references import Interval, as_interval
from tilewright.verifying.verify import ALL_SETS, Expected, InputSet, Verifier, mismatch

DEVICE = Device("emulator:0", "emulator", "emulator")
Leave = Callable[[GpuSession, list[int], list[Array]], None]


@pytest.fixture(scope="module")
def session() -> Iterator[GpuSession]:
    plain = {"backend": "emulator", "driver": None, "references": ""}
    s = GpuSession({**get_backend("emulator").settings(DEVICE, 0), **plain}, lambda _: None)
    assert s.device is not None
    yield s
    s._forget()


def given(session: GpuSession, program: Program, full: float = 60.0) -> GpuSession:
    """The session with a program as its task."""
    session._reset(program.dumps())
    session.program, session.verifier = program, Verifier(program, full=full)
    session._prepare(KernelFile("", "", "", "", LaunchProgram(()), {}))
    return session


def launched(bind: Callable[..., Any], workspace: int = 0) -> SimpleNamespace:
    """A kernel that takes all inputs as they are."""
    return SimpleNamespace(workspace=workspace, packed={}, pack=lambda tensors, _: tensors, bind=bind)


def call(session: GpuSession, n: int, leave: Leave, workspace: int = 0) -> tuple[_CheckedRun, InputSet, Any]:
    """What a kernel leaves behind that is ``leave``: it gets all addresses and the right outputs."""
    data, name = session._set(n, 1, 1.0)
    outputs = right(session.program, data)

    def bind(pointers: Sequence[int], scratch: int) -> Callable[[], None]:
        return lambda: leave(session, [*pointers, scratch], outputs)

    kernel: Any = SimpleNamespace(kernel=launched(bind, workspace))
    return _CheckedRun(session, kernel, data), data, name


def right(program: Program | None, data: InputSet) -> list[Array]:
    """The reference's results, as a kernel would round them."""
    assert program is not None
    inputs = [g.array for g in data.inputs]
    out = []
    for p, t in zip(program.of_each(), program.outputs, strict=True):
        value = np.asarray(evaluate(p, inputs))
        made = encode(value, t.dtype) if t.dtype in FLOATS else value.astype(numpy_dtype(t.dtype))
        out.append(np.ascontiguousarray(made))
    return out


def both(session: GpuSession, n: int, leave: Leave, workspace: int = 0) -> tuple[bool, str | None]:
    """Whether the device says that all is right, and what the verifier says is wrong."""
    assert session.device is not None
    run, _, name = call(session, n, leave, workspace)
    return run.right(session.device, name), run.problem()


def write(session: GpuSession, pointers: list[int], outputs: list[Array]) -> None:
    """Leave these outputs."""
    first = len(session.program.inputs)
    for address, values in zip(pointers[first:], outputs, strict=False):
        session.context.upload(address, np.ascontiguousarray(values))


# --------------------------------------------------------------------------- programs of all kinds


def built_in(name: str, **params: Any) -> Program:
    return Program.loads(get_operator(name).workload(**params).program)


def scaled(dtype: str) -> Program:
    x = te.input("x", (9, 14), "float32")
    return te.program(te.compute((9, 14), lambda i, j: te.cast(x[i, j] * 1.5, dtype)))[0]


def whole(dtype: str) -> Program:
    x = te.input("x", (5, 30), dtype)
    return te.program(te.compute((5,), lambda i: te.max(30, lambda k: x[i, k])))[0]


def condition() -> Program:
    x = te.input("x", (6, 11))
    return te.program(te.compute((6, 11), lambda i, j: x[i, j] > 0.25))[0]


def double() -> Program:
    x = te.input("x", (6, 11), "float64")
    return te.program(te.compute((6, 11), lambda i, j: x[i, j] * x[i, j]))[0]


def several() -> Program:
    x = te.input("x", (12, 40))
    mean = te.compute((12,), lambda i: te.sum(40, lambda k: x[i, k] / 40.0))
    return te.program((te.compute((12, 40), lambda i, j: x[i, j] - mean[i]), mean))[0]


def infinite() -> Program:
    """Masked scores: infinities by definition, and NaN."""
    x = te.input("x", (6, 8))
    inf = float("inf")
    masked = te.compute((6, 8), lambda i, j: te.select(i < 2, -inf, te.select(j < 3, inf, x[i, j])))
    return te.program(te.compute((6, 8), lambda i, j: masked[i, j] - te.select(i < 1, masked[i, j], 0.0)))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "matmul": lambda: built_in("matmul", m=12, n=10, k=20),
    "matmul of bfloat16": lambda: built_in("matmul", m=12, n=10, k=20, dtype="bfloat16"),
    "float16": lambda: scaled("float16"),
    "bfloat16": lambda: scaled("bfloat16"),
    "float8_e4m3fn": lambda: scaled("float8_e4m3fn"),
    "float8_e5m2": lambda: scaled("float8_e5m2"),
    "int8": lambda: whole("int8"),
    "uint8": lambda: whole("uint8"),
    "int32": lambda: whole("int32"),
    "int64": lambda: whole("int64"),
    "bool": condition,
    "float64": double,
    "several outputs": several,
    "not finite": infinite,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_device_finds_right_and_wrong_what_the_verifier_does(session: GpuSession, name: str) -> None:
    program = PROGRAMS[name]()
    given(session, program)
    rng = np.random.default_rng(0)
    for n in ALL_SETS:
        assert both(session, n, write) == (True, None), n
        for _ in range(6):
            verdict, problem = both(session, n, planted(rng, program))
            assert verdict == (problem is None), (n, problem)


def planted(rng: np.random.Generator, program: Program) -> Leave:
    """Right outputs with one element's bits changed, by little or by much, or left unwritten."""
    number = int(rng.integers(len(program.outputs)))
    step = int(rng.choice([-1, 1, 2, -17, 1 << 30]))

    def leave(session: GpuSession, pointers: list[int], outputs: list[Array]) -> None:
        write(session, pointers, outputs)
        out, first = outputs[number], pointers[len(program.inputs) + number]
        at = int(rng.integers(out.size))
        bits = out.reshape(-1)[at : at + 1].view(f"u{out.itemsize}")
        changed = np.array([(int(bits[0]) + step) % (1 << 8 * out.itemsize)], bits.dtype)
        if program.outputs[number].dtype == "bool":
            changed = 1 - bits
        session.context.upload(first + at * out.itemsize, changed)

    return leave


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("end", ["low", "high"])
def test_a_bound_is_right_and_the_next_value_beyond_it_is_not(session: GpuSession, dtype: str, end: str) -> None:
    given(session, scaled(dtype) if dtype != "float64" else double())
    (interval,) = session.verifier.input_set(0).expected[0].intervals
    bound = getattr(interval, end).reshape(-1)[37]
    toward = -np.inf if end == "low" else np.inf
    seen = []
    for value in (bound, np.nextafter(bound, bound.dtype.type(toward))):

        def leave(session: GpuSession, pointers: list[int], outputs: list[Array], value: Any = value) -> None:
            outputs[0].reshape(-1)[37] = encode(np.asarray(value), dtype)
            write(session, pointers, outputs)

        verdict, problem = both(session, 0, leave)
        assert verdict == (problem is None)
        seen.append(verdict)
    if dtype in ("float32", "float64"):  # a bound of narrower ones need not be a value of theirs
        assert seen == [True, False]


@pytest.mark.parametrize("dtype", FLOATS)
def test_unwritten_elements_and_nan_are_wrong(session: GpuSession, dtype: str) -> None:
    program = given(session, scaled(dtype) if dtype != "float64" else double()).program
    assert program is not None

    def leave(session: GpuSession, pointers: list[int], outputs: list[Array]) -> None:
        out = outputs[0]
        session.context.upload(pointers[1], np.ascontiguousarray(out.reshape(-1)[:-1]))

    verdict, problem = both(session, 1, leave)
    assert not verdict
    assert problem is not None
    assert "nan" in problem


def test_values_that_are_not_finite_are_compared_as_the_verifier_does(session: GpuSession) -> None:
    """NaN must be NaN, an infinity at least huge; a value of unknown error anything but NaN."""
    value = np.array([np.nan, np.inf, -np.inf, 1e300, 1.0, 2.0])
    error = np.array([0, 0, 0, 0, np.inf, 0.5])
    interval = as_interval((slice(0, 6),), value, error, np.dtype(np.float32))
    x = te.input("x", (6,))
    program = te.program(te.compute((6,), lambda i: x[i] + 1.0))[0]
    given(session, program)
    assert session.device is not None
    data, _ = session._set(0, 1, 1.0)
    session.verifier.input_set(0).expected[0].intervals[:] = [interval]
    session.device.prepare("not finite", data, program.outputs)
    right_one = np.array([np.nan, np.inf, -np.inf, np.inf, 7, 2.5], np.float32)
    odd = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1.5e38, 0.0, 2.0], np.float32)
    for at in range(6):
        for bad in odd:
            got = right_one.copy()
            got[at] = bad

            def leave(session: GpuSession, pointers: list[int], outputs: list[Array], got: Array = got) -> None:
                session.context.upload(pointers[1], got)

            run, _, _ = call(session, 0, leave)
            wanted = mismatch(got, interval, data.recipe) is None
            assert run.right(session.device, "not finite") == wanted, (at, bad)


# --------------------------------------------------------------------------- large outputs


@pytest.mark.parametrize(
    ("dtype", "attributes"), [("float32", {}), ("bfloat16", {}), ("float32", {"bias": True}), ("float32", {"trans_a": True})]
)  # fmt: skip
def test_blocks_and_projected_sums_are_compared(session: GpuSession, dtype: str, attributes: dict[str, Any]) -> None:
    program = built_in("matmul", m=500, n=450, k=500, dtype=dtype, **attributes)
    given(session, program, full=0.0)
    data = session.verifier.input_set(2)
    assert data.expected[0].projection is not None
    seen = np.zeros((500, 450), bool)
    for i in data.expected[0].intervals:
        seen[i.block] = True
    outside, inside = tuple(np.argwhere(~seen)[1234]), tuple(np.argwhere(seen)[77])
    assert both(session, 2, write) == (True, None)
    for at, value in ((outside, 3000.0), (inside, 3000.0), (outside, np.nan), (outside, 0.5), (outside, np.inf)):

        def leave(
            session: GpuSession, pointers: list[int], outputs: list[Array], at: Any = at, value: float = value
        ) -> None:
            outputs[0][at] = encode(np.asarray(value, np.float32), dtype)
            write(session, pointers, outputs)

        verdict, problem = both(session, 2, leave)
        assert not verdict, (at, value)
        assert problem is not None, (at, value)


def judged(session: GpuSession, out: Array, dtype: str, expected: Expected) -> bool:
    """Whether the device says that an output is what one is to be that is expected by hand."""
    assert session.device is not None
    data: Any = SimpleNamespace(expected=[expected])
    session.device.prepare("by hand", data, [Tensor("x1", out.shape, dtype)])
    (region,) = session.checks.place([out.nbytes], [0], 0)
    session.context.upload(region.address, np.ascontiguousarray(out))
    try:
        return session.device.right("by hand", [region], [region])
    finally:
        session._forget()


def anything(shape: tuple[int, ...]) -> Interval:
    inf = np.full(shape, np.inf, np.float32)
    return Interval(tuple(slice(0, n) for n in shape), -inf, inf)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("bfloat16", 8), ("bfloat16", 4)])
@pytest.mark.parametrize("rest", [False, True])
def test_projected_sums_are_those_of_the_verifier(
    session: GpuSession, axis: int, dtype: str, bits: int, rest: bool
) -> None:
    """Along every axis; elements beyond ``2^bits`` may be off by half a unit of their last place, others by nothing."""
    rng = np.random.default_rng([axis, bits, rest])
    shape = (3, 5, 140)
    values = rng.integers(-40, 41, shape).astype(np.float64)
    weights = rng.integers(-1000, 1001, shape[axis]).astype(np.float64)
    more = rng.integers(-5, 6, shape).astype(np.float64) if rest else None
    wanted = np.tensordot(values - (0 if more is None else more), weights, (axis, 0))
    p = Projection(axis, weights, wanted, more, bits)
    seen = set()
    for by in (0, 1, 1, 1, 64000, -2, 0):
        off = values.copy()
        at = tuple(int(rng.integers(n)) for n in shape)
        off[at] += by
        verdict = judged(session, encode(off, dtype), dtype, Expected([anything(shape)], p, None))
        assert verdict == (p.wrong(off) == 0), (by, at)
        seen.add((by, verdict))
    assert (0, True) in seen
    assert any(by and not verdict for by, verdict in seen)
    if bits == 4:
        assert (1, True) in seen  # allowed for by the others' rounding


@pytest.mark.parametrize(
    ("values", "weights", "wanted"),
    [
        ([0.5, 0.5], [1, 1], 1),
        ([0.5, 1.0], [1, 1], 1),  # which is wrong, by what is no whole number
        ([2.0**53, 1.0, -(2.0**53)], [1, 1, 1], 0),
        ([2.0**51, 1.0, -(2.0**51)], [8, 1, 8], 0),  # wrong too, and lost in rounding
    ],
)
def test_sums_that_need_not_be_exact_are_left_to_the_verifier(
    session: GpuSession, values: list[float], weights: list[int], wanted: int
) -> None:
    out, whole = np.array(values), anything((len(values),))
    p = Projection(0, np.array(weights, np.float64), np.asarray(float(wanted)))
    expected = Expected([Interval(whole.block, whole.low.astype("d"), whole.high.astype("d"))], p, None)
    assert not judged(session, out, "float64", expected)


def test_bounds_that_are_not_numbers_are_left_to_the_verifier(session: GpuSession) -> None:
    unknown = np.array([np.nan, 1.0], np.float32)
    interval = Interval((slice(0, 2),), unknown, unknown)
    assert not judged(session, unknown, "float32", Expected([interval], None, None))


# --------------------------------------------------------------------------- around the outputs


@pytest.mark.parametrize("which", ["input number 0", "input number 1", "the output", "its workspace"])
def test_a_canary_that_changed_anywhere_is_seen(session: GpuSession, which: str) -> None:
    given(session, PROGRAMS["matmul of bfloat16"]())
    rng = np.random.default_rng(5)
    number = ["input number 0", "input number 1", "the output", "its workspace"].index(which)
    assert both(session, 0, write, workspace=100) == (True, None)
    for n in ALL_SETS:
        for place in ("first", "before", "after", "last", "anywhere"):
            run, _, name = call(session, n, write, workspace=100)
            region = run.regions[number]
            at = {
                "first": region.start,
                "before": region.address - 1,
                "after": region.address + region.size,
                "last": region.end - 1,
                "anywhere": int(rng.integers(region.address + region.size, region.end)),
            }[place]
            session.context.fill(at, region.canary ^ 1 << int(rng.integers(8)), 1)
            assert session.device is not None
            assert not run.right(session.device, name)
            assert f"writes outside {which}" in (run.problem() or "")


@pytest.mark.parametrize("number", [0, 1])
def test_an_input_that_changed_is_seen(session: GpuSession, number: int) -> None:
    given(session, PROGRAMS["matmul of bfloat16"]())
    rng = np.random.default_rng(6)
    for n in ALL_SETS:
        for where in ("first", "last", "anywhere"):

            def leave(session: GpuSession, pointers: list[int], outputs: list[Array], where: str = where) -> None:
                write(session, pointers, outputs)
                size = 2 * session.program.inputs[number].size
                at = {"first": 0, "last": size - 1, "anywhere": int(rng.integers(size))}[where]
                old = np.empty(1, np.uint8)
                session.context.download(pointers[number] + at, old)
                session.context.fill(pointers[number] + at, int(old[0]) ^ 0x10, 1)

            verdict, problem = both(session, n, leave)
            assert not verdict
            assert f"changes its input number {number}" in (problem or "")


# --------------------------------------------------------------------------- what lies on the device


def test_a_change_of_what_is_expected_is_noticed_and_mended(session: GpuSession) -> None:
    """Bounds wide enough for anything, as a stray write may leave them, make no kernel right."""
    given(session, PROGRAMS["matmul"]())
    data, name = session._set(0, 1, 1.0)
    kept = session.kept.get(name)
    assert kept is not None
    assert session.device is not None
    low, high = kept.addresses[:2]
    session.context.upload(low, np.full(120, -np.inf, np.float32))
    session.context.upload(high, np.full(120, np.inf, np.float32))

    def leave(session: GpuSession, pointers: list[int], outputs: list[Array]) -> None:
        write(session, pointers, [outputs[0] + np.float32(1)])

    run, _, _ = call(session, 0, leave)
    assert session.device.right(name, run.outputs, run.regions)  # by these bounds
    assert not run.right(session.device, name)
    assert run.problem() is not None
    assert not session.device.intact((data.recipe, name))
    kernel: Any = SimpleNamespace(
        judged="", kernel=launched(lambda p, _: lambda: write(session, p, right(session.program, data)))
    )  # fmt: skip
    assert session._check_set(kernel, data, name) is None
    assert kernel.judged == "host"
    session._prepare(KernelFile("", "", "", "", LaunchProgram(()), {}))
    kernel.judged = ""
    assert session._check_set(kernel, data, name) is None
    assert kernel.judged == "device"


def test_without_room_everything_comes_to_the_host(session: GpuSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.kept, "room", 0)
    given(session, PROGRAMS["matmul"]())
    assert both(session, 0, write) == (False, None)


def test_positions_that_rounding_decides_are_left_to_the_verifier(session: GpuSession) -> None:
    x = te.input("x", (8, 50))
    program = te.program(te.compute((8,), lambda i: te.argmax(50, lambda r: te.exp(x[i, r]))))[0]
    given(session, program)
    assert both(session, 0, write) == (True, None)

    def leave(session: GpuSession, pointers: list[int], outputs: list[Array]) -> None:
        write(session, pointers, [(outputs[0] + 1) % 50])

    verdict, problem = both(session, 0, leave)
    assert not verdict
    assert problem is not None


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "int32", "int8", "uint8", "bool"])
def test_every_dtype_has_a_format_that_reads_its_values(dtype: str) -> None:
    name, kind = format_of(dtype)
    table = table_of(dtype)
    if table is None:
        assert kind == np.dtype(dtype)
        assert name == f"{kind.kind}{8 * kind.itemsize}"
    else:
        codes = np.arange(len(table), dtype=np.uint16 if len(table) > 256 else np.uint8)
        bits = codes if dtype == "bool" else codes.view(numpy_dtype(dtype))
        assert np.array_equal(table, decode(bits, dtype).astype(np.float32), equal_nan=True)


def test_the_kernels_compile_for_a_gpu() -> None:
    target = archs.target("sm_90a")
    try:
        toolchain = NvrtcToolchain(target)
    except NoNvrtc as e:
        pytest.skip(e.message)
    made = toolchain.compile(prelude(target) + source(), SYMBOLS)
    assert set(made.resources) == set(SYMBOLS)
    assert not any(dict(r)["spill_bytes"] for r in made.resources.values())

"""GPU kernels that take their size when they are called: right at every size on the emulator, within their tensors."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, cached_property

import pytest

from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, find_nvrtc
from tilewright.backends.cuda.ptxas import parse_log
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.cli.app import run as cli
from tilewright.core import Candidate, Extent, IllegalSchedule, Schedule, Task, UsageError, Value, evaluate
from tilewright.extent import greatest
from tilewright.kernels import templates
from tilewright.kernels.codegen.integers import text
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.ranges import at
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.sizes import divisor, expression, roundup, tile_count, times, total
from tilewright.testing.cuda_template import empty_output, emulated
from tilewright.testing.kernels import check, random_arrays

CASES: dict[str, tuple[str, str, dict[str, Value]]] = {
    "elementwise": ("cuda_map", "elementwise", {"shape": "1..20,33", "fn": "tanh(x)"}),
    "one axis": ("cuda_map", "elementwise", {"shape": "1..700", "fn": "x*2+1"}),
    "whole vectors": ("cuda_map", "elementwise", {"shape": "1..40,16", "fn": "x*2+1"}),
    "turned": ("cuda_map", "permute", {"shape": "1..5,20,36", "dims": "0,2,1"}),
    "gather": ("cuda_map", "embedding", {"shape": "1..30", "num_embeddings": 20, "embedding_dim": 19}),
    "softmax": ("cuda_rows", "softmax", {"shape": "1..70,37"}),
    "several row axes": ("cuda_rows", "rms_norm", {"shape": "1..12,3,50"}),
    "rows in pieces": ("cuda_rows", "sum", {"shape": "1..9,1500", "dim": -1}),
    "matmul": ("cuda_simt", "matmul", {"m": "1..150", "n": 37, "k": 24, "bias": True}),
    "split": ("cuda_simt", "matmul", {"m": "1..40", "n": 20, "k": 300}),
    "batched product": ("cuda_simt", "batch_matmul", {"b": "1..9", "m": 12, "n": 20, "k": 16}),
    "convolution": (
        "cuda_simt", "conv2d", {"n": "1..5", "ci": 6, "h": 9, "w": 9, "co": 16, "kh": 3, "kw": 3, "padding": 1},
    ),
    "grouped convolution": (
        "cuda_simt", "conv2d", {"n": "1..3", "ci": 4, "h": 6, "w": 6, "co": 8, "kh": 3, "kw": 3, "padding": 1, "groups": 2},
    ),
    "half": ("cuda_mma", "matmul", {"m": "1..150", "n": 40, "k": 72, "dtype": "float16"}),
    "bytes": ("cuda_mma", "quantized_matmul", {"m": "1..70", "n": 24, "k": 36}),
    "batched halves": ("cuda_mma", "batch_matmul", {"b": "1..6", "m": 20, "n": 24, "k": 40, "dtype": "float16"}),
    "half convolution": (
        "cuda_mma", "conv2d",
        {"n": "1..4", "ci": 5, "h": 8, "w": 8, "co": 8, "kh": 3, "kw": 3, "padding": 1, "dtype": "float16"},
    ),
    "pooling": (
        "cuda_stencil", "max_pool2d", {"n": "1..5", "c": 16, "h": 9, "w": 9, "kernel_size": 3, "stride": 2},
    ),
}  # fmt: skip
ARCH = "sm_80"
TOGETHER = 6  # cases that are compiled as one unit


class Ranged:
    """Schedules of one case, found at several sizes, and their kernels, each built once for the whole range.

    Under a sanitizer those of default schedules: the emulator's own checks, of each access by the prelude's functions,
    have seen the others.
    """

    def __init__(self, case: str, sanitize: tuple[str, ...] = ()) -> None:
        template_name, name, params = CASES[case]
        self.workload = get_operator(name).workload(**params)
        (self.extent,) = self.workload.ranges.values()
        extent, name, self.high = self.extent, self.extent.name, greatest(self.workload.ranges)
        target = cuda_target(ARCH)
        self.task = Task(self.workload, target)
        template = templates.get_template(template_name)
        assert template.matches(self.task)
        rng, found = random.Random(case), dict[Schedule, None]()
        for size in (extent.low, (extent.low + extent.high) // 2, extent.high):
            one = Task(at(self.workload, {name: size}), target)
            space = template.space(one)
            drawn = [space.sample(rng)] if size > extent.low and not sanitize else []
            found |= dict.fromkeys(s.at({name: size}) for s in [template.default(one), *drawn])
        if case in ("split", "rows in pieces"):
            found |= dict.fromkeys(self.cut(template, rng))
        by_binary = {Candidate(self.task, s).binary_key: s for s in found}
        self.kernels: dict[Schedule, LoweredKernel] = {}
        for schedule in by_binary.values():
            with suppress(IllegalSchedule):  # vectors that not all sizes allow
                self.kernels[schedule] = template.lower(Candidate(self.task, schedule))
        assert len(self.kernels) > 1 or sanitize
        self.case, self.sanitize = case, sanitize

    def cut(self, template: templates.Template, rng: random.Random) -> list[Schedule]:
        """Schedules in which several blocks share an output."""
        one = Task(at(self.workload, self.high), self.task.target)
        space = template.space(one)
        drawn = (space.sample(rng) for _ in range(4000))
        shared = (s for s in drawn if int(s.values.get("SPLIT", s.values.get("pieces", 1))) > 1)
        return [s.at(self.high) for s, _ in zip(shared, range(2), strict=False)]

    @cached_property
    def built(self) -> EmulatedKernel:
        if self.sanitize:
            return emulated(list(self.kernels.values()), self.task.target, self.sanitize)
        return together(list(CASES).index(self.case) // TOGETHER)

    def check(self, size: int, order: str = "fifo", copies: str = "lazy") -> None:
        program = Program.loads(at(self.workload, {self.extent.name: size}).program)
        inputs = random_arrays(program, size)
        expected = reference(program, inputs)
        for schedule, kernel in self.kernels.items():
            values = {k: int(v) for k, v in schedule.at({self.extent.name: size}).launch}
            got = empty_output(program.output.shape, program.output.dtype)
            report = run(self.built, kernel.program, values, inputs, got, order=order, copies=copies)
            if report.unchecked:
                pytest.skip(report.unchecked)
            assert report.ok, (size, dict(schedule.values), report.bugs)
            check(program, inputs, got, expected)


unchecked = cache(Ranged)
"""Without a sanitizer, for all tests."""


@cache
def together(number: int) -> EmulatedKernel:
    """Some cases' kernels, compiled as one unit."""
    some = list(CASES)[number * TOGETHER : (number + 1) * TOGETHER]
    return emulated([k for case in some for k in unchecked(case).kernels.values()], cuda_target(ARCH))


def sizes_of(extent: Extent) -> list[int]:
    """The ends, and sizes around multiples of tiles."""
    wanted = {extent.low, extent.low + 1, extent.high - 1, extent.high, *(n + d for n in (16, 64) for d in (-1, 0, 1))}
    return sorted(n for n in wanted if extent.takes(n))


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES)
def test_one_kernel_is_right_at_every_size(case: str) -> None:
    """Schedules of several sizes, each built once for the whole range."""
    ranged = unchecked(case)
    for number, size in enumerate(sizes_of(ranged.extent)):
        ranged.check(size, *(("fifo", "lazy"), ("lifo", "eager"))[number % 2])


@pytest.mark.parametrize("case", ["one axis", "softmax", "matmul", "half convolution"])
def test_an_edge_block_touches_nothing_outside(case: str) -> None:
    ranged = Ranged(case, ("address",))
    for size in sizes_of(ranged.extent)[:4]:
        ranged.check(size)


@pytest.mark.parametrize("case", ["elementwise", "softmax", "matmul", "half", "pooling"])
def test_a_kernel_that_was_told_a_size_too_many_is_seen(case: str) -> None:
    """That nothing is touched outside is found out by tests that can tell."""
    ranged = unchecked(case)
    size = ranged.extent.high - 1
    program = Program.loads(at(ranged.workload, {ranged.extent.name: size}).program)
    inputs = random_arrays(program, 1)
    for schedule, kernel in ranged.kernels.items():
        values = {k: int(v) for k, v in schedule.at(ranged.high).launch}
        got = empty_output(program.output.shape, program.output.dtype)
        report = run(ranged.built, kernel.program, values, inputs, got)
        assert any("out_of_bounds" in bug.kind for bug in report.bugs), dict(schedule.values)


@pytest.mark.parametrize("variant", ["sm_80", "sm_90a"])
def test_kernels_of_ranges_compile_as_kernels_of_one_size(variant: str) -> None:
    """Without warnings, and with no more spilled than where the size is a constant."""
    try:
        nvrtc = find_nvrtc(variant)
    except NoNvrtc as e:
        pytest.skip(str(e))
    target = cuda_target(variant)
    ranged: dict[str, Candidate] = {}
    fixed: dict[str, Candidate] = {}
    for case, (template_name, name, params) in CASES.items():
        workload = get_operator(name).workload(**params)
        high, template = greatest(workload.ranges), templates.get_template(template_name)
        task = Task(at(workload, high), target)
        schedule = template.default(task)
        fixed[case] = Candidate(task, schedule)
        ranged[case] = Candidate(Task(workload, target), schedule.at(high))

    def spilled(candidates: Iterable[Candidate]) -> Counter[str]:
        """Bytes by candidate."""
        lowered = [templates.lower(c) for c in candidates]
        _, log = nvrtc.compile(prelude(target) + "".join(k.source for k in lowered), flags(target))
        found = parse_log(log)
        assert not found.warnings
        return Counter(
            {k.symbol: sum(found.kernels[x.symbol].spill_stores for x in k.program.launches) for k in lowered}
        )

    spills = spilled(ranged.values())
    for case in (case for case, c in ranged.items() if spills[c.symbol]):
        assert spills[ranged[case].symbol] <= spilled([fixed[case]])[fixed[case].symbol], case


def test_the_grid_follows_from_the_size() -> None:
    task = Task(get_operator("matmul").workload(m="1..1000", n=64, k=64), cuda_target(ARCH))
    template = templates.get_template("cuda_simt")
    schedule = template.default(task).at({"m": 1000})
    (launch,) = template.lower(Candidate(task, schedule)).program.launches
    assert launch.arguments[-1] == "extent_m"
    tile = int(schedule.values["BM"])
    across = -(-64 // int(schedule.values["BN"]))
    for m in (1, tile - 1, tile, tile + 1, 1000):
        assert evaluate(launch.grid[0], {"extent_m": m}) == -(-m // tile) * across


def test_host_and_kernel_compute_the_same() -> None:
    size = Extent(1000, 1, "m") * 6
    for e in (
        expression(size),
        tile_count(size, 64),
        times(tile_count(size, 64), 3, 5),
        total(roundup(expression(size), 128), 7),
    ):
        for m in (1, 21, 22, 1000):
            printed = text(e).replace("/", "//")
            assert eval(printed, {"extent_m": m}) == evaluate(e, {"extent_m": m})
    assert tile_count(Extent(60, 33, "m"), 64) == 1
    assert (divisor(size), divisor(12)) == (6, 12)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("attention", {"b": "1..4", "h": 2, "lq": 33, "lk": 40, "d": 16}),
        ("cumsum", {"shape": "1..9,70"}),
    ],
)
def test_templates_that_cannot_take_a_range_say_so(name: str, params: dict[str, Value]) -> None:
    task = Task(get_operator(name).workload(**params), cuda_target(ARCH))
    with pytest.raises(UsageError, match=rf"no template for \S+ takes \w+=1..\d in {name}\. Tune it for each size"):
        templates.templates_for(task)


def test_vectors_that_not_all_sizes_allow_are_refused() -> None:
    """One row of 19 is walked in vectors; several are not."""
    workload = get_operator("embedding").workload(shape="1..30", num_embeddings=20, embedding_dim=19)
    template, target = templates.get_template("cuda_map"), cuda_target(ARCH)
    alone = Task(at(workload, {"shape": 1}), target)
    schedule = next(s for s in template.space(alone) if s.values["vector"] == 4)
    template.lower(Candidate(alone, schedule))
    with pytest.raises(IllegalSchedule, match="vector is 4, and the symbolic size allows 1"):
        template.lower(Candidate(Task(workload, target), schedule.at({"shape": 1})))


def test_a_check_is_of_one_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["check", "matmul", "m=1..70", "n=37", "k=24", "--target", "cuda:sm_80"]) == 2
    assert "check takes one size, but m=1..70 is a range. Write one size" in " ".join(capsys.readouterr().err.split())

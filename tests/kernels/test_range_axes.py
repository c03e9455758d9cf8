"""Every axis of every built-in operator as a range: taken, or refused for a reason; and kernels of all of them at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from tilewright.backends import parse_target
from tilewright.backends.cpu.loader import load_bytes
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Task, UsageError, Value, Workload
from tilewright.extent import bounds, greatest
from tilewright.kernels import templates
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.kernels.parameters import Kind, Parameter
from tilewright.kernels.ranges import at
from tilewright.kernels.templates.chains import CHAIN
from tilewright.kernels.templates.cpu_rows.program import match
from tilewright.kernels.templates.cpu_rows.space import plan
from tilewright.verifying.verify import Verifier

REFUSED = {
    ("conv_transpose1d", "kw"): "the program is another one for some of the sizes",
    ("conv_transpose2d", "kh"): "the program is another one for some of the sizes",
    ("conv_transpose2d", "kw"): "the program is another one for some of the sizes",
    ("group_norm", "shape 1"): "the channels of .* do not fall into 8 groups",
    ("group_norm", "num_groups"): "no tensor has an axis of it",
    ("dequant_matmul", "k"): "group_size=64 does not divide k=21",
    ("einsum", "a 1"): "axis k has size 21 and size 96",
    ("einsum", "b 0"): "axis k has size 96 and size 21",
    ("cat", "a 0"): "tensor 2 is .*, and the first",
    ("cat", "b 0"): "tensor 2 is .*, and the first",
}
"""Axes that are no range: the program changes with them, or they are bound to a number or to another parameter."""

GREATEST = 21
LEAST = (1, 2, 3, 5)
"""Some sizes need windows to fit, or more than one element."""


def axes_of(operator: str) -> Iterator[tuple[Parameter, int]]:
    """Sizes of an operator's example, and axes of its shapes."""
    op = get_operator(operator)
    given = op.params(**op.example)
    for p in op.parameters:
        if p.kind is Kind.SHAPE or (p.kind is Kind.INT and p.default is None):
            yield from ((p, d) for d, text in enumerate(str(given[p.name]).split(",")) if text)


def opened(operator: str, params: dict[str, Value], p: Parameter, axis: int) -> tuple[dict[str, Value], Workload]:
    """The workload with one more range. Raises the last of the refusals where there is none."""
    op = get_operator(operator)
    texts = str(op.params(**params)[p.name]).rstrip(",").split(",")
    high = max(2, min(int(texts[axis]), GREATEST))
    refused = None
    for low in LEAST:
        if low < high:
            texts[axis] = f"{low}..{high}"
            more = {**params, p.name: ",".join(texts) + ("," if p.kind is Kind.SHAPE and len(texts) == 1 else "")}
            try:
                return more, op.workload(**more)
            except UsageError as error:
                refused = error
    assert refused is not None
    raise refused


def label(p: Parameter, axis: int) -> str:
    return f"{p.name} {axis}" if p.kind is Kind.SHAPE else p.name


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_axis_is_a_range_or_refused_for_a_reason(operator: str) -> None:
    target = parse_target("cpu")
    for p, axis in axes_of(operator):
        reason = REFUSED.get((operator, label(p, axis)))
        if reason is not None:
            with pytest.raises(UsageError, match=reason):
                opened(operator, dict(get_operator(operator).example), p, axis)
            continue
        _, workload = opened(operator, dict(get_operator(operator).example), p, axis)
        assert len(workload.ranges) == 1
        assert templates.templates_for(Task(workload, target))


@cache
def all_open(operator: str) -> Task:
    """The operator with every axis open that may be, for two threads."""
    params = dict(get_operator(operator).example)
    workload = get_operator(operator).workload(**params)
    for p, axis in axes_of(operator):
        if (operator, label(p, axis)) not in REFUSED:
            params, workload = opened(operator, params, p, axis)
    return Task(workload, replace(parse_target("cpu"), threads=2))


@pytest.fixture(scope="module")
def kernels(request: pytest.FixtureRequest) -> dict[str, tuple[Candidate, Artifact]]:
    """The default schedule of the greatest sizes of each operator that is tested, built for all sizes; compiled
    together."""
    name = test_one_kernel_of_all_ranges_at_once_is_right.__name__
    items = [i for i in request.session.items if isinstance(i, pytest.Function) and i.originalname == name]
    found = {}
    for operator in (str(i.callspec.params["operator"]) for i in items):
        task = all_open(operator)
        high = greatest(task.workload.ranges)
        (template, *_) = templates.templates_for(task)
        schedule = template.default(Task(at(task.workload, high), task.target)).at(high)
        found[operator] = Candidate(task, schedule)
    target = parse_target("cpu")
    with Builder(replace(target, threads=2)) as builder:
        built = builder.build(list(found.values()))
    for artifact in built:
        assert isinstance(artifact, Artifact), artifact
    return {k: (c, a) for (k, c), a in zip(found.items(), built, strict=True) if isinstance(a, Artifact)}


PLACES = (0.0, 0.29, 0.83, 1.0)
"""Shares of the way from the least sizes to the greatest: sizes between are 6 or 7 and 18 of 21."""


@pytest.mark.sampled
@pytest.mark.parametrize("operator", OPERATORS)
def test_one_kernel_of_all_ranges_at_once_is_right(
    operator: str, kernels: dict[str, tuple[Candidate, Artifact]]
) -> None:
    candidate, artifact = kernels[operator]
    workload = candidate.task.workload
    for turn, share in enumerate(PLACES):
        sizes = {n: e.low + round(share * (e.high - e.low)) for n, e in workload.ranges.items()}
        for n, name in enumerate(sizes):  # no two the same
            extent = workload.ranges[name]
            sizes[name] = min(extent.high, sizes[name] + n % 3) if 0 < share < 1 else sizes[name]
        assert problem_at(candidate, artifact, sizes, turn) is None, sizes


def problem_at(candidate: Candidate, artifact: Artifact, sizes: dict[str, int], turn: int) -> str | None:
    """What is wrong with a kernel of ranges at some sizes."""
    with open(artifact.path, "rb") as code:
        library = load_bytes(code.read(), artifact.sha256)
    launch = {k: int(v) for k, v in candidate.schedule.at(sizes).launch}
    kernel = library.kernel(artifact.program, launch, candidate.task.target.threads)
    verifier = Verifier(Program.loads(at(candidate.task.workload, sizes).program))
    problem = verifier.check(kernel.run, [turn % 3], kernel.program.align, kernel.program.rounding)
    return None if problem is None else str(problem)


INNER: dict[str, tuple[str, str, dict[str, Value]]] = {
    "batches of rows times a matrix": ("cpu_contraction", "einsum",
        {"a": "1..3,1..20,24", "b": "24,50", "equation": "bsk,kn->bsn"}),
    "what is summed over": ("cpu_contraction", "matmul", {"m": 30, "n": 37, "k": "1..90", "bias": True}),
    "batches, rows and sums": ("cpu_contraction", "bmm", {"b": "1..3", "m": "1..20", "n": 20, "k": "1..40"}),
    "pictures, channels last": ("cpu_contraction", "conv2d",
        {"n": "1..2", "ci": 6, "h": "1..9", "w": "3..9", "co": 20, "kh": 3, "kw": 3, "padding": 1, "layout": "NHWC"}),
    "clipped pictures": ("cpu_contraction", "conv2d",
        {"n": "1..2", "ci": 4, "h": "2..9", "w": "2..40", "co": 20, "kh": 5, "kw": 5, "padding": 2, "stride": 2,
         "layout": "NHWC", "constant": "weight"}),
    "pictures of a width": ("cpu_contraction", "conv2d",
        {"n": "1..3", "ci": 4, "h": "1..9", "w": 9, "co": 20, "kh": 3, "kw": 3, "padding": 1, "layout": "NHWC",
         "constant": "weight"}),
    "filtered pictures": ("cpu_winograd", "conv2d",
        {"n": "1..2", "ci": 18, "h": "1..9", "w": "2..13", "co": 20, "kh": 3, "kw": 3, "padding": 1, "bias": True,
         "layout": "NHWC", "constant": "weight"}),
    "filtered pictures of a width": ("cpu_winograd", "conv2d",
        {"n": 2, "ci": 16, "h": "3..30", "w": 8, "co": 33, "kh": 3, "kw": 3, "layout": "NHWC", "activation": "relu"}),
    "strided points": ("cpu_contraction", "conv2d",
        {"n": "1..2", "ci": 6, "h": "1..9", "w": "9..40", "co": 20, "kh": 1, "kw": 1, "stride": 2, "layout": "NHWC",
         "constant": "weight"}),
    "columns": ("cpu_contraction", "matmul", {"m": 30, "n": "1..90", "k": 24, "bias": True, "activation": "gelu"}),
    "pictures, channels first": ("cpu_contraction", "conv2d",
        {"n": "1..2", "ci": 6, "h": "3..9", "w": "3..21", "co": 20, "kh": 3, "kw": 3, "padding": 1, "stride": 2,
         "constant": "weight"}),
    "points of pictures": ("cpu_contraction", "conv2d",
        {"n": 2, "ci": 6, "h": "3..9", "w": "3..21", "co": 20, "kh": 1, "kw": 1, "constant": "weight"}),
    "windows": ("cpu_stencil", "max_pool2d",
        {"n": 1, "c": "1..2", "h": "3..12", "w": "3..70", "kernel_size": 3, "stride": 2, "padding": 1}),
    "depthwise": ("cpu_stencil", "conv2d",
        {"n": 1, "ci": 3, "h": "3..12", "w": "3..40", "co": 3, "kh": 3, "kw": 3, "groups": 3, "padding": 1}),
    "depthwise, channels last": ("cpu_stencil", "conv2d",
        {"n": 1, "ci": 5, "h": "1..9", "w": "1..20", "co": 5, "kh": 3, "kw": 3, "groups": 5, "padding": 1,
         "layout": "NHWC"}),
    "wide windows": ("cpu_stencil", "conv2d",
        {"n": 1, "ci": 2, "h": "1..9", "w": 5, "co": 2, "kh": 5, "kw": 5, "groups": 2, "padding": 2, "layout": "NHWC"}),
    "queries and keys": ("cpu_attention", "attention",
        {"b": "1..2", "h": 2, "lq": "9..40", "lk": "1..50", "d": 16, "is_causal": True}),
    "masked": ("cpu_attention", "attention",
        {"b": 1, "h": "2..3", "lq": "9..40", "lk": "1..50", "d": 8, "mask": "float"}),
    "keys of two bytes": ("cpu_attention", "attention",
        {"b": "1..2", "h": 2, "lq": "9..40", "lk": "1..90", "d": 16, "dtype": "bfloat16"}),
    "long keys of two bytes": ("cpu_attention", "attention",
        {"b": 1, "h": "1..3", "lq": 9, "lk": "200..900", "d": 16, "dtype": "float16"}),
    "rows of groups": ("cpu_grouped", "grouped_matmul", {"m": "1..70", "n": 37, "k": 24, "groups": 3}),
    "rows of groups in two bytes": ("cpu_grouped", "grouped_matmul",
        {"m": "1..70", "n": 20, "k": 18, "groups": 5, "dtype": "bfloat16"}),
    "running sums": ("cpu_scan", "cumsum", {"shape": "1..3,1..90,1..40", "dim": 1}),
    "groups of channels": ("cpu_partition", "group_norm", {"shape": "1..2,8,1..6,2..9", "num_groups": 2}),
    "long rows": ("cpu_rows", "softmax", {"shape": "1..4,1..3000"}),
    "short rows": ("cpu_rows", "layer_norm", {"shape": "1..9,1..70"}),
    "rows of means": ("cpu_rows", "layer_norm", {"shape": "1..3,4,1..700"}),
    "turned": ("cpu_map", "permute", {"shape": "1..3,1..40,1..50", "dims": "0,2,1"}),
    "padded": ("cpu_map", "pad", {"shape": "1..3,1..20,1..40", "pad": "1,2,3,0"}),
}  # fmt: skip


SIZES = (1, 3, 4, 15, 16, 17)
"""Sizes around powers of two and vectors, as far as a range has them: for one of its sizes, the others in turn."""


def places(workload: Workload) -> Iterator[dict[str, int]]:
    """Sizes along the way from the least to the greatest."""
    for share in PLACES:
        yield {n: e.low + round(share * (e.high - e.low)) for n, e in workload.ranges.items()}


def remainders(workload: Workload) -> Iterator[dict[str, int]]:
    """Sizes that leave every kind of rest."""
    ranges = workload.ranges
    for turn, size in enumerate(SIZES):
        yield {
            n: min(e.high, max(e.low, size if number == turn % len(ranges) else SIZES[-1 - turn]))
            for number, (n, e) in enumerate(ranges.items())
        }


@pytest.mark.sampled
@pytest.mark.parametrize("name", INNER)
def test_templates_of_fixed_sizes_are_right_at_all_sizes(name: str) -> None:
    """The default schedules of the greatest and of the least sizes, and another one."""
    template_name, operator, params = INNER[name]
    target = replace(parse_target("cpu"), threads=2)
    task = Task(get_operator(operator).workload(**params), target)
    assert template_name in {t.name for t in templates.templates_for(task)}
    template = templates.get_template(template_name)
    found = []
    for share in (1.0, 0.5, 0.0):
        sizes = {n: e.low + round(share * (e.high - e.low)) for n, e in task.workload.ranges.items()}
        one = Task(at(task.workload, sizes), target)
        if share == 0.0 and not template.matches(one):
            continue  # an axis of one point is none
        schedule = template.space(one).sample(random.Random(name)) if share == 0.5 else template.default(one)
        found.append(Candidate(task, schedule.at(sizes)))
    with Builder(target) as builder:
        built = builder.build(found)
    for number, (candidate, artifact) in enumerate(zip(found, built, strict=True)):
        assert isinstance(artifact, Artifact), artifact
        tried = places if number else remainders
        for turn, sizes in enumerate(tried(candidate.task.workload)):
            assert problem_at(candidate, artifact, sizes, turn) is None, sizes


def test_rows_of_open_lengths_have_code_for_those_that_fit_registers() -> None:
    """For whole vectors, where nothing is left out, and for what lies between; then for rows without partial totals."""
    target = replace(parse_target("cpu"), threads=1)
    task = Task(get_operator("softmax").workload(shape="64,1..4096"), target)
    one = Task(at(task.workload, {"shape_1": 48}), target)
    template = templates.get_template("cpu_rows")
    schedule = template.default(one)
    assert schedule.values["keep"] == "registers"
    tiling = plan(match(Program.loads(task.workload.program)) or pytest.fail("no rows"), target, schedule.values)
    lengths = [tuple(bounds(x.program.run)) for x in tiling.shorter]
    lanes, last = tiling.lanes, lengths[-1]
    fitting = tiling.shorter[:-1]
    assert all(x.keep == "registers" for x in fitting)
    assert lengths[:2] == [(1, lanes - 1), (lanes, lanes)]
    assert [low for low, _ in lengths[1:]] == [high + 1 for _, high in lengths[:-1]]
    assert last[1] == 2 * CHAIN * tiling.vectors * lanes
    assert tiling.shorter[-1].keep == tiling.keep == "memory"


@pytest.mark.parametrize("moments", [False, True])
def test_rows_of_open_lengths_are_right_whatever_is_left_of_their_blocks(moments: bool) -> None:
    """Blocks of four vectors leave blocks of two, of one, and lanes of another, in every combination."""
    target = replace(parse_target("cpu"), threads=1)
    task = Task(get_operator("layer_norm").workload(shape="3,1..900"), target)
    template = templates.get_template("cpu_rows")
    one = Task(at(task.workload, 700), target)
    values = {**template.default(one).values, "vectors": 4, "rows": 1, "columns": 0, "moments": moments}
    candidate = Candidate(task, template.space(one).schedule(values).at({"shape_1": 700}))
    with Builder(target) as builder:
        (artifact,) = builder.build([candidate])
    assert isinstance(artifact, Artifact), artifact
    lanes = plan(match(Program.loads(task.workload.program)) or pytest.fail("no rows"), target, values).lanes
    for turn, (whole, left) in enumerate(product(range(4, 12), (0, 1, lanes - 1))):
        sizes = {"shape_1": whole * lanes + left}
        assert problem_at(candidate, artifact, sizes, turn) is None, sizes


@pytest.mark.parametrize("window", [
    ("max_pool2d", {"n": 1, "c": 2, "h": 4, "w": "3..70", "kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", {"n": 1, "c": 2, "h": 4, "w": "2..70", "kernel_size": 2, "stride": 2}),
    ("conv2d", {"n": 1, "ci": 2, "h": 4, "w": "1..40", "co": 2, "kh": 3, "kw": 5, "groups": 2, "padding": 2}),
])  # fmt: skip
def test_windows_of_open_widths_are_right_at_every_width(window: tuple[str, dict[str, Value]]) -> None:
    """Fewer than half a vector, fewer than one, and vectors of which some lanes are beyond either edge."""
    operator, params = window
    target = replace(parse_target("cpu"), threads=1)
    task = Task(get_operator(operator).workload(**params), target)
    (extent,) = task.workload.ranges.values()
    template = templates.get_template("cpu_stencil")
    default = template.default(Task(at(task.workload, extent.high), target))
    candidate = Candidate(task, default.at({"w": extent.high}))
    with Builder(target) as builder:
        (artifact,) = builder.build([candidate])
    assert isinstance(artifact, Artifact), artifact
    for width in range(extent.low, extent.high + 1):
        assert problem_at(candidate, artifact, {"w": width}, width) is None, width

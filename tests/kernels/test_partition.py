"""Partitions: which cuts are found, and that the segments' kernels work together."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attention_programs import PROGRAMS as ATTENTION
from contraction_programs import transposed
from partition_programs import PROGRAMS as SMALL
from partition_programs import (
    chain,
    convolved,
    layer_norm_of,
    mlp,
    product,
    residual_norm,
    softmax_of,
    transposed_scores,
    weighted,
)

from tilewright.backends import get_backend
from tilewright.backends.cpu import loader
from tilewright.backends.cpu.targets import parse_target
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Candidate, IllegalSchedule, Launch, Task, evaluate
from tilewright.kernels import nn, te, templates
from tilewright.kernels.codegen.integers import named
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Array, CpuStatic, Opaque, Workspace
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.operators import get_operator
from tilewright.kernels.rewrite.split import cropped
from tilewright.kernels.templates import TEMPLATES, computing, get_template
from tilewright.kernels.templates.base import Template
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.partition.cuda import GpuParts, PartitionLaunch
from tilewright.kernels.templates.partition.parts import CpuParts, intermediates
from tilewright.kernels.templates.partition.segments import EXCLUDED, cuts, in_order, segment_program
from tilewright.kernels.templates.partition.space import CUT
from tilewright.kernels.templates.partition.template import (
    CPU_PARTITION,
    CUDA_PARTITION,
    CUDA_RELAID,
    CpuPartition,
    CudaPartition,
    kernel_of_parts,
)
from tilewright.kernels.templates.planned import KernelTemplate
from tilewright.testing import programs
from tilewright.testing.cuda_template import CudaTemplateContract
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of
from tilewright.testing.template import TemplateContract, portable_target

TEMPLATE = CPU_PARTITION
PROGRAMS = {**SMALL, "grouped_attention": ATTENTION["grouped"]}


def activated() -> Program:
    x, w, b = te.input("x", (2, 3, 5, 4)), te.input("w", (3, 4, 3, 3), constant=True), te.input("b", (4,))
    return te.program(nn.relu(nn.conv_transpose2d(x, w, b, stride=2, padding=1)))[0]


def spread() -> Program:
    x, w = te.input("x", (1, 4, 4, 4)), te.input("w", (3, 3, 4, 3), constant=True)
    return te.program(nn.conv_transpose2d(x, w, stride=(4, 2), dilation=(2, 1), layout="NHWC"))[0]


RAGGED = {
    "channels_last": lambda: transposed(1, 4, 5, 3, 4, 3, 2, 1),
    "channels_first": lambda: transposed(2, 3, 4, 3, 4, 2, 3, 0, extra=2, layout="first"),
    "activated": activated,
    "spread": spread,
}
"""Transposed convolutions of an odd number of rows."""
ON_A_GPU = {k: SMALL[k] for k in ("mlp", "transposed_scores", "residual_norm", "product_and_norm", "weighted")}


class TestOnTheCpu(TemplateContract):
    templates = ("cpu_partition",)
    programs = PROGRAMS | RAGGED
    schedules = 1


class TestOnAGpu(CudaTemplateContract):
    templates = ("cuda_partition",)
    programs = ON_A_GPU


# --------------------------------------------------------------------------- cuts


def found(program: Program) -> list[list[tuple[str, ...]]]:
    """The stages of each segment of each cut."""
    return [[s.stages for s in cut] for cut in cuts(task_of(program, portable_target(TEMPLATE)))]


def test_a_map_ends_one_segment_or_begins_the_next() -> None:
    every = found(mlp())
    assert [("s0",), ("s1", "s2")] in every
    assert [("s0", "s1"), ("s2",)] in every


def test_a_cut_that_only_cuts_further_is_left_out() -> None:
    for program in (mlp(), transposed_scores(), residual_norm()):
        ends = [{s[-1] for s in cut} for cut in found(program)]
        assert not any(a < b for a in ends for b in ends)


def test_segments_follow_each_other_and_read_what_is_there() -> None:
    for build in PROGRAMS.values():
        program = build()
        for cut in cuts(task_of(program, portable_target(TEMPLATE))):
            assert len(cut) >= 2
            known = {t.name for t in program.inputs}
            for segment in cut:
                assert set(segment.reads) <= known
                assert segment.template not in EXCLUDED
                known.add(segment.result)
            assert [n for s in cut for n in s.stages] == [s.name for s in in_order(program)]


def test_stages_read_outside_of_a_segment_end_it() -> None:
    program = residual_norm()
    assert segment_program(program, 0, 2) is not None
    numbers = {s.name: n for n, s in enumerate(in_order(program))}
    normalised = next(s.name for s in program.stages if s.monoid is None and "rsqrt" in repr(s.body[0]))
    assert segment_program(program, 2, numbers[normalised] + 2) is None, "the norm is read again later"


def test_an_input_of_two_segments_is_constant_in_neither() -> None:
    x, w = te.input("x", (8, 8)), te.input("w", (8, 8), constant=True)
    v = te.input("v", (8, 8), constant=True)
    program = te.program(product(product(product(x, w), v), w))[0]
    first, last = segment_program(program, 0, 1), segment_program(program, 1, 2)
    assert first is not None
    assert last is not None
    assert [t.constant for t in first[0].inputs] == [False, False]
    assert [t.constant for t in last[0].inputs] == [True, False]


@pytest.mark.parametrize("build", [programs.matmul, programs.matmul_epilogue, programs.softmax, programs.argmax])
def test_what_one_template_computes_is_not_cut(build: object) -> None:
    assert callable(build)
    task = task_of(build(), portable_target(TEMPLATE))
    assert not TEMPLATE.matches(task)
    assert not CUDA_PARTITION.matches(task)


@pytest.mark.parametrize("case", RAGGED)
def test_phases_that_do_not_divide_the_rows_are_computed_over_whole_multiples_by_default(case: str) -> None:
    program = RAGGED[case]()
    task = task_of(program, portable_target(TEMPLATE))
    names = [t.name for t in computing(task)]
    assert names[0] == "cpu_partition"
    assert set(names) <= {"cpu_partition", "cpu_contraction"}
    for cut in TEMPLATE.cuts(task):
        assert [s.template for s in cut] == ["cpu_contraction", "cpu_map"]
        product, copy = (s.program for s in cut)
        assert all(whole % m == 0 for m, whole in zip(multiples(case), product.output.shape, strict=True))
        assert product.output.shape != program.stages[0].extents
        assert copy.output.shape == program.output.shape


def multiples(case: str) -> tuple[int, ...]:
    """What divides the extent of each axis of the product."""
    return {"channels_first": (1, 1, 3, 3), "activated": (1, 1, 2, 2)}.get(case, (1, 2, 2, 1))


def test_rows_too_many_that_would_read_outside_are_not_computed() -> None:
    x, w = te.input("x", (8, 4)), te.input("w", (4, 6))
    halves = te.compute((15, 6), lambda i, j: te.sum(4, lambda r: x[(i + 1) // 2, r] * w[r, j]))
    assert cropped(te.program(halves)[0]) is None
    assert cropped(te.program(te.compute((15, 6), lambda i, j: te.sum(4, lambda r: x[i // 2, r] * w[r, j])))[0])


def test_the_copy_of_existing_rows_has_a_name_of_its_own() -> None:
    x, w = te.input("x", (8, 4)), te.input("s0", (4, 6))
    wide = te.compute((8, 4), lambda i, r: x[i, r] * 2.0)
    program = cropped(te.program(te.compute((15, 6), lambda i, j: te.sum(4, lambda r: wide[i // 2, r] * w[r, j])))[0])
    assert program is not None
    assert [s.extents for s in program.stages] == [(16, 6), (15, 6)]
    assert len({*(s.name for s in program.stages), *(t.name for t in program.inputs)}) == 4


def test_what_only_a_generic_template_computes_is_not_cut() -> None:
    x, index = te.input("x", (9, 9)), te.input("index", (9,), "int64")
    y = te.compute((9,), lambda i: te.argmax(9, lambda r: x[i, r]))
    program = te.program(te.compute((9,), lambda i: te.argmin(9, lambda r: (y[r] + index[i]) * r)))[0]
    task = task_of(program, portable_target(TEMPLATE))
    if not cuts(task):
        assert not TEMPLATE.matches(task)
        with pytest.raises(IllegalSchedule, match="does not fall into segments"):
            TEMPLATE.space(task)


def test_other_kinds_of_target_are_refused() -> None:
    assert not TEMPLATE.matches(task_of(mlp(), cuda_target("sm_80")))
    assert not CUDA_PARTITION.matches(task_of(mlp(), portable_target(TEMPLATE)))


# --------------------------------------------------------------------------- schedules


def test_knobs_of_other_cuts_stay_at_their_default() -> None:
    task = task_of(mlp(), portable_target(TEMPLATE))
    space, default = TEMPLATE.space(task), TEMPLATE.default(task)
    labels = next(k for k in space.knobs if k.name == CUT).values
    assert len(labels) >= 2
    assert default.values[CUT] == labels[0]
    other = space.schedule({**default.values, CUT: labels[1]})
    mine = {k.split(".")[0] for k in default.values} - {CUT}
    changed = next(k for k in space.knobs if k.name.split(".")[0] == max(mine) and len(k.values) > 1)
    value = next(v for v in changed.values if v != default.values[changed.name])
    illegal = 0
    for schedule in (default, other):
        try:
            space.schedule({**schedule.values, changed.name: value})
        except IllegalSchedule as error:
            illegal += "does not have" in str(error)
    assert illegal == 1, "the knob belongs to one of the two cuts"


def test_the_version_grows_with_the_members() -> None:
    members = [t for n, t in TEMPLATES.items() if "cpu" in t.kinds and n not in EXCLUDED]
    assert TEMPLATE.version == TEMPLATE.base + sum(t.version for t in members)
    assert get_template("cpu_partition").version == TEMPLATE.version


def test_nests_name_the_whole_programs_tensors() -> None:
    program = residual_norm()
    task = task_of(program, portable_target(TEMPLATE))
    nests = TEMPLATE.nests(task, TEMPLATE.default(task))
    accesses = [a for n in nests for a in n.accesses]
    assert program.output.name in {a.tensor for a in accesses if a.store}
    assert {t.name for t in program.inputs} <= {a.tensor for a in accesses if not a.store}
    passed_on = {a.tensor for a in accesses if a.store} & {a.tensor for a in accesses if not a.store}
    assert len(passed_on & {s.name for s in program.stages}) >= 2


# --------------------------------------------------------------------------- memory and launches


def test_memory_is_used_again_once_it_is_free() -> None:
    program = chain(n=32, length=5)
    task = task_of(program, portable_target(TEMPLATE))
    cut = cuts(task)[0]
    offsets, total = intermediates(program, cut)
    assert len(offsets) == 4
    assert total == 2 * 4096
    for number, segment in enumerate(cut[:-1]):
        for name in segment.reads:
            if name in offsets:
                assert offsets[name] != offsets[segment.result], f"segment {number} overwrites what it reads"


def test_expressions_of_launch_arguments() -> None:
    expr = ["+", 4096, ["max", ["*", "KC", 4, "MC"], ["roundup", ["//", "KC", 3], 64], ["ceildiv", "MC", 7]]]
    values = {"KC": 100, "MC": 9}
    assert evaluate(named(expr, lambda n: f"p1.{n}"), {f"p1.{k}": v for k, v in values.items()}) == evaluate(
        expr, values
    )


def test_constant_weights_are_rearranged_once() -> None:
    """Every segment's prepack reaches the right tensor: the result is right when only packed weights are read."""
    program = mlp(40, 96, 64, 48, constant=True)
    task = task_of(program, parse_target("cpu:portable", allow_foreign=True))
    found = TEMPLATE.default(task)
    candidate = Candidate(task, found)
    space = TEMPLATE.space(task)
    packing = {k.name: "prepack" for k in space.knobs if "prepack" in k.values}
    for name, value in packing.items():
        try:
            candidate = Candidate(task, space.schedule({**candidate.schedule.values, name: value}))
        except IllegalSchedule:
            continue
    kernel = TEMPLATE.lower(candidate)
    built = get_backend("cpu").build([prelude(task.target), kernel.source], task.target, None)
    library = loader.load_path(built.path)
    inputs = random_arrays(program)
    out = np.full(program.output.shape, np.nan, np.float32)
    call = library.kernel(kernel.program, launch_values(candidate))
    call.run([*(a.ctypes.data for a in inputs), out.ctypes.data])
    check(program, inputs, out)
    constant = {n for n, t in enumerate(program.inputs) if t.constant}
    assert {p.input for p in kernel.program.prepack} <= constant
    assert kernel.program.prepack, "no weight was rearranged"


def test_what_a_gpu_computes_of_constants_alone_is_rearranged_once() -> None:
    task = task_of(weighted(), cuda_target("sm_80"))
    kernel = CUDA_PARTITION.lower(Candidate(task, CUDA_PARTITION.default(task)))
    (softmax,), (multiply,) = kernel.program.prepack, kernel.program.launches
    assert (softmax.input, softmax.bytes) == (1, 4 * 40 * 48)
    assert [n for kind, n in softmax.launch.parameters if kind == "tensor"] == [1]
    assert [n for kind, n in multiply.parameters if kind == "tensor"] == [0, 1, 2]
    # Where another kernel reads the scores themselves, the softmax has no place that outlives a call.
    x, w = te.input("x", (24, 40)), te.input("w", (40, 48), constant=True)
    h = product(x, softmax_of(w))
    both = te.program(te.compute((24, 40), lambda i, r: te.sum(48, lambda j: h[i, j] * w[r, j])))[0]
    task = task_of(both, cuda_target("sm_80"))
    assert not CUDA_PARTITION.lower(Candidate(task, CUDA_PARTITION.default(task))).program.prepack


def test_convolution_then_softmax_is_one_launch() -> None:
    task = task_of(convolved(), portable_target(TEMPLATE))
    kernel = TEMPLATE.lower(Candidate(task, TEMPLATE.default(task)))
    assert [x.symbol for x in kernel.program.launches] == [kernel.symbol]
    assert kernel.source.count('extern "C"') == 0
    assert kernel.source.count("TW_ENTRY(") >= 3


def test_norms_after_products_are_segments() -> None:
    x, w = te.input("x", (16, 24)), te.input("w", (24, 16))
    program = te.program(layer_norm_of(product(x, w)))[0]
    assert len(found(program)[0]) == 2


# --------------------------------------------------------------------------- the kernel as a value


class Plain:
    """What every template promises, and nothing else that a built-in one has: a plug-in's."""

    def __init__(self, template: Template) -> None:
        self.name, self.family, self.kinds = template.name, template.family, template.kinds
        self.version = template.version
        self.matches, self.space, self.default = template.matches, template.space, template.default
        self.nests, self.static, self.lower = template.nests, template.static, template.lower


@pytest.mark.parametrize(("partition", "threads"), [(CPU_PARTITION, 1), (CPU_PARTITION, 3), (CUDA_PARTITION, 1)])
@pytest.mark.parametrize("name", ["mlp", "residual_norm", "product_and_norm", "weighted"])
def test_segments_of_templates_that_build_no_kernels_are_the_same(
    name: str, partition: CpuPartition | CudaPartition, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, target = PROGRAMS[name](), portable_target(partition, threads)
    task, label = task_of(program, target), task_of(program, target, "plain")
    plain_templates = {t.name: Plain(t) for t in TEMPLATES.values()}
    schedules = [partition.default(task), *(partition.space(task).sample(random.Random(n)) for n in range(3))]
    kernels = [partition.kernel(task, s) for s in schedules]
    monkeypatch.setattr(templates, "get_template", plain_templates.__getitem__)
    assert not any(isinstance(m.template, KernelTemplate) for s in schedules for m in partition.members(label, s))
    for s, kernel in zip(schedules, kernels, strict=True):
        plain = partition.kernel(label, s)
        assert (repr(plain.nests), plain.numbers) == (repr(kernel.nests), kernel.numbers)
        if partition is CPU_PARTITION:
            assert plain.lower("tw") == kernel.lower("tw")
        else:  # texts of a plug-in are not taken apart: launches that could be one remain several
            assert {x.symbol for x in plain.program("tw").launches} >= {x.symbol for x in kernel.program("tw").launches}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_another_kernel_of_a_segment_is_another_text_and_has_other_features(name: str, threads: int) -> None:
    """Its loops, static features, arguments, memory and text are the whole's."""
    task = task_of(PROGRAMS[name](), portable_target(TEMPLATE, threads))
    kernel = TEMPLATE.kernel(task, TEMPLATE.default(task))
    text = kernel.text
    assert isinstance(text, CpuParts)
    assert kernel.static is text
    for n, (m, k) in enumerate(text.parts):
        static, memory = replace(CpuStatic(), prefetch=1 << 20), Workspace((Array("planted", "char", 1 << 20),))
        changes: dict[str, Any] = {
            "launches": (Launch("_planted", ("PLANTED",)),), "static": static, "workspace": memory, "align": 1 << 10,
            "rounding": 2.0,
            "text": Opaque((LoopNest("planted", {}, (), ()),), lambda _, symbol: f"text of {symbol}"),
        }  # fmt: skip
        planted = replace(k, **changes)
        whole = replace(text, parts=(*text.parts[:n], (m, planted), *text.parts[n + 1 :]))
        changed = kernel_of_parts(whole)
        program = changed.program("tw")
        assert f"{m.prefix}planted" in [nest.name for nest in changed.nests]
        assert changed.numbers["prefetch"] > kernel.numbers["prefetch"]
        assert f"{m.prefix}PLANTED" in changed.arguments
        assert f"code=tw_p{n}_planted(t,args+" in changed.lower("tw").source
        assert f"text of tw_p{n}" in changed.lower("tw").source
        assert evaluate(program.workspace, dict.fromkeys(changed.arguments, 1)) >= 1 << 20
        assert (program.align, program.rounding) == (1 << 10, 2.0)


def test_a_kernel_that_rearranges_other_inputs_than_its_segments_is_refused() -> None:
    task = task_of(mlp(40, 96, 64, 48, constant=True), portable_target(TEMPLATE))
    space, rng = TEMPLATE.space(task), random.Random(0)
    kernels = (TEMPLATE.kernel(task, space.sample(rng)) for _ in range(100))
    kernel = next(k for k in kernels if len(k.prepack) == 2)
    first, second = kernel.prepack
    given = replace(first, launch=replace(first.launch, arguments=("PLANTED", *first.launch.arguments)))
    for changed in ((second,), (second, first), (given, second), ()):
        with pytest.raises(ValueError, match="rearranges other inputs than its segments"):
            replace(kernel, prepack=changed).lower("tw")


@pytest.mark.parametrize("name", [*ON_A_GPU, "convolved"])
def test_launches_of_a_gpu_stay_within_the_workspace_and_beside_what_is_passed_on(name: str) -> None:
    task = task_of(PROGRAMS[name](), portable_target(CUDA_PARTITION))
    for seed in range(6):
        schedule = CUDA_PARTITION.space(task).sample(random.Random(seed))
        kernel, names = CUDA_PARTITION.kernel(task, schedule), {k: int(v) for k, v in schedule.launch}
        whole, size = kernel.text, evaluate(kernel.program("tw").workspace, names)
        assert isinstance(whole, GpuParts)
        for n in whole.called:
            m, k = whole.parts[n]
            own = evaluate(m.of(k.workspace.bytes), names)
            assert whole.passed[1] + own <= size
            passed = [(whole.places[x], x) for x in (*m.segment.reads, m.segment.result)]
            for (kind, at), tensor in passed:
                if kind == "workspace":
                    t = whole.program.tensors[tensor]
                    assert evaluate(at, names) + t.size * ITEMSIZE[t.dtype] <= whole.passed[1]


def test_launches_that_are_one_have_blocks_of_one_size_and_no_arguments() -> None:
    sizes = {"n": 1, "ci": 16, "h": 7, "w": 9, "co": 24, "kh": 3, "kw": 3, "dtype": "bfloat16"}
    task = Task(get_operator("conv2d").workload(**sizes), cuda_target("sm_80"))
    kernel = CUDA_RELAID.kernel(task, CUDA_RELAID.default(task))
    joined, *others = kernel.launches
    assert isinstance(joined, PartitionLaunch)
    functions = [x for _, x in joined.parts if isinstance(x, GlobalFunction)]
    assert len(functions) == 2
    changes: tuple[dict[str, Any], ...] = (
        {"threads": 2 * functions[0].threads}, {"arguments": ("PLANTED",)}, {"cluster": 2}, {"blocks_y": 2},
    )  # fmt: skip
    for change in changes:
        with pytest.raises(ValueError, match="other blocks or arguments are not one launch"):
            replace(joined, parts=((0, replace(functions[0], **change)), (1, functions[1])))
    threads = 2 * functions[0].threads
    both = replace(joined, parts=tuple((n, replace(f, threads=threads)) for n, f in enumerate(functions)))
    changed = replace(kernel, launches=(both, *others))
    assert changed.program("tw").launches[0].block == (threads, 1, 1)
    assert f"TW_KERNEL({threads}, 1) void tw{both.symbol}(" in changed.lower("tw").source

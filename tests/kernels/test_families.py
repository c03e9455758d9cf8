"""Families: every target's templates see the same programs in them, or say what keeps them from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from every_program import every_program

from tilewright.backends.cpu.targets import parse_target
from tilewright.backends.cuda.archs import target
from tilewright.core import IllegalSchedule, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.attention import match as attention
from tilewright.kernels.families.contraction import contractions
from tilewright.kernels.families.elementwise import elementwise
from tilewright.kernels.families.grouped import grouped
from tilewright.kernels.families.reduce_window import reduce_window
from tilewright.kernels.families.row_reduction import row_reduction
from tilewright.kernels.families.winograd import convolution
from tilewright.kernels.templates import get_template
from tilewright.testing.kernels import task_of

FAMILIES: Mapping[str, tuple[Callable[[Program], object], tuple[str, ...]]] = {
    "elementwise": (elementwise, ("cpu_map", "cuda_map")),
    "row_reduction": (row_reduction, ("cpu_rows", "cuda_rows")),
}
"""Of each family: what recognises it, and the templates that compute it."""

TARGETS = {"cpu": parse_target("cpu:portable", 1), "cuda": target("sm_80")}

ORDER, STEPS = "has a reduction whose order matters", "reads rows whose elements do not lie one after the other"
ELSEWHERE = "writes its rows in another order"
REFUSED = {
    "cpu_rows": {
        # As the test for it finds: of fractions of elements, which no count is, it does not commute.
        "language welford": ORDER,
        "language argmin_columns": STEPS,
        "contraction vector_matrix": STEPS,
        "rows on GPUs column_sums": STEPS,
        "rows on GPUs rms_norm": STEPS,
        "rows on GPUs softmax_channels": ELSEWHERE,
        "rows on GPUs softmax_middle": ELSEWHERE,
        # Windows that do not overlap, and a whole image whose channels are innermost: they are computed as windows.
        "window nhwc_mean": STEPS,
        "window nhwc_global": STEPS,
        "operator max_pool3d": STEPS,
        "operator avg_pool3d": STEPS,
    },
    "cuda_rows": {"rows picked": "has indices that no int holds"},  # int64, before they are clamped
}
"""Programs that a template leaves to others though they are of its family, and why."""


def _task(template: str, program: Program) -> Task:
    return task_of(program, TARGETS[get_template(template).kinds[0]])


@pytest.mark.parametrize("family", FAMILIES)
def test_what_one_target_computes_the_others_compute(family: str) -> None:
    recognise, templates = FAMILIES[family]
    members = 0
    refused: dict[str, dict[str, str]] = {template: {} for template in templates}
    for name, program in every_program().items():
        member = recognise(program) is not None
        members += member
        for template in templates:
            task = _task(template, program)
            if get_template(template).matches(task):
                assert member, name
            elif member:
                with pytest.raises(IllegalSchedule) as info:
                    get_template(template).space(task)
                refused[template][name] = str(info.value).split(". ")[0].removeprefix("the program ")
    assert members > 40
    for template in templates:
        assert get_template(template).family == family
        assert refused[template] == REFUSED.get(template, {})


REDUCTIONS: Mapping[str, tuple[Callable[[Program], object], Mapping[str, tuple[str, ...]]]] = {
    "contraction": (
        lambda program: contractions(program) or None,
        {"cpu": ("cpu_contraction", "cpu_dot"), "cuda": ("cuda_simt", "cuda_mma")},
    ),
    "reduce_window": (reduce_window, {"cpu": ("cpu_stencil",), "cuda": ("cuda_stencil",)}),
    "attention": (attention, {"cpu": ("cpu_attention",), "cuda": ("cuda_attention",)}),
    "winograd": (convolution, {"cpu": ("cpu_winograd",)}),
    "grouped": (grouped, {"cpu": ("cpu_grouped",), "cuda": ("cuda_grouped",)}),
}
"""Of families that several templates of a target may compute: what recognises them, and these templates."""

FEW = "fewer queries than half a vector, along which vectors lie"
CHANNELS = "channels that lie apart in memory"
LEFT = {
    ("contraction", "cpu"): {
        "contraction fused": "a result rounded to bytes after sums of float32",
        "contraction long_integers": "sums of 64-bit whole numbers",
    },
    ("reduce_window", "cpu"): {"window on GPUs pool_index": "a reduction of two components"},
    ("attention", "cpu"): {
        "attention grouped": FEW,
        "half attention half_grouped": FEW,
        "half attention half_paged": FEW,
    },
    ("winograd", "cpu"): {
        "contraction conv2d": CHANNELS,
        "convolution requantised": "sums of whole numbers",
        "language conv2d": CHANNELS,
        "operator conv2d": CHANNELS,
    },
}
"""Members of a family that a target's templates leave to others, and why."""


@pytest.mark.parametrize("family", REDUCTIONS)
def test_what_is_recognised_is_computed(family: str) -> None:
    recognise, templates = REDUCTIONS[family]
    wide = {"cpu": parse_target("cpu:avx512bf16", 1, allow_foreign=True), "cuda": TARGETS["cuda"]}
    members: set[str] = set()
    computed: dict[str, set[str]] = {kind: set() for kind in templates}
    for label, program in every_program().items():
        if recognise(program) is not None:
            members.add(label)
        for kind, names in templates.items():
            task = task_of(program, wide[kind])
            if any(get_template(t).matches(task) for t in names):
                computed[kind].add(label)
    assert len(members) > (20 if family not in ("winograd", "grouped") else 5)
    for kind, names in templates.items():
        assert {get_template(t).family for t in names} == {family}
        assert computed[kind] <= members
        assert members - computed[kind] == set(LEFT.get((family, kind), {}))

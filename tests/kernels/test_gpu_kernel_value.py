"""A GPU kernel is one value: its heads in C++, launches, loops and static features cannot disagree."""

from __future__ import annotations

import dataclasses
import re

import pytest
from golden_sources import GOLDENS, Golden

from tilewright.core import Candidate
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cuda.launches import GlobalFunction, functions_of, main_of
from tilewright.kernels.templates.planned import PlannedTemplate

PLANNED = {
    g.template: g
    for g in GOLDENS.values()
    if g.file and g.target.kind == "cuda" and isinstance(get_template(g.template), PlannedTemplate)
}
"""A program of every GPU template that builds a kernel of its own; partitions take those of others."""
HEAD = re.compile(r"TW_KERNEL\((\d+), (\d+)\)(?: TW_CLUSTER\((\d+)\))? void (\w+)\(((?:[^()]|\(\w+\))*)\) \{")


def built(golden: Golden) -> Kernel:
    """The kernel of the default schedule."""
    template = get_template(golden.template)
    assert isinstance(template, PlannedTemplate)
    return template.kernel(golden.task, template.default(golden.task))


def heads(kernel: Kernel) -> dict[str, tuple[str, ...]]:
    """Threads, blocks that must fit, blocks of a cluster and names of the parameters, by the kernel's name."""
    found = {}
    for threads, blocks, cluster, name, taken in HEAD.findall(kernel.lower("k").source):
        found[name] = (threads, blocks, cluster or "1", *re.findall(r"(\w+)\)?(?:, |$)", taken))
    return found


@pytest.mark.parametrize("name", PLANNED)
def test_the_source_the_launches_and_the_features_of_a_kernel_agree(name: str) -> None:
    golden = PLANNED[name]
    template, kernel = get_template(name), built(golden)
    schedule = template.default(golden.task)
    assert repr(template.nests(golden.task, schedule)) == repr(kernel.nests)
    assert template.static(golden.task, schedule) == kernel.numbers
    candidate = Candidate(golden.task, schedule)
    assert template.lower(candidate) == kernel.lower(candidate.symbol)
    program, printed = kernel.program("k"), heads(kernel)
    assert list(printed) == [x.symbol for x in program.launches]
    for launch, one in zip(program.launches, functions_of(kernel), strict=True):
        threads, blocks, cluster, *parameters = printed[launch.symbol]
        assert (int(threads), int(blocks), int(cluster)) == (launch.block[0], one.min_blocks, one.cluster)
        listed = launch.listed(len(golden.task.workload.inputs) + 1)
        assert len(parameters) == len(listed)
        assert [x for x, (kind, _) in zip(parameters, listed, strict=True) if kind == "int32"] == list(launch.arguments)


@pytest.mark.parametrize("name", PLANNED)
def test_an_argument_that_is_added_to_the_value_is_declared_and_given(name: str) -> None:
    kernel = built(PLANNED[name])
    main = main_of(kernel)
    planted = dataclasses.replace(main, arguments=(*main.arguments, "PLANTED"))
    more = dataclasses.replace(kernel, launches=tuple(planted if x is main else x for x in kernel.launches))
    launch = next(x for x in more.program("k").launches if x.symbol == "k")
    assert heads(more)["k"] == (*heads(kernel)["k"], "PLANTED")
    assert launch.arguments[-1] == "PLANTED"
    assert not launch.parameters or launch.parameters[-1] == ("int32", "PLANTED")


def test_loops_are_those_of_the_kernels_in_order() -> None:
    kernel = built(PLANNED["cuda_simt"])
    nests = tuple(LoopNest(x, {}, (), ()) for x in "ab")

    def one(nest: LoopNest, symbol: str) -> GlobalFunction:
        return dataclasses.replace(main_of(kernel), loops=lambda: (nest,), symbol=symbol)

    both = dataclasses.replace(kernel, launches=(one(nests[0], "_first"), one(nests[1], "")))
    assert both.nests == nests
    assert [x.symbol for x in both.program("k").launches] == ["k_first", "k"]

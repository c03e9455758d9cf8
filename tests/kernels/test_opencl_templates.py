"""GPU templates on OpenCL: what they print is translated, compiled and right, on whatever device is here (PoCL)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import grouped_programs
import numpy as np
import pytest

from harness import gpu_programs
from tilewright.backends.launches import DeviceKernel
from tilewright.backends.opencl import devices
from tilewright.backends.opencl.build import OpenClToolchain
from tilewright.backends.opencl.driver import OpenClContext
from tilewright.core import Candidate, Target, Task, Value
from tilewright.kernels.codegen.sources import GPUS, check_source
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.ranges import at
from tilewright.kernels.templates import TEMPLATES, get_template, templates_for
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.testing import contractions, programs
from tilewright.testing.catalogue import examples
from tilewright.testing.cuda_template import check_launches, empty_output
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of
from tilewright.testing.template import PairContract

pytestmark = pytest.mark.needs("OpenCL")

NAMES = ("cuda_stencil", "cuda_rows", "cuda_map", "cuda_simt", "cuda_grouped", "cuda_generic", "cuda_partition")


def test_all_but_tensor_cores_and_attention_are_for_both() -> None:
    assert {n for n, t in TEMPLATES.items() if "opencl" in t.kinds} == set(NAMES)
    assert all(t.kinds == GPUS for n, t in TEMPLATES.items() if n in NAMES)


@pytest.fixture(scope="module")
def context() -> OpenClContext:
    return OpenClContext(devices.find())


class OpenClContract(PairContract):
    """Sampled schedules of every pair run on the device, in poisoned memory, against the float64 reference.

    What holds of schedules without a device, the contracts of CUDA's templates test.
    """

    templates = NAMES

    def test_every_schedule_computes_the_reference(self, pair: tuple[str, str], context: OpenClContext) -> None:
        program = self.portable(pair)[1]
        inputs = random_arrays(program, 1)
        lowered = self._lowered(pair, devices.target(context.device))
        check_source(*unit(lowered.values()), "opencl")
        module = context.load(self._together(pair, lambda pairs: self._unit(pairs, devices.target(context.device))))
        for candidate, made in lowered.items():
            check_launches(made, candidate.schedule, dict(candidate.task.target.limits))
            kernel = DeviceKernel(context, module, made.program, launch_values(candidate))
            got = run(kernel, inputs, *(empty_output(t.shape, t.dtype) for t in program.outputs))
            try:
                for one, result in zip(program.of_each(), got, strict=True):
                    check(one, inputs, result)
            except AssertionError as error:
                raise AssertionError(f"{pair} with {dict(candidate.schedule.values)}:\n{error}") from error

    @classmethod
    @cache
    def _lowered(cls, pair: tuple[str, str], target: Target) -> dict[Candidate, LoweredKernel]:
        """The schedules of a pair that are run."""
        template, program, _ = cls().portable(pair)
        task = task_of(program, target, pair[1])
        rng, space = random.Random(str(pair)), template.space(task)
        drawn = dict.fromkeys([template.default(task), *(space.sample(rng) for _ in range(cls.schedules))])
        return {c: template.lower(c) for c in (Candidate(task, s) for s in drawn)}

    @classmethod
    @cache
    def _unit(cls, pairs: tuple[tuple[str, str], ...], target: Target) -> bytes:
        return compiled([k for pair in pairs for k in cls._lowered(pair, target).values()], target)


def unit(kernels: Iterable[LoweredKernel]) -> tuple[str, list[str]]:
    """The text of some kernels and the symbols in it."""
    sources = {k.symbol: (k.source, list(k.program.symbols)) for k in kernels}
    return "\n".join(text for text, _ in sources.values()), [s for _, symbols in sources.values() for s in symbols]


def compiled(kernels: Iterable[LoweredKernel], target: Target) -> bytes:
    return Path(OpenClToolchain(target).compile(*unit(kernels), 120).path).read_bytes()


def run(kernel: DeviceKernel, inputs: list[Array], *outs: Array) -> tuple[Array, ...]:
    """One call on copies; everything that is not an input begins as 0xFF."""
    c = kernel.context
    arrays = [np.ascontiguousarray(x) for x in inputs]
    addresses = [c.allocate(max(1, x.nbytes)) for x in (*arrays, *outs)]
    workspace = c.allocate(max(1, kernel.workspace))
    try:
        for address, x in zip(addresses, arrays, strict=False):
            c.upload(address, x)
        written = list(zip(addresses[len(arrays) :], outs, strict=True))
        for address, out in written:
            c.fill(address, 0xFF, out.nbytes)
        c.fill(workspace, 0xFF, kernel.workspace)
        kernel.bind(addresses, workspace)()
        for address, out in written:
            c.download(address, out)
    finally:
        for address in (*addresses, workspace):
            c.free(address)
    return outs


class TestContract(OpenClContract):
    """A program of each class; each is the generic template's, too."""

    programs = {  # noqa: RUF012
        "matmul_epilogue": programs.matmul_epilogue, "softmax": programs.softmax, "standardised": programs.standardised,
        "padded": gpu_programs.MAPS["padded"], "average_pool_last": gpu_programs.WINDOWS["average_pool_last"],
        "experts": grouped_programs.experts,
    }  # fmt: skip


@pytest.mark.nightly
class TestContractThoroughly(OpenClContract):
    programs = examples("language", "contraction", "rows on GPUs", "map on GPUs", "window on GPUs")
    schedules = 8


def test_no_asynchronous_copies_and_no_tensor_cores() -> None:
    task = task_of(contractions.aligned(), devices.parse_target("opencl"))
    (template,) = templates_for(task)
    assert template.name == "cuda_simt"
    rng = random.Random(0)
    space = template.space(task)
    assert {dict(space.sample(rng).values)["copy"] for _ in range(50)} == {"direct"}


SIZED: dict[str, tuple[str, dict[str, Value]]] = {
    "cuda_map": ("elementwise", {"shape": "1..700", "fn": "x*2+1"}),
    "cuda_rows": ("softmax", {"shape": "1..70,37"}),
    "cuda_simt": ("matmul", {"m": "1..150", "n": 37, "k": 24, "bias": True}),
}


@cache
def sized(target: Target) -> tuple[dict[str, tuple[Candidate, LoweredKernel]], bytes]:
    """A kernel of each of them for its range, by the default schedule for the greatest size; their code."""
    made = {}
    for name, (op, params) in SIZED.items():
        workload, template = get_operator(op).workload(**params), get_template(name)
        highest = {n: e.high for n, e in workload.ranges.items()}
        schedule = template.default(Task(at(workload, highest), target)).at(highest)
        candidate = Candidate(Task(workload, target), schedule)
        made[name] = candidate, template.lower(candidate)
    return made, compiled([kernel for _, kernel in made.values()], target)


@pytest.mark.parametrize("template", SIZED)
def test_a_kernel_takes_its_size_when_it_is_called(template: str, context: OpenClContext) -> None:
    kernels, code = sized(devices.target(context.device))
    candidate, made = kernels[template]
    workload = candidate.task.workload
    ((name, extent),) = workload.ranges.items()
    module = context.load(code)
    for size in (1, 2, 65, extent.high):
        program = Program.loads(at(workload, {name: size}).program)
        values = {k: int(v) for k, v in candidate.schedule.at({name: size}).launch}
        inputs = random_arrays(program, size)
        out = empty_output(program.output.shape, program.output.dtype)
        check(program, inputs, *run(DeviceKernel(context, module, made.program, values), inputs, out))

"""The contract of CUDA templates, tested on the emulator. Derive from :class:`CudaTemplateContract`.

::

    class TestMyTemplate(CudaTemplateContract):
        templates = ("mine",)

For every contraction the default schedule and some sampled schedules are compiled for the emulator. They run in several
orders of threads and blocks, with asynchronous copies completed as late and as early as allowed, in poisoned memory.
Results are compared with the float64 reference.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.emulator import EmulatedKernel, build, run
from tilewright.core import Candidate, Schedule, Target, evaluate
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates import TEMPLATES
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.static import STATIC
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of
from tilewright.testing.template import ScheduleContract

ORDERS = (("fifo", "lazy"), ("lifo", "eager"), ("random:7", "lazy"))
"""Orders of threads and blocks, each with the time at which asynchronous copies complete."""

RAW = re.compile(r"\b(asm|__\w+sync\w*|__syncthreads\w*|__shfl\w*|__ld\w+|__builtin_ia32\w*|atomic[A-Z]\w*)\b")
"""Intrinsics that only the prelude may use."""


class CudaTemplateContract(ScheduleContract):
    """Tests of CUDA templates on small contractions; no GPU is needed."""

    templates: tuple[str, ...] = tuple(n for n, t in TEMPLATES.items() if "cuda" in t.kinds)
    programs = CONTRACTIONS
    targets: tuple[str, ...] = ("sm_80",)
    sanitize: tuple[str, ...] = ()
    """Sanitizers to run under; if a sanitizer cannot run, the test is skipped, never passed."""

    def test_every_schedule_computes_the_reference(self, pair: tuple[str, str], target_name: str) -> None:
        made = self._lowered(pair, target_name)
        if not made:
            pytest.skip(f"{pair[0]} generates nothing for {target_name}")
        kernel, program = self._together(pair, lambda pairs: self._unit(pairs, target_name)), self.portable(pair)[1]
        if kernel.unchecked:
            pytest.skip(kernel.unchecked)
        inputs = random_arrays(program, 1)
        expected = [(one, reference(one, inputs)) for one in program.of_each()]
        for candidate, lowered in made.items():
            for order, copies in ORDERS:
                got = [empty_output(t.shape, t.dtype) for t in program.outputs]
                report = run(
                    kernel, lowered.program, launch_values(candidate), inputs, *got, order=order, copies=copies
                )
                told = f"{pair} with {dict(candidate.schedule.values)}, {order}, {copies} copies"
                if report.unchecked:
                    pytest.skip(report.unchecked)
                assert report.ok, f"{told}: {report.bugs}"
                try:
                    for result, (one, right) in zip(got, expected, strict=True):
                        check(one, inputs, result, right)
                except AssertionError as error:
                    raise AssertionError(f"{told}:\n{error}") from error

    @classmethod
    @cache
    def _lowered(cls, pair: tuple[str, str], target_name: str) -> dict[Candidate, LoweredKernel]:
        """The lowered schedules of a pair; empty if its template does not match the target's task."""
        template, program, _ = cls().portable(pair)
        task = task_of(program, cuda_target(target_name), pair[1])
        if not template.matches(task):
            return {}
        rng, space = random.Random(f"{pair} {target_name}"), template.space(task)
        drawn = dict.fromkeys([template.default(task), *(space.sample(rng) for _ in range(cls.schedules))])
        return {c: template.lower(c) for c in (Candidate(task, s) for s in drawn)}

    @classmethod
    @cache
    def _unit(cls, pairs: tuple[tuple[str, str], ...], target_name: str) -> EmulatedKernel:
        kernels = [k for pair in pairs for k in cls._lowered(pair, target_name).values()]
        return emulated(kernels, cuda_target(target_name), cls.sanitize)

    def test_sources_use_the_prelude_only(self, pair: tuple[str, str]) -> None:
        template, _, task = self.portable(pair)
        rng = random.Random(1)
        for schedule in (template.default(task), template.space(task).sample(rng)):
            kernel = template.lower(Candidate(task, schedule))
            assert kernel.source.startswith('#line 1 "kernel"\n')
            assert "#include" not in kernel.source
            assert not RAW.findall(kernel.source)

    def test_launches_and_static_numbers(self, pair: tuple[str, str]) -> None:
        template, _, task = self.portable(pair)
        rng = random.Random(2)
        for schedule in [template.default(task), *(template.space(task).sample(rng) for _ in range(6))]:
            kernel = template.lower(Candidate(task, schedule))
            check_launches(kernel, schedule, task.target.limit)
            numbers = template.static(task, schedule)
            assert tuple(numbers) == tuple(STATIC)
            assert all(isinstance(v, float) and np.isfinite(v) and v >= 0 for v in numbers.values()), numbers
            first = next(x for x in kernel.program.launches if x.symbol == kernel.symbol)
            assert numbers["threads"] == int(np.prod(first.block))
            assert numbers["shared_bytes"] == evaluate(first.shared, launch_values(Candidate(task, schedule)))
            assert 0 < numbers["occupancy"] <= 1
            assert 0 < numbers["wave_efficiency"] <= 1
            assert numbers["registers"] <= 255


def emulated(
    kernels: Sequence[LoweredKernel], target: Target, sanitize: tuple[str, ...] = (), profile: bool = False
) -> EmulatedKernel:
    """Compiles kernels as one unit for the emulator, which saves compiler starts, preludes and linking."""
    sources = {k.symbol: k.source for k in kernels}
    symbols = dict.fromkeys(s for k in kernels for s in k.program.symbols)
    unit = prelude(target, emulated=True) + "".join(sources.values())
    return build(unit, list(symbols), sanitize=sanitize, profile=profile)


def check_launches(kernel: LoweredKernel, schedule: Schedule, limits: object) -> None:
    """Asserts that every launch of a kernel is within a target's limits, and that its alignment is a vector's."""
    assert isinstance(limits, dict)
    values = {k: int(v) for k, v in schedule.launch}
    for launch in kernel.program.every_launch:
        grid = [evaluate(e, values) for e in launch.grid]
        assert len(grid) == len(launch.block) == 3
        assert 1 <= grid[0] < 1 << 31
        assert all(1 <= g <= 65535 for g in grid[1:])
        threads = int(np.prod(launch.block))
        assert threads % 32 == 0
        assert 32 <= threads <= limits["threads_per_block"]
        assert 0 <= evaluate(launch.shared, values) <= limits["shared_per_block"]
    assert kernel.program.align in (1, 2, 4, 8, 16)
    assert evaluate(kernel.program.workspace, values) >= evaluate(kernel.program.zero_fill, values) >= 0


def empty_output(shape: tuple[int, ...], dtype: str) -> Array:
    """An uninitialised array for a result; of bits if NumPy lacks the dtype."""
    return np.empty(shape, numpy_dtype(dtype))

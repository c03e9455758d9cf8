"""The second tier of answers: kernels compiled on request without tuning, and cached.

The schedule comes from the nearest tuned sizes, adapted to the requested sizes. Without one, it is the schedule that
the shipped cost model predicts to be fastest, or the template's default if xgboost is missing.

A compiled kernel is recorded in the artifact cache under the task and the templates' versions. So finding it again
needs neither a compiler nor code generation.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import default_rng

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.build import build_library, library_key
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.loader import LoadedKernel, load_path
from tilewright.backends.cpu.targets import detect
from tilewright.backends.driver import LoadError
from tilewright.core import (
    Candidate,
    LaunchProgram,
    Schedule,
    Target,
    Task,
    TilewrightError,
    Workload,
    canonical_json,
    digest,
)
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.forking import steady
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.expression.value_range import draw
from tilewright.kernels.reference import evaluate_block, index_bounds
from tilewright.kernels.templates import TEMPLATES, default_schedule, lower, templates_for
from tilewright.paths import cache_root
from tilewright.runtime.checked import address, empty

_CHECKED_ELEMENTS = 48  # along each axis of the output, from either end


@dataclass(frozen=True)
class DefaultKernel:
    """A loaded kernel that was compiled without tuning."""

    kernel: LoadedKernel
    schedule: Schedule
    target: Target
    tier: str  # a name in UNTUNED


def any_recorded() -> bool:
    """Whether the cache holds any default kernel, so that a look-up is worth its time."""
    return cache_root().is_dir() and ArtifactCache().get(_MARK) is not None


def find_default(workload: Workload, threads: int) -> DefaultKernel | None:
    """The default kernel of a workload on this machine, if it is in the cache."""
    task = Task(workload, detect(threads))
    cache = ArtifactCache()
    record = cache.get(_record_key(task))
    if record is None:
        return None
    try:
        found = json.loads(Path(record).read_text())
        path = cache.get(found["library"])
        if path is None:
            return None
        schedule = Schedule.from_json(found["schedule"])
        library = load_path(path, found["sha256"])
        program = LaunchProgram.from_json(found["program"])
        kernel = library.kernel(program, _launch(schedule), threads)
        return DefaultKernel(kernel, schedule, task.target, str(found["tier"]))
    except (OSError, ValueError, KeyError, LoadError):
        return None  # deleted from the cache, or written by another version


def compile_default(workload: Workload, threads: int, nearest: Schedule | None = None) -> DefaultKernel:
    """Compiles, checks and records the default kernel. Raises ``TilewrightError`` if a step fails.

    ``nearest``: the schedule of the nearest tuned sizes.
    """
    task = Task(workload, detect(threads))
    schedule, tier = _schedule(task, nearest)
    lowered = lower(Candidate(task, schedule))
    cache, compiler = ArtifactCache(), find_compiler(task.target.arch)
    sources = [prelude(task.target), lowered.source]
    path, sha256, _ = build_library(sources, task.target, compiler, cache)
    kernel = load_path(path, sha256).kernel(lowered.program, _launch(schedule), threads)
    _check(workload, kernel)
    record = {
        "library": library_key("\n".join(sources), task.target, compiler),
        "sha256": sha256,
        "tier": tier,
        "schedule": schedule.to_json(),
        "program": lowered.program.to_json(),
    }
    cache.put(_record_key(task), canonical_json(record).encode())
    cache.put(_MARK, b"template defaults are recorded here")
    return DefaultKernel(kernel, schedule, task.target, tier)


def _schedule(task: Task, nearest: Schedule | None) -> tuple[Schedule, str]:
    """A schedule, and the tier that names its origin."""
    for template in templates_for(task) if nearest else ():
        if nearest is not None and (template.name, template.version) == (nearest.template, nearest.version):
            return template.space(task).carried(random.Random(0), nearest, template.default(task)), "nearest"
    try:
        with steady:
            from tilewright.cost_model.choice import predicted_schedule

        return predicted_schedule(task), "foreseen"
    except (ImportError, TilewrightError):  # xgboost is missing, or the model does not know this kind of task
        return default_schedule(task), "default"


_MARK = digest("runtime defaults, version 4")


def _record_key(task: Task) -> str:
    return digest([_MARK, task.key, sorted((t.name, t.version) for t in TEMPLATES.values())])


def _launch(schedule: Schedule) -> dict[str, int]:
    return {k: int(v) for k, v in schedule.launch}


def _check(workload: Workload, kernel: LoadedKernel) -> None:
    """Compares the outputs' corners with the reference on random inputs; every element must have been written."""
    program = Program.loads(workload.program)
    bounds = index_bounds(program)
    rng = default_rng(0)
    inputs = []
    for tensor in program.inputs:
        a = empty(tensor.shape, numpy_dtype(tensor.dtype), 4096)
        a[...] = draw(tensor, rng, bound=bounds.get(tensor.name))
        inputs.append(a)
    outs = []
    for spec in workload.outputs:
        out = empty(spec.shape, numpy_dtype(spec.dtype), 4096)
        if spec.dtype in FLOATS:
            out[...] = encode(np.full(out.shape, np.nan), spec.dtype)
        else:
            out.reshape(-1).view(np.uint8)[...] = 0 if spec.dtype == "bool" else 0xFF
        outs.append(out)
    kernel.run([address(a) for a in (*inputs, *outs)])
    n = _CHECKED_ELEMENTS
    corners = [
        (one, out, block)
        for one, out in zip(program.of_each(), outs, strict=True)
        for block in (
            tuple(slice(0, min(n, s)) for s in out.shape),
            tuple(slice(max(0, s - n), s) for s in out.shape),
        )
    ]
    for one, out, block in corners:
        kind = one.output.dtype
        expected = np.asarray(evaluate_block(one, inputs, block), np.float64)
        got = decode(out[block], kind).astype(np.float64)
        scale = float(np.abs(expected).max(initial=0.0)) or 1.0
        wrong = ~(np.abs(got - expected) <= DTYPES[kind].agreement.kernel * scale)
        if wrong.any() and not np.array_equal(got, expected, equal_nan=True):
            raise TilewrightError(
                f"the default kernel of {workload.label} computes wrong values",
                "NumPy answers instead. Tune the task, or choose another compiler with CXX",
            )

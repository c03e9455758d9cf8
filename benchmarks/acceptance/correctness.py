"""Is it right? Primitives against their recordings, templates on odd shapes, and these under NVIDIA's sanitizer."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acceptance.rows import Teller
from acceptance.shapes import ODD
from acceptance.world import World
from cuda_cases import Shape
from tilewright.backends import backend_for
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.launches import DeviceKernel
from tilewright.backends.toolchain import DEADLINE
from tilewright.checking.schedules import random_schedules
from tilewright.core import Artifact, Candidate, Schedule, Task
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.primitives import PRIMITIVES, conformance
from tilewright.kernels.reference import index_bounds
from tilewright.kernels.templates import Template, templates_for
from tilewright.verifying.inputs import Recipe, make_inputs

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "conformance"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
OPTIONS = ("--report-api-errors", "no", "--padding", "64")
"""Of compute-sanitizer: failing calls raise anyway, libraries try some; stray accesses hit the room between buffers."""
RANDOM = 2
"""Schedules of each template that changed on each odd shape, beside its default."""
SHAPES_A_TEMPLATE = 3
"""Under the sanitizer; one on the emulator."""


def primitives(world: World) -> list[str]:
    """Those that the device has."""
    return [p.name for p in PRIMITIVES if p.known_to(int(world.target.limit["cc"]))]


def conform(world: World, tell: Teller, primitive: str) -> None:
    """Every case of one primitive, compared with the committed recording."""
    cases = [c for c in conformance.cases() if c.primitive.name == primitive]
    golden = conformance.load(GOLDEN)["cases"]
    toolchain = backend_for(world.target, world.emulated).toolchain(world.target, ArtifactCache())
    unit = prelude(world.target, world.emulated) + conformance.unit(cases)
    built = toolchain.compile(unit, [c.symbol for c in cases], DEADLINE)
    module = world.context.load(Path(built.path).read_bytes())

    def run(case: conformance.Case) -> Any:
        out = case.output()
        kernel = DeviceKernel(world.context, module, case.program, {})
        world.call(lambda tensors: kernel.bind(tensors, 0), case.inputs, [out])
        return out

    for case in cases:
        name = f"conformance/{case.name}"
        if tell.wants(name):
            with tell.unit(name, world.context, primitive=primitive):
                got = conformance.record(run, [case])["cases"]
                differing = conformance.check_against({"cases": {case.name: golden[case.name]}}, {"cases": got})
                if differing:
                    found = {"message": " ".join(differing), "output": got[case.name]}
                    tell.row(name, "differs", primitive=primitive, **found)
                else:
                    tell.row(name, "same", primitive=primitive)


def odd(world: World, tell: Teller, shape: Shape) -> None:
    """Each template's default on an odd shape, against the reference in a child."""
    task = Task(shape.workload, world.target)
    for template in templates_for(task):
        _verified(world, tell, task, template, {0: template.default(task)})


def more(world: World, tell: Teller, shape: Shape, changed: Collection[str]) -> None:
    """Random schedules of the templates that changed on an odd shape."""
    task = Task(shape.workload, world.target)
    for template in templates_for(task):
        if template.name in changed:
            schedules = random_schedules(task, RANDOM, 1, template.name)
            _verified(world, tell, task, template, dict(enumerate(schedules, 1)))


def _verified(world: World, tell: Teller, task: Task, template: Template, schedules: Mapping[int, Schedule]) -> None:
    """Some schedules of one template against the reference in a child, by their number in the row's name."""
    wanted = {f"odd/{task.workload.label}/{template.name}/{n}": Candidate(task, s) for n, s in schedules.items()}
    todo = {name: c for name, c in wanted.items() if tell.wants(name)}
    with tell.trusted():
        for (name, candidate), built in zip(todo.items(), world.builder.build(list(todo.values())), strict=True):
            facts: dict[str, Any] = {"template": template.name, "schedule": candidate.schedule.to_json()}
            with tell.unit(name, **facts):
                problem = world.verifier.verify(task, (candidate, built)) if isinstance(built, Artifact) else built
                if problem is None:
                    tell.row(name, "right", **facts)
                else:
                    tell.row(name, problem.kind.value, message=problem.message, **facts)


def sanitizer() -> str | None:
    """NVIDIA's compute-sanitizer: on the path, of the wheel nvidia-cuda-sanitizer-api, or of a toolkit."""
    wheels = (p for folder in sys.path for p in Path(folder, "nvidia").glob("*/bin/compute-sanitizer"))
    toolkits = Path("/usr/local").glob("cuda*/bin/compute-sanitizer")
    return shutil.which("compute-sanitizer") or next((str(p) for p in (*wheels, *toolkits)), None)


def _by_engine(built: Artifact) -> bool:
    """Whether the copy engine stores what later launches read: initcheck does not see its stores, and would report each
    of these reads."""
    maps = (x for launch in built.program.launches for kind, x in launch.parameters if kind == "tensor_map")
    return any(m["of"][0] == "workspace" for m in maps)


def sanitize(world: World, tell: Teller, tool: str, changed: Collection[str]) -> None:
    """Under a sanitizer's tool: the default kernels of the templates that changed on some odd shapes, on random
    inputs."""
    seen: dict[str, int] = {}
    most = 1 if world.emulated else SHAPES_A_TEMPLATE
    for shape in ODD:
        task = Task(shape.workload, world.target)
        program = Program.loads(shape.workload.program)
        for template in templates_for(task):
            name = f"sanitizer/{tool}/{shape.workload.label}/{template.name}"
            if template.name not in changed:
                continue
            seen[template.name] = seen.get(template.name, 0) + 1
            if seen[template.name] > most or not tell.wants(name):
                continue
            with tell.unit(name, world.context, template=template.name):
                candidate = Candidate(task, template.default(task))
                [built] = world.builder.build([candidate])
                if not isinstance(built, Artifact):
                    tell.row(name, built.kind.value, message=built.message, template=template.name)
                    continue
                inputs = make_inputs(program, Recipe("normal", 0, "heap"), index_bounds(program))
                outputs = [np.empty(t.shape, numpy_dtype(t.dtype)) for t in program.outputs]
                with world.kernel(candidate, built, tool == "initcheck" and _by_engine(built)) as bind:
                    world.call(bind, inputs, outputs)
                tell.row(name, "clean", template=template.name)

"""How fast is it? A shape's default and its neighbours, checked and timed, in turns with the strongest library.

Without PyTorch kernels are checked against the reference in a child, and there are no ratios.
"""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance import reference, rivals
from acceptance.operands import Call, Operands, torch_problem
from acceptance.rows import Row, Teller, line_of
from acceptance.shapes import label_of
from acceptance.timing import in_turns, interval, speed, timer, watched
from acceptance.world import World
from cuda_cases import Shape
from tilewright.backends.cores import available_cores
from tilewright.building import prepared
from tilewright.core import Artifact, Candidate, Failure, Schedule, Task, TilewrightError
from tilewright.kernels.templates import default_schedule, task_space
from tilewright.tuner.prepare import diverse, prepare, write

KERNEL_SECONDS = 0.1
"""Of samples for each kernel, and each library, by itself."""
TRIES = 3
"""Samples of each library by itself, at least."""
TURNS_SECONDS = 1.2
"""Of samples in turns."""
POOL = 32
"""Neighbours that are ranked where nothing was prepared; a few for the emulator."""

Item = tuple[Candidate, Artifact]


@dataclass(frozen=True)
class Wanted:
    """``prepared``: a folder of prepared folders; ``scratch``: for what is made here; ``count``: schedules beside the
    default."""

    prepared: Path | None
    scratch: Path
    count: int


def slug(label: str) -> str:
    """A label as a folder's name."""
    return "".join(c if c.isalnum() else "-" for c in label)


def find(world: World, task: Task, wanted: Wanted) -> tuple[Path, Sequence[Item]] | str:
    """Where a task was prepared for this architecture, and its kernels that are legal on this device, best first; else
    why there are none."""
    problem = "nothing was prepared for it"
    space = task_space(task)
    for root in (wanted.prepared, wanted.scratch / "prepared"):
        folder = None if root is None else root / slug(task.workload.label)
        if folder is None or not (folder / prepared.FILE).is_file():
            continue
        try:
            loaded = prepared.read(folder)
            if loaded.task.key != task.key or loaded.emulated != world.emulated:
                place = " on the emulator" if loaded.emulated else ""
                problem = f"{folder} was prepared for {loaded.task.target.name}{place}"
                continue
            items = []
            for item in loaded.items:
                with contextlib.suppress(TilewrightError):
                    space.check(item[0].schedule)
                    items.append(item)
            if items:
                world.load(items[0][1]).close()
                return folder, items
            problem = f"{folder} was prepared by other versions of the templates"
        except TilewrightError as e:
            problem = line_of(e)
    return problem


def items_of(world: World, tell: Teller, task: Task, wanted: Wanted) -> list[Item]:
    """This device's default and the best ranked schedules of a task, compiled: as prepared, else prepared now."""
    label = task.workload.label
    found = find(world, task, wanted)
    if isinstance(found, str):
        tell.row(f"light/{label}/prepared", "note", message=f"{found}: prepared here for {task.target.name}")
        folder = wanted.scratch / "prepared" / slug(label)
        with tell.trusted():
            made = prepare(
                task, folder, keep=wanted.count, pool=4 if world.emulated else POOL, near=1.0, verify=0,
                workers=available_cores(), emulated=world.emulated,
            )  # fmt: skip
            write(made, folder)
        items = list(prepared.read(folder).items)
    else:
        items = list(found[1])
    default = default_schedule(task)
    first = [x for x in items if x[0].schedule == default]
    if not first and not isinstance(found, str):
        with tell.trusted():
            [built] = world.builder.build([Candidate(task, default)])
        why = (
            "another one is the default on this device: compiled here" if isinstance(built, Artifact) else built.message
        )
        tell.row(f"light/{label}/prepared", "note", message=why)
        first = [(Candidate(task, default), built)] if isinstance(built, Artifact) else []
    others = [x for x in items if x[0].schedule != default]
    chosen = diverse(task, [x[0].schedule for x in others], wanted.count)
    return first + [others[n] for n in chosen[: wanted.count]]


def light(world: World, tell: Teller, shape: Shape, wanted: Wanted, rows: Sequence[Row]) -> None:
    """Kernels and ratios of one shape; ``rows`` are those of earlier runs."""
    label = label_of(shape)
    try:
        task = Task(shape.workload, world.target)
        items = items_of(world, tell, task, wanted)
    except TilewrightError as e:
        tell.row(f"light/{label}", "refused", message=line_of(e))
        return
    problem = torch_problem(world)
    if problem is not None:
        tell.row(f"light/{label}/libraries", "skipped", message=problem)
        _in_a_child(world, tell, task, items)
        return
    with operands_of(world, task) as operands:
        _timed(world, tell, operands, items, rows)


def _timed(world: World, tell: Teller, operands: Operands, items: Sequence[Item], rows: Sequence[Row]) -> None:
    """Each kernel by itself, then the default and the fastest in turns with the strongest library."""
    times = {r["id"]: float(r["us"]) for r in rows if "us" in r}
    for item in items:
        _kernel(world, tell, operands, item, times)
    timed = [x for x in items if _name(x) in times]
    if timed:
        best = min(timed, key=lambda x: times[_name(x)])
        default = next((x for x in timed if x[0].schedule == default_schedule(operands.task)), best)
        sides = {"default": default, "best": best} if best is not default else {"default": default}
        for rival in _strongest(world, tell, operands):
            in_turns_with(world, tell, operands, sides, rival)


@contextmanager
def operands_of(world: World, task: Task) -> Iterator[Operands]:
    """Operands, whose memory is given back before the next shape, with that of graphs and libraries."""
    operands = Operands(world, task)
    try:
        yield operands
    finally:
        operands.clear()
        gc.collect()
        if not world.emulated:
            operands.torch.cuda.empty_cache()


def _name(item: Item) -> str:
    candidate = item[0]
    return f"light/{candidate.task.workload.label}/{candidate.schedule.key[:12]}"


def facts_of(schedule: Schedule) -> dict[str, Any]:
    return {"template": schedule.template, "schedule": schedule.to_json()}


def _kernel(world: World, tell: Teller, operands: Operands, item: Item, times: dict[str, float]) -> None:
    """Check and time one kernel on the tensors."""
    name, schedule, workload = _name(item), item[0].schedule, operands.workload
    if not tell.wants(name):
        return
    facts = {**facts_of(schedule), "shape": workload.label}
    with tell.unit(name, world.context, **facts):
        error = math.nan
        if not reference.known(workload):
            with tell.trusted():
                failure = world.verifier.verify(item[0].task, item)
            if failure is not None:
                tell.row(name, failure.kind.value, message=failure.message, **facts)
                return
        with world.kernel(*item) as bind:
            if reference.known(workload):
                problem, error = operands.problem(bind)
                if problem:
                    tell.row(name, "wrong_result", message=problem, **facts)
                    return
            mine = timer(operands, operands.ours(bind))
            with watched(world) as during:
                [samples] = in_turns([mine], _seconds(world, KERNEL_SECONDS))
            seconds = statistics.median(samples)
        times[name] = 1e6 * seconds
        fast = speed(world, operands.task, seconds, during)
        tell.row(
            name, "measured", summary=_said(times[name], fast), us=times[name],
            error=None if math.isnan(error) else error,
            checked="PyTorch" if reference.known(workload) else "the reference", **fast, **facts,
        )  # fmt: skip


def _said(us: float, fast: dict[str, Any]) -> str:
    share, clock = fast["share_at_clock"], fast["during"].get("sm_hz")
    return f"{us:.1f} us" + (f", {share:.0%} of the peak at {clock / 1e6:.0f} MHz" if share and clock else "")


def _in_a_child(world: World, tell: Teller, task: Task, items: Sequence[Item]) -> None:
    """The same without PyTorch: against the reference, which takes longer, and timed as in tuning."""
    incumbent: Item | None = None
    with tell.trusted():
        for item in items:
            name, facts = _name(item), {**facts_of(item[0].schedule), "shape": task.workload.label}
            if not tell.wants(name):
                continue
            with tell.unit(name, **facts):
                [found] = world.verifier.run(task, [item], incumbent)
                if isinstance(found, Failure):
                    tell.row(name, found.kind.value, message=found.message, **facts)
                    continue
                incumbent = incumbent or item
                tell.row(
                    name, "measured", us=1e6 * found.seconds, error=None, checked="the reference",
                    **speed(world, task, found.seconds, world.state()), environment=dict(found.environment), **facts,
                )  # fmt: skip


def _strongest(world: World, tell: Teller, operands: Operands, part: str = "light") -> list[tuple[str, Call]]:
    """The fastest of the libraries that compute the shape, by a few samples of each, and where that one has operands in
    another layout, the fastest that reads them as they lie; what one refuses is a row."""
    label, times = operands.workload.label, dict[str, float]()
    calls = rivals.libraries(operands)
    if not calls:
        tell.row(f"{part}/{label}/libraries", "note", message="PyTorch has no call for it", shape=label)
    for rival, call in calls.items():
        name, facts = f"{part}/{label}/rival/{rival}", {"rival": rival, "shape": label, "op": operands.workload.op}
        with tell.unit(name, world.context, **facts):
            try:
                [samples] = in_turns([timer(operands, call)], _seconds(world, KERNEL_SECONDS), TRIES)
            except Exception as e:  # what a library does not compute
                tell.row(name, "refused", message=f"{rival}: {line_of(e)}"[:300], **facts)
                world.context.synchronize()
                continue
            us = times[rival] = 1e6 * statistics.median(samples)
            tell.row(name, "measured", summary=f"{us:.1f} us", their_us=us, **facts)
    in_place = [rival for rival in times if rivals.as_they_lie(operands.workload, rival)]
    fastest = [min(names, key=times.__getitem__) for names in (list(times), in_place) if names]
    return [(rival, calls[rival]) for rival in dict.fromkeys(fastest)]


def in_turns_with(
    world: World, tell: Teller, operands: Operands, sides: dict[str, Item], rival: tuple[str, Call], part: str = "light"
) -> None:  # fmt: skip
    """Our kernels in turns with one rival: time of theirs over ours, above 1 where ours is faster. ``sides``: by what
    chose them."""
    label, (who, call) = operands.workload.label, rival
    names = {choice: f"{part}/{label}/{choice}/{who}" for choice in sides}
    if not any(tell.wants(name) for name in names.values()):
        return
    facts = {"op": operands.workload.op, "shape": label, "rival": who}
    with tell.unit(next(iter(names.values())), world.context, **facts), contextlib.ExitStack() as stack:
        binds = [stack.enter_context(world.kernel(*x)) for x in sides.values()]
        timers = [timer(operands, one) for one in (*map(operands.ours, binds), call)]
        with watched(world) as during:
            *mine, theirs = in_turns(timers, _seconds(world, TURNS_SECONDS))
        for (choice, item), samples in zip(sides.items(), mine, strict=True):
            ratio, low, high = interval([t / o for o, t in zip(samples, theirs, strict=True)])
            seconds = statistics.median(samples)
            tell.row(
                names[choice], "measured", summary=f"{ratio:.3f} ({low:.3f} to {high:.3f})", ratio=ratio, low=low,
                high=high, pairs=len(samples), our_us=1e6 * seconds, their_us=1e6 * statistics.median(theirs),
                choice=choice, **speed(world, operands.task, seconds, during), **facts_of(item[0].schedule), **facts,
            )  # fmt: skip


def beside_libraries(world: World, tell: Teller, task: Task, item: Item, choice: str, part: str) -> None:
    """One kernel in turns with the strongest library."""
    with operands_of(world, task) as operands:
        for rival in _strongest(world, tell, operands, part):
            in_turns_with(world, tell, operands, {choice: item}, rival, part)


def beside_triton(world: World, tell: Teller, shape: Shape, wanted: Wanted, rows: Sequence[Row]) -> None:
    """The fastest kernel that was found in turns with Triton's."""
    label = label_of(shape)
    times = {r["id"]: float(r["us"]) for r in rows if "us" in r}
    task = Task(shape.workload, world.target)
    timed = [x for x in items_of(world, tell, task, wanted) if _name(x) in times]
    if not timed:
        tell.row(f"triton/{label}", "skipped", message="no kernel of ours was measured")
        return
    best = min(timed, key=lambda x: times[_name(x)])
    with operands_of(world, task) as operands:
        call = rivals.triton(operands)
        if call is None:
            tell.row(f"triton/{label}", "note", message="there is no kernel of Triton's here")
        else:
            in_turns_with(world, tell, operands, {"best": best}, ("triton", call), "triton")


def _seconds(world: World, seconds: float) -> float:
    return 0.01 if world.emulated else seconds

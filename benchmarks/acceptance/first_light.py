"""How fast is it? The default and the prepared schedules of a shape, checked and timed, and ratios to the libraries.

The default's ratios come first, then all schedules, then the ratios of the fastest. Without PyTorch kernels are
checked against the reference in a child, and there are no ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance.rivals import Bench, Call, interval, median, pairs_of, speed, torch_problem
from acceptance.rows import Row, Teller
from acceptance.world import World
from tilewright.backends.cores import available_cores
from tilewright.building import prepared
from tilewright.core import Artifact, Candidate, Failure, Schedule, Task, TilewrightError
from tilewright.kernels.templates import default_schedule
from tilewright.tuner.prepare import prepare, write

PAIR_SECONDS = 1.5
"""For each ratio."""
POOL = 256
"""Schedules that are ranked where nothing was prepared; a few for the emulator."""

Item = tuple[Candidate, Artifact]


@dataclass(frozen=True)
class Wanted:
    """``prepared``: a folder of prepared folders; ``out``: the run's; ``count``: schedules beside the default."""

    prepared: Path | None
    out: Path
    count: int


def slug(label: str) -> str:
    """A label as a folder's name."""
    return "".join(c if c.isalnum() else "-" for c in label)


def find(world: World, task: Task, wanted: Wanted) -> tuple[Path, Sequence[Item]] | str:
    """Where a task was prepared for this device, and its kernels, best first; else why there are none."""
    problem = "nothing was prepared for it"
    for root in (wanted.prepared, wanted.out / "prepared"):
        try:
            folders = prepared.folders(root) if root is not None and root.exists() else ()
        except TilewrightError as e:
            problem, folders = e.message, ()
        for folder in folders:
            try:
                loaded = prepared.read(folder)
            except TilewrightError as e:
                problem = e.message
                continue
            if loaded.task.key == task.key and loaded.emulated == world.emulated:
                return folder, loaded.items
            if loaded.task.workload.key == task.workload.key:
                place = " on the emulator" if loaded.emulated else ""
                problem = f"{folder} was prepared for {loaded.task.target.name}{place}"
    return problem


def items_of(world: World, tell: Teller, task: Task, wanted: Wanted) -> list[Item]:
    """The default and the best ranked schedules of a task, compiled: as prepared, else prepared now."""
    found = find(world, task, wanted)
    if not isinstance(found, str):
        return _first(found[1], wanted.count)
    name = f"light/{task.workload.label}/prepared"
    tell.at(name)
    tell.row(name, "note", message=f"{found}: prepared here for {task.target.name}")
    folder = wanted.out / "prepared" / slug(task.workload.label)
    pool = 16 if world.emulated else POOL
    made = prepare(
        task, folder, keep=wanted.count, pool=max(pool, wanted.count), verify=0, workers=available_cores(),
        emulated=world.emulated,
    )  # fmt: skip
    write(made, folder)
    return _first(prepared.read(folder).items, wanted.count)


def _first(items: Sequence[Item], count: int) -> list[Item]:
    """The default, where it could be prepared, then the best."""
    return [*(x for x in items if _default(x)), *[x for x in items if not _default(x)][:count]]


def _default(item: Item) -> bool:
    """Whether it is the default of the target that it was prepared for; another device of its kind may have another."""
    return item[0].schedule == default_schedule(item[0].task)


def _best(items: Sequence[Item], times: dict[str, float]) -> Item | None:
    return min((x for x in items if _name(x) in times), key=lambda x: times[_name(x)], default=None)


def light(world: World, tell: Teller, task: Task, wanted: Wanted, rows: Sequence[Row]) -> None:
    """Schedules and ratios of one shape; ``rows`` are those of earlier runs."""
    label = task.workload.label
    items = items_of(world, tell, task, wanted)
    problem = torch_problem(world)
    if problem is not None:
        tell.at(f"light/{label}/libraries")
        tell.row(f"light/{label}/libraries", "skipped", message=problem)
        _in_a_child(world, tell, task, items)
        return
    bench = Bench(world, task)
    times = {r["id"]: float(r["us"]) for r in rows if "us" in r}
    for n, item in enumerate(items):
        _schedule(world, tell, bench, item, times)
        if n == 0 and _name(item) in times:
            ratios(world, tell, bench, item, "default" if _default(item) else "ranked")
    best = _best(items, times)
    if best is not None and best is not items[0]:
        ratios(world, tell, bench, best, "best")


def _name(item: Item) -> str:
    candidate = item[0]
    return f"light/{candidate.task.workload.label}/{candidate.schedule.key[:12]}"


def facts_of(schedule: Schedule) -> dict[str, Any]:
    return {"template": schedule.template, "schedule": schedule.to_json()}


def _schedule(world: World, tell: Teller, bench: Bench, item: Item, times: dict[str, float]) -> None:
    """Check and time one kernel on the tensors."""
    name, schedule = _name(item), item[0].schedule
    if not tell.wants(name):
        return
    facts = facts_of(schedule)
    with tell.unit(name, world.context, **facts), world.kernel(*item) as bind:
        problem, error = bench.problem(bind)
        if problem:
            tell.row(name, "wrong_result", message=problem, **facts)
            return
        before = world.state()
        seconds = median(bench.timer(bench.ours(bind)))
        times[name] = 1e6 * seconds
        tell.row(
            name, "measured", us=1e6 * seconds, error=None if math.isnan(error) else error,
            checked="PyTorch", **speed(world, bench.task, seconds), before=before, after=world.state(), **facts,
        )  # fmt: skip


def _in_a_child(world: World, tell: Teller, task: Task, items: Sequence[Item]) -> None:
    """The same without PyTorch: against the reference, which takes longer, and timed as in tuning."""
    incumbent: Item | None = None
    with tell.trusted(), world.runner() as runner:
        for item in items:
            name, facts = _name(item), facts_of(item[0].schedule)
            if not tell.wants(name):
                continue
            with tell.unit(name, **facts):
                [found] = runner.run(task, [item], incumbent)
                if isinstance(found, Failure):
                    tell.row(name, found.kind.value, message=found.message, **facts)
                    continue
                incumbent = incumbent or item
                tell.row(
                    name, "measured", us=1e6 * found.seconds, error=None, checked="the reference",
                    **speed(world, task, found.seconds), environment=dict(found.environment), after=world.state(),
                    **facts,
                )  # fmt: skip


def ratios(world: World, tell: Teller, bench: Bench, item: Item, choice: str, part: str = "light") -> None:
    """Our kernel beside every library: time of theirs over ours, above 1 where ours is faster."""
    _compare(world, tell, bench, item, choice, part, bench.libraries())


def beside_triton(world: World, tell: Teller, task: Task, wanted: Wanted, rows: Sequence[Row]) -> None:
    """The fastest kernel that was found beside Triton's."""
    label = task.workload.label
    items = items_of(world, tell, task, wanted)
    times = {r["id"]: float(r["us"]) for r in rows if "us" in r}
    best = _best(items, times)
    if best is None:
        tell.row(f"triton/{label}", "skipped", message="no kernel of ours was measured")
        return
    bench = Bench(world, task)
    call = bench.triton()
    if call is not None:
        _compare(world, tell, bench, best, "best", "triton", {"triton": call})


def _compare(
    world: World, tell: Teller, bench: Bench, item: Item, choice: str, part: str, calls: dict[str, Call]
) -> None:
    label = bench.workload.label
    todo = {f"{part}/{label}/{choice}/{rival}": (rival, call) for rival, call in calls.items()}
    if not any(tell.wants(name) for name in todo):
        return
    facts = {**facts_of(item[0].schedule), "op": bench.workload.op, "shape": label, "choice": choice}
    with world.kernel(*item) as bind:
        ours: Callable[[], float] = bench.timer(bench.ours(bind))
        for name, (rival, call) in todo.items():
            if not tell.wants(name):
                continue
            tell.at(name, rival=rival, **facts)
            before = world.state()
            try:
                samples = pairs_of(ours, bench.timer(call), PAIR_SECONDS if not world.emulated else 0.05)
            except Exception as e:  # what a library does not compute
                tell.row(name, "refused", message=f"{rival}: {type(e).__name__}: {e}"[:300], rival=rival, **facts)
                world.context.synchronize()
                continue
            ratio, low, high = interval([t / o for o, t in samples])
            mine, other = (sorted(x)[len(samples) // 2] for x in zip(*samples, strict=True))
            tell.row(
                name, "measured", summary=f"{ratio:.3f} ({low:.3f} to {high:.3f})", rival=rival, ratio=ratio, low=low,
                high=high, pairs=len(samples), our_us=1e6 * mine, their_us=1e6 * other,
                **speed(world, bench.task, mine), before=before, after=world.state(), **facts,
            )  # fmt: skip

"""The search space of a partition: the knob ``cut``, and the knobs of each segment under its number.

The value of ``cut`` names the segments and their templates. All cuts' segments are numbered together; segment ``n`` has
the knobs ``p<n>.<knob>``. Knobs of segments outside the chosen cut keep their default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tilewright.core import IllegalSchedule, IntExpr, Schedule, Task, Value
from tilewright.extent import Sizes, argument
from tilewright.kernels import templates
from tilewright.kernels.codegen.integers import named
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.templates.base import Template
from tilewright.kernels.templates.partition.segments import Cut, Segment, label, made
from tilewright.kernels.templates.planned import kernel_of
from tilewright.search_space import Choice, Constraint, SearchSpace

CUT = "cut"


@dataclass(frozen=True, eq=False)
class Member:
    """A numbered segment with its task, template, search space and default values.

    ``sizes``: for a task of symbolic sizes, the sizes that the default schedule is for.
    """

    number: int
    segment: Segment
    task: Task
    template: Template
    space: SearchSpace
    default: Mapping[str, Value]
    sizes: Sizes = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"p{self.number}."

    def of(self, expr: IntExpr) -> IntExpr:
        """An integer expression of the segment's launch, with the names of the whole launch."""
        return named(expr, self.argument)

    def argument(self, name: str) -> str:
        """Name of a segment's launch argument in the whole launch; sizes are shared and get no prefix."""
        return name if name in map(argument, self.sizes) else self.prefix + name

    def schedule(self, values: Mapping[str, Value]) -> Schedule:
        """The segment's schedule, taken from the whole schedule's values."""
        found = self.space.schedule({k.name: values[self.prefix + k.name] for k in self.space.knobs})
        return found.at(self.sizes) if self.sizes else found

    def kernel(self, values: Mapping[str, Value]) -> Kernel:
        """The segment's kernel for the whole schedule's values."""
        return kernel_of(self.template, self.task, self.schedule(values))


@dataclass(frozen=True, eq=False)
class Choices:
    """The cuts of a task by value of the knob ``cut``, the search space, and the default values."""

    cuts: Mapping[str, tuple[Member, ...]]
    space: SearchSpace
    default: Mapping[str, Value]


def choices(task: Task, found: tuple[Cut, ...], name: str, version: int) -> Choices:
    """The numbered segments of a task's cuts, and their search space."""
    distinct = list(dict.fromkeys(s for cut in found for s in cut))
    members: dict[Segment, Member] = {}
    for n, s in sorted(enumerate(distinct), key=lambda x: x[1].strips):
        whole = next((m for w, m in members.items() if (w.stages, w.template) == (s.stages, s.template)), None)
        members[s] = _member(n, s, task, whole)
    labels = tuple(label(c) for c in found)
    knobs = [Choice(CUT, labels, ordered=False)]
    rules: list[Constraint] = []
    for segment, m in members.items():
        knobs += [replace(k, name=m.prefix + k.name) for k in m.space.knobs]
        rules += [_prefixed(r, m.prefix) for r in m.space.constraints]
        active = frozenset(text for text, cut in zip(labels, found, strict=True) if segment in cut)
        if len(active) < len(labels):
            rules += [_held(m.prefix + k.name, m.default[k.name], active) for k in m.space.knobs]
    default: dict[str, Value] = {CUT: labels[0]}
    for m in members.values():
        default |= {m.prefix + k: v for k, v in m.default.items()}
    return Choices(
        {text: tuple(members[s] for s in cut) for text, cut in zip(labels, found, strict=True)},
        SearchSpace(name, version, tuple(knobs), tuple(rules)),
        default,
    )


def with_symbolic_sizes(member: Member, whole: Task, sizes: Sizes) -> Member:
    """A segment found at constant ``sizes``, as a segment of the ``whole`` task with symbolic sizes.

    Raises ``IllegalSchedule`` if the segment's template cannot compute symbolic sizes, or if the stages differ.
    """
    one, program = member.segment, Program.loads(whole.workload.program)
    segment = made(program, one.first, one.last, one.template)
    if segment is None or segment.program.at(sizes) != one.program or segment.stages != one.stages:
        raise IllegalSchedule(f"{one.label} is not a segment for all sizes", "Use another cut")
    task = segment.task(whole)
    if not member.template.matches(task):
        raise IllegalSchedule(f"{one.template} does not take all sizes of {one.label}", "Use another cut")
    used = {n: sizes[n] for n in segment.program.sizes}
    return replace(member, segment=segment, task=task, sizes=used)


def _member(number: int, segment: Segment, whole: Task, like: Member | None) -> Member:
    """A segment as a member; its default schedule is that of ``like`` if the segment's space allows it."""
    task, template = segment.task(whole), templates.get_template(segment.template)
    space, default = template.space(task), template.default(task).values
    if like is not None:
        with suppress(IllegalSchedule):
            default = space.schedule({k.name: like.default.get(k.name, default[k.name]) for k in space.knobs}).values
    return Member(number, segment, task, template, space, default)


def _prefixed(rule: Constraint, prefix: str) -> Constraint:
    names = {prefix + n: n for n in rule.reads}
    holds = rule.holds
    return Constraint(tuple(names), lambda v: holds({names[k]: x for k, x in v.items()}), rule.reason)


def _held(knob: str, value: Value, active: frozenset[str]) -> Constraint:
    holds: Callable[[Mapping[str, Value]], bool] = lambda v: v[CUT] in active or v[knob] == value  # noqa: E731
    return Constraint((CUT, knob), holds, "the knob belongs to a segment that this cut does not have")

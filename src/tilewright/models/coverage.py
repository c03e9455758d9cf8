"""Coverage of a model: operators that kernels compute and operators left to onnxruntime, with shares and reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tilewright.models.extract import Extracted
from tilewright.models.importer import Imported
from tilewright.models.model_file import operator_name
from tilewright.models.parts import Part, Unit
from tilewright.models.sessions import reads_of

KERNELS, RUNTIME = "tilewright", "onnxruntime"
NOT_TUNED = "no kernel was tuned for it"
NOTHING_TO_TUNE = "the model has no operator that a kernel could compute"
NOT_FOR_ALL = "no kernels were tuned for all of its sizes"
NO_GAIN = "the model is faster without its kernels"


@dataclass(frozen=True)
class Line:
    """A task or an operator of the model.

    ``calls``: its calls in a run; ``operators``: number of the model's operators that it stands for. ``share``:
    fraction of all operators. ``time_share``: fraction of a run's time, ``None`` without a measurement. ``at_most``:
    the time includes other operators of the same onnxruntime part. ``why``: the reason why onnxruntime computes the
    operator.
    """

    by: str
    what: str
    calls: int = 0
    operators: int = 0
    share: float = 0.0
    time_share: float | None = None
    at_most: bool = False
    why: str = ""


@dataclass(frozen=True)
class Coverage:
    """The lines in order, tasks first, and the number of operators that a run of the model computes."""

    lines: tuple[Line, ...]
    operators: int

    @property
    def taken(self) -> int:
        """Number of operators that kernels compute, including views."""
        return sum(line.operators for line in self.lines if line.by == KERNELS)

    def to_json(self) -> dict[str, Any]:
        return {"operators": self.operators, "taken": self.taken, "computed": [asdict(line) for line in self.lines]}


def of_model(extracted: Extracted) -> Coverage:
    """The coverage of a model if all of its tasks were tuned."""
    producer, tasks = extracted.imported.producer, {t.workload.op for t in extracted.tasks}
    units = []
    for g in extracted.groups:
        last = extracted.channels.last.get(g.output)
        if g.family == "opaque" and g.output not in extracted.imported.lengths:
            units.append(Unit(None, producer[g.output], g.inputs, g.outputs))
        elif g.family != "opaque" and g.output not in extracted.refused:
            taken = g if last is None or g.family == "view" or g.name in tasks else last
            units.append(Unit(taken, -1, taken.inputs, taken.outputs))
    units += [Unit(None, n, (), ()) for n in extracted.nodes_left]
    return _coverage(extracted, units)


def why_left(extracted: Extracted, node: int, untuned: Collection[int]) -> str:
    """Why onnxruntime computes a node of the model, by its number. ``untuned``: nodes without kernels."""
    known = extracted.imported.left.get(operator_name(extracted.imported.nodes[node]))
    if known or node in extracted.nodes_left:
        return known or extracted.nodes_left[node]
    if node not in untuned:
        return NO_GAIN
    return NOT_FOR_ALL if extracted.imported.model.symbolic_sizes else NOT_TUNED


def of_run(
    extracted: Extracted, parts: Sequence[Part], spent: Sequence[float], kernel_seconds: Mapping[str, float],
    untuned: Collection[int],
) -> Coverage:  # fmt: skip
    """The coverage of a run in ``parts``, which took ``spent`` seconds each.

    ``kernel_seconds``: measured seconds of kernels by their workload's key; a part's time is divided in proportion to
    them. ``untuned``: numbers of nodes without kernels.
    """
    made = _coverage(extracted, [u for p in parts for u in p.units], untuned)
    total = sum(spent) or 1.0
    times: dict[tuple[str, str], float] = {}
    shared: set[tuple[str, str]] = set()
    for part, seconds in zip(parts, spent, strict=True):
        weights: dict[tuple[str, str], float] = {}
        for unit in part.units:
            workload = unit.group.workload if unit.group is not None else None
            weight = kernel_seconds.get(workload.key, 0.0) if workload is not None else 0.0
            key = _key(extracted.imported, unit)
            weights[key] = weights.get(key, 0.0) + weight
        whole = sum(weights.values()) or 1.0
        for key, weight in weights.items():
            times[key] = times.get(key, 0.0) + seconds * (weight / whole if part.ours else 1.0)
        if not part.ours and len(weights) > 1:
            shared.update(weights)
    lines = []
    for line in made.lines:
        key = (line.by, line.what)
        lines.append(replace(line, time_share=times.get(key, 0.0) / total, at_most=key in shared))
    return Coverage(tuple(lines), made.operators)


def _key(imported: Imported, unit: Unit) -> tuple[str, str]:
    if unit.group is None:
        return RUNTIME, operator_name(imported.nodes[unit.node])
    return KERNELS, unit.group.name if unit.group.family != "view" else "views, which cost nothing"


def _coverage(extracted: Extracted, units: Iterable[Unit], untuned: Collection[int] = ()) -> Coverage:
    imported = extracted.imported
    lines: dict[tuple[str, str], Line] = {}
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    owners: dict[int, tuple[str, str]] = {}
    outputs = {n.name: n.outputs for n in imported.graph.nodes}
    for unit in units:
        key = _key(imported, unit)
        line = lines.setdefault(key, Line(*key))
        lines[key] = replace(line, calls=line.calls + 1)
        if unit.group is None:
            owners[unit.node] = key
            reasons.setdefault(key, {})[why_left(extracted, unit.node, untuned)] = None
        else:
            for value in (v for n in unit.group.nodes for v in outputs.get(n, ())):
                if value in imported.producer:
                    owners.setdefault(imported.producer[value], key)
    needed = _needed(imported)
    for number in sorted(needed, reverse=True):  # a node folded into weights counts for its reader
        if number not in owners:
            found = next((owners[r] for r in needed[number] if r in owners), None)
            if found is not None:
                owners[number] = found
    for number in needed:
        if number in owners:
            line = lines[owners[number]]
            lines[owners[number]] = replace(line, operators=line.operators + 1)
    total = len(needed) or 1
    told = [replace(x, share=x.operators / total, why="; ".join(reasons.get(k, ()))) for k, x in lines.items()]
    return Coverage(tuple(sorted(told, key=lambda x: (x.by != KERNELS, -x.operators))), len(needed))


def _needed(imported: Imported) -> dict[int, list[int]]:
    """The nodes that a run computes, by number, each with the nodes that read it."""
    readers: dict[int, list[int]] = {}
    waiting = [(name, -1) for name in imported.graph.outputs]
    while waiting:
        name, reader = waiting.pop()
        number = imported.producer.get(name)
        if number is None or name in imported.folded:
            continue
        if number not in readers:
            node = imported.nodes[number]
            waiting += [(n, number) for n in reads_of(node)]
        readers.setdefault(number, []).append(reader)
    return readers

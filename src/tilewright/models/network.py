"""A model that runs: its tuned groups as sequences of kernels, the rest in onnxruntime."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.core import UsageError
from tilewright.graph import Places
from tilewright.kernels.expression.expr import BITS
from tilewright.models.extract import Extracted
from tilewright.models.model_file import Array, operator_name
from tilewright.models.parts import Part, Parts, parts_of
from tilewright.models.sessions import Run, Session, captured, part_of, tensor_value

if TYPE_CHECKING:
    from tilewright.runtime import Library

Values = dict[str, Array]


class Network:
    """``run(inputs)``: arrays by name, to the model's outputs by name.

    Values outside of tuned groups are computed by onnxruntime on ``threads`` threads. Raises ``UsageError`` where
    onnxruntime is not installed or refuses the model.
    """

    def __init__(self, extracted: Extracted, library: Library, threads: int = 1) -> None:
        self.extracted, self.threads = extracted, threads
        self._plan: Parts = parts_of(extracted, library)
        self._types: dict[str, Any] = {}
        self.parts: list[tuple[Part, Run]] = [
            (p, self._sequence(p) if p.ours else self._session(p)) for p in self._plan.parts
        ]
        self.outputs = extracted.imported.graph.outputs

    def run(self, inputs: Mapping[str, Array], seconds: list[float] | None = None) -> Values:
        """The outputs. ``seconds``: takes the time of every part."""
        values: Values = {**inputs}
        for part, run in self.parts:
            begin = time.perf_counter()
            values.update(run({n: values[n] for n in part.inputs}))
            if seconds is not None:
                seconds.append(time.perf_counter() - begin)
        folded = self.extracted.imported.folded
        return {n: self._typed_output(n, values[n]) if n in values else folded[n] for n in self.outputs}

    def _typed_output(self, name: str, value: Any) -> Any:
        """Kernels store bfloat16 and 8-bit reals as the whole numbers of their bits."""
        dtype = self.extracted.imported.graph.values[name].dtype
        return value.view(np.dtype(dtype)) if dtype in BITS and BITS[dtype] == value.dtype.name else value

    @property
    def served(self) -> dict[str, int]:
        """How often each tuned computation is called in a run, by its name."""
        kernels = [u.group for p, _ in self.parts for u in p.units if u.group is not None and u.group.family != "view"]
        return dict(Counter(g.name for g in kernels))

    @property
    def left(self) -> dict[str, dict[str, Any]]:
        """The operators that onnxruntime computes: how often, and why."""
        nodes = self.extracted.imported.nodes
        found = Counter(operator_name(nodes[u.node]) for p, _ in self.parts for u in p.units if u.group is None)
        why = self.extracted.imported.left
        return {op: {"calls": n, "why": why.get(op, "no kernel was tuned for it")} for op, n in found.items()}

    # ----------------------------------------------------------------- parts

    def _sequence(self, part: Part) -> Run:
        from tilewright.runtime.sequence import KernelSequence, Step

        graph = self.extracted.channels.graph
        groups = [u.group for u in part.units if u.group is not None]
        places = Places(graph.values)
        steps = []
        for g in groups:
            if g.family != "view":
                steps.append(Step(self._plan.kernels[g.output][1], g.inputs, g.output))
            elif not places.put(g):
                raise UsageError(f"{g.output} does not lie where its parts are written", "Extract the model again")
        made = {places.of(n).value for n in (*(s.output for s in steps), *part.inputs)} - {*part.inputs}
        computed = [o for o in part.outputs if places.of(o).value in made]
        passed = {o: places.of(o) for o in part.outputs if o not in computed}
        given_to = (steps, graph.values, graph.constants, part.inputs, computed, places)
        sequence = KernelSequence(*given_to) if computed else None

        def run(given: Mapping[str, Array]) -> Values:
            out = sequence.run(given) if sequence is not None else {}
            known = {**graph.constants, **given} if passed else {}
            for o, place in passed.items():
                shape = graph.values[o].shape
                flat = known[place.value].reshape(-1)
                out[o] = flat[place.offset : place.offset + math.prod(shape)].reshape(shape)
            return out

        return run

    def _session(self, part: Part) -> Run:
        imported = self.extracted.imported
        nodes = [imported.nodes[n] for n in sorted(u.node for u in part.units)]
        wanted = {x for n in nodes for x in (*n.input, *captured(n))}
        constants = {n: a for n, a in imported.folded.items() if n in wanted and n not in part.inputs}
        inputs = [self._typed(n) for n in part.inputs]
        session = Session(*part_of(imported.model, nodes, inputs, part.outputs, constants), self.threads)
        self._types.update(session.types())
        return session.run

    def _typed(self, name: str) -> Any:
        """The type of a value that a session reads: known, or as the session that gives it says."""
        imported = self.extracted.imported
        if name in imported.unshaped:
            return self._types[name]
        spec = imported.graph.values[name]
        return tensor_value(name, spec.dtype, spec.shape)


def interleaved(runs: Mapping[str, Run], inputs: Mapping[str, Array], rounds: int) -> dict[str, float]:
    """Median seconds of a run of each, taken in turns."""
    times: dict[str, list[float]] = {n: [] for n in runs}
    names = list(runs)
    for r in range(rounds + 1):
        for k in range(len(names)):
            name = names[(r + k) % len(names)]
            begin = time.perf_counter()
            runs[name](inputs)
            if r:  # the first round warms up
                times[name].append(time.perf_counter() - begin)
    return {n: float(np.median(t)) for n, t in times.items()}

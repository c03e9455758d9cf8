"""A model that runs: its tuned groups as sequences of kernels, the rest in onnxruntime."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.core import UsageError
from tilewright.models.extract import Extracted
from tilewright.models.importer import captured
from tilewright.models.model_file import onnx_module
from tilewright.models.parts import Part, Parts, parts_of

if TYPE_CHECKING:
    from tilewright.runtime import Library

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
Run = Callable[[Mapping[str, Array]], Values]

TOLERANCE = 1e-3
"""How far an output may lie from onnxruntime's, as a share of its largest magnitude."""


class Network:
    """``run(inputs)``: arrays by name, to the model's outputs by name.

    Values outside of tuned groups are computed by onnxruntime on ``threads`` threads. Raises ``UsageError`` where
    onnxruntime is not installed or refuses the model.
    """

    def __init__(self, extracted: Extracted, library: Library, threads: int = 1) -> None:
        self.extracted, self.threads = extracted, threads
        self._plan: Parts = parts_of(extracted, library)
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

    def _typed_output(self, name: str, array: Array) -> Array:
        """Kernels store bfloat16 and 8-bit reals as the whole numbers of their bits."""
        dtype = self.extracted.imported.graph.values[name].dtype
        same = array.dtype.name == dtype or name in self.extracted.imported.unshaped
        return array if same else array.view(np.dtype(dtype))

    @property
    def served(self) -> dict[str, int]:
        """How often each tuned computation is called in a run, by its name."""
        kernels = [u.group for p, _ in self.parts for u in p.units if u.group is not None and u.group.workload]
        return dict(Counter(g.name for g in kernels))

    @property
    def left(self) -> dict[str, dict[str, Any]]:
        """The operators that onnxruntime computes: how often, and why."""
        nodes = self.extracted.imported.model.graph.node
        found = Counter(nodes[u.node].op_type for p, _ in self.parts for u in p.units if u.group is None)
        why = self.extracted.imported.left
        return {op: {"calls": n, "why": why.get(op, "no kernel was tuned for it")} for op, n in found.items()}

    # ----------------------------------------------------------------- parts

    def _sequence(self, part: Part) -> Run:
        from tilewright.runtime.sequence import KernelSequence, Step

        graph = self.extracted.channels.graph
        groups = [u.group for u in part.units if u.group is not None]
        steps = [Step(self._plan.kernels[g.output][1], g.inputs, g.output) for g in groups if g.workload is not None]
        views = {g.output: g.inputs[0] for g in groups if g.workload is None}
        made = {s.output for s in steps}

        def source(name: str) -> str:
            while name in views:
                name = views[name]
            return name

        computed = [o for o in part.outputs if source(o) in made]
        passed = {o: source(o) for o in part.outputs if source(o) not in made}
        sequence = KernelSequence(steps, graph.values, graph.constants, computed, views) if computed else None

        def run(given: Mapping[str, Array]) -> Values:
            out = sequence.run(given) if sequence is not None else {}
            return out | {o: given[s].reshape(graph.values[o].shape) for o, s in passed.items()}

        return run

    def _session(self, part: Part) -> Run:
        imported = self.extracted.imported
        onnx, model = onnx_module(), imported.model
        helper = onnx.helper
        numbers = sorted(u.node for u in part.units)
        nodes = [model.graph.node[n] for n in numbers]
        wanted = {x for n in nodes for x in (*n.input, *captured(n))}
        constants = [
            onnx.numpy_helper.from_array(a, n)
            for n, a in imported.folded.items()
            if n in wanted and n not in part.inputs
        ]
        inputs = [self._typed(n) for n in part.inputs]
        outputs = [helper.make_empty_tensor_value_info(n) for n in part.outputs]
        graph = helper.make_graph(nodes, "part", inputs, outputs, constants)
        sub = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
        sub.functions.extend(model.functions)
        return _runner(session(sub, self.threads), part.outputs)

    def _typed(self, name: str) -> Any:
        onnx, imported = onnx_module(), self.extracted.imported
        for value in (*imported.model.graph.input, *imported.model.graph.value_info):
            if value.name == name:
                return value
        spec = imported.graph.values.get(name)
        if spec is None or name in imported.unshaped:
            raise UsageError(f"the type of {name} is not known", "Run onnx.shape_inference over the model first")
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
        return onnx.helper.make_tensor_value_info(name, kind, spec.shape)


def session(model: Any, threads: int) -> Any:
    """An onnxruntime session of a ``ModelProto``. Raises ``UsageError``."""
    try:
        import onnxruntime
    except ImportError as e:
        raise UsageError(f"running models needs the package onnxruntime ({e})", "pip install 'tilewright[onnx]'") from e
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime's errors have no common class
        raise UsageError(f"onnxruntime refuses the model: {e!s:.200}", "Export it with another operator set") from e


def _runner(made: Any, outputs: Sequence[str]) -> Run:
    names = list(outputs)

    def run(given: Mapping[str, Array]) -> Values:
        return dict(zip(names, made.run(names, dict(given)), strict=True))

    return run


def whole(extracted: Extracted, threads: int) -> Run:
    """The model in onnxruntime alone."""
    outputs = extracted.imported.graph.outputs
    return _runner(session(extracted.imported.model, threads), outputs)


def random_inputs(extracted: Extracted, seed: int = 0) -> Values:
    """Inputs of the model's shapes: normal reals, and 0 or 1 for whole numbers, which indices may be."""
    random = np.random.default_rng(seed)
    made: Values = {}
    for s in extracted.imported.graph.inputs:
        kind = np.dtype(s.dtype)
        values = random.standard_normal(s.shape) if kind.kind == "f" else random.integers(0, 2, s.shape)
        made[s.name] = values.astype(kind)
    return made


def largest_error(got: Mapping[str, Array], wanted: Mapping[str, Array]) -> float:
    """The largest difference of any output, as a share of that output's largest magnitude; infinite for other NaNs."""
    worst = 0.0
    for name, w in wanted.items():
        if not w.size:
            continue
        g = got[name]
        if w.dtype.kind not in "fiu":
            worst = max(worst, 0.0 if np.array_equal(g, w) else math.inf)
            continue
        a, b = g.astype(np.float64), w.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if g.shape != w.shape or not np.isfinite(np.where(same, 0, a - b)).all():
            return math.inf
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
        worst = max(worst, float(np.abs(np.where(same, 0, a - b)).max()) / (scale or 1.0))
    return worst


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

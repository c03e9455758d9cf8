"""A model's outputs in float64, and the comparison of kernels' outputs with them, relative to onnxruntime's error."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilewright.core import TilewrightError, UsageError
from tilewright.dtypes import DTYPES
from tilewright.graph import Graph, Node
from tilewright.graph.groups import state_nodes
from tilewright.graph.operations import VIEWS
from tilewright.kernels.expression.expr import BITS, NARROW, SIXTEEN
from tilewright.kernels.reference import evaluate
from tilewright.models.importer import Imported
from tilewright.models.model_file import Array, onnx_module
from tilewright.models.sessions import NoKernel, Session, dtype_name, dtype_of, part_of, reads_of, retyped, tensor_value

WIDE = dict.fromkeys(("float32", *SIXTEEN), "float64")
"""Real types that are replaced by float64."""

ALIKE = 0.01
"""Largest relative difference between an operator's results in float64 and in its own type that counts as rounding."""

FACTOR = 4.0
"""Factor of onnxruntime's own error that an output may have."""


class Truth:
    """Runs a model node by node in float64; ``run(inputs)`` takes arrays by name and returns the outputs by name.

    The interpreter evaluates every operator that kernels could compute. Other operators run in onnxruntime with float64
    in place of other reals, or else in ONNX's reference. Casts in the model still round. ``narrow``: operators without
    a float64 computation, which ran in their own type.
    """

    def __init__(self, imported: Imported) -> None:
        self.imported = imported
        self.narrow: set[str] = set()
        self._types: dict[str, Any] = {}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """The outputs. Raises ``UsageError`` where onnxruntime refuses an operator that is left to it."""
        imported, graph = self.imported, self.imported.stated
        values: dict[str, Any] = {s.name: _wide(inputs[s.name], s.dtype) for s in graph.inputs}
        last = {name: k for k, node in enumerate(graph.nodes) for name in node.reads}
        for k, node in enumerate(graph.nodes):
            with np.errstate(all="ignore"):
                values.update(self._opaque(node, values) if node.opaque else self._known(graph, node, values))
            for name in node.reads:
                if last[name] == k and name not in graph.outputs:
                    values.pop(name, None)
        return {n: values[n] if n in values else imported.folded[n] for n in graph.outputs}

    def _known(self, graph: Graph, node: Node, values: Mapping[str, Any]) -> dict[str, Array]:
        known = {n: values[n] if n in values else graph.constants[n] for n in node.reads}
        if node.operation in VIEWS:
            return {node.output: known[node.inputs[0]].reshape(graph.values[node.output].shape)}
        program, reads = state_nodes(graph, [node])
        return {node.output: evaluate(program, [known[n] for n in reads])}

    def _opaque(self, node: Node, values: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of an opaque node, in float64 where that agrees with the operator's results in its own types.

        An operator may compute something else in float64, so a large difference rejects the float64 result.
        """
        imported = self.imported
        stated = imported.nodes[imported.producer[node.outputs[0]]]
        reads = reads_of(stated)
        constants = {n: imported.folded[n] for n in reads if n in imported.folded}
        given = {n: values[n] for n in reads if n not in constants}
        inputs = [self._typed(n) for n in given]
        outputs = [n for n in stated.output if n]
        own = {v.name: _narrowed(given[v.name], v.type) for v in inputs}
        part = part_of(imported.model, [stated], inputs, outputs, constants)
        made: dict[str, Any] | None = None
        try:
            session = Session(*part, optimised=False)
            self._types.update(session.types())
            made = session.run(own)
        except NoKernel:
            if self.imported.unshaped.intersection(outputs):
                raise
        if made is not None and not any(_real(a) for a in made.values()):
            return made
        wide = {v.name: given[v.name] if _in(v.type, WIDE) else own[v.name] for v in inputs}
        for attempt in (
            partial(self._by_onnxruntime, part, wide), partial(self._by_reference, stated, inputs, wide, constants)
        ):  # fmt: skip
            found = attempt()
            if found is not None and (made is None or all(_alike(found[n], made[n]) for n in outputs)):
                return found
        if made is None:
            raise UsageError(f"no float64 reference computes {stated.op_type}", "Remove that operator from the model")
        self.narrow.add(stated.op_type)
        return {n: _wide(a, "") for n, a in made.items()}

    def _typed(self, name: str) -> Any:
        if name in self.imported.unshaped:
            return self._types[name]
        spec = self.imported.stated.values[name]
        return tensor_value(name, spec.dtype, spec.shape)

    @staticmethod
    def _by_onnxruntime(part: tuple[Any, Mapping[str, Array]], given: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            return Session(*retyped(*part, WIDE), optimised=False).run(given)
        except TilewrightError:
            return None

    def _by_reference(
        self, node: Any, inputs: list[Any], given: Mapping[str, Any], constants: Mapping[str, Array]
    ) -> dict[str, Any] | None:
        typed = [*inputs, *(tensor_value(n, dtype_of(a), a.shape) for n, a in constants.items())]
        outputs = [n for n in node.output if n]
        proto, _ = part_of(self.imported.model, [node], typed, outputs, {})
        fed = {n: _wide(a, "") for n, a in constants.items()} | dict(given)
        reference: Any = onnx_module().reference.ReferenceEvaluator
        try:
            made = reference(proto).run(None, fed)
        except Exception:  # an operator unknown to the reference, or of one type
            return None
        return {n: np.asarray(a) if isinstance(a, np.generic) else a for n, a in zip(outputs, made, strict=True)}


def _real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (value.dtype.kind == "f" or value.dtype.name in NARROW)


def _in(kind: Any, dtypes: Mapping[str, str]) -> bool:
    return kind.HasField("tensor_type") and dtype_name(kind.tensor_type.elem_type) in dtypes


def _wide(value: Any, dtype: str) -> Any:
    """Reals in float64; arrays of ``dtype`` may hold its bits as integers."""
    if isinstance(value, np.ndarray) and BITS.get(dtype) == value.dtype.name:
        value = value.view(np.dtype(dtype))
    return value.astype(np.float64) if _real(value) else value


def _narrowed(value: Any, kind: Any) -> Any:
    """A value in the model's type for it."""
    if not isinstance(value, np.ndarray) or not kind.HasField("tensor_type") or value.dtype.kind not in "fiub":
        return value
    return value.astype(np.dtype(dtype_name(kind.tensor_type.elem_type)))


def _alike(value: Any, like: Any) -> bool:
    if not isinstance(value, np.ndarray) or not isinstance(like, np.ndarray) or value.shape != like.shape:
        return False
    return error_of(value.astype(like.dtype), like) <= ALIKE


# --------------------------------------------------------------------------- errors of outputs


@dataclass(frozen=True)
class Comparison:
    """The worst output: the output with the largest error relative to its allowed error.

    Errors are relative to the output's largest magnitude; for integers they are the fraction of elements that differ.
    ``error``: of our output. ``onnxruntime_error``: the larger error of onnxruntime with and without its optimisations,
    or ``None`` where it lacks a kernel. ``allowed``: the largest allowed error of our output. ``truth``: the reference
    for both errors.
    """

    error: float
    onnxruntime_error: float | None
    allowed: float
    output: str
    truth: str

    @property
    def right(self) -> bool:
        return self.error <= self.allowed

    def to_json(self) -> dict[str, Any]:
        return {
            "largest_error": self.error, "onnxruntime_error": self.onnxruntime_error, "allowed_error": self.allowed,
            "output": self.output, "truth": self.truth, "right": self.right,
        }  # fmt: skip


def compare(
    got: Mapping[str, Any], theirs: Sequence[Mapping[str, Any]], truth: Mapping[str, Any], narrow: Collection[str] = ()
) -> Comparison:
    """The comparison of our outputs with the truth, relative to onnxruntime's outputs of no, one or several sessions.

    ``narrow``: the operators that the truth computed in their own type.
    """
    found = []
    text = "float64" if not narrow else f"float64, but for {', '.join(sorted(narrow))}"
    for name, own in (theirs[0] if theirs else got).items():
        wanted = _rounded(truth[name], own)
        record = DTYPES.get(own.dtype.name) if isinstance(own, np.ndarray) else None
        # An absolute floor: onnxruntime may be close to the truth by chance.
        floor = record.agreement.model if record else 0.0
        rival = max((error_of(t[name], wanted) for t in theirs), default=None)
        if rival is None or math.isfinite(rival):
            allowed = max(floor, FACTOR * (rival or 0.0))
            found.append(Comparison(error_of(got[name], wanted), rival, allowed, name, text))
        else:  # onnxruntime overflows where float64 does not
            error = min(error_of(got[name], t[name]) for t in theirs)
            found.append(Comparison(error, 0.0, floor, name, "onnxruntime"))
    return worst(found)


def worst(found: Iterable[Comparison]) -> Comparison:
    """The comparison with the largest error relative to its allowed error; a wrong output comes before right
    outputs."""
    return max(found, key=lambda c: (not c.right, c.error / c.allowed if c.allowed else c.error))


def _rounded(truth: Any, like: Any) -> Any:
    if not isinstance(like, np.ndarray) or not isinstance(truth, np.ndarray) or like.dtype.kind == "O":
        return truth
    with np.errstate(all="ignore"):
        return truth.astype(like.dtype)


def error_of(got: Any, wanted: Any) -> float:
    """The largest difference relative to the largest magnitude; for integers the fraction of elements that differ.

    Infinite where shapes, element types, infinities or NaNs differ.
    """
    if isinstance(wanted, list):
        same_length = isinstance(got, list) and len(got) == len(wanted)
        return max(map(error_of, got, wanted), default=0.0) if same_length else math.inf
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return math.inf
    if not wanted.size:
        return 0.0
    if not _real(wanted):
        return float(np.mean(got != wanted))
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.where(same, 0, a - b))
    if not np.isfinite(apart).all():
        return math.inf
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    return float(apart.max()) / (scale or 1.0)


def largest_error(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """The largest :func:`error_of` of any output."""
    return max(error_of(got[name], w) for name, w in wanted.items())

"""C text of tensor reads and writes, for points and for vectors along one axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.dtypes import DTYPES
from tilewright.extent import ctext
from tilewright.kernels.codegen.printer import Memo, Printer
from tilewright.kernels.codegen.ranges import Range
from tilewright.kernels.expression.expr import FLOATS, NARROW, Expr
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.expression.program import Tensor, strides_of


def storage(dtype: str) -> str:
    """C type of a stored element."""
    return DTYPES[dtype].cpu


def _strides(tensor: Tensor) -> tuple[int, ...]:
    """Elements between neighbours along each axis; 0 along an axis of one element, whose index is always 0."""
    return tuple(s if n > 1 else 0 for n, s in zip(tensor.shape, strides_of(tensor.shape), strict=True))


def flat_index(indices: tuple[Expr, ...], tensor: Tensor, printer: Printer) -> str:
    """C text of an element's flat position; in a vector, of lane 0's element."""
    terms = []
    for i, s in zip(indices, _strides(tensor), strict=True):
        if s == 0:
            continue
        text = printer.scalar(i)
        if text not in {"0L", "0"}:
            terms.append(text if s == 1 else f"{text}*{ctext(s)}")
    return " + ".join(terms) or "0"


def positions(indices: tuple[Expr, ...], tensor: Tensor, printer: Printer) -> str:
    """C text of the flat positions of a vector's elements, which need no constant stride."""
    terms = []
    for i, s in zip(indices, _strides(tensor), strict=True):
        if s:
            text = printer.vector_text(i, "long")
            terms.append(text if s == 1 else f"{text}*{ctext(s)}")
    return f"({' + '.join(terms)})" if terms else f"tw::splat<{printer.vec('long')}>(0)"


def vector_step(indices: tuple[Expr, ...], tensor: Tensor, printer: Printer) -> int | None:
    """Elements between adjacent lanes; ``None`` if a computed index chooses each lane's element."""
    if any(n.op == "var" and printer.varies(n) for i in indices for n in i.walk()):
        return None
    return flat_step(indices, _strides(tensor), str(printer.vector))


@dataclass
class MemoryPrinter(Printer):
    """A printer that reads ``tensors`` from memory. ``count``: C text of the number of active lanes, ``None`` for
    all."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    count: str | None = None

    def __post_init__(self) -> None:
        self.load = self.read

    def read(self, e: Expr, guard: str | None) -> str:
        tensor = self.tensors[str(e.value)]
        if not self.varies(e):
            text = f"{tensor.name}[{flat_index(e.args, tensor, self)}]"
            if e.dtype in NARROW:
                text = f"tw::widen({text})"
            # If the condition holds in no lane, the address may lie outside the tensor.
            return f"(tw::any({guard}) ? {text} : 0)" if guard is not None else text
        lane = self.lane_type(e) if e.dtype != "bool" else "int"
        v = self.vec(lane)
        base = f"(const signed char *){tensor.name}" if e.dtype == "bool" else tensor.name
        step = vector_step(e.args, tensor, self)
        if step is None:
            return f"tw::load_at<{v}>({base}, {positions(e.args, tensor, self)}, {self._in_use(guard)})"
        at = f"{base} + ({flat_index(e.args, tensor, self)})"
        if guard is None:
            if step == 1:
                return loaded(v, at, self.count)
            tail = "" if self.count is None else f", {self.count}"
            return f"tw::load_step<{v}>({at}, {ctext(step)}{tail})"
        mask = self._in_use(guard)
        if step == 1:
            return f"tw::load_if<{v}>({at}, {mask})"
        return f"tw::load_step_if<{v}>({at}, {ctext(step)}, {mask})"

    def _in_use(self, guard: str | None) -> str:
        lanes = f"tw::first<{self.vec('int')}>({self.count or self.lanes})"
        if guard is None:
            return lanes
        return guard if self.count is None else f"tw::both({lanes}, {guard})"


@dataclass
class Values:
    """State that all printers of one kernel share: tensors, ranges of axes, number of lanes, known expressions.

    ``kind``: the class of the printers.
    """

    tensors: Mapping[str, Tensor]
    extents: Mapping[str, int]
    lanes: int | None = None
    memo: Memo = field(default_factory=Memo)
    kind: type[MemoryPrinter] = MemoryPrinter

    def __post_init__(self) -> None:
        self.ranges: Mapping[str, Range] = {a: (0, n - 1) for a, n in self.extents.items()}

    def at(
        self, places: Mapping[str, str], vector: str | None = None, var: Mapping[str, str] | None = None,
        count: str | None = None, names: Mapping[int, str] | None = None,
    ) -> MemoryPrinter:  # fmt: skip
        """A printer for a point, or for a vector along an axis; with a vector, the texts in ``var`` are vectors too."""
        along = vector is not None
        return self.kind(
            axis=places, var=dict(var or {}), lanes=self.lanes if along else None, vector=vector,
            varying=frozenset(var or ()) if along else frozenset(), ranges=self.ranges, names=dict(names or {}),
            memo=self.memo, tensors=self.tensors, count=count if along else None,
        )  # fmt: skip


def loaded(vector: str, at: str, count: str | None) -> str:
    """C text of a vector of the C type ``vector`` at address ``at``; ``count`` active lanes (``None`` for all)."""
    return f"tw::load<{vector}>({at})" if count is None else f"tw::load_n<{vector}>({at}, {count})"


def stored(at: str, dtype: str, text: str, count: str | None, function: str = "tw::store") -> str:
    """C statement that stores a vector of values of ``dtype`` at address ``at``."""
    if dtype == "bool":
        at, text = f"(signed char *)({at})", f"({text} & 1)"
    return f"{function}({at}, {text});" if count is None else f"tw::store_n({at}, {text}, {count});"


def unrounded(value: Expr, dtype: str) -> Expr:
    """A value without its last conversion if storing as ``dtype`` converts anyway; it is then computed in its C
    type."""
    if value.op != "cast" or value.dtype != dtype or dtype not in NARROW or value.args[0].dtype not in FLOATS:
        return value
    (x,) = value.args
    return x if x.dtype == "float64" else Expr("cast", "float32", (x,))


def write(
    printer: Printer, tensor: Tensor, indices: tuple[Expr, ...], value: Expr, count: str | None,
    function: str = "tw::store",
) -> str:  # fmt: skip
    """C statement that stores a value (of the tensor's dtype) at ``indices``; contiguous vectors use ``function``."""
    at = flat_index(indices, tensor, printer)
    if not printer.named(value):
        value = unrounded(value, tensor.dtype)
    if printer.lanes is None:
        text = printer.scalar(value)
        if tensor.dtype in NARROW:
            return f"tw::narrow({tensor.name}[{at}], {text});"
        return f"{tensor.name}[{at}] = ({storage(tensor.dtype)})({text});"
    text = printer.vector_text(value)
    step = vector_step(indices, tensor, printer)
    if step == 1:
        return stored(f"{tensor.name} + ({at})", tensor.dtype, text, count, function)
    base = tensor.name
    if tensor.dtype == "bool":
        base, text = f"(signed char *){base}", f"({text} & 1)"
    tail = "" if count is None else f", {count}"
    if step is None:
        return f"tw::store_at({base}, {positions(indices, tensor, printer)}, {text}{tail});"
    return f"tw::store_step({base} + ({at}), {ctext(step)}, {text}{tail});"

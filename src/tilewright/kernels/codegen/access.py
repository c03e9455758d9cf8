"""C text of tensor reads and writes, for points and for vectors along one axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.kernels.codegen.printer import CTYPE, Printer
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.expression.program import Tensor, strides_of


def storage(dtype: str) -> str:
    """C type of a stored element."""
    return STORED.get(dtype) or CTYPE[dtype]


STORED = {"float16": "tw::f16", "bfloat16": "tw::bf16", "float8_e4m3fn": "tw::f8e4m3", "float8_e5m2": "tw::f8e5m2"}
"""C types of the reals that are stored only."""


def flat_index(indices: tuple[Expr, ...], tensor: Tensor, printer: Printer) -> str:
    """C text of the position of an element; in a vector, of the one in lane 0."""
    terms = []
    for i, n, s in zip(indices, tensor.shape, strides_of(tensor.shape), strict=True):
        if n == 1:
            continue
        text = printer.scalar(i)
        if text not in {"0L", "0"}:
            terms.append(text if s == 1 else f"{text}*{s}L")
    return " + ".join(terms) or "0"


@dataclass
class MemoryPrinter(Printer):
    """A printer that reads ``tensors`` in memory. ``count``: C text of how many lanes are in use, ``None`` for all."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    count: str | None = None

    def __post_init__(self) -> None:
        self.load = self.read

    def read(self, e: Expr, guard: str | None) -> str:
        tensor = self.tensors[str(e.value)]
        if not self.varies(e):
            text = f"{tensor.name}[{flat_index(e.args, tensor, self)}]"
            if e.dtype in STORED:
                text = f"tw::widen({text})"
            # Behind a condition that holds in no lane, the address may lie outside.
            return f"(tw::any({guard}) ? {text} : 0)" if guard is not None else text
        lane = self.lane_type(e) if e.dtype != "bool" else "int"
        v = self.vec(lane)
        base = f"(const signed char *){tensor.name}" if e.dtype == "bool" else tensor.name
        step = flat_step(e.args, strides_of(tensor.shape), str(self.vector))
        if step is None:
            return f"tw::load_at<{v}>({base}, {self._positions(e, tensor)}, {self._in_use(guard)})"
        at = f"{base} + ({flat_index(e.args, tensor, self)})"
        if guard is None:
            if step == 1:
                return f"tw::load<{v}>({at})" if self.count is None else f"tw::load_n<{v}>({at}, {self.count})"
            tail = "" if self.count is None else f", {self.count}"
            return f"tw::load_step<{v}>({at}, {step}L{tail})"
        mask = self._in_use(guard)
        if step == 1:
            return f"tw::load_if<{v}>({at}, {mask})"
        return f"tw::load_step_if<{v}>({at}, {step}L, {mask})"

    def _in_use(self, guard: str | None) -> str:
        lanes = f"tw::first<{self.vec('int')}>({self.count or self.lanes})"
        if guard is None:
            return lanes
        return guard if self.count is None else f"tw::both({lanes}, {guard})"

    def _positions(self, e: Expr, tensor: Tensor) -> str:
        terms = []
        for i, s in zip(e.args, strides_of(tensor.shape), strict=True):
            text = self.vector_text(i, "long")
            terms.append(text if s == 1 else f"{text}*{s}L")
        return "(" + " + ".join(terms) + ")"


def stored(at: str, dtype: str, text: str, count: str | None, function: str = "tw::store") -> str:
    """C statement that stores a vector of values (of ``dtype``) from the address ``at`` on."""
    if dtype == "bool":
        at, text = f"(signed char *)({at})", f"({text} & 1)"
    return f"{function}({at}, {text});" if count is None else f"tw::store_n({at}, {text}, {count});"


def write(
    printer: Printer, tensor: Tensor, indices: tuple[Expr, ...], value: Expr, count: str | None,
    function: str = "tw::store",
) -> str:  # fmt: skip
    """C statement that stores a value (of the tensor's dtype) at ``indices``; vectors of neighbours by ``function``."""
    at = flat_index(indices, tensor, printer)
    if printer.lanes is None:
        text = printer.scalar(value)
        if tensor.dtype in STORED:
            return f"tw::narrow({tensor.name}[{at}], {text});"
        return f"{tensor.name}[{at}] = ({CTYPE[tensor.dtype]})({text});"
    text = printer.vector_text(value)
    step = flat_step(indices, strides_of(tensor.shape), str(printer.vector))
    if step == 1:
        return stored(f"{tensor.name} + ({at})", tensor.dtype, text, count, function)
    base = tensor.name
    if tensor.dtype == "bool":
        base, text = f"(signed char *){base}", f"({text} & 1)"
    tail = "" if count is None else f", {count}"
    return f"tw::store_step({base} + ({at}), {step}L, {text}{tail});"

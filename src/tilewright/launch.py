"""How an artifact is called: functions, their arguments and workspace, as plain JSON (docs/architecture_parts.md).

Every backend and the runtime interpret these types. ``core`` re-exports their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from tilewright.serialization import Json, JsonList

ABI_VERSION = 1
"""Version of the binary interface between artifacts and their callers (docs/architecture_parts.md)."""

IntExpr = Union[int, str, list[Any]]
"""An integer over named values, as plain JSON: ``7``, ``"KC"``, ``["+", ["*", "MC", "KC"], 64]``.

Operators: ``+ * - // % min max ceildiv roundup`` (the last rounds its first operand up to a
multiple of its second). ``+ * min max`` take two or more operands, the others exactly two.
"""


def evaluate(expr: IntExpr, names: Mapping[str, int]) -> int:
    """Value of an integer expression. Raises ``KeyError`` for an unknown name or operator."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return names[expr]
    op, *rest = expr
    values = [evaluate(r, names) for r in rest]
    result = values[0]
    for v in values[1:]:
        result = _INT_OPS[op](result, v)
    return result


_INT_OPS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": lambda a, b: a if a <= b else b,
    "max": lambda a, b: a if a >= b else b,
    "ceildiv": lambda a, b: -(-a // b),
    "roundup": lambda a, b: -(-a // b) * b,
}


@dataclass(frozen=True)
class Launch:
    """One call of one function: its symbol, and the names of the integers passed to it.

    A GPU kernel also has a ``grid`` (blocks in x, y and z, integer expressions over launch arguments), a ``block``
    (threads in x, y and z) and ``shared`` bytes of dynamic shared memory. By default it gets a pointer to every tensor,
    a pointer to the workspace, and its arguments as 32-bit integers. ``parameters`` replaces that list by pairs of a
    kind and a value: ``("tensor", number)``, ``("workspace", byte offset)``, ``("int32", expression)``, ``("int64",
    expression)``, ``("float32", number)``, ``("float64", number)`` or ``("tensor_map", map)`` with a map of
    :func:`tensor_map`.

    ``early``: programmatic dependent launch. The kernel may begin before the preceding launch has ended, and waits for
    it in ``tw::grid_wait``. Devices without this feature ignore the flag.
    """

    symbol: str
    arguments: tuple[str, ...] = ()
    grid: tuple[IntExpr, ...] = ()
    block: tuple[int, ...] = ()
    shared: IntExpr = 0
    parameters: tuple[tuple[str, Any], ...] = ()
    early: bool = False

    def under(self, symbol: str) -> Launch:
        """The launch with ``symbol`` put before its function's name."""
        return replace(self, symbol=symbol + self.symbol)

    def listed(self, tensors: int) -> tuple[tuple[str, Any], ...]:
        """Parameters of a GPU launch on ``tensors`` tensors (inputs and outputs together), as pairs of a kind and a
        value."""
        return self.parameters or (
            *(("tensor", n) for n in range(tensors)), ("workspace", 0), *(("int32", name) for name in self.arguments)
        )  # fmt: skip

    def placed(
        self, tensors: Sequence[tuple[str, IntExpr]], workspace: IntExpr,
        of: Callable[[IntExpr], IntExpr] = lambda e: e, prefix: str = "",
    ) -> Launch:  # fmt: skip
        """A GPU launch as part of another kernel's program.

        ``tensors``: location of each tensor in that program, a tensor's number or a byte offset in the workspace. The
        launch's own workspace begins at ``workspace``. ``of`` renames the arguments in an expression; ``prefix`` is put
        before the arguments' names.
        """

        def pointer(kind: str, value: Any) -> tuple[str, Any]:
            return tensors[value] if kind == "tensor" else (kind, ["+", workspace, of(value)])

        def moved(kind: str, value: Any) -> tuple[str, Any]:
            if kind == "tensor_map":
                sizes = {name: [of(x) for x in value[name]] for name in ("sizes", "strides")}
                return kind, {**value, **sizes, "of": list(pointer(*value["of"]))}
            if kind in ("tensor", "workspace"):
                return pointer(kind, value)
            return kind, of(value) if kind.startswith("int") else value

        return replace(
            self, arguments=tuple(prefix + a for a in self.arguments), grid=tuple(map(of, self.grid)),
            shared=of(self.shared), parameters=tuple(moved(*p) for p in self.listed(len(tensors))),
        )  # fmt: skip

    def to_json(self) -> list[Any]:
        plain = [self.symbol, list(self.arguments)]
        if not self.grid:
            return plain
        shape: dict[str, Any] = {"grid": list(self.grid), "block": list(self.block), "shared": self.shared}
        if self.parameters:
            shape["parameters"] = [list(p) for p in self.parameters]
        if self.early:
            shape["early"] = True
        return [*plain, shape]

    @staticmethod
    def from_json(data: list[Any]) -> Launch:
        shape = data[2] if len(data) > 2 else {}
        return Launch(
            data[0], tuple(data[1]), tuple(shape.get("grid", ())), tuple(shape.get("block", ())),
            shape.get("shared", 0), tuple((k, v) for k, v in shape.get("parameters", ())), shape.get("early", False),
        )  # fmt: skip


ALIGN = 256
"""Alignment, in bytes, of GPU drivers' allocations."""

REACH = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}
"""TMA's im2col limits, by the tensor's number of dimensions.

Corners of a :class:`Walk` lie from ``-REACH`` to ``REACH - 1``, offsets below twice ``REACH``.
"""
MOST_STEP = 8


@dataclass(frozen=True)
class Walk(Json):
    """Order in which an im2col TMA copy visits pixels of images, by spatial dimension, innermost first.

    The copy visits the pixels that the window's first element meets: from ``lower`` on, every ``steps``-th, up to
    ``upper``, which counts from an image's last pixel. After a row follows the next row, after an image the next image.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]

    def possible(self, sizes: Sequence[int]) -> bool:
        """Whether TMA accepts the order for a tensor of these sizes, channels first and images last."""
        reach = REACH.get(len(sizes), 0)
        return (
            reach > 0
            and len(self.lower) == len(self.upper) == len(self.steps) == len(sizes) - 2
            and all(
                -reach <= low < reach and -reach <= up < reach and 1 <= step <= MOST_STEP and low < size + up
                for low, up, step, size in zip(self.lower, self.upper, self.steps, sizes[1:-1], strict=True)
            )
        )


def tensor_map(
    of: tuple[str, IntExpr], item: int, sizes: tuple[IntExpr, ...], strides: tuple[IntExpr, ...], box: tuple[int, ...],
    swizzle: int, walk: Walk | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A parameter that describes a tensor to TMA, as plain JSON (CUDA's ``cuTensorMapEncodeTiled``).

    ``of``: ``("tensor", number)`` or ``("workspace", byte offset)``. ``item``: bytes of an element. Dimensions are
    listed from the innermost outwards: ``sizes`` and ``box`` (extents of one copy) in elements, ``strides`` in bytes,
    without the innermost dimension. ``swizzle``: bytes of the pattern in shared memory, 0 for none. With a ``walk`` the
    tensor holds images of pixels, and ``box`` holds channels and pixels (``cuTensorMapEncodeIm2col``).
    """
    made: dict[str, Any] = {
        "of": list(of), "item": item, "sizes": list(sizes), "strides": list(strides), "box": list(box),
        "swizzle": swizzle,
    }  # fmt: skip
    return made if walk is None else {**made, "walk": walk.to_json()}


@dataclass(frozen=True)
class Prepack(JsonList):
    """Rearrangement of a constant input, run once before the first call.

    ``launch`` gets the original tensors and, as its workspace, ``bytes`` of zeroed memory to fill (aligned to 4096
    bytes on a CPU, 256 on a GPU). Later launches get that memory in place of tensor number ``input``.
    """

    input: int
    bytes: IntExpr
    launch: Launch


@dataclass(frozen=True)
class LaunchProgram(Json, sparse=("prepack", "rounding")):
    """How an artifact is called, as plain JSON; every backend and the runtime interpret it.

    ``launches`` run in order on the same tensors and workspace. ``workspace`` is its size in bytes. ``zero_fill`` is
    the number of its leading bytes that are cleared before the first launch. Both are integer expressions over launch
    arguments. ``align`` is the required alignment, in bytes, of every tensor's first element. Tensors are dense and
    row-major in the specs' shapes, except constant inputs that ``prepack`` rearranges. ``rounding``: factor by which
    the rounding error of the kernel's sums may exceed that of the program's sums; checks widen the tolerance by it
    (docs/tolerances.md). 1 if the kernel sums as the program does.
    """

    launches: tuple[Launch, ...]
    workspace: IntExpr = 0
    zero_fill: IntExpr = 0
    align: int = 1
    abi: int = ABI_VERSION
    prepack: tuple[Prepack, ...] = ()
    rounding: float = 1.0

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the functions of a GPU program without repetition: of its launches, then of its prepacking."""
        return tuple(dict.fromkeys(x.symbol for x in self.every_launch))

    @property
    def every_launch(self) -> tuple[Launch, ...]:
        """The launches of calls, then the launches that prepack inputs."""
        return (*self.launches, *(x.launch for x in self.prepack))

    def in_every_call(self, tensors: int) -> LaunchProgram:
        """Returns a GPU program that prepacks constant inputs in each call, at the beginning of its workspace.

        ``tensors``: number of inputs and outputs together.
        """
        if not self.prepack:
            return self
        given: list[tuple[str, IntExpr]] = [("tensor", n) for n in range(tensors)]
        moved, first = list(given), list[Launch]()
        end: IntExpr = 0
        for x in self.prepack:
            first.append(x.launch.placed(given, end))
            moved[x.input] = "workspace", end
            end = ["+", end, ["roundup", x.bytes, ALIGN]]
        return replace(
            self, launches=(*first, *(x.placed(moved, end) for x in self.launches)),
            workspace=["+", end, self.workspace], zero_fill=["+", end, self.zero_fill], prepack=(),
        )  # fmt: skip

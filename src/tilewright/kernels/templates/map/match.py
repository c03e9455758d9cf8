"""Recognising maps: every stage elementwise, written as one expression over few, long axes.

Stages are inlined. Every read becomes a read of a flat tensor at a sum of axes; neighbouring axes that
every read walks as one axis become one. Conditions on the innermost axis alone split it into segments,
in each of which they hold or not: concatenation and padding are then plain copies.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.kernels.codegen.ranges import Range
from tilewright.kernels.expression.expr import (
    COMPARISONS,
    INDEX,
    ITEMSIZE,
    Expr,
    ValueNumbers,
    cast,
    const,
    load,
    whole,
)
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.families.linearizer import Linearizer

MAX_NODES = 3000
"""Operations of the inlined expression, a repeated value counted again; beyond, stages are kept apart elsewhere."""
MAX_RECOMPUTE = 4
"""How many times over a stage that computes something may be computed by inlining it."""
MAX_SEGMENTS = 4
RAW = {1: "raw1", 2: "raw2", 4: "raw4", 8: "raw8"}
"""Element types of programs that only move: the bits of elements of so many bytes."""
MOVING = ("load", "select", "const")


@dataclass(frozen=True, eq=False)
class Segment:
    """Positions ``[low, high)`` of the innermost axis, and the value there."""

    low: int
    high: int
    value: Expr


@dataclass(frozen=True, eq=False)
class Map:
    """A matched program. Axes outermost first, the innermost one last; all reads are of flat tensors.

    ``whole`` is the value everywhere; ``segments`` the same by ranges of the innermost axis. ``moves``: no
    arithmetic, elements are copied as whole numbers of their size. ``across``: the axis along which the
    ``turned`` reads are contiguous while they step along the innermost one (a transpose), or ``None``.
    """

    program: Program
    tensors: Mapping[str, Tensor]
    axes: tuple[str, ...]
    extents: Mapping[str, int]
    strides: Mapping[str, int]
    whole: Expr
    segments: tuple[Segment, ...]
    moves: bool
    across: str | None
    turned: tuple[Expr, ...]

    @property
    def inner(self) -> str:
        return self.axes[-1]

    @property
    def outer(self) -> tuple[str, ...]:
        return self.axes[:-1]

    @property
    def output(self) -> Tensor:
        return self.tensors[self.program.output.name]

    @property
    def position(self) -> Expr:
        """The flat position of an output element."""
        return Linear(0, {a: self.strides[a] for a in self.axes}).expr()

    def ranges(self) -> dict[str, Range]:
        return {a: (0, n - 1) for a, n in self.extents.items()}

    @property
    def bytes(self) -> int:
        """Bytes of all tensors that are read or written."""
        used = {str(x.value) for x in self.whole.loads()} | {self.program.output.name}
        return sum(self.tensors[t].size * ITEMSIZE[self.program.tensors[t].dtype] for t in used)


def match(program: Program) -> Map | None:
    """The map that a program is, or ``None``."""
    return _match(program.dumps())


@lru_cache(maxsize=256)
def _match(text: str) -> Map | None:
    program = Program.loads(text)
    if not program.plain or any(s.monoid is not None for s in program.stages):
        return None
    value = _inlined(program)
    return None if value is None else _collapsed(program, value)


# --------------------------------------------------------------------------- one expression


def _inlined(program: Program) -> Expr | None:
    """The last stage with all others inlined; ``None`` where that computes too much again."""
    bodies: dict[str, Stage] = {}
    sizes: dict[str, int] = {}
    for s in program.stages:
        grown = _tree_size(s.body[0], sizes)
        if grown > MAX_NODES or (s is not program.stages[-1] and _recompute(program, s) > MAX_RECOMPUTE):
            return None
        sizes[s.name] = grown
        body = s.body[0].map(lambda n: _body(n, bodies))
        bodies[s.name] = Stage(s.name, s.extents, (), (cast(body, s.dtype),), s.dtype)
    return bodies[program.output.name].body[0]


def _body(n: Expr, bodies: Mapping[str, Stage]) -> Expr | None:
    s = bodies.get(str(n.value)) if n.op == "load" else None
    return None if s is None else s.body[0].substitute(dict(zip(s.axes, n.args, strict=True)))


def _tree_size(e: Expr, sizes: Mapping[str, int]) -> int:
    own = sizes.get(str(e.value), 1) if e.op == "load" else 1
    return own + sum(_tree_size(a, sizes) for a in e.args)


def _recompute(program: Program, s: Stage) -> float:
    """How many times over a stage is computed when its readers compute it; 1 if it only moves."""
    if all(n.op in ("axis", *MOVING, "cast") or n.dtype in (INDEX, "bool") for n in s.body[0].walk()):
        return 1.0
    uses = 0
    for t in program.stages:
        numbers = ValueNumbers()
        uses += t.points * len({numbers.of(x) for x in t.loads() if x.value == s.name})
    return uses / s.points


# --------------------------------------------------------------------------- few axes


def _collapsed(program: Program, value: Expr) -> Map | None:
    stage = program.stages[-1]
    wide = [a for a in stage.axes if stage.ranges[a] > 1] or list(stage.axes[-1:])
    extents = {a: stage.ranges[a] for a in wide}
    strides = {a: s for a, s in zip(stage.axes, program.output.strides, strict=True) if a in wide}
    if not wide:
        wide, extents, strides = ["i0"], {"i0": 1}, {"i0": 1}
    value = value.substitute({a: const(0, INDEX) for a in stage.axes if a not in wide})
    value = flattened(value, program, extents)
    axes, value = _fused(wide, extents, strides, value)
    moves = _moves(program, value)
    tensors = {t.name: Tensor(t.name, (t.size,), t.dtype) for t in (*program.inputs, program.output)}
    if moves:
        value = _raw(value)
        item = ITEMSIZE[program.output.dtype]
        read = {str(x.value) for x in _data_loads(value)} | {program.output.name}
        tensors |= {n: Tensor(n, (tensors[n].size,), RAW[item]) for n in read}
    across, turned = _across(value, axes, extents)
    return Map(
        program,
        tensors,
        tuple(axes),
        extents,
        strides,
        value,
        _segments(value, axes[-1], extents),
        moves,
        across,
        turned,
    )


def flattened(value: Expr, program: Program, extents: Mapping[str, int], low: Mapping[str, int] | None = None) -> Expr:
    """Reads at flat positions written as sums, and conditions resolved, for axes from ``low`` (0) below ``extents``."""
    lin = Linearizer({a: ((low or {}).get(a, 0), n - 1) for a, n in extents.items()})
    return value.map(lambda n: _flat(n, program, lin))


def _flat(n: Expr, program: Program, lin: Linearizer) -> Expr | None:
    if n.op == "load":
        strides = program.tensors[str(n.value)].strides
        indices = n.args if len(n.args) == len(strides) else (n.args[0],)
        steps = strides if len(n.args) == len(strides) else (1,)
        at = lin.total(zip(indices, steps, strict=True))
        return load(str(n.value), n.dtype, (at.expr(),))
    if n.op in COMPARISONS and n.args[0].dtype == INDEX:
        known = _known(n, lin)
        return None if known is None else const(known, "bool")
    if n.op in ("and", "or"):
        a, b = n.args
        for x, y in ((a, b), (b, a)):
            if x.op == "const":
                return y if bool(x.value) == (n.op == "and") else x
    if n.op == "not" and n.args[0].op == "const":
        return const(not n.args[0].value, "bool")
    if n.op == "select" and n.args[0].op == "const":
        return n.args[1] if n.args[0].value else n.args[2]
    return None


def _known(n: Expr, lin: Linearizer) -> bool | None:
    """What a comparison of indices gives at every point, if it is the same."""
    low, high = lin.bounds(lin.total(((n.args[0], 1), (n.args[1], -1))).expr())
    never, always = {
        "lt": (low is not None and low >= 0, high is not None and high < 0),
        "le": (low is not None and low > 0, high is not None and high <= 0),
        "gt": (high is not None and high <= 0, low is not None and low > 0),
        "ge": (high is not None and high < 0, low is not None and low >= 0),
        "eq": ((low or 0) > 0 or (high is not None and high < 0), low == high == 0),
        "ne": (low == high == 0, (low or 0) > 0 or (high is not None and high < 0)),
    }[n.op]
    return True if always else False if never else None


def _fused(axes: list[str], extents: dict[str, int], strides: dict[str, int], value: Expr) -> tuple[list[str], Expr]:
    """Axes and value with neighbours fused that every read walks as one; ``extents`` and ``strides`` follow."""
    numbers = ValueNumbers()
    distinct = {numbers.of(x): x for x in value.loads()}
    # Raw sums: dividing out is done, and the ranges of what is left in terms do not matter here.
    sums = {key: _linear(x.args[0]) for key, x in distinct.items()}
    pinned = {a for s in sums.values() for a in s.opaque} | _outside(value)
    kept = list(axes)
    for n in range(len(kept) - 1, 0, -1):
        a, b = kept[n - 1], kept[n]
        if a in pinned or b in pinned or any(s.of(a) != s.of(b) * extents[b] for s in sums.values()):
            continue
        for key, s in sums.items():
            sums[key] = s.without(a)
        # The fused axis takes the outer one's place in the list and the inner one's name.
        extents[b] *= extents.pop(a)
        del strides[a]
        kept[n - 1 : n + 1] = [b]
        pinned.discard(a)
    changed = {key: s.expr() for key, s in sums.items()}
    new = value.map(
        lambda n: (
            load(str(n.value), n.dtype, (changed[numbers.of(n)],))
            if numbers.of(n) in distinct and n.op == "load"
            else None
        )
    )
    return kept, new


def _linear(e: Expr) -> Linear:
    return Linearizer({}).of(e)


def _outside(value: Expr) -> set[str]:
    """Axes that occur elsewhere than in positions of reads."""
    found: set[str] = set()
    stack = [value]
    while stack:
        e = stack.pop()
        if e.op == "axis":
            found.add(str(e.value))
        elif e.op != "load":
            stack += e.args
    return found


def _data_loads(value: Expr) -> Iterable[Expr]:
    """Reads whose value is data, not a position."""
    stack = [value]
    while stack:
        e = stack.pop()
        if e.op == "load":
            yield e
        elif e.op == "select":
            stack += e.args[1:]


def _moves(program: Program, value: Expr) -> bool:
    """Whether elements are only copied, and no tensor is read both as data and as positions or conditions."""

    def data_only(e: Expr) -> bool:
        return e.op in MOVING and (e.op != "select" or all(data_only(a) for a in e.args[1:]))

    if not data_only(value) or not any(True for _ in _data_loads(value)):
        return False
    data = {str(x.value) for x in _data_loads(value)}
    inside = {str(y.value) for x in _data_loads(value) for a in x.args for y in a.loads()}
    stack, conditions = [value], set[str]()
    while stack:
        e = stack.pop()
        if e.op == "select":
            conditions |= {str(y.value) for y in e.args[0].loads()}
            stack += e.args[1:]
    return not data & (inside | conditions)


def _raw(value: Expr) -> Expr:
    """The same moves of whole numbers of the elements' size."""
    dtype = RAW[ITEMSIZE[value.dtype]]
    if value.op == "load":
        return load(str(value.value), dtype, value.args)
    if value.op == "const":
        return Expr("const", dtype, (), _bits(value))
    return Expr("select", dtype, (value.args[0], _raw(value.args[1]), _raw(value.args[2])))


def _bits(value: Expr) -> int:
    """The bit pattern of a constant as a signed whole number of its size."""
    if value.dtype == "bfloat16":
        (single,) = struct.unpack("<I", struct.pack("<f", value.value))
        bits = single >> 16 | 0x40 if value.value != value.value else (single + 0x7FFF + (single >> 16 & 1)) >> 16
        return int(bits) - (1 << 16 if bits >= 1 << 15 else 0)
    kind = {"float64": "d", "float32": "f", "float16": "e"}.get(value.dtype)
    if kind is None:
        size = 8 * ITEMSIZE[value.dtype]
        number = whole(value) % (1 << size)
        return number - (1 << size if number >= 1 << (size - 1) else 0)
    real = float(value.value)  # type: ignore[arg-type]
    if kind == "e" and abs(real) >= 65520.0:
        real = float("inf") if real > 0 else float("-inf")
    found: int = struct.unpack({"d": "<q", "f": "<i", "e": "<h"}[kind], struct.pack("<" + kind, real))[0]
    return found


# --------------------------------------------------------------------------- the innermost axis


def _segments(value: Expr, inner: str, extents: Mapping[str, int]) -> tuple[Segment, ...]:
    """The innermost axis cut where conditions and divisions of it alone change; one segment if there are many."""
    size = extents[inner]
    whole = (Segment(0, size, value),)
    cuts = _cuts(value, inner, size)
    if cuts is None or not cuts or len(cuts) >= MAX_SEGMENTS:
        return whole
    edges = [0, *sorted(cuts), size]
    found = []
    for low, high in itertools.pairwise(edges):
        lin = Linearizer({a: (low, high - 1) if a == inner else (0, n - 1) for a, n in extents.items()})
        found.append(Segment(low, high, value.map(lambda n, lin=lin: _refined(n, lin))))  # type: ignore[misc]
    return tuple(found)


def _refined(n: Expr, lin: Linearizer) -> Expr | None:
    if n.op == "load":
        return load(str(n.value), n.dtype, (lin.of(n.args[0]).expr(),))
    return _flat(n, _NO_PROGRAM, lin)


_NO_PROGRAM = Program((), ())


def _cuts(value: Expr, inner: str, size: int) -> set[int] | None:
    """Positions at which something of the innermost axis alone changes; ``None`` if they are too many."""
    found: set[int] = set()
    for n in value.walk():
        if (n.op in COMPARISONS or n.op in ("min", "max")) and n.args[0].dtype == INDEX:
            x = Linearizer({}).total(((n.args[0], 1), (n.args[1], -1)))
            if set(x.axes) != {inner} or x.rest or n.op in ("eq", "ne"):
                continue
            # c * i + k changes between "at most 0" and "above 0", or between "below 0" and "at least 0".
            shift = int(n.op in ("le", "gt"))
            c, k = x.of(inner), x.const
            edge = -((k - shift) // c) if c > 0 else (k - shift) // -c + 1
            found.add(edge)
        elif n.op in ("floordiv", "mod") and n.dtype == INDEX:
            x = Linearizer({}).of(n.args[0])
            if set(x.axes) != {inner} or x.rest or x.of(inner) != 1:
                continue
            d = whole(n.args[1])
            first = -x.const % d
            if (size - first) // d >= MAX_SEGMENTS:
                return None
            found |= set(range(first, size, d))
    return {c for c in found if 0 < c < size}


def _across(value: Expr, axes: list[str], extents: Mapping[str, int]) -> tuple[str | None, tuple[Expr, ...]]:
    """The axis along which transposed reads are contiguous, and those reads."""
    inner = axes[-1]
    votes: dict[str, list[Expr]] = {}
    for x in _unconditional(value):
        s = Linearizer({}).of(x.args[0])
        if s.of(inner) in (0, 1) or inner in s.opaque:
            continue
        for a in axes[:-1]:
            if s.of(a) == 1 and a not in s.opaque and min(extents[a], extents[inner]) >= 4:
                votes.setdefault(a, []).append(x)
    if not votes:
        return None, ()
    best = max(votes, key=lambda a: (len(votes[a]), extents[a]))
    numbers = ValueNumbers()
    return best, tuple({numbers.of(x): x for x in votes[best]}.values())


def _unconditional(value: Expr) -> Iterable[Expr]:
    """Reads of data that happen at every point."""
    stack = [value]
    while stack:
        e = stack.pop()
        if e.op == "load":
            yield e
        else:
            stack += e.args[:1] if e.op == "select" else e.args

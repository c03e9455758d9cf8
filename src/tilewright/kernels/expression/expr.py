"""Scalar expressions: the bodies of tensor computations.

One immutable node type, :class:`Expr`. Axes are expressions of dtype ``index``; an index into a
tensor is any *quasi-affine* expression of axes (``+ - *`` and ``// %`` by positive constants,
``min``/``max``, and reads of integer tensors for gathers). ``select`` is lazy: the branch that is
not taken is not evaluated, so a padding predicate guards the read behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from operator import is_
from typing import Any, Union

from tilewright.dtypes import DTYPES, POSITION, VALUES
from tilewright.extent import Extent, read_size, write_size

Number = Union[int, float, bool]
ExprLike = Union["Expr", Number]

FLOATS = tuple(d.name for d in DTYPES.values() if d.kind == "float")
FLOAT8 = tuple(name for name in FLOATS if DTYPES[name].bits == 8)
SIXTEEN = tuple(name for name in FLOATS if DTYPES[name].bits == 16)
"""Reals of 16 bits."""
NARROW = tuple(name for name in FLOATS if DTYPES[name].stored_only)
"""Reals that are storage formats only: arithmetic on them is done in float32."""

INTEGERS = tuple(d.name for d in DTYPES.values() if d.kind in ("int", "uint"))
SHORT = tuple(name for name in INTEGERS if DTYPES[name].stored_only)
"""Integers that are storage formats only: arithmetic on them is done in int32."""
BYTES = tuple(name for name in INTEGERS if DTYPES[name].bits == 8)
"""Integers of 8 bits."""
BITS = {d.name: d.storage for d in DTYPES.values() if d.storage and d.per_byte == 1}
"""Dtypes that NumPy lacks, each with the dtype of arrays that hold its bit patterns."""

INDEX = POSITION.name
PACKED = tuple(name for name in DTYPES if name not in VALUES)
"""Packed dtypes of inputs, of which a byte holds several elements: programs read the bytes."""
ITEMSIZE = {name: d.bytes for name, d in VALUES.items()}
"""Bytes of an element."""

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
TRANSCENDENTAL = ("exp", "log", "log1p", "tanh", "erf", "sin", "cos", "pow")
TF32 = ("round_tf32", "truncate_tf32")
"""Conversions of a float32 to TF32 operands: rounding to nearest, and truncation of the low bits."""
FUNCTIONS = ("neg", "abs", "sqrt", "rsqrt", "floor", "fmod", *TF32, *TRANSCENDENTAL)
DIVISIONS = {"floordiv": "idiv", "mod": "imod"}
"""Operations for ``//`` and ``%`` of values by anything but a positive constant; indices do not allow them."""
LEAVES = ("const", "axis", "load", "var", "size")


@dataclass(frozen=True, eq=False)
class Symbol:
    """A tensor or an axis of a definition that is still being written; equal only to itself.

    ``te.program`` replaces symbols by names; a finished program holds none.
    """

    label: str

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """An expression: an operation, the result's dtype, the operands, and a value for leaves.

    ``value`` is the number of a ``const``, or the name of an ``axis``, ``load`` (the tensor) or ``var`` (an accumulator
    component in a monoid: ``l0``, ``r0``, ...). A ``size`` has an ``Extent``, a symbolic whole number. A ``load``'s
    operands are its indices. Python's arithmetic and ordering operators build new expressions, and so does ``==``:
    compare expressions with ``same``.
    """

    op: str
    dtype: str
    args: tuple[Expr, ...] = ()
    value: Number | str | Symbol | None = None

    # fmt: off
    # arithmetic
    def __add__(self, o: ExprLike) -> Expr: return binary("add", self, o)
    def __radd__(self, o: ExprLike) -> Expr: return binary("add", o, self)
    def __sub__(self, o: ExprLike) -> Expr: return binary("sub", self, o)
    def __rsub__(self, o: ExprLike) -> Expr: return binary("sub", o, self)
    def __mul__(self, o: ExprLike) -> Expr: return binary("mul", self, o)
    def __rmul__(self, o: ExprLike) -> Expr: return binary("mul", o, self)
    def __truediv__(self, o: ExprLike) -> Expr: return binary("div", self, o)
    def __rtruediv__(self, o: ExprLike) -> Expr: return binary("div", o, self)
    def __floordiv__(self, o: ExprLike) -> Expr: return binary("floordiv", self, o)
    def __mod__(self, o: ExprLike) -> Expr: return binary("mod", self, o)
    def __neg__(self) -> Expr: return unary("neg", self)
    def __abs__(self) -> Expr: return unary("abs", self)

    # fmt: on
    def __pow__(self, exponent: ExprLike) -> Expr:
        """Integer powers from 1 to 8 become multiplications; any other power is ``te.pow``."""
        if not isinstance(exponent, int) or not 1 <= exponent <= 8:
            return binary("pow", self, exponent)
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result

    # fmt: off
    # comparisons and logic
    def __lt__(self, o: ExprLike) -> Expr: return compare("lt", self, o)
    def __le__(self, o: ExprLike) -> Expr: return compare("le", self, o)
    def __gt__(self, o: ExprLike) -> Expr: return compare("gt", self, o)
    def __ge__(self, o: ExprLike) -> Expr: return compare("ge", self, o)
    def __eq__(self, o: object) -> Expr: return compare("eq", self, o)  # type: ignore[override, arg-type]
    def __ne__(self, o: object) -> Expr: return compare("ne", self, o)  # type: ignore[override, arg-type]
    def __and__(self, o: ExprLike) -> Expr: return logic("and", self, o)
    def __or__(self, o: ExprLike) -> Expr: return logic("or", self, o)
    def __invert__(self) -> Expr: return logic("not", self)
    __hash__ = object.__hash__
    # fmt: on

    def __bool__(self) -> bool:
        raise TypeError(
            "a tensor expression has no truth value while it is being defined; "
            "use te.select(condition, a, b), & | ~ for and, or, not, and te.maximum, te.minimum for max, min "
            f"(in {_shown(self)})"
        )

    # operators of Python and NumPy that the language spells differently
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Expr:
        """Handles a NumPy scalar on the left (``np.float32(2) * x``), and refuses NumPy functions."""
        apply = _UFUNCS.get(ufunc.__name__) if method == "__call__" and len(inputs) == 2 else None
        if apply is None:
            raise TypeError(f"np.{ufunc.__name__} of {_shown(self)}: {_FUNCTION_RULE}")
        a, b = (v.item() if getattr(v, "shape", None) == () else v for v in inputs)  # comparisons pass 0-d arrays
        return apply(a, b)

    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError(f"{_shown(self)} is not an array; {_FUNCTION_RULE}, and te.select for where")

    def __float__(self) -> float:
        raise TypeError(f"{_shown(self)} has no number while it is being defined; {_FUNCTION_RULE}")

    def __index__(self) -> int:
        raise TypeError(f"{_shown(self)} has no number while it is being defined; sizes and loops are fixed numbers")

    def __rpow__(self, base: ExprLike) -> Expr:
        return binary("pow", base, self)

    def _foreign(self, *_: object) -> Expr:
        raise TypeError(f"{_shown(self)} is used with an operator outside the language: it has + - * / // % ** & | ~")

    __matmul__ = __rmatmul__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __xor__ = __rxor__ = _foreign
    __divmod__ = __rdivmod__ = __rfloordiv__ = __rmod__ = __round__ = _foreign

    def __getitem__(self, index: object) -> Expr:
        raise TypeError(f"{_shown(self)} is one value and has no elements; index the tensor once, as in x[i, j]")

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError(f"{_shown(self)} is one value and cannot be iterated over; reduce with te.sum(extent, fn)")

    # traversal
    def walk(self) -> Iterator[Expr]:
        """This node and every node below it, parents first, operands from left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.args))

    def map(self, fn: Callable[[Expr], Expr | None]) -> Expr:
        """Rebuild bottom up; ``fn`` returns a replacement for a node, or ``None`` to keep it.

        A node object that occurs several times is rebuilt once.
        """
        done: dict[int, Expr] = {}

        def rebuild(node: Expr) -> Expr:
            known = done.get(id(node))
            if known is not None:
                return known
            fresh = node
            if node.args:
                args = tuple([rebuild(a) for a in node.args])
                if not all(map(is_, args, node.args)):
                    fresh = Expr(node.op, node.dtype, args, node.value)
            replacement = fn(fresh)
            done[id(node)] = result = fresh if replacement is None else replacement
            return result

        return rebuild(self)

    def substitute(self, names: Mapping[str, Expr]) -> Expr:
        """Substitutes expressions for axes and vars, by name."""
        return self.map(lambda e: names.get(str(e.value)) if e.op in ("axis", "var") else None)

    def axes(self) -> frozenset[str]:
        """Names of all axes in the expression, including axes inside indices."""
        return frozenset(str(e.value) for e in self.walk() if e.op == "axis")

    def loads(self) -> tuple[Expr, ...]:
        """All tensor reads, in order of appearance."""
        return tuple(e for e in self.walk() if e.op == "load")

    def to_json(self) -> list[Any]:
        head: list[Any] = [self.op, self.dtype]
        if self.op in LEAVES:
            head.append(_number_to_json(self.value))
        return head + [a.to_json() for a in self.args]

    @staticmethod
    def from_json(data: list[Any]) -> Expr:
        op, dtype, *rest = data
        value = None
        if op in LEAVES:
            stored = rest.pop(0)
            value = read_size(stored) if op == "size" else _number_from_json(stored, dtype if op == "const" else None)
        return Expr(op, dtype, tuple(Expr.from_json(r) for r in rest), value)

    def __repr__(self) -> str:
        if self.op == "size":
            return repr(self.value)
        if self.op == "load":
            return f"{self.value}[{', '.join(map(repr, self.args))}]"
        if self.op in LEAVES:
            return f"{self.value}"
        if self.op in _SIGNS:
            return f"({self.args[0]!r} {_SIGNS[self.op]} {self.args[1]!r})"
        name = f"cast<{self.dtype}>" if self.op == "cast" else self.op
        return f"{name}({', '.join(map(repr, self.args))})"


_FUNCTION_RULE = (
    "functions of Python, math and numpy do not apply to expressions, use te.abs exp log log1p pow sqrt rsqrt sin cos "
    "tanh erf floor maximum minimum"
)


def _shown(e: Expr) -> str:
    """An expression's text for a message; long expressions are cut."""
    stack, size = [e], 0
    while stack and size <= 40:
        size += 1
        stack.extend(stack.pop().args)
    if size > 40:
        return f"an expression ({e.op} of {e.dtype})"
    text = repr(e)
    return text if len(text) <= 80 else f"{text[:77]}..."


_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "idiv": "//", "imod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|",
}  # fmt: skip


def _number_to_json(value: Number | str | Symbol | None) -> Any:
    if isinstance(value, Symbol):
        raise TypeError(f"{value} has no name yet: make a te.program of the definition first")
    if isinstance(value, Extent):
        return write_size(value)
    # JSON has no infinities: reductions over max need one as identity.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number_from_json(value: Any, const_dtype: str | None) -> Any:
    return float(value) if const_dtype in FLOATS and not isinstance(value, bool) else value


def remainder(e: Expr) -> bool:
    """Whether a value is the remainder of a rounding to TF32, ``x - round_tf32(x)``; float32 represents it exactly."""
    return e.op == "sub" and e.args[1].op in TF32 and same(e.args[0], e.args[1].args[0])


def same(a: Expr, b: Expr) -> bool:
    """Structural equality; a NaN constant equals itself."""
    numbers = ValueNumbers()
    return a is b or numbers.of(a) == numbers.of(b)


class ValueNumbers:
    """Gives structurally equal expressions equal numbers, in time linear in the number of distinct nodes."""

    def __init__(self) -> None:
        self._by_id: dict[int, int] = {}
        self._by_key: dict[tuple[Any, ...], int] = {}
        self._alive: list[Expr] = []  # ids stay valid while the nodes live

    def of(self, e: Expr) -> int:
        """The number of ``e``."""
        found = self._by_id.get(id(e))
        if found is None:
            args = tuple([self.of(a) for a in e.args])
            value = repr(e.value) if isinstance(e.value, float) else e.value
            key = (e.op, e.dtype, type(e.value), value, args)
            found = self._by_key.setdefault(key, len(self._by_key))
            self._by_id[id(e)] = found
            self._alive.append(e)
        return found


def const(value: Number, dtype: str) -> Expr:
    """A constant of ``dtype``; integer dtypes take whole values only. An ``Extent`` becomes a symbolic ``size``
    node."""
    if isinstance(value, Extent):
        return cast(Expr("size", INDEX, (), value), dtype)
    if dtype in FLOATS:
        return Expr("const", dtype, (), float(value))
    if dtype == "bool":
        return Expr("const", dtype, (), bool(value))
    if not math.isfinite(value) or int(value) != value:
        raise TypeError(f"{value} is no {dtype}; write te.cast(x, 'float32') for real arithmetic")
    bits = 8 * ITEMSIZE[dtype]
    if bits >= 32 and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):  # shorter integers are computed in 32 bits
        raise TypeError(f"{value} is no {dtype}: it has {bits} bits")
    return Expr("const", dtype, (), int(value))


def whole(e: Expr) -> int:
    """The whole number of a constant; the extent of a ``size``."""
    assert isinstance(e.value, (int, float))
    return e.value if isinstance(e.value, Extent) else int(e.value)


def resized(e: Expr, other: Callable[[Extent], int]) -> Expr:
    """The expression with ``other`` applied to every extent; operations on the resulting numbers are folded."""
    settled: set[int] = set()
    kept: list[Expr] = []  # ids stay valid while the nodes live

    def replaced(n: Expr) -> Expr | None:
        if n.op == "size":
            assert isinstance(n.value, Extent)
            made = const(other(n.value), INDEX)
        elif not any(id(a) in settled for a in n.args):
            return None
        elif n.op in FOLDS and n.dtype == INDEX:
            made = _index(n.op, *n.args)
        elif n.op == "cast" and n.args[0].op == "const":
            made = const(n.args[0].value, n.dtype)  # type: ignore[arg-type]
        elif n.op == "sqrt" and n.args[0].op == "const":
            made = const(math.sqrt(n.args[0].value), n.dtype)  # type: ignore[arg-type]
        elif n.op == "div" and all(a.op == "const" for a in n.args):
            made = const(n.args[0].value / n.args[1].value, n.dtype)  # type: ignore[operator]
        else:
            return None
        if made.op == "const":
            settled.add(id(made))
        kept.append(made)
        return made

    return e.map(replaced)


def wrap(value: ExprLike, like: Expr | None = None) -> Expr:
    """An expression from a number, in the dtype of the expression ``like``."""
    if isinstance(value, Expr):
        return value
    value = _number(value)
    if like is not None:
        return const(value, like.dtype)
    return const(value, "bool" if isinstance(value, bool) else INDEX if isinstance(value, int) else "float32")


def _number(value: object) -> Number:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Symbol):
        raise TypeError(f"{value} is a tensor: read an element of it, as in {value}[i, j]")
    if not isinstance(value, Real):  # numpy's scalars are Real
        raise TypeError(f"expected an expression or a real number, got {value!r:.60} ({type(value).__name__})")
    return int(value) if isinstance(value, Integral) else float(value)


def _pair(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    x = wrap(a, b if isinstance(b, Expr) else None)
    y = wrap(b, x)
    if x.dtype != y.dtype:
        # Index and integer tensors may mix (gathers); any other mixture needs an explicit cast.
        if {x.dtype, y.dtype} <= {INDEX, *INTEGERS}:
            return cast(x, INDEX), cast(y, INDEX)
        raise TypeError(f"{_shown(x)} is {x.dtype} and {_shown(y)} is {y.dtype}; use te.cast(value, dtype)")
    return x, y


_CONDITION = "use te.select or te.cast(condition, dtype)"


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """An arithmetic operation on two values of one dtype."""
    x, y = _pair(a, b)
    if x.dtype == "bool":
        raise TypeError(f"{_shown(x)} is a condition, which has no arithmetic; {_CONDITION}")
    if op == "div" and x.dtype not in FLOATS:
        raise TypeError(f"{_shown(x)} / {_shown(y)}: / is for real values; use // on indices and integers")
    if op in ("pow", "fmod") and x.dtype not in FLOATS:
        other = "have ** from 1 to 8" if op == "pow" else "have %"
        raise TypeError(f"{op} takes real values, and {_shown(x)} is {x.dtype}; whole numbers {other}")
    if op in ("floordiv", "mod"):
        if x.dtype in FLOATS:
            raise TypeError(f"{_shown(x)}: // and % are for whole numbers; use te.floor and te.fmod on reals")
        positive = y.op == "const" and isinstance(y.value, int) and y.value > 0
        if not positive and y.op != "size":
            if x.dtype == INDEX:
                shown = f"{_shown(x)} by {_shown(y)}"
                raise TypeError(f"{shown}: // and % of an index take a positive constant on the right")
            op = DIVISIONS[op]
    if x.dtype == INDEX:
        return _index(op, x, y)
    return Expr(op, x.dtype, (x, y))


def _index(op: str, x: Expr, y: Expr) -> Expr:
    # Trivial operations are removed, so that a stride of 1 or a padding of 0 leaves no trace in the program.
    p = x.value if x.op == "const" and isinstance(x.value, int) else None
    q = y.value if y.op == "const" and isinstance(y.value, int) else None
    if p is not None and q is not None:
        return const(FOLDS[op](p, q), INDEX)
    if (op in ("add", "sub") and q == 0) or (op in ("mul", "floordiv") and q == 1):
        return x
    if (op == "add" and p == 0) or (op == "mul" and p == 1):
        return y
    if (op == "mul" and 0 in (p, q)) or (op == "mod" and q == 1):
        return const(0, INDEX)
    return Expr(op, INDEX, (x, y))


FOLDS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda p, q: p + q, "sub": lambda p, q: p - q, "mul": lambda p, q: p * q,
    "floordiv": lambda p, q: p // q, "mod": lambda p, q: p % q, "min": min, "max": max,
}  # fmt: skip
"""Functions on whole numbers of the operations on two indices."""


def unary(op: str, a: ExprLike) -> Expr:
    """A function of one value: real, except for ``neg`` and ``abs`` of whole numbers."""
    x = wrap(a)
    if x.dtype == "bool" or (op not in ("neg", "abs") and x.dtype not in FLOATS):
        raise TypeError(f"{op} takes a real value, and {_shown(x)} is {x.dtype}; use te.cast(x, 'float32')")
    if op in TF32 and x.dtype != "float32":
        raise TypeError(f"{op} takes a float32, not {x.dtype}; use te.cast(x, 'float32')")
    if x.dtype == INDEX and x.op == "const" and isinstance(x.value, int):
        return const(-x.value if op == "neg" else abs(x.value), INDEX)
    return Expr(op, x.dtype, (x,))


def compare(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """A condition on two values of one dtype."""
    x, y = _pair(a, b)
    return Expr(op, "bool", (x, y))


def logic(op: str, *args: ExprLike) -> Expr:
    """``and``, ``or``, ``not`` of conditions."""
    xs = tuple(wrap(a) for a in args)
    if any(x.dtype != "bool" for x in xs):
        shown = ", ".join(_shown(x) for x in xs if x.dtype != "bool")
        raise TypeError(f"& | ~ combine conditions (comparisons), and {shown} is a number")
    return Expr(op, "bool", xs)


def select(condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """``a`` where the condition holds, else ``b``; the branch that is not taken is not evaluated.

    Raises ``TypeError`` unless ``condition`` is a comparison and both values have one dtype.
    """
    condition = wrap(condition)
    if condition.dtype != "bool":
        raise TypeError(f"select takes a condition (a comparison) first, and {_shown(condition)} is {condition.dtype}")
    x, y = _pair(a, b)
    return Expr("select", x.dtype, (condition, x, y))


def cast(a: ExprLike, dtype: str) -> Expr:
    """``a`` converted to ``dtype``; a real value becomes a whole number by truncation toward zero, as in C.

    Raises ``TypeError`` for an unknown dtype.
    """
    if dtype not in VALUES:
        problem = "only inputs are" if dtype in PACKED else "unknown dtype"
        raise TypeError(f"{problem} {dtype!r}; one of {', '.join(VALUES)}")
    x = wrap(a)
    if x.dtype == dtype:
        return x
    if x.op == "const" and dtype == INDEX and isinstance(x.value, (int, float)):
        return const(int(x.value), INDEX)
    return Expr("cast", dtype, (x,))


def holds(dtype: str, source: str) -> bool:
    """Whether a real dtype represents every value of another dtype, so that the conversion does not round."""
    if source in FLOATS:
        a, b = DTYPES[source], DTYPES[dtype]
        return a.digits <= b.digits and a.exponent <= b.exponent
    return source == "bool" or 8 * ITEMSIZE[source] <= DTYPES[dtype].digits


def unwidened(e: Expr) -> Expr:
    """The operand of a conversion that keeps every value (to a real or a wider integer dtype); other values
    unchanged."""
    if e.op != "cast":
        return e
    source = e.args[0].dtype
    wider = {e.dtype, source} <= set(INTEGERS) and ITEMSIZE[source] < ITEMSIZE[e.dtype]
    return e.args[0] if wider or (e.dtype in FLOATS and holds(e.dtype, source)) else e


_UFUNCS: dict[str, Callable[[ExprLike, ExprLike], Expr]] = {
    **{
        numpy: partial(binary, op)
        for numpy, op in (
            ("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "div"), ("true_divide", "div"),
            ("floor_divide", "floordiv"), ("remainder", "mod"),
        )
    },
    **{
        numpy: partial(compare, op)
        for numpy, op in (
            ("less", "lt"), ("less_equal", "le"), ("greater", "gt"), ("greater_equal", "ge"), ("equal", "eq"),
            ("not_equal", "ne"),
        )
    },
}  # fmt: skip
"""NumPy's names of the operators that the language has too."""


def axis(name: str | Symbol) -> Expr:
    """An iteration axis, by name."""
    return Expr("axis", INDEX, (), name)


def load(tensor: str | Symbol, dtype: str, indices: tuple[Expr, ...]) -> Expr:
    """A read of one element."""
    return Expr("load", dtype, indices, tensor)


def in_place(read: Expr, axes: Sequence[str]) -> bool:
    """Whether a tensor is read at the position of ``axes``."""
    return [(i.op, i.value) for i in read.args] == [("axis", a) for a in axes]


def outcome(op: str, low: float, high: float) -> bool | None:
    """Result of comparing a number in ``[low, high]`` with 0; ``None`` if it depends on the number."""
    always, never = {
        "lt": (high < 0, low >= 0), "le": (high <= 0, low > 0), "gt": (low > 0, high <= 0),
        "ge": (low >= 0, high < 0), "eq": (low == high == 0, low > 0 or high < 0),
        "ne": (low > 0 or high < 0, low == high == 0),
    }[op]  # fmt: skip
    return True if always else False if never else None


def decided(e: Expr) -> Expr | None:
    """Simplifies a condition or ``select`` with a constant operand; ``None`` for any other expression."""
    if e.op in ("and", "or"):
        # ``and`` with a true operand is the other operand; ``or`` with a true operand is true.
        for one, other in (e.args, e.args[::-1]):
            if one.op == "const":
                return other if bool(one.value) == (e.op == "and") else one
    if e.op == "not" and e.args[0].op == "const":
        return const(not e.args[0].value, "bool")
    if e.op == "select" and e.args[0].op == "const":
        return e.args[1] if e.args[0].value else e.args[2]
    return None

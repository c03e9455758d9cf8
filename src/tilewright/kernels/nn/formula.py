"""Small formulas as text: ``"gelu(x*2 + y)"``, ``"where(q >= k, score, -inf)"``.

A formula is parsed by Python's ``ast`` and never evaluated as code: only names that are given, numbers,
``inf`` and ``pi``, arithmetic, comparisons, ``and or not``, and calls of :data:`FUNCTIONS` are let through. It is
turned into an expression (:func:`expression`) or, for independent references, computed by NumPy
(:func:`numpy_value`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INDEX, INTEGERS, ExprLike, compare, const, logic, wrap
from tilewright.kernels.expression.numerics import erf
from tilewright.kernels.nn.activation import SQRT_2_OVER_PI, SQRT_HALF, activate
from tilewright.kernels.nn.dims import broadcast, stretched, value

Array = np.ndarray[Any, Any]

FUNCTIONS = (
    "abs", "exp", "log", "log1p", "pow", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "maximum", "minimum",
    "where", "relu", "gelu", "gelu_tanh", "silu", "sigmoid",
)  # fmt: skip
"""What a formula may call. ``where(condition, a, b)``; ``gelu`` is the exact one."""

_ARGUMENTS = {"maximum": 2, "minimum": 2, "pow": 2, "where": 3}
_CONSTANTS = {"inf": math.inf, "pi": math.pi}
_LONGEST = 2000


@lru_cache(maxsize=256)
def names(op: str, text: str) -> frozenset[str]:
    """The names that a formula reads. Raises ``UsageError`` for a text that is none."""
    if len(text) > _LONGEST:
        raise UsageError(f"{op}: a formula of {len(text)} characters", f"At most {_LONGEST} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(
            f"{op}: {text!r} is not a formula ({error})", f"Write an expression such as {_EXAMPLE}"
        ) from None
    _check(op, text, tree)
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called}
    return frozenset(found - set(_CONSTANTS))


_EXAMPLE = "gelu(x*2 + y)"
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


def _check(op: str, text: str, tree: ast.expr) -> None:
    for n in ast.walk(tree):
        wrong = ""
        if isinstance(n, ast.Call):
            if not isinstance(n.func, ast.Name) or n.func.id not in FUNCTIONS:
                wrong = f"calls {ast.unparse(n.func)}"
            elif n.keywords or len(n.args) != _ARGUMENTS.get(n.func.id, 1):
                wrong = f"calls {n.func.id} with {len(n.args) + len(n.keywords)} arguments"
        elif isinstance(n, ast.Constant):
            if isinstance(n.value, bool) or not isinstance(n.value, (int, float)):
                wrong = f"holds {n.value!r}"
        elif isinstance(n, ast.BinOp):
            if type(n.op) not in _BINARY:
                wrong = f"uses {ast.unparse(n)}"
            elif isinstance(n.op, ast.Pow) and not _whole_power(n.right):
                wrong = f"raises to {ast.unparse(n.right)}, and ** takes a whole number from 1 to 8: write pow(a, b)"
        elif isinstance(n, ast.Compare):
            if len(n.ops) != 1 or type(n.ops[0]) not in _COMPARE:
                wrong = f"compares as in {ast.unparse(n)}"
        elif isinstance(n, ast.UnaryOp):
            wrong = f"uses {ast.unparse(n)}" if isinstance(n.op, ast.Invert) else ""
        elif not isinstance(
            n, (ast.Name, ast.BoolOp, ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.expr_context)
        ):
            wrong = f"uses {ast.unparse(n)}"
        if wrong:
            raise UsageError(
                f"{op}: the formula {text!r} {wrong}",
                f"It may use + - * / // % **, comparisons, and or not, and {', '.join(FUNCTIONS)}",
            )


def _whole_power(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and isinstance(e.value, int) and 1 <= e.value <= 8


def _parsed(op: str, text: str, known: Mapping[str, object]) -> ast.expr:
    unknown = sorted(names(op, text) - set(known))
    if unknown:
        raise UsageError(
            f"{op}: the formula {text!r} names {', '.join(unknown)}", f"It may name {', '.join(known)}, inf and pi"
        )
    return ast.parse(text.strip(), mode="eval").body


def expression(op: str, text: str, known: Mapping[str, te.Expr], dtype: str) -> te.Expr:
    """The formula over expressions, as a value of ``dtype``. Raises ``UsageError``.

    Axes and whole numbers stay whole among themselves and become ``dtype`` beside reals.
    """
    tree = _parsed(op, text, known)
    try:
        return _real(_build(tree, known, dtype), dtype)
    except TypeError as error:  # what the language itself refuses
        raise UsageError(f"{op}: the formula {text!r} does not work ({error})", f"Write it as in {_EXAMPLE}") from None


def _is_whole(v: ExprLike) -> bool:
    return (v.dtype == INDEX or v.dtype in INTEGERS) if isinstance(v, te.Expr) else isinstance(v, int)


def _real(v: ExprLike, dtype: str) -> te.Expr:
    return te.cast(v, dtype) if isinstance(v, te.Expr) else const(v, dtype)


def _build(e: ast.expr, known: Mapping[str, te.Expr], dtype: str) -> ExprLike:
    def both(a: ExprLike, b: ExprLike) -> tuple[ExprLike, ExprLike]:
        return (a, b) if _is_whole(a) and _is_whole(b) else (_real(a, dtype), _real(b, dtype))

    def at(n: ast.expr) -> ExprLike:
        return _build(n, known, dtype)

    if isinstance(e, ast.Name):
        return known[e.id] if e.id in known else _CONSTANTS[e.id]
    if isinstance(e, ast.Constant):
        assert isinstance(e.value, (int, float))
        return e.value
    if isinstance(e, ast.BinOp):
        return _arithmetic(_BINARY[type(e.op)], *both(at(e.left), at(e.right)), dtype=dtype)
    if isinstance(e, ast.UnaryOp):
        v = at(e.operand)
        if isinstance(e.op, ast.Not):
            return logic("not", wrap(v))
        return v if isinstance(e.op, ast.UAdd) else -v
    if isinstance(e, ast.Compare):
        a, b = both(at(e.left), at(e.comparators[0]))
        return compare(_COMPARE[type(e.ops[0])], wrap(a), wrap(b))
    if isinstance(e, ast.BoolOp):
        word = "and" if isinstance(e.op, ast.And) else "or"
        out = wrap(at(e.values[0]))
        for part in e.values[1:]:
            out = logic(word, out, wrap(at(part)))
        return out
    assert isinstance(e, ast.Call)
    assert isinstance(e.func, ast.Name)
    return _call(e.func.id, [at(a) for a in e.args], both, dtype)


def _arithmetic(op: str, a: ExprLike, b: ExprLike, dtype: str) -> ExprLike:
    if op == "div":
        a, b = _real(a, dtype), _real(b, dtype)
    if op == "pow":
        return _power(a, b)
    result: ExprLike = _OPERATORS[op](a, b)
    return result


def _power(a: ExprLike, b: ExprLike) -> ExprLike:
    exponent = b.value if isinstance(b, te.Expr) else b
    assert isinstance(exponent, (int, float))
    return a ** int(exponent) if isinstance(a, te.Expr) else float(a) ** int(exponent)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
}  # fmt: skip


def _call(
    name: str, args: list[ExprLike], both: Callable[[ExprLike, ExprLike], tuple[ExprLike, ExprLike]], dtype: str
) -> ExprLike:
    if name == "where":
        return te.select(wrap(args[0]), *both(args[1], args[2]))
    if name in ("maximum", "minimum"):
        a, b = both(args[0], args[1])
        return te.maximum(a, b) if name == "maximum" else te.minimum(a, b)
    if name == "pow":
        return te.pow(_real(args[0], dtype), _real(args[1], dtype))
    (x,) = args
    if name == "abs":
        return te.abs(x if isinstance(x, te.Expr) and _is_whole(x) else _real(x, dtype))
    v = _real(x, dtype)
    if name == "sigmoid":
        return 1.0 / (1.0 + te.exp(-v))
    if name in ("relu", "gelu", "gelu_tanh", "silu"):
        return activate(v, name)  # type: ignore[arg-type]
    plain: te.Expr = getattr(te, name)(v)
    return plain


# --------------------------------------------------------------------------- NumPy


def numpy_value(op: str, text: str, known: Mapping[str, Array]) -> Array:
    """The formula computed by NumPy on arrays that stretch to each other. Raises ``UsageError``."""
    tree = _parsed(op, text, known)
    with np.errstate(all="ignore"):
        return np.asarray(_numpy(tree, known))


def _numpy(e: ast.expr, known: Mapping[str, Array]) -> Any:
    def at(n: ast.expr) -> Any:
        return _numpy(n, known)

    if isinstance(e, ast.Name):
        return known[e.id] if e.id in known else _CONSTANTS[e.id]
    if isinstance(e, ast.Constant):
        return e.value
    if isinstance(e, ast.BinOp):
        return _NUMPY[_BINARY[type(e.op)]](_number(at(e.left)), _number(at(e.right)))
    if isinstance(e, ast.UnaryOp):
        v = at(e.operand)
        return np.logical_not(v) if isinstance(e.op, ast.Not) else v if isinstance(e.op, ast.UAdd) else -v
    if isinstance(e, ast.Compare):
        return _NUMPY[_COMPARE[type(e.ops[0])]](at(e.left), at(e.comparators[0]))
    if isinstance(e, ast.BoolOp):
        fold = np.logical_and if isinstance(e.op, ast.And) else np.logical_or
        return fold.reduce(np.broadcast_arrays(*map(at, e.values)))
    assert isinstance(e, ast.Call)
    assert isinstance(e.func, ast.Name)
    return _NUMPY[e.func.id](*map(at, e.args))


def _number(v: Any) -> Any:
    """A condition as 0 or 1, as expressions have it."""
    return v.astype(np.float32) if np.asarray(v).dtype.kind == "b" else v


def _as(like: Any, values: Array) -> Any:
    """``values`` in the type of ``like``, where that is real."""
    kind = np.asarray(like).dtype
    return values.astype(kind) if kind.kind == "f" else values


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
    "mod": np.mod, "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "erf": lambda x: _as(x, erf(x)), "floor": np.floor,
    "sin": np.sin, "cos": np.cos, "log1p": np.log1p,
    "maximum": np.maximum, "minimum": np.minimum, "where": np.where, "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: _as(x, x * (0.5 + 0.5 * erf(x * SQRT_HALF))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))),
    "silu": lambda x: x / (1 + np.exp(-x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


# --------------------------------------------------------------------------- of every element


def elementwise(fn: str, **inputs: te.TensorRef) -> te.TensorRef:
    """The formula ``fn`` of every element of named inputs: ``nn.elementwise("gelu(x*2 + y)", x=a, y=b)``.

    The inputs' shapes stretch to the largest one, as in NumPy. 16-bit reals are computed in float32. A formula has
    numbers, ``inf``, ``pi``, the inputs' names, arithmetic, comparisons, ``and or not``, and the functions ``abs exp
    log log1p pow sqrt rsqrt sin cos tanh erf floor maximum minimum where relu gelu gelu_tanh silu sigmoid``. Raises
    ``UsageError`` for another formula and for shapes that do not stretch.
    """
    if not inputs:
        raise UsageError("elementwise: no inputs", "Name at least one, as in x=...")
    shape: tuple[int, ...] = ()
    for ref in inputs.values():
        longer, other = (ref.shape, shape) if len(ref.shape) >= len(shape) else (shape, ref.shape)
        padded = (*(1 for _ in range(len(longer) - len(other))), *other)
        shape = tuple(b if a == 1 else a for a, b in zip(longer, padded, strict=True))
    for name, ref in inputs.items():
        broadcast("elementwise", name, ref.shape, shape)
    element = value(next(iter(inputs.values()))[(0,) * len(next(iter(inputs.values())).shape)])

    def point(*i: te.Expr) -> te.Expr:
        known = {name: te.cast(value(stretched(ref, i)), element.dtype) for name, ref in inputs.items()}
        return expression("elementwise", fn, known, element.dtype)

    return te.compute(shape, point)


def add(input: te.TensorRef, other: te.TensorRef, *, alpha: float = 1.0) -> te.TensorRef:
    """``input + alpha * other`` of every element; the shapes stretch as in NumPy.

    Raises ``UsageError`` for shapes that do not stretch.
    """
    return elementwise("x + y" if alpha == 1 else f"x + {alpha!r} * y", x=input, y=other)


def mul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``input * other`` of every element; the shapes stretch as in NumPy.

    Raises ``UsageError`` for shapes that do not stretch.
    """
    return elementwise("x * y", x=input, y=other)

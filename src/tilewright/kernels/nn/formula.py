"""Small formulas as text: ``"gelu(x*2 + y)"``, ``"where(q >= k, score, -inf)"``.

A formula is parsed by Python's ``ast`` and never evaluated as code. Only the given names, numbers, ``inf`` and ``pi``,
arithmetic, comparisons, ``and or not``, and calls of :data:`FUNCTIONS` are accepted. :func:`expression` turns a formula
into an expression; :func:`numpy_value` computes it by NumPy, for independent references.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache, partial, reduce
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
"""Functions that a formula may call. ``where(condition, a, b)``; ``gelu`` is the exact one."""

_ARGUMENTS = {"maximum": 2, "minimum": 2, "pow": 2, "where": 3}
_CONSTANTS = {"inf": math.inf, "pi": math.pi}
_LONGEST = 2000


@lru_cache(maxsize=256)
def names(op: str, text: str) -> frozenset[str]:
    """The names that a formula reads. Raises ``UsageError`` for a text that is not a formula."""
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
    ast.Pow: "power",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.Not: "not", ast.UAdd: "pos", ast.USub: "neg"}
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


def _computed(e: ast.expr, known: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Evaluates a formula over ``known`` values, with ``functions`` for arithmetic, comparisons and calls."""

    def at(n: ast.expr) -> Any:
        return _computed(n, known, functions)

    if isinstance(e, ast.Name):
        return known[e.id] if e.id in known else _CONSTANTS[e.id]
    if isinstance(e, ast.Constant):
        return e.value
    if isinstance(e, ast.BinOp):
        return functions[_BINARY[type(e.op)]](at(e.left), at(e.right))
    if isinstance(e, ast.UnaryOp):
        return functions[_UNARY[type(e.op)]](at(e.operand))
    if isinstance(e, ast.Compare):
        return functions[_COMPARE[type(e.ops[0])]](at(e.left), at(e.comparators[0]))
    if isinstance(e, ast.BoolOp):
        return reduce(functions["and" if isinstance(e.op, ast.And) else "or"], map(at, e.values))
    assert isinstance(e, ast.Call)
    assert isinstance(e.func, ast.Name)
    return functions[e.func.id](*map(at, e.args))


# --------------------------------------------------------------------------- expressions


def expression(op: str, text: str, known: Mapping[str, te.Expr], dtype: str) -> te.Expr:
    """The formula as an expression of ``dtype``. Raises ``UsageError``.

    Axes and whole numbers stay whole among themselves; beside reals they become ``dtype``.
    """
    tree = _parsed(op, text, known)
    try:
        return _real(_computed(tree, known, _expressions(dtype)), dtype)
    except TypeError as error:  # errors of the expression language itself
        raise UsageError(f"{op}: the formula {text!r} does not work ({error})", f"Write it as in {_EXAMPLE}") from None


def _is_whole(v: ExprLike) -> bool:
    return (v.dtype == INDEX or v.dtype in INTEGERS) if isinstance(v, te.Expr) else isinstance(v, int)


def _real(v: ExprLike, dtype: str) -> te.Expr:
    return te.cast(v, dtype) if isinstance(v, te.Expr) else const(v, dtype)


@lru_cache
def _expressions(dtype: str) -> Mapping[str, Callable[..., ExprLike]]:
    """Functions on expressions and numbers, by their names in formulas."""

    def alike(fn: Callable[[Any, Any], ExprLike], a: ExprLike, b: ExprLike) -> ExprLike:
        return fn(a, b) if _is_whole(a) and _is_whole(b) else reals(fn, a, b)

    def reals(fn: Callable[..., ExprLike], *values: ExprLike) -> ExprLike:
        return fn(*(_real(v, dtype) for v in values))

    def compared(name: str, a: ExprLike, b: ExprLike) -> ExprLike:
        return alike(lambda a, b: compare(name, wrap(a), wrap(b)), a, b)

    def absolute(x: ExprLike) -> ExprLike:
        return te.abs(x if isinstance(x, te.Expr) and _is_whole(x) else _real(x, dtype))

    both = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
        "mod": operator.mod, "power": _power, "maximum": te.maximum, "minimum": te.minimum,
    }  # fmt: skip
    real = {n: getattr(te, n) for n in ("exp", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor")}
    real |= {n: partial(activate, activation=n) for n in ("relu", "gelu", "gelu_tanh", "silu", "sigmoid")}
    return {
        **{n: partial(alike, fn) for n, fn in both.items()},
        **{n: partial(reals, fn) for n, fn in {**real, "div": operator.truediv, "pow": te.pow}.items()},
        **{n: partial(compared, n) for n in _COMPARE.values()},
        **{n: lambda *v, n=n: logic(n, *map(wrap, v)) for n in ("not", "and", "or")},
        "pos": lambda v: v, "neg": operator.neg, "abs": absolute,
        "where": lambda c, a, b: alike(partial(te.select, wrap(c)), a, b),
    }  # fmt: skip


def _power(a: ExprLike, b: ExprLike) -> ExprLike:
    exponent = b.value if isinstance(b, te.Expr) else b
    assert isinstance(exponent, (int, float))
    return a ** int(exponent) if isinstance(a, te.Expr) else float(a) ** int(exponent)


# --------------------------------------------------------------------------- NumPy


def numpy_value(op: str, text: str, known: Mapping[str, Array]) -> Array:
    """The formula computed by NumPy on arrays that broadcast to each other. Raises ``UsageError``."""
    tree = _parsed(op, text, known)
    with np.errstate(all="ignore"):
        return np.asarray(_computed(tree, known, _NUMPY))


def _of_numbers(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """``fn`` with conditions converted to 0 or 1, as expressions convert them."""

    def number(v: Any) -> Any:
        return v.astype(np.float32) if np.asarray(v).dtype.kind == "b" else v

    return lambda a, b: fn(number(a), number(b))


def _as(like: Any, values: Array) -> Any:
    """``values`` in the type of ``like`` if that type is real."""
    kind = np.asarray(like).dtype
    return values.astype(kind) if kind.kind == "f" else values


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": _of_numbers(np.add), "sub": _of_numbers(np.subtract), "mul": _of_numbers(np.multiply),
    "div": _of_numbers(np.divide), "floordiv": _of_numbers(np.floor_divide), "mod": _of_numbers(np.mod),
    "power": _of_numbers(np.power), "pos": lambda x: x, "neg": operator.neg,
    "not": np.logical_not, "and": np.logical_and, "or": np.logical_or,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "pow": np.power,
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

    The inputs are broadcast to the largest shape, as in NumPy. 16-bit reals are computed in float32. A formula has
    numbers, ``inf``, ``pi``, the inputs' names, arithmetic, comparisons, ``and or not``, and the functions ``abs exp
    log log1p pow sqrt rsqrt sin cos tanh erf floor maximum minimum where relu gelu gelu_tanh silu
    sigmoid``. Raises ``UsageError`` for another formula and for shapes that do not broadcast.
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
    """``input + alpha * other`` of every element; the shapes are broadcast as in NumPy.

    Raises ``UsageError`` for shapes that do not broadcast.
    """
    return elementwise("x + y" if alpha == 1 else f"x + {alpha!r} * y", x=input, y=other)


def mul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``input * other`` of every element; the shapes are broadcast as in NumPy.

    Raises ``UsageError`` for shapes that do not broadcast.
    """
    return elementwise("x * y", x=input, y=other)

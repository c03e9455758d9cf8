"""Operators: named functions from sizes and attributes to a tensor expression.

>>> from tilewright import operator, te
>>> @operator
... def sqdist(m: int, n: int, k: int):
...     x, y = te.input("x", (m, k)), te.input("y", (n, k))
...     return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))
>>> sqdist.workload(m=4, n=4, k=8).label
'sqdist m=4 n=4 k=8'

Parameters without a default are sizes (whole numbers of at least 1, in call order); those with one
are attributes. ``dtype`` is an attribute of every operator, declared or not.
"""

from __future__ import annotations

import difflib
import inspect
import math
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

from tilewright.core import OperatorError, TensorSpec, TilewrightError, UsageError, Value, Workload, cached_property
from tilewright.kernels import te
from tilewright.kernels.expr import DTYPES

__all__ = ["Operator", "find_numpy", "get_operator", "load_operator", "operator", "operator_names"]

Shape = tuple[int, ...]
Define = Callable[..., te.TensorRef]
Infer = Callable[..., Mapping[str, Value]]
DEFAULT_DTYPES = ("float32", "float64")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type, its default (``None`` for a size), and the values it may take."""

    name: str
    kind: type
    default: Value | None = None
    choices: tuple[Value, ...] = ()

    def coerce(self, op: str, given: object) -> Value:
        """A value of this parameter's type from a value or a text. Raises ``UsageError``."""
        value = _convert(given, self.kind)
        if value is None:
            raise UsageError(f"{op}: {self.name}={given} is not {_KINDS[self.kind]}", f"Write {self.hint}")
        if self.default is None and isinstance(value, int) and value < 1:
            raise UsageError(f"{op}: {self.name}={value} is not positive", "Sizes are whole numbers of at least 1")
        if self.choices and value not in self.choices:
            names = [str(c) for c in self.choices]
            raise UsageError(
                f"{op}: {self.name} cannot be {value!r}",
                f"{_nearest(str(value), names)}Use one of {', '.join(names)}",
            )
        return value

    @property
    def hint(self) -> str:
        """How to write it."""
        if self.choices:
            return f"{self.name}= one of {', '.join(map(str, self.choices))}"
        return f"{self.name}={ {bool: 'true or false', int: '512', float: '0.5', str: 'a word'}[self.kind] }"


_KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _convert(given: object, kind: type) -> Value | None:
    if hasattr(given, "item") and not isinstance(given, (bool, int, float, str)):
        given = given.item()  # numpy's scalars
    if kind is str:
        return given if isinstance(given, str) else None
    if isinstance(given, str):
        text = given.strip().lower()
        if kind is bool:
            return True if text in _TRUE else False if text in _FALSE else None
        try:
            given = int(text) if kind is int else float(text)
        except ValueError:
            return None
    if kind is bool:
        return bool(given) if isinstance(given, (bool, int)) and given in (0, 1) else None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        return None
    if kind is int:
        return int(given) if given == int(given) else None
    return float(given)


@dataclass(frozen=True, eq=False)
class Operator:
    """A named family of workloads.

    ``sizes``: names of the whole-number parameters, in order; ``attributes``: the others and their
    defaults, ``dtype`` always among them. ``numpy(*inputs, **params)``: the same computation by
    other means, or ``None``. ``infer(shapes, **attributes)``: every parameter from the inputs'
    shapes, or ``None``. ``example``: parameters of a small instance.
    """

    name: str
    define: Define = field(repr=False)
    parameters: tuple[Parameter, ...]
    dtypes: tuple[str, ...] = DEFAULT_DTYPES
    numpy: Callable[..., Any] | None = field(default=None, repr=False)
    infer: Callable[..., dict[str, Value]] | None = field(default=None, repr=False)
    example: Mapping[str, Value] = field(default_factory=dict)
    doc: str = field(default="", repr=False)
    takes_dtype: bool = False

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the parameters that have no default."""
        return tuple(p.name for p in self.parameters if p.default is None)

    @property
    def attributes(self) -> dict[str, Value]:
        """Names and defaults of the others."""
        return {p.name: p.default for p in self.parameters if p.default is not None}

    @cached_property
    def _by_name(self) -> dict[str, Parameter]:
        return {p.name: p for p in self.parameters}

    def params(self, **given: object) -> dict[str, Value]:
        """Every parameter, converted and checked, defaults filled in. Raises ``UsageError``."""
        for name in given:
            if name not in self._by_name:
                raise UsageError(
                    f"{self.name} has no parameter {name!r}",
                    f"{_nearest(name, self._by_name)}It takes {', '.join(self._by_name)}",
                )
        missing = [s for s in self.sizes if s not in given]
        if missing:
            raise UsageError(
                f"{self.name} needs {' and '.join(missing)}",
                f"Give all sizes: {' '.join(f'{s}=...' for s in self.sizes)}",
            )
        out: dict[str, Value] = {}
        for p in self.parameters:
            if p.name in given:
                out[p.name] = p.coerce(self.name, given[p.name])
            elif p.default is not None:
                out[p.name] = p.default
        return out

    def workload(self, **given: object) -> Workload:
        """The computation for these parameters (values, or texts as on a command line).

        Raises ``UsageError`` for parameters that do not fit and ``OperatorError`` where the
        operator's own function fails.
        """
        params = self.params(**given)
        dtype = str(params["dtype"])
        arguments = {k: v for k, v in params.items() if k != "dtype" or self.takes_dtype}
        try:
            program, labels = te.trace(lambda: self.define(**arguments), dtype)
        except UsageError:
            raise
        except Exception as error:
            raise _blame(error, self.define.__code__.co_filename, self.name) from error
        inputs = zip(program.inputs, labels, strict=True)
        text = program.dumps()
        return Workload(
            op=self.name,
            params=tuple(params.items()),
            defaults=tuple(self.attributes.items()),
            program=text,
            inputs=tuple(TensorSpec(label, t.shape, t.dtype) for t, label in inputs),
            output=TensorSpec("out", program.output.shape, program.output.dtype),
            flops=program.flops,
            precision="tf32" if '"round_tf32"' in text else "ieee",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> te.TensorRef:
        """The plain function: a tensor expression, to be used inside another operator, in its dtype."""
        if self.takes_dtype and "dtype" not in inspect.signature(self.define).bind_partial(*args, **kwargs).arguments:
            kwargs["dtype"] = te.default_dtype()
        return self.define(*args, **kwargs)


def _nearest(name: str, known: typing.Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f"Did you mean {close[0]}? " if close else ""


# --------------------------------------------------------------------------- the decorator


@overload
def operator(define: Define) -> Operator: ...
@overload
def operator(
    *,
    name: str | None = ...,
    numpy: Callable[..., Any] | None = ...,
    infer: Infer | None = ...,
    example: Mapping[str, Value] | None = ...,
    dtypes: Sequence[str] = ...,
) -> Callable[[Define], Operator]: ...
def operator(
    define: Define | None = None,
    *,
    name: str | None = None,
    numpy: Callable[..., Any] | None = None,
    infer: Infer | None = None,
    example: Mapping[str, Value] | None = None,
    dtypes: Sequence[str] = DEFAULT_DTYPES,
) -> Operator | Callable[[Define], Operator]:
    """Make an operator of a function that returns a ``te.compute``.

    ``numpy(*inputs, **attributes)``: an independent implementation on NumPy arrays.
    ``infer(shapes, **attributes)``: sizes (and attributes that follow) from the inputs' shapes; it
    raises ``ValueError`` for shapes that do not fit. ``example``: parameters of a small instance.
    """

    def decorate(fn: Define) -> Operator:
        return _make(fn, name or fn.__name__, numpy, infer, example or {}, tuple(dtypes))

    return decorate if define is None else decorate(define)


def _make(
    fn: Define,
    name: str,
    numpy: Callable[..., Any] | None,
    infer: Infer | None,
    example: Mapping[str, Value],
    dtypes: tuple[str, ...],
) -> Operator:
    unknown = [d for d in dtypes if d not in DTYPES]
    if unknown or not dtypes:
        raise OperatorError(f"{name} has unknown dtype {', '.join(unknown)}", f"Use {', '.join(DTYPES)}")
    parameters = _parameters(fn, name, dtypes)
    takes_dtype = "dtype" in inspect.signature(fn).parameters
    own = {p.name for p in parameters if p.default is not None and p.name != "dtype"}
    op = Operator(
        name,
        fn,
        parameters,
        dtypes,
        example=dict(example),
        doc=inspect.getdoc(fn) or "",
        takes_dtype=takes_dtype,
    )

    def run_numpy(*inputs: Any, **params: Any) -> Any:
        assert numpy is not None
        return numpy(*inputs, **{k: v for k, v in params.items() if k in own})

    def run_infer(shapes: Sequence[Shape], **given: Any) -> dict[str, Value]:
        assert infer is not None
        attributes = {p.name: p.coerce(name, given[p.name]) for p in parameters if p.name in given}
        plain = {k: v for k, v in attributes.items() if k in own}
        try:
            found = infer([tuple(map(int, s)) for s in shapes], **plain)
        except TilewrightError:
            raise
        except ValueError as error:  # a shape of another rank fails to unpack
            shown = " and ".join("x".join(map(str, s)) or "()" for s in shapes)
            raise UsageError(f"{name} cannot take inputs of shape {shown} ({error})", _shapes_of(op)) from error
        return op.params(**{**attributes, **found})

    return replace(op, numpy=run_numpy if numpy else None, infer=run_infer if infer else None)


def _shapes_of(op: Operator) -> str:
    if not op.example:
        return "See the operator's definition"
    inputs = op.workload(**op.example).inputs
    shown = ", ".join(f"{s.name} {s.shape}" for s in inputs)
    return f"For example {' '.join(f'{k}={v}' for k, v in op.example.items())} takes {shown}"


def _parameters(fn: Define, name: str, dtypes: tuple[str, ...]) -> tuple[Parameter, ...]:
    try:
        hints = typing.get_type_hints(fn)
    except Exception:  # an annotation for type checkers only; coercion then follows the defaults
        hints = {}
    out: list[Parameter] = []
    default_dtype: Value = dtypes[0]
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise OperatorError(f"{name} takes {p}", "Name each size and attribute as an ordinary parameter")
        hint, default = hints.get(p.name), p.default
        if default is p.empty:
            if hint not in (None, int):
                raise OperatorError(
                    f"{name}: {p.name} has no default, so it is a size, but its type is {hint}",
                    "Annotate sizes as int, and give attributes a default",
                )
            out.append(Parameter(p.name, int))
        elif p.name == "dtype":
            default_dtype = default
        else:
            out.append(_attribute(name, p.name, hint, default))
    if default_dtype not in dtypes:
        raise OperatorError(f"{name}: dtype={default_dtype!r} is not among its dtypes", "Add it to dtypes=")
    return (*out, Parameter("dtype", str, default_dtype, dtypes))


def _attribute(op: str, name: str, hint: Any, default: object) -> Parameter:
    if not isinstance(default, (bool, int, float, str)):
        raise OperatorError(f"{op}: {name} has the default {default!r}", "Use true/false, a number or a text")
    if typing.get_origin(hint) is Literal:
        return Parameter(name, type(default), default, typing.get_args(hint))
    kind = hint if hint in _KINDS else type(default)
    value = _convert(default, kind)
    if value is None:
        raise OperatorError(f"{op}: {name}={default!r} is not {_KINDS[kind]}")
    return Parameter(name, kind, value)


# --------------------------------------------------------------------------- blame


def _blame(error: BaseException, filename: str, what: str) -> OperatorError:
    """An ``OperatorError`` that names the line of ``filename`` where an error came from."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    line = lines[-1] if lines else None
    if isinstance(error, SyntaxError) and error.filename == filename:
        line = error.lineno
    where = f"{filename}:{line}" if line else filename
    if isinstance(error, TilewrightError):
        return OperatorError(f"{what} ({where}): {error.message}", error.mend)
    text = error.msg if isinstance(error, SyntaxError) else str(error).partition("\n")[0]
    cause = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return OperatorError(f"{what} ({where}) raised {cause}", "Correct that line and try again")


# --------------------------------------------------------------------------- look-up


def operator_names() -> tuple[str, ...]:
    """Names of the built-in operators."""
    from tilewright.kernels.operators import OPERATORS

    return OPERATORS


def get_operator(name: str) -> Operator:
    """A built-in operator by name, or a user's by ``FILE.py:function``. Raises ``UsageError``."""
    from tilewright.kernels.operators import find

    if ":" in name or name.endswith(".py"):
        return load_operator(name)
    if name not in operator_names():
        raise UsageError(
            f"unknown operator {name!r}",
            f"{_nearest(name, operator_names())}Built in are {', '.join(operator_names())}; "
            "your own is FILE.py:function",
        )
    return find(name)


def load_operator(reference: str) -> Operator:
    """The operator ``FILE.py:function`` of a user's file; decorated or a plain function."""
    from tilewright.kernels.operator_file import load

    return load(reference)


def find_numpy(workload: Workload) -> Callable[..., Any] | None:
    """The NumPy implementation of a workload, called with its inputs; ``None`` where there is none.

    A user's operator that bears a built-in name but computes something else has none.
    """
    if workload.op not in operator_names():
        return None
    op = get_operator(workload.op)
    params = dict(workload.params)
    if op.numpy is None:
        return None
    try:
        if op.workload(**params).key != workload.key:
            return None
    except TilewrightError:
        return None
    run = op.numpy
    return lambda *inputs: run(*inputs, **params)

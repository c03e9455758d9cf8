"""Operators: named functions from sizes and attributes to a tensor expression.

>>> from tilewright import operator, te
>>> @operator
... def sqdist(m: int, n: int, k: int):
...     x, y = te.input("x", (m, k)), te.input("y", (n, k))
...     return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))
>>> sqdist.workload(m=4, n=4, k=8).label
'sqdist m=4 n=4 k=8'

Parameters without a default are sizes (whole numbers of at least 1, or shapes; in call order). Parameters with a
default are attributes; ``parameters.py`` lists the kinds. Every operator has ``dtype``, declared or not. It also has
``constant``: comma-separated names of inputs that are given once, before the first call (weights), so that kernels may
rearrange them.
"""

from __future__ import annotations

import inspect
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from tilewright.core import (
    EXACT,
    IMPLICIT,
    TF32X3,
    OperatorError,
    TensorSpec,
    TilewrightError,
    UsageError,
    Value,
    Workload,
    cached_property,
)
from tilewright.dtypes import DTYPES
from tilewright.errors import nearest
from tilewright.extent import Extent, symbolic_sizes
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program, output_specs
from tilewright.kernels.parameters import Argument, Kind, Parameter, parameter
from tilewright.kernels.ranges import at
from tilewright.size_ranges import params_at, ranges_in

Define = Callable[..., te.TensorRef | tuple[te.TensorRef, ...]]
Infer = Callable[..., Mapping[str, Value]]
SHARES = (0.0, 0.3, 0.7, 1.0)
"""Relative positions within a range at which the symbolic program is compared with the program of that size."""
DEFAULT_DTYPES = ("float32", "float64")


@dataclass(frozen=True, eq=False)
class Operator:
    """A named computation on tensors, which sizes and attributes turn into a workload.

    ``sizes``: names of the parameters without a default, in order. ``attributes``: names and defaults of the other
    parameters, always including ``dtype``. ``numpy(*inputs, **params)``: the computation in NumPy, or ``None``.
    ``infer(shapes, **attributes)``: returns every parameter for the inputs' shapes; may be ``None``. ``told``: sizes
    that no shape shows, which a caller must pass. ``example``: parameters of a small instance. ``file``: the
    ``FILE.py:function`` from which the operator was loaded, if any.
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
    told: tuple[str, ...] = ()
    file: str | None = field(default=None, compare=False)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the parameters that have no default."""
        return tuple(p.name for p in self.parameters if p.default is None)

    @property
    def attributes(self) -> dict[str, Value]:
        """Names and defaults of the parameters that have a default."""
        return {p.name: p.default for p in self.parameters if p.default is not None}

    @cached_property
    def _by_name(self) -> dict[str, Parameter]:
        return {p.name: p for p in self.parameters}

    def params(self, **given: object) -> dict[str, Value]:
        """Every parameter, converted and checked, defaults filled in. Raises ``UsageError``."""
        return self._params(given)

    def _params(self, given: Mapping[str, object], least: int = 1) -> dict[str, Value]:
        self.check_names(given)
        missing = [s for s in self.sizes if s not in given]
        if missing:
            raise UsageError(
                f"{self.name} needs {' and '.join(missing)}",
                f"Give all sizes: {' '.join(f'{s}=...' for s in self.sizes)}",
            )
        out: dict[str, Value] = {}
        for p in self.parameters:
            if p.name in given:
                out[p.name] = p.coerce(self.name, given[p.name], least)
            elif p.default is not None:
                out[p.name] = p.default
        return out

    def check_names(self, given: typing.Iterable[str], others: Sequence[str] = ()) -> None:
        """Raises ``UsageError`` for an unknown parameter name. ``others``: further names that the hint may suggest."""
        for name in given:
            if name not in self._by_name:
                raise UsageError(
                    f"{self.name} has no parameter {name!r}",
                    f"{nearest(name, (*others, *self._by_name))}It takes {', '.join(self._by_name)}",
                )

    def arguments(self, params: Mapping[str, Value]) -> dict[str, Argument]:
        """The arguments of the operator's function for parameters that :meth:`params` returned."""
        wanted = {k: v for k, v in params.items() if k not in IMPLICIT or (k == "dtype" and self.takes_dtype)}
        return {k: self._by_name[k].argument(v) for k, v in wanted.items()}

    def workload(self, **given: object) -> Workload:
        """The computation for these parameters (values, or texts as on a command line).

        Raises ``UsageError`` for parameters that do not fit, and ``OperatorError`` if the operator's own function
        fails.
        """
        params = self.params(**given)
        made = self._workload(params)
        extents = symbolic_sizes(n for numbers in ranges_in(params).values() for n in numbers)
        reason = self._varies_otherwise(made, extents, params) if extents else ""
        if reason:
            names = " and ".join(extents)
            raise UsageError(f"{self.name}: {names} cannot be a range: {reason}", "Tune it for each size")
        return made

    def _varies_otherwise(self, made: Workload, extents: Mapping[str, Extent], params: Mapping[str, Value]) -> str:
        """Reason why symbolic sizes affect more than lengths of axes and numbers in expressions; empty if they do
        not."""
        for s in made.inputs:
            if s.constant and any(isinstance(n, Extent) for n in s.shape):
                return f"{s.name}, which has it, is constant"
        other = "the program is another one for some of the sizes"
        if extents.keys() - made.ranges.keys():
            return "no tensor has an axis of it"
        tried = [{n: e.low for n, e in extents.items()}]
        tried += [{n: max(e.low + round(s * (e.high - e.low)), 2) for n, e in extents.items()} for s in SHARES]
        for sizes in tried:
            try:
                one = self._workload(params_at(params, sizes))
            except UsageError as error:
                shown = " ".join(f"{n}={size}" for n, size in sizes.items())
                return f"for {shown}, {error.message.removeprefix(f'{self.name}: ')}"
            # An axis of one element may be broadcast, which yields a different program.
            if 1 not in sizes.values() and at(made, sizes).program != one.program:
                return other
        return ""

    def _workload(self, params: Mapping[str, Value]) -> Workload:
        dtype = str(params["dtype"])
        arguments = self.arguments(params)
        constants = [c.strip() for c in str(params["constant"]).split(",") if c.strip()]
        try:
            program, labels = te.trace(lambda: self.define(**arguments), dtype, constants)
        except UsageError as error:
            # The message of a function of ``nn`` names that function; the operator that called it may have another
            # name.
            named = error.message if self.name in error.message else f"{self.name}: {error.message}"
            raise UsageError(named, error.hint) from error
        except Exception as error:
            code = inspect.unwrap(self.define).__code__
            raise blame(error, code.co_filename, self.name, code.co_firstlineno) from error
        return as_workload(self.name, params, self.attributes, program, labels)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.define)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function: a tensor expression, or several, for use inside another operator and in its dtype."""
        if any(hasattr(a, "dtype") and not isinstance(a, te.TensorRef) and getattr(a, "shape", ()) for a in args):
            raise UsageError(
                f"{self.name} was called with arrays, but takes sizes: it defines the computation",
                f"tilewright.autotune({self.name})(...) tunes it and takes arrays, as Library(...).{self.name} does",
            )
        if self.takes_dtype and "dtype" not in inspect.signature(self.define).bind_partial(*args, **kwargs).arguments:
            kwargs["dtype"] = te.default_dtype()
        return self.define(*args, **kwargs)


def as_workload(
    op: str, params: Mapping[str, Value], defaults: Mapping[str, Value], program: Program, labels: Sequence[str]
) -> Workload:
    """The workload of an operator: ``program`` with its parameters; ``labels`` are the operator's names of the
    inputs."""
    inputs = zip(program.inputs, labels, strict=True)
    output, *more = output_specs(program)
    text = program.dumps()
    return Workload(
        op=op,
        params=tuple(params.items()),
        defaults=tuple(defaults.items()),
        program=text,
        inputs=tuple(TensorSpec(label, t.shape, t.dtype, t.constant) for t, label in inputs),
        output=output,
        flops=program.flops,
        precision=_precision(str(params.get("precision")), text),
        more=tuple(more),
    )


def _precision(asked: str, program: str) -> str:
    """Precision of a workload, from the ``precision`` parameter and the program's text."""
    return asked if asked in (EXACT, TF32X3) else "tf32" if '_tf32"' in program else "ieee"


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
    """Makes an operator from a function that returns a ``te.compute``, or a tuple of them.

    ``numpy(*inputs, **attributes)``: an independent implementation on NumPy arrays. ``infer(shapes, **attributes)``:
    returns the sizes, and the attributes that depend on shapes, from the inputs' shapes; it raises ``ValueError`` for
    shapes that do not fit. Both receive the attributes' defaults. Sizes are 0 for arrays without elements, for which no
    kernels exist. ``example``: parameters of a small instance.
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
    by_name = {p.name: p for p in parameters}
    for_numpy, for_infer = _accepted(numpy, parameters, True), _accepted(infer, parameters, False)
    op = Operator(
        name,
        fn,
        parameters,
        dtypes,
        example={k: by_name[k].coerce(name, v) if k in by_name else v for k, v in example.items()},
        doc=inspect.getdoc(fn) or "",
        takes_dtype=takes_dtype,
        told=tuple(p.name for p in parameters if p.default is None and p.name in for_infer),
    )

    def run_numpy(*inputs: Any, **params: Any) -> Any:
        assert numpy is not None
        stored = {k: by_name[k].coerce(name, v, least=0) for k, v in params.items() if k in for_numpy}
        return numpy(*inputs, **arguments(for_numpy, stored))

    def run_infer(shapes: Sequence[tuple[int, ...]], **given: Any) -> dict[str, Value]:
        assert infer is not None
        op.check_names(given)
        least = 0 if any(0 in s for s in shapes) else 1
        attributes = {p.name: p.coerce(name, given[p.name], least) for p in parameters if p.name in given}
        missing = [t for t in op.told if t not in attributes]
        if missing:
            raise UsageError(f"{name} needs {' and '.join(missing)}", f"Write {by_name[missing[0]].hint}")
        try:
            found = infer([tuple(map(int, s)) for s in shapes], **arguments(for_infer, attributes))
        except TilewrightError:
            raise
        except ValueError as error:  # unpacking a shape of another rank raises it
            shown = " and ".join("x".join(map(str, s)) or "()" for s in shapes)
            raise UsageError(f"{name} cannot take inputs of shape {shown} ({error})", _shapes_of(op)) from error
        return op._params({**attributes, **found}, least)

    def arguments(accepted: Mapping[str, Value | None], stored: Mapping[str, Value]) -> dict[str, Argument]:
        """The parameters that a function accepts; those not given have the operator's defaults."""
        known = {k: stored.get(k, default) for k, default in accepted.items()}
        return {k: by_name[k].argument(v) for k, v in known.items() if v is not None}

    return replace(op, numpy=run_numpy if numpy else None, infer=run_infer if infer else None)


def _accepted(fn: Callable[..., Any] | None, parameters: Sequence[Parameter], all_of: bool) -> dict[str, Value | None]:
    """Parameters that ``fn`` is passed, by name: attributes, and sizes that it takes by keyword only.

    ``all_of``: pass all attributes, named in the signature or not. The value is the operator's default; it
    is ``None`` if the function has a default of its own, and the parameter is then passed only if given.
    """
    found: dict[str, Value | None] = {}
    own = {} if fn is None else inspect.signature(fn).parameters
    all_of = all_of or any(q.kind is q.VAR_KEYWORD for q in own.values())
    for p in parameters if fn is not None else ():
        q = own.get(p.name)
        attribute = p.default is not None and p.name not in IMPLICIT and (all_of or q is not None)
        if attribute or (q is not None and q.kind is q.KEYWORD_ONLY):
            found[p.name] = p.default if q is None or q.default is q.empty else None
    return found


def _shapes_of(op: Operator) -> str:
    if not op.example:
        return "See the operator's definition"
    inputs = op.workload(**op.example).inputs
    shown = ", ".join(f"{s.name} {s.shape}" for s in inputs)
    return f"For example {' '.join(f'{k}={v}' for k, v in op.example.items())} takes {shown}"


def _parameters(fn: Define, name: str, dtypes: tuple[str, ...]) -> tuple[Parameter, ...]:
    try:
        hints = typing.get_type_hints(fn, include_extras=True)
    except Exception:  # an annotation for type checkers only; defaults then determine the kind
        hints = {}
    out: list[Parameter] = []
    default_dtype: Value = dtypes[0]
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise OperatorError(f"{name} takes {p}", "Name each size and attribute as an ordinary parameter")
        if p.name == "constant":
            raise OperatorError(f"{name} declares constant", "Every operator has it; remove it")
        hint, default = hints.get(p.name), p.default
        if p.name == "dtype" and default is not p.empty:
            default_dtype = default
        else:
            out.append(parameter(name, p.name, hint, ... if default is p.empty else default))
    if default_dtype not in dtypes:
        raise OperatorError(f"{name}: dtype={default_dtype!r} is not among its dtypes", "Add it to dtypes=")
    return (*out, Parameter("dtype", Kind.STR, default_dtype, dtypes), Parameter("constant", Kind.STR, ""))


# --------------------------------------------------------------------------- blame


def blame(error: BaseException, filename: str, what: str, first: int | None = None) -> OperatorError:
    """An ``OperatorError`` that names the line of ``filename`` where the error arose, or line ``first`` if unknown."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    line = lines[-1] if lines else first
    if isinstance(error, SyntaxError) and error.filename == filename:
        line = error.lineno
    where = f"{filename}:{line}" if line else filename
    if isinstance(error, TilewrightError):
        return OperatorError(f"{what} ({where}): {error.message}", error.hint)
    text = error.msg if isinstance(error, SyntaxError) else str(error).partition("\n")[0]
    cause = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, NameError) and "free variable" in text:
        return OperatorError(
            f"{what} ({where}): {error.name} is read before it is defined, and a te.compute cannot read itself",
            'A recurrence along an axis is a te.scan, as in te.scan("sum", i, x[i]), or one with a te.monoid',
        )
    return OperatorError(f"{what} ({where}) raised {cause}", "Correct that line and try again")

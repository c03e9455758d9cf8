"""A user's kernel as a value: source, macros to tune, launch sizes, and reference operator."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any

from tilewright.caching import cached_property
from tilewright.core import UsageError, Value, digest
from tilewright.errors import nearest
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.user_kernel import source
from tilewright.kernels.templates.user_kernel.conditions import conditional_names, view
from tilewright.serialization import Json

CPU, CUDA = ".cpp .cc .cxx .c", ".cu .cuh"
KINDS = {**dict.fromkeys(CPU.split(), "cpu"), **dict.fromkeys(CUDA.split(), "cuda")}
"""Kind of target by file ending."""

PREFIX = "own_"
"""Prefix of the template names of users' kernels."""

_MOST_VARIANTS = 64  # number of views of a file that are checked before compilation
_RESERVED = ("tw", "TW_", "emu", "__")


@dataclass(frozen=True)
class UserKernel(Json):
    """A kernel to tune. Make one with :func:`own_kernel`.

    ``text``: the file with its local includes. ``knobs``: macros and their values. ``constraints``, ``grid``,
    ``block``, ``shared``, ``parameters``: texts of expressions over knobs and sizes. ``reference``: name of the
    operator that the kernel computes. ``with_templates``: search the built-in templates too.
    """

    path: str
    text: str
    entry: str
    knobs: tuple[tuple[str, tuple[Value, ...]], ...]
    constraints: tuple[str, ...] = ()
    grid: str = ""
    block: str = ""
    shared: str = ""
    parameters: str = ""
    reference: str = ""
    with_templates: bool = False
    given: Operator | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> str:
        """Kind of target that the kernel is written for: ``cpu`` or ``cuda``."""
        return KINDS[Path(self.path).suffix]

    @property
    def label(self) -> str:
        """Name of the file, without its folder."""
        return Path(self.path).name

    @cached_property
    def name(self) -> str:
        """Name of the kernel's template; it has a digest of the source, the knobs and the launch."""
        what = [self.kind, self.text, self.entry, [[k, list(v)] for k, v in self.knobs], list(self.constraints)]
        return f"{PREFIX}{self.entry}_{digest([*what, self.grid, self.block, self.shared, self.parameters])[:12]}"

    @cached_property
    def listing(self) -> str:
        """The lines of the file itself, without included files, so that line numbers match."""
        return source.listing(self.text, self.label)

    @cached_property
    def deciding(self) -> tuple[str, ...]:
        """The knobs that preprocessor conditions of the file read; they may decide what is compiled."""
        mentioned = conditional_names(self.text)
        return tuple(name for name, _ in self.knobs if name in mentioned)

    def variants(self) -> Iterator[dict[str, Value]]:
        """Yield values of all knobs that cover every view of the file.

        The :attr:`deciding` knobs take all combinations, up to a limit; all other knobs keep their first value.
        """
        first = {name: values[0] for name, values in self.knobs}
        choices = dict(self.knobs)
        for chosen in islice(product(*(choices[name] for name in self.deciding)), _MOST_VARIANTS):
            yield {**first, **dict(zip(self.deciding, chosen, strict=True))}

    @cached_property
    def operator(self) -> Operator:
        """The reference operator. Raises ``UsageError`` or ``OperatorError`` for an invalid reference."""
        if self.given is not None:
            return self.given
        return get_operator(self.reference)

    def options(self) -> list[str] | None:
        """The options of ``tilewright tune`` that describe the kernel; ``None`` if ``--knob`` cannot give a value."""
        knobs = [f"{name}={','.join(map(str, values))}" for name, values in self.knobs]
        if any(_read_back(text) != knob for text, knob in zip(knobs, self.knobs, strict=True)):
            return None
        given = [("--entry", self.entry), ("--reference", self.reference), *(("--knob", text) for text in knobs)]
        given += [("--constraint", text) for text in self.constraints]
        given += [
            ("--grid", self.grid),
            ("--block", self.block),
            ("--shared", self.shared),
            ("--param", self.parameters),
        ]
        words = [word for option, text in given if text for word in (option, text)]
        return [*words, *(["--with-templates"] if self.with_templates else [])]

    def target(self, asked: str) -> str:
        """The target to tune for, given the requested target. Raises ``UsageError`` for a target of another kind."""
        if asked == "auto":
            return "cuda" if self.kind == "cuda" else "auto"
        if asked.partition(":")[0] != self.kind:
            raise UsageError(
                f"{self.label} is written for {self.kind}, and the target is {asked}",
                f"Use --target {self.kind}, or a file that ends in {CUDA if self.kind == 'cpu' else CPU}",
            )
        return asked


def is_kernel_file(name: str) -> bool:
    """Whether a name has the ending of a C++ or CUDA file, and so does not name an operator."""
    return Path(name).suffix in KINDS


def own_kernel(
    path: str | os.PathLike[str],
    *,
    entry: str,
    knobs: Mapping[str, Sequence[Value] | Value],
    reference: str | Operator | Callable[..., Any],
    constraints: str | Sequence[str] = (),
    grid: str | Sequence[str | int] = "",
    block: str | Sequence[str | int] = "",
    shared: str | int = "",
    parameters: str | Sequence[str] = "",
    with_templates: bool = False,
) -> UserKernel:
    """Make your C++ or CUDA kernel tunable by :func:`tilewright.tune`: its macros become knobs.

    ``path``: C++ for a CPU (``.cpp``) or CUDA (``.cu``); ``entry``: the function. ``knobs``: macros, each with the
    values to try; they are defined before the first line of the file. ``reference``: the operator that the kernel
    computes (``ref.py:f``, a built-in name, or a function). Results are checked against it, and look-ups use its name.
    ``constraints``: conditions over knobs and sizes that a combination must meet. For CUDA, ``grid`` and ``block`` give
    blocks and threads in x, y and z, ``shared`` the bytes of dynamic shared memory. ``parameters``: the argument for
    each parameter that the declaration does not determine. ``with_templates``: let the built-in templates take part.
    Raises ``UsageError`` for an argument that does not fit the file.
    """
    file = Path(path)
    if file.suffix not in KINDS:
        raise UsageError(f"{file} is neither C++ nor CUDA by its name", f"Use a file that ends in {CPU} or {CUDA}")
    text = source.read(file)
    values = tuple((name, _values(name, v)) for name, v in knobs.items())
    given, name = _reference(reference)
    made = UserKernel(
        os.fspath(path),
        text,
        entry,
        values,
        constraints=(constraints,) if isinstance(constraints, str) else tuple(constraints),
        grid=_text(grid),
        block=_text(block),
        shared=_text(shared),
        parameters=_text(parameters),
        reference=name,
        with_templates=with_templates,
        given=given,
    )
    _check(made)
    return made


def parse_knob(text: str) -> tuple[str, tuple[Value, ...]]:
    """``BM=32,64``: a macro and its values, whole numbers, other numbers or texts. Raises ``UsageError``."""
    name, sep, rest = text.partition("=")
    pieces = [p.strip() for p in rest.split(",")]
    if not sep or not all(pieces):
        raise UsageError(f"{text!r} is not a knob", "Write --knob BM=32,64: a macro and the values to try")
    kinds: tuple[Callable[[str], Value], ...] = (int, float)
    for kind in kinds:
        try:
            return name.strip(), tuple(kind(p) for p in pieces)
        except ValueError:
            continue
    return name.strip(), tuple(pieces)


def _read_back(text: str) -> tuple[str, tuple[Value, ...]] | None:
    """A knob as ``--knob`` reads it; ``None`` if ``--knob`` rejects the text."""
    try:
        return parse_knob(text)
    except UsageError:
        return None


def _values(name: str, given: Sequence[Value] | Value) -> tuple[Value, ...]:
    values = (given,) if isinstance(given, (bool, int, float, str)) else tuple(given)
    if not values:
        raise UsageError(f"knob {name} has no values", f"Give the values to try: {name}=32,64")
    for v in values:
        if not isinstance(v, (bool, int, float, str)) or (isinstance(v, str) and ("\n" in v or not v)):
            raise UsageError(f"knob {name} cannot be {v!r}", "Use numbers, true and false, or texts of one line")
        if isinstance(v, float) and not math.isfinite(v):
            raise UsageError(f"knob {name} cannot be {v}", "Use numbers that a double holds")
        if isinstance(v, int) and not -(1 << 63) <= v < 1 << 64:
            raise UsageError(f"knob {name} cannot be {v}", "Use whole numbers of 64 bits: -2^63 to 2^64 - 1")
    if len({type(v) for v in values}) > 1:
        raise UsageError(f"knob {name} mixes numbers and texts: {values}", "Use values of one type")
    if len(set(values)) != len(values):
        raise UsageError(f"knob {name} has a value twice", "Give each value once")
    return values


def _text(given: str | int | Sequence[str | int]) -> str:
    return given if isinstance(given, str) else str(given) if isinstance(given, int) else ",".join(map(str, given))


def _reference(given: str | Operator | Callable[..., Any]) -> tuple[Operator | None, str]:
    if isinstance(given, str):
        if not given:
            raise UsageError("the kernel has no reference", "Name the operator that it computes: --reference ref.py:f")
        return None, given
    made = given if isinstance(given, Operator) else operator(given)
    return made, made.name


def _check(kernel: UserKernel) -> None:
    """Raise ``UsageError`` for options that cannot fit the file, before anything is compiled."""
    label = kernel.label
    for values in kernel.variants():
        _check_function(kernel, values)
    in_source = source.words(kernel.text)
    elsewhere = " ".join((kernel.grid, kernel.block, kernel.shared, kernel.parameters))
    names = [name for name, _ in kernel.knobs]
    if len(set(names)) != len(names):
        raise UsageError(f"a knob is given twice: {', '.join(names)}", "Give each knob once")
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name.startswith(_RESERVED):
            raise UsageError(f"a knob cannot be called {name!r}", "Use the name of a macro, such as BM")
        if name not in in_source and name not in re.findall(r"\w+", elsewhere):
            raise UsageError(f"{label} never uses knob {name}", _nearest(name, in_source))
    for name, line in source.fixed_macros(kernel.text, names):
        raise UsageError(
            f"{label}:{line} defines {name} itself, so the knob would change nothing",
            f"Remove that line, or put it between #ifndef {name} and #endif",
        )
    launched = [n for n in ("grid", "block", "shared") if getattr(kernel, n)]
    if kernel.kind == "cpu":
        if launched:
            raise UsageError(
                f"{label} is C++ for a CPU, which has no {launched[0]}", "Leave it out, or give a .cu file"
            )
        return
    for name in ("grid", "block"):
        if not getattr(kernel, name):
            raise UsageError(
                f"{label} needs a {name}",
                f'Give it over knobs and sizes, such as --{name} "{"ceildiv(n, BN)" if name == "grid" else "BN/TN"}"',
            )


def _check_function(kernel: UserKernel, values: Mapping[str, Value]) -> None:
    """Check that the file defines the entry once, and as a kernel, for these values of knobs."""
    where = kernel.label + "".join(f" with {n}={values[n]}" for n in kernel.deciding)
    prefix = source.find(view(kernel.text, values), kernel.entry, where).prefix.split()
    if kernel.kind == "cpu":
        return
    if "__global__" not in prefix:
        raise UsageError(f"{kernel.entry} in {where} is not a kernel", "Declare it __global__ void")
    if "void" not in prefix or "static" in prefix:
        raise UsageError(f"{kernel.entry} in {where} is not declared as a kernel is", "Declare it __global__ void")


def _nearest(name: str, known: set[str]) -> str:
    likely = sorted(w for w in known if w.isupper() or "_" in w)
    return (nearest(name, likely) or nearest(name, sorted(known))) + "A knob is a macro that the file uses"

"""Dataclasses as plain JSON values and back, by their own annotations.

:class:`Json` and :class:`JsonList` are the bases of types that are stored or sent. :func:`decode` reads untrusted
values from outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from operator import methodcaller
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from tilewright.extent import Size, read_size, write_size

Value = Union[int, float, str, bool]
"""Value of a knob or of an operator's attribute."""

Pairs = tuple[tuple[str, Value], ...]
"""An ordered, hashable mapping from names to values; a map in JSON."""

PairList = Annotated[Pairs, "list"]
"""As :data:`Pairs`, but a list of pairs in JSON, because order matters."""

LONGEST = 300  # characters of a text
MOST = 64  # entries of a list or a map
WORD = r"[a-z0-9_.]{1,40}"
_LARGEST = 1 << 60  # magnitude of numbers

T = TypeVar("T")
_Convert = Callable[[Any], Any]


class Json:
    """Base of a dataclass with one JSON form: a map of its fields, except fields that take no part in comparison.

    ``sparse`` fields are absent where they have their default, so JSON without them keeps its earlier form.
    """

    _sparse: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, sparse: tuple[str, ...] = (), **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._sparse = sparse or cls._sparse

    def to_json(self) -> Any:
        values = (
            (name, write, default, getattr(self, name)) for name, (write, _, default) in _fields(type(self)).items()
        )
        return {name: write(v) for name, write, default, v in values if name not in self._sparse or v != default}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises ``KeyError``, ``TypeError``, ``ValueError`` or ``AttributeError`` for malformed data."""
        known = _fields(cls)
        missing = next((n for n, (_, _, default) in known.items() if default is MISSING and n not in data), None)
        if missing is not None:
            raise KeyError(missing)
        return cls(**{name: known[name][1](data[name]) for name in data})


class JsonList(Json):
    """As :class:`Json`, but a list of the fields in order; ``sparse`` fields are last and left out from the end."""

    def to_json(self) -> Any:
        kept = list(_fields(type(self)).items())
        while kept and kept[-1][0] in self._sparse and getattr(self, kept[-1][0]) == kept[-1][1][2]:
            kept.pop()
        return [write(getattr(self, name)) for name, (write, _, _) in kept]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises as :meth:`Json.from_json`."""
        return super().from_json(dict(zip(list(_fields(cls))[: len(data)], data, strict=True)))


_FIELDS: dict[type[Any], dict[str, tuple[_Convert, _Convert, Any]]] = {}


def _fields(kind: type[Any]) -> dict[str, tuple[_Convert, _Convert, Any]]:
    """By field: the functions that write and read it, and its default."""
    if kind not in _FIELDS:
        hints = get_type_hints(kind, include_extras=True)
        _FIELDS[kind] = {
            f.name: (*_converters(hints[f.name]), f.default if f.default_factory is MISSING else f.default_factory)
            for f in fields(kind)
            if f.compare
        }
    return _FIELDS[kind]


def _converters(annotation: Any) -> tuple[_Convert, _Convert]:
    """The functions that write and read a value of this annotation."""
    if annotation == Pairs:
        return dict, lambda pairs: tuple(pairs.items())
    origin, kinds = get_origin(annotation), get_args(annotation)
    if annotation == Size:
        return write_size, read_size
    if origin is Annotated:
        origin, kinds = tuple, get_args(kinds[0])
    if hasattr(annotation, "from_json"):
        return methodcaller("to_json"), annotation.from_json
    if origin is Mapping:
        return dict, dict
    if NoneType in kinds:
        write, read = _converters(Union[tuple(k for k in kinds if k is not NoneType)])
        return lambda v: None if v is None else write(v), lambda v: None if v is None else read(v)
    if origin is tuple and kinds[-1] is ...:
        write, read = _converters(kinds[0])
        if write is _same:
            return list, tuple
        return lambda values: [write(v) for v in values], lambda values: tuple([read(v) for v in values])
    if origin is tuple:
        writers, readers = zip(*map(_converters, kinds), strict=True)
        return _all(writers, list), _all(readers, tuple)
    return _same, _same


def _all(converters: tuple[_Convert, ...], kind: _Convert) -> _Convert:
    """A conversion of one value per converter, into a list or a tuple."""
    plain = all(c is _same for c in converters)

    def convert(values: Any) -> Any:
        if len(values) != len(converters):
            raise ValueError(f"{len(values)} values in place of {len(converters)}")
        return kind(values if plain else [c(v) for c, v in zip(converters, values, strict=True)])

    return convert


def _same(value: Any) -> Any:
    return value


def decode(kind: type[T], data: Any, where: str = "") -> T:
    """An instance of the dataclass ``kind`` from a map of its fields; only a field of :data:`Pairs` may be missing.

    Texts must be short and printable, numbers finite, fields' numbers not negative, lists and maps short. Raises
    ``ValueError`` that names the wrong field; ``where`` is put before its name.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{where.rstrip('.') or 'the whole'} is not a map but {type(data).__name__}")
    hints = get_type_hints(kind)
    annotations = {f.name: hints[f.name] for f in fields(kind)}  # type: ignore[arg-type]
    for name in data:
        if name not in annotations:
            raise ValueError(f"unknown field {ascii(f'{where}{name}')[:60]}")
    for name, annotation in annotations.items():
        if name not in data and annotation != Pairs:
            raise ValueError(f"it lacks {where}{name}")
    return kind(**{name: _value(annotations[name], value, f"{where}{name}") for name, value in data.items()})


def _value(annotation: Any, value: Any, name: str, least: int = 0) -> Any:
    if is_dataclass(annotation):
        return decode(annotation, value, f"{name}.")  # type: ignore[arg-type]
    kinds = get_args(annotation) or (annotation,)
    if annotation == Pairs:
        words = isinstance(value, Mapping) and all(isinstance(k, str) and re.fullmatch(WORD, k) for k in value)
        if not words or len(value) > MOST:
            raise ValueError(f"{name} is not a map of {MOST} names at most")
        return tuple((k, _value(Value, v, f"{name}.{k}", -_LARGEST)) for k, v in value.items())
    if get_origin(annotation) is tuple:  # all of one type
        if not isinstance(value, list | tuple) or len(value) > MOST:
            raise ValueError(f"{name} is not a list of {MOST} at most")
        return tuple(_value(kinds[0], v, name) for v in value)
    if type(value) not in kinds and not (type(value) is int and float in kinds):
        raise ValueError(f"{name} may not be {type(value).__name__}")
    if isinstance(value, str) and not (len(value) <= LONGEST and value.isprintable()):
        raise ValueError(f"{name} is not a printable text of {LONGEST} characters at most")
    if isinstance(value, int | float) and not least <= value <= _LARGEST:
        raise ValueError(f"{name} is not a number of {least} to {_LARGEST}")
    return value


def require_types(annotation: Any, value: Any, name: str) -> None:
    """Raises ``ValueError`` with the path of a value that does not fit its annotation; checks nested dataclasses too.

    Integers must fit in 64 bits; texts must hold no NUL and no surrogates. :func:`decode` is stricter and for received
    values; this function is for stored values.
    """
    origin, kinds = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return
    if origin is Annotated:
        require_types(Pairs if kinds[1:] == ("list",) else kinds[0], value, name)
    elif origin is Union or origin is UnionType:
        if not any(_has_type(kind, value, name) for kind in kinds):
            raise ValueError(f"{name} may not be {type(value).__name__}")
    elif isinstance(annotation, type) and is_dataclass(annotation) and isinstance(value, annotation):
        for field_name, kind in _hints(annotation).items():
            require_types(kind, getattr(value, field_name), f"{name}.{field_name}")
    elif origin is list and type(value) is list:
        for one in value:
            require_types(kinds[0], one, name)
    elif origin is tuple and type(value) is tuple and (kinds[-1] is ... or len(kinds) == len(value)):
        for n, one in enumerate(value):
            require_types(kinds[0] if kinds[-1] is ... else kinds[n], one, name)
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        for key, one in value.items():
            require_types(kinds[0], key, f"a name in {name}")
            require_types(kinds[1], one, f"{name}.{key}")
    elif not _is_plain(origin or annotation, value):
        raise ValueError(f"{name} may not be {type(value).__name__}")


def _has_type(annotation: Any, value: Any, name: str) -> bool:
    try:
        require_types(annotation, value, name)
    except ValueError:
        return False
    return True


def _is_plain(kind: Any, value: Any) -> bool:
    if kind is float and isinstance(value, float):
        return True
    if kind in (int, float):  # a symbolic extent is a number too
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 64
    if kind is str:  # C strings and file names allow no others
        return type(value) is str and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
    return kind in (bool, NoneType) and type(value) is kind


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name] for f in fields(kind) if f.compare}

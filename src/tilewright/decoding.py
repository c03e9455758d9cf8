"""Plain values from outside, which may be anything, into dataclasses: by the dataclasses' own annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tilewright.core import Pairs, Value

LONGEST = 300  # characters of a text
MOST = 64  # entries of a list or a map
WORD = r"[a-z0-9_.]{1,40}"
_LARGEST = 1 << 60  # of numbers that mean something

T = TypeVar("T")


def decode(kind: type[T], data: Any, where: str = "") -> T:
    """An instance of the dataclass ``kind`` from a map of all its fields; only a map of words to values may be missing.

    Texts are short and printable, numbers finite and those in fields not below zero, lists and maps short.
    Raises ``ValueError`` that names the field at fault; ``where`` is put before its name.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{where.rstrip('.') or 'the whole'} is no map but {type(data).__name__}")
    annotations = get_type_hints(kind)
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
            raise ValueError(f"{name} is no map of {MOST} names at most")
        return tuple((k, _value(Value, v, f"{name}.{k}", -_LARGEST)) for k, v in value.items())
    if get_origin(annotation) is tuple:  # of one type
        if not isinstance(value, list | tuple) or len(value) > MOST:
            raise ValueError(f"{name} is no list of {MOST} at most")
        return tuple(_value(kinds[0], v, name) for v in value)
    if type(value) not in kinds and not (type(value) is int and float in kinds):
        raise ValueError(f"{name} may not be {type(value).__name__}")
    if isinstance(value, str) and not (len(value) <= LONGEST and value.isprintable()):
        raise ValueError(f"{name} is no printable text of {LONGEST} characters at most")
    if isinstance(value, int | float) and not least <= value <= _LARGEST:
        raise ValueError(f"{name} is no number of {least} to {_LARGEST}")
    return value

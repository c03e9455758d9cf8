"""Caches: computed properties, deferred fields, a least-recently-used cache, and cache keys by text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """``functools.cached_property`` without a lock: Python 3.11's version holds one, which a fork leaves held in the
    child.

    Two threads may compute the same value; values are pure, so either result may stay.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> cached_property[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value


class Deferred(Generic[T]):
    """A dataclass field that may be set to a function; the first read calls the function and keeps its result."""

    def __init__(self, default: T) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> T:
        if instance is None:
            return self.default
        value = instance.__dict__[self.name]
        if callable(value):
            value = instance.__dict__[self.name] = value()
        return value  # type: ignore[no-any-return]

    def __set__(self, instance: object, value: T | Callable[[], T]) -> None:
        instance.__dict__[self.name] = value


class Recent(Generic[T]):
    """Cache of at most ``most`` values by key, which drops the least recently used value.

    Not thread-safe: threads that share a cache must hold a lock.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[..., T], *args: Any) -> T:
        """Returns the value of ``key``; a missing value is computed by ``make(*args)`` and kept."""
        if key not in self._kept:
            self._kept[key] = make(*args)
            if len(self._kept) > self.most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def clear(self) -> None:
        self._kept.clear()


@dataclass(frozen=True)
class ByText(Generic[T]):
    """A value wrapped for ``functools.lru_cache``, compared by its ``repr``: so 1, 1.0 and True differ."""

    value: T = field(compare=False)
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", repr(self.value))

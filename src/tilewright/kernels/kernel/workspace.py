"""The scratch memory of a kernel: named arrays, their byte offsets, and the total size in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from tilewright.core import IntExpr, cached_property
from tilewright.dtypes import C_BYTES
from tilewright.extent import Extent, ctext, intexpr
from tilewright.kernels.codegen.integers import named

BYTES = C_BYTES | {"char": 1}
"""Bytes of an element, by C type."""


@dataclass(frozen=True)
class Array:
    """An array of a workspace: ``count`` elements of the C type ``ctype``.

    ``count`` is a number, an extent or an expression of launch arguments. ``copies``: number of threads that each have
    a private copy; 0: all threads share one array.
    """

    name: str
    ctype: str
    count: IntExpr
    copies: int = 0

    @property
    def bytes(self) -> IntExpr:
        """Bytes of one copy."""
        return product(self.count, BYTES[self.ctype])


@dataclass(frozen=True)
class Workspace:
    """Arrays in consecutive memory, each aligned to ``align`` bytes.

    Consecutive arrays with private copies form a block: one thread's copies of all arrays, then the next thread's.
    ``locals``: integers that the kernel computes from its launch arguments, each from earlier ones; counts may name
    them.
    """

    arrays: tuple[Array, ...] = ()
    align: int = 64
    locals: Mapping[str, IntExpr] = field(default_factory=dict)

    @classmethod
    def of(cls, count: IntExpr) -> Workspace:
        """A workspace of ``count`` bytes, whose layout the kernel's text decides."""
        return cls((Array("bytes", "char", count),), 1) if count != 0 else cls()

    @cached_property
    def _laid(self) -> tuple[Mapping[str, IntExpr], Mapping[str, IntExpr], IntExpr]:
        """Byte offset of each array, bytes of one thread's block for each array with copies, and total bytes."""
        at: IntExpr = 0
        offsets: dict[str, IntExpr] = {}
        blocks: dict[str, IntExpr] = {}
        for copies, found in groupby(self.arrays, key=lambda a: a.copies):
            start, members = at, tuple(found)
            for a in members:
                offsets[a.name] = at
                at = total(at, self.room(a))
            if copies:
                each = total(*map(self.room, members))
                blocks |= {a.name: each for a in members}
                at = total(start, product(copies, each))
        return offsets, blocks, at

    def __bool__(self) -> bool:
        return bool(self.arrays)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.arrays)

    def room(self, a: Array) -> IntExpr:
        """Bytes of one copy of an array, rounded up to the alignment."""
        return rounded(a.bytes, self.align)

    def elements(self, a: Array) -> int:
        """Elements of one copy of an array of known size, rounded up to the alignment."""
        room = self.room(a)
        assert isinstance(room, int)
        return room // BYTES[a.ctype]

    @property
    def bytes(self) -> IntExpr:
        """Total bytes, as an expression of launch arguments only (locals are substituted)."""
        known: dict[str, IntExpr] = {}
        for name, e in self.locals.items():
            known[name] = named(e, lambda n: known.get(n, n))
        return named(_plain(self._laid[2]), lambda n: known.get(n, n))

    def offset(self, name: str) -> IntExpr:
        """Byte offset of an array, or of the first thread's copy."""
        return self._laid[0][name]

    def at(self, name: str) -> int:
        """Byte offset of an array that follows only arrays of known sizes."""
        at = self.offset(name)
        assert isinstance(at, int)
        return at

    def each(self, name: str) -> IntExpr:
        """Bytes from one thread's copy of an array to the next thread's copy."""
        return self._laid[1][name]

    def pointers(self, text: Callable[[int], str] = ctext) -> Iterator[tuple[str, str, str]]:
        """Yields C type, name and value of a pointer to each array; ``text`` gives the C text of an offset."""
        for a in self.arrays:
            yield f"{a.ctype} *", a.name, f"({a.ctype} *)((char *)workspace + {text(self.at(a.name))})"


def product(*factors: IntExpr) -> IntExpr:
    """The product of numbers, extents and expressions of launch arguments."""
    found: IntExpr = 1
    for x in factors:
        if isinstance(found, int) and isinstance(x, int):
            found = found * x
        else:
            found = x if found == 1 else found if x == 1 else ["*", _plain(found), _plain(x)]
    return found


def total(*terms: IntExpr) -> IntExpr:
    """The sum of numbers, extents and expressions of launch arguments."""
    found: IntExpr = 0
    for x in terms:
        if isinstance(found, int) and isinstance(x, int):
            found = found + x
        else:
            found = x if found == 0 else found if x == 0 else ["+", _plain(found), _plain(x)]
    return found


def rounded(size: IntExpr, multiple: int) -> IntExpr:
    """A size rounded up to a multiple of a number."""
    if isinstance(size, int):
        return -(-size // multiple) * multiple
    return size if multiple == 1 else ["roundup", size, multiple]


def _plain(x: IntExpr) -> IntExpr:
    return intexpr(x) if isinstance(x, Extent) else x

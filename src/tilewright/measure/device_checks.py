"""Checks results on the device, so that only results with a possible mistake are copied to the host.

The verifier's expectations of an input set (bounds of elements, projected sums) stay on the device during a task.
Kernels (``check_kernels.py``) compare an output with them, guard zones with their canaries, and inputs with their
original bytes. A result that passes here also passes the verifier's check on the host. Only that check says which
mistake it found. Expectations that the kernels cannot check are left to the host.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.backends.arguments import Arguments
from tilewright.measure import check_kernels
from tilewright.measure.check_kernels import EACH, MOST_BLOCKS, PARTS, SHARED, THREADS

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, Function
    from tilewright.kernels.expression.program import Tensor
    from tilewright.measure.gpu_buffers import Bytes, Kept, KeptArrays, Region
    from tilewright.verifying.projection import Projection
    from tilewright.verifying.references import Interval
    from tilewright.verifying.verify import Expected, InputSet

Array = npt.NDArray[Any]
_WORDS = 1 + PARTS  # of 8 bytes: a mark for a mistake, and the partial sums of a checksum


@dataclass(frozen=True)
class _Launch:
    """A launch on output number ``output``, with ``blocks`` blocks. ``arguments``: those between the output's address
    and the mark's address. An array is its number (``("array", n)``, ``None`` for a null pointer)."""

    symbol: str
    output: int
    blocks: int
    arguments: tuple[tuple[str, Any], ...]


@dataclass
class _Plan:
    """Arrays that an input set needs on the device, and the launches that compare outputs with them."""

    arrays: list[Array] = field(default_factory=list)
    launches: list[_Launch] = field(default_factory=list)

    def add(self, array: Array | None) -> tuple[str, int | None]:
        """Return the argument for an array. An array is uploaded once, however often it is added."""
        if array is None:
            return "array", None
        for n, known in enumerate(self.arrays):
            if known is array:
                return "array", n
        self.arrays.append(array)
        return "array", len(self.arrays) - 1


class DeviceChecks:
    """The checks of one child. ``code``: compiled by :func:`~.check_kernels.check_code`; ``kept``: holds arrays until
    :meth:`forget`, which must be called before the next task."""

    def __init__(self, context: Context, code: bytes, kept: KeptArrays) -> None:
        self.context = context
        self.kept = kept
        module = context.load(code)
        self._functions: dict[str, Function] = {s: module.function(s) for s in check_kernels.SYMBOLS}
        self._words = context.allocate(8 * _WORDS)
        self._sums: dict[Hashable, int] = {}
        self._launches: dict[Hashable, list[tuple[_Launch, Arguments]]] = {}

    def forget(self) -> None:
        """Drop the task's state, and free its arrays on the device."""
        self.kept.close()
        self._sums.clear()
        self._launches.clear()

    def keep(self, name: Hashable, arrays: Sequence[Bytes]) -> Kept | None:
        """Upload arrays under a name, and compute their checksum; ``None`` without enough memory."""
        kept = self.kept.get(name) or self.kept.keep(name, arrays)
        if kept is not None and name not in self._sums:
            self._sums[name] = self._checksum(kept)
        return kept

    def prepare(self, name: Hashable, data: InputSet, outputs: Sequence[Tensor]) -> None:
        """Upload the expectations of an input set under a name, if the kernels can check them."""
        if name in self._launches:
            return
        plan = _Plan()
        expressible = all(_planned(plan, n, e, t) for n, (e, t) in enumerate(zip(data.expected, outputs, strict=True)))
        held = self.keep(name, [as_bytes(a) for a in plan.arrays]) if expressible else None
        self._launches[name] = [] if held is None else [(x, self._arguments(x, held)) for x in plan.launches]

    def _arguments(self, launch: _Launch, held: Kept) -> Arguments:
        given = [
            ("pointer", 0 if v is None else held.addresses[v]) if kind == "array" else (kind, v)
            for kind, v in launch.arguments
        ]
        return Arguments([("pointer", 0), *given, ("pointer", self._words)])

    def intact(self, names: Sequence[Hashable]) -> bool:
        """Whether the arrays under these names still have their checksums; waits for the device."""
        kept = [(name, self.kept.get(name)) for name in names]
        return all(k is None or self._checksum(k) == self._sums.get(name) for name, k in kept)

    def right(self, name: Hashable, outputs: Sequence[Region], guarded: Sequence[Region]) -> bool:
        """Whether outputs meet the expectations of set ``name`` and no canary around ``guarded`` has changed; waits for
        the device. ``False`` also if the kernels cannot check this set."""
        launches = self._launches.get(name)
        if not launches:
            return False
        self.context.fill(self._words, 0, 8)
        for x, arguments in launches:
            arguments.values[0] = outputs[x.output].address
            self._launch(x.symbol, x.blocks, arguments)
        for r in guarded:
            self._filled(r.start, r.address - r.start, r.canary)
            self._filled(r.address + r.size, r.end - r.address - r.size, r.canary)
        return self._unmarked()

    def same(self, regions: Sequence[Region], addresses: Sequence[int]) -> bool:
        """Whether buffers hold the same bytes as the memory at ``addresses``; waits for the device."""
        self.context.fill(self._words, 0, 8)
        for r, other in zip(regions, addresses, strict=True):
            if r.size:
                given = (("pointer", r.address), ("pointer", other), ("int64", r.size), ("pointer", self._words))
                self._launch("tw_check_same", _blocks(r.size // 8), Arguments(given))
        return self._unmarked()

    # ------------------------------------------------------------------ launches

    def _filled(self, start: int, size: int, byte: int) -> None:
        if size:
            given = (("pointer", start), ("int64", size), ("int32", byte), ("pointer", self._words))
            self._launch("tw_check_filled", _blocks(size // 8), Arguments(given))

    def _checksum(self, kept: Kept) -> int:
        parts, words = self._words + 8, kept.size // 8
        found = np.empty(min(PARTS, _blocks(words)), np.uint64)
        given = (("pointer", kept.base), ("int64", words), ("pointer", parts))
        self._launch("tw_checksum", len(found), Arguments(given))
        self.context.download(parts, found)
        return int(found.sum(dtype=np.uint64))

    def _launch(self, symbol: str, blocks: int, arguments: Arguments) -> None:
        self._functions[symbol].launch((blocks, 1, 1), (THREADS, 1, 1), SHARED, arguments)

    def _unmarked(self) -> bool:
        word = np.empty(1, np.uint64)
        self.context.download(self._words, word)
        return int(word[0]) == 0


def as_bytes(values: Array) -> Bytes:
    """An array's bytes, in C order as on a device."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


# --------------------------------------------------------------------------- expectations


def _planned(plan: _Plan, output: int, expected: Expected, tensor: Tensor) -> bool:
    """Add the checks of one output. Returns whether they are as strict as the verifier's checks."""
    size = math.prod(tensor.shape)
    if size == 0:
        return True
    name, kind = check_kernels.format_of(tensor.dtype)
    table = plan.add(check_kernels.table_of(tensor.dtype))
    bounds = [_bounds(i) for i in expected.intervals]
    if not bounds or any(b is None for b in bounds):
        return False
    lows = [b[0].reshape(-1) for b in bounds if b is not None]
    highs = [a if b[1] is b[0] else b[1].reshape(-1) for a, b in zip(lows, bounds, strict=True) if b is not None]
    low = _joined(lows).astype(kind, copy=False)
    points = all(a is b for a, b in zip(lows, highs, strict=True))
    high = low if points else _joined(highs).astype(kind, copy=False)
    whole = len(lows) == 1 and low.size == size
    places = None if whole else np.concatenate([_places(i, tensor.shape) for i in expected.intervals])
    given = (plan.add(low), plan.add(high), plan.add(places), ("int64", low.size), table)
    plan.launches.append(_Launch(f"tw_check_{name}", output, _blocks(low.size), given))
    p = expected.projection
    return p is None or _projected(plan, output, p, tensor, f"tw_project_{name}", table)


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _projected(
    plan: _Plan, output: int, p: Projection, tensor: Tensor, symbol: str, table: tuple[str, int | None]
) -> bool:
    shape = tensor.shape
    length, inner = shape[p.axis], math.prod(shape[p.axis + 1 :])
    rows = math.prod(shape) // length
    if p.expected.size != rows or (p.rest is not None and p.rest.shape != tuple(shape)):
        return False
    rest = None if p.rest is None else p.rest.astype(np.float64)
    arrays = (plan.add(p.weights.astype(np.float64)), plan.add(p.expected.astype(np.float64)), plan.add(rest))
    sizes = (("int64", length), ("int64", inner), ("int32", p.bits))
    plan.launches.append(_Launch(symbol, output, rows, (*arrays, *sizes, table)))
    return True


def _bounds(interval: Interval) -> tuple[Array, Array] | None:
    """Lowest and highest correct values; a NaN as the low bound requires NaN. ``None`` if bounds are not enough."""
    low, high, free, value = interval.low, interval.high, interval.free, interval.value
    if low.dtype.kind != "f":
        return (low, high) if free is None else None
    unknown = np.isnan(low) | np.isnan(high)
    if free is not None and value is not None:
        unknown &= ~free
        huge = np.finfo(value.dtype).max / 2
        nan, inf = low.dtype.type(np.nan), low.dtype.type(np.inf)
        least = np.where(np.isnan(value), nan, np.where(value == np.inf, huge, -inf))
        most = np.where(value == -np.inf, -huge, inf)
        low, high = np.where(free, least, low), np.where(free, most, high)
    return None if unknown.any() else (low, high)


def _places(interval: Interval, shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """Flat indices of a block's elements in an output, in order."""
    at = np.zeros((1,) * len(shape), np.int64)
    for d, (s, _) in enumerate(zip(interval.block, shape, strict=True)):
        along = np.arange(s.start, s.stop, dtype=np.int64) * math.prod(shape[d + 1 :])
        at = at + along.reshape((-1,) + (1,) * (len(shape) - d - 1))
    return at.reshape(-1)


def _blocks(count: int) -> int:
    return max(1, min(MOST_BLOCKS, -(-count // (THREADS * EACH))))

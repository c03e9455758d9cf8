"""Reference results: the values that an output may hold, computed once and stored.

The interpreter computes each element's value and tolerance for each input set. They are stored as closed
intervals in the output's own dtype, so that a check is two comparisons per element. Intervals that
took long to compute are also written to the cache folder, with a checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import dtypes, verifying
from tilewright.core import digest
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.files import locked, replace_file
from tilewright.kernels import expression, reference
from tilewright.kernels.expression.expr import BITS, FLOAT8, FLOATS
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate_block
from tilewright.verifying import inputs, tolerance
from tilewright.verifying.inputs import Array, Recipe

Block = tuple[slice, ...]

WORTH_KEEPING = 0.05  # seconds of computation from which an interval is written to disk
LARGEST = 256 << 20  # largest bytes of a stored array
MEMORY = 256 << 20  # largest bytes of the interpreter's intermediate values
FOLDER_LIMIT = 1 << 30  # bytes of all stored arrays


@dataclass(frozen=True)
class Interval:
    """Lowest and highest correct value of every element of a block.

    ``free`` marks elements whose reference is not finite; they must equal ``value`` (NaN if ``value``
    is NaN). ``None`` if all references are finite, the usual case.
    """

    block: Block
    low: Array
    high: Array
    free: Array | None = None
    value: Array | None = None


class References:
    """Intervals of a program with one result, by recipe and block, from memory, disk or the interpreter."""

    def __init__(self, source: Program, folder: Path | None = None) -> None:
        self.program = source
        self.folder = folder

    def intervals(
        self, recipe: Recipe, values: tuple[Array, ...], blocks: Sequence[Block], stages: frozenset[str],
        rounding: float = 1.0,
    ) -> list[Interval]:  # fmt: skip
        """The intervals of ``blocks`` for inputs of ``recipe``. ``stages``: names of stages that are exact on them.

        ``rounding``: as in :func:`~.tolerance.error_program`.
        """
        places = [[[s.start, s.stop] for s in b] for b in blocks]
        drawn = [recipe.kind, recipe.seed, recipe.reach, list(map(astuple, recipe.long))]
        what = [self.program.dumps(), *drawn, sorted(stages), rounding, _code()]
        names = [digest([*what, place]) for place in places]
        found = [self._read(name, b) for name, b in zip(names, blocks, strict=True)]
        absent = [n for n, f in enumerate(found) if f is None]
        if absent:
            began = time.perf_counter()
            computed = compute(self.program, values, [blocks[n] for n in absent], stages, rounding)
            keep = time.perf_counter() - began > WORTH_KEEPING
            for n, interval in zip(absent, computed, strict=True):
                found[n] = interval
                if keep:
                    self._write(names[n], interval)
        return [f for f in found if f is not None]

    def _read(self, name: str, block: Block) -> Interval | None:
        if self.folder is None:
            return None
        path = self.folder / f"{name}.npy"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        both = np.load(io.BytesIO(data[32:]), allow_pickle=False)
        with contextlib.suppress(OSError):
            os.utime(path)
        return Interval(block, both[0], both[1])

    def _write(self, name: str, interval: Interval) -> None:
        if self.folder is None or interval.free is not None or interval.low.nbytes > LARGEST:
            return
        buffer = io.BytesIO()
        np.save(buffer, np.stack([interval.low, interval.high]), allow_pickle=False)
        data = buffer.getvalue()
        # A lost reference only costs its computation: a full or read-only disk is not an error.
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self.folder):
                _make_room(self.folder, len(data) + 32)
                replace_file(self.folder / f"{name}.npy", hashlib.sha256(data).digest() + data, sync=False)


def compute(
    source: Program, values: tuple[Array, ...], blocks: Sequence[Block], stages: frozenset[str], rounding: float = 1.0
) -> list[Interval]:
    """Value and tolerance of every block from the interpreter, as intervals in the output's dtype."""
    kind = numpy_dtype(source.output.dtype)
    wide = widened(source, values)
    with np.errstate(all="ignore"):
        found = [np.asarray(evaluate_block(source, wide, b, MEMORY)) for b in blocks]
        if source.output.dtype in BITS:
            kind = np.dtype(np.float32)
        if source.output.dtype not in FLOATS:
            return _whole_intervals(source, stages, wide, blocks, found)
        if source.output.name in stages:  # known to the bit, once rounded to the output's dtype
            right = [inputs.rounded(v, source.output.dtype) for v in found]
            if all(np.isfinite(v).all() for v in right):
                return [Interval(b, v, v) for b, v in zip(blocks, right, strict=True)]
        derived = tolerance.error_program(source, stages, rounding)
        given = tolerance_inputs(derived, source, wide)
        errors = [np.asarray(evaluate_block(derived.program, given, b, MEMORY)) for b in blocks]
        return [as_interval(b, v, e, kind, source.output.dtype) for b, v, e in zip(blocks, found, errors, strict=True)]


def _whole_intervals(
    source: Program, stages: frozenset[str], wide: tuple[Array, ...], blocks: Sequence[Block], found: list[Array]
) -> list[Interval]:
    """Intervals of whole numbers or conditions: wider than a point if rounding before a step may decide the value."""
    record = DTYPES[source.output.dtype]
    kind, limits = np.dtype(np.uint8) if record.kind == "bool" else record.numpy, record.limits
    derived = tolerance.error_program(source, stages)
    given = tolerance_inputs(derived, source, wide)
    out = []
    for block, value in zip(blocks, found, strict=True):
        low = high = value
        if derived.program.inputs or len(derived.program.stages) > 1:
            error = np.asarray(evaluate_block(derived.program, given, block, MEMORY))
            reach = np.floor(np.where(np.isfinite(error), error, 0.0)).astype(np.int64)
            low, high = (np.clip(v, *limits) for v in (value - reach, value + reach))
            low, high = np.where(error == np.inf, limits[0], low), np.where(error == np.inf, limits[1], high)
        out.append(Interval(block, low.astype(kind), high.astype(kind)))
    return out


class Positions:
    """Checks positions that rounded values decide (argmax): a kernel's position must be best up to rounding."""

    def __init__(self, source: Program, derived: tolerance.ErrorProgram) -> None:
        self.source = source
        self.derived = derived

    def right(self, values: Sequence[Array], got: Array, block: Block) -> Array:
        """For each element of a block of positions, whether rounding alone may explain it."""
        given = tolerance_inputs(self.derived, self.source, widened(self.source, values))
        found = np.full(self.source.output.shape, -1, np.int64)
        found[block] = got
        both = [evaluate_block(p, (*given, found), block, MEMORY) == got for p in self.derived.chosen]
        return np.asarray(np.logical_or(*both))


def widened(source: Program, values: Sequence[Array]) -> tuple[Array, ...]:
    """Real inputs converted to float64 once, so that the interpreter need not convert them for every block."""
    out = []
    for t, v in zip(source.inputs, values, strict=True):
        out.append(decode(v, t.dtype).astype(np.float64) if t.dtype in FLOATS else v)
    return tuple(out)


def as_interval(block: Block, value: Array, error: Array, kind: np.dtype[Any], dtype: str = "") -> Interval:
    """``value`` plus and minus ``error``, rounded outward to ``kind``, in which ``dtype`` values are compared."""
    short = dtype in FLOAT8
    largest = DTYPES[dtype].largest if short else float(np.finfo(kind).max)
    with np.errstate(all="ignore"):
        low, high = (value - error).astype(kind), (value + error).astype(kind)
        # Rounding to kind may have moved a bound inward.
        low = np.where(low > value - error, np.nextafter(low, kind.type(-np.inf)), low)
        high = np.where(high < value + error, np.nextafter(high, kind.type(np.inf)), high)
        free = ~(np.isfinite(value) & np.isfinite(error) & (np.abs(value) <= largest))
        if not free.any():
            return Interval(block, low, high)
        expected = inputs.rounded(value, dtype) if short else value.astype(kind)
        return Interval(block, low, high, free, expected)


def tolerance_inputs(derived: tolerance.ErrorProgram, source: Program, wide: tuple[Array, ...]) -> tuple[Array, ...]:
    """Inputs of an error program: the checked program's inputs, their absolute values, or their squares."""
    by_name = {t.name: v for t, v in zip(source.inputs, wide, strict=True)}
    change: dict[str, Callable[[Array], Array]] = {"same": lambda v: v, "abs": np.abs, "square": np.square}
    return tuple(change[how](by_name[name]) for name, how in derived.derivations)


@lru_cache(maxsize=1)
def _code() -> str:
    """Hash of the code that computes references."""
    folders = (Path(p.__path__[0]) for p in (expression, reference, verifying))
    files = (Path(dtypes.__file__), *(f for folder in folders for f in sorted(folder.glob("*.py"))))
    return digest([*(hashlib.sha256(f.read_bytes()).hexdigest() for f in files), np.__version__])


def _make_room(folder: Path, more: int) -> None:
    """Delete the least recently used files until ``more`` bytes fit into the folder's limit."""
    total = more
    for _, size, path in sorted(((p.stat().st_mtime, p.stat().st_size, p) for p in folder.iterdir()), reverse=True):
        total += size
        if total > FOLDER_LIMIT:
            path.unlink()

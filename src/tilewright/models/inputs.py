"""Inputs of a model: read from files, or drawn at random to suit the operators that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core import TensorSpec, UsageError
from tilewright.errors import nearest
from tilewright.extent import Sizes
from tilewright.kernels.expression.expr import BITS, FLOATS
from tilewright.models.importer import Imported
from tilewright.models.model_file import Array
from tilewright.size_ranges import sizes_of

PASSED_ON = (
    "Cast", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Identity", "Flatten", "Slice", "Concat", "Clip",
)  # fmt: skip
"""Operators whose result holds the elements of their first input."""

STROKES = 64
"""Number of single-coloured rectangles in a drawn image."""

BYTES = 256
"""Number of values of a byte, from which integers for arithmetic are drawn."""


def given_inputs(sources: Sequence[str], imported: Imported) -> dict[str, Array]:
    """Arrays from ``FILE.npz`` (by name) and ``NAME=FILE.npy``. Raises ``UsageError`` for files and arrays that do not
    fit."""
    found: dict[str, Array] = {}
    for source in sources:
        name, sign, file = source.rpartition("=")
        if sign and not Path(source).is_file():
            found[name] = _load(Path(file), source)
        else:
            loaded = _load(Path(source), source)
            if not isinstance(loaded, dict):
                raise UsageError(f"--input {source} does not name an input", f"Write --input NAME={source}")
            found |= loaded
    specs = {s.name: s for s in imported.graph.inputs}
    for name, array in found.items():
        if name not in specs:
            raise UsageError(
                f"the model has no input {name!r}", f"{nearest(name, specs)}It has {', '.join(specs) or 'none'}"
            )
        if isinstance(array, dict):
            raise UsageError(
                f"--input {name} is an archive of {', '.join(array)}", "Give it without NAME=, or a .npy file"
            )
        _check(specs[name], array)
    return found


def _load(file: Path, source: str) -> Any:
    try:
        with file.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            return {n: loaded[n] for n in loaded.files} if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (OSError, ValueError, EOFError, KeyError) as e:
        raise UsageError(
            f"cannot read --input {source}: {e!s:.120}",
            "Write the file with numpy.save, or numpy.savez with a name each",
        ) from e


def _check(spec: TensorSpec, array: Array) -> None:
    dtype = BITS.get(spec.dtype, spec.dtype) if array.dtype.name != spec.dtype else spec.dtype
    fits = array.dtype.name == dtype or (spec.dtype == "string" and array.dtype.kind in "OSU")
    if sizes_of([(spec.shape, array.shape)]) is None or not fits:
        raise UsageError(
            f"--input has {array.shape} {array.dtype} for the input {spec.name}", f"It is {spec.shape} of {spec.dtype}"
        )


# --------------------------------------------------------------------------- random inputs


def random_inputs(
    imported: Imported, seed: int = 0, given: Mapping[str, Array] | None = None, sizes: Sizes | None = None
) -> dict[str, Array]:
    """Random inputs of the model's shapes, at ``sizes`` of its symbolic axes, of plausible content; ``given`` arrays
    are kept.

    Images are smooth, with values between 0 and 1. Indices cover the whole table. Masks are 1 and end in some 0s.
    Lengths are at most the largest axis. Integers for arithmetic are bytes, and further reals are normally distributed.
    Raises ``UsageError`` for strings and element types that cannot be drawn.
    """
    random = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    sizes = sizes or {}
    for spec in imported.graph.inputs:
        found = (given or {}).get(spec.name)
        made[spec.name] = _drawn(spec.at(sizes), imported, sizes, random) if found is None else found
    return made


def _drawn(spec: TensorSpec, imported: Imported, sizes: Sizes, random: np.random.Generator) -> Array:
    name = spec.name.lower()
    shape = spec.shape
    if spec.dtype in FLOATS:
        return (_image(shape, random) if _is_image(shape) else _reals(name, shape, random)).astype(np.dtype(spec.dtype))
    kind: Any = np.dtype(spec.dtype) if spec.dtype != "string" else np.dtype(object)
    if kind.kind not in "iub":
        raise UsageError(
            f"the input {spec.name} has type {spec.dtype}, which has no random values",
            f"Write --input {spec.name}=FILE.npy",
        )
    if "mask" in name:
        return _mask(shape).astype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    limit, computed = _limit(spec.name, imported, sizes)
    if limit is None and "len" in name:
        return np.full(shape, _length(spec, imported, sizes), kind)
    if limit is not None:
        return random.integers(0, min(limit, np.iinfo(kind).max + 1), shape).astype(kind)
    if kind.itemsize == 1:
        return random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
    return random.integers(0, BYTES if computed else 2, shape).astype(kind)


def _is_image(shape: tuple[int, ...]) -> bool:
    """Whether a shape has four axes, with an axis of 1 or 3 colours first or last."""
    if len(shape) != 4:
        return False
    return any(c in (1, 3) and min(h, w) >= 8 for c, h, w in (shape[1:], (shape[3], *shape[1:3])))


def _image(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Values between 0 and 1: a smooth background (linear between 8 x 8 values), single-coloured rectangles, some
    noise."""
    last = shape[1] not in (1, 3)
    n, c, h, w = (shape[0], shape[3], *shape[1:3]) if last else shape
    made = random.uniform(0.1, 0.9, (n, c, 8, 8))
    for size, axis in ((h, 2), (w, 3)):
        at = np.linspace(0, 7, size)
        low = np.minimum(at.astype(np.int64), 6)
        part = (at - low).reshape((-1, 1) if axis == 2 else (-1,))
        made = np.take(made, low, axis) * (1 - part) + np.take(made, low + 1, axis) * part
    for image in made:
        for _ in range(STROKES):
            top, left = random.integers(0, h), random.integers(0, w)
            image[:, top : top + random.integers(2, 3 + h // 8), left : left + random.integers(2, 3 + w // 8)] = (
                random.uniform(0, 1, (c, 1, 1))
            )
    made = np.clip(made + random.uniform(-0.02, 0.02, made.shape), 0, 1)
    return np.moveaxis(made, 1, 3) if last else made


def _reals(name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    return _mask(shape) if "mask" in name else random.standard_normal(shape)


def _mask(shape: tuple[int, ...]) -> Array:
    """Ones, with zeros in the last eighth of the last axis."""
    made = np.ones(shape)
    if shape:
        made[..., shape[-1] - shape[-1] // 8 :] = 0
    return made


def _length(spec: TensorSpec, imported: Imported, sizes: Sizes) -> int:
    """The second axis of the first further input of at least two axes; 1 without one."""
    others = (s.at(sizes).shape for s in imported.graph.inputs if s.name != spec.name and len(s.shape) > 1)
    return next(others, (1, 1))[1]


def _limit(name: str, imported: Imported, sizes: Sizes) -> tuple[int | None, bool]:
    """The size of the smallest table that a value indexes, and whether the model computes with the value."""
    limits: list[int] = []
    computed = False
    for node, place in _uses(name, imported):
        size = _values(node, place, imported, sizes)
        if size is not None:
            limits.append(size)
        computed = computed or (size is None and place < 2 and node.op_type not in NOT_COMPUTED)
    return min(limits, default=None), computed


NOT_COMPUTED = ("Shape", "Size", "Range", "ConstantOfShape", "Equal", "If", "Loop", "Gather", "TopK")
"""Operators whose integer inputs are not used in arithmetic."""


def _uses(name: str, imported: Imported) -> Iterator[tuple[Any, int]]:
    """The nodes that read a value, also through moves and casts, with the input's position."""
    readers: dict[str, list[tuple[Any, int]]] = {}
    for node in imported.nodes:
        for place, read in enumerate(node.input):
            readers.setdefault(read, []).append((node, place))
    waiting, seen = [name], {name}
    while waiting:
        for node, place in readers.get(waiting.pop(), []):
            if node.op_type in PASSED_ON and (place == 0 or node.op_type == "Concat"):
                new = set(node.output) - seen
                waiting += new
                seen |= new
            else:
                yield node, place


def _values(node: Any, place: int, imported: Imported, sizes: Sizes) -> int | None:
    """Number of values, from 0 on, that an index or class number at this input may have; ``None`` for other
    integers."""
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "OneHot" and place == 0 and node.input[1] in imported.folded:
        return int(imported.folded[node.input[1]].reshape(-1)[0])
    if node.op_type == "Equal" and (classes := imported.folded.get(node.input[1 - place])) is not None:
        return int(classes.max()) + 1 if classes.size > 2 else None
    if node.op_type in ("Gather", "GatherElements", "ScatterElements", "GatherND") and place == 1:
        table = node.input[0]
        if table in imported.unshaped:
            return None
        array = imported.folded.get(table)
        shape = array.shape if array is not None else imported.stated.values[table].at(sizes).shape
        return min(shape) if node.op_type == "GatherND" else shape[attributes.get("axis", 0)]
    return None

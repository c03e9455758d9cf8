"""Ranges of sizes in parameters (``m=1..4096``), and the sizes that a call's shapes imply."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from tilewright.extent import Extent, Sizes, form_of, replaced

_TEXT = re.compile(r"\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*")


def span_of(given: object) -> tuple[int, int] | None:
    """Bounds of a text such as ``1..4096``; ``None`` for any other value."""
    found = _TEXT.fullmatch(given) if isinstance(given, str) else None
    return (int(found[1]), int(found[2])) if found else None


def spread(low: int, high: int, count: int) -> list[int]:
    """At most ``count`` sizes from ``low`` to ``high``, both included, evenly spaced by their logarithm."""
    steps = max(1, count - 1)
    return sorted({round(low * (high / low) ** (k / steps)) for k in range(steps + 1)})


# --------------------------------------------------------------------------- sizes as parameters


def extents_in(name: str, text: str) -> tuple[int, ...]:
    """Numbers and symbolic sizes of a parameter's text, ``1..4096,64``.

    A symbolic size is named after its parameter; on a later axis of a shape, the number of the axis is appended.
    """
    return tuple(
        int(t) if (s := span_of(t)) is None else Extent(s[1], s[0], f"{name}_{d}" if d else name)
        for d, t in enumerate(text.removesuffix(",").split(","))
    )


def ranges_in(params: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The parameters that contain a range, each with its numbers and symbolic sizes."""
    return {k: extents_in(k, v) for k, v in params.items() if isinstance(v, str) and ".." in v}


def params_at(params: Mapping[str, Any], sizes: Sizes) -> dict[str, Any]:
    """Substitutes sizes for the ranges of parameters. A shape of one axis is ``1..4096,``, a size ``1..4096``."""
    return params_within(params, {n: (size, size) for n, size in sizes.items()})


def params_within(params: Mapping[str, Any], spans: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Substitutes other ranges for the ranges of parameters; a range with equal bounds becomes a number."""
    out = dict(params)
    for name, extents in ranges_in(params).items():
        texts = []
        for n in extents:
            low, high = spans.get(n.name, (n.low, n.high)) if isinstance(n, Extent) else (n, n)
            texts.append(f"{low}..{high}" if low < high else str(low))
        several = len(texts) > 1 or str(params[name]).endswith(",")
        open_still = any(".." in t for t in texts)
        text = ",".join(texts) + ("," if open_still and len(texts) == 1 and several else "")
        out[name] = text if several or open_still else int(text)
    return out


def sizes_in(params: Mapping[str, Any], given: Mapping[str, object]) -> dict[str, int] | None:
    """Sizes for which :func:`params_at` gives every parameter with a range its ``given`` value; ``None`` if none
    exist."""
    found: dict[str, int] = {}
    for name, extents in ranges_in(params).items():
        texts = str(given.get(name)).removesuffix(",").split(",")
        if len(texts) != len(extents) or not all(t.isdigit() for t in texts):
            return None
        for n, size in zip(extents, map(int, texts), strict=True):
            if isinstance(n, Extent) and n.takes(size):
                found[n.name] = size
            elif n != size:
                return None
    return found


def sizes_of(shapes: Iterable[tuple[tuple[int, ...], tuple[int, ...]]]) -> Mapping[str, int] | None:
    """Sizes for which symbolic shapes equal concrete ones; ``None`` if no sizes within the ranges fit.

    ``shapes``: pairs of a symbolic and a concrete shape. An extent determines a size if it is a multiple of that size,
    apart from a constant and from sizes that other extents determine.
    """
    return _sizes_of(tuple((tuple(extents), tuple(shape)) for extents, shape in shapes))


@lru_cache(maxsize=1024)
def _sizes_of(shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> Mapping[str, int] | None:
    pairs = []
    for extents, shape in shapes:
        if len(extents) != len(shape):
            return None
        pairs += [(n, size) for n, size in zip(extents, shape, strict=True)]
    found: dict[str, int] = {}
    symbolic_sizes = {s.name: s for n, _ in pairs if isinstance(n, Extent) for s in n.sizes}
    told = True
    while told:
        told = False
        for n, size in pairs:
            missing = [s for s in n.spans if s not in found] if isinstance(n, Extent) else []
            if len(missing) == 1:
                (name,) = missing
                answer = _solved(n, size, name, found)
                told = told or answer is not None
                if answer is not None:
                    found[name] = answer
    if found.keys() != symbolic_sizes.keys() or not all(symbolic_sizes[n].takes(size) for n, size in found.items()):
        return None
    return (
        MappingProxyType(found)
        if all((n.at(found) if isinstance(n, Extent) else n) == size for n, size in pairs)
        else None
    )


def _solved(extent: int, value: int, name: str, known: Sizes) -> int | None:
    """The size ``name`` for which ``extent``, all its other sizes ``known``, equals ``value``; ``None`` if no size
    does."""
    form = form_of(replaced(extent, known))
    terms = dict(form)
    unit = terms.pop(((name),), None) if len(form) <= 2 else None
    if unit is None or unit < 1 or set(terms) - {()}:
        return None
    size, left = divmod(value - terms.get((), 0), unit)
    return size if not left else None

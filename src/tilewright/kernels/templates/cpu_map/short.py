"""Short innermost axes: complex numbers, pixels, quaternions.

The axis outside the short axes is vectorised. Each point of the short axes is a *component* with its own vector.
Tensors store components interleaved: reads load full vectors and deinterleave them (:class:`Run`), and stores
interleave the components.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from tilewright.extent import Extent
from tilewright.kernels.codegen.ranges import Range
from tilewright.kernels.expression.expr import INDEX, Expr, ValueNumbers, const, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.flatten import Axes, Linearizer, flattened, linear, ordered
from tilewright.kernels.rewrite.inline import short

STEPS = (2, 3, 4, 6, 8)
"""Numbers of adjacent elements that reads can deinterleave and stores can interleave."""


@dataclass(frozen=True, eq=False)
class Run:
    """A deinterleaving read: each lane of a vector reads ``size`` adjacent elements, the first lane from ``first`` on.

    The elements of consecutive lanes follow each other in memory. ``reads``: the elements that are used, as (offset
    from the lane's first element, read). ``spare``: number of elements at the end of the last lane's run that may lie
    outside the tensor. ``when``: conditions on outer axes; nothing is read unless all of them hold.
    """

    first: Expr
    size: int
    reads: tuple[tuple[int, Expr], ...]
    spare: int
    when: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class _Read:
    """A read and the conditions on outer axes under which it is evaluated.

    ``certain``: under these conditions the read is evaluated at every point.
    """

    load: Expr
    when: tuple[Expr, ...]
    certain: bool


def short_axes(axes: Axes) -> Iterator[tuple[str, ...]]:
    """Yield groups of innermost axes that may be unrolled into components, the longest first, and the empty group."""
    for n in range(len(axes) - 1, 0, -1):
        inner = axes[-n:]
        points = prod(int(size) for _, size in inner)
        if points in STEPS and int(axes[-n - 1][1]) > points and all(short(size) for _, size in inner):
            yield tuple(name for name, _ in inner)
    yield ()


def components(value: Expr, inner: tuple[str, ...], axes: Axes, tensors: Mapping[str, Tensor]) -> tuple[Expr, ...]:
    """The value at every point of the short axes ``inner``, in memory order."""
    extents = dict(axes)
    lin = Linearizer.below({a: n for a, n in axes if a not in inner})
    points = product(*(range(extents[a]) for a in inner))
    at = ({a: const(k, INDEX) for a, k in zip(inner, p, strict=True)} for p in points)
    return tuple(ordered(flattened(value.substitute(here), tensors, lin)) for here in at) if inner else (value,)


def runs(
    values: Sequence[Expr], tensors: Mapping[str, Tensor], inner: str, ranges: Mapping[str, Range]
) -> tuple[Run, ...]:
    """Group the strided reads along the ``inner`` axis into deinterleaving reads that lie within their tensors."""
    numbers, lin = ValueNumbers(), Linearizer(ranges)
    groups: dict[tuple[object, ...], list[tuple[int, Linear, _Read]]] = {}
    for r in _deduplicated([r for v in values for r in _evaluated(v, inner, numbers)], numbers):
        position = linear(r.load.args[0]).ordered()
        size = position.step(inner)
        if size not in STEPS or r.load.dtype == "bool":
            continue
        place = position.const % size
        start = position.plus(-place)
        key = (r.load.value, size, repr(start.expr()), *map(numbers.of, r.when))
        groups.setdefault(key, []).append((place, start, r))
    found = []
    for group in groups.values():
        _, start, read = group[0]
        tensor, size = tensors[str(read.load.value)], start.of(inner)
        sure = [place for place, _, r in group if r.certain]
        low, spare = 0, 0
        if not _inside(start, lin, tensor.size, size) and not (sure and _aligned(start, tensor.size, size)):
            if not sure:
                continue
            # Only reads that are evaluated at every point are known to lie inside the tensor.
            low, spare = min(sure), size - 1 - (max(sure) - min(sure))
            group = [g for g in group if low <= g[0] <= max(sure)]
        first = load(tensor.name, read.load.dtype, (start.plus(low).expr(),))
        reads = {place - low: r.load for place, _, r in group}
        # If few of the elements are used, strided loads of single elements cost no more.
        if 4 * len(reads) >= size:
            found.append(Run(first, size, tuple(sorted(reads.items())), spare, read.when))
    return tuple(found)


def _evaluated(e: Expr, inner: str, numbers: ValueNumbers) -> list[_Read]:
    """Reads that an evaluation may make; reads inside the indices of other reads are left out."""
    if e.op == "load":
        return [_Read(e, (), True)]
    if e.op != "select":
        return [r for a in e.args for r in _evaluated(a, inner, numbers)]
    condition, *sides = (_evaluated(a, inner, numbers) for a in e.args)
    keys = [{numbers.of(r.load) for r in side if r.certain and not r.when} for side in sides]
    both = [r for r in sides[0] if r.certain and not r.when and numbers.of(r.load) in keys[1]]
    if inner in e.args[0].axes():
        # A nested condition that reads memory is safe to evaluate only where this condition holds.
        maybe = (r for side in sides for r in side if not any(c.loads() for c in r.when))
        return [*condition, *both, *(replace(r, certain=False) for r in maybe)]
    holds = (e.args[0], Expr("not", "bool", (e.args[0],)))
    return [
        *condition, *both, *(replace(r, when=(c, *r.when)) for c, side in zip(holds, sides, strict=True) for r in side),
    ]  # fmt: skip


def _deduplicated(reads: Sequence[_Read], numbers: ValueNumbers) -> list[_Read]:
    """Deduplicate reads: each read once, under the fewest conditions.

    A read that only appears under different sets of conditions is left out.
    """
    found: dict[int, list[_Read]] = {}
    for r in reads:
        found.setdefault(numbers.of(r.load), []).append(r)
    kept = []
    for made in found.values():
        best = min(made, key=lambda r: (len(r.when), not r.certain))
        if not best.when or len({tuple(map(numbers.of, r.when)) for r in made}) == 1:
            kept.append(best)
    return kept


def _aligned(start: Linear, elements: int, size: int) -> bool:
    """Whether runs of ``size`` elements tile the tensor, and every position starts a run."""
    return all(n % size == 0 for n in (elements, start.const, *start.coef.values()))


def _inside(start: Linear, lin: Linearizer, elements: int, size: int) -> bool:
    """Whether runs of ``size`` elements from ``start`` on lie within a tensor of ``elements`` elements."""
    low, high = lin.bounds(start.expr())
    return not isinstance(elements, Extent) and low >= 0 and high + size <= elements


def contiguous(values: Sequence[Expr], found: Sequence[Run], inner: str) -> bool:
    """Whether all reads load whole vectors along the ``inner`` axis: contiguous, broadcast or deinterleaving."""
    numbers = ValueNumbers()
    apart = {numbers.of(x) for run in found for _, x in run.reads}
    return all(
        numbers.of(x) in apart or (x.dtype != "bool" and linear(x.args[0]).step(inner) in (0, 1))
        for v in values for x in v.loads()
    )  # fmt: skip


def any_order(values: Sequence[Expr], found: Sequence[Run], inner: str) -> bool:
    """Whether lanes may hold a vector's points in any order.

    All values that vary by lane must come from reads that deinterleave the number of elements that stores interleave.
    """
    size, numbers = len(values), ValueNumbers()
    apart = {numbers.of(x) for run in found for _, x in run.reads}

    def free(e: Expr) -> bool:
        if e.op == "load":
            return numbers.of(e) in apart or inner not in e.axes()
        return not (e.op == "axis" and e.value == inner) and all(free(a) for a in e.args)

    return size in (2, 4, 8) and all(run.size == size for run in found) and all(free(v) for v in values)

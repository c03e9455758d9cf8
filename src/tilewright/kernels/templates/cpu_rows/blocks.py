"""Prints the accumulation of moments (``moments.py``) in blocks of vectors that are in registers.

Each lane keeps a pivot (the lane's first element), the sum of elements minus the pivot, and the sum of their squared
deviations. All lanes share one count. A block of ``k`` vectors adds to each lane the block's sum and its squared
deviations from the block's mean. It also adds a term for the distance between the block's mean and the running mean.
The pivot only affects rounding: it makes rounding errors proportional to the elements' spread. A tail is a block of
one partial vector; tails have separate accumulators, and their unused lanes are masked out at the end.
"""

from __future__ import annotations

from tilewright.kernels.codegen.accumulators import pairwise
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.families.row_reduction import RowStage

WHOLE, TAIL = 0, 1
"""The two sets of accumulators: for full vectors, and for the partial vector at a row's end."""


def start(w: Writer, s: RowStage, q: int, kind: str, vector: str, total: str) -> None:
    """Declare a row's accumulators: count and its inverse, pivot, sum, squared deviations.

    ``kind``, ``vector`` and ``total``: C types of a lane, of a vector of elements, and of a vector of sums.
    """
    for part in (WHOLE, TAIL):
        w.line(f"{kind} {s.name}n_{q}_{part} = 0, {s.name}r_{q}_{part} = 0;")
        w.line(f"{vector} {s.name}p_{q}_{part} = {{}};")
        w.line(f"{total} {s.name}s_{q}_{part} = {{}}, {s.name}d_{q}_{part} = {{}};")


def update(w: Writer, s: RowStage, q: int, part: int, vectors: list[str]) -> None:
    """Accumulate one block of vectors."""
    state = ", ".join(f"{s.name}{x}_{q}_{part}" for x in "nrpsd")
    w.line(f"block{len(vectors)}({state}, {', '.join(vectors)});")


def across(
    w: Writer, s: RowStage, q: int, kinds: tuple[str, str], vectors: tuple[str, str], lanes: int, rest: str | None
) -> list[str]:
    """Merge a row's accumulators across lanes; returns C texts of count, sum, and squared deviations.

    ``kinds`` and ``vectors``: C types of lanes and of vectors, each for elements first and for sums second. ``rest``:
    C text of the number of active lanes in tails, or ``None`` where rows have no tail.
    """
    (kind, wide), (vector, total) = kinds, vectors
    n, r, p, t, d = ([f"{s.name}{x}_{q}_{part}" for part in (WHOLE, TAIL)] for x in "nrpsd")
    count, pivot, whole, mean, far = (f"{s.name}{x}_{q}" for x in ("count", "pivot", "total", "mean", "far"))
    parts = (WHOLE,) if rest is None else (WHOLE, TAIL)
    off, own = ([f"{s.name}{x}_{q}_{k}" for k in (WHOLE, TAIL)] for x in ("off", "own"))

    def used(k: int, text: str, v: str) -> str:
        return text if k == WHOLE else f"tw::select(tw::first<tw::mask<{v}>>({rest}), {text}, {v}{{}})"

    w.line(f"const {kind} {count} = {n[WHOLE]} * {lanes}{f' + {n[TAIL]} * ({kind})({rest})' if rest else ''};")
    w.line(f"const {kind} {pivot} = {p[WHOLE]}[0];")
    for k in parts:
        mine = f"({p[k]} - {pivot}) + tw::convert<{vector}>({t[k]}) * {r[k]}"
        summed = f"tw::convert<{total}>({p[k]} - {pivot}) * {n[k]} + {t[k]}"
        w.line(f"const {vector} {off[k]} = {used(k, mine, vector)};")
        w.line(f"const {total} {own[k]} = {used(k, summed, total)};")
    w.line(f"const {wide} {whole} = tw::hsum({' + '.join(own[k] for k in parts)});")
    w.line(f"const {kind} {mean} = ({kind})({whole} / {count});")
    apart = [used(k, f"apart({off[k]}, {n[k]}, {d[k]}, {mean})", total) for k in parts]
    w.line(f"const {total} {far} = {' + '.join(apart)};")
    return [count, f"({kind})(({wide}){pivot} * {count} + {whole})", f"({kind})tw::hsum({far})"]


def functions(sizes: set[int]) -> list[str]:
    """C++ functions that the accumulation calls: one for each number of vectors in ``sizes``, and ``apart``."""
    w = Writer()
    for k in sorted(sizes):
        _block(w, k)
    w.line("// Squared deviations from the row's mean of what lanes hold.")
    with w.block("template <class T, class V, class W> TW_INLINE W apart(V own, T count, W squares, T mean)"):
        w.line("const V d = own - mean;")
        w.line("return squares + tw::convert<W>(d * (d * count));")
    return w.lines


def _block(w: Writer, k: int) -> None:
    """Print the function that accumulates a block of ``k`` vectors.

    C++ types: ``T`` of a lane, ``V`` of a vector of elements, ``W`` of a vector of sums. ``inverse`` is 0 where the
    count is 0.
    """
    state, names = "T &count, T &inverse, V &pivot, W &sum, W &squares", ", ".join(f"V x{v}" for v in range(k))
    share = f" * (T){1 / k!r}" if k > 1 else ""
    with w.block(f"template <class T, class V, class W> TW_INLINE void block{k}({state}, {names})"):
        with w.block("if (count == 0)"):
            w.line("pivot = x0 - x0 == V{} ? x0 : V{};  // not where it is infinite or NaN")
        for v in range(k):
            w.line(f"const V y{v} = x{v} - pivot;")
        w.line(f"const V own = {pairwise([f'y{v}' for v in range(k)])};")
        w.line(f"const V mean = own{share};")
        w.line("const V apart = mean - tw::convert<V>(sum) * inverse;")
        w.line(f"inverse = 1 / (count + {k});")
        w.line(f"V more = apart * (apart * (count * inverse * {k}));")
        if k > 1:
            for v in range(k):
                w.line(f"const V d{v} = y{v} - mean;")
            for v in range(2):
                w.line(f"V q{v} = d{v} * d{v};")
            for v in range(2, k):
                w.line(f"q{v % 2} += d{v} * d{v};")
            w.line("more += q0 + q1;")
        w.line("squares += tw::convert<W>(more);")
        w.line("sum += tw::convert<W>(own);")
        w.line(f"count += {k};")

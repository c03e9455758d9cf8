"""Prints the two register tiles for a strip of queries: scores of some keys, and some columns of the result.

Vectors lie along the queries. So keys and values are broadcast one element at a time from their place in memory, and
the softmax needs no reduction within a vector. Each accumulator is a separate variable: GCC keeps arrays of vectors in
memory under -O2.
"""

from __future__ import annotations

from tilewright.kernels.templates.cpu_attention.geometry import AttentionTiling


def score_tile(p: AttentionTiling, rows: int) -> str:
    """C++ function of a QK tile: ``s[i][query] = sum over r of k[i][r] * q[r][query]`` for ``rows`` keys."""
    (along, inner), w, lanes = p.steps(p.a.k), p.strip, p.lanes
    depth, unrolled, _ = p.nests[0].spans("r")
    lines = [
        f"TW_NOINLINE void scores_{rows}(const float *TW_RESTRICT k, const float *TW_RESTRICT q, "
        "float *TW_RESTRICT s) {"
    ]
    cells = [(i, v) for i in range(rows) for v in range(p.vectors)]
    lines += [" V " + ", ".join(f"c{i}_{v}={{}}" for v in range(p.vectors)) + ";" for i in range(rows)]
    lines.append(f" for(long r=0;r<{depth}L;r+={unrolled}) {{")
    for u in range(unrolled):
        lines += _step(p, "c", "q", u * w, [f"k[{i * along + u * inner}L]" for i in range(rows)])
    lines.append(f"  q+={unrolled * w}L; k+={unrolled * inner}L; }}")
    lines += [f" tw::store(s+{i * w + v * lanes}L,c{i}_{v});" for i, v in cells]
    return "\n".join([*lines, "}"])


def _step(p: AttentionTiling, sums: str, strips: str, at: int, elements: list[str]) -> list[str]:
    """C statements of a rank-1 update: each row of accumulators adds its element times the vectors at ``at``."""
    loads = "".join(f" const V b{v}=tw::load<V>({strips}+{at + v * p.lanes}L);" for v in range(p.vectors))
    lines = [f"  {{{loads}"]
    for i, element in enumerate(elements):
        added = " ".join(f"{sums}{i}_{v}+=x*b{v};" for v in range(p.vectors))
        lines.append(f"   {{ const V x=tw::splat<V>({element}); {added} }}")
    return [*lines, "  }"]


def value_tile(p: AttentionTiling, rows: int) -> str:
    """C++ function of a PV tile: ``o[i][query] = o * c[query] + sum over j of v[j][i] * s[j][query]``.

    The first block of keys leaves out ``o * c``.
    """
    (along, inner), w, lanes = p.steps(p.a.v), p.strip, p.lanes
    lines = [
        f"TW_NOINLINE void values_{rows}(long n, const float *TW_RESTRICT v, const float *TW_RESTRICT s, "
        "float *TW_RESTRICT o, const float *TW_RESTRICT c, long first) {"
    ]
    cells = [(i, v) for i in range(rows) for v in range(p.vectors)]
    lines += [" V " + ", ".join(f"a{i}_{v}={{}}" for v in range(p.vectors)) + ";" for i in range(rows)]

    def step(u: int) -> list[str]:
        return _step(p, "a", "s", u * w, [f"v[{u * along + i * inner}L]" for i in range(rows)])

    u = p.nests[1].spans("j")[-2]
    lines.append(" long j=0;")
    if u > 1:
        lines.append(f" for(;j+{u}<=n;j+={u}) {{")
        for n in range(u):
            lines += step(n)
        lines.append(f"  s+={u * w}L; v+={u * along}L; }}")
    lines += [" for(;j<n;j++) {", *step(0)]
    lines.append(f"  s+={w}L; v+={along}L; }}")
    lines.append(" if(!first) {")  # last: adding each key to the running total would round more often
    lines += [f"  const V c{v}=tw::load<V>(c+{v * lanes}L);" for v in range(p.vectors)]
    lines += [f"  a{i}_{v}+=tw::load<V>(o+{i * w + v * lanes}L)*c{v};" for i, v in cells]
    lines.append(" }")
    lines += [f" tw::store(o+{i * w + v * lanes}L,a{i}_{v});" for i, v in cells]
    return "\n".join([*lines, "}"])


def transpose(lanes: int) -> str:
    """C++ function that transposes a square of ``lanes`` by ``lanes`` elements in registers and stores floats."""
    rows = [f"r{n}" for n in range(lanes)]
    lines = [
        "template <class S> TW_INLINE void turn(const S *s, long ss, float *d, long ds) {",
        *(f" V {r}=tw::load<V>(s+{n}*ss);" for n, r in enumerate(rows)),
    ]
    step, serial = lanes // 2, 0
    while step:
        # Each pass swaps the off-diagonal blocks of ``step`` x ``step`` elements.
        low = ",".join(str(n if not n & step else lanes + n - step) for n in range(lanes))
        high = ",".join(str(n + step if not n & step else lanes + n) for n in range(lanes))
        for n in range(lanes):
            if not n & step:
                a, b = rows[n], rows[n + step]
                rows[n], rows[n + step] = f"t{serial}", f"t{serial + 1}"
                lines.append(f" const V t{serial}=__builtin_shufflevector({a},{b},{low});")
                lines.append(f" const V t{serial + 1}=__builtin_shufflevector({a},{b},{high});")
                serial += 2
        step //= 2
    lines += [f" tw::store(d+{n}*ds,{r});" for n, r in enumerate(rows)]
    return "\n".join([*lines, "}"])

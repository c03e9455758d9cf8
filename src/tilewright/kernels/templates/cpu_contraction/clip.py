"""C text of clipped loops over K: bounds of the trips that a tile makes, and sums of the skipped trips.

A skipped step would add zero times an element of B, which is NaN where the element is not finite. Packing B also
stores the sums of these products for every trip in a table, and whether any sum is NaN. If so, tiles start from the
stored sums.
"""

from __future__ import annotations

from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.text import edge, form, outer_texts
from tilewright.kernels.templates.cpu_contraction.window import MOST_CUT, NO_ROWS, Cuts, Table
from tilewright.kernels.templates.tiles import ceildiv


def tables_of_rows(p: ContractionTiling) -> str:
    """Constant tables: the number of each trip's row range for every tile, and the first row and end of every range."""
    t = p.table
    if not isinstance(t, Table):
        return ""
    entries = ",".join(str(e) for blocks in t.entries for trips in blocks for e in trips)
    lows, highs = (",".join(str(v[n]) for v in t.variants) for n in (0, 1))
    return (
        f"static const unsigned char SPANS[]={{{entries}}};\n"
        f"static const unsigned char FROM[]={{{lows}}}, TO[]={{{highs}}};"
    )


def bounds(p: ContractionTiling, blocked: bool) -> str:
    """Declaration of ``kr``: first trip and one past the last trip of every loop over K around the innermost one.

    ``blocked``: the outermost loop counts from ``pc``, within the block of ``kc`` trips that begins there.
    """
    loops = p.k_loops[:-1]
    texts = outer_texts(p.c)
    for d, w in enumerate(p.m_loops):
        texts.update(dict.fromkeys(w.group.axes, f"l{d}"))
    first = "kr[0]=0; kr[1]=kc;" if blocked else f"kr[0]=0; kr[1]={loops[0].size}L;"
    out = [f"long kr[{2 * len(loops)}]; {first}"]
    out += [f"kr[{2 * d}]=0; kr[{2 * d + 1}]={w.size}L;" for d, w in enumerate(loops) if d]
    for name, b in p.clip.ranges if p.clip else ():
        d = next(n for n, w in enumerate(loops) if name in w.group.axes)
        start = "-pc" if blocked and d == 0 else ""
        slope = b.of(name)
        end, narrower = (f"kr[{2 * d}]", "imax") if slope > 0 else (f"kr[{2 * d + 1}]", "imin")
        # ``v`` is the bound where the axis is 0; with the slope it gives the first trip or the end.
        out.append(f"{{ const long v={form(b, texts)}; {end}=tw::{narrower}({end},({edge(slope)}){start}); }}")
    return " ".join(out)


def spans(p: ContractionTiling) -> str:
    """Declaration of ``spans``: the row range of tile ``rb`` at every trip of the clipped loop."""
    t, clip = p.table, p.clip
    assert t is not None
    assert clip is not None
    assert clip.axis is not None
    extents = p.c.stage.ranges
    if isinstance(t, Cuts):
        block = "rb" if len(p.m_loops) == 1 else "b0"
        return f"const unsigned char *spans=cuts[({block}==0)+2*({block}==x->blocks-1)];"
    at = Group(t.axes, tuple(extents[a] for a in t.axes)).joined("o_")
    count = p.row_blocks.count
    block = "rb" if len(p.m_loops) == 1 else f"rb%{count}L"
    return f"const unsigned char *spans=SPANS+(({at})*{count}L+{block})*{extents[clip.axis]}L;"


def cuts(p: ContractionTiling) -> str:
    """Declaration of ``cuts``: row ranges by trip, along a symbolic axis, of four cases of tiles.

    The cases: interior (0), first (1), last (2) and only tile (3) along the axis.
    """
    clip = p.clip
    if not isinstance(p.table, Cuts) or clip is None or clip.axis is None:
        return ""
    texts = {clip.axis: "t", p.c.m.axes[-1]: "at"}
    parts = []
    for b in clip.rows:
        slope = b.of(p.c.m.axes[-1])
        narrowed = f"low=tw::imax(low,{edge(slope)})" if slope > 0 else f"end=tw::imin(end,{edge(slope)})"
        parts.append(f"{{ const long v={form(b, texts)}; {narrowed}; }}")
    trips, blocks = p.c.stage.ranges[clip.axis], p.row_blocks
    return "\n".join([
        f" unsigned char cuts[4][{trips}]={{}}; for(long e=1;e<4;e++) {{ const long b=e==2?x->blocks-1:0;",
        f"  const long n={blocks.height('b')}, at={blocks.start('b')};",
        f"  for(long t=0;t<{trips}L;t++) {{ long low=0, end=n; {' '.join(parts)}",
        f"   cuts[e][t]=low<end?low*{MOST_CUT}+n-end:{NO_ROWS}; }} }}",
    ])  # fmt: skip


def first_loop(p: ContractionTiling) -> bool:
    """Whether the clipped loop with row ranges is the outermost loop over K, which blocks of K divide."""
    return p.clip is not None and p.clip.axis in p.k_loops[0].group.axes


def trips(p: ContractionTiling) -> int:
    """Number of combinations of trips of the loops over K around the innermost one."""
    return p.c.k.size // p.k_loops[-1].size


def skipped_size(p: ContractionTiling) -> int:
    """Elements of the table of skipped sums of one outer position: a row of columns for every combination of trips."""
    return p.column_blocks.count * trips(p) * p.width if p.clip else 0


def skipped(p: ContractionTiling) -> str:
    """C function: fills the table with sums of zero times B over the innermost loop; returns whether any sum is NaN."""
    if not p.clip:
        return ""
    inner, rows = p.k_loops[-1].size, skipped_size(p) // p.width
    return "\n".join([
        f"TW_NOINLINE bool skipped(const T *b, T *d) {{ bool any=false; for(long t=0;t<{rows}L;t++)",
        f" for(long j=0;j<{p.width}L;j++) {{ T v=0; for(long k=0;k<{inner}L;k++) v+=0*b[(t*{inner}L+k)*{p.width}L+j];",
        f"  d[t*{p.width}L+j]=v; any=any||v!=v; }} return any; }}",
    ])  # fmt: skip


def start_tile(p: ContractionTiling) -> str:
    """C function: sets a tile's first sums to the sums of its skipped steps."""
    if not p.clip:
        return ""
    loops = p.k_loops[:-1]
    clip = p.clip
    lines = [
        "TW_NOINLINE void start(const T *s, const long *kr, const unsigned char *spans, long rows, long cols, T *c) {",
        " (void)spans;",
        f" for(long i=0;i<rows;i++) {{ T *d=c+{_row(p)}; for(long j=0;j<cols;j++) d[j]=0; const T *q=s;",
    ]
    inside = ["true"]
    for d, w in enumerate(loops):
        lines.append(f"  for(long k{d}=0;k{d}<{w.size}L;k{d}++)")
        if clip.axis in w.group.axes:
            along = f"i%{p.inner}L" if p.lines > 1 else "i"
            number = f"spans[k{d}]"
            if isinstance(p.table, Cuts):
                inside.append(f"{number}!={NO_ROWS}&&i>={number}/{MOST_CUT}&&i<rows-{number}%{MOST_CUT}")
            else:
                # Range 0 is all rows of a tile of either size.
                inside.append(f"({number}==0||({along}>=FROM[{number}]&&{along}<TO[{number}]))")
        inside.append(f"k{d}>=kr[{2 * d}]&&k{d}<kr[{2 * d + 1}]")
    lines.append(f"  {{ if(!({'&&'.join(inside)})) for(long j=0;j<cols;j++) d[j]+=q[j]; q+={p.width}L; }} }} }}")
    return "\n".join(lines)


def _row(p: ContractionTiling) -> str:
    if not p.c.in_place:
        return f"i*{p.width}L"
    if p.lines > 1:
        return f"i/{p.inner}L*{p.m_loops[-2].other}L+i%{p.inner}L*{p.m_loops[-1].other}L"
    return f"i*{p.m_loops[-1].other}L"


def panel_elements(p: ContractionTiling) -> int:
    """Elements of the packed panels of B of one outer position."""
    return p.column_blocks.count * (p.heads + p.depth) * p.width


def a_panel_elements(p: ContractionTiling) -> int:
    """Elements of the packed panels of A of one outer position."""
    return p.row_count * ceildiv(p.c.k.size, p.unroll) * p.unroll * p.rows

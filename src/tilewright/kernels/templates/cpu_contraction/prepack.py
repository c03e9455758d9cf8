"""Prepacking of constant operands: packed once, with panels for every outer position that the operand depends on."""

from __future__ import annotations

from tilewright.core import Launch, Prepack
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.cpu_contraction.clip import (
    a_panel_elements,
    panel_elements,
    skipped,
    skipped_size,
)  # fmt: skip
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.match import Contraction, Operand, constant

FLAG = 64
"""Bytes at the end of a packed operand, whose first element is a flag: whether a sum of skipped steps is NaN."""


def outer_axes(c: Contraction, operand: Operand) -> Group:
    """The outer axes that an operand depends on."""
    names = operand.value.axes()
    kept = [(a, e) for a, e in zip(c.batch.axes, c.batch.extents, strict=True) if a in names]
    return Group(tuple(a for a, _ in kept), tuple(e for _, e in kept))


def elements(p: ContractionTiling, which: str) -> int:
    """Elements of all panels of an operand, and of the sums of skipped steps behind B's panels."""
    if which == "a":
        return a_panel_elements(p) * outer_axes(p.c, p.c.a).size
    return (panel_elements(p) + skipped_size(p)) * outer_axes(p.c, p.c.b).size


def panels(p: ContractionTiling, which: str) -> str:
    """C text of the pointer to the first panel of an operand for the outer position in ``o_<axis>``."""
    operand = p.c.a if which == "a" else p.c.b
    size = a_panel_elements(p) if which == "a" else panel_elements(p)
    kind = p.a_type if which == "a" else p.b_type
    start = (
        f"(const {kind}*)x->t[{constant(p.c, which)}]" if (p.a if which == "a" else p.b) == "prepack" else "x->packed"
    )
    return f"{start}+({outer_axes(p.c, operand).joined('o_')})*{size}L"


def skipped_sums(p: ContractionTiling) -> str:
    """C text of the pointer to the sums of skipped steps, for the outer position in ``o_<axis>``."""
    all_panels = panel_elements(p) * outer_axes(p.c, p.c.b).size
    return (
        f"(const T*)x->t[{constant(p.c, 'b')}]+{all_panels}L+({outer_axes(p.c, p.c.b).joined('o_')})*{skipped_size(p)}L"
    )


def flag(p: ContractionTiling) -> str:
    """C condition: whether a sum of skipped steps is NaN."""
    return f"((const T*)x->t[{constant(p.c, 'b')}])[{elements(p, 'b')}L]!=0"


def operands(p: ContractionTiling) -> list[str]:
    """The prepacked operands, of ``a`` and ``b``."""
    return [which for which, how in (("a", p.a), ("b", p.b)) if how == "prepack"]


def prepacks(p: ContractionTiling) -> tuple[Prepack, ...]:
    """The prepacking steps of a kernel: input, bytes of the packed operand, and launch."""
    out = []
    for which in operands(p):
        number = constant(p.c, which)
        assert number is not None
        size = elements(p, which) * (p.item if which == "a" else p.b_item) + FLAG
        out.append(Prepack(number, size, Launch(f"_pack_{which}")))
    return tuple(out)


def entries(p: ContractionTiling, symbol: str) -> str:
    """C entry points that fill packed operands, each passed as the entry point's workspace."""
    out = []
    for which in operands(p):
        operand = p.c.a if which == "a" else p.c.b
        group = outer_axes(p.c, operand)
        size = a_panel_elements(p) if which == "a" else panel_elements(p)
        if p.b_at_once:
            out.append(
                f"TW_ENTRY({symbol}_pack_{which}) {{ using namespace {symbol}_; (void)args;\n"
                f" Ctx c{{}}; c.t=tensors; c.packed=({p.b_type}*)workspace;\n"
                f" tw::parallel_for(env,{pack_count(p)},pack_task,&c); return 0; }}"
            )
            continue
        names, outer = _outer_index(p, group)
        blocks = p.row_count if which == "a" else p.column_blocks.count
        # Constants do not depend on symbolic sizes, but the packing functions count outer positions by them.
        sizes = "".join(f" c.{s.argument}={s.high}L;" for s in p.c.program.sizes.values())
        lines = [
            f"TW_ENTRY({symbol}_pack_{which}) {{ using namespace {symbol}_; (void)args; (void)env;",
            f" Ctx c{{}}; const Ctx *x=&c; c.t=tensors;{sizes} T *d=(T*)workspace; bool any=false; (void)any;",
            f" for(long u=0;u<{group.size}L;u++) {{ {names}",
            f"  pack_{which}(x,{outer},0,{blocks}L,0,{p.depth}L,d+u*{size}L); }}",
        ]
        if which == "b" and p.clip:
            lines += [
                f" for(long u=0;u<{group.size}L;u++)",
                f"  if(skipped(d+u*{size}L,d+{size * group.size}L+u*{skipped_size(p)}L)) any=true;",
                f" d[{elements(p, 'b')}L]=any;",
            ]
        out.append("\n".join([*lines, " return 0; }"]))
    return "\n".join(out)


def _outer_index(p: ContractionTiling, group: Group) -> tuple[str, str]:
    """Declarations of the axes of ``group`` from their fused index ``u``, and the fused index over all outer axes."""
    outer = "0L"
    for a, e in zip(p.c.batch.axes, p.c.batch.extents, strict=True):
        outer = f"({outer})*{e}L+" + (f"o_{a}" if a in group.axes else "0L")
    return " ".join(f"const long o_{a}={t}; (void)o_{a};" for a, t in group.split("u").items()), outer


def helpers(p: ContractionTiling) -> str:
    """C functions that the entry points call, beside the packing functions."""
    return _pack_task(p) if p.b_at_once else skipped(p)


PACKING_TASKS = 4
"""Tasks for each thread that pack all of B."""

PACK = """\
TW_NOINLINE void pack_task(void *ctx,long t,long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long i=t%$tasks, u=t/$tasks, c0=i*$count/$tasks, c1=(i+1)*$count/$tasks; $names
 pack_b(x,$outer,c0,c1,0,$depth,x->packed+u*$size+c0*$panel); }"""


def _packing_tasks(p: ContractionTiling) -> int:
    return min(PACKING_TASKS * p.target.threads, p.column_blocks.count)


def pack_count(p: ContractionTiling) -> int:
    """Number of tasks that pack all of B."""
    return outer_axes(p.c, p.c.b).size * _packing_tasks(p)


def _pack_task(p: ContractionTiling) -> str:
    """C function of a task that packs some columns of B, with all of K."""
    names, outer = _outer_index(p, outer_axes(p.c, p.c.b))
    size, count = panel_elements(p), p.column_blocks.count
    mapping = {
        "tasks": _packing_tasks(p), "count": count, "names": names, "outer": outer, "depth": p.depth, "size": size,
        "panel": size // count,
    }  # fmt: skip
    return substitute(PACK, mapping)

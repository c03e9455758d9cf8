"""C text that several modules of a contraction's kernel share: positions, reads of single elements, types."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.dtypes import DTYPES
from tilewright.extent import ctext
from tilewright.kernels.codegen.context import context_sizes
from tilewright.kernels.codegen.printer import print_expr
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.match import Contraction

C_TYPES = {d.name: "unsigned char" if d.kind == "bool" else d.cpu for d in DTYPES.values()}
"""C type in memory of every dtype."""


def var_text(e: Expr, var: Mapping[str, str] | None = None, lanes: int | None = None) -> str:
    """C text of an expression whose leaves are variables, each a vector of ``lanes`` elements."""
    return print_expr(e, axis={}, load=_no_load, var=var, lanes=lanes)


def _no_load(e: Expr) -> str:
    raise AssertionError(f"unexpected read {e!r}")


def combine_text(p: ContractionTiling, left: str, right: str) -> str:
    """C text of the monoid's combine of two vectors."""
    assert p.c.stage.monoid is not None
    return var_text(p.c.stage.monoid.combine[0], {"l0": left, "r0": right}, p.lanes)


# ------------------------------------------------------------------ positions


def sizes(p: ContractionTiling) -> str:
    """Declarations of the symbolic sizes, read from the context."""
    return context_sizes(p.c.program, "\n")


def outer_names(p: ContractionTiling) -> str:
    """Declarations of ``o_<axis>`` from the outer index ``o``."""
    return "".join(f" const long o_{a}={t}; (void)o_{a};\n" for a, t in p.c.batch.split("o").items())


def outer_texts(c: Contraction) -> dict[str, str]:
    """C text of every outer axis and atom, given ``o_<axis>``."""
    texts = {a: f"o_{a}" for a in c.batch.axes}
    atoms = {n: f"({print_expr(e, axis=texts, load=_no_load)})" for n, e in c.atoms.items()}
    return texts | atoms


def form(f: Linear, texts: Mapping[str, str]) -> str:
    """C text of a linear form. Axes and atoms that ``texts`` lacks count as zero."""
    return "+".join([ctext(f.const)] + [f"{ctext(k)}*{texts[n]}" for n, k in f.coef.items() if k and n in texts])


def tensor_pointer(c: Contraction, name: str) -> str:
    """C text of a program input's pointer, untyped."""
    return f"x->t[{[t.name for t in c.program.inputs].index(name)}]"


def operand_pointer(p: ContractionTiling, which: str) -> str:
    """C text of the address of an affine operand at M or N = 0, k = 0."""
    operand = p.c.a if which == "a" else p.c.b
    w = operand.window
    assert w is not None
    if which == "a" and p.image:
        return f"x->image+{form(p.image.position, outer_texts(p.c))}"
    kind = p.source_type(w.tensor.dtype)
    return f"(const {kind}*){tensor_pointer(p.c, w.tensor.name)}+{form(w.position, outer_texts(p.c))}"


def edge(slope: int) -> str:
    """C text of the first step at which a linear form is at least 0; for a negative slope, of one past the last step.

    The C variable ``v`` holds the form at step 0.
    """
    return f"v<0?(-v+{slope - 1})/{slope}:0" if slope > 0 else f"v<0?0:v/{-slope}+1"


# ------------------------------------------------------------------ rows of tiles


def loop_positions(p: ContractionTiling) -> str:
    """Declarations of ``l<d>``: the position of register tile ``rb`` along each loop over M."""
    blocks, loops = p.row_blocks, p.m_loops
    last = len(loops) - 1
    if last == 0:
        return f"const long l0={blocks.start('rb')};"
    out = [f"const long b0=rb%{_count(p)}, l{last}={blocks.start('b0')};"]
    step = 1 if p.symbolic_rows else blocks.count
    for d in range(last - 1, -1, -1):
        size = loops[d].size // (p.lines if d == last - 1 else 1)
        by = f"(x->blocks*{ctext(step)})" if p.symbolic_rows else ctext(step)
        at = f"rb/{by}" + (f"%{ctext(size)}" if d else "")
        out.append(f"const long l{d}=({at}){f'*{p.lines}L' if d == last - 1 and p.lines > 1 else ''};")
        step *= size
    return " ".join(out)


def height(p: ContractionTiling) -> str:
    """C text of the number of rows of tile ``rb`` along the innermost loop over M."""
    blocks = p.row_blocks
    if p.symbolic_rows:
        return blocks.height(_along(p))
    return f"{blocks.size}L" if blocks.even else f"({blocks.size}L-({shorter(p)}))"


def shorter(p: ContractionTiling) -> str:
    """C condition: tile ``rb`` has one row less than the largest tile."""
    blocks = p.row_blocks
    return f"{_along(p)}>={blocks.full}L"


def _count(p: ContractionTiling) -> str:
    """C text of the number of tiles along the innermost loop over M."""
    return "x->blocks" if p.symbolic_rows else f"{p.row_blocks.count}L"


def _along(p: ContractionTiling) -> str:
    """C text of the index of tile ``rb`` along the innermost loop over M."""
    return "rb" if len(p.m_loops) == 1 else f"rb%{_count(p)}"


def tile_row(p: ContractionTiling) -> str:
    """C text of the fused M index, within a chunk, of the first row of tile ``rb``. Reads ``l<d>``."""
    text = "l0"
    for d, w in list(enumerate(p.m_loops))[1:]:
        text = f"({text})*{ctext(w.size)}+l{d}"
    return text


def along_m(steps: tuple[int, ...]) -> str:
    """C text of the offset of tile ``rb`` in memory that has these steps along the loops over M."""
    return "+".join(f"l{d}*{ctext(s)}" for d, s in enumerate(steps) if s) or "0L"


# ------------------------------------------------------------------ single elements


def axis_texts(p: ContractionTiling, m: str = "m", n: str = "n") -> dict[str, str]:
    """C text of every output axis, given the fused M and N positions and ``o_<axis>``."""
    c = p.c
    texts = dict.fromkeys(c.stage.axes, "0L")
    texts.update({a: f"o_{a}" for a in c.batch.axes})
    texts.update({a: f"({t})" for a, t in c.m.split(m).items()})
    texts.update({a: f"({t})" for a, t in c.n.split(n).items()})
    return texts


def scalar_text(p: ContractionTiling, e: Expr, axes: Mapping[str, str]) -> str:
    """C text of an expression of axes and of elements of inputs."""
    return print_expr(e, axis=axes, load=lambda x: scalar_read(p, x, axes))


def scalar_read(p: ContractionTiling, load: Expr, axes: Mapping[str, str]) -> str:
    """C text of one element of an input."""
    tensor = p.c.program.tensors[str(load.value)]
    terms = [f"({scalar_text(p, i, axes)})*{ctext(s)}" for i, s in zip(load.args, tensor.strides, strict=True)]
    kind = C_TYPES[tensor.dtype]
    text = f"((const {kind}*){tensor_pointer(p.c, tensor.name)})[{'+'.join(terms) or '0'}]"
    return f"tw::widen({text})" if kind.startswith("tw::") else text

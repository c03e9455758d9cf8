"""Square tiles transposed in registers: read along one axis, written along another."""

from __future__ import annotations

from tilewright.extent import ctext
from tilewright.kernels.codegen.access import flat_index
from tilewright.kernels.codegen.emitter import Scope
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.templates.cpu_map.text import Text, ctype
from tilewright.kernels.templates.cpu_map.turn import turn


def tile(t: Text, edge: bool) -> str:
    """A function that computes one tile; ``edge``: of ``ni`` by ``no`` elements only."""
    p, m = t.p, t.p.m
    members = [f"const {ctype(m.tensors[x.name].dtype)} *{x.name}" for x in m.program.inputs]
    axes = "".join(f", long {a}" for a in (*p.free, m.across, m.inner, *m.program.size_arguments))
    more = ", long ni, long no" if edge else ""
    w = Writer()
    kind = "TW_NOINLINE" if edge else "TW_INLINE"
    head = (
        f"{kind} void {'edge' if edge else 'tile'}({', '.join((*members, f'{ctype(m.output.dtype)} *d_'))}{axes}{more})"
    )
    with w.block(head):
        for name in (*(x.name for x in m.program.inputs), *p.free, *m.program.size_arguments):
            w.line(f"(void){name};")
        columns = [_columns(t, w, x, n, edge) for n, x in enumerate(m.turned)]
        numbers = [t.numbers.of(x) for x in m.turned]
        assert m.across is not None
        # What is the same along the rows' axis is read once: by row position it would be read again.
        for k in range(p.lanes):
            here = {a: a for a in m.names} | {m.across: f"({m.across} + {k})" if k else m.across}
            with w.block(f"if ({k} < ni)" if edge else ""):
                printer = t.printer(here, {}, count="no" if edge else None)
                t.known(printer, dict(zip(numbers, (c[k] for c in columns), strict=True)))
                to = f"d_ + {ctext(k * m.where.of(m.across))}" if k else "d_"
                t.store(w, printer, m.value, "no" if edge else None, to, t.streamed)
    return w.text()


def _columns(t: Text, w: Writer, x: Expr, number: int, edge: bool) -> list[str]:
    """Read the tile of one tensor and transpose it; names of the vectors along the innermost axis."""
    p, m = t.p, t.p.m
    scalar = t.printer({a: a for a in m.names}, {}, vector=False)
    tensor = m.tensors[str(x.value)]
    step = linear(x.args[0]).of(m.inner)
    lane = t.printer({}, {}).lane_type(x) if x.dtype != "bool" else "int"
    vector = f"tw::vec<{lane}, {p.lanes}>"
    base = f"(const signed char *){tensor.name}" if x.dtype == "bool" else tensor.name
    kind = "signed char" if x.dtype == "bool" else ctype(x.dtype)
    w.line(f"const {kind} *const p{number} = {base} + ({flat_index(x.args, tensor, scalar)});")
    names = []
    for r in range(p.lanes):
        name = f"r{number}_{r}"
        at = f"p{number} + {ctext(r * step)}" if r else f"p{number}"
        text = f"tw::load<{vector}>({at})"
        if edge:
            text = f"{r} < no ? tw::load_n<{vector}>({at}, ni) : {vector}{{}}"
        w.line(f"const {vector} {name} = {text};")
        if t.prefetch and not edge:
            # The same row of a later tile; an address past the end is harmless.
            far = p.ahead * p.lanes * (step if p.along_output else 1)
            w.line(f"__builtin_prefetch(p{number} + {ctext(r * step + far)}, 0, 2);")
        names.append(name)
    item = {"double": 8, "long": 8, "signed char": 1, "short": 2}.get(lane, 4)
    lines, columns = turn(names, item, vector, f"c{number}_")
    for line in lines:
        w.line(line)
    return columns


def tiles(t: Text) -> None:
    """The loops over blocks of tiles, and over the tiles of a block."""
    p, m = t.p, t.p.m
    assert m.across is not None
    offsets, sizes = {m.across: "si", m.inner: "so"}, {m.across: "ni", m.inner: "no"}
    for name, text in zip(offsets.values(), _shifts(t), strict=True):
        t.emitter.local("long", name, text)
    walk = {x.axis: x.step for x in t.nest.loops if x.kind == "serial"}

    def block(w: Writer, scope: Scope) -> None:
        here = {a: scope.at(a) for a in p.free} | {a: a for a in walk}
        where = flat_index((m.position,), m.output, t.printer(here, {}, vector=False))
        inputs = ", ".join(x.name for x in m.program.inputs)
        given = ", ".join(
            (
                inputs,
                f"{m.output.name} + ({where})",
                *(here[a] for a in (*p.free, str(m.across), m.inner)),
                *m.program.size_arguments,
            )
        )
        for a, step in walk.items():
            part, size, shift = scope.tiles[a], sizes[a], offsets[a]
            w.line(f"for (long {a} = {part.start}, {size}; {a} < {part.end}; {a} += {size}) {{")
            w.line(f" {size} = {a} == 0 && {shift} ? {shift} : tw::imin({step}L, {part.end} - {a});")
        whole = f"ni == {walk[str(m.across)]} && no == {walk[m.inner]}"
        w.line(f"if ({whole}) tile({given}); else edge({given}, ni, no);")
        w.line("} }")

    t.tasks(block, offsets)


def _shifts(t: Text) -> tuple[str, str]:
    """C texts of how far the first whole tiles lie from the start, so that reads and writes are aligned."""
    p, m = t.p, t.p.m
    assert m.across is not None
    out = _gap(m.output.name, [m.where.of(a) for a in m.outer], p.item, p.lanes, m.extents[m.inner])
    x = m.turned[0]
    s = linear(x.args[0])
    item = ITEMSIZE[m.program.tensors[str(x.value)].dtype]
    # A read that starts elsewhere than at a whole row is left as it lies.
    steps = [s.of(a) for a in m.names if a != m.across] + [s.const] + ([1] if s.rest else [])
    into = _gap(str(x.value), steps, item, p.lanes, m.extents[m.across])
    return into, out


def _gap(name: str, steps: list[int], item: int, lanes: int, extent: int) -> str:
    if any(s % lanes for s in steps) or extent < 2 * lanes:
        return "0L"
    return f"(-(long){name} & {item * lanes - 1}) / {item}"

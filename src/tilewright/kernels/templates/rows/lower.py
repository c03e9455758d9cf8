"""Prints a row program: tasks over rows, or over pieces of the row where there are few."""

from __future__ import annotations

from tilewright.kernels.codegen.printer import VECTOR_TYPE, computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.families.row_reduction import ELEMENT
from tilewright.kernels.templates.generic.access import storage
from tilewright.kernels.templates.rows.columns import print_groups
from tilewright.kernels.templates.rows.passes import Passes
from tilewright.kernels.templates.rows.space import Plan

ALIGN = 64


def print_kernel(symbol: str, plan: Plan) -> tuple[str, int]:
    """Source, and workspace bytes."""
    p, passes = plan.program, Passes(plan)
    body, total = _split(passes) if plan.pieces > 1 else _whole(passes)
    w = Writer()
    with w.block(f"namespace {symbol}_"):
        w.depth = 0
        with w.block("struct rows_arguments"):
            for t in p.inputs:
                w.line(f"const {storage(t.dtype)} *{t.name};")
            w.line(f"{storage(p.result.dtype)} *out;")
            w.line("char *space;")
            w.line("long block, row;")
            if plan.pieces > 1:
                for s in p.stages:
                    if s.kind != ELEMENT:
                        w.line(f"{computed(s.dtype)} {s.name};")
        w.lines[-1] = "};"
        w.lines += passes.merges()
        w.lines += body.lines
    with w.block(f"TW_ENTRY({symbol})"):
        w.line("(void)args; (void)workspace;")
        w.line(f"{symbol}_::rows_arguments a = {{}};")
        for n, t in enumerate(p.inputs):
            w.line(f"a.{t.name} = (const {storage(t.dtype)} *)tensors[{n}];")
        w.line(f"a.out = ({storage(p.result.dtype)} *)tensors[{len(p.inputs)}];")
        w.line("a.space = (char *)workspace;")
        w.line("a.block = args[0];")
        w.line(f"{symbol}_::run(env, a);")
        w.line("return 0;")
    return w.text(), total


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _locals(w: Writer, passes: Passes) -> None:
    """Pointers of the struct as locals, so that stores are known not to change them."""
    p = passes.plan.program
    for t in p.inputs:
        w.line(f"const {storage(t.dtype)} *const {t.name} = a.{t.name};")
    w.line(f"{storage(p.result.dtype)} *const out = a.out;")
    w.line("(void)out;")


def _buffers(w: Writer, passes: Passes, start: int, worker: str) -> int:
    """Buffers of kept maps, one set a worker; returns their bytes for one worker."""
    plan = passes.plan
    size = {
        n: _ceil(plan.rows * plan.program.width * ITEMSIZE[plan.program.stage[n].dtype], ALIGN) * ALIGN
        for n in passes.buffered
    }
    total, offset = sum(size.values()), start
    for name in passes.buffered:
        ctype = VECTOR_TYPE[plan.program.stage[name].dtype]
        w.line(f"{ctype} *const k_{name} = ({ctype} *)(a.space + {offset} + {worker} * {total}L);")
        offset += size[name]
    return total


def _whole(passes: Passes) -> tuple[Writer, int]:
    """Tasks over blocks of rows; workspace bytes."""
    plan = passes.plan
    p = plan.program
    w = Writer()
    with w.block("static void some(const rows_arguments &a, long row, long last, long worker)"):
        w.line("(void)worker;")
        _locals(w, passes)
        size = _buffers(w, passes, 0, "worker")
        if plan.columns:
            print_groups(w, passes)
        for rows in dict.fromkeys((plan.rows, 1)) if not plan.columns else ():
            head = f"for (; row + {rows} <= last; row += {rows})" if rows > 1 else "for (; row < last; row++)"
            if rows == 1 and plan.rows > 1 and plan.threads == 1 and p.height % plan.rows == 0:
                continue
            with w.block(head):
                passes.rows(w, rows)
    with w.block("static void task(void *context, long number, long worker)"):
        w.line("const rows_arguments &a = *(const rows_arguments *)context;")
        w.line(f"some(a, number * a.block, tw::imin((number + 1) * a.block, {p.height}L), worker);")
    with w.block("static void run(const tw_env *env, rows_arguments &a)"):
        w.line(f"tw::parallel_for(env, tw::ceildiv({p.height}L, a.block), task, &a);")
    return w, size * plan.threads


def _split(passes: Passes) -> tuple[Writer, int]:
    """One row after the other, each pass over it as tasks of one piece; workspace bytes."""
    plan = passes.plan
    p = plan.program
    w = Writer()
    length = p.run
    step = _ceil(_ceil(length, plan.lanes), plan.pieces) * plan.lanes
    pieces = _ceil(length, step)
    offset = 0
    parts: dict[tuple[str, int], int] = {}
    for s in p.stages:
        if p.accumulates(s):
            for c, t in enumerate(passes.types(s)):
                parts[s.name, c] = offset
                offset += -(-pieces * (8 if t in ("double", "long") else 4) // ALIGN) * ALIGN
    scalars = [s for s in p.stages if s.kind != ELEMENT]
    size = 0
    for n in range(p.passes):
        with w.block(f"static void pass{n}(void *context, long piece, long worker)"):
            w.line("(void)worker;")
            w.line("const rows_arguments &a = *(const rows_arguments *)context;")
            _locals(w, passes)
            size = _buffers(w, passes, offset, "0")
            w.line("const long row = a.row;")
            w.line("(void)row;")
            for s in scalars:
                if passes.known(s, n):
                    w.line(f"const {computed(s.dtype)} {s.name}_0 = a.{s.name}; (void){s.name}_0;")
            w.line(f"const long begin = piece * {step}L, end = tw::imin(begin + {step}L, {length}L);")
            passes.piece(w, n, parts)
    with w.block("static void run(const tw_env *env, rows_arguments &a)"):
        _locals(w, passes)
        with w.block(f"for (long row = 0; row < {p.height}L; row++)"):
            w.line("a.row = row;")
            passes.coordinates(w, 1)
            for n in range(p.passes + 1):
                passes.scalars(w, n, 1)
                if n == p.passes:
                    break
                for s in scalars:
                    if passes.known(s, n):
                        w.line(f"a.{s.name} = {s.name}_0;")
                w.line(f"tw::parallel_for(env, {pieces}L, pass{n}, &a);")
                passes.merge_pieces(w, n, pieces, parts)
    return w, offset + size

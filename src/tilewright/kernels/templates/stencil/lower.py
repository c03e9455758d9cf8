"""A whole kernel: context, task with the loops around blocks, entry point."""

from __future__ import annotations

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.templates.generic.access import storage
from tilewright.kernels.templates.map.text import advance, units
from tilewright.kernels.templates.stencil.block import Block, Place
from tilewright.kernels.templates.stencil.space import Plan, Span

REPEAT = "template <class V, class H, class F> TW_INLINE V repeat(H h, F f) { return f(h); }"


def arguments(p: Plan) -> tuple[str, ...]:
    """Names of the launch arguments."""
    return (*(("strips",) if p.stripped else ()), *(("tasks",) if p.target.threads > 1 else ()))


def digits(p: Plan) -> dict[str, str]:
    """Loop variables of a unit of work."""
    found = {"v_": f"{-(-p.s.ranges[p.s.inner] // p.lanes)}L"} if p.order == "v" else {}
    for a in p.others:
        if p.stripped and a == p.others[-1]:
            found["strip_"] = "c.strips"
        found[a] = f"{p.s.ranges[a]}L"
    return found or {"one_": "1L"}


def source(p: Plan, symbol: str) -> str:
    """The kernel's text."""
    s, program = p.s, p.s.program
    kinds = {t.name: f"const {storage(t.dtype)} *" for t in program.inputs}
    kinds[s.output.name] = f"{storage(s.output.dtype)} *"
    w = Writer()
    with w.block("TW_NOINLINE void task(void *ctx, long task_, long)"):
        w.line("const Ctx &c = *(const Ctx *)ctx;")
        for name, kind in kinds.items():
            w.line(f"{kind}const {name} = c.{name}; (void){name};")
        total = " * ".join(digits(p).values())
        w.line(f"const long u0 = task_ * ({total}) / c.tasks, u1 = (task_ + 1) * ({total}) / c.tasks;")
        units(w, digits(p))
        with w.block("for (long u_ = u0; u_ < u1; u_++)"):
            _unit(Block(p), w)
            w.line(advance(digits(p)))
    members = " ".join(f"{kind}{name};" for name, kind in kinds.items())
    helper = [REPEAT] if any(r.repeat > 1 for r in s.reads) else []
    parts = [
        f"namespace {symbol}_ {{",
        *helper,
        f"struct Ctx {{ {members} long strips, tasks; }};",
        w.text().rstrip(),
        "}",
    ]
    e = Writer()
    with e.block(f"TW_ENTRY({symbol})"):
        e.line(f"(void)args; (void)workspace; using namespace {symbol}_;")
        e.line("Ctx c;")
        for n, (name, kind) in enumerate(kinds.items()):
            e.line(f"c.{name} = ({kind})tensors[{n}];")
        e.line(f"c.strips = {'args[0]' if p.stripped else '1'};")
        tasks = f"tw::imin(args[{len(arguments(p)) - 1}], {total})" if p.target.threads > 1 else "1"
        e.line(f"c.tasks = {tasks};")
        e.line("tw::parallel_for(env, c.tasks, task, &c);")
        e.line("return 0;")
    return "\n".join((*parts, e.text()))


def _unit(block: Block, w: Writer) -> None:
    """What one unit of work computes: all blocks and vectors of the other axes' position."""
    p = block.p
    if p.order == "bv":
        for span in p.b_spans:
            with w.block(_strip(p, span)):
                for v in p.v_spans:
                    with w.block(_head(v, "v_")):
                        place = _place(p, span, v)
                        block.print(w, span, place, *block.hoisted(w, place))
        return
    for v in p.v_spans:
        head = _head(v, "v_")
        if p.order == "v":
            last = -(-p.s.ranges[p.s.inner] // p.lanes) - 1
            whole = v.size == p.lanes
            tail = p.s.ranges[p.s.inner] % p.lanes != 0
            head = "" if not tail else f"if (v_ {'<' if whole else '=='} {last}L)"
        with w.block(head):
            place = _place(p, p.b_spans[0], v)
            if p.order == "v" and not isinstance(place.v, int):
                place = _at(place, f"(v_ * {p.lanes}L)")
            elif p.order == "v" and v.start > 0:
                place = _at(place, v.start)
            found = block.hoisted(w, place)
            for span in p.b_spans:
                with w.block(_strip(p, span)):
                    here = _place(p, span, v)
                    block.print(w, span, _at(here, place.v), *found)


def _at(place: Place, v: str | int) -> Place:
    return Place(place.b, v, place.inside_b, place.inside_v, place.count, place.lanes)


def _head(span: Span, name: str) -> str:
    """The loop over a run of blocks; nothing for a block at a known place."""
    if span.count == 1:
        return ""
    end = span.start + span.count * span.size
    return f"for (long {name} = {span.start}L; {name} < {end}L; {name} += {span.size}L)"


def _strip(p: Plan, span: Span) -> str:
    """The blocks in the strip at hand: a share of the run; the first and last strips have those beside it."""
    if not p.stripped:
        return _head(span, "b_")
    run = max(p.b_spans, key=lambda x: x.count)
    if span.start < run.start:
        return "if (strip_ == 0)"
    if span != run:
        return "if (strip_ == c.strips - 1)"
    ends = [f"{span.start}L + ({k}) * {span.count}L / c.strips * {span.size}L" for k in ("strip_", "strip_ + 1")]
    return f"for (long b_ = {ends[0]}; b_ < {ends[1]}; b_ += {span.size}L)"


def _place(p: Plan, span: Span, v: Span) -> Place:
    partial = v.size < p.lanes
    return Place(
        span.start if span.count == 1 else "b_", v.start if v.count == 1 else "v_", span.inside, v.inside,
        str(v.size) if partial else None, v.size,
    )  # fmt: skip


def launch_program(p: Plan, symbol: str) -> LaunchProgram:
    return LaunchProgram((Launch(symbol, arguments(p)),))

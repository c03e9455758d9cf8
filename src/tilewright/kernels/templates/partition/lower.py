"""A partition on the CPU: the segments' kernels, and an entry that calls one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import Candidate, IllegalSchedule, IntExpr, Launch, LaunchProgram, Prepack
from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.codegen.integers import named, wide
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Built, LoweredKernel
from tilewright.kernels.templates.partition.memory import PAGE, intermediates
from tilewright.kernels.templates.partition.space import Member
from tilewright.kernels.templates.partition.strips import moved, of_rows, rows

STRIPS = """\
namespace ${symbol}_ {
struct Ctx { void *const *tensors; const long long *args; char *ws; long long size; int code; };
int calls(void *const *tensors, const long long *args, char *ws, const tw_env *env, long strip) {
 int code; (void)ws; (void)args;
$calls
 return 0;
}
void task(void *ctx, long strip, long worker) {
 Ctx *c=(Ctx*)ctx;
 const tw_env alone={nullptr,nullptr,1};
 const int code=calls(c->tensors,c->args,c->ws+worker*c->size,&alone,strip);
 if(code) __atomic_store_n(&c->code,code,__ATOMIC_RELAXED);
}
}
TW_ENTRY($symbol) {
 ${symbol}_::Ctx c{tensors,args,(char*)workspace,$size,0};
 tw::parallel_for(env,${strips}L,${symbol}_::task,&c);
 return c.code;
}
"""
"""All segments for one strip of rows, by one thread each."""


def _part(member: Member, kernel: Built, symbol: str) -> LoweredKernel:
    """A segment's kernel under ``symbol``.

    Raises ``IllegalSchedule`` for a kernel that needs cleared memory, which segments that share it do not have,
    or a translation unit of its own.
    """
    found = kernel.lower(symbol)
    if found.program.zero_fill != 0 or found.alone:
        raise IllegalSchedule(f"the kernel of {member.segment.label} takes no part in a partition", "Use another cut")
    return found


def cpu_kernel(candidate: Candidate, program: Program, parts: Sequence[tuple[Member, Built]]) -> LoweredKernel:
    """One launch: every segment of ``program`` in order, on pointers to the tensors that are its own; once for each
    strip of rows."""
    symbol, cut = candidate.symbol, tuple(m.segment for m, _ in parts)
    strips = cut[0].strips
    places = {t.name: f"tensors[{n}]" for n, t in enumerate((*program.inputs, *program.outputs))}
    if strips > 1:
        with_rows = moved(program)
        for t in (*program.inputs, *program.outputs):
            if t.name in with_rows:
                places[t.name] = f"(char*){places[t.name]}+strip*{t.size * ITEMSIZE[t.dtype] // strips}L"
        program = of_rows(program, rows(program)[1] // strips)
    offsets, fixed = intermediates(program, cut)
    places |= {name: f"ws+{at}L" for name, at in offsets.items()}
    numbers = {t.name: n for n, t in enumerate(program.inputs)}
    arguments: list[str] = []
    sources: list[str] = []
    prepack: list[Prepack] = []
    scratch: list[IntExpr] = [0]
    align = 1
    lines = []
    for number, (m, built) in enumerate(parts):
        kernel = _part(m, built, f"{symbol}_p{number}")
        sources.append(kernel.source)
        part = kernel.program
        align = max(align, part.align)
        scratch.append(m.of(part.workspace))
        names = (*m.segment.reads, m.segment.result)
        lines.append(f" {{ void *const t[]={{{','.join(places[n] for n in names)}}};")
        for launch in part.launches:
            lines.append(f"  code={launch.symbol}(t,args+{len(arguments)},ws+{fixed}L,env); if(code) return code;")
            arguments += [m.argument(a) for a in launch.arguments]
        lines.append(" }")
        for pack in part.prepack:
            name = f"{symbol}_pack{len(prepack)}"
            inputs = ",".join(f"tensors[{numbers[n]}]" if n in numbers else "0" for n in names)
            call = f"{pack.launch.symbol}(t,args,workspace,env)"
            sources.append(f"TW_ENTRY({name}) {{ void *const t[]={{{inputs}}}; return {call}; }}")
            launch = Launch(name, tuple(m.argument(a) for a in pack.launch.arguments))
            prepack.append(Prepack(numbers[m.segment.reads[pack.input]], m.of(pack.bytes), launch))
    workspace: IntExpr = ["+", fixed, ["max", *scratch]]
    if strips == 1:
        entry = [f"TW_ENTRY({symbol}) {{ char *ws=(char*)workspace; int code; (void)ws; (void)args;", *lines]
        entry.append(" return 0; }\n")
    else:
        each: IntExpr = ["roundup", workspace, max(align, PAGE)]
        workspace = ["*", candidate.task.target.threads, each]
        size = wide(named(each, lambda name: f"args[{arguments.index(name)}]"))
        entry = [fill(STRIPS, {"symbol": symbol, "calls": lines, "strips": strips, "size": size})]
    return LoweredKernel(
        symbol,
        "\n".join([*sources, *entry]),
        LaunchProgram((Launch(symbol, tuple(arguments)),), workspace=workspace, align=align, prepack=tuple(prepack)),
    )

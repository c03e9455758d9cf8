"""Builds a partition's kernel from the kernels of its segments: loops, static features, launches, memory, source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.core import IllegalSchedule, IntExpr, Launch, Prepack, Target, cached_property
from tilewright.kernels.codegen.integers import named, wide
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Array, Kernel, Workspace
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.partition.segments import Cut
from tilewright.kernels.templates.partition.space import Member
from tilewright.kernels.templates.partition.strips import row_tensors, rows, with_rows

PAGE = 4096
STRIP = "strip"
"""Name of the axis of strips of rows, and of the workspace array with each strip's memory."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The segments of a program, each with its kernel; serves as source and static features of the whole kernel."""

    program: Program
    parts: tuple[tuple[Member, Kernel], ...]
    target: Target

    def of(self, kernel: Kernel) -> Sequence[tuple[Member, Kernel]]:
        """The segments with their kernels, as the whole ``kernel`` has them."""
        return self.parts

    def loops(self, kernel: Kernel) -> tuple[LoopNest, ...]:
        """The loop nests of all segments in order, with the whole program's names of tensors."""
        return tuple(_renamed(nest, m) for m, k in self.of(kernel) for nest in k.nests)

    def numbers(self, kernel: Kernel) -> Mapping[str, float]:
        """Mean of the static features over the segments, weighted by their operations."""
        return mean(self.of(kernel))

    def align(self) -> int:
        return max(k.align for _, k in self.parts)

    def rounding(self) -> float:
        return max(k.rounding for _, k in self.parts)


def text_of(m: Member, kernel: Kernel, symbol: str) -> str:
    """Source of a segment's kernel.

    Raises ``IllegalSchedule`` for a kernel that needs zeroed memory, since segments share their scratch memory, or that
    needs a separate translation unit.
    """
    if kernel.zero_fill != 0 or kernel.alone:
        raise IllegalSchedule(f"the kernel of {m.segment.label} takes no part in a partition", "Use another cut")
    return kernel.text.source(kernel, symbol)


def mean(parts: Sequence[tuple[Member, Kernel]]) -> dict[str, float]:
    """Mean of every static feature, weighted by operations; a segment has a weight of at least 1."""
    found = [(max(1, m.task.workload.flops), k.numbers) for m, k in parts]
    total = sum(w for w, _ in found)
    return {name: sum(w * n[name] for w, n in found) / total for name in found[0][1]}


def _renamed(nest: LoopNest, m: Member) -> LoopNest:
    """The nest with the whole program's names of tensors; names that only the segment has get its prefix."""
    s = m.segment
    names = {f"x{n}": name for n, name in enumerate(s.reads)}
    names |= {f"s{n}": name for n, name in enumerate(s.stages)}

    def of(name: str) -> str:
        return names.get(name, m.prefix + name)

    return replace(
        nest,
        name=of(nest.name),
        accesses=tuple(replace(a, tensor=of(a.tensor)) for a in nest.accesses),
        staged=tuple(replace(x, tensor=of(x.tensor)) for x in nest.staged),
    )


def intermediates(program: Program, cut: Cut) -> tuple[dict[str, int], int]:
    """Byte offset of each intermediate result of a cut, and the total size in bytes.

    Freed memory is reused. A tensor of symbolic size has room for its greatest size.
    """
    outputs = {t.name for t in program.outputs}
    last_read = {n: k for k, s in enumerate(cut) for n in s.reads}
    offsets: dict[str, int] = {}
    sizes: dict[str, int] = {}
    total = 0
    for number, segment in enumerate(cut):
        if segment.result in outputs:
            continue
        tensor = program.tensors[segment.result]
        size = -(-int(tensor.size) * ITEMSIZE[tensor.dtype] // PAGE) * PAGE
        busy = sorted((at, at + sizes[n]) for n, at in offsets.items() if last_read[n] >= number)
        start = 0
        for low, high in busy:
            if start + size <= low:
                break
            start = max(start, high)
        offsets[segment.result], sizes[segment.result] = start, size
        total = max(total, start + size)
    return offsets, total


# --------------------------------------------------------------------------- on a CPU

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
"""C++ text of a kernel in strips: each task runs all segments for one strip of rows on one thread."""


@dataclass(frozen=True, eq=False)
class CpuParts(Parts):
    """The segments' kernels, and an entry point that calls them in order with their own tensors.

    With strips, a task runs all segments for one strip of rows.
    """

    @property
    def strips(self) -> int:
        return self.parts[0][0].segment.strips

    @cached_property
    def _with_rows(self) -> frozenset[str]:
        """Names of the tensors whose rows are divided into strips."""
        return row_tensors(self.program) if self.strips > 1 else frozenset()

    @cached_property
    def _passed(self) -> tuple[dict[str, int], int]:
        """Byte offsets of the intermediate results of a strip, and their total size in bytes."""
        program = self.program
        if self.strips > 1:
            program = with_rows(program, rows(program)[1] // self.strips)
        return intermediates(program, tuple(m.segment for m, _ in self.parts))

    @cached_property
    def _each(self) -> Workspace:
        """The memory of a strip: intermediate results, then scratch memory that all segments reuse."""
        scratch: IntExpr = ["max", 0, *(m.of(k.workspace.bytes) for m, k in self.parts)]
        return Workspace((Array("passed", "char", self._passed[1]), Array("scratch", "char", scratch)), 1)

    def workspace(self) -> Workspace:
        """The workspace: with strips, each thread has the memory of a strip."""
        if self.strips == 1:
            return self._each
        passed, scratch = self._each
        count: IntExpr = ["+", passed.count, scratch.count]
        return Workspace((Array(STRIP, "char", count, self.target.threads),), max(self.align(), PAGE))

    def launches(self) -> tuple[Launch]:
        """A single launch, with the arguments of all segments' launches in order."""
        return (Launch("", tuple(m.argument(a) for m, k in self.parts for x in k.launches for a in x.arguments)),)

    def prepack(self) -> tuple[Prepack, ...]:
        """The prepacking of all segments, with the whole program's numbers of inputs."""
        numbers = {t.name: n for n, t in enumerate(self.program.inputs)}
        found: list[Prepack] = []
        for m, x in ((m, x) for m, k in self.parts for x in k.prepack):
            launch = Launch(f"_pack{len(found)}", tuple(map(m.argument, x.launch.arguments)))
            found.append(Prepack(numbers[m.segment.reads[x.input]], m.of(x.bytes), launch))
        return tuple(found)

    def loops(self, kernel: Kernel) -> tuple[LoopNest, ...]:
        found = super().loops(kernel)
        return found if self.strips == 1 else tuple(map(self._each_strip, found))

    def _each_strip(self, nest: LoopNest) -> LoopNest:
        """A strip's nest inside the parallel loop over strips; accesses to rows start at the strip's first row."""

        def shifted(a: Access) -> Access:
            if a.tensor not in self._with_rows:
                return a
            tensor, indices = self.program.tensors[a.tensor], list(a.indices)
            d, size = rows(self.program) if len(indices) == len(tensor.shape) else (0, tensor.size)
            indices[d] += axis(STRIP) * (size // self.strips)
            return replace(a, indices=tuple(indices))

        return replace(
            nest, axes={STRIP: self.strips, **nest.axes},
            loops=(Loop(STRIP, self.strips, 1, "parallel", "l2"), *nest.loops),
            accesses=tuple(shifted(a) for a in nest.accesses),
            staged=tuple(s if s.depth is None else replace(s, depth=s.depth + 1) for s in nest.staged),
        )  # fmt: skip

    def source(self, kernel: Kernel, symbol: str) -> str:
        """C++ source of the kernel.

        Raises ``ValueError`` if the prepacking of ``kernel`` differs from that of its segments.
        """
        each = kernel.workspace if self.strips == 1 else self._each
        places, packs = self._places(each), iter(kernel.prepack)
        if [x.launch for x in kernel.prepack] != [x.launch for x in self.prepack()]:
            raise ValueError("the kernel rearranges other inputs than its segments")
        numbers = {t.name: f"tensors[{n}]" for n, t in enumerate(self.program.inputs)}
        sources: list[str] = []
        calls: list[str] = []
        given = 0
        for number, (m, k) in enumerate(self.parts):
            own, names = f"{symbol}_p{number}", (*m.segment.reads, m.segment.result)
            sources.append(text_of(m, k, own))
            calls.append(f" {{ void *const t[]={{{','.join(places[n] for n in names)}}};")
            for x in k.launches:
                arguments = tuple(map(m.argument, x.arguments))
                given = kernel.arguments.index(arguments[0], given) if arguments else given
                call = f"{own}{x.symbol}(t,args+{given},ws+{each.at('scratch')}L,env)"
                calls.append(f"  code={call}; if(code) return code;")
                given += len(arguments)
            calls.append(" }")
            for pack, whole in zip(k.prepack, packs, strict=False):
                inputs = ",".join(numbers.get(n, "0") for n in names)
                call = f"{own}{pack.launch.symbol}(t,args,workspace,env)"
                head = f"TW_ENTRY({symbol}{whole.launch.symbol})"
                sources.append(f"{head} {{ void *const t[]={{{inputs}}}; return {call}; }}")
        return "\n".join([*sources, *self._entry(kernel, symbol, calls)])

    def _places(self, each: Workspace) -> dict[str, str]:
        """C text of each tensor's address; for a tensor with rows, the address of a strip's rows."""
        places = {}
        for n, t in enumerate((*self.program.inputs, *self.program.outputs)):
            places[t.name] = f"tensors[{n}]"
            if t.name in self._with_rows:
                places[t.name] = f"(char*)tensors[{n}]+strip*{t.size * ITEMSIZE[t.dtype] // self.strips}L"
        return places | {name: f"ws+{each.at('passed') + at}L" for name, at in self._passed[0].items()}

    def _entry(self, kernel: Kernel, symbol: str, calls: list[str]) -> list[str]:
        if self.strips == 1:
            head = f"TW_ENTRY({symbol}) {{ char *ws=(char*)workspace; int code; (void)ws; (void)args;"
            return [head, *calls, " return 0; }\n"]
        size = wide(named(kernel.workspace.each(STRIP), kernel.argument))
        return [substitute(STRIPS, {"symbol": symbol, "calls": calls, "strips": self.strips, "size": size})]

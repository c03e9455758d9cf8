"""The kernel of a partition on a GPU: the segments' launches in order, with intermediate results in the workspace.

Leading segments that read only inputs are joined into one launch if possible. A segment that reads only constant inputs
is prepacking: it runs once, before the first call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tilewright.core import IntExpr, Launch, Prepack, cached_property
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Kernel, Launched, Workspace
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.cuda.static import RESOURCES
from tilewright.kernels.templates.partition.parts import Parts, intermediates, mean, text_of
from tilewright.kernels.templates.partition.space import Member


@dataclass(frozen=True, eq=False)
class GpuParts(Parts):
    """The segments' launches; the kernel of the segment with the most operations has the partition's symbol.

    The workspace begins with intermediate results; the scratch memory that all segments reuse follows.
    """

    @cached_property
    def main(self) -> int:
        """Number of the segment with the most operations, whose resources describe the kernel."""
        return max(range(len(self.parts)), key=lambda n: self.parts[n][0].task.workload.flops)

    def own(self, number: int) -> str:
        """Suffix of the partition's symbol in the symbol of a segment's kernel."""
        return "" if number == self.main else f"_p{number}"

    @cached_property
    def packing(self) -> Mapping[int, int]:
        """Prepacking segments, which only read constant inputs, each with the number of one input of the segment.

        No other segment reads that input; at calls, the segment's result takes its place.
        """
        numbers = {t.name: n for n, t in enumerate(self.program.inputs)}
        results = {t.name for t in self.program.outputs}
        readers = Counter(x for m, _ in self.parts for x in set(m.segment.reads))
        found: dict[int, int] = {}
        for n, (m, k) in enumerate(self.parts):
            if reads_constants(self.program, m) and m.segment.result not in results and _single(k):
                own = next((x for x in m.segment.reads if readers[x] == 1), None)
                if own is not None:
                    found[n] = numbers[own]
        return found

    @cached_property
    def called(self) -> list[int]:
        """Numbers of the segments that every call computes."""
        return [n for n in range(len(self.parts)) if n not in self.packing]

    @cached_property
    def passed(self) -> tuple[dict[str, int], int]:
        """Byte offsets of intermediate results in the workspace, and the offset of the scratch memory."""
        return intermediates(self.program, tuple(self.parts[n][0].segment for n in self.called))

    def workspace(self) -> Workspace:
        used = ((self.parts[n][0], self.parts[n][1].workspace) for n in self.called)
        return Workspace.of(["+", self.passed[1], ["max", 0, *(m.of(memory.bytes) for m, memory in used)]])

    @cached_property
    def places(self) -> Mapping[str, tuple[str, IntExpr]]:
        """Location of each tensor in a call: the number of a call's tensor or a byte offset in the workspace."""
        tensors = enumerate((*self.program.inputs, *self.program.outputs))
        packed = {self.parts[n][0].segment.result: ("tensor", number) for n, number in self.packing.items()}
        passed = {name: ("workspace", at) for name, at in self.passed[0].items()}
        return {**{t.name: ("tensor", n) for n, t in tensors}, **packed, **passed}

    def launches(self) -> tuple[PartitionLaunch, ...]:
        every = [(n, x) for n in self.called for x in self.parts[n][1].launches]
        first = list(takewhile(self._begins, every)) if self.target.kind == "cuda" else []
        if not can_be_joined(first):
            first = every[:1]
        return (PartitionLaunch(self, tuple(first)), *(PartitionLaunch(self, (x,)) for x in every[len(first) :]))

    def _begins(self, launch: tuple[int, Launched]) -> bool:
        """Whether a launch only reads the program's inputs, and is its segment's only launch, without scratch memory.

        Leading launches of this kind may run at the same time.
        """
        m, k = self.parts[launch[0]]
        return _single(k) and {t.name for t in self.program.inputs}.issuperset(m.segment.reads)

    def prepack(self) -> tuple[Prepack, ...]:
        found = []
        for n, number in self.packing.items():
            (m, k), tensor = self.parts[n], self.program.tensors[self.parts[n][0].segment.result]
            given = [*(self.places[x] for x in m.segment.reads), ("workspace", 0)]
            launch = k.launches[0].under(self.own(n)).placed(given, 0, m.of, m.prefix)
            found.append(Prepack(number, tensor.size * ITEMSIZE[tensor.dtype], launch))
        return tuple(found)

    def of(self, kernel: Kernel) -> Sequence[tuple[Member, Kernel]]:
        """The segments with their kernels. ``kernel`` gives the launches of the segments that every call computes."""
        found = {n: list[Launched]() for n in self.called}
        for n, x in (part for y in partition_launches(kernel) for part in y.parts):
            found[n].append(x)
        own = {n: k.launches for n, (_, k) in enumerate(self.parts)}
        given = own | {n: tuple(x) for n, x in found.items()}
        # An unchanged kernel keeps its cached properties.
        return [(m, k if given[n] == own[n] else replace(k, launches=given[n])) for n, (m, k) in enumerate(self.parts)]

    def numbers(self, kernel: Kernel) -> Mapping[str, float]:
        """Static features: resources of the segment with the most operations, total traffic, and means of all others.

        Segments that only read constant inputs do not count towards traffic and means.
        """
        parts = self.of(kernel)
        kept = [(m, k) for m, k in parts if not reads_constants(self.program, m)]
        main = parts[self.main][1].numbers
        total = sum(k.numbers["global_bytes"] for _, k in kept)
        return {**mean(kept), **{k: main[k] for k in RESOURCES}, "global_bytes": total}

    def source(self, kernel: Kernel, symbol: str) -> str:
        sources = [text_of(m, k, symbol + self.own(n)) for n, (m, k) in enumerate(self.of(kernel))]
        texts = [sources[n] for n in self.packing] + [x.source(symbol, sources) for x in partition_launches(kernel)]
        return "".join(dict.fromkeys(texts))  # a segment of several launches has one text


@dataclass(frozen=True)
class PartitionLaunch:
    """One launch of the partition: a segment's launch, or several independent launches joined into one.

    ``parts``: pairs of a segment's number and the segment's launch. A joined launch has the first launch's name; its
    grid is the concatenation of all grids. Joining saves launch overhead of one or two microseconds, the time of a
    small copy. Raises ``ValueError`` for launches that cannot be joined.
    """

    whole: GpuParts
    parts: tuple[tuple[int, Launched], ...]

    def __post_init__(self) -> None:
        if len(self.parts) > 1 and not can_be_joined(self.parts):
            raise ValueError("launches with other blocks or arguments are not one launch")

    @property
    def symbol(self) -> str:
        (number, launch), *_ = self.parts
        return self.whole.own(number) + launch.symbol

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(self.whole.parts[n][0].prefix + a for n, x in self.parts for a in x.arguments)

    def under(self, symbol: str) -> Launch:
        launches = [self._placed(number, x, symbol) for number, x in self.parts]
        first = launches[0]
        if len(launches) == 1:
            return first
        blocks, listed = sum(int(str(x.grid[0])) for x in launches), tuple(p for x in launches for p in x.parameters)
        return Launch(first.symbol, (), (blocks, 1, 1), first.block, ["max", *(x.shared for x in launches)], listed)

    def _placed(self, number: int, launch: Launched, symbol: str) -> Launch:
        whole, (m, _) = self.whole, self.whole.parts[number]
        tensors = [whole.places[x] for x in (*m.segment.reads, m.segment.result)]
        return launch.under(symbol + whole.own(number)).placed(tensors, whole.passed[1], m.of, m.prefix)

    def source(self, symbol: str, sources: Sequence[str]) -> str:
        """CUDA source of the launch, made from the segments' ``sources``."""
        if len(self.parts) == 1:
            return sources[self.parts[0][0]]
        own, first = symbol + self.symbol, 0
        parts, cases, taken = list[str](), list[str](), list[str]()
        functions = [(n, f) for n, f in self.parts if isinstance(f, GlobalFunction)]
        for number, (n, f) in enumerate(functions):
            function, declared = f"{own}_{number}", f.declared
            device = f"TW_DEVICE void {function}({', '.join(declared)}, int own_block)"
            head = f.head(symbol + self.whole.own(n))
            parts.append(sources[n].replace(head, device).replace("blockIdx.x", "own_block"))
            renamed = [f"{name}_{number}" for name in declared]
            taken += renamed
            given = ", ".join([*(name.split(" ")[-1] for name in renamed), f"(int)blockIdx.x - {first}"])
            first += int(str(f.blocks))
            cases.append(f"    if ((int)blockIdx.x < {first}) return {function}({given});\n")
        threads, blocks = functions[0][1].threads, min(f.min_blocks for _, f in functions)
        parts.append(f"TW_KERNEL({threads}, {blocks}) void {own}({', '.join(taken)}) {{\n{''.join(cases)}}}\n")
        return "".join(parts)


def partition_launches(kernel: Kernel) -> tuple[PartitionLaunch, ...]:
    """The launches of a partition's kernel."""
    return tuple(x for x in kernel.launches if isinstance(x, PartitionLaunch))


def can_be_joined(launches: Sequence[tuple[int, Launched]]) -> bool:
    """Whether launches can be joined: several one-dimensional grids, equal block sizes, and only pointer arguments."""
    found = [f for _, f in launches if isinstance(f, GlobalFunction)]
    plain = [f for f in found if (type(f.blocks), f.blocks_y, f.cluster, f.arguments) == (int, 1, 1, ())]
    same = 1 < len(launches) == len(plain) and len({f.threads for f in plain}) == 1
    return same and not any(f.has_maps for f in plain)


def reads_constants(program: Program, m: Member) -> bool:
    """Whether a segment only reads constant inputs."""
    return {t.name for t in program.inputs if t.constant} >= set(m.segment.reads)


def _single(k: Kernel) -> bool:
    """Whether a segment is one launch without scratch memory."""
    return len(k.launches) == 1 and k.workspace.bytes == 0

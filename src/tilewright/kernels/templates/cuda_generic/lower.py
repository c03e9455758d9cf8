"""Source of the generic kernels: threads loop over outputs; a thread, a group of lanes or a block runs a reduction."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.cuda.kernels import evaluated, is_narrow, names, part_printer, place_text
from tilewright.kernels.templates.cuda.text import declarations, digits, stored, to_storage
from tilewright.kernels.templates.cuda_generic.space import PartTiling


def body(program: Program, p: PartTiling) -> tuple[str, set[str]]:
    """The statements of one part's kernel, and the names of tensors and axes that they use."""
    memory, made = "    TW_SHARED(smem);\n" if p.shared_bytes else "", _Kernel(program, p)
    return memory + made.walk(), made.used


class _Kernel:
    """Prints the kernel of one part. ``e`` is the number of an output."""

    def __init__(self, program: Program, p: PartTiling) -> None:
        self.program, self.p, self.part, self.used = program, p, p.part, set[str]()
        self.wide = not is_narrow(program, p.part)
        self.kind = "long" if self.wide else "int"

    def walk(self) -> str:
        """All statements of the kernel."""
        p, grid, kind = self.p, self.p.grid, self.kind
        if p.lanes == 1:
            return grid.walk(self._output, kind, rolled=True)
        if p.lanes == p.threads:
            text = f"    const {kind} e = ({kind})blockIdx.x;\n    const int lane = (int)threadIdx.x;\n"
            return text + self._output("    ", "lane == 0")
        # Lanes beyond the last output compute it again, so that all lanes of a warp take part in shuffles.
        row = grid.clamped("place") if grid.ragged else "place"
        text = (
            f"    const {kind} place = {grid.shared_place(kind)};\n"
            f"    const int lane = (int)threadIdx.x % {p.lanes};\n    const {kind} e = {row};\n"
        )
        only = f"lane == 0 && place < {grid.items}" if grid.ragged else "lane == 0"
        return text + self._output("    ", only)

    def _output(self, pad: str, only: str = "") -> str:
        """Statements that compute an output and store it where ``only`` holds."""
        p = self.p
        if self.part.scanned is not None:
            text = self._scan(self.part.scanned, pad)
        elif p.accumulators is None:
            text = self._finish("e", pad, "")
        else:
            text = p.accumulators.start(pad) + self._reduce(pad) + self._merge(pad) + self._finish("e", pad, only)
        return self._declared(digits(p.grid.axes, "e", self.wide), text, pad)

    def _declared(self, texts: Mapping[str, str], text: str, pad: str) -> str:
        return declarations(texts, self.used, pad=pad, kind=self.kind) + text

    def _finish(self, at: str, pad: str, only: str) -> str:
        """Statements that compute the value of an output and store it."""
        p, part = self.p, self.part
        inner = pad + "    " if only else pad
        printer = part_printer(self.program, part, self.used, p.accumulators.var if p.accumulators else None)
        lines, (value,) = evaluated(printer, (stored(part.value, part.dtype),), inner)
        text = f"{lines}{inner}tw::store_global(out + {at}, {to_storage(part.dtype, value)});\n"
        return f"{pad}if ({only}) {{\n{text}{pad}}}\n" if only else text

    def _reduce(self, pad: str) -> str:
        """Loops over the elements that this thread folds: all elements, or every ``lanes``-th."""
        p, kind, extents = self.p, self.kind, dict(zip(self.part.reduce_axes, self.part.reduce, strict=True))
        if p.lanes == 1:
            text, inner = "", pad
            for r, n in extents.items():
                if n > 1:
                    text += f"{inner}for ({kind} {r} = 0; {r} < {n}; {r}++) {{\n"
                    inner += "    "
            single = {r: "0" for r, n in extents.items() if n == 1}
            text += self._declared(single, self._element(inner), inner)
            while inner != pad:
                inner = inner[4:]
                text += f"{inner}}}\n"
            return text
        inner = pad + "    "
        head = f"{pad}for ({kind} k = lane; k < {prod(self.part.reduce)}; k += {p.lanes}) {{\n"
        return f"{head}{self._declared(digits(extents, 'k', self.wide), self._element(inner), inner)}{pad}}}\n"

    def _element(self, pad: str) -> str:
        """Statements that fold one element."""
        p = self.p
        assert p.accumulators is not None
        lines, values = evaluated(part_printer(self.program, self.part, self.used), self.part.body, pad, "e")
        scope = p.accumulators.fold(lines, values, pad)
        return scope if p.lanes > 1 or any(n > 1 for n in self.part.reduce) else f"{pad}{{\n{scope}{pad}}}\n"

    def _merge(self, pad: str) -> str:
        """Statements that merge the lanes' results."""
        p = self.p
        assert p.accumulators is not None
        text = p.accumulators.across(min(32, p.lanes), pad)
        if p.lanes <= 32:
            return text
        warps = p.threads // 32
        return text + p.accumulators.gather("smem", warps, "lane / 32", "lane % 32 == 0", "0", 1, warps, pad)

    def _scan(self, scan: str, pad: str) -> str:
        """Statements that scan a row from its start and store every position's value."""
        part, inner = self.part, pad + "    "
        assert self.p.accumulators is not None
        at = f"({place_text(part, names(part, self.used), 'L' if self.wide else '')})"
        element = self._element(inner + "    ").replace("\n\n", "\n")
        return self.p.accumulators.start(pad) + (
            f"{pad}for ({self.kind} {scan} = 0; {scan} < {part.ranges[scan]}; {scan}++) {{\n"
            f"{element}{self._finish(at, inner, '')}{pad}}}\n"
        )

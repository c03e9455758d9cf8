"""Source of the generic kernels: threads walk outputs; reductions run in a thread, a group of lanes or a block."""

from __future__ import annotations

from math import prod

from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.cuda.kernels import evaluated, is_narrow, part_printer, place_text
from tilewright.kernels.templates.cuda.text import declared, digits, stored, to_storage
from tilewright.kernels.templates.cuda_generic.space import PartTiling


def body(program: Program, p: PartTiling) -> str:
    """The statements of one part's kernel."""
    memory = "    TW_SHARED(smem);\n" if p.shared_bytes else ""
    return memory + _walk(program, p)


def _walk(program: Program, p: PartTiling) -> str:
    wide, grid = not is_narrow(program, p.part), p.grid
    kind = "long" if wide else "int"
    if p.lanes == 1:
        return grid.walk(lambda pad: _output(program, p, wide, "e", pad), kind, rolled=True)
    if p.lanes == p.threads:
        text = f"    const {kind} e = ({kind})blockIdx.x;\n    const int lane = (int)threadIdx.x;\n"
        return text + _output(program, p, wide, "e", "    ", "lane == 0")
    # Lanes beyond the last output compute it again, so that all lanes of a warp meet in its exchanges.
    row = grid.clamped("place") if grid.ragged else "place"
    text = (
        f"    const {kind} place = {grid.shared_place(kind)};\n"
        f"    const int lane = (int)threadIdx.x % {p.lanes};\n    const {kind} e = {row};\n"
    )
    only = f"lane == 0 && place < {grid.items}" if grid.ragged else "lane == 0"
    return text + _output(program, p, wide, "e", "    ", only)


def _output(program: Program, p: PartTiling, wide: bool, fused: str, pad: str, only: str = "") -> str:
    """Statements that compute the output at ``fused`` and store it, where ``only`` holds."""
    if p.part.scanned is not None:
        return _scan(program, p, wide, fused, pad)
    axes, kind = digits(p.grid.axes, fused, wide), "long" if wide else "int"
    if p.accumulators is None:
        text = _finish(program, p, fused, pad, "")
    else:
        text = p.accumulators.start(pad) + _reduce(program, p, wide, pad) + _merge(p, pad)
        text += _finish(program, p, fused, pad, only)
    return declared(axes, text, pad, kind)


def _finish(program: Program, p: PartTiling, at: str, pad: str, only: str) -> str:
    """The value of an output, computed and stored."""
    part = p.part
    inner = pad + "    " if only else pad
    printer = part_printer(program, part, p.accumulators.var if p.accumulators else None)
    lines, (value,) = evaluated(printer, (stored(part.value, part.dtype),), inner)
    text = f"{lines}{inner}tw::store_global(out + {at}, {to_storage(part.dtype, value)});\n"
    return f"{pad}if ({only}) {{\n{text}{pad}}}\n" if only else text


def _reduce(program: Program, p: PartTiling, wide: bool, pad: str) -> str:
    """Loops over what this thread folds: everything, or every ``lanes``-th element."""
    part = p.part
    assert p.accumulators is not None
    kind = "long" if wide else "int"
    if p.lanes == 1:
        text, inner = "", pad
        for r, n in zip(part.reduce_axes, part.reduce, strict=True):
            if n > 1:
                text += f"{inner}for ({kind} {r} = 0; {r} < {n}; {r}++) {{\n"
                inner += "    "
        lines = _element(program, p, inner)
        single = {r: "0" for r, n in zip(part.reduce_axes, part.reduce, strict=True) if n == 1}
        text += declared(single, lines, inner, kind)
        while inner != pad:
            inner = inner[4:]
            text += f"{inner}}}\n"
        return text
    total = prod(part.reduce)
    inner = pad + "    "
    lines = _element(program, p, inner)
    axes = digits(dict(zip(part.reduce_axes, part.reduce, strict=True)), "k", wide)
    head = f"{pad}for ({kind} k = lane; k < {total}; k += {p.lanes}) {{\n"
    return f"{head}{declared(axes, lines, inner, kind)}{pad}}}\n"


def _element(program: Program, p: PartTiling, pad: str) -> str:
    """Statements that fold one element."""
    assert p.accumulators is not None
    printer = part_printer(program, p.part)
    lines, values = evaluated(printer, p.part.body, pad, "e")
    scope = p.accumulators.fold(lines, values, pad)
    return scope if p.lanes > 1 or any(n > 1 for n in p.part.reduce) else f"{pad}{{\n{scope}{pad}}}\n"


def _merge(p: PartTiling, pad: str) -> str:
    """What brings the lanes' results together."""
    assert p.accumulators is not None
    text = p.accumulators.across(min(32, p.lanes), pad)
    if p.lanes <= 32:
        return text
    warps = p.threads // 32
    return text + p.accumulators.gather("smem", warps, "lane / 32", "lane % 32 == 0", "0", 1, warps, pad)


def _scan(program: Program, p: PartTiling, wide: bool, fused: str, pad: str) -> str:
    """A row walked from its start; every position's value is stored as it is reached."""
    part, scan = p.part, p.part.scanned
    assert p.accumulators is not None
    assert scan is not None
    kind = "long" if wide else "int"
    axes = digits(p.grid.axes, fused, wide)
    inner = pad + "    "
    at = f"({place_text(part, 'L' if wide else '')})"
    element = _element(program, p, inner + "    ").replace("\n\n", "\n")
    loop = (
        f"{pad}for ({kind} {scan} = 0; {scan} < {part.ranges[scan]}; {scan}++) {{\n"
        f"{element}{_finish(program, p, at, inner, '')}{pad}}}\n"
    )
    text = p.accumulators.start(pad) + loop
    return declared(axes, text, pad, kind)

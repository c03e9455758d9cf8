"""Source of the generic kernels: threads walk outputs; reductions run in a thread, a group of lanes or a block."""

from __future__ import annotations

from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.cuda.kernels import (
    declared,
    digits,
    evaluated,
    is_narrow,
    part_printer,
    signature,
    store,
    stored,
)
from tilewright.kernels.templates.cuda_generic.space import Plan


def body(program: Program, p: Plan) -> str:
    """The statements of one part's kernel."""
    wide = not is_narrow(program, p.part)
    kind = "long" if wide else "int"
    first = f"({kind})blockIdx.x * {p.per_block}"
    ragged = p.rows % p.per_block != 0
    lanes = p.lanes
    if lanes == 1:
        inner = _output(program, p, wide, "e", "        ")
        end = f"        if (e >= {p.rows}) break;\n" if ragged else ""
        return (
            f"    const {kind} first = {first} + (int)threadIdx.x;\n"
            f"    TW_UNROLL\n    for (int u = 0; u < {p.each}; u++) {{\n"
            f"        const {kind} e = first + u * {p.threads};\n{end}{inner}    }}\n"
        )
    if lanes == p.threads:
        text = f"    const {kind} e = ({kind})blockIdx.x;\n    const int lane = (int)threadIdx.x;\n"
        return text + _output(program, p, wide, "e", "    ", "lane == 0")
    # Lanes beyond the last output compute it again, so that all lanes of a warp meet in its exchanges.
    at = f"{first} + (int)threadIdx.x / {lanes}"
    text = f"    const {kind} place = {at};\n    const int lane = (int)threadIdx.x % {lanes};\n"
    text += (
        f"    const {kind} e = place < {p.rows} ? place : {p.rows - 1};\n"
        if ragged
        else f"    const {kind} e = place;\n"
    )
    return text + _output(program, p, wide, "e", "    ", f"lane == 0 && place < {p.rows}" if ragged else "lane == 0")


def source(program: Program, p: Plan, symbol: str, text: str) -> str:
    """One part's kernel, given its body."""
    head = f"TW_KERNEL({p.threads}, 1) void {symbol}({signature(program, p.part, text)}) {{\n"
    shared = "    TW_SHARED(smem);\n" if p.shared_bytes else ""
    return f"{head}{shared}{text}}}\n"


def _output(program: Program, p: Plan, wide: bool, fused: str, pad: str, only: str = "") -> str:
    """Statements that compute the output at ``fused`` and store it, where ``only`` holds."""
    part = p.part
    if p.scan is not None:
        return _scan(program, p, wide, fused, pad)
    axes = digits(part.axes, part.extents, fused, wide)
    if p.accumulators is None:
        text = _finish(program, p, fused, pad, "")
    else:
        text = p.accumulators.start(pad) + _reduce(program, p, wide, pad) + _merge(p, pad)
        text += _finish(program, p, fused, pad, only)
    return declared(axes, text, wide, pad) + text


def _finish(program: Program, p: Plan, at: str, pad: str, only: str) -> str:
    """The value of an output, computed and stored."""
    part = p.part
    inner = pad + "    " if only else pad
    printer = part_printer(program, part, p.accumulators.var if p.accumulators else None)
    lines, (value,) = evaluated(printer, (stored(part.value, part.dtype),), inner)
    text = f"{lines}{inner}{store(part, at, value)}\n"
    return f"{pad}if ({only}) {{\n{text}{pad}}}\n" if only else text


def _reduce(program: Program, p: Plan, wide: bool, pad: str) -> str:
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
        text += declared(single, lines, wide, inner) + lines
        while inner != pad:
            inner = inner[4:]
            text += f"{inner}}}\n"
        return text
    total = 1
    for n in part.reduce:
        total *= n
    inner = pad + "    "
    lines = _element(program, p, inner)
    axes = digits(part.reduce_axes, part.reduce, "k", wide)
    head = f"{pad}for ({kind} k = lane; k < {total}; k += {p.lanes}) {{\n"
    return f"{head}{declared(axes, lines, wide, inner)}{lines}{pad}}}\n"


def _element(program: Program, p: Plan, pad: str) -> str:
    """Statements that fold one element."""
    assert p.accumulators is not None
    printer = part_printer(program, p.part)
    lines, values = evaluated(printer, p.part.body, pad, "e")
    scope = p.accumulators.fold(lines, values, pad)
    return scope if p.lanes > 1 or any(n > 1 for n in p.part.reduce) else f"{pad}{{\n{scope}{pad}}}\n"


def _merge(p: Plan, pad: str) -> str:
    """What brings the lanes' results together."""
    assert p.accumulators is not None
    text = p.accumulators.across(min(32, p.lanes), pad)
    if p.lanes <= 32:
        return text
    warps = p.threads // 32
    return text + p.accumulators.gather("smem", warps, "lane / 32", "lane % 32 == 0", "0", 1, warps, pad)


def _scan(program: Program, p: Plan, wide: bool, fused: str, pad: str) -> str:
    """A row walked from its start; every position's value is stored as it is reached."""
    part, scan = p.part, p.scan
    assert p.accumulators is not None
    assert scan is not None
    kind = "long" if wide else "int"
    others = [(a, n) for a, n in zip(part.axes, part.extents, strict=True) if a != scan]
    axes = digits([a for a, _ in others], [n for _, n in others], fused, wide)
    inner = pad + "    "
    step, terms = 1, []
    for a, n in reversed(list(zip(part.axes, part.extents, strict=True))):
        if n > 1:
            terms.append(a if step == 1 else f"{a} * {step}{'L' if wide else ''}")
        step *= n
    at = f"({' + '.join(reversed(terms)) or '0'})"
    element = _element(program, p, inner + "    ").replace("\n\n", "\n")
    loop = (
        f"{pad}for ({kind} {scan} = 0; {scan} < {part.ranges[scan]}; {scan}++) {{\n"
        f"{element}{_finish(program, p, at, inner, '')}{pad}}}\n"
    )
    text = p.accumulators.start(pad) + loop
    return declared(axes, text, wide, pad) + text

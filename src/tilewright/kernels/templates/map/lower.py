"""A whole kernel: context, task, entry point."""

from __future__ import annotations

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.templates.map.rows import digits, rows
from tilewright.kernels.templates.map.space import Plan
from tilewright.kernels.templates.map.text import STREAM, Text
from tilewright.kernels.templates.map.tiles import shifts, tile, tiles


def arguments(p: Plan) -> tuple[str, ...]:
    """Names of the launch arguments, in order."""
    return (*(("tile_in", "tile_out") if p.tiled else ()), *(("tasks",) if p.target.threads > 1 else ()))


def source(p: Plan, symbol: str) -> str:
    """The kernel's text."""
    t, m = Text(p), p.m
    members, local = t.context()
    blocks = "long tile_in, tile_out, in_blocks, out_blocks, si, so;" if p.tiled else ""
    parts = [f"namespace {symbol}_ {{"]
    if p.stream:
        parts.append(STREAM)
    parts.append(f"struct Ctx {{ {' '.join(members)} long units, tasks; {blocks} }};")
    if p.tiled:
        parts += [tile(t, False).rstrip(), tile(t, True).rstrip()]
    w = Writer()
    with w.block("TW_NOINLINE void task(void *ctx, long task_, long)"):
        w.line("const Ctx &c = *(const Ctx *)ctx;")
        for line in local:
            w.line(line)
        w.line("const long u0 = task_ * c.units / c.tasks, u1 = (task_ + 1) * c.units / c.tasks;")
        (tiles if p.tiled else rows)(t, w)
        if p.stream:
            w.line("streamed();")
    parts += [w.text().rstrip(), "}"]
    names = arguments(p)
    e = Writer()
    with e.block(f"TW_ENTRY({symbol})"):
        e.line(f"(void)args; (void)workspace; using namespace {symbol}_;")
        e.line("Ctx c;")
        names_of = [*(x.name for x in m.program.inputs), m.output.name]
        for name, value in zip(names_of, t.pointers(), strict=True):
            e.line(f"c.{name} = {value};")
        if p.tiled:
            assert m.across is not None
            e.line("c.tile_in = args[0]; c.tile_out = args[1];")
            for line in shifts(t):
                e.line(line)
            for which, shift, axis in (("in", "si", m.across), ("out", "so", m.inner)):
                left = f"{m.extents[axis]}L - c.{shift}"
                e.line(f"c.{which}_blocks = tw::imax(1, tw::ceildiv({left}, c.tile_{which}));")
            outer = " * ".join(f"{m.extents[a]}L" for a in p.free) or "1L"
            e.line(f"c.units = {outer} * c.in_blocks * c.out_blocks;")
        else:
            e.line(f"c.units = {' * '.join(digits(t).values())};")
        e.line(f"c.tasks = {f'tw::imin(args[{len(names) - 1}], c.units)' if 'tasks' in names else '1'};")
        e.line("tw::parallel_for(env, c.tasks, task, &c);")
        e.line("return 0;")
    parts.append(e.text())
    return "\n".join(parts)


def launch_program(p: Plan, symbol: str) -> LaunchProgram:
    return LaunchProgram((Launch(symbol, arguments(p)),))

"""A whole kernel: tasks over rows, or over blocks of tiles."""

from __future__ import annotations

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.emitter import Emitter
from tilewright.kernels.codegen.stream import STREAM
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.elementwise.rows import rows
from tilewright.kernels.templates.elementwise.space import ElementwiseTiling
from tilewright.kernels.templates.elementwise.text import Text, ctype
from tilewright.kernels.templates.elementwise.tiles import tile, tiles


def kernel(p: ElementwiseTiling, symbol: str) -> LoweredKernel:
    """The kernel's text and its launch."""
    emitter, m = Emitter(symbol), p.m
    t = Text(p, emitter)
    emitter.tensors({x.name: ctype(m.tensors[x.name].dtype) for x in (*m.program.inputs, m.output)})
    arguments = (
        *(("tile_in", "tile_out") if p.tiled else ()),
        *(("tasks",) if p.target.threads > 1 else ()),
        *(size.argument for size in m.program.sizes.values()),
    )
    emitter.arguments(arguments)
    (tiles if p.tiled else rows)(t)
    helpers = STREAM if p.stream else ""
    if p.tiled:
        helpers += tile(t, False) + tile(t, True)
    return LoweredKernel(symbol, emitter.unit(helpers), LaunchProgram((Launch(symbol, arguments),)))

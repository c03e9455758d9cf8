"""The loops of a convolution by minimal filtering as a description: transforms, products, transforms back."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Value
from tilewright.kernels.expression.expr import axis, const
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.winograd.plan import WinogradPlan

TILES, WEIGHTS, PRODUCTS = "tiles", "weights", "products"
"""Names of what lies between the parts."""


def nests(p: WinogradPlan, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """Transforming the inputs, the products of all points, and transforming back with what follows."""
    tb, pb = min(int(values["TB"]), p.tiles), min(int(values["PB"]), p.panels)
    shared: list[Loop] = []
    for name, extent, split in (("t", p.tiles, "TT"), ("f", p.panels * p.width, "TP")):
        parts = int(values.get(split, 1))
        if p.target.threads > 1 and parts > 1:
            shared.append(Loop(name, extent, -(-extent // parts), "parallel"))
    t, q, k, f = axis("t"), axis("q"), axis("k"), axis("f")
    block = Loop("t", p.tiles, tb, level="l2", argument="TB")
    group = Loop("f", p.panels * p.width, pb * p.width, level="l2", argument="PB")
    one = (Loop("t", p.tiles, 1), Loop("q", p.points, 1, "unroll"))
    terms = p.transforms.points
    inputs = LoopNest(
        "inputs",
        {"t": p.tiles, "q": p.points, "k": p.channels},
        (*(x for x in shared if x.axis == "t"), block, *one, Loop("k", p.channels, p.lanes), _vector("k", p)),
        (
            Access(p.found.convolution.image.tensor.name, (t * (p.outputs**2) + q % (p.outputs**2), k), "float32"),
            Access(TILES, (q, t, k), "float32", store=True),
        ),
        flops_per_point=terms,
    )
    packed = Layout.row_major(p.panels, p.points, p.channels, p.width)
    products = LoopNest(
        PRODUCTS,
        {"q": p.points, "t": p.tiles, "f": p.panels * p.width, "k": p.channels},
        (
            *shared, block, group, Loop("q", p.points, 1),
            Loop("f", p.panels * p.width, p.width, level="l1"), Loop("t", p.tiles, p.height, level="l1"),
            Loop("k", p.channels, p.unroll, level="register"), Loop("k", p.channels, 1, "unroll", "register"),
            Loop("t", p.tiles, 1, "unroll", "register"), Loop("f", p.panels * p.width, p.lanes, "unroll", "register"),
            Loop("f", p.panels * p.width, 1, "vector", "register"),
        ),
        (
            Access(TILES, (q, t, k), "float32"), Access(WEIGHTS, (q, k, f), "float32"),
            Access(PRODUCTS, (q, t, f), "float32", store=True),
        ),
        (Staged(WEIGHTS, None if p.constant else 0, packed, "l3", terms),),
    )  # fmt: skip
    after = sum(count_ops(*s.body) for s in p.c.epilogue)
    outputs = LoopNest(
        "outputs",
        {"t": p.tiles, "q": p.points, "f": p.panels * p.width},
        (*shared, block, group, *one, Loop("f", p.panels * p.width, p.lanes), _vector("f", p)),
        (
            Access(PRODUCTS, (q, t, f), "float32"),
            Access(
                p.c.output.name, (t * (p.outputs**2) + q % (p.outputs**2), const(0, "index"), f), "float32", store=True
            ),
        ),
        flops_per_point=terms,
        flops_per_output=after,
    )
    return inputs, products, outputs


def _vector(name: str, p: WinogradPlan) -> Loop:
    return Loop(name, p.channels if name == "k" else p.panels * p.width, 1, "vector", "register")


def static(p: WinogradPlan) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    return numbers(prefetch=4 * p.prefetch * p.width)

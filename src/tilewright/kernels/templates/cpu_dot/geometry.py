"""Plans of products of narrow elements, and where their operands can be read in place.

B is packed in panels of ``NV`` vectors of columns: ``[k / group][NV][lanes][group]``, zero past both edges. Where A is
shifted by 128, a row of starting values of the sums stands before each panel. A is read where it is, or packed as rows
of consecutive k, each padded to whole units.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import SIXTEEN
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling, batch_items
from tilewright.kernels.templates.cpu_contraction.kinds import BF16, F32, U8S8, Kind, kind_of
from tilewright.kernels.templates.cpu_contraction.match import Contraction, constant
from tilewright.kernels.templates.decisions import decided


def direct_a(c: Contraction, kind: Kind) -> bool:
    """Whether A can be read where it is: its k lie side by side, as the units take them."""
    return c.a_side is not None and c.a_side.k == 1 and kind in (BF16, U8S8)


def direct_b(c: Contraction) -> bool:
    """Whether B can be read where it is: its columns lie side by side."""
    return c.b_side is not None and c.b_side.along == 1


def gathers(c: Contraction) -> bool:
    """Whether a single row or column meets a matrix whose sums run along memory: copying it costs more than reading it
    in place."""
    return c.n.size == 1 or (c.m.size == 1 and constant(c, "b") is None and not direct_b(c))


def can_halve_b(c: Contraction, kind: Kind) -> bool:
    """Whether B can stay in 16 bits when it is packed, to be widened as it is read."""
    return kind == F32 and c.b.dtype in SIXTEEN


PACK_B = {"none": "direct", "blocks": "pack", "whole": "whole", "once": "prepack"}
"""Ways of reading B, by the values of the knob ``pack_b``."""


def plan(c: Contraction, target: Target, values: Mapping[str, Value]) -> ContractionTiling:
    return decided(
        ContractionTiling, values, c=c, target=target, kind=kind_of(c, target), inner=values["MR"], lines=1,
        images=batch_items(c), vectors=values["NV"], a="rows" if values["pack_a"] else "direct",
        b=PACK_B[str(values["pack_b"])], prefetch_b=values["prefetch"], prefetch_c=False,
    )  # fmt: skip

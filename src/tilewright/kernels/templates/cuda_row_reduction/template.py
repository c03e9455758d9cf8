"""The GPU template of row reductions: a part of a warp, a warp or a block a row."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Extent, Target, Value
from tilewright.kernels.families.row_reduction import ELEMENT, row_reduction
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda.launches import lowered
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_row_reduction import space as spaces
from tilewright.kernels.templates.cuda_row_reduction.lower import kernels
from tilewright.kernels.templates.cuda_row_reduction.nests import moved, nests
from tilewright.kernels.templates.cuda_row_reduction.plan import RowTiling, plan
from tilewright.kernels.templates.planned import PlannedTemplate, described


def _static(p: RowTiling, values: Mapping[str, Value], target: Target) -> Mapping[str, float]:
    features = StaticFeatures(
        threads=p.threads, shared_bytes=p.shared_bytes, registers=p.registers, tile_m=p.groups,
        tile_n=p.r.width if p.r.result.kind == ELEMENT else 1, tile_k=max(1, p.lanes * p.vector), split_k=p.pieces,
        read_bytes_a=p.read_bytes, read_bytes_b=p.read_bytes,
    )  # fmt: skip
    return features.numbers(target, p.blocks, moved(p))


CUDA_ROWS = PlannedTemplate(
    name="cuda_rows",
    family="row_reduction",
    version=2,
    kinds=GPUS,
    refusal="is no row reduction",
    find=row_reduction,
    refuses=spaces.refusal,
    ranges=lambda r: bool(r.rows) and isinstance(r.rows[0][1], Extent),
    span=spaces.space,
    choose=spaces.default,
    plan=lambda r, _, values: plan(r, values),
    build=described(
        lambda p, _: nests(p),
        _static,
        lambda p, symbol: lowered(symbol, kernels(p), workspace=p.workspace, align=p.align),
    ),
)

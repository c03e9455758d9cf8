"""The GPU template of row reductions: a part of a warp, a warp or a block a row."""

from __future__ import annotations

from tilewright.core import Extent
from tilewright.kernels.families.row_reduction import row_reduction
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda_rows import space as spaces
from tilewright.kernels.templates.cuda_rows.kernel import kernel
from tilewright.kernels.templates.cuda_rows.plan import plan
from tilewright.kernels.templates.planned import PlannedTemplate

CUDA_ROWS = PlannedTemplate(
    name="cuda_rows",
    family="row_reduction",
    version=2,
    kinds=GPUS,
    refusal="is not a row reduction",
    find=row_reduction,
    refuses=spaces.refusal,
    ranges=lambda r: bool(r.rows) and isinstance(r.rows[0][1], Extent),
    span=spaces.space,
    choose=spaces.default,
    plan=lambda r, _, values: plan(r, values),
    build=kernel,
)

"""Kernels of rows, maps, windows and of the generic template compiled with NVRTC; skipped where there is none."""

from __future__ import annotations

import pytest

from harness.gpu_programs import MAPS, ROWS, WINDOWS
from tilewright.backends.cuda.archs import target
from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, Nvrtc, find_nvrtc
from tilewright.backends.cuda.ptxas import parse_log
from tilewright.core import Candidate
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.testing.kernels import task_of

SETS = {
    "cuda_rows": ROWS,
    "cuda_map": MAPS,
    "cuda_stencil": WINDOWS,
    "cuda_generic": {n: ROWS[n] for n in ("softmax", "variances", "any_true", "softmax_double")},
}


def compiler(variant: str) -> Nvrtc:
    try:
        return find_nvrtc(variant)
    except NoNvrtc as e:
        pytest.skip(str(e))


@pytest.mark.parametrize("template", list(SETS))
@pytest.mark.parametrize("variant", ["sm_80", pytest.param("sm_120", marks=pytest.mark.nightly)])
def test_defaults_compile_without_spills(template: str, variant: str) -> None:
    nvrtc = compiler(variant)
    chosen, on = get_template(template), target(variant)
    made: dict[str, LoweredKernel] = {}
    for label, build in SETS[template].items():
        task = task_of(build(), on, label)
        made[label] = chosen.lower(Candidate(task, chosen.default(task)))
    _, log = nvrtc.compile(prelude(on) + "".join(k.source for k in made.values()), flags(on))
    found = parse_log(log)
    assert not found.warnings
    assert "warning" not in log, log
    for label, kernel in made.items():
        for symbol in (x.symbol for x in kernel.program.launches):
            used = found.kernels[symbol]
            assert used.spill_stores == 0, (label, symbol)
            assert used.registers <= 255

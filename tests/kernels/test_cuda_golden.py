"""Committed sources of CUDA templates: they change only with their template's version."""

from __future__ import annotations

from pathlib import Path

import pytest
from attention_programs import PROGRAMS as ATTENTIONS
from convolution_programs import FORMS
from cuda_attention_programs import HALVES
from partition_programs import mlp

from harness.gpu_programs import MAPS, ROWS, WINDOWS
from tilewright.backends.cuda.archs import target
from tilewright.kernels.templates import TEMPLATES, get_template
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.kernels import task_of
from tilewright.testing.template import check_golden, golden_source

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = {
    "cuda_simt": ("matmul", "aligned", "matmul_epilogue", "conv2d", "vector_matrix", "turned_last_float32"),
    "cuda_mma": ("halves", "halves_odd", "bytes", "turned_last_bfloat16"),
    "cuda_attention": ("plain", "causal", "half_grouped", "half_keep"),
    "cuda_rows": ("softmax", "softmax_long", "layer_norm", "row_argmax", "column_sums", "whole_sum"),
    "cuda_map": ("chain", "whole_tail", "transposed_half", "table_rows"),
    "cuda_stencil": ("depthwise", "depthwise_last", "max_pool"),
    "cuda_generic": ("softmax", "variances", "padded", "pool_index"),
    "cuda_partition": ("mlp",),
}
PROGRAMS = {
    "cuda_attention": {**ATTENTIONS, **HALVES},
    "cuda_rows": ROWS,
    "cuda_map": MAPS,
    "cuda_stencil": WINDOWS,
    "cuda_generic": {**ROWS, **MAPS, **WINDOWS},
    "cuda_partition": {"mlp": mlp},
}
VARIANTS = ("sm_80", "sm_90a")


def cases() -> list[tuple[str, str, str]]:
    """Template, program, architecture; contractions on the first architecture only."""
    return [
        (template, label, variant)
        for template, labels in CASES.items()
        for label in labels
        for variant in (VARIANTS if template in PROGRAMS else VARIANTS[:1])
    ]


def path_of(template: str, label: str, variant: str) -> Path:
    return GOLDEN / f"{template}-{label}-{variant}.cu"


@pytest.mark.parametrize(("template", "label", "variant"), cases())
def test_sources_change_with_the_version_only(template: str, label: str, variant: str, update_golden: bool) -> None:
    program = PROGRAMS.get(template, {**CONTRACTIONS, **FORMS})[label]()
    source = golden_source(get_template(template), task_of(program, target(variant), label))
    check_golden(path_of(template, label, variant), source, update_golden)


def test_every_template_has_golden_sources() -> None:
    own = {name for name, t in TEMPLATES.items() if "cuda" in t.kinds}
    assert set(CASES) == own
    assert {p.name for p in GOLDEN.glob("*.cu") if not p.name.startswith("conformance")} == {
        path_of(*c).name for c in cases()
    }

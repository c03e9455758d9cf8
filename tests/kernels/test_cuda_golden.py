"""Committed sources of CUDA templates: they change only with their template's version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.backends.cuda.archs import target
from tilewright.kernels.templates import TEMPLATES, get_template
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.kernels import task_of
from tilewright.testing.template import check_golden, golden_source

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = {
    "cuda_simt": ("matmul", "aligned", "matmul_epilogue", "conv2d", "vector_matrix"),
    "cuda_mma": ("halves", "halves_odd", "bytes"),
}
VARIANT = "sm_80"


def cases() -> list[tuple[str, str]]:
    return [(template, label) for template, labels in CASES.items() for label in labels]


def path_of(template: str, label: str) -> Path:
    return GOLDEN / f"{template}-{label}-{VARIANT}.cu"


@pytest.mark.parametrize(("template", "label"), cases())
def test_sources_change_with_the_version_only(template: str, label: str, update_golden: bool) -> None:
    source = golden_source(get_template(template), task_of(CONTRACTIONS[label](), target(VARIANT), label))
    check_golden(path_of(template, label), source, update_golden)


def test_every_template_has_golden_sources() -> None:
    own = {name for name, t in TEMPLATES.items() if "cuda" in t.kinds}
    assert set(CASES) == own
    assert {p.name for p in GOLDEN.glob("*.cu") if not p.name.startswith("conformance")} == {
        path_of(*c).name for c in cases()
    }

"""Convolutions of every form as CUDA contractions: they match, and are right on the emulator."""

from __future__ import annotations

import pytest
from convolution_programs import FORMS

from tilewright.backends.cuda.archs import target
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cuda.match import match
from tilewright.kernels.templates.cuda.operand import operand
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.cuda_template import CudaTemplateContract
from tilewright.testing.kernels import task_of

FLOAT32 = tuple(n for n in FORMS if n.endswith("float32"))
ALIKE = (
    "conv3d_bfloat16", "dilated_float16", "grouped_last_float16", "half_turned", "odd_last_float16", "thirds_float16",
    "turned1d_float16", "turned1d_last_float16",
)  # fmt: skip
ORDINARY = {n: FORMS[n] for n in (*FLOAT32, "requantised", "half_turned", "dequantised")}


class TestTensorCores(CudaTemplateContract):
    """Forms that share their way of reading with another one here are left to the nightly run."""

    templates = ("cuda_mma",)
    programs = {n: FORMS[n] for n in FORMS if n not in ALIKE}  # noqa: RUF012


class TestOrdinaryUnits(CudaTemplateContract):
    """What Tensor Cores compute as well is left to the nightly run."""

    templates = ("cuda_simt",)
    programs = ORDINARY


@pytest.mark.nightly
class TestThoroughly(CudaTemplateContract):
    templates = ("cuda_mma", "cuda_simt")
    programs = FORMS
    targets = ("sm_80", "sm_120")
    schedules = 8


@pytest.mark.parametrize("name", FORMS)
def test_both_templates_match_convolutions(name: str) -> None:
    task = task_of(FORMS[name](), target("sm_80"))
    assert get_template("cuda_simt").matches(task)
    assert get_template("cuda_mma").matches(task) == (name not in FLOAT32)


@pytest.mark.parametrize("name", FORMS)
def test_both_sides_are_read_as_they_lie(name: str) -> None:
    """Each side is one read, so that it is copied, not computed element by element."""
    c = match(FORMS[name]())
    assert c is not None
    assert operand(c, "a").plain is not None
    assert operand(c, "b").plain is not None


@pytest.mark.parametrize(
    ("name", "batch", "width"),
    [
        ("turned_last_bfloat16", (2, 2), 8),  # phases; a pixel's 8 channels
        ("turned1d_last_float16", (2,), 8),
        ("turned_grouped_int8", (2, 2, 2), 1),
        ("thirds_float16", (), 8),  # every tap has phases of its own: they are columns
        ("dilated_float16", (2, 2), 8),
        ("odd_last_float16", (2, 2), 8),  # 5 by 7 pixels: three and four pairs
        ("odd_float16", (2, 2), 1),  # 7 rows, and 6 columns
        ("grouped_last_int8", (2,), 8),
        ("conv3d_last_float32", (), 4),
        ("tf32", (), 4),
    ],
)
def test_phases_are_batches_and_channels_come_in_vectors(name: str, batch: tuple[int, ...], width: int) -> None:
    c = match(FORMS[name]())
    assert c is not None
    assert c.batch.extents == batch
    image = operand(c, "a" if operand(c, "a").plain.tensor.name == "x0" else "b")  # type: ignore[union-attr]
    assert image.width("k") == width


def test_scales_of_quantised_weights_multiply_the_sum() -> None:
    c = match(FORMS["dequantised"]())
    assert c is not None
    assert {str(x.value) for x in c.rhs.loads()} == {"x1"}
    assert {str(x.value) for x in c.monoid.finish.loads()} == {"x2"}
    scaled = match(CONTRACTIONS["scaled"]())  # a scale for each part of K stays
    assert scaled is not None
    assert not scaled.monoid.finish.loads()

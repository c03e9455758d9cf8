"""Committed generated sources: they change only with their template's version, and compile anywhere."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import golden_sources
import pytest
from golden_sources import (
    FOLDER,
    FULL,
    GOLDENS,
    ROOT,
    SYMBOL,
    Golden,
    check,
    committed_hashes,
    cpu_goldens,
    cpu_target,
    difference,
)
from grouped_programs import experts
from neighbour_programs import heat
from stencil_programs import window
from triangle_programs import CONDITIONS, masked

from tilewright.backends import get_backend
from tilewright.core import TilewrightError
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.codegen.sources import check_source
from tilewright.kernels.templates import TEMPLATES


@pytest.mark.parametrize("name", GOLDENS)
def test_sources_change_with_the_version_only_and_builders_take_them(name: str, update_golden: bool) -> None:
    golden = GOLDENS[name]
    source = golden.source()
    check(golden, source, FOLDER, update_golden)
    check_source(source, [SYMBOL], golden.target.kind)


def test_nothing_committed_is_left_over() -> None:
    assert {p.name for p in FOLDER.iterdir() if p.suffix in (".cpp", ".cu")} == {
        g.file for g in GOLDENS.values() if g.file
    }
    assert set(committed_hashes(FOLDER)) == {g.name for g in GOLDENS.values() if not g.file}


def test_every_template_has_golden_sources() -> None:
    assert {g.template for g in GOLDENS.values() if g.file} == set(FULL) == set(TEMPLATES)


@pytest.mark.parametrize("label", ["halves_odd", "halves"], ids=["in full", "by its hash"])
def test_a_changed_source_needs_a_new_version(label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_sources, "difference", lambda name, source: "")
    golden = GOLDENS[f"cuda_mma-{label}-sm_80"]
    assert bool(golden.file) == (label == FULL["cuda_mma"])
    source = golden.source()
    changed, newer = source.replace("\n", "\n// changed\n", 2), source.replace("version ", "version 1", 1)
    with pytest.raises(AssertionError, match="is missing"):
        check(golden, source, tmp_path, update=False)
    other = dataclasses.replace(golden, label="bytes")
    for written in (other, golden):
        check(written, source, tmp_path, update=True)
    check(golden, source, tmp_path, update=False)
    for update in (False, True):
        with pytest.raises(AssertionError, match=rf"{golden.name}: .*Bump the version"):
            check(golden, changed, tmp_path, update)
    with pytest.raises(AssertionError, match="another version"):
        check(golden, newer, tmp_path, update=False)
    check(golden, newer, tmp_path, update=True)
    for kept, text in ((golden, newer), (other, source)):
        check(kept, text, tmp_path, update=False)


@pytest.mark.needs("git")
def test_a_failure_shows_the_difference() -> None:
    golden = GOLDENS["cuda_map-chain-sm_80"]
    source = golden.source()
    shown = difference(golden.name, source.replace("\n}", "\n  // added\n}"))
    assert ("\n+  // added" if (ROOT / ".git").exists() else "in another checkout") in shown


def test_a_failure_says_how_to_see_the_difference_where_there_is_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("sh", "tar"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "in another checkout" in difference("cuda_map-chain-sm_80", "")


SHORT = {
    "depthwise": partial(window, "NHWC", 1, 21, (3, 4), (3, 3), 1, 1, epilogue="norm"),
    "depthwise_whole": partial(window, "NHWC", 1, 32, (3, 4), (3, 2), 1, 1, epilogue="norm"),
    "experts": partial(experts, m=7, n=9, k=5, groups=3),
    "heat": partial(heat, m=20, n=32, steps=2),
    "lower": partial(masked, 9, 9, 21, CONDITIONS["lower"]),
}
"""Programs whose sources print less of the same than those of golden ones."""
AGAIN = (("cpu_generic", "conv2d"), ("cpu_winograd", "tiled"), ("cpu_partition", "mlp"))
"""Long sources that call nothing that others do not."""


def shortened(sources: Iterable[Golden]) -> Iterator[Golden]:
    for golden in sources:
        if (golden.template, golden.label) not in AGAIN:
            yield dataclasses.replace(golden, make=SHORT.get(golden.label, golden.make))


def called(sources: Iterable[str]) -> set[str]:
    """What of the prelude some sources name."""
    return {name for source in sources for name in re.findall(r"\b(?:tw::|TW_|__builtin_)\w+", source)}


@pytest.mark.parametrize(
    "name",
    [
        "portable",
        pytest.param("neon", marks=pytest.mark.needs("aarch64-linux-gnu-g++")),
        pytest.param("avx2", marks=pytest.mark.nightly),
        pytest.param("avx512", marks=pytest.mark.nightly),
    ],
)
def test_sources_compile_for_every_target(name: str) -> None:
    """Not run here where the machine lacks the instructions; the compiler takes them all."""
    backend = get_backend("cpu")
    target = cpu_target(name)
    golden = list(cpu_goldens(target))
    sources = [g.source().replace(SYMBOL, f"tw_{g.template}_{g.label}") for g in shortened(golden)]
    assert called(sources) == called(g.source() for g in golden)
    try:
        built = backend.build([prelude(target), *sources], target)
    except TilewrightError as error:
        if "compiler" in error.message and not backend.runs_here(target):
            pytest.skip(str(error))
        raise
    assert Path(built.path).stat().st_size > 0

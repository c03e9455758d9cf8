"""Models of one operator mean what onnxruntime says, over element types, attributes and operator sets."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import further_operators  # noqa: E402, F401
from onnx_cases import ROUNDING  # noqa: E402
from single_operators import RECIPES, Variant, variants  # noqa: E402
from test_onnx_nodes import interpreted  # noqa: E402

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.core import TilewrightError  # noqa: E402
from tilewright.models.extract import Extracted, extracted  # noqa: E402
from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared  # noqa: E402
from tilewright.models.network import Network  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402
from tilewright.models.truth import error_of  # noqa: E402
from tilewright.runtime import Library  # noqa: E402

SHARES = {"float64": 1e-6, "float32": 1e-5, "float16": 4e-3}
"""How far an element may lie from onnxruntime's, as a share of the largest, by element type; others agree."""


def wanted(v: Variant) -> dict[str, Any] | None:
    """onnxruntime's outputs, without optimisations; ``None`` where it has no kernel."""
    try:
        return Session(v.model, optimised=False).run(v.inputs)
    except TilewrightError:
        return None


def wrong(v: Variant, found: Extracted, got: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """What is wrong with a variant's outputs."""
    said = []
    for name, want in right.items():
        dtype = found.imported.graph.values[name].dtype
        if name not in found.imported.unshaped and dtype != want.dtype.name:
            said.append(f"{v.label}: {dtype}, not {want.dtype}")
            continue
        given = np.asarray(got[name])
        if v.model.graph.node[0].op_type in ROUNDING and want.dtype.kind in "iu":
            given = np.where(np.abs(given.astype(np.int64) - want) <= 1, want, given)
        with np.errstate(all="ignore"):
            error = error_of(given.astype(want.dtype), want)
        if not error <= SHARES.get(want.dtype.name, 0.0):
            said.append(f"{v.label}: {np.ravel(got[name])[:6]}, not {want.ravel()[:6]}")
    return said


def read(v: Variant) -> Extracted:
    return extracted(Importer(prepared(v.model)).run())


def check(count: int, none: Path) -> None:
    """The first variants that onnxruntime computes: none is wrong, and kernels take many of them."""
    found, ours = [], 0
    compared: Counter[str] = Counter()
    with Library(none, threads=1, missing_ok=True, count_misses=False) as library:
        for v in variants():
            right = wanted(v)
            if right is None:
                continue
            compared[v.model.graph.node[0].op_type] += 1
            made = read(v)
            left = any(g.family == "opaque" for g in made.groups)
            ours += bool(made.tasks)
            got = Network(made, library).run(v.inputs) if left else interpreted(made, v.inputs)
            found += wrong(v, made, got, right)
            if compared.total() == count:
                break
    assert not found, "\n".join(found)
    assert len(compared) > 0.75 * len(RECIPES)
    assert ours > count // 4


def test_variants_of_single_operators_mean_what_onnxruntime_says(tmp_path: Path) -> None:
    check(150, tmp_path / "none.db")


@pytest.mark.nightly
def test_many_variants_of_single_operators_mean_what_onnxruntime_says(tmp_path: Path) -> None:
    check(2500, tmp_path / "none.db")


@pytest.mark.nightly
def test_default_kernels_of_variants_mean_what_onnxruntime_says(tmp_path: Path) -> None:
    chosen = [(v, made) for v in islice(variants(), 1500) if (made := read(v)).tasks]
    default_kernels([t.workload for _, made in chosen for t in made.tasks], tmp_path / "kernels.db")
    found = []
    with Library(tmp_path / "kernels.db", threads=1) as library:
        for v, made in chosen:
            right = wanted(v)
            if right is not None:
                found += wrong(v, made, Network(made, library).run(v.inputs), right)
    assert not found, "\n".join(found)

"""``benchmarks/onnx_files.py`` on a small file; no times are compared."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import onnx_files  # noqa: E402

helper = onnx.helper


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product of open rows, and an operator that is not known."""
    path = tmp_path_factory.mktemp("files") / "product.onnx"
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Trilu", ["a"], ["y"], domain="com.microsoft"),
    ]
    values = [helper.make_tensor_value_info("x", 1, ("rows", 16)), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


def test_a_file_is_taken_apart_checked_and_timed_in_turns(file: Path) -> None:
    sizes = {"rows": 4, "another file's": 3}
    row = onnx_files.measured(file, sizes, threads=1, tune=0.0, check=False, rounds=1, keep=None)
    assert (row["taken"], row["operators"], row["whole"], row["tasks"]) == (1, 2, False, 1)
    assert row["left"] == {"com.microsoft.Trilu": {"calls": 1, "why": "the operator is not known"}}

    row = onnx_files.measured(file, sizes, threads=1, tune=2.0, check=False, rounds=7, keep=None)
    assert (row["right"], row["truth"]) == (True, "float64")
    assert row["not_tuned"] == {}
    assert row["form"] in ("all kernels", "onnxruntime alone")
    assert row["largest_error"] < 1e-5
    middle, low, high = row["ratios"]["onnxruntime"]
    assert 0 < low <= middle <= high
    text = onnx_files.table([{"name": "product", **row}, {"name": "broken", "failed": "crashed: SIGABRT"}])
    assert "| product | 1 of 2 | com.microsoft.Trilu x 1 (the operator is not known) |" in text
    assert "of 1; " in text
    assert f" | {row['form']} | " in text
    assert "| broken | - | crashed: SIGABRT |" in text


def test_an_open_axis_is_timed_beside_a_session_of_one_size(file: Path) -> None:
    sizes, at = {"rows": (2, 6)}, {"rows": 4}
    row = onnx_files.measured(file, sizes, threads=1, tune=2.0, check=False, rounds=7, keep=None, at=at)
    assert (row["right"], row["sizes"], row["ranges"]) == (True, {"rows": 4}, {"rows": (2, 6)})
    assert set(row["ratios"]) == {"onnxruntime", "fixed"}
    text = onnx_files.table([{"name": "product", **row}, {"name": "broken", "failed": "crashed: SIGABRT"}])
    assert "Beside sessions of one size: geometric mean" in text
    assert " | rows=4 of 2..6 | " in text
    assert "| broken | - | crashed: SIGABRT | - | - | - | - | - | - |" in text


def test_a_size_of_the_file_is_opened_in_a_copy(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(n, 1, (4, 16)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, ir_version=9), str(tmp_path / "relu.onnx"))
    (tmp_path / "copy").mkdir()
    path = onnx_files.opened(tmp_path / "relu.onnx", {"x.0": (2, 6)}, tmp_path / "copy")
    assert path.parent == tmp_path / "copy"
    assert onnx_files.axes_of(path) == {"x.0"}
    assert onnx_files.opened(path, {"x.0": (2, 6)}, tmp_path) == path

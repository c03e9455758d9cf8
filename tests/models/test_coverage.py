"""What ``tilewright extract`` and ``tilewright run`` say of who computes a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from networks_file import networks  # noqa: E402

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.cli import app  # noqa: E402
from tilewright.models.coverage import of_model  # noqa: E402
from tilewright.models.extract import extract  # noqa: E402

helper = onnx.helper
UNKNOWN = "com.microsoft.Trilu"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have room for a reason in one line, whatever terminal the tests were started in."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two products around an operator that is not known, and one whose input is; a constant operator folds."""
    folder = tmp_path_factory.mktemp("coverage")
    folder.chmod(0o700)
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Abs", ["w"], ["v"]),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("Trilu", ["c"], ["d"], domain="com.microsoft"),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
        helper.make_node("Neg", ["b"], ["unread"]),
    ]
    shape = onnx.numpy_helper.from_array(np.array([2, 2, 8], np.int64), "shape")
    values = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", (4, 8)), ("y", None))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight, shape])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(folder / "m.onnx"))
    default_kernels([t.workload for t in extract(folder / "m.onnx").tasks][:1], folder / "one.db")
    default_kernels([t.workload for t in extract(folder / "m.onnx").tasks], folder / "all.db")
    return folder / "m.onnx"


def said(capsys: Any, *arguments: str) -> Any:
    assert app.run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def lines(found: Any) -> dict[str, Any]:
    return {line["what"].rpartition("_")[0] or line["what"]: line for line in found["computed"]}


def test_extract_lists_what_is_taken_and_left_with_its_share_of_the_operators(model: Path, capsys: Any) -> None:
    found = said(capsys, "extract", str(model))
    assert (found["operators"], found["taken"]) == (5, 4)
    got = {n: (line["by"], line["calls"], line["operators"], line["why"]) for n, line in lines(found).items()}
    assert got == {
        "matmul_relu": ("tilewright", 1, 2, ""),
        "matmul": ("tilewright", 1, 1, ""),
        "views, which cost nothing": ("tilewright", 1, 1, ""),
        UNKNOWN: ("onnxruntime", 1, 1, "the operator is not known"),
    }
    assert sum(line["share"] for line in found["computed"]) == pytest.approx(1)
    assert app.run(["extract", str(model)]) == 0
    text = capsys.readouterr()
    assert "the operator is not known" in text.out
    assert "kernels compute 4 of 5 operators (80.0%)" in text.err


def test_run_lists_shares_of_time_too_and_what_was_not_tuned(model: Path, capsys: Any) -> None:
    found = said(capsys, "run", str(model), "--no-compare", "--db", str(model.with_name("all.db")))
    assert (found["operators"], found["taken"], lines(found)[UNKNOWN]["at_most"]) == (5, 4, False)
    assert sum(line["time_share"] for line in found["computed"]) == pytest.approx(1)
    assert found["served_share_of_time"] == pytest.approx(1 - lines(found)[UNKNOWN]["time_share"])

    found = said(capsys, "run", str(model), "--no-compare", "--db", str(model.with_name("one.db")))
    got = lines(found)
    assert (got["matmul_relu"]["by"], got["MatMul"]["by"]) == ("tilewright", "onnxruntime")
    assert (got["MatMul"]["why"], got[UNKNOWN]["why"]) == ("no kernel was tuned for it", "the operator is not known")
    assert got["MatMul"]["at_most"]
    assert got["MatMul"]["time_share"] == got[UNKNOWN]["time_share"] < 1  # one part of onnxruntime computes both
    assert found["left"][UNKNOWN] == {"calls": 1, "why": "the operator is not known"}
    assert app.run(["run", str(model), "--no-compare", "--db", str(model.with_name("one.db"))]) == 0
    text = capsys.readouterr().out
    assert "at most" in text
    assert f"kernels compute {found['taken']} of 5 operators" in text


def test_folded_norms_and_constants_count_with_what_computes_them(tmp_path: Path) -> None:
    onnx.save(networks().NETWORKS["resnet50"](True), str(tmp_path / "r.onnx"))
    found = of_model(extract(tmp_path / "r.onnx"))
    assert found.taken == found.operators == len(onnx.load(str(tmp_path / "r.onnx")).graph.node)
    assert max(line.operators for line in found.lines) == 8  # twice a convolution, its norm, the sum and the activation

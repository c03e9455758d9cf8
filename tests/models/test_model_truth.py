"""Outputs are judged by float64 and by what float32 can do; inputs are drawn by kind or given."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from test_model_file import model, node, read, value  # noqa: E402

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.cli import app  # noqa: E402
from tilewright.models.extract import extract  # noqa: E402
from tilewright.models.inputs import random_inputs  # noqa: E402
from tilewright.models.network import Network  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402
from tilewright.models.truth import Truth, compare, error_of, largest_error  # noqa: E402
from tilewright.runtime import Library  # noqa: E402


def test_an_error_is_a_share_and_other_types_or_shapes_are_wrong() -> None:
    x = np.array([1.0, 4.0, np.nan, np.inf], np.float32)
    assert error_of(x, x) == 0
    assert error_of(x + np.array([1, 0, 0, 0], np.float32), x) == 0.25
    assert error_of(np.array([1, 4, 0, np.inf], np.float32), x) == math.inf
    assert error_of(x.astype(np.float64), x) == math.inf
    assert error_of(x[:3], x) == math.inf
    assert error_of(np.array([1, 2, 3, 5]), np.array([1, 2, 3, 4])) == 0.25
    assert error_of(np.array([1], np.int32), np.array([1], np.uint8)) == math.inf
    assert error_of(np.zeros((0, 2)), np.zeros((0, 3))) == math.inf
    assert largest_error({"a": [x, x]}, {"a": [x, x + np.float32(2)]}) > 0.3


def outputs(**arrays: Any) -> dict[str, Any]:
    return {n: np.asarray(a, np.float32) for n, a in arrays.items()}


def test_an_output_may_be_as_wrong_as_float32_is() -> None:
    truth = {"y": np.array([1.0, 2.0])}
    theirs = [outputs(y=[1.0, 2.0]), outputs(y=[1.0, 2.005])]  # with optimisations, and without
    found = compare(outputs(y=[1.0, 2.019]), theirs, truth)
    assert (found.right, found.truth) == (True, "float64")
    assert found.onnxruntime_error == pytest.approx(0.0025, rel=1e-3)
    assert found.error == pytest.approx(0.0095, rel=1e-3)
    assert not compare(outputs(y=[1.0, 2.03]), theirs, truth).right
    assert not compare(outputs(y=[1.0, 2.001]), theirs[:1], truth, ["Det"]).right
    assert compare(outputs(y=[1.0, 2.0001]), theirs[:1], truth, ["Det"]).truth == "float64, but for Det"


def test_the_output_that_is_wrong_is_said_whatever_the_others_are() -> None:
    truth = {"y": np.array([1.0]), "k": np.array([7])}
    theirs = [{**outputs(y=[1.5]), "k": np.array([7])}]
    found = compare({**outputs(y=[1.9]), "k": np.array([8])}, theirs, truth)
    assert (found.output, found.right, found.allowed) == ("k", False, 0.0)


def test_what_overflows_in_its_own_type_is_compared_with_onnxruntime() -> None:
    truth = {"y": np.array([1.0, 1e30])}
    theirs = [outputs(y=[1.0, np.inf])]
    assert compare(outputs(y=[1.0, np.inf]), theirs, truth).right
    assert not compare(outputs(y=[1.0, 1e30]), theirs, truth).right


def test_the_truth_is_float64_where_float32_loses_it() -> None:
    """A mean is taken off values that lie far from zero, by kernels' operations and by others."""
    x = 1e4 + np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=[1]), node("Sub", ["x", "m"], ["c"]), node("Softsign", ["c"], ["s"]),
        node("CumSum", ["s", "axis"], ["k"]), node("Conv", ["w", "v"], ["o"]), node("Sinh", ["c"], ["y"]),
    ]  # fmt: skip
    made = model(
        nodes[:4] + nodes[5:], [value("x", 1, [4, 64])], [value("k", 1, None), value("y", 1, None)], axis=np.array(1)
    )
    truth = Truth(read(made).imported)
    got = truth.run({"x": x})
    c = x.astype(np.float64) - x.mean(1, dtype=np.float64, keepdims=True)
    assert truth.narrow == set()
    np.testing.assert_allclose(got["k"], np.cumsum(c / (1 + np.abs(c)), 1), rtol=1e-12)
    np.testing.assert_allclose(got["y"], np.sinh(c), rtol=1e-12)


def test_an_operator_without_float64_is_named() -> None:
    random = np.random.default_rng(0)
    given = {"x": random.standard_normal((1, 2, 4, 4), np.float32), "g": random.random((1, 3, 3, 2), np.float32)}
    inputs = [value(n, 1, a.shape) for n, a in given.items()]
    sampled = node("GridSample", ["x", "g"], ["y"], domain="com.microsoft")
    made = model([sampled], inputs, [value("y", 1, None)], 17, "com.microsoft")
    truth = Truth(read(made).imported)
    assert error_of(truth.run(given)["y"].astype(np.float32), Session(made).run(given)["y"]) < 1e-6
    assert truth.narrow == {"GridSample"}


def test_a_bfloat16_model_is_run_beside_float32(tmp_path: Path, capsys: Any) -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["r"]), node("Sinh", ["r"], ["y"])]
    import ml_dtypes

    weight = np.random.default_rng(0).standard_normal((16, 8)).astype(ml_dtypes.bfloat16)
    made = model(nodes, [value("x", 16, [4, 16])], [value("y", 16, [4, 8]), value("r", 16, [4, 8])], 17, w=weight / 8)
    file = tmp_path / "b.onnx"
    onnx.save(made, str(file))
    found = read(made)
    default_kernels([t.workload for t in found.tasks], tmp_path / "k.db")
    for database, served in (("none.db", 0), ("k.db", 1)):
        code = app.run(["run", str(file), "--db", str(tmp_path / database), "--json", "--no-compare"])
        said = json.loads(capsys.readouterr().out)
        assert (code, said["right"], len(said["served"])) == (0, True, served)
        assert said["largest_error"] < 0.02


def test_a_model_that_onnxruntime_has_no_kernel_for_is_compared_with_float64_alone(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "m.onnx"
    onnx.save(model([node("Erf", ["x"], ["y"])], [value("x", 11, [4, 64])], [value("y", 11, [4, 64])]), str(file))
    default_kernels([t.workload for t in extract(file).tasks], tmp_path / "k.db")
    code = app.run(["run", str(file), "--db", str(tmp_path / "k.db"), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (code, said["right"], said["onnxruntime_error"], said["truth"]) == (0, True, None, "float64")
    assert app.run(["run", str(file), "--db", str(tmp_path / "none.db"), "--json"]) == 2
    said = json.loads(capsys.readouterr().out)["error"]
    assert ("no kernel" in said["message"], "Tune" in said["mend"]) == (True, True)


def test_values_of_every_kind_cross_a_part_of_ours(tmp_path: Path) -> None:
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["s"]), node("NonZero", ["x"], ["n"]), node("Relu", ["x"], ["r"]),
        node("SequenceInsert", ["s", "r"], ["t"]), node("ConcatFromSequence", ["t"], ["y"], axis=0),
        node("Transpose", ["n"], ["m"]), node("Trilu", ["r"], ["g"], domain="com.microsoft"), node("Exp", ["g"], ["z"]),
    ]  # fmt: skip
    outputs = [value("y", 1, None), value("m", 7, None), value("z", 1, None)]
    made = model(nodes, [value("x", 1, [2, 3])], outputs, 17, "com.microsoft")
    found = read(made)
    assert found.imported.unshaped == {"s", "n", "t", "y", "m"}
    default_kernels([t.workload for t in found.tasks], tmp_path / "k.db")
    with Library(tmp_path / "k.db", threads=1) as library:
        network = Network(found, library)
    assert (len(network.served), len(network.parts)) == (2, 4)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    assert largest_error(network.run({"x": x}), Session(made).run({"x": x})) < 1e-6


def test_a_product_with_a_constant_vector_is_served(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    for operands in (["x", "w"], ["w", "z"]):
        made = model(
            [node("MatMul", operands, ["y"])], [value(n, 1, a.shape) for n, a in (("x", x), ("z", x.T)) if n in operands],
            [value("y", 1, None)], w=x[0],
        )  # fmt: skip
        found = read(made)
        path = tmp_path / f"{operands[0]}.db"
        default_kernels([t.workload for t in found.tasks], path)
        with Library(path, threads=1) as library:
            network = Network(found, library)
        assert (len(network.served), network.left) == (1, {})
        np.testing.assert_allclose(network.run({"x": x, "z": np.ascontiguousarray(x.T)})["y"], x @ x[0], rtol=1e-4)


def test_powers_of_minus_infinity_and_minus_zero_are_no_roots() -> None:
    x = np.array([-np.inf, -0.0, 4.0, -1.0], np.float32)
    for exponent, want in ((-0.5, [0, np.inf, 0.5, np.nan]), (0.5, [np.inf, 0, 2, np.nan])):
        made = model(
            [node("Pow", ["x", "e"], ["y"])], [value("x", 1, [4])], [value("y", 1, [4])], e=np.float32(exponent)
        )
        got = Truth(read(made).imported).run({"x": x})["y"]
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(Session(made).run({"x": x})["y"], want)
        assert not np.signbit(got[:3]).any()


# --------------------------------------------------------------------------- inputs


def drawn(nodes: list[Any], inputs: list[Any], outputs: list[str], **constants: Any) -> dict[str, Any]:
    found = read(model(nodes, inputs, [helper_output(o) for o in outputs], **constants))
    return random_inputs(found.imported)


def helper_output(name: str) -> Any:
    return onnx.helper.make_empty_tensor_value_info(name)


def test_inputs_are_drawn_by_what_the_model_does_with_them() -> None:
    table = np.ones((1000, 4), np.float32)
    made = drawn(
        [
            node("Gather", ["table", "ids"], ["g"]), node("Cast", ["raw"], ["c"], to=1), node("Mul", ["c", "s"], ["r"]),
            node("Unsqueeze", ["classes", "ax"], ["u"]), node("Equal", ["u", "k"], ["h"]), node("Cast", ["attention_mask"], ["m"], to=1),
            node("Relu", ["image"], ["i"]), node("Relu", ["plain"], ["p"]), node("Range", ["zero", "count", "one"], ["n"]),
            node("Identity", ["lengths"], ["l"]), node("Cast", ["eight"], ["e"], to=1),
        ],
        [
            value("ids", 7, [8, 64]), value("raw", 6, [8, 64]), value("classes", 6, [8, 64]), value("attention_mask", 7, [8, 64]),
            value("image", 1, [1, 3, 32, 32]), value("plain", 1, [8, 64]), value("count", 7, []), value("lengths", 7, [8]),
            value("eight", 3, [8, 64]),
        ],
        ["g", "r", "h", "m", "i", "p", "n", "l", "e"],
        table=table, s=np.float32(0.5), ax=np.array([2]), k=np.arange(40, dtype=np.int32), zero=np.array(0), one=np.array(1),
    )  # fmt: skip
    assert (made["ids"].min() >= 0, 900 < made["ids"].max() < 1000) == (True, True)
    assert (made["raw"].min() >= 0, 200 < made["raw"].max() < 256) == (True, True)
    assert 35 < made["classes"].max() < 40
    assert set(made["attention_mask"].ravel()) == {0, 1}
    assert made["image"].min() >= 0
    assert made["image"].max() <= 1
    assert np.abs(np.diff(made["image"])).mean() < 0.1
    assert made["plain"].min() < -1
    assert made["count"] in (0, 1)
    assert made["lengths"].tolist() == [64] * 8
    assert made["eight"].min() < -100


def test_each_input_may_come_from_a_separate_file(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "m.onnx"
    nodes = [node("Add", ["x", "z"], ["y"])]
    onnx.save(model(nodes, [value("x", 1, [2, 3]), value("z", 1, [2, 3])], [value("y", 1, [2, 3])]), str(file))
    one, archive, narrow = tmp_path / "one.npy", tmp_path / "all.npz", tmp_path / "narrow.npy"
    np.save(one, np.ones((2, 3), np.float32))
    np.save(narrow, np.ones((2, 3), np.float16))
    np.savez(archive, x=np.ones((2, 3), np.float32))

    def run(*sources: Any) -> tuple[int, Any]:
        given = [part for s in sources for part in ("--input", str(s))]
        code = app.run(["run", str(file), *given, "--db", str(tmp_path / "none.db"), "--json"])
        return code, json.loads(capsys.readouterr().out)

    right: list[tuple[Any, ...]] = [(), (f"x={one}",), (f"x={one}", f"z={one}"), (archive, f"z={one}")]
    assert [run(*sources)[0] for sources in right] == [0] * len(right)
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((one,), "does not name an input"),
        ((f"w={one}",), "no input 'w'"),
        ((f"x={narrow}",), "(2, 3) float16 for the input x"),
        ((f"x={tmp_path / 'none.npy'}",), "cannot read"),
        ((f"x={archive}",), "is an archive of x"),
    ]
    for sources, said in wrong:
        code, found = run(*sources)
        assert (code, said in found["error"]["message"]) == (2, True), found

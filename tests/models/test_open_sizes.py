"""Models of which axes stay open: one network for every size, right against onnxruntime, and nothing compiled for one."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

import open_models  # noqa: E402

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.cli import app  # noqa: E402
from tilewright.core import UsageError, Workload  # noqa: E402
from tilewright.models import InferenceSession  # noqa: E402
from tilewright.models.extract import extract  # noqa: E402

NODE = onnx.helper.make_node
Sizes = dict[str, tuple[int, int]]

MODELS: dict[str, tuple[Callable[[], Any], Sizes, list[tuple[int, ...]]]] = {
    "mlp": (open_models.mlp, {"batch": (1, 8)}, [(b, 8) for b in range(1, 9)]),
    "convolutions": (
        open_models.convolutions, {"batch": (1, 3), "height": (8, 33), "width.0": (8, 33)},
        [(b, 3, h, w) for b in (1, 3) for h in (8, 9, 15, 33) for w in (8, 22, 31)],
    ),
    "classifier": (
        open_models.classifier, {"height": (9, 12), "width": (9, 12)},
        [(1, 3, h, w) for h in (9, 10, 12) for w in (9, 11, 12)],
    ),
    "block": (
        open_models.block, {"batch": (1, 3), "seq": (1, 19)}, [(b, s, 32) for b in (1, 2, 3) for s in (1, 2, 7, 18, 19)]
    ),
    "nearest": (
        lambda: open_models.resized(mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
        {"batch": (1, 2), "height": (2, 9), "width": (2, 9)}, [(b, 3, h, w) for b in (1, 2) for h, w in ((2, 9), (7, 3))],
    ),
    "linear": (
        lambda: open_models.resized(mode="linear"),
        {"batch": (1, 2), "height": (2, 9), "width": (2, 9)}, [(b, 3, h, w) for b in (1, 2) for h, w in ((2, 9), (7, 3))],
    ),
    "positions": (
        open_models.positions, {"batch": (1, 3), "seq": (1, 40)}, [(b, s) for b in (1, 3) for s in (1, 2, 13, 40)]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, and a database with kernels of all of their tasks."""
    made = tmp_path_factory.mktemp("open")
    made.chmod(0o700)
    tasks = []
    for name, (make, sizes, _) in MODELS.items():
        onnx.save(make(), str(made / f"{name}.onnx"))
        tasks += [t.workload for t in extract(made / f"{name}.onnx", sizes).tasks]
    default_kernels(tasks, made / "t.db")
    return made


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler, nor any other program."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)


def inputs(shape: tuple[int, ...], name: str) -> Any:
    random = np.random.default_rng(sum(shape))
    return random.integers(0, 50, shape) if name == "positions" else random.standard_normal(shape).astype(np.float32)


def error(got: list[Any], wanted: list[Any]) -> float:
    assert [a.shape for a in got] == [w.shape for w in wanted]
    return max(float(np.abs(a - w).max() / np.abs(w).max()) for a, w in zip(got, wanted, strict=True))


LEFT = {
    "linear": {"Resize"},
}


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("name", MODELS)
def test_one_network_is_right_at_every_size(folder: Path, name: str) -> None:
    _, sizes, shapes = MODELS[name]
    path = folder / f"{name}.onnx"
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ours = InferenceSession(path, db=folder / "t.db", sizes=sizes, compare=False)
    (network,) = {ours.network({"x": shape}) for shape in shapes}
    assert network.served
    assert network.left.keys() == LEFT.get(name, set())
    for shape in (*shapes, *shapes):  # first calls of sizes, then later ones
        x = {"x": inputs(shape, name)}
        assert error(ours.run(None, x), theirs.run(None, x)) < 2e-6, shape


def test_lengths_that_a_model_gives_are_the_callers_own(tmp_path: Path) -> None:
    nodes = [NODE("Shape", ["x"], ["s"]), NODE("Relu", ["x"], ["y"])]
    value, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", kind.FLOAT, ["a", 4])], [value("s", kind.INT64, [2]), value("y", kind.FLOAT, ["a", 4])]
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    default_kernels([t.workload for t in extract(tmp_path / "m.onnx", {"a": (1, 9)}).tasks], tmp_path / "t.db")
    session = InferenceSession(tmp_path / "m.onnx", db=tmp_path / "t.db", sizes={"a": (1, 9)}, compare=False)
    for rows in (3, 3, 5, 3):
        (shape,) = session.run(["s"], {"x": np.ones((rows, 4), "f")})
        assert shape.tolist() == [rows, 4]
        shape[:] = 0


@pytest.mark.usefixtures("nothing_starts")
def test_kernels_of_ranges_serve_networks_of_fixed_sizes(folder: Path) -> None:
    path = folder / "convolutions.onnx"
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ours = InferenceSession(path, db=folder / "t.db", compare=False)
    for shape in ((1, 3, 8, 8), (2, 3, 17, 30)):
        assert not ours.network({"x": shape}).left
        x = {"x": inputs(shape, "x")}
        assert error(ours.run(None, x), theirs.run(None, x)) < 2e-6


def test_an_open_convolution_is_a_choice_of_two_layouts(folder: Path) -> None:
    of_choice = defaultdict[str, list[Workload]](list)
    for task in extract(folder / "convolutions.onnx", MODELS["convolutions"][1]).tasks:
        if task.choice:
            of_choice[task.choice].append(task.workload)
    assert of_choice
    for first, last in of_choice.values():
        assert first.ranges == last.ranges != {}


def test_memory_and_weights_are_those_of_the_greatest_sizes(folder: Path) -> None:
    _, sizes, shapes = MODELS["block"]
    path, db = folder / "block.onnx", folder / "t.db"
    alone = InferenceSession(path, db=db, compare=False)
    ours = InferenceSession(path, db=db, sizes=sizes, compare=False)

    def sequences(network: Any) -> list[Any]:
        return [run.sequence for part, run in network.parts if part.ours]

    whole = sequences(ours.network({"x": (3, 19, 32)}))
    before = [(s.bytes, len(s._packed)) for s in whole]
    for shape in shapes:
        ours.run(None, {"x": inputs(shape, "block")})
    assert [(s.bytes, len(s._packed)) for s in whole] == before
    assert sum(s.bytes for s in whole) == sum(s.bytes for s in sequences(alone.network({"x": (3, 19, 32)})))


def test_a_size_outside_of_its_range_has_a_network_of_its_own(folder: Path) -> None:
    path = folder / "mlp.onnx"
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ours = InferenceSession(path, db=folder / "t.db", sizes={"batch": "2..8"}, compare=False)
    x = {"x": inputs((11, 8), "mlp")}
    assert error(ours.run(None, x), theirs.run(None, x)) < 2e-6
    assert set(ours.network({"x": (11, 8)}).left) == {"Gemm", "Relu", "Softmax"}
    assert ours.network({"x": (2, 8)}) is ours.network({"x": (8, 8)}) is not ours.network({"x": (1, 8)})


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 3, 8), "f"), "Invalid rank for input: x Got: 3 Expected: 2"),
        (np.zeros((2, 8), "d"), "Unexpected input data type for x"),
        (np.zeros((2, 9), "f"), "index: 1 Got: 9 Expected: 8"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit_are_refused(folder: Path, x: Any, message: str) -> None:
    session = InferenceSession(folder / "mlp.onnx", db=folder / "t.db", sizes={"batch": (1, 8)}, compare=False)
    with pytest.raises(UsageError, match=message):
        session.run(None, {"x": x})
    assert session.run(None, {"x": np.ones((2, 8), "f")})[0].shape == (2, 10)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"batch": "8..2"}, "batch=8..2 is not a range. Write the least size first, at least 1: batch=2..8"),
        ({"batch": (0, 4)}, "batch=0..4 is not a range"),
        ({"bach": (1, 4)}, "has no axis called 'bach'. Did you mean batch"),
        ({"batch": (1, 2, 3)}, "batch=.1, 2, 3. is not a size. Write a number, or a range"),
        ({"batch": "x"}, "batch=x is not a size"),
    ],
)
def test_sizes_that_are_none_are_refused(folder: Path, sizes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        InferenceSession(folder / "mlp.onnx", db=folder / "t.db", sizes=sizes, compare=False)


# --------------------------------------------------------------------------- commands


def said(capsys: Any, *arguments: object) -> tuple[int, Any]:
    code = app.run([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("wrong", ["batch=8..2", "batch=0..4", "batch=1..x", "batch=..4", "bach=1..4", "x.7=1..2"])
def test_a_range_that_is_none_is_refused_in_one_line(folder: Path, capsys: Any, wrong: str) -> None:
    code, found = said(capsys, "extract", folder / "mlp.onnx", "--size", wrong)
    assert code == 2
    assert found["error"]["message"]
    assert found["error"]["mend"]


def test_a_model_is_extracted_tuned_and_run_for_a_range(tmp_path: Path, capsys: Any) -> None:
    tmp_path.chmod(0o700)
    nodes = [NODE("MatMul", ["x", "w"], ["a"]), NODE("Relu", ["a"], ["y"])]
    onnx.save(
        open_models.model(nodes, [open_models.weight("w", 8, 4)], ["batch", 8], {"y": 2}), str(tmp_path / "m.onnx")
    )
    model, tasks, db = tmp_path / "m.onnx", tmp_path / "m.toml", tmp_path / "m.db"
    code, listed = said(capsys, "extract", model, "--size", "batch=1..3", "-o", tasks)
    assert (code, len(listed["tasks"]), listed["left"]) == (0, 1, {})
    assert app.run(["extract", str(model), "--size", "batch=1..3"]) == 0
    assert "n0x4" in capsys.readouterr().out
    how = ("--trials", 2, "--cost-model", "random", "--db", db)
    code, tuned = said(capsys, "tune", "--tasks", tasks, *how)
    assert code == 0
    assert [k["sizes"] for k in tuned["tasks"][0]["kernels"]]
    code, found = said(capsys, "run", model, "--size", "batch=1..3", "--db", db, "--no-compare")
    assert (code, found["left"], found["right"]) == (0, {}, True)
    assert [one["size"]["batch"] for one in found["sizes"]] == [1, 2, 3]
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    code, found = said(
        capsys, "run", model, "--size", "batch=1..3", "--db", db, "--input", f"x={tmp_path / 'x.npy'}", "--benchmark", 1
    )
    assert (code, [one["size"] for one in found["sizes"]]) == (0, [{"batch": 2}])
    assert found["speedup"] > 0
    for batch in (1, 2, 3):
        code, found = said(capsys, "run", model, "--size", f"batch={batch}", "--db", db, "--no-compare")
        assert (code, found["left"], found["right"]) == (0, {}, True), "kernels of ranges serve each size"
    np.save(tmp_path / "x.npy", np.ones((4, 8), np.float32))
    code, found = said(capsys, "run", model, "--size", "batch=1..3", "--input", f"x={tmp_path / 'x.npy'}")
    assert code == 2
    assert "(4, 8) float32 for the input x" in found["error"]["message"]


def test_what_takes_no_range_is_left_with_the_reason(tmp_path: Path, capsys: Any) -> None:
    """Products of 16 bits take rows as ranges, no columns."""
    value = onnx.helper.make_tensor_value_info
    half = onnx.TensorProto.FLOAT16
    graph = onnx.helper.make_graph(
        [NODE("MatMul", ["x", "w"], ["y"])], "g", [value("x", half, [4, 8]), value("w", half, [8, "n"])],
        [value("y", half, [4, "n"])],
    )  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), tmp_path / "half.onnx")
    asked = ("extract", tmp_path / "half.onnx", "--size", "n=2..64")
    _, found = said(capsys, *asked)
    (line,) = found["computed"]
    assert (line["by"], line["why"]) == ("onnxruntime", "cpu_dot does not take n0=2..64 as ranges")
    assert found["left"].keys() == {"MatMul"}
    assert app.run(list(map(str, asked))) == 0
    capsys.readouterr()


# --------------------------------------------------------------------------- what cannot stay open


def left(model: Any, path: Path, sizes: Sizes) -> dict[str, str]:
    onnx.save(model, str(path))
    return dict(extract(path, sizes).imported.left)


def test_an_operator_whose_form_depends_on_the_size_is_left(tmp_path: Path) -> None:
    product = NODE("MatMul", ["x", "w"], ["a"])
    constants = [open_models.weight("w", 8, 16)]
    squeezed = open_models.model([product, NODE("Squeeze", ["a"], ["y"])], constants, ["batch", 8], {"y": 2})
    found = left(squeezed, tmp_path / "m.onnx", {"batch": (1, 4)})
    assert found == {"Squeeze": "what is computed depends on how batch=1..4 compares with 1"}
    assert left(squeezed, tmp_path / "m.onnx", {"batch": (2, 4)}) == {}


def test_an_axis_of_one_length_for_every_size_is_that_number(tmp_path: Path) -> None:
    assert left(open_models.classifier(), tmp_path / "m.onnx", {"height": (9, 12), "width": (9, 12)}) == {}
    found = left(open_models.classifier(), tmp_path / "m.onnx", {"height": (9, 13), "width": (9, 12)})
    assert found.keys() == {"Reshape"}


def test_axes_of_two_names_do_not_stretch_to_each_other(tmp_path: Path) -> None:
    nodes = [NODE("Shape", ["x"], ["s"]), NODE("Transpose", ["x"], ["t"]), NODE("Add", ["x", "t"], ["y"])]
    model = open_models.model(nodes, [], ["a", "b"], {"y": 2})
    found = left(model, tmp_path / "m.onnx", {"a": (1, 4), "b": (1, 4)})
    assert found.keys() == {"Add"}
    session = InferenceSession(tmp_path / "m.onnx", sizes={"a": (1, 4), "b": (1, 4)})
    assert session.run(None, {"x": np.ones((1, 4), "f")})[0].shape == (4, 4)


def test_every_size_of_small_models_has_the_shapes_of_onnxruntime(tmp_path: Path) -> None:
    """Without kernels: onnxruntime computes all, and what follows from sizes is handed to it."""
    sizes = {"batch": (1, 3), "seq": (1, 5)}
    onnx.save(open_models.block(), str(tmp_path / "m.onnx"))
    ours = InferenceSession(tmp_path / "m.onnx", sizes=sizes)
    theirs = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for b, s in itertools.product(range(1, 4), range(1, 6)):
        x = {"x": inputs((b, s, 32), "x")}
        assert error(ours.run(None, x), theirs.run(None, x)) < 2e-6

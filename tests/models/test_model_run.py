"""Models from the file to the outputs: tasks, tuning, serving, and onnxruntime for the rest."""

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
from tilewright.models.extract import extract, write_tasks  # noqa: E402
from tilewright.models.inputs import random_inputs  # noqa: E402
from tilewright.models.network import Network  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402
from tilewright.models.truth import largest_error  # noqa: E402
from tilewright.runtime import Library  # noqa: E402
from tilewright.tuner.many import tune_many  # noqa: E402
from tilewright.tuner.task_file import read_tasks  # noqa: E402


def run(capsys: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = app.run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    folder.chmod(0o700)
    made = networks()
    for name, make in made.NETWORKS.items():
        onnx.save(make(True), str(folder / f"{name}.onnx"))
    return folder


@pytest.mark.parametrize("name", ["resnet50", "mobilenet", "squeezenet", "densenet", "bert", "decoder"])
def test_every_network_is_known_as_a_whole(files: Path, name: str) -> None:
    found = extract(files / f"{name}.onnx")
    assert found.imported.left == {}
    assert not [g for g in found.groups if g.family in ("opaque", "generic")]
    assert ("attention" in {g.family for g in found.groups}) == (name in ("bert", "decoder"))


def test_without_a_database_onnxruntime_computes_all(files: Path, capsys: Any) -> None:
    code, found = run(capsys, "run", str(files / "decoder.onnx"), "--db", str(files / "none.db"))
    assert (code, found["served"]) == (0, {})
    assert found["largest_error"] == found["onnxruntime_error"] < 1e-6
    assert found["left"]["MatMul"] == {"calls": 19, "why": "no kernel was tuned for it"}


def test_a_model_is_tuned_and_runs_in_one_part(files: Path, capsys: Any) -> None:
    model, tasks, db = (str(files / f"bert{end}") for end in (".onnx", ".toml", ".db"))
    code, listed = run(capsys, "extract", model, "-o", tasks)
    assert code == 0
    assert sum(t["calls"] for t in listed["tasks"]) == 19
    assert app.run(["tune", "--tasks", tasks, "--trials", "1", "--cost-model", "random", "--db", db, "--json"]) == 0
    capsys.readouterr()
    code, found = run(capsys, "run", model, "--db", db, "--benchmark", "2", "--no-compare")
    assert code == 0
    assert sum(found["served"].values()) == 19
    assert (found["left"], found["parts"]) == ({}, 1)
    assert found["largest_error"] < 1e-5
    assert found["speedup"] > 0


def test_some_tuned_tasks_run_between_parts_of_onnxruntime(files: Path) -> None:
    found = extract(files / "resnet50.onnx")
    some = [t for t in found.tasks if t.choice and t.workload.op == t.choice][:3]
    write_tasks(some, files / "some.toml")
    tune_many(read_tasks(files / "some.toml"), trials=1, cost_model="random", db=files / "some.db")
    inputs = random_inputs(found.imported)
    with Library(files / "some.db", threads=1) as library:
        network = Network(found, library)
    assert set(network.served) == {t.workload.op for t in some}
    assert len(network.parts) > 2
    assert largest_error(network.run(inputs), Session.of_file(found.imported.model).run(inputs)) < 1e-5
    first = network.run(inputs)
    moved = {n: np.append(np.float32(0), a)[1:].reshape(a.shape) for n, a in inputs.items()}  # at another address
    assert all(np.array_equal(a, first[n]) for n, a in network.run(moved).items())


@pytest.mark.parametrize(("name", "share"), [("squeezenet", 1), ("densenet", 2)])
def test_concatenations_of_one_image_need_no_kernel(files: Path, name: str, share: int) -> None:
    """Where all else has kernels, and where onnxruntime computes some of what is concatenated."""
    found = extract(files / f"{name}.onnx")
    first = [t.workload for t in found.tasks if "_nhwc" not in t.workload.op]
    assert not [w for w in first if w.op.startswith("cat")]
    default_kernels(first[::-share], files / f"{name}.db")
    with Library(files / f"{name}.db", threads=1) as library:
        network = Network(found, library)
    assert (len(network.parts) == 1) == (share == 1)
    inputs = random_inputs(found.imported)
    assert largest_error(network.run(inputs), Session.of_file(found.imported.model).run(inputs)) < 1e-5


def test_inputs_come_from_a_file(files: Path, capsys: Any) -> None:
    given = files / "inputs.npz"
    np.savez(given, image=np.ones((1, 3, 64, 64), np.float32))
    code, found = run(
        capsys, "run", str(files / "resnet50.onnx"), "--input", str(given), "--db", str(files / "none.db")
    )
    assert (code, found["right"]) == (0, True)
    np.savez(given, image=np.ones((1, 3), np.float32))
    code, found = run(capsys, "run", str(files / "resnet50.onnx"), "--input", str(given))
    assert code == 2
    assert "(1, 3) float32 for the input image" in found["error"]["message"]
    given.write_bytes(b"PK broken")
    assert run(capsys, "run", str(files / "resnet50.onnx"), "--input", str(given))[0] == 2


def _model(nodes: list[Any], shape: tuple[Any, ...], out: str, **more: Any) -> Any:
    helper = onnx.helper
    inputs = [helper.make_tensor_value_info("x", 1, shape)]
    outputs = [helper.make_tensor_value_info(out, 1, ["a"] * len(shape))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_dynamic_axes_need_a_size(tmp_path: Path, capsys: Any) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    file = str(tmp_path / "dynamic.onnx")
    onnx.save(_model([node], ("batch", 4), "y"), file)
    code, found = run(capsys, "extract", file)
    assert code == 2
    assert "no fixed size" in found["error"]["message"]
    assert "batch=1" in found["error"]["mend"]
    for given in (["--size", "batch=3"], ["batch=3"]):
        assert run(capsys, "extract", file, *given)[1]["tasks"][0]["output"]["shape"] == [3, 4]
    for wrong in ("batch", "batch=x", "=3"):
        code, found = run(capsys, "extract", file, wrong)
        assert code == 2
        assert found["error"]["message"] == f"{wrong!r} is not KEY=VALUE with a size"
    for wrong in ("batch=-1", "batch", "batch=x", "bach=1"):
        assert run(capsys, "extract", file, "--size", wrong)[0] == 2


def test_an_unknown_operator_is_left_and_said(tmp_path: Path, capsys: Any) -> None:
    nodes = [onnx.helper.make_node("Relu", ["x"], ["r"]), onnx.helper.make_node("Atan", ["r"], ["s"])]
    nodes.append(onnx.helper.make_node("Exp", ["s"], ["y"]))
    file = str(tmp_path / "atan.onnx")
    onnx.save(_model(nodes, (2, 4), "y"), file)
    code, found = run(capsys, "extract", file)
    assert code == 0
    assert found["left"] == {"Atan": "the operator is not known"}
    assert len(found["tasks"]) == 2
    code, ran = run(capsys, "run", file, "--db", str(tmp_path / "none.db"))
    assert (code, ran["left"]["Atan"]["why"]) == (0, "the operator is not known")


def test_files_that_are_no_models_are_said(tmp_path: Path, capsys: Any) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"\x08\x07\xff\xff\xff nothing")
    for file, said in ((damaged, "not a valid ONNX model"), (tmp_path / "none.onnx", "there is no file")):
        for command in ("extract", "run"):
            code, found = run(capsys, command, str(file))
            assert code == 2
            assert said in found["error"]["message"]


def test_a_damaged_program_in_a_task_file_is_said(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "tasks.toml"
    for text, said in (
        ('[[task]]\noperator = "f"\nprogram = "{}"', "the program of f is damaged"),
        ('[[task]]\noperator = "f"\nprogram = 3', "a program is a text"),
        ('[[task]]\noperator = "f"\nprogram = "[]"\nparams = { m = 3 }', "a program is a text"),
    ):
        file.write_text(text)
        code, found = run(capsys, "tune", "--tasks", str(file))
        assert code in (1, 2)
        assert said in found["error"]["message"]

"""``tilewright extract``, ``tune --tasks`` and ``run`` for a device: the emulated one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tilewright.backends.cuda import targets  # noqa: E402
from tilewright.backends.driver import NoDriver  # noqa: E402
from tilewright.cli import app  # noqa: E402

helper = onnx.helper


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product and a softmax."""
    folder = tmp_path_factory.mktemp("device")
    folder.chmod(0o700)
    weight = np.random.default_rng(0).standard_normal((8, 12)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [4, 8])], [helper.make_tensor_value_info("y", 1, [4, 12])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(folder / "m.onnx"))
    return folder / "m.onnx"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = app.run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_model_is_extracted_tuned_and_run_on_the_emulator(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, db = str(file.with_name("tasks.toml")), str(file.with_name("tuned.db"))
    code, listed = run(capsys, "extract", str(file), "--target", "emulator:sm_80", "-o", tasks)
    assert (code, listed["target"], len(listed["tasks"])) == (0, "cuda:sm_80", 2)
    assert tomllib.loads(Path(tasks).read_text())["target"] == "emulator:sm_80"
    code, tuned = run(capsys, "tune", "--tasks", tasks, "--trials", "2", "--cost-model", "random", "--db", db)
    assert code == 0
    assert all(t["best"] for t in tuned["tasks"])
    code, found = run(capsys, "run", str(file), "--target", "emulator", "--db", db, "--threads", "2")
    assert (code, sum(found["served"].values()), found["left"]) == (0, 2, {})
    assert found["largest_error"] < 1e-5
    assert "emulator" in found["why"]
    assert app.run(["run", str(file), "--db", db]) == 0
    assert "onnxruntime alone: tuned only for cuda:sm_80, which this machine lacks" in capsys.readouterr().out


def test_tasks_for_a_gpu_are_listed_where_there_is_none(
    file: Path, capsys: pytest.CaptureFixture[str], no_gpu: None
) -> None:
    tasks = str(file.with_name("cuda.toml"))
    code, listed = run(capsys, "extract", str(file), "--target", "cuda", "-o", tasks)
    assert (code, listed["target"]) == (0, "cuda:sm_90a")
    assert tomllib.loads(Path(tasks).read_text())["target"] == "cuda"
    for command in (["run", str(file), "--target", "cuda"], ["tune", "--tasks", tasks]):
        code, found = run(capsys, *command)
        assert code == 1
        assert found["error"]["message"] == "cuda does not run here: there is no NVIDIA driver"
        assert "--target cpu" in found["error"]["mend"]


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[targets.Gpu, ...]:
        raise NoDriver("there is no NVIDIA driver")

    monkeypatch.setattr(targets, "gpus", none)
    monkeypatch.setattr("tilewright.backends.cuda.device.gpus", none)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["extract", "--target", "cuda", "--threads", "2"], "a CUDA target takes no number of threads"),
        (["extract", "--target", "cudo"], "unknown backend 'cudo'"),
        (["run", "--target", "emulator:sm_1"], "unknown CUDA architecture 'sm_1'"),
        (["run", "--target", "cuda", "--device", "cpu:0"], "kernels for cuda do not run on cpu:0"),
    ],
)
def test_a_place_that_does_not_fit_is_one_line(
    command: list[str], said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(capsys, command[0], str(file), *command[1:])
    assert code == 2
    assert said in found["error"]["message"]

"""Which form of a model is kept: all of its kernels, those that gain, or onnxruntime alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.cli import app  # noqa: E402
from tilewright.core import UsageError  # noqa: E402
from tilewright.measure import comparing  # noqa: E402
from tilewright.models import InferenceSession, forms  # noqa: E402
from tilewright.models.coverage import NO_GAIN, NOT_TUNED, NOTHING_TO_TUNE  # noqa: E402
from tilewright.models.extract import extract  # noqa: E402
from tilewright.models.inputs import random_inputs  # noqa: E402
from tilewright.models.network import ALL, ALONE, GAINING, Network  # noqa: E402
from tilewright.models.parts import own_name  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402
from tilewright.runtime import Library  # noqa: E402
from tilewright.runtime.sequence import KernelSequence  # noqa: E402

helper = onnx.helper
ROUNDS = 12
X = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
Forms = Mapping[str, Callable[[], Any]]


def saved(path: Path, nodes: list[Any], *inputs: Any, output: int = 1) -> Path:
    weights = [
        onnx.numpy_helper.from_array(np.random.default_rng(k).standard_normal((8, 8)).astype(np.float32), name)
        for k, name in enumerate("uv")
    ]
    outputs = [helper.make_tensor_value_info("y", output, None)]
    graph = helper.make_graph(nodes, "g", list(inputs), outputs, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two products around an operator that is not known, whose rows are open, and databases with kernels of both, at
    five rows and in a range, of one, and of none."""
    folder = tmp_path_factory.mktemp("forms")
    folder.chmod(0o700)
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Trilu", ["b"], ["c"], domain="com.microsoft"),
        helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]
    path = saved(folder / "m.onnx", nodes, helper.make_tensor_value_info("x", 1, ["rows", 8]))
    fixed = [t.workload for t in extract(path, {"rows": 5}).tasks]
    default_kernels([], folder / "none.db")
    default_kernels(fixed[:1], folder / "one.db")
    default_kernels([*fixed, *(t.workload for t in extract(path, {"rows": (2, 5)}).tasks)], folder / "all.db")
    return path


@pytest.fixture
def session(model: Path) -> Callable[..., InferenceSession]:
    def make(db: str = "all.db", **how: Any) -> InferenceSession:
        made = InferenceSession(model, db=model.with_name(db), **how)
        wanted = onnxruntime.InferenceSession(str(model)).run(None, {"x": X})
        np.testing.assert_allclose(made.run(None, {"x": X}), wanted, rtol=1e-5, atol=1e-6)
        return made

    return make


def timing(monkeypatch: pytest.MonkeyPatch, whole: Mapping[str, float], parts: list[bool]) -> list[Forms]:
    """Give forms these times in the place of measured ones, after a call of each. ``parts``: whether each part of
    kernels gains, the most important first."""
    seen = []

    def timed(runs: Forms, **_: Any) -> comparing.Samples:
        seen.append(runs)
        for run in runs.values():
            run()
        seconds = {ALL: 1.0 if parts[len(seen) - 1] else 2.0, ALONE: 1.5} if len(seen) <= len(parts) else whole
        return {name: [seconds[name]] * ROUNDS for name in runs}

    monkeypatch.setattr(comparing, "in_turns", timed)
    return seen


@pytest.mark.parametrize(("kept", "kernels"), [(ALL, 2), (GAINING, 1), (ALONE, 0)])
def test_a_session_keeps_the_form_that_is_faster(
    kept: str, kernels: int, session: Callable[..., InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = timing(monkeypatch, {n: 1.0 if n == kept else 2.0 for n in (ALL, GAINING, ALONE)}, [True, False])
    made = session()
    assert [list(runs) for runs in seen] == [[ALL, ALONE], [ALL, ALONE], [ALL, GAINING, ALONE]]
    network = made.network({"x": X.shape})
    assert (network.form, len(network.served)) == (kept, kernels)
    assert made.comparison is network.comparison is not None
    assert made.comparison.kept == kept
    assert set(made.comparison.ratios.values()) == {(2.0, 2.0, 2.0)}
    assert network.why == str(made.comparison)
    assert network.left["com.microsoft.Trilu"]["why"] == "the operator is not known"
    assert network.left.get("MatMul", {}) == ({"calls": 2 - kernels, "why": NO_GAIN} if kernels < 2 else {})


@pytest.mark.parametrize("gain", [True, False])
def test_where_all_parts_gain_or_none_there_is_no_form_between(
    gain: bool, session: Callable[..., InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = timing(monkeypatch, {ALL: 1.0, ALONE: 1.0}, [gain, gain])
    assert session().network({"x": X.shape}).form == ALL, "of equals the first"
    assert list(seen[-1]) == [ALL, ALONE]


def test_parts_that_the_time_does_not_reach_are_left_to_onnxruntime(
    session: Callable[..., InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = timing(monkeypatch, {ALL: 2.0, GAINING: 1.0, ALONE: 2.0}, [True])
    now = iter([0.0, 0.5 * forms.BUDGET, 1.5 * forms.BUDGET])
    monkeypatch.setattr(forms, "time", SimpleNamespace(monotonic=lambda: next(now)))
    assert len(session().network({"x": X.shape}).served) == 1
    assert len(seen) == 2


def test_kernels_that_are_slow_lose_against_onnxruntime(
    session: Callable[..., InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = KernelSequence.run

    def slow(self: KernelSequence, *args: Any) -> Any:
        return [run(self, *args) for _ in range(50)][-1]

    monkeypatch.setattr(KernelSequence, "run", slow)
    monkeypatch.setattr(forms, "BUDGET", 0.05)
    found = session("one.db")
    assert found.network({"x": X.shape}).form == ALONE
    assert found.comparison is not None
    assert found.comparison.ratios[ALL][1] > 1


def test_onnxruntime_has_a_model_alone_of_which_it_refuses_parts(
    session: Callable[..., InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Network, *args: Any) -> Any:
        raise UsageError("onnxruntime refuses the model: rank")

    monkeypatch.setattr(Network, "session_of", refused)
    network = session("one.db").network({"x": X.shape})
    assert network.form == ALONE
    assert network.why == f"{ALONE}, for parts of the model cannot be run: onnxruntime refuses the model: rank"


def test_nothing_is_timed_without_kernels_or_where_that_is_switched_off(
    session: Callable[..., InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "in_turns", None)
    network = session(compare=False).network({"x": X.shape})
    assert (network.form, network.comparison, len(network.served)) == (ALL, None, 2)
    untuned = session("none.db").network({"x": X.shape})
    assert (untuned.form, untuned.comparison, untuned.why) == (ALONE, None, f"{ALONE}: {NOT_TUNED}")
    assert untuned.left["MatMul"] == {"calls": 2, "why": NOT_TUNED}
    kept = session("none.db", compare=False).network({"x": X.shape})
    assert kept.why == untuned.why, "of no kernels there is nothing to compare"


@pytest.mark.parametrize("option", ["--compare", "--no-compare"])
def test_run_does_not_speak_of_kernels_where_the_model_has_no_task(tmp_path: Path, capsys: Any, option: str) -> None:
    rows = helper.make_tensor_value_info("x", 1, [5, 8])
    model = saved(tmp_path / "m.onnx", [helper.make_node("Trilu", ["x"], ["y"], domain="com.microsoft")], rows)
    asked = ["run", str(model), "--db", str(tmp_path / "none.db")]
    assert app.run(asked if option == "--compare" else [*asked, option]) == 0
    said = capsys.readouterr()
    assert f"form: {ALONE}: {NOTHING_TO_TUNE}\n" in said.out
    assert ALL not in said.out
    assert "extract" not in said.err, "the list of tasks is empty"
    assert app.run(["extract", str(model), "-o", str(tmp_path / "tasks.toml")]) == 0
    said = capsys.readouterr()
    assert said.err.endswith(f"{NOTHING_TO_TUNE}\n")
    assert "Tune them" not in said.err


def test_open_sizes_are_decided_by_the_least_and_the_greatest(
    session: Callable[..., InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []

    def timed(runs: Forms, **_: Any) -> comparing.Samples:
        if set(runs) == {ALL, ALONE} and len(rows) < 2:
            (count,) = {len(run.args[-1]["x"]) for run in runs.values()}  # type: ignore[attr-defined]
            rows.append(count)
            for run in runs.values():
                run()
            return {ALL: [4.0 if count == 2 else 1.0] * ROUNDS, ALONE: [1.0 if count == 2 else 2.0] * ROUNDS}
        raise AssertionError("one part of kernels, and two sizes")

    monkeypatch.setattr(comparing, "in_turns", timed)
    monkeypatch.setattr(forms, "_gaining", lambda *_: None)
    made = session(sizes={"rows": (2, 5)})
    assert rows == [2, 5]
    assert made.comparison is not None
    assert made.comparison.kept == ALONE
    assert made.comparison.ratios[ALL][0] == pytest.approx(2**0.5)
    assert made.network({"x": (3, 8)}).form == ALONE


def test_all_kernels_are_kept_where_the_forms_cannot_be_compared(tmp_path: Path) -> None:
    product = helper.make_node("MatMul", ["x", "u"], ["a"])
    text = [helper.make_node("Shape", ["t"], ["s"]), helper.make_node("Reshape", ["a", "s"], ["y"])]
    values = [helper.make_tensor_value_info("x", 1, [5, 8]), helper.make_tensor_value_info("t", 8, [4, 10])]
    double = helper.make_tensor_value_info("x", 11, [4, 64])
    for name, path, said in (
        ("texts", saved(tmp_path / "t.onnx", [product, *text], *values), "string, which has no random values"),
        (
            "lacking",
            saved(tmp_path / "d.onnx", [helper.make_node("Erf", ["x"], ["y"])], double, output=11),
            "no kernel",
        ),
    ):
        default_kernels([t.workload for t in extract(path).tasks], tmp_path / f"{name}.db")
        session = InferenceSession(path, db=tmp_path / f"{name}.db")
        network = session.network({v.name: tuple(v.shape) for v in session.get_inputs()})
        assert (network.form, session.comparison) == (ALL, None)
        assert network.served
        assert network.why.startswith(f"{ALL}, for the forms cannot be compared: ")
        assert said in network.why


def test_onnxruntime_is_timed_on_what_a_part_of_kernels_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of convolutions whose channels lie last, of which one result is read behind a part of onnxruntime."""
    weights = [
        onnx.numpy_helper.from_array(np.random.default_rng(k).standard_normal((8, 8, 3, 3)).astype(np.float32), name)
        for k, name in enumerate("uvw")
    ]
    nodes = [
        helper.make_node("Conv", ["x", "u"], ["a"], pads=[1] * 4),
        helper.make_node("Trilu", ["a"], ["b"], domain="com.microsoft"),
        helper.make_node("Conv", ["b", "v"], ["c"], pads=[1] * 4),
        helper.make_node("Conv", ["a", "w"], ["d"], pads=[1] * 4),
        helper.make_node("Add", ["c", "d"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, 1, [1, 8, 12, 12]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(tmp_path / "m.onnx"))
    found = extract(tmp_path / "m.onnx")
    default_kernels([t.workload for t in found.tasks if t.workload.op != t.choice], tmp_path / "m.db")
    seen: list[set[str]] = []

    def timed(runs: Forms, **_: Any) -> comparing.Samples:
        ours, theirs = (run() for run in runs.values())
        seen.append({*ours})
        for name, value in ours.items():
            own = value if name in theirs else np.moveaxis(value, -1, 1)
            np.testing.assert_allclose(own, theirs[own_name(name)], rtol=1e-4, atol=1e-5)
        return {ALL: [float("y" in ours)], ALONE: [0.5]}

    monkeypatch.setattr(comparing, "in_turns", timed)
    inputs = random_inputs(found.imported)
    with Library(tmp_path / "m.db", threads=1) as library:
        every = Network(found, library)
        some = forms._gaining(every, library, inputs)
    assert sorted(map(sorted, seen)) == [["a", "d/channels_last"], ["y"]]
    assert some is not None
    assert 0 < sum(some.served.values()) < sum(every.served.values())
    wanted = Session.of_file(found.imported.model).run(inputs)["y"]
    for network in (every, some):
        np.testing.assert_allclose(network.run(inputs)["y"], wanted, rtol=1e-4, atol=1e-4)


def test_run_says_in_a_line_which_form_is_served_and_why(
    model: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["run", str(model), "--size", "rows=5", "--db", str(model.with_name("all.db"))]
    timing(monkeypatch, {ALL: 2e-5, ALONE: 1e-5}, [False, False])
    assert app.run(asked) == 0
    out = capsys.readouterr().out
    assert "form: onnxruntime alone: 10 us a call, 2.000x faster than all kernels (2.000x to 2.000x)\n" in out
    assert NO_GAIN in " ".join(out.split())
    timing(monkeypatch, {ALL: 2e-5, ALONE: 1e-5}, [False, False])
    assert app.run([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["form"], found["taken"]) == (ALONE, 0)
    assert found["comparison"] == {"kept": ALONE, "seconds": 1e-5, "ratios": {ALL: [2.0, 2.0, 2.0]}}
    assert app.run([*asked, "--json", "--no-compare"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["form"], found["comparison"], found["why"]) == (ALL, None, f"{ALL}, not compared")

"""``InferenceSession`` beside onnxruntime's own: the same answers to the same calls."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright import models  # noqa: E402
from tilewright.core import DatabaseError, TilewrightError  # noqa: E402
from tilewright.models import InferenceSession  # noqa: E402
from tilewright.models.extract import extract  # noqa: E402
from tilewright.models.inference_session import NETWORKS  # noqa: E402

helper = onnx.helper
FLOAT, INT64, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING
ROWS = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)


def saved(
    path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: Any = (), opset: int = 17
) -> str:
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, producer_name="tests"
    )
    model.model_version = 3
    helper.set_model_props(model, {"classes": "a,b"})
    onnx.save(model, str(path))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sessions")
    made.chmod(0o700)
    return made


@pytest.fixture(scope="module")
def classifier(folder: Path) -> str:
    """A product, its classes and how many there are: rows are open, and one output is whole numbers."""
    w = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["class"], axis=1, keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info("x", FLOAT, ["rows", 8])]
    outputs = [helper.make_tensor_value_info(n, k, None) for n, k in (("y", FLOAT), ("class", INT64))]
    return saved(folder / "classifier.onnx", nodes, inputs, outputs, [onnx.numpy_helper.from_array(w, "w")])


@pytest.fixture(scope="module")
def db(folder: Path, classifier: str) -> str:
    """Kernels for two rows."""
    default_kernels([t.workload for t in extract(classifier, {"rows": 2}).tasks], folder / "two.db")
    return str(folder / "two.db")


def test_a_session_describes_its_model_as_onnxruntimes_does(classifier: str) -> None:
    ours, theirs = InferenceSession(classifier), onnxruntime.InferenceSession(classifier)
    for mine, other in zip(
        ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs(), strict=True
    ):
        assert (mine.name, mine.type, mine.shape) == (other.name, other.type, other.shape)
        assert str(mine) == str(other)
    assert ours.get_providers() == ["TilewrightExecutionProvider", *theirs.get_providers()]
    for name in ("producer_name", "graph_name", "domain", "version", "custom_metadata_map"):
        assert getattr(ours.get_modelmeta(), name) == getattr(theirs.get_modelmeta(), name)


def test_tuned_sizes_run_by_kernels_and_other_sizes_by_onnxruntime(classifier: str, db: str) -> None:
    ours, theirs = InferenceSession(classifier, db=db, compare=False), onnxruntime.InferenceSession(classifier)
    for rows in (2, 3, 2):
        for names in (None, [], ["class"], ["class", "y", "class"]):
            feed = {"x": ROWS[:rows]}
            for mine, other in zip(ours.run(names, feed), theirs.run(names, feed), strict=True):
                assert mine.dtype == other.dtype
                np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
    assert [n for n in ours.network({"x": (2, 8)}).served if n.startswith("matmul_relu")]
    assert ours.network({"x": (3, 8)}).served == {}


def test_a_size_builds_its_network_once_and_the_oldest_ones_go(classifier: str) -> None:
    session = InferenceSession(classifier)
    first = session.network({"x": (1, 8)})
    rows = [ROWS[:1]] * 2 + [np.resize(ROWS, (n, 8)) for n in range(2, NETWORKS + 1)]
    for x in rows:
        assert session.run(["y"], {"x": x})[0].shape == (len(x), 4)
    assert session.network({"x": (1, 8)}) is first
    session.run(None, {"x": np.resize(ROWS, (NETWORKS + 1, 8))})
    assert session.network({"x": (1, 8)}) is first  # used after (2, 8), which went
    second = session.network({"x": (2, 8)})
    assert second is session.network({"x": (2, 8)})


def test_threads_share_a_session(classifier: str, db: str) -> None:
    session = InferenceSession(classifier, db=db, compare=False)
    wanted = session.run(["y"], {"x": ROWS[:2]})[0]
    wrong = []

    def call() -> None:
        for _ in range(20):
            if not np.array_equal(session.run(["y"], {"x": ROWS[:2]})[0], wanted):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_inputs_may_be_lists_values_of_onnxruntime_or_strided_arrays(classifier: str) -> None:
    session = InferenceSession(classifier)
    wanted = session.run(["y"], {"x": ROWS})[0]
    turned = np.asfortranarray(ROWS)
    for x in (ROWS.tolist(), models.OrtValue.ortvalue_from_numpy(ROWS), turned, ROWS.astype(">f4")):
        assert np.array_equal(session.run(["y"], {"x": x})[0], wanted)
    (value,) = session.run_with_ort_values(["y"], {"x": models.OrtValue.ortvalue_from_numpy(ROWS)})
    assert np.array_equal(value.numpy(), wanted)
    assert session.run(["y"], {"x": ROWS[:0]})[0].shape == (0, 4)


@pytest.mark.parametrize("rows", [5, "rows"])
def test_onnxruntime_alone_is_given_arrays_as_they_are_and_others_are_converted_or_said(
    folder: Path, rows: int | str
) -> None:
    made = [helper.make_tensor_value_info(n, FLOAT, [rows, 8]) for n in ("x", "y")]
    file = saved(folder / f"{rows}.onnx", [helper.make_node("Relu", ["x"], ["y"])], made[:1], made[1:])
    session, seen = InferenceSession(file), []
    computed = session.computed
    session.computed = lambda feed: (seen.append(feed), computed(feed))[1]  # type: ignore[method-assign]
    assert session.network({"x": (5, 8)}).form == "onnxruntime alone"
    assert np.array_equal(session.run(None, {"x": ROWS})[0], np.maximum(ROWS, 0))
    assert not seen
    for x in (ROWS.astype(">f4"), ROWS.tolist(), models.OrtValue.ortvalue_from_numpy(ROWS)):
        assert np.array_equal(session.run(["y"], {"x": x})[0], np.maximum(ROWS, 0))
    for names, feed, said in ((None, {}, "missing from input feed"), (["z"], {"x": ROWS}, "Invalid output name: z")):
        with pytest.raises(TilewrightError, match=said):
            session.run(names, feed)
    assert len(seen) == 4, "an output that is unknown is said first"


def test_a_model_given_as_bytes_with_options_runs(classifier: str) -> None:
    options = models.SessionOptions()
    options.intra_op_num_threads = 2
    session = InferenceSession(Path(classifier).read_bytes(), options, ["CPUExecutionProvider"])
    assert session.get_session_options() is options
    assert session.network({"x": (5, 8)}).threads == 2
    assert session.run(["y"], {"x": ROWS})[0].shape == (5, 4)


def test_a_negative_size_in_a_file_is_an_open_axis_as_onnxruntime_has_it(folder: Path) -> None:
    made = [helper.make_tensor_value_info(n, FLOAT, [-1, 8]) for n in ("x", "y")]
    file = saved(folder / "negative.onnx", [helper.make_node("Relu", ["x"], ["y"])], made[:1], made[1:])
    ours, theirs = InferenceSession(file), onnxruntime.InferenceSession(file)
    assert ours.get_inputs()[0].shape == theirs.get_inputs()[0].shape == [None, 8]
    assert ours.get_outputs()[0].shape == theirs.get_outputs()[0].shape
    assert np.array_equal(ours.run(None, {"x": ROWS})[0], np.maximum(ROWS, 0))


def test_texts_go_in_and_come_out(folder: Path) -> None:
    made = [helper.make_tensor_value_info(n, STRING, ["n"]) for n in ("x", "y")]
    file = saved(folder / "texts.onnx", [helper.make_node("Identity", ["x"], ["y"])], made[:1], made[1:])
    ours, theirs = InferenceSession(file), onnxruntime.InferenceSession(file)
    for session in (ours, theirs):
        assert session.run(None, {"x": np.array(["a", "bc"], object)})[0].tolist() == ["a", "bc"]
    assert ours.get_inputs()[0].type == theirs.get_inputs()[0].type == "tensor(string)"


@pytest.mark.parametrize(
    "kind", ["BFLOAT16", "BOOL", "DOUBLE", "FLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ", "INT8"]
)
def test_element_types_have_onnxruntimes_names(folder: Path, kind: str) -> None:
    made = [helper.make_tensor_value_info(n, onnx.TensorProto.DataType.Value(kind), ["n", None, 2]) for n in ("x", "y")]
    file = saved(folder / f"{kind}.onnx", [helper.make_node("Identity", ["x"], ["y"])], made[:1], made[1:], opset=19)
    ours, theirs = InferenceSession(file), onnxruntime.InferenceSession(file)
    for mine, other in ((ours.get_inputs(), theirs.get_inputs()), (ours.get_outputs(), theirs.get_outputs())):
        assert [(v.name, v.type, v.shape) for v in mine] == [(v.name, v.type, v.shape) for v in other]


@pytest.mark.parametrize(
    ("names", "feed", "said"),
    [
        (["z"], {"x": ROWS}, "Invalid output name: z"),
        ("y", {"x": ROWS}, "the output names are the text 'y'"),
        (None, {}, "Required inputs (['x']) are missing from input feed ([])"),
        (None, {"x": ROWS, "q": ROWS}, "Invalid input name: q"),
        (None, {"x": ROWS[0]}, "Invalid rank for input: x Got: 1 Expected: 2"),
        (None, {"x": ROWS[:, :3]}, "Got invalid dimensions for input: x for the following indices index: 1 Got: 3 Expected: 8"),
        (None, {"x": ROWS.astype(np.float64)}, "Actual: (tensor(double)), expected: (tensor(float))"),
        (None, {"x": 1.0}, "the input x is a float"),
        (None, {"x": [[1.0], [1.0, 2.0]]}, "the input x is not an array"),
        (None, [ROWS], "the input feed is a list"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_named_in_one_line(classifier: str, names: Any, feed: Any, said: str) -> None:
    session = InferenceSession(classifier)
    with pytest.raises(TilewrightError) as error:
        session.run(names, feed)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_models_providers_and_databases_that_cannot_be_used_are_refused(classifier: str, folder: Path) -> None:
    with pytest.raises(TilewrightError, match="there is no file"):
        InferenceSession(folder / "none.onnx")
    with pytest.raises(TilewrightError, match="not a valid ONNX model"):
        InferenceSession(b"broken")
    made = [helper.make_tensor_value_info(n, FLOAT, ["n"]) for n in ("x", "y")]
    made[0].type.tensor_type.elem_type = 0
    with pytest.raises(TilewrightError, match="the input x has no element type"):
        InferenceSession(saved(folder / "untyped.onnx", [helper.make_node("Relu", ["x"], ["y"])], made[:1], made[1:]))
    made[0] = helper.make_tensor_sequence_value_info("x", FLOAT, ["n"])
    with pytest.raises(TilewrightError, match="the input x is not a tensor"):
        InferenceSession(saved(folder / "list.onnx", [helper.make_node("Relu", ["x"], ["y"])], made[:1], made[1:]))
    with pytest.raises(TilewrightError, match="index: 1 Got: 9 Expected: 8"):
        InferenceSession(classifier).network({"x": (2, 9)})
    with pytest.raises(TilewrightError, match="the session runs on the CPU"):
        InferenceSession(classifier, providers=[("CUDAExecutionProvider", {})])
    with pytest.raises(DatabaseError):
        InferenceSession(classifier, db=folder / "none.db", compare=False).run(None, {"x": ROWS})


# --------------------------------------------------------------------------- IO binding


def test_bound_memory_is_read_and_written(classifier: str, db: str) -> None:
    x = ROWS[:2].copy()
    for session in (InferenceSession(classifier, db=db, compare=False), onnxruntime.InferenceSession(classifier)):
        y, places = np.zeros((2, 4), np.float32), np.zeros(2, np.int64)
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("class", "cpu", 0, np.int64, (2,), places.ctypes.data)
        binding.bind_ortvalue_output("y", models.OrtValue.ortvalue_from_numpy(y))
        session.run_with_iobinding(binding)
        wanted = onnxruntime.InferenceSession(classifier).run(["class", "y"], {"x": x})
        assert places.tolist() == wanted[0].tolist()
        np.testing.assert_allclose(y, wanted[1], rtol=1e-5, atol=1e-6)
        assert [v.numpy().shape for v in binding.get_outputs()] == [(2,), (2, 4)]
        copied = binding.copy_outputs_to_cpu()
        x[:] = ROWS[3:]
        session.run_with_iobinding(binding)
        assert not np.array_equal(copied[1], y)  # the input's new values, and the copy apart
        x[:] = ROWS[:2]


def test_outputs_without_memory_come_as_new_values_of_each_size(classifier: str) -> None:
    session = InferenceSession(classifier)
    binding = session.io_binding()
    binding.bind_output("y")
    for rows in (2, 5):
        value = models.OrtValue.ortvalue_from_numpy(ROWS[:rows])
        binding.bind_ortvalue_input("x", value)
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].shape() == [rows, 4]
    binding.bind_input("x", "cpu", 0, onnx.TensorProto.FLOAT, (1, 8), ROWS.ctypes.data)
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].shape == (1, 4)
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []


def test_bindings_that_do_not_fit_are_refused(classifier: str) -> None:
    session = InferenceSession(classifier)
    binding = session.io_binding()
    binding.bind_cpu_input("x", ROWS)
    calls: list[tuple[Any, str]] = [
        (lambda: session.run_with_iobinding(binding), "At least one output should be requested"),
        (lambda: binding.bind_cpu_input("q", ROWS), "Invalid input name: q"),
        (lambda: binding.bind_output("q"), "Invalid output name: q"),
        (lambda: binding.bind_output("y", "cuda"), "'cuda' is another device"),
        (lambda: binding.bind_output("y", buffer_ptr=1), "no element_type or no shape"),
        (lambda: session.run_with_iobinding(InferenceSession(classifier).io_binding()), "another session's"),
    ]
    for call, said in calls:
        with pytest.raises(TilewrightError) as error:
            call()
        assert said in str(error.value)
    for shape, dtype, said in (((4, 4), np.float32, "has shape (4, 4)"), ((5, 4), np.float64, "is of float64")):
        binding.bind_ortvalue_output("y", models.OrtValue.ortvalue_from_numpy(np.zeros(shape, dtype)))
        with pytest.raises(TilewrightError) as error:
            session.run_with_iobinding(binding)
        assert said in str(error.value)

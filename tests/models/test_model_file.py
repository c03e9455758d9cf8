"""Sound models are read, whatever their types, sizes and operator sets; what is not is said in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tilewright.core import UsageError  # noqa: E402
from tilewright.models import folding, isolated, model_file  # noqa: E402
from tilewright.models.extract import Extracted, extract, extracted  # noqa: E402
from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared, read_model  # noqa: E402
from tilewright.models.network import Network  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402
from tilewright.runtime import Library  # noqa: E402

helper = onnx.helper
value, node = helper.make_tensor_value_info, helper.make_node


def model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], opset: int = 17, domain: str = "", **constants: Any
) -> Any:
    tensors = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors), opset_imports=imports, ir_version=8
    )


def read(made: Any, **sizes: int) -> Extracted:
    return extracted(Importer(prepared(made, sizes)).run())


def untuned(found: Extracted, folder: Path, **inputs: Any) -> dict[str, Any]:
    """The outputs, all by onnxruntime, in parts as they are cut."""
    with Library(folder / "none.db", threads=1, missing_ok=True, count_misses=False) as library:
        return Network(found, library).run(inputs)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint32", "uint64", "int8", "float64", "bool"])
def test_inputs_and_constant_outputs_may_have_any_type(tmp_path: Path, dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = model(
        [node("Relu", ["x"], ["y"]), node("Identity", ["u"], ["v"])],
        [value("x", 1, [2]), value("u", kind, [2])],
        [value("y", 1, [2]), value("k", kind, [2]), value("v", kind, [2])],
        k=np.array([1, 2], dtype),
    )
    u = np.array([1, 0], dtype)
    got = untuned(read(made), tmp_path, x=np.array([-1, 1], np.float32), u=u)
    np.testing.assert_array_equal(got["k"], np.array([1, 2], dtype))
    np.testing.assert_array_equal(got["v"], u)
    assert (got["k"].dtype, got["v"].dtype, got["y"].tolist()) == (np.dtype(dtype), np.dtype(dtype), [0, 1])


def test_texts_go_to_onnxruntime(tmp_path: Path) -> None:
    made = model(
        [node("Equal", ["s", "k"], ["y"])], [value("s", 8, [2])], [value("y", 9, [2])], 19, k=np.array(["b"], object)
    )
    assert untuned(read(made), tmp_path, s=np.array(["a", "b"], object))["y"].tolist() == [False, True]


def test_outputs_need_no_shape_and_no_type(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    untyped = helper.make_empty_tensor_value_info("z")
    nodes = [node("Relu", ["x"], ["y"]), node("Exp", ["y"], ["z"])]
    onnx.save(model(nodes, [value("x", 1, [2, 3])], [value("y", 1, None), untyped]), str(file))
    graph = extract(file).imported.graph
    assert [(graph.values[n].shape, graph.values[n].dtype) for n in "yz"] == [((2, 3), "float32")] * 2


@pytest.mark.parametrize(("size", "given"), [(0, {}), (0, {"past.0": 0}), ("n", {"n": 0})])
def test_an_axis_may_have_no_elements(tmp_path: Path, size: Any, given: dict[str, int]) -> None:
    nodes = [node("Concat", ["past", "x"], ["c"], axis=0), node("Relu", ["c"], ["y"])]
    made = model(nodes, [value("x", 1, [2, 3]), value("past", 1, [size, 3])], [value("y", 1, None)])
    got = untuned(read(made, **given), tmp_path, x=-np.ones((2, 3), np.float32), past=np.zeros((0, 3), np.float32))
    assert got["y"].tolist() == [[0, 0, 0]] * 2


def test_an_axis_without_a_size_is_said_with_what_to_write() -> None:
    made = model([node("Relu", ["x"], ["y"])], [value("x", 1, [-1, 4])], [value("y", 1, None)])
    with pytest.raises(UsageError, match="axis 0 of the input x has no fixed size") as said:
        read(made)
    assert "x.0=1" in said.value.hint
    made = model([node("Relu", ["x"], ["y"])], [value("x", 1, ["n", 4, -1, "n"])], [value("y", 1, None)])
    with pytest.raises(UsageError, match="axis 0 of the input x and 1 other axis have no fixed size") as said:
        read(made)
    assert said.value.hint == "Write n=1 x.2=1 after the model, with your sizes; n=1..8 keeps a range"


def test_axes_that_share_a_name_may_be_given_by_place() -> None:
    made = model([node("Relu", ["x"], ["y"])], [value("x", 1, ["n", "?", "?"])], [value("y", 1, None)])
    shapes = [{"n": 2, "?": 3}, {"n": 2, "?": 3, "x.2": 5}, {"x.0": 2, "x.1": 4, "x.2": 5}]
    assert [read(made, **s).imported.graph.values["y"].shape for s in shapes] == [(2, 3, 3), (2, 3, 5), (2, 4, 5)]
    with pytest.raises(UsageError, match="no axis called 'x\\.3'"):
        read(made, **{"n": 1, "?": 1, "x.3": 1})


def large(folder: Path, name: str = "w.bin") -> Path:
    """A product with 2.3 GB of zeros, in a file that holds none of them."""
    n = 24000
    (folder / "w.bin").touch()
    os.truncate(folder / "w.bin", n * n * 4)
    weight = onnx.TensorProto(name="w", data_type=1, dims=[n, n], data_location=onnx.TensorProto.EXTERNAL)
    for key, text in (("location", name), ("length", str(n * n * 4))):
        weight.external_data.add(key=key, value=text)
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["y"])], "g", [value("x", 1, [1, n])], [value("y", 1, [1, n])], [weight]
    )
    file = folder / "large.onnx"
    file.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return file


def test_weights_of_more_than_two_gibibytes_stay_in_their_file(tmp_path: Path) -> None:
    found = extract(large(tmp_path))
    (task,) = found.tasks
    assert [s.shape for s in task.workload.inputs] == [(1, 24000), (24000, 24000)]
    weight: Any = found.imported.folded["w"]
    while not isinstance(weight, np.memmap):
        weight = weight.base
    assert weight.nbytes == 24000**2 * 4


@pytest.mark.parametrize(
    ("name", "said"), [("../w.bin", "outside of the model's folder"), ("none.bin", "No such file")]
)
def test_weights_that_cannot_be_read_are_said(tmp_path: Path, name: str, said: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(UsageError, match=said):
        extract(large(inner, name))


def test_no_memory_is_taken_for_what_a_file_claims(tmp_path: Path) -> None:
    nodes = [
        node("ConstantOfShape", ["s"], ["big"]),
        node("Gather", ["big", "i"], ["r"]),
        node("Add", ["x", "r"], ["y"]),
    ]
    made = model(nodes, [value("x", 1, [1])], [value("y", 1, None)], s=np.array([1 << 40]), i=np.array([0]))
    found = read(made)
    assert "big" not in found.imported.folded
    assert found.imported.graph.values["big"].shape == (1 << 40,)


def sums(nodes: list[Any], names: list[str], **constants: Any) -> Any:
    """A model that adds values to its input, however they are made."""
    ends = [node("ReduceSum", [n], [f"sum {n}"], keepdims=0) for n in names]
    added = node("Sum", ["x", *(f"sum {n}" for n in names)], ["y"])
    return model([*nodes, *ends, added], [value("x", 1, [1])], [value("y", 1, None)], **constants)


def test_constants_beyond_a_models_memory_are_computed_when_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(folding, "FREE", 100_000)
    nodes = [node("ConstantOfShape", ["s"], [f"c{n}"]) for n in range(8)]
    made = sums(nodes, [f"c{n}" for n in range(8)], s=np.array([10_000]))
    found = read(made)
    folded = [n for n in found.imported.folded if n.startswith("c")]
    assert 0 < len(folded) < 8
    assert sum(found.imported.folded[n].nbytes for n in folded) <= 100_000 + 4 * 8
    assert untuned(found, tmp_path, x=np.ones(1, np.float32))["y"].tolist() == [1]
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == [
        "constants that the model computes from its own take more than 0 MiB or 30 s"
    ]


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_constants_beyond_a_models_time_are_computed_when_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(folding, "SECONDS", seconds)
    found = read(sums([node("ConstantOfShape", ["s"], ["c"])], ["c"], s=np.array([10])))
    assert "c" not in found.imported.folded
    assert untuned(found, tmp_path, x=np.ones(1, np.float32))["y"].tolist() == [1]


def products() -> Any:
    """Constants in bfloat16 and float32 that a child computes, and ``large``, of 36 MB."""
    nodes = [
        node("MatMul", ["a", "a"], ["b"]), node("Cast", ["b"], ["narrow"], to=16),
        node("MatMul", ["column", "row"], ["large"]),
        node("MatMul", ["narrow", "narrow"], ["c"]), node("Cast", ["c"], ["d"], to=1),
    ]  # fmt: skip
    a = np.arange(400, dtype=np.float32).reshape(20, 20)
    column = np.ones((3000, 1), np.float32)
    return sums(nodes, ["b", "large", "d"], a=a, column=column, row=column.T)


def test_constants_whose_operators_may_take_any_time_are_computed_in_a_child() -> None:
    imported = Importer(prepared(products())).run()
    a = imported.folded["a"]
    np.testing.assert_array_equal(imported.folded["b"], a @ a)
    assert imported.folded["narrow"].dtype.name == imported.folded["c"].dtype.name == "bfloat16"
    np.testing.assert_allclose(imported.folded["d"], (a @ a) @ (a @ a), rtol=0.03)
    assert imported.folded["large"].all()


def test_a_child_that_lacks_memory_for_a_constant_computes_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "MEMORY", 24 << 20)
    imported = Importer(prepared(products())).run()
    assert {"b", "c", "d"} <= set(imported.folded)
    assert "large" not in imported.folded


def test_a_child_that_takes_too_long_for_a_constant_is_ended() -> None:
    with isolated.IsolatedRuntime() as child:
        assert child.run(products(), {}, 0.0) is None
        assert child._child is None


def test_texts_of_any_length_are_not_multiplied() -> None:
    nodes = [node("Concat", [f"t{n}"] * 2, [f"t{n + 1}"], axis=0) for n in range(40)]
    nodes += [node("Tile", ["long", "s"], ["many"]), node("StringConcat", ["t1", "t1"], ["u"])]
    nodes += [node("Equal", [n, n], [f"e {n}"]) for n in ("t40", "many", "u")]
    nodes += [node("Cast", [f"e {n}"], [f"f {n}"], to=1) for n in ("t40", "many", "u")]
    made = sums(
        nodes, ["f t40", "f many", "f u"], t0=np.array(["a"], object), long=np.array(["b" * 5000], object),
        s=np.array([1000]),
    )  # fmt: skip
    made.opset_import[0].version = 20
    folded = read(made).imported.folded
    assert folded["t1"].tolist() == ["a", "a"]
    assert not {"t40", "many"} & set(folded)


def test_a_sparse_weight_has_a_largest_size() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], [value("x", 1, [1])], [value("y", 1, None)])
    values = onnx.numpy_helper.from_array(np.array([5.0], np.float32), "w")
    indices = onnx.numpy_helper.from_array(np.array([1]), "w_indices")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [1 << 40]))
    with pytest.raises(UsageError, match="sparse weight w has 4194304 MiB with its zeros, more than the 256 MiB") as e:
        read(made)
    assert "dense" in e.value.hint


def functions(folder: Path, count: int, last: str) -> Path:
    """A model of a function that calls another one twice, and so on; ``last`` is what the last one calls."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]

    def function(name: str, inner: str) -> Any:
        domain = "" if inner == "Relu" else "f"
        nodes = [node(inner, ["a"], ["m"], domain=domain), node(inner, ["m"], ["b"], domain=domain)]
        return helper.make_function("f", name, ["a"], ["b"], nodes, opsets)

    made = model([node("f0", ["x"], ["y"], domain="f")], [value("x", 1, [1])], [value("y", 1, None)], domain="f")
    made.functions.extend(function(f"f{n}", f"f{n + 1}" if n + 1 < count else last) for n in range(count))
    file = folder / "functions.onnx"
    file.write_bytes(made.SerializeToString())
    return file


def test_functions_stand_for_a_bounded_number_of_operators(tmp_path: Path) -> None:
    assert len(read_model(functions(tmp_path, 3, "Relu")).proto.graph.node) == 8
    for count, last in ((30, "Relu"), (3, "f0"), (1, "f0")):
        with pytest.raises(UsageError, match="not a valid ONNX model"):
            read_model(functions(tmp_path, count, last))
    with pytest.raises(UsageError, match=r"its functions stand for 1\.07e\+09 operators, and 1,000,000 are the most"):
        read_model(functions(tmp_path, 30, "Relu"))


def test_constants_of_nodes_in_other_files_have_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.bin").write_bytes(np.arange(10, dtype=np.float32).tobytes())
    constant = onnx.TensorProto(name="c", data_type=1, dims=[10], data_location=onnx.TensorProto.EXTERNAL)
    constant.external_data.add(key="location", value="c.bin")
    made = model([node("Constant", [], ["c"], value=constant), node("Add", ["x", "c"], ["y"])], [value("x", 1, [1])],
                 [value("y", 1, None)])  # fmt: skip
    file = tmp_path / "m.onnx"
    file.write_bytes(made.SerializeToString())
    assert extract(file).imported.folded["c"].tolist() == list(range(10))
    monkeypatch.setattr(model_file, "BESIDE", 39)
    with pytest.raises(UsageError, match="constants of its nodes take more than 0 MiB of other files"):
        read_model(file)


def test_what_follows_from_constants_and_shapes_is_known() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Mul", ["n", "two"], ["m"]),
        node("Unsqueeze", ["m", "zero"], ["u"]), node("Concat", ["u", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["y"]),
    ]  # fmt: skip
    made = model(
        nodes, [value("x", 1, [2, 4])], [value("y", 1, None)],
        one=np.array(1), two=np.array(2), zero=np.array([0]), rest=np.array([-1]),
    )  # fmt: skip
    found = read(made)
    assert found.imported.folded["to"].tolist() == [8, -1]
    assert found.imported.graph.values["y"].shape == (8, 1)


@pytest.mark.parametrize(("operator", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)])
def test_old_resizes_mean_what_they_meant(tmp_path: Path, operator: str, opset: int) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    scales = [1.0, 1.0, 2.0, 1.5]
    old = opset == 7
    constants: Any = {} if old else {"s": np.array(scales, np.float32)}
    made = model(
        [node(operator, ["x"] if old else ["x", "s"], ["y"], mode="linear", **({"scales": scales} if old else {}))],
        [value("x", 1, x.shape)], [value("y", 1, ["a", "b", "c", "d"])], opset,
        **constants,
    )  # fmt: skip
    got = untuned(read(made), tmp_path, x=x)["y"]
    np.testing.assert_array_equal(got[0, 0, :3, 0], [0, 2, 4])  # the rows in between halve the way: asymmetric
    np.testing.assert_array_equal(got, Session(made).run({"x": x})["y"])


def contributed(known: bool) -> Any:
    """Operators of onnxruntime's own around some that kernels may compute."""
    nodes = [
        node("Gelu", ["x"], ["a"], domain="com.microsoft"), node("Round", ["x"], ["d"]), node("Relu", ["d"], ["r"]),
        node("ReduceSum", ["r", "axes"], ["b"], keepdims=0), node("BiasGelu", ["a", "b"], ["y"], domain="com.microsoft"),
    ]  # fmt: skip
    made = model(nodes, [value("x", 1, [2, 4])], [value("y", 1, [2, 4])], 17, "com.microsoft", axes=np.array([0]))
    if known:
        made.graph.value_info.append(value("a", 1, [2, 4]))
    return made


@pytest.mark.parametrize("known", [False, True])
def test_types_of_operators_that_onnx_lacks_are_known(known: bool) -> None:
    found = read(contributed(known))
    assert found.imported.unshaped == frozenset()
    assert found.imported.graph.values["a"].shape == (2, 4)


def test_a_value_that_only_the_file_types_is_as_stated() -> None:
    made = model(
        [node("Strange", ["x"], ["a"], domain="other"), node("Relu", ["a"], ["y"])],
        [value("x", 1, ["n", 4])], [value("y", 1, None)], 17, "other",
    )  # fmt: skip
    assert "a" in read(made, n=3).imported.unshaped
    made.graph.value_info.append(value("a", 1, ["n", 4]))
    assert read(made, n=3).imported.graph.values["y"].shape == (3, 4)


def test_a_sparse_weight_has_its_zeros() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], [value("x", 1, [2, 3])], [value("y", 1, None)])
    values = onnx.numpy_helper.from_array(np.array([5.0, 7.0], np.float32), "w")
    indices = onnx.numpy_helper.from_array(np.array([1, 5]), "w_indices")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    assert read(made).imported.folded["w"].tolist() == [[0, 5, 0], [0, 0, 7]]


def test_an_operator_set_that_is_too_new_is_said(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(
        model([node("Relu", ["x"], ["y"])], [value("x", 1, [2])], [value("y", 1, [2])], 99).SerializeToString()
    )
    with pytest.raises(UsageError, match="99"):
        read_model(file)


def test_weights_of_branches_are_read_from_their_file(tmp_path: Path) -> None:
    def branch(operator: str) -> Any:
        weight = onnx.numpy_helper.from_array(np.full(2000, 3, np.float32), f"w{operator}")
        return helper.make_graph(
            [node(operator, ["x", weight.name], ["o"])],
            operator,
            [],
            [helper.make_empty_tensor_value_info("o")],
            [weight],
        )

    nodes = [node("If", ["c"], ["z"], then_branch=branch("Mul"), else_branch=branch("Add")), node("Relu", ["z"], ["y"])]
    made = model(nodes, [value("x", 1, [2000]), value("c", 9, [])], [value("y", 1, None)])
    file = tmp_path / "branches.onnx"
    onnx.save(made, str(file), save_as_external_data=True, size_threshold=100)
    assert (tmp_path / "branches.onnx").stat().st_size < 4000
    found = extract(file)
    x = np.arange(2000, dtype=np.float32)
    for c, want in ((True, x * 3), (False, x + 3)):
        np.testing.assert_array_equal(untuned(found, tmp_path, x=x, c=np.array(c))["y"], want)


def test_results_that_nothing_reads_leave_no_operator_to_onnxruntime(tmp_path: Path) -> None:
    nodes = [
        node("Dropout", ["x"], ["d", "mask"]), node("MaxPool", ["d"], ["p", "at"], kernel_shape=[2]),
        node("Sum", ["p", "p", "p"], ["y"]),
    ]  # fmt: skip
    made = model(nodes, [value("x", 1, [1, 2, 6])], [value("y", 1, None)], 9)
    assert read(made).imported.left == {}
    made.graph.output.append(value("at", 7, None))
    assert read(made).imported.left == {}
    made.graph.node[1].attribute.append(onnx.helper.make_attribute("pads", [0, 1]))
    assert read(made).imported.left == {"MaxPool": "it gives positions and pads unevenly"}


def test_onnxruntime_knows_the_sizes_that_names_stand_for() -> None:
    made = model([node("Relu", ["x"], ["y"])], [value("x", 1, ["n", "?", "?"])], [value("y", 1, ["n", "?", "?"])])
    found = prepared(made, {"n": 2, "x.1": 3, "x.2": 4})
    assert found.named_sizes == {"n": 2}
    shape = Session.of_file(found).types()["y"].type.tensor_type.shape
    assert shape.dim[0].dim_value == 2
    assert Session.of_file(found).run({"x": np.ones((2, 3, 4), np.float32)})["y"].shape == (2, 3, 4)

"""Whole numbers of ONNX models wrap around, as onnxruntime's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.models import InferenceSession  # noqa: E402
from tilewright.models.extract import extract  # noqa: E402

NODE = onnx.helper.make_node


def arithmetic(dtype: Any) -> Any:
    """Sums, products and negatives whose sign and quotient depend on what wrapped."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = onnx.helper.make_tensor_value_info
    nodes = [
        NODE("Add", ["x", "y"], ["a"]), NODE("Mul", ["a", "x"], ["b"]), NODE("Sub", ["b", "y"], ["c"]),
        NODE("Neg", ["c"], ["d"]), NODE("Abs", ["d"], ["e"]), NODE("Add", ["e", "b"], ["f"]),
        NODE("Less", ["f", "zero"], ["less"]), NODE("Div", ["f", "seven"], ["y1"]), NODE("Where", ["less", "a", "y1"], ["z"]),
    ]  # fmt: skip
    constants = [onnx.numpy_helper.from_array(np.array(n, dtype), name) for n, name in ((0, "zero"), (7, "seven"))]
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", kind, [5, 33]), value("y", kind, [5, 33])], [value("z", kind, [5, 33])], constants
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_arithmetic_beyond_the_type_is_onnxruntimes(dtype: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    path = tmp_path / "m.onnx"
    onnx.save(arithmetic(dtype), str(path))
    found = extract(path)
    assert found.imported.left == {}
    default_kernels([t.workload for t in found.tasks], tmp_path / "t.db")
    random, ends = np.random.default_rng(0), np.iinfo(dtype)
    inputs = {n: random.integers(ends.min, ends.max, (5, 33), dtype, endpoint=True) for n in "xy"}
    ours = InferenceSession(path, db=tmp_path / "t.db", compare=False)
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert not ours.network({n: a.shape for n, a in inputs.items()}).left
    np.testing.assert_array_equal(ours.run(None, inputs)[0], theirs.run(None, inputs)[0])

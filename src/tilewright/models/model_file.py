"""Reading ONNX files: dynamic sizes given, shapes inferred, whatever is wrong said in one line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core import UsageError
from tilewright.errors import nearest

OPSETS = (13, 28)
"""Versions of ONNX's operator set that are read; older models are converted to the first."""


def onnx_module() -> Any:
    """The package ``onnx``. Raises ``UsageError`` where it is not installed."""
    try:
        import onnx
        import onnx.reference
        import onnx.shape_inference
        import onnx.version_converter
    except ImportError as e:
        raise UsageError(f"models need the package onnx ({e})", "pip install 'tilewright[onnx]'") from e
    return onnx


def read_model(path: str | os.PathLike[str], sizes: Mapping[str, int] | None = None) -> Any:
    """The ``ModelProto`` in a file, its inputs' shapes fixed and all shapes inferred that follow.

    ``sizes``: of dynamic axes, by name. Raises ``UsageError`` for a file that is missing or damaged, another operator
    set, an axis without a size, and a size that no axis has.
    """
    onnx = onnx_module()
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"there is no file {file}", "Name an ONNX model")
    try:
        model = onnx.load(str(file))
        onnx.checker.check_model(model)
    except OSError as e:
        raise UsageError(f"cannot read {file}: {e.strerror or e}", "Name an ONNX model with its data beside it") from e
    except Exception as e:  # protobuf's and the checker's errors have no common class
        line = next((x for x in str(e).splitlines() if x.strip()), type(e).__name__)
        raise UsageError(f"{file} is no sound ONNX model: {line:.200}", "Export it again") from e
    return prepared(model, sizes, str(file))


def prepared(model: Any, sizes: Mapping[str, int] | None = None, file: str = "the model") -> Any:
    """A sound ``ModelProto`` with its sizes fixed and shapes inferred, as :func:`read_model` gives it."""
    onnx = onnx_module()
    model = _converted(onnx, model, file)
    _fix_sizes(model, dict(sizes or {}), file)
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as e:
        raise UsageError(
            f"{file}: shapes do not fit together: {e!s:.200}", "Give other sizes, or export it again"
        ) from e


def _converted(onnx: Any, model: Any, file: str) -> Any:
    version = next((s.version for s in model.opset_import if s.domain in ("", "ai.onnx")), 0)
    low, high = OPSETS
    if version > high:
        raise UsageError(f"{file} uses operator set {version}", f"Export it with {low} to {high}")
    if version >= low or version == 0:
        return model
    try:
        return onnx.version_converter.convert_version(model, low)
    except Exception as e:
        raise UsageError(
            f"{file} uses operator set {version}, which cannot be converted", f"Export it with {low} to {high}"
        ) from e


def _fix_sizes(model: Any, sizes: dict[str, int], file: str) -> None:
    initialized = {t.name for t in model.graph.initializer}
    named: set[str] = set()
    for value in model.graph.input:
        if value.name in initialized or not value.type.HasField("tensor_type"):
            continue
        if not value.type.tensor_type.HasField("shape"):
            raise UsageError(f"{file}: the input {value.name} has no shape", "Export the model with one")
        for place, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            name = dim.dim_param or f"{value.name}.{place}"
            named.add(name)
            if name not in sizes:
                raise UsageError(
                    f"{file}: axis {place} of the input {value.name} has no fixed size",
                    f"Write --size {name}=1, or what it is",
                )
            if sizes[name] < 1:
                raise UsageError(f"the size of {name} is {sizes[name]}", "Sizes are at least 1")
            dim.dim_value = sizes[name]
    strange = next((n for n in sizes if n not in named), None)
    if strange is not None:
        known = f"It has {', '.join(sorted(named))}" if named else "All its sizes are fixed"
        raise UsageError(f"{file} has no axis called {strange!r}", f"{nearest(strange, named)}{known}")
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")

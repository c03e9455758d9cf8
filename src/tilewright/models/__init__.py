"""Whole models: read from ONNX, cut into tasks to tune, and run with tuned kernels.

``InferenceSession`` has onnxruntime's interface. The remaining names of that interface (``SessionOptions``,
``OrtValue``, ...) are onnxruntime's own classes, so that a program changes one line: ``import tilewright.models as
ort``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.models.inference_session import InferenceSession as InferenceSession
    from tilewright.models.inference_session import NodeArg as NodeArg
    from tilewright.models.io_binding import IOBinding as IOBinding

ORT = ("ExecutionMode", "GraphOptimizationLevel", "OrtValue", "RunOptions", "SessionOptions")
"""Names that are taken from onnxruntime."""

__all__ = ["IOBinding", "InferenceSession", "NodeArg"]


def __getattr__(name: str) -> Any:
    if name in ORT:
        from tilewright.models.sessions import runtime

        return getattr(runtime(), name)
    if name == "IOBinding":
        from tilewright.models.io_binding import IOBinding

        return IOBinding
    if name in __all__:
        from tilewright.models import inference_session

        return getattr(inference_session, name)
    raise AttributeError(f"module 'tilewright.models' has no attribute {name!r}")

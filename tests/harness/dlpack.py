"""An array that speaks DLPack and nothing else: no namespace that makes arrays of its kind."""

from __future__ import annotations

from typing import Any


class Plain:
    """``a``'s memory."""

    def __init__(self, a: Any) -> None:
        self.a = a

    def __dlpack_device__(self) -> Any:
        return self.a.__dlpack_device__()

    def __dlpack__(self, **how: Any) -> Any:
        return self.a.__dlpack__(**how)

"""An array that supports only DLPack, without an array namespace that could create arrays of its type."""

from __future__ import annotations

from typing import Any


class Plain:
    """An array that exports the memory of ``a``."""

    def __init__(self, a: Any) -> None:
        self.a = a

    def __dlpack_device__(self) -> Any:
        return self.a.__dlpack_device__()

    def __dlpack__(self, **how: Any) -> Any:
        return self.a.__dlpack__(**how)

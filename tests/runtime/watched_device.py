"""The emulated device, telling what it is asked for."""

from __future__ import annotations

from typing import Any

from tilewright.backends.arguments import Arguments
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorDriver


class Watched(EmulatorContext):
    """The emulated device, telling what it is asked for."""

    def __init__(self) -> None:
        super().__init__(EmulatorDriver())
        self.asked: list[str] = []
        self.launches: list[tuple[Any, ...]] = []

    def allocate(self, size: int) -> int:
        self.asked.append("allocate")
        return super().allocate(size)

    def free(self, address: int) -> None:
        self.asked.append("free")
        super().free(address)

    def synchronize(self) -> None:
        self.asked.append("synchronize")
        super().synchronize()

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        self.asked.append("fill")
        super().fill(address, byte, size, stream)

    def launch(self, module: Any, symbol: str, shape: Any, arguments: Arguments) -> None:
        self.asked.append("launch")
        self.launches.append((module, symbol, shape, arguments.parameters))
        super().launch(module, symbol, shape, arguments)

    def replay(self, launches: list[tuple[Any, ...]]) -> None:
        """As a CUDA graph does: what was queued, with the arguments that it had then."""
        for module, symbol, shape, parameters in launches:
            super().launch(module, symbol, shape, Arguments(parameters))

"""Static features of a CPU kernel: what is known of it before it is compiled, beside its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tilewright.kernels.kernel import Kernel

STATIC: Mapping[str, str] = {
    "prefetch": "bytes ahead of its use at which an input is asked for; 0: it is not",
    "prefetch_output": "whether lines of the output are asked for before they are written",
    "streamed": "whether results are stored past the caches",
    "hoisted": "reads whose values are held in registers while a block of outputs is walked",
    "inverted": "whether elements are multiplied by the inverse of what divides all of a row",
    "fused": "outermost loops that all parts of the kernel share",
}
"""Names and meanings of the static features of CPU kernels, in order."""


class Static(Protocol):
    """Static features of a kernel. Every template of a kind of target gives the same names, so that a cost model can
    learn across templates."""

    def numbers(self, kernel: Kernel) -> Mapping[str, float]:
        """The features of a kernel that has these, by name."""
        ...


@dataclass(frozen=True, kw_only=True)
class CpuStatic:
    """Static features of a CPU kernel by the names of :data:`STATIC`; 0 where a template has no such choice."""

    prefetch: int = 0
    prefetch_output: bool = False
    streamed: bool = False
    hoisted: int = 0
    inverted: bool = False
    fused: int = 0

    def numbers(self, kernel: Kernel | None = None) -> dict[str, float]:
        return {name: float(value) for name, value in vars(self).items()}

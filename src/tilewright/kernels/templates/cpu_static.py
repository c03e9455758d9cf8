"""What is known of a CPU schedule before it is compiled, beside its loops.

Every CPU template gives the same names (:data:`STATIC`), so that a cost model can learn across them.
"""

from __future__ import annotations

from collections.abc import Mapping

STATIC: Mapping[str, str] = {
    "prefetch": "bytes ahead of its use at which an input is asked for; 0: it is not",
    "prefetch_output": "whether lines of the output are asked for before they are written",
    "streamed": "whether results are stored past the caches",
    "hoisted": "reads whose values are held in registers while a block of outputs is walked",
    "inverted": "whether elements are multiplied by the inverse of what divides all of a row",
    "fused": "outermost loops that all parts of the kernel share",
}
"""Names and meanings, in order. 0 where a template has no such choice."""


def numbers(**known: float) -> dict[str, float]:
    """The numbers of :data:`STATIC`, in order."""
    assert known.keys() <= STATIC.keys()
    return {name: float(known.get(name, 0)) for name in STATIC}

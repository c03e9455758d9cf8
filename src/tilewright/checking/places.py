"""Translates the emulator's byte offsets into names and elements of a workload's tensors."""

from __future__ import annotations

import re

from tilewright.core import TensorSpec, Workload
from tilewright.kernels.expression.expr import ITEMSIZE

_PLACE = re.compile(
    r"(?:(\d+) bytes (past the end of|before)|byte (\d+) of) "
    r"(?:input (\d+)|output number (\d+)|the output) \((\d+) bytes\)"
)


def named(message: str, workload: Workload) -> str:
    """The message with tensor elements instead of bytes: ``x[3][4]``, ``element 12 of x, which has 12``."""

    def element(m: re.Match[str]) -> str:
        far, side, inside, input_, output, size = m.groups()
        spec = workload.inputs[int(input_)] if input_ else workload.outputs[int(output or 0)]
        name = spec.name if input_ or len(workload.outputs) > 1 else "out"
        item = ITEMSIZE[spec.dtype]
        if inside:
            return name + _index(int(inside) // item, spec)
        at = -(-int(far) // item) * -1 if side == "before" else (int(size) + int(far)) // item
        return f"element {at} of {name}, which has {int(size) // item}"

    return _PLACE.sub(element, message)


def _index(flat: int, spec: TensorSpec) -> str:
    parts = []
    for extent in reversed(spec.shape):
        flat, at = divmod(flat, int(extent)) if isinstance(extent, int) else (0, flat)
        parts.append(f"[{at}]")
    return "".join(reversed(parts))

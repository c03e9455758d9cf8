"""Hardware counters of kernels on a GPU: a child runs each kernel a few times under ``ncu``.

The child is this module run as a program. It runs kernels on the inputs used for timing. Caches are cold, as ``ncu``
empties them before each launch that it repeats.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends import get_backend
from tilewright.backends.confine import scratch
from tilewright.backends.driver import DeviceError
from tilewright.backends.launches import DeviceKernel, Memory
from tilewright.core import LaunchProgram, Pairs, TilewrightError, Workload
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.measure.child import environment
from tilewright.measure.gpu_buffers import TimingArena
from tilewright.verifying.verify import Verifier

if TYPE_CHECKING:
    from tilewright.backends.cuda.ncu import Counters, Profiler
    from tilewright.backends.driver import Context
    from tilewright.measure.local_target import LocalTarget

CALLS = 2
"""Number of calls of each kernel. The last call's counters are used, as the first call may load code."""
_ASKED, _PROBLEMS = "kernels.json", "problems.json"


@dataclass(frozen=True)
class Compiled:
    """A kernel to run: its workload, its launches, their arguments' values, and its code."""

    workload: Workload
    program: LaunchProgram
    launch: Pairs
    code: bytes


def read_counters(
    kernels: Sequence[Compiled], place: LocalTarget, profiler: Profiler, deadline: float
) -> list[dict[str, Counters] | TilewrightError]:
    """Return for each kernel its counters by symbol, or its error; one error may hold for all kernels.

    ``deadline``: seconds for each run of ``ncu``. The caller holds the device's lock. Raises ``NoCounters`` if this
    machine cannot read counters, and ``TilewrightError`` if ``ncu`` fails.
    """
    with scratch() as name:
        folder = Path(name)
        asked = []
        for n, k in enumerate(kernels):
            (folder / f"{n}.code").write_bytes(k.code)
            asked.append({"workload": k.workload.to_json(), "program": k.program.to_json(), "launch": dict(k.launch)})
        settings = place.backend.settings(place.device, 0)
        text = json.dumps({"backend": place.backend.name, "device": settings["device"], "kernels": asked})
        (folder / _ASKED).write_text(text)

        def problems() -> dict[int, TilewrightError]:
            path = folder / _PROBLEMS
            told = json.loads(path.read_text()) if path.exists() else []
            return {n: TilewrightError(message, hint) for n, message, hint in told}

        def check() -> None:
            if len(found := problems()) == len(kernels):
                raise found[0]

        command = (sys.executable, "-m", "tilewright.measure.counters", str(folder))
        seen = {x.kernel: x for x in profiler.counters(command, environment(), deadline, check)}
        wrong = problems()
    return [
        wrong.get(n) or {x.symbol: seen[x.symbol] for x in k.program.launches if x.symbol in seen}
        for n, k in enumerate(kernels)
    ]


# --------------------------------------------------------------------------- the child


def _main(folder: Path) -> None:
    """Run the kernels that the parent asks for, and write the problems to a file."""
    asked = json.loads((folder / _ASKED).read_text())
    left = dict(enumerate(asked["kernels"]))
    problems: list[tuple[int, str, str]] = []
    try:
        context = get_backend(asked["backend"]).open(asked["device"])
        while left:
            n = min(left)
            try:
                _run(context, left[n], (folder / f"{n}.code").read_bytes())
            except DeviceError:
                raise
            except TilewrightError as e:
                problems.append((n, e.message, e.hint))
            del left[n]
    except TilewrightError as e:  # the device is missing or lost: the remaining kernels cannot run either
        problems += [(n, e.message, e.hint) for n in left]
    (folder / _PROBLEMS).write_text(json.dumps(problems))


def _run(context: Context, asked: dict[str, Any], code: bytes) -> None:
    """Call one kernel, and wait for it."""
    program = Program.loads(Workload.from_json(asked["workload"]).program)
    values = [np.ascontiguousarray(v).reshape(-1).view(np.uint8) for v in Verifier(program).timing_values()]
    outputs = [math.prod(t.shape) * ITEMSIZE[t.dtype] for t in program.outputs]
    arena = TimingArena(context, values, outputs, 1)
    module = context.load(code)
    kernel = DeviceKernel(context, module, LaunchProgram.from_json(asked["program"]), asked["launch"])
    memory = Memory(context)
    tensors = kernel.pack(arena.tensors(0), memory.packed(kernel)[0])
    call = kernel.bind(tensors, memory.allocate(kernel.workspace))
    for _ in range(CALLS):
        call()
    context.synchronize()
    module.close()
    memory.close()
    arena.close()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))

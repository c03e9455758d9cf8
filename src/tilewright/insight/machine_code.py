"""The least time of a winner's machine code on a GPU, from the code that this machine's compiler generates."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core import Candidate, Schedule, Task, TilewrightError
from tilewright.serialization import Json
from tilewright.units import with_unit

_BY = {
    "tensor": "matrix units", "fma": "arithmetic units", "issue": "the instructions that are issued",
    "registers": "the banks of registers", "mufu": "the unit of transcendental functions",
    "shared": "shared memory", "l2": "the second-level cache", "dram": "memory",
    "waves": "blocks that some multiprocessors have more of",
}  # fmt: skip


@dataclass(frozen=True)
class MachineCode(Json):
    """Facts of a kernel's machine code: number of ``instructions`` and ``matrix`` (MMA) instructions of the main loop,
    ``registers`` of a thread, bytes of ``spills``.

    ``by``: the resource that bounds the kernel; ``share``: share of the arithmetic peak at the bound (0: too little
    arithmetic); ``least``: least seconds at the target's clock.
    """

    instructions: int
    matrix: int
    registers: int
    spills: int
    by: str
    share: float
    least: float

    def text(self) -> str:
        """The facts in sentences."""
        matrix = f", {self.matrix} of them for matrix units" if self.matrix else ""
        spills = f", and {self.spills} bytes are spilled to memory" if self.spills else ""
        bound = f"Its machine code needs at least {with_unit(self.least, 's')}, bound by {_BY.get(self.by, self.by)}"
        bound += f": {with_unit(self.share, 'share')} of the arithmetic peak at most." if self.share else "."
        loop = f"The main loop has {self.instructions} instructions{matrix}."
        return f"{bound} {loop} A thread has {self.registers} registers{spills}."


def machine_code_of(task: Task, schedule: Schedule) -> MachineCode | None:
    """Machine code of a schedule's main kernel.

    ``None`` for targets other than CUDA, without compiler or disassembler, and if no template of this version prints
    the schedule.
    """
    from tilewright.checking.check import subject_of
    from tilewright.checking.machine_code import costs

    try:
        found = costs(subject_of(Candidate(task, schedule)))
    except (TilewrightError, KeyError, ValueError):
        return None
    main = next((c for c in found if c.bound is not None), None)
    if main is None or main.bound is None:
        return None
    loop = main.code.main_loop
    matrix = sum(x.kind == "tensor" for x in loop)
    least = main.bound.cycles / float(task.target.limit["clock_hz"])
    return MachineCode(len(loop), matrix, main.registers, main.spills, main.bound.by, main.bound.share, least)

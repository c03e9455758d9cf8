"""What a template is: it matches a class of programs, spans a schedule space, and lowers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tilewright.core import Candidate, Schedule, Task
from tilewright.kernels.codegen.sources import GPUS
from tilewright.kernels.kernel import LoweredKernel
from tilewright.kernels.loopnest import LoopNest
from tilewright.search_space import SearchSpace

__all__ = ["GPUS", "LoweredKernel", "Template"]


class Template(Protocol):
    """A family of schedules for a class of programs.

    Bump ``version`` whenever the generated source changes: stored results become stale then.
    """

    name: str
    family: str  # the class of programs that it computes (``kernels/families``), or "user" for a kernel written by hand
    version: int
    kinds: tuple[str, ...]  # target kinds it generates for: ("cpu",), GPUS

    def matches(self, task: Task) -> bool:
        """Whether this template can compute the task's program, on a target of its kinds."""
        ...

    def space(self, task: Task) -> SearchSpace:
        """Every legal schedule of the task."""
        ...

    def default(self, task: Task) -> Schedule:
        """A sensible schedule without tuning; a member of the space."""
        ...

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        """The loops of each kernel part, for features and analysis; cheap (well under 1 ms).

        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        ...

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        """What is known before compiling beside the nests: resources, occupancy, prefetch distances; cheap.

        The same names for every template of a target kind: those of ``kernel/__init__.py``, of ``cuda/static.py``.
        What a knob changes in the source shows here or in the nests.
        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        ...

    def lower(self, candidate: Candidate) -> LoweredKernel:
        """Print the kernel. Raises ``IllegalSchedule`` for a schedule that is not in the space."""
        ...

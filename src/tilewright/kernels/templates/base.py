"""The interface of templates: match a class of programs, span their search space, lower a schedule to source."""

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
    """Search space and code generator for one family of programs.

    Increase ``version`` whenever the generated source changes: stored results of older versions become stale.
    """

    name: str
    family: str  # the family of programs that it computes (``kernels/families``), or "user" for a hand-written kernel
    version: int
    kinds: tuple[str, ...]  # the kinds of target that it generates code for: ("cpu",) or GPUS

    def matches(self, task: Task) -> bool:
        """Whether this template can compute the task's program, on a target of its kinds."""
        ...

    def space(self, task: Task) -> SearchSpace:
        """Every legal schedule of the task."""
        ...

    def default(self, task: Task) -> Schedule:
        """The schedule that is used without tuning; a member of the space."""
        ...

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        """The loop nest of each part of the kernel, for features and analysis; takes well under 1 ms.

        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        ...

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        """Static features beside the nests, known before compiling: resources, occupancy, prefetch distances. Cheap.

        All templates of a kind of target give the same names: ``kernels/kernel/__init__.py`` lists them for CPUs, and
        ``kernels/templates/cuda/static.py`` for GPUs. A knob's effect on the source shows in a feature or in a nest.
        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        ...

    def lower(self, candidate: Candidate) -> LoweredKernel:
        """Generate the kernel's source. Raises ``IllegalSchedule`` for a schedule that is not in the space."""
        ...

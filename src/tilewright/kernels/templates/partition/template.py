"""The partition templates: programs that need several kernels, or that may be faster as several kernels."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from tilewright.core import IllegalSchedule, Schedule, Task
from tilewright.extent import greatest
from tilewright.kernels import templates
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ranges import at
from tilewright.kernels.rewrite.layout_transform import channels_last, side_by_side
from tilewright.kernels.rewrite.split import cropped
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.partition.cuda import GpuParts
from tilewright.kernels.templates.partition.parts import CpuParts
from tilewright.kernels.templates.partition.segments import (
    EXCLUDED,
    Cut,
    contractions,
    cuts,
    cuts_at,
    in_order,
    specific,
    with_strips,
)
from tilewright.kernels.templates.partition.space import CUT, Choices, Member, choices, with_symbolic_sizes
from tilewright.kernels.templates.planned import KernelTemplate
from tilewright.search_space import SearchSpace

LEAST_VECTOR = 16
"""Smallest number of contiguous bytes of channels in a transformed operand: the size of one copy instruction."""


class _Partition(KernelTemplate):
    """Base class of the partition templates."""

    name: str
    family = "partition"
    base: int
    kinds: tuple[str, ...]
    whole: type[CpuParts | GpuParts]
    any_sizes = False
    """Whether the template supports symbolic sizes."""

    @property
    def version(self) -> int:
        """Version of the template: its base version plus the versions of all templates that may compute a segment."""
        return self.base + sum(t.version for t in templates.generating(*self.kinds) if t.name not in EXCLUDED)

    def matches(self, task: Task) -> bool:
        """Whether the task can be cut, and either has several contractions or no specific template for all of it."""
        if task.target.kind not in self.kinds:
            return False
        if task.workload.ranges and not self.any_sizes:
            return False
        if contractions(Program.loads(task.workload.program)) < 2 and specific(task):
            return False
        return bool(self.cuts(task))

    def program(self, task: Task) -> Program:
        """The program that is cut into segments."""
        return Program.loads(task.workload.program)

    def cuts(self, task: Task) -> tuple[Cut, ...]:
        """The cuts that are worth trying."""
        return cuts(task)

    def space(self, task: Task) -> SearchSpace:
        """Every legal schedule; for a range, the legal schedules of its greatest size."""
        return self._choices(of_greatest(task)).space

    def default(self, task: Task) -> Schedule:
        found = self._choices(of_greatest(task))
        return found.space.schedule(found.default)

    def _built(self, task: Task, schedule: Schedule) -> Kernel:
        parts = tuple((m, m.kernel(schedule.values)) for m in self.members(task, schedule))
        return kernel_of_parts(self.whole(self.program(task), parts, task.target))

    def members(self, task: Task, schedule: Schedule) -> tuple[Member, ...]:
        """The segments of the cut that a schedule chooses."""
        if task.workload.ranges:
            return self._symbolic_members(task, schedule)
        found = self._choices(task)
        found.space.check(schedule)
        return found.cuts[str(schedule.values[CUT])]

    def _symbolic_members(self, task: Task, schedule: Schedule) -> tuple[Member, ...]:
        """The segments of a schedule for symbolic sizes; the schedule was found for the sizes in its launch values."""
        told = dict(schedule.launch)
        sizes = {n: int(told.pop(e.argument, e.high)) for n, e in task.workload.ranges.items()}
        one = Task(at(task.workload, sizes), task.target)
        found = self._choices(one)
        found.space.check(replace(schedule, launch=tuple(told.items())))
        members = found.cuts[str(schedule.values[CUT])]
        if members[0].segment.strips > 1:  # strips would begin at symbolic positions
            ends = [m.segment.last for m in members]
            whole = (c for c in found.cuts.values() if [m.segment.last for m in c] == ends and c[0].segment.strips == 1)
            members = next(whole)
        return tuple(with_symbolic_sizes(m, task, sizes) for m in members)

    def _choices(self, task: Task) -> Choices:
        return _choices(self, task, self.version)


class CpuPartition(_Partition):
    """Partition on a CPU: segments with another template's kernel each, and intermediate results in the workspace.

    Either all rows go through one segment before the next, or each strip of rows goes through all segments. A product
    whose phases do not divide its rows, as in a transposed convolution, is computed for padded rows; a copy then crops
    the result.
    """

    name = "cpu_partition"
    base = 2
    kinds = ("cpu",)
    whole = CpuParts
    any_sizes = True

    def matches(self, task: Task) -> bool:
        return super().matches(task) or (task.target.kind in self.kinds and self._is_ragged(task))

    def program(self, task: Task) -> Program:
        """The program that is cut; a product whose phases do not divide its rows is padded and cropped."""
        program = super().program(task)
        return (contractions(program) == 1 and cropped(program)) or program

    def cuts(self, task: Task) -> tuple[Cut, ...]:
        whole = Task(replace(task.workload, program=self.program(task).dumps()), task.target)
        found = cuts(whole)
        return found if task.workload.ranges else with_strips(whole, found)

    def _is_ragged(self, task: Task) -> bool:
        """Whether the product must be padded, and a cut computes the padded product by phase."""
        if self.program(task) == super().program(task):
            return False
        return any(cut[0].template in ("cpu_contraction", "cpu_stencil") for cut in self.cuts(task))


class CudaPartition(_Partition):
    """Partition on a GPU: each segment has at least one launch; segments of constant inputs run once (prepacking)."""

    name = "cuda_partition"
    base = 3
    kinds: tuple[str, ...] = GPUS
    whole = GpuParts


class CudaRelaid(CudaPartition):
    """Products behind layout transforms of their operands, on a GPU.

    - Convolutions whose channels are outermost: channels become innermost, so that vectors are contiguous.
    - Large products of 8-bit or 32-bit elements that are not contiguous along k: warp groups need them contiguous.
    - Products of values split into TF32 parts: the parts are stored side by side.
    """

    name = "cuda_relaid"
    kinds = ("cuda",)

    def matches(self, task: Task) -> bool:
        """Whether operands of Tensor Cores need a layout transform, and their channels fill whole vectors."""
        if task.target.kind not in self.kinds or task.workload.ranges:
            return False
        found = self._rewritten(task)
        if found is None:
            return False
        # Imported here: these modules load all CUDA primitives.
        from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA
        from tilewright.kernels.templates.partition.k_contiguous import k_contiguous

        program, copies = found
        whole = all(s.extents[-1] * ITEMSIZE[s.dtype] % LEAST_VECTOR == 0 for s in program.stages[:copies])
        if not whole:
            return False
        if k_contiguous(Program.loads(task.workload.program), task.target) is not None:
            return any(cut[-1].template == "cuda_wgmma" for cut in self.cuts(task))
        products = (CUDA_MMA.find(cut[-1].program) for cut in self.cuts(task))
        return any(p is not None and CUDA_MMA.usable(p, task.target) for p in products)

    def program(self, task: Task) -> Program:
        return self._found(task)[0]

    def cuts(self, task: Task) -> tuple[Cut, ...]:
        """Cuts with one segment for each copy and one for the rest.

        Further cuts merge the last copy into the product's segment, if warp groups can read that operand directly.
        """
        program, copies = self._found(task)
        first = {s.name for s in in_order(program)[:copies]}
        if first != {s.name for s in program.stages[:copies]}:
            return ()
        every = len(program.stages)
        fewer = cuts_at(program, (*range(1, copies), every), task)
        return (
            *cuts_at(program, (*range(1, copies + 1), every), task),
            *(cut for cut in fewer if cut[-1].template == "cuda_wgmma"),
        )

    def default(self, task: Task) -> Schedule:
        """The segments' defaults, with one block size for all copies, so that one launch runs all copies."""
        found = self._choices(task)
        copies = found.cuts[str(found.default[CUT])][: self._found(task)[1]]
        names = [name for m in copies if (name := f"{m.prefix}threads") in found.default]
        least = min((int(found.default[name]) for name in names), default=0)
        with suppress(IllegalSchedule):
            return found.space.schedule({**found.default, **dict.fromkeys(names, least)})
        return super().default(task)

    def _rewritten(self, task: Task) -> tuple[Program, int] | None:
        from tilewright.kernels.templates.partition.k_contiguous import k_contiguous  # loads all CUDA primitives

        program = Program.loads(task.workload.program)
        return channels_last(program) or side_by_side(program) or k_contiguous(program, task.target)

    def _found(self, task: Task) -> tuple[Program, int]:
        found = self._rewritten(task)
        if found is None:
            raise IllegalSchedule(f"{task.workload.label} has no input to rearrange", "Use another template")
        return found


def kernel_of_parts(whole: CpuParts | GpuParts) -> Kernel:
    """The kernel that computes all segments of a program."""
    return Kernel(
        text=whole, static=whole, launches=whole.launches, workspace=whole.workspace, align=whole.align,
        prepack=whole.prepack, rounding=whole.rounding,
    )  # fmt: skip


def of_greatest(task: Task) -> Task:
    """The task with the greatest sizes of its ranges."""
    ranges = task.workload.ranges
    return Task(at(task.workload, greatest(ranges)), task.target) if ranges else task


@lru_cache(maxsize=64)
def _choices(template: _Partition, task: Task, version: int) -> Choices:
    found = template.cuts(task)
    if not found:
        raise IllegalSchedule(f"{task.workload.label} does not fall into segments", "Use another template")
    return choices(task, found, template.name, version)


CPU_PARTITION, CUDA_PARTITION, CUDA_RELAID = CpuPartition(), CudaPartition(), CudaRelaid()

"""A kernel as one value: its loops, static features, launches, memory and source text.

All that callers need is derived from that value: :attr:`Kernel.nests` for features and the roofline,
:attr:`Kernel.static`, :meth:`Kernel.program` for its launch program, :meth:`Kernel.lower` for its source. The text
takes loops, arrays and arguments from the kernel value, so each is stated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tilewright.caching import Deferred
from tilewright.core import IntExpr, Launch, LaunchProgram, Prepack, cached_property
from tilewright.kernels.codegen.emitter import Emitter
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel.workspace import Array, Workspace
from tilewright.kernels.loopnest import LoopNest, divided

__all__ = [
    "Array", "CpuStatic", "Emitted", "Kernel", "Launched", "LoweredKernel", "Opaque", "Static", "Workspace", "entry",
]  # fmt: skip


@dataclass(frozen=True)
class LoweredKernel:
    """Source of one kernel and its launch program.

    ``source`` is C++ that follows ``codegen.prelude(target)`` in a translation unit. Every name that it defines is
    prefixed by ``symbol`` or static inside ``namespace <symbol>_``. So several kernels can share a unit, unless one
    must stand ``alone``. The source depends on the schedule's structure only.
    """

    symbol: str
    source: str
    program: LaunchProgram
    alone: bool = False


def entry(program: Program, *arguments: str, tasks: bool = False) -> tuple[Launch]:
    """The launch of a CPU kernel: ``arguments``, the number of ``tasks`` if it takes one, and the symbolic sizes."""
    return (Launch("", (*arguments, *(("tasks",) if tasks else ()), *program.size_arguments)),)


class Launched(Protocol):
    """One launch of a kernel's call; ``symbol`` is the suffix of the kernel's own symbol."""

    @property
    def symbol(self) -> str: ...

    @property
    def arguments(self) -> tuple[str, ...]: ...

    def under(self, symbol: str) -> Launch: ...


class Text(Protocol):
    """The source text of a kernel, and its loops."""

    def loops(self, kernel: Kernel) -> tuple[LoopNest, ...]: ...

    def source(self, kernel: Kernel, symbol: str) -> str: ...


@dataclass(frozen=True)
class Emitted:
    """Text whose loops the emitter prints from ``printed``; ``tasks`` tasks share the iterations of ``chunked`` loops.

    ``body`` prints a kernel's declarations, and every nest that it is given, through the emitter. It returns the text
    of helper functions.
    """

    printed: tuple[LoopNest, ...]
    tasks: int
    body: Callable[[Kernel, Emitter, tuple[LoopNest, ...]], str]

    @cached_property
    def _divided(self) -> tuple[LoopNest, ...]:
        return tuple(replace(n, loops=divided(n.loops, self.tasks)) for n in self.printed)

    def loops(self, kernel: Kernel) -> tuple[LoopNest, ...]:
        """The printed nests with ``chunked`` loops divided, as one task runs them."""
        return self._divided

    def emit(self, kernel: Kernel, symbol: str) -> tuple[Emitter, str]:
        """The emitter that has printed the kernel, and the text of helper functions.

        Raises ``ValueError`` if the body does not print a nest.
        """
        emitter = Emitter(symbol)
        helpers = self.body(kernel, emitter, self.printed)
        for n in self.printed:
            if not any(n is x for x, _ in emitter.printed):
                raise ValueError(f"the kernel's text has no loops of {n.name!r}")
        return emitter, helpers

    def source(self, kernel: Kernel, symbol: str) -> str:
        emitter, helpers = self.emit(kernel, symbol)
        return emitter.unit(helpers)


@dataclass(frozen=True)
class Opaque:
    """Text written by hand.

    ``nests``, or a function that returns them, states the text's loops with their reads and writes. The kernel's
    workspace states what the text allocates. ``write`` prints the text of a kernel for a symbol; it may take sizes from
    the kernel's nests and workspace.
    """

    nests: tuple[LoopNest, ...] | Callable[[], tuple[LoopNest, ...]]
    write: Callable[[Kernel, str], str]

    def loops(self, kernel: Kernel) -> tuple[LoopNest, ...]:
        return self.nests() if callable(self.nests) else self.nests

    def source(self, kernel: Kernel, symbol: str) -> str:
        return self.write(kernel, symbol)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel of a CPU or a GPU.

    Symbols of ``launches`` and of ``prepack`` are suffixes of the kernel's own symbol. The other fields of a launch
    program are those of :class:`~tilewright.core.LaunchProgram`. All fields but text and static features may be given
    as functions: a search asks for the features of far more schedules than it lowers.
    """

    text: Text
    static: Static
    launches: Deferred[tuple[Launched, ...]] = Deferred(())  # noqa: RUF009
    workspace: Deferred[Workspace] = Deferred(Workspace())  # noqa: RUF009
    zero_fill: Deferred[IntExpr] = Deferred(0)  # noqa: RUF009
    align: Deferred[int] = Deferred(1)  # noqa: RUF009
    prepack: Deferred[tuple[Prepack, ...]] = Deferred(())  # noqa: RUF009
    rounding: Deferred[float] = Deferred(1.0)  # noqa: RUF009
    alone: Deferred[bool] = Deferred(False)  # noqa: RUF009

    @property
    def nests(self) -> tuple[LoopNest, ...]:
        """The loop nests of the kernel, for features and the roofline."""
        return self.text.loops(self)

    @property
    def numbers(self) -> Mapping[str, float]:
        """The static features by name."""
        return self.static.numbers(self)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Argument names of the first launch, in order; a CPU kernel's entry point reads the values from ``args``."""
        return self.launches[0].arguments

    @property
    def tasks(self) -> str:
        """C text of the largest number of tasks among which a CPU kernel divides its units of work."""
        return "tasks" if "tasks" in self.arguments else "1L"

    def argument(self, name: str) -> str:
        """C text of a launch argument in a CPU kernel's entry point."""
        return f"args[{self.arguments.index(name)}]"

    def program(self, symbol: str) -> LaunchProgram:
        """The launch program of the kernel under a symbol."""
        return LaunchProgram(
            tuple(x.under(symbol) for x in self.launches), self.workspace.bytes, self.zero_fill, self.align,
            rounding=self.rounding, prepack=tuple(replace(x, launch=x.launch.under(symbol)) for x in self.prepack),
        )  # fmt: skip

    def lower(self, symbol: str) -> LoweredKernel:
        """The kernel's source and launch program under a symbol."""
        return LoweredKernel(symbol, self.text.source(self, symbol), self.program(symbol), self.alone)


# --------------------------------------------------------------------------- static features
# Facts about a kernel before it is compiled, beside its loops.

STATIC: Mapping[str, str] = {
    "prefetch": "prefetch distance of inputs, in bytes; 0: no prefetch",
    "prefetch_output": "whether cache lines of the output are prefetched before they are written",
    "streamed": "whether results are written by non-temporal stores",
    "hoisted": "reads whose values stay in registers over a block of outputs",
    "inverted": "whether elements are multiplied by the reciprocal of a row's common divisor",
    "fused": "outermost loops that all parts of the kernel share",
}
"""Names and meanings of the static features of CPU kernels, in order."""


class Static(Protocol):
    """Static features of a kernel.

    All templates for one kind of target have equal feature names, so that a cost model can learn across templates.
    """

    def numbers(self, kernel: Kernel) -> Mapping[str, float]:
        """The features by name, for a kernel that has this value as ``static``."""
        ...


@dataclass(frozen=True, kw_only=True)
class CpuStatic:
    """Static features of a CPU kernel, named as in :data:`STATIC`; 0 if a template lacks the choice."""

    prefetch: int = 0
    prefetch_output: bool = False
    streamed: bool = False
    hoisted: int = 0
    inverted: bool = False
    fused: int = 0

    def numbers(self, kernel: Kernel | None = None) -> dict[str, float]:
        return {name: float(value) for name, value in vars(self).items()}

"""A GPU's kernels as one value: heads in C++, launches, loops and static features follow from it.

A source has device functions in the namespace ``<symbol>_``, then its kernels in the order of their launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.core import IntExpr, Launch
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Kernel, Static, Workspace
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.cuda import sizes
from tilewright.kernels.templates.cuda.text import STORAGE

Parameter = tuple[str, str, Any]
"""A kernel's parameter: its declaration in C++, and the kind and value that a launch gives it (:class:`.Launch`)."""


def pointers(program: Program) -> tuple[Parameter, ...]:
    """The pointers that a launch gives by itself: inputs, output and workspace."""
    inputs = program.inputs
    return (
        *((f"const {STORAGE[t.dtype]} *__restrict__ {t.name}", "tensor", n) for n, t in enumerate(inputs)),
        (f"{STORAGE[program.output.dtype]} *__restrict__ out", "tensor", len(inputs)),
        ("unsigned char *__restrict__ ws", "workspace", 0),
    )


def tensor_maps(maps: Mapping[str, Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """Parameters for tensor maps, by their names."""
    return tuple((f"TW_TENSOR_MAP({name})", "tensor_map", described) for name, described in maps.items())


@dataclass(frozen=True, kw_only=True)
class GlobalFunction:
    """One kernel of a source for a program: what its head in C++ and its launch both say.

    ``symbol`` follows the source's own in the function's name. ``body`` gives its statements, for that symbol.
    ``blocks`` is the number of blocks along x, ``blocks_y`` along y; ``cluster`` the number of blocks in a cluster;
    ``min_blocks`` that of blocks for which a multiprocessor must have room; ``shared`` the bytes of shared memory of a
    block. ``arguments`` are launch arguments beside the size that calls choose. ``own`` gives the parameters before
    those, where they are others than :func:`pointers`. ``loops`` gives the loop nests of its work.
    """

    program: Program
    body: Callable[[str], str]
    blocks: IntExpr
    threads: int
    symbol: str = ""
    arguments: tuple[str, ...] = ()
    blocks_y: int = 1
    min_blocks: int = 1
    shared: int = 0
    cluster: int = 1
    early: bool = False
    own: Callable[[], tuple[Parameter, ...]] | None = None
    loops: Callable[[], tuple[LoopNest, ...]] = lambda: ()

    @property
    def _integers(self) -> tuple[str, ...]:
        return (*self.arguments, *sizes.arguments(self.program))

    @property
    def _parameters(self) -> tuple[Parameter, ...]:
        given = self.own() if self.own is not None else pointers(self.program)
        return (*given, *((f"int {name}", "int32", name) for name in self._integers))

    @property
    def declared(self) -> tuple[str, ...]:
        """Declarations of the parameters in C++."""
        return tuple(declaration for declaration, _, _ in self._parameters)

    @property
    def has_maps(self) -> bool:
        """Whether tensor maps are among the parameters."""
        return any(kind == "tensor_map" for _, kind, _ in self._parameters)

    def head(self, symbol: str) -> str:
        """The kernel's declaration in C++."""
        together = f" TW_CLUSTER({self.cluster})" if self.cluster > 1 else ""
        bounds = f"TW_KERNEL({self.threads}, {self.min_blocks}){together}"
        return f"{bounds} void {symbol}{self.symbol}({', '.join(self.declared)})"

    def define(self, symbol: str) -> str:
        """The kernel in C++."""
        return f"{self.head(symbol)} {{\n{self.body(symbol)}}}\n"

    def under(self, symbol: str) -> Launch:
        """The function's launch."""
        listed = tuple((kind, value) for _, kind, value in self._parameters) if self.own is not None else ()
        return Launch(
            symbol + self.symbol, self._integers, (self.blocks, self.blocks_y, 1), (self.threads, 1, 1), self.shared,
            listed, self.early,
        )  # fmt: skip


def functions_of(kernel: Kernel) -> tuple[GlobalFunction, ...]:
    """The functions that a GPU's kernel launches, in order."""
    return tuple(x for x in kernel.launches if isinstance(x, GlobalFunction))


def main_of(kernel: Kernel) -> GlobalFunction:
    """The function that has the source's symbol as its name."""
    return next(x for x in functions_of(kernel) if not x.symbol)


@dataclass(frozen=True)
class DeviceText:
    """Text of ``device`` functions, then of the functions that a kernel launches, which state its loops."""

    device: Callable[[], str]

    def loops(self, kernel: Kernel) -> tuple[LoopNest, ...]:
        return tuple(n for x in functions_of(kernel) for n in x.loops())

    def source(self, kernel: Kernel, symbol: str) -> str:
        device = self.device()
        namespace = f"namespace {symbol}_ {{\n{device}}}\n" if device else ""
        return f'#line 1 "kernel"\n{namespace}' + "".join(x.define(symbol) for x in functions_of(kernel))


def gpu_kernel(
    launches: tuple[GlobalFunction, ...], static: Static, device: Callable[[], str] = lambda: "",
    workspace: IntExpr = 0, align: int = 1, rounding: float = 1.0,
) -> Kernel:  # fmt: skip
    """A GPU's kernel: ``launches`` in order, of which the one without a symbol is the main one."""
    return Kernel(
        text=DeviceText(device), static=static, launches=launches, workspace=Workspace.of(workspace),
        align=align, rounding=rounding,
    )  # fmt: skip

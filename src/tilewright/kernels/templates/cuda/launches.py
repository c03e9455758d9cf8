"""A GPU's kernels as one value: heads in C++, launches, loops and static features follow from it.

A source has device functions in the namespace ``<symbol>_``, then its kernels in the order of their launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.core import IntExpr, Launch, LaunchProgram
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import LoweredKernel
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

    ``suffix`` follows the source's symbol in the kernel's name. ``body`` gives its statements, for that symbol.
    ``blocks`` is the number of blocks along x, ``blocks_y`` along y; ``cluster`` the number of blocks in a cluster;
    ``min_blocks`` that of blocks for which a multiprocessor must have room; ``shared`` the bytes of shared memory of a
    block. ``arguments`` are launch arguments beside the size that calls choose. ``own`` gives the parameters before
    those, where they are others than :func:`pointers`. ``loops`` gives the loop nests of its work.
    """

    program: Program
    body: Callable[[str], str]
    blocks: IntExpr
    threads: int
    suffix: str = ""
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
        return f"{bounds} void {symbol}{self.suffix}({', '.join(self.declared)})"

    def define(self, symbol: str) -> str:
        """The kernel in C++."""
        return f"{self.head(symbol)} {{\n{self.body(symbol)}}}\n"

    def launch(self, symbol: str) -> Launch:
        """The kernel's launch."""
        listed = tuple((kind, value) for _, kind, value in self._parameters) if self.own is not None else ()
        return Launch(
            symbol + self.suffix, self._integers, (self.blocks, self.blocks_y, 1), (self.threads, 1, 1), self.shared,
            listed, self.early,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GpuKernel:
    """All kernels of a schedule in the order of their launches; the one without a suffix is the main one.

    ``functions`` gives the device functions. ``static`` gives the static features, of which the resources are those
    of the main kernel. The other fields are those of a :class:`~tilewright.core.LaunchProgram`.
    """

    kernels: tuple[GlobalFunction, ...]
    static: Callable[[GlobalFunction], Mapping[str, float]]
    functions: Callable[[], str] = lambda: ""
    workspace: IntExpr = 0
    align: int = 1
    rounding: float = 1.0

    @property
    def nests(self) -> tuple[LoopNest, ...]:
        """The loops of every kernel, for features and the roofline."""
        return tuple(n for k in self.kernels for n in k.loops())

    @property
    def main(self) -> GlobalFunction:
        """The kernel that has the source's symbol as its name."""
        return next(k for k in self.kernels if not k.suffix)

    @property
    def numbers(self) -> Mapping[str, float]:
        """The static features by name (:data:`~.static.STATIC`)."""
        return self.static(self.main)

    def program(self, symbol: str) -> LaunchProgram:
        """How the kernels are called under a symbol."""
        launches = tuple(k.launch(symbol) for k in self.kernels)
        return LaunchProgram(launches, workspace=self.workspace, align=self.align, rounding=self.rounding)

    def lower(self, symbol: str) -> LoweredKernel:
        """The source and how to call it."""
        functions = self.functions()
        namespace = f"namespace {symbol}_ {{\n{functions}}}\n" if functions else ""
        text = "".join(k.define(symbol) for k in self.kernels)
        return LoweredKernel(symbol, f'#line 1 "kernel"\n{namespace}{text}', self.program(symbol))

"""Descriptions of GPU kernels, from which signatures in C++, launches, loop nests and static features follow.

A source holds device functions in the namespace ``<symbol>_``, then the kernels in launch order.
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
"""A kernel's parameter: its C++ declaration, and the kind and value of its launch argument (:class:`.Launch`)."""


def pointers(program: Program) -> tuple[Parameter, ...]:
    """Default pointer parameters of a launch: inputs, output and workspace."""
    inputs = program.inputs
    return (
        *((f"const {STORAGE[t.dtype]} *__restrict__ {t.name}", "tensor", n) for n, t in enumerate(inputs)),
        (f"{STORAGE[program.output.dtype]} *__restrict__ out", "tensor", len(inputs)),
        ("unsigned char *__restrict__ ws", "workspace", 0),
    )


def tensor_maps(maps: Mapping[str, Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """Parameters for tensor maps; ``maps`` holds their descriptions by name."""
    return tuple((f"TW_TENSOR_MAP({name})", "tensor_map", described) for name, described in maps.items())


@dataclass(frozen=True, kw_only=True)
class GlobalFunction:
    """One kernel of a program's source: the common description of its signature in C++ and its launch.

    ``symbol``: suffix of the source's symbol in the function's name. ``body``: returns the statements, given the
    source's symbol. ``blocks``, ``blocks_y``: number of blocks along x and y. ``cluster``: number of blocks in a
    cluster. ``min_blocks``: number of blocks that must fit a multiprocessor. ``shared``: bytes of shared memory a
    block. ``arguments``: names of launch arguments besides the symbolic size. ``own``: returns the parameters before
    the integers, if they are not :func:`pointers`. ``early``: the kernel may begin before the previous one ends.
    ``loops``: returns the loop nests.
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
        """The kernel's signature in C++."""
        together = f" TW_CLUSTER({self.cluster})" if self.cluster > 1 else ""
        bounds = f"TW_KERNEL({self.threads}, {self.min_blocks}){together}"
        return f"{bounds} void {symbol}{self.symbol}({', '.join(self.declared)})"

    def define(self, symbol: str) -> str:
        """The kernel's definition in C++."""
        return f"{self.head(symbol)} {{\n{self.body(symbol)}}}\n"

    def under(self, symbol: str) -> Launch:
        """The kernel's launch, in a source with this symbol."""
        listed = tuple((kind, value) for _, kind, value in self._parameters) if self.own is not None else ()
        return Launch(
            symbol + self.symbol, self._integers, (self.blocks, self.blocks_y, 1), (self.threads, 1, 1), self.shared,
            listed, self.early,
        )  # fmt: skip


def functions_of(kernel: Kernel) -> tuple[GlobalFunction, ...]:
    """The global functions that a GPU kernel launches, in order."""
    return tuple(x for x in kernel.launches if isinstance(x, GlobalFunction))


def main_of(kernel: Kernel) -> GlobalFunction:
    """The global function whose name is the source's symbol, without a suffix."""
    return next(x for x in functions_of(kernel) if not x.symbol)


@dataclass(frozen=True)
class DeviceText:
    """Printer of a GPU source: the ``device`` functions, then the global functions of the launches."""

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
    """A GPU kernel with ``launches`` in order; the launch without a symbol suffix is the main one."""
    return Kernel(
        text=DeviceText(device), static=static, launches=launches, workspace=Workspace.of(workspace),
        align=align, rounding=rounding,
    )  # fmt: skip

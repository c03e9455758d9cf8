"""Kernels of a GPU's source: the head of each in C++ and its launch follow from one value.

A source has device functions in the namespace ``<symbol>_``, then its kernels in the order of their launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.core import IntExpr, Launch, LaunchProgram
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda import sizes
from tilewright.kernels.templates.cuda.text import STORAGE

Parameter = tuple[str, str, Any]
"""A kernel's parameter: its declaration in C++, and the kind and value that a launch gives it (:class:`.Launch`)."""


@dataclass(frozen=True, kw_only=True)
class DeviceKernel:
    """One kernel of a source for a program: the name, parameters and bounds of its head, which its launch has too.

    ``body`` gives its statements, for the source's symbol, which ``suffix`` follows in the kernel's name. ``blocks`` is
    the number of blocks along x, ``blocks_y`` along y. ``arguments`` are launch arguments beside the size that calls
    choose. ``maps`` are tensor maps by their names, parameters before all others. ``given`` are all of its parameters,
    where these are not inputs, output, workspace and arguments. ``min_blocks`` is the number of blocks that a
    multiprocessor must be able to hold, ``cluster`` that of blocks in a cluster.
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
    maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    given: tuple[Parameter, ...] = ()

    @property
    def _integers(self) -> tuple[str, ...]:
        return (*self.arguments, *sizes.arguments(self.program))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters in order."""
        if self.given:
            return self.given
        inputs = self.program.inputs
        return (
            *((f"TW_TENSOR_MAP({name})", "tensor_map", described) for name, described in self.maps.items()),
            *((f"const {STORAGE[t.dtype]} *__restrict__ {t.name}", "tensor", n) for n, t in enumerate(inputs)),
            (f"{STORAGE[self.program.output.dtype]} *__restrict__ out", "tensor", len(inputs)),
            ("unsigned char *__restrict__ ws", "workspace", 0),
            *((f"int {name}", "int32", name) for name in self._integers),
        )

    def define(self, symbol: str) -> str:
        """The kernel in C++."""
        together = f" TW_CLUSTER({self.cluster})" if self.cluster > 1 else ""
        taken = ", ".join(declaration for declaration, _, _ in self.parameters)
        head = f"TW_KERNEL({self.threads}, {self.min_blocks}){together} void {symbol}{self.suffix}({taken})"
        return f"{head} {{\n{self.body(symbol)}}}\n"

    def launch(self, symbol: str) -> Launch:
        """The kernel's launch; parameters are listed where they are not those that every kernel has by itself."""
        listed = tuple((kind, value) for _, kind, value in self.parameters) if self.maps or self.given else ()
        return Launch(
            symbol + self.suffix, self._integers, (self.blocks, self.blocks_y, 1), (self.threads, 1, 1), self.shared,
            listed, self.early,
        )  # fmt: skip


def lowered(
    symbol: str, kernels: Iterable[DeviceKernel], functions: str = "", workspace: IntExpr = 0, align: int = 1,
    rounding: float = 1.0,
) -> LoweredKernel:  # fmt: skip
    """The source of device ``functions`` and of kernels, and how these are called, one after the other."""
    namespace = f"namespace {symbol}_ {{\n{functions}}}\n" if functions else ""
    made = tuple(kernels)
    program = LaunchProgram(
        tuple(k.launch(symbol) for k in made), workspace=workspace, align=align, rounding=rounding
    )  # fmt: skip
    text = "".join(k.define(symbol) for k in made)
    return LoweredKernel(symbol, f'#line 1 "kernel"\n{namespace}{text}', program)

"""Counts instructions in the assembly of a kernel's innermost loops. A target needs a compiler here, but need not run
here."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.backends.confine import scratch
from tilewright.backends.cpu.compiler import find_compiler, run_compiler
from tilewright.backends.cpu.targets import flags
from tilewright.backends.toolchain import DEADLINE
from tilewright.core import Target
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.templates.base import LoweredKernel

_LABEL = re.compile(r'"?([\w.$]+)"?:')  # GCC 16 puts symbols in quotation marks
_JUMP = re.compile(r"(?:j\w+|b\.?\w*|cbn?z|tbn?z)\s.*?(\.L\w+)$")
_VECTOR = re.compile(r"\b[xyz]mm\d+|\b[vqds]\d+\b")


@dataclass(frozen=True)
class InnermostLoop:
    """An innermost loop: its instructions, and the symbol of its function."""

    function: str
    instructions: tuple[str, ...]

    @property
    def multiply_adds(self) -> int:
        """Number of fused multiply-adds of vectors."""
        return sum(bool(re.match(r"vfn?madd\d+p[sd]|fmla", x)) for x in self.instructions)

    @property
    def loads(self) -> int:
        """Number of reads of memory by vector instructions; a load of a pair counts as two."""
        return sum(_loads(x) for x in self.instructions)

    @property
    def stack(self) -> int:
        """Number of instructions that access the stack: spills and reloads."""
        return sum(bool(re.search(r"\[(rsp|esp|sp|x29)\b", x)) for x in self.instructions)

    @property
    def copies(self) -> int:
        """Number of moves between vector registers."""
        plain = re.compile(r"v?mov[au]p[sd]\s+[xyz]mm\d+, [xyz]mm\d+$|mov\s+v\d+\.16b, v\d+\.16b$")
        return sum(bool(plain.match(x)) for x in self.instructions)


def _loads(instruction: str) -> int:
    name, _, operands = instruction.partition("\t")
    if not _VECTOR.search(operands):
        return 0
    if re.match(r"ldu?[rp]|ld1", name):
        return 2 if name == "ldp" else 1
    # On x86 any operand but the first, which is the destination, may be in memory.
    return int(re.search(r",.*PTR ", operands) is not None)


def assembly(kernel: LoweredKernel, target: Target) -> str:
    """A kernel's assembly from the target's compiler, in Intel's syntax on x86. Raises ``TilewrightError`` without that
    compiler."""
    compiler = find_compiler(target.arch)
    syntax = ["-masm=intel"] if target.arch == "x86_64" else []
    with scratch() as folder:
        out = os.path.join(folder, "kernel.s")
        command = [*compiler.command, "-x", "c++", *flags(target, compiler.family), *syntax, "-S", "-", "-o", out]
        run_compiler(command, f"{prelude(target)}\n{kernel.source}", DEADLINE)
        return Path(out).read_text()


def innermost_loops(text: str) -> list[InnermostLoop]:
    """The innermost loops of every function of an assembly listing, in order."""
    found: list[InnermostLoop] = []
    function, lines = "", list[str]()
    for line in [*text.splitlines(), "end:"]:
        label = _LABEL.match(line)
        if label and not label[1].startswith("."):
            found += _of_function(function, lines)
            function, lines = label[1], []
        elif label or (line.startswith("\t") and not line.startswith("\t.")):
            lines.append(line.strip())
    return found


def _of_function(function: str, lines: Sequence[str]) -> list[InnermostLoop]:
    labels = {m[1]: n for n, line in enumerate(lines) if (m := _LABEL.match(line))}
    jumps = [(labels[m[1]], n) for n, line in enumerate(lines) if (m := _JUMP.match(line)) and m[1] in labels]
    loops = [(first, last) for first, last in jumps if first < last]
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return [
        InnermostLoop(function, tuple(x for x in lines[first : last + 1] if not _LABEL.match(x)))
        for first, last in inner
    ]

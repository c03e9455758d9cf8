"""A cubin's machine code as NVIDIA's disassembler prints it: instructions by class, and loops.

The disassembler is ``nvdisasm``, from the package index (``pip install 'tilewright[sass]'``) or a CUDA toolkit; it
needs no GPU. Names of instructions tell their computation and data movement: PTX ISA, "Matrix Fragments" (shapes of
matrix instructions); CUDA Binary Utilities, "Instruction Set Reference" (names).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from tilewright.backends.confine import one_line
from tilewright.backends.cuda.tools import find_tool
from tilewright.caching import cached_property
from tilewright.core import TargetUnavailable, TilewrightError

_VARIABLE = "TILEWRIGHT_NVDISASM"
_HINT = f"pip install 'tilewright[sass]', install the CUDA toolkit, or set {_VARIABLE} to the path of nvdisasm"
DEADLINE = 60.0  # seconds; an ordinary kernel takes 0.05 s
WARP = 32
PASS = 128
"""Bytes that shared memory reads or writes per clock: CUDA C++ Programming Guide, "Shared Memory"."""

CLASSES: Mapping[str, str] = {
    "tensor": r"[HIDQBO](G)?MMA|UTC[A-Z]*MMA",
    "float": r"FFMA2?|FADD2?|FMUL2?|FMNMX3?|FSEL|FSETP|FSET|FCHK|FSWZADD|DFMA|DADD|DMUL|DSETP|HFMA2|HADD2|HMUL2|HMNMX2|"
    r"HSETP2|HSET2",
    "special": r"MUFU",
    "convert": r"F2F|F2FP|F2I|I2F|I2FP|I2I|F2IP|I2IP|FRND",
    "shared": r"LDS|STS|LDSM|STSM|ATOMS|MOVM",
    "copy": r"LDGSTS|UTMALDG|UTMASTG|UTMAPF|UBLKCP|UTMACMDFLUSH|UTMACCTL",
    "global": r"LDG|STG|LD|ST|RED|REDG|ATOM|ATOMG|CCTL",
    "local": r"LDL|STL",
    "barrier": r"BAR|LDGDEPBAR|DEPBAR|ARRIVES|SYNCS|WARPSYNC|WARPGROUP|WARPGROUPDEPBAR|MEMBAR|ERRBAR|UCGABAR_ARV|"
    r"UCGABAR_WAIT|FENCE|NANOSLEEP|ELECT|ACQBULK|USETMAXREG",
    "shuffle": r"SHFL|REDUX|MATCH|VOTE|VOTEU",
    "move": r"MOV|UMOV|CS2R|R2UR|S2R|S2UR|SEL|USEL|PRMT|UPRMT|LDC|ULDC|LDCU|P2R|R2P|PLOP3|UPLOP3|NOP|IMAD\.MOV",
    "integer": r"IMAD|UIMAD|IADD|IADD3|UIADD3|LEA|ULEA|LOP3|ULOP3|SHF|USHF|ISETP|UISETP|IABS|IMNMX|VIADD|VIMNMX|"
    r"VIADDMNMX|SGXT|USGXT|BMSK|UBMSK|POPC|FLO|UFLO|BREV|IDP|SHL|SHR|LOP|IADD2|UIADD2|VIMNMX3",
    "branch": r"BRA|BRX|BSSY|BSYNC|EXIT|CALL|RET|JMP|JMX|BREAK|KILL|YIELD|BMOV|RPCMOV|PREEXIT",
}
"""Classes of instructions with patterns of their names, in the order in which they are tried."""

_PATTERNS = {name: re.compile(rf"(?:{names})(?:\.|$)") for name, names in CLASSES.items()}
_FUNCTION = re.compile(r"\.text\.(\S+):")
_LABEL = re.compile(r"(\.L_[\w$]+):")
_LINE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P(?:\d|T))\s+)?([A-Z]\S*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\((\.L_[\w$]+)\)")
_REGISTER = re.compile(r"\bR(\d+)\b")
_SHAPE = re.compile(r"\.(\d+)x(\d+)x(\d+)")
# m, n and k of the shapes that a matrix instruction's name has without separators.
_SHAPES: Mapping[str, tuple[int, int, int]] = {
    "884": (8, 8, 4), "8816": (8, 8, 16), "8832": (8, 8, 32), "1684": (16, 8, 4), "1688": (16, 8, 8),
    "16816": (16, 8, 16), "16832": (16, 8, 32), "16864": (16, 8, 64),
}  # fmt: skip
_SPECIAL = ("MUFU", "I2F", "F2I")
_LANES = {"FFMA": 1, "FFMA2": 2, "DFMA": 1, "HFMA2": 2, "IDP": 4}


class NoDisassembler(TargetUnavailable):
    """No ``nvdisasm`` on this machine, or one that cannot read the cubin."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a warp: its name with modifiers (``HMMA.16816.F32.BF16``), and operands."""

    opcode: str
    operands: str = ""
    guarded: bool = False  # by a predicate

    @property
    def kind(self) -> str:
        """Its class: a key of :data:`CLASSES`, or ``other``."""
        return _kind(self.opcode)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per warp; of a warp group's matrix instruction a quarter."""
        name, *rest = self.opcode.split(".")
        if self.kind != "tensor":
            return WARP * _LANES.get(name, 0)
        if (found := _SHAPE.search(self.opcode)) is not None:
            m, n, k = map(int, found.groups())
            return m * n * k // (4 if "GMMA" in name else 1)
        m, n, k = next((_SHAPES[x] for x in rest if x in _SHAPES), (0, 0, 0))
        return m * n * k

    @property
    def unit(self) -> str:
        """The unit that computes it, in the terms of a target's peaks: ``fp16``, ``tf32``, ``int8``, ``fp64_tensor``,
        ``fp32`` or ``fp64``; for bytes on CUDA cores ``dp4a``."""
        if self.kind != "tensor":
            return {"DFMA": "fp64", "IDP": "dp4a"}.get(self.opcode.split(".")[0], "fp32")
        if self.opcode.startswith("D"):
            return "fp64_tensor"
        if self.opcode.startswith(("I", "Q")):
            return "int8"
        return "tf32" if ".TF32" in self.opcode else "fp16"

    @property
    def special(self) -> int:
        """Results per warp of the unit for transcendental functions (XU). It also executes conversions between int and
        float, except ``I2FP``."""
        return WARP if self.opcode.split(".")[0] in _SPECIAL else 0

    @property
    def sources(self) -> tuple[str, ...]:
        """Source operands, by position, of an instruction with one destination, which comes first."""
        return tuple(self.operands.split(", ")[1:])

    @property
    def shared_passes(self) -> float:
        """Shared memory passes per warp (wavefronts of 128 bytes) without bank conflicts.

        The lanes of a load (``LDS``) may all read one address, so it counts as one pass.
        """
        name, *rest = self.opcode.split(".")
        if name in ("LDSM", "STSM"):
            return next((int(x) for x in rest if x in ("2", "4")), 1)
        if name in ("STS", "LDGSTS"):
            return max(1, _width(rest) * WARP // PASS)
        if name in ("LDS", "ATOMS"):
            return 1
        if name.endswith("GMMA") and (found := _SHAPE.search(self.opcode)) is not None:
            m, n, k = map(int, found.groups())
            item = {"fp16": 2, "tf32": 4, "int8": 1}[self.unit]
            from_shared = n + (m if self.operands.count("gdesc") > 1 else 0)
            return from_shared * k * item / 4 / PASS
        return 0

    @property
    def loaded_bytes(self) -> int:
        """Bytes read from global memory per warp, with all lanes active."""
        name, *rest = self.opcode.split(".")
        return _width(rest) * WARP if name in ("LDG", "LD", "LDGSTS") else 0


@cache
def _kind(opcode: str) -> str:
    return next((k for k, p in _PATTERNS.items() if p.match(opcode)), "other")


def _width(modifiers: list[str]) -> int:
    """Bytes per lane."""
    for text in modifiers:
        if text in ("256", "128", "64"):
            return int(text) // 8
        if text in ("U8", "S8"):
            return 1
        if text in ("U16", "S16"):
            return 2
    return 4


@dataclass(frozen=True)
class Code:
    """One kernel's instructions in order, and the positions of its labels."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """First and last instruction of each loop: a backward branch whose target dominates it.

        Code after the kernel's end that jumps back is no loop: it waits for a barrier again.
        """
        found = {(start, n) for n, after in self._onward.items() for start in after if start < n}
        outside = {start: self.stretches(0, start) for start, _ in found}
        return tuple(sorted((start, n) for start, n in found if not any(a <= n <= b for a, b in outside[start])))

    def stretches(self, start: int, without: int = -1) -> tuple[tuple[int, int], ...]:
        """Reachable instructions from ``start`` without passing ``without``: first and last of each stretch."""
        ordered, last = sorted(self._onward), len(self.instructions) - 1
        found: dict[int, int] = {}
        todo = [start]
        while todo:
            first = todo.pop()
            if first in found or first == without or first > last:
                continue
            at = bisect_left(ordered, first)
            end = ordered[at] if at < len(ordered) else last
            if first < without <= end:
                found[first] = without - 1
                continue
            found[first] = end
            todo += self._onward.get(end, ())
        return tuple(sorted(found.items()))

    @cached_property
    def _onward(self) -> Mapping[int, tuple[int, ...]]:
        """Successors of each instruction that may continue elsewhere than at the next one."""
        found: dict[int, tuple[int, ...]] = {}
        for number, x in enumerate(self.instructions):
            name = x.opcode.split(".")[0]
            if name not in ("BRA", "JMP", "EXIT", "RET"):
                continue
            target = _TARGET.search(x.operands)
            to = self.labels.get(target[1]) if target and name != "RET" else None
            always = not x.guarded and x.opcode.split(".")[1:] in ([], ["REL", "NODEC"]) and "P" not in x.operands[:4]
            found[number] = (*(() if to is None else (to,)), *(() if always else (number + 1,)))
        return found

    @cached_property
    def hasty(self) -> tuple[Instruction, ...]:
        """Instructions that use a warp group's accumulators before the wait for its products, in program order. A
        kernel with one computes with incomplete sums."""
        groups: list[set[str]] = [set()]  # accumulator registers of pending products, by group of the wait
        found = []
        for x in self.instructions:
            if (shape := _SHAPE.search(x.opcode)) is not None and "GMMA" in x.opcode:
                first = int(_REGISTER.findall(x.operands)[0])
                groups[-1] |= {str(first + i) for i in range(int(shape[2]) // 2)}
                if "gsb0" in x.operands:
                    groups.append(set())
            elif x.opcode == "WARPGROUP.DEPBAR.LE":
                left = int(x.operands.rpartition("0x")[2], 16)
                groups = groups[len(groups) - 1 - left :] if left < len(groups) else groups
            elif not set().union(*groups).isdisjoint(_REGISTER.findall(x.operands)):
                found.append(x)
        return tuple(found)

    @cached_property
    def main_loop(self) -> tuple[Instruction, ...]:
        """The loop with most multiply-adds (on matrix units if the kernel has any); the shortest of equals.

        An outer loop counts without its inner loops' multiply-adds. The whole kernel without loops, or if no loop
        contains its matrix instructions: then the compiler has unrolled that loop.
        """
        start, end = self._main
        return self.instructions[start : end + 1]

    @cached_property
    def usual_loop(self) -> tuple[Instruction, ...]:
        """The main loop without code that a warp's vote branches around: attention rescales its sums in few blocks."""
        start, end = self._main
        kept, number, voted = [], start, False
        while number <= end:
            x = self.instructions[number]
            kept.append(x)
            onward = max(self._onward.get(number, (0,))) if voted and x.opcode == "BRA" else 0
            voted = x.opcode.startswith("VOTE.") or (voted and x.opcode != "BRA")
            number = onward if number < onward <= end else number + 1
        return tuple(kept)

    @cached_property
    def _main(self) -> tuple[int, int]:
        """First and last instruction of the main loop."""
        whole = (0, len(self.instructions) - 1)
        spans = self.loops or (whole,)

        def work(start: int, end: int) -> tuple[int, int]:
            body = self.instructions[start : end + 1]
            return (
                sum(x.multiply_adds for x in body if x.kind == "tensor"),
                sum(x.multiply_adds for x in body),
            )

        def rank(span: tuple[int, int]) -> tuple[int, int, int]:
            start, end = span
            inner = [x for x in spans if x != span and start <= x[0] and x[1] <= end]
            most = max((work(*x) for x in inner), default=(0, 0))
            mine = work(start, end)
            return mine[0] - most[0], 0 if mine[0] else mine[1] - most[1], start - end

        if work(*whole)[0] and not any(work(*x)[0] for x in spans):
            return whole  # the compiler has unrolled the loop over products
        return max(spans, key=rank)


def classes(instructions: tuple[Instruction, ...]) -> dict[str, int]:
    """Number of instructions of each class, largest first."""
    return dict(Counter(x.kind for x in instructions).most_common())


def bank_reads(loop: tuple[Instruction, ...]) -> tuple[int, int]:
    """Registers that a loop's multiply-adds (``FFMA``) fetch from the banks of even and of odd numbers.

    An operand that the previous instruction cached at the same position (``.reuse``) is not fetched again.
    """
    counts = [0, 0]
    kept = _kept(loop[-1]) if loop else {}
    for x in loop:
        if x.opcode.split(".")[0] == "FFMA":
            fetched = {name for place, name in _read(x).items() if kept.get(place) != name}
            for name in fetched:
                counts[int(name) % 2] += 1
        kept = _kept(x)
    return counts[0], counts[1]


def _read(x: Instruction) -> dict[int, str]:
    """Numbers of the registers that an instruction reads, by operand position."""
    return {n: found[1] for n, text in enumerate(x.sources) if (found := _REGISTER.search(text)) is not None}


def _kept(x: Instruction) -> dict[int, str]:
    """The registers of :func:`_read` that the instruction caches for the next one, by operand position."""
    return {n: name for n, name in _read(x).items() if ".reuse" in x.sources[n]}


def disassemble(cubin: bytes, deadline: float = DEADLINE) -> dict[str, Code]:
    """The kernels of a cubin by name. Raises ``NoDisassembler``, and ``TilewrightError`` if the disassembler fails."""
    tool = find_disassembler()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            done = subprocess.run(
                [tool, "-c", "-ndf", file.name],  # -ndf: skip the data-flow analysis, which does not change the output
                capture_output=True, text=True, errors="replace", timeout=deadline, check=False,
            )  # fmt: skip
        except OSError as e:
            raise NoDisassembler(f"{tool} does not start: {one_line(str(e))}", _HINT) from None
        except subprocess.TimeoutExpired:
            raise TilewrightError(f"{tool} took more than {deadline:g} s and was stopped") from None
    if done.returncode != 0:
        said = one_line(done.stderr) or f"exit code {done.returncode}"
        raise TilewrightError(f"{tool} does not read the cubin: {said}", "Use the one of the compiler's CUDA release")
    return parse(done.stdout)


def parse(text: str) -> dict[str, Code]:
    """The kernels of a disassembler listing by name."""
    found: dict[str, Code] = {}
    for name, lines in _functions(text):
        instructions: list[Instruction] = []
        labels: dict[str, int] = {}
        for line in lines:
            if (label := _LABEL.match(line)) is not None:
                labels[label[1]] = len(instructions)
            elif (x := _LINE.match(line)) is not None:
                instructions.append(Instruction(x[3], x[4], x[2] is not None))
        found[name] = Code(name, tuple(instructions), labels)
    return found


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        if (start := _FUNCTION.match(line)) is not None:
            if name:
                yield name, lines
            name, lines = start[1], []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def find_disassembler() -> str:
    """Path of ``nvdisasm``: ``$TILEWRIGHT_NVDISASM``, or found by :func:`~.tools.find_tool`. Raises
    ``NoDisassembler``."""
    return find_tool("nvdisasm", _VARIABLE, NoDisassembler, "reads machine code", _HINT)

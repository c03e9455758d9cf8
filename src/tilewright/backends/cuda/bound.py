"""The least time of a kernel: what its machine code asks of a multiprocessor, and of memory, or what its loops do.

A bound, no prediction: every resource is taken to be busy all the time, copies and arithmetic to overlap, and shared
memory to be free of conflicts. Which resource takes longest says what an edit must change. A GPU's own counters stand
beside it in ``tilewright check --sass --profile``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from tilewright.backends.cuda.archs import ARCHITECTURES
from tilewright.backends.cuda.sass import PASS, WARP, Code, Instruction, bank_reads
from tilewright.core import Target
from tilewright.serialization import Json

SCHEDULERS = 4
"""Instructions that a multiprocessor issues a clock: CUDA C++ Programming Guide, "SIMT Architecture"."""
L2_BYTES = 64
"""Bytes a clock from the second-level cache to a multiprocessor (Jia and others, arXiv:1804.06826, table 3.1)."""
SPECIAL = 16
"""Results of transcendental functions and of conversions between int and float, a clock and multiprocessor: CUDA C++
Programming Guide, "Arithmetic Instructions" (reciprocal, exponential, ...); Nsight Compute, "Pipelines" (both are the
XU's)."""
BANK_READS = 1
"""Operands of a warp that each of a scheduler's two register banks delivers a clock: 1,024 bits (Huerta and others,
arXiv:2503.20481, section 5.3)."""
WARP_MMA = 0.62
"""Share of Hopper's peak that instructions of a warp reach; only those of a warpgroup have all of it (Luo and others,
arXiv:2402.13499, section IV-C). Of float64 there are those of a warp alone, which have all of its peak."""
DP4A = 4 * 64
"""Multiply-adds of bytes on ordinary units, a clock and multiprocessor: four for each 32-bit one, of which there are 64
in every architecture here (CUDA C++ Programming Guide, "Arithmetic Instructions"; it does not list dot products)."""
_PEAK = {"fp32": 0, "fp64": 1, "fp16": 2, "tf32": 3, "int8": 4, "fp64_tensor": 5}

_MATRIX = ("fp16", "tf32", "int8", "fp64_tensor")


@dataclass(frozen=True)
class Work:
    """One launch and what it computes: blocks (where they walk over tiles, tiles), threads a block that compute,
    blocks that a multiprocessor holds at once, operations of its multiply-adds (0: not counted), bytes that must move
    between memory and the device at least, bytes that blocks ask for, and bytes that warps read from shared memory,
    each byte once a warp (0 for either: as the instructions tell). ``even``: blocks take equally long."""

    blocks: int
    threads: int
    resident: int
    flops: float
    moved_bytes: float
    asked_bytes: float = 0.0
    read_bytes: float = 0.0
    even: bool = True


@dataclass(frozen=True)
class Bound(Json):
    """``cycles`` that a kernel takes at least, by which resource (``tensor``, ``fma``, ``registers``, ``mufu``,
    ``issue``, ``shared``, ``l2``, ``dram``, ``waves``: some multiprocessors have more blocks), and the ``share`` of the
    arithmetic peak that this leaves. ``loop``: clocks of each resource for one iteration of the main loop of one
    block. ``busy``: clocks that the whole kernel keeps each resource busy, on average of the multiprocessors."""

    by: str
    cycles: float
    share: float
    loop: Mapping[str, float]
    busy: Mapping[str, float]


def loop_cycles(loop: tuple[Instruction, ...], threads: int, resident: int, variant: str) -> dict[str, float]:
    """Clocks of a multiprocessor for one iteration of the loop by a block, by resource, with so many blocks on it."""
    warps, level = ceil(threads / WARP), _level(threads, resident)
    arithmetic = {"tensor": 0.0, "fma": 0.0}
    for x in loop:
        if work := x.multiply_adds:
            rate = _rate(x.unit, variant, x.kind == "tensor" and "GMMA" not in x.opcode)
            arithmetic["tensor" if x.kind == "tensor" else "fma"] += warps * work / rate * level
    return {
        **arithmetic,
        "registers": warps * max(bank_reads(loop)) / BANK_READS / SCHEDULERS * level,
        "mufu": warps * sum(x.special for x in loop) / SPECIAL * level,
        "issue": warps * len(loop) / SCHEDULERS * level,
        "shared": warps * sum(x.shared_passes for x in loop),
        "l2": warps * sum(x.loaded_bytes for x in loop) / L2_BYTES,
    }


def bound(code: Code, work: Work, target: Target) -> Bound:
    """The bound of one kernel; its main loop counts where that holds the multiply-adds of the task."""
    loop = code.usual_loop
    work = replace(work, resident=min(work.resident, _fullest(work, target)))
    spent = loop_cycles(loop, work.threads, work.resident, target.variant)
    inside = sum(x.multiply_adds for x in loop) * ceil(work.threads / WARP)
    arithmetic = "tensor" if spent["tensor"] else "fma"
    if not work.flops or not multiplies(loop):
        dram = _dram(work, target)
        return Bound("dram", dram, 0.0, spent, {"dram": dram})
    unit = next(x.unit for x in loop if x.multiply_adds and (x.kind == "tensor") == (arithmetic == "tensor"))
    trips = work.flops / 2 / (inside * work.blocks)
    each = {name: trips * c for name, c in spent.items()}
    if arithmetic == "fma":
        # Loads of operands, whose lanes share addresses, are counted as one pass: what they read may take more.
        loads = ceil(work.threads / WARP) * sum(x.opcode.startswith("LDS") for x in loop)
        each["shared"] += max(0.0, work.read_bytes / work.blocks / PASS - trips * loads)
    return _least(each, spent, unit, work, target)


def estimate(work: Work, unit: str, shared_bytes: float, target: Target, warpgroups: bool = False) -> Bound:
    """The bound of a kernel that is not compiled, by what its loops ask for: multiply-adds on a ``unit`` (named as in
    machine code; of ``warpgroups``, or of warps), ``shared_bytes`` that all blocks together read from shared memory,
    and the bytes of ``work``. What else is executed is not known, so that the machine code may need more."""
    tensor = unit in _MATRIX
    rate = _rate(unit, target.variant, tensor and not warpgroups)
    level = _level(work.threads, min(work.resident, _fullest(work, target)))
    each = {
        "tensor" if tensor else "fma": work.flops / 2 / work.blocks / rate * level,
        "shared": shared_bytes / work.blocks / PASS,
        "l2": 0.0,
    }
    return _least(each, {}, unit, work, target)


def _least(each: Mapping[str, float], loop: Mapping[str, float], unit: str, work: Work, target: Target) -> Bound:
    """The bound of blocks that take ``each`` clocks of a multiprocessor, by resource."""
    sms = int(target.limit["sms"])
    of_device = {"l2": work.asked_bytes / (L2_BYTES * sms), "dram": _dram(work, target)}  # however blocks are scheduled

    def clocks(blocks: float) -> dict[str, float]:
        """Clocks of a multiprocessor, by resource, that computes ``blocks`` blocks."""
        own = {name: blocks * c for name, c in each.items()}
        return {name: max(own.get(name, 0.0), of_device.get(name, 0.0)) for name in (*own, "dram")}

    busy = clocks(work.blocks / sms)
    fullest = clocks(_fullest(work, target)) if work.even else busy
    by = max(fullest, key=lambda name: fullest[name])
    most = max(fullest[by], 1.0)
    if most > 1.05 * max(busy.values()):
        by = "waves"
    return Bound(by, most, work.flops / 2 / (_rate(unit, target.variant) * sms) / most, loop, busy)


def _dram(work: Work, target: Target) -> float:
    """Clocks in which memory moves what it must."""
    return work.moved_bytes / float(target.limit["bandwidth"]) * float(target.limit["clock_hz"])


def _fullest(work: Work, target: Target) -> int:
    """Blocks of the multiprocessor that has most."""
    return ceil(work.blocks / int(target.limit["sms"]))


def _level(threads: int, resident: int) -> float:
    """How unevenly warps lie on the four schedulers, each with matrix and arithmetic units of its own: 1 where they
    fill all. Of several blocks one may end and another begin while others run, so that all have work."""
    warps = ceil(threads / WARP)
    alone = ceil(warps / SCHEDULERS) if resident == 1 else 1
    return max(1.0, alone * SCHEDULERS / (warps * resident))


def _rate(unit: str, variant: str, of_warps: bool = False) -> float:
    """Multiply-adds of a unit (:attr:`~.sass.Instruction.unit`) in a clock of a multiprocessor; of matrix instructions
    ``of_warps``, or of warp groups."""
    rate = DP4A if unit == "dp4a" else ARCHITECTURES[variant].lanes[_PEAK[unit]]
    slower = of_warps and variant.startswith("sm_90") and unit != "fp64_tensor"
    return rate * WARP_MMA if slower else rate


def multiplies(loop: tuple[Instruction, ...]) -> bool:
    """Whether a loop is a product's, no chain of functions: it has matrix instructions, or is mostly multiply-adds."""
    if any(x.kind == "tensor" for x in loop):
        return True
    return 2 * sum(1 for x in loop if x.multiply_adds) > len(loop)

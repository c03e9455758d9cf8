"""A lower bound of a kernel's time: from its machine code, or from its loops, and the rates of a multiprocessor.

It is a bound, not a prediction. Every resource counts as busy all the time, copies and arithmetic as overlapped, and
shared memory as free of bank conflicts. The resource that takes longest shows what an edit must change.
``tilewright check --sass --profile`` also shows a GPU's own counters.
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
"""Instructions that a multiprocessor issues per clock: CUDA C++ Programming Guide, "SIMT Architecture"."""
L2_BYTES = 64
"""Bytes per clock from the L2 cache to a multiprocessor (Jia and others, arXiv:1804.06826, table 3.1)."""
SPECIAL = 16
"""Results per clock and multiprocessor of transcendental functions, and of conversions between int and float: CUDA C++
Programming Guide, "Arithmetic Instructions" (reciprocal, exponential, ...); Nsight Compute, "Pipelines" (the XU is the
unit of both)."""
BANK_READS = 1
"""Operands of a warp that each of a scheduler's two register banks delivers per clock: 1,024 bits (Huerta and others,
arXiv:2503.20481, section 5.3)."""
WARP_MMA = 0.62
"""Share of Hopper's peak that matrix instructions of a single warp reach; only warp group instructions reach all of it
(Luo and others, arXiv:2402.13499, section IV-C). For float64 only warp instructions exist, which reach the peak."""
DP4A = 4 * 64
"""Multiply-adds of bytes on CUDA cores, per clock and multiprocessor: four for each of the 64 32-bit lanes that every
architecture here has (CUDA C++ Programming Guide, "Arithmetic Instructions", which does not list dot products)."""
_PEAK = {"fp32": 0, "fp64": 1, "fp16": 2, "tf32": 3, "int8": 4, "fp64_tensor": 5}

_MATRIX = ("fp16", "tf32", "int8", "fp64_tensor")


@dataclass(frozen=True)
class Work:
    """One launch and its work. ``blocks``: number of blocks, or of tiles for persistent blocks. ``threads``: computing
    threads per block. ``resident``: blocks per multiprocessor at once. ``flops``: operations of its multiply-adds (0:
    not counted). ``moved_bytes``: least bytes between memory and the device. ``asked_bytes``: bytes that blocks
    request. ``read_bytes``: bytes that warps read from shared memory, each byte once per warp. The last two may be 0:
    the instructions then tell. ``even``: whether all blocks take equally long."""

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
    """``cycles``: least clocks of a kernel. ``by``: the limiting resource (``tensor``, ``fma``, ``registers``,
    ``mufu``, ``issue``, ``shared``, ``l2``, ``dram``, ``waves``: some multiprocessors have more blocks). ``share``: the
    largest possible share of the arithmetic peak. ``loop``: clocks of each resource for one iteration of a block's main
    loop. ``busy``: clocks in which the whole kernel keeps each resource busy, averaged over the multiprocessors."""

    by: str
    cycles: float
    share: float
    loop: Mapping[str, float]
    busy: Mapping[str, float]


def loop_cycles(loop: tuple[Instruction, ...], threads: int, resident: int, variant: str) -> dict[str, float]:
    """Clocks by resource for one iteration of the loop by a block, with ``resident`` blocks on a multiprocessor."""
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
    """The bound of one kernel. Its main loop counts if it contains the task's multiply-adds."""
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
        # Operand loads, whose lanes share addresses, count as one pass each: the bytes that they read may take more.
        loads = ceil(work.threads / WARP) * sum(x.opcode.startswith("LDS") for x in loop)
        each["shared"] += max(0.0, work.read_bytes / work.blocks / PASS - trips * loads)
    return _least(each, spent, unit, work, target)


def estimate(work: Work, unit: str, shared_bytes: float, target: Target, warpgroups: bool = False) -> Bound:
    """The bound of a kernel before compilation, from its loops: multiply-adds on ``unit`` (named as in machine code; by
    ``warpgroups`` or by warps), ``shared_bytes`` that all blocks together read from shared memory, and the bytes of
    ``work``. Other instructions are unknown, so the machine code may need more."""
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
    of_device = {"l2": work.asked_bytes / (L2_BYTES * sms), "dram": _dram(work, target)}  # for any schedule of blocks

    def clocks(blocks: float) -> dict[str, float]:
        """Clocks by resource of a multiprocessor that computes ``blocks`` blocks."""
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
    """Clocks for the least traffic with memory."""
    return work.moved_bytes / float(target.limit["bandwidth"]) * float(target.limit["clock_hz"])


def _fullest(work: Work, target: Target) -> int:
    """Largest number of blocks on a multiprocessor."""
    return ceil(work.blocks / int(target.limit["sms"]))


def _level(threads: int, resident: int) -> float:
    """Imbalance of warps over the four schedulers, each with its own matrix and arithmetic units: 1 if they fill all.
    With several resident blocks, one may start while others run, so that all schedulers have work."""
    warps = ceil(threads / WARP)
    alone = ceil(warps / SCHEDULERS) if resident == 1 else 1
    return max(1.0, alone * SCHEDULERS / (warps * resident))


def _rate(unit: str, variant: str, of_warps: bool = False) -> float:
    """Multiply-adds of a unit (:attr:`~.sass.Instruction.unit`) per clock and multiprocessor. ``of_warps``: by matrix
    instructions of warps instead of warp groups."""
    rate = DP4A if unit == "dp4a" else ARCHITECTURES[variant].lanes[_PEAK[unit]]
    slower = of_warps and variant.startswith("sm_90") and unit != "fp64_tensor"
    return rate * WARP_MMA if slower else rate


def multiplies(loop: tuple[Instruction, ...]) -> bool:
    """Whether a loop computes a product: it has matrix instructions, or consists mostly of multiply-adds."""
    if any(x.kind == "tensor" for x in loop):
        return True
    return 2 * sum(1 for x in loop if x.multiply_adds) > len(loop)

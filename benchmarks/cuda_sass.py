"""Main loops of CUDA kernels as machine code, beside Triton's for the same problem, compiled offline. Needs no GPU.

    python benchmarks/cuda_sass.py --out benchmarks/results/cuda_sass

Ours: the default schedule. Triton: of some usual tiles the one whose loop executes fewest instructions for its
multiply-adds and spills nothing, on Hopper with tiles that its copy engine fetches; without Triton ours alone.
8-bit reals: ours with one scale a row and column behind the loop. A *step* is 2,048 multiply-adds of a warp, one
mma.m16n8k16: loops of other tiles and of warpgroups' instructions are counted alike. Writes NAME.json and NAME.md.
Triton is no part of the development environment: pip install triton.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.backends.cuda import archs, cubin
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.cuda.sass import Instruction, classes, disassemble
from tilewright.checking.check import subject_of
from tilewright.checking.machine_code import costs
from tilewright.core import Candidate, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule

STEP = 16 * 8 * 16
SQUARE = {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"}
TYPES = {"bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8e4nv", "float32": "fp32"}
HEADS = {"b": 2, "h": 16, "lq": 2048, "lk": 2048, "dtype": "bfloat16"}
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("matmul", "sm_80", SQUARE),
    ("matmul", "sm_90a", SQUARE),
    ("matmul", "sm_90a", {**SQUARE, "dtype": "float16"}),
    ("scaled_mm", "sm_90a", {**SQUARE, "dtype": "float8_e4m3fn", "block": 4096, "trans_b": True}),
    ("matmul", "sm_90a", {**SQUARE, "dtype": "float32", "precision": "tf32_truncated", "trans_b": True}),
    ("attention", "sm_80", {**HEADS, "d": 64}),
    ("attention", "sm_80", {**HEADS, "d": 128}),
    ("attention", "sm_90a", {**HEADS, "d": 64}),
    ("attention", "sm_90a", {**HEADS, "d": 128}),
)
PRODUCTS = ((128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 32, 4, 4), (256, 128, 64, 8, 3))
"""Rows, columns and depth of a tile, warps, stages."""
BY_TMA = (
    (128, 256, 64, 8, 4), (128, 256, 128, 8, 3), (128, 128, 64, 4, 4), (128, 128, 128, 4, 3), (256, 128, 64, 8, 3),
    (64, 256, 64, 4, 4), (128, 256, 32, 8, 4), (128, 128, 64, 4, 3),
)  # fmt: skip
"""The same for Hopper's copy engine; those whose tiles do not fit shared memory are left out."""
ATTENTIONS = ((128, 64, 4, 2), (128, 64, 8, 2), (128, 128, 8, 2), (128, 128, 4, 2), (64, 64, 4, 2))
"""Queries and keys of a block, warps, stages."""


@dataclass(frozen=True)
class Loop:
    """A main loop: whose, which tile, registers a thread, its instructions, and those that it usually executes."""

    tile: str
    registers: int
    spills: int
    body: tuple[Instruction, ...]
    usual: tuple[Instruction, ...]

    @property
    def steps(self) -> float:
        return sum(x.multiply_adds for x in self.body if x.kind == "tensor") / STEP

    @property
    def others(self) -> float:
        """Instructions beside those of matrix units that are usually executed, a step."""
        return sum(x.kind != "tensor" for x in self.usual) / self.steps

    def to_json(self) -> dict[str, Any]:
        return {
            "tile": self.tile, "registers": self.registers, "spills": self.spills, "instructions": len(self.body),
            "usual": len(self.usual), "steps": self.steps, "others_a_step": round(self.others, 3),
            "classes": classes(self.body),
        }  # fmt: skip


def ours(op: str, arch: str, params: dict[str, Any]) -> Loop:
    task = Task(get_operator(op).workload(**params), archs.target(arch))
    schedule = default_schedule(task)
    [cost] = [c for c in costs(subject_of(Candidate(task, schedule))) if c.bound is not None]
    names = ("BM", "BN", "BK", "STAGES", "warps", "tiles", "stages", "q_registers", "GROUPS", "groups")
    tile = " ".join(f"{k}={v}" for k, v in schedule.values.items() if k in names)
    return Loop(tile, cost.registers, cost.spills, cost.code.main_loop, cost.code.usual_loop)


def tritons(op: str, arch: str, params: dict[str, Any]) -> Iterator[Loop]:
    """Triton's loops for its tiles; none where it is not installed."""
    if importlib.util.find_spec("triton") is None:
        return
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from acceptance import triton_kernels as kernels

    kind = TYPES[params["dtype"]]
    if op == "attention":
        function, numbers = kernels.attention, {"scale": "fp32", "length": "i32"}
        pointers = dict.fromkeys(("q", "k", "v", "o"), kind)
        tiles = [({"BM": m, "BN": n, "D": params["d"], "CAUSAL": False}, w, s) for m, n, w, s in ATTENTIONS]
        if arch == "sm_90a":
            function = kernels.attention_by_tma
            tiles = [({"BM": m, "BN": n, "D": params["d"]}, w, s) for m, n, w, s in ATTENTIONS]
    else:
        function, numbers = kernels.product, {"m": "i32", "n": "i32", "k": "i32"}
        pointers = {"a": kind, "b": kind, "c": "bf16" if kind.startswith("fp8") else kind}
        tiles = [({"BM": m, "BN": n, "BK": k, "GROUP": 8, "EVEN": True}, w, s) for m, n, k, w, s in PRODUCTS]
        if arch == "sm_90a":
            function, turned = kernels.product_by_tma, params.get("trans_b", False)
            tiles = [({"BM": m, "BN": n, "BK": k, "TRANS": turned}, w, s) for m, n, k, w, s in BY_TMA]
    for values, warps, stages in tiles:
        signature = {
            **{name: f"*{of}" for name, of in pointers.items()},
            **numbers,
            **dict.fromkeys(values, "constexpr"),
        }
        aligned = {(n,): [["tt.divisibility", 16]] for n, x in enumerate(signature) if x not in ("scale", *values)}
        source = ASTSource(function, signature=signature, constexprs=values, attrs=aligned)
        target = GPUTarget("cuda", archs.ARCHITECTURES[arch].cc, 32)
        made = triton.compile(source, target=target, options={"num_warps": warps, "num_stages": stages})
        if made.metadata.shared > archs.ARCHITECTURES[arch].shared_per_block:
            continue
        data = made.asm["cubin"]
        [(name, code)] = disassemble(data).items()
        found = cubin.parse(data).kernels[name]
        tile = " ".join(f"{k}={v}" for k, v in values.items() if k in ("BM", "BN", "BK"))
        yield Loop(
            f"{tile} warps={warps} stages={stages}", found.registers, found.stack_bytes, code.main_loop, code.usual_loop
        )


def table(rows: Sequence[dict[str, Any]], facts: dict[str, Any]) -> str:
    lines = [
        "Main loops in machine code, default schedules, beside Triton's for the same problem, "
        f"compiled on {facts['date']} with {facts['compiler']} and Triton {facts['triton']}, run nowhere. A step is "
        "2,048 multiply-adds of a warp (one mma.m16n8k16); others are all instructions beside those of matrix units. "
        "Where two numbers of instructions stand, the second is without what a warp skips by a vote in most rounds "
        "(attention's sums are scaled only when a score is far ahead of those before), and others count that.",
        "",
        "| case | ours: tile | registers | instructions | steps | others a step | Triton: tile | registers | "
        "instructions | steps | others a step | ours over Triton's |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        sides = []
        for side in (row["ours"], row["triton"]):
            sides.append(
                f"{side['tile']} | {side['registers']} | {_instructions(side)} | {side['steps']:.0f} | "
                f"{side['others_a_step']:.2f}"
                if side
                else "- | - | - | - | -"
            )
        ratio = row["ours"]["others_a_step"] / row["triton"]["others_a_step"] if row["triton"] else None
        lines.append(f"| {row['case']} | {' | '.join(sides)} | {f'{ratio:.2f}' if ratio else '-'} |")
    return "\n".join(lines) + "\n"


def _instructions(side: dict[str, Any]) -> str:
    usual = side.get("usual", side["instructions"])
    return f"{side['instructions']}, {usual}" if usual < side["instructions"] else str(usual)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write NAME.json and NAME.md")
    parser.add_argument("--check", action="store_true", help="a quick try that all of it works: the first case")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for op, arch, params in CASES[:1] if given.check else CASES:
        mine = ours(op, arch, params)
        theirs = [x for x in tritons(op, arch, params) if not x.spills]
        best = min(theirs, key=lambda x: x.others, default=None)
        sizes = "x".join(str(v) for k, v in params.items() if isinstance(v, int) and k not in ("block", "trans_b"))
        name = f"{op} {sizes} {params['dtype']} {arch}"
        rows.append({"case": name, "ours": mine.to_json(), "triton": best.to_json() if best else None})
        print(name, f"{mine.others:.2f}", f"{best.others:.2f}" if best else "-", flush=True)
    version = sys.modules["triton"].__version__ if "triton" in sys.modules else "not installed"
    facts = {"date": time.strftime("%Y-%m-%d"), "compiler": find_nvrtc("sm_90a").name, "triton": version}
    text = table(rows, facts)
    print(text)
    if given.out:
        given.out.with_suffix(".json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
        given.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()

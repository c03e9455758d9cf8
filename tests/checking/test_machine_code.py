"""Main loops of default CUDA schedules as compiled: an edit that makes one worse shows here, with no GPU.

The table is of one NVRTC; ``pytest --update-golden`` writes it again.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.shared import made_once
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.nvrtc import NoNvrtc, find_nvrtc
from tilewright.backends.cuda.sass import NoDisassembler, find_disassembler
from tilewright.checking.check import subject_of
from tilewright.checking.machine_code import KernelCost, costs, costs_together
from tilewright.core import Candidate, Schedule, Task, UsageError, Value
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, get_template

GOLDEN = Path(__file__).with_name("cuda_loops.json")
_CONV = {"n": 16, "ci": 256, "h": 28, "w": 28, "co": 256, "kh": 3, "kw": 3, "padding": 1, "dtype": "float16"}
_HEADS = {"b": 2, "h": 16, "lq": 2048, "lk": 2048, "dtype": "bfloat16"}
_SQUARE = {"m": 4096, "n": 4096, "k": 4096}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bfloat16 sm_80": ("matmul", "sm_80", {**_SQUARE, "dtype": "bfloat16"}),
    "bfloat16 sm_90a": ("matmul", "sm_90a", {**_SQUARE, "dtype": "bfloat16"}),
    "int8 sm_90a": ("matmul", "sm_90a", {**_SQUARE, "dtype": "int8"}),
    "int8 transposed sm_90a": ("matmul", "sm_90a", {**_SQUARE, "dtype": "int8", "trans_b": True}),
    "tf32 sm_80": ("matmul", "sm_80", {**_SQUARE, "precision": "tf32"}),
    "tf32 truncated sm_80": ("matmul", "sm_80", {**_SQUARE, "precision": "tf32_truncated"}),
    "experts sm_90a": ("grouped_matmul", "sm_90a", {**_SQUARE, "groups": 8, "dtype": "bfloat16"}),
    "float32 sm_80": ("matmul", "sm_80", _SQUARE),
    "few rows sm_80": ("matmul", "sm_80", {**_SQUARE, "m": 16, "dtype": "float16"}),
    "attention 64 sm_80": ("attention", "sm_80", {**_HEADS, "d": 64}),
    "attention 128 sm_90a": ("attention", "sm_90a", {**_HEADS, "d": 128}),
    "conv NHWC sm_80": ("conv2d", "sm_80", {**_CONV, "layout": "NHWC"}),
    "conv NCHW sm_80": ("conv2d", "sm_80", _CONV),
    "conv NHWC sm_90a": ("conv2d", "sm_90a", {**_CONV, "layout": "NHWC"}),
}
# For which Hopper has another default than for the smaller one.
LARGE = {"large": ("matmul", "sm_90a", {"m": 8192, "n": 8192, "k": 8192, "dtype": "bfloat16"})}
_WINDOWS = {"n": 32, "ci": 96, "d": 9, "h": 28, "w": 28, "co": 512, "kd": 3, "kh": 3, "kw": 3, "padding": 1}
_QUERIES = {"b": 2, "h": 8, "hk": 2, "lq": 1000, "lk": 1000, "d": 128}
# On Hopper, of bfloat16. The last has masks and parts by a block's row and column, beside the most that copying takes:
# a window's places.
COPYING: dict[str, tuple[str, dict[str, Any], dict[str, Value]]] = {
    "matmul": ("matmul", {"m": 4000, "n": 4104, "k": 4096, "bias": True}, {}),
    "experts": ("grouped_matmul", {"m": 4000, "n": 4104, "k": 4096, "groups": 8}, {}),
    "attention": ("attention", {**_QUERIES, "is_causal": True}, {}),
    "attention of pages": ("attention", {**_QUERIES, "lengths": True, "page": 40}, {}),
    "windows": ("conv3d", {**_WINDOWS, "layout": "NDHWC"}, {}),
    "windows for four blocks": ("conv3d", {**_WINDOWS, "layout": "NDHWC"}, {"CLUSTER": "2x2"}),
}


@pytest.fixture(scope="module")
def nvrtc() -> str:
    try:
        find_disassembler()
        return find_nvrtc("sm_90a").name
    except (NoNvrtc, NoDisassembler) as e:
        pytest.skip(e.message)


def untuned(operator: str, arch: str, params: dict[str, Any]) -> Candidate:
    task = Task(get_operator(operator).workload(**params), archs.target(arch))
    return Candidate(task, default_schedule(task))


def copying(operator: str, params: dict[str, Any], changed: dict[str, Value]) -> Candidate:
    """The default schedule with some knobs changed."""
    c = untuned(operator, "sm_90a", {**params, "dtype": "bfloat16"})
    values = {**c.schedule.values, **changed}
    return Candidate(c.task, get_template(c.schedule.template).space(c.task).schedule(values))


UNITS: dict[str, Callable[[], dict[str, Candidate]]] = {
    "sm_80": lambda: {c: untuned(*given) for c, given in CASES.items() if given[1] == "sm_80"},
    "sm_90a": lambda: {c: untuned(*given) for c, given in {**CASES, **LARGE}.items() if given[1] == "sm_90a"},
    "copying": lambda: {c: copying(*given) for c, given in COPYING.items()},
}
"""Cases that are compiled and disassembled at once."""


def works(candidates: dict[str, Candidate]) -> dict[str, KernelCost]:
    """Of each candidate the kernel that does the work."""
    found = costs_together([subject_of(c) for c in candidates.values()])
    return {
        case: cost
        for case, kernels in zip(candidates, found, strict=True)
        for cost in kernels
        if cost.bound is not None
    }


Read = Callable[[str], dict[str, KernelCost]]


@pytest.fixture(scope="module")
def read(nvrtc: str, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """The kernels of a unit, by case."""

    @cache
    def of_unit(unit: str) -> dict[str, KernelCost]:
        def make(folder: Path) -> None:
            (folder / "costs").write_bytes(pickle.dumps(works(UNITS[unit]())))

        made = made_once(tmp_path_factory, f"machine code of {unit}", make)
        found: dict[str, KernelCost] = pickle.loads((made / "costs").read_bytes())
        return found

    return of_unit


def measured(cost: KernelCost) -> dict[str, Any]:
    """What the table has of a case."""
    found = cost.to_json()
    loop, bound = found["loop"], found["bound"]
    return {
        "template": found["template"], "registers": found["registers"], "spills": found["spills"],
        "instructions": loop["instructions"], "mma": loop["mma"], "by": bound["by"],
        "share": round(bound["share"], 3), "classes": loop["classes"],
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_main_loops_are_as_they_were(case: str, read: Read, nvrtc: str, update_golden: bool) -> None:
    table = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"compiler": nvrtc, "kernels": {}}
    found = measured(read(CASES[case][1])[case])
    assert found["spills"] == 0
    if update_golden:
        table["compiler"], table["kernels"][case] = nvrtc, found
        table["kernels"] = {c: table["kernels"][c] for c in CASES if c in table["kernels"]}
        GOLDEN.write_text(json.dumps(table, indent=1) + "\n")
        return
    if table["compiler"] != nvrtc:
        pytest.skip(f"the table is of {table['compiler']}, not of {nvrtc}")
    assert found == table["kernels"][case], "better: pytest --update-golden; worse: find out why"


MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu_h200" / "first-light.jsonl"
SEEN = (
    "dd150cb5bf23", "6fcae21386b4", "9abe24ce1548", "5b50409218f4", "9e21440cdf50", "b03ae5c64a75", "a7cae2d3e031",
    "daaa9f4e4bae",
)  # fmt: skip
"""Kernels by the end of their rows' names: of float32, whose threads share operands; with few blocks; of bfloat16 near
the peak; of causal attention."""


def test_no_kernel_was_measured_to_be_faster_than_its_bound(nvrtc: str) -> None:
    """On an H200, whose limits are the target's. Schedules of templates that have changed since are left out."""
    target = archs.target("sm_90a")
    rows = [r for r in map(json.loads, MEASURED.read_text().splitlines()) if r["id"].split("/")[-1] in SEEN]
    candidates = {}
    for row in rows:
        op, *pairs = row["id"].split("/")[1].split()
        params = {k: json.loads(v.lower()) if v[0] in "TF0123456789" else v for k, v in (p.split("=") for p in pairs)}
        task, schedule = Task(get_operator(op).workload(**params), target), Schedule.from_json(row["schedule"])
        if get_template(schedule.template).version == schedule.version:
            candidates[row["id"]] = Candidate(task, schedule)
    if not candidates:
        pytest.skip("every template has changed since it was measured")
    found = works(candidates)
    for row in rows:
        cost = found.get(row["id"])
        if cost is not None and cost.bound is not None:
            least = cost.bound.cycles / float(target.limit["clock_hz"]) * 1e6
            assert 0.4 * row["us"] < least < row["us"], (row["id"], cost.bound.by)


def test_products_may_come_close_to_the_peak(read: Read) -> None:
    """By what their machine code asks for: with matrix instructions of a warp, and of a warp group."""
    hopper = read("sm_90a")
    for cost in (read("sm_80")["bfloat16 sm_80"], hopper["bfloat16 sm_90a"], hopper["large"]):
        assert cost.bound is not None
        assert cost.bound.share > 0.85


def test_only_cuda_has_machine_code_to_read() -> None:
    from tilewright.backends.cpu.targets import parse_target

    task = Task(get_operator("matmul").workload(m=8, n=8, k=8), parse_target("cpu:portable", allow_foreign=True))
    with pytest.raises(UsageError, match="not of cpu"):
        costs(subject_of(Candidate(task, default_schedule(task))))


@pytest.mark.parametrize("case", COPYING)
def test_the_group_that_copies_keeps_to_the_registers_left_to_it(case: str, read: Read) -> None:
    """What ``setmaxnreg`` gave away must not be used: the compiler says nothing of it.

    The code behind the hand-over copies, and names no register that was given away.
    """
    cost = read("copying")[case]
    code = cost.code.instructions
    [given] = [n for n, x in enumerate(code) if x.opcode.startswith("USETMAXREG.DEALLOC")]
    [taken] = [n for n, x in enumerate(code) if x.opcode.startswith("USETMAXREG.TRY_ALLOC")]
    stretches = cost.code.stretches(given)
    assert not any(first <= taken <= last for first, last in stretches)
    copies = [x for first, last in stretches for x in code[first : last + 1]]
    left = int(code[given].operands, 16)
    assert left == (40 if case == "experts" else 24)  # their rows are fetched one by one
    used = [int(r) for x in copies for r in re.findall(r"\bR(\d+)\b", x.operands)]
    assert any(x.opcode.startswith("UTMALDG") for x in copies)
    assert max(used) < left


def test_no_sum_is_touched_before_it_is_there(nvrtc: str) -> None:
    """Of groups that take turns: where the turn was given behind the loop, this kernel was wrong on an H200."""
    task = Task(get_operator("matmul").workload(m=16, n=4096, k=4096, dtype="bfloat16"), archs.target("sm_90a"))
    template = get_template("cuda_wgmma")
    turns = {
        "SWAP": True, "BM": 64, "GROUPS": 2, "BN": 16, "BK": 128, "STAGES": 7, "CLUSTER": "1x1", "persistent": True,
        "ping_pong": True, "store_boxes": False, "split_k": False, "tail": False, "tail_rows": False, "SPLIT": 1,
        "GROUP": 8,
    }  # fmt: skip
    subject = subject_of(Candidate(task, template.space(task).schedule(turns)))
    [cost] = costs(subject)
    assert not cost.code.hasty
    if nvrtc != json.loads(GOLDEN.read_text())["compiler"]:
        return  # another assembler may do otherwise
    early = re.compile(r"if \(t \+ 1 == 32 && lane == 0\) (tw::mbarrier_arrive\(.*\);)\n")
    found = early.search(subject.source)
    assert found is not None
    late = early.sub("\n", subject.source).replace(
        "tw::wgmma_wait<0>();", f"if (lane == 0) {found[1]} tw::wgmma_wait<0>();"
    )
    [cost] = costs(dataclasses.replace(subject, source=late))
    assert [x.opcode for x in cost.code.hasty] == ["F2FP.BF16.F32.PACK_AB"] * 4
    assert cost.to_json()["hasty"]

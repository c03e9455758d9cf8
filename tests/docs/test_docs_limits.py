"""The numbers of docs/limits.md are those of the code."""

from __future__ import annotations

import re

from blocks import ROOT

from tilewright.backends import cache
from tilewright.dashboard.serving.connections import DEFAULT
from tilewright.farm import client, keeper
from tilewright.farm.budgets import MESSAGE
from tilewright.kernels.expression.functions import MAX_DEPTH, MAX_NODES
from tilewright.kernels.operators import numeric
from tilewright.kernels.te.programs import MAX_OUTPUTS
from tilewright.kernels.te.tensors import MAX_ELEMENTS
from tilewright.models.folding import FREE, SECONDS, TIMES
from tilewright.models.model_file import MOST_NODES, OPSETS
from tilewright.runtime import misses

NUMBERS = {
    "an input, a result, the range of a reduction": f"fewer than 2^{MAX_ELEMENTS.bit_length()} elements",
    "an expression": f"{MAX_DEPTH} levels, {MAX_NODES:,} operations",
    "results of an operator": f"{MAX_OUTPUTS}",
    "inputs of `einsum`, `cat`": f"{len(numeric.NAMES)}",
    "a message of a farm": f"{round(MESSAGE.most / (1 << 20))} MiB",
    "a client's absence, until its jobs are dropped": f"{keeper.GRACE / 60:g} minutes",
    "a farm's absence, until a run ends": f"{client.PATIENCE / 60:g} minutes",
    "ONNX operator sets": f"{OPSETS[0]} to {OPSETS[1]}; of older ones, operators that mean the same",
    "constants of an ONNX model that are computed from its own": (
        f"{FREE >> 20} MiB and {TIMES} times its own, {SECONDS:g} seconds; the others when it runs"
    ),
    "operators of an ONNX model, those of its functions among them": f"{MOST_NODES:,}",
    "a dashboard's connections": f"{DEFAULT.connections}, by `--max-connections`; {DEFAULT.share} of them from one address",
    "the artifact cache": f"{cache.LIMIT >> 30} GiB, then the oldest goes",
    "misses that a program counts": f"{misses._KEPT:,} kinds",
}


def test_numbers_are_the_codes() -> None:
    section = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").partition("## Numbers")[2]
    rows = dict(re.findall(r"^\| (.+) \| (.+) \|$", section, re.MULTILINE))
    assert rows.pop("of") == "limit"
    assert rows == NUMBERS

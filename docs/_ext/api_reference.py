"""Signatures and descriptions of what programs import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tilewright

SPECIAL = {
    "te": "The language of operators: [operators](operators.md#the-language).",
    "nn": "Functions of tensors, named as PyTorch names them: [operators](operators.md).",
    "__version__": "The version, as text.",
}
"""Modules and values, whose descriptions have pages of their own."""

CLASSES = {"Library": ":members:", "Target": "", "Operator": "", "Explanation": "", "own_kernel": ""}
CONTRACTS = (
    ("tilewright.testing.operator", "OperatorContract"),
    ("tilewright.testing.template", "TemplateContract"),
    ("tilewright.testing.cuda_template", "CudaTemplateContract"),
    ("tilewright.testing.strategy", "StrategyContract"),
    ("tilewright.testing.cost_model", "CostModelContract"),
    ("tilewright.testing.backend", "BackendContract"),
    ("tilewright.testing.runner", "RunnerContract"),
)
"""Tests that an extension of each kind passes: the how-to pages say how."""
RESULTS = tuple(
    ("tilewright.tuner", name) for name in ("TuneResult", "BestKernel", "RangeResult", "RangeKernel", "Observer")
)
DATABASE = (("tilewright.database", "Database", ":members: open, runs, run, trials, kernels, close"),)

MODELS = (("tilewright.models.inference_session", "InferenceSession", ":members: run, io_binding, network"),)


def markdown(_docs: Path) -> str:
    out = ["## `tilewright`\n"]
    for name in tilewright.__all__:
        if name in SPECIAL:
            out.append(f"**`tilewright.{name}`** {SPECIAL[name]}\n")
            continue
        kind = "autoclass" if isinstance(getattr(tilewright, name), type) else "autofunction"
        out.append(_directive(kind, f"tilewright.{name}", CLASSES.get(name, "")))
    out.append("## Settings and results of `tune`\n")
    out.append(_directive("autoclass", "tilewright.tuner.TuneSettings"))
    out += [_directive("autoclass", f"{module}.{name}", ":members:") for module, name in RESULTS]
    out.append("## Reading a database\n")
    out += [_directive("autoclass", f"{module}.{name}", options) for module, name, options in DATABASE]
    out.append("## ONNX models\n")
    out += [_directive("autoclass", f"{module}.{name}", options) for module, name, options in MODELS]
    out.append("## Contracts for extensions\n")
    out += [_directive("autoclass", f"{module}.{name}") for module, name in CONTRACTS]
    return "\n".join(out)


MADE = re.compile(r"<factory>|<function [\w.]*(?:<lambda>)?(?: at 0x\w+)?>|<[\w.]+ object at 0x\w+>")


def plain_signature(
    _app: Any, _what: str, _name: str, _given: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature without how Python shows what is made anew for each call, or at an address."""
    return (None if signature is None else MADE.sub("...", signature)), returned


def _directive(kind: str, name: str, options: str = "") -> str:
    inner = f".. {kind}:: {name}\n" + (f"   {options}\n" if options else "")
    return "```{eval-rst}\n" + inner + "```\n"

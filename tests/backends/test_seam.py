"""The seam: outside of ``backends/`` no file asks for a kind of device by name, but for those listed here with a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import tilewright
from tilewright.backends import BACKENDS

ROOT = Path(tilewright.__file__).parent

HOST = "kernels as functions of this process: plans, defaults and their call are a CPU's by nature"
NUMPY = "compares with libraries of this processor"
PRINTER = "prints for one kind, or says which language a kind's kernels are written in"
OWN = "the language of a user's file: C++ or CUDA C++"
OTHER = "another meaning of the word: a folder of the system, a clock, a field of a report"
TORCH = "PyTorch's name of a kind of memory"
JAX = "JAX's name of a platform"
CONTRACT = "a contract's examples"
COUNTERS = "hardware counters are read by NVIDIA's profiler"

LEFT = {
    "baselines/compare.py": (3, NUMPY),
    "bundles/check.py": (1, HOST),
    "bundles/export/library.py": (3, "functions in C are a CPU's"),
    "checking/check.py": (5, "checks on the emulator, whose findings it reads"),
    "checking/machine_code.py": (7, "reads what NVIDIA's compiler made"),
    "cli/commands/bench.py": (2, NUMPY),
    "checking/native.py": (5, "checks kernels of this processor, with its compiler"),
    "cli/commands/check.py": (7, OWN),
    "cli/commands/explain.py": (1, COUNTERS),
    "cli/commands/prepare.py": (3, "checks on the emulator what is for CUDA"),
    "cli/commands/tune.py": (1, NUMPY),
    "core.py": (1, "the default of a field that stored runs have"),
    "cost_model/bound.py": (2, "the formula is of what NVIDIA's machine code asks for"),
    "dashboard/metrics.py": (1, OTHER),
    "farm/health.py": (5, "writes the command that starts a runner of a device class"),
    "farm/server.py": (1, OTHER),
    "insight/counters.py": (5, COUNTERS),
    "jax/native.py": (4, HOST),
    "jax/primitive.py": (1, JAX),
    "kernels/codegen/cuda_prelude.py": (3, PRINTER),
    "kernels/codegen/sources.py": (11, PRINTER),
    "kernels/primitives/conformance.py": (1, "where outputs were recorded, if nobody says"),
    "kernels/templates/__init__.py": (1, "how names of templates for all GPUs begin"),
    "kernels/templates/cuda_attention/template.py": (1, PRINTER),
    "kernels/templates/cuda_mma/template.py": (1, PRINTER),
    "kernels/templates/cuda_grouped/template.py": (1, PRINTER),
    "kernels/templates/cuda_wgmma/template.py": (1, PRINTER),
    "kernels/templates/planned.py": (1, "what most templates print for"),
    "kernels/templates/user_kernel/binding.py": (4, OWN),
    "kernels/templates/user_kernel/kernel.py": (7, OWN),
    "kernels/templates/user_kernel/template.py": (2, OWN),
    "kernels/templates/partition/cuda.py": (1, PRINTER),
    "kernels/templates/partition/template.py": (2, PRINTER),
    "kernels/templates/cpu_winograd/match.py": (1, PRINTER),
    "measure/counters.py": (1, COUNTERS),
    "measure/session.py": (2, HOST),
    "models/extract.py": (1, HOST),
    "models/io_binding.py": (3, "onnxruntime's name of a device"),
    "runtime/choice.py": (2, HOST),
    "runtime/defaults.py": (4, HOST),
    "runtime/misses.py": (1, HOST),
    "runtime/pycall.py": (2, HOST),
    "runtime/resolve.py": (1, HOST),
    "runtime/sequence.py": (1, HOST),
    "runtime/serving.py": (1, HOST),
    "testing/assembly.py": (2, CONTRACT),
    "testing/cost_model.py": (1, CONTRACT),
    "testing/cuda_template.py": (3, CONTRACT),
    "testing/template.py": (4, CONTRACT),
    "torch/devices.py": (2, TORCH),
    "torch/native.py": (6, HOST),
    "torch/optimize.py": (4, HOST),
    "torch/placed.py": (1, TORCH),
    "torch/serving.py": (1, TORCH),
    "tuner/prepare.py": (1, "what machine code says, by its type"),
}
"""File -> how often it names a backend or imports from one, and why it may."""


MENTION = re.compile(rf"[\"'](?:{'|'.join(BACKENDS)})|tilewright\.backends")


def mentions(path: Path) -> int:
    """How often a file names a backend, a target or a device as a string, or imports from a backend's folder."""
    count = 0
    text = path.read_text(encoding="utf-8")
    if not MENTION.search(text):
        return 0  # reading all takes a second
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name, _, rest = node.value.partition(":")
            count += name in BACKENDS and " " not in rest and (rest != "" or node.value == name)
        elif isinstance(node, ast.ImportFrom) and node.module == "tilewright.backends":
            count += sum(a.name in BACKENDS for a in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilewright.backends."):
            count += str(node.module).split(".")[2] in BACKENDS
    return count


def test_nobody_else_asks_for_a_kind_by_name() -> None:
    files = (p for p in sorted(ROOT.rglob("*.py")) if p.relative_to(ROOT).parts[0] != "backends")
    found = {p.relative_to(ROOT).as_posix(): n for p in files if (n := mentions(p))}
    assert found == {name: count for name, (count, _) in LEFT.items()}


def test_backends_do_not_stand_on_each_other() -> None:
    """But for the emulator, which runs CUDA's targets with the CPU's compiler, as CUDA's choice of a driver knows."""
    allowed = {("emulator", "cpu"), ("emulator", "cuda")}
    for name in BACKENDS:
        for path in (ROOT / "backends" / name).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                module = getattr(node, "module", "") if isinstance(node, ast.ImportFrom) else ""
                other = (module or "").removeprefix("tilewright.backends.").split(".")[0]
                assert other == name or other not in BACKENDS or (name, other) in allowed, f"{path}: {module}"

"""Prepared kernels that are wrong in ways of their own, as a faulty template would make them. They run on the emulator."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from tilewright.backends.emulator.toolchain import EmulatorToolchain
from tilewright.building.prepared import read
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.templates import lower

STATEMENTS = ("*(volatile int *)16 = 1;", "if (blockIdx.x == 0) return;")
"""What the first kernels begin with: a write where nothing may be, and a block that writes nothing."""


def spoil(folder: Path, to: Path) -> Path:
    """A copy of prepared folders in which the first kernels of the first one are spoilt."""
    shutil.copytree(folder, to)
    one = next(to.iterdir())
    text = json.loads((one / "prepared.json").read_text())
    for (candidate, _), entry, statement in zip(read(one).items, text["kernels"], STATEMENTS, strict=False):
        kernel, target = lower(candidate), candidate.task.target
        at = kernel.source.index("{", kernel.source.index(f"void {kernel.symbol}(")) + 1
        source = prelude(target, True) + kernel.source[:at] + statement + kernel.source[at:]
        built = EmulatorToolchain(target).compile(source, list(kernel.program.symbols))
        data = Path(built.path).read_bytes()
        entry["sha256"] = sha = hashlib.sha256(data).hexdigest()
        entry["file"] = f"kernels/{sha}.cubin"
        (one / entry["file"]).write_bytes(data)
    (one / "prepared.json").write_text(json.dumps(text))
    return to

"""docs/gpu_status.md lists every CUDA template and primitive."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.kernels.primitives import PRIMITIVES
from tilewright.kernels.templates import TEMPLATES

TEXT = (Path(__file__).parents[1] / "docs" / "gpu_status.md").read_text(encoding="utf-8")


def rows(heading: str) -> set[str]:
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_template_and_primitive_has_a_row() -> None:
    assert rows("Templates") == {n for n, t in TEMPLATES.items() if "cuda" in t.kinds and n != "own"}
    assert rows("Primitives") == {p.name for p in PRIMITIVES}

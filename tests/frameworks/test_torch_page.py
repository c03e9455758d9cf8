"""The code of docs/pytorch.md runs, and what docs/cookbook.md has of PyTorch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"
HOW = "trials=1, rest='eager', cost_model='random', compare=False"


@pytest.mark.usefixtures("backend_by_name")
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    x, weight = torch.randn(2, 16, requires_grad=True), torch.randn(4, 16)
    names: dict[str, Any] = {"x": x, "weight": weight, "bias": torch.randn(4)}
    for block in blocks:
        text = block.replace("512", "16").replace("time_budget=600", HOW)
        text = text.replace("fullgraph=True", "fullgraph=True, options={'rest': 'eager'}")
        exec(compile(text, str(PAGE), "exec"), names)
    assert names["fast"].library.stats().tiers["exact"] == 4
    assert x.grad.shape == x.shape
    with torch.no_grad():
        example = torch.randn(8, 16)
        torch.testing.assert_close(names["compiled"](example), names["model"](example))


def test_the_recipe_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (PAGE.parent / "cookbook.md").read_text()
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "import torch" in b]
    small = block.replace("256", "16").replace("512", "24")
    small = small.replace("time_budget=120", HOW)
    names: dict[str, Any] = {}
    exec(compile(small, "cookbook.md", "exec"), names)
    assert names["fast"].library.stats().tiers["exact"] == 4  # optimize compares the result, too

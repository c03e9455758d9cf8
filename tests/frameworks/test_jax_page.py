"""The code of docs/jax.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax: Any = pytest.importorskip("jax", reason="JAX is not installed: make test-torch")

PAGE = Path(__file__).parents[2] / "docs" / "jax.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    small = block.replace("512", "16").replace("time_budget=60", "trials=1, cost_model='random'")
    names: dict[str, Any] = {}
    exec(compile(small, str(PAGE), "exec"), names)
    stats = names["library"].stats()
    assert stats.tiers["exact"] == 3
    assert stats.reasons == {"untuned": 2}
    x, w = names["x"], names["w"]
    wanted = jax.grad(lambda x, w: jax.nn.softmax(x @ w).max(), (0, 1))(x, w)
    for got, right in zip(names["gradients"], wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-6)

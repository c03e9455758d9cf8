"""The notebooks of ``examples/`` run from a fresh kernel, and are kept without what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


def cells(notebook: Any) -> dict[str, Any]:
    return {cell["id"]: cell for cell in notebook["cells"]}


def test_there_is_one() -> None:
    assert [p.name for p in NOTEBOOKS] == ["first_kernel.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_not_kept(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_first_kernel(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat: pip install nbclient")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install nbclient")
    pytest.importorskip("ipykernel", reason="needs ipykernel: pip install ipykernel")
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    asked = cells(notebook)["tune"]
    assert "trials=24" in asked["source"]
    asked["source"] = asked["source"].replace("trials=24", "trials=4")  # as many as show that it runs
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    done = cells(notebook)
    bars = [o["data"] for o in done["tune"]["outputs"] if o["output_type"] == "display_data"]
    assert len(bars) == 1, "one bar, which is updated"
    assert "4/4 trials" in bars[0]["text/html"]
    (result,) = [o["data"] for o in done["tune"]["outputs"] if o["output_type"] == "execute_result"]
    assert "sqdist m=128 n=128 k=32" in result["text/html"]
    assert result["text/plain"].startswith("<TuneResult sqdist")
    assert "exact" in done["serve"]["outputs"][0]["text"]
    assert (tmp_path / "notebook.db").exists()

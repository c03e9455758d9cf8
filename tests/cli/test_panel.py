"""The panel at the end of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright


def test_the_panels_line_for_python_is_python(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["matmul", "m=4", "n=5", "k=6", "bias=true", "activation=relu"]
    told = cli("tune", *given, "--trials", "1", "--cost-model", "random", "--db", "t.db")
    [line] = re.findall(r"in Python +(tilewright\..*\))", told.out + told.err)
    assert line.endswith("plan('matmul', m=4, n=5, k=6, bias=True, activation='relu')")
    a, b = np.ones((4, 6), np.float32), np.ones((6, 5), np.float32)
    np.testing.assert_allclose(eval(line, {"tilewright": tilewright})(a, b, -b[0]), a @ b - 1)

"""The networks of ``examples/networks.py``, small ones, as files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def networks() -> Any:
    file = Path(__file__).parents[2] / "examples" / "networks.py"
    spec = importlib.util.spec_from_file_location("example_networks", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

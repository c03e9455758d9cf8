"""Benchmarks, scripts and examples, most of which no test runs, import names that the package has."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@cache
def imported() -> dict[str, dict[str, str]]:
    """The names that are imported from each module of the package, and a file that imports each."""
    found = defaultdict[str, dict[str, str]](dict)
    for folder in ("benchmarks", "scripts", "examples", "fuzz", "docs/_ext"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tilewright":
                    for name in node.names:
                        found[str(node.module)].setdefault(name.name, path.relative_to(ROOT).as_posix())
    return found


@pytest.mark.parametrize("module", sorted(imported()))
def test_a_module_has_the_names_that_other_folders_import(module: str) -> None:
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as e:
        if str(e.name).startswith("tilewright"):
            raise
        pytest.skip(f"needs {e.name}")
    missing = [f"{name} ({where})" for name, where in imported()[module].items() if not _has(loaded, module, name)]
    assert not missing


def _has(loaded: object, module: str, name: str) -> bool:
    if hasattr(loaded, name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as e:
        return not str(e.name).startswith("tilewright")
    return True

"""Private names of other packages: each is known here, is there, and its package has an upper bound on its version."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tilewright"

PRIVATE = {
    "nats-py": {"_bare_io_writer", "_reading_task", "_subs", "_transport", "_wait_for_msgs_task"},
    "optuna": {"_frozen"},
    "pycuda": {"_launch_kernel"},
}
DOCUMENTED = {"_mapping", "_exit", "_getframe"}
"""Public in spite of their names: SQLAlchemy's rows, ``os`` and ``sys``."""
TORCH = ("torch/", "baselines/pytorch.py", "backends/cuda/arrays.py")
"""PyTorch's operators and tracing have private names only, and no extra installs PyTorch: `make test-torch` calls them."""
UNDOCUMENTED = ("uvicorn.",)
"""Modules whose names look public: what uvicorn documents is in `uvicorn` itself."""


def named(node: ast.AST) -> list[str]:
    """Names that an expression or an import takes from elsewhere."""
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        return [str(a.value) for a in node.args[1:2] if isinstance(a, ast.Constant)]
    if isinstance(node, ast.ImportFrom):
        return [*(node.module or "").split("."), *(a.name for a in node.names)]
    if isinstance(node, ast.Import):
        return [part for a in node.names for part in a.name.split(".")]
    return []


def defined(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return ""


def test_private_names_of_other_packages_are_known() -> None:
    own, used = set(), set()
    for path in SOURCE.rglob("*.py"):
        where = path.relative_to(SOURCE).as_posix()
        own.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            own.add(defined(node))
            used |= {n for n in named(node) if re.match(r"_[^_]", n) and not where.startswith(TORCH)}
            assert not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(UNDOCUMENTED)), where
    assert used - own - DOCUMENTED == set().union(*PRIVATE.values())


def requirements(name: str) -> list[str]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return [r for of in extras.values() for r in of if re.match(rf"{name}\b(?!-)", r)]


@pytest.mark.parametrize("name", PRIVATE)
def test_a_package_with_private_names_in_use_has_an_upper_bound(name: str) -> None:
    asked = requirements(name)
    assert asked
    assert [r for r in asked if not re.search(r",<\d", r)] == []


def test_nats_py_has_the_private_names_that_are_used() -> None:
    pytest.importorskip("nats")
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription
    from nats.aio.transport import TcpTransport

    client = Client()
    found = vars(client).keys() | vars(TcpTransport()).keys() | vars(Subscription(client)).keys()
    assert found >= PRIVATE["nats-py"]


def test_optuna_has_the_private_module_that_is_used() -> None:
    pytest.importorskip("optuna")
    from optuna.study._frozen import FrozenStudy

    assert FrozenStudy.__name__ == "FrozenStudy"

"""What a library's first calls import and lock, and forks in the middle of them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright.runtime
from tilewright.bundles.build import build
from tilewright.database import Database

CALLS = """
import importlib.metadata, logging, os, random, signal, sqlite3, subprocess, sys, tempfile, threading, time
import numpy as np
import numpy.polynomial
import tilewright

assert "tilewright.runtime" not in sys.modules  # each call below is a process's first
A = np.ones((4, 4), np.float32)
OPTIONS = {"compiled": {"compile": True}, "bundle": {"trust": "unsigned"}}
path, kind = sys.argv[1:3]

def opened():
    return tilewright.Library(path, **OPTIONS.get(kind, {}))

def call(library):
    if kind in ("untuned", "compiled"):
        return library.softmax(A)
    return library.matmul(A, A)
"""

IMPORTED = (
    CALLS
    + """
from tilewright.forking import steady

class Finder:
    sought = []
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if not steady._is_owned():
            cls.sought.append(name)

def others(library):
    library.plan("matmul", m=4, n=4, k=4)(A, A)
    library.plan("matmul", m=5, n=4, k=4)(np.ones((5, 4), np.float32), A)
    library.explain("matmul", m=6, n=4, k=4)
    library.linear(A, A, A[0])
    library.stats(), library.operators(), library.refresh()
    try:
        library.matmull
    except AttributeError:
        pass
    library.close()

sys.meta_path.insert(0, Finder)
library = opened()
call(library)
others(library)
print(*(name for name in Finder.sought if name in sys.modules))
"""
)

FORKED = (
    CALLS
    + """
SECONDS = 60  # until a child counts as hung; it needs a tenth of one

def within(work):
    signal.alarm(SECONDS)  # its default action ends the process
    work()
    os._exit(0)

def parent(moment, early):
    signal.alarm(2 * SECONDS)
    library = None if early else opened()
    work = lambda: call(library or opened())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(moment)
    child = os.fork()
    if child == 0:
        within(work)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    thread.join()
    os._exit(0 if code == 0 else 1 if code == -signal.SIGALRM else 2)

def outcome(moment, early):
    process = os.fork()
    if process == 0:
        parent(moment, early)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

early = sys.argv[3] == "opened"  # by the thread, instead of before it starts
drawn = random.Random(int(sys.argv[5]))
began = time.perf_counter()
assert outcome(0.0, early) == 0
longest = time.perf_counter() - began
for _ in range(int(sys.argv[4])):
    moment = drawn.uniform(0, longest / 2)  # the child made a call, too
    assert outcome(moment, early) == 0, f"a child hung: {moment=}"
"""
)


@pytest.fixture
def path(request: pytest.FixtureRequest, filled_database: Path, tmp_path: Path) -> Path:
    """A database, or a bundle of it."""
    if request.param != "bundle":
        return filled_database
    made = tmp_path / "kernels.twb"
    with Database.open(filled_database, create=False, readonly=True) as source:
        build(source, made, None)
    return made


def run(program: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kinds(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("path", "kind"), [(n, n) for n in names], indirect=["path"], ids=names)


@kinds("tuned", "untuned", "compiled", "bundle")
def test_first_calls_import_nothing_unless_forks_wait(path: Path, kind: str) -> None:
    assert run(IMPORTED, path, kind).split() == []


@pytest.mark.parametrize("begun", ["called", "opened"])
@kinds("tuned", "untuned", "bundle")
def test_children_forked_during_a_first_call_answer(path: Path, kind: str, begun: str) -> None:
    run(FORKED, path, kind, begun, 2 if kind == "untuned" else 9, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("begun", ["called", "opened"])
@kinds("tuned", "untuned", "compiled", "bundle")
def test_children_forked_at_many_moments_of_a_first_call_answer(path: Path, kind: str, begun: str) -> None:
    run(FORKED, path, kind, begun, 63, 1)


def inner_imports(node: ast.AST, guarded: bool = False, inside: bool = False) -> Iterator[int]:
    """Lines of imports within functions that are not within ``with steady``."""
    for child in ast.iter_child_nodes(node):
        function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        waits = isinstance(child, ast.With) and any(ast.unparse(i.context_expr) == "steady" for i in child.items)
        if isinstance(child, (ast.Import, ast.ImportFrom)) and inside and not guarded:
            yield child.lineno
        yield from inner_imports(child, guarded or waits, inside or function)


def test_functions_of_the_runtime_import_nothing_unless_forks_wait() -> None:
    folder = Path(str(tilewright.runtime.__file__)).parent
    files = sorted(folder.rglob("*.py"))
    assert files
    found = [f"{f.relative_to(folder)}:{line}" for f in files for line in inner_imports(ast.parse(f.read_text()))]
    assert found == []

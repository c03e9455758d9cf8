"""Reading a file of tasks: TOML with a ``[[task]]`` table each.

::

    [[task]]
    operator = "matmul"
    params = { m = 512, n = 512, k = 512, activation = "relu" }
    weight = 12         # calls, relative to the other tasks; 1 by default
    dtype = "float32"   # or among the params
    threads = 2         # by default the value of --threads

``target = "cuda"`` before the tables sets the target of all tasks; ``--target`` overrides it. A size may be a range,
``m = "1..256"``; ``portfolio = 4`` then limits the number of its kernels.

A task of a model (``tilewright extract``) has no operator of its own: ``program`` then holds its computation, and
``operator`` is its name. Tasks with the same ``choice`` are alternatives: only the fastest is called.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.core import TilewrightError, UsageError, Value
from tilewright.errors import nearest
from tilewright.kernels.anonymous import from_program
from tilewright.tuner.api import operator_of
from tilewright.tuner.many import TuneTask

KEYS = ("operator", "params", "weight", "dtype", "threads", "program", "choice", "portfolio")
_DEFAULTS: Mapping[str, Any] = {"weight": 1, "choice": "", "portfolio": 1}
_RULES: Sequence[tuple[str, Any, str, str]] = (
    ("operator", str, "a task has an operator", 'Write one as operator = "matmul"'),
    ("threads", int, "threads are a whole number above 0", "Write them as threads = 2"),
    ("weight", int | float, "a weight is a number above 0", "Write how often the task is called"),
    ("choice", str, "a choice is a name", "Write the same for tasks that stand for each other"),
    ("portfolio", int, "a portfolio is a whole number above 0", "Write how many kernels share it"),
)
"""Key, type, message for a value of another type, and hint."""
_EXAMPLE = "[[task]] tables with operator, params, and if you want weight, dtype and threads"


def target_of(path: Path) -> str:
    """Return the target of a file that :func:`read_tasks` has checked; ``auto`` if it names none."""
    return str(tomllib.loads(path.read_text(encoding="utf-8")).get("target", "auto"))


def read_tasks(path: Path, threads: int = 1) -> list[TuneTask]:
    """Read and check the tasks of a file: each makes a workload. Raises ``UsageError`` with the file and line.

    ``threads``: of the tasks that set none.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}", "Name a file of tasks") from e
    except UnicodeDecodeError as e:
        raise UsageError(f"{path} is not UTF-8 text", f"Write TOML: {_EXAMPLE}") from e
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{path} is not TOML: {e}", f"Write {_EXAMPLE}") from e
    tables = data.get("task")
    others = sorted(set(data) - {"task", "target"})
    if others:
        raise UsageError(f"{_at(path, text, -1, others[0])}: {others[0]!r} is unknown", f"Write {_EXAMPLE}")
    if not isinstance(data.get("target", ""), str):
        raise UsageError(f"{_at(path, text, -1, 'target')}: a target is a name", 'Write it as target = "cuda"')
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise UsageError(f"{path} has no tasks", f"Write {_EXAMPLE}")
    return [_task({"threads": threads, **t}, partial(_at, path, text, n)) for n, t in enumerate(tables)]


def _task(table: Mapping[str, Any], at: Callable[[str], str]) -> TuneTask:
    for key in table:
        if key not in KEYS:
            raise UsageError(f"{at(key)}: {key!r} is unknown", _instead(key, KEYS))
    for key, kind, wrong, write in _RULES:
        value = table.get(key, _DEFAULTS.get(key))
        if not isinstance(value, kind) or isinstance(value, bool) or (kind is int and value < 1):
            raise UsageError(f"{at(key)}: {wrong}", write)
    operator, params = table["operator"], table.get("params", {})
    if not isinstance(params, dict) or not all(isinstance(v, str | int | float | bool) for v in params.values()):
        raise UsageError(f"{at('params')}: params are sizes and attributes", "Write them as { m = 512, bias = true }")
    values: dict[str, Value | str] = dict(params)
    dtype = table.get("dtype")
    if dtype is not None:
        if not isinstance(dtype, str) or values.get("dtype", dtype) != dtype:
            raise UsageError(f"{at('dtype')}: dtype is one name", "Write it once, in the task or among its params")
        values["dtype"] = dtype
    weight, threads, choice = table.get("weight", 1), table["threads"], table.get("choice", "")
    portfolio, program = table.get("portfolio"), table.get("program")
    if program is not None and (not isinstance(program, str) or values):
        raise UsageError(
            f"{at('program')}: a program is a text and has no params", "Write the tasks with tilewright extract"
        )
    try:
        found = operator_of(operator) if program is None else from_program(operator, program)
    except TilewrightError as e:
        raise UsageError(f"{at('operator' if program is None else 'program')}: {e.message}", e.hint) from e
    try:
        task = TuneTask(operator if program is None else found, values, float(weight), threads, choice, portfolio)
    except UsageError as e:
        raise UsageError(f"{at('weight')}: {e.message}", e.hint) from e
    try:
        workload = found.workload(**values)
    except TilewrightError as e:
        blamed = next((k for k in values if re.search(rf"'{re.escape(k)}'|\b{re.escape(k)}(=| cannot)", e.message)), "")
        raise UsageError(f"{at(blamed or 'params')}: {e.message}", e.hint) from e
    if portfolio is not None and not workload.ranges:
        raise UsageError(f"{at('portfolio')}: no size of the task is a range", 'Write one as "1..256", or remove it')
    return task


def _instead(key: str, known: Sequence[str]) -> str:
    return nearest(key, known).strip() or f"A task has {', '.join(known)}"


def _at(path: Path, text: str, place: int, key: str) -> str:
    """File and line of a key in table number ``place`` (-1: before the first table), found by a text search."""
    lines = text.splitlines()
    heads = [n for n, line in enumerate(lines) if re.match(r"\s*\[\[\s*task\s*\]\]", line)]
    start = heads[place] if 0 <= place < len(heads) else 0
    end = heads[place + 1] if 0 <= place < len(heads) - 1 else len(lines)
    wanted = re.compile(rf"""(^|[\s{{,\[])["']?{re.escape(key)}["']?\s*[=\]]""")
    line = next((n for n in range(start, end) if wanted.search(lines[n])), start)
    return f"{path}, line {line + 1}"

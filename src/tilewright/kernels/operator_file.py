"""Loads an operator from a user's Python file, and turns every error into one clear line."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from tilewright.core import OperatorError, TilewrightError, UsageError
from tilewright.errors import nearest
from tilewright.kernels.operator import Operator, blame, operator


def load_operator(reference: str) -> Operator:
    """The operator ``FILE.py:function``; the function may be omitted if the file defines one operator.

    Raises ``UsageError`` for a missing file or function, and ``OperatorError`` (with file and line) for a file that
    raises.
    """
    text, _, name = (reference, "", "") if reference.endswith(".py") else reference.rpartition(":")
    path = Path(text if text.endswith(".py") else text + ".py").expanduser()
    if not path.is_file():
        raise UsageError(f"there is no file {path}", "Write FILE.py:function with the path of your file")
    module = _run(path)
    found = {n: v for n, v in vars(module).items() if isinstance(v, Operator) or _own(v, module)}
    decorated = {n: v for n, v in found.items() if isinstance(v, Operator)}
    if not name:
        if len(decorated or found) != 1:
            raise UsageError(
                f"{path} holds {len(decorated or found)} operators",
                f"Write {path}:function; it has {', '.join(decorated or found) or 'none'}",
            )
        (name,) = decorated or found
    if name not in found:
        if hasattr(module, name):
            raise UsageError(f"{name} in {path} is not a function", f"It has {', '.join(found) or 'none'}")
        raise UsageError(
            f"{path} has no function {name!r}",
            f"{nearest(name, found)}It has {', '.join(decorated or found) or 'none'}",
        )
    value = found[name]
    try:
        known = value if isinstance(value, Operator) else operator(value)
    except TilewrightError as error:
        raise blame(error, str(path), name) from error
    return replace(known, file=f"{path}:{name}")


def _own(value: object, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _run(path: Path) -> ModuleType:
    full = path.resolve()
    name = f"_tilewright_operators_{hashlib.sha256(str(full).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", "Write FILE.py:function")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a module up by name
    try:
        with _importing_from(str(full.parent)):
            source = full.read_bytes()
            exec(compile(source, str(full), "exec"), vars(module))  # never a stale .pyc
    except KeyboardInterrupt:
        sys.modules.pop(name, None)
        raise
    except BaseException as error:  # a file that calls sys.exit() is as wrong as one that raises
        sys.modules.pop(name, None)
        blamed = blame(error, str(full), path.name)
        raise OperatorError(blamed.message, blamed.hint) from error
    return module


@contextmanager
def _importing_from(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)

"""Plugins: strategies, cost models, operators, templates and backends of other packages, by entry points or by path.

A package declares a plugin in its metadata, and every command and call then knows its name:

    [project.entry-points."tilewright.strategies"]
    hill-climbing = "my_package.search:HillClimbing"

Without an entry point, ``my_package.search:HillClimbing`` is itself a name. A plugin is imported when its name is used.
Source: the entry points specification of the Python packaging guide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any

from tilewright.errors import UsageError, nearest
from tilewright.forking import imported

_SINGULAR = {
    "strategies": "strategy", "cost_models": "cost model", "operators": "operator", "templates": "template",
    "backends": "backend",
}  # fmt: skip

KINDS = tuple(_SINGULAR)
"""Groups of entry points, each without its prefix ``tilewright.``."""


@cache
def installed(kind: str) -> Mapping[str, str]:
    """Plugins of one kind that installed packages declare: name -> ``module:attribute``."""
    found = imported("importlib.metadata").entry_points(group=f"tilewright.{kind}")
    return {e.name: e.value for e in found}


def find(kind: str, name: str, built_in: Iterable[str], hint: str = "", by_path: bool = True) -> Any:
    """The plugin called ``name``; with ``by_path``, ``name`` may be ``module:attribute``. Raises ``UsageError``."""
    where = installed(kind).get(name, name if by_path else "")
    what = _SINGULAR[kind]
    if ":" not in where:
        known = [*built_in, *installed(kind)]
        raise UsageError(f"unknown {what} {name!r}", f"{nearest(name, known)}Use one of {', '.join(known)}{hint}")
    try:
        return resolve_name(where)
    except Exception as e:  # whatever the module raises during its import
        raise UsageError(
            f"the {what} {name!r} cannot be loaded from {where}: {type(e).__name__}: {e}",
            "Write module:attribute of something that can be imported",
        ) from e


def name_of(given: Any, built_in: Mapping[str, object]) -> str:
    """Name under which a run stores ``given``: a built-in name or ``module:qualname``.

    Raises ``UsageError`` if neither leads back to the object.
    """
    if isinstance(given, str):
        return given
    for name, known in built_in.items():
        if known is given:
            return name
    where = f"{getattr(given, '__module__', '?')}:{getattr(given, '__qualname__', '?')}"
    try:
        reachable = resolve_name(where) is given
    except Exception:
        reachable = False
    if not reachable:
        raise UsageError(
            f"{where} cannot be imported by its name, which a run stores",
            "Define it at the top of a module, not inside a function",
        )
    return where

"""Shell completion of operators, their parameters and values, runs, strategies and cost models.

Each function runs at a key press, so it must be fast: nothing is measured, and errors give no completions.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

NEWEST = 20
"""Number of newest runs that are offered."""


def _matching(words: Iterable[str], incomplete: str) -> list[str]:
    return [w for w in words if w.startswith(incomplete)]


def operators(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Built-in operators, and operators of installed packages."""
    from tilewright.kernels.operators import OPERATORS
    from tilewright.plugins import installed

    return _matching((*OPERATORS, *installed("operators")), incomplete)


def parameters(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """``key=`` for parameters that are not given yet; after ``key=`` the parameter's values."""
    from tilewright.core import TilewrightError
    from tilewright.kernels.operators import get_operator

    op = str(ctx.params.get("op") or ctx.params.get("run"))
    try:
        known = {p.name: p for p in get_operator(op).parameters}
    except (TilewrightError, OSError):
        return []
    texts = [str(x) for x in ctx.params.get("params") or ()]

    def values(key: str, begun: str) -> list[str]:
        found = known.get(key)
        if found is None:
            return []
        every = found.choices or ((True, False) if isinstance(found.default, bool) else ())
        return _matching((str(v).lower() if isinstance(v, bool) else str(v) for v in every), begun)

    # bash splits words at "=", and click drops a final "=": then the last text is a parameter's name alone.
    if not incomplete and texts and texts[-1] in known:
        return values(texts[-1], "")
    if texts[1:] and texts[-1] == "=":
        return values(texts[-2], incomplete)
    key, equals, begun = incomplete.partition("=")
    if equals:
        return [f"{key}={v}" for v in values(key, begun)]
    given = {text.partition("=")[0] for text in texts}
    return _matching((f"{name}=" for name in known if name not in given), incomplete)


def runs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The newest runs of the database, ``last``, and the operators of the newest runs."""
    from tilewright.core import TilewrightError
    from tilewright.database import Database
    from tilewright.paths import default_path

    try:
        with Database.open(ctx.params.get("db") or default_path(), create=False, readonly=True) as database:
            found = database.runs(NEWEST)
        ops = dict.fromkeys(r.task.workload.op for r in found)
        return _matching(("last", *(r.id for r in found), *ops), incomplete)
    except (TilewrightError, OSError):
        return _matching(("last",), incomplete)


def strategies(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from tilewright.tuner.strategies import STRATEGIES

    return _matching(STRATEGIES, incomplete)


def cost_models(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from tilewright.cost_model import COST_MODELS

    return _matching(COST_MODELS, incomplete)

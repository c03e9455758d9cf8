"""Signatures and descriptions of what programs import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tilewright

MEMBERS = ":members:"
THEMES: dict[str, dict[str, str]] = {
    "tune": {
        "tilewright.tune": "",
        "tilewright.tune_range": "",
        "tilewright.autotune": "",
        "tilewright.tuner.TuneSettings": "",
        "tilewright.tuner.TuneResult": MEMBERS,
        "tilewright.tuner.BestKernel": MEMBERS,
        "tilewright.tuner.RangeResult": MEMBERS,
        "tilewright.tuner.RangeKernel": MEMBERS,
        "tilewright.tuner.Observer": MEMBERS,
    },
    "operators": dict.fromkeys(
        ("tilewright.operator", "tilewright.Operator", "tilewright.own_kernel", "tilewright.Target"), ""
    ),
    "serve": {"tilewright.Library": MEMBERS, "tilewright.Explanation": "", "tilewright.MissedKernelWarning": ""},
    "database": {"tilewright.database.Database": ":members: open, runs, run, trials, kernels, close"},
    "models": {"tilewright.models.inference_session.InferenceSession": ":members: run, io_binding, network"},
    "errors": {"tilewright.TilewrightError": "", "tilewright.UsageError": "", "tilewright.DatabaseError": ""},
    "testing": {
        f"tilewright.testing.{module}.{name}Contract": ""
        for module, name in (
            ("operator", "Operator"), ("template", "Template"), ("cuda_template", "CudaTemplate"),
            ("strategy", "Strategy"), ("cost_model", "CostModel"), ("backend", "Backend"), ("runner", "Runner"),
        )
    },
}  # fmt: skip
"""Pages of docs/api: what each describes, and autodoc's options for it."""

MODULES = {"tilewright.te", "tilewright.nn", "tilewright.__version__"}
"""Described in docs/api.md by hand."""


def markdown(_docs: Path) -> str:
    """A table of all names, each with its page."""
    described = {name for theme in THEMES.values() for name in theme} | MODULES
    if missing := {f"tilewright.{name}" for name in tilewright.__all__} - described:
        raise ValueError(f"docs/_ext/api_reference.py has no page for {', '.join(sorted(missing))}")
    out = ["| page | names |\n|---|---|"]
    for theme, names in THEMES.items():
        out.append(f"| [{theme}](api/{theme}.md) | {', '.join(f'`{name}`' for name in names)} |")
    pages = "\n".join(f"api/{theme}" for theme in THEMES)
    return "\n".join([*out, "\n```{toctree}\n:hidden:\n\n" + pages + "\n```\n"])


def theme(_docs: Path, name: str) -> str:
    return "\n".join(_directive(each, options) for each, options in THEMES[name].items())


def _directive(name: str, options: str) -> str:
    kind = "autoclass" if name.rpartition(".")[2][0].isupper() else "autofunction"
    return f"```{{eval-rst}}\n.. {kind}:: {name}\n   {options}\n```\n"


MADE = re.compile(r"<factory>|<function [\w.]*(?:<lambda>)?(?: at 0x\w+)?>|<[\w.]+ object at 0x\w+>")


def plain_signature(
    _app: Any, _what: str, _name: str, _given: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature, with `...` for defaults that Python would show as a factory or an address."""
    return (None if signature is None else MADE.sub("...", signature)), returned

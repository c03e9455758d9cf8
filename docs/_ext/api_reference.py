"""Signatures and descriptions of what programs import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tilewright
from tilewright import nn, te

MEMBERS = ":members:"


def _of(module: str, names: str) -> dict[str, str]:
    """Names of ``tilewright.te`` or ``tilewright.nn``, without options."""
    return {f"tilewright.{module}.{name}": "" for name in names.split()}


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
    "te": _of(
        "te",
        "input scalar default_dtype compute sum prod max min argmax argmin reduce monoid left right scan scatter "
        "program TensorRef Expr Reduction Monoid",
    ),
    "te_values": _of(
        "te",
        "cast select abs maximum minimum floor fmod exp log log1p pow sqrt rsqrt sin cos tanh erf "
        "round_tf32 truncate_tf32",
    ),
    "nn": _of(
        "nn",
        "matmul bmm linear grouped_matmul einsum complex_matmul conj dequant_matmul quantized_matmul scaled_mm "
        "requantize",
    ),
    "nn_attention": _of(
        "nn",
        "scaled_dot_product_attention softmax softmax_backward log_softmax log_softmax_backward layer_norm "
        "layer_norm_backward rms_norm rms_norm_backward group_norm batch_norm",
    ),
    "nn_convolutions": _of(
        "nn", "conv1d conv2d conv3d capsule_conv2d conv_transpose1d conv_transpose2d conv_transpose3d"
    ),
    "nn_pooling": _of(
        "nn",
        "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool_positions adaptive_avg_pool "
        "adaptive_max_pool adaptive_max_pool_positions",
    ),
    "nn_reductions": _of("nn", "sum mean var_mean prod amax amin argmax argmin logsumexp norm cumsum cumprod"),
    "nn_elements": _of(
        "nn", "relu gelu silu sigmoid tanh elementwise add mul cast permute transpose pad cat embedding index_add"
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

BY_HAND = {"tilewright.te", "tilewright.nn", "tilewright.__version__", "tilewright.te.Ints", "tilewright.te.Shape"}
"""Names that docs/api.md and docs/api/te.md describe by hand."""


def _public() -> set[str]:
    """Names of the package, of ``te`` and of ``nn``."""
    modules = (("tilewright", tilewright), ("tilewright.te", te), ("tilewright.nn", nn))
    return {f"{path}.{name}" for path, module in modules for name in module.__all__}


def markdown(_docs: Path) -> str:
    """A table of all names, each with its page."""
    described = {name for theme in THEMES.values() for name in theme} | BY_HAND
    if missing := _public() - described:
        raise ValueError(f"docs/_ext/api_reference.py has no page for {', '.join(sorted(missing))}")
    out = ["| page | names |\n|---|---|"]
    for theme, names in THEMES.items():
        out.append(f"| [{theme}](api/{theme}.md) | {', '.join(f'`{name}`' for name in names)} |")
    pages = "\n".join(f"api/{theme}" for theme in THEMES)
    return "\n".join([*out, "\n```{toctree}\n:hidden:\n\n" + pages + "\n```\n"])


def theme(_docs: Path, name: str) -> str:
    """The directives of one page of docs/api."""
    return "\n".join(_directive(each, options) for each, options in THEMES[name].items())


def _directive(name: str, options: str) -> str:
    kind = "autoclass" if name.rpartition(".")[2][0].isupper() else "autofunction"
    return f"```{{eval-rst}}\n.. {kind}:: {name}\n   {options}\n```\n"


# How Python prints the annotations that docs/api/te.md describes by their names.
ANNOTATED = {
    re.compile(rf"~?typing\.Annotated\[[^<]*<Kind\.{name.upper()}: \([^)]*\)>\]"): f"te.{name}"
    for name in ("Ints", "Shape")
}
MADE = re.compile(r"<factory>|<function [\w.]*(?:<lambda>)?(?: at 0x\w+)?>|<[\w.]+ object at 0x\w+>")


def plain_signature(
    _app: Any, _what: str, _name: str, _given: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature, with `...` for defaults that Python would show as a factory or an address, and `te.Ints` by name."""
    if signature is None:
        return None, returned
    for printed, name in ANNOTATED.items():
        signature = printed.sub(name, signature)
    return MADE.sub("...", signature), returned

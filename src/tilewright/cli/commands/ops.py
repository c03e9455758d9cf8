"""``tilewright ops``: the operators, their parameters and an example of each."""

from __future__ import annotations

from typing import Any

import click

from tilewright.cli.options import json_option
from tilewright.cli.output import console, emit_json, table
from tilewright.core import IMPLICIT


@click.command("ops")
@json_option
def command(as_json: bool) -> None:
    """List the operators.

    \b
    Examples:
      tilewright ops
      tilewright ops --json
    """
    from tilewright.kernels.operators import OPERATORS, get_operator

    rows: list[dict[str, Any]] = []
    for name in OPERATORS:
        operator = get_operator(name)
        example = operator.workload(**operator.example)
        rows.append(
            {
                "name": name,
                "summary": operator.doc.strip().partition("\n")[0],
                "sizes": list(operator.sizes),
                "attributes": dict(operator.attributes),
                "dtypes": list(operator.dtypes),
                "example": dict(operator.example),
                "inputs": [{"name": s.name, "shape": list(s.shape), "dtype": s.dtype} for s in example.inputs],
            }
        )
    if as_json:
        emit_json({"ops": rows})
        return
    shown = table("operator", "sizes", "attributes", "dtypes", "example")
    for r in rows:
        shown.add_row(
            r["name"],
            " ".join(r["sizes"]),
            " ".join(f"{k}={v}" for k, v in r["attributes"].items() if k not in IMPLICIT),
            " ".join(r["dtypes"]),
            " ".join(f"{k}={v}" for k, v in r["example"].items()),
        )
    console().print(shown)

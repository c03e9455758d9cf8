"""``tilewright ops``: lists the operators, with their parameters and an example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.cli.declare import declared
from tilewright.cli.output import report, table
from tilewright.core import IMPLICIT


@declared("ops")
def command() -> None:
    """List the operators, their sizes, attributes and element types, and an example of each.

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
    cells = (
        (
            r["name"], " ".join(r["sizes"]), _pairs({k: v for k, v in r["attributes"].items() if k not in IMPLICIT}),
            " ".join(r["dtypes"]), _pairs(r["example"]),
        )
        for r in rows
    )  # fmt: skip
    report({"ops": rows}, table("operator", "sizes", "attributes", "dtypes", "example", rows=cells))


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in values.items())

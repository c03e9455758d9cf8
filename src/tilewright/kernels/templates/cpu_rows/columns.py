"""Prints the last pass over several rows by blocks of columns.

What the pass reads that is the same for every row, weights say, is as long as a row. Rows that lie in the second
level cache push it out of the first from one row to the next. So the passes before run over a few rows, one after
the other, and the last over a block of columns of all of them, then the next block.
"""

from __future__ import annotations

from tilewright.extent import ctext
from tilewright.kernels.codegen.emitter import Scope, Tile
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.families.row_reduction import ELEMENT
from tilewright.kernels.templates.cpu_rows.passes import Passes


def print_groups(w: Writer, passes: Passes, scope: Scope) -> None:
    """All passes over the rows from ``row`` to ``last``, so many at a time as the plan says."""
    plan = passes.plan
    p = plan.program
    last, length = p.passes - 1, p.run
    hoist, bodies = passes.hoisted(last)
    kept = {name: f"p{last}{name}_0" for name in hoist.found}
    ctypes = {name: computed(e.dtype) for name, (e, _) in hoist.found.items()}
    for name in sorted({str(n.value) for body in bodies.values() for e in body for n in e.walk() if n.op == "var"}):
        if name not in kept and p.stage[name].kind != ELEMENT:
            kept[name], ctypes[name] = f"{name}_0", computed(p.stage[name].dtype)
    with w.block(f"for (long first = row; first < last; first += {plan.rows})"):
        w.line(f"const long beyond = tw::imin(first + {plan.rows}, last);")
        for name, ctype in ctypes.items():
            w.line(f"{ctype} of_{name}[{plan.rows}];")
        with w.block("for (long row = first; row < beyond; row++)"):
            passes.before(w, last, 1, scope)
            passes.declare(w, last, hoist, 1)
            for name, text in kept.items():
                w.line(f"of_{name}[row - first] = {text};")
        with w.block(f"for (long begin = 0; begin < {ctext(length)}; begin += {plan.columns})"):
            even = length % plan.columns == 0
            end = f"begin + {plan.columns}" if even else f"tw::imin(begin + {plan.columns}, {ctext(length)})"
            w.line(f"const long end = {end};")
            with w.block("for (long row = first; row < beyond; row++)"):
                passes.coordinates(w, 1)
                for name, text in kept.items():
                    w.line(f"const {ctypes[name]} {text} = of_{name}[row - first];")
                part = scope.with_tile(p.inner, Tile("begin", "end", plan.columns, even))
                passes.over(w, last, 1, hoist, bodies, part)


__all__ = ["print_groups"]

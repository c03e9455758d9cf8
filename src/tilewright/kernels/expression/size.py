"""How large an expression may be."""

from __future__ import annotations

from tilewright.core import OperatorError
from tilewright.kernels.expression.expr import Expr

MAX_DEPTH, MAX_NODES = 200, 20_000


def check_size(body: tuple[Expr, ...], name: str) -> None:
    """Raise ``OperatorError`` for a body that is nested too deep, or would print too long."""
    # Measured on the graph: a value squared twenty times has twenty nodes here, a million printed.
    sizes: dict[int, tuple[int, int]] = {}

    def measure(root: Expr) -> tuple[int, int]:
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [a for a in node.args if id(a) not in sizes]
            if waiting:
                stack.extend(waiting)
                continue
            parts = [sizes[id(a)] for a in node.args]
            nodes = 1 + sum(n for n, _ in parts)
            sizes[id(node)] = nodes, 1 + max((d for _, d in parts), default=0)
            stack.pop()
        return sizes[id(root)]

    for root in body:
        nodes, depth = measure(root)
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            size = f"is nested {depth} deep" if depth > MAX_DEPTH else f"has {nodes} operations"
            raise OperatorError(
                f"the body of {name} {size}, beyond {MAX_DEPTH} deep or {MAX_NODES} operations",
                "Compute the repeated part in a te.compute of its own, and loop with te.sum or te.reduce",
            )

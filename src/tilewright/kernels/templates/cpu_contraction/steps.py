"""The micro kernel: how a register tile reads operands, and the instruction that adds their product to a sum.

:class:`Steps` handles operands in the type of the sums, with the monoid's own operation. Dot products of pairs and
quads have a subclass in :mod:`~tilewright.kernels.templates.cpu_contraction.unit_steps`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core import cached_property
from tilewright.extent import ctext
from tilewright.kernels.templates.cpu_contraction import finite, packing
from tilewright.kernels.templates.cpu_contraction.geometry import LINE, ContractionTiling
from tilewright.kernels.templates.cpu_contraction.text import var_text


@dataclass(frozen=True)
class Steps:
    """C text of one step of K for every element of a register tile, and of the functions that pack operands."""

    p: ContractionTiling

    vector = "V"
    """C type of a vector of B, and of an element of A broadcast to every lane."""

    def types(self) -> str:
        """C types of the kernel: ``T`` of a sum, ``V`` of a vector of ``L`` sums."""
        return f"typedef {self.p.ctype} T; typedef {self.p.vtype} V; enum {{ L={self.p.lanes} }};"

    def copies(self) -> list[str]:
        """C functions that pack operands, and their helpers."""
        p = self.p
        parts = [packing.helpers(p)]
        if p.pack_a:
            parts.append(packing.pack_a(p))
        if p.pack_b:
            parts.append(packing.pack_b(p))
        return parts

    def before(self, rows: int) -> list[str]:
        """Statements before the first sums of a tile."""
        return []

    def first(self, i: int, j: int) -> str:
        """C text of the first value of the sums in row ``i``, vector ``j``."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        text = var_text(self.p.c.monoid.identity[0])
        return "{}" if text.strip("()") in ("0.0f", "0.0", "0.f", "0f", "0") else f"tw::splat<V>({text})"

    def element(self, at: str, last: bool) -> str:
        """C text of an element of A broadcast to every lane; ``last``: in the partial last step."""
        # A plain scalar lets the compiler choose between a broadcast and a folded operand.
        return f"tw::splat<V>(a[{at}])"

    def columns(self, v: int, j: int, tail: bool, last: bool) -> str:
        """C text of vector ``j`` of B, ``v`` steps ahead; ``tail``: its valid columns; ``last``: in a partial step."""
        at = f"b+{ctext(v * self.p.k_loops[-1].other + j * self.p.lanes)}"
        return f"tw::load_n<V>({at},tail)" if tail else f"tw::load<V>({at})"

    def added(self, i: int, j: int) -> str:
        """C text of the sum in row ``i``, vector ``j``, updated with ``x``, an element of A, and a vector of B."""
        names = {"l0": f"c{i}_{j}", "a": "x", "b": f"b{j}"}
        value = var_text(self.p.c.updated, names, self.p.lanes)
        quick = finite.extreme(self.p)
        if not quick:
            return value
        term = var_text(self.p.c.body, names, self.p.lanes)
        return f"finite_?tw::{quick}({names['l0']},{term}):{value}"

    def ahead(self, v: int, vectors: int) -> list[int]:
        """Offsets in elements, from the pointer to B, of the cache lines that step ``v`` prefetches."""
        p = self.p
        if not p.prefetch_b:
            return []
        # k steps ahead, or panels to the right at the same k.
        step = p.k_loops[-1].other
        at = (v + p.prefetch_b) * step if p.prefetch_b > 0 else v * step - p.prefetch_b * p.width
        return [at + x for x in range(0, vectors * p.lanes, LINE // p.b_item)]

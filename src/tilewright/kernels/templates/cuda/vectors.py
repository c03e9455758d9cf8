"""Statements of a thread for a vector of elements: reads in packs, a loop over the elements, stores in packs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.templates.cuda.runs import Run
from tilewright.kernels.templates.cuda.text import STORAGE, from_storage, to_storage


def pack(kind: str, width: int) -> str:
    """C type of a pack of ``width`` elements; of a scalar if ``width`` is 1."""
    return kind if width == 1 else f"tw::pack<{kind}, {width}>"


@dataclass
class Vector:
    """Statements for ``count`` elements along a run: ``before`` a loop over the elements, ``within`` it and ``after``.

    In the loop, ``j`` numbers the elements. A single element gets no loop, but braces if ``scoped``.
    """

    run: Run
    count: int
    pad: str
    scoped: bool = False
    before: str = ""
    within: str = ""
    after: str = ""

    @property
    def inner(self) -> str:
        """Indentation within the loop."""
        return self.pad + "    " if self.count > 1 or self.scoped else self.pad

    @property
    def j(self) -> str:
        """Text of an element's number."""
        return "j" if self.count > 1 else "0"

    def line(self, text: str) -> None:
        """Appends a statement within the loop."""
        self.within += f"{self.inner}{text}\n"

    def text(self) -> str:
        """All statements."""
        if self.inner == self.pad:
            return self.before + self.within + self.after
        loop = f"{self.pad}TW_UNROLL\n{self.pad}for (int j = 0; j < {self.count}; j++) {{\n"
        head = loop if self.count > 1 else f"{self.pad}{{\n"
        return f"{self.before}{head}{self.within}{self.pad}}}\n{self.after}"

    # ------------------------------------------------------------------ arrays of packs

    def loaded(self, name: str, kind: str, width: int, address: str, memory: str = "global", by: int = 0) -> str:
        """Reads packs before the loop, at stride ``by`` in elements (0: contiguous); returns the text of an element."""
        self._declare(name, kind, width)
        read = f"tw::load_{memory}<{pack(kind, width)}>({address}"
        self.before += self._each(width, lambda h, further: f"{name}[{h}] = {read}{further});", by)
        return self._element(name, width)

    def stored(
        self, name: str, kind: str, width: int, address: str, memory: str = "global", by: int = 0, guard: str = ""
    ) -> str:
        """Stores packs after the loop if ``guard`` holds (``if (...) `` or nothing); returns the text of an element."""
        self._declare(name, kind, width)
        write = f"{guard}tw::store_{memory}({address}"
        self.after += self._each(width, lambda h, further: f"{write}{further}, {name}[{h}]);", by)
        return self._element(name, width)

    def _declare(self, name: str, kind: str, width: int) -> None:
        self.before += f"{self.pad}{pack(kind, width)} {name}[{self.count // width}];\n"

    def _each(self, width: int, statement: Callable[[str, str], str], by: int) -> str:
        """A statement for every pack; ``statement`` takes the texts of the pack's number and of its address offset."""
        count, pad = self.count // width, self.pad
        if count == 1:
            return f"{pad}{statement('0', '')}\n"
        loop = f"{pad}TW_UNROLL\n{pad}for (int h = 0; h < {count}; h++) "
        return f"{loop}{statement('h', f' + h * {by or width}')}\n"

    def _element(self, name: str, width: int) -> str:
        if width == 1:
            return f"{name}[{self.j}]"
        return f"{name}[0].v[j]" if width == self.count else f"{name}[j / {width}].v[j % {width}]"

    # ------------------------------------------------------------------ tensors

    def width(self, x: Expr) -> int:
        """Vector width of a read, in elements."""
        return self.run.width(linear(x.args[0]), self.count, ITEMSIZE[x.dtype])

    def packed(self, x: Expr, name: str, at: Callable[[Expr], str]) -> str:
        """Reads ``x`` in packs and returns the text of an element's value; ``at`` prints the first element's index."""
        address = f"{x.value} + ({at(x.args[0])})"
        return from_storage(x.dtype, self.loaded(name, STORAGE[x.dtype], self.width(x), address))

    def reads(
        self,
        found: Mapping[int, Expr],
        held: Mapping[int, str],
        prefix: str,
        at: Callable[[Expr], str],
        packs: str = "",
    ) -> dict[int, str]:
        """Hoists reads before the loop, in packs or once for all elements; returns texts of values by value number.

        ``held``: texts of values that are known already. ``packs``: suffix of a pack's name.
        """
        texts = dict(held)
        for key, x in found.items():
            name = f"{prefix}{len(texts)}"
            if key in texts:
                continue
            if self.width(x) > 1:
                texts[key] = self.packed(x, name + packs, at)
            elif self.count > 1 and not x.axes() & {a for a, _ in self.run.axes}:
                self.before += f"{self.pad}const {computed(x.dtype)} {name} = {at(x)};\n"
                texts[key] = name
        return texts

    def store(self, where: Linear, dtype: str, value: str, at: Callable[[bool], str], guard: str = "") -> None:
        """Stores a value, in packs if its position allows.

        ``at`` prints the position of the first element (``True``) or of each element (``False``).
        """
        width, value = self.run.width(where, self.count, ITEMSIZE[dtype]), to_storage(dtype, value)
        if width > 1:
            self.line(f"{self.stored('op', STORAGE[dtype], width, f'out + ({at(True)})', guard=guard)} = {value};")
        else:
            self.line(f"{guard}tw::store_global(out + ({at(False)}), {value});")

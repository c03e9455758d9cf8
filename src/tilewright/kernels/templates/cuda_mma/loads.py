"""C++ that copies operand tiles to shared memory: asynchronously, or element by element through registers.

Every loop has constant bounds and the compiler unrolls it. Elements beyond the extents, or where the operand's guard
fails, become zero on both sides, so that they add nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.kernels.codegen import integers
from tilewright.kernels.templates.cuda import sizes, sorting
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling, Side
from tilewright.kernels.templates.cuda_mma.instruction import DOUBLE


@dataclass(frozen=True)
class Loader:
    """Printer of one operand's copies.

    Neighbouring lanes run along the contiguous axis in global memory (the *fast* axis). Successive copies ``i`` of a
    thread advance along the slow axis.
    """

    p: MmaTiling
    s: Side

    @property
    def row_is_fast(self) -> bool:
        return self.s.source.contiguous == "row"

    @property
    def lanes(self) -> int:
        """Number of copies along the fast axis."""
        s = self.s
        if not self.row_is_fast:
            return s.depth // s.step
        return s.rows // s.step if s.order == "row" else s.rows

    @property
    def even(self) -> bool:
        """Whether all copies of a thread have one position on the fast axis."""
        return self.p.threads % self.lanes == 0

    @property
    def jump(self) -> int:
        """Distance on the slow axis between successive copies of a thread, if ``even``."""
        return self.p.threads // self.lanes

    @property
    def strides(self) -> tuple[int, int, int] | None:
        """Strides of batch, row and k in global memory if copies of a thread have a constant stride, else ``None``."""
        return self.s.source.strides if self.even and self.s.direct and not self.gathers_rows else None

    @property
    def gathers_rows(self) -> bool:
        """Whether rows are gathered: ``row_a`` holds the row numbers of a thread's copies."""
        return sorting.gathers_rows(self.p.p.c, self.s.name)

    @property
    def fixed(self) -> bool:
        """Whether copies of a thread have a constant stride in shared memory.

        A swizzle repeats after 8 lines, for float64 after 4.
        """
        period = 4 if self.s.item == DOUBLE else 8
        return self.even and self.s.direct and (self.jump % period == 0 or self.s.rounds(self.p.threads) == 1)

    @property
    def pointer(self) -> str:
        """Text of the operand's first element."""
        return f"packed_{self.s.name}" if self.s.source.is_packed else self.s.source.tensor

    @property
    def origin(self) -> str:
        """Text of the tile's first row."""
        return "m0" if self.s.name == "a" else "n0"

    def _place(self, row: str = "r", k: str = "k", copy: str = "i") -> str:
        """A statement that declares the row and k in the tile of copy number ``copy``."""
        rows, ks = self._at(copy)
        return f"const int {row} = {rows}, {k} = {ks};"

    def _at(self, copy: str) -> tuple[str, str]:
        """Texts of the row and k in the tile of copy number ``copy``."""
        s, threads, lanes = self.s, self.p.threads, self.lanes
        further = copy != "0" and s.rounds(threads) > 1
        if self.even:
            slow = "" if lanes == threads else f"tid / {lanes}" if lanes > 1 else "tid"
            fast = "tid" if lanes == threads else f"tid % {lanes}" if lanes > 1 else "0"
            if further:
                slow += f"{' + ' if slow else ''}{copy} * {self.jump}"
            slow = slow or "0"
        else:
            flat = f"({copy} * {threads} + tid)"
            slow, fast = f"{flat} / {lanes}", f"{flat} % {lanes}"
        rows, ks = (fast, slow) if self.row_is_fast else (slow, fast)
        if s.step > 1:
            return (rows, f"({ks}) * {s.step}") if s.order == "k" else (f"({rows}) * {s.step}", ks)
        return rows, ks

    @property
    def placed(self) -> bool:
        """Whether the position of a thread's first copy is declared before the main loop; implies ``even``."""
        return self.s.direct and (self.strides is not None or self.fixed)

    def _further(self, step: int) -> str:
        """Text to add to an offset: the distance of copy ``i`` from the first, if copies are ``step`` apart."""
        return f" + i * {step}" if self.s.rounds(self.p.threads) > 1 else ""

    def _spare(self) -> str | None:
        """The condition that a thread has a copy of the tile; ``None`` if every thread always has one."""
        if self.s.copies % self.p.threads == 0:
            return None
        return f"tid < {self.s.copies}"

    def _each(self, lines: list[str]) -> list[str]:
        """The loop over a thread's copies."""
        count = self.s.rounds(self.p.threads)
        if count > 1:
            return ["TW_UNROLL", f"for (int i = 0; i < {count}; i++) {{", *("    " + x for x in lines), "}"]
        return ["{", *("    " + x for x in lines), "}"] if len(lines) > 1 else lines

    def _inside(self, row: str, k: str) -> list[str]:
        """Conditions under which a position is inside the operand."""
        found = []
        if not self.gathers_rows and sizes.divisor(self.s.extent) % self.s.rows:
            found.append(f"{row} < {integers.text(sizes.expression(self.s.extent))}")
        if self.p.p.k % self.p.bk:
            found.append(f"{k} < {self.p.p.k}")
        guard = self.s.source.guard(self.p.batch, row, k)
        return found if guard is None else [*found, f"({guard})"]

    def _shared(self, row: str, k: str) -> str:
        """Text of the byte offset of (row, k) in the tile."""
        text = self.s.layout.text(row, k).replace("L", "")
        return text if self.s.item == 1 else f"({text}) * {self.s.item}"

    # ------------------------------------------------------------------ before the main loop

    def declare(self) -> list[str]:
        """Statements before the main loop: addresses of the thread's first copy, registers for elements in flight."""
        s, name = self.s, self.s.name
        out = self._rows() if self.gathers_rows else []
        if not s.direct:
            return [*out, f"tw::u32 held_{name}[{s.held_registers(self.p.threads)}];"]
        if self.placed:
            out.append(self._place(f"r_{name}", f"k_{name}", "0"))
        if self.strides:
            batch, row, k = self.strides
            const = 0 if s.source.is_packed else s.source.plain.where.const
            terms = [str(const)] if const else []
            for text, step in ((self.p.batch, batch), (f"({self.origin} + r_{name})", row), (f"k_{name}", k)):
                if step and text != "0":
                    terms.append(f"{text} * {integers.wide(sizes.expression(step))}" if step > 1 else text)
            where = " + ".join(terms)
            out.append(f"const {self.p.instruction.storage} *from_{name} = {self.pointer} + ({where or '0'});")
        if self.fixed:
            at = self._shared(f"r_{name}", f"k_{name}")
            out.append(f"const tw::u32 to_{name} = s{name} + {at};")
        return out

    def _rows(self) -> list[str]:
        """Statements that declare ``row_a``: the row numbers of the thread's copies."""
        at = f"{self.origin} + {self._at('i')[0]}"
        one = sorting.held_row(self.p.p.c, self._held_row, at, self._spare())
        return [f"int row_a[{self.s.rounds(self.p.threads)}];", *self._each([one])]

    @property
    def _held_row(self) -> str:
        """Text of the row number of copy ``i``, if rows are gathered."""
        return "row_a[i]" if self.s.rounds(self.p.threads) > 1 else "row_a[0]"

    def _row(self, r: str) -> tuple[list[str], str]:
        """Statements, and the text of a row's number, given the text ``r`` of the row in the tile."""
        if self.gathers_rows:
            return [f"const int row = {self._held_row};"], "row"
        return [], f"({self.origin} + {r})"

    # ------------------------------------------------------------------ asynchronous copies

    def copies(self) -> list[str]:
        """Statements that start the copies of tile ``t`` into ring slot ``slot``."""
        s, p, name = self.s, self.p, self.s.name
        r, kk = (f"r_{name}", f"k_{name}") if self.placed else ("r", "k")
        if self.placed:
            further = self._further(self.jump)
            r, kk = (r, kk + further) if self.row_is_fast else (r + further, kk)
        (known, row), k = self._row(r), f"(t * {p.bk} + {kk})"
        if self.strides:
            per_tile = p.bk * self.strides[2]
            per_copy = self.jump * (self.strides[2] if self.row_is_fast else self.strides[1])
            further = f" + i * {per_copy}LL" if s.rounds(p.threads) > 1 else ""
            source = f"from_{name} + (t * {per_tile}LL{further})"
        else:
            source = f"{self.pointer} + ({s.source.offset(p.batch, row, k)})"
        if self.fixed:
            target = f"to_{name} + slot * {s.bytes}{self._further(self.jump * s.line)}"
        else:
            target = f"s{name} + slot * {s.bytes} + {self._shared(f'({r})', f'({kk})')}"
        inside = self._inside(row, k)
        valid = f", {' && '.join(inside)} ? {s.copy} : 0" if inside else ""
        spare = self._spare()
        return self._each([
            *([] if self.placed else [self._place()]),
            *known,
            f"{f'if ({spare}) ' if spare else ''}tw::cp_async<{s.copy}>({target}, {source}{valid});",
        ])  # fmt: skip

    # ------------------------------------------------------------------ through registers

    def _held(self, words: int, word: str) -> str:
        """Text of the index of a thread's word in ``held_<side>``."""
        if self.s.rounds(self.p.threads) == 1:
            return word
        return f"i * {words} + {word}" if words > 1 else "i"

    def fetch(self) -> list[str]:
        """Statements that read the thread's elements of tile ``t`` into ``held_<side>``."""
        s, p = self.s, self.p
        per_word, words = 4 // s.item, s.step * s.item // 4
        known, row = self._row("r")
        spare = self._spare()
        further = (f" + w * {per_word}" if words > 1 else "") + (" + e" if per_word > 1 else "")
        inside = " && ".join([*([spare] if spare else []), *self._inside(row, "kk")])
        condition = f"if ({inside}) " if inside else ""
        value = s.source.bits(s.source.offset(p.batch, row, "kk"))
        at = f"const int kk = t * {p.bk} + k{further};"
        if per_word > 1:
            one = [
                "tw::u32 word = 0;",
                "TW_UNROLL",
                f"for (int e = 0; e < {per_word}; e++) {{",
                f"    {at}",
                f"    {condition}word |= {value} << (e * {8 * s.item});",
                "}",
            ]
        else:
            one = ["tw::u32 word = 0;", at, f"{condition}word = {value};"]
        one.append(f"held_{s.name}[{self._held(words, 'w' if words > 1 else '0')}] = word;")
        if words > 1:
            one = ["TW_UNROLL", f"for (int w = 0; w < {words}; w++) {{", *("    " + x for x in one), "}"]
        return self._each([self._place(), *known, *one])

    def put(self) -> list[str]:
        """Statements that write ``held_<side>`` to ring slot ``slot``."""
        s, p = self.s, self.p
        words = s.step * s.item // 4
        base = p.ring.at(s.name)
        spare = self._spare()
        start = f"smem + {base} + slot" if base else "smem + slot"
        at = f"{start} * {s.bytes} + {self._shared('r', 'k')}"
        if words > 1:
            value = [
                f"tw::pack<tw::u32, {words}> v;",
                "TW_UNROLL",
                f"for (int w = 0; w < {words}; w++) v.v[w] = held_{s.name}[{self._held(words, 'w')}];",
            ]
        else:
            value = [f"const tw::u32 v = held_{s.name}[{self._held(1, '0')}];"]
        return self._each([
            self._place(), *value, f"{f'if ({spare}) ' if spare else ''}tw::store_shared({at}, v);"
        ])  # fmt: skip

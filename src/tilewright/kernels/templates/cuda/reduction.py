"""Accumulators of a monoid as C++: started, folded, merged across the lanes of a warp and across warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.dtypes import C_BYTES
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.expression.program import Monoid, Program
from tilewright.kernels.templates.cuda.text import bound, printer


@dataclass(frozen=True)
class Accumulators:
    """One partial result in the variables ``<name>0``, ``<name>1``, ...; with a ``suffix``, in elements of arrays.

    Merging combines the result of a lane with that of a later one in this order; which elements a lane
    folds is up to the caller.
    """

    program: Program
    monoid: Monoid
    name: str = "a"
    suffix: str = ""

    @property
    def parts(self) -> int:
        return len(self.monoid.identity)

    @property
    def types(self) -> tuple[str, ...]:
        """C type of each component; conditions are held as ``int``."""
        return tuple("int" if e.dtype == "bool" else computed(e.dtype) for e in self.monoid.identity)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}{n}{self.suffix}" for n in range(self.parts))

    @property
    def others(self) -> list[str]:
        """Variables of another partial result."""
        return [f"{self.name}o{n}" for n in range(self.parts)]

    @property
    def slot(self) -> int:
        """Bytes set aside for a component in shared memory: the same for all, so that all are aligned."""
        return max(C_BYTES[t] for t in self.types)

    @property
    def bytes(self) -> int:
        """Bytes of a whole partial result there."""
        return self.parts * self.slot

    @property
    def var(self) -> dict[str, str]:
        """The accumulators as what a finish or a later expression reads."""
        return {f"l{n}": name for n, name in enumerate(self.names)}

    @property
    def neutral(self) -> tuple[str, ...]:
        """Text of each component's neutral value."""
        p = printer(self.program, {}, {}, {}, ())
        return tuple(p.scalar(e) for e in self.monoid.identity)

    def start(self, pad: str) -> str:
        """Declarations, with the neutral values."""
        parts = zip(self.types, self.names, self.neutral, strict=True)
        return "".join(f"{pad}{t} {n} = {e};\n" for t, n, e in parts)

    def combine(self, right: Sequence[str], pad: str, swap: bool = False) -> str:
        """Statements that merge another partial result into this one; ``swap``: the other one comes first."""
        mine, other = ("r", "l") if swap else ("l", "r")
        var = {f"{mine}{n}": x for n, x in enumerate(self.names)}
        var |= {f"{other}{n}": x for n, x in enumerate(right)}
        exprs = self.monoid.combine
        p = printer(self.program, {}, {}, var, exprs)
        if self.parts == 1:
            return f"{pad}{self.names[0]} = {p.scalar(exprs[0])};\n"
        lines: list[str] = []
        texts = bound(p, exprs, lines, f"{self.name}m")
        lines += [f"const {t} {self.name}n{n} = {e};" for n, (t, e) in enumerate(zip(self.types, texts, strict=True))]
        lines += [f"{x} = {self.name}n{n};" for n, x in enumerate(self.names)]
        return "".join(f"{pad}{line}\n" for line in lines)

    def fold(self, statements: str, values: Sequence[str], pad: str) -> str:
        """Statements that combine one element, given the statements and texts of its components."""
        lines = "".join(
            f"{pad}const {t} {self.name}v{n} = {v};\n" for n, (t, v) in enumerate(zip(self.types, values, strict=True))
        )
        return statements + lines + self.combine([f"{self.name}v{n}" for n in range(self.parts)], pad)

    def across(self, lanes: int, pad: str) -> str:
        """Statements that leave the result of every aligned group of ``lanes`` lanes in all of them."""
        if lanes == 1:
            return ""
        inner = pad + "    "
        text = f"{pad}TW_UNROLL\n{pad}for (int mask = 1; mask < {lanes}; mask *= 2) {{\n"
        text += self.read(lambda n, _: f"tw::exchange({self.names[n]}, mask)", inner)
        if self.ordered:
            text += f"{inner}if ((int)threadIdx.x & mask) {{\n{self.combine(self.others, inner + '    ', swap=True)}"
            text += f"{inner}}} else {{\n{self.combine(self.others, inner + '    ')}{inner}}}\n"
        else:
            text += self.combine(self.others, inner)
        return f"{text}{pad}}}\n"

    @property
    def ordered(self) -> bool:
        """Whether it may matter which of two partial results comes first: not for the built-in monoids."""
        return self.monoid.name not in ("sum", "prod", "max", "min", "argmax", "argmin")

    def put(self, base: str, slot: str, count: int, pad: str) -> str:
        """Statements that write this result to ``slot`` of ``count`` in shared memory at ``base`` (bytes)."""
        return "".join(
            f"{pad}tw::store_shared(({t} *)({base}{_plus(at * self.slot)}) + {slot}, {x});\n"
            for at, t, x in zip(range(0, self.parts * count, count), self.types, self.names, strict=True)
        )

    def read(self, value: Callable[[int, str], str], pad: str) -> str:
        """Declarations of :attr:`others`; ``value`` gives the text of a component, by its number and C type."""
        parts = enumerate(zip(self.types, self.others, strict=True))
        return "".join(f"{pad}const {t} {x} = {value(n, t)};\n" for n, (t, x) in parts)

    def take(self, pad: str) -> str:
        """Statements that put :attr:`others` in the place of this result."""
        return "".join(f"{pad}{x} = {o};\n" for x, o in zip(self.names, self.others, strict=True))

    def get(self, base: str, slot: str, count: int, pad: str) -> str:
        """Declarations of :attr:`others`, read from slot ``slot``."""
        return self.read(
            lambda n, t: f"tw::load_shared<{t}>((const {t} *)({base}{_plus(n * count * self.slot)}) + {slot})", pad
        )

    def gather(self, base: str, slots: int, own: str, only: str, first: str, step: int, count: int, pad: str) -> str:
        """Statements that merge ``count`` results of a block through shared memory, for every thread.

        A thread for which ``only`` holds (``""``: any) has a result for slot ``own``; a thread merges the slots
        ``first``, ``first + step``, ... At ``base`` lie ``slots`` slots that nothing else uses. Neighbouring
        slots (``step`` 1; ``count`` then is a power of two, 32 at most) are merged by the lanes of every warp.
        """
        inner = pad + "    "
        text = self.put(base, own, slots, inner if only else pad)
        if only:
            text = f"{pad}if ({only}) {{\n{text}{pad}}}\n"
        start = f"{first} + (int)threadIdx.x % {count}" if step == 1 else first
        text += f"{pad}tw::sync();\n{pad}{{\n{self.get(base, start, slots, inner)}{self.take(inner)}"
        if step == 1:
            return f"{text}{pad}}}\n{self.across(count, pad)}"
        text += f"{pad}}}\n{pad}for (int w = 1; w < {count}; w++) {{\n"
        text += self.get(base, f"{first} + w * {step}", slots, inner) + self.combine(self.others, inner)
        return f"{text}{pad}}}\n"


def _plus(offset: int) -> str:
    return f" + {offset}" if offset else ""

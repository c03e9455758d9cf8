"""C++ of a monoid's accumulators: initialisation, folding, merging across the lanes of a warp and across warps."""

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

    Merging combines a lane's result with a later lane's result, in this order. The caller decides which elements a lane
    folds.
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
        """C type of each component; a ``bool`` component is an ``int``."""
        return tuple("int" if e.dtype == "bool" else computed(e.dtype) for e in self.monoid.identity)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}{n}{self.suffix}" for n in range(self.parts))

    @property
    def others(self) -> list[str]:
        """Variables of a second partial result, to merge with this one."""
        return [f"{self.name}o{n}" for n in range(self.parts)]

    @property
    def slot(self) -> int:
        """Bytes of a component's slot in shared memory: one size for all components, so that all are aligned."""
        return max(C_BYTES[t] for t in self.types)

    @property
    def bytes(self) -> int:
        """Bytes of a whole partial result in shared memory."""
        return self.parts * self.slot

    @property
    def var(self) -> dict[str, str]:
        """Names by which a finish or a later expression reads the accumulators: ``l0``, ``l1``, ..."""
        return {f"l{n}": name for n, name in enumerate(self.names)}

    @property
    def neutral(self) -> tuple[str, ...]:
        """Text of each component's identity value."""
        p = printer(self.program, {}, {}, {}, ())
        return tuple(p.scalar(e) for e in self.monoid.identity)

    def start(self, pad: str) -> str:
        """Declarations that initialise the accumulators with the identity."""
        parts = zip(self.types, self.names, self.neutral, strict=True)
        return "".join(f"{pad}{t} {n} = {e};\n" for t, n, e in parts)

    def combine(self, right: Sequence[str], pad: str, swap: bool = False) -> str:
        """Statements that merge the partial result ``right`` into this one; ``swap``: as the left operand instead."""
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
        """Statements that fold one element into the accumulators, given ``statements`` and texts of its components."""
        lines = "".join(
            f"{pad}const {t} {self.name}v{n} = {v};\n" for n, (t, v) in enumerate(zip(self.types, values, strict=True))
        )
        return statements + lines + self.combine([f"{self.name}v{n}" for n in range(self.parts)], pad)

    def across(self, lanes: int, pad: str) -> str:
        """Statements of an all-reduce over every aligned group of ``lanes`` lanes."""
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
        """Whether the monoid may be non-commutative; the built-in ones are commutative."""
        return self.monoid.name not in ("sum", "prod", "max", "min", "argmax", "argmin")

    def put(self, base: str, slot: str, count: int, pad: str) -> str:
        """Statements that write this result to slot ``slot`` of ``count`` in shared memory at ``base`` (bytes)."""
        return "".join(
            f"{pad}tw::store_shared(({t} *)({base}{_plus(at * self.slot)}) + {slot}, {x});\n"
            for at, t, x in zip(range(0, self.parts * count, count), self.types, self.names, strict=True)
        )

    def read(self, value: Callable[[int, str], str], pad: str) -> str:
        """Declarations of :attr:`others`; ``value`` returns the text of a component, given its number and C type."""
        parts = enumerate(zip(self.types, self.others, strict=True))
        return "".join(f"{pad}const {t} {x} = {value(n, t)};\n" for n, (t, x) in parts)

    def take(self, pad: str) -> str:
        """Statements that replace this result with :attr:`others`."""
        return "".join(f"{pad}{x} = {o};\n" for x, o in zip(self.names, self.others, strict=True))

    def get(self, base: str, slot: str, count: int, pad: str) -> str:
        """Declarations of :attr:`others`, read from slot ``slot`` in shared memory."""
        return self.read(
            lambda n, t: f"tw::load_shared<{t}>((const {t} *)({base}{_plus(n * count * self.slot)}) + {slot})", pad
        )

    def gather(self, base: str, slots: int, own: str, only: str, first: str, step: int, count: int, pad: str) -> str:
        """Statements that merge ``count`` results of a block through shared memory; every thread gets the result.

        A thread for which ``only`` holds (``""``: every thread) writes its result to slot ``own``. A thread merges the
        slots ``first``, ``first + step``, ... At ``base`` lie ``slots`` slots for this merge alone. With ``step`` 1,
        the lanes of every warp merge neighbouring slots; ``count`` then is a power of two, 32 at most.
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

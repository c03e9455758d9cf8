"""Prints a nest's loops: bounds, run-time steps, tails, threads. Templates print what is inside.

For an axis with several loops, every loop walks the tile that the loop before it hands in; positions
are absolute. Inside a loop a :class:`Scope` gives, per axis, the text of the first position and of
the end of the current tile, and whether the tile is known to be whole.

``parallel`` loops become a function of its own, called through ``env->parallel_for`` with a context
that holds the captured names; loops next to each other are run as one set of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.loopnest import Loop, LoopNest


@dataclass(frozen=True)
class Tile:
    """The part of an axis that the code at hand works on.

    ``start`` and ``end`` (exclusive) are C texts of absolute positions. ``size`` is the tile's
    largest size in this schedule; ``whole`` says that it always has that size, ``fixed`` that the
    size is a constant of the structure (not a launch argument).
    """

    start: str
    end: str
    size: int
    whole: bool = True
    fixed: bool = True

    @property
    def count(self) -> str:
        """C text of the number of elements in the tile."""
        if self.whole and self.fixed:
            return f"{self.size}L"
        return self.end if self.start == "0" else f"({self.end} - {self.start})"


@dataclass(frozen=True)
class Scope:
    """What the code inside some loops may use."""

    tiles: Mapping[str, Tile]
    depth: int = 0
    worker: str = "0L"  # C text: index of the running thread, below env->threads
    captured: tuple[tuple[str, str], ...] = ()  # C type and name of each local in reach

    def at(self, axis: str) -> str:
        """C text of the axis's position (the start of its current tile)."""
        return self.tiles[axis].start

    def with_tile(self, axis: str, tile: Tile) -> Scope:
        return replace(self, tiles={**self.tiles, axis: tile})

    def with_local(self, ctype: str, name: str) -> Scope:
        return replace(self, captured=(*self.captured, (ctype, name)))


Hook = Callable[[Writer, Scope], "Scope | None"]
Body = Callable[[Writer, Scope], None]


@dataclass
class Emitter:
    """Prints nests of one kernel; ``functions`` collects what must stand before the entry point.

    ``prefix`` makes names unique. ``before[d]`` and ``after[d]`` are called inside the first ``d``
    loops, before and after the loop number ``d`` (or the body, when ``d`` is the last): staged copies,
    accumulators, stores. A ``before`` hook may return a new scope for what is inside.
    """

    prefix: str
    functions: list[str] = field(default_factory=list)
    _count: int = 0
    _blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A name that no other has in this kernel."""
        self._count += 1
        return f"{stem}{self._count}"

    def nest(
        self,
        writer: Writer,
        nest: LoopNest,
        body: Body,
        *,
        captured: Sequence[tuple[str, str]] = (),
        before: Mapping[int, Hook] | None = None,
        after: Mapping[int, Hook] | None = None,
        loops: Sequence[Loop] | None = None,
        blocks: Mapping[str, tuple[int, ...]] | None = None,
        scope: Scope | None = None,
    ) -> None:
        """Print ``loops`` (all the nest's by default) around ``body``.

        ``captured``: C type and name of the locals that the body may use; ``env`` is one of them
        when there is a parallel loop. ``blocks``: for axes whose serial ``register`` loop is printed
        once per block size, the sizes, largest first; what is inside then sees whole tiles of these
        sizes and, where the last is more than 1, one tile that is not whole. ``scope``: where the
        nest stands, if not at the top; its tiles are kept.
        """
        tiles = {a: Tile("0", f"{n}L", n) for a, n in nest.axes.items()}
        if scope is None:
            scope = Scope(tiles, captured=tuple(captured))
        else:
            scope = replace(scope, tiles={**tiles, **scope.tiles})
        self._blocks = blocks or {}
        chosen = tuple(nest.loops if loops is None else loops)
        self._level(writer, chosen, 0, scope, body, before or {}, after or {})

    def _level(
        self,
        w: Writer,
        loops: tuple[Loop, ...],
        depth: int,
        scope: Scope,
        body: Body,
        before: Mapping[int, Hook],
        after: Mapping[int, Hook],
    ) -> None:
        scope = replace(scope, depth=depth)
        if depth in before:
            scope = before[depth](w, scope) or scope

        def inside(writer: Writer, inner: Scope, levels: int = 1) -> None:
            self._level(writer, loops, depth + levels, inner, body, before, after)

        if depth == len(loops):
            body(w, scope)
        elif loops[depth].kind == "parallel":
            last = depth + 1
            while (
                last < len(loops)
                and loops[last].kind == "parallel"
                and loops[last].axis not in {x.axis for x in loops[depth:last]}
                and last not in before
                and last not in after
            ):
                last += 1
            self._parallel(w, loops[depth:last], scope, lambda wr, s: inside(wr, s, last - depth))
        elif loops[depth].kind == "unroll":
            self._unroll(w, loops[depth], scope, inside)
        elif loops[depth].level == "register" and loops[depth].axis in self._blocks:
            self._blocked(w, loops[depth], scope, inside)
        else:
            self._serial(w, loops[depth], scope, inside)
        if depth in after:
            after[depth](w, scope)

    # -- kinds of loop
    def _serial(self, w: Writer, loop: Loop, scope: Scope, inside: Body) -> None:
        outer = scope.tiles[loop.axis]
        name = self.fresh(f"{loop.axis}_")
        tile, ends = inner_tile(loop, outer, name)
        if outer.whole and outer.fixed and tile.fixed and outer.size <= loop.step:
            # One trip: no loop, the tile is what was handed in.
            inside(w, scope)
            return
        step = step_text(loop)
        advance = f"{name}++" if step == "1L" else f"{name} += {step}"
        with w.block(f"for (long {name} = {outer.start}; {name} < {outer.end}; {advance})"):
            if ends:
                w.line(f"const long {ends} = tw::imin({name} + {step}, {outer.end});")
            inner = scope.with_tile(loop.axis, tile).with_local("long", name)
            inside(w, inner.with_local("long", ends) if ends else inner)

    def _blocked(self, w: Writer, loop: Loop, scope: Scope, inside: Body) -> None:
        outer = scope.tiles[loop.axis]
        name = self.fresh(f"{loop.axis}_")
        known = outer.size if outer.whole and outer.fixed else None
        sizes = self._blocks[loop.axis]
        with w.block():
            w.line(f"long {name} = {outer.start};")
            inner = scope.with_local("long", name)
            for size in sizes:
                if known is not None and known < size:
                    continue
                tile = Tile(name, f"({name} + {size})", size)
                head = f"for (; {name} < {outer.end}; {name}++)"
                if size > 1:
                    head = f"for (; {name} + {size} <= {outer.end}; {name} += {size})"
                with w.block(head):
                    inside(w, inner.with_tile(loop.axis, tile))
                known = None if known is None else known % size
            if sizes[-1] > 1 and known != 0:
                with w.block(f"if ({name} < {outer.end})"):
                    inside(w, inner.with_tile(loop.axis, Tile(name, outer.end, sizes[-1], False)))

    def _unroll(self, w: Writer, loop: Loop, scope: Scope, inside: Body) -> None:
        outer = scope.tiles[loop.axis]
        trips = -(-outer.size // loop.step)
        for k in range(trips):
            start = plus(outer.start, k * loop.step)
            end = plus(outer.start, (k + 1) * loop.step)
            fits = outer.whole and (k + 1) * loop.step <= outer.size
            whole = fits or loop.step == 1
            tile = Tile(start, end if whole else f"tw::imin({end}, {outer.end})", loop.step, whole)
            head = "" if outer.whole else f"if ({start} < {outer.end})"
            with w.block(head):
                inside(w, scope.with_tile(loop.axis, tile))

    def _parallel(self, w: Writer, loops: tuple[Loop, ...], scope: Scope, inside: Body) -> None:
        name = f"{self.prefix}_task{len(self.functions)}"
        self.functions.append("")  # keeps its place: nested ones come later but print before
        place = len(self.functions) - 1
        trips = []
        for loop in loops:
            outer = scope.tiles[loop.axis]
            trips.append(trip_text(loop, outer))
        context = f"{name}_ctx"
        names = list(dict.fromkeys(scope.captured))
        fn = Writer()
        with fn.block(f"struct {context}"):
            for ctype, n in names:
                fn.line(f"{ctype} {n};")
        fn.lines[-1] = "};"
        with fn.block(f"static void {name}(void *ctx_, long task_, long worker_)"):
            fn.line("(void)worker_;")
            fn.line(f"const {context} &c_ = *(const {context} *)ctx_;")
            for ctype, n in names:
                fn.line(f"{ctype} const {n} = c_.{n};" if ctype.endswith("*") else f"const {ctype} {n} = c_.{n};")
            inner = replace(scope, worker="worker_")
            for position, loop in reversed(list(enumerate(loops))):
                outer = scope.tiles[loop.axis]
                index = self.fresh(f"{loop.axis}_")
                which = "task_" if position == 0 else f"task_ % ({trips[position]})"
                at = f"({which}) * {step_text(loop)}"
                fn.line(f"const long {index} = {at if outer.start == '0' else f'{outer.start} + {at}'};")
                if position:
                    fn.line(f"task_ /= {trips[position]};")
                tile, ends = inner_tile(loop, outer, index)
                if ends:
                    fn.line(f"const long {ends} = tw::imin({index} + {step_text(loop)}, {outer.end});")
                inner = inner.with_tile(loop.axis, tile).with_local("long", index)
                if ends:
                    inner = inner.with_local("long", ends)
            inside(fn, inner)
        self.functions[place] = fn.text()
        call = self.fresh("ctx")
        values = ", ".join(n for _, n in names)
        with w.block():
            w.line(f"{context} {call} = {{{values}}};")
            w.line(f"tw::parallel_for(env, {' * '.join(f'({t})' for t in trips)}, {name}, &{call});")

    def unit(self, symbol: str, body: Writer) -> str:
        """A whole kernel: the collected functions in ``namespace <symbol>_``, then the entry point.

        ``body`` is the text inside the entry point, before its ``return``.
        """
        functions = "".join(reversed(self.functions))
        entry = Writer()
        if functions:
            entry.line(f"namespace {symbol}_ {{\n{functions}}}")
        with entry.block(f"TW_ENTRY({symbol})"):
            entry.line("(void)tensors; (void)args; (void)workspace; (void)env;")
            if functions:
                entry.line(f"using namespace {symbol}_;")
            entry.lines += body.lines
            entry.line("return 0;")
        return entry.text()


def inner_tile(loop: Loop, outer: Tile, start: str) -> tuple[Tile, str]:
    """The tile that one trip of a loop hands in, and the name of its end where that is computed."""
    if loop.step == 1 and loop.argument is None:
        return Tile(start, f"({start} + 1)", 1), ""
    fixed = loop.argument is None
    if fixed and outer.whole and outer.fixed and outer.size % loop.step == 0:
        return Tile(start, f"({start} + {loop.step}L)", loop.step), ""
    ends = f"{start}e"
    return Tile(start, ends, loop.step, False, fixed), ends


def step_text(loop: Loop) -> str:
    """C text of a loop's step: its launch argument, or a constant."""
    return loop.argument if loop.argument is not None else f"{loop.step}L"


def trip_text(loop: Loop, outer: Tile) -> str:
    """C text of how often a loop runs inside a tile."""
    if outer.whole and outer.fixed and loop.argument is None:
        return f"{-(-outer.size // loop.step)}L"
    return f"tw::ceildiv({outer.count}, {step_text(loop)})"


def plus(text: str, n: int) -> str:
    """C text of ``text + n``."""
    if n == 0:
        return text
    return f"{n}L" if text == "0" else f"({text} + {n})"

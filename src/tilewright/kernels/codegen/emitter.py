"""Prints a CPU kernel: its entry point, its tasks, and a nest's loops. Templates print the loops' bodies.

For an axis with several loops, every loop iterates over the tile that the enclosing loop hands in; positions are
absolute. Inside a loop a :class:`Scope` gives, per axis, the texts of the current tile's first position and end, and
whether the tile is known to be whole.

``parallel`` and ``chunked`` loops become a function of their own, called through ``env->parallel_for`` with a context
that holds the captured names. Adjacent ``parallel`` loops run as one set of tasks. The iterations of ``chunked`` loops
(units of work) are divided evenly among a number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tilewright.extent import Extent, argument, ctext
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.loopnest import Loop, LoopNest


@dataclass(frozen=True)
class Tile:
    """The tile of an axis on which the current code works.

    ``start`` and ``end`` (exclusive) are C texts of absolute positions. ``size`` is the largest size of the tile in
    this schedule. ``whole``: the tile always has that size. ``fixed``: the size is a constant of the structure, not a
    launch argument. ``left``: size of a partial tile, if known.
    """

    start: str
    end: str
    size: int
    whole: bool = True
    fixed: bool = True
    left: int | None = None

    @property
    def known(self) -> int | None:
        """Size of the tile if it is a constant; else ``None``."""
        return self.size if self.whole and self.fixed else self.left

    @property
    def count(self) -> str:
        """C text of the number of elements in the tile."""
        if self.known is not None:
            return f"{self.known}L"
        return self.end if self.start == "0" else f"({self.end} - {self.start})"

    @property
    def partial(self) -> str | None:
        """C text of the number of elements if the tile may be partial; ``None`` for a whole tile."""
        return None if self.whole else self.count

    def vectors(self, lanes: int) -> list[str]:
        """C texts of the first positions of the tile's vectors; a partial tile has one vector."""
        return [plus(self.start, v * lanes) for v in range(max(1, self.size // lanes))]


def whole(extent: int) -> Tile:
    """The tile of a whole axis. A symbolic extent is a launch argument."""
    if isinstance(extent, Extent):
        return Tile("0", ctext(extent), int(extent), False, False)
    return Tile("0", ctext(extent), extent)


@dataclass(frozen=True)
class Scope:
    """Names and tiles that the code inside some loops may use."""

    tiles: Mapping[str, Tile]
    depth: int = 0
    worker: str = "0L"  # C text: index of the running thread, below env->threads
    captured: tuple[tuple[str, str], ...] = ()  # C type and name of each local in scope

    def at(self, axis: str) -> str:
        """C text of the axis's position (the start of its current tile)."""
        return self.tiles[axis].start

    def with_tile(self, axis: str, tile: Tile) -> Scope:
        return replace(self, tiles={**self.tiles, axis: tile})

    def with_local(self, ctype: str, name: str) -> Scope:
        return replace(self, captured=(*self.captured, (ctype, name)))


Hook = Callable[[Writer, Scope], "Scope | None"]
Body = Callable[[Writer, Scope], None]


@dataclass(frozen=True)
class _Choices:
    """Arguments of :meth:`Emitter.nest` beside the loops."""

    before: Mapping[int, Hook]
    after: Mapping[int, Hook]
    blocks: Mapping[str, tuple[int, ...]]
    tasks: str
    offsets: Mapping[str, str]
    closing: str


@dataclass
class Emitter:
    """Prints nests of one kernel; ``functions`` collects text that must precede the entry point.

    ``prefix``, the kernel's symbol, makes names unique. ``entry`` holds the body of the entry point. ``captured`` holds
    C types and names of the entry point's locals, which tasks receive. ``printed``: the nests printed so far, each with
    its printed loops.

    ``before[d]`` and ``after[d]`` are called inside the first ``d`` loops, before and after loop number ``d`` (or the
    body, if ``d`` is the last): for staged copies, accumulators, stores. A ``before`` hook may return a new scope for
    the code inside.
    """

    prefix: str
    functions: list[str] = field(default_factory=list)
    entry: Writer = field(default_factory=lambda: Writer(1))
    captured: list[tuple[str, str]] = field(default_factory=lambda: [("const tw_env *", "env")])
    printed: list[tuple[LoopNest, tuple[Loop, ...]]] = field(default_factory=list)
    _count: int = 0

    def fresh(self, stem: str) -> str:
        """A name that is unique in this kernel."""
        self._count += 1
        return f"{stem}{self._count}"

    def let(self, w: Writer, stem: str, ctype: str, text: str) -> str:
        """Declares a constant and returns its fresh name."""
        name = self.fresh(stem)
        w.line(f"const {ctype} {name} = {text};")
        return name

    def local(self, ctype: str, name: str, value: str) -> None:
        """Declares a local of the entry point that tasks receive."""
        self.entry.line(f"const {ctype} {name} = {value};" if ctype == "long" else f"{ctype}const {name} = {value};")
        self.captured.append((ctype, name))

    def tensors(self, kinds: Mapping[str, str], outputs: int = 1) -> None:
        """Declares pointers to the tensors, in call order, outputs last; ``kinds`` maps names to C types of
        elements."""
        for n, (name, kind) in enumerate(kinds.items()):
            ctype = f"{'const ' if n < len(kinds) - outputs else ''}{kind} *"
            self.local(ctype, name, f"({ctype})tensors[{n}]")

    def arguments(self, names: Sequence[str]) -> None:
        """Declares the launch arguments, in order; symbolic sizes are named by :attr:`~.Extent.argument`."""
        for n, name in enumerate(names):
            self.local("long", name, f"args[{n}]")

    def nest(
        self,
        writer: Writer,
        nest: LoopNest,
        body: Body,
        *,
        before: Mapping[int, Hook] | None = None,
        after: Mapping[int, Hook] | None = None,
        loops: Sequence[Loop] | None = None,
        blocks: Mapping[str, tuple[int, ...]] | None = None,
        scope: Scope | None = None,
        tasks: str = "1L",
        offsets: Mapping[str, str] | None = None,
        closing: str = "",
    ) -> None:
        """Prints ``loops`` around ``body``; by default all loops of the nest outside its block.

        Loops of kinds ``unroll`` and ``vector`` form the block that the body computes. A serial ``register`` loop
        around block loops of its axis is printed once per block size, the largest first: its step, and the step of the
        block's first loop. The body then sees whole tiles of each size and, if the smallest size exceeds 1, one partial
        tile. ``blocks`` overrides the sizes by axis, from the loop's step down.

        ``scope``: the enclosing scope, if the nest is not at the top; its tiles are kept. ``tasks``: C text of the
        largest number of tasks for ``chunked`` loops. ``offsets``: by axis, C text of the extra length of a ``chunked``
        loop's first tile, so that the other tiles begin at aligned addresses. ``closing``: a statement at the end of
        every task of ``chunked`` loops.

        Raises ``ValueError`` for loops that do not belong to the nest, or do not cover an axis as the nest does.
        """
        chosen = nest.around if loops is None else tuple(loops)
        self.printed.append((nest, chosen))
        _check(nest, chosen, blocks or {})
        tiles = {a: whole(n) for a, n in nest.axes.items()}
        if scope is None:
            scope = Scope(tiles, captured=tuple(self.captured))
        else:
            scope = replace(scope, tiles={**tiles, **scope.tiles})
        told = _Choices(before or {}, after or {}, {**nest.blocks, **(blocks or {})}, tasks, offsets or {}, closing)
        self._level(writer, chosen, 0, scope, body, told)

    def _level(
        self,
        w: Writer,
        loops: tuple[Loop, ...],
        depth: int,
        scope: Scope,
        body: Body,
        told: _Choices,
    ) -> None:
        before, after = told.before, told.after
        scope = replace(scope, depth=depth)
        if depth in before:
            scope = before[depth](w, scope) or scope

        def inside(writer: Writer, inner: Scope, levels: int = 1) -> None:
            self._level(writer, loops, depth + levels, inner, body, told)

        if depth == len(loops):
            body(w, scope)
        elif loops[depth].kind in ("parallel", "chunked"):
            last = depth + 1
            while (
                last < len(loops)
                and loops[last].kind == loops[depth].kind
                and loops[last].axis not in {x.axis for x in loops[depth:last]}
                and last not in before
                and last not in after
            ):
                last += 1
            run = self._parallel if loops[depth].kind == "parallel" else self._chunked
            run(w, loops[depth:last], scope, lambda wr, s: inside(wr, s, last - depth), told)
        elif loops[depth].level == "register" and loops[depth].axis in told.blocks:
            self._blocked(w, loops[depth], scope, inside, told.blocks[loops[depth].axis])
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
            # One trip: no loop, the inner tile is the outer one.
            inside(w, scope)
            return
        step = step_text(loop)
        advance = f"{name}++" if step == "1L" else f"{name} += {step}"
        with w.block(f"for (long {name} = {outer.start}; {name} < {outer.end}; {advance})"):
            if ends:
                w.line(f"const long {ends} = tw::imin({name} + {step}, {outer.end});")
            inner = scope.with_tile(loop.axis, tile).with_local("long", name)
            inside(w, inner.with_local("long", ends) if ends else inner)

    def _blocked(self, w: Writer, loop: Loop, scope: Scope, inside: Body, sizes: tuple[int, ...]) -> None:
        outer = scope.tiles[loop.axis]
        if outer.start == "0" and not outer.fixed:
            self._open(w, loop, scope, inside, sizes)
            return
        name = self.fresh(f"{loop.axis}_")
        known = outer.known
        with w.block():
            w.line(f"long {name} = {outer.start};")
            inner = scope.with_local("long", name)
            for size in sizes:
                if known is not None and known < size:
                    continue
                once = known is not None and known < 2 * size
                head = f"for (; {name} + {size} <= {outer.end}; {name} += {size})"
                if size == 1:
                    head = f"for (; {name} < {outer.end}; {name}++)"
                known = None if known is None else known % size
                with w.block("" if once else head):
                    inside(w, inner.with_tile(loop.axis, Tile(name, f"({name} + {size})", size)))
                    if once and known:
                        w.line(f"{name} += {size};")
            if sizes[-1] > 1 and known != 0:
                with w.block("" if known else f"if ({name} < {outer.end})"):
                    inside(w, inner.with_tile(loop.axis, Tile(name, outer.end, sizes[-1], False, left=known)))

    def _open(self, w: Writer, loop: Loop, scope: Scope, inside: Body, sizes: tuple[int, ...]) -> None:
        """Prints blocks of an axis with a symbolic extent: the start of each block size depends on the extent alone.

        So compilers hoist the starts, and the masks of the remainder, out of the loop over rows.
        """
        end, before = scope.tiles[loop.axis].end, 0
        for size in (*sizes, 0) if sizes[-1] > 1 else sizes:
            name = self.fresh(f"{loop.axis}_")
            start = f"{end} - {end} % {before}" if before else "0"
            tile = Tile(name, f"({name} + {size})", size) if size else Tile(name, end, before, False)
            head = f"for (long {name} = {start}; {name} + {size} <= {end}; {name} += {size})"
            if before in (2 * size, sizes[-1]):  # at most one block is left
                w.line(f"const long {name} = {start};")
                head = f"if ({name} + {size or 1} <= {end})"
            with w.block(head):
                inside(w, scope.with_local("long", name).with_tile(loop.axis, tile))
            before = size

    @contextmanager
    def _task(self, w: Writer, scope: Scope, tasks: str) -> Iterator[Writer]:
        """Yields a writer for the body of a function that every task runs, then prints the call."""
        name = f"{self.prefix}_task{len(self.functions)}"
        self.functions.append("")  # reserves its place: nested functions are added later but printed first
        place = len(self.functions) - 1
        context = f"{name}_ctx"
        names = list(dict.fromkeys(scope.captured))
        fn = Writer()
        with fn.block(f"struct {context}"):
            for ctype, n in names:
                fn.line(f"{ctype} {n};")
        fn.lines[-1] = "};"
        with fn.block(f"TW_NOINLINE void {name}(void *ctx_, long task_, long worker_)"):
            fn.line("(void)worker_;")
            fn.line(f"const {context} &c_ = *(const {context} *)ctx_;")
            for ctype, n in names:
                # Symbolic sizes are copied: the compiler then knows that stores do not change values computed from
                # them.
                copied = ctype.endswith("*") or n.startswith(argument(""))
                fn.line(f"{ctype} const {n} = c_.{n};" if copied else f"const {ctype} &{n} = c_.{n};")
            yield fn
        self.functions[place] = fn.text()
        call = self.fresh("ctx")
        values = ", ".join(n for _, n in names)
        with w.block():
            w.line(f"{context} {call} = {{{values}}};")
            w.line(f"tw::parallel_for(env, {tasks}, {name}, &{call});")

    def _entered(self, w: Writer, loop: Loop, scope: Scope, index: str, offset: str | None = None) -> Scope:
        """The scope inside iteration number ``index`` of a loop that runs as tasks."""
        outer, step = scope.tiles[loop.axis], step_text(loop)
        start = index
        if offset is not None:
            start, ends = self.fresh(f"{loop.axis}_"), self.fresh(f"{loop.axis}_")
            w.line(f"const long {start} = {index} ? {offset} + {index} * {step} : 0;")
            w.line(f"const long {ends} = tw::imin({outer.end}, {offset} + ({index} + 1) * {step});")
            tile = Tile(start, ends, loop.step, False, False)
        else:
            if step != "1L" or outer.start != "0":
                start = self.fresh(f"{loop.axis}_")
                at = f"{index} * {step}"
                w.line(f"const long {start} = {at if outer.start == '0' else f'{outer.start} + {at}'};")
            tile, ends = inner_tile(loop, outer, start)
            if ends:
                w.line(f"const long {ends} = tw::imin({start} + {step}, {outer.end});")
        inner = scope.with_tile(loop.axis, tile).with_local("long", start)
        return inner.with_local("long", ends) if ends else inner

    def _parallel(self, w: Writer, loops: tuple[Loop, ...], scope: Scope, inside: Body, _: _Choices) -> None:
        trips = [trip_text(loop, scope.tiles[loop.axis]) for loop in loops]
        with self._task(w, scope, " * ".join(f"({t})" for t in trips)) as fn:
            inner = replace(scope, worker="worker_")
            for position, loop in reversed(list(enumerate(loops))):
                index = self.fresh(f"{loop.axis}_")
                fn.line(f"const long {index} = {'task_' if position == 0 else f'task_ % ({trips[position]})'};")
                if position:
                    fn.line(f"task_ /= {trips[position]};")
                inner = self._entered(fn, loop, inner, index)
            inside(fn, inner)

    def _chunked(self, w: Writer, loops: tuple[Loop, ...], scope: Scope, inside: Body, told: _Choices) -> None:
        with w.block():
            self._divide(w, loops, scope, inside, told)

    def _divide(self, w: Writer, loops: tuple[Loop, ...], scope: Scope, inside: Body, told: _Choices) -> None:
        trips = []
        for loop in loops:
            outer, offset = scope.tiles[loop.axis], told.offsets.get(loop.axis)
            text = trip_text(loop, outer)
            if offset is not None:
                text = f"tw::imax(1, tw::ceildiv({outer.end} - {offset}, {step_text(loop)}))"
            if not text[:-1].isdigit():
                name = self.fresh("trips")
                w.line(f"const long {name} = {text};")
                scope, text = scope.with_local("long", name), name
            trips.append(text)
        w.line(f"const long units = {' * '.join(trips)}, tasks_ = tw::imin({told.tasks}, units);")
        scope = scope.with_local("long", "units").with_local("long", "tasks_")
        digits = [self.fresh(f"{loop.axis}_") for loop in loops]
        with self._task(w, scope, "tasks_") as fn:
            fn.line("const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;")
            fn.line("long q_ = u0;")
            for n, (digit, trip) in reversed(list(enumerate(zip(digits, trips, strict=True)))):
                fn.line(f"long {digit} = {'q_' if n == 0 else f'q_ % {trip}'};")
                if n:
                    fn.line(f"q_ /= {trip};")
            with fn.block("for (long u_ = u0; u_ < u1; u_++)"):
                inner = replace(scope, worker="worker_")
                for loop, digit in zip(loops, digits, strict=True):
                    inner = self._entered(fn, loop, inner, digit, told.offsets.get(loop.axis))
                inside(fn, inner)
                step = ""
                for n, (digit, trip) in enumerate(zip(digits, trips, strict=True)):
                    step = f"{digit}++;" if n == 0 else f"if (++{digit} == {trip}) {{ {digit} = 0; {step} }}"
                fn.line(step)
            if told.closing:
                fn.line(told.closing)

    def unit(self, helpers: str = "") -> str:
        """The text of the kernel: ``helpers`` and the functions in ``namespace <symbol>_``, then the entry point."""
        symbol = self.prefix
        functions = helpers + "".join(reversed(self.functions))
        entry = Writer()
        if functions:
            entry.line(f"namespace {symbol}_ {{\n{functions}}}")
        with entry.block(f"TW_ENTRY({symbol})"):
            entry.line("(void)tensors; (void)args; (void)workspace; (void)env;")
            if functions:
                entry.line(f"using namespace {symbol}_;")
            entry.lines += self.entry.lines
            entry.line("return 0;")
        return entry.text()


def _check(nest: LoopNest, loops: tuple[Loop, ...], blocks: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ``ValueError`` if the loops of an axis begin or end differently from the nest's loops."""
    own = set(nest.loops)
    if not own.issuperset(loops):
        for axis in {x.axis for x in loops}:
            mine, here = ([x for x in found if x.axis == axis] for found in (loops, nest.loops))
            ends = mine[0].extent in [x.extent for x in here] and mine[-1].step in [x.step for x in here]
            if not ends or not {x.argument for x in here} >= {x.argument for x in mine}:
                raise ValueError(f"the text has other loops over {axis!r} than {nest.name!r}")
    for axis, sizes in blocks.items():
        if not any(x.axis == axis and x.level == "register" and x.step == max(sizes) for x in loops):
            raise ValueError(f"the text has other blocks of {axis!r} than {nest.name!r}")


def inner_tile(loop: Loop, outer: Tile, start: str) -> tuple[Tile, str]:
    """The tile of one iteration of a loop, and the name of its end if the end must be computed."""
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
    """C text of the number of iterations of a loop over a tile."""
    if outer.whole and outer.fixed and loop.argument is None:
        return f"{-(-outer.size // loop.step)}L"
    return f"tw::ceildiv({outer.count}, {step_text(loop)})"


def plus(text: str, n: int) -> str:
    """C text of ``text + n``."""
    if n == 0:
        return text
    return f"{n}L" if text == "0" else f"({text} + {n})"

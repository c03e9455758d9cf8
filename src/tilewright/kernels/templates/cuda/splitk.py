"""Split-K: blocks sum pieces of K into the workspace, a second kernel merges them.

The workspace holds ``SPLIT`` arrays of batch x M x N partial results, one after the other. ``SPLIT`` is a
launch argument, so that kernels for different numbers of pieces are one binary.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.core import IntExpr, Launch
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.cuda.epilogue import Epilogue, combine
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.text import NARROW, VALUE, VALUE_BYTES, mentioned, parameters
from tilewright.kernels.templates.tiles import ceildiv

THREADS = 256
MOST = 128
"""The most pieces."""
WORKSPACE_LIMIT = 256 << 20
"""Bytes of partial results beyond which K is not split."""


@lru_cache(maxsize=1024)
def splits(c: CudaContraction, steps: int) -> tuple[int, ...]:
    """Values of SPLIT above 1 for ``steps`` tiles along K: no piece is empty, the workspace is small."""
    found = []
    for s in (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, MOST):
        fits = s * c.outputs * VALUE_BYTES[c.acc] <= WORKSPACE_LIMIT
        if s <= steps and fits and whole(steps, s):
            found.append(s)
    return tuple(found)


def whole(steps: int, split: int) -> bool:
    """Whether every one of ``split`` pieces of ``ceil(steps / split)`` tiles has a tile."""
    return ceildiv(steps, ceildiv(steps, split)) == split


def workspace(c: CudaContraction, split: bool) -> IntExpr:
    """Bytes of workspace."""
    return ["*", "SPLIT", c.outputs * VALUE_BYTES[c.acc]] if split else 0


def width(c: CudaContraction) -> int:
    """How many partial results along N one access may hold."""
    w = 16 // VALUE_BYTES[c.acc]
    while c.n.size % w:
        w //= 2
    return w


def pieces(steps: int, first: str, end: str) -> str:
    """A statement that declares a piece's tiles of K, ``first`` up to ``end``: pieces differ by one at most."""
    if steps * MOST < NARROW:
        return f"const int {first} = piece * {steps} / SPLIT, {end} = (piece + 1) * {steps} / SPLIT;"
    return f"const int {first} = int(piece * {steps}LL / SPLIT), {end} = int((piece + 1) * {steps}LL / SPLIT);"


def _partial(c: CudaContraction, values: int, edges: str) -> str:
    """The body of ``store_partial``."""
    acc = VALUE[c.acc]
    out = f"    if (m >= {c.m.size}) return;\n" if "m" in edges else ""
    row = f"batch * {c.m.size}LL + m" if c.batch.size > 1 else "(long long)m"
    place = f"({row}) * {c.n.size} + n" if c.outputs > c.n.size else "n"
    to = f"    {acc} *to = ({acc} *)ws + piece * {c.outputs}LL + {place};\n"
    w = min(values, width(c))
    inner = "n" in edges and c.n.size % values != 0
    if "n" in edges and not inner:
        out += f"    if (n >= {c.n.size}) return;\n"
    out += to
    if w == values:
        return (
            f"{out}    tw::pack<{acc}, {w}> p;\n    TW_UNROLL\n    for (int j = 0; j < {w}; j++) p.v[j] = v[j];\n"
            "    tw::store_global(to, p);\n"
        )
    out += f"    TW_UNROLL\n    for (int i = 0; i < {values}; i += {w}) {{\n"
    if inner:
        out += f"        if (n + i >= {c.n.size}) continue;\n"
    if w == 1:
        return out + "        tw::store_global(to + i, v[i]);\n    }\n"
    return (
        f"{out}        tw::pack<{acc}, {w}> p;\n        TW_UNROLL\n"
        f"        for (int j = 0; j < {w}; j++) p.v[j] = v[i + j];\n"
        "        tw::store_global(to + i, p);\n    }\n"
    )


def define(c: CudaContraction, values: int, edges: str) -> str:
    """``store_partial(ws, v, piece, batch, m, n)`` for the kernel's namespace: as ``store``, unfinished.

    ``values`` and ``edges`` as of :class:`.Epilogue`. It takes only what it reads: call it by :func:`store`.
    """
    body = _partial(c, values, edges)
    taken = ", ".join(f"int {x}" for x in ("piece", *mentioned(body, "batch", "m", "n")))
    head = f"TW_DEVICE void store_partial(unsigned char *ws, const {VALUE[c.acc]} (&v)[{values}], {taken})"
    return f"{head} {{\n{body}}}\n"


def store(c: CudaContraction, v: str, values: int, edges: str, m: str, n: str) -> str:
    """A statement that calls ``store_partial`` for the array ``v``, defined for these ``values`` and ``edges``."""
    at = {"batch": "batch", "m": m, "n": n}
    taken = [at[x] for x in mentioned(_partial(c, values, edges), *at)]
    return f"store_partial(ws, {v}, piece, {', '.join(taken)});"


def kernel(c: CudaContraction, symbol: str) -> str:
    """The second kernel, ``<symbol>_combine``: merges the pieces in order, finishes and stores.

    It stands after the namespace in which :meth:`.Epilogue.define` put ``finish``.
    """
    acc = VALUE[c.acc]
    w = width(c)
    n, m = c.n.size, c.m.size
    epilogue = Epilogue(c)
    wanted = [(c.n, 1), (c.m, n), (c.batch, m * n)]
    where = Linear(0, c.out_strides)
    in_order = not c.clips and all(group.size == 1 or group.stride(where) == step for group, step in wanted)
    store = epilogue.write(w, "e" if in_order else None)
    texts = {
        "n": f"e % {n}" if c.outputs > n else "e",
        "m": f"e / {n} % {m}" if c.batch.size > 1 else f"e / {n}",
        "batch": f"e / {m * n}",
    }
    place = "".join(f"    const int {x} = {texts[x]};\n" for x in mentioned(store, *texts))
    spare = f"    if (e >= {c.outputs}) return;\n" if c.outputs % (THREADS * w) else ""
    return (
        f"TW_KERNEL({THREADS}, 1) void {symbol}_combine({parameters(c.program, ('SPLIT',))}) {{\n"
        f"    using namespace {symbol}_;\n"
        f"    const int e = (int)(blockIdx.x * {THREADS} + threadIdx.x){f' * {w}' if w > 1 else ''};\n"
        f"{spare}{place}"
        f"    const {acc} *from = (const {acc} *)ws + e;\n"
        f"    {acc} v[{w}];\n"
        f"    tw::pack<{acc}, {w}> part = tw::load_global<tw::pack<{acc}, {w}>>(from);\n"
        "    TW_UNROLL\n"
        f"    for (int i = 0; i < {w}; i++) v[i] = part.v[i];\n"
        "    for (int s = 1; s < SPLIT; s++) {\n"
        f"        part = tw::load_global<tw::pack<{acc}, {w}>>(from + s * {c.outputs}LL);\n"
        "        TW_UNROLL\n"
        f"        for (int i = 0; i < {w}; i++) v[i] = {combine(c, 'v[i]', 'part.v[i]')};\n"
        "    }\n"
        f"    {{\n{store.replace(chr(10) + '    ', chr(10) + '        ').replace('    ', '        ', 1)}    }}\n"
        "}\n"
    )


def launch(c: CudaContraction, symbol: str) -> Launch:
    """The second launch."""
    count = ceildiv(c.outputs, THREADS * width(c))
    return Launch(f"{symbol}_combine", ("SPLIT",), grid=(count, 1, 1), block=(THREADS, 1, 1))

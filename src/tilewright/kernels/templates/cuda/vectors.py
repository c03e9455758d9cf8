"""Neighbouring elements that a thread reads, computes and writes together, as arrays of packs."""

from __future__ import annotations


def pack(kind: str, width: int) -> str:
    return kind if width == 1 else f"tw::pack<{kind}, {width}>"


def element(name: str, width: int, vector: int) -> str:
    """Text of element ``j`` of an array of packs."""
    if width == 1:
        return f"{name}[{'j' if vector > 1 else '0'}]"
    return f"{name}[0].v[j]" if width == vector else f"{name}[j / {width}].v[j % {width}]"


def packs(name: str, kind: str, width: int, vector: int, pad: str, before: str, after: str, by: int = 0) -> str:
    """A declaration of packs and the statements that read them; the address goes on by ``by``, or a pack, each time."""
    count = vector // width
    text = f"{pad}{pack(kind, width)} {name}[{count}];\n"
    if count == 1:
        return f"{text}{pad}{name}[0] = {before}{after};\n"
    return (
        f"{text}{pad}TW_UNROLL\n{pad}for (int h = 0; h < {count}; h++) "
        f"{name}[h] = {before} + h * {by or width}{after};\n"
    )


def stores(name: str, width: int, vector: int, pad: str, before: str, by: int = 0) -> str:
    """Statements that write an array of packs; the address goes on by ``by``, or a pack, each time."""
    count = vector // width
    if count == 1:
        return f"{pad}{before}, {name}[0]);\n"
    loop = f"{pad}TW_UNROLL\n{pad}for (int h = 0; h < {count}; h++) "
    return f"{loop}{before} + h * {by or width}, {name}[h]);\n"

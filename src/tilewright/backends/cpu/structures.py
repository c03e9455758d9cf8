"""Additions to :mod:`ctypes`: layouts and signatures read from C headers, and unloading."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parent / "support"
"""The folder of the support object's sources."""

Structure = type[ctypes.Structure]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRUCT = re.compile(r"\bstruct (\w+)\s*\{([^{}]*)\};")
_PROTOTYPE = re.compile(r"\bTW_API ([^();]+)\(([^()]*)\);")
_FUNCTION = re.compile(r"\(\*(\w+)\)")
_DECLARATOR = re.compile(r"(.*?)(\w+)(?:\[(\d+)\])?$", re.DOTALL)
_TYPES: dict[str, Any] = {
    "char": ctypes.c_char, "unsigned char": ctypes.c_ubyte, "unsigned short": ctypes.c_ushort, "int": ctypes.c_int,
    "unsigned": ctypes.c_uint, "long": ctypes.c_long, "long long": ctypes.c_longlong, "size_t": ctypes.c_size_t,
    "unsigned long long": ctypes.c_ulonglong, "double": ctypes.c_double, "tw_kernel": ctypes.c_void_p,
    "tw_pyfunction": ctypes.c_void_p, "tw_body": ctypes.c_void_p, "void": None,
}  # fmt: skip


def structures(header: Path, *known: dict[str, Structure]) -> dict[str, Structure]:
    """The structures that a header declares, by name. Pointers are ``c_void_p``, those to ``char`` ``c_char_p``.

    ``known``: structures of other headers that members may use.
    """
    found = {name: s for others in known for name, s in others.items()}
    own = _STRUCT.findall(_text(header))
    for name, body in own:
        fields = [f for declaration in body.split(";") if declaration.strip() for f in _fields(declaration, found)]
        found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return {name: found[name] for name, _ in own}


def prototypes(header: Path, known: dict[str, Structure]) -> dict[str, tuple[Any, list[Any]]]:
    """Result and argument types of each function that a header declares with ``TW_API``, by name."""
    found = {}
    for declared, listed in _PROTOTYPE.findall(_text(header)):
        ((name, result),) = _fields(declared, known)
        arguments = [] if listed == "void" else [_fields(a, known)[0][1] for a in listed.split(",")]
        found[name] = result, arguments
    return found


def _text(header: Path) -> str:
    return _COMMENT.sub("", header.read_text(encoding="utf-8"))


def _fields(declaration: str, known: dict[str, Structure]) -> list[tuple[str, Any]]:
    """The members of one declaration, in the form of ``_fields_``."""
    function = _FUNCTION.search(declaration)
    if function is not None:
        return [(function[1], ctypes.c_void_p)]
    base, fields = "", []
    for declarator in declaration.split(","):
        match = _DECLARATOR.match(declarator.strip())
        assert match is not None, declaration
        before, name, count = match.groups()
        base = base or before.replace("const ", "").replace("struct ", "").partition("*")[0].strip()
        kind: Any = known.get(base) or _TYPES.get(base)
        if "*" in before:
            kind = ctypes.c_char_p if base == "char" else ctypes.c_void_p
        fields.append((name, kind * int(count) if count else kind))
    return fields


def unload(library: ctypes.CDLL) -> None:
    """Unload a library once; none of its functions may be called afterwards."""
    close = ctypes.CDLL(None).dlclose
    close.argtypes = (ctypes.c_void_p,)
    close(library._handle)

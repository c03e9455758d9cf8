"""Reads kernels' resources from a cubin's ELF sections, without a toolkit or a GPU.

Every offset is checked: a truncated or hostile file raises ``CubinError`` and never causes a crash or a long loop.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.core import TilewrightError

_LIMIT = 4096  # largest number of sections; larger files are refused as not ours
_MACHINE_CUDA = 190  # EM_CUDA
_NOBITS = 8

# Attributes of .nv.info sections (format, number, then a value of 16 bits or a sized block).
_REGISTERS, _FRAME, _STACK, _MAX_THREADS = 0x2F, 0x11, 0x23, 0x05
_MIN_STACK = 0x12
_SIZED = 4


class CubinError(TilewrightError):
    """The bytes are not a cubin, or the cubin is damaged."""

    kind = "load"


@dataclass(frozen=True)
class KernelInfo:
    """Static resources of one kernel.

    ``registers`` per thread; static ``shared_bytes`` per block, without the system's reserve; ``stack_bytes`` of
    local memory per thread; ``constant_bytes`` of parameters and the data before them; ``code_bytes`` of machine code;
    ``max_threads`` per block, as bounded by the source (0: unbounded).
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    constant_bytes: int
    code_bytes: int
    max_threads: int


@dataclass(frozen=True)
class Cubin:
    """The kernels of a cubin by name, and its compute capability (90)."""

    cc: int
    kernels: Mapping[str, KernelInfo]


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    info: int


def parse(data: bytes) -> Cubin:
    """Read a cubin. Raises ``CubinError`` for other bytes and for a damaged cubin."""
    try:
        return _parse(data)
    except (struct.error, UnicodeDecodeError) as e:
        raise CubinError(f"the cubin is damaged: {e}", "Build it again") from None


def _parse(data: bytes) -> Cubin:
    if data[:4] != b"\x7fELF" or len(data) < 64 or data[4:6] != b"\x02\x01":
        raise CubinError("these bytes are no cubin: no 64-bit ELF header", "Build it again")
    (machine,) = struct.unpack_from("<H", data, 0x12)
    if machine != _MACHINE_CUDA:
        raise CubinError(f"these bytes are no cubin: an ELF file for machine {machine}", "Build it again")
    (flags,) = struct.unpack_from("<I", data, 0x30)
    sections = _sections(data)
    by_name = {s.name: s for s in sections}
    names = _symbols(data, by_name)
    values: dict[str, dict[int, int]] = {}
    if ".nv.info" in by_name:
        for attribute, block in _attributes(data, by_name[".nv.info"]):
            if attribute in (_REGISTERS, _FRAME, _STACK, _MIN_STACK) and len(block) >= 8:
                symbol, value = struct.unpack_from("<II", block)
                if symbol in names:
                    values.setdefault(names[symbol], {})[attribute] = value
    cc = _capability(flags, data[8])
    reserved = 1024 if cc >= 90 else 0  # since Hopper the section includes the system's share
    kernels = {}
    for s in sections:
        if not s.name.startswith(".text."):
            continue
        name = s.name[len(".text.") :]
        own = by_name.get(f".nv.info.{name}")
        if own is None:  # a device function that was not inlined
            continue
        found = values.get(name, {})
        bound = 0
        for attribute, block in _attributes(data, own):
            if attribute == _MAX_THREADS and len(block) >= 12:
                x, y, z = struct.unpack_from("<III", block)
                bound = x * y * z
        kernels[name] = KernelInfo(
            # Before CUDA 13, some releases had the count in the section's header alone.
            registers=found.get(_REGISTERS, s.info >> 24),
            shared_bytes=max(0, _size(by_name.get(f".nv.shared.{name}")) - reserved),
            stack_bytes=max(found.get(a, 0) for a in (_FRAME, _STACK, _MIN_STACK)),
            constant_bytes=_size(by_name.get(f".nv.constant0.{name}")),
            code_bytes=s.size,
            max_threads=bound,
        )
    return Cubin(cc, kernels)


def _capability(flags: int, abi: int) -> int:
    # ABI version 8 (CUDA 13) moved the architecture up by a byte.
    return (flags >> 8) & 0xFF if abi >= 8 else flags & 0xFF


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    if entry != 64 or not 0 < count <= _LIMIT or names_index >= count:
        raise CubinError("the cubin is damaged: its section table is invalid", "Build it again")
    _inside(data, start, entry * count, "section table")
    (programs,) = struct.unpack_from("<Q", data, 0x20)
    size, number = struct.unpack_from("<HH", data, 0x36)
    _inside(data, programs, size * number, "program table")
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + entry * i) for i in range(count)]
    strings = rows[names_index]
    _inside(data, strings[4], strings[5], "section names")
    names = data[strings[4] : strings[4] + strings[5]]
    out = []
    for name, kind, _, _, offset, size, _, info, _, _ in rows:
        if kind != _NOBITS:
            _inside(data, offset, size, "section")
        elif size > 1 << 30:
            raise CubinError("the cubin is damaged: a section is too large", "Build it again")
        out.append(_Section(_text(names, name), kind, offset, size, info))
    return out


def _symbols(data: bytes, sections: Mapping[str, _Section]) -> dict[int, str]:
    table, strings = sections.get(".symtab"), sections.get(".strtab")
    if table is None or strings is None or _NOBITS in (table.kind, strings.kind):
        raise CubinError("the cubin is damaged: it has no symbols", "Build it again")
    count = table.size // 24
    if count > 16 * _LIMIT:
        raise CubinError("the cubin is damaged: it has too many symbols", "Build it again")
    text = data[strings.offset : strings.offset + strings.size]
    return {i: _text(text, struct.unpack_from("<I", data, table.offset + 24 * i)[0]) for i in range(count)}


def _attributes(data: bytes, section: _Section) -> Iterator[tuple[int, bytes]]:
    if section.kind == _NOBITS:
        return
    at, end = section.offset, section.offset + section.size
    while at + 4 <= end:
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if at + value > end:
                raise CubinError("the cubin is damaged: an attribute runs out of its section", "Build it again")
            yield attribute, data[at : at + value]
            at += value


def _size(section: _Section | None) -> int:
    return section.size if section is not None else 0


def _inside(data: bytes, offset: int, size: int, what: str) -> None:
    if offset > len(data) or size > len(data) - offset:
        raise CubinError(f"the cubin is damaged: its {what} lies outside the file", "Build it again")


def _text(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    if offset >= len(strings) or end < 0:
        raise CubinError("the cubin is damaged: a name lies outside its table", "Build it again")
    return strings[offset:end].decode()

"""What tests ask about a compiled file."""

from __future__ import annotations

import struct

LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
"""All that a compiled kernel may need."""


class Elf:
    """As much of a 64-bit little-endian ELF file as the tests ask about."""

    def __init__(self, data: bytes) -> None:
        assert data[:6] == b"\x7fELF\x02\x01"
        self.data = data
        at, self.sections_at = struct.unpack_from("<QQ", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, at + n * size) for n in range(count)]
        size, count = struct.unpack_from("<HH", data, 58)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, self.sections_at + n * size) for n in range(count)]

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _section(self, kind: int) -> tuple[int, ...]:
        (found,) = [s for s in self.sections if s[1] == kind]
        return found

    def needed(self) -> set[str]:
        dynamic = self._section(6)
        strings = self.sections[dynamic[6]][4]
        tags = struct.iter_unpack("<qQ", self.data[dynamic[4] : dynamic[4] + dynamic[5]])
        return {self._text(strings + value) for tag, value in tags if tag == 1}

    def exported(self) -> set[str]:
        symbols = self._section(11)
        strings = self.sections[symbols[6]][4]
        rows = struct.iter_unpack("<IBBHQQ", self.data[symbols[4] : symbols[4] + symbols[5]])
        return {self._text(strings + name) for name, _, _, section, _, _ in rows if name and section}

    def stack_flags(self) -> set[int]:
        return {s[1] for s in self.segments if s[0] == 0x6474E551}

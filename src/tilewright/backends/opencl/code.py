"""File format of a kernel's code: the driver's binary, with the device and driver that it was made for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.backends.driver import LoadError

_MAGIC = b"tilewright opencl 1\n"


def packed(binary: bytes, version: str, kernels: Mapping[str, Mapping[str, int]]) -> bytes:
    """An artifact's bytes. ``kernels``: resources of each kernel, by name."""
    head = json.dumps({"for": version, "kernels": kernels}, sort_keys=True).encode()
    return _MAGIC + head + b"\n" + binary


def header(code: bytes) -> dict[str, Any]:
    """The header before the binary: ``for`` and ``kernels``. Raises ``LoadError`` for other bytes."""
    try:
        found: dict[str, Any] = json.loads(code.removeprefix(_MAGIC).partition(b"\n")[0])
        if code.startswith(_MAGIC) and found.keys() == {"for", "kernels"}:
            return found
    except (ValueError, AttributeError):
        pass
    raise LoadError("this is not an OpenCL kernel", "Build it again")


def unpacked(code: bytes, version: str) -> bytes:
    """The binary. Raises ``LoadError`` for other bytes, and for a binary of another device or driver."""
    made = header(code)["for"]
    if made != version:
        raise LoadError(f"the code was made for {made}, and this is {version}", "Tune or verify it again here")
    return code.removeprefix(_MAGIC).partition(b"\n")[2]

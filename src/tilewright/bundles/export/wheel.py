"""Writes a wheel of kernels: a shared library, a list of its kernels, and a module that needs only NumPy."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tilewright.bundles.build import writing
from tilewright.bundles.export.functions import Function
from tilewright.bundles.export.library import CLibrary
from tilewright.core import UsageError
from tilewright.dtypes import numpy_dtype

_MODULE = Path(__file__).parent / "module.py"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip file


def wheel_name(name: str, version: str, arch: str) -> str:
    """The wheel's file name. Raises ``UsageError`` for an invalid version, and for the name of this package."""
    if name == "tilewright":
        raise UsageError("a wheel cannot be called tilewright", "Choose another name: --name my_kernels")
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", version):
        raise UsageError(f"{version!r} is not a package version", "Write --version 1.0")
    return f"{name}-{version}-py3-none-linux_{arch}.whl"


def write_wheel(library: CLibrary, functions: Sequence[Function], destination: Path, name: str, version: str) -> Path:
    """Writes the wheel into the folder ``destination``; equal libraries give equal bytes."""
    target = functions[0].kernel.entry.target
    file = wheel_name(name, version, target.arch)
    tag = file.removesuffix(".whl").split("-", 2)[2]
    shared = f"lib{name}.so"
    about = {"prefix": name, "library": shared, "kernels": [_about(f) for f in functions]}
    facts = f"{name}-{version}.dist-info"
    summary = f"{len(functions)} tuned kernels for {target.name}"
    files = {
        f"{name}/__init__.py": _MODULE.read_bytes(),
        f"{name}/kernels.json": json.dumps(about, indent=1, sort_keys=True).encode(),
        f"{name}/{shared}": library.shared,
        f"{name}/{name}.h": library.header.encode(),
        f"{facts}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\nSummary: {summary}\n"
            "Requires-Python: >=3.9\nRequires-Dist: numpy>=1.26\n"
        ).encode(),
        f"{facts}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tilewright\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},sha256={_hash(data)},{len(data)}\n" for path, data in files.items())
    files[f"{facts}/RECORD"] = f"{record}{facts}/RECORD,,\n".encode()
    destination.mkdir(parents=True, exist_ok=True)
    with writing(destination / file) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path, data in files.items():
            info = zipfile.ZipInfo(path, _EPOCH)
            info.create_system = 3  # Unix
            info.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
            archive.writestr(info, data)
    return destination / file


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(sha256(data).digest()).decode().rstrip("=")


def _about(f: Function) -> dict[str, object]:
    e = f.kernel.entry
    own = {k: v for k, v in e.params.items() if k in e.defaults and k != "dtype" and e.defaults[k] != v}
    return {
        "name": f.name,
        "operator": e.op,
        "attributes": own,
        "inputs": [[s.name, s.shape, numpy_dtype(s.dtype).name] for s in f.inputs],
        "outputs": [[s.shape, numpy_dtype(s.dtype).name] for s in f.outputs],
        "align": f.align,
        "packs": [[p.input, p.bytes] for p in f.packs],
    }

"""The conformance suite: small kernels for each primitive, whose results are compared with recordings.

The suite is independent of how a kernel runs: :func:`record` takes a callable, so the emulator, CuPy and PyCUDA share
one path. Recordings ("goldens") are JSON, one file a primitive; ``recorded_on`` names the emulator or device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core import Launch, LaunchProgram, UsageError
from tilewright.kernels.primitives import PRIMITIVES
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive

_CTYPE = {"uint32": "tw::u32", "int32": "int", "float32": "float", "float64": "double"}


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel of the suite, ready to be built and run.

    ``source`` follows ``prelude(target)`` (or the emulated prelude) in a translation unit. ``program`` launches it on
    ``inputs`` and an output of ``dtype`` and ``size`` elements.
    """

    name: str
    primitive: Primitive
    symbol: str
    source: str
    program: LaunchProgram
    inputs: tuple[Array, ...]
    spec: Conformance

    def output(self) -> Array:
        """A new output, every byte 0xa5."""
        return np.full(self.spec.size * np.dtype(self.spec.dtype).itemsize, 0xA5, np.uint8).view(self.spec.dtype)

    def expected(self) -> Array | None:
        """The output computed with NumPy; ``None`` where only a recording has it."""
        return None if self.spec.expected is None else self.spec.expected(*self.inputs)


def make_case(primitive: Primitive, spec: Conformance) -> Case:
    """The kernel of one conformance description."""
    inputs = spec.inputs()
    symbol = f"tw_conformance_{primitive.name}_{spec.name}"
    parameters = [f"TW_TENSOR_MAP(map{i})" for i in range(len(spec.maps))]
    parameters += [f"const {_CTYPE[x.dtype.name]} *__restrict__ x{i}" for i, x in enumerate(inputs)]
    parameters += [f"{_CTYPE[spec.dtype]} *__restrict__ out", "unsigned char *ws"]
    together = f" TW_CLUSTER({spec.cluster})" if spec.cluster > 1 else ""
    head = f"TW_KERNEL({spec.threads}, 1){together} void {symbol}({', '.join(parameters)}) {{"
    source = f'#line 1 "kernel"\n{head}\n{spec.body.strip(chr(10))}\n    (void)ws;\n}}\n'
    listed = (
        *(("tensor_map", m) for m in spec.maps), *(("tensor", i) for i in range(len(inputs) + 1)), ("workspace", 0)
    )  # fmt: skip
    launch = Launch(
        symbol, (), (spec.blocks, 1, 1), (spec.threads, 1, 1), spec.shared, listed if spec.maps else ()
    )  # fmt: skip
    name = f"{primitive.name}/{spec.name}"
    return Case(name, primitive, symbol, source, LaunchProgram((launch,), align=16), inputs, spec)


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """The complete suite, in the registry's order."""
    return tuple(make_case(p, c) for p in PRIMITIVES for c in p.conformance)


def unit(suite: Iterable[Case]) -> str:
    """The kernels of some cases as one text, to be compiled at once."""
    return "".join(c.source for c in suite)


def compare(case: Case, got: Array, golden: Array) -> str:
    """Describes the difference between two outputs of a case; "" where they agree.

    Outputs agree bit for bit, with any NaN equal to any other NaN, or within the case's tolerance where it has one.
    """
    if got.dtype != golden.dtype or got.shape != golden.shape:
        return f"{case.name}: {got.dtype}{list(got.shape)} instead of {golden.dtype}{list(golden.shape)}"
    bits = np.dtype(f"u{got.dtype.itemsize}")
    same = got.view(bits) == golden.view(bits)
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(golden)
        if case.spec.scale is not None:
            with np.errstate(all="ignore"):
                error = np.abs(got.astype(np.float64) - golden)
                same |= error <= case.spec.tolerance * case.spec.scale(*case.inputs)
                same |= got == golden
                same &= np.isfinite(got) == np.isfinite(golden)
    wrong = np.flatnonzero(~same)
    if not len(wrong):
        return ""
    at = int(wrong[0])
    return (
        f"{case.name}: {len(wrong)} of {len(got)} values differ, the first at {at}: {got[at]!r} "
        f"(0x{int(got.view(bits)[at]):x}) instead of {golden[at]!r} (0x{int(golden.view(bits)[at]):x})"
    )


Run = Callable[[Case], Array]
"""Builds and runs one case and returns its output. Its exceptions propagate."""


def record(run: Run, suite: Sequence[Case] | None = None, *, recorded_on: str = "emulator") -> dict[str, Any]:
    """Run the suite and record every output. ``recorded_on``: the emulator, or the device's model."""
    outputs = {c.name: _encode(run(c)) for c in (cases() if suite is None else suite)}
    return {"recorded_on": recorded_on, "cases": outputs}


def check_against(golden: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[str, ...]:
    """Compare two recordings. Returns a line for each case that differs or that only one recording has."""
    by_name = {c.name: c for c in cases()}
    lines = []
    for name in sorted({*golden["cases"], *got["cases"]}):
        if name not in golden["cases"] or name not in got["cases"]:
            where = "the golden recording" if name in golden["cases"] else "the new recording"
            lines.append(f"{name}: only in {where}")
        elif name not in by_name:
            lines.append(f"{name}: no longer in the suite")
        else:
            difference = compare(by_name[name], _decode(got["cases"][name]), _decode(golden["cases"][name]))
            lines += [difference] if difference else []
    return tuple(lines)


def save(recording: Mapping[str, Any], folder: Path) -> tuple[Path, ...]:
    """Write a recording to ``folder``, one file a primitive. Other files in it stay."""
    folder.mkdir(parents=True, exist_ok=True)
    primitives: dict[str, dict[str, Any]] = {}
    for name, output in recording["cases"].items():
        primitives.setdefault(name.split("/")[0], {})[name] = output
    paths = []
    for primitive, outputs in primitives.items():
        path = folder / f"{primitive}.json"
        data = {"recorded_on": recording["recorded_on"], "cases": outputs}
        path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        paths.append(path)
    return tuple(paths)


def load(folder: Path) -> dict[str, Any]:
    """Read a recording. Raises ``UsageError`` when the folder has no recording, or when its files disagree on the
    device."""
    recording: dict[str, Any] = {"recorded_on": "", "cases": {}}
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if recording["recorded_on"] not in ("", data["recorded_on"]):
            raise UsageError(
                f"{path} was recorded on {data['recorded_on']}, others on {recording['recorded_on']}",
                "record the whole suite again",
            )
        recording["recorded_on"] = data["recorded_on"]
        recording["cases"].update(data["cases"])
    if not recording["cases"]:
        raise UsageError(f"no conformance recording in {folder}", "name a folder such as tests/golden/conformance")
    return recording


def _encode(output: Array) -> dict[str, str]:
    little = np.ascontiguousarray(output, output.dtype.newbyteorder("<"))
    return {"dtype": output.dtype.name, "hex": little.tobytes().hex()}


def _decode(data: Mapping[str, str]) -> Array:
    dtype = np.dtype(data["dtype"])
    return np.frombuffer(bytes.fromhex(data["hex"]), dtype.newbyteorder("<")).astype(dtype)

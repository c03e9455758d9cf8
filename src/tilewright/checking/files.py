"""A kernel as two files, to edit and check again: its source, and its launches.

``kernel.cu`` is the kernel alone; a check adds its prelude (types and primitives). Line numbers of a report
refer to this file. ``launch.json`` has the workload, the target and the launches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tilewright.backends import EMULATOR, get_backend
from tilewright.checking.check import Subject
from tilewright.core import Launch, LaunchProgram, Schedule, Target, TilewrightError, UsageError, Workload, evaluate
from tilewright.errors import explained_writing
from tilewright.kernels.expression.program import Program

FORMAT = 1
KERNEL = "kernel.cu"
LAUNCH = "launch.json"
_MOST_THREADS = 1024


def emit(subject: Subject, folder: Path, command: str = "tilewright") -> tuple[Path, Path]:
    """Write a kernel into a folder, and create the folder. Raises ``TilewrightError`` if that fails."""
    label, target = subject.workload.label, subject.target.name
    schedule = subject.schedule
    head = [
        f"// {label} on {target}{f', template {schedule.template}' if schedule else ''}.",
        f"// Edit this file or {LAUNCH} and check it again: {command} check --from {folder}",
        "// Only functions of namespace tw and plain C++; pointers to the inputs, out and the workspace come first.",
    ]
    if schedule:
        head.insert(1, f"// Schedule: {' '.join(f'{k}={v}' for k, v in schedule.values.items())}")
    data = {
        "format": FORMAT,
        "target": subject.target.to_json(),
        "workload": subject.workload.to_json(),
        "schedule": schedule.to_json() if schedule else None,
        "launch": dict(subject.launch),
        "program": subject.program.to_json(),
    }
    paths = folder / KERNEL, folder / LAUNCH
    with explained_writing(f"to {folder}", "Name another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        paths[0].write_text("\n".join([*head, subject.source]), encoding="utf-8")
        paths[1].write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return paths


def load(folder: Path) -> Subject:
    """Load the kernel in a folder. Raises ``UsageError`` that names the invalid file and field."""
    source = _read(folder / KERNEL)
    where = str(folder / LAUNCH)
    try:
        data = json.loads(_read(folder / LAUNCH))
    except ValueError as e:
        raise UsageError(f"{where} is not JSON: {e}", "Correct it, or write the files again with check --emit") from e
    if not isinstance(data, dict):
        raise UsageError(f"{where} does not hold a JSON object", "Write the files again with check --emit")
    if data.get("format") != FORMAT:
        raise UsageError(
            f"{where}: format is {data.get('format')!r}, this version reads {FORMAT}",
            "Write the files again with check --emit",
        )
    target = _field(data, "target", where, _target)
    workload = _field(data, "workload", where, _workload)
    launch = _field(data, "launch", where, _launch_arguments)
    program = _field(data, "program", where, lambda v: _program(v, launch, workload))
    schedule = _field(data, "schedule", where, lambda v: None if v is None else Schedule.from_json(v))
    if not source.strip():
        raise UsageError(f"{folder / KERNEL} is empty", "Write the files again with check --emit")
    return Subject(target, workload, source, program, tuple(launch.items()), schedule)


class _Bad(Exception):
    """An invalid value: its field, relative to the field being read, and the reason."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(field, why)
        self.field, self.why = field, why


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise UsageError(f"{path} is not UTF-8 text", "Write the files again with check --emit") from e
    except OSError as e:
        raise UsageError(
            f"cannot read {path}: {e.strerror}", f"Name a folder with {KERNEL} and {LAUNCH}, as check --emit writes"
        ) from e


def _field(data: Mapping[str, Any], name: str, where: str, make: Callable[[Any], Any]) -> Any:
    hint = "Correct it, or write the files again with check --emit"
    if name not in data:
        raise UsageError(f"{where}: field {name!r} is missing", hint)
    try:
        return make(data[name])
    except _Bad as e:
        raise UsageError(f"{where}: {name}{e.field}: {e.why}", hint) from e
    except KeyError as e:
        raise UsageError(f"{where}: field {name!r} lacks {e}", hint) from e
    except TilewrightError as e:
        raise UsageError(f"{where}: field {name!r}: {e.message}", e.hint or hint) from e
    except (TypeError, ValueError, AttributeError, IndexError) as e:
        raise UsageError(f"{where}: field {name!r} has the wrong form: {e}", hint) from e


def _target(value: Any) -> Target:
    if isinstance(value, str):
        raise _Bad("", "give the whole target, not its name alone")
    unknown = set(value) - {f.name for f in fields(Target)}
    if unknown:
        raise _Bad("", f"unknown field {', '.join(sorted(unknown))}")
    target = Target.from_json(value)
    emulated = get_backend(EMULATOR).kinds
    if target.kind not in emulated:
        raise _Bad(".kind", f"{target.kind!r} has no emulator; it must be {' or '.join(map(repr, emulated))}")
    return target


def _workload(value: Any) -> Workload:
    workload = Workload.from_json(value)
    program = Program.loads(workload.program)
    given = [list(t.shape) for t in program.inputs]
    if given != [list(s.shape) for s in workload.inputs]:
        raise _Bad(".inputs", f"shapes differ from the program's, {given}")
    return workload


def _launch_arguments(value: Any) -> dict[str, int]:
    for name, number in value.items():
        if not isinstance(number, int) or isinstance(number, bool):
            raise _Bad(f".{name}", f"{number!r} is not a whole number")
    return dict(value)


def _program(value: Any, launch: Mapping[str, int], workload: Workload) -> LaunchProgram:
    program = LaunchProgram.from_json(value)
    if not program.launches:
        raise _Bad(".launches", "no kernel is launched")
    for n, x in enumerate(program.launches):
        _check_launch(x, f".launches[{n}]", launch, len(workload.inputs) + 1)
    for n, pack in enumerate(program.prepack):
        if not 0 <= pack.input < len(workload.inputs):
            raise _Bad(f".prepack[{n}][0]", f"there is no input number {pack.input}")
        if _number(pack.bytes, launch, f".prepack[{n}][1]") < 0:
            raise _Bad(f".prepack[{n}][1]", "is negative")
        _check_launch(pack.launch, f".prepack[{n}][2]", launch, len(workload.inputs) + 1)
    for name in ("workspace", "zero_fill"):
        if _number(getattr(program, name), launch, f".{name}") < 0:
            raise _Bad(f".{name}", "is negative")
    if not isinstance(program.align, int) or program.align < 1:
        raise _Bad(".align", f"{program.align!r} is not a size in bytes")
    return program


def _check_launch(x: Launch, at: str, launch: Mapping[str, int], tensors: int) -> None:
    if not isinstance(x.symbol, str) or not x.symbol.isidentifier():
        raise _Bad(f"{at}[0]", f"{x.symbol!r} is not a kernel's name")
    for name in x.arguments:
        if name not in launch:
            raise _Bad(f"{at}[1]", f"argument {name!r} has no value in 'launch'")
    if len(x.grid) != 3 or len(x.block) != 3:
        raise _Bad(at, "grid and block need three sizes each")
    for d, size in enumerate(x.grid):
        if _number(size, launch, f"{at}.grid[{d}]") < 1:
            raise _Bad(f"{at}.grid[{d}]", "is below 1")
    threads = 1
    for d, size in enumerate(x.block):
        if not isinstance(size, int) or size < 1:
            raise _Bad(f"{at}.block[{d}]", f"{size!r} is not a number of threads")
        threads *= size
    if threads > _MOST_THREADS:
        raise _Bad(f"{at}.block", f"{threads} threads; a block has at most {_MOST_THREADS}")
    if _number(x.shared, launch, f"{at}.shared") < 0:
        raise _Bad(f"{at}.shared", "is negative")
    for p, (kind, what) in enumerate(x.parameters):
        if kind == "tensor_map":
            kind, what = what["of"]
        if kind == "tensor" and not (isinstance(what, int) and 0 <= what < tensors):
            raise _Bad(f"{at}.parameters[{p}]", f"there is no tensor {what!r}")


def _number(value: Any, launch: Mapping[str, int], at: str) -> int:
    try:
        return evaluate(value, launch)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError) as e:
        raise _Bad(at, f"{value!r} is not a whole number ({e})") from e

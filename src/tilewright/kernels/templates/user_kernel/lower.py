"""The text around a user's kernel: its macros before it, and what calls it after it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from tilewright.core import Candidate, IllegalSchedule, Launch, LaunchProgram, Value
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.user_kernel import source
from tilewright.kernels.templates.user_kernel.binding import Argument, Binding
from tilewright.kernels.templates.user_kernel.expressions import NoValue
from tilewright.kernels.templates.user_kernel.kernel import UserKernel

_SHARED = re.compile(
    r"(?P<extern>extern\s+)?\b__shared__\s+(?P<align>(?:__align__|alignas)\s*\([^()]*\)\s*)?"
    r"(?P<type>[A-Za-z_]\w*(?:\s*::\s*\w+)*(?:\s+[A-Za-z_]\w*)*?)\s+(?P<names>[A-Za-z_]\w*\s*[^;(){}]*);"
)
_DECLARED = re.compile(r"([A-Za-z_]\w*)\s*((?:\[.*\]\s*)?)", re.DOTALL)


def cpu_kernel(kernel: UserKernel, bound: Binding, candidate: Candidate) -> LoweredKernel:
    """The user's file, then the entry point of the binary interface that calls it."""
    values = candidate.schedule.values
    call = ", ".join(_cpu_argument(a, bound, values) for a in bound.arguments)
    done = f"return {kernel.entry}({call});" if bound.returns_int else f"{kernel.entry}({call}); return 0;"
    text = "\n".join(
        [
            *_macros(values),
            f'#line 1 "{kernel.label}"',
            kernel.text,
            '#line 1 "call"',
            *_undone(values),
            "namespace {",
            "struct tw_pointer { void *p; template <class T> operator T *() const { return (T *)p; } };",
            "}",
            f"TW_ENTRY({candidate.symbol}) {{",
            f"    (void)tensors; (void)args; (void)workspace; (void)env; {done}",
            "}",
            "",
        ]
    )
    return LoweredKernel(candidate.symbol, text, LaunchProgram((Launch(candidate.symbol),)), alone=True)


def cuda_kernel(kernel: UserKernel, bound: Binding, candidate: Candidate) -> LoweredKernel:
    """The user's file with the kernel under the candidate's symbol; the launch lists its parameters."""
    values = candidate.schedule.values
    names = bound.names(values)
    try:
        grid = tuple(e.whole(names) for e in bound.grid)
        block = tuple(e.whole(names) for e in bound.block)
        shared = bound.shared.whole(names) if bound.shared else 0
        parameters = tuple(
            (a.kind, a.value.whole(names) if a.kind.startswith("int") else a.value) for a in bound.arguments
        )
    except NoValue as e:
        raise IllegalSchedule(str(e)) from None
    text = "\n".join(
        [
            _compatibility(),
            *_macros(values),
            "#ifdef TW_EMU_CALL",  # whose reports name lines of "kernel"
            '#define TW_OWN_FILE "kernel"',
            "#else",
            f'#define TW_OWN_FILE "{kernel.label}"',
            "#endif",
            "#line 1 TW_OWN_FILE",
            _shared_memory(source.renamed(kernel.text, kernel.entry, candidate.symbol, c_linkage=True)),
            '#line 1 "end"',
            *_undone(values),
            "",
        ]
    )
    launch = Launch(candidate.symbol, grid=grid, block=block, shared=shared, parameters=parameters)
    return LoweredKernel(candidate.symbol, text, LaunchProgram((launch,)), alone=True)


def _macros(values: Mapping[str, Value]) -> list[str]:
    return [f"#define {name} {_literal(v)}" for name, v in values.items()]


def _undone(values: Mapping[str, Value]) -> list[str]:
    return [f"#undef {name}" for name in values]


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"({value})" if isinstance(value, (int, float)) and value < 0 else str(value)


def _cpu_argument(a: Argument, bound: Binding, values: Mapping[str, Value]) -> str:
    if a.kind == "tensor":
        return f"tw_pointer{{tensors[{a.value}]}}"
    if a.kind == "env":
        return "env"
    if a.kind.startswith("int"):
        try:
            return f"{a.value.whole(bound.names(values))}L"
        except NoValue as e:
            raise IllegalSchedule(str(e)) from None
    return repr(float(a.value))


# --------------------------------------------------------------------------- CUDA on the emulator


def _compatibility() -> str:
    """CUDA's own names for what the emulator has; nothing where NVRTC compiles."""
    lines = (files(__package__) / "emulated.h").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("//"))


def _shared_memory(text: str) -> str:
    """Declarations of shared memory as macros, which the emulator gives another meaning.

    Those that cannot be read are left: there, the emulator's compiler refuses them in plain words.
    """
    plain = source.hidden(text)
    out, at = [], 0
    for m in _SHARED.finditer(plain):
        before = plain[: m.start()]
        made = _declaration(m) if before.count("{") > before.count("}") else None
        if made is None:
            continue
        lines = plain.count("\n", m.start(), m.end())
        out += [text[at : m.start()], made, "\n" * lines]
        at = m.end()
    return "".join([*out, text[at:]])


def _declaration(m: re.Match[str]) -> str | None:
    kind, align = " ".join(m["type"].split()), " ".join((m["align"] or "").split())
    if m["extern"]:
        name = re.fullmatch(r"(\w+)\s*\[\s*\]\s*", m["names"])
        return None if name is None else f"TW_OWN_DYNAMIC({align}, {kind}, {name[1]});"
    made = []
    for piece in _split(m["names"]):
        declared = _DECLARED.fullmatch(piece.strip())
        if declared is None:
            return None
        made.append(f"TW_OWN_STATIC(({align}), {kind}, {declared[1]}, {' '.join(declared[2].split())});")
    return " ".join(made)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in "[<") - (c in "]>")
        if c == "," and depth == 0:
            parts.append(text[start:n])
            start = n + 1
    return [*parts, text[start:]]

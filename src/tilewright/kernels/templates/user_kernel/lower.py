"""Prints the source around a user's kernel: macros before the file, and the entry point after it."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Candidate, IllegalSchedule, Launch, LaunchProgram, Value
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.user_kernel import emulated, numbers, source
from tilewright.kernels.templates.user_kernel.binding import Binding
from tilewright.kernels.templates.user_kernel.conditions import literal, view
from tilewright.kernels.templates.user_kernel.expressions import NoValue
from tilewright.kernels.templates.user_kernel.kernel import UserKernel
from tilewright.kernels.templates.user_kernel.numbers import Argument

_FOR_BOTH = """\
#define TW_CUDA(...)
#define TW_EMULATED(...) __VA_ARGS__
#define TW_OWN_FILE "kernel"
#else
#define TW_CUDA(...) __VA_ARGS__
#define TW_EMULATED(...)
#define TW_OWN_FILE "{label}"
#endif"""
FIRST_LINE = "#line 1 TW_OWN_FILE\n"
"""Last line before the user's file in a CUDA kernel's source."""


def cpu_kernel(kernel: UserKernel, bound: Binding, candidate: Candidate) -> LoweredKernel:
    """The kernel's source for a CPU: the user's file, then an entry point that calls the user's function."""
    values = candidate.schedule.values
    call = ", ".join(_cpu_argument(a, bound, values) for a in bound.arguments)
    done = f"return {kernel.entry}({call});" if bound.returns_int else f"{kernel.entry}({call}); return 0;"
    text = "\n".join(
        [
            *_macros(values),
            f'#line 1 "{kernel.label}"',
            view(kernel.text, values),
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
    """The kernel's source for CUDA: the user's file, with the kernel renamed to the candidate's symbol.

    The launch lists the kernel's parameters.
    """
    values = candidate.schedule.values
    names = bound.names(values)
    try:
        grid = tuple(e.whole(names) for e in bound.grid)
        block = tuple(e.whole(names) for e in bound.block)
        shared = bound.shared.whole(names) if bound.shared else 0
        parameters = tuple(
            (a.kind, a.value if a.kind in ("tensor", "env") else a.passed(names)) for a in bound.arguments
        )
    except NoValue as e:
        raise IllegalSchedule(str(e)) from None
    text = source.relabelled(view(kernel.text, values), kernel.label, "TW_OWN_FILE")
    text = source.renamed(text, kernel.entry, candidate.symbol, c_linkage=True)
    words = source.words(" ".join([text, *map(str, values.values())]))
    made = "\n".join(
        [
            "#ifdef TW_EMU_CALL",  # the emulator's reports name lines of "kernel"
            *(f'#include "cuda/{name}.h"' for name in emulated.headers(words)),
            _FOR_BOTH.format(label=kernel.label),
            *_macros(values),
            f"{FIRST_LINE}{emulated.both(text, candidate.symbol)}",
            '#line 1 "end"',
            *_undone(values),
            "",
        ]
    )
    launch = Launch(candidate.symbol, grid=grid, block=block, shared=shared, parameters=parameters)
    return LoweredKernel(candidate.symbol, made, LaunchProgram((launch,)), alone=True)


def _macros(values: Mapping[str, Value]) -> list[str]:
    return [f"#define {name} {literal(v)}" for name, v in values.items()]


def _undone(values: Mapping[str, Value]) -> list[str]:
    return [f"#undef {name}" for name in values]


def _cpu_argument(a: Argument, bound: Binding, values: Mapping[str, Value]) -> str:
    if a.kind == "tensor":
        return f"tw_pointer{{tensors[{a.value}]}}"
    if a.kind == "env":
        return "env"
    try:
        return numbers.literal(a, bound.names(values))
    except NoValue as e:
        raise IllegalSchedule(str(e)) from None

"""The options of ``tune`` that bring a kernel of the user's own, and reading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tilewright.core import UsageError

if TYPE_CHECKING:
    from tilewright.kernels.templates.user_kernel import UserKernel

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = ("entry", "knob", "reference", "constraint", "grid", "block", "shared", "param", "with_templates")


def user_kernel_options(command: F) -> F:
    """Adds every option of :data:`OPTIONS`."""
    for add in reversed(
        (
            click.option("--entry", metavar="NAME", help="Own kernel: the function in the file."),
            click.option("--knob", multiple=True, metavar="NAME=V,V", help="Own kernel: a macro and its values."),
            click.option("--reference", metavar="OP", help="Own kernel: the operator that says what it computes."),
            click.option("--constraint", multiple=True, metavar="EXPR", help="Own kernel: what knobs must meet."),
            click.option("--grid", metavar="X,Y,Z", help="Own CUDA kernel: blocks, over knobs and sizes."),
            click.option("--block", metavar="X,Y,Z", help="Own CUDA kernel: threads of a block."),
            click.option("--shared", metavar="EXPR", help="Own CUDA kernel: bytes of dynamic shared memory."),
            click.option("--param", metavar="LIST", help="Own kernel: what each parameter gets, in order."),
            click.option("--with-templates", is_flag=True, help="Own kernel: search the built-in templates too."),
        )
    ):
        command = add(command)
    return command


def user_kernel_of(op: str, given: dict[str, Any]) -> UserKernel | None:
    """The kernel that OP and these options describe; ``None`` for an operator. Raises ``UsageError``."""
    from tilewright.kernels.templates.user_kernel import own_kernel
    from tilewright.kernels.templates.user_kernel.kernel import is_kernel_file, parse_knob

    used = [name for name in OPTIONS if given[name]]
    if not is_kernel_file(op):
        if used:
            raise UsageError(
                f"--{used[0].replace('_', '-')} is for a kernel of your own, and {op} is an operator",
                "Give a file that ends in .cpp or .cu",
            )
        return None
    for name in ("entry", "reference"):
        if not given[name]:
            hint = "the function to tune: --entry f" if name == "entry" else "what it computes: --reference ref.py:f"
            raise UsageError(f"{op} needs --{name}", f"Give {hint}")
    knobs = [parse_knob(k) for k in given["knob"]]
    names = [name for name, _ in knobs]
    if len(set(names)) != len(names):
        raise UsageError(f"a knob is given twice: {', '.join(names)}", "Give each knob once, with all its values")
    return own_kernel(
        op,
        entry=given["entry"],
        knobs=dict(knobs),
        reference=given["reference"],
        constraints=given["constraint"],
        grid=given["grid"] or "",
        block=given["block"] or "",
        shared=given["shared"] or "",
        parameters=given["param"] or "",
        with_templates=given["with_templates"],
    )

"""The options that describe a user's own kernel, and their parser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.cli.declare import option
from tilewright.core import UsageError

if TYPE_CHECKING:
    from tilewright.kernels.templates.user_kernel import UserKernel


@dataclass(frozen=True)
class OwnKernel:
    """Options that describe a user's own kernel."""

    entry: str | None = option(metavar="NAME", help="Kernel of your own: the function in the file.")
    knob: tuple[str, ...] = option(
        metavar="NAME=V,V", help="Kernel of your own: a macro, and the values to try. Repeat it for each macro."
    )
    reference: str | None = option(metavar="OP", help="Kernel of your own: the operator that it computes, to check it.")
    constraint: tuple[str, ...] = option(
        metavar="EXPR", help="Kernel of your own: a condition on knobs, such as BM*BN <= 1024. May be repeated."
    )
    grid: str | None = option(metavar="X,Y,Z", help="CUDA kernel of your own: number of blocks, from knobs and sizes.")
    block: str | None = option(metavar="X,Y,Z", help="CUDA kernel of your own: threads of a block.")
    shared: str | None = option(metavar="EXPR", help="CUDA kernel of your own: bytes of dynamic shared memory.")
    param: str | None = option(
        metavar="LIST", help="Kernel of your own: what each parameter gets, in order: a,b,out,m,n."
    )
    with_templates: bool = option(help="Kernel of your own: search the built-in templates too.")

    def given(self) -> dict[str, Any]:
        """Values by the option's name on the command line; empty for options that are not given."""
        return {f"--{name.replace('_', '-')}": value for name, value in vars(self).items()}


def user_kernel_of(op: str, given: OwnKernel) -> UserKernel | None:
    """The user's kernel that OP and the options describe; ``None`` for an operator. Raises ``UsageError``."""
    from tilewright.kernels.templates.user_kernel import own_kernel
    from tilewright.kernels.templates.user_kernel.kernel import is_kernel_file, parse_knob

    used = [name for name, value in given.given().items() if value]
    if not is_kernel_file(op):
        if used:
            raise UsageError(
                f"{used[0]} is for a kernel of your own, but {op} is an operator",
                "Name a file that ends in .cpp or .cu",
            )
        return None
    for option_name, value, hint in (
        ("--entry", given.entry, "--entry NAME: the function to tune"),
        ("--reference", given.reference, "--reference ref.py:f: the operator that it computes"),
    ):
        if not value:
            raise UsageError(f"{op} needs {option_name}", f"Add {hint}")
    knobs = [parse_knob(k) for k in given.knob]
    names = [name for name, _ in knobs]
    if len(set(names)) != len(names):
        raise UsageError(f"a knob is given twice: {', '.join(names)}", "Write each knob once, with all its values")
    return own_kernel(
        op, entry=given.entry or "", knobs=dict(knobs), reference=given.reference or "", constraints=given.constraint,
        grid=given.grid or "", block=given.block or "", shared=given.shared or "", parameters=given.param or "",
        with_templates=given.with_templates,
    )  # fmt: skip

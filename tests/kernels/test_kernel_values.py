"""A kernel is one value: what is asked of it and what it prints cannot disagree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attention_programs import PROGRAMS as ATTENTIONS
from cuda_attention_programs import GROUPS
from grouped_programs import PROGRAMS as EXPERTS
from map_programs import PROGRAMS as MAPS
from neighbour_programs import PROGRAMS as NEIGHBOURS
from partition_programs import PROGRAMS as PARTITIONS
from recurrence_programs import PROGRAMS as RECURRENCES
from recurrent_programs import PROGRAMS as RECURRENT
from row_programs import ROWS
from scatter_programs import PROGRAMS as SCATTERS
from stencil_programs import PROGRAMS as STENCILS
from winograd_programs import WINOGRAD

from tilewright.kernels.codegen.emitter import Emitter, Scope
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Array, CpuStatic, Emitted, Kernel, Workspace, entry
from tilewright.kernels.loopnest import Loop, LoopNest
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import TEMPLATES
from tilewright.launch import Launch, evaluate
from tilewright.testing import programs
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.template import KernelContract

FEW = {
    **programs.PROGRAMS,
    **{name: CONTRACTIONS[name] for name in ("bytes", "halves", "masked", "vector_matrix")},
    **{
        f"{kind} {name}": make
        for kind, found in (
            ("attention", ATTENTIONS), ("grouped", EXPERTS), ("map", MAPS), ("neighbours", NEIGHBOURS),
            ("recurrence", RECURRENCES),
            ("recurrent", RECURRENT), ("rows", ROWS), ("scatter", SCATTERS), ("window", STENCILS), ("tiled", WINOGRAD),
        )
        for name, make in list(found.items())[:4]
    },
}  # fmt: skip


class TestKernelsAreValues(KernelContract):
    templates = tuple(n for n, t in TEMPLATES.items() if "cpu" in t.kinds and n not in ("cpu_generic", "cpu_partition"))
    programs = FEW


class TestPartitionsAreValues(KernelContract):
    templates = ("cpu_partition",)
    programs = PARTITIONS


class TestGenericKernelsAreValues(KernelContract):
    templates = ("cpu_generic",)
    programs = programs.PROGRAMS


def channels_first() -> Program:
    """A convolution whose weights and images are rearranged first."""
    sizes = {"n": 1, "ci": 16, "h": 7, "w": 9, "co": 24, "kh": 3, "kw": 3, "dtype": "bfloat16"}
    return Program.loads(get_operator("conv2d").workload(**sizes).program)


ON_GPUS = {
    **programs.PROGRAMS, "halves": CONTRACTIONS["halves"], "groups": GROUPS["shared"], "channels_first": channels_first,
    **{name: PARTITIONS[name] for name in ("mlp", "weighted", "product_and_norm")},
}  # fmt: skip


class TestGpuKernelsAreValues(KernelContract):
    templates = tuple(n for n, t in TEMPLATES.items() if "cuda" in t.kinds)
    programs = ON_GPUS
    architecture = "sm_90a"


NEST = LoopNest("sum", {"i": 100}, (Loop("i", 100, 8, level="register"), Loop("i", 8, 4, "unroll")), ())


def kernel(body_loops: tuple[Loop, ...] | None, nest: LoopNest = NEST, **blocks: tuple[int, ...]) -> Kernel:
    """A kernel whose body prints these loops, the nest's own where there are none."""

    def body(kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]) -> str:
        def inside(w: Writer, s: Scope) -> None:
            w.line(f"use({s.at('i')}, {s.tiles['i'].size});")

        emitter.nest(emitter.entry, nests[0], inside, loops=body_loops, blocks=blocks or None)
        return ""

    return Kernel(text=Emitted((nest,), 1, body), static=CpuStatic(), launches=(Launch(""),))


def test_blocks_have_the_sizes_of_the_nests_loops() -> None:
    text = kernel(None).lower("tw").source
    assert [line.strip() for line in text.split("\n") if "use(" in line] == ["use(i_1, 8);", "use(i_1, 4);"]


@pytest.mark.parametrize(
    "other", [Loop("i", 100, 16, level="register"), Loop("i", 90, 8, level="register"), Loop("i", 100, 8, argument="T")]
)
def test_a_body_with_other_loops_than_its_nest_is_refused(other: Loop) -> None:
    with pytest.raises(ValueError, match="the text has other loops over 'i' than 'sum'"):
        kernel((other,)).lower("tw")


def test_a_body_with_other_blocks_than_its_nest_is_refused() -> None:
    with pytest.raises(ValueError, match="the text has other blocks of 'i' than 'sum'"):
        kernel(None, i=(16, 4)).lower("tw")


def test_a_text_that_leaves_out_a_nest_is_refused() -> None:
    nothing = Emitted((NEST,), 1, lambda *_: "")
    with pytest.raises(ValueError, match="the kernel's text has no loops of 'sum'"):
        replace(kernel(None), text=nothing).lower("tw")


def test_a_workspace_lays_arrays_behind_each_other_and_copies_of_a_thread_together() -> None:
    found = Workspace(
        (
            Array("shared", "float", 20), Array("own", "double", ["*", "KB", 3], 4), Array("flags", "char", 1, 4),
            Array("last", "int", 16),
        ),
        64,
    )  # fmt: skip
    assert [found.offset(n) for n in ("shared", "own")] == [0, 128]
    names = {"KB": 5}
    assert evaluate(found.offset("flags"), names) == 128 + 128
    assert evaluate(found.each("own"), names) == evaluate(found.each("flags"), names) == 128 + 64
    assert evaluate(found.offset("last"), names) == 128 + 4 * 192
    assert evaluate(found.bytes, names) == 128 + 4 * 192 + 64


def test_sizes_of_arrays_are_of_launch_arguments_whatever_the_text_calls_them() -> None:
    rows = {"KB": ["max", 2, "KB"], "rows": ["*", "KB", 3]}
    found = Workspace((Array("scores", "float", "rows", 2),), 16, rows)
    assert found.each("scores") == ["roundup", ["*", "rows", 4], 16]
    assert [evaluate(found.bytes, {"KB": n}) for n in (1, 5)] == [2 * 32, 2 * 64]


def test_symbols_of_launches_begin_with_the_kernels_own() -> None:
    merging = Kernel(text=kernel(None).text, static=CpuStatic(), launches=(Launch("", ("T",)), Launch("_merge")))
    assert [x.symbol for x in merging.program("tw").launches] == ["tw", "tw_merge"]
    assert merging.argument("T") == "args[0]"
    assert merging.tasks == "1L"
    (launch,) = entry(programs.matmul(), "T", tasks=True)
    assert launch.arguments == ("T", "tasks")


def test_a_workspace_given_as_a_function_is_made_once_where_it_is_read() -> None:
    made: list[Workspace] = []

    def workspace() -> Workspace:
        made.append(Workspace((Array("all", "char", 8),), 1))
        return made[-1]

    found = Kernel(text=kernel(None).text, static=CpuStatic(), launches=(Launch(""),), workspace=workspace)
    assert (found.nests, found.numbers["streamed"], made) == ((NEST,), 0.0, [])
    assert found.program("tw").workspace == found.workspace.bytes == 8
    assert [found.workspace] == made

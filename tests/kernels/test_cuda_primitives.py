"""CUDA primitives: the registry, both preludes, what NVRTC makes of them, and who may use the hardware."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.backends.cuda import archs
from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, Nvrtc, find_nvrtc
from tilewright.core import Candidate, Target, Task
from tilewright.kernels import primitives, templates
from tilewright.kernels.codegen import cuda_prelude as prelude_module
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.codegen.printer import number
from tilewright.kernels.operators import get_operator
from tilewright.kernels.primitives import PRIMITIVES
from tilewright.kernels.primitives.conformance import cases, unit
from tilewright.kernels.primitives.primitive import Primitive

TARGETS = [archs.target(v) for v in archs.VARIANTS]
ALIKE = ("sm_86", "sm_87")
"""Architectures with all of sm_80's instructions, and no primitive of their own."""

ONE_TEXT = {"wgmma_bf16": "wgmma_f16", "wgmma_e5m2": "wgmma_e4m3"}
"""Products whose text is another's but for the name of the type."""
NARROW = 64 * 64
"""Elements of results up to which all products are compiled; wider ones take seconds."""


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    try:
        return find_nvrtc("sm_120")
    except NoNvrtc as e:
        pytest.skip(str(e))


# ----------------------------------------------------------------- registry and preludes


def test_every_primitive_of_a_module_is_registered() -> None:
    names = [m.name for m in pkgutil.iter_modules(primitives.__path__)]
    modules = [importlib.import_module(f"{primitives.__name__}.{n}") for n in names]
    found = [p for m in modules for p in getattr(m, "PRIMITIVES", [getattr(m, "PRIMITIVE", None)]) if p is not None]
    assert {id(p) for p in found} == {id(p) for p in PRIMITIVES}
    assert len({p.name for p in PRIMITIVES}) == len(PRIMITIVES)


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_every_function_has_both_sides_and_a_conformance_kernel(primitive: Primitive) -> None:
    assert primitive.summary
    assert primitive.conformance
    bodies = "".join(c.body for c in primitive.conformance)
    for function in primitive.provides:
        defined = re.compile(rf"\b{function}\(")
        assert defined.search(primitive.ptx), function
        assert defined.search(primitive.emulated), function
        assert re.search(rf"tw::{function}\b", bodies), f"no conformance kernel calls {function}"


def test_prelude_by_target() -> None:
    cuda, emulated = prelude(TARGETS[0]), prelude(TARGETS[0], emulated=True)
    assert "#include" not in cuda
    assert emulated.startswith('#include "emu.h"\n')
    assert not re.search(r"\basm\b|__shfl|__syncthreads|__global__", emulated)
    hopper, later = prelude(archs.target("sm_90a")), prelude(archs.target("sm_100"))
    assert "wgmma.mma_async" in hopper
    assert "cp.async.bulk.tensor" in hopper
    # Products of warp groups are Hopper's alone, copies of boxes stay.
    assert "cp.async.bulk.tensor" in later
    assert "wgmma" not in later
    assert not re.search(r"wgmma|mbarrier", cuda)


def test_primitives_beyond_the_architecture_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = dataclasses.replace(
        PRIMITIVES[0], least_cc=90, most_cc=100, ptx="int only_new;\n", emulated="int only_new;\n"
    )
    monkeypatch.setattr(prelude_module, "PRIMITIVES", (newer,))
    text = prelude_module.prelude.__wrapped__
    for emulated in (False, True):
        assert "only_new" in text(90, emulated)
        assert "only_new" not in text(89, emulated)
        assert "only_new" not in text(103, emulated)


def test_architectures_alike_have_one_prelude() -> None:
    assert {prelude(t) for t in TARGETS if t.variant in ALIKE} == {prelude(archs.target("sm_80"))}


@pytest.mark.parametrize(("name", "other"), ONE_TEXT.items())
def test_products_of_types_alike_have_one_text(name: str, other: str) -> None:
    texts = {p.name: p.ptx for p in PRIMITIVES}
    assert texts[name].replace(name.split("_")[1], other.split("_")[1]) == texts[other]


@pytest.mark.parametrize("target", [t for t in TARGETS if t.variant not in ALIKE], ids=lambda t: t.variant)
def test_every_primitive_compiles_without_a_warning(nvrtc: Nvrtc, target: Target) -> None:
    strict = [f for f in flags(target) if not f.startswith("--diag-suppress")]
    known = [
        c
        for c in cases()
        if c.primitive.known_to(int(target.limit["cc"])) and (c.primitive.name not in ONE_TEXT or c.spec.size <= NARROW)
    ]
    cubin, log = nvrtc.compile(prelude(target) + unit(known), strict)
    for case in known:
        assert case.symbol.encode() in cubin
    assert "warning" not in log, log


def test_an_unused_prelude_costs_little(nvrtc: Nvrtc) -> None:
    """At 8 kernels a second on two cores there are 250 ms for each, and every one of them brings the whole prelude."""
    kernel = 'extern "C" __global__ void k(float *x) { x[0] = 1; }'
    for target in TARGETS:
        text = prelude(target)
        # Read it must be, and that is all: 5,300 tokens take 2 ms.
        assert "#include" not in text
        assert len(re.findall(r"\w+|[^\w\s]", text)) < 30_000
    # What no kernel calls is neither generated nor optimised: the code is the same without it.
    options = flags(TARGETS[0])
    assert nvrtc.compile(prelude(TARGETS[0]) + kernel, options)[0] == nvrtc.compile(kernel, options)[0]


LITERALS = [
    ("float32", float("inf")), ("float32", float("-inf")), ("float32", float("nan")), ("float32", 0.1),
    ("float64", float("inf")), ("float64", float("-inf")), ("float64", float("nan")), ("float64", 1e-300),
    ("int32", -(2**31)), ("int64", -(2**63)), ("bool", True),
]  # fmt: skip


def test_printed_literals_compile(nvrtc: Nvrtc) -> None:
    lines = "".join(f"    x[{i}] = (double)({number(v, t)});\n" for i, (t, v) in enumerate(LITERALS))
    kernel = (
        f"TW_KERNEL(32, 1) void k(double *x) {{\n{lines}    x[20] = tw::exp(float(x[0])) + tw::erf(double(x[1]));\n}}\n"
    )
    _, log = nvrtc.compile(prelude(TARGETS[0]) + kernel, flags(TARGETS[0]))
    assert "warning" not in log, log


# ----------------------------------------------------------------- only primitives touch the hardware

RAW = re.compile(
    r"\basm\b|\b__asm|\b__sync|\b__shfl|\b__ballot|\b__any_|\b__all_sync|\b__match|\b__reduce|\b__ld|\b__st|\b__cvta"
    r"|\b__threadfence|\b__nanosleep|\b__float_as|\b__int_as|\b__uint_as|\b__half|\b__nv_|\b__fmaf?_|\b__fmul|\b__fadd"
    r"|\batomic[A-Z]\w*|\bwmma\b|\bnvcuda\b|\b__device__|\b__global__|\b__shared__|\b__launch_bounds__|\b__forceinline__"
    r"|#include\b|#pragma\b|\b_Pragma\b|\bemu::"
)
"""What only primitives may write: kernels say it through the prelude."""


def test_the_lint_knows_raw_code() -> None:
    raw = (
        'asm volatile("bar.sync 0;");', "__syncthreads();", "__syncwarp();", "__shfl_xor_sync(~0u, v, 1)", "__ldg(p)",
        "atomicAdd(p, 1)", "atomicCAS(p, 0, 1)", "__threadfence();", "(u32)__cvta_generic_to_shared(p)",
        "#pragma unroll", "__shared__ float s[32];", "extern \"C\" __global__ void k()", "emu::lane()",
    )  # fmt: skip
    for text in raw:
        assert RAW.search(text), text
    wrapped = (
        "tw::sync();", "tw::atomic_add(p, 1)", "TW_UNROLL for (;;) {}", "tw::cp_async<16>(a, b)", "const float *__restrict__ x",
        "tw::mma_f16(c, a, b)", "TW_SHARED(smem);", "__builtin_inff()", "__all__",
    )  # fmt: skip
    for text in wrapped:
        assert not RAW.search(text), text


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """String constants of a module with their lines, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_template_modules_hold_no_raw_code() -> None:
    paths = sorted(p for f in Path(templates.__file__).parent.glob("cuda*") for p in f.rglob("*.py"))
    assert paths
    for path in paths:
        for line, text in strings(path):
            found = RAW.search(text)
            assert not found, f"{path}:{line}: {found[0]} belongs in a primitive (kernels/primitives)"


SHAPES = [
    ("matmul", {"m": 96, "n": 80, "k": 64, "dtype": d}) for d in ("float32", "float16", "bfloat16", "int8", "float64")
] + [
    ("batch_matmul", {"b": 3, "m": 33, "n": 17, "k": 65}),
    ("matmul", {"m": 64, "n": 64, "k": 64, "precision": "tf32"}),
]


@pytest.mark.parametrize(
    ("operator", "sizes"), SHAPES, ids=lambda x: "-".join(map(str, x.values())) if isinstance(x, dict) else x
)
def test_generated_kernels_hold_no_raw_code(operator: str, sizes: dict[str, object]) -> None:
    task = Task(get_operator(operator).workload(**sizes), archs.target("sm_90a"))
    for template in templates.templates_for(task):
        source = templates.lower(Candidate(task, template.default(task))).source
        found = RAW.search(source)
        assert not found, f"{template.name}: {found[0]}"

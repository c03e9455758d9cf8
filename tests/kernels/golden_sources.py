"""What default schedules print, as committed: in full for one program a template and target, as hashes for others.

``PYTHONPATH=tests python tests/kernels/golden_sources.py NAME`` prints a source as it is now.
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from attention_programs import PROGRAMS as ATTENTIONS
from attention_programs import attention
from convolution_programs import FORMS
from cuda_attention_programs import GROUPS, HALVES
from grouped_programs import experts, half_routed
from mma_programs import PRODUCTS, cut
from neighbour_programs import PROGRAMS as NEIGHBOURS
from partition_programs import convolved, mlp
from recurrent_programs import PROGRAMS as RECURRENT
from stencil_programs import PROGRAMS as STENCILS
from stencil_programs import depthwise
from triangle_programs import PROGRAMS as TRIANGLES
from winograd_programs import WINOGRAD

from harness.gpu_programs import MAPS, ROWS, WINDOWS
from tilewright.backends import get_backend
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Candidate, Target, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import TEMPLATES, get_template
from tilewright.testing import programs
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.kernels import task_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "golden"
SYMBOL = "tw_golden"

CPU_TARGETS = ("avx512", "portable")
CPU: dict[str, Callable[[], Program]] = {
    **{
        f.__name__: f
        for f in (
            programs.matmul,
            programs.matmul_epilogue,
            programs.conv2d,
            programs.softmax,
            programs.argmax,
            programs.running_sums,
            programs.recurrence,
            programs.histogram,
            programs.transpose,
            programs.int8_dot,
            depthwise,
            attention,
            experts,
            mlp,
            convolved,
        )
    },
    "depthwise_whole": STENCILS["nhwc_norm"],
    "lower": TRIANGLES["lower"],
    "heat": NEIGHBOURS["heat"],
    "tiled": WINOGRAD["tiled"],
    "tiled_odd": WINOGRAD["tiled_odd"],
    "lstm": RECURRENT["lstm"],
    "reset_before": RECURRENT["reset_before"],
}
"""Programs of every CPU template that takes them."""
ELSEWHERE = {
    "cpu_contraction": ("convolved", "tiled", "tiled_odd"),
    "cpu_generic": (
        "recurrence",
        "histogram",
        "transpose",
        "int8_dot",
        "depthwise",
        "depthwise_whole",
        "attention",
        "experts",
        "lower",
        "mlp",
        "convolved",
        "heat",
        "tiled",
        "tiled_odd",
    ),
    "cpu_partition": ("attention", "heat", "tiled", "tiled_odd"),
}
"""What adds nothing to the golden sources of other programs."""


def bf16_matmul(m: int = 9, n: int = 37, k: int = 21) -> Program:
    return Program.loads(get_operator("matmul").workload(m=m, n=n, k=k, dtype="bfloat16").program)


def channels_first() -> Program:
    sizes = {"n": 2, "ci": 16, "h": 7, "w": 9, "co": 24, "kh": 3, "kw": 3, "padding": 1, "dtype": "bfloat16"}
    return Program.loads(get_operator("conv2d").workload(**sizes, bias=True).program)


def block_scaled() -> Program:
    operator = get_operator("scaled_mm")
    return Program.loads(operator.workload(**operator.example).program)


DOTS: dict[str, Callable[[], Program]] = {"int8_dot": programs.int8_dot, "bf16_matmul": bf16_matmul}
"""Products that have instructions of their own on ``DOT_TARGET``."""
DOT_TARGET = "avx512bf16"

CUDA_TARGETS = ("sm_80", "sm_90a")
CUDA: dict[str, dict[str, Callable[[], Program]]] = {
    template: {label: found[label] for label in labels}
    for template, found, labels in (
        ("cuda_simt", {**CONTRACTIONS, **FORMS},
         ("matmul", "aligned", "matmul_epilogue", "conv2d", "vector_matrix", "bytes", "turned_last_float32")),
        ("cuda_mma", {**CONTRACTIONS, **FORMS}, ("halves", "halves_odd", "bytes", "turned_last_bfloat16", "doubles")),
        ("cuda_wgmma", {**PRODUCTS, "tf32": lambda: cut(48, 40, 80), "block_scaled": block_scaled},
         ("bfloat16_mk_kn_even", "float16_mk_kn_even", "dense", "tf32", "block_scaled")),
        ("cuda_attention", {**ATTENTIONS, **HALVES, "groups": GROUPS["shared"]},
         ("plain", "causal", "half_grouped", "half_rounded_keep", "half_long", "groups")),
        ("cuda_rows", ROWS, ("softmax", "softmax_long", "layer_norm", "row_argmax", "column_sums", "whole_sum")),
        ("cuda_map", MAPS, ("chain", "whole_tail", "transposed_half", "table_rows")),
        ("cuda_stencil", WINDOWS, ("depthwise", "depthwise_last", "max_pool")),
        ("cuda_generic", {**ROWS, **MAPS, **WINDOWS}, ("softmax", "variances", "padded", "pool_index")),
        ("cuda_partition", {"mlp": mlp, "convolved": convolved}, ("mlp", "convolved")),
        ("cuda_relaid", {"conv": channels_first}, ("conv",)),
        ("cuda_grouped", {"experts": experts, "half_routed": half_routed}, ("experts", "half_routed")),
        ("cuda_grouped_wgmma", {"half_routed": half_routed}, ("half_routed",)),
    )
}  # fmt: skip
"""Programs of CUDA templates."""

FULL = {
    "cpu_attention": "attention",
    "cpu_contraction": "matmul_epilogue",
    "cpu_dot": "int8_dot",
    "cpu_generic": "softmax",
    "cpu_grouped": "experts",
    "cpu_map": "transpose",
    "cpu_neighbours": "heat",
    "cpu_partition": "convolved",
    "cpu_recurrent": "lstm",
    "cpu_rows": "softmax",
    "cpu_scan": "recurrence",
    "cpu_scatter": "histogram",
    "cpu_stencil": "depthwise_whole",
    "cpu_winograd": "tiled_odd",
    "cuda_attention": "half_grouped",
    "cuda_generic": "softmax",
    "cuda_grouped": "half_routed",
    "cuda_grouped_wgmma": "half_routed",
    "cuda_map": "transposed_half",
    "cuda_mma": "halves_odd",
    "cuda_wgmma": "dense",
    "cuda_partition": "convolved",
    "cuda_relaid": "conv",
    "cuda_rows": "softmax_long",
    "cuda_simt": "matmul_epilogue",
    "cuda_stencil": "depthwise_last",
}
"""The program of each template whose sources are committed in full, on the first architecture of CUDA alone that it knows."""

HOPPER = ("cuda_grouped_wgmma", "cuda_wgmma")
"""Templates of the second architecture alone."""


@dataclass(frozen=True)
class Golden:
    """A kernel whose source is committed: a template's default schedule of a program on a target."""

    template: str
    label: str
    target: Target
    make: Callable[[], Program]

    @property
    def name(self) -> str:
        return f"{self.template}-{self.label}-{self.target.variant}"

    @property
    def file(self) -> str:
        """The name of its file in ``FOLDER``; empty where its hash alone is kept."""
        if FULL[self.template] != self.label or self.target.variant == CUDA_TARGETS[self.template not in HOPPER]:
            return ""
        return self.name + (".cu" if self.target.kind == "cuda" else ".cpp")

    @functools.cached_property
    def task(self) -> Task:
        return task_of(made(self.make), self.target, self.label)

    def source(self) -> str:
        """Its source as it is now, under a fixed name, headed by the template's version."""
        template = get_template(self.template)
        candidate = Candidate(self.task, template.default(self.task))
        text = template.lower(candidate).source.replace(candidate.symbol, SYMBOL)
        return f"// {template.name} version {template.version}, {self.target.name}\n{text}"


@functools.cache
def made(make: Callable[[], Program]) -> Program:
    """A program, made once for all targets."""
    return make()


def cpu_target(name: str) -> Target:
    return get_backend("cpu").parse_target(f"cpu:{name}", 2, allow_foreign=True)


def cpu_goldens(target: Target) -> Iterator[Golden]:
    """Every program of ``CPU`` with each template that takes it."""
    for template in TEMPLATES.values():
        for label, make in CPU.items():
            if label not in ELSEWHERE.get(template.name, ()):
                golden = Golden(template.name, label, target, make)
                if template.matches(golden.task):
                    yield golden


def _goldens() -> Iterator[Golden]:
    for name in CPU_TARGETS:
        yield from cpu_goldens(cpu_target(name))
    for label, make in DOTS.items():
        yield Golden("cpu_dot", label, cpu_target(DOT_TARGET), make)
    for template, labels in CUDA.items():
        for label, make in labels.items():
            names = CUDA_TARGETS[template in HOPPER :]
            yield from (Golden(template, label, cuda_target(name), make) for name in names)


GOLDENS = {golden.name: golden for golden in _goldens()}


# ----------------------------------------------------------------- what is committed


def committed_hashes(folder: Path) -> dict[str, str]:
    """Version and SHA-256 of each kernel whose hash alone is kept, by name."""
    path = folder / "hashes.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    return dict(line.split(" ", 1) for line in lines)


def check(golden: Golden, source: str, folder: Path, update: bool) -> None:
    """Compare with what is committed in ``folder``; a changed source needs a new version of its template.

    ``update`` writes it, where there is none or the version differs from the committed one.
    """
    path = folder / (golden.file or "hashes.txt")
    version = source.split(" ", 4)[3].rstrip(",")
    if golden.file:
        now = source
        committed = path.read_text(encoding="utf-8") if path.exists() else ""
        same_version = committed.split("\n", 1)[0] == source.split("\n", 1)[0]
    else:
        now = f"{version} {sha256(source.encode()).hexdigest()}"
        committed = committed_hashes(folder).get(golden.name, "")
        same_version = committed.split(" ")[0] == version
    if committed == now:
        return
    assert not same_version, (
        f"{golden.name}: the generated source changed but the template's version did not. Bump the version, "
        f"then run pytest --update-golden\n{difference(golden.name, source)}"
    )
    assert update, f"{golden.name} is missing or of another version: run pytest --update-golden and commit it"
    folder.mkdir(parents=True, exist_ok=True)
    if golden.file:
        path.write_text(source, encoding="utf-8")
        return
    with open(folder / "hashes.txt", "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run beside each other
        kept = {**committed_hashes(folder), golden.name: now}
        file.truncate(0)
        file.writelines(f"{name} {value}\n" for name, value in sorted(kept.items()))


def difference(name: str, source: str) -> str:
    """How ``source`` differs from what the last commit prints, or how to see it where that cannot be run."""
    with tempfile.TemporaryDirectory() as folder:
        unpack = 'git -C "$1" archive HEAD src tests | tar -x -C "$2"'
        subprocess.run(["sh", "-c", unpack, "sh", ROOT, folder], capture_output=True, check=False)
        script = Path(__file__).relative_to(ROOT)
        before = subprocess.run(
            [sys.executable, str(script), name], cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.join(folder, x) for x in ("src", "tests"))},
        )  # fmt: skip
    if before.returncode:
        return f"PYTHONPATH=tests python {script} {name} prints it, in another checkout as it was"
    lines = unified_diff(before.stdout.splitlines(), source.splitlines(), "last commit", "now", lineterm="")
    return "\n".join(lines) or "The last commit prints the same"


if __name__ == "__main__":
    print(GOLDENS[sys.argv[1]].source(), end="")

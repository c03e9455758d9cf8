"""A sample of benchmarks/cuda_schedules.py and cuda_mutants.py, by the same functions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import cuda_cases as cases  # noqa: E402
import cuda_mutants  # noqa: E402
import cuda_schedules  # noqa: E402
from mutants import mutants  # noqa: E402
from tilewright.backends.cache import ArtifactCache  # noqa: E402
from tilewright.backends.cuda.archs import target  # noqa: E402
from tilewright.kernels.templates import get_template  # noqa: E402

TEMPLATES = tuple(cases.SHAPES)


def test_every_shape_is_drawn_equally_often() -> None:
    hands = cases.dealt(cases.MMA, 50, seed=3)
    assert all(len(set(hand)) == 4 for hand in hands)
    counts = {s: sum(s in hand for hand in hands) for s in cases.MMA}
    assert set(counts.values()) == {10}
    assert hands == cases.dealt(cases.MMA, 50, seed=3)
    assert len(cases.SIMT) == len(cases.MMA) == 20


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_takes_its_shapes(template: str) -> None:
    assert set(TEMPLATES) <= set(cases.cuda_templates())
    for arch in cases.ARCHITECTURES if "wgmma" not in template else ("sm_90a",):
        assert cases.shapes_of(template, target(arch)) == list(cases.SHAPES[template])
    deep = cases.DEEP.get(template, ())
    assert all(get_template(template).matches(cuda_mutants.Task(s.workload, target("sm_90a"))) for s in deep)


@pytest.mark.parametrize(
    "template",
    [pytest.param(t, marks=() if t in ("cuda_mma", "cuda_rows") else pytest.mark.nightly) for t in TEMPLATES],
)
def test_random_schedules_compile_and_are_right(template: str, tmp_path: Path) -> None:
    arch = "sm_90a" if "wgmma" in template else "sm_120"
    drawn = cuda_schedules.draw(template, arch, 1, seed=11)
    assert len(drawn) == 4
    compiling = cuda_schedules.compile_cases(template, arch, drawn, 2, tmp_path / "cubins")
    assert not compiling.errors, compiling.errors
    assert compiling.compiled == compiling.kernels
    pairs = cuda_schedules.distinct(compiling.passed)
    running = cuda_schedules.emulate(template, pairs, "orders", 2, ArtifactCache().root)
    assert running.right == running.kernels == len(pairs), running.bugs
    assert running.runs == 6 * len(pairs)
    data = {"compiling": [compiling.to_json()], "rates": [], "running": [running.to_json()]}
    assert f"| {template} | orders | {len(pairs)} |" in cuda_schedules.table(json.loads(json.dumps(data)))


def test_a_wrong_kernel_is_counted() -> None:
    from dataclasses import replace

    ((case, subject), *_) = cuda_schedules.distinct(cuda_schedules.draw("cuda_simt", "sm_80", 1, seed=1))
    broken = replace(subject, source=subject.source.replace("tw::sync();", ";"))
    running = cuda_schedules.emulate("cuda_simt", [(case, broken)], "orders", 1, ArtifactCache().root)
    assert (running.right, len(running.bugs)) == (0, 1)
    assert running.to_json()["bugs"][0]["bugs"][0]["kind"]


@pytest.mark.parametrize(
    ("template", "shape"),
    [("cuda_simt", "matmul m=33 n=37 k=70"), ("cuda_mma", "matmul m=33 n=40 k=136 dtype=float16")],
)
def test_a_sample_of_mutants_is_killed(template: str, shape: str) -> None:
    kernel = cuda_mutants.default_kernel(template, cases.parse_shape(shape))
    row = cuda_mutants.examine(kernel, sample=24, sanitize=False)
    assert len(row["verdicts"]) == 24
    summary = cuda_mutants.summary([row])
    # Without the sanitizers some live; the whole run is benchmarks/cuda_mutants.py.
    assert summary["total"]["killed"] >= 0.75 * 24, summary["survivors"]
    assert "share killed" in cuda_mutants.table(summary)


def test_the_kernels_chosen_have_the_templates_code_paths() -> None:
    chosen = cuda_mutants.covering("cuda_mma", tries=40, most=4)
    lines = [cuda_mutants.feature_lines(k.subject.source) for k in chosen]
    assert all(own - set().union(*(o for o in lines if o is not own)) for own in lines)  # each adds something
    assert {m.kind for k in chosen for m in mutants(k.subject.source)} >= {"sync", "cp_wait", "guard", "index", "stage"}


def test_verdicts_are_kept_and_read_again(tmp_path: Path) -> None:
    log = cuda_mutants.Log(tmp_path / "x.jsonl")
    row = {"kernel": "abc", "template": "cuda_mma", "shape": "matmul m=1", "schedule": {"GROUP": 4}, "source": "",
           "verdicts": [{"state": "survived", "kind": "guard", "line": 1, "text": "", "by": "", "how": "",
                         "change": "without 3 - first < GROUP"},
                        {"state": "survived", "kind": "guard", "line": 1, "text": "", "by": "", "how": "",
                         "change": "without 9 - first < GROUP"}]}  # fmt: skip
    log.add(row)
    with (tmp_path / "x.jsonl").open("a") as f:
        f.write('{"kernel": "cut o')
    assert cuda_mutants.Log(tmp_path / "x.jsonl").rows == {"abc": row}
    summary = cuda_mutants.summary([row])
    # Only the group as tall as the grid excuses the first.
    assert summary["total"] == {"killed": 0, "survived": 1, "equivalent": 1, "stillborn": 0, "unchecked": 0}
    assert "NOT EXPLAINED" in cuda_mutants.table(summary)
    assert all({"template", "kind", "change", "reason"} <= set(e) for e in cuda_mutants.equivalents())

"""``tilewright check`` of a user's own kernels: what sanitizers find, exit codes, and refusals in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.core import TargetUnavailable

REFERENCE = """
from tilewright import operator, te

@operator
def twice(n: int):
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: x[i] * 2.0)
"""
CUDA = """\
#include "more.h"
__global__ void scale(const float *x, float *out, int n) {
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
#if HOW == 1
    if (t == 0) out[0] = 2 * x[0];
#endif
    if (i < n) out[i] = twice(x[i]);
}
"""
GRID = ("--grid", "ceildiv(n, 64)", "--block", "64")


@pytest.fixture
def check(cli: Any, tmp_path: Path) -> Any:
    (tmp_path / "ref.py").write_text(REFERENCE)
    (tmp_path / "more.h").write_text("// a line\n__device__ float twice(float x) { return 2 * x; }\n")

    def call(text: str, *given: str) -> Any:
        path = tmp_path / ("k.cu" if "__global__" in text else "k.cpp")
        path.write_text(text)
        launch = GRID if path.suffix == ".cu" else ()
        return cli("check", path, "--entry", "scale", "--reference", f"{tmp_path / 'ref.py'}:twice", *launch, *given)

    return call


def test_every_combination_is_checked_with_all_sanitizers(check: Any) -> None:
    reply = check(CUDA, "--knob", "HOW=0,1", "n=100", "--orders", "fifo/lazy", "--json")
    data = reply.json
    if data["unchecked"]:
        pytest.skip(str(data["kernels"]))
    assert reply.code == 1
    assert (data["asked"], data["right"], data["bug"]) == (2, 1, 1)
    assert data["sanitize"] == ["address", "undefined", "thread"]
    right, wrong = sorted(data["kernels"], key=lambda k: k["schedule"]["HOW"])
    assert (right["state"], right["bugs"]) == ("right", [])
    (bug,) = wrong["bugs"]
    assert (bug["kind"], bug["line"], bug["text"]) == ("race", 5, "if (t == 0) out[0] = 2 * x[0];")
    assert "at out[0]" in bug["message"]


def test_a_source_that_ends_the_compiler_is_one_line(check: Any) -> None:
    try:
        find_nvrtc("sm_90a")
    except TargetUnavailable as e:
        pytest.skip(e.message)
    deep = CUDA.replace("twice(x[i])", "(" * 100_000 + "x[i]" + ")" * 100_000)
    reply = check(deep, "--knob", "HOW=0", "n=100", "--sass")
    assert (reply.code, reply.out) == (1, "")
    assert re.fullmatch(
        r"tilewright: NVRTC [0-9.]+ was killed by SIGSEGV \(a source nested too deeply\?\) while it compiled\n",
        reply.err,
    )


CPU = """
struct job { const float *x; float *out; long n; int total; };
static void part(void *given, long task, long) {
    job *j = (job *)given;
    for (long i = task * 16; i < j->n && i < task * 16 + 16; i++) j->out[i] = 2 * j->x[i];
#if HOW == 1
    j->total++;
#endif
}
void scale(const float *x, float *out, int n, const tw_env *env) {
#if HOW == 2
    volatile float past = x[n];
#elif HOW == 3
    volatile int far = n;
    far = far + 2147483647;
#elif HOW == 4
    if (n > 50) ((float *)x)[3] += 1;
#endif
    job j = {x, out, n, 0};
    tw::parallel_for(env, (n + 15) / 16, part, &j);
}
"""


def test_a_cpu_kernel_runs_under_the_sanitizers_in_a_program_of_its_own(check: Any) -> None:
    reply = check(CPU, "--knob", "HOW=0,1,2,3,4", "n=100", "--json")
    data = reply.json
    if data["unchecked"]:
        pytest.skip(str(data["kernels"]))
    assert reply.code == 1
    bugs = {k["schedule"]["HOW"]: k["bugs"] for k in data["kernels"]}
    assert [len(found) for found in bugs.values()] == [0, 1, 1, 1, 1], bugs
    found = {how: (bug["kind"], bug["line"], bug["message"]) for how in (1, 2, 3, 4) for bug in bugs[how]}
    assert found[1][:2] == ("race", 7)
    assert found[2] == ("out_of_bounds_global", 12, "read of 4 bytes at element 100 of x, which has 100")
    assert found[3][:2] == ("undefined", 15)
    assert "signed integer overflow" in found[3][2]
    assert found[4] == ("out_of_bounds_global", None, "wrote x[3]")


def test_figures_of_machine_code_are_of_cuda_kernels(check: Any) -> None:
    reply = check(CPU, "--knob", "HOW=0", "n=100", "--sass")
    assert reply.code == 2
    assert "--sass and --profile are for CUDA kernels" in reply.err


def test_sanitizers_and_combinations_can_be_chosen(check: Any) -> None:
    reply = check(
        CUDA, "--knob", "HOW=0,1", "n=70", "--schedule", "HOW=1", "--sanitize", "undefined", "--orders", "lifo/lazy"
    )
    assert reply.code == 0, reply.err
    assert "1 kernel, 1 right" in reply.out
    assert "sanitizers undefined;" in reply.out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--template", "cuda_simt"], "--template is for kernels of templates"),
        (["--emit", "x"], "--emit is for kernels of templates"),
        (["--with-templates"], "--with-templates is for kernels of templates"),
        (["--target", "cpu"], "is written for cuda"),
        (["--target", "cuda:sm_1"], "unknown target"),
        (["--knob", "M=1"], "never uses knob M"),
        (["--from", "x"], "are given together"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_before_anything_is_built(check: Any, given: list[str], says: str) -> None:
    reply = check(CUDA, "--knob", "HOW=0", "n=100", *given)
    assert reply.code == 2
    assert says in reply.err
    assert "Traceback" not in reply.err


def test_many_combinations_are_checked_only_where_asked(check: Any) -> None:
    reply = check(CUDA, "--knob", f"HOW={','.join(map(str, range(2, 70)))}", "n=100")
    assert reply.code == 2
    assert "more than 64 combinations" in reply.err
    assert "--schedule random:64" in reply.err


def test_options_of_own_kernels_are_for_files(cli: Any) -> None:
    reply = cli("check", "matmul", "m=4", "n=4", "k=4", "--knob", "A=1")
    assert reply.code == 2
    assert "--knob is for a kernel of your own" in reply.err

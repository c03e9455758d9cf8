"""The thread pool: by itself under sanitizers, and through kernels, threads and forks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from handwritten import MATMUL, Load

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import Compiler
from tilewright.backends.cpu.loader import Call, LoadedKernel, process_host, run_calls
from tilewright.backends.cpu.structures import SUPPORT
from tilewright.backends.cpu.targets import detect
from tilewright.core import Launch, LaunchProgram

N = 64
PROGRAM = LaunchProgram(
    (Launch("tw_matmul", ("n",)),), workspace=["*", 128, "threads"], zero_fill=["*", 128, "threads"]
)


def _matmul(load: Load, threads: int) -> LoadedKernel:
    library = load(MATMUL.replace("VECTOR", str(detect().vector_bytes)))
    return library.kernel(PROGRAM, {"n": N, "threads": threads}, threads)


def _hammer(compiler: Compiler, folder: Path, *options: str, pool: Path = SUPPORT / "pool.c") -> Path:
    program = folder / "hammer"
    files = (Path(__file__).parent / "pool_hammer.c", pool, SUPPORT / "run.c")
    # g++ takes -x for the next file only.
    sources = [word for f in files for word in ("-x", "c", str(f))]
    checks = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-O1", "-g", f"-I{SUPPORT}"]
    done = subprocess.run(
        [*compiler.command, *checks, *options, *sources, "-o", str(program), "-lpthread"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if options and done.returncode != 0 and "cannot find" in done.stderr:
        pytest.skip(f"no sanitizer library: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return program


def _run(program: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    words = [str(program), *arguments]
    if shutil.which("setarch"):  # sanitizers want their addresses where they expect them
        words = ["setarch", "-R", *words]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **env})


def test_every_task_once(compiler: Compiler, tmp_path: Path) -> None:
    done = _run(_hammer(compiler, tmp_path), "3")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_no_race_and_no_stray_access(compiler: Compiler, tmp_path: Path, sanitizer: str) -> None:
    # The thread sanitizer cannot follow threads that a forked child starts.
    forks = "0" if sanitizer == "thread" else "3"
    done = _run(_hammer(compiler, tmp_path, f"-fsanitize={sanitizer}"), forks, TSAN_OPTIONS="halt_on_error=1")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.nightly
def test_the_thread_sanitizer_would_see_a_race(compiler: Compiler, tmp_path: Path) -> None:
    source = (SUPPORT / "pool.c").read_text()
    broken = source.replace("wait_for(JOINED(last));", "(void)last;")
    assert broken != source
    (tmp_path / "pool.c").write_text(broken)
    program = _hammer(compiler, tmp_path, "-fsanitize=thread", pool=tmp_path / "pool.c")
    assert _run(program, "0").returncode != 0


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_a_kernel_on_threads(load: Load, threads: int) -> None:
    a, b, c = _operands(threads)
    kernel = _matmul(load, threads)
    for _ in range(20):
        c[:] = np.nan
        kernel.run([x.ctypes.data for x in (a, b, c)])
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert process_host().handle.tw_pool_workers() >= threads - 1


def _operands(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((N, N)).astype(np.float32) for _ in range(2))
    return a, b, np.empty((N, N), np.float32)


def test_sixteen_threads_call_one_kernel(load: Load) -> None:
    kernel = _matmul(load, 2)
    start = threading.Barrier(16)
    problems: list[str] = []

    def call(seed: int) -> None:
        a, b, c = _operands(seed)
        want = a @ b
        start.wait()
        for _ in range(50):
            c[:] = np.nan
            kernel.run([x.ctypes.data for x in (a, b, c)])
            if not np.allclose(c, want, rtol=1e-4, atol=1e-4):
                problems.append(f"thread {seed}")

    callers = [threading.Thread(target=call, args=(n,)) for n in range(16)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert problems == []


def test_a_sequence_runs_on_the_hosts_threads(load: Load) -> None:
    source = MATMUL.replace("VECTOR", str(detect().vector_bytes))
    libraries = (
        load(source),
        load(source + "\nENTRY(tw_other) { (void)tensors, (void)args, (void)workspace, (void)env; return 0; }\n"),
    )
    a, b, c = _operands(1)
    pointers = [x.ctypes.data for x in (a, b, c)]
    prepared = [x.kernel(PROGRAM, {"n": N, "threads": 2}, 2).prepare(pointers) for x in libraries]
    assert libraries[0] is not libraries[1]
    for _ in range(50):
        c[:] = np.nan
        run_calls((Call * 2)(*(p.call for p in prepared)))
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert process_host().handle.tw_pool_workers() >= 1


FORK = """
import os, signal, sys
import numpy as np
from tilewright.backends.cpu.loader import load_path, process_host
from tilewright.core import Launch, LaunchProgram

n, threads = 64, 3
size = ["*", 128, "threads"]
program = LaunchProgram((Launch("tw_matmul", ("n",)),), workspace=size, zero_fill=size)
kernel = load_path(sys.argv[1]).kernel(program, {"n": n, "threads": threads}, threads)
a, b = (np.random.default_rng(s).standard_normal((n, n)).astype("f4") for s in (0, 1))
c = np.empty_like(a)

def check():
    for _ in range(30):
        c[:] = np.nan
        kernel.run([x.ctypes.data for x in (a, b, c)])
        assert np.allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert process_host().handle.tw_pool_workers() == threads - 1

signal.alarm(60)
if sys.argv[2] == "used":
    check()
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        status = 1
        try:
            check()
            status = 0
        finally:
            os._exit(status)
    children.append(pid)
check()
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
print("ok")
"""


@pytest.mark.parametrize("pool", ["used", "unused"])
def test_forked_children_rebuild_the_pool(load: Load, pool: str, cache: ArtifactCache) -> None:
    library = load(MATMUL.replace("VECTOR", str(detect().vector_bytes)))
    path = Path(cache.root) / "v1" / "blobs" / library.sha256[:2] / f"{library.sha256}.so"
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, str(path), pool]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_more_threads_than_there_can_be(load: Load) -> None:
    a, b, c = _operands(0)
    library = load(MATMUL.replace("VECTOR", str(detect().vector_bytes)))
    kernel = library.kernel(PROGRAM, {"n": N, "threads": 100_000}, 100_000)  # clamped
    kernel.run([x.ctypes.data for x in (a, b, c)])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)

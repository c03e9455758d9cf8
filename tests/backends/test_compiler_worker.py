"""Worker processes of compilers that are libraries: what becomes of a kernel, and of the next, when one ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tilewright.backends import compiler_worker, confine
from tilewright.backends.compiler_worker import LibraryCompiler
from tilewright.backends.toolchain import CompileError, CompileTimeout
from tilewright.core import TilewrightError

ODD = LibraryCompiler("the odd compiler", "odd_compiler", ("ODD_",))
HERE = Path(__file__).parent
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")


@pytest.fixture(autouse=True)
def own_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", ["", str(HERE), *sys.path])
    compiler_worker._workers.close()
    yield
    compiler_worker._workers.close()


def asked(source: str = "int x;", *arguments: str, deadline: float = 60.0) -> int:
    """The process id of the worker that compiles."""
    return int(ODD.compile(source, arguments, deadline)[0])


def wait_for_end(pid: int) -> None:
    """Until a process has ended, of whomever it is a child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    assert poll.poll(30_000), "it lives on"
    os.close(handle)


def test_a_worker_stays_for_the_next_source() -> None:
    assert ODD.compile("int x;", (), 60)[1] == "6 characters"
    assert asked() == asked("x" * 3_000_000) == asked()
    with pytest.raises(CompileError) as e:
        asked("wrong")
    assert (e.value.message, e.value.log) == ("line 1: error: wrong", "all of the log")
    with pytest.raises(TilewrightError, match=r"disk is full\. Free some space") as host:
        asked("host")
    assert type(host.value) is TilewrightError
    assert len(compiler_worker._workers._all) == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("die", "the odd compiler was killed by SIGSEGV (a source nested too deeply?) while it compiled"),
        ("kill", "the odd compiler was killed by SIGKILL (out of memory?) while it compiled"),
        ("exit 0", "the odd compiler ended with status 0 while it compiled"),
        ("exit 5", "the odd compiler ended with status 5 while it compiled"),
        ("raise it", "the odd compiler ended with status 1 while it compiled"),
    ],
)
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_what_ends_a_worker_fails_alone(source: str, words: str, used: bool) -> None:
    before = asked() if used else 0
    with pytest.raises(CompileError) as e:
        asked(source)
    assert e.value.message == words
    assert ("last words" in e.value.log) == (source == "die")
    assert asked() != before
    assert len(compiler_worker._workers._all) == 1


@linux
@pytest.mark.parametrize("answer", ["{}", '{"code":7,"log":""}', '{"code":"#","log":""}', "[]", "x"])
def test_an_answer_that_is_none_fails_alone(answer: str) -> None:
    before = asked()
    with pytest.raises(CompileError):
        asked(f"forge {answer}")
    assert asked() != before
    assert len(compiler_worker._workers._all) == 1


def test_a_source_is_not_blamed_for_an_earlier_one() -> None:
    spoilt = asked("spoil")
    assert asked() != spoilt


@linux
def test_a_worker_killed_while_idle_is_replaced() -> None:
    first = asked()
    os.kill(first, signal.SIGKILL)
    wait_for_end(first)
    assert asked() != first
    assert len(compiler_worker._workers._all) == 1


def test_the_deadline_ends_a_worker() -> None:
    before = asked()
    with pytest.raises(CompileTimeout, match=r"^the odd compiler took more than 0\.1 s and was stopped$"):
        asked("hang", deadline=0.1)
    assert not compiler_worker._workers._all
    assert asked() != before


@linux
def test_the_deadline_holds_for_a_worker_that_takes_nothing() -> None:
    os.kill(asked(), signal.SIGSTOP)
    with pytest.raises(CompileTimeout):
        asked("x" * 3_000_000, deadline=0.1)
    assert asked()


def test_a_compiler_that_does_not_start_is_no_fault_of_the_source() -> None:
    with pytest.raises(TilewrightError, match=r"the broken compiler does not start: .*No module named") as e:
        LibraryCompiler("the broken compiler", "no_such_module").compile("", (), 60)
    assert type(e.value) is TilewrightError


def test_a_worker_without_a_folder_is_no_fault_of_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(TilewrightError, match=r"^no compiler can be started: .*none.*See what disk space") as e:
        asked()
    assert type(e.value) is TilewrightError


def test_code_over_the_limit_is_refused() -> None:
    with pytest.raises(CompileError, match=f"has {compiler_worker.MOST + 1} bytes, over the limit"):
        asked(f"large {compiler_worker.MOST + 1}")


@linux
def test_a_source_over_the_limit_of_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "MEMORY", 400 << 20)
    first = asked()
    with pytest.raises(CompileError, match="GiB of memory"):
        asked(f"grow {500 << 20}")
    assert asked() != first


def test_a_worker_sees_the_variables_that_its_library_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ODD_ONE", "LD_LIBRARY_PATH", "LD_PRELOAD_NOT", "SECRET", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "/nowhere")
    code, said = ODD.compile("environment", (), 60)
    names = set(code.decode().split())
    assert {"ODD_ONE", "LD_LIBRARY_PATH"} <= names
    assert not {"LD_PRELOAD_NOT", "SECRET", "PYTHONSTARTUP", "HOME"} & names
    assert said == ""  # nor does it read what is meant for the worker
    monkeypatch.setenv("ODD_ONE", "/elsewhere")
    ODD.compile("environment", (), 60)
    assert len(compiler_worker._workers._all) == 2  # one for each environment


@linux
def test_threads_compile_at_the_same_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "door")  # either end opens when the other does
    with ThreadPoolExecutor(2) as pool:
        pids = pool.map(lambda mode: asked("meet", str(tmp_path / "door"), mode), ("r", "w"))
        assert len(set(pids)) == 2


@linux
def test_a_worker_has_the_cores_of_the_thread_that_asks() -> None:
    mine = asked()
    core = min(os.sched_getaffinity(0))

    def pinned() -> int:
        os.sched_setaffinity(0, [core])
        return asked()

    if len(os.sched_getaffinity(0)) > 1:
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(pinned).result()
        assert other != mine
        assert os.sched_getaffinity(other) == {core}
    assert os.sched_getaffinity(mine) == os.sched_getaffinity(0)


@linux
def test_an_idle_worker_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_IDLE", "0.01")
    first = asked()
    wait_for_end(first)
    assert asked() != first


def test_ctrl_c_ends_the_worker() -> None:
    before = asked()
    with pytest.raises(KeyboardInterrupt):
        asked("interrupt")
    assert not compiler_worker._workers._all
    assert asked() != before


def script(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    head = "import os, signal, sys, threading\nfrom test_compiler_worker import *\n"
    return subprocess.run(
        [sys.executable, "-c", head + text, *arguments], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:])},
    )  # fmt: skip


@linux
def test_forks_compile_by_workers_of_their_own() -> None:
    """Forked while workers are idle, and at moments of others' starts."""
    ran = script(
        "import warnings\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"  # of forks while threads run, from Python 3.12 on
        "mine = asked()\n"
        "going = True\n"
        "def busy():\n"
        "    while going:\n"
        "        for source in ('int x;', 'spoil', 'int x;'):\n"
        "            asked(source)\n"
        "def forked(code):\n"
        "    if (pid := os.fork()) == 0:\n"
        "        os._exit(code())\n"
        "    return os.waitpid(pid, 0)[1]\n"
        "def sockets():\n"
        "    with os.scandir('/proc/self/fd') as found:\n"
        "        return sum('socket' in os.readlink(f.path) for f in found)\n"
        "thread = threading.Thread(target=busy, daemon=True)\n"
        "thread.start()\n"
        "held = [forked(sockets) for _ in range(60)]\n"
        "assert not any(held), held\n"
        "assert forked(lambda: not (asked() != mine and asked() == asked())) == 0\n"
        "going = False\n"
        "thread.join()\n"
        "assert asked() == asked()\n"
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@linux
def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """The idle one at once, the one at work at its deadline."""
    os.mkfifo(tmp_path / "begun")
    ran = script(
        "busy = threading.Thread(target=asked, args=('hang', sys.argv[1]), kwargs={'deadline': 1.0})\n"
        "busy.start()\n"
        "print(Path(sys.argv[1]).read_text(), asked(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        str(tmp_path / "begun"),
    )
    assert ran.returncode == -signal.SIGKILL
    busy, idle = map(int, ran.stdout.split())
    assert busy != idle
    wait_for_end(busy)
    wait_for_end(idle)


def test_nothing_is_said_when_a_process_ends() -> None:
    ran = script("import warnings; warnings.simplefilter('error'); print(asked())")
    assert (ran.returncode, ran.stderr) == (0, "")

"""A new user's first hour: what is typed, in order and in one folder, and what must come of it.

Most lines are where someone once got stuck; the numbers are those of the lists that they made.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from harness.typed import Desk, Typed

ROOT = Path(__file__).parents[2]

FILES = {
    "my_ops.py": """
from tilewright import operator, te

@operator
def sqdist(m: int, n: int, k: int):
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))

@operator
def twice(n: int):
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: x[i] * 2.0)
""",
    "wrong_ops.py": """
from tilewright import nn, te

def outside(n: int):
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: x[i + 1])

def itself(n: int):
    x = te.input("x", (n,))
    y = te.compute((n,), lambda i: x[i] + y[i - 1])
    return y

def sine(n: int):
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: te.sine(x[i]))

def stats(n: int):
    x = te.input("x", (n, 8))
    return nn.logsumexps(x, dim=1)

def both(n: int):
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: x[i] * 2.0), te.compute((n,), lambda i: x[i] + 1.0)
""",
    "twice.cpp": """
void twice(const float *x, float *out, long n) {
    for (long i = 0; i < n; i += STEP)
        for (long j = i; j < i + STEP && j < n; j++) out[j] = 2 * x[j];
}
""",
    "typo.cpp": """
void twice(const float *x, float *out, long n) {
    for (long i = 0; i < n; i += STEP) out[i] = 2 * y[i];
}
""",
    "wrong.cpp": """
void twice(const float *x, float *out, long n) {
    for (long i = 0; i < n; i += STEP)
        for (long j = i; j < i + STEP && j < n; j++) out[j] = 3 * x[j];
}
""",
}

TUNE_TWICE = (
    "tilewright tune twice.cpp --entry twice --reference my_ops.py:twice --knob STEP=4,8 n=64 --trials 8 --db own.db"
)

WRONG = "tilewright tune wrong.cpp --entry twice --reference my_ops.py:twice --knob STEP=4,8 n=64 --trials 2 --db"

HOUR = [
    # ------------------------------------------------------------------ README and help
    # 9: it cannot be installed from the index, and the README says so. 18: it is short, with a picture near the top.
    Typed("print(readme)", ["The package is not on the Python package index (PyPI) yet"]),
    Typed(
        "len(readme.split()) < 1100, '.svg' in readme[:800], readme.index('## Install') < 1500", ["(True, True, True)"]
    ),
    Typed("readme.index('CUDA kernels have run on') < readme.index('## Install')", ["True"]),
    # 17: only commands that a script may want take --json; operators go by PyTorch's names.
    Typed("'each takes `--json`' in readme", ["False"]),
    # 1: a name alone prints the help as it is written.
    Typed("tilewright", ["Tune and use:", "Begin with: tilewright tune matmul m=512"], never=["tilewright: Usage"]),
    Typed("tilewright db", ["Usage: tilewright db [OPTIONS] COMMAND", "Commands:"], 2, ["tilewright: Usage"]),
    Typed("tilewright farm", ["Usage: tilewright farm", "Commands:"], 2, ["tilewright: Usage"]),
    Typed("tilewright cache", ["Usage: tilewright cache", "Commands:"], 2, ["tilewright: Usage"]),
    Typed("tilewright --version", ["tilewright 0."]),
    # 16: help names no file that an installed package lacks; a compiler is named once.
    Typed("tilewright tune --help", ["Examples:", "FILE.py:function"], never=["docs/"]),
    Typed("tilewright explain --help", ["what to try next"], never=["docs/"]),
    Typed("tilewright config --help", ["where each comes from"], never=["docs/"]),
    Typed("tilewright dashboard --help", ["--port"], never=["docs/"]),
    Typed("tilewright doctor --no-measure", ["Ready to tune."], never=["gcc gcc"]),
    Typed("tilewright ops", ["linear", "bmm", "gelu", "add", "logsumexp", "group_norm", "pad", "cat"]),
    # ------------------------------------------------------------------ what is mistyped
    Typed("tilewright tun matmul", ["No such command 'tun'", "tilewright --help"], 2),
    Typed("tilewright tune matmull m=8 n=8 k=8", ["Did you mean matmul?"], 2),
    Typed("tilewright tune matmul m=3.6 n=8 k=8", ["m=3.6 is not a whole number. Write m=4"], 2, ["m=512"]),
    Typed("tilewright tune matmul m=8 n=8", ["matmul needs k", "k=..."], 2),
    Typed("tilewright tune matmul 512", ["'512' is not KEY=VALUE. Write n=512"], 2),
    Typed("tilewright tune matmul m=8 n=8 k=8 --target avx2", ["Did you mean cpu:avx2?"], 2),
    # 2: a database that nothing would open afterwards is refused before anything is tuned; nobody is told to break /tmp.
    Typed(
        "tilewright tune matmul m=8 n=8 k=8 --db shared/x.db",
        ["can be written by every user", "--db ~/tuned.db"],
        1,
        ["chmod"],
    ),
    Typed("tilewright bench matmul m=8 n=8 k=8 --db shared/x.db", ["there is no database"], 1, ["chmod"]),
    # ------------------------------------------------------------------ tuning
    # 16: a folder is made, and not in silence.
    Typed(
        "tilewright tune matmul m=48 n=48 k=48 --trials 4 --db mine/t.db",
        [
            "there is no folder mine: the run makes it",
            "GFLOP/s",
            "the FMA peak measured here",
            "than NumPy (95% interval",
            "trials 4,",
            "saved in mine/t.db as run",
            "next tilewright bench matmul m=48 n=48 k=48 --db mine/t.db",
        ],
    ),
    Typed("os.rename('mine/t.db', 't.db')"),
    # 12: what moves bytes is in bytes a second, and has no share of an arithmetic peak.
    Typed("tilewright tune softmax shape=32,48 --trials 1 --db t.db", ["GB/s"], never=["FLOP/s", "FMA peak"]),
    Typed("tilewright tune cat a=8,8 b=8,4 dim=1 --trials 1 --db t.db", ["GB/s"], never=["FLOP/s", "FMA peak"]),
    # ------------------------------------------------------------------ what came of it
    Typed("tilewright kernels --db t.db", ["matmul m=48", "softmax shape=32,48", "GB/s", "verified"]),
    Typed("tilewright best matmul m=48 n=48 k=48 --db t.db", ["the FMA peak", "(verified)", "cpu_contraction"]),
    Typed("tilewright best matmul m=48 n=48 k=48 --source --db t.db", ["TW_ENTRY("], never=["#define"]),
    Typed("tilewright best matmul m=9 n=9 k=9 --db t.db", ["no kernel is stored", "tilewright tune matmul m=9"], 1),
    Typed(
        "tilewright bench matmul m=48 n=48 k=48 --against numpy --rounds 3 --db t.db",
        ["call time", "from Python", "than numpy (too few samples for an interval)"],
    ),
    # 5: where nothing is stored nothing is compared, so there is no tier to tell.
    Typed("tilewright bench matmul m=9 n=9 k=9 --db t.db", ["no kernel of matmul m=9", "Tune it: tilewright tune"], 1),
    # 11: identifiers stay in one piece, however narrow the terminal.
    Typed("run = tilewright.Library('t.db').explain('matmul', m=48, n=48, k=48).run"),
    Typed("COLUMNS=80 tilewright runs --db t.db", ["{run}", "done"]),
    Typed("COLUMNS=100 tilewright runs --db t.db", ["{run}", "4/4"]),
    Typed("COLUMNS=80 tilewright kernels --db t.db", ["{run}"]),
    # Pages, 1: a time and its share of the peak are of one measurement, and it is said which. 11: knobs that all trials
    # share are said once.
    Typed(
        "COLUMNS=80 tilewright show {run} --db t.db",
        ["final time ", "the FMA peak", "search time ", "least so far", "all have template="],
    ),
    Typed("tilewright show {run} --trials --db t.db", ["4 of 4 trials", "all requested trials were run"]),
    Typed("tilewright show nothing --db t.db", ["holds no run 'nothing'"], 1),
    Typed("tilewright explain {run} --db t.db", ["The winner is trial", "final time", "FLOP/s", "Next 1. "]),
    # Pages, 14: pictures name what was tuned.
    Typed("tilewright plot {run} --chart importance --db t.db --json", ["matter: matmul m=48 n=48 k=48"]),
    Typed("tilewright plot {run} --chart failures --db t.db --json", ["Failures by kind: matmul m=48 n=48 k=48"]),
    Typed("tilewright plot {run} --db t.db", ["no file is given. Add -o run.svg"], 2),
    Typed("tilewright runs --db none.db", ["there is no database", "tilewright tune"], 1),
    # ------------------------------------------------------------------ a kernel of one's own
    # Pages, 8: a run that tried less than was wanted says that there was no more.
    Typed(TUNE_TWICE, ["own_twice", "trials 2,", "--db own.db"]),
    Typed("tilewright show --db own.db", ["2 of 8 trials", "every legal schedule was tried"]),
    # 4: all trials wrong is a failure, whatever is stored of an earlier run; the element is printed, the hint can be typed.
    Typed(
        f"{WRONG} own.db",
        [
            "none in this run; the kernel of an earlier run stays",
            "element (0,) is",
            "2 wrong_result",
            "tilewright show",
            "--db own.db",
        ],
        1,
    ),
    Typed(
        f"{WRONG} new.db", ["element (0,) is", "tilewright show", "--db new.db"], 1, ["tilewright bench", "earlier run"]
    ),
    # Pages, 8: such a run is not shown as if it had found something.
    Typed("tilewright runs --db new.db", ["2/2", "all failed"]),
    Typed("tilewright explain --db new.db", ["No trial was measured.", "For a kernel of your own, check its edges"]),
    # Pages, 13: what does not compile is said to, and no template is missing.
    Typed(
        "tilewright tune typo.cpp --entry twice --reference my_ops.py:twice --knob STEP=4,8 n=64 --trials 2 --db typo.db",
        ["does not compile", "typo.cpp"],
        2,
        ["no template"],
    ),
    # ------------------------------------------------------------------ an operator of one's own
    # 10: what is stored is known by its name.
    Typed(
        "tilewright tune my_ops.py:sqdist m=8 n=9 k=10 --trials 1 --db t.db",
        ["sqdist m=8 n=9 k=10", "saved in t.db", "tilewright.Library('t.db').plan('my_ops.py:sqdist', m=8, n=9, k=10)"],
    ),
    Typed("tilewright best sqdist --db t.db", ["sqdist m=8 n=9 k=10", "(verified)"]),
    # 7: commands that read runs and kernels take an operator by its file, as tune does.
    Typed("tilewright explain my_ops.py:sqdist --db t.db", ["sqdist m=8 n=9 k=10"]),
    Typed("tilewright runs my_ops.py:sqdist n=9 --db t.db", ["1/1"]),
    Typed("tilewright kernels my_ops.py:sqdist --db t.db", ["sqdist m=8 n=9 k=10"]),
    Typed("tilewright verify --op my_ops.py:sqdist --db t.db", ["sqdist m=8 n=9 k=10", "right"], never=["matmul"]),
    Typed("tilewright best sqdist m=9 --db t.db", ["Write one of: sqdist m=8 n=9 k=10"], 2),
    Typed("tilewright bench sqdist --rounds 3 --against numpy --db t.db", ["sqdist has no NumPy implementation"]),
    # 13: errors name the line, and what to write instead. A tuple is no error any more: operators may have several outputs.
    Typed("tilewright space wrong_ops.py:outside n=8", ["wrong_ops.py:6", "x is read at 8 along axis 0"], 1),
    Typed("tilewright space wrong_ops.py:itself n=8", ["wrong_ops.py:10", "te.scan"], 1),
    Typed("tilewright space wrong_ops.py:sine n=8", ["wrong_ops.py:15", "Did you mean te.sin?"], 1),
    Typed("tilewright space wrong_ops.py:stats n=8", ["wrong_ops.py:19", "Did you mean nn.logsumexp?"], 1),
    Typed("tilewright space wrong_ops.py:both n=8", ["both n=8"]),
    Typed(
        "my_ops.sqdist(np.ones((300, 300)), 2)",
        ["called with arrays, but takes sizes", "autotune(sqdist)"],
        1,
        ["1., 1."],
    ),
    # ------------------------------------------------------------------ Python
    # 6: what is tuned meanwhile is served.
    Typed("lib, a = tilewright.Library('t.db'), np.ones((20, 20), np.float32)"),
    Typed("lib.matmul(a, a)[0, 0], lib.explain('matmul', m=20, n=20, k=20).tier", ["20.0", "fallback"]),
    Typed("result = tilewright.tune('matmul', m=20, n=20, k=20, trials=1, db='t.db')"),
    Typed("lib.refresh(); lib.matmul(a, a)[0, 0], lib.stats().tiers['exact']", ["20.0", ", 1)"]),
    Typed("lib.explain('matmul', m=20, n=20, k=20).tier", ["exact"]),
    # 15: a result is a line, has a table, and pickles. A plan is a builtin function, whose repr is the interpreter's; its
    # documentation says what it is, its signature what it takes. It holds machine code, so it does not pickle.
    Typed("result", ["<TuneResult matmul m=20 n=20 k=20", "of the peak", "trials 1"]),
    Typed("len(repr(result)) < 400, '<table>' in result._repr_html_()", ["(True, True)"]),
    Typed("pickle.loads(pickle.dumps(result)) == result", ["True"]),
    Typed("result.to_dataframe().shape[0], result.kernel(a, a)[0, 0]", ["20.0"]),
    Typed("plan = lib.plan('matmul', m=20, n=20, k=20); inspect.signature(plan)", ["(a, b, /, out=None)"]),
    Typed("print(plan.__doc__)", ["exact: tuned on", "Takes a (20, 20) float32"]),
    # 7: Python validates as the command line does, before a run is begun.
    Typed("tilewright.tune('matmul', m=8, n=8, k=8, trials=-1, db='no.db')", ["trials=-1 is not possible"], 1),
    Typed("tilewright.tune('matmul', m=8, n=8, k=8, trials='10', db='no.db')", ["trials='10' is not possible"], 1),
    Typed("tilewright.tune('matmul', m=8, n=8, k=8, cost_model='lgbm', db='no.db')", ["unknown cost model 'lgbm'"], 1),
    Typed(
        "tilewright.tune('matmul', m=8, n=8, k=8, trial=3, db='no.db')",
        ["no parameter 'trial'. Did you mean trials?"],
        1,
    ),
    Typed("os.path.exists('no.db')", ["False"]),
    # No trials is the cost model's choice, not 200; NumPy's types are types.
    Typed("tilewright.tune('matmul', m=8, n=8, k=8, trials=0, dtype=np.float32, db='api.db')", ["trials 0 in"]),
    Typed("tilewright.Library('api.db').explain('matmul', m=8, n=8, k=8, dtype=np.float32).tier", ["exact"]),
    # 8: constant inputs: what was missed and how to bind is said; best names what there is.
    Typed(
        "tilewright tune matmul m=4 n=32 k=32 constant=b --trials 1 --db t.db",
        ["plan('matmul', m=4, n=32, k=32, constant='b')"],
    ),
    Typed("tilewright best matmul m=4 n=32 k=32 --db t.db", ["The database holds matmul m=4 n=32 k=32 constant=b"], 1),
    Typed("x, w = np.ones((4, 32), np.float32), np.ones((32, 32), np.float32); lib.refresh()"),
    Typed("lib.matmul(x, w).shape", ["(4, 32)", "MissedKernelWarning", "with b constant", "bind(b=...)"]),
    Typed("lib.plan('matmul', m=4, n=32, k=32, constant='b').bind(b=w)(x).shape", ["(4, 32)"]),
    # 3: arrays of other frameworks are read where they lie. PyTorch's tensors: tests/frameworks/test_torch_arrays.py.
    Typed("lib.matmul(Speaks(a), Speaks(a))[0, 0], lib.stats().tiers['exact']", ["20.0", ", 3)"]),
    # 14: the modules can be imported, and hold their functions.
    Typed(
        "import tilewright.nn as nn, tilewright.te as te; nn is tilewright.nn, te is tilewright.te", ["(True, True)"]
    ),
    Typed("'softmax' in dir(nn), 'NoReturn' in dir(nn), 'conv' in dir(nn)", ["(True, False, False)"]),
    # What was missing: an operator that is tuned where it is called.
    Typed("tilewright.autotune(my_ops.sqdist, trials=1, db='t.db')(a, a)[0, 0]", ["0.0"]),
    Typed("tilewright completion bash", ["complete -o nosort -F _tilewright_completion tilewright"]),
]

AFTERWARDS = [
    # ------------------------------------------------------------------ arguments that cannot be
    Typed("tilewright tune matmul 512", ["'512' is not KEY=VALUE. Write n=512"], 2),
    Typed("tilewright tune matmul m=8 m=9 n=8 k=8", ["m is given twice"], 2),
    Typed("tilewright tune matmul m=0 n=8 k=8", ["m=0", "at least 1"], 2),
    Typed("tilewright tune matmul m=8..4 n=8 k=8", ["m=8..4", "1..4096"], 2),
    Typed("tilewright tune matmul m=8 n=8 k=8 dtype=float17", ["'float17'", "Did you mean float16?"], 2),
    Typed("tilewright tune matmul m=8 n=8 k=8 --trials 0.5", ["--trials", "'0.5'", "tilewright tune --help"], 2),
    Typed("tilewright tune matmul m=8 n=8 k=8 --threads 4096", ["4096 threads", "available core"], 2),
    Typed("tilewright tune matmul m=8 n=8 k=8 --time-budget soon", ["'soon'", "90s, 30m, 2h"], 2),
    Typed("tilewright tune matmul m=8 n=8 k=8 --strategy anealing", ["'anealing'", "evolutionary, random, grid"], 2),
    Typed("tilewright tune conv2d n=1 ci=4 h=2 w=2 co=4 kh=5 kw=5", ["window of 5", "input of 2", "padding"], 2),
    Typed("tilewright tune matmul m=8 n=8 k=8 --resume last --db none.db", ["holds no run", "tilewright tune"], 1),
    Typed("tilewright space matmul m=8 n=8 k=8 --target cuda:sm_12", ["'sm_12'", "sm_80, sm_86, sm_87"], 2),
    Typed("tilewright bench matmul m=48 n=48 k=48 --against nosuch --db t.db", ["'nosuch'", "numpy, openblas"], 2),
    Typed("tilewright plot {run} --chart nosuch -o x.svg --db t.db", ["'nosuch'", "'roofline'", "'importance'"], 2),
    Typed("tilewright plot {run} -o x.bmp --db t.db", ["'x.bmp'", ".svg, .png or .pdf"], 2),
    Typed("tilewright kernels --db my_ops.py", ["my_ops.py is not a database", "--db"], 1),
    # ------------------------------------------------------------------ operators and kernels of one's own
    Typed("tilewright tune my_ops.py:nosuch n=8", ["no function 'nosuch'", "sqdist, twice"], 2),
    Typed("tilewright tune nosuch.py:twice n=8", ["there is no file nosuch.py", "FILE.py:function"], 2),
    # Of the review of a new user, 7: an operator of one's own is explained by its name.
    Typed("tilewright explain sqdist --db t.db", ["sqdist m=20 n=20 k=20", "FLOP/s", "Next 1. "]),
    Typed(TUNE_TWICE.replace("--entry twice", "--entry thrice"), ["'thrice'", "Did you mean twice?"], 2),
    Typed(TUNE_TWICE.replace("STEP=4,8", "STEP"), ["'STEP'", "--knob BM=32,64"], 2),
    Typed(TUNE_TWICE.replace("--reference my_ops.py:twice", ""), ["twice.cpp needs --reference"], 2),
    # 1: own kernels can be checked by sanitizers.
    Typed("tilewright check twice.cu --sanitize", ["twice.cu needs --entry"], 2),
    # ------------------------------------------------------------------ bundles
    Typed("tilewright bundle build -o k.twb --db t.db", ["--key FILE", "--unsigned"], 2),
    Typed("tilewright bundle build -o k.twb --unsigned --db t.db", ["k.twb: ", "kernels", "unsigned"]),
    Typed("tilewright bundle inspect none.twb", ["there is no bundle", "tilewright bundle build"], 1),
    Typed("tilewright bundle inspect t.db", ["t.db", "another file"], 1),
    Typed("tilewright bundle inspect k.twb", ["not signed", "--trust unsigned"], 1),
    Typed("tilewright.Library('k.twb')", ["not signed", 'trust="unsigned"'], 1),
    Typed("tilewright.Library('k.twb', trust='unsigned').explain('matmul', m=48, n=48, k=48).tier", ["'exact'"]),
    # ------------------------------------------------------------------ models and farms
    Typed("tilewright extract nothing.onnx", ["there is no file nothing.onnx"], 2),
    Typed("tilewright extract t.db", ["t.db", "ONNX model"], 2),
    # 8, 15: a farm that is not there, or not named.
    Typed("tilewright farm status", ["tls://HOST:PORT", "TILEWRIGHT_FARM"], 2),
    Typed("tilewright farm status tcp://127.0.0.1:1", ["cannot reach tcp://127.0.0.1:1", "server"], 1),
    Typed("tilewright farm status tcp://192.0.2.1:8786", ["tcp://192.0.2.1:8786", "tls://HOST:PORT", "--certs DIR"], 2),
    Typed(
        "tilewright tune matmul m=8 n=8 k=8 --farm tcp://127.0.0.1:1 --db t.db", ["cannot reach tcp://127.0.0.1:1"], 1
    ),
    Typed(
        "tilewright farm init certs --host localhost", ["certs/client", "Keep certs/ca offline", "--renew --dir certs"]
    ),
    Typed("tilewright farm certs certs", ["administrator", "reader", "valid"]),
    Typed("tilewright farm issue eve --role clown --dir certs", ["'clown'", "'administrator'"], 2),
    # ------------------------------------------------------------------ Python
    Typed("lib.matmul(a, np.ones((3, 3), np.float32))", ["matmul", "size 3 is different from 20"], 1),
    Typed("lib.matmul(a, a, out=np.ones((3, 3), np.float32))", ["Output operand 0", "size 3 is different from 20"], 1),
    Typed("lib.matmul(np.ones((0, 3), np.float32), np.ones((3, 4), np.float32)).shape", ["(0, 4)"]),
    Typed("lib.plan('matmul', m=20)", ["matmul needs n and k", "n=... k=..."], 1),
    Typed("lib.nosuch", ["no operator 'nosuch'"], 1),
    Typed("lib.explain('matmull', m=3)", ["'matmull'", "Did you mean matmul?"], 1),
    Typed("tilewright.autotune(my_ops.sqdist, trials=1, db='t.db')(a, [1])", ["argument 2 is a list"], 1),
]
"""What the hour leaves can still be got wrong: mistakes that reviews made or asked for."""


class Speaks:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_a_new_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    desk = Desk(tmp_path, monkeypatch, capfd)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.syspath_prepend(str(tmp_path))
    desk.names |= {
        "readme": (ROOT / "README.md").read_text(encoding="utf-8"), "np": np, "tilewright": tilewright, "os": os,
        "pickle": pickle, "inspect": inspect, "Speaks": Speaks, "my_ops": importlib.import_module("my_ops"),
    }  # fmt: skip
    assert len(HOUR) >= 60
    assert len(AFTERWARDS) >= 30
    problems = desk.problems([*HOUR, *AFTERWARDS])
    sys.modules.pop("my_ops")
    assert not problems, "\n\n".join(problems)

"""Users' own kernels, end to end: tuned, checked, stored, served without their file, verified and resumed."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.backends import locks
from tilewright.cli.app import run
from tilewright.core import UsageError
from tilewright.database import Database
from tilewright.kernels import templates
from tilewright.kernels.templates.user_kernel import UserKernel
from tilewright.tuner.observer import Observer
from tilewright.tuner.verify import verify

EXAMPLES = Path(__file__).parents[2] / "examples" / "own_kernel"
SIZES = {"m": 29, "n": 50, "k": 17}


def kernel(path: Path, reference: Any = None, **given: Any) -> UserKernel:
    plain: dict[str, Any] = {
        "entry": "dense",
        "knobs": {"BM": [2, 4], "BN": [16, 32, 64]},
        "constraints": ["BM*BN <= 128"],
        "reference": reference or f"{EXAMPLES / 'reference.py'}:dense",
    }
    return tilewright.own_kernel(path, **{**plain, **given})


def forget() -> None:
    """What another process would not know."""
    templates._REGISTERED.clear()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tilewright.tuner.TuneResult]:
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(EXAMPLES / "dense.cpp", folder)
    db = folder / "t.db"
    result = tilewright.tune(kernel(folder / "dense.cpp"), trials=3, cost_model="random", db=db, **SIZES)
    (folder / "dense.cpp").unlink()
    forget()
    return db, result


@pytest.fixture
def tuned(stored: tuple[Path, tilewright.tuner.TuneResult], tmp_path: Path) -> tuple[Path, tilewright.tuner.TuneResult]:
    """Its database is the test's own: some add to it."""
    return Path(shutil.copy(stored[0], tmp_path / "tuned.db")), stored[1]


def test_every_combination_is_checked_and_the_best_is_kept(tuned: Any) -> None:
    db, result = tuned
    assert result.space_size == 5
    assert result.trials == 3
    assert not result.failed
    assert result.best is not None
    assert result.best.template.startswith("own_dense_")
    assert set(result.best.schedule.values) == {"BM", "BN"}
    with Database.open(db) as database:
        (stored, *_) = database.kernels("dense")
        artifact = database.artifact(stored.artifact_sha256)
    assert artifact is not None
    assert "void dense(const float *a" in artifact.source
    assert f"#define BM {result.best.schedule.values['BM']}\n" in artifact.source


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_two_kernels_of_one_task_are_tuned_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a core each, as on two device classes of a farm whose targets are the same."""
    # Each waits for the other while it holds its core: a third process that wants both would stop them all.
    monkeypatch.setattr(locks, "lock_folder", lambda kind="cpu": tmp_path / "locks")
    shutil.copy(EXAMPLES / "dense.cpp", tmp_path)
    cores = sorted(os.sched_getaffinity(0))[:2]
    kernels = [kernel(tmp_path / "dense.cpp", knobs={"BM": [bm], "BN": [16, 32]}, constraints=[]) for bm in (2, 4)]
    together = threading.Barrier(2, timeout=60)

    class Watcher(Observer):
        def started(self, *told: Any) -> None:
            together.wait()

    def tune(n: int) -> tilewright.tuner.TuneResult:
        return tilewright.tune(
            kernels[n], trials=2, cost_model="random", device=f"cpu:{cores[n]}", db=tmp_path / f"{n}.db",
            observer=Watcher(), **SIZES,
        )  # fmt: skip

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(tune, range(2)))
    for n, (own, result) in enumerate(zip(kernels, results, strict=True)):
        assert result.best is not None
        assert result.best.template == own.name
        with Database.open(tmp_path / f"{n}.db") as database:
            assert {t.schedule.template for t in database.trials(result.run)} == {own.name}


def test_a_users_kernel_is_served_without_its_file(tuned: Any) -> None:
    db, _ = tuned
    rng = np.random.default_rng(0)
    a, b, bias = (rng.standard_normal(s).astype(np.float32) for s in ((29, 17), (17, 50), (50,)))
    plan = tilewright.Library(db).plan("dense", **SIZES)
    np.testing.assert_allclose(plan(a, b, bias), np.maximum(a @ b + bias, 0), rtol=1e-5, atol=1e-5)


def test_verify_makes_it_again_from_what_is_stored(tuned: Any) -> None:
    db, result = tuned
    forget()
    with Database.open(db) as database:
        (found,) = verify(database)
        assert found.problem is None
        assert found.kernel.schedule == result.best.schedule
        (stored, *_) = database.kernels("dense")
        assert stored.state == "verified"
    forget()
    with pytest.raises(UsageError):  # making it again was needed
        templates.get_template(result.best.template)


def test_a_run_goes_on_without_its_file(tuned: Any) -> None:
    db, result = tuned
    forget()
    reference = f"{EXAMPLES / 'reference.py'}:dense"
    more = tilewright.tune(reference, resume=result.run, trials=4, db=db, params=SIZES)
    assert more.run == result.run
    assert more.trials == 4
    assert more.best is not None
    assert more.best.template == result.best.template


def test_an_edited_file_does_not_go_on_with_a_run(tuned: Any, tmp_path: Path) -> None:
    db, result = tuned
    edited = tmp_path / "dense.cpp"
    edited.write_text((EXAMPLES / "dense.cpp").read_text() + "\n")
    with pytest.raises(UsageError, match="is another kernel"):
        tilewright.tune(kernel(edited), resume=result.run, db=db, **SIZES)


def test_the_champion_of_a_run_is_met_again_by_the_templates(tuned: Any) -> None:
    db, _ = tuned
    forget()
    reference = f"{EXAMPLES / 'reference.py'}:dense"
    result = tilewright.tune(reference, trials=2, cost_model="random", db=db, params=SIZES)
    assert result.best is not None
    with Database.open(db) as database:
        ranked = {k.schedule.template.split("_")[0] for k in database.kernels("dense")}
    assert ranked == {"own", "cpu"}  # both are in the ranking: they were paired


def test_templates_take_part_where_asked(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "dense.cpp", tmp_path)
    mixed = kernel(tmp_path / "dense.cpp", with_templates=True)
    result = tilewright.tune(mixed, trials=4, strategy="random", db=tmp_path / "t.db", m=9, n=20, k=8)
    assert result.space_size > 100
    with Database.open(tmp_path / "t.db") as database:
        names = {r.schedule.template.split("_")[0] for r in database.trials(result.run)}
    assert names == {"own", "cpu"}


def test_a_wrong_kernel_is_rejected(tmp_path: Path) -> None:
    wrong = tmp_path / "dense.cpp"
    text = (EXAMPLES / "dense.cpp").read_text()
    wrong.write_text(text.replace("long r = 0; r < k", "long r = BM / 4; r < k"))  # wrong from BM = 4 on
    result = tilewright.tune(kernel(wrong), trials=5, cost_model="random", db=tmp_path / "t.db", **SIZES)
    assert result.failed == {"wrong_result": 2}
    assert result.best is not None
    assert result.best.schedule.values["BM"] == 2


def test_a_kernel_that_compiles_with_no_values_ends_the_run_at_once(tmp_path: Path) -> None:
    broken = tmp_path / "dense.cpp"
    broken.write_text((EXAMPLES / "dense.cpp").read_text().replace("sum[BM][BN]", "sum[BM][BNN]"))
    with pytest.raises(UsageError, match=r"does not compile with BM=2 BN=16: dense\.cpp:3:\d+: .*BNN"):
        tilewright.tune(kernel(broken), trials=5, db=tmp_path / "t.db", **SIZES)


def test_a_reference_can_be_a_function_and_a_kernel_can_use_threads(tmp_path: Path) -> None:
    path = tmp_path / "scale.cpp"
    path.write_text("""
struct job { const float *x; float *out; long n; };
static void part(void *given, long task, long) {
    const job *j = (const job *)given;
    for (long i = task * STEP; i < j->n && i < (task + 1) * STEP; i++) j->out[i] = FACTOR * j->x[i];
}
int scale(const float *x, float *out, long n, const tw_env *env) {
    job j = {x, out, n};
    tw::parallel_for(env, (n + STEP - 1) / STEP, part, &j);
    return 0;
}
""")

    def twice(n: int) -> Any:
        x = tilewright.te.input("x", (n,))
        return tilewright.te.compute((n,), lambda i: x[i] * 2.0)

    made = tilewright.own_kernel(
        path, entry="scale", knobs={"STEP": [16, 100], "FACTOR": ["2.0f", "(1.0f + 1.0f)"]}, reference=twice
    )
    result = tilewright.tune(made, trials=4, threads=2, cost_model="random", db=tmp_path / "t.db", n=1000)
    assert result.failed == {}
    x = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(tilewright.Library(tmp_path / "t.db").plan("twice", n=1000)(x), 2 * x)


def test_cuda_on_the_emulator(tmp_path: Path) -> None:
    made = kernel(
        EXAMPLES / "dense.cu", knobs={"BM": [8, 16], "BN": [16], "BK": [4], "TM": [2], "TN": [2]},
        constraints="(BM/TM) * (BN/TN) >= 32", grid="ceildiv(n, BN), ceildiv(m, BM)", block="BN/TN, BM/TM",
    )  # fmt: skip
    db = tmp_path / "t.db"
    result = tilewright.tune(made, trials=2, device="emulator", cost_model="gpu", db=db, **SIZES)
    assert result.failed == {}
    assert result.task.target.kind == "cuda"
    assert result.best is not None
    forget()
    with Database.open(db) as database:
        (again,) = verify(database, device="emulator")
    assert again.problem is None


WRONG = """
__global__ void scale(const float *x, float *out, int n) {
    __shared__ float s[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] : 0.0f;
    float more = 0;
#if HOW == 1
    more = x[i + 1];  // past the end
#elif HOW == 2
    more = s[63 - t];  // no barrier
#elif HOW == 3
    if (t == 0) out[0] = 2 * x[0];  // by every block
#endif
    if (i < n) out[i] = 2 * s[t] + (more == 1e30f);
}
"""


def test_illegal_kernels_whose_results_are_right_never_win_on_the_emulator(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scale.cu").write_text(WRONG)

    def twice(n: int) -> Any:
        x = tilewright.te.input("x", (n,))
        return tilewright.te.compute((n,), lambda i: x[i] * 2.0)

    made = tilewright.own_kernel(
        tmp_path / "scale.cu",
        entry="scale",
        knobs={"HOW": [1, 2, 3, 0]},
        reference=twice,
        grid="ceildiv(n, 64)",
        block=64,
    )
    told: list[str] = []

    class Listener(Observer):
        def warning(self, text: str) -> None:
            told.append(text)

    result = tilewright.tune(
        made, trials=4, device="emulator", strategy="grid", db=tmp_path / "t.db", observer=Listener(), n=100
    )
    assert result.failed == {}
    assert result.best is not None
    assert result.best.schedule.values == {"HOW": 0}
    said = "\n".join(told)
    if "cannot be checked" in said:
        pytest.skip(said)
    assert "out_of_bounds_global at line 8, block (1, 0, 0), thread (35, 0, 0)" in said
    assert "element 100 of x, which has 100: `more = x[i + 1];  // past the end`" in said
    assert "race at line 5" in said or "race at line 10" in said
    assert "at out[0]: `if (t == 0) out[0] = 2 * x[0];  // by every block`" in said
    (tmp_path / "ref.py").write_text(
        "from tilewright import te\ndef twice(n: int):\n    x = te.input('x', (n,))\n"
        "    return te.compute((n,), lambda i: x[i] * 2.0)\n"
    )
    code = run(
        ["tune", str(tmp_path / "scale.cu"), "--entry", "scale", "--knob", "HOW=1", "--reference",
         f"{tmp_path / 'ref.py'}:twice", "--grid", "ceildiv(n, 64)", "--block", "64", "n=100", "--trials", "1",
         "--device", "emulator", "--db", str(tmp_path / "c.db")]
    )  # fmt: skip
    assert code == 1
    assert "no kernel won: each of the fastest failed its second check" in capfd.readouterr().err


# --------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"--entry": "dens"}, "Did you mean dense?"),
        ({"--knob": "BMX=2"}, "never uses knob BMX"),
        ({"--knob": "BM"}, "is not a knob"),
        ({"--constraint": "BM << 2"}, "not part of the language"),
        ({"--constraint": "BQ > 2"}, "neither a knob nor a size"),
        ({"--constraint": "BM > 99"}, "no values of the knobs"),
        ({"--reference": "softmax"}, "softmax needs shape"),
        ({"--reference": "matmul"}, "4 pointers, matmul has 3 tensors"),
        ({"--reference": None}, "needs --reference"),
        ({"--entry": None}, "needs --entry"),
        ({"--grid": "1"}, "has no grid"),
        ({"--target": "cuda"}, "is written for cpu"),
        ({"--param": "a,b,bias"}, "takes 7 parameters, and 3"),
    ],
)
def test_the_command_line_says_what_does_not_fit(
    changes: dict[str, str | None], says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sizes = ["m=29", "n=50", "k=17"] if changes.get("--reference") != "softmax" else []
    options = {"--entry": "dense", "--knob": "BN=16", "--reference": f"{EXAMPLES / 'reference.py'}:dense", **changes}
    given = [x for name, value in options.items() if value is not None for x in (name, value)]
    code = run(["tune", str(EXAMPLES / "dense.cpp"), *sizes, "--knob", "BM=2", *given, "--db", str(tmp_path / "t.db")])
    err = capfd.readouterr().err
    assert code == 2
    assert says in err
    assert "Traceback" not in err


def test_own_options_are_for_files_only(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "matmul", "m=4", "n=4", "k=4", "--grid", "3"]) == 2
    assert "--grid is for a kernel of your own" in capfd.readouterr().err


def test_the_command_line_tunes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = run(
        ["tune", str(EXAMPLES / "dense.cpp"), "--entry", "dense", "--knob", "BM=2,4", "--knob", "BN=16",
         "--reference", f"{EXAMPLES / 'reference.py'}:dense", "--constraint", "BM < 4", "m=8", "n=20", "k=6",
         "--trials", "5", "--db", str(tmp_path / "t.db")]
    )  # fmt: skip
    out = capfd.readouterr().out
    assert code == 0
    assert "own_dense_" in out
    assert "BM=2 BN=16" in out
    assert "reference.py:dense" in out.replace("\n", "").replace("│", "")


def test_illegal_kernels_whose_results_are_right_never_win_on_a_processor(tmp_path: Path) -> None:
    (tmp_path / "scale.cpp").write_text("""
struct job { const float *x; float *out; long n; };
static void part(void *given, long task, long) {
    const job *j = (const job *)given;
    for (long i = task * 10; i < j->n && i < (task + 1) * 10; i++) j->out[i] = 2.0f * j->x[i];
    if (HOW == 2) j->out[0] = 2.0f * j->x[0];  // by every task
}
int scale(const float *x, float *out, long n, const tw_env *env) {
    job j = {x, out, n};
    tw::parallel_for(env, (n + 9) / 10, part, &j);
    if (HOW == 1 && x[n] > 1e30f) out[0] = 2.0f * x[0];  // past the end
    return 0;
}
""")

    def twice(n: int) -> Any:
        x = tilewright.te.input("x", (n,))
        return tilewright.te.compute((n,), lambda i: x[i] * 2.0)

    made = tilewright.own_kernel(
        tmp_path / "scale.cpp", entry="scale", knobs={"HOW": [1, 2, 0]}, reference=twice, with_templates=False
    )
    told: list[str] = []

    class Listener(Observer):
        def warning(self, text: str) -> None:
            told.append(text)

    result = tilewright.tune(made, trials=3, strategy="grid", db=tmp_path / "t.db", observer=Listener(), n=100)
    assert result.failed == {"crash": 1}, "pages behind arrays cannot be read"
    assert result.best is not None
    assert result.best.schedule.values == {"HOW": 0}
    assert any("race" in text for text in told), told

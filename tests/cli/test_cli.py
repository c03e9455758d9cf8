"""The command line: JSON contract, exit codes, errors in one line."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright
from harness.waiting import until
from tilewright.backends.cpu.targets import parse_target
from tilewright.cli.app import COMMANDS, SECTIONS, run
from tilewright.kernels.codegen.prelude import prelude, without_prelude
from tilewright.testing.imports import imported

SIZES = ("m=32", "n=48", "k=24")
OPERATOR = """
from tilewright import operator, te

@operator
def sqdist(m: int, n: int, k: int):
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))
"""


class Tuned(NamedTuple):
    """What ``tune --json`` printed, and its database."""

    db: str
    out: str
    err: str


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    path = str(tmp_path_factory.mktemp("cli") / "t.db")
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert run(["tune", "matmul", *SIZES, "--trials", "4", "--seed", "1", "--db", path, "--json"]) == 0
    return Tuned(path, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def db(tuned: Tuned) -> str:
    """A database with one tuned matmul."""
    return tuned.db


def test_every_command_has_help_with_examples(cli: Any) -> None:
    for name in COMMANDS:
        reply = cli(name, "--help")
        assert reply.code == 0
        assert "Examples:" in reply.out, name


def test_version_and_help(cli: Any) -> None:
    assert cli("--version").out.strip() == f"tilewright {tilewright.__version__}"
    shown = cli("--help").out
    assert all(f"{heading}:" in shown for heading in SECTIONS)
    assert sorted(n for names in SECTIONS.values() for n in names) == sorted(COMMANDS), "each command once"


def test_a_name_alone_prints_the_help_as_it_is_written(cli: Any) -> None:
    bare = cli()
    assert (bare.code, bare.err) == (0, "")
    assert bare.out == cli("--help").out
    assert "\n    tilewright tune matmul m=512" in bare.out
    for group in ("db", "farm", "cache", "bundle", "model"):
        alone = cli(group)
        assert alone.code == 2, group
        assert alone.out == cli(group, "--help").out


def test_mistakes_are_answered_by_what_may_be_meant(cli: Any) -> None:
    assert "Write m=4" in cli("tune", "matmul", "m=3.6", "n=2", "k=2").err
    assert "Did you mean cpu:portable?" in cli("tune", "matmul", "m=3", "n=2", "k=2", "--target", "portable").err
    assert "Did you mean softmax?" in cli("tune", "softmx", "shape=4,4").err


def test_tune_json_has_what_scripts_need(tuned: Tuned) -> None:
    data = json.loads(tuned.out)
    assert data["schema"] == 1
    assert {"workload", "target", "run", "trials", "failed", "seconds", "best", "curve"} <= set(data)
    assert data["trials"] == 4
    assert data["best"]["seconds"] > 0
    assert data["curve"][-1]["trial"] < 4
    assert data["speedup_over_numpy"] > 0
    assert "trials" in tuned.err


def test_a_run_without_a_success_is_one_json_object_and_a_failure(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.kernels import templates

    honest = templates.lower

    def broken(candidate):  # type: ignore[no-untyped-def]
        lowered = honest(candidate)
        return type(lowered)(lowered.symbol, "this is no C++;", lowered.program)

    monkeypatch.setattr(templates, "lower", broken)
    reply = cli("tune", "matmul", "m=8", "n=8", "k=8", "--trials", "4", "--db", str(tmp_path / "t.db"), "--json")
    assert reply.code == 1
    data = reply.json
    assert data["best"] is None
    assert data["failed"] == {"compile": 4}
    assert "tilewright show" in data["error"]["mend"]


@pytest.mark.parametrize("inside", ["t.db", "new/t.db"])
def test_a_folder_that_others_write_is_refused_before_anything_is_tuned(cli: Any, tmp_path: Path, inside: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    reply = cli("tune", "matmul", *SIZES, "--trials", "4", "--db", shared / inside)
    assert reply.code == 1
    assert "can be written by every user" in reply.err
    assert "--db ~/tuned.db" in reply.err
    assert not any(shared.iterdir())


def test_tune_prints_a_panel(cli: Any, tmp_path: Path) -> None:
    reply = cli("tune", "matmul", *SIZES, "--trials", "2", "--db", str(tmp_path / "t.db"))
    assert reply.code == 0
    for word in (
        "final time",
        "the FMA peak",
        "than NumPy (95% interval",
        "gain  ",
        "the default schedule",
        "saved in",
        "next",
    ):
        assert word in reply.out


def test_best_and_its_source(cli: Any, db: str) -> None:
    data = cli("best", "matmul", *SIZES, "--db", db, "--source", "--json").json
    assert data["state"] == "verified"
    assert data["source"].startswith("#define TW_VECTOR_BYTES")
    assert data["source"].endswith(data["kernel_source"])
    assert "TW_ENTRY(" in data["kernel_source"]
    assert "#define TW_ENTRY(" not in data["kernel_source"]
    for flag, key in (("--source", "kernel_source"), ("--full-source", "source")):
        assert cli("best", "matmul", *SIZES, "--db", db, flag).out.strip() == data[key].strip()


def test_the_kernel_of_a_source_with_another_prelude_is_found() -> None:
    target = parse_target("auto")
    kernel = "extern int kernel;\n"
    assert without_prelude(prelude(target) + kernel, target) == kernel
    assert without_prelude("int earlier;\n}  // namespace tw\n" + kernel, target) == kernel
    assert without_prelude(kernel, target) == kernel


def test_kernels_lists_what_is_stored(cli: Any, db: str, tmp_path: Path) -> None:
    [row] = cli("kernels", "--db", db, "--json").json["kernels"]
    assert (row["op"], row["params"]["m"], row["state"]) == ("matmul", 32, "verified")
    assert row["seconds"] == cli("best", "matmul", *SIZES, "--db", db, "--json").json["seconds"]
    for given in (("matmul",), ("matmul", "m=32"), ("matmul", "dtype=float32")):
        assert "cpu_contraction" in cli("kernels", *given, "--db", db).out
    nothing = cli("kernels", "matmul", "m=33", "--db", db)
    assert (nothing.code, nothing.out) == (0, "")
    assert "tune matmul m=33" in nothing.err
    assert cli("kernels", "--db", tmp_path / "none.db").code == 1
    path, own = tmp_path / "mine.py", tmp_path / "own.db"
    path.write_text(OPERATOR)
    cli("tune", f"{path}:sqdist", "m=4", "n=5", "k=6", "--trials", "1", "--db", own)
    assert [k["params"]["n"] for k in cli("kernels", "sqdist", "--db", own, "--json").json["kernels"]] == [5]
    for given in (("m=4", "n=5", "k=6"), ()):
        assert cli("best", "sqdist", *given, "--db", own, "--json").json["workload"].startswith("sqdist m=4 n=5 k=6")
    assert "numpy" in cli("bench", "sqdist", "--db", own, "--rounds", "3").out
    assert "Write one of: sqdist m=4 n=5 k=6" in cli("best", "sqdist", "m=9", "--db", own).err
    assert "unknown operator" in cli("best", "sqdisk", "--db", own).err


def test_best_of_something_untuned_says_how_to_tune_it(cli: Any, db: str) -> None:
    reply = cli("best", "matmul", "m=7", "n=7", "k=7", "--db", db, "--json")
    assert reply.code == 1
    assert "tilewright tune matmul m=7" in reply.json["error"]["mend"]


def test_runs_newest_first_and_show(cli: Any, db: str, tmp_path: Path) -> None:
    db = str(shutil.copy(db, tmp_path))
    assert cli("tune", "matmul", *SIZES, "--trials", "2", "--seed", "8", "--db", db, "--json").code == 0
    runs = cli("runs", "--db", db, "--json").json["runs"]
    assert [r["seed"] for r in runs] == [8, 1]
    assert all(isinstance(r["default_is_best"], bool) for r in runs)
    assert (", the default" in cli("runs", "--db", db).out) == any(r["default_is_best"] for r in runs)
    shown = cli("show", "last", "--db", db, "--json").json
    assert shown["run"] == runs[0]["run"]
    assert [t["number"] for t in shown["trial_records"]] == [1, 0]
    assert "least so far" in cli("show", runs[1]["run"], "--db", db).out


def test_ops_examples_are_what_tune_accepts(cli: Any) -> None:
    from tilewright.kernels.operators import get_operator

    ops = cli("ops", "--json").json["ops"]
    assert {"matmul", "batch_matmul", "conv2d", "softmax"} <= {o["name"] for o in ops}
    for o in ops:
        assert {"name", "attributes", "dtypes", "example", "inputs"} <= set(o)
        workload = get_operator(o["name"]).workload(**o["example"])
        assert [tuple(i["shape"]) for i in o["inputs"]] == [s.shape for s in workload.inputs]


def test_space_and_its_sample(cli: Any) -> None:
    data = cli("space", "matmul", *SIZES, "--seed", "4", "--source", "--json").json
    assert data["size"] > 100
    assert "TW_ENTRY" in data["source"]
    assert cli("space", "softmax", "shape=8,16").code == 0


def test_space_says_what_it_leaves_out(cli: Any) -> None:
    sequence = ("space", "cumsum", "shape=64,100", "dim=1", "--threads", "2")
    note = "The sequence is walked from end to end by one thread: its 100 elements are fewer than 64 for each of 2"
    assert note in " ".join(cli(*sequence).out.split())
    noted = [t for t in cli(*sequence, "--json").json["templates"] if "note" in t]
    assert noted[0]["note"].startswith(note)


def test_bench_pairs_with_numpy(cli: Any, db: str) -> None:
    data = cli("bench", "matmul", *SIZES, "--db", db, "--against", "numpy,openblas", "--rounds", "5", "--json").json
    assert [r["baseline"] for r in data["ratios"]] == ["numpy", "openblas"]
    assert all(r["rival"] == r["baseline"] and r["way"] == r["variant"] for r in data["ratios"])  # their earlier names
    assert all(r["ratio"] > 0 for r in data["ratios"])
    assert 0 < data["peak_fraction"] < 1.2


def test_bench_gives_variances_that_are_not_negative(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune("batch_norm", shape="2,3,16", trials=1, db=path)
    data = cli(
        "bench", "batch_norm", "shape=2,3,16", "--db", path, "--against", "numpy", "--rounds", "3", "--json"
    ).json
    assert [r["baseline"] for r in data["ratios"]] == ["numpy"], data["skipped"]


def test_verify_rechecks_stored_kernels(cli: Any, db: str) -> None:
    data = cli("verify", "--db", db, "--json").json
    assert data["failed"] == 0
    assert [k["state"] for k in data["kernels"]] == ["verified"]


def test_cache_and_doctor(cli: Any) -> None:
    assert cli("cache", "stats", "--json").json["entries"] >= 0
    assert cli("cache", "gc", "--json").code == 0
    doctor = cli("doctor", "--no-measure", "--json").json
    assert doctor["machine"]["target"].startswith("cpu:")
    assert "platform" in doctor


def test_user_operator_from_a_file(cli: Any, tmp_path: Path) -> None:
    source = tmp_path / "my_ops.py"
    source.write_text(OPERATOR)
    path = str(tmp_path / "t.db")
    sizes = ("m=20", "n=24", "k=9")
    assert cli("tune", f"{source}:sqdist", *sizes, "--trials", "1", "--db", path, "--json").code == 0
    source.unlink()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 9), dtype=np.float32), rng.standard_normal((24, 9), dtype=np.float32)
    with tilewright.Library(path) as library:
        d = library.plan("sqdist", m=20, n=24, k=9)(x, y)
    np.testing.assert_allclose(d, ((x[:, None] - y[None]) ** 2).sum(-1), rtol=1e-4, atol=1e-5)


BAD = [
    (2, ("tune", "matmull", *SIZES)),
    (2, ("tune", "matmul", "m=4", "n=4")),
    (2, ("tune", "matmul", "m=4", "n=4", "k=0")),
    (2, ("tune", "matmul", "m=4", "n=4", "k=-3")),
    (2, ("tune", "matmul", "m=4", "n=4", "k")),
    (2, ("tune", "matmul", "m=4", "n=4", "k=4", "k=5")),
    (2, ("tune", "matmul", *SIZES, "--dtype", "float99")),
    (2, ("tune", "matmul", *SIZES, "--target", "gpu9000")),
    (2, ("tune", "matmul", *SIZES, "--strategy", "luck")),
    (2, ("tune", "matmul", *SIZES, "--trials", "-1")),
    (2, ("tune", "matmul", *SIZES, "--device", "cpu:999")),
    (2, ("tune", "matmul", *SIZES, "--no-such-option")),
    (2, ("bench", "matmul", *SIZES, "--against", "nobody")),
    (2, ("no-such-command",)),
    (1, ("best", "matmul", *SIZES, "--db", "{missing}")),
    (1, ("tune", "matmul", *SIZES, "--db", "{corrupt}")),
    (1, ("tune", "matmul", *SIZES, "--db", "{folder}")),
    (1, ("tune", "{raises}:f", "m=4")),
    (1, ("tune", "matmul", *SIZES, "--target", "{foreign}")),
]


@pytest.mark.parametrize(("code", "arguments"), BAD, ids=lambda v: " ".join(v) if isinstance(v, tuple) else str(v))
def test_bad_input_is_one_clear_line(cli: Any, tmp_path: Path, code: int, arguments: tuple[str, ...]) -> None:
    (tmp_path / "corrupt.db").write_bytes(b"not a database " * 400)
    (tmp_path / "raises.py").write_text("def f(m: int):\n    raise ZeroDivisionError('oh no')\n")
    words = {
        "missing": tmp_path / "missing.db",
        "corrupt": tmp_path / "corrupt.db",
        "folder": tmp_path,
        "raises": tmp_path / "raises.py",
        "foreign": "cpu:neon" if os.uname().machine == "x86_64" else "cpu:avx512",
    }
    given = [a.format(**words) if "{" in a else a for a in arguments]
    default = [] if "--db" in given or given[0] not in ("tune", "bench") else ["--db", str(tmp_path / "t.db")]
    reply = cli(*given, *default, "--json") if given[0] in COMMANDS else cli(*given, "--json")
    assert reply.code == code, reply.err
    error = reply.json["error"]
    assert error["message"]
    assert error["mend"], error
    assert "Traceback" not in reply.err
    assert len([line for line in reply.err.splitlines() if line.startswith("tilewright:")]) == 1, reply.err


def test_a_short_run_imports_what_it_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "tilewright", "tune", "matmul", *SIZES, "--trials", "3"]
    done = subprocess.run(
        [*command, "--db", str(tmp_path / "t.db")], capture_output=True, text=True, check=True, timeout=120
    )
    modules = imported(done.stderr)
    assert {"sqlalchemy", "tilewright.kernels.templates.cpu_contraction.template"} <= modules
    # Fewer trials than a model is trained with, a file, this machine and its cores.
    others = {"xgboost", "scipy", "alembic", "sqlalchemy.orm", "sqlalchemy.dialects.postgresql", "nats"}
    ours = {"farm.client", "cli.many", "kernels.primitives", "kernels.templates.cuda_mma.template"}
    assert (others | {f"tilewright.{name}" for name in ours}) & modules == set()


@pytest.mark.parametrize(("command", "code"), [("--version", 0), ("ops", 0), ("nonsense", 2)])
@pytest.mark.parametrize("unread", ["stdout", "both"])
def test_a_reader_that_went_away_changes_no_exit_code(command: str, code: int, unread: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    errors = writer if unread == "both" else subprocess.DEVNULL
    program = [sys.executable, "-c", "from tilewright.cli import main; main()", command]
    try:
        assert subprocess.run(program, stdout=writer, stderr=errors, check=False).returncode == code
    finally:
        os.close(writer)


def test_help_imports_no_numpy() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "tilewright", "tune", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not {"numpy", "sqlalchemy", "tilewright.tuner"} & imported(done.stderr)


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly), (signal.SIGTERM, 143)]
)
def test_stopping_keeps_everything_measured(tmp_path: Path, number: signal.Signals, code: int) -> None:
    path = tmp_path / "t.db"
    command = [sys.executable, "-m", "tilewright", "tune", "matmul", *SIZES, "--trials", "5000", "--db", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        from tilewright.database import Database

        def stored() -> int:
            if not path.exists():
                return 0
            with Database.open(path, create=False) as database:
                return sum(run.trials for run in database.runs())

        until(stored, pause=0.2)
        before = stored()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    with Database.open(path, create=False) as database:
        run_ = database.runs()[0]
        assert run_.state == "interrupted"
        assert run_.trials >= before

"""What programs asked for and did not have: counted by call, stored now and then, tuned on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runtime_kernels import Maker, random, sqdist

from tilewright.backends.cpu.targets import detect
from tilewright.cli.app import run
from tilewright.database import Database
from tilewright.runtime import Library, misses

A, B = random(5, 6), random(6, 2)


def stored(path: Path) -> dict[str, int]:
    """Calls by what they asked for."""
    with Database.open(path) as database:
        found = database.misses()
    assert all(m.target_key == detect().key for m in found)
    return {" ".join([m.op, *(f"{k}={v}" for k, v in m.params)]): m.count for m in found}


def test_calls_are_counted_by_what_they_asked_for(maker: Maker, either: str) -> None:
    maker.matmul(4, 4, 4)
    library = Library(maker.path)
    for _ in range(5):
        library.matmul(A, B)
    library.matmul(A, B.T.copy(), trans_b=True)
    library.matmul(A.astype(np.float64), B.astype(np.float64))
    library.matmul(random(4, 4), random(4, 4))
    library.softmax(A)
    library.matmul(A[0], B)  # no product of two matrices: nothing to tune
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 1, "fallback": 9}
    assert library.stats().reasons == {"untuned": 9}
    library.close()
    assert stored(maker.path) == {
        "matmul k=6 m=5 n=2": 5,
        "matmul k=6 m=5 n=2 trans_b=True": 1,
        "matmul dtype=float64 k=6 m=5 n=2": 1,
        "softmax shape=5,6": 1,
    }


def test_counts_add_up_over_times_and_libraries(maker: Maker) -> None:
    for _ in range(2):
        library = Library(maker.path)
        for calls in (3, 4):
            for _ in range(calls):
                library.matmul(A, B)
            library._misses.flush()
            library._misses.flush()
        library.close()
    assert stored(maker.path) == {"matmul k=6 m=5 n=2": 14}


def test_plans_count_their_calls(maker: Maker) -> None:
    library = Library(maker.path)
    plan = library.plan("matmul", m=5, n=2, k=6)
    for _ in range(3):
        plan(A, B)
    other = library.plan(sqdist, m=4, n=3, k=5)
    other(random(4, 5), random(3, 5))
    library.close()
    assert stored(maker.path) == {"matmul k=6 m=5 n=2": 3, "sqdist k=5 m=4 n=3": 1}


def test_defaults_that_were_compiled_count_too(maker: Maker, either: str) -> None:
    library = Library(maker.path, compile=True)
    a, b = random(7, 9), random(9, 3)  # of no other test: defaults stay in the cache
    plan = library.plan("matmul", m=7, n=3, k=9)
    for _ in range(3):
        plan(a, b)
    library.matmul(a, b)
    assert library.stats().tiers["foreseen"] == 4
    library.close()
    assert stored(maker.path) == {"matmul k=9 m=7 n=3": 4}


def test_recording_of_misses_can_be_switched_off(maker: Maker) -> None:
    library = Library(maker.path, count_misses=False)
    library.matmul(A, B)
    assert library.stats().reasons == {"untuned": 1}
    library.close()
    assert stored(maker.path) == {}


def test_their_number_is_bounded(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misses, "_KEPT", 3)
    library = Library(maker.path)
    for n in range(1, 7):
        library.matmul(random(5, n), random(n, 2))
    assert library.stats().reasons == {"untuned": 6}
    library.close()
    assert len(stored(maker.path)) == 3


def test_a_file_that_cannot_be_written_is_left_alone(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    before = maker.path.read_bytes()
    monkeypatch.setattr(os, "access", lambda *_: False)
    library = Library(maker.path)
    library.matmul(A, B)
    library.close()
    assert maker.path.read_bytes() == before


def test_a_busy_file_is_tried_again(maker: Maker) -> None:
    import sqlite3

    library = Library(maker.path)
    library.matmul(A, B)
    holder = sqlite3.connect(maker.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    library._misses.flush()
    holder.execute("ROLLBACK")
    holder.close()
    assert stored(maker.path) == {}
    library._misses.flush()
    assert stored(maker.path) == {"matmul k=6 m=5 n=2": 1}


PROGRAM = """
import os, sys
import numpy as np, tilewright
library = tilewright.Library(sys.argv[1])
a, b = np.ones((5, 6), "f"), np.ones((6, 2), "f")
for _ in range(4): library.matmul(a, b)
if os.fork() == 0:
    library.matmul(a, b)
    sys.exit()
os.wait()
"""


def test_a_program_and_its_child_store_theirs_at_their_end(maker: Maker) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, str(maker.path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert stored(maker.path) == {"matmul k=6 m=5 n=2": 5}


def test_misses_are_listed_and_tuned(maker: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    db = str(maker.path)
    library = Library(maker.path, watch=False)
    library.plan(sqdist, m=4, n=3, k=5)(random(4, 5), random(3, 5))
    for _ in range(3):
        library.matmul(A, B)
    library.softmax(A)
    library.close()
    assert run(["misses", "--db", db, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["misses"]
    assert {m["command"] for m in found} == {
        "tilewright tune matmul k=6 m=5 n=2", "tilewright tune softmax shape=5,6", "tilewright tune sqdist k=5 m=4 n=3",
    }  # fmt: skip
    assert [m["operator"] for m in found if m["problem"]] == ["sqdist"]
    assert run(["tune", "--from-misses", "--trials", "1", "--cost-model", "random", "--db", db, "--json"]) == 0
    said = capsys.readouterr()
    tasks = json.loads(said.out)["tasks"]
    assert [(t["operator"], t["weight"]) for t in tasks] == [("matmul", 3.0), ("softmax", 1.0)]
    assert "sqdist is skipped: no operator of that name: tune it by its file" in said.err
    assert set(stored(maker.path)) == {"sqdist k=5 m=4 n=3"}
    again = Library(maker.path)
    np.testing.assert_allclose(again.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert again.stats().tiers["exact"] == 1
    assert run(["tune", "--from-misses", "--db", db]) == 0
    assert "no misses are stored" in capsys.readouterr().err
    assert run(["misses", "--db", db, "--forget"]) == 0
    assert stored(maker.path) == {}
    assert run(["tune", "matmul", "m=3", "--from-misses", "--db", db]) == 2
    assert "OP does not go with --from-misses" in capsys.readouterr().err

"""Building bundles: what goes in, the same bytes again, and what is refused."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tilewright.bundles.build import build, sign_again
from tilewright.bundles.check import check
from tilewright.bundles.contents import kernels, open_bundle, source_of, task_of
from tilewright.core import DatabaseError, UsageError
from tilewright.database import Database
from tilewright.runtime.bundle.layout import HEADER
from tilewright.runtime.bundle.reader import Bundle


def test_building_again_gives_the_same_bytes(
    tuned_database: Path, bundle: Path, key: Ed25519PrivateKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a copy of the database, at another time, in another folder, whatever its rows' order."""
    copy = tmp_path / "folder" / "copy.db"
    copy.parent.mkdir()
    with Database.open(tuned_database, create=False, readonly=True) as database:
        from tilewright.database.transfer import export_best

        export_best(database, copy)
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    with Database.open(copy, create=False, readonly=True) as database:
        build(database, tmp_path / "again.twb", key)
        build(database, tmp_path / "unsigned.twb", None)
    assert (tmp_path / "again.twb").read_bytes() == bundle.read_bytes()
    unsigned = (tmp_path / "unsigned.twb").read_bytes()
    assert unsigned[HEADER:] == bundle.read_bytes()[HEADER:]
    sign_again(tmp_path / "unsigned.twb", tmp_path / "signed.twb", key)
    assert (tmp_path / "signed.twb").read_bytes() == bundle.read_bytes()


def test_a_bundle_has_all_files_of_its_kernels(tuned_database: Path, bundle: Path) -> None:
    opened = open_bundle(bundle, "unsigned")
    with Database.open(tuned_database, create=False, readonly=True) as database:
        stored = {k.task.key: k for k in database.kernels() if k.rank == 1}
        for kernel in kernels(opened):
            task = task_of(opened, kernel)
            row = stored.pop(task.key)
            assert task == row.task
            assert kernel.entry.schedule == row.schedule
            artifact = database.artifact(row.artifact_sha256)
            assert artifact is not None
            assert source_of(opened, kernel) == artifact.source
            shown = kernel.to_json()
            assert shown["strategy"] == database.run(row.run_id or "").strategy
            assert shown["flags"] == list(artifact.flags)
        assert not stored


def test_part_of_a_database(tuned_database: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.twb"
    with Database.open(tuned_database, create=False, readonly=True) as database:
        assert build(database, path, None, op="softmax") == 1
        (kernel,) = kernels(open_bundle(path, "unsigned"))
        assert build(database, path, None, op="softmax", target=kernel.entry.target.name) == 1
        with pytest.raises(UsageError, match="holds no verified kernel for cpu:none"):
            build(database, path, None, target="cpu:none")
        with pytest.raises(UsageError, match="holds no verified kernel of conv2d"):
            build(database, path, None, op="conv2d")
    assert [k.entry.op for k in kernels(open_bundle(path, "unsigned"))] == ["softmax"]


def test_names_that_are_taken(tuned_database: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("mine")
    with Database.open(tuned_database, create=False, readonly=True) as database:
        with pytest.raises(UsageError, match="exists, and is not a bundle"):
            build(database, tmp_path / "text", None)
        with pytest.raises(UsageError, match="is not a regular file"):
            build(database, tmp_path, None)
        with pytest.raises(UsageError, match="there is no folder"):
            build(database, tmp_path / "none" / "x.twb", None)
    assert (tmp_path / "text").read_text() == "mine"
    assert not [p for p in tmp_path.iterdir() if "partial" in p.name]


def test_kernels_are_checked(bundle: Path, tuned_database: Path, tmp_path: Path) -> None:
    found = list(check(Bundle(bundle, "unsigned"), run=True))
    assert [(c.problem, c.skipped) for c in found] == [("", "")] * 6
    assert [c.problem for c in check(Bundle(bundle, "unsigned"))] == [""] * 6
    # A kernel that is not the one of its workload: signed, whole, and wrong.
    swapped = tmp_path / "swapped.db"
    shutil.copy(tuned_database, swapped)
    with sqlite3.connect(swapped) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        query = """SELECT k.launch_program, k.artifact_sha256, k.schedule FROM kernel k
                   JOIN workload w ON w.key = k.workload_key
                   WHERE k.rank = 1 AND w.params LIKE '%"trans_b":true%'"""
        other = connection.execute(query).fetchone()
        connection.execute(
            """UPDATE kernel SET launch_program = ?, artifact_sha256 = ?, schedule = ? WHERE rank = 1 AND workload_key =
               (SELECT key FROM workload WHERE params LIKE '%"m":24%' AND params LIKE '%"trans_b":false%'
                AND params LIKE '%float32%' AND params LIKE '%"constant":""%')""",
            other,
        )
    connection.close()
    with Database.open(swapped, create=False, readonly=True) as database:
        build(database, tmp_path / "wrong.twb", None)
    problems = [c.problem for c in check(Bundle(tmp_path / "wrong.twb", "unsigned"), run=True) if c.problem]
    assert len(problems) == 1
    assert problems[0].startswith("wrong_result")


def test_a_part_that_is_damaged(bundle: Path) -> None:
    data = bytearray(bundle.read_bytes())
    data[-1] ^= 1
    bundle.write_bytes(data)
    opened = Bundle(bundle, "unsigned")  # its index is whole
    with pytest.raises(DatabaseError, match=r"is damaged: the bytes of \w+ do not hash to that"):
        list(check(opened))

"""Any one call on files that fails costs a database one error at most, and nothing that was acknowledged."""

from __future__ import annotations

import errno
import random
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness import preloaded
from harness.preloaded import KILL, SHORT, TORN
from harness.write_faults import Session, Sessions, problems

pytestmark = pytest.mark.skipif(bool(preloaded.reason()), reason=preloaded.reason())

SOME = 6
"""Calls of each kind of failure that are tried where not all are."""
FAILURES = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "short write": SHORT}
DEATHS = {"SIGKILL": KILL, "torn write": TORN}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    with Sessions(tmp_path_factory.mktemp("faults") / "s") as sessions:
        yield sessions


@pytest.fixture(scope="module")
def powered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    with Sessions(tmp_path_factory.mktemp("power") / "s", powered=True) as sessions:
        yield sessions


def calls(sessions: Sessions) -> int:
    """How many calls on files a session makes that nothing disturbs."""
    folder, told = sessions.run()
    assert problems(folder, told) == []
    assert not told.errors
    return sessions.machine.calls


def fail_once(sessions: Sessions, how: int, which: Iterable[int]) -> None:
    steps = {name for name, _ in Session(Path()).steps()}
    for call in which:
        folder, told = sessions.run(call, how)
        where = f"call {call}, {sessions.machine.failed}"
        assert problems(folder, told) == [], where
        assert len(told.errors) <= 1, (where, told.errors)  # and the step succeeds when it is done again
        assert set(told.done) == steps, where
        shutil.rmtree(folder)


def die_once(sessions: Sessions, how: int, which: Iterable[int]) -> None:
    for call in which:
        folder, told = sessions.run(call, how)
        assert told.status < 0
        assert problems(folder, told) == [], f"{call}, {sessions.machine.failed}"
        shutil.rmtree(folder)


def some(sessions: Sessions, kind: str) -> list[int]:
    return random.Random(kind).sample(range(1, calls(sessions) + 1), SOME)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_call_that_fails_once_costs_one_error_and_no_row(sessions: Sessions, kind: str) -> None:
    fail_once(sessions, FAILURES[kind], some(sessions, kind))


@pytest.mark.parametrize("kind", DEATHS)
def test_a_process_that_dies_in_a_write_loses_nothing_acknowledged(sessions: Sessions, kind: str) -> None:
    die_once(sessions, DEATHS[kind], some(sessions, kind))


def test_a_power_cut_in_a_write_loses_nothing_acknowledged(powered: Sessions) -> None:
    die_once(powered, TORN, some(powered, "power"))


def test_a_file_that_could_be_opened_for_reading_alone_is_written_the_next_time(sessions: Sessions) -> None:
    fail_once(sessions, errno.EIO, [1])


def test_a_power_cut_takes_what_was_not_synced(tmp_path: Path) -> None:
    """The machine itself, without which the tests above would show nothing."""
    machine = preloaded.Machine(tmp_path / "machine", tmp_path / "files", synced=tmp_path / "synced")
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "some.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    machine.remember(path.parent)
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE u (x); INSERT INTO u VALUES (randomblob(9000))")
    left = set()
    after = path.read_bytes()
    for seed in range(20):
        path.write_bytes(after)
        machine.cut_power(path.parent, random.Random(seed))
        left.add(path.read_bytes())
    assert before in left
    assert after in left
    assert len(left) > 4
    machine.close()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", FAILURES)
def test_every_call_that_fails_once_costs_one_error_and_no_row(sessions: Sessions, kind: str) -> None:
    fail_once(sessions, FAILURES[kind], range(1, calls(sessions) + 1))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", DEATHS)
def test_a_process_that_dies_in_any_write_loses_nothing_acknowledged(sessions: Sessions, kind: str) -> None:
    die_once(sessions, DEATHS[kind], range(1, calls(sessions) + 1))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", DEATHS)
def test_a_power_cut_in_any_write_loses_nothing_acknowledged(powered: Sessions, kind: str) -> None:
    die_once(powered, DEATHS[kind], range(1, calls(powered) + 1))

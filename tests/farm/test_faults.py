"""Every fault of the matrix, in the middle of a whole tuning run on four simulated runners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import preloaded
from harness.farm_fault_matrix import FAULTS, Fault, postgresql_restarted
from harness.farm_faults import Scene, Stored
from postgres import Server, binaries
from tilewright.database.migrate import upgrade_database

TRIALS = 64


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Stored]:
    """What a run without a fault leaves, by strategy."""
    known: dict[str, Stored] = {}

    def run(strategy: str) -> Stored:
        if strategy not in known:
            with Scene(tmp_path_factory.mktemp("undisturbed"), TRIALS, strategy=strategy) as scene:
                scene.tune()
                known[strategy] = scene.stored()
            assert known[strategy].problems(known[strategy]) == []
        return known[strategy]

    return run


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda f: f.name)
def test_a_disturbed_run_ends_like_an_undisturbed_one(
    fault: Fault, tmp_path: Path, certs: Path, undisturbed: Callable[[str], Stored]
) -> None:
    _disturb(fault, "grid", tmp_path, certs, undisturbed("grid"))


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda f: f.name)
def test_a_faulty_farm_finds_the_same_when_proposals_depend_on_outcomes(
    fault: Fault, tmp_path: Path, certs: Path, undisturbed: Callable[[str], Stored]
) -> None:
    _disturb(fault, fault.strategy, tmp_path, certs, undisturbed(fault.strategy))


def _disturb(fault: Fault, strategy: str, folder: Path, certs: Path, expected: Stored) -> None:
    if fault.preloaded and preloaded.reason():
        pytest.skip(preloaded.reason())
    with Scene(
        folder, TRIALS, strategy=strategy, undisturbed=expected, certs=certs if fault.tls else None,
        runners=fault.runners,
    ) as scene:  # fmt: skip
        assert fault.disturb(scene)
        found = scene.stored()
    assert found.problems(expected) == []
    same = {k: t for k, t in found.times.items() if k in expected.times}
    assert same == {k: expected.times[k] for k in same}


@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL on this machine")
def test_a_database_server_that_restarts_in_the_middle_of_a_batch(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, undisturbed: Callable[[str], Stored]
) -> None:
    server = Server(tmp_path_factory)
    try:
        location = server.url(server.create())
        upgrade_database(location)
        with Scene(tmp_path, TRIALS, location=location) as scene:
            assert postgresql_restarted(scene, server.restart)
            assert scene.stored().problems(undisturbed("evolutionary")) == []
    finally:
        server.close()


def test_an_undisturbed_run_is_the_same_wherever_it_was_measured(
    tmp_path: Path, undisturbed: Callable[[str], Stored]
) -> None:
    with Scene(tmp_path, TRIALS, runners=2) as scene:
        scene.tune()
        assert scene.stored().keys == undisturbed("evolutionary").keys

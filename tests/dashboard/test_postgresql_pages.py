"""The same pages over a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import asking

from harness.million import fill
from postgres import Server, binaries
from tilewright.database import Database
from tilewright.database.migrate import upgrade_database

if binaries() is None:
    pytest.skip("no PostgreSQL server here", allow_module_level=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory)
    try:
        yield server
    finally:
        server.close()


def test_pages_are_those_of_a_file(server: Server, tmp_path: Path) -> None:
    name = server.create()
    url = server.url(name)
    upgrade_database(url)
    for where in (url, str(tmp_path / "file.db")):
        fill(where, runs=6, trials=30)
    with Database.open(url, create=False, readonly=True) as db:
        run = next(r.id for r in db.runs() if r.state == "done")
    asked = (
        "/tables/latest.json", "/tables/speedups.json", "/tables/devices.json", "/charts/failures.json",
        "/runs/tables/runs.json?state=done", f"/runs/{run}/tables/trials.json?order=seconds",
        "/kernels/tables/speedups.json", f"/runs/{run}/charts/best.json", f"/runs/{run}/charts/parallel.json", "/operators/tables/operators.json",
        "/operators/matmul/charts/roofline.json",
    )  # fmt: skip
    with asking(url) as server_side, asking(tmp_path / "file.db") as file_side:
        for address in asked:
            a, b = server_side.get(address), file_side.get(address)
            assert a.status_code == b.status_code == 200, address
            assert a.json() == b.json(), address
        for page in ("/", "/runs", f"/runs/{run}", f"/runs/{run}/trials/0", "/operators/matmul", "/kernels"):
            assert server_side.get(page).status_code == 200

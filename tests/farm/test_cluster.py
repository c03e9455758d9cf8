"""Three servers that hold the same jobs: one killed in the middle of many jobs, one whose disk is lost and comes back."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harness.farm import CODE, SHA256, START_SECONDS, SimulatedFarm, SleepingMeasurer
from tilewright.core import Task
from tilewright.farm import subjects
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.hub import Hub
from tilewright.farm.jobs import item_json, task_json
from tilewright.farm.pki.tls import find_credentials
from tilewright.farm.server import Cluster, NatsServer, free_port
from tilewright.measure.runner import Item

DEVICE_CLASS = "cpu-simulated-1c"
OTHER_CLASS = "cpu-simulated-2c"
STREAM, OTHER_STREAM = (subjects.queue_of(c)[0] for c in (DEVICE_CLASS, OTHER_CLASS))
STREAMS = (subjects.RESULTS, subjects.ARTIFACTS, subjects.BEGUN)
HEARTBEAT = 0.5


class SimulatedCluster(SimulatedFarm):
    """A simulated farm with three servers, by number."""

    hubs: dict[int, Hub]

    async def start_server(self, port: int = 0) -> None:
        self.hubs = {}
        self.ports = [(free_port("127.0.0.1"), free_port("127.0.0.1")) for _ in range(3)]
        self.address = "tls://" + ",".join(f"localhost:{p}" for p, _ in self.ports)
        for n in range(3):
            await self.start_one(n)
        await asyncio.wait_for(asyncio.gather(*(h.keeper.ready.wait() for h in self.hubs.values())), START_SECONDS)

    async def start_one(self, n: int) -> None:
        port, own = self.ports[n]
        routes = tuple(f"localhost:{p}" for _, p in self.ports)
        self.hubs[n] = Hub(
            self.certs, "127.0.0.1", port, self.folder / f"server-{n}", storage=256 << 20, replicas=3,
            cluster=Cluster("test", f"localhost:{own}", routes), heartbeat=HEARTBEAT, patience=60.0, grace=60.0,
            say=lambda line: self.said.append(f"server {n}: {line}"),
        )  # fmt: skip
        await self.hubs[n].start(wait=False)

    async def lose(self, n: int) -> None:
        """A whole machine: its server killed, its keeper silent."""
        hub = self.hubs.pop(n)
        assert hub.server.process is not None
        hub.server.process.kill()
        await hub.stop()

    def leader(self) -> int | None:
        """The server that leads the jobs' stream; none while they agree on one."""
        info = self._manage("stream_info", STREAM)
        leader = info.cluster.leader if info else None
        return next(
            (n for n, (_, own) in enumerate(self.ports) if leader == f"localhost:{own}" and n in self.hubs), None
        )

    def holds(self, *streams: str) -> int:
        """Servers that hold all of each of these streams, and of what is known of their consumers."""
        held = [self._manage("stream_info", s) for s in streams]
        held += [c for s in streams for c in self._manage("consumers_info", s) or ()]
        return min(1 + sum(bool(r.current) for r in i.cluster.replicas or ()) if i else 0 for i in held)

    def _manage(self, what: str, stream: str) -> Any:
        try:
            return self.call(next(iter(self.hubs.values())).keeper._link.manage(what, stream))
        except FarmError:  # nobody leads it at the moment
            return None

    async def _stop(self) -> None:
        await super()._stop()
        for hub in self.hubs.values():
            await hub.stop()


@pytest.fixture
def cluster(tmp_path: Path, certs: Path) -> Iterator[SimulatedCluster]:
    with SimulatedCluster(tmp_path, [SleepingMeasurer(0.02) for _ in range(3)], certs=certs) as farm:
        yield farm


def test_servers_are_lost_in_the_middle_of_many_jobs(
    cluster: SimulatedCluster, certs: Path, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    """The leader of the jobs' stream, its disk too. It comes back empty, and holds everything when the next is lost."""
    payloads = [{"do": "measure", "task": task_json(task), "items": [item_json(i)]} for i in make_items(40)]
    with Farm(cluster.address, certs, patience=START_SECONDS) as client:
        client.put(CODE)

        def start(count: int, place: str = DEVICE_CLASS) -> list[Future[dict[str, Any]]]:
            return [client.submit(place, payloads[n % len(payloads)], [SHA256]) for n in range(count)]

        def finish(jobs: list[Future[dict[str, Any]]]) -> None:
            cluster.wait_for(lambda: all(f.done() for f in jobs))

        def lose_the_leader() -> int:
            """In the middle of jobs, as one of them begins; they are done nevertheless."""
            cluster.wait_for(lambda: cluster.leader() is not None)
            lost = cluster.leader()
            assert lost is not None
            begun = itertools.count(1)
            for m in cluster.measurers:
                m.on_item = lambda _candidate: next(begun) == 20 and cluster.call(cluster.lose(lost))
            finish(jobs := start(80))
            assert lost not in cluster.hubs
            for n, f in enumerate(jobs):
                (outcome,) = f.result()["outcomes"]
                assert outcome == jobs[n % len(payloads)].result()["outcomes"][0]
            return lost

        def shows(peers: int, workers: int) -> bool:
            status = client.status()
            return (status["server"]["peers"], len(status["workers"])) == (peers, workers)

        cluster.wait_for(lambda: shows(3, 3) and cluster.holds(STREAM, *STREAMS) == 3)
        lost = lose_the_leader()
        cluster.wait_for(lambda: shows(2, 3))
        # A device that nobody has seen before: its jobs are on fewer servers, until there are more.
        cluster.call(_start(cluster, "other", OTHER_CLASS))
        finish(others := start(4, OTHER_CLASS))
        assert [len(f.result()["outcomes"]) for f in others] == [1] * 4

        shutil.rmtree(cluster.folder / f"server-{lost}")
        cluster.call(cluster.start_one(lost))
        cluster.wait_for(lambda: shows(3, 4) and cluster.holds(STREAM, OTHER_STREAM, *STREAMS) == 3)
        lose_the_leader()
        cluster.wait_for(lambda: shows(2, 4))
        nothing = {"workers": 3, "waiting": 0, "in_hand": 0}
        cluster.wait_for(lambda: client.status()["places"].get(DEVICE_CLASS) == nothing)
        assert client.refused == 0


def test_only_servers_are_let_into_a_cluster(cluster: SimulatedCluster, certs: Path, tmp_path: Path) -> None:
    """A runner's certificate is of the same authority, but a route may do everything."""
    shutil.copytree(certs / "runner", tmp_path / "runner")
    shutil.copy(certs / "server" / "users.json", tmp_path / "runner")
    routes = tuple(f"localhost:{own}" for _, own in cluster.ports)

    async def intrude() -> NatsServer:
        server = NatsServer(
            find_credentials(tmp_path / "runner", "runner"), "127.0.0.1", 0, tmp_path / "intruder",
            cluster=Cluster("test", f"localhost:{free_port('127.0.0.1')}", routes),
        )  # fmt: skip
        await server.start()
        return server

    refused = sum(h.server.refused for h in cluster.hubs.values())
    intruder = cluster.call(intrude())
    try:
        cluster.wait_for(lambda: sum(h.server.refused for h in cluster.hubs.values()) >= refused + 3)
        for server, peers in ((intruder, 1), (cluster.hubs[0].server, 3)):  # a route counts until it is refused
            cluster.wait_for(lambda server=server, peers=peers: cluster.call(server.facts())["peers"] == peers)
    finally:
        cluster.call(intruder.stop())


async def _start(cluster: SimulatedCluster, name: str, device_class: str) -> None:
    runner = cluster.start_runner(name, SleepingMeasurer(0.02), device_class)
    await asyncio.wait_for(runner.connected.wait(), START_SECONDS)

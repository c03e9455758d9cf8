"""The faults that a farm must survive, each put into the middle of a run on four simulated runners.

Each function injects a fault into a :class:`~harness.farm_faults.Scene`, lets the run end, and returns in a few words
how the farm reported the fault. It raises ``AssertionError`` where the farm reported nothing, or another fault.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.farm_faults import HEARTBEAT, RUNNERS, Device, Halfway, Scene, expect
from tilewright.core import Failure, FailureKind
from tilewright.farm import subjects
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.pki import certificates
from tilewright.farm.workers.service import Service
from tilewright.farm.workers.work import Held, Reply

DAY = 86400


@dataclass(frozen=True)
class Fault:
    """A fault and the scene that it needs.

    ``strategy``: a search strategy whose proposals do not depend on the results that the fault changes. ``tls``: the
    farm has certificates. ``runners``: number of runners before the fault, which adds the rest of the four.
    ``preloaded``: the fault needs ``LD_PRELOAD`` on this machine (``harness/preloaded.py``).
    """

    name: str
    disturb: Callable[[Scene], str]
    strategy: str = "evolutionary"
    tls: bool = False
    runners: int = RUNNERS
    preloaded: bool = False


def children(s: Scene) -> str:
    """One kernel crashes, one hangs, one exhausts memory; the runner's child process reports a typed failure for
    each."""
    assert s.undisturbed is not None
    kinds = (FailureKind.CRASH, FailureKind.TIMEOUT, FailureKind.RESOURCES)
    s.failing = {
        k: Failure(kind, f"pretended {kind}") for k, kind in zip(s.undisturbed.middling(3), kinds, strict=True)
    }
    result = s.tune()
    expect(result.failed == {k.value: 1 for k in kinds}, f"failed trials: {result.failed}")
    expect(not any(w["strikes"] or w["quarantine"] for w in s.status()["workers"]), "a kernel's fault struck a device")
    return "one failed trial each: crash, timeout, resources; no runner blamed"


def sticky_device(s: Scene) -> str:
    """From the middle of a job on, a device fails with every kernel until the server quarantines it."""
    s.at(0.4, _break)
    result = s.tune()
    expect(result.failed == {}, f"failed trials: {result.failed}")
    s.wait_for(lambda: any(w["quarantine"] for w in s.status()["workers"]))
    why = str(next(w["quarantine"] for w in s.status()["workers"] if w["quarantine"]))
    expect("failures in a row" in why and "ILLEGAL_ADDRESS" in why, f"quarantine: {why!r}")
    return f"quarantine: {why}; its kernels were measured by others"


def flaky_device(s: Scene) -> str:
    """A device is quarantined, stays in quarantine over a restart of the server, is released by command, and works
    again."""
    broken: list[Device] = []
    s.at(0.3, lambda d: _break(d, broken))

    def restart() -> None:
        name = broken[0].name
        s.farm.call(s.farm.restart_server())
        s.wait_for(lambda: name in s.members())
        expect(s.member(name)["quarantine"], "the restart released it")
        broken[0].broken = False
        broken[0].measured = 0
        with Farm(s.farm.address, s.farm.certs) as farm:
            farm.ask("release", name=name)

    def quarantined() -> bool:
        return bool(broken and s.member(broken[0].name).get("quarantine"))

    # The search goes on until the quarantine: a device without jobs is never quarantined.
    s.tune(observer=Halfway(s.trials * 3 // 5, restart, quarantined))
    after = s.member(broken[0].name)
    expect(not after["quarantine"] and broken[0].measured > 0, f"it did not work again: {after}")
    return f"{broken[0].name} quarantined, still so after a restart, released, measured {broken[0].measured} more"


def runner_killed(s: Scene) -> str:
    """A runner ends in the middle of a job and does not return."""
    dead = _noted(s, 0.5, s.kill)
    s.tune()
    s.wait_for(lambda: dead[0] not in s.members())
    return s.said(f"runner {dead[0]} left")


def runner_process_killed(s: Scene) -> str:
    """A runner's process gets SIGKILL, and a new process with the runner's name starts."""
    process = s.start_process("real")
    s.at(0.4, lambda _d: process.kill())
    s.at(0.6, lambda _d: threading.Thread(target=s.start_process, args=("real",), daemon=True).start())
    s.tune()
    s.wait_for(lambda: any("runner real left" in line for line in list(s.farm.said)) and "real" in s.members())
    return s.said("runner real left")


def host_lost(s: Scene) -> str:
    """A runner's host disappears without closing its connection."""
    relay, address = s.relay()
    s.start_runner("far", address=address)
    s.at(0.4, lambda _d: s.farm.soon(relay.cut))
    s.tune()
    s.wait_for(lambda: "far" not in s.members())
    return f"silent for {4 * HEARTBEAT:.0f} s of heartbeats: {s.said('runner far left')}"


def deadly_job(s: Scene) -> str:
    """A kernel kills every runner that measures it; each runner is restarted."""
    assert s.undisturbed is not None
    died: list[threading.Thread] = []

    def die(device: Device) -> None:
        died.append(threading.Thread(target=again, args=(device.name,), daemon=True))
        died[-1].start()
        s.kill(device)

    def again(name: str) -> None:
        s.wait_for(lambda: name not in s.members())
        s.start_runner(name)

    victim = s.undisturbed.middling()[0]
    s.on(victim, die)
    s.tune()
    for thread in died:
        thread.join()
    expect(s.stored().failures == {victim: "device_lost"}, f"failed trials: {s.stored().failures}")
    return f"{len(died)} runners lost, then one failed trial: device_lost"


def server_killed(s: Scene) -> str:
    """The server gets SIGKILL in the middle of a batch and restarts."""
    return _server_lost(s, wipe=False)


def server_wiped(s: Scene) -> str:
    """The server gets SIGKILL in the middle of a batch and loses its disk; a new server starts at its address."""
    return _server_lost(s, wipe=True)


def _server_lost(s: Scene, wipe: bool) -> str:
    lost = threading.Thread(target=lambda: s.farm.call(s.farm.restart_server(wipe)), daemon=True)
    s.at(0.5, lambda _d: lost.start())
    s.tune()
    lost.join()
    return s.said("cut off")


def client_killed(s: Scene) -> str:
    """The client's process gets SIGKILL in the middle of a batch; a new client resumes the run with --resume."""
    process = s.start_client()
    s.at(0.5, lambda _d: os.kill(process.pid, signal.SIGKILL))
    expect(process.wait(60.0) == -signal.SIGKILL, "the client ended by itself")
    kept = s.stored()
    expect(
        0 < len(kept.numbers) < s.trials and kept.state == "interrupted", f"{len(kept.numbers)} trials, {kept.state}"
    )
    s.tune(resume="last")
    expect(s.stored().keys[: len(kept.keys)] == kept.keys, "what was stored changed")
    return f"run {kept.state} with {len(kept.numbers)} trials, resumed to {s.trials}"


def client_cut_off(s: Scene) -> str:
    """The network between client and server fails for several heartbeats, then recovers."""
    return _cut_client(s, silence=6 * HEARTBEAT)


def client_cut_shortly(s: Scene) -> str:
    """The client's connection is reset, and the client reconnects at once."""
    return _cut_client(s, silence=0.0)


def runner_cut_off(s: Scene) -> str:
    """The network between three runners and the server fails until the server gives up the runners and their jobs."""
    relay, address = s.relay()
    far = {f"far-{n}" for n in range(3)}
    for name in sorted(far):
        s.start_runner(name, address=address)
    healed = threading.Event()

    async def cut() -> None:
        relay.cut()
        while far & set(s.members()):
            await asyncio.sleep(HEARTBEAT)
        relay.drop()
        relay.heal()
        healed.set()

    s.at(0.4, lambda _d: s.farm.soon(lambda: s.farm.follow(cut())))
    s.tune()
    s.wait_for(lambda: healed.is_set() and far <= set(s.members()))
    return f"{s.said('left: the connection was lost')}, and the others; then back"


def stale_results(s: Scene) -> str:
    """A runner sends 12,000 results of jobs that no client waits for, addressed to the client's session."""
    sent = 12_000
    s.at(0.5, lambda _d: s.farm.call(_flood(s, sent)))
    s.tune()
    return f"{sent} results of nobody's jobs changed nothing"


def duplicate_results(s: Scene) -> str:
    """A runner sends every result three times."""
    sent: list[str] = []
    for service in s.farm.services[1:]:
        _thrice(service, sent)
    s.tune()
    expect(sent, "no result was sent again")
    return f"{len(sent)} results sent again, none taken twice"


def disk_full(s: Scene) -> str:
    """A runner cannot write an artifact to its disk."""
    s.start_process("full", full=True)
    result = s.tune()
    expect(result.failed == {}, f"failed trials: {result.failed}")
    why = s.member("full")["quarantine"]
    expect("cannot be used" in why, f"quarantine: {why!r}")
    return f"quarantine: {why}"


def clock_skew(s: Scene) -> str:
    """The clock of one runner's machine is three days ahead, that of another three days behind."""
    s.start_process("ahead", skew=3 * DAY)
    s.start_process("behind", skew=-3 * DAY)
    began = time.time()
    s.tune()
    done: dict[str, int] = {}

    def counted() -> bool:  # true after the runners' next heartbeats
        done.update({n: int(s.member(n)["done"]) for n in ("ahead", "behind")})
        return all(done.values())

    s.wait_for(counted)
    expect(s.member("ahead")["connected"] < time.time() - began + 60, "durations follow the clock")
    return f"nothing to see but work done: {done}"


def runner_expires(s: Scene) -> str:
    """A runner's certificate expires while it works."""
    certs = short_lived(s, "short", "runner")
    s.let_in(certs, "runner")
    s.start_runner("short", certs=certs)
    s.at(0.4, lambda _d: outlive(certs))
    s.tune()
    s.wait_for(lambda: "short" not in s.members())
    return s.said("refuses runner short")


def client_expires(s: Scene) -> str:
    """The client's certificate expires while it tunes; the run goes on with a new certificate."""
    certs = short_lived(s, "guest", "client")
    s.let_in(certs, "client")
    s.at(0.5, lambda _d: outlive(certs))
    try:
        s.tune(certs=certs)
        raise AssertionError("the run ended as if nothing had been")
    except Refused as e:
        expect("expired" in e.message and "--renew" in e.hint, str(e))
        said = e.message
    kept = s.stored()
    expect(kept.state == "failed", f"the run is {kept.state}")
    s.tune(resume="last")
    return f"{said}; resumed from {len(kept.numbers)} trials"


def revoked(s: Scene) -> str:
    """A runner's certificate is revoked while it works."""
    assert s.farm.certs is not None
    folder = s.farm.certs
    name = f"thief-{secrets.token_hex(4)}"
    stolen = certificates.issue(folder, name, "runner")
    s.let_in(stolen, "runner")
    s.start_runner("thief", certs=stolen)
    s.at(0.4, lambda _d: certificates.revoke(folder, name))
    s.tune()
    s.wait_for(lambda: "thief" not in s.members())
    return s.said("refuses runner thief")


def come_and_go(s: Scene) -> str:
    """Runners join and leave throughout the run."""
    s.at(0.2, lambda _d: s.start_runner("late"))
    s.at(0.4, lambda _d: s.drain("sim-0"))
    s.at(0.5, lambda _d: s.drain("sim-1"))
    s.tune()
    s.wait_for(lambda: not {"sim-0", "sim-1"} & set(s.members()))
    expect(s.devices["late"].measured > 0, "the late runner measured nothing")
    expect(not any(w["strikes"] for w in s.status()["workers"]), "leaving counted as a failure")
    return f"a runner joined late and measured {s.devices['late'].measured}; two left without blame"


def nonsense(s: Scene) -> str:
    """A runner sends malformed results: the run ends with an error, and resumes once the runner is gone."""
    liar = s.farm.call(_liar(s, {"outcomes": [{"seconds": "fast"}]}))
    try:
        s.tune()
        raise AssertionError("nobody noticed")
    except FarmError as e:
        said = e.message
    s.farm.soon(liar.stop)
    expect("a worker sent" in said, said)
    s.tune(resume="last")
    return said


def builder_killed(s: Scene) -> str:
    """The only builder ends during a build, and a new builder with its name starts."""
    builder = s.farm.services[0]

    def replaced() -> None:
        builder.stop()
        s.farm.start_builder("builder-2")

    s.at(0.4, lambda _d: s.farm.soon(replaced))
    s.tune()
    s.wait_for(lambda: "builder" not in s.members())
    return s.said("builder builder left")


def postgresql_restarted(s: Scene, restart: Callable[[], object]) -> str:
    """The PostgreSQL server crashes and recovers in the middle of a batch."""
    s.at(0.5, lambda _d: restart())
    s.tune()
    return "nothing lost: the server was back before the run gave up"


FAULTS: Mapping[str, Fault] = {
    f.name: f
    for f in (
        Fault("child crashes, hangs, eats memory", children, "grid"),
        Fault("sticky GPU error", sticky_device),
        Fault("flaky device", flaky_device),
        Fault("runner killed", runner_killed),
        Fault("runner process killed, started again", runner_process_killed, runners=3),
        Fault("host lost", host_lost, runners=3),
        Fault("job that kills runners", deadly_job, "grid"),
        Fault("server killed and back", server_killed),
        Fault("server's disk wiped", server_wiped),
        Fault("client killed, resumed", client_killed, "grid"),
        Fault("client cut off", client_cut_off),
        Fault("client's connection reset", client_cut_shortly),
        Fault("runners cut off", runner_cut_off, runners=1),
        Fault("stale results", stale_results),
        Fault("duplicate results", duplicate_results),
        Fault("disk full on a runner", disk_full, runners=3, preloaded=True),
        Fault("clock skew", clock_skew, runners=2, preloaded=True),
        Fault("runner's certificate expires", runner_expires, tls=True, runners=3),
        Fault("client's certificate expires", client_expires, "grid", tls=True),
        Fault("runner's certificate revoked", revoked, tls=True, runners=3),
        Fault("runners come and go", come_and_go),
        Fault("runner answers nonsense", nonsense, "grid", runners=3),
        Fault("builder killed", builder_killed),
    )
}


# --------------------------------------------------------------------------- how


def short_lived(s: Scene, name: str, role: str, seconds: float = 4.0) -> Path:
    """Issue a certificate that expires after ``seconds``; returns its folder."""
    assert s.farm.certs is not None
    name = f"{name}-{secrets.token_hex(4)}"
    return certificates.issue(s.farm.certs, name, role, days=1, now=time.time() - DAY + seconds)


def outlive(certs: Path) -> None:
    """Wait until a certificate has expired and the server has noticed."""
    time.sleep(max(0.0, certificates.read(certs / certificates.CERT).not_after - time.time()) + 3 * HEARTBEAT)


def _break(device: Device, broken: list[Device] | None = None) -> None:
    device.broken = True
    if broken is not None:
        broken.append(device)


def _noted(s: Scene, share: float, action: Callable[[Device], object]) -> list[str]:
    names: list[str] = []

    def act(device: Device) -> None:
        names.append(device.name)
        action(device)

    s.at(share, act)
    return names


def _silence(relay: Any, seconds: float) -> None:
    relay.cut()
    loop = asyncio.get_running_loop()
    loop.call_later(seconds, relay.drop)
    loop.call_later(seconds, relay.heal)


def _cut_client(s: Scene, silence: float) -> str:
    relay, address = s.relay()
    s.at(0.4, lambda _d: s.farm.soon(lambda: _silence(relay, silence)))
    with Farm(address, s.farm.certs, patience=30.0) as farm:
        s.tune(farm=farm)
        cut_offs = farm.cut_offs
    expect(cut_offs > 0, "the client was not cut off")
    return f"cut off {cut_offs} time(s), connected again"


async def _flood(s: Scene, count: int) -> None:
    link = await Endpoint(s.farm.address, s.farm.certs, "runner").connect()
    (session,) = (s.farm.hub.keeper.sessions if s.farm.hub else {}) or ("0" * 32,)
    for n in range(count):
        subject = subjects.result("local", session, f"{n:032x}")
        await link.publish(subject, link.seal.seal(subject, {"result": {"outcomes": []}, "seconds": 0.0}))
    await link.close()


async def _liar(s: Scene, answer: Mapping[str, Any]) -> Service:
    """A runner that sends ``answer`` for every job."""
    liar = s.farm.start_puppet("liar", lambda _payload: Reply(answer))
    await asyncio.wait_for(liar.connected.wait(), 30.0)
    return liar


def _thrice(service: Service, sent: list[str]) -> None:
    report = service._report

    async def again(job: Held, reply: Reply, seconds: float) -> None:
        await report(job, reply, seconds)
        subject = subjects.result(job.client, job.session, job.id)
        for _ in range(2):
            link: Link | None = service._link
            if link is not None:
                said = {"result": reply.result, "seconds": seconds, "worker": service.name}
                await link.publish(subject, link.seal.seal(subject, said))
                sent.append(job.id)

    service._report = again  # type: ignore[method-assign]

"""A fuzzer with a certificate of each role floods a farm: how much its keeper and its server grow, and whether
``farm status`` answers meanwhile.

    python benchmarks/farm_flood.py --messages 10000 --seed 0 --out benchmarks/results/farm_flood

The farm's processes are those of the command line, with mutual TLS over loopback: a server, its keeper and a builder.
Messages go to every subject that the role may publish to: random bytes, sealed messages whose fields or bytes were
exchanged or cut, deep and long ones, up to 4 MB. Another process asks for the status all the while.
Exit code 1: a limit was passed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack

from tilewright.backends.cpu.device import device_model
from tilewright.farm import budgets, subjects
from tilewright.farm.errors import FarmError
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.messages import PROTOCOL
from tilewright.farm.pki.certificates import create_authority

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.farm import FarmProcesses

ROLES = ("reader", "client", "runner", "builder", "administrator")
GROWTH_MIB, STATUS_SECONDS = 64, 2.0
"""What may not be passed: growth of either process, and the time of an answer."""
LARGE_SHARE, LARGEST = 0.02, 4 << 20
"""Share of messages beyond 64 KiB, and the bytes of the largest."""
SETTLE = 10.0
"""Seconds after the last message, for which nats-server caches what it stored."""
TOGETHER = 50
"""Messages between two flushes."""
ANY = replace(budgets.MESSAGE, most=1 << 30)
BODIES: tuple[dict[str, Any], ...] = (
    {"what": "status"},
    {"what": "beat", "name": "b", "instance": "0" * 16, "lanes": 1, "running": 0, "queued": 0, "done": 0, "busy": 0.0,
     "draining": False, "quarantine": "", "strikes": 0, "note": "", "device": {}, "offers": {}, "places": ["build:x"]},
    {"what": "revoked", "number": 0, "mark": "0" * 32, "list": b""},
    {"what": "sharing", "session": "0" * 16, "places": ["cpu-x-1c"], "weight": 1.0},
    {"what": "drain", "name": "b"},
    {"job": "0" * 16, "needs": ["0" * 64], "payload": {"what": "build", "items": []}, "seconds": 1.0},
    {"result": {"outcomes": []}, "worker": "b", "seconds": 1.0},
    {"jobs": ["0" * 16]},
)  # fmt: skip
"""What honest peers send, to begin with."""


@dataclass
class Fuzzer:
    """Draws the messages of one role. ``name``: its certificate's."""

    role: str
    name: str
    rng: random.Random

    def subject(self) -> str:
        pattern = self.rng.choice(subjects.permissions(self.role, self.name)["publish"]["allow"])
        parts = [self._token() if p == "*" else p for p in pattern.split(".")]
        return ".".join(f"{self._token()}.{self._token()}" if p == ">" else p for p in parts)

    def message(self, seal: Callable[[str, Any, budgets.Budget], bytes], subject: str) -> bytes:
        kind = self.rng.random()
        if kind < 0.2:
            return self.rng.randbytes(self._size())
        if kind < 0.3:
            return _nested(self.rng.choice((10, 63, 65, 10_000)))
        body = {"protocol": PROTOCOL, **self.rng.choice(BODIES)}
        for _ in range(self.rng.randrange(4)):
            body[self.rng.choice([*body, self._token()])] = self.value(3)
        data = bytearray(seal(subject if kind < 0.9 else self.subject(), body, ANY))
        if 0.5 < kind < 0.7:
            for _ in range(self.rng.randrange(1, 9)):
                data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return bytes(data[: self.rng.randrange(len(data))]) if 0.7 < kind < 0.8 else bytes(data)

    def value(self, depth: int) -> Any:
        kind = self.rng.randrange(9 if depth else 6)
        if kind < 6:
            return (
                None, self.rng.random() < 0.5, self.rng.randrange(-(2**63), 2**64),
                self.rng.choice((float("nan"), 1e308, -0.0)), self._token(), self.rng.randbytes(self._size()),
            )[kind]  # fmt: skip
        many = int(2 ** self.rng.uniform(0, 12 if depth == 3 else 4))
        if kind == 6:
            return [self._token() for _ in range(many)]
        if kind == 7:
            return [self.value(depth - 1) for _ in range(min(many, 16))]
        return {self._token(): self.value(depth - 1) for _ in range(min(many, 16))}

    def _token(self) -> str:
        alphabet = string.ascii_lowercase + string.digits + ":-"
        return "".join(self.rng.choices(alphabet, k=int(2 ** self.rng.uniform(0, 7))))

    def _size(self) -> int:
        limit = LARGEST if self.rng.random() < LARGE_SHARE else 1 << 12
        return int(limit ** self.rng.random())


def _nested(depth: int) -> bytes:
    return b"\x81\xa1a" * depth + bytes(msgpack.packb(1))


async def flood(address: str, certs: Path, role: str, count: int, seed: int) -> dict[str, Any]:
    """Send the messages of one role; connects again where the server ends the connection."""
    endpoint = Endpoint(address, certs, role)
    fuzzer = Fuzzer(endpoint.role, endpoint.name, random.Random(f"{seed} {role}"))
    sent = size = again = 0
    link: Link | None = None
    while sent < count:
        try:
            link = link or await endpoint.connect()
            for _ in range(TOGETHER):
                subject = fuzzer.subject()
                data = fuzzer.message(endpoint.seal.seal, subject)
                await link.publish(subject, data)
                sent, size = sent + 1, size + len(data)
            await link.settle()
        except FarmError:
            again += 1
            if again > count // TOGETHER:
                raise
            link = None
    if link is not None:
        await link.close()
    return {"messages": sent, "mib": round(size / 2**20, 1), "connections ended": again}


async def look(address: str, certs: Path) -> None:
    """Ask for the status until standard input closes; prints each answer's seconds."""
    link = await Endpoint(address, certs, "reader").connect()
    loop = asyncio.get_running_loop()
    over = loop.run_in_executor(None, sys.stdin.read)
    while not over.done():
        began = time.monotonic()
        try:
            await link.ask({"what": "status"}, timeout=60.0)
        except FarmError as e:
            print(f"{e}", file=sys.stderr)
        print(time.monotonic() - began, flush=True)
        await asyncio.sleep(0.1)
    await link.close()


def memory(pid: int) -> tuple[float, float]:
    """MiB of a process: now, and at most since this was last asked."""
    status = Path(f"/proc/{pid}/status").read_text()
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    now, most = (int(status.partition(f"{name}:")[2].split()[0]) / 2**10 for name in ("VmRSS", "VmHWM"))
    return now, most


def children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def measured(folder: Path, messages: int, seed: int) -> list[dict[str, Any]]:
    """A row for each role."""
    certs = folder / "certs"
    create_authority(certs, ["localhost", "127.0.0.1"])
    rows = []
    with FarmProcesses(folder, certs) as farm:
        farm.server()
        farm.builder()
        keeper = farm.processes["server"].pid
        [server] = children(keeper)
        asyncio.run(flood(farm.address, certs, "reader", TOGETHER, seed))  # what a first message loads
        for role in ROLES:
            before = [memory(pid)[0] for pid in (keeper, server)]
            words = [sys.executable, __file__, "--look", farm.address, "--certs", str(certs)]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as looking:
                assert looking.stdout is not None
                assert looking.stdin is not None
                looking.stdout.readline()
                began = time.monotonic()
                row = asyncio.run(flood(farm.address, certs, role, messages, seed))
                seconds = time.monotonic() - began
                most = [memory(pid)[1] for pid in (keeper, server)]
                time.sleep(SETTLE)
                after = [memory(pid)[0] for pid in (keeper, server)]
                looking.stdin.close()
                answers = [float(line) for line in looking.stdout]
            grown, burst = ([round(a - b, 1) for a, b in zip(x, before, strict=True)] for x in (after, most))
            row |= {
                "role": role, "seconds": round(seconds, 1), "keeper mib": grown[0], "server mib": grown[1],
                "keeper burst mib": burst[0], "server burst mib": burst[1],
                "status": len(answers), "slowest status s": round(max(answers), 2),
                "log lines": len(farm.said("server").splitlines()), "alive": farm.alive("server"),
            }  # fmt: skip
            rows.append(row)
            print(row, flush=True)
    return rows


def wrong(row: dict[str, Any]) -> bool:
    return (
        not row["alive"]
        or max(row["keeper mib"], row["server mib"]) >= GROWTH_MIB
        or row["slowest status s"] > STATUS_SECONDS
    )


def table(rows: list[dict[str, Any]], messages: int, seed: int) -> str:
    where = f"{device_model() or platform.machine()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}"
    head = (
        f"{messages:,} messages of each role, seed {seed}; {where}. Promised: either process has grown by less than "
        f"{GROWTH_MIB} MiB {SETTLE:g} s later (in parentheses: at most meanwhile), and the status comes within "
        f"{STATUS_SECONDS:g} s.\n\n"
    )
    lines = ["| role | sent | keeper grew by | server grew by | slowest status answer |", "|---|---|---|---|---|"]
    lines += [
        f"| {r['role']} | {r['messages']:,} ({r['mib']} MiB) | {r['keeper mib']} MiB ({r['keeper burst mib']}) | "
        f"{r['server mib']} MiB ({r['server burst mib']}) | {r['slowest status s']} s of {r['status']} |"
        for r in rows
    ]
    return head + "\n".join(lines) + "\n"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--messages", type=int, default=10_000, help="of each role [10000]")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", type=Path, help="writes OUT.jsonl and OUT.md")
    p.add_argument("--look", help=argparse.SUPPRESS)
    p.add_argument("--certs", type=Path, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.look:
        asyncio.run(look(o.look, o.certs))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(Path(folder), o.messages, o.seed)
    if o.out:
        o.out.with_suffix(".jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        o.out.with_suffix(".md").write_text(table(rows, o.messages, o.seed))
    return int(any(wrong(r) for r in rows))


if __name__ == "__main__":
    sys.exit(main())

"""The dashboard beside slow clients: which share of honest requests is answered within a second.

    python benchmarks/slow_connections.py

Serves an empty database with ``tilewright dashboard``. 260 connections of one loopback address (127.0.0.2) then send a
part of a request, one byte more each second, and open again when they are closed: nothing, half of the headers, half of
a body. Beside them a client of another address (127.0.0.3) asks for the overview page 20 times a second, each time by a
connection of its own, and then a client of the same address does. The exit status is 1 if under 95% of either one's
requests are answered within a second, or if the slow address holds more than a tenth of the connections.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tilewright.database import Database

SLOW, OTHER = "127.0.0.2", "127.0.0.3"
CONNECTIONS = 200  # the dashboard's default
PARTS = (
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    b"POST /login HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 4000\r\n\r\ntoken=",
)


async def slow(number: int, port: int) -> None:
    """One connection after the other, none of which ever sends a whole request."""
    begin = PARTS[number % len(PARTS)].replace(b"%d", str(port).encode())
    while True:
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(SLOW, 0))
            writer.write(begin)
            while not reader.at_eof():
                await asyncio.sleep(1.0)
                writer.write(b"x" if begin else b"")
                await writer.drain()
        except OSError:
            await asyncio.sleep(0.1)
        finally:
            if writer is not None:
                writer.close()


async def ask(port: int, source: str) -> float:
    """Seconds until the overview page has come; infinite if it does not."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(5.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % port)
            answer = await reader.read(-1)
            writer.close()
    except (OSError, TimeoutError):
        return float("inf")
    return time.monotonic() - began if answer.startswith(b"HTTP/1.1 200 ") else float("inf")


async def honest(port: int, source: str, seconds: float) -> float:
    """The share of requests that are answered within a second; prints it with the median and the worst time."""
    tasks = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tasks.append(asyncio.create_task(ask(port, source)))
        await asyncio.sleep(0.05)
    took = sorted(await asyncio.gather(*tasks))
    share = sum(t <= 1.0 for t in took) / len(took)
    print(
        f"{source}: {share:.1%} of {len(took)} requests answered within 1 s, "
        f"median {1000 * took[len(took) // 2]:.0f} ms, worst {1000 * took[-1]:.0f} ms",
        flush=True,
    )
    return share


def sockets(process: int) -> int:
    """How many sockets a process has open."""
    count = 0
    for entry in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(entry).startswith("socket:")
    return count


async def measure(process: int, port: int, connections: int, seconds: float) -> bool:
    before = sockets(process)
    tasks = [asyncio.create_task(slow(n, port)) for n in range(connections)]
    try:
        await asyncio.sleep(2.0)
        shares = [await honest(port, source, seconds) for source in (OTHER, SLOW)]
        held = sockets(process) - before
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"{SLOW}: {connections} slow connections, of which the dashboard holds {held} of its {CONNECTIONS}")
    return min(shares) >= 0.95 and held <= CONNECTIONS // 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=260, help="slow ones")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each honest client")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder) / "empty.db")
        Database.open(db).close()
        words = [sys.executable, "-m", "tilewright", "dashboard", "--db", db, "--port", "0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                port = urlsplit(process.stdout.readline()).port or 0
                kept = asyncio.run(measure(process.pid, port, given.connections, given.seconds))
            finally:
                process.terminate()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

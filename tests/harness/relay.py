"""A TCP relay between a farm's server and a peer, which simulates a cut, slow or half-open network."""

from __future__ import annotations

import asyncio


class Relay:
    """A TCP relay that can stop relaying and keep its connections open, like a cut cable. Call it in its loop's thread.

    ``delay``: seconds by which each chunk of data is delayed.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.delay = 0.0
        self._there, self._back = asyncio.Event(), asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen on a free port; returns the port."""
        self.heal()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self, there: bool = True, back: bool = True) -> None:
        """Stop relaying to the server (``there``), from the server (``back``), or in both directions."""
        for way, wanted in ((self._there, there), (self._back, back)):
            if wanted:
                way.clear()

    def heal(self) -> None:
        self._there.set()
        self._back.set()
        self.delay = 0.0

    def drop(self) -> None:
        """Reset every connection."""
        for w in list(self._writers):
            w.transport.abort()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.heal()
        self.drop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ends = {writer}
        self._writers.add(writer)
        try:
            await self._there.wait()
            onward, back = await asyncio.open_connection("127.0.0.1", self._port)
            ends.add(back)
            self._writers.add(back)
            await asyncio.gather(self._pump(reader, back, self._there), self._pump(onward, writer, self._back))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers -= ends
            for end in ends:
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: asyncio.Event) -> None:
        try:
            while data := await reader.read(1 << 16):
                await asyncio.sleep(self.delay)
                await way.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

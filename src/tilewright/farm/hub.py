"""A farm's server and the keeper beside it, as ``tilewright farm server`` and ``farm up`` run them."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from tilewright.farm.errors import FarmError
from tilewright.farm.keeper import Keeper
from tilewright.farm.link import Endpoint, Say, end
from tilewright.farm.pki.tls import find_credentials
from tilewright.farm.server import START_SECONDS, Cluster, NatsServer


class Hub:
    """Runs a farm's server and keeper until :meth:`stop`.

    ``certs``: a folder with a server's certificate, ``None`` for a farm of this machine alone. ``timing``: the
    parameters in seconds of :class:`~tilewright.farm.keeper.Keeper`.
    """

    def __init__(
        self, certs: Path | None, host: str, port: int, state: Path, *, cluster: Cluster | None = None,
        let_in: Path | None = None, storage: int, replicas: int = 1, say: Say = lambda _line: None, **timing: Any,
    ) -> None:  # fmt: skip
        credentials = None if certs is None else find_credentials(certs, "server")
        self.server = NatsServer(
            credentials, host, port, state, cluster=cluster, let_in=let_in, storage=storage, say=say
        )
        self.keeper: Keeper
        self._certs = certs
        self._keeping: asyncio.Task[None] | None = None
        self._more = {"replicas": replicas, "storage": storage, "say": say, **timing}

    async def start(self, wait: bool = True) -> str:
        """Starts server and keeper; returns the address. ``wait``: until the farm takes jobs; false where the cluster's
        other servers may not run yet."""
        address = await self.server.start()
        own = address
        for everywhere in ("0.0.0.0", "[::]"):
            own = own.replace(f"//{everywhere}:", "//localhost:")
        endpoint = Endpoint(own, self._certs, "server", revocations=self.server.revocations)
        endpoint.orders = self.server.orders
        self.keeper = Keeper(endpoint, facts=self.server.facts, **self._more)
        self._keeping = asyncio.create_task(self.keeper.run())
        if wait:
            try:
                await asyncio.wait_for(self.keeper.ready.wait(), START_SECONDS)
            except TimeoutError:
                await self.stop()
                raise FarmError(
                    f"the server at {address} takes no jobs: {self.keeper.trouble or 'it does not answer'}",
                    "Check the free space on the server's disk",
                ) from None
        return address

    async def stop(self) -> None:
        """Ends keeper and server. Peers connect again when another server is there."""
        if self._keeping is not None:
            await end(self._keeping)
        with contextlib.suppress(FarmError):
            await self.server.stop()

"""Examples of a farm's status, without a farm."""

from __future__ import annotations

from typing import Any

FACTS = {
    "engine": "nats-server 2.9.10", "server_name": "a", "cpu": 150.0, "mem": 30 << 20, "connections": 4,
    "slow_consumers": 2, "in_msgs": 100, "out_msgs": 200, "in_bytes": 1000, "out_bytes": 3000, "messages": 12,
    "storage": 5 << 20, "limit": 4 << 30, "cluster": "", "peers": 1,
}  # fmt: skip
"""The facts that a server outside a cluster reports."""


def a_worker(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "role": "runner", "quarantine": "", "strikes": 0, "draining": False, "running": 0, "busy": 0.25,
        "expires": None, "done": 7, "queued": 0, "lanes": 1, "places": ["p"], "device": {}, "offers": {}, "note": "",
        "connected": 5.0, "certificate": "", "active": False, "silent": 0.0, "version": "0.2.0", "clock": 0.0, **more,
    }  # fmt: skip


def a_client(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "certificate": "client",
        "connected": True,
        "jobs": 0,
        "seconds": 0.0,
        "version": "0.2.0",
        **more,
    }


def a_status(workers: list[dict[str, Any]], places: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "workers": workers, "places": places or {}, "quarantined_away": {"gone": "why"}, "uptime": 12.5, "refused": 3,
        "protocol": 3, "tilewright": "0.2.0", "lost": {}, "full": {},
        "clients": [a_client("here"), a_client("away", connected=False)], "trouble": "", "server": FACTS, **more,
    }  # fmt: skip


class Saying:
    """A farm whose status is ``answer``; raises ``answer`` if it is an exception."""

    address = "tcp://127.0.0.1:8786"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def status(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        """Does nothing: there is no connection."""

"""``/farm``: runners, builders, queues, clients, quarantine, and the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.core import TilewrightError
from tilewright.dashboard.farm_source import FarmSource
from tilewright.dashboard.live import Feed, Look
from tilewright.dashboard.page import Page
from tilewright.dashboard.site import Site
from tilewright.dashboard.text import count, share, shown, size
from tilewright.errors import NotFound
from tilewright.farm.health import Problem, problems, worker_state
from tilewright.insight.chart import Axis, Bars, Column, Table

SHOWN = 40
"""Most bars of the chart."""
Status = Mapping[str, Any]


def _status(site: Site) -> Status:
    """The farm's status. Raises ``NotFound`` without a farm, and ``FarmError`` if the connection has failed."""
    return _farm(site).status()


def _farm(site: Site) -> FarmSource:
    if site.farm is None:
        raise NotFound("the dashboard watches no farm", "Start it with --farm tls://HOST:PORT --certs DIR")
    return site.farm


def _workers(status: Status) -> Table:
    columns = (
        Column("name", "Name"), Column("role", "Role"), Column("state", "State"), Column("device", "Device"),
        Column("busy", "Busy", "share", True), Column("running", "Running", numeric=True),
        Column("queued", "Queued", numeric=True), Column("done", "Done", numeric=True),
        Column("strikes", "Strikes", numeric=True), Column("connected", "Connected", "s", True),
        Column("note", "Note"), Column("expires", "Certificate ends", "date"),
    )  # fmt: skip
    rows = tuple(
        (
            w["name"], w["role"], worker_state(w), w["device"].get("device_class") or ", ".join(w["places"]),
            w["busy"], w["running"], w["queued"],
            w["done"], w["strikes"], w["connected"], w["note"] or None, w["expires"],
        )
        for w in status["workers"]
    )  # fmt: skip
    return Table("workers", "Runners and builders", columns, rows)


def _places(status: Status) -> Table:
    columns = (
        Column("place", "Queue"), Column("workers", "Workers", numeric=True),
        Column("waiting", "Waiting", numeric=True), Column("in_hand", "In hand", numeric=True),
    )  # fmt: skip
    rows = tuple((name, p["workers"], p["waiting"], p["in_hand"]) for name, p in sorted(status["places"].items()))
    return Table("places", "Queues", columns, rows)


def _clients(status: Status) -> Table:
    columns = (
        Column("name", "Name"), Column("certificate", "Certificate"), Column("connected", "Connected"),
        Column("jobs", "Jobs", numeric=True), Column("seconds", "Device time", "s", True),
    )  # fmt: skip
    clients = sorted(status["clients"], key=lambda c: (not c["connected"], -c["seconds"], c["name"]))
    rows = tuple(
        (c["name"], c["certificate"], "yes" if c["connected"] else "no", c["jobs"], c["seconds"]) for c in clients
    )
    return Table("clients", "Clients", columns, rows)


def _quarantine(status: Status) -> Table:
    away = status["quarantined_away"]
    rows = [(w["name"], w["quarantine"], "yes") for w in status["workers"] if w["quarantine"]]
    rows += [(name, why, "no") for name, why in sorted(away.items())]
    columns = (Column("name", "Name"), Column("why", "Why"), Column("connected", "Connected"))
    return Table("quarantine", "Quarantine", columns, tuple(rows))


def _busy(site: Site, _: Request) -> Bars:
    bars = _shares(_status(site))
    shown = f" Shown: the {SHOWN} busiest." if len(bars) > SHOWN else ""
    mean = share(sum(v for _, v in bars) / len(bars)) if bars else "-"
    note = f"Runners: {count(len(bars))}. Busy on average: {mean} of the time.{shown}"
    return Bars(
        "Utilisation", Axis("share of the time since it connected", "share"), bars[:SHOWN], note=note, reference=1.0
    )


def _shares(status: Status) -> tuple[tuple[str, float], ...]:
    """Each runner's share of busy time, the busiest first."""
    runners = [(w["name"], float(w["busy"])) for w in status["workers"] if w["role"] == "runner"]
    return tuple(sorted(runners, key=lambda r: -r[1]))


def _texts(status: Status) -> dict[str, str]:
    workers = status["workers"]
    places = status["places"].values()
    return {
        "runners": count(sum(w["role"] == "runner" for w in workers)),
        "builders": count(sum(w["role"] == "builder" for w in workers)),
        "clients": count(sum(c["connected"] for c in status["clients"])),
        "waiting": count(sum(p["waiting"] for p in places)),
        "in_hand": count(sum(p["in_hand"] for p in places)),
        "quarantined": count(len(_quarantine(status).rows)),
        **_server(status["server"]),
    }


def _server(facts: Status) -> dict[str, str]:
    """Texts about the server. Its facts may be missing for a moment, and only a cluster's server has peers."""
    stored, limit, peers = facts.get("storage"), facts.get("limit"), facts.get("peers")
    return {
        "engine": shown(facts.get("engine") or "-", 80),
        "connections": count(facts.get("connections")),
        "stored": "-" if stored is None else f"{size(stored)} of {size(limit)}",
        "messages": count(facts.get("messages")),
        "cluster": f"{shown(facts['cluster'], 80)}, {count(peers)} servers" if facts.get("cluster") else "none",
    }


def _view(site: Site, _: Request) -> Mapping[str, Any]:
    try:
        status = _status(site)
    except NotFound:
        raise
    except TilewrightError as e:
        return {"title": "Farm", "away": e, "problems": [], "tables": [], "texts": {}}
    tables = [_workers(status), _places(status), _clients(status), _quarantine(status)]
    return {
        "title": "Farm", "away": None, "problems": _problems(site, status), "tables": tables, "texts": _texts(status),
    }  # fmt: skip


def _problems(site: Site, status: Status) -> list[Problem]:
    """The farm's problems, the worst first."""
    return problems(status, _farm(site).address)


def _feed(site: Site, _: Request) -> Feed:
    _farm(site)  # raises now: without a farm the stream would begin and then break off

    def look() -> Look:
        status = _status(site)
        texts = _texts(status)
        wrong = [p.kind for p in _problems(site, status)]  # not their texts, whose seconds change all the time
        return Look((texts, _shares(status), wrong), texts)

    return Feed("/farm", look, slow=("busy",))


PAGE = Page(
    "/farm", "farm", "/farm", _view,
    tables={
        "workers": lambda site, _: _workers(_status(site)),
        "places": lambda site, _: _places(_status(site)),
        "clients": lambda site, _: _clients(_status(site)),
        "quarantine": lambda site, _: _quarantine(_status(site)),
    },
    charts={"busy": _busy}, live=_feed,
)  # fmt: skip

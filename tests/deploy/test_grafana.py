"""The Grafana dashboard, its provisioning and Prometheus' files: that they parse, and ask for metrics that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_files import DEPLOY, ROOT
from prometheus_client.parser import text_string_to_metric_families

from harness.examples import example_artifact, example_kernel, example_task
from tilewright.dashboard.metrics import Metrics
from tilewright.database import Database

BOARD = DEPLOY / "grafana" / "dashboards" / "tilewright.json"
PROVISIONING = DEPLOY / "grafana" / "provisioning"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
SCRAPED = {"job", "instance"}
"""Labels that Prometheus adds to every sample."""
WORKER = {
    "name": "w", "role": "runner", "quarantine": "", "strikes": 0, "draining": False, "running": 0, "busy": 0.5,
    "expires": 1.8e9, "done": 7,
}  # fmt: skip
STATUS = {
    "workers": [WORKER], "places": {"p": {"workers": 1, "waiting": 0, "in_hand": 0}}, "quarantined_away": {},
    "uptime": 1.0, "refused": 0, "clients": [], "trouble": "",
    "server": {
        "engine": "nats-server 2.9.10", "server_name": "s", "cpu": 1, "mem": 1, "connections": 1, "slow_consumers": 0,
        "in_msgs": 1, "out_msgs": 1, "in_bytes": 1, "out_bytes": 1, "messages": 1, "storage": 1, "limit": 2,
        "cluster": "c", "peers": 3,
    },
}  # fmt: skip


class AFarm:
    def status(self) -> Any:
        return STATUS


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """The values of every label of every metric of a scrape, of a database with a kernel and a farm with a worker."""
    task, code = example_task(), example_artifact(b"code")
    with Database.open(tmp_path_factory.mktemp("grafana") / "t.db") as db:
        db.set_kernels(task, "a model", None, [example_kernel(task, 0, code)], [code])
        text = Metrics(db, AFarm()).text().decode()  # type: ignore[arg-type]
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        for s in family.samples:
            labels = found.setdefault(s.name, {})
            for name, value in s.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def board() -> Any:
    return json.loads(BOARD.read_text())


def panels() -> list[Any]:
    found: list[Any] = board()["panels"]
    return found


def rules() -> list[Any]:
    return [r for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]]


def expressions() -> Iterator[str]:
    for panel in panels():
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]
    for rule in rules():
        yield rule["expr"]


@pytest.mark.parametrize("text", sorted(set(expressions())))
def test_every_expression_asks_for_what_is_exported(text: str, exported: dict[str, dict[str, set[str]]]) -> None:
    names = re.findall(r"\b(tilewright_\w+)\b(?:\{([^}]*)\})?", text)
    assert names or 'up{job="tilewright"}' in text
    for name, matchers in names:
        assert name in exported, name
        for label, how, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers):
            assert label in exported[name] or label in SCRAPED, f"{name} has no label {label}"
            if how in ("=", "!=") and label in exported[name]:
                assert value in exported[name][label], f"{name}: {label} is never {value}"
    labels = set().union(*(exported[n] for n, _ in names)) | SCRAPED if names else SCRAPED
    for grouping in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", text):
        assert {part.strip() for part in grouping.split(",")} <= labels
    assert text.count("(") == text.count(")")
    assert text.count("{") == text.count("}")


def test_every_metric_has_a_place_on_the_board_or_in_the_documentation(
    exported: dict[str, dict[str, set[str]]],
) -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"`(tilewright_\w+)", text))
    assert documented == set(exported)


def test_panels_are_well_formed() -> None:
    found = panels()
    ids = [p["id"] for p in found]
    assert len(ids) == len(set(ids))
    assert len({p["title"] for p in found}) >= len(found) - 1
    taken: set[tuple[int, int]] = set()
    for panel in found:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["targets"]
        refs = [t["refId"] for t in panel["targets"]]
        assert len(refs) == len(set(refs))
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_the_data_source_is_the_readers_choice() -> None:
    variables = {v["name"]: v for v in board()["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    used = set(re.findall(r"\$\{?(\w+)", BOARD.read_text())) - {"__all"}
    assert used == set(variables)


def test_a_legend_names_labels_that_are_there(exported: dict[str, dict[str, set[str]]]) -> None:
    for panel in panels():
        for target in panel.get("targets", ()):
            (name, *_) = re.findall(r"tilewright_\w+", target["expr"])
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert label in exported[name], panel["title"]


def test_provisioning_finds_both() -> None:
    (source,) = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "tilewright.yaml").read_text())["providers"]
    assert provider["type"] == "file"
    assert Path(provider["options"]["path"]).is_absolute()
    assert {p.name for p in PROVISIONING.rglob("*") if p.is_file()} == {"prometheus.yaml", "tilewright.yaml"}


def test_prometheus_reads_the_alerts_and_sends_the_token() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert config["rule_files"] == [ALERTS.name]
    (job,) = config["scrape_configs"]
    assert job["scheme"] == "https"
    assert job["authorization"]["type"] == "Bearer"
    assert "credentials" not in job["authorization"], "a secret stands in a file of its own"
    assert "insecure_skip_verify" not in str(job)


def test_alerts_say_what_is_wrong() -> None:
    found = rules()
    names = [r["alert"] for r in found]
    assert len(names) == len(set(names))
    for rule in found:
        assert re.fullmatch(r"Tilewright[A-Z]\w+", rule["alert"])
        assert rule["labels"]["severity"] in ("info", "warning")
        assert rule["annotations"]["summary"]
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))

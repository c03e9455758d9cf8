"""The dashboard as its image and its manifest start it: HTTPS, a login, and probes that need none."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner
from deploy_files import DASHBOARD_PORT, DEPLOY, at, lineage, parse_command, read_dockerfile

from tilewright.cli.app import app
from tilewright.database import Database

pytest.importorskip("starlette", reason="needs pip install 'tilewright[dashboard]'")
TOKEN = "known-to-few-people"


def manifest() -> dict[str, Any]:
    docs = yaml.safe_load_all((DEPLOY / "kubernetes" / "dashboard.yaml").read_text())
    container: dict[str, Any] = next(
        d["spec"]["template"]["spec"]["containers"][0] for d in docs if d["kind"] == "Deployment"
    )
    return container


def image_steps() -> dict[str, str]:
    _, stages = read_dockerfile((DEPLOY / "docker" / "Dockerfile").read_text())
    return dict(lineage(stages, "dashboard"))


def arguments() -> dict[str, list[str]]:
    return {"image": json.loads(image_steps()["CMD"]), "manifest": list(map(str, manifest()["args"]))}


@contextmanager
def started(words: list[str], folder: Path) -> Iterator[int]:
    """Its port. The files are those that the command names, in a folder instead of their volumes."""
    from tilewright.dashboard.app import create_app
    from tilewright.dashboard.serving.serve import bind_address, make_server

    values = parse_command(words, {"TILEWRIGHT_DB": str(folder / "some.db")})
    place = bind_address(
        values["host"], 0, token_file=folder / values["token_file"].name, tls_cert=folder / "server" / "cert.pem",
        tls_key=folder / "server" / "key.pem", behind_proxy=values["behind_proxy"],
        allow_hosts=values["allow_host"],
    )  # fmt: skip
    ready = threading.Event()
    server = make_server(create_app(values["db"], place.access), place, ready=lambda _: ready.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(60.0)
        yield place.access.port
    finally:
        server.stop()
        thread.join(60.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service") / "farm"
    made = CliRunner().invoke(app, ["farm", "init", str(folder), "--host", "localhost"])
    assert made.exit_code == 0, made.output
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o400)
    Database.open(folder / "some.db").close()
    return folder


@pytest.mark.parametrize("source", ["image", "manifest"])
def test_the_service_serves_holders_of_the_token_and_its_probes(source: str, folder: Path) -> None:
    with started(arguments()[source], folder) as port:
        own = f"https://127.0.0.1:{port}"
        with httpx.Client(base_url=own, verify=False, timeout=60.0) as client:  # as a kubelet does
            for name in ("livenessProbe", "readinessProbe"):
                assert client.get(at(manifest(), (name, "httpGet", "path"))).status_code == 200
            assert client.get("/metrics").status_code == 401
            assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
            service = client.get("/login", headers={"Host": f"tilewright-dashboard.tilewright.svc:{port}"})
            assert service.status_code == (200 if source == "manifest" else 421)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/login")
        if source == "image":
            program, *words = json.loads(image_steps()["HEALTHCHECK"].partition(" CMD ")[2])
            assert program == "python"
            words = [w.replace(str(DASHBOARD_PORT), str(port)) for w in words]
            done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)
            assert (done.returncode, done.stderr) == (0, "")


def _prometheus(folder: Path, at: Path, port: int) -> Path:
    """The shipped configuration, scraping a dashboard on a port every second."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    for of_it, here in (
        ("/etc/prometheus", str(at)), ("gpu1.example.org:8765", f"localhost:{port}"), ("interval: 30s", "interval: 1s"),
    ):  # fmt: skip
        assert of_it in text
        text = text.replace(of_it, here)
    shutil.copy(DEPLOY / "prometheus" / "alerts.yml", at)
    shutil.copy(folder / "ca" / "ca.pem", at / "tilewright-ca.pem")
    (at / "tilewright.token").write_text(TOKEN)
    (at / "prometheus.yml").write_text(text)
    return at / "prometheus.yml"


@pytest.mark.needs("prometheus")
def test_a_prometheus_scrapes_it_by_the_configuration_that_is_shipped(folder: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = f"127.0.0.1:{free.getsockname()[1]}"
    with started(arguments()["image"], folder) as port:
        words = [f"--config.file={_prometheus(folder, tmp_path, port)}", f"--web.listen-address={own}"]
        words += [f"--storage.tsdb.path={tmp_path / 'data'}", "--log.level=warn"]
        log = (tmp_path / "log").open("wb")
        with log, subprocess.Popen(["prometheus", *words], stdout=log, stderr=log) as server:
            try:
                with httpx.Client(base_url=f"http://{own}/api/v1", timeout=60.0) as api:
                    found = _until_scraped(api, tmp_path / "log")
                    assert found["health"] == "up"
                    assert found["lastError"] == ""
                    said = api.get("query", params={"query": "sum(tilewright_runs)"}).json()["data"]["result"]
                    assert [r["value"][1] for r in said] == ["0"]
                    groups = api.get("rules").json()["data"]["groups"]
                    assert {r["health"] for g in groups for r in g["rules"]} <= {"ok", "unknown"}
                    assert sum(len(g["rules"]) for g in groups) >= 5
            finally:
                server.terminate()


def _until_scraped(api: httpx.Client, log: Path) -> dict[str, Any]:
    """The one target, once Prometheus has asked it."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        try:
            targets = api.get("targets").raise_for_status().json()["data"]["activeTargets"]
            if targets and targets[0]["health"] != "unknown":
                found: dict[str, Any] = targets[0]
                return found
        except httpx.HTTPError:  # it is about to listen, or not ready: 503
            pass
        time.sleep(0.1)
    raise AssertionError(log.read_text())

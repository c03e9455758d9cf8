"""The units: what they may do, what they know, that they stop in good order, and that their commands exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deploy_files import DASHBOARD_PORT, DEPLOY, PORT, Unit, parse_command, read_unit, refused

FOLDER = DEPLOY / "systemd"
UNITS = {
    "tilewright-server.service": "server",
    "tilewright-builder.service": "builder",
    "tilewright-runner@.service": "runner",
    "tilewright-dashboard.service": "dashboard",
}
FILES = ("ca.pem", "cert.pem", "key.pem")
OTHER_SECRETS = {"dashboard": [f"{f}:/etc/tilewright/dashboard/{f}" for f in ("token", "tls.crt", "tls.key")]}

COMMON = {
    "Type": ["exec"],
    "Restart": ["on-failure"],
    "RestartSec": ["5"],
    "KillSignal": ["SIGTERM"],
    "KillMode": ["mixed"],
    "DynamicUser": ["yes"],
    "User": ["tilewright"],
    "UMask": ["0077"],
    "NoNewPrivileges": ["yes"],
    "CapabilityBoundingSet": [""],
    "AmbientCapabilities": [""],
    "ProtectSystem": ["strict"],
    "ProtectHome": ["yes"],
    "PrivateTmp": ["yes"],
    "ProtectProc": ["invisible"],
    "ProtectClock": ["yes"],
    "ProtectHostname": ["yes"],
    "ProtectKernelLogs": ["yes"],
    "ProtectKernelModules": ["yes"],
    "ProtectKernelTunables": ["yes"],
    "ProtectControlGroups": ["yes"],
    "RestrictAddressFamilies": ["AF_INET AF_INET6 AF_UNIX"],
    "RestrictRealtime": ["yes"],
    "RestrictSUIDSGID": ["yes"],
    "LockPersonality": ["yes"],
    "SystemCallArchitectures": ["native"],
    "SystemCallFilter": ["@system-service"],
    "SystemCallErrorNumber": ["EPERM"],
    "LimitCORE": ["0"],
}
CACHE = {
    "CacheDirectory": ["tilewright"],
    "CacheDirectoryMode": ["0700"],
    "EnvironmentFile": ["/etc/tilewright/farm.env"],
    "Environment": ["TILEWRIGHT_CACHE=%C/tilewright"],
    "MemoryMax": ["80%"],
    "OOMPolicy": ["continue"],
    "TasksMax": ["1024"],
}
OWN = {
    "server": {
        "EnvironmentFile": ["-/etc/tilewright/server.env"],
        "RestrictAddressFamilies": ["AF_INET AF_INET6 AF_UNIX AF_NETLINK"],
        "StateDirectory": ["tilewright"],
        "StateDirectoryMode": ["0700"],
        "PrivateDevices": ["yes"],
        "RestrictNamespaces": ["yes"],
        "MemoryDenyWriteExecute": ["yes"],
        "TasksMax": ["256"],
    },
    "builder": {**CACHE, "PrivateDevices": ["yes"], "RestrictNamespaces": ["yes"]},
    # The measuring child makes a user and a network namespace; a GPU's device files are its only devices.
    "runner": {
        **CACHE,
        "DevicePolicy": ["closed"],
        "DeviceAllow": ["char-nvidia* rw"],
        "RestrictNamespaces": ["user net"],
    },
    # Another user than the farm's units: who breaks into the pages does not get the server's state.
    "dashboard": {
        "User": ["tilewright-dashboard"],
        "EnvironmentFile": ["/etc/tilewright/dashboard.env"],
        "PrivateDevices": ["yes"],
        "RestrictNamespaces": ["yes"],
        "MemoryDenyWriteExecute": ["yes"],
        "TasksMax": ["256"],
    },
}
CHECKED = ("ExecStart", "TimeoutStopSec", "LoadCredential")


def texts() -> dict[str, str]:
    return {p.name: p.read_text() for p in FOLDER.iterdir()}


def command(unit: Unit) -> tuple[list[str], dict[str, str]]:
    """The words after ``tilewright`` as systemd would pass them to a sample instance, and its environment."""
    (line,) = unit.all("ExecStart")
    for written, meant in (
        ("%d", "/run/credentials/x"), ("%S", "/var/lib"), ("%C", "/var/cache"), ("%I", "cpu:0-1"),
        ("${DASHBOARD_NAME}", "gpu1.example.org"),
    ):  # fmt: skip
        line = line.replace(written, meant)
    assert "%" not in line
    assert "$" not in line
    program, *words = line.split()
    assert program == "/opt/tilewright/bin/tilewright", "an absolute path, without prefixes that lift restrictions"
    return words, {"TILEWRIGHT_FARM": "tls://farm.example.org:8786"} if unit.all("EnvironmentFile") else {}


def problems(unit: Unit) -> list[str]:
    """What a unit lacks of what is promised, or has beyond it."""
    role = UNITS[unit.name]
    expected = {**COMMON, **OWN[role]}
    out = [f"{k} is {unit.all(k)}, not {v}" for k, v in expected.items() if unit.all(k) != v]
    out += [f"{k} is not known" for s, k, _ in unit.settings if s == "Service" and k not in (*expected, *CHECKED)]
    secrets = OTHER_SECRETS.get(role, []) + [f"{f}:/etc/tilewright/certs/{role}/{f}" for f in FILES]
    if unit.all("LoadCredential") != secrets:
        out.append("the certificates are not handed over as credentials")
    if unit.all("StartLimitIntervalSec", "Unit") != ["0"] or unit.all("WantedBy", "Install") != ["multi-user.target"]:
        out.append("it would not come back")
    if not all("network-online.target" in " ".join(unit.all(k, "Unit")) for k in ("Wants", "After")):
        out.append("it does not wait for the network")
    if len(unit.all("ExecStart")) != 1:
        return [*out, "it runs nothing"]
    words, environment = command(unit)
    if why := refused(words, environment):
        return [*out, why]
    values = parse_command(words, environment)
    if str(values["certs"]) != "/run/credentials/x":
        out.append("it does not use its credentials")
    if role == "dashboard":
        out += exposure(values)
    elif role == "server" and str(values["let_in"]) != "/etc/tilewright/users.json":
        out.append("a revocation would count at its next start")
    if int("".join(unit.all("TimeoutStopSec")) or 0) <= values.get("drain_seconds", 0):
        out.append("it is killed before it has drained")
    return out


def exposure(values: dict[str, Any]) -> list[str]:
    """What the dashboard's command lacks for others than this machine to reach it."""
    wanted = {
        "token_file": "/run/credentials/x/token", "tls_cert": "/run/credentials/x/tls.crt",
        "tls_key": "/run/credentials/x/tls.key", "host": "0.0.0.0", "port": str(DASHBOARD_PORT),
        "allow_host": "('gpu1.example.org',)", "behind_proxy": "False", "address": "tls://farm.example.org:8786",
    }  # fmt: skip
    return [f"its {k} is {values[k]}, not {v}" for k, v in wanted.items() if str(values[k]) != v]


def security_lines() -> list[tuple[str, str]]:
    """Every line of the units' [Service] sections, and the others that matter."""
    return [
        (name, line)
        for name, text in texts().items()
        for line in text.splitlines()
        if re.match(r"[A-Za-z]+=", line) and not line.startswith("Description=")
    ]


def test_there_is_a_unit_for_each_role() -> None:
    assert set(texts()) == set(UNITS)


@pytest.mark.parametrize("name", UNITS)
def test_units_are_as_promised(name: str) -> None:
    assert problems(read_unit(name, texts()[name])) == []


@pytest.mark.parametrize(("name", "line"), security_lines())
def test_no_line_can_go_unnoticed(name: str, line: str) -> None:
    without = texts()[name].replace(f"\n{line}\n", "\n", 1)
    assert problems(read_unit(name, without))


@pytest.mark.parametrize(
    "line", ["ReadWritePaths=/", "ExecStartPre=+/bin/sh", "BindPaths=/home", "User=root", "NoNewPrivileges=no"]
)
@pytest.mark.parametrize("name", UNITS)
def test_nothing_can_be_added_unnoticed(name: str, line: str) -> None:
    assert problems(read_unit(name, texts()[name].replace("[Service]", f"[Service]\n{line}")))


@pytest.mark.parametrize(
    "gone",
    ["--token-file %d/token ", "--certs %d ", " --allow-host ${DASHBOARD_NAME}", "--tls-key %d/tls.key ", ":8765"],
)
def test_the_dashboard_cannot_be_opened_unnoticed(gone: str) -> None:
    text = texts()["tilewright-dashboard.service"]
    changed = text.replace("--port 8765", "--port 80") if gone == ":8765" else text.replace(gone, "")
    assert changed != text
    assert problems(read_unit("tilewright-dashboard.service", changed))


def test_the_server_listens_where_the_others_look() -> None:
    name = "tilewright-server.service"
    words, environment = command(read_unit(name, texts()[name]))
    values = parse_command(words, environment)
    assert (values["port"], values["host"], str(values["state"])) == (PORT, "0.0.0.0", "/var/lib/tilewright")
    assert str(values["let_in"]) == "/etc/tilewright/users.json", "a credential would be a copy of the unit's start"
    name = "tilewright-runner@.service"
    assert parse_command(*command(read_unit(name, texts()[name])))["device"] == "cpu:0-1"


def test_a_cluster_is_told_by_the_environment() -> None:
    """As the unit's comment and docs/deploy.md write it."""
    name = "tilewright-server.service"
    text = (DEPLOY.parent / "docs" / "deploy.md").read_text()
    found = dict(re.findall(r'^(TILEWRIGHT_(?:CLUSTER|LISTEN|ROUTES))="?([^"\n]*)"?$', text, re.MULTILINE))
    values = parse_command(command(read_unit(name, texts()[name]))[0], found)
    assert set(found) == set(re.findall(r"TILEWRIGHT_\w+", texts()[name]))
    assert values["cluster"]
    assert values["listen"] in values["routes"]
    assert len(values["routes"]) == 3


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_the_units(name: str, tmp_path: Path) -> None:
    """Without the program, which is not installed here, and the file of its environment."""
    path = tmp_path / name
    text = texts()[name].replace("/opt/tilewright/bin/tilewright", "/bin/true")
    path.write_text(re.sub("EnvironmentFile=-?", "EnvironmentFile=-", text))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")

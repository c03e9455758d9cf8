"""The Compose file: what its containers may do, that their commands fit, and that the servers find each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from deploy_files import DEPLOY, PORT, ROUTES_PORT, lineage, parse_command, read_dockerfile, targets

import tilewright

FILE = DEPLOY / "compose" / "compose.yaml"
SERVERS = [f"server-{n}" for n in (1, 2, 3)]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def problems(found: dict[str, Any]) -> list[str]:
    out = []
    _, stages = read_dockerfile((DEPLOY / "docker" / "Dockerfile").read_text())
    if sorted(found["services"]) != sorted([*SERVERS, "builder", "runner"]):
        out.append(f"the services are {sorted(found['services'])}")
    for name, service in found["services"].items():
        target = service["build"]["target"]
        if target not in targets(stages) or service["image"] != f"tilewright-{target}:{tilewright.__version__}":
            out.append(f"{name} is {service['image']}")
        confined = {
            "read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "privileged": None,
            "user": None, "network_mode": None, "command": None, "stop_grace_period": "90s",
        }  # fmt: skip
        out += [f"{name}: {k} is {service.get(k)}" for k, v in confined.items() if service.get(k) != v]
        steps = lineage(stages, target)
        words = json.loads(next(rest for word, rest in reversed(steps) if word == "CMD"))
        values = parse_command(words, service["environment"])
        mounts = dict(reversed(v.removesuffix(":ro").rsplit(":", 1)) for v in service["volumes"])
        role = name.partition("-")[0]
        if mounts["/certs"] != f"../../farm/{role}" or f"{mounts['/certs']}:/certs:ro" not in service["volumes"]:
            out.append(f"{name} has the certificates of {mounts['/certs']}")
        own = "/state" if role == "server" else "/cache"
        if (
            mounts.get(own) not in found["volumes"]
            or [mounts.get(own) in str(s) for s in found["services"].values()].count(True) != 1
        ):
            out.append(f"{name} has no volume of its own")
        if role == "server":
            wanted = ("tilewright", f"{name}:{ROUTES_PORT}", tuple(f"{s}:{ROUTES_PORT}" for s in SERVERS))
            if (values["cluster"], values["listen"], values["routes"]) != wanted or "/probe" not in mounts:
                out.append(f"{name} is not one of the cluster")
            if [p.partition(":")[2] for p in service["ports"]] != [str(PORT)]:
                out.append(f"{name} opens {service['ports']}")
        elif values["address"] != "tls://" + ",".join(f"{s}:{PORT}" for s in SERVERS) or "ports" in service:
            out.append(f"{name} looks for {values['address']}")
    return out


def test_the_farm_is_as_promised() -> None:
    assert problems(compose()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("read_only: true", "read_only: false"),
        ("cap_drop: [ALL]", "cap_drop: []"),
        ("no-new-privileges:true", "seccomp:unconfined"),
        ("../../farm/runner:/certs:ro", "../../farm/runner:/certs"),
        ("../../farm/builder:/certs", "../../farm/runner:/certs"),
        ("state-2:/state", "state-1:/state"),
        ("TILEWRIGHT_LISTEN: server-2:8787", "TILEWRIGHT_LISTEN: server-1:8787"),
        ("server-1:8787 server-2:8787 server-3:8787", "server-1:8787"),
        ('["8806:8786"]', '["8806:8787"]'),
        ("server-1:8786,server-2:8786,server-3:8786", "server-1:8786"),
        ("    tmpfs: [", "    privileged: true\n    tmpfs: ["),
    ],
)
def test_no_change_for_the_worse_goes_unnoticed(old: str, new: str) -> None:
    text = FILE.read_text()
    assert old in text
    assert problems(yaml.safe_load(text.replace(old, new)))

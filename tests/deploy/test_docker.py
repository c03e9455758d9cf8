"""The images: who they run as, that their commands exist, and that nothing secret can end in them."""

from __future__ import annotations

import fnmatch
import json
import re

import pytest
from deploy_files import (
    DASHBOARD_PORT,
    DEPLOY,
    PORT,
    ROOT,
    ROUTES_PORT,
    UID,
    lineage,
    parse_command,
    read_dockerfile,
    refused,
    targets,
)

FILE = DEPLOY / "docker" / "Dockerfile"
IGNORE = DEPLOY / "docker" / "Dockerfile.dockerignore"
ROLES = {"server": "server", "cpu": "runner", "builder": "builder", "cuda": "runner"}
"""Targets that run something of ``farm``; ``dashboard`` is the other one."""
TOKEN_FILE = '"--token-file", "/token/token"'
SECRET = re.compile(r"(?i)password|passwd|token|secret|api_?key|credential")


def environment(steps: list[tuple[str, str]]) -> dict[str, str]:
    return dict(pair.split("=", 1) for word, rest in steps if word == "ENV" for pair in rest.split())


def last(steps: list[tuple[str, str]], word: str) -> str:
    return next((rest for w, rest in reversed(steps) if w == word), "")


def problems(text: str) -> list[str]:
    """What the Dockerfile lacks of what is promised."""
    first, stages = read_dockerfile(text)
    out = []
    defaults = dict(rest.split("=", 1) for word, rest in first if word == "ARG" and "=" in rest)
    for stage in stages.values():
        base = stage.base
        for name, value in defaults.items():
            base = base.replace(f"${{{name}}}", value)
        if base not in stages and not re.fullmatch(r"python:\d+\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base):
            out.append(f"{stage.name} starts from {base}, which changes by itself")
        for word, rest in stage.steps:
            if word == "ADD" or SECRET.search(rest.replace(TOKEN_FILE, "")):
                out.append(f"{stage.name}: {word} {rest}")
            careful = ("--no-install-recommends", "rm -rf /var/lib/apt/lists/*")
            if word == "RUN" and "apt-get install" in rest and not all(c in rest for c in careful):
                out.append(f"{stage.name} installs more than it needs")
            pinned = re.search(r"-c \S*constraints\.txt", rest)
            if word == "RUN" and "pip install" in rest and not (pinned and "--no-cache-dir" in rest):
                out.append(f"{stage.name} installs versions that nobody tested")
    if sorted(targets(stages)) != sorted([*ROLES, "dashboard"]):
        out.append(f"the images are {targets(stages)}")
    for name in stages:
        user = last(lineage(stages, name), "USER")
        if name != "wheel" and user != f"{UID}:{UID}":
            out.append(f"{name} runs as {user or 'root'}")
    for name in targets(stages):
        steps = lineage(stages, name)
        own = environment(steps)
        if last(steps, "ENTRYPOINT") != '["tini", "--", "tilewright"]' or "tini" not in runs_of(steps):
            out.append(f"{name} does not start as the program, with an init process")
        if last(steps, "STOPSIGNAL") != "SIGTERM":
            out.append(f"{name} is not told to drain")
        if own.get("TILEWRIGHT_CACHE") != "/cache/tilewright" or own.get("HOME") != "/tmp":
            out.append(f"{name} writes outside its volumes")
        if f"install -d -m 0700 -o {UID} -g {UID} /cache /state" not in runs_of(steps):
            out.append(f"{name}'s volumes are not its own")
        out += dashboard(steps, own) if name == "dashboard" else commands(name, steps, own)
    return out


def commands(name: str, steps: list[tuple[str, str]], own: dict[str, str]) -> list[str]:
    out = []
    words = json.loads(last(steps, "CMD"))
    given = {**own, **({} if name == "server" else {"TILEWRIGHT_FARM": "tls://farm.example.org:8786"})}
    if words[:2] != ["farm", ROLES[name]]:
        out.append(f"{name} runs {words}")
    if why := refused(words, given):
        return [*out, why]
    if name == "server":
        if "--no-install-recommends nats-server" not in runs_of(steps):
            out.append("it has no nats-server")
        check = last(steps, "HEALTHCHECK").partition(" CMD ")[2]
        asked = json.loads(check) if check.startswith("[") else []
        if asked[:3] != ["tilewright", "farm", "ping"] or refused(asked[1:], given):
            out.append(f"its health is not checked: {asked}")
        if last(steps, "EXPOSE") != f"{PORT} {ROUTES_PORT}" or parse_command(words, given)["port"] != PORT:
            out.append("it does not say where it listens")
    return out


def dashboard(steps: list[tuple[str, str]], own: dict[str, str]) -> list[str]:
    out = []
    words = json.loads(last(steps, "CMD"))
    if "[dashboard]" not in runs_of(steps) or "g++" in runs_of(steps):
        out.append("the dashboard lacks what it needs, or has a compiler")
    if words[:1] != ["dashboard"] or (why := refused(words, own)):
        return [*out, f"the dashboard runs {words}: {why if words[:1] == ['dashboard'] else ''}"]
    values = parse_command(words, own)
    wanted = {
        "host": "0.0.0.0", "port": DASHBOARD_PORT, "token_file": "/token/token", "tls_cert": "/tls/tls.crt",
        "tls_key": "/tls/tls.key", "certs": "/certs", "behind_proxy": False,
    }  # fmt: skip
    out += [f"its {k} is {values[k]}, not {v}" for k, v in wanted.items() if str(values[k]) != str(v)]
    if f"https://127.0.0.1:{DASHBOARD_PORT}/login" not in last(steps, "HEALTHCHECK"):
        out.append("its health is not checked")
    if last(steps, "EXPOSE") != str(DASHBOARD_PORT):
        out.append("it does not say where it listens")
    return out


def runs_of(steps: list[tuple[str, str]]) -> str:
    return "\n".join(rest for word, rest in steps if word == "RUN")


def test_images_are_as_promised() -> None:
    assert problems(FILE.read_text()) == []


def lines() -> list[int]:
    wanted = ("USER 65532", "STOPSIGNAL", "ENTRYPOINT", "HEALTHCHECK", "EXPOSE", "CMD [")
    return [n for n, line in enumerate(FILE.read_text().splitlines()) if line.startswith(wanted)]


@pytest.mark.parametrize("number", lines())
def test_no_line_can_go_unnoticed(number: int) -> None:
    all_lines = FILE.read_text().splitlines()
    if all_lines[number - 1].endswith("\\"):
        number -= 1
    count = 2 if all_lines[number].endswith("\\") else 1
    assert problems("\n".join([*all_lines[:number], *all_lines[number + count :]]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"--token-file", "/token/token", ', ""),
        ('"--tls-cert", "/tls/tls.crt", "--tls-key", "/tls/tls.key"', '"--behind-proxy"'),
        ("[dashboard]", "[plot]"),
        ("FROM base AS dashboard", "FROM cpu AS dashboard"),
        (":8765/login", ":8765/runs"),
        ("EXPOSE 8765", "EXPOSE 8766"),
        ("EXPOSE 8786 8787", "EXPOSE 8786"),
        ("recommends nats-server", "recommends nginx"),
        ("USER 65532:65532\nSTOPSIGNAL", "USER root\nSTOPSIGNAL"),
        ("@sha256:", ":"),
        ("FROM ${BASE} AS base", "FROM python:3.12-slim-bookworm AS base"),
        (" -c constraints.txt build", " build"),
        ("ENV PYTHONUNBUFFERED=1", "ENV DB_PASSWORD=x"),
        ("ENV TILEWRIGHT_FARM=tls://localhost:8786\n", ""),
        ('"--certs", "/certs", "--host"', '"--cert", "/certs", "--host"'),
        ("-c /wheel/constraints.txt", ""),
        ("COPY src", "ADD src"),
        ("--no-install-recommends", ""),
        ("TILEWRIGHT_CACHE=/cache/tilewright", "TILEWRIGHT_CACHE=/root"),
        ("install -d -m 0700", "install -d -m 0777"),
    ],
)
def test_no_change_for_the_worse_goes_unnoticed(old: str, new: str) -> None:
    text = FILE.read_text()
    assert old in text
    assert problems(text.replace(old, new))


def ignored(path: str) -> bool:
    """Docker's rules: the last pattern that fits counts, and a folder's pattern fits what is in it."""
    out = False
    for line in IGNORE.read_text().splitlines():
        pattern, again = line.lstrip("!").strip(), line.startswith("!")
        if not pattern or pattern.startswith("#"):
            continue
        parts = path.split("/")
        found = (
            any(fnmatch.fnmatchcase(part, pattern[3:]) for part in parts)
            if pattern.startswith("**/")
            else any(fnmatch.fnmatchcase("/".join(parts[:n]), pattern) for n in range(1, len(parts) + 1))
        )
        if found:
            out = not again
    return out


def test_only_what_is_needed_and_nothing_secret_reaches_the_build() -> None:
    needed = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "scripts/sbom.py", "src/tilewright/core.py")
    for path in needed:
        assert not ignored(path)
        assert (ROOT / path).exists()
    for path in (
        "farm/ca/ca.key", "farm/workers/runner/key.pem", "src/tilewright/key.pem", "src/ca.key", ".git/config", ".venv/x",
        "demo.db", "src/t.db", "config.toml", ".env", "tests/conftest.py", "scripts/build_images.py",
    ):  # fmt: skip
        assert ignored(path), path


def test_what_is_copied_is_there() -> None:
    _, stages = read_dockerfile(FILE.read_text())
    for stage in stages.values():
        for word, rest in stage.steps:
            if word == "COPY" and not rest.startswith("--from"):
                for source in rest.split()[:-1]:
                    assert (ROOT / source).exists()
                    assert not ignored(source)
            elif word == "COPY":
                assert rest.split()[0] == "--from=wheel"


def test_the_extras_exist() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    _, stages = read_dockerfile(FILE.read_text())
    arguments = dict(rest.split("=") for s in stages.values() for word, rest in s.steps if word == "ARG")
    assert {*arguments["EXTRAS"].split(","), arguments["CUDA"]} <= set(extras)
    assert any(p.startswith(arguments["NVRTC"]) for p in extras["cuda13"])

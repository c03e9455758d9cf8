#!/usr/bin/env python3
"""Runs the Dockerfile's steps without a builder of images, and what the images are to run: a farm.

Images need a base from a registry, and their builders privileges; neither is there in every network and sandbox. This
takes Debian's packages instead: a tree made with mmdebstrap, with Python in /usr/local as the base image has it (but
Debian's version), and each stage an overlay of the one before it. All of it is on a tmpfs in a mount namespace of its
own and gone afterwards. Then a server, a builder and a runner are started as their images start them, and asked.

    sudo .venv/bin/python scripts/build_images.py

Needs root, mounts, mmdebstrap and a mirror of Debian. Where one is missing it says so and exits with 0: nothing was
tried.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
SUITE = "bookworm"
STAGES = ("server", "cpu", "builder", "dashboard")  # not cuda: there is no GPU to run it on
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LIMIT = 120.0


def main() -> int:
    why = missing()
    if why:
        print(f"images: not tried, {why}")
        return 0
    if "--inside" not in sys.argv:
        again = [sys.executable, __file__, "--inside"]
        return subprocess.run(["unshare", "--mount", "--propagation", "private", *again], check=False).returncode
    with tempfile.TemporaryDirectory(prefix="images-") as name:
        run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", name)
        try:
            images = Images(Path(name))
            for stage in STAGES:
                images.build(stage)
            try_farm(images)
        except NotHere as e:
            print(f"images: not tried, {e}")
            return 0
        finally:
            subprocess.run(["umount", "--lazy", name], check=False)
    print(f"images: {', '.join(STAGES)} are built and run as a farm")
    return 0


def missing() -> str:
    if os.geteuid() != 0:
        return "since only root can change the root directory"
    for program in ("mmdebstrap", "unshare", "chroot", "mount"):
        if shutil.which(program) is None:
            return f"since there is no {program}"
    allowed = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False
    )
    return "" if allowed.returncode == 0 else "since nothing may be mounted here"


def run(*words: str, **more: object) -> None:
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"images: {shlex.join(words)} gave {done.returncode}\n{done.stdout[-4000:]}")


def dockerfiles() -> ModuleType:
    """The reader that the tests hold the Dockerfile to its promises with."""
    sys.path.insert(0, str(ROOT / "src"))
    spec = importlib.util.spec_from_file_location("deploy_files", ROOT / "tests" / "deploy" / "deploy_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["deploy_files"] = module
    spec.loader.exec_module(module)
    return module


class NotHere(Exception):
    """What an image is made from cannot be had."""


class Images:
    """The trees of the stages, built when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        first, self.stages = dockerfiles().read_dockerfile((ROOT / "deploy" / "docker" / "Dockerfile").read_text())
        self.given = dict(rest.split("=", 1) for word, rest in first if word == "ARG")
        self.layers: dict[str, list[Path]] = {}
        self.trees: dict[str, Path] = {}
        self.settings: dict[str, dict[str, str]] = {}  # environment, USER, WORKDIR, CMD, ENTRYPOINT

    def build(self, name: str) -> None:
        if name in self.trees:
            return
        began = time.monotonic()
        if name not in self.stages:  # what a registry would have
            self.trees[name] = self._debian()
            self.layers[name] = [self.trees[name]]
            self.settings[name] = {"PATH": BASE_PATH, "USER": "0:0", "WORKDIR": "/"}
            print(f"images: {name} by mmdebstrap, {time.monotonic() - began:.0f} s", flush=True)
            return
        stage = self.stages[name]
        self.build(stage.base)
        began = time.monotonic()
        upper, work, tree = (self.folder / f"{name}-{part}" for part in ("layer", "work", "tree"))
        for path in (upper, work, tree):
            path.mkdir()
        lower = ":".join(map(str, self.layers[stage.base]))
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", str(tree))
        self.layers[name] = [upper, *self.layers[stage.base]]
        self.trees[name], self.settings[name] = tree, dict(self.settings[stage.base])
        with self.borrowed(tree) as borrowed:
            for word, rest in stage.steps:
                self._step(name, word, rest, borrowed)
        print(f"images: {name}, {time.monotonic() - began:.0f} s", flush=True)

    def _debian(self) -> Path:
        tree = self.folder / "debian"
        words = ["mmdebstrap", "--variant=minbase", "--include=python3-venv,ca-certificates", SUITE, str(tree)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise NotHere(f"since mmdebstrap failed: {done.stdout.strip().splitlines()[-1:]}")
        with self.borrowed(tree):
            run("chroot", str(tree), "python3", "-m", "venv", "--copies", "/usr/local")
        return tree

    def _step(self, name: str, word: str, rest: str, borrowed: dict[str, str]) -> None:
        tree, settings = self.trees[name], self.settings[name]
        if word == "ARG":
            key, _, value = rest.partition("=")
            settings.setdefault(key, self.given.get(key, value))
        elif word == "ENV":
            settings.update(pair.split("=", 1) for pair in rest.split())
        elif word in ("USER", "CMD", "ENTRYPOINT"):
            settings[word] = rest
        elif word == "WORKDIR":
            settings[word] = rest
            (tree / rest.strip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            self._copy(tree, settings["WORKDIR"], rest.split())
        elif word == "RUN":
            run(*self.command(name, ["sh", "-c", f"cd {settings['WORKDIR']} && {rest}"], borrowed))
        elif word not in ("EXPOSE", "STOPSIGNAL", "HEALTHCHECK"):
            raise SystemExit(f"images: {word} is not known here")

    def _copy(self, tree: Path, where: str, words: list[str]) -> None:
        source = ROOT
        if words[0].startswith("--from="):
            stage = words.pop(0).partition("=")[2]
            self.build(stage)
            source = self.trees[stage]
        *sources, target = words
        for one in sources:
            origin, to = source / one.strip("/"), tree / os.path.join(where, target).lstrip("/")
            if origin.is_dir():
                shutil.copytree(origin, to, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            else:
                to = to / origin.name if target.endswith("/") else to
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, to)

    def command(self, name: str, words: list[str], more: dict[str, str] | None = None) -> list[str]:
        """A command inside an image, with its user and environment."""
        settings = {k: v for k, v in self.settings[name].items() if k not in ("USER", "CMD", "ENTRYPOINT", "WORKDIR")}
        user = self.settings[name]["USER"].replace("root", "0:0")
        inside = ["env", "-i", *(f"{k}={v}" for k, v in {**settings, **(more or {})}.items()), *words]
        return ["chroot", f"--userspec={user}", str(self.trees[name]), *inside]

    @contextmanager
    def borrowed(self, tree: Path) -> Iterator[dict[str, str]]:
        """How this machine reaches packages, lent to a tree while its steps run: name service, authorities, indexes.
        None of it stays in the tree. Gives the variables that go with it."""
        known = {"/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"}
        files = [p for p in map(Path, sorted(known)) if p.is_file()]
        folders = [Path("/proc"), Path("/dev"), Path("/etc/apt"), *index_folders()]
        done = []
        for path in (*files, *folders):
            inside = tree / str(path).lstrip("/")
            if path.is_dir():
                inside.mkdir(parents=True, exist_ok=True)
            else:
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.touch()
            run("mount", "--bind", str(path), str(inside))
            done.append(inside)
        try:
            yield {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.lower().endswith("_proxy")}
        finally:
            for inside in reversed(done):
                subprocess.run(["umount", "--lazy", str(inside)], check=False)


def index_folders() -> list[Path]:
    """Folders with packages that pip's settings here name."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout  # fmt: skip
    found = {Path(m) for m in re.findall(r"(?:file://|(?<=[' ]))(/[\w./-]+)", asked)}
    return [p for p in sorted(found) if p.is_dir()]


# --------------------------------------------------------------------------- what the images are for


def try_farm(images: Images) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    certs = images.folder / "certs"
    run(sys.executable, "-m", "tilewright", "farm", "init", str(certs), "--host", "localhost")
    for name in STAGES:
        said = subprocess.run(
            images.command(name, [*entry(images, name), "--version"]), capture_output=True, text=True, check=True
        ).stdout  # fmt: skip
        print(f"images: {name} has {said.strip()}", flush=True)
    started: list[subprocess.Popen[bytes]] = []
    logs = images.folder / "log"
    try:
        with open(logs, "wb") as log:
            for name, role in (("server", "server"), ("builder", "builder"), ("cpu", "runner")):
                lend(images, name, certs / role, "certs")
                if name == "server":
                    lend(images, name, certs / "reader", "probe")
                words = json.loads(images.settings[name]["CMD"])
                words = [port if w == "8786" else w for w in words]
                more = {"TILEWRIGHT_FARM": f"tls://localhost:{port}"}
                started.append(subprocess.Popen(
                    images.command(name, [*entry(images, name), *words], more), stdout=log, stderr=log
                ))  # fmt: skip
        farm = [sys.executable, "-m", "tilewright", "farm"]
        where = ["--certs", str(certs), f"tls://localhost:{port}"]
        until = time.monotonic() + LIMIT
        while subprocess.run([*farm, "ready", "--runners", "1", *where], capture_output=True, check=False).returncode:
            if time.monotonic() > until or any(p.poll() is not None for p in started):
                raise SystemExit(f"images: no farm\n{logs.read_text()[-4000:]}")
            time.sleep(0.5)
        here = {"TILEWRIGHT_FARM": f"tls://localhost:{port}"}
        run(*images.command("server", ["tilewright", "farm", "ping", "--certs", "/probe"], here))
        subprocess.run(
            images.command("server", ["tilewright", "farm", "doctor", "--certs", "/probe"], here), check=True
        )
        subprocess.run([*farm, "status", *where], check=True)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(LIMIT)


def entry(images: Images, name: str) -> list[str]:
    words: list[str] = json.loads(images.settings[name]["ENTRYPOINT"])
    return words


def lend(images: Images, name: str, folder: Path, where: str) -> None:
    """Certificates as a mount would bring them, owned by the user inside, and /proc and /dev as every container has."""
    tree = images.trees[name]
    shutil.copytree(folder, tree / where)
    for path in (tree / where, *(tree / where).iterdir()):
        os.chown(path, 65532, 65532)
    for part in ("proc", "dev"):
        run("mount", "--rbind", f"/{part}", str(tree / part))
    shutil.copy("/etc/hosts", tree / "etc" / "hosts")


if __name__ == "__main__":
    sys.exit(main())

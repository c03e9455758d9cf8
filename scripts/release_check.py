#!/usr/bin/env python3
"""Installs the release as its users do, from an index of its own, and runs what each extra promises.

    make release-check                                # every Python from 3.11 to 3.14 that this machine has
    .venv/bin/python scripts/release_check.py --python 3.12 --only runtime

Builds the source archive and the wheel, and an index of files with them and all that the extras need. Each check is an
environment that takes its packages from that index alone, in an empty folder, with and without a compiler on PATH:

    runtime   serves a bundle and a database, with NumPy alone
    tune      tunes, compares, builds a bundle; without a compiler it says what is missing
    gpu       compiles CUDA for a GPU that is not there, and tunes on the emulator
    farm      runs a farm of one machine and tunes on it; without a compiler it says what is missing

Exit code 1 if something failed. A Python that is not on this machine is named and not tried. Downloads about 900 MB for
the first Python.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = {"runtime": "", "tune": "[tune,sign]", "gpu": "[tune,cuda13]", "farm": "[tune,farm,farm-server]"}
FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")
COMPILER = re.compile(r"(.*-)?(g\+\+|gcc|cc|c\+\+|clang|clang\+\+|c89|c99|nvcc)(-[\d.]+)?")
LIMIT = 900.0  # seconds for a command
SIZES = ("m=64", "n=48", "k=32")

SERVE = """
import sys
import numpy as np
import tilewright
a, b = np.random.default_rng(0).standard_normal((2, 64, 64), dtype=np.float32)
a, b = a[:, :32].copy(), b[:32, :48].copy()
for place in sys.argv[1:]:
    library = tilewright.Library(place, trust="unsigned") if place.endswith(".twb") else tilewright.Library(place)
    np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert library.explain("matmul", m=64, n=48, k=32).tier == "exact", library.explain("matmul", m=64, n=48, k=32)
    assert (library.matmul(np.ones((3, 3), np.float32), np.ones((3, 3), np.float32)) == 3).all()  # tuned by nobody
heavy = {"sqlalchemy", "xgboost", "click", "rich", "nats", "cupy", "torch"} & set(sys.modules)
assert not heavy, heavy
print("serves", tilewright.__version__, "on Python", sys.version.split()[0])
"""


class Failed(Exception):
    """Something that the release promises did not happen."""


@dataclass(frozen=True)
class Room:
    """An environment in a folder of its own. ``path``: the programs that it finds beside its own."""

    folder: Path
    path: Path

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.python.parent}:{self.path}", "HOME": str(self.folder), "LANG": "C.UTF-8", "COLUMNS": "120",
            "OCL_ICD_VENDORS": "/nonexistent",
        }  # fmt: skip

    def run(self, *words: object, code: int = 0, says: Sequence[str] = ()) -> str:
        """What a command printed. Raises ``Failed`` where it ends otherwise, or does not say what it has to."""
        command = [str(w) for w in words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=LIMIT, check=False,
        )  # fmt: skip
        plain = " ".join(done.stdout.split())
        missing = [text for text in says if text not in plain]
        if done.returncode != code or missing or "Traceback" in plain:
            wrong = f"ended with {done.returncode}, not {code}; does not say {missing}"
            raise Failed(f"{' '.join(command[:8])}\n{wrong}\n{done.stdout[-3000:]}")
        return done.stdout

    def tilewright(self, *words: str, code: int = 0, says: Sequence[str] = ()) -> str:
        return self.run(self.python.parent / "tilewright", *words, code=code, says=says)


# --------------------------------------------------------------------------- what is checked


def runtime(room: Room, compiler: bool, made: Path) -> None:
    """Whoever serves has NumPy, and kernels that somebody else tuned."""
    listed = room.run(room.python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "freeze")
    packages = {line.partition("==")[0].lower() for line in listed.split()} - {"pip", "setuptools"}
    if packages != {"numpy", "tilewright"}:
        raise Failed(f"the runtime installs {sorted(packages)}")
    for name in ("t.db", "kernels.twb"):
        shutil.copy(made / name, room.folder)
    room.run(room.python, "-c", SERVE, "t.db", "kernels.twb", says=["serves"])
    room.tilewright("--help", code=1, says=["pip install 'tilewright[tune]'"])


def tune(room: Room, compiler: bool, made: Path) -> None:
    """Whoever tunes needs a compiler, and is told so."""
    words = ("tune", "matmul", *SIZES, "--trials", "4", "--db", "t.db")
    if not compiler:
        room.tilewright("doctor", "--no-measure", code=1, says=["compiler"])
        room.tilewright(*words, code=1, says=["compiler"])
        shutil.copy(made / "t.db", room.folder)
        room.tilewright("kernels", "--db", "t.db", says=["matmul m=64 n=48 k=32"])
        return
    room.tilewright("doctor", "--no-measure", says=["Ready to tune."])
    room.tilewright(*words, says=["saved in t.db"])
    room.tilewright("bench", "matmul", *SIZES, "--rounds", "3", "--against", "numpy", "--db", "t.db", says=["numpy"])
    room.tilewright("bundle", "build", "-o", "kernels.twb", "--db", "t.db", "--unsigned")
    for name in ("t.db", "kernels.twb"):
        shutil.copy(room.folder / name, made)


def gpu(room: Room, compiler: bool, made: Path) -> None:
    """CUDA without a GPU: the compiler comes with the extra, the emulator needs one for C++."""
    prepare = ("prepare", "matmul", "m=64", "n=64", "k=64", "--target", "cuda:sm_90a", "--keep", "2", "--pool", "8")
    room.tilewright(*prepare, "--verify", str(int(compiler)), "--out", f"prepared-{compiler}")
    if compiler:
        room.tilewright(
            "tune", "matmul", "m=64", "n=64", "k=64", "--device", "emulator", "--trials", "2", "--db", "t.db",
            says=["saved in t.db"],
        )  # fmt: skip


def farm(room: Room, compiler: bool, made: Path) -> None:
    """A farm of one machine, with a server from the index."""
    if not compiler:
        room.tilewright("farm", "doctor", says=["nats-server"])
        room.tilewright("farm", "builder", "tcp://127.0.0.1:1", code=2, says=["no compiler", "g++"])
        return
    with (room.folder / "farm.log").open("w") as log:
        process = subprocess.Popen(
            [room.python.parent / "tilewright", "farm", "up", "--port", "0", "--runners", "1"], cwd=room.folder,
            env=room.environment, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise Failed(f"farm up said nothing\n{(room.folder / 'farm.log').read_text()[-3000:]}")
        room.tilewright("farm", "status", address, says=["builder"])
        room.tilewright("tune", "matmul", *SIZES, "--trials", "4", "--farm", address, "--db", "f.db", says=["saved in"])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)


CHECKS: Mapping[str, Callable[[Room, bool, Path], None]] = {
    "tune": tune, "runtime": runtime, "gpu": gpu, "farm": farm,
}  # fmt: skip


# --------------------------------------------------------------------------- how


def build(folder: Path) -> Path:
    """The wheel, made of the source archive alone."""
    said = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if said.returncode:
        raise SystemExit(f"release: {said.stdout[-2000:]}{said.stderr[-2000:]}")
    (wheel,) = folder.glob("*.whl")
    if not wheel.name.endswith("-py3-none-any.whl"):
        raise SystemExit(f"release: {wheel.name} is not for every Python: kernels are compiled where they are tuned")
    return wheel


def find_python(version: str) -> str | None:
    """A Python of a version that starts, from PATH or pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [p for name in os.environ["PATH"].split(":") if (p := Path(name) / f"python{version}").is_file()]
    for place in [*pyenv.glob(f"{version}.*/bin/python{version}"), *places]:
        done = subprocess.run([place, "-c", "import ensurepip, venv"], capture_output=True, check=False)
        if done.returncode == 0:
            return str(place)
    return None


def programs(folder: Path, compiler: bool) -> Path:
    """A folder with links to the system's programs, compilers among them or not."""
    folder.mkdir()
    for place in map(Path, FOLDERS):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            if not link.is_symlink() and (compiler or not COMPILER.fullmatch(program.name)):
                link.symlink_to(program)
    for name in ("python", "python3", "nats-server"):  # an environment has its own
        (folder / name).unlink(missing_ok=True)
    return folder


def make_index(folder: Path, files: Path) -> str:
    """The address of an index (PEP 503) of the files in a folder."""
    for path in sorted(files.iterdir()):
        name = re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower()
        page = folder / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with page.open("a") as f:
            f.write(f'<a href="{escape(path.as_uri())}#sha256={digest}">{escape(path.name)}</a><br>\n')
    return folder.as_uri()


def pip(python: Path | str, *words: object) -> None:
    command = [str(w) for w in (python, "-m", "pip", "--disable-pip-version-check", "-q", *words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command)}\n{done.stderr[-3000:]}")


def check_python(python: str, wheel: Path, work: Path, only: Sequence[str]) -> list[str]:
    """Every check with one Python; what failed."""
    files, made, failed = work / "files", work / "made", []
    for folder in (files, made):
        folder.mkdir(parents=True)
    shutil.copy(wheel, files)
    for name in only:
        pip(python, "download", "--only-binary", ":all:", "-d", files, f"tilewright{EXTRAS[name]} @ {wheel.as_uri()}")
    index = make_index(work / "simple", files)
    paths = {compiler: programs(work / f"programs-{compiler}", compiler) for compiler in (True, False)}
    for name in only:
        began = time.monotonic()
        env = work / name / "env"
        subprocess.run([python, "-m", "venv", env], check=True)
        for compiler in (True, False):
            label = f"{name:<8} {'with' if compiler else 'without'} a compiler"
            room = Room(work / name, paths[compiler])
            try:
                if compiler:
                    target = f"tilewright{EXTRAS[name]}"
                    pip(env / "bin" / "python", "--isolated", "install", "--index-url", index, target)
                CHECKS[name](room, compiler, made)
            except (Failed, subprocess.TimeoutExpired) as e:
                failed.append(label)
                print(f"  {label}: failed\n{e}", flush=True)
            else:
                print(f"  {label}: right, {time.monotonic() - began:.0f} s", flush=True)
        shutil.rmtree(work / name, ignore_errors=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", choices=PYTHONS, help="which; may be given again (default: all)")
    parser.add_argument("--only", action="append", choices=list(CHECKS), help="which; runtime needs what tune makes")
    options = parser.parse_args()
    asked = options.only or list(CHECKS)
    only = [name for name in CHECKS if name in asked or (name == "tune" and "runtime" in asked)]
    failed, absent = [], []
    with tempfile.TemporaryDirectory(prefix="release-", dir=os.environ.get("TMPDIR")) as name:
        work = Path(name)
        wheel = build(work / "dist")
        print(f"release: {wheel.name} of {sorted(p.name for p in wheel.parent.iterdir())[-1]}", flush=True)
        for version in options.python or PYTHONS:
            python = find_python(version)
            if python is None:
                absent.append(version)
                continue
            print(f"Python {version}: {python}", flush=True)
            failed += [f"{version} {label}" for label in check_python(python, wheel, work / version, only)]
    for version in absent:
        print(f"Python {version}: not tried, since it is not on this machine")
    print(f"release: {len(failed)} failed" if failed else "release: everything that was tried is right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

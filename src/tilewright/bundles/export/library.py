"""Compiles a bundle's kernels, from their stored sources, into one C library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cores import available_cores
from tilewright.backends.cpu.compiler import (
    Compiler,
    find_compiler,
    link_flags,
    run_compiler,
    support_flags,
    support_object,
)  # fmt: skip
from tilewright.backends.cpu.structures import SUPPORT
from tilewright.backends.cpu.targets import flags
from tilewright.bundles.check import run_kernels
from tilewright.bundles.contents import source_of
from tilewright.bundles.export.functions import Function
from tilewright.bundles.export.texts import header, implementation
from tilewright.core import Artifact, Target, TilewrightError, UsageError, digest
from tilewright.errors import explained_writing
from tilewright.files import SHARED, replace_file
from tilewright.runtime.bundle.reader import Bundle

_DEADLINE = 120.0  # seconds for one compiler call
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CLibrary:
    """A built library, as bytes. ``checked``: number of functions that were compared with their reference here."""

    header: str
    archive: bytes
    shared: bytes
    checked: int


def build_c(
    bundle: Bundle, functions: Sequence[Function], name: str, *, check: bool = True, progress: Progress | None = None
) -> CLibrary:
    """Compiles functions of one target. ``check``: compare each with its reference, if this machine can run it.

    Equal sources, name and compiler give equal bytes. Raises ``UsageError`` for a name that is not a C identifier, and
    ``TilewrightError`` for functions that do not compile or give wrong results.
    """
    if not name.isascii() or not name.isidentifier() or not name[0].islower():
        raise UsageError(f"{name!r} is not a library's name", "Use letters, digits and _, a small letter first")
    if sys.platform != "linux":
        raise TilewrightError("C libraries are built on Linux only", "Export on a Linux machine with that processor")
    target = functions[0].kernel.entry.target
    cxx = find_compiler(target.arch)
    with TemporaryDirectory(prefix="tilewright-") as folder:
        objects = _kernels(bundle, functions, target, cxx, progress)
        support = support_object(target, cxx, ArtifactCache())
        checked = _check(bundle, functions, target, cxx, [*objects, support], Path(folder)) if check else 0
        shutil.copy(SUPPORT / "tw.h", folder)
        texts = header(name, functions, target), implementation(name, functions, target)
        Path(folder, f"{name}.h").write_text(texts[0])
        own = os.path.join(folder, "functions.o")
        command = [*cxx.command, *support_flags(target, cxx), "-std=gnu11", f"-I{folder}", "-c", "-x", "c", "-"]
        # Only the library's own functions are visible to users; the header does not say so, to stay plain C.
        public = [*command, "-fvisibility=default", "-o", own]
        run_compiler(public, texts[1], _DEADLINE)
        objects, names = [own, *objects, support], _public(name, functions)
        everything = _merged(cxx, objects, names, Path(folder))
        archive, shared = os.path.join(folder, "library.a"), os.path.join(folder, "library.so")
        run_compiler([_tool(cxx, "ar"), "rcsD", archive, everything], "", _DEADLINE)
        script = Path(folder, "public.map")
        script.write_text(f"{{ global: {' '.join(f'{x};' for x in names)} local: *; }};\n")
        # Threads of the library's pool run its code until the process ends, so it must never be unloaded.
        named = [f"-Wl,-soname,lib{name}.so", "-Wl,-z,nodelete", f"-Wl,--version-script={script}"]
        run_compiler([*cxx.command, *objects, *link_flags(cxx), *named, "-o", shared], "", _DEADLINE)
        return CLibrary(texts[0], Path(archive).read_bytes(), Path(shared).read_bytes(), checked)


def write_c(library: CLibrary, folder: Path, name: str) -> list[Path]:
    """Writes ``NAME.h``, ``libNAME.a`` and ``libNAME.so`` into a folder, which is created. Raises
    ``TilewrightError``."""
    files = {f"{name}.h": library.header.encode(), f"lib{name}.a": library.archive, f"lib{name}.so": library.shared}
    with explained_writing(f"into {folder}", "Name another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in files.items():
            replace_file(folder / file, data, SHARED)
    return [folder / file for file in files]


def _kernels(
    bundle: Bundle, functions: Sequence[Function], target: Target, cxx: Compiler, progress: Progress | None
) -> list[str]:
    """Paths of all kernels' objects in the cache; kernels with equal sources share an object."""
    texts = [(f, source_of(bundle, f.kernel)) for f in functions]
    for f, text in texts:
        if lost := [s for s in (*(x for x, _ in f.launches), *(p.symbol for p in f.packs)) if s not in text]:
            raise TilewrightError(
                f"the stored source of {f.kernel.entry.op} {f.kernel.entry.label} has no function {lost[0]}",
                "Leave it out (--op), or tune it again",
            )
    sources = list(dict.fromkeys(text for _, text in texts))
    options = flags(target, cxx.family)
    cache = ArtifactCache()
    done = 0

    def compiled(source: str) -> str:
        nonlocal done
        key = digest(["object", cxx.key, list(options), sha256(source.encode()).hexdigest()])

        def make() -> bytes:
            with TemporaryDirectory(prefix="tilewright-") as folder:
                out = os.path.join(folder, "kernel.o")
                run_compiler([*cxx.command, "-x", "c++", *options, "-c", "-", "-o", out], source, _DEADLINE)
                return Path(out).read_bytes()

        path = cache.made(key, make)[0]
        done += 1
        if progress is not None:
            progress(done, len(sources))
        return path

    with ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(compiled, sources))


def _check(
    bundle: Bundle, functions: Sequence[Function], target: Target, cxx: Compiler, objects: Sequence[str], folder: Path
) -> int:
    """Compares the compiled functions with the reference and returns their number. Raises ``TilewrightError`` for wrong
    results."""
    path = folder / "check.so"
    run_compiler([*cxx.command, *objects, *link_flags(cxx), "-o", str(path)], "", _DEADLINE)
    built = sha256(path.read_bytes()).hexdigest()

    def artifact(f: Function) -> Artifact:
        e, row = f.kernel.entry, f.kernel.row
        return Artifact(str(path), built, e.program, target, cxx.version, (), row["source_sha256"])

    count = 0
    for verdict in run_kernels(bundle, [(f.kernel, artifact(f)) for f in functions]):
        if verdict.problem:
            e = verdict.kernel.entry
            raise TilewrightError(
                f"{e.op} {e.label}, compiled by {cxx.version}, is not right: {verdict.problem}",
                "Leave it out (--op), or export on the machine that tuned it",
            )
        count += not verdict.skipped
    return count


def _public(name: str, functions: Sequence[Function]) -> list[str]:
    packs = [f"{name}_{f.name}_pack_{f.inputs[p.input].name}" for f in functions for p in f.packs]
    return [f"{name}_error", f"{name}_release", *(f"{name}_{f.name}" for f in functions), *packs]


def _merged(cxx: Compiler, objects: Sequence[str], public: Sequence[str], folder: Path) -> str:
    """One object that exports only these names, so that it links with any other code."""
    merged, names = folder / "merged.o", folder / "public"
    run_compiler([*cxx.command, "-r", "-nostdlib", *objects, "-o", str(merged)], "", _DEADLINE)
    names.write_text("\n".join(public) + "\n")
    run_compiler([_tool(cxx, "objcopy"), f"--keep-global-symbols={names}", str(merged)], "", _DEADLINE)
    return str(merged)


def _tool(cxx: Compiler, name: str) -> str:
    """The binary utility that belongs to a compiler."""
    said = subprocess.run(
        [*cxx.command, f"-print-prog-name={name}"], capture_output=True, text=True, check=False
    ).stdout.strip()  # fmt: skip
    found = shutil.which(said or name)
    if found is None:
        raise TilewrightError(f"{name} is not on the path", "Install binutils")
    return found

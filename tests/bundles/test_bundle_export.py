"""Exports: a C program that links the library, and a wheel called in a process without Tilewright."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.bundles.build import build
from tilewright.bundles.contents import Kernel, kernels, source_of
from tilewright.bundles.export.functions import Function, choose, functions
from tilewright.bundles.export.library import CLibrary, build_c, write_c
from tilewright.bundles.export.wheel import write_wheel
from tilewright.core import TilewrightError, UsageError
from tilewright.database import Database
from tilewright.runtime.bundle.reader import Bundle

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal(s).astype(np.float32) for s in ((24, 32), (32, 48)))
WANT = A.astype(np.float64) @ B

PROGRAM = r"""
#include "mine.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static float a[24 * 32], b[32 * 48], c[24 * 48], d[24 * 48];

static void fill(float *x, int count)
{
    if (fread(x, sizeof *x, (size_t)count, stdin) != (size_t)count)
        exit(9);
}

static void *thread(void *unused)
{
    int i;
    float *mine = malloc(sizeof d);
    (void)unused;
    for (i = 0; i < 100; i++)
        if (mine_matmul_m24_n48_k32_float32(a, b, mine) != MINE_OK)
            exit(8);
    mine_release();
    free(mine);
    return NULL;
}

int main(void)
{
    void *packed = NULL;
    int problem, i;
    pthread_t threads[2];
    fill(a, 24 * 32);
    fill(b, 32 * 48);
    problem = mine_matmul_m24_n48_k32_float32(a, b, c);
    if (problem) {
        fprintf(stderr, "%s\n", mine_error(problem));
        return 1;
    }
    if (posix_memalign(&packed, 4096, MINE_MATMUL_M24_N48_K32_CONSTANT_B_FLOAT32_PACK_B_BYTES))
        return 2;
    if (mine_matmul_m24_n48_k32_constant_b_float32_pack_b(b, packed)
        || mine_matmul_m24_n48_k32_constant_b_float32(a, packed, d))
        return 3;
    if (mine_matmul_m24_n48_k32_float32(NULL, b, c) != MINE_NULL
        || mine_matmul_m24_n48_k32_float32(a, b, a) != MINE_OVERLAP
        || mine_error(12345) == NULL)
        return 4;
    for (i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, thread, NULL);
    for (i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fwrite(c, sizeof c, 1, stdout);
    fwrite(d, sizeof d, 1, stdout);
    free(packed);
    return 0;
}
"""


@pytest.fixture
def opened(bundle: Path) -> Bundle:
    return Bundle(bundle, "unsigned")


@pytest.fixture
def chosen(opened: Bundle) -> list[Function]:
    return functions(choose(kernels(opened), None, None, 1))


@pytest.fixture(scope="module")
def libraries(tuned_database: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CLibrary]:
    """The same kernels under two names."""
    path = tmp_path_factory.mktemp("libraries") / "kernels.twb"
    with Database.open(tuned_database, create=False, readonly=True) as database:
        build(database, path, None)
    opened = Bundle(path, "unsigned")
    chosen = functions(choose(kernels(opened), None, None, 1))
    made = {name: build_c(opened, chosen, name) for name in ("mine", "my_kernels")}
    assert all(library.checked == len(chosen) == 5 for library in made.values())
    return made


@pytest.mark.parametrize("link", ["static", "shared"])
def test_a_c_program_links_it(libraries: dict[str, CLibrary], tmp_path: Path, link: str) -> None:
    write_c(libraries["mine"], tmp_path / "lib", "mine")
    (tmp_path / "main.c").write_text(PROGRAM)
    flags = ["-std=c89", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-long-long", "-D_XOPEN_SOURCE=700"]
    library = [str(tmp_path / "lib/libmine.a")] if link == "static" else [f"-L{tmp_path}/lib", "-lmine"]
    command = ["gcc", *flags, f"-I{tmp_path}/lib", str(tmp_path / "main.c"), *library, "-lm", "-lpthread"]
    subprocess.run([*command, "-o", str(tmp_path / "main")], check=True)
    done = subprocess.run(
        [str(tmp_path / "main")], input=A.tobytes() + B.tobytes(), capture_output=True, check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "lib")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = np.frombuffer(done.stdout, np.float32).reshape(2, 24, 48)
    np.testing.assert_allclose(results[0], WANT, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results[1], WANT, rtol=1e-4, atol=1e-5)


def test_the_header_is_for_cpp_too_and_nothing_else_is_visible(libraries: dict[str, CLibrary], tmp_path: Path) -> None:
    write_c(libraries["mine"], tmp_path, "mine")
    (tmp_path / "main.cpp").write_text("#include \"mine.h\"\nint main() { return *mine_error(0) != 's'; }\n")
    command = [
        "g++",
        "-Wall",
        "-Werror",
        "-pedantic",
        str(tmp_path / "main.cpp"),
        str(tmp_path / "libmine.a"),
        "-lpthread",
    ]
    subprocess.run([*command, "-lm", "-o", str(tmp_path / "main")], check=True)
    subprocess.run([str(tmp_path / "main")], check=True)
    for options, file in (("-g", "libmine.a"), ("-D", "libmine.so")):
        said = subprocess.run(
            ["nm", options, "--defined-only", str(tmp_path / file)], capture_output=True, text=True, check=True
        ).stdout
        names = [line.split()[2] for line in said.splitlines() if len(line.split()) == 3]
        assert names
        assert all(n.startswith("mine_") for n in names)


def test_two_libraries_in_one_program(libraries: dict[str, CLibrary], tmp_path: Path) -> None:
    for name, library in libraries.items():
        write_c(library, tmp_path, name)
    (tmp_path / "main.c").write_text(
        '#include "mine.h"\n#include "my_kernels.h"\nstatic float a[8 * 100], b[8 * 100];\nint main(void) {'
        " return mine_softmax_shape_8_100_float32(a, b) || my_kernels_softmax_shape_8_100_float32(a, b)"
        " || b[0] != 0.01f; }\n"
    )
    command = ["gcc", "-Wall", str(tmp_path / "main.c"), *(str(tmp_path / f"lib{n}.a") for n in libraries), "-lm"]
    subprocess.run([*command, "-lpthread", "-o", str(tmp_path / "main")], check=True)
    subprocess.run([str(tmp_path / "main")], check=True)


def test_exporting_again_gives_the_same_bytes(
    libraries: dict[str, CLibrary], opened: Bundle, chosen: list[Function], tmp_path: Path
) -> None:
    first, second = libraries["mine"], build_c(opened, chosen, "mine", check=False)
    assert first == replace(second, checked=first.checked)
    one = write_wheel(first, chosen, tmp_path / "one", "mine", "1.0")
    two = write_wheel(second, chosen, tmp_path / "two", "mine", "1.0")
    assert one.read_bytes() == two.read_bytes()


def test_a_wheel_of_two_threads_computes_right(opened: Bundle, tmp_path: Path) -> None:
    two = functions(choose(kernels(opened), None, None, 2))
    wheel = write_wheel(build_c(opened, two, "pair"), two, tmp_path, "pair", "1.0")
    called(
        wheel, tmp_path / "site", "import pair\na = np.eye(96, dtype=np.float32)\nassert (pair.matmul(a, a) == a).all()"
    )


def called(wheel: Path, site: Path, program: str) -> None:
    """Install a wheel into a folder, and run a program that has it and numpy, and no Tilewright."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(command, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    numpy = Path(np.__file__).parents[1]
    head = f"import sys\nsys.path[:0] = [{str(site)!r}]\nsys.path.append({str(numpy)!r})\nimport numpy as np\n"
    tail = "\nassert not any(m.split('.')[0] in ('tilewright', 'cryptography') for m in sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", head + program + tail], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_wheel_needs_numpy_alone(libraries: dict[str, CLibrary], chosen: list[Function], tmp_path: Path) -> None:
    wheel = write_wheel(libraries["my_kernels"], chosen, tmp_path, "my_kernels", "1.2")
    assert wheel.name.startswith("my_kernels-1.2-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        record = {
            r[0]: r[1:] for r in csv.reader(io.StringIO(archive.read("my_kernels-1.2.dist-info/RECORD").decode()))
        }
        assert set(record) == set(archive.namelist())
        for name, (digest, size) in record.items():
            if not name.endswith("RECORD"):
                data = archive.read(name)
                assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip(
                    "="
                )
                assert int(size) == len(data)
    np.savez(tmp_path / "given.npz", a=A, b=B)
    program = f"""
import my_kernels
given = np.load({str(tmp_path / "given.npz")!r})
a, b = given["a"], given["b"]
want = a.astype(np.float64) @ b
def close(x, y=want):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
def refused(kind, f, *args, **keywords):
    try:
        f(*args, **keywords)
    except kind as e:
        return str(e)
    raise AssertionError("not refused")
close(my_kernels.matmul(a, b))
close(my_kernels.matmul(a, np.ascontiguousarray(b.T), trans_b=True))
out = np.empty((24, 48), np.float32)
kernel = my_kernels.KERNELS["matmul_m24_n48_k32_float32"]
assert kernel(a, b, out=out) is out
close(out)
constant = my_kernels.KERNELS["matmul_m24_n48_k32_constant_b_float32"]
assert constant.constants == ("b",)
close(constant(a, b))
bound = constant.bind(b=b)
close(bound(a)); close(bound(a, out=out)); close(out)
x = np.random.default_rng(1).standard_normal((8, 100)).astype(np.float32)
close(my_kernels.softmax(x), np.exp(x) / np.exp(x).sum(1, keepdims=True))
half = my_kernels.KERNELS["matmul_m24_n48_k32_bfloat16"]
bits = lambda v: (v.view(np.uint32) >> 16).astype(np.uint16)
value = lambda v: (v.astype(np.uint32) << 16).view(np.float32)
got = value(half(bits(a), bits(b)))
np.testing.assert_allclose(got, value(bits(a)) @ value(bits(b)), rtol=2e-2, atol=2e-2)
about = 'matmul(a (24, 32) float32, b (32, 48) float32): KERNELS["matmul_m24_n48_k32_float32"]'
assert about in my_kernels.__doc__ and "trans_b=True" in my_kernels.__doc__
assert "no kernel of matmul takes" in refused(LookupError, my_kernels.matmul, a, a)
assert "dtype float64" in refused(TypeError, kernel, a.astype(np.float64), b)
assert "shape (24, 48)" in refused(ValueError, kernel, out, b)
assert "not dense" in refused(ValueError, kernel, np.asfortranarray(a), b)
assert "takes 2 arrays" in refused(TypeError, kernel, a)
assert "is not an array" in refused(TypeError, kernel, a.tolist(), b)
assert "overlaps" in refused(ValueError, my_kernels.KERNELS["softmax_shape_8_100_float32"], x, out=x)
assert "bind needs b" in refused(TypeError, constant.bind, a=a)
out.flags.writeable = False
assert "cannot be written" in refused(ValueError, kernel, a, b, out=out)
import threading
errors = []
def many():
    for _ in range(200):
        try:
            close(kernel(a, b))
        except Exception as e:
            errors.append(e)
threads = [threading.Thread(target=many) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not errors, errors
"""
    called(wheel, tmp_path / "site", program)


def test_what_goes_together(opened: Bundle) -> None:
    found = kernels(opened)
    with pytest.raises(UsageError, match=r"holds kernels for .* with 1 thread, .* with 2 threads. Choose one with"):
        choose(found, None, None, None)
    with pytest.raises(UsageError, match="holds no such kernel"):
        choose(found, "conv2d", None, None)
    with pytest.raises(UsageError, match="holds no such kernel"):
        choose(found, None, "cpu:nothing", None)
    assert len(choose(found, "softmax", None, None)) == 1
    assert len(choose(found, None, found[0].entry.target.name, 2)) == 1


def test_sizes_that_are_not_fixed(opened: Bundle) -> None:
    (kernel,) = choose(kernels(opened), "softmax", None, None)
    spec = replace(kernel.entry.outputs[0], shape=("1..8", 100))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="serves a range of sizes"):
        functions([Kernel(replace(kernel.entry, outputs=(spec,)), kernel.row)])


@pytest.mark.parametrize("name", ["a-b", "1a", "", "Mine", "é"])
def test_names_that_are_none(opened: Bundle, chosen: list[Function], name: str) -> None:
    with pytest.raises(UsageError, match="is not a library's name"):
        build_c(opened, chosen, name)


def test_code_that_is_not_right_is_not_exported(opened: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another compiler might make it of the same source."""
    from tilewright.bundles.export import library

    def wrong(bundle: Bundle, kernel: Kernel) -> str:
        head, _, tail = source_of(bundle, kernel).rpartition("return 0;")
        return f"{head}((float *)tensors[1])[0] += 1; return 0;{tail}"

    softmax = functions(choose(kernels(opened), "softmax", None, None))
    monkeypatch.setattr(library, "source_of", wrong)
    with pytest.raises(TilewrightError, match=r"^softmax shape=8,100, compiled by .*, is not right: wrong_result"):
        build_c(opened, softmax, "mine")
    monkeypatch.setattr(library, "source_of", lambda b, k: f"no C++ {k.entry.program.launches[0].symbol}")
    with pytest.raises(TilewrightError, match="error"):
        build_c(opened, softmax, "mine")
    monkeypatch.setattr(library, "source_of", lambda b, k: "int another;")
    with pytest.raises(TilewrightError, match=r"the stored source of softmax shape=8,100 has no function tw_"):
        build_c(opened, softmax, "mine")

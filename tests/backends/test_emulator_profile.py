"""What the profile counts, on kernels so small that the counts are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import SIZE, compiled, line_of, numbers, perform, unit

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.emulator import EmulatedKernel, build, run
from tilewright.core import Launch, LaunchProgram

PACK = "tw::pack<float, {n}>"
# name -> (body, access, requests, cost, ideal): 8 warps, one request each unless the body says more.
ACCESSES: dict[str, tuple[str, str, int, int, int]] = {
    "coalesced": ("out[i] = tw::load_global<float>(x0 + i); // HERE", "global_load", 8, 32, 32),
    "strided": ("out[i] = tw::load_global<float>(x0 + i / 128 * 128 + i * 2 % 128); // HERE", "global_load", 8, 64, 32),
    "broadcast": ("out[i] = tw::load_global<float>(x0 + i / 32); // HERE", "global_load", 8, 8, 8),
    "shifted": ("out[i] = tw::load_global<float>(x0 + (i + 1) % n); // HERE", "global_load", 8, 40, 32),
    "wide_load": (
        "out[i] = tw::load_global<tw::pack<float, 4>>(x0 + i * 4 % n).v[0]; // HERE", "global_load", 8, 128, 128,
    ),
    "half_of_the_lanes": (
        "out[i] = 0; if (t % 2) out[i] = tw::load_global<float>(x0 + i); // HERE", "global_load", 8, 32, 16,
    ),
    "wide_store": (
        "tw::pack<float, 2> p = {{x0[i], 0}};\nif (i < 128) tw::store_global(out + 2 * i, p); // HERE",
        "global_store", 4, 32, 32,
    ),
    "in_a_loop": (
        "float v = 0;\nfor (int k = 0; k < 3; k++) v += tw::load_global<float>(x0 + (i + k * 32) % n); // HERE\nout[i] = v;",
        "global_load", 24, 96, 96,
    ),
    "free": ("tw::store_shared(s + t, x0[i]); // HERE\ntw::sync(); out[i] = s[t];", "shared_store", 8, 8, 8),
    "same_word": ("tw::store_shared(s, x0[i]);\ntw::sync(); out[i] = tw::load_shared<float>(s); // HERE", "shared_load", 8, 8, 8),
    "two_way": ("out[i] = 0; tw::store_shared(s + t * 2 % 128, x0[i]); // HERE", "shared_store", 8, 16, 8),
    "column": ("out[i] = 0; tw::store_shared(s + t % 4 * 32, x0[i]); // HERE", "shared_store", 8, 32, 8),
    "eight_bytes": ("out[i] = 0; tw::store_shared((double *)s + t, 1.0); // HERE", "shared_store", 8, 16, 16),
    "sixteen_bytes": (
        "tw::pack<float, 4> p = {}; out[i] = 0; tw::store_shared(s + t % 32 * 4, p); // HERE", "shared_store", 8, 32, 32,
    ),
    "sixteen_bytes_stride": (
        "tw::pack<float, 4> p = {}; out[i] = 0; tw::store_shared(s + t % 4 * 32, p); // HERE", "shared_store", 8, 128, 32,
    ),
    "one_byte": ("out[i] = 0; tw::store_shared((signed char *)s + t, (signed char)1); // HERE", "shared_store", 8, 8, 8),
    "copied": (
        "out[i] = 0; if (t < 32) tw::cp_async<16>(tw::shared_address(s) + 16 * t, x0 + 4 * t, 16); // HERE\n"
        "tw::cp_commit(); tw::cp_wait<0>();",
        "shared_store", 4, 16, 16,
    ),
}  # fmt: skip

MATRIX = """
TW_KERNEL(32, 1) void {name}(const float *x0, float *out, unsigned char *ws) {{
    TW_SHARED(smem);
    const int t = threadIdx.x, row = t % 16;
    for (int k = t; k < 1024; k += 32) tw::store_shared(smem + 4 * k, 0.0f);
    tw::sync();
    tw::u32 r[4], b[2] = {{0, 0}};
    float c[4] = {{}};
    tw::ldmatrix_x4(r, tw::shared_address(smem) + row * 128 + (({chunk}) * 16));
    tw::mma_f16(c, r, b);
    out[t] = c[0]; (void)x0; (void)ws;
}}
"""
PIPELINE = """
TW_KERNEL(32, 1) void {name}(const float *x0, float *out, unsigned char *ws) {{
    TW_SHARED(smem);
    const int t = threadIdx.x;
    const tw::u32 at = tw::shared_address(smem) + 4 * t;
    for (int k = 0; k < 2; k++) {{ {first} tw::cp_async<4>(at + k * 128, x0 + t); tw::cp_commit(); }}
    for (int k = 0; k < 8; k++) {{
        tw::cp_wait<1>();
        tw::sync();
        {guard} tw::cp_async<4>(at + (k + 2) % 3 * 128, x0 + t);
        tw::cp_commit();
    }}
    out[t] = 1; (void)ws;
}}
"""


@pytest.fixture(scope="module")
def folder(cache: ArtifactCache) -> Path:
    return cache.root


BODIES = {name: row[0] for name, row in ACCESSES.items()}


@pytest.fixture(scope="module")
def kernel(folder: Path) -> EmulatedKernel:
    return compiled(BODIES, folder, profile=True)


@pytest.mark.parametrize("name", ACCESSES)
def test_accesses_of_memory_are_counted(kernel: EmulatedKernel, name: str) -> None:
    _, access, requests, cost, ideal = ACCESSES[name]
    unit_ = "sectors" if access.startswith("global") else "wavefronts"
    expected = {"requests": requests, unit_: cost, f"ideal_{unit_}": ideal}
    for order in ("fifo", "lifo", "random:1"):
        report, _ = perform(kernel, name, order)
        assert report.ok, report.bugs
        assert report.profile["lines"][str(line_of(BODIES, name))][access] == expected, order
        if access.startswith("shared"):
            assert report.profile["bank_conflicts"] == cost - ideal
        assert report.profile["shared_bytes"] == 512


def test_copies_count_on_both_sides(kernel: EmulatedKernel) -> None:
    profile = perform(kernel, "copied")[0].profile
    assert profile["global_load"] == {"requests": 4, "sectors": 64, "ideal_sectors": 64}
    assert profile["shared_store"] == {"requests": 4, "wavefronts": 16, "ideal_wavefronts": 16}
    assert profile["lines"][str(line_of(BODIES, "copied") + 1)] == {"waits": SIZE, "idle_stages": 0}


def small(folder: Path, text: str, name: str) -> dict[str, Any]:
    kernel = build(unit({}) + text, [name], cache=folder, profile=True)
    output = np.empty(32, np.float32)
    program = LaunchProgram((Launch(name, (), (1,), (32,), 4096),))
    report = run(kernel, program, {}, [numbers(32)], output)
    assert report.ok, report.bugs
    return dict(report.profile)


def test_matrix_loads_are_counted(folder: Path) -> None:
    # 8 rows of 128 bytes: all in the same banks, or spread by exclusive or.
    bad = small(folder, MATRIX.format(name="bad", chunk="t / 16"), "bad")
    assert (bad["ldmatrix"], bad["mma"], bad["ldmatrix_conflicts"]) == (1, 1, 28)
    good = small(folder, MATRIX.format(name="good", chunk="(t / 16) ^ (row % 8)"), "good")
    assert (good["ldmatrix"], good["mma"], good["ldmatrix_conflicts"]) == (1, 1, 0)
    assert good["barriers"] == 1


def test_idle_stages_are_counted(folder: Path) -> None:
    # The tail, where nothing is left to copy, is no idle stage.
    full = small(folder, PIPELINE.format(name="full", first="", guard="if (k + 2 < 8)"), "full")
    assert (full["waits"], full["idle_stages"]) == (8 * 32, 0)
    # The second slot is not filled ahead: the first wait leaves an empty group under way.
    late = small(folder, PIPELINE.format(name="late", first="if (k == 0)", guard="if (k + 2 < 8)"), "late")
    assert late["idle_stages"] == 32
    # Every other round copies nothing.
    half = small(folder, PIPELINE.format(name="half", first="", guard="if (k % 2 && k + 2 < 8)"), "half")
    assert half["idle_stages"] == 3 * 32


def test_no_profile_unless_asked_for(folder: Path) -> None:
    assert not perform(compiled(BODIES, folder), "coalesced")[0].profile

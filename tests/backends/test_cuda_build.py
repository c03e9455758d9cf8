"""Cubins through the cache, and the static gate on what was compiled."""

from __future__ import annotations

import time
from hashlib import sha256
from pathlib import Path

import pytest
from cuda_kernels import SAXPY, SERIAL, SHARED, SPILLING, TWO, nvrtc

from tilewright.backends import limits
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import archs, build
from tilewright.backends.cuda.build import NvrtcToolchain
from tilewright.backends.cuda.nvrtc import Nvrtc
from tilewright.backends.toolchain import CompileError, Rejected
from tilewright.core import Launch, LaunchProgram, UsageError


@pytest.fixture
def cache(tmp_path: Path) -> ArtifactCache:
    return ArtifactCache(tmp_path)


def toolchain(cache: ArtifactCache, variant: str = "sm_90a") -> NvrtcToolchain:
    return NvrtcToolchain(archs.target(variant), cache, nvrtc())


def test_a_source_is_compiled_once(cache: ArtifactCache, monkeypatch: pytest.MonkeyPatch) -> None:
    t = toolchain(cache)
    first = t.compile(TWO, ["tw_contract_saxpy", "tw_shared"], 60.0)
    assert not first.cached
    assert sha256(Path(first.path).read_bytes()).hexdigest() == first.sha256
    monkeypatch.setattr(Nvrtc, "compile", None)  # a second compilation would fail
    again = toolchain(cache).compile(TWO, ["tw_contract_saxpy", "tw_shared"], 60.0)
    assert again.cached
    assert (again.path, again.sha256, again.resources) == (first.path, first.sha256, first.resources)


def test_resources_by_kernel(cache: ArtifactCache) -> None:
    found = {k: dict(v) for k, v in toolchain(cache).compile(TWO).resources.items()}
    assert set(found) == {"tw_contract_saxpy", "tw_shared"}
    assert list(found["tw_shared"]) == [
        "registers", "spill_bytes", "stack_bytes", "shared_bytes", "constant_bytes", "code_bytes", "max_threads",
    ]  # fmt: skip
    assert found["tw_shared"]["shared_bytes"] == 800
    assert found["tw_shared"]["max_threads"] == 128
    assert found["tw_contract_saxpy"]["spill_bytes"] == 0


def test_key_covers_source_options_and_architecture(cache: ArtifactCache) -> None:
    keys = {toolchain(cache, v).key(s) for v in ("sm_80", "sm_90a") for s in (SAXPY, SHARED)}
    assert len(keys) == 4
    other = toolchain(cache)
    other.flags = (*other.flags, "-DX=1")
    assert other.key(SAXPY) not in keys


@pytest.mark.parametrize(
    ("source", "symbol", "reason"), [(SPILLING, "tw_spill", "spills"), (SERIAL, "tw_serial", "assembler warning")]
)
def test_rejected_kernels_are_not_compiled_again(
    cache: ArtifactCache, monkeypatch: pytest.MonkeyPatch, source: str, symbol: str, reason: str
) -> None:
    t = toolchain(cache)
    for attempt in range(2):
        with pytest.raises(Rejected) as e:
            t.compile(source, [symbol], 60.0)
        assert e.value.reason == reason
        assert e.value.kind == "resources"
        if attempt == 0:
            monkeypatch.setattr(Nvrtc, "compile", None)


def test_too_many_registers_for_the_block(cache: ArtifactCache) -> None:
    # Bounded by nothing, used with 1024 threads: the launch would fail.
    many = SPILLING.replace("__launch_bounds__(512, 2)", "")
    compiled = toolchain(cache).compile(many)
    found = {**dict(compiled.resources["tw_spill"]), "max_threads": 1024}
    refused = build.refusal(found, (), archs.target("sm_90a"), "tw_spill")
    assert refused is not None
    assert refused.reason == "registers"


def test_a_kernel_that_is_not_there(cache: ArtifactCache) -> None:
    with pytest.raises(CompileError, match="no kernel tw_absent: tw_contract_saxpy"):
        toolchain(cache).compile(SAXPY, ["tw_absent"], 60.0)


def test_a_damaged_note_is_made_again(cache: ArtifactCache, tmp_path: Path) -> None:
    first = toolchain(cache).compile(SAXPY)
    for blob in (tmp_path / "v1" / "blobs").rglob("*.so"):
        if blob.stem != first.sha256:
            blob.write_bytes(b"{}")
    again = toolchain(cache).compile(SAXPY)
    assert (again.cached, again.sha256, again.resources) == (False, first.sha256, first.resources)
    assert toolchain(cache).compile(SAXPY).cached


def test_cpu_targets_are_refused() -> None:
    from tilewright.backends.cpu.targets import detect

    with pytest.raises(UsageError, match="NVRTC does not compile for cpu"):
        NvrtcToolchain(detect())


def test_the_gate_costs_next_to_nothing(cache: ArtifactCache) -> None:
    """Under 5% of compiling: here against the smallest kernel, so that it can only be less."""
    t = toolchain(cache)
    compiling, judging = [], []
    program = LaunchProgram((Launch("tw_shared", ("n",), grid=(["ceildiv", "n", 128],), block=(128,), shared=512),))
    for n in range(8):
        began = time.process_time()
        compiled = t.compile(f"// {n}\n{SHARED}", ["tw_shared"], 60.0)
        compiling.append(time.process_time() - began)
        began = time.process_time()
        limits.refusal(program, t.target)
        build.refusal(dict(compiled.resources["tw_shared"]), (), t.target, "tw_shared")
        judging.append(time.process_time() - began)
    assert sorted(judging)[4] < 0.05 * sorted(compiling)[4]

"""The static gate: what is refused, why, and that its arithmetic is right."""

from __future__ import annotations

import pytest

from tilewright.backends import limits
from tilewright.backends.cuda import archs, build, ptxas
from tilewright.core import IntExpr, Launch, LaunchProgram, Target

GOOD = Launch("k", ("n",), grid=(["ceildiv", "n", 128], 1), block=(128,), shared=49152)


def program(grid: tuple[IntExpr, ...] = (1,), block: tuple[int, ...] = (128,), shared: IntExpr = 0) -> LaunchProgram:
    return LaunchProgram((GOOD, Launch("k2", (), grid=grid, block=block, shared=shared)))


def target(variant: str = "sm_90a") -> Target:
    return archs.target(variant)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (program(block=(1025,)), "threads"),
        (program(block=(32, 32, 2)), "threads"),
        (program(block=(1, 1, 65)), "threads"),
        (program(block=()), "threads"),
        (program(block=(0,)), "threads"),
        (program(shared=227 * 1024 + 1), "shared memory"),
        (program(shared=-1), "shared memory"),
        (program(shared=["*", 64, 4096]), "shared memory"),
        (program(grid=(1, 65536)), "grid"),
        (program(grid=(1, 1, 65536)), "grid"),
        (program(grid=(1 << 31,)), "grid"),
        (program(grid=(0,)), "grid"),
    ],
)
def test_refused_before_compiling(wrong: LaunchProgram, reason: str) -> None:
    refused = limits.refusal(wrong, target())
    assert refused is not None
    assert refused.reason == reason
    assert refused.startswith(f"{reason}: ")
    assert "\n" not in refused


@pytest.mark.parametrize(
    "right",
    [
        program(block=(1024,)), program(block=(16, 1, 64)), program(shared=227 * 1024), program(grid=(1, 65535, 65535)),
        program(grid=((1 << 31) - 1,)), program(grid=("later",)),
    ],
)  # fmt: skip
def test_let_through_at_the_limit(right: LaunchProgram) -> None:
    assert limits.refusal(right, target()) is None


def test_limits_are_the_targets() -> None:
    wide = program(shared=120 * 1024)
    assert limits.refusal(wide, target("sm_80")) is None
    assert limits.refusal(wide, target("sm_86")) is not None


def test_sizes_that_depend_on_the_launch() -> None:
    depends = program(grid=("blocks",), shared=["*", "stages", 40000])
    assert limits.refusal(depends, target()) is None
    assert limits.refusal(depends, target(), {"n": 1, "blocks": 4, "stages": 5}) is None
    for values, reason in (({"stages": 6}, "shared memory"), ({"blocks": 0}, "grid")):
        refused = limits.refusal(depends, target(), values)
        assert refused is not None
        assert refused.reason == reason


def resources(**changed: int) -> dict[str, int]:
    plain = {"registers": 128, "spill_bytes": 0, "stack_bytes": 0, "shared_bytes": 0, "max_threads": 512}
    return {**plain, **changed}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (resources(spill_bytes=4), "spills"),
        (resources(registers=129), "registers"),  # given out in steps of 8: 136
        (resources(max_threads=513), "registers"),  # 17 warps
        (resources(shared_bytes=227 * 1024 + 16), "shared memory"),
    ],
)
def test_refused_after_compiling(found: dict[str, int], reason: str) -> None:
    refused = build.refusal(found, (), target(), "k")
    assert refused is not None
    assert refused.reason == reason
    assert build.refusal(resources(), (), target(), "k") is None
    assert build.refusal(resources(registers=255, max_threads=0), (), target(), "k") is None  # unbounded: not known


def test_warnings_count_for_their_own_kernel() -> None:
    slow = ptxas.Warning("C7510", "wgmma.mma_async instructions are serialized in the function 'k'", "k")
    other = ptxas.Warning("C7517", "wgmma.wait_group is injected", "k")
    refused = build.refusal(resources(), (other, slow), target(), "k")
    assert refused is not None
    assert refused.reason == "assembler warning"
    assert "C7510" in refused
    assert build.refusal(resources(), (slow,), target(), "k2") is None
    assert build.refusal(resources(), (other,), target(), "k") is None

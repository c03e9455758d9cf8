"""A builder: real compilers, for targets that this machine does not have, and what it turns down."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.farm import SimulatedFarm
from tilewright.backends import parse_target
from tilewright.backends.cache import ArtifactCache
from tilewright.core import Candidate, Task, TilewrightError
from tilewright.farm.client import Farm
from tilewright.farm.jobs import plain
from tilewright.farm.link import Endpoint
from tilewright.farm.remote import FarmToolchain
from tilewright.farm.workers.builder import Builder, known_target, offers
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, lower
from tilewright.kernels.templates.base import LoweredKernel


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    folder = tmp_path_factory.mktemp("builder")
    return Builder(Endpoint("tcp://127.0.0.1:1", None, "builder"), "b", ArtifactCache(folder))


def kernel(target: str) -> LoweredKernel:
    task = Task(get_operator("matmul").workload(m=32, n=32, k=32), parse_target(target, allow_foreign=True))
    return lower(Candidate(task, default_schedule(task)))


def request(target: str, **other: Any) -> dict[str, Any]:
    k = kernel(target)
    symbols = [s.symbol for s in k.program.launches]
    parsed = parse_target(target, allow_foreign=True)
    return {
        "target": plain(parsed.to_json()), "emulated": False, "source": k.source, "symbols": symbols,
        "deadline": 60.0, **other,
    }  # fmt: skip


@pytest.mark.parametrize(
    "target",
    [
        "cpu:portable", "cpu:avx2", pytest.param("cpu:neon", marks=pytest.mark.needs("aarch64-linux-gnu-g++")),
        "cuda:sm_80", "cuda:sm_90a", "cuda:sm_120",
    ],
)  # fmt: skip
def test_a_builder_compiles_for_other_machines(builder: Builder, target: str) -> None:
    if target.startswith("cuda") and not any(p.startswith("build:cuda") for p in offers()):
        pytest.skip("no NVRTC")
    reply = builder.execute(request(target), {})
    assert "error" not in reply.result, reply.result
    (data,) = reply.data
    assert hashlib.sha256(data).hexdigest() == reply.result["sha256"]
    assert data[:4] == b"\x7fELF"
    if target.startswith("cuda"):
        (resources,) = reply.result["resources"].values()
        assert resources["registers"] > 0


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"source": '#include "/etc/passwd"\n'}, "source", "include"),
        ({"source": "int x = ;"}, "compile", "error"),
        ({"source": "int x = " + "(" * 2000}, "source", "line 1: ( at column 1009 is nested over the limit of 1000"),
        ({"symbols": ["-o"]}, "source", "symbol"),
        ({"target": {"isa": ["avx2", "plugin=/tmp/evil.so"]}}, "usage", "means something else"),
        ({"target": {"variant": "none"}}, "usage", "none"),
    ],
)
def test_what_it_turns_down(builder: Builder, change: dict[str, Any], kind: str, said: str) -> None:
    asked = request("cpu:avx2")
    for name, value in change.items():
        asked[name] = {**asked[name], **value} if isinstance(value, dict) else value
    try:
        error = builder.execute(asked, {}).result["error"]
    except TilewrightError as e:
        error = {"kind": e.kind, "message": e.message}
    assert error["kind"] == kind
    assert said in error["message"]


def test_a_source_that_ends_the_compiler_leaves_the_builder(builder: Builder) -> None:
    if not any(p.startswith("build:cuda") for p in offers()):
        pytest.skip("no NVRTC")
    reply = builder.execute(request("cuda:sm_90a", source=f"TW_DEVICE int f() {{ return {'~' * 400_000}1; }}"), {})
    assert reply.result["error"]["kind"] == "compile"
    assert "was killed by SIGSEGV" in reply.result["error"]["message"]
    assert (reply.strike, reply.again) == ("", False)  # the source's fault: no other builder tries it
    slow = f"TW_DEVICE int f(int a) {{ return {'a + ' * 100_000}a; }}"
    reply = builder.execute(request("cuda:sm_90a", source=slow, deadline=0.2), {})
    assert "took more than 0.2 s and was stopped" in reply.result["error"]["message"]
    assert (reply.strike, reply.again) == ("", False)
    assert "error" not in builder.execute(request("cuda:sm_90a"), {}).result


def test_flags_follow_from_the_name_of_a_target_alone() -> None:
    own = parse_target("cpu:avx2")
    assert known_target(own).key == own.key
    with pytest.raises(TilewrightError, match="means something else"):
        known_target(replace(own, isa=("avx2", "x")))


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path / "farm", []) as f:
        yield f


def test_a_client_compiles_what_no_builder_takes(farm: SimulatedFarm, tmp_path: Path) -> None:
    """Without a builder, and for sources that builders refuse, the code is made here and brought to the farm."""
    target = parse_target("cpu:portable")
    with Farm(farm.address) as client:
        cache = ArtifactCache(tmp_path / "client")
        toolchain = FarmToolchain(client, target, cache)
        k = kernel("cpu:portable")
        done = toolchain.compile(f"{prelude(target)}\n{k.source}", [k.symbol], 60.0)
        assert hashlib.sha256(Path(done.path).read_bytes()).hexdigest() == done.sha256
        assert client.get(done.sha256) == Path(done.path).read_bytes()


def test_code_is_fetched_once_and_restored_from_here(farm: SimulatedFarm, tmp_path: Path) -> None:
    target = parse_target("cpu:portable")
    with Farm(farm.address) as client:
        toolchain = FarmToolchain(client, target, ArtifactCache(tmp_path / "client"))
        name = client.put(b"some code")
        toolchain.fetch(name)
        assert toolchain.cache.path(name).read_bytes() == b"some code"
        farm.call(farm.lose_artifacts())
        toolchain.restore(name)
        assert client.get(name) == b"some code"

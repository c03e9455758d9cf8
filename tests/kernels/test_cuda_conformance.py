"""The conformance suite on the emulator: against numpy, and against the recordings that a GPU must reproduce."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.backends import emulator
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, find_nvrtc
from tilewright.core import Launch, LaunchProgram, UsageError, Walk, tensor_map
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.primitives import PRIMITIVES
from tilewright.kernels.primitives.conformance import (
    Array,
    Case,
    cases,
    check_against,
    compare,
    load,
    make_case,
    record,
    save,
    unit,
)
from tilewright.kernels.primitives.primitive import Conformance, Primitive, words

GOLDEN = Path(__file__).parent.parent / "golden" / "conformance"
CASES = {c.name: c for c in cases()}
TOGETHER = 15  # cases of up to four tensors, of which a process takes 64
AS_LARGE = ("wgmma_bf16", "wgmma_e4m3", "wgmma_e5m2")
"""Products of elements as large as those of wgmma_f16 and wgmma_s8: of all that the thread sanitizer sees of them, which
memory is read and when, they are the same text."""
PRELUDE = prelude(archs.target("sm_90a"), emulated=True)  # the one that has them all


@cache
def recorded() -> dict[str, Any]:
    """The recordings by case: dozens of files, read once."""
    return dict(load(GOLDEN)["cases"])


@pytest.fixture(scope="module")
def kernel() -> emulator.EmulatedKernel:
    return emulator.build(PRELUDE + unit(cases()), [c.symbol for c in cases()])


def run(kernel: emulator.EmulatedKernel, case: Case) -> Array:
    output = case.output()
    report = emulator.run(kernel, case.program, {}, case.inputs, output)
    if report.unchecked:
        pytest.skip(report.unchecked)
    assert report.ok, report.bugs
    return output


def run_all(
    kernel: emulator.EmulatedKernel, order: str = "fifo", copies: str = "lazy", suite: Sequence[Case] = cases()
) -> dict[str, Any]:
    """A recording of the suite, whose kernels run after each other, as many in a process as it has room for tensors."""
    got = dict[str, Array]()
    for some in (suite[n : n + TOGETHER] for n in range(0, len(suite), TOGETHER)):
        inputs, outputs = [x for c in some for x in c.inputs], [c.output() for c in some]
        launches, first = list[Launch](), 0
        for number, case in enumerate(some):
            places = [*range(first, first + len(case.inputs)), len(inputs) + number]
            first += len(case.inputs)
            (launch,) = case.program.launches
            listed = launch.parameters or (*(("tensor", i) for i in range(len(places))), ("workspace", 0))
            launches.append(dataclasses.replace(launch, parameters=tuple(moved(p, places) for p in listed)))
        program = LaunchProgram(tuple(launches), align=16)
        report = emulator.run(kernel, program, {}, inputs, *outputs, order=order, copies=copies)
        if report.unchecked:
            pytest.skip(report.unchecked)
        assert report.ok, report.bugs
        got |= {c.name: out for c, out in zip(some, outputs, strict=True)}
    return record(lambda case: got[case.name], suite)


def moved(parameter: tuple[str, Any], places: list[int]) -> tuple[str, Any]:
    """A parameter of a kernel whose tensors are those at ``places`` of more."""
    kind, value = parameter
    if kind == "tensor_map":
        return kind, {**value, "of": ("tensor", places[value["of"][1]])}
    return kind, places[value] if kind == "tensor" else value


@pytest.mark.parametrize("name", CASES)
def test_meaning_agrees_with_numpy_and_the_recording(
    kernel: emulator.EmulatedKernel, name: str, update_golden: bool
) -> None:
    case = CASES[name]
    got = run(kernel, case)
    right = case.expected()
    if right is not None:
        assert not (difference := compare(case, got, right)), difference
    if not update_golden:
        lines = check_against({"cases": {name: recorded().get(name)}}, record(lambda _: got, [case]))
        assert not lines, lines[0]


@pytest.mark.parametrize(
    "sanitize", [pytest.param(("address", "undefined"), marks=pytest.mark.nightly), ("thread",)], ids="-".join
)
def test_the_suite_is_clean_under_sanitizers(sanitize: tuple[str, ...]) -> None:
    thread = "thread" in sanitize
    suite = [c for c in cases() if not (thread and c.primitive.name in AS_LARGE)]
    built = emulator.build(PRELUDE + unit(suite), [c.symbol for c in suite], sanitize=sanitize)
    if built.unchecked:
        pytest.skip(built.unchecked)
    golden = {name: right for name, right in recorded().items() if name in {c.name for c in suite}}
    assert check_against({"cases": golden}, run_all(built, suite=suite)) == ()


@pytest.mark.parametrize(("order", "copies"), [("lifo", "eager"), ("random:7", "lazy"), ("random:8", "eager")])
def test_every_order_gives_the_same(kernel: emulator.EmulatedKernel, order: str, copies: str) -> None:
    assert check_against(load(GOLDEN), run_all(kernel, order, copies)) == ()


def test_the_recordings_cover_the_suite_and_say_where_they_are_from(
    kernel: emulator.EmulatedKernel, update_golden: bool
) -> None:
    if update_golden:
        save(record(lambda case: run(kernel, case)), GOLDEN)
    golden = load(GOLDEN)
    assert golden["recorded_on"] == "emulator"
    assert set(golden["cases"]) == set(CASES)
    assert {p.stem for p in GOLDEN.iterdir()} == {p.name for p in PRIMITIVES}


# ----------------------------------------------------------------- the comparison can fail


def golden_of(case: Case) -> Array:
    data = load(GOLDEN)["cases"][case.name]
    return np.frombuffer(bytes.fromhex(data["hex"]), data["dtype"]).copy()


def test_one_bit_is_a_difference() -> None:
    case = CASES["ldmatrix/ldmatrix_x4"]
    golden = golden_of(case)
    got = golden.copy()
    got[77] ^= 1 << 16
    assert compare(case, golden, golden) == ""
    assert "1 of 128 values differ, the first at 77" in compare(case, got, golden)


def test_rounding_is_none_but_a_lost_product_is() -> None:
    case = CASES["mma_f16/random"]
    golden = golden_of(case)
    assert compare(case, np.nextafter(golden, np.float32(9)), golden) == ""
    x0, x1, x2 = case.inputs
    less = x0.copy()
    less[9] &= np.uint32(0xFFFF0000)  # one element of a
    assert case.spec.expected is not None
    assert "8 of 128 values differ" in compare(case, case.spec.expected(less, x1, x2), golden)


def test_special_values_must_keep_their_kind() -> None:
    case = CASES["mma_f16/special"]
    golden = golden_of(case)
    other_nan = np.where(np.isnan(golden), np.array(0xFFC00001, np.uint32).view(np.float32), golden)
    assert compare(case, other_nan.astype(np.float32), golden) == ""
    for value in (np.inf, -np.inf, np.nan):
        at = np.flatnonzero(np.isnan(golden) if np.isnan(value) else golden == value)
        assert len(at), value
        got = golden.copy()
        got[at[0]] = 1.0
        assert "differ" in compare(case, got, golden)
        assert "differ" in compare(case, golden, got)


def test_a_recording_of_another_shape_or_suite_is_refused() -> None:
    golden = load(GOLDEN)
    name = "sync/block"
    short = {"dtype": "uint32", "hex": golden["cases"][name]["hex"][:-8]}
    assert "uint32[191] instead of" in check_against(golden, {"cases": {**golden["cases"], name: short}})[0]
    without = {k: v for k, v in golden["cases"].items() if k != name}
    assert check_against(golden, {"cases": without}) == (f"{name}: only in the golden recording",)
    extra = {"cases": {**golden["cases"], "sync/later": golden["cases"][name]}}
    assert check_against(extra, extra) == ("sync/later: no longer in the suite",)


def test_recordings_of_two_devices_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no conformance recording"):
        load(tmp_path)
    suite = [CASES["sync/block"], CASES["shuffle/xor"]]
    recording = record(golden_of, suite, recorded_on="NVIDIA H200")
    assert len(save(recording, tmp_path)) == 2
    assert load(tmp_path) == recording
    path = tmp_path / "shuffle.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "recorded_on": "emulator"}))
    with pytest.raises(UsageError, match="recorded on"):
        load(tmp_path)


# ----------------------------------------------------------------- what the meanings refuse


SETUP = "    TW_SHARED(smem); tw::u32 s = tw::shared_address(smem); int t = threadIdx.x; out[t] = t; (void)s;\n"
FAULTS = {
    "cp_async source": ("    tw::cp_async<16>(s, x0 + 1); tw::cp_commit(); tw::cp_wait<0>();", "misaligned"),
    **{
        f"cp_async target of {size}": (
            f"    tw::cp_async<{size}>(s + {size // 2}, x0); tw::cp_commit(); tw::cp_wait<0>();", "misaligned",
        )
        for size in (4, 8, 16)
    },
    "cp_async outside": ("    tw::cp_async<4>(s + 256, x0); tw::cp_commit(); tw::cp_wait<0>();", "out_of_bounds_shared"),
    "cp_async too much": ("    tw::cp_async<4>(s, x0, 5); tw::cp_commit(); tw::cp_wait<0>();", "undefined"),
    "cp_async negative": ("    tw::cp_async<4>(s, x0, -1); tw::cp_commit(); tw::cp_wait<0>();", "undefined"),
    "ldmatrix row": ("    tw::u32 r[4]; tw::ldmatrix_x4(r, s + 8 * t);", "misaligned"),
    "ldmatrix outside": ("    tw::u32 r[4]; tw::ldmatrix_x4(r, s + 16 * t);", "out_of_bounds_shared"),
    "ldmatrix divergent": ("    tw::u32 r[2]; if (t < 31) tw::ldmatrix_x2(r, s);", "divergence"),
    "load_shared": ("    out[t] = tw::load_shared<tw::u32>(smem + 2);", "misaligned"),
    "load_shared of four": ("    out[t] = tw::load_shared<tw::pack<tw::u32, 4>>(smem + 8).v[0];", "misaligned"),
    "store_shared of two": ("    tw::store_shared(smem + 4, tw::pack<tw::u32, 2>{});", "misaligned"),
    "load_global of four": ("    out[t] = tw::load_global<tw::pack<tw::u32, 4>>(x0 + 2).v[0];", "misaligned"),
    "load_shared outside": ("    out[t] = tw::load_shared<tw::u32>(smem + 256);", "out_of_bounds_shared"),
    "store_global": ("    tw::store_global(out + 1, tw::pack<tw::u32, 4>{});", "misaligned"),
    "load_global outside": ("    out[t] = tw::load_global<tw::u32>(x0 + 64);", "out_of_bounds_global"),
    "shuffle divergent": ("    if (t % 2) out[t] = tw::shuffle_xor(t, 1);", "divergence"),
    "exchange divergent": ("    if (t % 2) out[t] = tw::exchange(t, 1);", "divergence"),
    "sync divergent": ("    if (t < 5) tw::sync();", "divergence"),
    "atomic_add": ("    tw::atomic_add((tw::u32 *)((char *)out + 2), 1u);", "misaligned"),
}  # fmt: skip

# With 128 threads, a barrier for one arrival, and 8 KiB from `base` on.
ASYNC = (
    "    TW_SHARED(smem); const tw::u32 base = (tw::shared_address(smem) + 1023) & ~1023u, bar = base + 8192; "
    "const int t = threadIdx.x; out[t] = t; if (t == 0) { tw::mbarrier_init(bar, 1); %s } tw::sync();\n"
)
FENCED = ASYNC % "tw::mbarrier_fence();"
MULTIPLY = "float c[4] = {}; const tw::u64 d = tw::wgmma_operand(base, 0, 1024); "
ASYNC_FAULTS = {
    "mbarrier unfenced": (ASYNC % "", "    tw::mbarrier_wait(bar, 1);", "undefined"),
    "mbarrier unaligned": (FENCED, "    if (t == 0) tw::mbarrier_init(bar - 4, 1);", "misaligned"),
    "mbarrier wait unaligned": (FENCED, "    tw::mbarrier_wait(bar - 4, 1);", "misaligned"),
    "mbarrier arrival unaligned": (FENCED, "    tw::mbarrier_arrive(bar - 4);", "misaligned"),
    "mbarrier nowhere": (FENCED, "    tw::mbarrier_arrive(base);", "undefined"),
    "mbarrier twice": (
        FENCED, "    if (t == 0) { tw::mbarrier_expect(bar, 16); tw::mbarrier_arrive(bar); }", "undefined",
    ),
    "mbarrier overwritten": (
        FENCED, "    if (t == 0) { tw::store_shared(smem + (bar - tw::shared_address(smem)), 5u); tw::mbarrier_wait(bar, 1); }",
        "undefined",
    ),
    "mbarrier never": (FENCED, "    tw::mbarrier_wait(bar, 0);", "deadlock"),
    "mbarrier too few bytes": (
        FENCED,
        "    if (t == 0) { tw::mbarrier_expect(bar, 4096); tw::tma_load_2d(base, map0, bar, 0, 0); } tw::mbarrier_wait(bar, 0);",
        "deadlock",
    ),
    "tma unaligned": (
        FENCED, "    if (t == 0) { tw::mbarrier_expect(bar, 2048); tw::tma_load_2d(base + 128, map0, bar, 0, 0); }", "misaligned",
    ),
    "tma of pixels unaligned": (FENCED, "    if (t == 0) tw::tma_im2col_3d(base + 64, map1, bar, 0, -1, 0, 0);", "misaligned"),
    "tma store unaligned": (FENCED, "    if (t == 0) tw::tma_store_2d(map0, base + 512, 0, 0);", "misaligned"),
    "tma outside": (
        FENCED, "    if (t == 0) { tw::mbarrier_expect(bar, 2048); tw::tma_load_2d(base + 8192, map0, bar, 0, 0); }",
        "out_of_bounds_shared",
    ),
    "tma before": (
        FENCED, "    if (t == 0) { tw::tma_store_2d(map0, base, 0, -1); tw::tma_commit(); tw::tma_wait<0>(); }", "undefined",
    ),
    "tma rank": (
        FENCED, "    if (t == 0) { tw::mbarrier_expect(bar, 2048); tw::tma_load_3d(base, map0, bar, 0, 0, 0); }", "undefined",
    ),
    "tma not awaited": (
        FENCED, "    if (t == 0) { tw::mbarrier_expect(bar, 2048); tw::tma_load_2d(base, map0, bar, 0, 0); }",
        "exit_with_pending_copies",
    ),
    "wgmma unfenced": (FENCED, f"    {MULTIPLY}tw::wgmma_bf16<0, 0>(c, d, d, 0);", "undefined"),
    "wgmma unfenced again": (
        FENCED,
        f"    {MULTIPLY}tw::wgmma_fence(); tw::wgmma_bf16<0, 0>(c, d, d, 0); tw::wgmma_commit(); tw::wgmma_wait<0>(); "
        "tw::wgmma_bf16<0, 0>(c, d, d, 1);",
        "undefined",
    ),
    "wgmma layout": (FENCED, f"    {MULTIPLY}tw::wgmma_fence(); tw::wgmma_bf16<0, 0>(c, d & ~(3ull << 62), d, 0);", "undefined"),
    "wgmma base": (FENCED, f"    {MULTIPLY}tw::wgmma_fence(); tw::wgmma_bf16<0, 0>(c, d + 8, d, 0);", "misaligned"),
    "wgmma divergent": (FENCED, f"    {MULTIPLY}if (t < 96) tw::wgmma_fence(); (void)c; (void)d;", "deadlock"),
    "registers": (FENCED, "    tw::more_registers<100>();", "undefined"),
    "box of pixels": (FENCED, "    if (t == 0) tw::tma_load_3d(base, map1, bar, 0, -1, 0);", "undefined"),
    "pixel between": (FENCED, "    if (t == 0) tw::tma_im2col_3d(base, map1, bar, 0, 0, 0, 0);", "undefined"),
    "pixel outside": (FENCED, "    if (t == 0) tw::tma_im2col_3d(base, map1, bar, 0, 9, 0, 0);", "undefined"),
    "pixels of a box": (FENCED, "    if (t == 0) tw::tma_im2col_3d(base, map0, bar, 0, 0, 0, 0);", "undefined"),
    "far tap": (FENCED, "    if (t == 0) tw::tma_im2col_4d(base, map2, bar, 0, 0, 0, 0, 256, 0);", "undefined"),
}  # fmt: skip

# The same in each of two blocks, of one cluster.
MEET = "tw::cluster_arrive(); tw::cluster_wait();"
CLUSTERED = FENCED.replace("tw::sync();", f"{MEET} const int rank = (int)tw::cluster_rank(); (void)rank;")
CLUSTER_FAULTS = {
    "cluster twice": (CLUSTERED, "    tw::cluster_arrive(); tw::cluster_arrive();", "undefined"),
    "cluster arrival unaligned": (
        CLUSTERED, f"    tw::mbarrier_arrive_cluster(tw::cluster_address(bar - 4, 1 - rank)); {MEET}", "misaligned",
    ),
    "cluster not come": (CLUSTERED, "    tw::cluster_wait();", "undefined"),
    "cluster not all": (CLUSTERED, f"    if (t < 64 || rank) {{ {MEET} }}", "deadlock"),
    "cluster nobody": (CLUSTERED, "    tw::cluster_address(bar, 2);", "undefined"),
    "cluster not made": (
        FENCED, "    if (t == 0) tw::mbarrier_arrive_cluster(tw::cluster_address(bar, 1 - tw::cluster_rank()));", "undefined",
    ),
    "cluster gone": (
        CLUSTERED, "    if (rank == 1 && t == 0) tw::mbarrier_arrive_cluster(tw::cluster_address(bar, 0));", "undefined",
    ),
    "cluster met, not told": (
        CLUSTERED,
        f"    if (rank == 1 && t == 0) tw::mbarrier_arrive_cluster(tw::cluster_address(bar, 0)); {MEET}",
        "undefined",
    ),
    "multicast to nobody": (
        CLUSTERED, "    if (t == 0) tw::tma_multicast_2d(base, map0, bar, 5, 0, 0);", "undefined",
    ),
    "multicast not announced": (
        CLUSTERED,
        "    if (t == 0 && rank == 0) { tw::mbarrier_expect(bar, 2048); tw::tma_multicast_2d(base, map0, bar, 3, 0, 0); } "
        "tw::mbarrier_wait(bar, 0);",
        "deadlock",
    ),
    "multicast not awaited": (
        CLUSTERED,
        f"    if (t == 0 && rank == 1) tw::tma_multicast_2d(base, map0, bar, 1, 0, 0); {MEET}",
        "exit_with_pending_copies",
    ),
}  # fmt: skip


def faulty(what: str) -> Case:
    if what in FAULTS:
        body, more = SETUP + FAULTS[what][0], Conformance("", "", tuple, "uint32", 64, shared=256)
    else:
        blocks = 2 if what in CLUSTER_FAULTS else 1
        body = "".join((ASYNC_FAULTS | CLUSTER_FAULTS)[what][:2])
        matrix = tensor_map(("tensor", 0), 4, (4, 16), (16,), (32, 16), 128)
        line = tensor_map(("tensor", 0), 4, (4, 8, 2), (16, 128), (4, 8), 0, Walk((-1,), (0,), (2,)))
        image = tensor_map(("tensor", 0), 4, (4, 4, 2, 2), (16, 64, 128), (4, 8), 0, Walk((0, 0), (0, 0), (1, 1)))
        more = Conformance(
            "", "", tuple, "uint32", 128, threads=128, shared=8192 + 1024 + 8, maps=(matrix, line, image),
            blocks=blocks, cluster=blocks,
        )  # fmt: skip
    spec = dataclasses.replace(
        more, name=re.sub(r"\W", "_", what), body=body, inputs=lambda: (np.zeros(64, np.uint32),)
    )  # fmt: skip
    return make_case(dataclasses.replace(PRIMITIVES[0], name="faulty"), spec)


EVERY_FAULT = {what: x[-1] for what, x in (FAULTS | ASYNC_FAULTS | CLUSTER_FAULTS).items()}


@pytest.fixture(scope="module")
def faults() -> emulator.EmulatedKernel:
    wrong = [faulty(what) for what in EVERY_FAULT]
    return emulator.build(PRELUDE + unit(wrong), [c.symbol for c in wrong])


@pytest.mark.parametrize("what", EVERY_FAULT)
def test_misuse_is_a_bug_at_its_line(faults: emulator.EmulatedKernel, what: str) -> None:
    case = faulty(what)
    report = emulator.run(faults, case.program, {}, case.inputs, case.output())
    assert not report.ok
    first = report.bugs[0]
    assert (first.kind, first.line) == (EVERY_FAULT[what], 3), first.message


def test_a_grid_is_whole_clusters() -> None:
    spec = Conformance("odd", SETUP, lambda: (np.zeros(64, np.uint32),), "uint32", 64, blocks=3, cluster=2, shared=256)
    case = make_case(dataclasses.replace(PRIMITIVES[0], name="odd"), spec)
    kernel = emulator.build(PRELUDE + case.source, [case.symbol])
    [bug] = emulator.run(kernel, case.program, {}, case.inputs, case.output()).bugs
    assert bug.kind == "launch"
    assert "no whole number of clusters" in bug.message


def test_registers_of_unread_lanes_do_not_matter() -> None:
    # Only the first 16 lanes' addresses count in ldmatrix_x2.
    body = SETUP + "    tw::store_shared(smem + 4 * t, 5u); tw::sync(); tw::u32 r[2];\n"
    body += "    tw::ldmatrix_x2(r, t < 16 ? s + t % 8 * 16 : 999u); out[t] = r[0];"
    spec = Conformance("lanes", body, lambda: (np.zeros(64, np.uint32),), "uint32", 32, shared=256)
    case = make_case(dataclasses.replace(PRIMITIVES[0], name="lanes"), spec)
    got = run(emulator.build(PRELUDE + case.source, [case.symbol]), case)
    assert (got == 5).all()


def test_the_documented_primitive_works() -> None:
    text = (Path(__file__).parents[2] / "docs" / "howto" / "primitive.md").read_text(encoding="utf-8")
    names = {"Primitive": Primitive, "Conformance": Conformance, "words": words, "np": np}
    exec(text.split("```python\n")[1].split("```")[0], names)
    primitive = names["PRIMITIVE"]
    assert isinstance(primitive, Primitive)
    case = make_case(primitive, primitive.conformance[0])
    emulated = f"{PRELUDE}namespace tw {{{primitive.emulated}}}\n"
    got = run(emulator.build(emulated + case.source, [case.symbol]), case)
    right = case.expected()
    assert right is not None
    assert compare(case, got, right) == ""
    target = archs.target("sm_80")
    try:
        nvrtc = find_nvrtc(target.variant)
    except NoNvrtc:
        return
    cubin, _ = nvrtc.compile(f"{prelude(target)}namespace tw {{{primitive.ptx}}}\n{case.source}", flags(target))
    assert case.symbol.encode() in cubin

"""Machine code: what a listing says of instructions and loops, and what bounds a kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.backends.cuda import archs, sass, tools
from tilewright.backends.cuda.bound import Work, bound, estimate, loop_cycles
from tilewright.backends.cuda.sass import Code, Instruction, NoDisassembler, bank_reads, classes, parse
from tilewright.core import TilewrightError

LISTING = """
\t.target\tsm_80
.text.product:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDSM.16.M88.4 R4, [R2] ;
        /*0020*/                   HMMA.16816.F32.BF16 R4, R132.reuse, R136, R4 ;
        /*0030*/                   HMMA.16816.F32.BF16 R8, R132, R138, R8 ;
.L_x_2:
        /*0040*/              @!P2 LDGSTS.E.BYPASS.128 [R9], [R10.64] ;
        /*0050*/                   IMAD.MOV.U32 R7, RZ, RZ, c[0x0][0x180] ;
        /*0060*/               @P1 BRA `(.L_x_2) ;
        /*0070*/               @P0 BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
.text.other:
.L_x_3:
        /*0000*/                   FFMA R1, R2, R3, R1 ;
        /*0010*/                   BRA `(.L_x_3) ;
"""


def code(*opcodes: str) -> Code:
    return Code("f", tuple(Instruction(x) for x in opcodes))


def test_kernels_instructions_and_loops_of_a_listing() -> None:
    found = parse(LISTING)
    assert list(found) == ["product", "other"]
    product = found["product"]
    assert len(product.instructions) == 9
    assert product.loops == ((1, 7), (4, 6))
    assert [x.opcode.split(".")[0] for x in product.main_loop] == [
        "LDSM", "HMMA", "HMMA", "LDGSTS", "IMAD", "BRA", "BRA",
    ]  # fmt: skip
    assert classes(product.main_loop) == {"tensor": 2, "branch": 2, "shared": 1, "copy": 1, "move": 1}
    assert found["other"].main_loop[0].multiply_adds == 32


GROUPS = """
.text.product:
        /*0000*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8].tnspA, RZ, !UPT ;
        /*0010*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR20].tnspA, R24, gsb0 ;
        /*0020*/                   HGMMA.64x8x16.F32.BF16 R40, gdesc[UR8], RZ, !UPT, gsb0 ;
        /*0030*/                   {first} ;
        /*0040*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0050*/                   {second} ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0070*/                   F2FP.BF16.F32.PACK_AB R8, R41, R40 ;
        /*0080*/                   EXIT ;
"""


@pytest.mark.parametrize(
    ("first", "second", "hasty"),
    [
        ("IADD3 R23, R32, 0x1, RZ", "F2FP.BF16.F32.PACK_AB R8, R25, R24", []),
        ("F2FP.BF16.F32.PACK_AB R8, R31, R30", "NOP", ["F2FP.BF16.F32.PACK_AB"]),
        ("NOP", "MOV R43, RZ", ["MOV"]),
    ],
)
def test_sums_that_are_not_there_yet(first: str, second: str, hasty: list[str]) -> None:
    product = parse(GROUPS.format(first=first, second=second))["product"]
    assert [x.opcode for x in product.hasty] == hasty


def test_a_kernel_without_loops_is_its_own_main_loop() -> None:
    assert len(code("FADD", "STG.E.128", "EXIT").main_loop) == 3
    assert parse("") == {}
    assert parse("nothing of this kind\n") == {}


@pytest.mark.parametrize(
    ("opcode", "kind", "unit", "work"),
    [
        ("HMMA.16816.F32", "tensor", "fp16", 16 * 8 * 16),
        ("HMMA.1688.F32.TF32", "tensor", "tf32", 16 * 8 * 8),
        ("IMMA.16832.S8.S8.SAT", "tensor", "int8", 16 * 8 * 32),
        ("HGMMA.64x256x16.F32.BF16", "tensor", "fp16", 64 * 256 * 16 // 4),
        ("QGMMA.64x128x32.F32.E4M3.E4M3", "tensor", "int8", 64 * 128 * 32 // 4),
        ("DMMA.884", "tensor", "fp64_tensor", 8 * 8 * 4),
        ("DMMA.16x8x8", "tensor", "fp64_tensor", 16 * 8 * 8),
        ("FFMA", "float", "fp32", 32),
        ("DFMA", "float", "fp64", 32),
        ("IDP.4A.S8.S8", "integer", "dp4a", 128),
        ("MUFU.EX2", "special", "fp32", 0),
        ("IMAD.MOV.U32", "move", "fp32", 0),
        ("IMAD.WIDE", "integer", "fp32", 0),
        ("LDGDEPBAR", "barrier", "fp32", 0),
        ("LDG.E.128.CONSTANT", "global", "fp32", 0),
        ("LDL", "local", "fp32", 0),
        ("UTMALDG.2D", "copy", "fp32", 0),
        ("NEWTHING.X", "other", "fp32", 0),
    ],
)
def test_what_an_instruction_is(opcode: str, kind: str, unit: str, work: int) -> None:
    x = Instruction(opcode)
    assert (x.kind, x.multiply_adds) == (kind, work)
    if work:
        assert x.unit == unit


@pytest.mark.parametrize(
    ("opcode", "operands", "passes", "loaded"),
    [
        ("LDSM.16.M88.4", "", 4, 0),
        ("LDSM.16.MT88", "", 1, 0),
        ("LDS.128", "", 1, 0),
        ("STS.U8", "", 1, 0),
        ("STS.128", "", 4, 0),
        ("LDGSTS.E.BYPASS.128", "", 4, 512),
        ("LDG.E", "", 0, 128),
        ("HGMMA.64x256x16.F32", "R24, gdesc[UR8], R24", 256 * 16 * 2 / 4 / 128, 0),
        ("HGMMA.64x256x16.F32", "R24, gdesc[UR8], gdesc[UR10], R24", (256 + 64) * 16 * 2 / 4 / 128, 0),
    ],
)
def test_what_an_instruction_moves(opcode: str, operands: str, passes: float, loaded: int) -> None:
    x = Instruction(opcode, operands)
    assert (x.shared_passes, x.loaded_bytes) == (passes, loaded)


def test_clocks_of_a_loop() -> None:
    loop = code(*["HMMA.16816.F32"] * 64, *["LDSM.16.M88.4"] * 16, *["IADD3"] * 48).instructions
    spent = loop_cycles(loop, threads=256, resident=1, variant="sm_80")
    used = {"tensor": 8 * 64 * 2048 / 1024, "issue": 8 * 128 / 4, "shared": 8 * 16 * 4}
    assert spent == {**dict.fromkeys(("fma", "registers", "mufu", "l2"), 0.0), **used}
    one = loop_cycles(loop, threads=32, resident=1, variant="sm_80")
    assert one["tensor"] == 4 * spent["tensor"] / 8, "a warp has the units of its scheduler alone"
    assert one["shared"] == spent["shared"] / 8
    hopper = loop_cycles(loop, threads=256, resident=1, variant="sm_90a")
    assert hopper["tensor"] == pytest.approx(8 * 64 * 2048 / (2048 * 0.62))


def test_transcendental_functions_and_conversions_share_a_unit_of_sixteen() -> None:
    loop = code(*["MUFU.EX2"] * 64, *["I2F.S8"] * 6, *["F2I.S64.TRUNC"] * 2, *["I2FP.F32.S32", "F2FP.BF16.F32"] * 9)
    spent = loop_cycles(loop.instructions, threads=256, resident=1, variant="sm_90a")
    assert spent["mufu"] == 8 * 72 * 32 / 16
    attention = code(*["HGMMA.64x64x16.F32.BF16"] * 8, *["MUFU.EX2"] * 40, *["FADD"] * 20)
    blocks = 132 * 4
    found = bound(attention, Work(blocks, 128, 1, 2.0 * 4 * 8 * 16384 * 100 * blocks, 0.0), archs.target("sm_90a"))
    assert (found.by, found.cycles) == ("mufu", pytest.approx(4 * 100 * 4 * 40 * 2))
    assert found.busy["mufu"] == pytest.approx(found.cycles)
    assert found.share == pytest.approx(found.busy["tensor"] / found.cycles)


@pytest.mark.parametrize(
    ("lines", "even", "odd"),
    [
        (["FFMA R4, R8, R10, R4"], 3, 0),
        (["FFMA R5, R9, R11, R5", "FFMA R4, R9, R10, R4"], 2, 4),
        (["FFMA R4, R9.reuse, R10.reuse, R4", "FFMA R5, R9, R10, R5"], 2, 2),
        (["FFMA R4, R9.reuse, R10, R4", "MOV R1, R2", "FFMA R5, R9, R10, R5"], 3, 3),
        (["FFMA R4, R9.reuse, R10, R4", "FFMA R5, R10, R9, R5"], 3, 3),
        (["FFMA R4, R8, R8, R4"], 2, 0),
        (["FFMA R4, -R8, c[0x0][0x160], RZ", "FFMA R6, |R7|, 1.5, UR4", "FADD R3, R4, R8"], 1, 1),
        ([], 0, 0),
    ],
)
def test_registers_that_multiply_adds_fetch_of_each_bank(lines: list[str], even: int, odd: int) -> None:
    loop = tuple(Instruction(*line.split(" ", 1)) for line in lines)
    assert bank_reads(loop) == (even, odd)


def test_what_the_end_of_a_loop_keeps_its_beginning_need_not_fetch() -> None:
    loop = (Instruction("FFMA", "R4, R9, R10, R4"), Instruction("FFMA", "R5, R9.reuse, R12, R5"))
    assert bank_reads(loop) == (3, 2)


def test_banks_of_registers_bound_a_loop_of_multiply_adds() -> None:
    """Of each operand pair one register is kept: three reads for two multiply-adds of one bank, four of the other."""
    pair = [("FFMA", "R4, R9.reuse, R10, R4"), ("FFMA", "R6, R9, R12, R6")]
    loop = Code("k", tuple(Instruction(*x) for x in pair * 64))
    spent = loop_cycles(loop.instructions, threads=128, resident=1, variant="sm_90a")
    assert (spent["fma"], spent["registers"]) == (128.0, 4 * 64.0)
    found = bound(loop, Work(132, 128, 1, 2.0 * 4 * 32 * 128 * 100 * 132, 0.0), archs.target("sm_90a"))
    assert (found.by, found.share) == ("registers", pytest.approx(0.5))


def work(blocks: int = 108 * 4, flops: float | None = None, moved: float = 0.0) -> Work:
    flops = 2.0 * 8 * 64 * 2048 * 100 * blocks if flops is None else flops
    return Work(blocks, 256, 1, flops, moved)


def test_a_loop_of_matrix_instructions_is_bound_by_them_or_by_what_takes_longer() -> None:
    target = archs.target("sm_80")
    lean = bound(code(*["HMMA.16816.F32"] * 64), work(), target)
    assert (lean.by, lean.share) == ("tensor", pytest.approx(1.0))
    assert lean.cycles == pytest.approx(4 * 100 * 8 * 64 * 2)
    fat = bound(code(*["HMMA.16816.F32"] * 64, *["IADD3"] * 960), work(), target)
    assert (fat.by, fat.share) == ("issue", pytest.approx(0.5))
    slow = bound(code(*["HMMA.16816.F32"] * 64), work(moved=1e10), target)
    assert slow.by == "dram"
    assert slow.cycles == pytest.approx(1e10 / 2.039e12 * 1.41e9)


def test_dot_products_of_bytes_have_the_rate_of_whole_numbers() -> None:
    loop = code(*["IDP.4A.S8.S8"] * 64, *["IADD3"] * 8)
    spent = loop_cycles(loop.instructions, threads=256, resident=1, variant="sm_90a")
    assert (spent["fma"], spent["issue"]) == (8 * 64 * 128 / 256, 8 * 72 / 4)
    found = bound(loop, Work(132, 256, 1, 2.0 * 8 * 64 * 128 * 100 * 132, 0.0), archs.target("sm_90a"))
    assert (found.by, found.share) == ("fma", pytest.approx(1.0))


def test_a_loop_over_products_that_was_unrolled_is_the_whole_kernel() -> None:
    text = LISTING.replace("@P0 BRA `(.L_x_1)", "@P0 BRA `(.L_x_2)")
    assert len(parse(text)["product"].main_loop) == 9


@pytest.mark.parametrize("variant", ["sm_80", "sm_90a"])
def test_what_is_estimated_of_loops_is_what_their_machine_code_gives(variant: str) -> None:
    """64 matrix instructions and 16 reads of matrices an iteration of each of 8 warps, and nothing else."""
    target = archs.target(variant)
    loop = code(*["HMMA.16816.F32"] * 64, *["LDSM.16.M88.4"] * 16)
    for blocks, resident, moved in ((432, 1, 0.0), (109, 2, 0.0), (432, 1, 1e10)):
        w = Work(blocks, 256, resident, 2.0 * 8 * 64 * 2048 * 100 * blocks, moved, asked_bytes=1e6)
        shared = 8.0 * 16 * 512 * 100 * blocks
        read, guessed = bound(loop, w, target), estimate(w, "fp16", shared, target)
        assert (guessed.by, guessed.cycles, guessed.share) == (
            read.by, pytest.approx(read.cycles), pytest.approx(read.share),
        )  # fmt: skip
    w = Work(4 * int(target.limit["sms"]), 256, 1, 1e12, 0.0)
    whole = estimate(w, "fp16", 0.0, target, warpgroups=True)
    assert whole.cycles == pytest.approx(estimate(w, "fp16", 0.0, target).cycles * (0.62 if variant == "sm_90a" else 1))
    assert estimate(w, "fp16", 1e13, target).by == "shared"


def test_the_multiprocessor_with_most_blocks_ends_last() -> None:
    loop, target = code(*["HMMA.16816.F32"] * 64), archs.target("sm_80")
    found = bound(loop, work(blocks=109), target)
    assert (found.by, found.share) == ("waves", pytest.approx(109 / 216))
    for blocks, most in ((50, 1), (2 * 108 + 1, 3)):  # however many fit: one that has few is not as slow as a full one
        held = bound(loop, replace(work(blocks=blocks), resident=8), target)
        assert (held.by, held.share) == ("waves", pytest.approx(blocks / (most * 108)))
    masked = bound(loop, replace(work(blocks=109), even=False), target)
    assert (masked.by, masked.share) == ("tensor", pytest.approx(1.0))


def test_warps_of_blocks_that_come_and_go_fill_all_schedulers() -> None:
    loop = code(*["HMMA.16816.F32"] * 64).instructions
    each = {
        n: loop_cycles(loop, threads=32 * warps, resident=n, variant="sm_80")["tensor"] / warps
        for n, warps in ((1, 5), (2, 5), (17, 1))
    }
    assert each == {1: pytest.approx(8 / 5 * 128), 2: 128.0, 17: 128.0}


def test_operands_that_lanes_share_are_read_once_a_warp() -> None:
    """Loads of 16 bytes take one pass where all lanes read one address, and as many as their bytes need elsewhere."""
    loop, blocks = code(*["LDS.128"] * 16, *["FFMA"] * 64), 132 * 4
    needs = 2.0 * 4 * 32 * 64 * 100 * blocks
    work = Work(blocks, 128, 1, needs, 0.0)
    target = archs.target("sm_90a")
    assert bound(loop, work, target).busy["shared"] == pytest.approx(4 * 100 * 4 * 16)
    read = 4 * 100 * 16 * 3 * 128.0 * blocks
    assert bound(loop, replace(work, read_bytes=read), target).busy["shared"] == pytest.approx(4 * 100 * 4 * 16 * 3)


def test_blocks_that_ask_for_more_than_the_second_level_cache_gives_are_bound_by_it() -> None:
    """However unevenly the last round fills multiprocessors: the cache serves them all."""
    loop = code(*["HMMA.16816.F32"] * 64)
    for blocks in (108, 109):
        w = Work(blocks, 256, 1, 2.0 * 8 * 64 * 2048 * 100 * blocks, 0.0, asked_bytes=1e10)
        found = bound(loop, w, archs.target("sm_80"))
        assert (found.by, found.cycles) == ("l2", pytest.approx(1e10 / 64 / 108))
        assert found.busy["l2"] == found.cycles


def test_what_multiplies_little_is_bound_by_memory() -> None:
    found = bound(code("LDG.E.128", "FFMA", "MUFU.EX2", "STG.E.128"), work(moved=1e6), archs.target("sm_80"))
    assert (found.by, found.share) == ("dram", 0.0)


def test_a_disassembler_that_is_missing_or_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_NVDISASM", str(tmp_path / "none"))
    with pytest.raises(NoDisassembler, match="is not a program"):
        sass.disassemble(b"")
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 3\n")
    fails.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_NVDISASM", str(fails))
    with pytest.raises(TilewrightError, match="no such thing"):
        sass.disassemble(b"")
    fails.write_text("not a program")
    with pytest.raises(NoDisassembler, match="does not start"):
        sass.disassemble(b"")
    fails.write_text("#!/bin/sh\nexec sleep 30\n")
    with pytest.raises(TilewrightError, match=r"took more than 0\.1 s"):
        sass.disassemble(b"", deadline=0.1)


def test_without_one_anywhere_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TILEWRIGHT_NVDISASM", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(tools.os, "access", lambda *_: False)
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(NoDisassembler) as error:
        sass.find_disassembler()
    assert "tilewright[sass]" in error.value.hint


def test_what_a_vote_skips_is_not_usual() -> None:
    """A forward branch behind a vote within the main loop; one to the loop's end or out of it skips nothing."""
    text = """
.text.attention:
.L_x_1:
        /*0010*/                   HMMA.16816.F32.BF16 R4, R132, R136, R4 ;
        /*0020*/                   VOTE.ANY R5, PT, P1 ;
        /*0030*/               @!P1 BRA `(TARGET) ;
        /*0040*/                   FMUL R4, R4, R9 ;
        /*0050*/                   FMUL R5, R5, R9 ;
.L_x_2:
        /*0060*/                   FADD R6, R6, R7 ;
        /*0070*/               @P0 BRA `(.L_x_1) ;
.L_x_3:
        /*0080*/                   EXIT ;
"""
    kernels = {name: parse(text.replace("TARGET", name))["attention"] for name in (".L_x_1", ".L_x_2", ".L_x_3")}
    assert [x.opcode.split(".")[0] for x in kernels[".L_x_2"].usual_loop] == ["HMMA", "VOTE", "BRA", "FADD", "BRA"]
    assert len(kernels[".L_x_2"].main_loop) == 7
    for name in (".L_x_1", ".L_x_3"):
        assert kernels[name].usual_loop == kernels[name].main_loop


def test_code_behind_the_kernel_that_jumps_back_is_no_loop() -> None:
    """A barrier is waited for once more behind the kernel's end, from where control comes back into the loop."""
    text = """
.text.attention:
        /*0000*/                   MOV R1, R2 ;
.L_x_1:
        /*0010*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R4 ;
        /*0020*/              @!P0 BRA `(.L_x_3) ;
.L_x_2:
        /*0030*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0040*/               @P1 BRA `(.L_x_1) ;
        /*0050*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0060*/                   EXIT ;
.L_x_3:
        /*0070*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R4 ;
        /*0080*/              @!P0 BRA `(.L_x_3) ;
        /*0090*/                   BRA `(.L_x_2) ;
"""
    found = parse(text)["attention"]
    assert found.loops == ((1, 4), (7, 8))
    assert len(found.main_loop) == 4
    assert found.stretches(7) == ((1, 2), (3, 4), (5, 6), (7, 8), (9, 9))


def test_every_vote_that_skips_leaves_its_code_out() -> None:
    text = """
.text.attention:
.L_x_1:
        /*0010*/                   VOTE.ANY P0, P0 ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/                   FMUL R4, R4, R9 ;
.L_x_2:
        /*0040*/                   HMMA.16816.F32.BF16 R4, R132, R136, R4 ;
        /*0050*/                   VOTE.ANY P0, P0 ;
        /*0060*/              @!P0 BRA `(.L_x_3) ;
        /*0070*/                   FMUL R5, R5, R9 ;
.L_x_3:
        /*0080*/               @P1 BRA `(.L_x_1) ;
        /*0090*/                   EXIT ;
"""
    found = parse(text)["attention"]
    assert [x.opcode.split(".")[0] for x in found.usual_loop] == ["VOTE", "BRA", "HMMA", "VOTE", "BRA", "BRA"]

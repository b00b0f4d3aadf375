"""Fragments that go to tensor memory and back, in the emulator."""

import re

import numpy as np
import pytest

import weft
from weft import emulator
from weft.isa.tcgen05.tensor_layouts import accumulator, operand_a, scales

TYPES = {"f32": np.float32, "f16": np.float16, "i8": np.int8}
PROGRAM = """
!Other = !tile.buffer<array<i64: 128, 3>, f32, #tile.layout<"S[(128,3):(1@TLane,1@TCol)]">, "tmem">
!B = !tile.buffer<array<i64: {held}, {columns}>, {element}, #tile.layout<"{buffer}">, "tmem">
!F = tensor<{part_rows}x{part_columns}x{element}, #tile.layout<"{fragment}">>
!M = memref<{rows}x{columns}x{element}>
#one = affine_map<(d0, d1, d2, d3) -> (1, 1, 1)>
gpu.module @m [#nvvm.target<chip = "sm_100a">] {{
  gpu.func @there_and_back(%x: !M, %y: !M) kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>, weft.grid = #one}} {{
    %c0 = arith.constant 0 : i32
    %columns = arith.constant {columns} : i32
    %step = arith.constant {part_columns} : i32
    "tile.tensor_memory"() ({{
      %other = "tile.alloc"() : () -> !Other
      %b = "tile.alloc"() : () -> !B
      scf.for %column = %c0 to %columns step %step : i32 {{
        %f = "tile.load"(%x, %row, %column) : (!M, i32, i32) -> !F
        "tile.store"(%f, %b, %at, %column) : (!F, !B, i32, i32) -> ()
      }}
      scf.for %column = %c0 to %columns step %step : i32 {{
        %f = "tile.load"(%b, %at, %column) : (!B, i32, i32) -> !F
        "tile.store"(%f, %y, %row, %column) : (!F, !M, i32, i32) -> ()
      }}
    }}) : () -> ()
    gpu.return
  }}
}}
"""
ROW = """%row = arith.constant 0 : i32
    %at = arith.constant 0 : i32
    """
ROW_OF_WARP = """%t = gpu.thread_id x
    %thread = arith.index_cast %t : index to i32
    %32 = arith.constant 32 : i32
    %w = arith.divui %thread, %32 : i32
    %tall = arith.constant {height} : i32
    %row = arith.muli %w, %tall : i32
    %held = arith.constant {held} : i32
    %at = arith.remui %row, %held : i32
    """


def there_and_back(buffer, fragment, rows, columns, part, element="f32", part_rows=None, held=None):
    """The instructions of a copy to a buffer and back. With `part_rows`, each warp copies so many rows, and
    the buffer has the rows that are `held`, in copies.
    """
    held = held or rows
    text = PROGRAM.format(
        buffer=buffer,
        fragment=fragment,
        rows=rows,
        held=held,
        columns=columns,
        part_rows=part_rows or rows,
        part_columns=part,
        element=element,
    )
    row = ROW_OF_WARP.format(height=part_rows, held=held) if part_rows else ROW
    kernel = weft.compile(text.replace("%c0 =", row + "%c0 ="), arch="sm_100a")
    x = np.random.default_rng(0).integers(-100, 100, (rows, columns)).astype(TYPES[element])
    y = np.zeros_like(x)
    assert not kernel.emulate(x, y).findings
    assert (x == y).all()
    moves = re.findall(r"tcgen05\.(?:ld|st)\.sync\.aligned\.(\S+)\.b32", kernel.ptx)
    return {move.replace(".unpack::16b", ".pack::16b") for move in moves}


ROWS = "S[(128,64):(1@TLane,1@TCol)]"
OF_ROWS = "S[(4,32,{0}):(1@warpid,1@laneid,1)]".format
OF_MATRICES = "S[(4,2,8,{0},4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]".format
OF_TWO_MATRICES = "S[(4,2,2,8,4,4,2):(1@warpid,16,2,4@laneid,4,1@laneid,1)]"


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("buffer", "fragment", "rows", "part", "element", "moves"),
    [
        (ROWS, OF_ROWS(32), 128, 32, "f32", {"32x32b.x32"}),
        (ROWS, OF_TWO_MATRICES, 128, 32, "f32", {"16x256b.x4"}),
        (ROWS, OF_ROWS(32), 128, 32, "f16", {"32x32b.x16"}),
        (ROWS, OF_TWO_MATRICES, 128, 32, "f16", {"16x128b.x4"}),
        (ROWS, OF_ROWS(32), 128, 32, "i8", {"32x32b.x8"}),
        (accumulator(128, 64, 1, 16), OF_ROWS(32), 128, 32, "f16", {"32x32b.x16.pack::16b"}),
        (accumulator(128, 64, 1, 16), OF_TWO_MATRICES, 128, 32, "f16", {"16x128b.x4.pack::16b"}),
        (accumulator(128, 64, 1, 16), OF_ROWS(1), 128, 1, "f16", {"32x32b.x1"}),
        (accumulator(64, 64), OF_MATRICES(4), 64, 32, "f32", {"16x256b.x4"}),
        (
            accumulator(64, 64),
            "S[(4,2,8,32,2):(1@warpid,1@laneid,4@laneid,1,2@laneid)]",
            64,
            64,
            "f32",
            {"16x64b.x32"},
        ),
        (
            accumulator(64, 64),
            "S[(4,2,8,8,4):(1@warpid,1,4@laneid,2,1@laneid)]",
            64,
            32,
            "f32",
            {"16x128b.x8"},
        ),
        (
            accumulator(64, 64),
            "S[(4,16,2,16):(1@warpid,1@laneid,16@laneid,1)]",
            64,
            32,
            "f32",
            {"16x32bx2.x16"},
        ),
        (
            accumulator(128, 64, 2),
            "S[(2,32,2,32):(1@warpid,1@laneid,2@warpid,1)]",
            64,
            64,
            "f32",
            {"32x32b.x32"},
        ),
    ],
)
def test_fragments_come_back_by_the_widest_instructions(buffer, fragment, rows, part, element, moves):
    assert there_and_back(buffer, fragment, rows, 64, part, element) == moves


def test_an_instruction_moves_at_most_64_registers():
    """A thread of a CTA with 512 threads has 128: ptxas refuses one that moves as many."""
    rows = "S[(128,128):(1@TLane,1@TCol)]"
    assert there_and_back(rows, OF_ROWS(128), 128, 128, 128, "f32") == {"32x32b.x64"}


def test_a_part_takes_several_instructions_where_no_single_one_has_its_width():
    buffer, fragment = "S[(128,48):(1@TLane,1@TCol)]", OF_ROWS(24)
    assert there_and_back(buffer, fragment, 128, 48, 24) == {"32x32b.x16", "32x32b.x8"}


def test_a_warp_moves_the_rows_that_its_coordinate_selects():
    assert there_and_back(ROWS, "S[(32,16):(1@laneid,1)]", 128, 64, 16, part_rows=32) == {"32x32b.x16"}


def test_registers_may_be_in_any_order():
    reversed_halves = "S[(4,32,2,8):(1@warpid,1@laneid,1,2)]"
    assert there_and_back(ROWS, reversed_halves, 128, 64, 16) == {"32x32b.x16"}


def test_a_warp_has_its_own_copy_of_scales():
    fragment = "S[(4,32,2,4):(4,1@laneid,16,1)]"
    moves = there_and_back(scales(128, 8), fragment, 512, 8, 8, "i8", part_rows=128, held=128)
    assert moves == {"32x32b.x8"}


def test_the_warps_of_a_pairs_upper_half_have_a_copy_of_a():
    moves = there_and_back(
        operand_a(128, 32, 2), "S[(32,16):(1@laneid,1)]", 128, 32, 16, "f16", part_rows=32, held=64
    )
    assert moves == {"32x32b.x8"}


OPERAND = """
!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!B = !tile.buffer<array<i64: 32, 64>, f16, #tile.layout<"S[(32,64):(64,1)] xor 128B">, "shared">
!D = !tile.buffer<array<i64: 128, 32>, f32, #tile.layout<"S[(128,32):(1@TLane,1@TCol)]">, "tmem">
!RowsA = tensor<128x64xf16, #tile.layout<"S[(4,32,64):(1@warpid,1@laneid,1)]">>
!RowsD = tensor<128x32xf32, #tile.layout<"S[(4,32,32):(1@warpid,1@laneid,1)]">>
!Ring = !tile.ring<1 : i64>
#one = affine_map<(d0, d1, d2, d3, d4, d5) -> (1, 1, 1)>
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @scores(%a: memref<128x64xf16>, %b: memref<32x64xf16>, %d: memref<128x32xf32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>, weft.grid = #one, weft.writes = array<i32: 2>} {
    %c0 = arith.constant 0 : i32
    %no = arith.constant false
    %shared = "tile.alloc"() : () -> !B
    %there = "tile.make_ring"()
        {filled_by = "warps", producers = 4 : i64, emptied_by = "mma", consumers = 1 : i64} : () -> !Ring
    %done = "tile.make_ring"()
        {filled_by = "mma", emptied_by = "warps", consumers = 4 : i64} : () -> !Ring
    "tile.copy"(%b, %c0, %c0, %shared) : (memref<32x64xf16>, i32, i32, !B) -> ()
    "tile.tensor_memory"() ({
      %operand = "tile.alloc"() : () -> !A
      %sums = "tile.alloc"() : () -> !D
      %rows = "tile.load"(%a, %c0, %c0) : (memref<128x64xf16>, i32, i32) -> !RowsA
      "tile.store"(%rows, %operand, %c0, %c0) : (!RowsA, !A, i32, i32) -> ()
      "tile.commit"(%there, %c0) : (!Ring, i32) -> ()
      "tile.role"() ({
      ^bb0(%number: i32):
        %one = nvvm.elect.sync -> i1
        scf.if %one {
          "tile.await"(%there, %c0, %c0) : (!Ring, i32, i32) -> ()
          "tile.gemm_async"(%operand, %shared, %sums, %no) {
            operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, use_a_tmem = true}
              : (!A, !B, !D, i1) -> ()
          "tile.commit"(%done, %c0) : (!Ring, i32) -> ()
        }
      }) {first = 0 : i64, warps = 1 : i64} : () -> ()
      "tile.await"(%done, %c0, %c0) : (!Ring, i32, i32) -> ()
      %result = "tile.load"(%sums, %c0, %c0) : (!D, i32, i32) -> !RowsD
      "tile.store"(%result, %d, %c0, %c0) : (!RowsD, memref<128x32xf32>, i32, i32) -> ()
    }) : () -> ()
    gpu.return
  }
}
"""


def scores(change=None):
    """A * B^T, what `OPERAND` computed, and the rules of findings. PTX that matches `change` is omitted."""
    kernel = weft.compile(OPERAND, arch="sm_100a")
    if change is not None:
        text, count = re.subn(change, "", kernel.ptx)
        assert count
        kernel._module = emulator.Module(text)
    chance = np.random.default_rng(2)
    a, b = (chance.integers(-4, 5, (rows, 64)).astype(np.float16) for rows in (128, 32))
    d = np.zeros((128, 32), np.float32)
    findings = kernel.emulate(a, b, d).findings
    return a.astype(np.float32) @ b.T.astype(np.float32), d, {finding.rule for finding in findings}


def test_a_product_reads_what_warps_stored_in_tensor_memory():
    wanted, d, rules = scores()
    assert not rules
    assert (d == wanted).all()


@pytest.mark.parametrize("wait", ["st", "ld"])
def test_a_move_without_its_wait_is_found(wait):
    *_, rules = scores(rf"tcgen05\.wait::{wait}\.sync\.aligned;")
    assert rules


CONVERTED = """
!B = !tile.buffer<array<i64: 128, 16>, f32, #tile.layout<"S[(128,16):(1@TLane,1@TCol)]">, "tmem">
!F = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
!H = tensor<128x16xf16, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @converted(%d: memref<128x16xf16>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    "tile.tensor_memory"() ({
      %b = "tile.alloc"() : () -> !B
      %f = "tile.load"(%b, %c0, %c0) : (!B, i32, i32) -> !F
      %lane = "tile.to_lane"(%f) : (!F) -> vector<16xf32>
      %halves = arith.truncf %lane : vector<16xf32> to vector<16xf16>
      %h = "tile.from_lane"(%halves) : (vector<16xf16>) -> !H
      "tile.store"(%h, %d, %c0, %c0) {vector_bytes = 16 : i64} : (!H, memref<128x16xf16>, i32, i32) -> ()
    }) : () -> ()
    gpu.return
  }
}
"""


def test_no_instruction_reads_the_registers_of_a_load_before_its_wait():
    ptx = weft.compile(CONVERTED, arch="sm_100a").ptx
    assert re.search(r"tcgen05\.ld\.[^;]*;\s*(\.loc[^\n]*\s*)*tcgen05\.wait::ld", ptx)

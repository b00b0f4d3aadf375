"""The bytes that `wgmma` reads through the descriptors of --lower-gemm-async, against layouts."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from layout_places import octets

import weft
from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.emulator.instructions import shared_operand
from weft.isa import wgmma
from weft.isa.wgmma.descriptors import MatrixDescriptor
from weft.mlir import ir
from weft.passes.builders import shared_tiles
from weft.passes.builders.wgmma_operands import SharedOperand
from weft.passes.kernels.matrices import panels

BASE = 5 * 1024  # where a stage may begin
ELEMENTS = {1: "f8E4M3FN", 2: "bf16", 4: "f32"}


@dataclass(frozen=True)
class Stage:
    """One stage of A or B: `rows` of M or N by `depth`, of which an instruction reads `at_once` rows."""

    rows: int
    depth: int
    at_once: int
    bytes: int = 2
    mn_major: bool = False

    @property
    def kind(self):
        """The buffer that a warpgroup schedule's kernel has for it."""
        shape = (self.depth, self.rows) if self.mn_major else (self.rows, self.depth)
        element = ir.Type.parse(ELEMENTS[self.bytes])
        return tile.stage_type(BufferType.of((3, *shape), element, panels(*shape, self.bytes, 3)))

    @property
    def step(self):
        """The depth of one instruction."""
        return 32 // self.bytes

    def operand(self):
        return SharedOperand.of(self.kind, self.mn_major)

    def read(self, operand, base=BASE):
        """The address of every byte of every element, `[rows, depth, bytes]`, as the instructions read it."""
        start = replace(operand.descriptor, address=base).encode()
        blocks = []
        for row in range(0, self.rows, self.at_once):
            steps = []
            for k in range(0, self.depth, self.step):
                word = start + operand.units(row, k)
                steps.append(self._read_one(MatrixDescriptor.decode(word)))
            blocks.append(np.concatenate(steps, axis=1))
        return np.concatenate(blocks)

    def _read_one(self, descriptor):
        lines, width = (self.step, self.at_once) if self.mn_major else (self.at_once, self.step)
        chunks = shared_operand.chunk_offsets(descriptor, lines, width * self.bytes, self.mn_major)
        row = (chunks[..., None] + np.arange(shared_operand.CHUNK)).reshape(lines, -1)
        found = row[:, : width * self.bytes].reshape(lines, width, self.bytes)
        return found.transpose(1, 0, 2) if self.mn_major else found


def wanted(stage):
    found = octets(stage.kind, BASE)
    return found.transpose(1, 0, 2) if stage.mn_major else found


A_ROWS, B_ROWS = (64, 128, 192, 256), range(8, 257, 8)
K_MAJOR = [
    Stage(rows, row_bytes // size, at_once or rows, size)
    for size in ELEMENTS
    for row_bytes in (32, 64, 128, 256, 384)
    for sizes, at_once in ((A_ROWS, wgmma.M), (B_ROWS, 0))
    for rows in sizes
]
# 16-bit types alone; a panel has at least 32 bytes.
MN_MAJOR = [
    Stage(rows, depth, at_once or rows, mn_major=True)
    for depth in (16, 32, 64, 128)
    for sizes, at_once in ((A_ROWS, wgmma.M), (B_ROWS[1::2], 0))
    for rows in sizes
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stages", [K_MAJOR, MN_MAJOR], ids=["K-major", "MN-major"])
def test_every_byte_is_read_from_where_the_layout_has_it(stages):
    with weft.Module():
        for stage in stages:
            assert np.array_equal(stage.read(stage.operand()), wanted(stage)), stage


@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("warpgroups", [2, 3])
def test_a_share_of_the_rows_is_read_from_where_it_lies(warpgroups, mn_major):
    with weft.Module():
        share = Stage(128, 64, wgmma.M, mn_major=mn_major)
        whole = replace(share, rows=warpgroups * share.rows)
        part = tile.slice_type(whole.kind, share.kind.shape)
        operand = SharedOperand.of(part, mn_major)
        groups = whole.kind.layout.group(whole.kind.shape)
        for number in range(warpgroups):
            rows = slice(number * share.rows, (number + 1) * share.rows)
            distance = shared_tiles.index_offset(rows.start, groups[1 if mn_major else 0]) * share.bytes
            assert np.array_equal(share.read(operand, BASE + distance), wanted(whole)[rows]), number


@pytest.mark.parametrize(
    ("stage", "field"),
    [
        (Stage(64, 64, 64), "stride_byte_offset"),
        (Stage(128, 64, 128, mn_major=True), "leading_byte_offset"),
        (Stage(128, 64, 128, mn_major=True), "stride_byte_offset"),
    ],
)
def test_a_wrong_distance_is_seen(stage, field):
    with weft.Module():
        right = stage.operand()
        record = replace(right.descriptor, **{field: getattr(right.descriptor, field) + 1024})
        assert not np.array_equal(stage.read(replace(right, descriptor=record)), wanted(stage))


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B"])
def test_another_swizzle_is_seen(swizzle):
    with weft.Module():
        stage = Stage(64, 64, 64)
        right = stage.operand()
        wrong = replace(right, descriptor=replace(right.descriptor, swizzle=swizzle))
        assert not np.array_equal(stage.read(wrong), wanted(stage))

"""The bytes that `tcgen05.mma` reads through the descriptors of --lower-gemm-async, against layouts."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from weft.emulator.instructions import shared_operand
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor
from weft.layout import Layout
from weft.layout.iterators import point_table
from weft.passes.builders.tcgen05_operands import SharedOperand

BASE = 5 * 1024
BITS = {"f16": 16, "tf32": 32, "f8f6f4": 8, "mxf4": 4}
WIDTHS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_32B": 128}
GROUPS = {"128B_32B": 4}


@pytest.mark.each_value(26)
@dataclass(frozen=True)
class Buffer:
    """What the builder reads of a buffer's type."""

    shape: tuple[int, int]
    layout: Layout
    element_bits: int


@dataclass(frozen=True)
class Case:
    """A matrix of `rows` of M or N by `depth`, of which an instruction reads `at_once` rows; `padded` where
    16 elements of 4 bits take 16 bytes.
    """

    kind: str
    swizzle: str
    mn_major: bool
    rows: int
    depth: int
    at_once: int
    padded: bool = False
    k: int = 0
    apart: int = 0

    @property
    def bits(self):
        return 4 if self.padded else BITS[self.kind]

    @property
    def container(self):
        return 8 if self.padded else self.bits

    @property
    def step(self):
        return self.k or 256 // self.container

    @property
    def layout(self):
        """Lines as wide as the swizzle, in groups, then panels, `apart` bytes from each other."""
        lines, inner = (self.depth, self.rows) if self.mn_major else (self.rows, self.depth)
        unit, width, group = 128 // self.container, WIDTHS[self.swizzle], GROUPS.get(self.swizzle, 8)
        scale = 8 // self.bits if self.bits < 8 else 1
        size = max(self.bits // 8, 1)
        chunks, across = width // 16, inner // (unit * (width // 16))
        element = lambda octets: octets * scale // size  # noqa: E731
        group_bytes = group * width + self.apart
        panel_bytes = group_bytes * (lines // group) + self.apart
        outer_digits = [(lines // group, element(group_bytes)), (group, element(width))]
        inner_digits = [(across, element(panel_bytes)), (chunks, element(16)), (unit, 1)]
        digits = [*outer_digits, *inner_digits]
        extents, strides = zip(*digits, strict=True)
        suffix = "" if self.swizzle == "none" else f" xor {self.swizzle}"
        return Layout.parse(f"S[({','.join(map(str, extents))}):({','.join(map(str, strides))})]{suffix}")

    @property
    def buffer(self):
        shape = (self.depth, self.rows) if self.mn_major else (self.rows, self.depth)
        return Buffer(shape, self.layout, self.bits)

    @property
    def steps(self):
        panel = 8 * WIDTHS[self.swizzle] // self.container if self.k else self.depth
        return tuple(
            (start + k, min(self.step, panel - k))
            for start in range(0, self.depth, panel)
            for k in range(0, panel, self.step)
        )

    def operand(self, **changed):
        arguments = {"rows": self.at_once, "steps": self.steps, "container_bits": self.container}
        return SharedOperand.of(self.buffer, self.kind, k_first=self.mn_major, **arguments | changed)

    def chunks(self):
        """The address of each 16 bytes that has elements, `[rows, k]` in units along the contiguous
        dimension.
        """
        layout, unit = self.layout, 128 // self.container
        octets = point_table(layout.shard)[:, -1] * self.bits // 8
        if layout.swizzle:
            octets = np.array([layout.swizzle.swizzle_offset(int(each)) for each in BASE + octets])
        else:
            octets = BASE + octets
        found = octets.reshape(self.buffer.shape)[:, ::unit]
        return found // 16 * 16

    def read(self, operand):
        """The same as the instructions read it."""
        start = replace(operand.descriptor, address=BASE).encode()
        unit = 128 // self.container
        found = np.full_like(self.chunks(), -1)
        for row in range(0, self.rows, self.at_once):
            for k, depth in self.steps:
                descriptor = SharedMemoryDescriptor.decode(start + operand.units(row, k))
                lines, inner = (depth, self.at_once) if self.mn_major else (self.at_once, depth)
                part = shared_operand.chunk_offsets(
                    descriptor, lines, inner * self.container // 8, self.mn_major
                )
                line, first = (k, row) if self.mn_major else (row, k)
                found[line : line + lines, first // unit : (first + inner) // unit] = part
        return found


K_MAJOR = [
    Case(kind, swizzle, False, rows, blocks * 8 * WIDTHS[swizzle] // BITS[kind], at_once)
    for kind in BITS
    for swizzle in ("none", "32B", "64B", "128B")
    for blocks in ((2, 8) if swizzle == "none" else (1, 2))
    for rows, at_once in ((128, 128), (256, 128), (256, 64), (24, 24), (8, 8))
]
MN_MAJOR = [
    Case(kind, swizzle, True, rows, 64, at_once)
    for kind, swizzles in {
        "f16": ("none", "32B", "64B", "128B"),
        "f8f6f4": ("none", "32B", "64B", "128B"),
        "tf32": ("128B_32B",),
    }.items()
    for swizzle in swizzles
    for rows, at_once in ((128, 128), (256, 128), (384, 128), (128, 64))
    if at_once * BITS[kind] // 8 >= WIDTHS[swizzle]
]
PADDED = [
    Case("f8f6f4", swizzle, mn_major, 128, 128, 128, padded=True)
    for swizzle in ("none", "128B")
    for mn_major in (False, True)
]
LONG = [Case("mxf4", "128B", False, 128, 512, 128, k=96)]
APART = [replace(case, apart=1024) for case in (*K_MAJOR[::7], *MN_MAJOR[::3])]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", [*K_MAJOR, *MN_MAJOR, *PADDED, *LONG, *APART], ids=str)
def test_every_chunk_is_read_from_where_the_layout_has_it(case):
    operand = case.operand()
    assert isinstance(operand, SharedOperand), operand
    assert operand.mn_major == case.mn_major
    assert np.array_equal(case.read(operand), case.chunks())


def test_slices_of_a_swizzled_tile_are_groups_at_a_stride_within_it():
    """Rows 8 * g + r of 32 bytes are columns 32 * g of row r of 8 rows x 128 bytes."""
    found = SharedMemoryDescriptor.decode(BASE // 16 | 2 << 32 | 1 << 46 | 2 << 61)
    assert found == SharedMemoryDescriptor(BASE, 0, 32, 0, "128B")
    with pytest.raises(ValueError, match="stride_byte_offset must be a multiple of 1024"):
        found.encode()
    offsets = shared_operand.chunk_offsets(found, 32, 32, transposed=False)
    row, chunk = np.indices((8, 8))
    tile = BASE + 128 * row + 16 * (chunk ^ row)
    want = tile.reshape(8, 4, 2).transpose(1, 0, 2).reshape(32, 2)
    np.testing.assert_array_equal(offsets, want)


@pytest.mark.parametrize("field", ["leading_byte_offset", "stride_byte_offset"])
def test_a_wrong_distance_is_seen(field):
    case = Case("f16", "128B", True, 128, 64, 128)
    right = case.operand()
    record = replace(right.descriptor, **{field: getattr(right.descriptor, field) + 1024})
    assert not np.array_equal(case.read(replace(right, descriptor=record)), case.chunks())


def test_a_k_major_stage_of_64_halves_has_offsets_of_eight_rows():
    operand = Case("f16", "128B", False, 128, 64, 128).operand()
    assert operand.descriptor == SharedMemoryDescriptor(0, 1024, 1024, 0, "128B")
    assert [operand.units(0, k) for k in range(0, 64, 16)] == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (Case("tf32", "128B", True, 128, 64, 128), "swizzle must be 128B_32B for a transposed operand"),
        (Case("f16", "128B_32B", True, 128, 64, 128), "swizzle must be one of none, 32B, 64B, 128B"),
        (Case("f16", "128B", False, 128, 64, 128, apart=16), "stride_byte_offset must be a multiple of 1024"),
        (Case("f16", "128B", False, 128, 64, 4), "groups of 8 rows"),
        (Case("tf32", "128B_32B", False, 128, 32, 128), "MN-major order with swizzle 128B_32B"),
    ],
)
def test_other_layouts_are_refused(case, reason):
    assert reason in case.operand()


def test_a_k_major_instruction_that_needs_two_panels_is_refused():
    case = Case("f16", "32B", False, 128, 64, 128)
    assert "K-major" in case.operand(steps=((0, 32), (32, 32)))


def test_lines_that_are_not_adjacent_are_refused():
    case = Case("f16", "128B", False, 128, 64, 128)
    buffer = Buffer((128, 64), Layout.parse("S[(128,64):(128,1)] xor 128B"), 16)
    refusal = SharedOperand.of(buffer, "f16", rows=128, steps=case.steps, container_bits=16, k_first=False)
    assert refusal == (
        "groups of 8 rows, one after the other, of 64 contiguous elements, as wide as swizzle 128B, each "
        "group and each panel at one stride (K-major), got S[(128,64):(128,1)] xor 128B"
    )

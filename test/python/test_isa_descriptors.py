"""The shared-memory matrix descriptor of `wgmma`: its bits, both ways, and its rules."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.isa.wgmma.descriptors import FIELDS, SWIZZLES, BitField, MatrixDescriptor, unknown_bits

SIXTEENS = st.integers(0, (1 << 14) - 1).map(lambda n: 16 * n)


@st.composite
def descriptors(draw):
    mode = SWIZZLES[draw(st.sampled_from(sorted(SWIZZLES)))]
    step = 16 if mode.name == "none" else mode.period
    return MatrixDescriptor(
        address=draw(SIXTEENS),
        leading_byte_offset=draw(SIXTEENS),
        stride_byte_offset=step * draw(st.integers(0, ((1 << 18) - 1) // step)),
        base_offset=0 if mode.name == "none" else draw(st.integers(0, 7)),
        swizzle=mode.name,
    )


@given(descriptors())
def test_decode_undoes_encode(descriptor):
    assert descriptor.complaint() is None
    assert MatrixDescriptor.decode(descriptor.encode()) == descriptor


def test_the_bits_are_where_the_isa_has_them():
    descriptor = MatrixDescriptor(0x1230, 0x40, 1024, 5, "128B")
    assert descriptor.encode() == 0x123 | 4 << 16 | 64 << 32 | 5 << 49 | 1 << 62
    assert [replace(descriptor, swizzle=name).encode() >> 62 for name in ("32B", "64B")] == [3, 2]
    assert replace(descriptor, swizzle="none", base_offset=0).encode() >> 62 == 0


def test_a_step_along_k_adds_to_the_address_alone():
    tile = MatrixDescriptor(0x8000, 0, 1024, 0, "128B")
    assert replace(tile, address=0x8000 + 32).encode() == tile.encode() + 2


def test_fields_do_not_overlap():
    assert sum(f.put(f.last) for f in FIELDS) == unknown_bits((1 << 64) - 1, ()) - unknown_bits(
        (1 << 64) - 1, FIELDS
    )
    assert all(f.get(f.put(f.last)) == f.last for f in FIELDS)
    assert unknown_bits(BitField("a", 4, 2).put(3), (BitField("b", 4, 1),)) == 1 << 5


@pytest.mark.parametrize(
    "change, rule, message",
    [
        ({"address": 8}, "address", "address must be a multiple of 16, got 8; nearest legal: 0, 16"),
        ({"address": 1 << 18}, "address", "address must be in 0..262128, got 262144"),
        ({"leading_byte_offset": -16}, "leading_byte_offset", "leading_byte_offset must be in 0..262128"),
        (
            {"stride_byte_offset": 512},
            "stride_byte_offset",
            "stride_byte_offset must be a multiple of 1024, eight rows of swizzle 128B, got 512",
        ),
        ({"base_offset": 8}, "base_offset", "base_offset must be in 0..7, got 8"),
        (
            {"swizzle": "none", "base_offset": 1},
            "base_offset",
            "base_offset must be 0 without a swizzle, got 1",
        ),
        ({"swizzle": "16B"}, "swizzle", "swizzle must be one of none, 32B, 64B, 128B, got 16B"),
    ],
)
def test_rules_are_named(change, rule, message):
    descriptor = replace(MatrixDescriptor(0, 0, 1024, 0, "128B"), **change)
    verdict = descriptor.complaint()
    assert verdict.rule == rule
    assert message in str(verdict)
    with pytest.raises(ValueError, match=rule):
        descriptor.encode()


def test_bits_of_no_field_are_refused():
    with pytest.raises(ValueError, match="no bits 0x400000000000"):
        MatrixDescriptor.decode(1 << 46)

"""The descriptors of `tcgen05`: known words, every field encoded and decoded, every limit."""

from dataclasses import fields, replace
from itertools import product

import pytest

from weft.isa.tcgen05.descriptors import (
    KINDS,
    PLAIN_FIELDS,
    SCALED_FIELDS,
    BlockScaledDescriptor,
    InstructionDescriptor,
    legal_m,
    legal_n,
)
from weft.isa.tcgen05.shared_descriptor import (
    SHARED_FIELDS,
    SWIZZLE_NUMBERS,
    WIDE_ATOMS,
    SharedMemoryDescriptor,
    swizzle_complaint,
)
from weft.isa.tcgen05.zero_columns import FIELDS as ZERO_COLUMN_FIELDS
from weft.isa.tcgen05.zero_columns import ZeroColumnMask

F16 = InstructionDescriptor("f16", 128, 256, "f16", "f16", "f32")
MXF8 = BlockScaledDescriptor("mxf8f6f4", 128, 256, "e4m3", "e4m3")
MXF4 = BlockScaledDescriptor("mxf4", 128, 128, "e2m1", "e2m1")
NVF4 = BlockScaledDescriptor("mxf4nvf4", 128, 128, "e2m1", "e2m1", "ue4m3", scale_vec="4X")
MATRIX = SharedMemoryDescriptor(0x400, 0, 1024, swizzle="128B")
PLAIN = [kind for kind, row in KINDS.items() if row.scales is None]


def test_words_are_those_of_the_isa():
    # Bits by hand from the ISA's tables.
    assert F16.encode() == 1 << 4 | 32 << 17 | 8 << 24
    bf16 = replace(F16, a_type="bf16", b_type="bf16", transpose_b=True, negate_a=True)
    assert bf16.encode() == 1 << 4 | 1 << 7 | 1 << 10 | 1 << 13 | 1 << 16 | 32 << 17 | 8 << 24
    i8 = InstructionDescriptor(
        "i8", 64, 48, "s8", "u8", "s32", saturate=True, sparse=True, sparsity_selector=2
    )
    assert i8.encode() == 2 | 1 << 2 | 1 << 3 | 2 << 4 | 1 << 7 | 6 << 17 | 4 << 24
    ws = InstructionDescriptor("tf32", 32, 64, "tf32", "tf32", "f32", ws=True, max_shift=16)
    assert ws.encode() == 1 << 4 | 2 << 7 | 2 << 10 | 8 << 17 | 2 << 24 | 2 << 30
    assert MXF8.encode() == 32 << 17 | 1 << 23 | 1 << 27
    scales = replace(MXF8, a_type="e2m1", m=256, cta_group=2, a_scale_id=3, b_scale_id=1)
    assert scales.encode() == 1 << 4 | 5 << 7 | 32 << 17 | 1 << 23 | 2 << 27 | 3 << 29
    assert NVF4.encode() == 1 << 7 | 1 << 10 | 16 << 17 | 1 << 27
    long = replace(NVF4, m=256, cta_group=2, k=96)
    assert long.encode() == 1 << 7 | 1 << 10 | 16 << 17 | 2 << 27 | 1 << 31
    assert MATRIX.encode() == 0x40 | 64 << 32 | 1 << 46 | 2 << 61
    wide = SharedMemoryDescriptor(0x3FFF0, 0x1230, 512, 5, WIDE_ATOMS)
    assert wide.encode() == 0x3FFF | 0x123 << 16 | 32 << 32 | 1 << 46 | 5 << 49 | 1 << 61
    assert replace(MATRIX, absolute=True).encode() == MATRIX.encode() | 1 << 52


def test_words_of_zero_column_masks_are_those_of_the_isa():
    mask = ZeroColumnMask((1, 2, 3, 4), (1, 0, 1, 1), True, 5, 6, 16)
    word = 0x04030201 | 0b1101 << 32 | 1 << 39 | 5 << 40 | 6 << 48 | 16 << 56
    assert mask.encode() == word
    assert ZeroColumnMask.decode(word) == mask
    none = ZeroColumnMask(non_zero=False, skip_span=5)
    assert none.encode() == 5 << 40 and ZeroColumnMask.decode(5 << 40) == none
    with pytest.raises(ValueError, match=r"has no bits 0x5000000000, got 0xd000000000"):
        ZeroColumnMask.decode(0xD << 36)


@pytest.mark.parametrize("m, most", [(32, 16), (64, 32), (128, 32)])
def test_zero_column_masks_are_shifted_by_so_many_columns(m, most):
    assert ZeroColumnMask(column_shift=most).complaint(m) is None
    verdict = ZeroColumnMask(column_shift=most + 1).complaint(m)
    assert verdict.rule == "column_shift"
    assert verdict.reason == f"column_shift must be in 0..{most} for M = {m}, got {most + 1}"


@pytest.mark.parametrize(
    "mask, m, zeros",
    [
        (ZeroColumnMask((0,) * 4, (0,) * 4, True, 1, 2), 128, "...00...00...00."),
        (ZeroColumnMask((0,) * 4, (1,) * 4, True, 1, 2), 128, "00...00...00...0"),
        (ZeroColumnMask((1, 3, 0, 0), (0, 1, 0, 0), True, 1, 2), 64, "..00...0" + "..00...0"),
        (ZeroColumnMask((0, 1, 2, 3), (0,) * 4, True, 0, 1), 32, "..0." + ".0.." + "0..0" + "..0."),
        (ZeroColumnMask((0,) * 4, (1,) * 4, False, 1, 2), 32, "." * 16),
    ],
)
def test_zero_column_masks_are_runs_of_columns(mask, m, zeros):
    assert "".join(".0"[zero] for zero in mask.zeros(m, 16)) == zeros


@pytest.mark.parametrize(
    "table, width", [(PLAIN_FIELDS, 32), (SCALED_FIELDS, 32), (SHARED_FIELDS, 64), (ZERO_COLUMN_FIELDS, 64)]
)
def test_fields_do_not_overlap(table, width):
    used = 0
    for field in table:
        bits = field.put(field.last)
        assert not used & bits and bits < 1 << width
        used |= bits


def plain_descriptors():
    for kind, ws, group, sparse in product(PLAIN, (False, True), (1, 2), (False, True)):
        if ws and group == 2:
            continue
        row = KINDS[kind]
        for m, (a, b, d) in product(
            legal_m(kind, group, sparse=sparse, ws=ws), product(row.elements, row.elements, row.accumulators)
        ):
            if (kind, d) == ("f16", "f16") and {a, b} != {"f16"}:
                continue
            for n in legal_n(kind, group, sparse=sparse, ws=ws)[::3]:
                yield InstructionDescriptor(
                    kind,
                    m,
                    n,
                    a,
                    b,
                    d,
                    group,
                    ws,
                    sparse=sparse,
                    sparsity_selector=3 if sparse else 0,
                    max_shift=32 if ws else 0,
                    negate_b=row.negates,
                )


def scaled_descriptors():
    for base, group, sparse in product((MXF8, MXF4, NVF4), (1, 2), (False, True)):
        row = KINDS[base.kind]
        for m, n in product(
            legal_m(base.kind, group, sparse=sparse), legal_n(base.kind, group, sparse=sparse)[::3]
        ):
            for a, b, scale in product(row.elements, row.elements, row.scales):
                yield replace(
                    base, m=m, n=n, a_type=a, b_type=b, scale_type=scale, cta_group=group, sparse=sparse
                )


def test_instruction_descriptors_are_read_back():
    count = 0
    for found in plain_descriptors():
        assert InstructionDescriptor.decode(found.encode(), found.kind, found.cta_group, ws=found.ws) == found
        count += 1
    for scaled in scaled_descriptors():
        word = scaled.encode()
        back = BlockScaledDescriptor.decode(word, scaled.kind, scaled.cta_group, scale_vec=scaled.scale_vec)
        assert back == scaled
        count += 1
    assert count > 3000


def test_shared_memory_descriptors_are_read_back():
    for swizzle, base in product(SWIZZLE_NUMBERS, (0, 3)):
        found = SharedMemoryDescriptor(0x1230, 16, 0x2000, base if swizzle != "none" else 0, swizzle)
        assert SharedMemoryDescriptor.decode(found.encode()) == found


@pytest.mark.parametrize(
    "word, kind, complaint",
    [
        (F16.encode() | 1 << 6, "f16", "has no bits 0x40"),
        (F16.encode() | 5 << 7, "f16", "a_type 5 names nothing"),
        (F16.encode() & ~(63 << 17), "f16", "n must be in 8..256 by 8"),
        (F16.encode(), "ti16", "no instruction descriptor without scales for kind ti16"),
        (F16.encode(), "mxf4", "no instruction descriptor without scales for kind mxf4"),
    ],
)
def test_words_that_say_nothing_legal_are_errors(word, kind, complaint):
    with pytest.raises(ValueError, match=complaint):
        InstructionDescriptor.decode(word, kind)


@pytest.mark.parametrize(
    "word, complaint",
    [
        (MATRIX.encode() | 1 << 14, "has no bits 0x4000"),
        (MATRIX.encode() & ~(7 << 46), "has 1 in bits 46 to 48"),
        (MATRIX.encode() | 1 << 61, "swizzle 3 names nothing"),
    ],
)
def test_matrices_that_say_nothing_legal_are_errors(word, complaint):
    with pytest.raises(ValueError, match=complaint):
        SharedMemoryDescriptor.decode(word)


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"kind": "mxf4"}, "kind must be one of f16, tf32, f8f6f4, i8, got mxf4"),
        ({"a_type": "e4m3"}, "a_type must be f16 or bf16 for kind f16, got e4m3"),
        ({"d_type": "s32"}, "d_type must be f16 or f32 for kind f16, got s32"),
        ({"d_type": "f16", "b_type": "bf16"}, "d_type f16 is legal with f16 A and B only, got bf16 and f16"),
        ({"m": 256}, "m must be 64 or 128 for kind f16 with cta_group::1, got 256"),
        ({"m": 64, "cta_group": 2}, "m must be 128 or 256 for kind f16 with cta_group::2, got 64"),
        (
            {"n": 12},
            "n must be in 8..256 by 8 for kind f16 with cta_group::1, got 12; nearest legal: 8, 16",
        ),
        (
            {"n": 24, "cta_group": 2},
            "n must be in 16..256 by 16 for kind f16 with cta_group::2, got 24; nearest legal: 16, 32",
        ),
        (
            {"ws": True, "n": 96},
            "n must be one of 64, 128, 256 for kind f16 with cta_group::1 and weight stationary, got 96",
        ),
        (
            {"ws": True, "n": 256, "sparse": True},
            "n must be 64 or 128 for sparse kind f16 with cta_group::1 and weight stationary, got 256",
        ),
        ({"ws": True, "cta_group": 2}, "cta_group must be 1 with weight stationary, got 2"),
        ({"saturate": True}, "saturate is legal for kind i8 only"),
        ({"sparsity_selector": 1}, "sparsity_selector is legal with a sparse A only"),
        ({"max_shift": 8}, "max_shift is legal with weight stationary (.ws) only"),
        ({"ws": True, "max_shift": 4}, "max_shift must be one of 0, 8, 16, 32, got 4"),
        (
            {"a": "tensor", "transpose_a": True},
            "transpose_a is legal with A in shared memory only, got A in tensor memory",
        ),
    ],
)
def test_limits_of_the_instruction_descriptor(change, complaint):
    assert str(replace(F16, **change).complaint()) == complaint
    with pytest.raises(ValueError):
        replace(F16, **change).encode()


@pytest.mark.parametrize(
    "base, change, complaint",
    [
        (MXF8, {"kind": "f16"}, "kind must be one of mxf8f6f4, mxf4, mxf4nvf4, got f16"),
        (MXF8, {"m": 64}, "m must be 128 for kind mxf8f6f4 with cta_group::1, got 64"),
        (
            MXF8,
            {"m": 128, "cta_group": 2, "sparse": True},
            "m must be 256 for sparse kind mxf8f6f4 with cta_group::2, got 128",
        ),
        (MXF8, {"scale_type": "ue4m3"}, "scale_type must be ue8m0 for kind mxf8f6f4, got ue4m3"),
        (MXF4, {"scale_type": "ue4m3"}, "scale_type must be ue8m0 for kind mxf4, got ue4m3"),
        (MXF4, {"a_type": "e4m3"}, "a_type must be e2m1 for kind mxf4, got e4m3"),
        (MXF8, {"a_scale_id": 4}, "a_scale_id must be one of 0, 1, 2, 3 for kind mxf8f6f4, got 4"),
        (MXF4, {"b_scale_id": 1}, "b_scale_id must be 0 or 2 for kind mxf4, got 1"),
        (NVF4, {"b_scale_id": 2}, "b_scale_id must be 0 for kind mxf4nvf4, got 2"),
        (
            NVF4,
            {"transpose_a": True},
            "a transpose is legal for kinds f16, tf32, f8f6f4, i8, mxf8f6f4 only, got mxf4nvf4",
        ),
        (NVF4, {"k": 96, "sparse": True}, "k 96 is legal for a dense mxf4 or mxf4nvf4 only"),
        (NVF4, {"k": 96, "m": 64}, "m must be 128 for kind mxf4nvf4 with cta_group::1, got 64"),
        (NVF4, {"k": 32}, "k must be one of 0, 64, 96, got 32"),
    ],
)
def test_limits_of_the_block_scaled_descriptor(base, change, complaint):
    assert str(replace(base, **change).complaint()) == complaint


@pytest.mark.parametrize(
    "kind, group, legal",
    [
        ("i8", 1, (8, 16, 24, 32, *range(48, 257, 16))),
        ("i8", 2, tuple(range(32, 257, 32))),
        ("f8f6f4", 1, tuple(range(8, 257, 8))),
        ("mxf4", 2, tuple(range(16, 257, 16))),
    ],
)
def test_n_steps(kind, group, legal):
    assert legal_n(kind, group) == legal


@pytest.mark.parametrize("kind", ["f8f6f4", "i8", "mxf8f6f4"])
def test_a_transposed_b_of_bytes_has_coarser_n(kind):
    assert legal_n(kind, 1, transpose_b=True) == tuple(range(16, 257, 16))
    assert legal_n(kind, 2, transpose_b=True) == tuple(range(32, 257, 32))
    assert legal_n("f16", 1, transpose_b=True) == tuple(range(8, 257, 8))


def test_integers_are_not_negated():
    i8 = InstructionDescriptor("i8", 128, 64, "s8", "s8", "s32", negate_a=True)
    assert i8.complaint().reason.startswith("a negation is legal for kinds f16, tf32, f8f6f4,")


def test_k_follows_from_kind_and_sparsity():
    assert {kind: row.k for kind, row in KINDS.items()} == {
        "f16": 16,
        "tf32": 8,
        "f8f6f4": 32,
        "i8": 32,
        "mxf8f6f4": 32,
        "mxf4": 64,
        "mxf4nvf4": 64,
    }
    assert (F16.k, replace(F16, sparse=True).k) == (16, 32)
    assert (MXF4.depth, replace(MXF4, sparse=True).depth, replace(MXF4, k=96).depth) == (64, 128, 96)


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"address": 8}, "address must be a multiple of 16, got 8; nearest legal: 0, 16"),
        ({"address": 1 << 18}, "address must be in 0..262128, got 262144"),
        (
            {"leading_byte_offset": 24},
            "leading_byte_offset must be a multiple of 16, got 24; nearest legal: 16, 32",
        ),
        ({"stride_byte_offset": -16}, "stride_byte_offset must be in 0..262128, got -16"),
        ({"base_offset": 8}, "base_offset must be in 0..7, got 8"),
        ({"swizzle": "96B"}, "swizzle must be one of none, 32B, 64B, 128B, 128B_32B, got 96B"),
        ({"swizzle": "none", "base_offset": 1}, "base_offset is legal with a swizzle only"),
        (
            {"absolute": True, "swizzle": "64B"},
            "absolute is legal with swizzle 128B and base_offset 0 only, got 64B and 0",
        ),
    ],
)
def test_limits_of_the_shared_memory_descriptor(change, complaint):
    assert str(replace(MATRIX, **change).complaint()) == complaint
    with pytest.raises(ValueError):
        replace(MATRIX, **change).encode()


def test_long_rows_are_on_103a_and_107a_only():
    long, absolute = replace(NVF4, k=96, m=256, cta_group=2), replace(MATRIX, absolute=True)
    for descriptor, what in ((long, "k 96"), (absolute, "absolute")):
        assert descriptor.complaint("sm_103a") is None
        reason = str(descriptor.complaint("sm_100a"))
        assert reason == f"{what} is legal on sm_103a, sm_107a only, got sm_100a"


def test_transposed_operands_have_their_swizzles():
    assert swizzle_complaint("tf32", WIDE_ATOMS, transposed=True) is None
    assert str(swizzle_complaint("tf32", "128B", transposed=True)) == (
        f"swizzle must be {WIDE_ATOMS} for a transposed operand of kind tf32, got 128B"
    )
    assert swizzle_complaint("f16", WIDE_ATOMS, transposed=True) is not None
    for kind, swizzle in product(KINDS, SWIZZLE_NUMBERS):
        assert swizzle_complaint(kind, swizzle, transposed=False) is None


@pytest.mark.parametrize(
    "form, table, context",
    [
        (InstructionDescriptor, PLAIN_FIELDS, {"kind", "cta_group", "ws", "a"}),
        (BlockScaledDescriptor, SCALED_FIELDS, {"kind", "cta_group", "scale_vec", "a"}),
        (SharedMemoryDescriptor, SHARED_FIELDS[:4] + SHARED_FIELDS[5:], set()),
    ],
)
def test_every_field_is_in_the_word_or_the_instruction_s(form, table, context):
    assert {f.name for f in fields(form)} == {f.name for f in table} | context

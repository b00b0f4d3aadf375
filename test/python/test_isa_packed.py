"""The packed word of NVIDIA's compiler: codes and bit positions."""

import random
import string

import pytest

from weft.isa.mma import packed
from weft.isa.mma.packed import PackedError, decode, encode, query

TYPES = ("b1", "s4", "u4", "s8", "u8", "f16", "bf16", "tf32", "f64", "f32", "s32")
SHAPES = {
    "m8n8k4": 0x01, "m8n8k16": 0x02, "m8n8k32": 0x03, "m8n8k64": 0x04, "m8n8k128": 0x05, "m8n32k16": 0x06,
    "m16n8k4": 0x10, "m16n8k8": 0x11, "m16n8k16": 0x12, "m16n8k32": 0x13, "m16n8k64": 0x14, "m16n8k128": 0x15,
    "m16n8k256": 0x16, "m16n16k16": 0x17, "m32n8k16": 0x18, "m16n16k8": 0x19,
}  # fmt: skip


def mma(**texts: str) -> int:
    return encode("mma", **({"aty": "f16", "bty": "f16", "shape": "m16n8k16"} | texts))


def test_every_code_is_at_its_bit_position():
    base = mma()
    assert base == 0x12 << 32 | 6 << 16 | 6 << 8
    for code, name in enumerate(TYPES, 1):
        assert mma(aty=name) == base & ~(0xFF << 8) | code << 8
        assert mma(bty=name) == base & ~(0xFF << 16) | code << 16
        assert encode("load_store", ety=name, shape="m16n16k16") == 0x17 << 32 | code << 24
    for name, code in SHAPES.items():
        assert mma(shape=name) == base & 0xFFFFFFFF | code << 32
    for code, name in enumerate(("", ".rn", ".rm", ".rp", ".rz")):
        assert mma(rnd=name) == base | code
    for code, name in enumerate(("", ".and.popc", ".xor.popc")):
        assert mma(opc=name) == base | code << 4
    assert mma(al="col", bl="col", satf=".satfinite") == base | 1 << 24 | 1 << 26 | 1 << 28
    for code, name in enumerate("abcd"):
        assert encode("load_store", mid=name, rowcol="col", ety="f32", shape="m8n8k4") == (
            1 << 32 | 10 << 24 | code << 1 | 1
        )


def test_fields_take_these_bits():
    masks = {kind: {f.name: f.mask for f in fields} for kind, fields in packed.FIELDS.items()}
    assert masks == {
        "load_store": {"rowcol": 0b1, "mid": 0b110, "ety": 0xF << 24, "shape": 0xFF << 32},
        "mma": {
            "rnd": 0b111,
            "opc": 0xF << 4,
            "aty": 0xFF << 8,
            "bty": 0xFF << 16,
            "al": 0b11 << 24,
            "bl": 0b11 << 26,
            "satf": 1 << 28,
            "shape": 0xFF << 32,
        },
    }


def test_words_are_read_back():
    rng = random.Random(0)
    for kind, fields in packed.FIELDS.items():
        for _ in range(200):
            texts = {f.name: rng.choice(list(f.texts.values())) for f in fields}
            word = encode(kind, **texts)
            assert decode(kind, word) == texts
            assert {f.name: query(word, f.name) for f in fields} == texts


def test_any_layout_bit_means_col():
    for code in (1, 2, 3):
        assert query(mma() | code << 24, "al") == query(mma() | code << 26, "bl") == "col"
    assert query(mma(), "al") == "row"


@pytest.mark.parametrize(
    "word, key",
    [
        (0, "aty"),
        (12 << 8, "aty"),
        (0, "bty"),
        (12 << 24, "ety"),
        (0, "shape"),
        (0x07 << 32, "shape"),
        (0x1A << 32, "shape"),
        (5, "rnd"),
        (3 << 4, "opc"),
    ],
)
def test_an_unknown_code_is_an_error(word, key):
    with pytest.raises(PackedError, match=f"code of {key} must be one of .*, got {(word >> 32) or '.*'}"):
        query(word, key)


def test_errors_name_what_there_is():
    with pytest.raises(
        PackedError, match=r"key must be one of rowcol, mid, ety, shape, rnd, opc.*, got 'abc'"
    ):
        query(mma(), "abc")
    with pytest.raises(PackedError, match=r"shape must be one of m8n8k4.*, got 'm16n8k2'"):
        mma(shape="m16n8k2")
    with pytest.raises(PackedError, match=r"satf must be one of nothing, \.satfinite, got '\.sat'"):
        mma(satf=".sat")
    with pytest.raises(PackedError, match=r"fields of mma must be among rnd, opc.*, got mid"):
        mma(mid="a")
    with pytest.raises(PackedError, match=r"code of aty must be one of .*, got 0"):
        encode("mma", shape="m8n8k4")
    with pytest.raises(PackedError, match=r"kind must be one of .*, got 'wgmma'"):
        encode("wgmma")
    with pytest.raises(PackedError, match=r"must have only bits of its fields, got .* with bits \[3, 40\]"):
        decode("mma", mma() | 1 << 3 | 1 << 40)
    with pytest.raises(PackedError, match=r"word of mma must have only bits of its fields, got .* with bits"):
        decode("mma", -1)


def test_codes_are_texts_of_ptx():
    allowed = set(string.ascii_lowercase + string.digits + ".")
    for fields in packed.FIELDS.values():
        assert all(set(text) <= allowed for field in fields for text in field.texts.values())

"""The 64-bit word in which NVIDIA's compiler packs a warp-level matrix instruction of chips before sm_90:
fields, codes, and the queries by string with which the compiler prints PTX.

The fields of a load or store and those of a product share bits: a word is read as one or the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

WORD_BITS = 64


class PackedError(ValueError):
    """A field, a code or a text that the packed word doesn't have."""


@dataclass(frozen=True)
class Field:
    """Bits `low` to `low + bits - 1`, and the PTX text for each code."""

    name: str
    low: int
    bits: int
    texts: Mapping[int, str]

    @property
    def mask(self) -> int:
        return ((1 << self.bits) - 1) << self.low

    def text(self, word: int) -> str:
        """The meaning of the word's code."""
        code = (word & self.mask) >> self.low
        if code not in self.texts:
            known = ", ".join(f"{known} {text or 'nothing'}" for known, text in self.texts.items())
            raise PackedError(f"code of {self.name} must be one of {known}, got {code}")
        return self.texts[code]

    def bits_of(self, text: str) -> int:
        """The word that has `text` here and 0 elsewhere."""
        for code, known in self.texts.items():
            if known == text:
                return code << self.low
        known = ", ".join(dict.fromkeys(text or "nothing" for text in self.texts.values()))
        raise PackedError(f"{self.name} must be one of {known}, got '{text}'")


_ELEMENTS = dict(enumerate(("b1", "s4", "u4", "s8", "u8", "f16", "bf16", "tf32", "f64", "f32", "s32"), 1))
_SHAPES = dict(enumerate(("m8n8k4", "m8n8k16", "m8n8k32", "m8n8k64", "m8n8k128", "m8n32k16"), 0x01)) | dict(
    enumerate(
        (
            *("m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64", "m16n8k128", "m16n8k256"),
            *("m16n16k16", "m32n8k16", "m16n16k8"),
        ),
        0x10,
    )
)
# Two bits, of which any that is set means col; `col` is written as 1.
_LAYOUTS = {0: "row", 1: "col", 2: "col", 3: "col"}

_SHAPE = Field("shape", 32, 8, _SHAPES)
FIELDS: Mapping[str, tuple[Field, ...]] = {
    "load_store": (
        Field("rowcol", 0, 1, {0: "row", 1: "col"}),
        Field("mid", 1, 2, {0: "a", 1: "b", 2: "c", 3: "d"}),
        Field("ety", 24, 4, _ELEMENTS),
        _SHAPE,
    ),
    "mma": (
        Field("rnd", 0, 3, {0: "", 1: ".rn", 2: ".rm", 3: ".rp", 4: ".rz"}),
        Field("opc", 4, 4, {0: "", 1: ".and.popc", 2: ".xor.popc"}),
        Field("aty", 8, 8, _ELEMENTS),
        Field("bty", 16, 8, _ELEMENTS),
        Field("al", 24, 2, _LAYOUTS),
        Field("bl", 26, 2, _LAYOUTS),
        Field("satf", 28, 1, {0: "", 1: ".satfinite"}),
        _SHAPE,
    ),
}
"""The fields of a word, by what it describes: a fragment's load or store, or a product."""


def encode(kind: str, **texts: str) -> int:
    """The word of a `load_store` or an `mma` with these texts, as the queries return them.

    A field that isn't given has code 0, where that is one. Raises PackedError.
    """
    word = 0
    for field in _fields(kind):
        word |= field.bits_of(texts.pop(field.name)) if field.name in texts else 0
        field.text(word)
    if texts:
        raise PackedError(f"fields of {kind} must be among {_names(kind)}, got {', '.join(texts)}")
    return word


def decode(kind: str, word: int) -> dict[str, str]:
    """The meaning of each field of a word. Raises PackedError for unknown codes and for bits of no field."""
    fields = _fields(kind)
    stray = word & ~sum(field.mask for field in fields)
    if stray or not 0 <= word < 1 << WORD_BITS:
        bits = [bit for bit in range(WORD_BITS) if stray >> bit & 1] or "beyond 63"
        raise PackedError(f"word of {kind} must have only bits of its fields, got {word:#x} with bits {bits}")
    return {field.name: field.text(word) for field in fields}


def query(word: int, key: str) -> str:
    """The PTX text that a word has for one key ("shape", "aty", …); the key selects how shared bits are read.
    Raises PackedError for a word that doesn't have 64 bits, an unknown key and an unknown code.
    """
    if not isinstance(word, int) or not 0 <= word < 1 << WORD_BITS:
        shown = f"{word:#x}" if isinstance(word, int) else repr(word)
        raise PackedError(f"word must be an integer of {WORD_BITS} bits, got {shown}")
    for fields in FIELDS.values():
        for field in fields:
            if field.name == key:
                return field.text(word)
    keys = dict.fromkeys(field.name for fields in FIELDS.values() for field in fields)
    raise PackedError(f"key must be one of {', '.join(keys)}, got '{key}'")


def _fields(kind: str) -> tuple[Field, ...]:
    if kind not in FIELDS:
        raise PackedError(f"kind must be one of {', '.join(FIELDS)}, got '{kind}'")
    return FIELDS[kind]


def _names(kind: str) -> str:
    return ", ".join(field.name for field in FIELDS[kind])

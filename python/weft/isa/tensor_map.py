"""The 128-byte tensor map, which describes a tensor and a box of it to `cp.async.bulk.tensor` (PTX
ISA, "Tensors"; CUDA driver API, `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`).

The ISA doesn't publish the bits. They were determined by comparing the maps that a driver encoded for an
H200. That driver refuses packed types and the wider swizzle atoms; their bits are our own choice.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.isa.chips import MOST_SHARED_BYTES
from weft.isa.family import Verdict, must_be

_WORDS = "<16Q"
BYTES = struct.calcsize(_WORDS)
ALIGNMENT = 64
"""Tensor maps begin at multiples of this, in bytes."""
MAX_RANK = 5
ROW_BYTES = 16
"""Rows begin at multiples of this; an H200 also writes rows up to a multiple of it, beyond their end."""
MOST_BOX = 256
"""Elements of a box along each dimension."""
BOX_ALIGNMENT = 128
"""Boxes begin at multiples of this in shared memory, in bytes; swizzled ones at multiples of their period."""
JOINED_ROWS = 8
"""Rows of 16 bytes that a copy takes at once where they follow each other in memory."""
GATHERED_ROWS = 4
"""Rows that one copy in the mode `.tile::gather4` takes, each of any number."""
EXPANDED_UNIT = 16
"""Packed elements that a copy moves at once."""
EXPANDED_ROW = 128
"""Elements of a box's row where elements of 4 or 6 bits are expanded to bytes, 16 of them to 16 bytes."""
EXPANDED_SWIZZLES = ("none", "128B")
# Of a box; the driver accepts 204,800 bytes and refuses 262,144.
_MAX_BOX_BYTES = MOST_SHARED_BYTES


@dataclass(frozen=True)
class ElementType:
    """A type of elements; `number` is that of `tensormap.replace`, `code` that of the map."""

    name: str
    number: int
    code: int
    bits: int
    is_float: bool = False
    packed_bytes: int = 0
    """The bytes of 16 packed elements in shared memory; 0 for unpacked types."""


#            driver's name    number code  bits
ELEMENT_TYPES = {
    t.name: t
    for t in (
        ElementType("UINT8", 0, 0, 8),
        ElementType("UINT16", 1, 1, 16),
        ElementType("UINT32", 2, 2, 32),
        ElementType("INT32", 3, 3, 32),
        ElementType("UINT64", 4, 4, 64),
        ElementType("INT64", 5, 5, 64),
        ElementType("FLOAT16", 6, 6, 16, is_float=True),
        ElementType("FLOAT32", 7, 7, 32, is_float=True),
        ElementType("FLOAT32_FTZ", 8, 8, 32, is_float=True),
        ElementType("FLOAT64", 9, 9, 64, is_float=True),
        ElementType("BFLOAT16", 10, 10, 16, is_float=True),
        ElementType("TFLOAT32", 11, 7 | 1 << 9, 32, is_float=True),
        ElementType("TFLOAT32_FTZ", 12, 8 | 1 << 9, 32, is_float=True),
        ElementType("16U4_ALIGN8B", 13, 11, 4, packed_bytes=8),
        ElementType("16U4_ALIGN16B", 14, 12, 4, packed_bytes=16),
        ElementType("16U6_ALIGN16B", 15, 13, 6, packed_bytes=16),
    )
}
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = ("none", "32B", "64B", "128B")
"""By their number in `tensormap.replace`; 96B of sm_103a is not among them."""
SWIZZLED_ROWS = 8
"""Rows after which the pattern of a swizzle repeats."""
ATOMS = ("16B", "32B", "32B_FLIP_8B", "64B")
ATOM = "_ATOM_"
SWIZZLE_NAMES = (*SWIZZLES, *(f"128B{ATOM}{atom}" for atom in ATOMS[1:]))
"""As the driver names them, after CU_TENSOR_MAP_SWIZZLE_."""
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zero", "nan")

_BY_NUMBER = {t.number: t for t in ELEMENT_TYPES.values()}
_BY_CODE = {t.code: t.number for t in ELEMENT_TYPES.values()}
_CORNER_BITS = {1: 16, 2: 8, 3: 5}
"""The bits of each dimension of an im2col corner, by how many there are."""
_SPANS = {"none": 16, "32B": 256, "64B": 512, "128B": 1024}


@dataclass(frozen=True)
class Slot:
    """Some bits of one of a map's 64-bit words; a value's lowest `drop` bits are left out."""

    word: int
    low: int
    bits: int
    drop: int = 0

    def put(self, value: int) -> int:
        """The word with the value in this slot and 0 elsewhere."""
        return (value >> self.drop & (1 << self.bits) - 1) << self.low

    def get(self, word: int) -> int:
        """The part of the value that is in this slot of the word."""
        return (word >> self.low & (1 << self.bits) - 1) << self.drop


@dataclass(frozen=True)
class Field:
    """A field as `tensormap.replace` names it, with `counts` ordinals.

    `slots_of` returns the slots of an ordinal. The map has the value minus `less`, or the code of an element
    type. Replacing the field clears the bits `clears`, as ptxas's code does.
    """

    slots_of: Callable[[int], tuple[Slot, ...]]
    counts: int = 1
    less: int = 0
    bits: int = 32
    codes: bool = False
    clears: tuple[Slot, ...] = ()

    def stored(self, value: int) -> int:
        """The code of a value in the map."""
        return _BY_NUMBER[value].code if self.codes else value - self.less

    def get(self, words: Sequence[int], ordinal: int) -> int:
        """The value in a map; -1 for an unknown code."""
        code = sum(slot.get(words[slot.word]) for slot in self.slots_of(ordinal))
        return _BY_CODE.get(code, -1) if self.codes else code + self.less

    def slots(self, ordinal: int) -> tuple["Stored", ...]:
        """The bits of an ordinal, as writers of values."""
        return tuple(Stored(self, slot) for slot in self.slots_of(ordinal))


@dataclass(frozen=True)
class Stored:
    """Bits of a field."""

    field: Field
    slot: Slot

    @property
    def word(self) -> int:
        return self.slot.word

    def put(self, value: int) -> int:
        """The word with the value in this slot and 0 elsewhere."""
        return self.slot.put(self.field.stored(value))


def _stride(ordinal: int) -> tuple[Slot, ...]:
    at = ordinal + 1
    return Slot(1 + at // 2, 32 * (at % 2), 32, 4), Slot(3, 32 + 4 * ordinal, 4, 36)


# Encoders set it for tensors of 128 KiB and more (CUTLASS clears it in smaller ones' maps where a driver set
# it). What a copy takes doesn't depend on it.
_LARGE = Slot(1, 21, 1)
FIELDS = {
    "global_address": Field(lambda i: (Slot(0, 0, 64),), bits=64, clears=(_LARGE,)),
    "rank": Field(lambda i: (Slot(1, 4, 3),)),
    "box_dim": Field(lambda i: (Slot(7, 8 * (i - 1), 8) if i else Slot(6, 56, 8),), MAX_RANK, less=1),
    "global_dim": Field(lambda i: (Slot(4 + i // 2, 32 * (i % 2), 32),), MAX_RANK, less=1),
    "global_stride": Field(_stride, MAX_RANK - 1, bits=64),
    "element_stride": Field(lambda i: (Slot(6, 32 + 3 * i, 3),), MAX_RANK, less=1),
    "elemtype": Field(lambda i: (Slot(1, 7, 4), Slot(1, 16, 1, 9)), codes=True),
    "interleave_layout": Field(lambda i: (Slot(1, 11, 2),)),
    "swizzle_mode": Field(lambda i: (Slot(1, 13, 2), Slot(1, 22, 1, 2))),
    "swizzle_atomicity": Field(lambda i: (Slot(1, 19, 2),)),
    "fill_mode": Field(lambda i: (Slot(1, 15, 1),)),
    "l2_promotion": Field(lambda i: (Slot(1, 17, 2),)),
}
"""The position of each field in a map; `tensormap.replace` doesn't have the last one."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor of up to five dimensions, innermost first, and the part of it that a copy moves. Sizes are in
    elements.

    `strides` are those of dimensions 1 and up, in bytes. In tiled mode a copy takes `box`, every
    `element_strides`-th of it. In im2col mode (`box` is empty) it takes `channels_per_pixel` of each of
    `pixels_per_column` pixels, which run over the box from `lower_corner` to the last pixel plus
    `upper_corner`, and on over the batch. `swizzle` moves 16 bytes at a time unless `atom` is another.
    """

    address: int
    type: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: str = "none"
    atom: str = "16B"
    l2_promotion: str = "none"
    oob_fill: str = "zero"
    lower_corner: tuple[int, ...] = ()
    upper_corner: tuple[int, ...] = ()
    channels_per_pixel: int = 0
    pixels_per_column: int = 0

    @property
    def element(self) -> ElementType:
        return ELEMENT_TYPES[self.type]

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_im2col(self) -> bool:
        return not self.box

    @property
    def packing(self) -> int:
        """How many elements of dimension 0 are copied as one unit."""
        if self.element.packed_bytes == 8:  # packed in shared memory, too: a row may end at any byte
            return 8 // self.element.bits
        return EXPANDED_UNIT if self.element.packed_bytes else 1

    @property
    def unit_bytes(self) -> int:
        """The bytes of a unit of dimension 0 in global memory: an element, two or 16 packed ones, or with an
        interleave a slice of channels, which the coordinate then counts.
        """
        return {"none": self.element.bits * self.packing // 8, "16B": 16, "32B": 32}[self.interleave]

    @property
    def shared_unit_bytes(self) -> int:
        """The bytes of a unit in shared memory."""
        return EXPANDED_UNIT if self.packing == EXPANDED_UNIT else self.unit_bytes

    # The checks of the driver

    def complaint(self) -> Verdict | None:
        """The first rule that the fields break."""
        return next((verdict for verdict in self._complaints() if verdict is not None), None)

    def _complaints(self) -> Iterable[Verdict | None]:
        yield one_of("dtype", self.type, ELEMENT_TYPES)
        yield one_of("interleave", self.interleave, INTERLEAVES)
        yield one_of("swizzle", self.swizzle, SWIZZLES)
        yield one_of("swizzle atom", self.atom, ATOMS)
        yield one_of("l2_promotion", self.l2_promotion, L2_PROMOTIONS)
        yield one_of("oob_fill", self.oob_fill, OOB_FILLS)
        least = 3 if self.is_im2col or self.interleave != "none" else 1
        yield _range("rank", self.rank, least, MAX_RANK)
        yield _length("strides_bytes", self.strides, self.rank - 1)
        yield _length("element_strides", self.element_strides, self.rank)
        yield from (_range(f"dims[{i}]", d, 1, 1 << 32) for i, d in enumerate(self.dims))
        yield from (_range(f"element_strides[{i}]", e, 1, 8) for i, e in enumerate(self.element_strides))
        align = 32 if self.interleave == "32B" or self.element.packed_bytes == 16 else 16
        yield _multiple("address", self.address, align)
        for i, stride in enumerate(self.strides):
            yield _range(f"strides_bytes[{i}]", stride, 0, (1 << 40) - 1)
            yield _multiple(f"strides_bytes[{i}]", stride, align)
        if self.oob_fill == "nan" and not self.element.is_float:
            yield Verdict("oob_fill", f"oob_fill nan needs a floating-point type, got {self.type}")
        if self.element.packed_bytes:
            yield _multiple("dims[0]", self.dims[0], EXPANDED_ROW if self.element.packed_bytes == 16 else 2)
        yield from self._of_im2col() if self.is_im2col else self._of_the_box()

    def _of_the_box(self) -> Iterable[Verdict | None]:
        yield _length("box", self.box, self.rank)
        yield from (_range(f"box[{i}]", b, 1, MOST_BOX) for i, b in enumerate(self.box))
        if self.element.packed_bytes == 16 and self.box[0] != EXPANDED_ROW:
            must = f"box[0] must be {EXPANDED_ROW} for {self.type}"
            yield Verdict("box[0]", f"{must}, got {self.box[0]}", (str(EXPANDED_ROW),))
        yield from self._of_the_inner_row("box[0]", self.box[0])
        taken = prod(b // e for b, e in zip(self.box, self.element_strides, strict=True))
        yield _range("bytes of the box", taken * self.element.bits // 8, 0, _MAX_BOX_BYTES)

    def _of_im2col(self) -> Iterable[Verdict | None]:
        spatial = self.rank - 2
        yield _length("lower_corner", self.lower_corner, spatial)
        yield _length("upper_corner", self.upper_corner, spatial)
        most = 1 << (_CORNER_BITS[spatial] - 1)
        for i, (low, up) in enumerate(zip(self.lower_corner, self.upper_corner, strict=True)):
            yield _range(f"lower_corner[{i}]", low, -most, most - 1)
            yield _range(f"upper_corner[{i}]", up, -most, most - 1)
            yield _range(f"pixels in dimension {i + 1} of the box", self.dims[i + 1] + up - low, 1, 1 << 33)
        yield _range("channels_per_pixel", self.channels_per_pixel, 1, 256)
        yield _range("pixels_per_column", self.pixels_per_column, 1, 1024)
        yield from self._of_the_inner_row("channels_per_pixel", self.channels_per_pixel)

    def _of_the_inner_row(self, what: str, count: int) -> Iterable[Verdict | None]:
        if self.interleave != "none":
            return
        if self.element.packed_bytes == 16 and (wrong := one_of("swizzle", self.swizzle, EXPANDED_SWIZZLES)):
            yield Verdict("swizzle", f"{wrong.reason} for {self.type}", EXPANDED_SWIZZLES)
        size = count * self.element.bits // 8
        yield _multiple(f"bytes of {what}", size, 8 if self.element.packed_bytes == 8 else 16)
        if self.swizzle != "none":
            width = int(self.swizzle.rstrip("B"))
            row = count // EXPANDED_UNIT * self.element.packed_bytes if self.element.packed_bytes else size
            yield _range(f"bytes of {what} with swizzle {self.swizzle}", row, 0, width)

    # The 128 bytes

    def encode(self) -> bytes:
        """The 128 bytes of the map. Raises ValueError if `complaint` returns one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        words = [0] * 16
        words[1], words[9] = int(self.is_im2col), _SPANS[self.swizzle]
        fields: dict[str, Sequence[int]] = {
            "global_address": [self.address],
            "rank": [self.rank - 1],
            "global_dim": self.dims,
            "global_stride": self.strides,
            "element_stride": self.element_strides,
            "box_dim": self.box or [self.channels_per_pixel],
            "elemtype": [self.element.number],
            "interleave_layout": [INTERLEAVES.index(self.interleave)],
            "swizzle_mode": [SWIZZLES.index(self.swizzle)],
            "swizzle_atomicity": [ATOMS.index(self.atom)],
            "fill_mode": [OOB_FILLS.index(self.oob_fill)],
            "l2_promotion": [L2_PROMOTIONS.index(self.l2_promotion)],
        }
        for name, values in fields.items():
            for ordinal, value in enumerate(values):
                for slot in FIELDS[name].slots(ordinal):
                    words[slot.word] |= slot.put(value)
        if self.is_im2col:
            bits = _CORNER_BITS[self.rank - 2]
            low, up = (
                sum((c & (1 << bits) - 1) << bits * i for i, c in enumerate(corner))
                for corner in (self.lower_corner, self.upper_corner)
            )
            words[7] = low | up << 16 | (self.pixels_per_column - 1) << 32
            taken = self.channels_per_pixel * self.pixels_per_column
        else:
            taken = prod(b // e for b, e in zip(self.box, self.element_strides, strict=True))
        words[8] = taken * self.element.bits // 8
        return struct.pack(_WORDS, *words)

    @classmethod
    def decode(cls, data: bytes) -> "TensorMap":
        """Decodes a map. Raises ValueError if its fields aren't legal."""
        words = struct.unpack(_WORDS, data)

        def read(name: str, count: int = 1) -> tuple[int, ...]:
            return tuple(FIELDS[name].get(words, ordinal) for ordinal in range(count))

        rank, number, interleave = read("rank")[0] + 1, read("elemtype")[0], read("interleave_layout")[0]
        swizzle = read("swizzle_mode")[0]
        if rank > MAX_RANK:
            raise ValueError(f"a tensor map's rank must be in 1..{MAX_RANK}, got {rank}")
        if number not in _BY_NUMBER:
            raise ValueError(f"a tensor map's element type must be one of {', '.join(ELEMENT_TYPES)}")
        if interleave >= len(INTERLEAVES):
            raise ValueError(
                f"a tensor map's interleave must be in 0..{len(INTERLEAVES) - 1}, got {interleave}"
            )
        if swizzle >= len(SWIZZLES):
            raise ValueError(f"a tensor map's swizzle mode must be in 0..{len(SWIZZLES) - 1}, got {swizzle}")
        tiled = cls(
            read("global_address")[0],
            _BY_NUMBER[number].name,
            read("global_dim", rank),
            read("global_stride", rank - 1),
            read("element_stride", rank),
            read("box_dim", rank),
            interleave=INTERLEAVES[interleave],
            swizzle=SWIZZLES[swizzle],
            oob_fill=OOB_FILLS[read("fill_mode")[0]],
            l2_promotion=L2_PROMOTIONS[read("l2_promotion")[0]],
            atom=ATOMS[read("swizzle_atomicity")[0]],
        )
        tensor_map = _as_im2col(tiled, words[7]) if words[1] & 1 else tiled
        if verdict := tensor_map.complaint():
            raise ValueError(f"a tensor map's {verdict}")
        return tensor_map


def _as_im2col(tiled: TensorMap, word: int) -> TensorMap:
    spatial = tiled.rank - 2
    if spatial not in _CORNER_BITS:
        raise ValueError(f"a tensor map's rank must be in 3..{MAX_RANK} in im2col mode, got {tiled.rank}")
    bits = _CORNER_BITS[spatial]

    def corner(shift: int) -> tuple[int, ...]:
        raw = [word >> shift + bits * i & (1 << bits) - 1 for i in range(spatial)]
        return tuple(value - (value >> bits - 1 << bits) for value in raw)

    return replace(
        tiled,
        box=(),
        lower_corner=corner(0),
        upper_corner=corner(16),
        channels_per_pixel=tiled.box[0],
        pixels_per_column=(word >> 32 & 0x3FF) + 1,
    )


def one_of(what: str, value: str, legal: Iterable[str]) -> Verdict | None:
    """Why a field's value isn't legal; None where it is."""
    choices = tuple(legal)
    if value in choices:
        return None
    return Verdict(what, must_be(what, choices, value), choices)


def _range(what: str, value: int, least: int, most: int) -> Verdict | None:
    if least <= value <= most:
        return None
    near = str(least if value < least else most)
    return Verdict(what, f"{what} must be in {least}..{most}, got {value}", (near,))


def _length(what: str, values: Sequence[int], count: int) -> Verdict | None:
    if len(values) == count:
        return None
    return Verdict(what, f"{what} must have {count} values, got {len(values)}", (str(count),))


def _multiple(what: str, value: int, step: int) -> Verdict | None:
    if value % step == 0:
        return None
    below = value - value % step
    return Verdict(what, f"{what} must be a multiple of {step}, got {value}", (str(below), str(below + step)))

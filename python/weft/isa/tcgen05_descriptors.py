"""The descriptors of `tcgen05`: the instruction descriptor, which says what `tcgen05.mma` multiplies, and the
shared-memory descriptor, which says where a matrix lies (PTX ISA, "Instruction descriptor", "Shared memory
descriptor", "Matrix Shape", "Transpose and Negate operations", "Valid Combinations of Type-Size, Major-ness
and Swizzling").

ptxas can't see into them, so every limit that the ISA sets is checked here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from weft.isa.chips import describe, only
from weft.isa.descriptors import SWIZZLES, BitField, unknown_bits
from weft.isa.family import Verdict
from weft.isa.tcgen05_form import ALL
from weft.isa.tcgen05_mma import scale_vecs


@dataclass(frozen=True)
class Kind:
    """What one `.kind` multiplies: elements with their numbers in the descriptor, and the dense K."""

    name: str
    k: int
    elements: Mapping[str, int]
    accumulators: Mapping[str, int]
    transposes: bool = True
    negates: bool = True
    scales: Mapping[str, int] | None = None

    @property
    def element_bytes(self) -> int:
        """Bytes of an element in shared memory; all of 4 and 6 bits stand in bytes, except those of mxf4."""
        return {"tf32": 4, "f16": 2}.get(self.name, 1)


_F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
_UE8M0 = {"ue8m0": 1}

#         kind        K   elements               accumulators
KINDS = {
    kind.name: kind
    for kind in (
        Kind("f16", 16, {"f16": 0, "bf16": 1}, {"f16": 0, "f32": 1}),
        Kind("tf32", 8, {"tf32": 2}, {"f32": 1}),
        Kind("f8f6f4", 32, _F8F6F4, {"f16": 0, "f32": 1}),
        Kind("i8", 32, {"u8": 0, "s8": 1}, {"s32": 2}, negates=False),
        Kind("mxf8f6f4", 32, _F8F6F4, {"f32": 1}, scales=_UE8M0),
        Kind("mxf4", 64, {"e2m1": 1}, {"f32": 1}, transposes=False, scales=_UE8M0),
        Kind("mxf4nvf4", 64, {"e2m1": 1}, {"f32": 1}, transposes=False, scales={"ue4m3": 0, **_UE8M0}),
    )
}
"""Kind ti16 of sm_107 is not among them: its descriptor has another layout."""

_BY_SIXTEEN = ("4X", "block16")
"""The scale vector sizes of a scale for each 16 elements."""
_LONG_K = 96  # of a dense mxf4 or mxf4nvf4: rows of 48 bytes, which absolute descriptors are for
_LONG_K_CHIPS = only("sm_103a", "sm_107a")
MAX_SHIFTS = (0, 8, 16, 32)


def _steps(first: int, last: int, step: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1, step))


def legal_m(
    kind: str, cta_group: int, *, sparse: bool = False, ws: bool = False, k: int = 0
) -> tuple[int, ...]:
    """The legal M, of the pair of CTAs where `cta_group` is 2."""
    if ws:
        return (32, 64, 128)
    if KINDS[kind].scales is None:
        return (64, 128) if cta_group == 1 else (128, 256)
    if cta_group == 1:
        return (128,)
    return (256,) if sparse or k == _LONG_K else (128, 256)


def legal_n(
    kind: str, cta_group: int, *, sparse: bool = False, ws: bool = False, transpose_b: bool = False
) -> tuple[int, ...]:
    """The legal N."""
    if ws:
        return (64, 128) if sparse else (64, 128, 256)
    if kind == "i8" or (transpose_b and KINDS[kind].element_bytes == 1):
        coarse = _steps(16, 256, 16) if cta_group == 1 else _steps(32, 256, 32)
        return (8, 16, 24, *coarse[1:]) if kind == "i8" and cta_group == 1 and not transpose_b else coarse
    return _steps(8 * cta_group, 256, 8 * cta_group)


def _known(what: str, value: object, legal: Iterable[object], given: str = "") -> Verdict | None:
    """The complaint about a value that isn't one of the legal ones; the nearest of many numbers are named."""
    choices = tuple(legal)
    if value in choices:
        return None
    numbers = [c for c in choices if isinstance(c, int) and not isinstance(c, bool)]
    if isinstance(value, int) and len(numbers) > 4:
        near = sorted(sorted(numbers, key=lambda n: abs(n - value))[:2])
        return Verdict(
            what,
            f"has no {what} {value}{given}: it is {numbers[0]} to {numbers[-1]}, {_rhythm(numbers)}",
            tuple(map(str, near)),
        )
    shown = value if isinstance(value, str) else str(value).lower()
    return Verdict(what, f"has no {what} {shown}{given}: it is one of {', '.join(map(str, choices))}")


def _rhythm(numbers: Sequence[int]) -> str:
    steps = sorted({b - a for a, b in pairwise(numbers)})
    return " then ".join(f"by {step}" for step in steps)


_COMMON = (
    BitField("sparse", 2, 1),
    BitField("a_type", 7, 3),
    BitField("b_type", 10, 3),
    BitField("negate_a", 13, 1),
    BitField("negate_b", 14, 1),
    BitField("transpose_a", 15, 1),
    BitField("transpose_b", 16, 1),
    BitField("n", 17, 6, 8),
    BitField("m", 24, 5, 16),
)
PLAIN_FIELDS = (
    *_COMMON,
    BitField("sparsity_selector", 0, 2),
    BitField("saturate", 3, 1),
    BitField("d_type", 4, 2),
    BitField("max_shift", 30, 2),
)
"""The fields for kinds without block scale, by name as in `InstructionDescriptor`."""
SCALED_FIELDS = (
    *_COMMON,
    BitField("b_scale_id", 4, 2),
    BitField("scale_type", 23, 1),
    BitField("a_scale_id", 29, 2),
    BitField("k", 31, 1),
)
"""The fields for kinds with block scale, by name as in `BlockScaledDescriptor`."""


@dataclass(frozen=True)
class InstructionDescriptor:
    """The 32-bit descriptor of a `tcgen05.mma` without block scale.

    M is that of the pair of CTAs where `cta_group` is 2. `cta_group`, `ws` and `a` ("shared" or "tensor"
    memory) are the instruction's and set limits, but aren't in the word. `transpose_a` and `transpose_b`
    mean that M (N) runs fastest in shared memory instead of K. `max_shift` is that of columns of B under
    `.ws`.
    """

    kind: str
    m: int
    n: int
    a_type: str
    b_type: str
    d_type: str
    cta_group: int = 1
    ws: bool = False
    a: str = "shared"
    sparse: bool = False
    sparsity_selector: int = 0
    saturate: bool = False
    negate_a: bool = False
    negate_b: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    max_shift: int = 0

    @property
    def k(self) -> int:
        """The K of one instruction."""
        return KINDS[self.kind].k * (2 if self.sparse else 1)

    def complaint(self, chip: str | None = None) -> Verdict | None:
        """The first rule that the fields break, on `chip` where it is given."""
        plain = tuple(name for name, kind in KINDS.items() if kind.scales is None)
        if verdict := _known("kind", self.kind, plain):
            return verdict
        kind = KINDS[self.kind]
        return _first(
            _chip(chip),
            _types(self),
            _known("d_type", self.d_type, kind.accumulators, f" for kind {self.kind}"),
            _accumulator(self),
            _shape(self),
            _operands(self),
            _known("sparsity_selector", self.sparsity_selector, range(4)),
            _only(self.sparse or not self.sparsity_selector, "sparsity_selector", "with a sparse A only"),
            _only(self.kind == "i8" or not self.saturate, "saturate", "for kind i8 only"),
            _known("max_shift", self.max_shift, MAX_SHIFTS),
            _only(self.ws or not self.max_shift, "max_shift", "with weight stationary (.ws) only"),
        )

    def encode(self) -> int:
        """The descriptor; ValueError where `complaint` has one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        kind = KINDS[self.kind]
        numbers = _numbers(self, PLAIN_FIELDS) | {
            "d_type": kind.accumulators[self.d_type],
            "max_shift": MAX_SHIFTS.index(self.max_shift),
        }
        return sum(field.put(numbers[field.name]) for field in PLAIN_FIELDS)

    @classmethod
    def decode(
        cls, word: int, kind: str, cta_group: int = 1, *, ws: bool = False, a: str = "shared"
    ) -> "InstructionDescriptor":
        """What a descriptor says to an instruction of this kind; ValueError where it says nothing legal."""
        found = _read(word, kind, PLAIN_FIELDS, scaled=False)
        found["d_type"] = _name(word, "d_type", found["d_type"], KINDS[kind].accumulators)
        found["max_shift"] = MAX_SHIFTS[found["max_shift"]]
        return _checked(cls(kind=kind, cta_group=cta_group, ws=ws, a=a, **found), word)


@dataclass(frozen=True)
class BlockScaledDescriptor:
    """The 32-bit descriptor of a `tcgen05.mma` with block scale.

    `k` is 0 for the kind's own, or 96 for a dense mxf4 or mxf4nvf4. A scale id names the byte of a column of
    tensor memory where an operand's scales begin; how many are legal depends on how many bytes it has, which
    `scale_vec` says as the instruction does (`1X`, `2X`, `4X`, `block16`, `block32`, or nothing). The rest
    is as in `InstructionDescriptor`.
    """

    kind: str
    m: int
    n: int
    a_type: str
    b_type: str
    scale_type: str = "ue8m0"
    cta_group: int = 1
    scale_vec: str = ""
    a: str = "shared"
    sparse: bool = False
    negate_a: bool = False
    negate_b: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    a_scale_id: int = 0
    b_scale_id: int = 0
    k: int = 0

    @property
    def depth(self) -> int:
        """The K of one instruction."""
        return self.k or KINDS[self.kind].k * (2 if self.sparse else 1)

    @property
    def scale_ids(self) -> tuple[int, ...]:
        """The legal scale ids."""
        by_sixteen = self.scale_vec in _BY_SIXTEEN
        if self.kind == "mxf8f6f4" or (self.k == _LONG_K and not by_sixteen):
            return (0, 1, 2, 3)
        return (0,) if by_sixteen and self.k != _LONG_K else (0, 2)

    @property
    def scales(self) -> int:
        """How many scales each row of A and each column of B has."""
        if self.kind == "mxf8f6f4":
            return 1
        size = 16 if self.scale_vec in _BY_SIXTEEN else 32
        return (self.k or KINDS[self.kind].k) // size

    def complaint(self, chip: str | None = None) -> Verdict | None:
        """The first rule that the fields break, on `chip` where it is given."""
        scaled = tuple(name for name, kind in KINDS.items() if kind.scales is not None)
        if verdict := _known("kind", self.kind, scaled):
            return verdict
        long = self.kind != "mxf8f6f4" and not self.sparse and self.cta_group == 2
        given = f" for kind {self.kind}"
        return _first(
            _chip(chip),
            _types(self),
            _known("scale_vec", self.scale_vec, scale_vecs(self.kind), given),
            _known("scale_type", self.scale_type, KINDS[self.kind].scales or (), given),
            _only(
                self.scale_type != "ue4m3" or self.scale_vec in _BY_SIXTEEN,
                "scale_type ue4m3",
                f"with scale_vec {' or '.join(_BY_SIXTEEN)} only, found {self.scale_vec or 'none'}",
            ),
            _known("k", self.k, (0, KINDS[self.kind].k * (2 if self.sparse else 1), _LONG_K)),
            _only(
                self.k != _LONG_K or long, f"k {_LONG_K}", "for a dense mxf4 or mxf4nvf4 of cta_group::2 only"
            ),
            _long_k(self.k == _LONG_K, f"k {_LONG_K}", chip),
            _shape(self),
            _operands(self),
            _known("a_scale_id", self.a_scale_id, self.scale_ids, given),
            _known("b_scale_id", self.b_scale_id, self.scale_ids, given),
        )

    def encode(self) -> int:
        """The descriptor; ValueError where `complaint` has one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        numbers = _numbers(self, SCALED_FIELDS) | {
            "scale_type": (KINDS[self.kind].scales or {})[self.scale_type],
            "k": int(self.k == _LONG_K),
        }
        return sum(field.put(numbers[field.name]) for field in SCALED_FIELDS)

    @classmethod
    def decode(
        cls, word: int, kind: str, cta_group: int = 1, *, scale_vec: str = "", a: str = "shared"
    ) -> "BlockScaledDescriptor":
        """What a descriptor says to an instruction of this kind; ValueError where it says nothing legal."""
        found = _read(word, kind, SCALED_FIELDS, scaled=True)
        found["scale_type"] = _name(word, "scale_type", found["scale_type"], KINDS[kind].scales or {})
        found["k"] = _LONG_K if found["k"] else 0
        return _checked(cls(kind=kind, cta_group=cta_group, scale_vec=scale_vec, a=a, **found), word)


_Descriptor = InstructionDescriptor | BlockScaledDescriptor


def _first(*verdicts: Verdict | None) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict), None)


def _only(holds: bool, what: str, where: str) -> Verdict | None:
    return None if holds else Verdict(what, f"takes {what} {where}")


def _chip(chip: str | None) -> Verdict | None:
    if chip is None or chip in ALL:
        return None
    return Verdict("target", f"is on {describe(ALL)} only, found {chip}")


def _long_k(used: bool, what: str, chip: str | None) -> Verdict | None:
    if not used or chip is None or chip in _LONG_K_CHIPS:
        return None
    return Verdict(what, f"takes {what} on {describe(_LONG_K_CHIPS)} only, found {chip}")


def _types(descriptor: _Descriptor) -> Verdict | None:
    legal, given = KINDS[descriptor.kind].elements, f" for kind {descriptor.kind}"
    return _known("a_type", descriptor.a_type, legal, given) or _known(
        "b_type", descriptor.b_type, legal, given
    )


def _accumulator(descriptor: InstructionDescriptor) -> Verdict | None:
    if (descriptor.kind, descriptor.d_type) != ("f16", "f16"):
        return None
    inputs = {descriptor.a_type, descriptor.b_type}
    return _only(
        inputs == {"f16"}, "d_type f16", f"with f16 A and B only, found {' and '.join(sorted(inputs))}"
    )


def _shape(descriptor: _Descriptor) -> Verdict | None:
    """The rules of M, N and the CTA group."""
    kind, group, sparse = descriptor.kind, descriptor.cta_group, descriptor.sparse
    ws = isinstance(descriptor, InstructionDescriptor) and descriptor.ws
    if verdict := _known("cta_group", group, (1,) if ws else (1, 2), " with weight stationary" if ws else ""):
        return verdict
    m = legal_m(kind, group, sparse=sparse, ws=ws, k=0 if ws else descriptor.k)
    n = legal_n(kind, group, sparse=sparse, ws=ws, transpose_b=descriptor.transpose_b)
    given = (
        f" for {'sparse ' if sparse else ''}kind {kind} with cta_group::{group}"
        f"{' and weight stationary' if ws else ''}"
    )
    transposed = " and a transposed B" if descriptor.transpose_b and not ws else ""
    return _known("m", descriptor.m, m, given) or _known("n", descriptor.n, n, given + transposed)


def _operands(descriptor: _Descriptor) -> Verdict | None:
    """The rules of transposes, negations, and where A is."""
    kind = KINDS[descriptor.kind]
    transposed = descriptor.transpose_a or descriptor.transpose_b
    negated = descriptor.negate_a or descriptor.negate_b
    may_transpose = ", ".join(k.name for k in KINDS.values() if k.transposes)
    may_negate = ", ".join(k.name for k in KINDS.values() if k.negates)
    return _first(
        _known("a", descriptor.a, ("shared", "tensor")),
        _only(
            kind.transposes or not transposed,
            "a transpose",
            f"for kinds {may_transpose} only, found {kind.name}",
        ),
        _only(kind.negates or not negated, "a negation", f"for kinds {may_negate} only, found {kind.name}"),
        _only(
            descriptor.a == "shared" or not descriptor.transpose_a,
            "transpose_a",
            "with A in shared memory only, found A in tensor memory",
        ),
    )


def _numbers(descriptor: _Descriptor, fields: Sequence[BitField]) -> dict[str, int]:
    """The fields' numbers, but for those that only one of the two layouts has."""
    elements = KINDS[descriptor.kind].elements
    types = {"a_type": elements[descriptor.a_type], "b_type": elements[descriptor.b_type]}
    plain = {f.name: getattr(descriptor, f.name) for f in fields if f.name not in types}
    return types | {name: int(value) for name, value in plain.items() if not isinstance(value, str)}


_FLAGS = ("sparse", "saturate", "negate_a", "negate_b", "transpose_a", "transpose_b")


def _read(word: int, kind: str, fields: Sequence[BitField], *, scaled: bool) -> dict[str, Any]:
    """The fields of a word, with types named, or ValueError."""
    if kind not in KINDS or (KINDS[kind].scales is not None) != scaled:
        raise ValueError(
            f"no instruction descriptor {'with' if scaled else 'without'} scales for kind {kind}"
        )
    if extra := unknown_bits(word, fields, 32):
        raise ValueError(f"an instruction descriptor for kind {kind} has no bits {extra:#x}, got {word:#x}")
    found: dict[str, Any] = {field.name: field.get(word) for field in fields}
    found |= {name: bool(found[name]) for name in _FLAGS if name in found}
    for name in ("a_type", "b_type"):
        found[name] = _name(word, name, found[name], KINDS[kind].elements)
    return found


def _name(word: int, field: str, number: int, names: Mapping[str, int]) -> str:
    for name, known in names.items():
        if known == number:
            return name
    raise ValueError(f"{field} {number} names nothing, in {word:#x}")


T = TypeVar("T", InstructionDescriptor, BlockScaledDescriptor)


def _checked(descriptor: T, word: int) -> T:
    if verdict := descriptor.complaint():
        raise ValueError(f"{word:#x}: {verdict}")
    return descriptor


WIDE_ATOMS = "128B_32B"
"""The swizzle over 128 bytes that moves 32 bytes at a time, which the descriptor of wgmma doesn't have."""
_WIDE_PERIOD = 512
SWIZZLE_NUMBERS = {name: mode.tcgen05 for name, mode in SWIZZLES.items()} | {WIDE_ATOMS: 1}
"""Swizzle modes and their numbers in the shared-memory descriptor."""

_VERSION = BitField("version", 46, 3)
_ABSOLUTE = BitField("absolute", 52, 1)
_SWIZZLE = BitField("swizzle", 61, 3)
SHARED_FIELDS = (
    BitField("address", 0, 14, 16),
    BitField("leading_byte_offset", 16, 14, 16),
    BitField("stride_byte_offset", 32, 14, 16),
    BitField("base_offset", 49, 3),
    _VERSION,
    _ABSOLUTE,
    _SWIZZLE,
)
"""The fields of a shared-memory descriptor, by name as in `SharedMemoryDescriptor`; `version` is always 1."""


@dataclass(frozen=True)
class SharedMemoryDescriptor:
    """Where a matrix lies in shared memory, for `tcgen05.mma` and `tcgen05.cp`; all in bytes.

    `stride_byte_offset` leads to the next group of eight rows (columns, for a matrix whose M or N runs
    fastest), `leading_byte_offset` to the next 16 bytes of K (to the next panel as wide as the swizzle); a
    swizzled matrix whose K runs fastest ignores the latter. `base_offset` is 0 where the swizzle's pattern
    starts at a multiple of its period (eight rows), else bits 7 to 9 of where it starts. With `absolute`, on
    sm_103a and sm_107a, `leading_byte_offset` is the address of what follows the first 128 bytes of a row.
    """

    address: int = 0
    leading_byte_offset: int = 0
    stride_byte_offset: int = 0
    base_offset: int = 0
    swizzle: str = "none"
    absolute: bool = False

    def complaint(self, chip: str | None = None) -> Verdict | None:
        """The first rule that the fields break, on `chip` where it is given."""
        return _first(
            _chip(chip),
            _known("swizzle", self.swizzle, SWIZZLE_NUMBERS),
            *(
                f.complaint(getattr(self, f.name))
                for f in SHARED_FIELDS
                if f not in (_VERSION, _ABSOLUTE, _SWIZZLE)
            ),
            _only(self.swizzle != "none" or not self.base_offset, "base_offset", "with a swizzle only"),
            self._stride(),
            _long_k(self.absolute, "absolute", chip),
            _only(
                not self.absolute or (self.swizzle == "128B" and not self.base_offset),
                "absolute",
                f"with swizzle 128B and base_offset 0 only, found {self.swizzle} and {self.base_offset}",
            ),
        )

    def _stride(self) -> Verdict | None:
        """A swizzle's pattern must begin anew with each group of rows."""
        if self.swizzle not in SWIZZLE_NUMBERS:
            return None
        period = _WIDE_PERIOD if self.swizzle == WIDE_ATOMS else SWIZZLES[self.swizzle].period
        if self.swizzle == "none" or self.stride_byte_offset % period == 0:
            return None
        below = self.stride_byte_offset - self.stride_byte_offset % period
        return Verdict(
            "stride_byte_offset",
            f"needs stride_byte_offset in multiples of {period} with swizzle {self.swizzle}, "
            f"got {self.stride_byte_offset}",
            tuple(str(v) for v in (below, below + period) if v),
        )

    def encode(self) -> int:
        """The descriptor; ValueError where `complaint` has one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        numbers = {f.name: getattr(self, f.name) for f in SHARED_FIELDS if f is not _VERSION}
        numbers |= {"version": 1, "absolute": int(self.absolute), "swizzle": SWIZZLE_NUMBERS[self.swizzle]}
        return sum(field.put(numbers[field.name]) for field in SHARED_FIELDS)

    @classmethod
    def decode(cls, word: int) -> "SharedMemoryDescriptor":
        """What a descriptor says; ValueError where it says nothing legal."""
        if extra := unknown_bits(word, SHARED_FIELDS):
            raise ValueError(f"a tcgen05 shared-memory descriptor has no bits {extra:#x}, got {word:#x}")
        found: dict[str, Any] = {field.name: field.get(word) for field in SHARED_FIELDS}
        if found.pop("version") != 1:
            raise ValueError(f"a tcgen05 shared-memory descriptor has 1 in bits 46 to 48, got {word:#x}")
        found["swizzle"] = _name(word, "swizzle", found["swizzle"], SWIZZLE_NUMBERS)
        found["absolute"] = bool(found["absolute"])
        if found["swizzle"] == "none":
            # It means nothing then; Triton sets it for tcgen05.cp.
            found["base_offset"] = 0
        descriptor = cls(**found)
        if verdict := descriptor.complaint():
            raise ValueError(f"{word:#x}: {verdict}")
        return descriptor


def swizzle_complaint(kind: str, swizzle: str, *, transposed: bool) -> Verdict | None:
    """Why an operand of `kind` can't have `swizzle`: M or N fastest (`transposed`) needs 32-byte atoms for
    32-bit elements and forbids them for others.
    """
    if not transposed or (kind == "tf32") == (swizzle == WIDE_ATOMS):
        return None
    legal = (WIDE_ATOMS,) if kind == "tf32" else tuple(SWIZZLES)
    return _known("swizzle", swizzle, legal, f" for a transposed operand of kind {kind}")

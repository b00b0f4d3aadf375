"""The instruction descriptor, which specifies what `tcgen05.mma` multiplies (PTX ISA, "Instruction
descriptor", "Matrix Shape", "Transpose and Negate operations").

ptxas can't see into it, so every limit that the ISA sets is checked here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from weft.isa.family import Verdict
from weft.isa.tcgen05.family import on_chip, takes_long_rows
from weft.isa.tcgen05.mma_rows import scale_vecs
from weft.isa.wgmma.descriptors import BitField, first, legal_only, name_of, one_of, unknown_bits


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
        """Bytes of an element in shared memory; those of 4 and 6 bits take one, except those of mxf4."""
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
LONG_K = 96  # of a dense mxf4 or mxf4nvf4: rows of 48 bytes
_ROW = 256  # elements of 4 bits in 128 bytes
MAX_SHIFTS = (0, 8, 16, 32)


def _steps(first: int, last: int, step: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1, step))


def steps(k: int, depth: int, *, long: bool = False) -> tuple[tuple[int, int], ...]:
    """Where along a K each instruction begins, and its own K: `depth`, or with `long` 96 where that fits into
    rows of 128 bytes.
    """
    found, begin = list[tuple[int, int]](), 0
    while begin < k:
        rest = min(_ROW - begin % _ROW, k - begin)
        # What is left of the row must be a multiple of the shorter K too.
        is_long = long and (rest == LONG_K or rest >= LONG_K + depth)
        found.append((begin, LONG_K if is_long else depth))
        begin += found[-1][1]
    return tuple(found)


def legal_m(kind: str, cta_group: int, *, sparse: bool = False, ws: bool = False) -> tuple[int, ...]:
    """The legal M, of the pair of CTAs where `cta_group` is 2."""
    if ws:
        return (32, 64, 128)
    if KINDS[kind].scales is None:
        return (64, 128) if cta_group == 1 else (128, 256)
    if cta_group == 1:
        return (128,)
    return (256,) if sparse else (128, 256)


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
    mean that A (B) is MN-major in shared memory, not K-major. `max_shift` is that of columns of B under
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
        if verdict := one_of("kind", self.kind, plain):
            return verdict
        kind = KINDS[self.kind]
        return first(
            on_chip(chip),
            _types(self),
            one_of("d_type", self.d_type, kind.accumulators, f" for kind {self.kind}"),
            _accumulator(self),
            _shape(self),
            _operands(self),
            one_of("sparsity_selector", self.sparsity_selector, range(4)),
            legal_only(
                self.sparse or not self.sparsity_selector, "sparsity_selector", "with a sparse A only"
            ),
            legal_only(self.kind == "i8" or not self.saturate, "saturate", "for kind i8 only"),
            one_of("max_shift", self.max_shift, MAX_SHIFTS),
            legal_only(self.ws or not self.max_shift, "max_shift", "with weight stationary (.ws) only"),
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
        """The fields of a descriptor for an instruction of this kind; ValueError where they aren't legal."""
        fields = _read(word, kind, PLAIN_FIELDS, scaled=False)
        fields["d_type"] = name_of(word, "d_type", fields["d_type"], KINDS[kind].accumulators)
        fields["max_shift"] = MAX_SHIFTS[fields["max_shift"]]
        return _checked(cls(kind=kind, cta_group=cta_group, ws=ws, a=a, **fields), word)


@dataclass(frozen=True)
class BlockScaledDescriptor:
    """The 32-bit descriptor of a `tcgen05.mma` with block scale.

    `k` is 0 for the kind's own, or 96 for a dense mxf4 or mxf4nvf4. A scale id names the byte of a column of
    tensor memory where an operand's scales begin; how many are legal depends on how many bytes it has, which
    `scale_vec` is that of the instruction (`1X`, `2X`, `4X`, `block16`, `block32`, or nothing). The rest
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
        if self.kind == "mxf8f6f4" or (self.k == LONG_K and not by_sixteen):
            return (0, 1, 2, 3)
        return (0,) if by_sixteen and self.k != LONG_K else (0, 2)

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
        if verdict := one_of("kind", self.kind, scaled):
            return verdict
        long = self.kind != "mxf8f6f4" and not self.sparse
        where = f" for kind {self.kind}"
        return first(
            on_chip(chip),
            _types(self),
            one_of("scale_vec", self.scale_vec, scale_vecs(self.kind), where),
            one_of("scale_type", self.scale_type, KINDS[self.kind].scales or (), where),
            legal_only(
                self.scale_type != "ue4m3" or self.scale_vec in _BY_SIXTEEN,
                "scale_type ue4m3",
                f"with scale_vec {' or '.join(_BY_SIXTEEN)} only, got {self.scale_vec or 'none'}",
            ),
            one_of("k", self.k, (0, KINDS[self.kind].k * (2 if self.sparse else 1), LONG_K)),
            # The ISA has it for a pair of CTAs with M 256 only; CUTLASS uses every shape of the shorter K.
            legal_only(self.k != LONG_K or long, f"k {LONG_K}", "for a dense mxf4 or mxf4nvf4 only"),
            takes_long_rows(self.k == LONG_K, f"k {LONG_K}", chip),
            _shape(self),
            _operands(self),
            one_of("a_scale_id", self.a_scale_id, self.scale_ids, where),
            one_of("b_scale_id", self.b_scale_id, self.scale_ids, where),
        )

    def encode(self) -> int:
        """The descriptor; ValueError where `complaint` has one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        numbers = _numbers(self, SCALED_FIELDS) | {
            "scale_type": (KINDS[self.kind].scales or {})[self.scale_type],
            "k": int(self.k == LONG_K),
        }
        return sum(field.put(numbers[field.name]) for field in SCALED_FIELDS)

    @classmethod
    def decode(
        cls, word: int, kind: str, cta_group: int = 1, *, scale_vec: str = "", a: str = "shared"
    ) -> "BlockScaledDescriptor":
        """The fields of a descriptor for an instruction of this kind; ValueError where they aren't legal."""
        fields = _read(word, kind, SCALED_FIELDS, scaled=True)
        fields["scale_type"] = name_of(word, "scale_type", fields["scale_type"], KINDS[kind].scales or {})
        fields["k"] = LONG_K if fields["k"] else 0
        return _checked(cls(kind=kind, cta_group=cta_group, scale_vec=scale_vec, a=a, **fields), word)


_Descriptor = InstructionDescriptor | BlockScaledDescriptor


def _types(descriptor: _Descriptor) -> Verdict | None:
    legal, where = KINDS[descriptor.kind].elements, f" for kind {descriptor.kind}"
    return one_of("a_type", descriptor.a_type, legal, where) or one_of(
        "b_type", descriptor.b_type, legal, where
    )


def _accumulator(descriptor: InstructionDescriptor) -> Verdict | None:
    if (descriptor.kind, descriptor.d_type) != ("f16", "f16"):
        return None
    inputs = {descriptor.a_type, descriptor.b_type}
    return legal_only(
        inputs == {"f16"}, "d_type f16", f"with f16 A and B only, got {' and '.join(sorted(inputs))}"
    )


def _shape(descriptor: _Descriptor) -> Verdict | None:
    """The rules of M, N and the CTA group."""
    kind, group, sparse = descriptor.kind, descriptor.cta_group, descriptor.sparse
    ws = isinstance(descriptor, InstructionDescriptor) and descriptor.ws
    if verdict := one_of("cta_group", group, (1,) if ws else (1, 2), " with weight stationary" if ws else ""):
        return verdict
    m = legal_m(kind, group, sparse=sparse, ws=ws)
    n = legal_n(kind, group, sparse=sparse, ws=ws, transpose_b=descriptor.transpose_b)
    options = (
        f" for {'sparse ' if sparse else ''}kind {kind} with cta_group::{group}"
        f"{' and weight stationary' if ws else ''}"
    )
    transposed = " and a transposed B" if descriptor.transpose_b and not ws else ""
    return one_of("m", descriptor.m, m, options) or one_of("n", descriptor.n, n, options + transposed)


def _operands(descriptor: _Descriptor) -> Verdict | None:
    """The rules of transposes, negations, and where A is."""
    kind = KINDS[descriptor.kind]
    transposed = descriptor.transpose_a or descriptor.transpose_b
    negated = descriptor.negate_a or descriptor.negate_b
    may_transpose = ", ".join(k.name for k in KINDS.values() if k.transposes)
    may_negate = ", ".join(k.name for k in KINDS.values() if k.negates)
    return first(
        one_of("a", descriptor.a, ("shared", "tensor")),
        legal_only(
            kind.transposes or not transposed,
            "a transpose",
            f"for kinds {may_transpose} only, got {kind.name}",
        ),
        legal_only(
            kind.negates or not negated, "a negation", f"for kinds {may_negate} only, got {kind.name}"
        ),
        legal_only(
            descriptor.a == "shared" or not descriptor.transpose_a,
            "transpose_a",
            "with A in shared memory only, got A in tensor memory",
        ),
    )


def _numbers(descriptor: _Descriptor, fields: Sequence[BitField]) -> dict[str, int]:
    """The fields' numbers, except those that only one of the two layouts has."""
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
    values: dict[str, Any] = {field.name: field.get(word) for field in fields}
    values |= {name: bool(values[name]) for name in _FLAGS if name in values}
    for name in ("a_type", "b_type"):
        values[name] = name_of(word, name, values[name], KINDS[kind].elements)
    return values


T = TypeVar("T", InstructionDescriptor, BlockScaledDescriptor)


def _checked(descriptor: T, word: int) -> T:
    if verdict := descriptor.complaint():
        raise ValueError(f"{word:#x}: {verdict}")
    return descriptor

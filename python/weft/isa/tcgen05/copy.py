"""`tcgen05.cp`, `shift`, `ld` and `st`: what moves data into, within and out of tensor memory (PTX ISA,
"Tensor Memory and Register Load/Store Instructions", "Data Movement Instructions" of the 5th generation).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from weft.isa.chips import only
from weft.isa.family import Form, Registers, Support, Verdict, must_be
from weft.isa.tcgen05.family import (
    ALIGNED,
    ALL,
    ARCH_SPECIFIC,
    B32,
    CTA_GROUP,
    CTA_GROUPS,
    NOT_SM_100,
    SYNC,
    TENSOR_ADDRESS,
    Tcgen05Family,
    template,
    vector,
)
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANES, PART
from weft.isa.template import NUMBER, Field, Flag, Word

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
"""How often an instruction may repeat its shape."""
_MOST_REGISTERS = 128
_PAIR = "16x32bx2"


_CP_SHAPE = Field("shape", ("{}", r"\d+x\d+b"), default="")
_CP_MULTICAST = Field("multicast", ("{}", r"warpx\d+(?:::\w+)?"), default="")
# What is left is the conversion: the destination's format, always b8x16, then that of the source.
_SOURCE_FORMAT = Field("source_format", ("b8x16.{}", r"[\w:]+"), default="", each=r"[\w:]+")
_SHAPE = Field("shape", ("{}", r"\d+x\d+b(?:x\d+)?"), default="")
_NUM = Field("num", ("x{}", NUMBER), default=0, number=True)
_ABS, _NAN = Flag("abs"), Flag("nan", "NaN")
_SPCOMPRESS = (
    *(SYNC, ALIGNED, Word("32x32b"), _NUM, Field("op", ("{}", "min|max"), default=""), Word("sp::2:4")),
    *(_ABS, _NAN, Word("f32.b2")),
)


@dataclass(frozen=True)
class Cp(Form):
    """One form of `tcgen05.cp`: one thread copies the matrix of a shared-memory descriptor to tensor memory.

    `source_format` is the format of packed elements, which the copy expands to 8 bits.
    """

    shape: str
    multicast: str
    cta_group: int
    source_format: str = ""

    templates = (template("cp", CTA_GROUP, _CP_SHAPE, _CP_MULTICAST, _SOURCE_FORMAT),)
    assembly = "[{address}], {descriptor}"

    @property
    def intrinsic(self) -> str:
        multicast = f"_{self.multicast.replace('::', '_')}" if self.multicast else ""
        formats = f".{self.source_format}" if self.source_format else ""
        return f"llvm.nvvm.tcgen05.cp.{self.shape}{multicast}{formats}.cg{self.cta_group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The address in tensor memory and the shared-memory descriptor."""
        return Registers("address", 1, TENSOR_ADDRESS), Registers("descriptor", 1, "i64")


@dataclass(frozen=True)
class Shift(Form):
    """`tcgen05.shift.down`: moves 32-byte elements of tensor memory down by one row."""

    cta_group: int
    direction: str = "down"

    templates = (template("shift", CTA_GROUP, Field("direction", ("{}", "down|up"), default="")),)
    assembly = "[{address}]"

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.tcgen05.shift.{self.direction}.cg{self.cta_group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The address of the lanes in tensor memory."""
        return (Registers("address", 1, TENSOR_ADDRESS),)


# Registers of one lane that x1 of a shape fills.
_PER_COUNT = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, _PAIR: 1}
SHAPES = tuple(_PER_COUNT)
"""The shapes of `tcgen05.ld` and `st`."""


def _data(role: str, shape: str, num: int, packed: bool, element: str = "i32") -> Registers:
    """The fragment of `shape`: rows are lanes of tensor memory, columns its columns (of two 16-bit halves in
    one register where it is packed). For `16x32bx2` a further, first coordinate distinguishes the two halves.
    """
    registers = _PER_COUNT.get(shape, 1) * num
    half = 2 if packed else 1  # elements of a register
    step = half  # from one register to the next
    inner = (f",{half}", ",1") if packed else ("", "")
    layouts = {
        "32x32b": ((32, half * num), f"(32,{num}{inner[0]}):(1@laneid,{step}{inner[1]})"),
        "16x64b": (
            (16, 2 * half * num),
            f"(2,8,{num},2{inner[0]}):(1@laneid,4@laneid,{step},2@laneid{inner[1]})",
        ),
        "16x128b": (
            (16, 4 * half * num),
            f"(2,8,{num},4{inner[0]}):({step},4@laneid,{2 * step},1@laneid{inner[1]})",
        ),
        "16x256b": (
            (16, 8 * half * num),
            f"(2,8,{num},4,2{inner[0]}):({2 * step},4@laneid,{4 * step},1@laneid,{step}{inner[1]})",
        ),
        _PAIR: ((2, 16, half * num), f"(2,16,{num}{inner[0]}):(16@laneid,1@laneid,{step}{inner[1]})"),
    }
    shown, layout = layouts.get(shape, ((), ""))
    return Registers("data", 1, vector(registers, element), layout and f"S[{layout}]", shown, role)


def _offset(shape: str) -> tuple[Registers, ...]:
    """The columns between the two accesses of `16x32bx2`."""
    if shape != _PAIR:
        return ()
    return (Registers("offset", 1, "i64", role="immediate", values=tuple(range(COLUMNS))),)


def _intrinsic(operation: str, shape: str, num: int) -> str | None:
    """None for a single register: an i32 to LLVM 22.1, a <1 x i32> to the LLVM that checks MLIR's calls."""
    return f"llvm.nvvm.tcgen05.{operation}.{shape}.x{num}" if _PER_COUNT.get(shape, 1) * num > 1 else None


@dataclass(frozen=True)
class Ld(Form):
    """One form of `tcgen05.ld`: one warp loads `num` times `shape` into registers. With `pack`, each register
    gets two 16-bit columns.
    """

    shape: str
    num: int
    pack: bool = False

    templates = (template("ld", SYNC, ALIGNED, _SHAPE, _NUM, Flag("pack", "pack::16b"), B32),)

    @property
    def intrinsic(self) -> str | None:
        return _intrinsic("ld", self.shape, self.num)

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The registers, the address in tensor memory, and the offset of `16x32bx2`."""
        data = _data("out", self.shape, self.num, self.pack)
        return (data, Registers("address", 1, TENSOR_ADDRESS), *_offset(self.shape))

    @property
    def immediates(self) -> tuple[tuple[str, int], ...]:
        """Whether to pack."""
        return (("i1", int(self.pack)),)

    @property
    def assembly(self) -> str:
        return "{{{data}}}, [{address}]" + (", {offset}" if self.shape == _PAIR else "")


@dataclass(frozen=True)
class St(Form):
    """One form of `tcgen05.st`: one warp stores registers to `num` times `shape`. With `unpack`, each
    register fills two 16-bit columns.
    """

    shape: str
    num: int
    unpack: bool = False

    templates = (template("st", SYNC, ALIGNED, _SHAPE, _NUM, Flag("unpack", "unpack::16b"), B32),)

    @property
    def intrinsic(self) -> str | None:
        return _intrinsic("st", self.shape, self.num)

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The address in tensor memory, the offset of `16x32bx2`, and the registers."""
        data = _data("in", self.shape, self.num, self.unpack)
        return (Registers("address", 1, TENSOR_ADDRESS), *_offset(self.shape), data)

    @property
    def immediates(self) -> tuple[tuple[str, int], ...]:
        """Whether to unpack."""
        return (("i1", int(self.unpack)),)

    @property
    def assembly(self) -> str:
        return "[{address}]" + (", {offset}" if self.shape == _PAIR else "") + ", {{{data}}}"


@dataclass(frozen=True)
class LdRed(Form):
    """One form of `tcgen05.ld.red`: `tcgen05.ld` that also reduces each lane's columns to one value."""

    shape: str
    num: int
    op: str
    type: str
    abs: bool = False
    nan: bool = False

    templates = (
        template(
            "ld.red",
            SYNC,
            ALIGNED,
            _SHAPE,
            _NUM,
            Field("op", ("{}", "min|max|add|and|or|xor"), default=""),
            _ABS,
            _NAN,
            Field("type", ("{}", r"[usbf]\d+"), default=""),
        ),
    )

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The registers, the reduced value, the address in tensor memory, and the offset of `16x32bx2`."""
        element = "f32" if self.type == "f32" else "i32"
        return (
            _data("out", self.shape, self.num, False, element),
            Registers("reduced", 1, element, role="out"),
            Registers("address", 1, TENSOR_ADDRESS),
            *_offset(self.shape),
        )

    @property
    def assembly(self) -> str:
        return "{{{data}}}, {reduced}, [{address}]" + (", {offset}" if self.shape == _PAIR else "")


@dataclass(frozen=True)
class LdSpcompress(Form):
    """One form of `tcgen05.ld.spcompress`: `tcgen05.ld` of f32 that keeps the two largest (or smallest) of
    every four columns, and their indices, two bits each.

    With `abs` magnitudes are compared. With `red` it also reduces.
    """

    num: int
    op: str
    abs: bool = False
    red: bool = False
    nan: bool = False

    templates = (
        template("ld.spcompress", *_SPCOMPRESS, fixed={"red": False}),
        template("ld.red.spcompress", *_SPCOMPRESS, fixed={"red": True}),
    )

    @property
    def operands(self) -> tuple[Registers, ...]:
        """Two bits for each kept value, 16 to a register; the kept values; the reduced value; the address."""
        reduced = (Registers("reduced", 1, "f32", role="out"),) if self.red else ()
        return (
            Registers("metadata", 1, vector(-(-self.num // 32), "i32"), role="out"),
            Registers("data", 1, vector(max(self.num // 2, 1), "f32"), role="out"),
            *reduced,
            Registers("address", 1, TENSOR_ADDRESS),
        )

    @property
    def assembly(self) -> str:
        return "{{{metadata}}}, {{{data}}}, " + ("{reduced}, " if self.red else "") + "[{address}]"


#  shape       multicast
CP_SHAPES = (
    ("128x256b", ""),
    ("4x256b", ""),
    ("128x128b", ""),
    ("64x128b", "warpx2::02_13"),
    ("64x128b", "warpx2::01_23"),
    ("32x128b", "warpx4"),
)
"""The shapes of `tcgen05.cp`, with what copies their rows to the lanes of several warps."""


def copied_lanes(shape: str, multicast: str) -> tuple[tuple[int, ...], ...]:
    """The lanes to which `tcgen05.cp` copies each row of the source: one for each copy."""
    rows = range(int(shape.partition("x")[0]))
    match multicast:
        case "warpx4":
            return tuple(tuple(row + PART * part for part in range(4)) for row in rows)
        case "warpx2::02_13":
            return tuple((row, row + 2 * PART) for row in rows)
        case "warpx2::01_23":
            return tuple((first := row // PART * PART + row, first + PART) for row in rows)
    # Each of four rows goes to the first of a warp's lanes.
    return tuple((row * PART if len(rows) == LANES // PART else row,) for row in rows)


_SOURCE_FORMATS = ("", "b6x16_p32", "b4x16_p64")


def _cp_forms() -> Iterator[tuple[Cp, Support]]:
    for (shape, multicast), group, source in product(CP_SHAPES, CTA_GROUPS, _SOURCE_FORMATS):
        yield Cp(shape, multicast, group, source), Support(ALL, (8, 6))


_M = TypeVar("_M", Ld, St)


def _moves(form: type[_M]) -> Iterator[tuple[_M, Support]]:
    """Every shape and count that fit into a lane's registers, packed or not."""
    for (shape, per_count), num, packed in product(_PER_COUNT.items(), COUNTS, (False, True)):
        if per_count * num <= _MOST_REGISTERS:
            yield form(shape, num, packed), Support(ALL, (8, 6))


def _ld_red_forms() -> Iterator[tuple[LdRed, Support]]:
    for shape, num, op in product(("32x32b", _PAIR), COUNTS[1:], ("min", "max")):
        for kind in ("u32", "s32"):
            yield LdRed(shape, num, op, kind), Support(NOT_SM_100, (8, 8))
        for absolute, nan in product((False, True), repeat=2):
            yield LdRed(shape, num, op, "f32", absolute, nan), Support(NOT_SM_100, (8, 8))


def _spcompress_forms() -> Iterator[tuple[LdSpcompress, Support]]:
    support = Support(only("sm_107a"), (9, 4))
    for num, op, absolute in product(COUNTS[2:], ("min", "max"), (False, True)):
        yield LdSpcompress(num, op, absolute), support
        for nan in (False, True):
            yield LdSpcompress(num, op, absolute, True, nan), support


def _cp_shape(form: Cp) -> Verdict | None:
    shapes = tuple(dict.fromkeys(shape for shape, _ in CP_SHAPES))
    if form.shape not in shapes:
        return Verdict("shape", must_be("shape", shapes, form.shape))
    legal = tuple(multicast for shape, multicast in CP_SHAPES if shape == form.shape)
    if form.multicast in legal:
        return None
    return Verdict("multicast", must_be("multicast", legal, form.multicast, f" for shape {form.shape}"))


def _cp_format(form: Cp) -> Verdict | None:
    if form.source_format in _SOURCE_FORMATS:
        return None
    return Verdict("source-format", must_be("source_format", _SOURCE_FORMATS, form.source_format))


def _direction(form: Shift) -> Verdict | None:
    if form.direction == "down":
        return None
    return Verdict("direction", must_be("direction", ("down",), form.direction))


def _fits(form: Ld | St) -> Verdict | None:
    registers = _PER_COUNT.get(form.shape, 1) * form.num
    if form.num not in COUNTS or registers <= _MOST_REGISTERS:
        return None
    most = _MOST_REGISTERS // _PER_COUNT[form.shape]
    return Verdict(
        "registers",
        f"num must be at most {most} for shape {form.shape}, which fills {_MOST_REGISTERS} registers, "
        f"got {form.num}",
    )


def _red_float_only(form: LdRed) -> Verdict | None:
    if form.type == "f32" or not (form.abs or form.nan):
        return None
    flags = " and ".join(name for name, on in ((".abs", form.abs), (".NaN", form.nan)) if on)
    return Verdict("float-only", f".abs and .NaN are legal for f32 only, got {flags} with {form.type}")


def _nan_needs_red(form: LdSpcompress) -> Verdict | None:
    if form.red or not form.nan:
        return None
    return Verdict("nan", "nan is legal with red only: it doesn't affect the choice of two in four")


CP = Tcgen05Family("tcgen05.cp", Cp, _cp_forms, rules=(_cp_shape, _cp_format))
SHIFT = Tcgen05Family(
    "tcgen05.shift",
    Shift,
    lambda: ((Shift(group), Support(ARCH_SPECIFIC, (8, 6))) for group in CTA_GROUPS),
    rules=(_direction,),
)
LD = Tcgen05Family("tcgen05.ld", Ld, lambda: _moves(Ld), rules=(_fits,))
ST = Tcgen05Family("tcgen05.st", St, lambda: _moves(St), rules=(_fits,))
LD_RED = Tcgen05Family("tcgen05.ld.red", LdRed, _ld_red_forms, rules=(_red_float_only,))
LD_SPCOMPRESS = Tcgen05Family(
    "tcgen05.ld.spcompress", LdSpcompress, _spcompress_forms, rules=(_nan_needs_red,)
)

FAMILIES = (CP, SHIFT, LD, LD_RED, LD_SPCOMPRESS, ST)

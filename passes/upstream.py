"""Which operation of upstream's `nvvm` dialect is which of ours, and how each says what the other's attributes say.

A `Pair` is read both ways: `nvvm_to_weft` and `weft_to_nvvm` hold no name, token or operand order of their own.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from weft.dialects import mma, tcgen05, wgmma, wmma
from weft.mlir import ir, llvm, nvvm


class Inexpressible(Exception):
    """Why upstream's dialect can't say what an operation of ours says."""


@dataclass
class Draft:
    """An operation in the making: its operands by our names, its attributes by its own."""

    operands: dict[str, list[Any]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


class Rule(Protocol):
    """How one thing is said on both sides."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Our attributes (or operands) that the rule reads and writes."""

    def to_ours(self, op: Any, draft: Draft) -> None:
        """Says in a draft of ours what upstream's `op` says."""

    def to_theirs(self, op: Any, draft: Draft) -> None:
        """Says in a draft of upstream's what our `op` says. Raises Inexpressible."""


def found(op: Any, name: str) -> Any:
    """An attribute of upstream's operation, or None."""
    return op.attributes[name] if name in op.attributes else None


@dataclass(frozen=True)
class Token:
    """An attribute `name` of upstream's enumeration `kind`: what we say, on each of `axes`, for each token.

    `absent` is our value where upstream has no such attribute, None where another rule knows it; where `needed`
    of our operation, upstream wants the attribute all the same.
    """

    axes: tuple[str, ...]
    name: str
    kind: str
    values: Mapping[str, Any]
    absent: Any = None
    needed: Callable[[Any], bool] = lambda op: False

    def to_ours(self, op: Any, draft: Draft) -> None:
        attribute = found(op, self.name)
        value = self.absent if attribute is None else self.values[_token(attribute)]
        if value is not None:
            draft.attributes |= dict.fromkeys(self.axes, value)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        said = {axis: op.attribute(axis) for axis in self.axes}
        value = said[self.axes[0]]
        if len(set(said.values())) > 1:
            raise Inexpressible(f"upstream's has one {self.name} for {_listed(said)}")
        if value == self.absent and not self.needed(op):
            return
        token = next((t for t, ours in self.values.items() if ours == value), None)
        if token is None:
            raise Inexpressible(f"upstream's has no {_listed(said)}")
        draft.attributes[self.name] = ir.AttrBuilder.get(f"nvvm.{self.kind}Attr")(token, ir.Context.current)


def _token(attribute: Any) -> str:
    """`f16` of `#nvvm.mma_type<f16>`, `min` of `#nvvm<reduction_kind min>`."""
    return re.split(r"[< ]", str(attribute).rstrip(">"))[-1]


def _listed(said: Mapping[str, Any]) -> str:
    return ", ".join(spelled(axis, value) for axis, value in said.items())


def spelled(axis: str, value: Any) -> str:
    """An axis and its value in words."""
    return axis if value is True else f"{axis} {value or 'none'}"


@dataclass(frozen=True)
class Flag:
    """A unit attribute of upstream's, and our axis that is true where it is there."""

    axis: str
    name: str

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = found(op, self.name) is not None

    def to_theirs(self, op: Any, draft: Draft) -> None:
        if op.attribute(self.axis):
            draft.attributes[self.name] = ir.UnitAttr.get()


@dataclass(frozen=True)
class Number:
    """An integer attribute, of so many bits upstream."""

    axis: str
    bits: int

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = int(op.attributes[self.axis].value)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = _integer(self.bits, op.attribute(self.axis))


def _integer(bits: int, value: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), value)


@dataclass(frozen=True)
class Shape:
    """Our `shape`, the extents `letters` (`m16n8k16`): upstream one attribute, `mnemonic`, or one integer each."""

    letters: str
    mnemonic: str = ""
    axes: tuple[str, ...] = ("shape",)

    def to_ours(self, op: Any, draft: Draft) -> None:
        if self.mnemonic:
            extents = re.findall(r"= (\d+)", str(op.attributes["shape"]))
        else:
            extents = [str(op.attributes[letter].value) for letter in self.letters]
        draft.attributes["shape"] = "".join(f"{a}{b}" for a, b in zip(self.letters, extents, strict=True))

    def to_theirs(self, op: Any, draft: Draft) -> None:
        extents = dict(zip(self.letters, re.findall(r"\d+", op.attribute("shape")), strict=True))
        if self.mnemonic:
            text = ", ".join(f"{letter} = {extent}" for letter, extent in extents.items())
            draft.attributes["shape"] = ir.Attribute.parse(f"#nvvm.{self.mnemonic}<{text}>")
        else:
            draft.attributes |= {letter: _integer(32, int(extent)) for letter, extent in extents.items()}


@dataclass(frozen=True)
class Inferred:
    """What upstream infers from the type of registers (a result or an operand of ours): our value for each type.

    It holds where upstream's attribute `unless` isn't there; that one's own rule comes first.
    """

    axis: str
    registers: str
    values: Mapping[str, str]
    unless: str = ""

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        if not self.unless or found(op, self.unless) is None:
            held = draft.operands.get(self.registers) or op.results
            kind = register_type(held[0].type) if len(held) else ""
            draft.attributes[self.axis] = self.values.get(kind, kind)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        held = draft.operands.get(self.registers) or op.operation.results
        inferred = self.values.get(register_type(held[0].type))
        if not self.unless and inferred != op.attribute(self.axis):
            raise Inexpressible(f"upstream's has no {self.axis} {op.attribute(self.axis)}: it takes {inferred}")


def register_type(kind: Any) -> str:
    """The type of one register of a struct, of a vector of 32-bit ones, or of a value that is one."""
    members = kind.body if isinstance(kind, llvm.StructType) else [kind]
    text = str(members[0]) if len(members) else "none"
    return text if text == "vector<2xf16>" else re.sub(r"vector<\d+x(\w+)>", r"\1", text)


@dataclass(frozen=True)
class Count:
    """Our `num`, which upstream reads off the registers."""

    registers: str
    axes: tuple[str, ...] = ("num",)

    def to_ours(self, op: Any, draft: Draft) -> None:
        held = draft.operands.get(self.registers) or list(op.results)
        draft.attributes["num"] = len(held)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        pass


@dataclass(frozen=True)
class Repeats:
    """Our `num`, of the registers of one vector: as many as x1 of the shape has, so often."""

    family: Any
    axes: tuple[str, ...] = ("num",)

    def to_ours(self, op: Any, draft: Draft) -> None:
        data = (draft.operands.get("data") or op.results)[0].type
        axes = {"num": 1} | {"op": "", "type": ""} | draft.attributes
        once = self.family.form(**{axis: axes[axis] for axis in self.family.axes if axis in axes})
        registers = next(o.type for o in once.operands if o.name == "data")
        draft.attributes["num"] = _length(str(data)) // _length(registers)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        pass


def _length(kind: str) -> int:
    match = re.match(r"vector<(\d+)x", kind)
    return int(match[1]) if match else 1


@dataclass(frozen=True)
class Predicate:
    """Our i1 operand, a token of the enumeration `kind` upstream."""

    operand: str
    name: str
    kind: str
    values: Mapping[str, bool]

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.operand,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        value = self.values[_token(op.attributes[self.name])]
        draft.operands[self.operand] = [llvm.mlir_constant(_integer(1, value))]

    def to_theirs(self, op: Any, draft: Draft) -> None:
        value = constant(draft.operands.pop(self.operand)[0])
        if value is None:
            raise Inexpressible(f"upstream's {self.name} is an attribute: {self.operand} has to be a constant")
        token = next(t for t, ours in self.values.items() if ours == bool(value))
        draft.attributes[self.name] = ir.AttrBuilder.get(f"nvvm.{self.kind}Attr")(token, ir.Context.current)


@dataclass(frozen=True)
class Implied:
    """An axis of ours that upstream has no word for, since our other axis tells its one legal value."""

    axis: str
    by: str
    values: Mapping[str, str]

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = self.values.get(draft.attributes[self.by], "")

    def to_theirs(self, op: Any, draft: Draft) -> None:
        pass


@dataclass(frozen=True)
class Run:
    """Several operands of ours, which upstream has in one run of registers without saying where each ends."""

    family: Any
    axes: tuple[str, ...] = ("a", "b", "c")

    def to_ours(self, op: Any, draft: Draft) -> None:
        form = self.family.form(**draft.attributes)
        counts = {operand.name: operand.count for operand in form.operands}
        registers = draft.operands.pop("run")
        for name in self.axes[:-1]:
            draft.operands[name], registers = registers[: counts[name]], registers[counts[name] :]
        draft.operands[self.axes[-1]] = registers

    def to_theirs(self, op: Any, draft: Draft) -> None:
        draft.operands["run"] = [register for name in self.axes for register in draft.operands.pop(name)]


def constant(value: Any) -> int | None:
    """The integer that a value always is, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("llvm.mlir.constant", "arith.constant"):
        return None
    attribute = owner.attributes["value"]
    if isinstance(attribute, ir.BoolAttr):
        return int(attribute.value)
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None


def sweep(values: Iterable[Any]) -> None:
    """Erases constants, and vectors built of one register, that nothing uses any more."""
    for value in values:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _SWEPT or any(list(r.uses) for r in owner.results):
            continue
        held = list(owner.operands)
        owner.erase()
        sweep(held)


_SWEPT = ("llvm.mlir.constant", "arith.constant", "llvm.mlir.undef", "llvm.insertelement")


@dataclass(frozen=True)
class Pair:
    """An operation of ours and upstream's with the same meaning.

    `operands` names ours in upstream's order, with `*` for any number of registers, `?` for one or none,
    and `:i32` for a constant of that type that is an attribute of ours (`?:i64` if it may be missing).
    `vectors` are the registers that upstream has in a vector even where there is one. `broken` says of a form
    of ours why upstream, which spells it, makes no right LLVM IR of it; None where it does.
    """

    ours: Any
    theirs: Any
    operands: str = ""
    rules: tuple[Rule, ...] = ()
    vectors: tuple[str, ...] = ()
    broken: Callable[[Any], str | None] = lambda form: None

    def slots(self) -> list[tuple[str, str]]:
        """Name and kind (`*`, `?`, `:i32`, `?:i64` or nothing) of each operand."""
        return [re.fullmatch(r"(\w+)(.*)", word).groups() for word in self.operands.split()]  # type: ignore[union-attr, misc]

    @property
    def segmented(self) -> bool:
        """Whether upstream's operation says how many operands each slot has."""
        return getattr(self.theirs, "_ODS_OPERAND_SEGMENTS", None) is not None


def _same(kind: Any, *but: str) -> dict[str, str]:
    """An enumeration of upstream's whose tokens are ours."""
    return {str(member): str(member) for member in kind if str(member) not in but}


_TYPES = _same(nvvm.MMATypes)
_LAYOUTS = _same(nvvm.MMALayout)
_CLAMPED = {"wrapped": False, "satfinite": True}
_TRANSPOSED = {"row": False, "col": True}
_ACCUMULATORS = {"vector<2xf16>": "f16", "f32": "f32", "f64": "f64", "i32": "s32"}
_INPUTS = _ACCUMULATORS | {"f32": "tf32"}


def _types(attribute: str, *axes: str) -> Token:
    return Token(axes, attribute, "MMATypes", _TYPES)


def _layout(attribute: str, axis: str) -> Token:
    return Token((axis,), attribute, "MMALayout", _LAYOUTS)


# wmma: A and B have one type upstream, C and D another.

_WMMA_SHAPE = Shape("mnk")
_ONE_REGISTER = "upstream's translation has a struct where LLVM has the one register of this fragment"


def _one_register(form: Any) -> str | None:
    return _ONE_REGISTER if form.operands[0].count == 1 else None


_WMMA = (
    Pair(
        wmma.LoadOp,
        nvvm.WMMALoadOp,
        "address stride",
        (
            _WMMA_SHAPE,
            Token(("fragment",), "frag", "MMAFrag", _same(nvvm.MMAFrag)),
            _types("eltype", "type"),
            _layout("layout", "layout"),
        ),
        broken=_one_register,
    ),
    Pair(
        wmma.StoreOp,
        nvvm.WMMAStoreOp,
        "address d* stride",
        (_WMMA_SHAPE, _types("eltype", "type"), _layout("layout", "layout")),
    ),
    Pair(
        wmma.MmaOp,
        nvvm.WMMAMmaOp,
        "run*",
        (
            _WMMA_SHAPE,
            _types("eltypeA", "a_type", "b_type"),
            _types("eltypeB", "c_type", "d_type"),
            _layout("layoutA", "a_layout"),
            _layout("layoutB", "b_layout"),
            Run(wmma.MmaOp.family),
        ),
    ),
)

# mma: accumulators' types are read off the registers.

_MMA_TYPES = (
    Shape("mnk", "shape"),
    _types("multiplicandAPtxType", "a_type"),
    _types("multiplicandBPtxType", "b_type"),
    Inferred("a_type", "a", _INPUTS, "multiplicandAPtxType"),
    Inferred("b_type", "b", _INPUTS, "multiplicandBPtxType"),
    Inferred("c_type", "c", _ACCUMULATORS),
    Inferred("d_type", "d", _ACCUMULATORS),
)


def _integers(op: Any) -> bool:
    return op.attribute("a_type") in ("s8", "u8", "s4", "u4")


_OVERFLOW = Token(("satfinite",), "intOverflowBehavior", "MMAIntOverflow", _CLAMPED, False, _integers)
_ORDERED = Flag("ordered", "orderedMetadata")
_SCALED = (
    *_MMA_TYPES,
    Token(("kind",), "kind", "MMABlockScaleKind", _same(nvvm.MMABlockScaleKind)),
    Token(("scale_vec",), "scaleVecSize", "ScaleVecSize", {"x1": "1X", "x2": "2X", "x4": "4X"}),
    Token(("scale_type",), "blockScaleFormat", "BlockScaleFormat", _same(nvvm.BlockScaleFormat)),
)
_SCALES = "scale_a byte_id_a thread_id_a scale_b byte_id_b thread_id_b"
_MATRIX_SHAPE = Shape("mn", "ld_st_matrix_shape")
_MATRIX_TYPE = Token(("type",), "eltType", "LdStMatrixEltType", _same(nvvm.LdStMatrixEltType))
_MATRIX_LAYOUT = Token(("trans",), "layout", "MMALayout", _TRANSPOSED)



def _kind_dropped(form: Any) -> str | None:
    """Where both a form with a kind and one without are legal, upstream takes the intrinsic of the one without."""
    if form.kind and form in mma.SpSyncOp.family.table and replace(form, kind="") in mma.SpSyncOp.family.table:
        return f"upstream's translation drops the kind of {form.a_type} and {form.b_type} with {form.d_type}"
    return None


_MMA = (
    Pair(
        mma.SyncOp,
        nvvm.MmaOp,
        "a* b* c*",
        (
            *_MMA_TYPES,
            _layout("layoutA", "a_layout"),
            _layout("layoutB", "b_layout"),
            _OVERFLOW,
            Token(
                ("bit_op",),
                "b1Op",
                "MMAB1Op",
                {"xor_popc": "xor.popc", "and_popc": "and.popc", "none": ""},
                "",
            ),
        ),
    ),
    Pair(
        mma.SpSyncOp,
        nvvm.MmaSpOp,
        "a* b* c* metadata selector:i32",
        (*_MMA_TYPES, _OVERFLOW, _ORDERED, Token(("kind",), "kind", "MMAKind", _same(nvvm.MMAKind), "")),
        broken=_kind_dropped,
    ),
    Pair(mma.BlockScaleOp, nvvm.MmaBlockScaleOp, f"a* b* c* {_SCALES}", _SCALED),
    Pair(
        mma.SpBlockScaleOp,
        nvvm.MmaSpBlockScaleOp,
        f"a* b* c* metadata selector:i32 {_SCALES}",
        (*_SCALED, _ORDERED),
    ),
    Pair(
        mma.LdmatrixOp,
        nvvm.LdMatrixOp,
        "address",
        (_MATRIX_SHAPE, Number("num", 32), _MATRIX_LAYOUT, _MATRIX_TYPE),
    ),
    Pair(
        mma.StmatrixOp,
        nvvm.StMatrixOp,
        "address a*",
        (_MATRIX_SHAPE, Count("a"), _MATRIX_LAYOUT, _MATRIX_TYPE),
    ),
    Pair(
        mma.MovmatrixOp,
        nvvm.MovMatrixOp,
        "a",
        (_MATRIX_SHAPE, Token(("trans",), "layout", "MMALayout", _TRANSPOSED, True), _MATRIX_TYPE),
    ),
)

# wgmma: upstream says layouts where PTX says transposes, of which B's goes the other way.

_WGMMA_TYPES = _same(nvvm.WGMMATypes)
_SIGNS = {"one": 1, "neg": -1}


def _single_bits(form: Any) -> str | None:
    return "upstream writes b1 without its bit operation" if form.a_type == "b1" else None


_WGMMA = (
    Pair(
        wgmma.MmaAsyncOp,
        nvvm.WgmmaMmaAsyncOp,
        "inouts a b",
        (
            Shape("mnk", "shape"),
            Token(("a_type",), "typeA", "WGMMATypes", _WGMMA_TYPES),
            Token(("b_type",), "typeB", "WGMMATypes", _WGMMA_TYPES),
            Token(("d_type",), "typeD", "WGMMATypes", _WGMMA_TYPES),
            Predicate("scale_d", "scaleD", "WGMMAScaleOut", {"zero": False, "one": True}),
            Token(("scale_a",), "scaleA", "WGMMAScaleIn", _SIGNS),
            Token(("scale_b",), "scaleB", "WGMMAScaleIn", _SIGNS),
            Token(("trans_a",), "layoutA", "MMALayout", {"row": 0, "col": 1}),
            Token(("trans_b",), "layoutB", "MMALayout", {"col": 0, "row": 1}),
            Token(("satfinite",), "satfinite", "MMAIntOverflow", _CLAMPED, False),
            Implied("bit_op", "a_type", {"b1": "and.popc"}),
        ),
        broken=_single_bits,
    ),
    Pair(wgmma.FenceOp, nvvm.WgmmaFenceAlignedOp),
    Pair(wgmma.CommitGroupOp, nvvm.WgmmaGroupSyncAlignedOp),
    Pair(wgmma.WaitGroupOp, nvvm.WgmmaWaitGroupSyncOp, "", (Number("group", 64),)),
)

# tcgen05

_GROUPS = {"cta_1": 1, "cta_2": 2}
_GROUP = Token(("cta_group",), "group", "CTAGroupKind", _GROUPS, 1)
_MMA_GROUP = Token(("cta_group",), "ctaGroup", "CTAGroupKind", _GROUPS)
_KIND = Token(("kind",), "kind", "Tcgen05MMAKind", _same(nvvm.Tcgen05MMAKind))
_USES = _same(nvvm.Tcgen05MMACollectorOp)
_COLLECTOR = Token(("collector_a",), "collectorOp", "Tcgen05MMACollectorOp", _USES, "discard")
_BLOCK_SCALE = (
    _KIND,
    _MMA_GROUP,
    _COLLECTOR,
    Token(
        ("scale_vec",),
        "blockScale",
        "Tcgen05MMABlockScale",
        {"default": "", "block16": "block16", "block32": "block32"},
        "",
    ),
)
_WS = (
    _KIND,
    Token(
        ("collector_buffer",),
        "collectorBBuffer",
        "Tcgen05MMACollectorBBuffer",
        _same(nvvm.Tcgen05MMACollectorBBuffer),
        "b0",
    ),
    Token(("collector",), "collectorOp", "Tcgen05MMACollectorOp", _USES, "discard"),
)
_LD_ST_SHAPE = Token(
    ("shape",),
    "shape",
    "Tcgen05LdStShape",
    {token: token.removeprefix("shape_") for token in _same(nvvm.Tcgen05LdStShape)},
)
_MULTICASTS = {
    "none": "",
    "warpx2_02_13": "warpx2::02_13",
    "warpx2_01_23": "warpx2::01_23",
    "warpx4": "warpx4",
}
_CP = (
    Token(
        ("shape",),
        "shape",
        "Tcgen05CpShape",
        {token: token.removeprefix("shape_") for token in _same(nvvm.Tcgen05CpShape)},
    ),
    _GROUP,
    Token(("multicast",), "multicast", "Tcgen05CpMulticast", _MULTICASTS, ""),
    Token(("source_format",), "srcFormat", "Tcgen05CpSrcFormat", _same(nvvm.Tcgen05CpSrcFormat), ""),
)
# Upstream names no sign: LLVM prints its i32 reductions as .u32.
_REDUCED = {"i32": "u32", "f32": "f32"}
_PLAIN = "d a b idesc enable_input_d"
_SHIFT = Flag("ashift", "aShift")

_TCGEN05 = (
    Pair(tcgen05.AllocOp, nvvm.Tcgen05AllocOp, "address columns", (_GROUP,)),
    Pair(tcgen05.DeallocOp, nvvm.Tcgen05DeallocOp, "address columns", (_GROUP,)),
    Pair(tcgen05.RelinquishAllocPermitOp, nvvm.Tcgen05RelinquishAllocPermitOp, "", (_GROUP,)),
    Pair(tcgen05.CommitOp, nvvm.Tcgen05CommitOp, "mbarrier mask?", (_GROUP,)),
    Pair(
        tcgen05.WaitOp,
        nvvm.Tcgen05WaitOp,
        "",
        (Token(("kind",), "kind", "Tcgen05WaitKind", {"load": "ld", "store": "st"}),),
    ),
    Pair(
        tcgen05.FenceOp,
        nvvm.Tcgen05FenceOp,
        "",
        (
            Token(
                ("kind",),
                "kind",
                "Tcgen05FenceKind",
                {"before": "before_thread_sync", "after": "after_thread_sync"},
            ),
        ),
    ),
    Pair(tcgen05.CpOp, nvvm.Tcgen05CpOp, "address descriptor", _CP),
    Pair(tcgen05.ShiftOp, nvvm.Tcgen05ShiftOp, "address", (_GROUP,)),
    Pair(
        tcgen05.LdOp,
        nvvm.Tcgen05LdOp,
        "address offset?:i64",
        (_LD_ST_SHAPE, Flag("pack", "pack"), Repeats(tcgen05.LdOp.family)),
        vectors=("data",),
    ),
    Pair(
        tcgen05.StOp,
        nvvm.Tcgen05StOp,
        "address data offset?:i64",
        (_LD_ST_SHAPE, Flag("unpack", "unpack"), Repeats(tcgen05.StOp.family)),
        vectors=("data",),
    ),
    Pair(
        tcgen05.LdRedOp,
        nvvm.Tcgen05LdRedOp,
        "address offset?:i64",
        (
            _LD_ST_SHAPE,
            Token(("op",), "op", "ReductionKind", _same(nvvm.ReductionKind)),
            Inferred("type", "data", _REDUCED),
            Flag("abs", "abs"),
            Flag("nan", "nan"),
            Repeats(tcgen05.LdRedOp.family),
        ),
        vectors=("data",),
    ),
    Pair(
        tcgen05.MmaOp,
        nvvm.Tcgen05MMAOp,
        f"{_PLAIN} scale_input_d?:i64 disable_output_lane?",
        (_KIND, _MMA_GROUP, _COLLECTOR, _SHIFT),
    ),
    Pair(
        tcgen05.SpMmaOp,
        nvvm.Tcgen05MMASparseOp,
        f"{_PLAIN} metadata scale_input_d?:i64 disable_output_lane?",
        (_KIND, _MMA_GROUP, _COLLECTOR, _SHIFT),
    ),
    Pair(tcgen05.MmaBlockScaleOp, nvvm.Tcgen05MMABlockScaleOp, f"{_PLAIN} scale_a scale_b", _BLOCK_SCALE),
    Pair(
        tcgen05.SpMmaBlockScaleOp,
        nvvm.Tcgen05MMASparseBlockScaleOp,
        f"{_PLAIN} metadata scale_a scale_b",
        _BLOCK_SCALE,
    ),
    Pair(tcgen05.MmaWsOp, nvvm.Tcgen05MMAWsOp, f"{_PLAIN} zero_column_mask?", _WS),
    Pair(tcgen05.SpMmaWsOp, nvvm.Tcgen05MMAWsSparseOp, f"{_PLAIN} metadata zero_column_mask?", _WS),
)

PAIRS: Sequence[Pair] = (*_WMMA, *_MMA, *_WGMMA, *_TCGEN05)

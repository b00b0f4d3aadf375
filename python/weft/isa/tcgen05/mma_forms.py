"""The forms of `tcgen05.mma` and how PTX and LLVM spell them: dense and sparse, each plain, block-scaled and
weight-stationary. `mma_rows` states which of them are legal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from weft.isa.family import Form, Registers
from weft.isa.tcgen05.family import CTA_GROUP, TENSOR_ADDRESS, template, vector
from weft.isa.template import Field, Flag, Part, Template, Unnamed, Values, Word

# LLVM's numbers of what it takes as flags.
_LLVM_KINDS = {"f16": 0, "tf32": 1, "f8f6f4": 2, "i8": 3}
_LLVM_COLLECTOR = {"discard": 0, "lastuse": 1, "fill": 2, "use": 3}
_LLVM_BUFFERS = {"b0": 0, "b1": 1, "b2": 2, "b3": 3}

COLLECTOR_USES = tuple(_LLVM_COLLECTOR)
COLLECTOR_BUFFERS = tuple(_LLVM_BUFFERS)
_SCALE_INPUT = tuple(range(16))


def _a(memory: str) -> Registers:
    return Registers("a", 1, TENSOR_ADDRESS if memory == "tensor" else "i64")


def _address(name: str) -> Registers:
    return Registers(name, 1, TENSOR_ADDRESS)


def _operand_list(operands: Sequence[Registers]) -> str:
    """PTX's operand list: addresses in tensor memory stand in brackets."""
    return ", ".join(f"[{{{o.name}}}]" if o.type == TENSOR_ADDRESS else f"{{{o.name}}}" for o in operands)


SCALED_KINDS = ("mxf8f6f4", "mxf4", "mxf4nvf4")
_SCALED_KIND = "|".join(SCALED_KINDS)
_KIND = Field("kind", ("kind::{}", r"\w+"), default="")
_COLLECTOR_A = Field("collector_a", ("collector::a::{}", r"\w+"), default="discard", printed=True)
# An operation on the one buffer for B, or a buffer of `.ws` and one on that: `b0::fill`.
_COLLECTOR_B = Field("collector_b", ("collector::{}", r"b\d::\w+"), ("collector::b::{}", r"\w+"), default="")
_DECOMPRESS = Field("decompress", ("decompress::{}", "[^.]+"), default="")
_SCALE_VEC = Field("scale_vec", ("{}", r"block\d+"), ("scale_vec::{}", r"(?!block)\w+"), default="")
_SP = Word("sp")
_SIZE = r"scale_vec::\w+|block\d+"
_ASHIFT = Flag("ashift")


def _mma(*sparse: Part) -> tuple[Template, ...]:
    head = (*sparse, CTA_GROUP, _KIND, _DECOMPRESS)
    collectors = (_COLLECTOR_A, _COLLECTOR_B)
    return (
        # LLVM prints these two in an order that depends on the mask; ptxas takes both.
        template("mma", *head, _ASHIFT, *collectors, when=lambda form: form.disable_output_lane > 0),
        template("mma", *head, *collectors, _ASHIFT, when=lambda form: form.disable_output_lane == 0),
    )


def _mma_misspelled(*sparse: Part) -> tuple[Template, ...]:
    """A size of scale vectors with a kind that has one, but without `.block_scale`."""
    kind = Field("kind", ("kind::{}", _SCALED_KIND))
    head = (*sparse, CTA_GROUP, kind, Unnamed(_SIZE), _DECOMPRESS)
    return (template("mma", *head, _COLLECTOR_A, _COLLECTOR_B, _ASHIFT),)


def _block_scale(*sparse: Part) -> tuple[Template, ...]:
    head = (*sparse, CTA_GROUP, _KIND, Word("block_scale"), _DECOMPRESS, _SCALE_VEC)
    return (template("mma", *head, _COLLECTOR_A, _COLLECTOR_B, _ASHIFT),)


def _block_scale_misspelled(*sparse: Part) -> tuple[Template, ...]:
    """A size of scale vectors with a kind that has none."""
    kind = Field("kind", ("kind::{}", rf"(?!(?:{_SCALED_KIND})\Z)\w+"), default="")
    size = Field("scale_vec", ("{}", r"block\d+"), ("scale_vec::{}", r"\w+"))
    head = (*sparse, CTA_GROUP, kind, _DECOMPRESS, size)
    return (template("mma", *head, _COLLECTOR_A, _COLLECTOR_B, _ASHIFT),)


def _weight_stationary(*sparse: Part) -> tuple[Template, ...]:
    collector = Field(
        "collector_buffer collector", ("collector::{}::{}", r"\w+"), default=("b0", "discard"), printed=True
    )
    scale = Flag("block_scale", also=_SIZE)
    return (template("mma.ws", *sparse, CTA_GROUP, _KIND, scale, collector, _ASHIFT),)


def _memory(operands: Sequence[str]) -> str:
    """Where A is."""
    return "tensor" if len(operands) > 1 and operands[1].startswith("[") else "shared"


@dataclass(frozen=True)
class Mma(Form):
    """One form of `tcgen05.mma` without block scale: `d = a * b`, plus d where `enable_input_d` is true.

    `a` is the memory that holds A: "shared" (operand a is a descriptor) or "tensor". `disable_output_lane` is
    the number of registers in the mask of lanes that aren't written, or 0 without a mask. With
    `scale_input_d` the old d is divided by a power of two before the sum. `decompress` is the compression of
    B: `lut::b` for indices into a table in tensor memory.
    """

    kind: str
    cta_group: int
    a: str = "shared"
    collector_a: str = "discard"
    ashift: bool = False
    disable_output_lane: int = 0
    scale_input_d: bool = False
    collector_b: str = ""
    decompress: str = ""

    sparse: ClassVar[bool] = False

    templates, misspelled = _mma(), _mma_misspelled()

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values:
        lanes = next((o.count(",") + 1 for o in operands if o.startswith("{")), 0)
        least = 5 + cls.sparse + bool(values["decompress"]) + bool(lanes)
        return {"a": _memory(operands), "disable_output_lane": lanes, "scale_input_d": len(operands) > least}

    @property
    def intrinsic(self) -> str | None:
        if self.kind not in _LLVM_KINDS or self.collector_b or self.decompress:
            return None
        return (
            f"llvm.nvvm.tcgen05.mma{'.sp' if self.sparse else ''}.{self.a}"
            f"{'.scale_d' if self.scale_input_d else ''}"
            f"{f'.disable_output_lane.cg{self.cta_group}' if self.disable_output_lane else ''}"
            f"{'.ashift' if self.ashift else ''}"
        )

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, the table for B, the metadata of a sparse A, the instruction descriptor, the mask,
        whether D counts, and the power of two.
        """
        lanes = self.disable_output_lane
        return (
            _address("d"),
            _a(self.a),
            Registers("b", 1, "i64"),
            *([_address("lut")] if self.decompress else []),
            *([_address("metadata")] if self.sparse else []),
            Registers("idesc", 1, "i32"),
            *([Registers("disable_output_lane", 1, vector(lanes, "i32"))] if lanes else []),
            Registers("enable_input_d", 1, "i1"),
            *(
                [Registers("scale_input_d", 1, "i64", role="immediate", values=_SCALE_INPUT)]
                if self.scale_input_d
                else []
            ),
        )

    @property
    def assembly(self) -> str:
        return _operand_list(self.operands)

    @property
    def arguments(self) -> tuple[str, ...]:
        names = [o.name for o in self.operands]
        order = ("d", "a", "b", "idesc", "enable_input_d", "metadata", "scale_input_d", "disable_output_lane")
        return tuple(name for name in order if name in names)

    @property
    def immediates(self) -> tuple[tuple[str, int], ...]:
        """Kind, CTA group (which the name has where there is a mask), collector of A."""
        if self.intrinsic is None:
            return ()
        group = () if self.disable_output_lane else (self.cta_group,)
        values = (_LLVM_KINDS[self.kind], *group, _LLVM_COLLECTOR[self.collector_a])
        return tuple(("i32", value) for value in values)


@dataclass(frozen=True)
class MmaSp(Mma):
    """One form of `tcgen05.mma.sp`: as `tcgen05.mma`, with a sparse A. Half of A's elements are stored, and
    metadata has their indices.
    """

    sparse: ClassVar[bool] = True
    templates, misspelled = _mma(_SP), _mma_misspelled(_SP)


@dataclass(frozen=True)
class MmaBlockScale(Form):
    """One form of `tcgen05.mma` with block scale: `d = (a * scale_a) * (b * scale_b)`, plus d.

    `scale_vec` is how many elements along K share a scale: `1X`, `2X`, `4X`, `block16`, `block32`, or
    empty for the kind's default. The other axes are those of `tcgen05.mma`.
    """

    kind: str
    cta_group: int
    scale_vec: str = ""
    a: str = "shared"
    collector_a: str = "discard"
    ashift: bool = False
    collector_b: str = ""
    decompress: str = ""

    sparse: ClassVar[bool] = False

    templates, misspelled = _block_scale(), _block_scale_misspelled()

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values:
        return {"a": _memory(operands)}

    @property
    def intrinsic(self) -> str | None:
        if self.collector_b or self.decompress or self.scale_vec.endswith("X"):
            return None
        scale_vec = f".{self.scale_vec}" if self.scale_vec else ""
        sp = ".sp" if self.sparse else ""
        return f"llvm.nvvm.tcgen05.mma{sp}.{self.a}.{self.kind}.block_scale{scale_vec}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, the table for B, the metadata of a sparse A, the instruction descriptor, the scales of A
        and of B, and whether D counts.
        """
        return (
            _address("d"),
            _a(self.a),
            Registers("b", 1, "i64"),
            *([_address("lut")] if self.decompress else []),
            *([_address("metadata")] if self.sparse else []),
            Registers("idesc", 1, "i32"),
            _address("scale_a"),
            _address("scale_b"),
            Registers("enable_input_d", 1, "i1"),
        )

    @property
    def assembly(self) -> str:
        return _operand_list(self.operands)

    @property
    def arguments(self) -> tuple[str, ...]:
        sparse = ("metadata",) if self.sparse else ()
        return ("d", "a", "b", "idesc", "enable_input_d", *sparse, "scale_a", "scale_b")

    @property
    def immediates(self) -> tuple[tuple[str, int], ...]:
        """CTA group, collector of A."""
        if self.intrinsic is None:
            return ()
        return ("i32", self.cta_group), ("i32", _LLVM_COLLECTOR[self.collector_a])


@dataclass(frozen=True)
class MmaSpBlockScale(MmaBlockScale):
    """One form of `tcgen05.mma.sp` with block scale."""

    sparse: ClassVar[bool] = True
    templates, misspelled = _block_scale(_SP), _block_scale_misspelled(_SP)


@dataclass(frozen=True)
class MmaWs(Form):
    """One form of `tcgen05.mma.ws`: the weights, B, may stay in one of four collector buffers.

    With `zero_column_mask` an operand masks columns of B, which then count as zero. `cta_group`,
    `block_scale` and `ashift` have one legal value each.
    """

    kind: str
    a: str = "shared"
    collector_buffer: str = "b0"
    collector: str = "discard"
    zero_column_mask: bool = False
    cta_group: int = 1
    block_scale: bool = False
    ashift: bool = False

    sparse: ClassVar[bool] = False

    templates = _weight_stationary()

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values:
        least = 5 + cls.sparse + 2 * bool(values["block_scale"])
        return {"a": _memory(operands), "zero_column_mask": len(operands) > least}

    @property
    def intrinsic(self) -> str | None:
        if self.kind not in _LLVM_KINDS:
            return None
        mask = ".zero_col_mask" if self.zero_column_mask else ""
        return f"llvm.nvvm.tcgen05.mma.ws{'.sp' if self.sparse else ''}.{self.a}{mask}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, the metadata of a sparse A, the instruction descriptor, whether D counts, and the mask."""
        return (
            _address("d"),
            _a(self.a),
            Registers("b", 1, "i64"),
            *([_address("metadata")] if self.sparse else []),
            Registers("idesc", 1, "i32"),
            *([_address("scale_a"), _address("scale_b")] if self.block_scale else []),
            Registers("enable_input_d", 1, "i1"),
            *([Registers("zero_column_mask", 1, "i64")] if self.zero_column_mask else []),
        )

    @property
    def assembly(self) -> str:
        return _operand_list(self.operands)

    @property
    def arguments(self) -> tuple[str, ...]:
        names = [o.name for o in self.operands]
        order = ("d", "a", "b", "idesc", "enable_input_d", "metadata", "zero_column_mask")
        return tuple(name for name in order if name in names)

    @property
    def immediates(self) -> tuple[tuple[str, int], ...]:
        """Kind, collector buffer of B, its use."""
        if self.intrinsic is None:
            return ()
        values = (
            _LLVM_KINDS[self.kind],
            _LLVM_BUFFERS[self.collector_buffer],
            _LLVM_COLLECTOR[self.collector],
        )
        return tuple(("i32", value) for value in values)


@dataclass(frozen=True)
class MmaWsSp(MmaWs):
    """One form of `tcgen05.mma.ws.sp`."""

    sparse: ClassVar[bool] = True
    templates = _weight_stationary(_SP)

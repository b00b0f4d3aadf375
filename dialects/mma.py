"""The `mma` dialect: one op per warp-level matrix instruction, held to the rows of `weft.isa.mma`."""

from collections.abc import Sequence
from typing import Any

from weft.dialects.op import Op, build
from weft.isa import mma as isa
from weft.isa.family import Family, Registers
from weft.mlir import ext, ir


class Mma(ext.Dialect, name="mma"):
    """`mma.sync` and the instructions that feed it."""


def judge(family: Family[Any], op: Any) -> str | None:
    """The table's complaint about the op's form on the op's target."""
    chip = op.target.chip.name if op.target else None
    verdict = family.judge(op.form, chip)
    return None if verdict is None else str(verdict)


def _registers_complaint(wanted: Registers, got: Sequence[Any]) -> str | None:
    """Why the registers of one operand aren't what the row says."""
    types = sorted({str(value) for value in got})
    if len(got) == wanted.count and types == [wanted.type]:
        return None
    found = f"{len(got)} of {' and '.join(types)}" if got else "none"
    return f"expects {wanted.count} {wanted.name.upper()} registers of {wanted.type}, got {found}"


def struct_of(registers: Registers) -> Any:
    """The result type of an instruction: a struct of registers, or the bare register where there is one."""
    one = ir.Type.parse(registers.type)
    if registers.count == 1:
        return one
    return ir.Type.parse(f"!llvm.struct<({', '.join([registers.type] * registers.count)})>")


def _result_complaint(wanted: Registers, got: Any) -> str | None:
    want = struct_of(wanted)
    return None if got == want else f"expects to return {want}, got {got}"


class SyncOp(Op, dialect=Mma, name="sync"):
    """`mma.sync`: `d = a * b + c` over one warp, on registers.

    A, B and C are register groups (f16 pairs in vector<2xf16>, bf16 pairs in i32, f32 alone), D a struct of
    registers, in the order of the PTX ISA.
    """

    a: Sequence[ext.Operand[Any]]
    b: Sequence[ext.Operand[Any]]
    c: Sequence[ext.Operand[Any]]
    d: ext.Result[Any]
    shape: ir.StringAttr
    a_type: ir.StringAttr
    b_type: ir.StringAttr
    c_type: ir.StringAttr
    d_type: ir.StringAttr
    optional = {"a_layout": "row", "b_layout": "col"}  # noqa: RUF012

    @property
    def form(self) -> isa.Sync:
        """The row's key: what the op spells."""
        return isa.Sync(**{axis: self.attribute(axis) for axis in isa.SYNC.axes})

    def check(self) -> str | None:
        if found := judge(isa.SYNC, self):
            return found
        d, a, b, c = self.form.operands
        for wanted, got in ((a, self.a), (b, self.b), (c, self.c)):
            if found := _registers_complaint(wanted, [value.type for value in got]):
                return found
        return _result_complaint(d, self.d.type)


class LdmatrixOp(Op, dialect=Mma, name="ldmatrix"):
    """`ldmatrix`: `num` 8x8 matrices of 16-bit elements from shared memory, one i32 register of two elements
    each.

    Lane 8i + j gives the address of row j of matrix i; with `trans` each lane gets a column's pair instead of
    a row's.
    """

    address: ext.Operand[Any]
    d: ext.Result[Any]
    num: ir.IntegerAttr
    optional = {"shape": "m8n8", "trans": False, "type": "b16"}  # noqa: RUF012

    @property
    def form(self) -> isa.Ldmatrix:
        """The row's key: what the op spells."""
        return isa.Ldmatrix(**{axis: self.attribute(axis) for axis in isa.LDMATRIX.axes})

    def check(self) -> str | None:
        if found := judge(isa.LDMATRIX, self):
            return found
        if str(self.address.type) != "!llvm.ptr<3>":
            return f"expects an address in shared memory (!llvm.ptr<3>), got {self.address.type}"
        return _result_complaint(self.form.operands[0], self.d.type)


def sync(a: Sequence[Any], b: Sequence[Any], c: Sequence[Any], form: isa.Sync) -> Any:
    """Builds `mma.sync` and returns D, a struct of registers. Raises WeftError for a form or registers that
    aren't legal.
    """
    axes = {axis: getattr(form, axis) for axis in isa.SYNC.axes}
    return build(SyncOp, operands=[a, b, c], results=[struct_of(form.operands[0])], attributes=axes).d


def ldmatrix(address: Any, *, num: int, trans: bool = False) -> Any:
    """Builds `mma.ldmatrix` and returns its registers: an i32 for one, else a struct of i32."""
    form = isa.Ldmatrix("m8n8", num, trans)
    return build(
        LdmatrixOp,
        operands=[address],
        results=[struct_of(form.operands[0])],
        attributes={"num": num, "trans": trans},
    ).d

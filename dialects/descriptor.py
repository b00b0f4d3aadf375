"""The base class of operations that encode a descriptor from typed fields."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from weft.dialects.effects import Pure
from weft.dialects.instruction import attribute_class
from weft.dialects.op import UNSET, Op, Operand, Result, build
from weft.isa.family import Verdict
from weft.mlir import ir

ADDRESS = "address"


class DescriptorOp(Op):
    """An operation whose attributes are the fields of `record`. Its result is their encoding.

    The field `address`, if there is one, is an operand: a pointer to shared memory. ptxas can't check a
    descriptor, which is a number at run time; the record's `complaint` checks it.
    """

    record = UNSET
    decided_by_kind = True

    @classmethod
    def __init_subclass__(
        cls, *, record: Any = None, traits: Sequence[Any] = (Pure,), **arguments: object
    ) -> None:
        if record is not None:
            cls.record = record
            cls.optional = {}
            declared = {"descriptor": Result}
            for field in fields(record):
                if field.name == ADDRESS:
                    declared = {ADDRESS: Operand} | declared
                elif field.default is MISSING:
                    declared[field.name] = attribute_class(field.type)
                else:
                    cls.optional[field.name] = field.default
            cls.__annotations__ = declared
            arguments["traits"] = list(traits)
        super().__init_subclass__(**arguments)

    @property
    def fields(self) -> Any:
        """The record, with address 0."""
        names = [field.name for field in fields(self.record) if field.name != ADDRESS]
        return self.record(**{name: self.attribute(name) for name in names})

    @property
    def has_address(self) -> bool:
        """Whether the descriptor contains an address, which is known only at run time."""
        return any(field.name == ADDRESS for field in fields(self.record))

    def check(self) -> str | None:
        if self.has_address and str(self.address.type) != "!llvm.ptr<3>":
            return f"expects an address in shared memory (!llvm.ptr<3>), got {self.address.type}"
        want = "i64" if self.has_address else "i32"
        if str(self.descriptor.type) != want:
            return f"expects to return {want}, got {self.descriptor.type}"
        verdict = self.complaint()
        return None if verdict is None else str(verdict)

    def complaint(self) -> Verdict | None:
        """The record's complaint about the fields, or None."""
        return self.fields.complaint()

    @classmethod
    def make(cls, address: ir.Value | None = None, **attributes: object) -> ir.Value:
        """Builds the op and returns the descriptor. Raises WeftError for illegal fields."""
        kind = ir.IntegerType.get_signless(32 if address is None else 64)
        operands = [] if address is None else [address]
        return build(cls, operands=operands, results=[kind], attributes=attributes).descriptor

"""Sums of `wgmma` in the named registers of a kernel. As values, LLVM would carry each of them through loops,
and into and out of inline PTX.

A kernel numbers these registers, of 32 bits, from 0 on. `tile.gemm_async` with `first_sum` leaves its
products in them, and the operations of this file use what is there after the wait.
"""

from collections.abc import Sequence

from weft.dialects.effects import ALL, ORDERS, reads, writes
from weft.dialects.op import Op, Operand, Result
from weft.dialects.tile_types import Tile, is_fragment
from weft.dialects.wgmma import LAST_SUM
from weft.isa.chips import THREAD_REGISTERS
from weft.isa.mma.fragments import REGISTER_BITS
from weft.mlir import ir

_READ = ("f32", "i32", "f16")
_ROUNDED = ("f16", "bf16")


def sum_registers(kind: ir.Type) -> int:
    """The registers of a lane's sums, of a fragment type."""
    return int(kind.registers * kind.element_type.width // REGISTER_BITS)


class ClearSumsOp(Op, dialect=Tile, name="clear_sums", traits=[writes(ALL)]):
    """Sets named registers to zero: `count` of them, from number `first_sum` on."""

    first_sum: ir.IntegerAttr
    count: ir.IntegerAttr

    def check(self) -> str | None:
        return _range_complaint(self)


class AddProductsOp(Op, dialect=Tile, name="add_products", traits=[ORDERS]):
    """Adds finished products to sums. Both are f32 in named registers: for each `i` below `count`, product
    `first_product + i` is added to sum `first_sum + i`.

    With factors (f32), a product is multiplied by factor number `factor_numbers[i]`; the multiplication and
    the addition are rounded once.
    """

    factors: Sequence[Operand]
    first_product: ir.IntegerAttr
    first_sum: ir.IntegerAttr
    count: ir.IntegerAttr
    optional = {"factor_numbers": None}  # noqa: RUF012

    @property
    def numbers(self) -> list[int]:
        """The number of each product's factor; none without factors."""
        return list(self.attribute("factor_numbers") or ())

    def check(self) -> str | None:
        if wrong := _range_complaint(self):
            return wrong
        first, count = self.attribute("first_product"), self.attribute("count")
        if not 0 <= first <= LAST_SUM:
            return f"first_product must be in 0..{LAST_SUM}, got {first}"
        if abs(first - self.attribute("first_sum")) < count:
            return f"expects {count} products and as many sums in different registers"
        factors = list(self.operation.operands)
        if other := [str(factor.type) for factor in factors if str(factor.type) != "f32"]:
            return f"expects factors of f32, got {other[0]}"
        given = self.attribute("factor_numbers")
        if given is not None and not isinstance(given, ir.DenseI64ArrayAttr):
            return f"expects attribute 'factor_numbers' to be array<i64: ...>, got {given}"
        if len(self.numbers) != (count if factors else 0):
            return f"expects factor_numbers of {count if factors else 0} elements, got {len(self.numbers)}"
        if wrong_numbers := [number for number in self.numbers if not 0 <= number < len(factors)]:
            return f"factor_numbers must be in 0..{len(factors) - 1}, got {wrong_numbers[0]}"
        return None


class ReadSumsOp(Op, dialect=Tile, name="read_sums", traits=[reads(ALL)]):
    """The fragment of a warpgroup's sums in named registers: element `i` of a lane is register
    `first_sum + i`, or `first_sum + order[i]`.

    With `rounds`, the registers have f32, and the elements, f16 or bf16, are rounded to nearest. Otherwise,
    two elements of f16 are in a register.
    """

    first_sum: ir.IntegerAttr
    sums: Result
    optional = {"rounds": False, "order": None}  # noqa: RUF012

    @property
    def order(self) -> list[int]:
        """The numbers of the registers, from `first_sum` on."""
        given = self.attribute("order")
        return list(range(self._count) if given is None else given)

    @property
    def _count(self) -> int:
        """How many registers are read."""
        kind = self.sums.type
        return int(kind.registers) if self.attribute("rounds") else sum_registers(kind)

    def check(self) -> str | None:
        read = _ROUNDED if self.attribute("rounds") else _READ
        if not is_fragment(self.sums) or str(self.sums.type.element_type) not in read:
            legal = f"{', '.join(read[:-1])} or {read[-1]}"
            return f"expects to return a fragment of {legal}, got {self.sums.type}"
        if not 0 <= (first := self.attribute("first_sum")) <= LAST_SUM:
            return f"first_sum must be in 0..{LAST_SUM}, got {first}"
        given = self.attribute("order")
        if given is None:
            return None
        if not isinstance(given, ir.DenseI64ArrayAttr):
            return f"expects attribute 'order' to be array<i64: ...>, got {given}"
        count, numbers = self._count, list(given)
        if len(numbers) != count or min(numbers) < 0 or max(numbers) > LAST_SUM:
            return f"expects order to have {count} numbers in 0..{LAST_SUM}, got {given}"
        return None


def _range_complaint(op: Op) -> str | None:
    for name, least, most in (("first_sum", 0, LAST_SUM), ("count", 1, THREAD_REGISTERS)):
        if not least <= op.attribute(name) <= most:
            return f"{name} must be in {least}..{most}, got {op.attribute(name)}"
    return None


def reading(fragment: ir.Value) -> ReadSumsOp | None:
    """The `tile.read_sums` that returns a fragment; None for another one."""
    owner = fragment.owner
    made = not isinstance(owner, ir.Block) and isinstance(owner.opview, ReadSumsOp)
    return owner.opview if made else None

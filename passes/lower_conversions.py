"""`--lower-conversions`: conversions of integers to bf16 round once, on chips without the instruction. LLVM
would round to f32, and then to bf16. Conversions of fp8, for which it has none, become arithmetic.
"""

from collections.abc import Callable

from weft.dialects.op import target_of
from weft.isa.conversion import BF16_FROM_INTEGERS
from weft.mlir import arith, ir, operations
from weft.passes.builders import emit, small_floats
from weft.passes.registry.pass_ import Pass, replace

_DIGITS = 24  # of f32
_STEP = 14  # so that at least 10 digits remain, and bf16 has 8


def run(module: ir.Operation) -> None:
    """Lowers the conversions on chips without the instruction."""

    def lacks_it(op: ir.OpView) -> bool:
        target = target_of(op)
        return target is not None and target.chip.name not in BF16_FROM_INTEGERS

    convert_once(module, lacks_it)
    for op in operations(module, arith.ExtFOp, arith.TruncFOp, arith.ConvertFOp):
        if small_floats.is_small(op.in_.type) or small_floats.is_small(op.out.type):
            replace(op, lambda op: small_floats.convert(op.in_, op.out.type))


def convert_once(module: ir.Operation, chosen: Callable[[ir.OpView], bool] = lambda op: True) -> None:
    """Lowers the `chosen` conversions of integers to bf16 that might round twice."""
    for op in operations(module, arith.SIToFPOp, arith.UIToFPOp):
        (number,), made = op.operands, op.operation.results[0]
        if emit.element_of(made.type) != ir.BF16Type.get():
            continue
        if emit.element_of(number.type).width > _DIGITS and chosen(op):
            with ir.InsertionPoint(op), op.location:
                shortened = _shortened(number, isinstance(op, arith.SIToFPOp))
                exact = type(op)(emit.with_elements(made.type, ir.F32Type.get()), shortened)
                made.replace_all_uses_with(arith.truncf(made.type, exact.result))
            op.operation.erase()


def _shortened(number: ir.Value, signed: bool) -> ir.Value:
    """Integers that f32 holds, and that bf16 rounds as it does these. Of those with more digits, the lowest
    ones become 0, and the next one is set if any of them was.
    """
    kind, width = number.type, emit.element_of(number.type).width
    zero, result, digits = emit.constant(kind, 0), number, _DIGITS
    for surplus in range(_STEP, width - _DIGITS + _STEP, _STEP):
        surplus = min(surplus, width - _DIGITS)
        limit = emit.constant(kind, 1 << digits)
        ends = (arith.addi(number, limit), emit.constant(kind, 2 << digits)) if signed else (number, limit)
        low = arith.andi(number, emit.constant(kind, (1 << surplus) - 1))
        some = arith.extui(kind, arith.cmpi(arith.CmpIPredicate.ne, low, zero))
        rounded = arith.ori(arith.subi(number, low), arith.shli(some, emit.constant(kind, surplus)))
        result = arith.select(arith.cmpi(arith.CmpIPredicate.ult, *ends), result, rounded)
        digits = _DIGITS + surplus
    return result


LOWER_CONVERSIONS = Pass(
    "lower-conversions", "round conversions of integers to bf16 once, and compute those of fp8", run
)

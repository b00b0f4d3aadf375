"""Floating-point values in a kernel with Python's operators."""

from collections.abc import Callable

from weft.mlir import arith, ir, llvm

OWN = {
    **dict.fromkeys(("sqrt", "trunc", "floor", "ceil", "round", "roundeven"), 1),
    **dict.fromkeys(("copysign", "maxnum", "minnum"), 2),
}
"""LLVM's intrinsics, of f32 and f64, that kernels call, and how many numbers they take."""
_COUNTS = {"ctpop": 1, "ctlz": 2, "cttz": 2}
_WORDS = ("i8", "i16", "i32", "i64")


def is_own_call(call: ir.OpView) -> bool:
    """Whether a call of an intrinsic is as `Real` or `counted` writes it, which LLVM always translates."""
    operation = call.operation
    kinds = [str(each.type) for each in (*operation.results, *operation.operands)]
    _, name, *kind = (*str(call.intrin.value).split("."), "")[:3]
    if name in OWN:
        return kinds == [*kind] * (1 + OWN[name]) and {*kind} < {"f32", "f64"}
    flag = ["i1"] * (_COUNTS.get(name, 0) - 1)
    return name in _COUNTS and kinds == [*kind, *kind, *flag] and {*kind} < {*_WORDS}


def counted(name: str, bits: ir.Value) -> ir.Value:
    """The number of bits that an intrinsic counts in an integer, also in 0."""
    operands = [bits, arith.constant(ir.IntegerType.get_signless(1), 0)][: _COUNTS[name]]
    return llvm.call_intrinsic(bits.type, f"llvm.{name}.{bits.type}", operands, [], [])


class Real:
    """An f32 or f64 value. Python numbers beside it become constants of its type."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def of(self, number: "float | Real") -> "Real":
        """A number as a value of this type."""
        return number if isinstance(number, Real) else Real(arith.constant(self.value.type, float(number)))

    def _with(self, build: Callable[[ir.Value, ir.Value], ir.Value], other: "float | Real") -> "Real":
        return Real(build(self.value, self.of(other).value))

    def __add__(self, other: "float | Real") -> "Real":
        return self._with(arith.addf, other)

    def __sub__(self, other: "float | Real") -> "Real":
        return self._with(arith.subf, other)

    def __mul__(self, other: "float | Real") -> "Real":
        return self._with(arith.mulf, other)

    def __truediv__(self, other: "float | Real") -> "Real":
        return self._with(arith.divf, other)

    def __neg__(self) -> "Real":
        return Real(arith.negf(self.value))

    def over(self, number: float) -> "Real":
        """The number divided by this."""
        return self.of(number) / self

    def minimum(self, other: "float | Real") -> "Real":
        """The smaller; NaN where one is."""
        return self._with(arith.minimumf, other)

    def maximum(self, other: "float | Real") -> "Real":
        """The larger; NaN where one is."""
        return self._with(arith.maximumf, other)

    def below(self, other: "float | Real") -> ir.Value:
        """Whether this is smaller: an i1 value, false for NaN."""
        return arith.cmpf(arith.CmpFPredicate.OLT, self.value, self.of(other).value)

    def equals(self, other: "float | Real") -> ir.Value:
        """Whether both are equal: an i1 value, false for NaN."""
        return arith.cmpf(arith.CmpFPredicate.OEQ, self.value, self.of(other).value)

    def where(self, condition: ir.Value, otherwise: "float | Real") -> "Real":
        """This where the condition is true."""
        return Real(arith.select(condition, self.value, self.of(otherwise).value))

    def fma(self, factor: "float | Real", term: "float | Real") -> "Real":
        """`self * factor + term`, rounded once."""
        return Real(llvm.intr_fma(self.value, self.of(factor).value, self.of(term).value))

    def polynomial(self, coefficients: "tuple[float, ...]") -> "Real":
        """The polynomial with these coefficients, the constant one first."""
        total = self.of(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total = total.fma(self, coefficient)
        return total

    def root(self) -> "Real":
        """The square root."""
        return self.called("sqrt")

    def magnitude(self) -> "Real":
        """The absolute value."""
        mask = arith.constant(self.integer, 2 ** (63 if self.wide else 31) - 1)
        return self.of_bits(arith.andi(self.bits(), mask))

    def truncated(self) -> "Real":
        """The integer next to it toward 0."""
        return self.called("trunc")

    def signed_as(self, other: "Real") -> "Real":
        """This with the sign of another value."""
        return self.called("copysign", other)

    def called(self, name: str, *others: "Real") -> "Real":
        """The result of an intrinsic of LLVM. Upstream's lowering of gpu.func refuses the operations
        that LLVM's dialect has for them.
        """
        operands = [self.value, *(each.value for each in others)]
        kind = self.value.type
        return Real(llvm.call_intrinsic(kind, f"llvm.{name}.{kind}", operands, [], []))

    @property
    def wide(self) -> bool:
        """Whether this is an f64."""
        return bool(self.value.type == ir.F64Type.get())

    def widened(self) -> "Real":
        """As f64."""
        return self if self.wide else Real(arith.extf(ir.F64Type.get(), self.value))

    def narrowed(self, kind: ir.Type) -> "Real":
        """As a value of this type."""
        return self if self.value.type == kind else Real(arith.truncf(kind, self.value))

    @property
    def integer(self) -> ir.Type:
        """The type of its bits."""
        return ir.IntegerType.get_signless(64 if self.wide else 32)

    def bits(self) -> ir.Value:
        """Its bits as an integer."""
        return arith.bitcast(self.integer, self.value)

    def of_bits(self, bits: ir.Value) -> "Real":
        """The value of this type with these bits."""
        return Real(arith.bitcast(self.value.type, bits))

    def of_integer(self, number: ir.Value) -> "Real":
        """A signed integer as a value of this type."""
        return Real(arith.sitofp(self.value.type, number))

"""The aligned, truncating sums of tensor cores in code of this host. The same bits as `arithmetic`'s.

A function is compiled for each depth and rule. It holds eight columns of D in vectors of float64, in which
products, aligned terms and their sums are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.native import addresses, function_at
from weft.emulator.numerics.floats import Doubles
from weft.isa.accumulation import Accumulation

COLUMNS = 8
"""The columns of D that one vector holds."""
_NAN = 0x7FFFFFFF
_INTEGER = 1.5 * 2.0**52
"""Added to a small integer, it leaves the integer in the low bits of the float64."""
_ZERO_TERM = -2000.0
_MOST_EXPONENT = 256


@dataclass(frozen=True)
class Rule:
    """`depth` products enter a sum, in steps of `step` that are rounded one by one; with `group`, that many
    products enter as one exact term. `half`: D is f16, otherwise it is f32 and keeps `kept` fraction bits.
    """

    depth: int
    step: int
    group: int
    fraction: int
    kept: int
    half: bool

    @classmethod
    def of(cls, how: Accumulation, depth: int, step: int, d_type: str) -> "Rule":
        return cls(depth, step, how.group, how.fraction, how.kept, d_type == "f16")


def sums(
    left: tuple[Doubles, Doubles], right: tuple[Doubles, Doubles], c: npt.NDArray[Any], rule: Rule
) -> npt.NDArray[Any]:
    """`left @ right + c` by a rule. Left is `[n, m, k]`, right `[n, k, columns]`, each with its exponents as
    float64; c and the result are `[n, m, columns]`, float32, or float64 if D is f16. The columns must be a
    multiple of `COLUMNS`.
    """
    arrays = [np.ascontiguousarray(x) for x in (*left, *right, c)]
    out = np.empty_like(arrays[-1])
    n, m, columns = out.shape
    _function(rule)(*(x.ctypes.data for x in (*arrays, out)), n, m, columns)
    return out


@cache
def _function(rule: Rule) -> Callable[..., None]:
    return function_at(address(rule), pointers=6, numbers=3)


@cache
def address(rule: Rule) -> int:
    """The address of the function that adds by a rule: of the values and exponents of A and of B, C, D, and
    the three sizes of D.
    """
    return addresses(_Sums(rule).text(), ["sums"], code=2)["sums"]


class _Sums:
    """Writes the LLVM IR of a rule's function: a loop over matrices, blocks of columns, and rows."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.lines: list[str] = []
        self._names = 0

    def text(self) -> str:
        total = "float" if not self.rule.half else "double"
        size = 8 if self.rule.half else 4
        k = self.rule.depth
        self.lines = _HEAD.format(k=k, columns=COLUMNS, size=size, total=total).splitlines()
        self._row()
        self.lines += _TAIL.format(columns=COLUMNS).splitlines()
        return "\n".join(self.lines)

    def _do(self, text: str) -> str:
        """Adds an instruction, and returns the name of its result."""
        self._names += 1
        self.lines.append(f"  %v{self._names} = {text}")
        return f"%v{self._names}"

    def _row(self) -> None:
        """The sums of eight elements of a row of D."""
        rule = self.rule
        total = "%c"
        if not rule.half:
            total = self._do("fpext <8 x float> %c to <8 x double>")
        for begin in range(0, rule.depth, rule.step):
            total = self._sum(total, range(begin, min(begin + rule.step, rule.depth)))
        if rule.half:
            self.lines.append(f"  store <8 x double> {total}, ptr %out.at, align 8")
            return
        narrow = self._do(f"fptrunc <8 x double> {total} to <8 x float>")
        bad = self._do(f"fcmp uno <8 x double> {total}, {total}")
        bits = self._do(f"bitcast <8 x float> {narrow} to <8 x i32>")
        chosen = self._do(f"select <8 x i1> {bad}, <8 x i32> {_splat('i32', _NAN)}, <8 x i32> {bits}")
        self.lines.append(f"  store <8 x i32> {chosen}, ptr %out.at, align 4")

    def _sum(self, total: str, part: range) -> str:
        """One sum: C and the terms of a part of the depth, aligned, truncated, added and rounded."""
        largest = self._least(total)
        terms = [self._group(group) for group in self._groups(part)]
        for term in terms:
            largest = self._maximum(largest, self._power(term))
        for k in () if terms else part:
            exponent = self._do(f"fadd <8 x double> {self._a('%ea', k)}, {self._b('%eb', k)}")
            largest = self._maximum(largest, exponent)
        integer = self._do(f"fadd <8 x double> {largest}, {_doubles(_INTEGER)}")
        bits = self._do(f"bitcast <8 x double> {integer} to <8 x i64>")
        power = self._do(f"shl <8 x i64> {bits}, {_splat('i64', 52)}")
        up = self._scale("sub", 1023 + self.rule.fraction, power)
        down = self._scale("add", 1023 - self.rule.fraction, power)
        value = self._truncated(total, up)
        for term in terms or map(self._product, part):
            value = self._do(f"fadd <8 x double> {value}, {self._truncated(term, up)}")
        value = self._do(f"fadd <8 x double> {value}, zeroinitializer")
        return self._rounded(self._do(f"fmul <8 x double> {value}, {down}"))

    def _scale(self, operation: str, bias: int, power: str) -> str:
        bits = self._do(f"{operation} <8 x i64> {_splat('i64', bias << 52)}, {power}")
        return self._do(f"bitcast <8 x i64> {bits} to <8 x double>")

    def _product(self, k: int) -> str:
        return self._do(f"fmul <8 x double> {self._a('%a', k)}, {self._b('%b', k)}")

    def _groups(self, part: range) -> list[range]:
        size = self.rule.group
        return [range(begin, begin + size) for begin in range(part.start, part.stop, size)] if size else []

    def _group(self, part: range) -> str:
        term = self._product(part[0])
        for k in part[1:]:
            term = self._do(f"fadd <8 x double> {term}, {self._product(k)}")
        return term

    def _a(self, pointer: str, k: int) -> str:
        """An element of the row, in every lane."""
        at = self._do(f"getelementptr double, ptr {pointer}.row, i64 {k}")
        one = self._do(f"load double, ptr {at}, align 8")
        first = self._do(f"insertelement <8 x double> poison, double {one}, i32 0")
        return self._do(f"shufflevector <8 x double> {first}, <8 x double> poison, <8 x i32> zeroinitializer")

    def _b(self, pointer: str, k: int) -> str:
        """Eight elements of row k of the right matrix."""
        offset = self._do(f"mul i64 %columns, {k}")
        at = self._do(f"getelementptr double, ptr {pointer}.block, i64 {offset}")
        return self._do(f"load <8 x double>, ptr {at}, align 8")

    def _maximum(self, a: str, b: str) -> str:
        more = self._do(f"fcmp ogt <8 x double> {a}, {b}")
        return self._do(f"select <8 x i1> {more}, <8 x double> {a}, <8 x double> {b}")

    def _minimum(self, a: str, b: str) -> str:
        less = self._do(f"fcmp olt <8 x double> {a}, {b}")
        return self._do(f"select <8 x i1> {less}, <8 x double> {a}, <8 x double> {b}")

    def _exponent(self, value: str) -> str:
        """The exponent in the bits of a float64, as a float64."""
        bits = self._do(f"bitcast <8 x double> {value} to <8 x i64>")
        down = self._do(f"lshr <8 x i64> {bits}, {_splat('i64', 52)}")
        field = self._do(f"and <8 x i64> {down}, {_splat('i64', 0x7FF)}")
        # The field in the low bits of 2**52, from which 2**52 and the bias are subtracted.
        raised = self._do(f"or <8 x i64> {field}, {_splat('i64', (1023 + 52) << 52)}")
        real = self._do(f"bitcast <8 x i64> {raised} to <8 x double>")
        return self._do(f"fsub <8 x double> {real}, {_doubles(2.0**52 + 1023)}")

    def _power(self, term: str) -> str:
        """A term's exponent; very low for zero."""
        exponent = self._minimum(self._exponent(term), _doubles(float(_MOST_EXPONENT)))
        zero = self._do(f"fcmp oeq <8 x double> {term}, zeroinitializer")
        low = _doubles(_ZERO_TERM)
        return self._do(f"select <8 x i1> {zero}, <8 x double> {low}, <8 x double> {exponent}")

    def _least(self, total: str) -> str:
        """C's exponent, at least -126; f16's subnormal numbers have that of the least normal one."""
        least = -14.0 if self.rule.half else -126.0
        inside = self._maximum(self._exponent(total), _doubles(least))
        inside = self._minimum(inside, _doubles(128.0))
        if not self.rule.half:
            return inside
        zero = self._do(f"fcmp oeq <8 x double> {total}, zeroinitializer")
        low = _doubles(-126.0)
        return self._do(f"select <8 x i1> {zero}, <8 x double> {low}, <8 x double> {inside}")

    def _truncated(self, term: str, up: str) -> str:
        scaled = self._do(f"fmul <8 x double> {term}, {up}")
        return self._do(f"call <8 x double> @llvm.trunc.v8f64(<8 x double> {scaled})")

    def _rounded(self, total: str) -> str:
        """The sum in D's format: f32 toward zero, f16 to nearest even; overflow gives infinity."""
        size = self._do(f"call <8 x double> @llvm.fabs.v8f64(<8 x double> {total})")
        if self.rule.half:
            return self._to_half(total, size)
        kept = self.rule.kept
        bits = self._do(f"bitcast <8 x double> {total} to <8 x i64>")
        cut = self._do(f"and <8 x i64> {bits}, {_splat('i64', -(1 << (52 - kept)))}")
        value = self._do(f"bitcast <8 x i64> {cut} to <8 x double>")
        scaled = self._do(f"fmul <8 x double> {total}, {_doubles(2.0 ** (126 + kept))}")
        whole = self._do(f"call <8 x double> @llvm.trunc.v8f64(<8 x double> {scaled})")
        tiny = self._do(f"fmul <8 x double> {whole}, {_doubles(2.0 ** -(126 + kept))}")
        small = self._do(f"fcmp olt <8 x double> {size}, {_doubles(2.0**-126)}")
        value = self._do(f"select <8 x i1> {small}, <8 x double> {tiny}, <8 x double> {value}")
        return self._overflow(total, size, value, 2.0**128)

    def _to_half(self, total: str, size: str) -> str:
        bits = self._do(f"bitcast <8 x double> {size} to <8 x i64>")
        power = self._do(f"and <8 x i64> {bits}, {_splat('i64', 0x7FF << 52)}")
        least = _splat("i64", (1023 - 14) << 52)
        below = self._do(f"icmp ult <8 x i64> {power}, {least}")
        power = self._do(f"select <8 x i1> {below}, <8 x i64> {least}, <8 x i64> {power}")
        # Adding 1.5 * 2**42 times the power rounds to ten bits below it.
        shifted = self._do(f"add <8 x i64> {power}, {_splat('i64', (42 << 52) | (1 << 51))}")
        big = self._do(f"bitcast <8 x i64> {shifted} to <8 x double>")
        up = self._do(f"fadd <8 x double> {total}, {big}")
        value = self._do(f"fsub <8 x double> {up}, {big}")
        value = self._do(f"fadd <8 x double> {value}, zeroinitializer")
        return self._overflow(total, size, value, 65520.0)

    def _overflow(self, total: str, size: str, value: str, bound: float) -> str:
        """`value`, or from `bound` on an infinity with the sign of `total`, or NaN."""
        sign = "call <8 x double> @llvm.copysign.v8f64"
        infinity = self._do(f"{sign}(<8 x double> {_doubles(float('inf'))}, <8 x double> {total})")
        over = self._do(f"fcmp oge <8 x double> {size}, {_doubles(bound)}")
        value = self._do(f"select <8 x i1> {over}, <8 x double> {infinity}, <8 x double> {value}")
        bad = self._do(f"fcmp uno <8 x double> {total}, {total}")
        return self._do(f"select <8 x i1> {bad}, <8 x double> {total}, <8 x double> {value}")


def _splat(kind: str, value: int) -> str:
    bits = 64 if kind == "i64" else 32
    value &= (1 << bits) - 1
    return "<" + ", ".join([f"{kind} {value}"] * COLUMNS) + ">"


def _doubles(value: float) -> str:
    word = int(np.float64(value).view(np.uint64))
    return "<" + ", ".join([f"double 0x{word:016X}"] * COLUMNS) + ">"


_HEAD = """
declare <8 x double> @llvm.trunc.v8f64(<8 x double>)
declare <8 x double> @llvm.fabs.v8f64(<8 x double>)
declare <8 x double> @llvm.copysign.v8f64(<8 x double>, <8 x double>)
define void @sums(ptr %a, ptr %ea, ptr %b, ptr %eb, ptr %c.all, ptr %out, i64 %n, i64 %m, i64 %columns)
    "min-legal-vector-width"="512" {{
entry:
  %right.size = mul i64 %columns, {k}
  br label %matrix
matrix:
  %i = phi i64 [0, %entry], [%i.next, %matrix.end]
  %right.begin = mul i64 %i, %right.size
  %row.begin = mul i64 %i, %m
  br label %block
block:
  %j = phi i64 [0, %matrix], [%j.next, %block.end]
  %right.at = add i64 %right.begin, %j
  %b.block = getelementptr double, ptr %b, i64 %right.at
  %eb.block = getelementptr double, ptr %eb, i64 %right.at
  br label %row
row:
  %r = phi i64 [0, %block], [%r.next, %row]
  %row.number = add i64 %row.begin, %r
  %left.at = mul i64 %row.number, {k}
  %a.row = getelementptr double, ptr %a, i64 %left.at
  %ea.row = getelementptr double, ptr %ea, i64 %left.at
  %d.row = mul i64 %row.number, %columns
  %d.at = add i64 %d.row, %j
  %c.at = getelementptr {total}, ptr %c.all, i64 %d.at
  %out.at = getelementptr {total}, ptr %out, i64 %d.at
  %c = load <8 x {total}>, ptr %c.at, align {size}
"""
_TAIL = """
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %m
  br i1 %r.more, label %row, label %block.end
block.end:
  %j.next = add i64 %j, {columns}
  %j.more = icmp ult i64 %j.next, %columns
  br i1 %j.more, label %block, label %matrix.end
matrix.end:
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %n
  br i1 %i.more, label %matrix, label %end
end:
  ret void
}}
"""

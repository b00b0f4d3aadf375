"""Matrix products as tensor cores compute them: by code of this host where there is some, made from
`arithmetic.rounded_sum`, otherwise by `arithmetic`, which defines the bits.

A function is compiled for each depth and rule. It holds eight columns of D in vectors of float64, in which
products, aligned terms and their sums are exact.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from weft.emulator.native import addresses, function_at
from weft.emulator.numerics import arithmetic
from weft.emulator.numerics.arithmetic import Operand, Rule, Terms
from weft.emulator.numerics.emit import LANES, Emitter, element, vector
from weft.emulator.numerics.floats import NAN_BITS, Doubles
from weft.emulator.numerics.shuffles import shuffle
from weft.emulator.numerics.symbols import Stack, Symbol
from weft.emulator.reading.syntax import Array


def sums(left: Operand, right: Operand, c: Doubles, rule: Rule) -> Array:
    """`left @ right + c` by a rule. Left is `[n, m, k]`, right `[n, k, columns]`; c and the result are
    `[n, m, columns]`, float32 unless D is f16. The columns must be a multiple of eight.
    """
    total: Array = c if rule.half else c.astype(np.float32)
    arrays = [np.ascontiguousarray(x) for x in (*left, *right, total)]
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
    return addresses(_text(rule), ["sums"], code=2)["sums"]


def _text(rule: Rule) -> str:
    """The LLVM IR of `sums`: loops over matrices, blocks of eight columns, and rows."""
    total: Any = Symbol(np.float64 if rule.half else np.float32, ("input", "c")).astype(np.float64)
    for begin in range(0, rule.depth, rule.step):
        every = range(begin, min(begin + rule.step, rule.depth))
        # The elements of a row of A, and eight of each row of B: values and exponents.
        types = {"a": np.float64, "b": np.float64, "ea": np.int16, "eb": np.int16}
        a, b, ea, eb = (Stack([Symbol(types[x], ("input", x, k)) for k in every]) for x in types)
        terms = arithmetic.joined(a * b, ea + eb, rule.group)
        total = arithmetic.rounded_sum(*terms, total, rule)
    if not rule.half:
        bits = total.astype(np.float32).view(np.uint32)
        total = np.where(np.isnan(total), np.uint32(NAN_BITS["f32"]), bits)
    row = _Row()
    kind, value = ("double" if rule.half else "float"), row.value(total)
    head = _HEAD.format(k=rule.depth, total=kind)
    stored = f"  store <8 x {'double' if rule.half else 'i32'}> {value}, ptr %out.at, align 4"
    return "\n".join([*sorted(row.declared), head, *row.lines, stored, _TAIL])


class _Row(Emitter):
    """The sums of eight elements of a row of D. All NaN are the same, so the host's own do."""

    def __init__(self) -> None:
        super().__init__(self._load, lambda: "")

    def _load(self, symbol: Symbol) -> str:
        _, name, *at = symbol.node
        kind, eight, size = element(symbol.dtype), vector(symbol.dtype), symbol.dtype.itemsize
        if name == "c":
            return "%c"
        if name in ("b", "eb"):
            offset = self.do(f"mul i64 %columns, {at[0]}")
            address = self.do(f"getelementptr {kind}, ptr %{name}.block, i64 {offset}")
            return self.do(f"load {eight}, ptr {address}, align {size}")
        address = self.do(f"getelementptr {kind}, ptr %{name}.row, i64 {at[0]}")
        one = self.do(f"load {kind}, ptr {address}, align {size}")
        first = self.do(f"insertelement {eight} poison, {kind} {one}, i32 0")
        return self.do(shuffle(eight, first, "poison", [0] * LANES))

    def _arithmetic(self, name: str, values: list[str], dtype: "np.dtype[np.generic]", n: int) -> str:
        code = {"add": "fadd", "subtract": "fsub", "multiply": "fmul"}[name]
        return self.do(f"{code} <{n} x double> {values[0]}, {values[1]}")


_HEAD = """define void @sums(
    ptr %a, ptr %ea, ptr %b, ptr %eb, ptr %c.all, ptr %out, i64 %n, i64 %m, i64 %columns)
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
  %eb.block = getelementptr i16, ptr %eb, i64 %right.at
  br label %row
row:
  %r = phi i64 [0, %block], [%r.next, %row]
  %row.number = add i64 %row.begin, %r
  %left.at = mul i64 %row.number, {k}
  %a.row = getelementptr double, ptr %a, i64 %left.at
  %ea.row = getelementptr i16, ptr %ea, i64 %left.at
  %d.row = mul i64 %row.number, %columns
  %d.at = add i64 %d.row, %j
  %c.at = getelementptr {total}, ptr %c.all, i64 %d.at
  %out.at = getelementptr {total}, ptr %out, i64 %d.at
  %c = load <8 x {total}>, ptr %c.at, align 4
"""
_TAIL = """  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %m
  br i1 %r.more, label %row, label %block.end
block.end:
  %j.next = add i64 %j, 8
  %j.more = icmp ult i64 %j.next, %columns
  br i1 %j.more, label %block, label %matrix.end
matrix.end:
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %n
  br i1 %i.more, label %matrix, label %end
end:
  ret void
}
"""


_WORTH = 1 << 21
"""The multiply-adds by a rule after which it is compiled: NumPy takes as long for them as the compiler."""
_done: defaultdict[Rule, int] = defaultdict(int)
INTEGERS = Rule(0, 0, 0, 0, 0, half=False)
"""Stands for the sums of integers, which have no rule."""
COLUMNS = 8
"""The columns of D that one vector of compiled sums holds."""


def _add(terms: Terms, total: Doubles, rule: Rule) -> Doubles:
    """`arithmetic.aligned_sum`, by code of this host if it is worth it."""
    plain = terms.absent is None and total.shape[2] % COLUMNS == 0
    if not plain or not is_worth(rule, total.size * rule.depth):
        return arithmetic.aligned_sum(terms, total, rule)

    return sums(terms.left, terms.right, total, rule)


def is_worth(rule: Rule, work: int) -> bool:
    """Whether to compile the sums of a rule, of which so many multiply-adds are wanted now."""
    _done[rule] += work
    return _done[rule] > _WORTH


multiply_accumulate = partial(arithmetic.multiply_accumulate, add=_add)
"""`d = a @ b + c`."""

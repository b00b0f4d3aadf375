"""Writes expressions as LLVM IR, for eight lanes at a time."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from weft.emulator.numerics.shuffles import loads_words, shuffle, words
from weft.emulator.numerics.symbols import Symbol, UntraceableError, number_of

LANES = 8
"""The lanes of a vector."""
_INT_COMPARE = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le"}
_INT_COMPARE |= {"greater": "gt", "greater_equal": "ge"}
_FLOAT_COMPARE = {"equal": "oeq", "not_equal": "une", "less": "olt", "less_equal": "ole"}
_FLOAT_COMPARE |= {"greater": "ogt", "greater_equal": "oge"}
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_BITWISE |= {"logical_and": "and", "logical_or": "or", "logical_xor": "xor", "not_equal": "xor"}
_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul"}
_INTRINSICS = ("sqrt", "rint", "trunc", "floor", "ceil")
_QUIET = 1 << 51
_NEW_NAN = -1 << 51
"""Of an invalid operation, as x86 computes it."""


@cache
def element(dtype: "np.dtype[Any]") -> str:
    """The LLVM type of an element."""
    if dtype.kind == "b":
        return "i1"
    if dtype.kind == "f":
        return {2: "half", 4: "float", 8: "double"}[dtype.itemsize]
    return f"i{8 * dtype.itemsize}"


@cache
def vector(dtype: "np.dtype[Any]", count: int = 1) -> str:
    """The LLVM type of `count` elements of eight lanes."""
    return f"<{LANES * count} x {element(dtype)}>"


@cache
def has_fma() -> bool:
    """Whether this host has fused multiply-add instructions."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    return bool(llvm.get_host_cpu_features().get("fma", False))


class Emitter:
    """Adds instructions to `lines`. `declared` are the intrinsics that they call. `inputs` returns the value
    of a register or of what was loaded, `loaded` the address of 16 bytes that were loaded for each lane.
    """

    def __init__(self, inputs: Callable[[Symbol], str], loaded: Callable[[], str]) -> None:
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.offsets: dict[str, int] = {}
        """The N of `%offset.N` in the code, by what they stand for: a register ("5") or constant ("=16")."""
        self._inputs, self._loaded = inputs, loaded
        self._names = 0
        self._parts = False
        self._words_at: int | None = None
        self._done: dict[str, str] = {}
        self._known: dict[tuple[int, int], str] = {}
        self._kept: list[Symbol] = []

    def forget(self) -> None:
        """Registers have changed: symbols stand for other values from now on."""
        self._known, self._kept = {}, []

    def undo(self, lines: int) -> None:
        """Removes the lines after so many."""
        del self.lines[lines:]
        self._done = {}
        if self._words_at is not None and self._words_at >= lines:
            self._words_at = None

    def offset(self, of: str) -> str:
        """The name of a number that isn't part of the code."""
        return f"%offset.{self.offsets.setdefault(of, len(self.offsets))}"

    @contextmanager
    def numbers_apart(self) -> Iterator[None]:
        """Constants become offsets, so that code that differs only in them is the same."""
        self._parts = True
        try:
            yield
        finally:
            self._parts = False

    def do(self, text: str) -> str:
        """Adds an instruction, unless it is there; returns its result's name. Operands must not change."""
        name = self._done.get(text)
        if name is None:
            self._names += 1
            name = self._done[text] = f"%v{self._names}"
            self.lines.append(f"  {name} = {text}")
        return name

    def value(self, symbol: Symbol, count: int | None = None) -> str:
        """The name of a symbol's value, or a constant with `count` elements for each lane."""
        count = symbol.count if count is None else count
        key = id(symbol), count
        if key not in self._known:
            self._known[key] = self._compute(symbol, count)
            self._kept.append(symbol)
        return self._known[key]

    def _compute(self, symbol: Symbol, count: int) -> str:
        kind, *operands = symbol.node
        if kind in ("input", "load") and symbol.count == count:
            return self._inputs(symbol)
        number = number_of(symbol)
        if number is not None:
            if self._parts and number.dtype.kind in "iu":
                return self._apart(number, count)
            return splat(number, LANES * count)
        if symbol.count != count:
            raise UntraceableError("broadcasts")
        if kind in ("left_shift", "right_shift") and (by := number_of(operands[1])) is not None:
            return self._shift(kind, operands[0], int(by), count)
        if kind == "same":
            return self.value(operands[0])
        if kind == "bits":
            value, have = self.value(operands[0]), vector(operands[0].dtype, operands[0].count)
            want = vector(symbol.dtype, symbol.count)
            return value if have == want else self.do(f"bitcast {have} {value} to {want}")
        if kind == "cast":
            return self._cast(operands[0], symbol.dtype, count)
        if kind == "pick":
            return self._pick(operands[0], operands[1])
        if kind == "stack":
            return self._stack(operands)
        if kind == "where":
            condition, x, y = (self.value(v, count) for v in operands)
            to = vector(symbol.dtype, count)
            return self.select(condition, x, y, to, LANES * count)
        if kind == "fma":
            return self._fused(operands, symbol.dtype, count)
        return self._call(kind, operands, count)

    def _apart(self, number: Any, count: int) -> str:
        """A constant that isn't part of the code."""
        of, kind = element(number.dtype), vector(number.dtype, count)
        single = self.offset(f"={int(np.asarray(number).astype(np.int64))}")
        if of != "i64":
            single = self.do(f"trunc i64 {single} to {of}")
        first = self.do(f"insertelement {kind} poison, {of} {single}, i64 0")
        return self._shuffle(kind, first, "poison", [0] * LANES * count)

    def select(self, condition: str, x: str, y: str, kind: str, count: int = LANES) -> str:
        return self.do(f"select <{count} x i1> {condition}, {kind} {x}, {kind} {y}")

    # Conversions

    def _cast(self, source: Symbol, to: "np.dtype[Any]", count: int) -> str:
        have = source.dtype
        if have.kind == to.kind == "f":
            return self._float_cast(source, to, count)
        value, out, into = self.value(source, count), vector(have, count), vector(to, count)
        if to.kind == "b":
            zero = splat(have.type(0), LANES * count)
            compare = f"fcmp une {out}" if have.kind == "f" else f"icmp ne {out}"
            return self.do(f"{compare} {value}, {zero}")
        if "half" in (element(have), element(to)):
            raise UntraceableError("converts f16 and integers")
        if to.kind == "f":
            return self.do(f"{'si' if have.kind == 'i' else 'ui'}tofp {out} {value} to {into}")
        if have.kind == "f":
            return self.do(f"fpto{'si' if to.kind == 'i' else 'ui'} {out} {value} to {into}")
        if have.kind != "b" and have.itemsize == to.itemsize:
            return value
        if have.kind != "b" and have.itemsize > to.itemsize:
            return self.do(f"trunc {out} {value} to {into}")
        return self.do(f"{'s' if have.kind == 'i' else 'z'}ext {out} {value} to {into}")

    def _float_cast(self, source: Symbol, to: "np.dtype[Any]", count: int) -> str:
        origin = source
        while origin.node[0] == "cast" and origin.node[1].dtype.kind == "f":
            if origin.node[1].dtype.itemsize > origin.dtype.itemsize:
                break
            origin = origin.node[1]  # a wider type holds it exactly
        have, value = origin.dtype, self.value(origin, count)
        if have == to:
            return value
        if have.itemsize < to.itemsize:
            wide = self.do(f"fpext {vector(have, count)} {value} to {vector(to, count)}")
            return self._loud(value, wide, LANES * count) if have.itemsize == 2 and to.itemsize == 8 else wide
        if element(have) == "double" and element(to) == "half":
            odd = self._rounded_to_odd(value, LANES * count)
            return self.do(f"fptrunc {vector(np.dtype(np.float32), count)} {odd} to {vector(to, count)}")
        return self.do(f"fptrunc {vector(have, count)} {value} to {vector(to, count)}")

    def _loud(self, half: str, wide: str, n: int) -> str:
        """Halves as doubles, with their own NaN: NumPy's conversion doesn't make signaling ones quiet."""
        whole = f"<{n} x i64>"
        small = self.do(f"bitcast <{n} x half> {half} to <{n} x i16>")
        bits = self.do(f"zext <{n} x i16> {small} to {whole}")

        def part(mask: int, by: int) -> str:
            kept = self.do(f"and {whole} {bits}, {splat(np.int64(mask), n)}")
            return self.do(f"shl {whole} {kept}, {splat(np.int64(by), n)}")

        payload = self.do(f"or {whole} {part(0x8000, 48)}, {part(0x3FF, 42)}")
        nan = self.do(f"or {whole} {payload}, {splat(np.int64(0x7FF << 52), n)}")
        unordered = self.do(f"fcmp uno <{n} x double> {wide}, {wide}")
        loud = self.do(f"bitcast {whole} {nan} to <{n} x double>")
        return self.select(unordered, loud, wide, f"<{n} x double>", n)

    def _rounded_to_odd(self, value: str, n: int) -> str:
        """Doubles as floats rounded to odd, which rounded again are as if rounded once."""
        wide, kind, whole = f"<{n} x double>", f"<{n} x float>", f"<{n} x i32>"
        near = self.do(f"fptrunc {wide} {value} to {kind}")
        back = self.do(f"fpext {kind} {near} to {wide}")
        bits = self.do(f"bitcast {kind} {near} to {whole}")
        sizes = [self.intrinsic("fabs", wide, each) for each in (back, value)]
        more = self.do(f"fcmp ogt {wide} {sizes[0]}, {sizes[1]}")
        step = self.select(more, splat(np.int32(-1), n), splat(np.int32(1), n), whole, n)
        even = self.do(
            f"icmp eq {whole} {self.do(f'and {whole} {bits}, {splat(np.int32(1), n)}')}, zeroinitializer"
        )
        lost = self.do(f"and <{n} x i1> {even}, {self.do(f'fcmp one {wide} {back}, {value}')}")
        odd = self.select(lost, self.do(f"add {whole} {bits}, {step}"), bits, whole, n)
        return self.do(f"bitcast {whole} {odd} to {kind}")

    # Moves of elements

    def _pick(self, source: Symbol, which: tuple[int, ...]) -> str:
        if len(which) == 1 and loads_words(source):
            if self._words_at is None:
                self._words_at = len(self.lines)
                self.lines += [f"  %words = getelementptr i8, ptr {self._loaded()}, i64 0", *words()]
            return f"%word{which[0]}"
        if source.count == len(which) == 1:
            return self.value(source)
        value = self.value(source)
        indices = [lane * source.count + at for lane in range(LANES) for at in which]
        return self._shuffle(vector(source.dtype, source.count), value, "poison", indices)

    def _shuffle(self, kind: str, a: str, b: str, indices: Iterable[int]) -> str:
        return self.do(shuffle(kind, a, b, indices))

    def _stack(self, parts: list[Symbol]) -> str:
        dtype, values, count = parts[0].dtype, [self.value(p, 1) for p in parts], 1
        while len(values) > 1:
            joined = []
            for a, b in zip(values[::2], values[1::2], strict=True):
                joined.append(self._shuffle(vector(dtype, count), a, b, list(range(2 * LANES * count))))
            values, count = joined, 2 * count
        indices = [part * LANES + lane for lane in range(LANES) for part in range(len(parts))]
        return self._shuffle(vector(dtype, count), values[0], "poison", indices)

    # Functions

    def intrinsic(self, name: str, kind: str, *values: str) -> str:
        """A call of `llvm.NAME` for a vector type."""
        count, of = kind[1:-1].split(" x ")
        suffix = f"v{count}" + {"half": "f16", "float": "f32", "double": "f64"}.get(of, of)
        called = f"@llvm.{name}.{suffix}"
        self.declared.add(f"declare {kind} {called}({', '.join([kind] * len(values))})")
        return self.do(f"call {kind} {called}({', '.join(f'{kind} {v}' for v in values)})")

    def _fused(self, operands: list[Symbol], dtype: "np.dtype[Any]", count: int) -> str:
        if not has_fma() or any(o.dtype != dtype for o in operands):
            raise UntraceableError("needs a fused multiply-add of the host")
        values, kind = [self.value(o, count) for o in operands], vector(dtype, count)
        fused = self.intrinsic("fma", kind, *values)
        return fused if element(dtype) == "float" else self._fused_f64(fused, values, LANES * count)

    def _fused_f64(self, fused: str, values: list[str], n: int) -> str:
        """The sum of a product, where that isn't `fused`: if an operand isn't finite, see `fma_f64`."""
        kind, dtype = f"<{n} x double>", np.dtype(np.float64)
        finite = [
            self.do(f"fcmp olt {kind} {self.intrinsic('fabs', kind, v)}, {splat(np.float64(np.inf), n)}")
            for v in values
        ]
        factors = self.do(f"and <{n} x i1> {finite[0]}, {finite[1]}")
        every = self.do(f"and <{n} x i1> {factors}, {finite[2]}")
        nonzero = [self.do(f"fcmp one {kind} {v}, zeroinitializer") for v in values[:2]]
        third = self.do(f"and <{n} x i1> {factors}, {self.do(f'and <{n} x i1> {nonzero[0]}, {nonzero[1]}')}")
        product = self._arithmetic("multiply", values[:2], dtype, n)
        plain = self._arithmetic("add", [product, values[2]], dtype, n)
        return self.select(every, fused, self.select(third, values[2], plain, kind, n), kind, n)

    def _call(self, name: str, operands: list[Symbol], count: int) -> str:
        dtype = operands[0].dtype
        if dtype.kind == "f":
            return self._float_call(name, operands, count)
        kind, n = vector(dtype, count), LANES * count
        values = [self.value(o, count) for o in operands]
        if name in _ARITHMETIC and dtype.kind != "b":
            return self.do(f"{_ARITHMETIC[name]} {kind} {values[0]}, {values[1]}")
        if name in _BITWISE and (dtype.kind == "b" or name.startswith("bitwise")):
            return self.do(f"{_BITWISE[name]} {kind} {values[0]}, {values[1]}")
        sign = "s" if dtype.kind == "i" else "u"
        if name in _INT_COMPARE:
            order = _INT_COMPARE[name]
            if order not in ("eq", "ne") and sign == "u" and dtype.itemsize == 8:
                # LLVM 22.1 takes `x < y ? y - x : x - y` for that of signed numbers if y is known to be ~0.
                top = splat(np.int64(-1 << 63), n)
                values, sign = [self.do(f"xor {kind} {value}, {top}") for value in values], "s"
            return self.do(
                f"icmp {order if order in ('eq', 'ne') else sign + order} {kind} {values[0]}, {values[1]}"
            )
        if name in ("minimum", "maximum"):
            return self.intrinsic(f"{sign}{name[:3]}", kind, *values)
        return self._other_call(name, values, dtype, kind, n)

    def _other_call(self, name: str, values: list[str], dtype: "np.dtype[Any]", kind: str, n: int) -> str:
        def number(x: int) -> str:
            return splat(dtype.type(x), n)

        bits, x = 8 * dtype.itemsize, values[0]
        if name in ("left_shift", "right_shift"):
            inside = self.do(f"icmp ult {kind} {values[1]}, {number(bits)}")
            last = number(bits - 1 if name == "right_shift" and dtype.kind == "i" else 0)
            by = self.select(inside, values[1], last, kind, n)
            if name == "right_shift" and dtype.kind == "i":
                return self.do(f"ashr {kind} {x}, {by}")
            moved = self.do(f"{'shl' if name == 'left_shift' else 'lshr'} {kind} {x}, {by}")
            return self.select(inside, moved, number(0), kind, n)
        if name == "invert" or (name == "logical_not" and dtype.kind == "b"):
            return self.do(f"xor {kind} {x}, {splat(~dtype.type(0), n)}")
        if name == "negative":
            return self.do(f"sub {kind} {number(0)}, {x}")
        if name == "positive":
            return x
        if name == "absolute" and dtype.kind == "i":
            less = self.do(f"icmp slt {kind} {x}, {number(0)}")
            return self.select(less, self.do(f"sub {kind} {number(0)}, {x}"), x, kind, n)
        if name == "bitwise_count" and dtype.kind == "u":
            ones = self.intrinsic("ctpop", kind, x)
            return ones if bits == 8 else self.do(f"trunc {kind} {ones} to <{n} x i8>")
        if name == "floor_divide" and dtype.kind == "u":
            return self.do(f"udiv {kind} {x}, {values[1]}")  # steps never divide by zero
        raise UntraceableError(f"calls {name}")

    def _shift(self, name: str, source: Symbol, by: int, count: int) -> str:
        dtype, bits = source.dtype, 8 * source.dtype.itemsize
        arithmetic = name == "right_shift" and dtype.kind == "i"
        value, n = self.value(source, count), LANES * count
        if not 0 <= by < bits:
            if not arithmetic:
                return splat(dtype.type(0), n)
            by = bits - 1
        code = "ashr" if arithmetic else "shl" if name == "left_shift" else "lshr"
        if by == 0:
            return value
        return self.do(f"{code} {vector(dtype, count)} {value}, {splat(dtype.type(by), n)}")

    def _float_call(self, name: str, operands: list[Symbol], count: int) -> str:
        dtype, n = operands[0].dtype, LANES * count
        kind, values = vector(dtype, count), [self.value(o, count) for o in operands]
        if name in ("add", "subtract", "multiply", "divide"):
            return self._arithmetic(name, values, dtype, n)
        if name in _FLOAT_COMPARE:
            return self.do(f"fcmp {_FLOAT_COMPARE[name]} {kind} {values[0]}, {values[1]}")
        if name in ("minimum", "maximum", "fmin", "fmax"):
            order = "ole" if name in ("minimum", "fmin") else "oge"
            first = self.do(f"fcmp {order} {kind} {values[0]}, {values[1]}")
            either = values[name.startswith("f")]
            unordered = self.do(f"fcmp uno {kind} {either}, {either}")
            either = self.do(f"or <{n} x i1> {first}, {unordered}")
            return self.select(either, values[0], values[1], kind, n)
        x = values[0]
        if name in _INTRINSICS and element(dtype) != "half":
            return self.intrinsic(name, kind, x)
        if name == "absolute":
            return self.intrinsic("fabs", kind, x)
        if name == "negative":
            return self.do(f"fneg {kind} {x}")
        if name == "copysign":
            return self.intrinsic("copysign", kind, *values)
        if name == "isnan":
            return self.do(f"fcmp uno {kind} {x}, {x}")
        if name in ("isinf", "isfinite"):
            order = "oeq" if name == "isinf" else "olt"
            infinity = splat(dtype.type(np.inf), n)
            return self.do(f"fcmp {order} {kind} {self.intrinsic('fabs', kind, x)}, {infinity}")
        if name == "signbit":
            whole = f"<{n} x i{8 * dtype.itemsize}>"
            return self.do(f"icmp slt {whole} {self.do(f'bitcast {kind} {x} to {whole}')}, zeroinitializer")
        if name == "nextafter":
            return self._neighbor(x, number_of(operands[1]), dtype, n)
        raise UntraceableError(f"calls {name} of floats")

    def _arithmetic(self, name: str, values: list[str], dtype: "np.dtype[Any]", n: int) -> str:
        code = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}[name]
        kind = f"<{n} x {element(dtype)}>"
        if element(dtype) == "half":
            wide = [self.do(f"fpext {kind} {v} to <{n} x float>") for v in values]
            result = self.do(f"{code} <{n} x float> {wide[0]}, {wide[1]}")
            return self.do(f"fptrunc <{n} x float> {result} to {kind}")
        result = self.do(f"{code} {kind} {values[0]}, {values[1]}")
        if element(dtype) == "float":
            return result
        # The NaN is the first operand's that is one, or the host's own, which LLVM doesn't promise.
        new = self.do(f"bitcast <{n} x i64> {splat(np.int64(_NEW_NAN), n)} to {kind}")
        result = self.select(self.do(f"fcmp uno {kind} {result}, {result}"), new, result, kind, n)
        for value in values[::-1]:
            is_nan = self.do(f"fcmp uno {kind} {value}, {value}")
            bits = self.do(f"bitcast {kind} {value} to <{n} x i64>")
            quiet = self.do(f"or <{n} x i64> {bits}, {splat(np.int64(_QUIET), n)}")
            result = self.select(is_nan, self.do(f"bitcast <{n} x i64> {quiet} to {kind}"), result, kind, n)
        return result

    def _neighbor(self, x: str, toward: Any, dtype: "np.dtype[Any]", n: int) -> str:
        """The next number in the direction of an infinity."""
        if toward is None or not np.isinf(toward):
            raise UntraceableError("computes a neighbor")
        size = 8 * dtype.itemsize
        whole, kind = f"<{n} x i{size}>", f"<{n} x {element(dtype)}>"
        up = toward > 0
        bits = self.do(f"bitcast {kind} {x} to {whole}")
        negative = self.do(f"icmp slt {whole} {bits}, zeroinitializer")
        one, minus = (splat(np.dtype(f"i{dtype.itemsize}").type(v), n) for v in (1, -1))
        step = self.select(negative, minus if up else one, one if up else minus, whole, n)
        moved = self.do(f"add {whole} {bits}, {step}")
        zero = self.do(f"fcmp oeq {kind} {x}, zeroinitializer")
        least = splat(np.array(1 if up else (1 << (size - 1)) + 1, f"u{dtype.itemsize}")[()], n)
        moved = self.select(zero, least, moved, whole, n)
        stays = self.do(f"fcmp ueq {kind} {x}, {splat(dtype.type(toward), n)}")
        return self.do(f"bitcast {whole} {self.select(stays, bits, moved, whole, n)} to {kind}")


def splat(number: Any, n: int) -> str:
    """A vector constant of a NumPy number."""
    dtype = np.asarray(number).dtype
    kind = element(dtype)
    if dtype.kind == "b":
        text = "true" if number else "false"
    elif kind in ("float", "double"):
        with np.errstate(all="ignore"):
            text = f"0x{int(np.float64(number).view(np.uint64)):016X}"
        if kind == "float" and np.isnan(number):
            raise UntraceableError("has a constant NaN")
    elif kind == "half":
        text = f"0xH{int(number.view(np.uint16)):04X}"
    elif dtype.kind == "c":
        raise UntraceableError("has a constant of 128 bits")
    else:
        text = str(int(number))
    return f"splat ({kind} {text})" if n > 1 else text

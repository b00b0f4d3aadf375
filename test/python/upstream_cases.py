"""Operations of upstream's arith, math, vector and gpu dialects, each on numbers of one type, with what NumPy
computes from them. Kernels contain many of them, since each compilation takes longer than its operations.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

import weft

N = 64
FLOATS = ("f16", "bf16", "f32", "f64")
SHORT = ("f8E4M3FN", "f8E5M2")
WORDS = ("i8", "i16", "i32", "i64")
INTEGERS = ("i1", "i4", *WORDS, "index")
_BITS = {"i1": 1, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
_MEMORY = {"i1": "i8", "i4": "i8", "index": "i64"}
_DTYPES = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


def dtype(kind: str) -> Any:
    """The NumPy type of numbers in memory."""
    return _DTYPES[_MEMORY.get(kind, kind)]


@dataclass(frozen=True)
class Case:
    """`lines` compute %r of type `out` from numbers %a, %b and %c of the types `ins`. `reference` takes
    arrays of them. Results may differ by `ulps`; those of arguments that aren't `defined` aren't compared.
    """

    op: str
    lines: tuple[str, ...]
    ins: tuple[str, ...]
    out: str
    reference: Callable[..., Any]
    ulps: int = 0
    defined: Callable[..., bool] | None = None

    @property
    def name(self) -> str:
        """What a failure shows."""
        return f"{'; '.join(self.lines)} ({', '.join(self.ins)})"


def numbers(kind: str, seed: int) -> Any:
    """Numbers of a type in memory, with its special ones."""
    random = np.random.default_rng(seed)
    if kind in ("i1", "i4"):
        low, high = (0, 2) if kind == "i1" else (-8, 8)
        return random.integers(low, high, N).astype(np.int8)
    if kind in _BITS:
        limits = np.iinfo(dtype(kind))
        few = [0, 1, -1, 2, -2, 3, 7, 5, -5, 100, limits.min, limits.max, limits.min + 1, limits.max - 1]
        rest = random.integers(limits.min, limits.max, N - 30, dtype=dtype(kind), endpoint=True)
        found = np.concatenate([np.array(few, dtype(kind)), rest, random.integers(-20, 20, 16)])
    else:
        limits = ml_dtypes.finfo(dtype(kind))
        few = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-3, -7.75]
        few += [float(limits.max), -float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)]
        found = np.concatenate([few, random.standard_normal(N - len(few)) * np.repeat([3, 100], 23)])
    random.shuffle(found)
    with np.errstate(all="ignore"):
        return found.astype(dtype(kind))


def module(cases: Sequence[Case]) -> str:
    """A kernel of these cases: an argument for each type of numbers, and one for each result."""
    inputs = _inputs(cases)
    parameters = [f"%p{i}: memref<{N}x{_MEMORY.get(kind, kind)}>" for i, (kind, _) in enumerate(inputs)]
    parameters += [f"%o{i}: memref<{N}x{_MEMORY.get(c.out, c.out)}>" for i, c in enumerate(cases)]
    lines = []
    for i, (kind, _) in enumerate(inputs):
        memory = _MEMORY.get(kind, kind)
        lines.append(f"%m{i} = memref.load %p{i}[%t] : memref<{N}x{memory}>")
        cast = "arith.index_cast" if kind == "index" else "arith.trunci"
        if memory != kind:
            lines.append(f"%v{i} = {cast} %m{i} : {memory} to {kind}")
    for i, case in enumerate(cases):
        names = {}
        for letter, key in zip("abc", zip(case.ins, range(3), strict=False), strict=False):
            number = inputs.index(key)
            names[letter] = f"%{'v' if key[0] in _MEMORY else 'm'}{number}"
        own = [renamed(line, names, i) for line in case.lines]
        memory, result = _MEMORY.get(case.out, case.out), f"%r_{i}"
        if memory != case.out:
            cast = "arith.index_cast" if case.out == "index" else "arith.extui"
            own.append(f"%w{i} = {cast} {result} : {case.out} to {memory}")
            result = f"%w{i}"
        lines += [*own, f"memref.store {result}, %o{i}[%t] : memref<{N}x{memory}>"]
    return kernel(parameters, lines, N)


def kernel(parameters: Sequence[str], lines: Sequence[str], threads: int) -> str:
    """A kernel of so many threads, whose numbers are %t."""
    body = "\n    ".join(["%t = gpu.thread_id x", *lines, "gpu.return"])
    size = f"attributes {{known_block_size = array<i32: {threads}, 1, 1>}}"
    return f"gpu.module @m {{\n  gpu.func @k({', '.join(parameters)}) kernel {size} {{\n    {body}\n  }}\n}}"


def renamed(line: str, names: dict[str, str], number: int) -> str:
    """A line whose other values have names of their own."""
    return re.sub(r"%(\w+)", lambda m: names.get(m[1]) or f"%{m[1]}_{number}", line)


def _inputs(cases: Sequence[Case]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((kind, i) for case in cases for i, kind in enumerate(case.ins)))


def differences(cases: Sequence[Case], chip: str) -> list[str]:
    """What the kernel of these cases computes otherwise than NumPy."""
    inputs = _inputs(cases)
    arrays = {key: numbers(*key) for key in inputs}
    results = [np.full(N, 85, np.uint8).astype(dtype(case.out)) for case in cases]
    report = weft.compile(module(cases), arch=chip).emulate(*arrays.values(), *results, grid=(1, 1, 1))
    assert not report.findings
    found = []
    for case, got in zip(cases, results, strict=True):
        given = [arrays[key] for key in zip(case.ins, range(3), strict=False)]
        with np.errstate(all="ignore"):
            expected = case.reference(*given)
        for i in np.flatnonzero(~_same(got, expected, case)):
            at = [each[i] for each in given]
            if case.defined is None or case.defined(*at):
                found.append(f"{case.name} of {at}: got {got[i]}, expected {expected[i]}")
                break
    return found


def _same(got: Any, expected: Any, case: Case) -> Any:
    if case.out in _BITS:
        return got == expected
    x, y = got.astype(np.float64), expected.astype(np.float64)
    same = (np.isnan(x) & np.isnan(y)) | ((x == y) & ((np.signbit(x) == np.signbit(y)) | bool(case.ulps)))
    if case.ulps:
        limits = ml_dtypes.finfo(dtype(case.out))
        unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(y), float(limits.tiny))))) * float(limits.eps)
        same |= np.abs(x - y) <= case.ulps * unit
    return same


def integers(array: Any, kind: str, *, signed: bool = True) -> list[int]:
    """The numbers of an array, of so many bits."""
    bits = _BITS[kind]
    found = [int(each) & ((1 << bits) - 1) for each in array]
    return [each - (1 << bits) if signed and each >> (bits - 1) else each for each in found]


def wrapped(values: Sequence[int], kind: str) -> Any:
    """Integers as the type has them in memory."""
    bits = _BITS[kind]
    found = [int(each) & ((1 << bits) - 1) for each in values]
    if kind in ("i1", "i4"):
        return np.array(found, np.int8)
    return np.array([each - (1 << bits) if each >> (bits - 1) else each for each in found], dtype(kind))


def _of_floats(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    return lambda *arrays: np.asarray(function(*(each.astype(np.float64) for each in arrays))).astype(
        dtype(kind)
    )


def _of_integers(function: Callable[..., int], kind: str, *, signed: bool = True) -> Callable[..., Any]:
    def reference(*arrays: Any) -> Any:
        columns = [integers(each, kind, signed=signed) for each in arrays]
        return wrapped([function(*each) for each in zip(*columns, strict=True)], kind)

    return reference


def _case(text: str, ins: str, out: str, reference: Any, ulps: int = 0, defined: Any = None) -> Case:
    lines = tuple(line.strip() for line in text.split(";"))
    op = lines[-1].partition(" = ")[2].split()[0]
    return Case(op, lines, tuple(ins.split()), out, reference, ulps, defined)


def _larger(x: Any, y: Any) -> Any:
    larger = np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))
    return np.where(np.isnan(x) | np.isnan(y), np.nan, larger)


def _number_or(function: Callable[..., Any], x: Any, y: Any) -> Any:
    return np.where(np.isnan(x), y, np.where(np.isnan(y), x, function(x, y)))


def _smaller(x: Any, y: Any) -> Any:
    return -_larger(-x, -y)


_BINARY: dict[str, Callable[..., Any]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "maximumf": _larger,
    "minimumf": _smaller,
    "maxnumf": lambda x, y: _number_or(_larger, x, y),
    "minnumf": lambda x, y: _number_or(_smaller, x, y),
}
_ORDERED: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "ne": lambda x, y: (x < y) | (x > y),
}


def float_cases(kind: str) -> Iterator[Case]:
    """The arithmetic of a type of floats."""
    two = f"{kind} {kind}"
    for name, function in _BINARY.items():
        yield _case(f"%r = arith.{name} %a, %b : {kind}", two, kind, _of_floats(function, kind))
    yield _case(f"%r = arith.negf %a : {kind}", kind, kind, _of_floats(np.negative, kind))
    for name, ordered in _ORDERED.items():
        for unordered in (False, True):

            def compared(x: Any, y: Any, ordered: Any = ordered, unordered: bool = unordered) -> Any:
                x, y = x.astype(np.float64), y.astype(np.float64)
                return (ordered(x, y) | (unordered & (np.isnan(x) | np.isnan(y)))).astype(np.int8)

            predicate = f"{'u' if unordered else 'o'}{name}"
            yield _case(f"%r = arith.cmpf {predicate}, %a, %b : {kind}", two, "i1", compared)

    def chosen(condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition != 0, x, y)

    yield _case(f"%r = arith.select %a, %b, %c : {kind}", f"i1 {two}", kind, chosen)
    for mode in ("upward", "toward_zero"):
        yield _case(f"%r = arith.addf %a, %b {mode} : {kind}", two, kind, None)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "absf": (np.abs, 0),
    "ceil": (np.ceil, 0),
    "floor": (np.floor, 0),
    "trunc": (np.trunc, 0),
    "roundeven": (np.round, 0),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), 0),
    "sqrt": (np.sqrt, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2),
    "exp": (np.exp, 2),
    "exp2": (np.exp2, 2),
    "expm1": (np.expm1, 3),
    "log": (np.log, 2),
    "log2": (np.log2, 2),
    "log10": (np.log10, 2),
    "log1p": (np.log1p, 3),
    "tanh": (np.tanh, 4),
    "sinh": (np.sinh, 4),
    "cosh": (np.cosh, 4),
    "erf": (np.vectorize(math.erf), 3),
    "erfc": (np.vectorize(math.erfc), 8),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 3),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt"), (np.abs, 0)),
}


def _fused(kind: str) -> Callable[..., Any]:
    """x * y + z, rounded once."""

    def one(x: Any, y: Any, z: Any) -> float:
        if not all(map(math.isfinite, (x, y, z))):
            return float(z if math.isfinite(x) and math.isfinite(y) else x * y + z)
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if not exact:
            return float(x * y + z)
        return nearest(exact, kind)

    def reference(*arrays: Any) -> Any:
        columns = [each.astype(np.float64) for each in arrays]
        return np.array([one(*each) for each in zip(*columns, strict=True)]).astype(dtype(kind))

    return reference


def nearest(exact: Fraction, kind: str) -> float:
    """The nearest number of a type, as a float."""
    limits = ml_dtypes.finfo(dtype(kind))
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, int(limits.minexp)) - int(limits.nmant))
    found = round(exact / unit) * unit
    within = abs(found) <= Fraction(float(limits.max))
    return float(found) if within else math.inf if exact > 0 else -math.inf


def math_cases(kind: str) -> Iterator[Case]:
    """The functions of a type of floats."""
    for name, (function, ulps) in _FUNCTIONS.items():
        ulps = 8 if ulps and kind == "f64" else ulps
        yield _case(f"%r = math.{name} %a : {kind}", kind, kind, _of_floats(function, kind), ulps)
    for name, test in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
        yield _case(f"%r = math.{name} %a : {kind}", kind, "i1", lambda x, test=test: test(x).astype(np.int8))
    two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
    yield _case(f"%r = math.isnormal %a : {kind}", kind, "i1", None)
    yield _case(f"%r = math.copysign %a, %b : {kind}", two, kind, _of_floats(np.copysign, kind))
    yield _case(f"%r = math.atan2 %a, %b : {kind}", two, kind, None)
    yield _case(f"%r, %s = math.sincos %a : {kind}", kind, kind, None)
    yield _case(f"%r = math.fma %a, %b, %c : {kind}", three, kind, _fused(kind))
    clamped = _of_floats(lambda x, least, most: _smaller(_larger(x, least), most), kind)
    yield _case(f"%r = math.clampf %a to [%b, %c] : {kind}", three, kind, clamped)
    many = 4096 if kind == "f64" else 1  # of f64, with the exponent
    yield _case(f"%r = math.powf %a, %b : {kind}", two, kind, _of_floats(np.power, kind), many)
    power = lambda x, y: np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype(kind))  # noqa: E731
    yield _case(f"%r = math.fpowi %a, %b : {kind}, i32", f"{kind} i32", kind, power, many)


def cast_cases(kind: str) -> Iterator[Case]:
    """Conversions from a type of floats, and to it."""
    for other in (*FLOATS, *SHORT):
        ours, theirs = (ml_dtypes.finfo(dtype(each)).bits for each in (kind, other))
        name = "extf" if theirs > ours else "truncf" if theirs < ours else "convertf"
        if other != kind:
            rounded = lambda x, other=other: x.astype(dtype(other))  # noqa: E731
            yield _case(f"%r = arith.{name} %a : {kind} to {other}", kind, other, rounded)
    for other in INTEGERS[:-1]:
        for sign, signed in (("s", True), ("u", False)):
            least, end = (
                (-(1 << (_BITS[other] - 1)), 1 << (_BITS[other] - 1)) if signed else (0, 1 << _BITS[other])
            )

            def rounded(x: Any, other: str = other, signed: bool = signed) -> Any:
                exact = integers(x, other, signed=signed)
                return np.array([nearest(Fraction(n), kind) if n else 0.0 for n in exact]).astype(dtype(kind))

            def truncated(x: Any, other: str = other) -> Any:
                return wrapped([int(n) if math.isfinite(n) else 0 for n in x.astype(np.float64)], other)

            def defined(x: Any, least: int = least, end: int = end) -> bool:
                return math.isfinite(x) and least <= int(float(x)) < end

            yield _case(f"%r = arith.{sign}itofp %a : {other} to {kind}", other, kind, rounded)
            text = f"%r = arith.fpto{sign}i %a : {kind} to {other}"
            yield _case(text, kind, other, truncated, 0, defined)
    whole = {2: "i16", 4: "i32", 8: "i64", 1: "i8"}[dtype(kind)(0).itemsize]
    yield _case(f"%r = arith.bitcast %a : {kind} to {whole}", kind, whole, lambda x: x.view(dtype(whole)))


def _divided(x: int, y: int) -> int:
    quotient = abs(x) // abs(y) if y else 0
    return quotient if (x < 0) == (y < 0) else -quotient


_WHOLE: dict[str, tuple[Callable[[int, int], int], bool]] = {
    "addi": (lambda x, y: x + y, True),
    "subi": (lambda x, y: x - y, True),
    "muli": (lambda x, y: x * y, True),
    "andi": (lambda x, y: x & y, True),
    "ori": (lambda x, y: x | y, True),
    "xori": (lambda x, y: x ^ y, True),
    "maxsi": (max, True),
    "minsi": (min, True),
    "maxui": (max, False),
    "minui": (min, False),
    "divsi": (_divided, True),
    "remsi": (lambda x, y: x - _divided(x, y) * y, True),
    "floordivsi": (lambda x, y: x // y if y else 0, True),
    "ceildivsi": (lambda x, y: -(-x // y) if y else 0, True),
    "divui": (lambda x, y: x // y if y else 0, False),
    "remui": (lambda x, y: x % y if y else 0, False),
    "ceildivui": (lambda x, y: -(-x // y) if y else 0, False),
}


def integer_cases(kind: str) -> Iterator[Case]:
    """The arithmetic of a type of integers."""
    two, bits = f"{kind} {kind}", _BITS[kind]

    def divides(x: int, y: int) -> bool:
        (dividend, divisor) = (*integers([x], kind), *integers([y], kind))
        return divisor != 0 and not (dividend == -(1 << (bits - 1)) and divisor == -1)

    for name, (function, signed) in _WHOLE.items():
        defined = divides if "div" in name or "rem" in name else None
        reference = _of_integers(function, kind, signed=signed)
        yield _case(f"%r = arith.{name} %a, %b : {kind}", two, kind, reference, 0, defined)
        if kind == "index":
            yield _case(f"%r = index.{name.removesuffix('i')} %a, %b", two, kind, reference, 0, defined)
    for number, (name, function) in enumerate(_ORDERED.items()):
        for sign in ("",) if number in (0, 5) else ("s", "u"):

            def compared(x: Any, y: Any, sign: str = sign, function: Any = function) -> Any:
                columns = [np.array(integers(each, kind, signed=sign != "u"), object) for each in (x, y)]
                return (
                    function(*columns).astype(np.int8)
                    if function is not _ORDERED["ne"]
                    else columns[0] != columns[1]
                )

            yield _case(f"%r = arith.cmpi {sign}{name}, %a, %b : {kind}", two, "i1", compared)
    if bits > 1:
        width = f"%k = arith.constant {bits} : {kind}; %s = arith.remui %b, %k : {kind}"
        for name, signed in (("shli", True), ("shrsi", True), ("shrui", False)):

            def shifted(x: Any, y: Any, name: str = name, signed: bool = signed) -> Any:
                by = [each % bits for each in integers(y, kind, signed=False)]
                numbers = zip(integers(x, kind, signed=signed), by, strict=True)
                return wrapped([n << k if name == "shli" else n >> k for n, k in numbers], kind)

            yield _case(f"{width}; %r = arith.{name} %a, %s : {kind}", two, kind, shifted)
    yield from _extended_cases(kind)
    yield from _resized_cases(kind)
    for name, count in _COUNTS.items():
        reference = _of_integers(lambda x, count=count: count(x, bits), kind, signed=name == "absi")
        yield _case(f"%r = math.{name} %a : {kind}", kind, kind, reference)
    yield _case(f"%r = math.ipowi %a, %b : {kind}", two, kind, None)


_COUNTS: dict[str, Callable[[int, int], int]] = {
    "absi": lambda x, bits: abs(x),
    "ctlz": lambda x, bits: bits - x.bit_length(),
    "cttz": lambda x, bits: (x & -x).bit_length() - 1 if x else bits,
    "ctpop": lambda x, bits: x.bit_count(),
}


def _extended_cases(kind: str) -> Iterator[Case]:
    two, bits = f"{kind} {kind}", _BITS[kind]
    for name, signed in (("mulsi_extended", True), ("mului_extended", False)):
        high = _of_integers(lambda x, y: (x * y) >> bits, kind, signed=signed)
        yield _case(f"%s, %r = arith.{name} %a, %b : {kind}", two, kind, high)
    if kind == "index":
        return
    for name, sign in (("addui_extended", 1), ("subui_extended", -1)):

        def carried(x: Any, y: Any, sign: int = sign) -> Any:
            columns = [integers(each, kind, signed=False) for each in (x, y)]
            return np.array(
                [not 0 <= n + sign * m < 1 << bits for n, m in zip(*columns, strict=True)], np.int8
            )

        yield _case(f"%s, %r = arith.{name} %a, %b : {kind}, i1", two, "i1", carried)


def _resized_cases(kind: str) -> Iterator[Case]:
    for other in INTEGERS:
        if other == kind:
            continue
        cast = (
            {"s": "arith.extsi", "u": "arith.extui"} if _BITS[other] > _BITS[kind] else {"s": "arith.trunci"}
        )
        if "index" in (kind, other):
            cast = {"s": "arith.index_cast", "u": "arith.index_castui"}
        for sign, name in cast.items():
            resized = lambda x, sign=sign, other=other: wrapped(integers(x, kind, signed=sign == "s"), other)  # noqa: E731
            yield _case(f"%r = {name} %a : {kind} to {other}", kind, other, resized)


GROUPS: dict[str, tuple[Callable[[str], Iterator[Case]], tuple[str, ...]]] = {
    "floats": (float_cases, (*FLOATS, *SHORT)),
    "functions": (math_cases, (*FLOATS, *SHORT)),
    "casts": (cast_cases, (*FLOATS, *SHORT)),
    "integers": (integer_cases, INTEGERS),
}

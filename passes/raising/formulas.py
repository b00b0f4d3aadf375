"""Functions of one variable as sums of products, which are compared by their structure.

Two formulas are the same function of every number, up to the roundings of what they compute: nothing is
canceled and no factor is 0, so infinity and NaN stay what they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product


@dataclass(frozen=True)
class Format:
    """A type of floats: the binary digits of its numbers, and their least and largest normal exponents."""

    digits: int
    least: int
    most: int

    @property
    def smallest(self) -> float:
        """The smallest number of all digits."""
        return math.ldexp(1.0, self.least)

    def unit(self, value: float) -> float:
        """The distance of numbers near a value."""
        return math.ldexp(1.0, max(math.frexp(value)[1] - 1, self.least) - self.digits + 1)

    def rounded(self, value: float) -> float | None:
        """The nearest number; None beyond the largest one."""
        if not math.isfinite(value):
            return None
        unit = self.unit(value)
        nearest = math.copysign(round(value / unit) * unit, value)
        return nearest if abs(nearest) < math.ldexp(1.0, self.most) * 2 else None


FORMATS = {
    "f64": Format(53, -1022, 1023),
    "f32": Format(24, -126, 127),
    "f16": Format(11, -14, 15),
    "bf16": Format(8, -126, 127),
}
_FEW = 8  # significands below it are what someone wrote; others may be roundings
_SLACK = 1e-12  # of what formulas compute from constants in f64
_MOST = 16  # terms


class NoFormulaError(Exception):
    """Something that isn't a sum of products, or in which parts cancel."""


@dataclass(frozen=True)
class Number:
    """A coefficient, and how far from it the constant may be that was rounded to it."""

    value: float
    error: float = 0.0

    def times(self, other: "Number") -> "Number":
        """The product."""
        error = abs(self.value) * other.error + abs(other.value) * self.error + self.error * other.error
        return Number(self.value * other.value, error)

    def covers(self, value: float) -> bool:
        """Whether the constant may have been this one."""
        return abs(self.value - value) <= self.error * (1 + _SLACK) + _SLACK * abs(value)


@dataclass(frozen=True)
class Call:
    """A function, such as `tanh`, of a formula."""

    name: str
    argument: "Formula"


@dataclass(frozen=True)
class Term:
    """A coefficient times a power of the variable and values of functions."""

    factor: Number
    power: int = 0
    calls: tuple[Call, ...] = ()

    def times(self, other: "Term") -> "Term":
        """The product."""
        calls = tuple(sorted((*self.calls, *other.calls), key=repr))
        return Term(self.factor.times(other.factor), self.power + other.power, calls)


@dataclass(frozen=True)
class Formula:
    """A sum of terms; 0 without any."""

    terms: tuple[Term, ...] = ()

    def __add__(self, other: "Formula") -> "Formula":
        total = {(term.power, term.calls): term.factor for term in self.terms}
        for term in other.terms:
            key = term.power, term.calls
            before = total.get(key, Number(0.0))
            if before.value * term.factor.value < 0:
                raise NoFormulaError("cancels a part")
            total[key] = Number(before.value + term.factor.value, before.error + term.factor.error)
        return Formula(tuple(Term(factor, *key) for key, factor in total.items()))

    def __neg__(self) -> "Formula":
        return self * number(-1.0)

    def __sub__(self, other: "Formula") -> "Formula":
        return self + -other

    def __mul__(self, other: "Formula") -> "Formula":
        if not (self.terms and other.terms) or len(self.terms) * len(other.terms) > _MOST:
            raise NoFormulaError("has a factor of 0, or too many terms")
        pairs = product(self.terms, other.terms)
        return reduce(Formula.__add__, (Formula((x.times(y),)) for x, y in pairs))

    def __truediv__(self, other: "Formula") -> "Formula":
        if (divisor := other.constant) is None:
            return self * called("inverse", other)
        value, error = 1 / divisor.value, divisor.error / divisor.value**2
        return self * Formula((Term(Number(value, error / (1 - divisor.error / abs(divisor.value)))),))

    def __pow__(self, exponent: "Formula") -> "Formula":
        times = exponent.constant
        if times is None or times.value not in (2.0, 3.0):
            raise NoFormulaError("has a power other than 2 and 3")
        return reduce(Formula.__mul__, [self] * int(times.value))

    @property
    def constant(self) -> Number | None:
        """The coefficient of a formula without a variable; None for others, and for 0."""
        alone = len(self.terms) == 1 and not self.terms[0].power and not self.terms[0].calls
        return self.terms[0].factor if alone else None

    def equals(self, other: "Formula") -> bool:
        """Whether this is the other formula, which is exact, with constants that are rounded."""
        rest = list(self.terms)
        for term in other.terms:
            same = next((each for each in rest if _same(each, term)), None)
            if same is None:
                return False
            rest.remove(same)
        return not rest


def _same(term: Term, other: Term) -> bool:
    return (
        term.power == other.power
        and [call.name for call in term.calls] == [call.name for call in other.calls]
        and term.factor.covers(other.factor.value)
        and all(x.argument.equals(y.argument) for x, y in zip(term.calls, other.calls, strict=True))
    )


X = Formula((Term(Number(1.0), 1),))
"""The variable."""


def number(value: float, kind: str | None = None) -> Formula:
    """A constant: exact, or rounded to a type of floats. Integers are exact."""
    if not math.isfinite(value) or (not value and math.copysign(1.0, value) < 0):
        raise NoFormulaError("has a constant that is infinite, NaN or -0")
    if not value:
        return Formula()
    error = 0.0
    if kind in FORMATS:
        nearest = FORMATS[kind].rounded(value)
        if not nearest:
            raise NoFormulaError("has a constant that its type doesn't have")
        few = math.frexp(nearest)[0] * _FEW
        value, error = nearest, 0.0 if few == int(few) else FORMATS[kind].unit(nearest) / 2
    return Formula((Term(Number(value, error)),))


def called(name: str, argument: Formula) -> Formula:
    """The value of a function."""
    return Formula((Term(Number(1.0), 0, (Call(name, argument),)),))


def exp2(exponent: Formula) -> Formula:
    """2 to a power."""
    return called("exp", exponent * number(math.log(2)))


def sigmoid(x: Formula) -> Formula:
    """The logistic function, 1 / (1 + exp(-x))."""
    return number(1.0) / (number(1.0) + called("exp", -x))


def larger(x: Formula, y: Formula) -> Formula:
    """The maximum, which is NaN where one is, and 0 of 0 and -0."""
    if Formula() not in (x, y) or X not in (x, y):
        raise NoFormulaError("is a maximum other than that of the variable and 0")
    return called("relu", X)


@dataclass(frozen=True)
class Comparison:
    """Whether `left` is `predicate` ("gt", "ge", "lt" or "le") `right`. `of_nan`: what it is for NaN; None
    where there are no NaN and no -0, since numbers are integers.
    """

    predicate: str
    left: Formula
    right: Formula
    of_nan: bool | None

    def select(self, x: Formula, y: Formula) -> Formula:
        """x where the comparison is true, otherwise y."""
        left, right, predicate = self.left, self.right, self.predicate
        if left == Formula():
            left, right, predicate = right, left, predicate.translate(_SWAPPED)
        positive = predicate in ("gt", "ge")
        arms = (X, Formula()) if positive else (Formula(), X)
        # NaN must give NaN, and -0 must give 0.
        kept = self.of_nan is None or (predicate, self.of_nan) in (("gt", True), ("le", False))
        if not kept or (left, right) != (X, Formula()) or (x, y) != arms:
            raise NoFormulaError("selects another function than relu")
        return called("relu", X)


_SWAPPED = str.maketrans("gl", "lg")


FUNCTIONS: dict[str, Callable[..., Formula]] = {
    "add": Formula.__add__,
    "sub": Formula.__sub__,
    "mul": Formula.__mul__,
    "div": Formula.__truediv__,
    "neg": Formula.__neg__,
    "pow": Formula.__pow__,
    "max": larger,
    "exp2": exp2,
    **{name: partial(called, name) for name in ("exp", "tanh", "erf", "erfc")},
}
"""The functions that formulas contain, by their names."""

"""Contents of matrices that expose faults of products: one for each kind of fault."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from weft.launch.arrays import numpy_dtype
from weft.tools.values import integer_limits

_BIG = 16.0  # what cancels, beside what doesn't
_SMALL = 2.0**-20  # sums of 2**15 such parts of the largest numbers are within f32's range
_TF32_BITS = np.uint32(0xFFFFE000)


@dataclass(frozen=True)
class Kinds:
    """The element types of A, B and D, as MLIR names them, and whether infinities may be among A and B."""

    a: str
    b: str
    d: str
    infinite: bool

    @property
    def integers(self) -> bool:
        return is_integer(self.a)


Made = tuple[Any, Any]  # A as M x K and B as K x N, in float64


@dataclass(frozen=True)
class Regime:
    """How A and B are filled. With `exact`, sums of their products are exact in f32 (and where fp8 is added
    up in fewer bits), with `whole` also with what is added to them. `integers`: those have it too.
    """

    fill: Callable[[Any, Kinds, int, int, int], Made]
    exact: bool = False
    whole: bool = False
    integers: bool = True


def is_integer(kind: str) -> bool:
    """Whether elements of a type are integers."""
    return integer_limits(numpy_dtype(kind)) is not None


def _limits(kind: str) -> tuple[int, int]:
    """The least and the largest of a type of integers."""
    limits = integer_limits(numpy_dtype(kind))
    assert limits is not None
    return limits


def finfo(kind: str) -> Any:
    """What a type of floats holds."""
    return ml_dtypes.finfo(numpy_dtype(kind))  # type: ignore[no-untyped-call]


def cast(values: Any, kind: str) -> Any:
    """Numbers as elements of a type, integers as its nearest."""
    dtype = numpy_dtype(kind)
    if is_integer(kind):
        return np.clip(np.round(values), *_limits(kind)).astype(dtype)
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float64).astype(dtype)


def kept(values: Any, kind: str) -> Any:
    """Numbers that a type has, of which tensor cores leave out nothing: of f32 those of tf32."""
    made = cast(values, kind)
    if kind == "f32":
        made = (made.view(np.uint32) & _TF32_BITS).view(np.float32)
    return made.astype(np.float64)


def _random(rng: Any, kind: str, *shape: int) -> Any:
    """Normal numbers, or integers of a type's whole range."""
    if is_integer(kind):
        return rng.integers(*_limits(kind), shape, endpoint=True).astype(np.float64)
    return rng.standard_normal(shape)


def _integers(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """Small ones, of types of integers all."""
    if kinds.integers:
        return _random(rng, kinds.a, m, k), _random(rng, kinds.b, k, n)
    return tuple(rng.integers(-2, 3, shape).astype(np.float64) for shape in ((m, k), (k, n)))  # type: ignore[return-value]


def _normal(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    return _random(rng, kinds.a, m, k), _random(rng, kinds.b, k, n)


def _canceling(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """Large terms, each of which has its negative somewhere along K, among a few small ones."""
    a, b = _normal(rng, kinds, m, n, k)
    if not kinds.integers:
        a, b = _BIG * a, _BIG * b
    pairs = (k - 1) // 2
    a[:, pairs : 2 * pairs] = a[:, :pairs]
    b[pairs : 2 * pairs] = -b[:pairs]
    a[:, 2 * pairs :] /= _BIG
    order = rng.permutation(k)
    return a[:, order], b[order]


def _subnormal(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """A of subnormal numbers, B large enough for sums that are f32's normal ones."""
    wide = kinds.a in ("bf16", "f32")
    least = 2.0**-136 if kinds.a == "f32" else float(finfo(kinds.a).smallest_subnormal)
    a, b = rng.integers(-4, 5, (m, k)) * least, rng.integers(-4, 5, (k, n)) * (2.0**20 if wide else 1.0)
    return a, b


def _largest(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """Rows of A and columns of B of the largest numbers, each of one sign: their sums are beyond f32, or D's
    type, or neither; others stay small beside them.
    """
    a, b = _integers(rng, kinds, m, n, k)
    if kinds.integers:
        (least_a, most_a), (least_b, most_b) = _limits(kinds.a), _limits(kinds.b)
        a[::3], b[:, ::2] = least_a or most_a, least_b or most_b
        return a, b
    small = _SMALL if kinds.a in ("bf16", "f32") else 1.0
    a, b = a * small, b * small
    for lines, kind in ((a, kinds.a), (b.T, kinds.b)):
        largest = kept(float(finfo(kind).max), kind)
        chosen = lines[:: 3 if lines is a else 2]
        chosen[:] = largest * rng.choice([-1.0, 1.0], (len(chosen), 1))
    return a, b


def _special(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """A NaN in A and in B, infinities too, among zeros and normal numbers."""
    a, b = _zeros(rng, kinds, m, n, k)
    for matrix, kind in ((a, kinds.a), (b, kinds.b)):
        matrix[rng.integers(matrix.shape[0]), rng.integers(matrix.shape[1])] = np.nan
        if kinds.infinite and np.isinf(cast(np.inf, kind).astype(np.float64)):
            at = rng.integers(matrix.shape[0]), rng.integers(matrix.shape[1])
            matrix[at] = rng.choice([-np.inf, np.inf])
    return a, b


def _one_hot(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """Rows of A with a one alone: each row of D is a row of B, or its negative."""
    a = np.zeros((m, k))
    signs = [1.0] if kinds.integers and not _limits(kinds.a)[0] else [-1.0, 1.0]
    a[np.arange(m), rng.integers(0, k, m)] = rng.choice(signs, m)
    return a, _random(rng, kinds.b, k, n)


def _zeros(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """Zeros of either sign, in some rows of A and columns of B nothing else."""
    a, b = _normal(rng, kinds, m, n, k)
    for matrix in (a, b):
        matrix[rng.random(matrix.shape) < 0.2] = 0.0
        matrix[rng.random(matrix.shape) < 0.2] *= 0.0  # of the sign that was there
    a[1::3], b[:, 1::4] = a[1::3] * 0.0, b[:, 1::4] * 0.0
    return a, b


def _ties(rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """Sums that are half-way between two numbers of D's type, of which some have an even last bit: a power
    of two, up to three units in its last place, and a half of one.
    """
    if kinds.integers:
        return _integers(rng, kinds, m, n, k)
    unit = float(finfo(kinds.d).eps)
    first = max(1.0, 2.0**-6 / (unit / 2))  # fp8 has the half unit of it
    a = np.zeros((m, k))
    for row in a:
        parts = first, first * unit * rng.integers(0, 4), first * unit / 2
        places = rng.permutation(k)[:3]
        row[places] = parts[: len(places)]
    a *= rng.choice([-1.0, 1.0], (m, 1))
    return a, np.broadcast_to(rng.choice([-2.0, -1.0, 0.5, 1.0], n), (k, n)).copy()


REGIMES = {
    "integers": Regime(_integers, exact=True, whole=True),
    "normal": Regime(_normal, integers=False),
    "canceling": Regime(_canceling),
    "subnormal": Regime(_subnormal, exact=True, integers=False),
    "largest": Regime(_largest),
    "special": Regime(_special, integers=False),
    "one-hot": Regime(_one_hot, exact=True),
    "zeros": Regime(_zeros),
    "ties": Regime(_ties, exact=True, integers=False),
}


def filled(regime: Regime, rng: Any, kinds: Kinds, m: int, n: int, k: int) -> Made:
    """A (M x K) and B (K x N) of a product, of their types."""
    a, b = regime.fill(rng, kinds, m, n, k)
    if regime.exact:
        a, b = kept(a, kinds.a), kept(b, kinds.b)
    return cast(a, kinds.a), cast(b, kinds.b)


def added(regime: Regime, rng: Any, kind: str, *shape: int) -> Any:
    """What is added to a product."""
    if is_integer(kind) or not (regime.whole or regime.fill is _largest):
        return cast(_random(rng, kind, *shape), kind)
    return cast(rng.integers(-9, 10, shape), kind)


def scales(regime: Regime, rng: Any, *shape: int) -> Any:
    """Scales of blocks: powers of two where sums are to be exact."""
    if regime.exact:
        return np.exp2(rng.integers(-1, 2, shape)).astype(np.float32)
    return (rng.random(shape) + 0.5).astype(np.float32)

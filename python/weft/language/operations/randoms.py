"""Random numbers by Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3")."""

import math

from weft.errors import shown
from weft.language.messages.mistakes import mistake
from weft.language.operations.maths import Result, cos, log, maximum, sqrt
from weft.language.values.dtypes import f32, i32, i64, u32, u64
from weft.language.values.fragments import Fragment
from weft.language.values.scalars import Scalar, as_scalar, operand
from weft.mlir import arith, ir, vector
from weft.passes.builders import emit

_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_FRACTION = 24  # bits of a random float
_AT_ONCE = 8  # elements of a fragment: each has several registers until its random word is known


def randint(seed: object, offset: object) -> Fragment | Scalar:
    """32 random bits, of the type of `offset`, for a number or for each element of a fragment.

    `offset` is the number of the random number in the sequence of `seed`: a number or a fragment of i32 or
    u32. The same seed and offset have the same result, in every kernel and on every chip. `seed` is an
    integer of 32 or 64 bits, or a Python integer below 2**64.
    """
    return _random(seed, offset, 1)[0]


def randint4x(seed: object, offset: object) -> tuple[Fragment | Scalar, ...]:
    """Four results of 32 random bits each, which take as long to compute as the one of `w.randint`. The first
    one is `w.randint(seed, offset)`; the others are numbers of no offset.
    """
    return tuple(_random(seed, offset, 4))


def rand(seed: object, offset: object) -> Fragment | Scalar:
    """Random floats in [0, 1), multiples of 2**-24, by a seed and an offset as for `w.randint`."""
    return _uniform(randint(seed, offset))


def rand4x(seed: object, offset: object) -> tuple[Fragment | Scalar, ...]:
    """Four results of random floats as `w.rand`, by a seed and an offset as for `w.randint4x`."""
    return tuple(map(_uniform, randint4x(seed, offset)))


def randn(seed: object, offset: object) -> Result:
    """Random floats with mean 0 and variance 1, of a normal distribution, by a seed and an offset as for
    `w.randint`.
    """
    first, second = (_uniform(each) for each in _random(seed, offset, 2))
    radius = sqrt(log(maximum(first, 2.0 ** -(_FRACTION + 1))) * -2.0)
    return radius * cos(second * (2 * math.pi))


def _uniform(bits: Fragment | Scalar) -> Fragment | Scalar:
    return ((bits >> 32 - _FRACTION) & 2**_FRACTION - 1).to(f32) * 2.0**-_FRACTION


def _random(seed: object, offset: object, count: int) -> list[Fragment | Scalar]:
    """The first `count` of four random words of 32 bits, as `offset` is: a number or a fragment."""
    numbers = offset if isinstance(offset, Fragment) else as_scalar(offset)
    if numbers.dtype not in (i32, u32):
        raise mistake(f"offset must be of {i32} or {u32}, got {numbers}: convert it with .to({i32})")
    counter = numbers.lane if isinstance(numbers, Fragment) else numbers.value
    words = _of_elements(emit.signless(counter), _words(seed), count)
    words = [emit.bits(word, counter.type) for word in words]
    if isinstance(offset, Fragment):
        return [Fragment.of_lane(word, offset.shape, offset.layout) for word in words]
    return [Scalar(word) for word in words]


def _of_elements(counter: ir.Value, key: list[ir.Value | int], count: int) -> list[ir.Value]:
    """The first random words of a number, or of the elements of a vector, some at once."""
    is_vector = isinstance(counter.type, ir.VectorType)
    elements = emit.elements(counter) if is_vector else [counter]
    result = list[list[ir.Value]]([] for _ in range(count))
    for first in range(0, len(elements), _AT_ONCE):
        words = _philox(emit.vector_of(elements[first : first + _AT_ONCE]), key)
        for every, word in zip(result, words, strict=False):
            every += emit.elements(word)
    return [emit.vector_of(every) if is_vector else every[0] for every in result]


def _words(seed: object) -> list[ir.Value | int]:
    """The low and the high word of a seed: Python's numbers, or SSA values."""
    if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**64:
        return [seed % 2**32, seed >> 32]
    number = None if isinstance(seed, (int, float)) else operand(seed, i64)
    if number is None or number.dtype not in (i32, i64, u32, u64):
        got = number if number is not None else shown(seed)
        raise mistake(f"seed must be an integer in 0..2**64 - 1, or one of 32 or 64 bits, got {got}")
    if number.dtype.bits == i32.bits:
        return [emit.signless(number.value), 0]
    return [emit.signless(each.to(u32).value) for each in (number, number >> 32)]


def _constant(word: int, kind: ir.Type) -> ir.Value:
    return emit.constant(kind, word - 2**32 if word >= 2**31 else word)


def _product(factor: ir.Value, word: ir.Value) -> list[ir.Value]:
    """The low and the high words of a product. As a bitcast, so that one instruction computes both."""
    wide = emit.with_elements(word.type, emit.i64())
    count = 2 * word.type.shape[0]
    halves = ir.VectorType.get([count], emit.i32())
    both = vector.bitcast(halves, arith.muli(arith.extui(wide, factor), arith.extui(wide, word)))
    return [vector.shuffle(both, both, list(range(half, count, 2))) for half in range(2)]


def _philox(counter: ir.Value, key: list[ir.Value | int]) -> list[ir.Value]:
    """The random words of the counter (counter, 0, 0, 0), for the words of a seed."""
    kind = counter.type
    key = [_constant(word, kind) if isinstance(word, int) else vector.broadcast(kind, word) for word in key]
    zero, factors, steps = (
        _constant(0, kind),
        [_constant(each, kind) for each in _MULTIPLIERS],
        [_constant(each, kind) for each in _KEY_STEPS],
    )
    words = [counter, zero, zero, zero]
    for number in range(_ROUNDS):
        if number:
            key = [arith.addi(each, step) for each, step in zip(key, steps, strict=True)]
        low0, high0 = _product(factors[0], words[0])
        low1, high1 = _product(factors[1], words[2])
        words = [
            arith.xori(arith.xori(high1, words[1]), key[0]),
            low1,
            arith.xori(arith.xori(high0, words[3]), key[1]),
            low0,
        ]
    return words

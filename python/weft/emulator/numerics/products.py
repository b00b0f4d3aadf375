"""Matrix products as tensor cores compute them: by code of this host where there is some, otherwise by
`arithmetic`, which defines the bits.
"""

from collections import defaultdict
from functools import partial

from weft.emulator.numerics import arithmetic
from weft.emulator.numerics.arithmetic import Rule, Terms
from weft.emulator.numerics.floats import Doubles
from weft.emulator.reading.types import Array
from weft.isa.accumulation import Accumulation

_WORTH = 1 << 21
"""The multiply-adds by a rule after which it is compiled: NumPy takes as long for them as the compiler."""
_done: defaultdict[Rule, int] = defaultdict(int)
INTEGERS = Rule(0, 0, 0, 0, 0, half=False)
"""Stands for the sums of integers, which have no rule."""
COLUMNS = 8
"""The columns of D that one vector of compiled sums holds."""


def _add(terms: Terms, part: slice | Array, total: Doubles, d_type: str, how: Accumulation) -> Doubles:
    """One sum, by code of this host if it is worth it."""
    left = terms.left[0][:, :, part], terms.left[1][:, :, part]
    right = terms.right[0][:, part], terms.right[1][:, part]
    (n, m, depth), columns = left[0].shape, total.shape[2]
    rule = Rule.of(how, depth, depth, d_type)
    plain = terms.absent is None and columns % COLUMNS == 0
    if not plain or not is_worth(rule, n * m * depth * columns):
        return arithmetic.aligned_sum(terms, part, total, d_type, how)
    from weft.emulator.numerics import native_sums

    return native_sums.sums(left, right, total, rule)


multiply_accumulate = partial(arithmetic.multiply_accumulate, add=_add)
"""`d = a @ b + c`."""


def is_worth(rule: Rule, work: int) -> bool:
    """Whether to compile the sums of a rule, of which so many multiply-adds are wanted now."""
    _done[rule] += work
    return _done[rule] > _WORTH

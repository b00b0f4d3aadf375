"""Matrix products as tensor cores compute them: by code of this host where there is some, otherwise by
`arithmetic`, which defines the bits.
"""

from collections import defaultdict
from functools import partial

from weft.emulator.numerics import arithmetic
from weft.emulator.numerics.arithmetic import Rule, Terms
from weft.emulator.numerics.floats import Doubles

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
    from weft.emulator.numerics import native_sums

    return native_sums.sums(terms.left, terms.right, total, rule)


def is_worth(rule: Rule, work: int) -> bool:
    """Whether to compile the sums of a rule, of which so many multiply-adds are wanted now."""
    _done[rule] += work
    return _done[rule] > _WORTH


multiply_accumulate = partial(arithmetic.multiply_accumulate, add=_add)
"""`d = a @ b + c`."""

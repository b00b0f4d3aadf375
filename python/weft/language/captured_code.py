"""What the code of captured functions calls, in place of loops, branches and conditions."""

from weft.language.conditions import (
    asserted,
    both,
    chain,
    choose,
    chosen,
    either,
    first_of,
    is_sequence,
    last_of,
    negated,
)
from weft.language.control import Branch, Ending, While, failing, loop
from weft.language.regions import calling, changing, taking
from weft.language.thread_blocks import ThreadBlock

__all__ = [
    "Branch",
    "Ending",
    "ThreadBlock",
    "While",
    "asserted",
    "both",
    "calling",
    "chain",
    "changing",
    "choose",
    "chosen",
    "either",
    "failing",
    "first_of",
    "is_sequence",
    "last_of",
    "loop",
    "negated",
    "taking",
]

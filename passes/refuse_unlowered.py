"""`--refuse-unlowered`: refuses operations that no pass lowers, or that earlier passes would have lowered,
before a conversion fails on their parts.
"""

from functools import partial

from weft.passes.analysis import unlowered
from weft.passes.registry.pass_ import Pass

REFUSE_UNLOWERED = Pass(
    "refuse-unlowered",
    "refuse operations that no pass lowers from instructions to LLVM",
    partial(unlowered.check, tiles=False),
)

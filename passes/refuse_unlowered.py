"""`--refuse-unlowered`: refuses operations that no pass lowers, before a conversion fails on their parts."""

from weft.passes.analysis import unlowered
from weft.passes.registry.pass_ import Pass

REFUSE_UNLOWERED = Pass("refuse-unlowered", "refuse operations that no pass lowers to LLVM", unlowered.check)

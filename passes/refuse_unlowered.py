"""`--refuse-unlowered`: names operations that nothing lowers, before a conversion fails on parts of them."""

from weft.passes.analysis import unlowered
from weft.passes.registry.pass_ import Pass

REFUSE_UNLOWERED = Pass("refuse-unlowered", "name operations that nothing lowers to LLVM", unlowered.check)

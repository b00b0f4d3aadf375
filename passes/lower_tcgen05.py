"""`--lower-tcgen05`: lowers the `tcgen05` dialect to LLVM intrinsics, or to inline PTX where there is
none.
"""

from typing import Any

from weft.dialects.tcgen05 import Tcgen05
from weft.passes.analysis import cta_groups
from weft.passes.builders.instructions import lower_all
from weft.passes.registry.pass_ import Pass


def run(module: Any) -> None:
    """Lowers every `tcgen05` operation."""
    cta_groups.require_one(module)
    lower_all(module, Tcgen05.operations)


LOWER_TCGEN05 = Pass(
    "lower-tcgen05", "lower the tcgen05 dialect to LLVM's NVVM intrinsics", run, lowers=(Tcgen05,)
)

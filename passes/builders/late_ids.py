"""The numbers of threads and CTAs, read where they are used. Those of `thread_ids` are read at the start of a
kernel, where LLVM also computes what depends on them: they are in registers from then on.
"""

from weft.isa.chips import LANES, WARPGROUP
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.builders.instructions import assembly


def warp_and_lane() -> tuple[ir.Value, ir.Value]:
    """The numbers of the warp in its warpgroup, and of the thread in its warp."""
    thread = emit.rem(_read("%tid.x"), WARPGROUP)
    return emit.div(thread, LANES), emit.rem(thread, LANES)


def cta() -> ir.Value:
    """The number of the CTA. What depends on it doesn't count as the same in all threads."""
    return _read("%ctaid.x")


def _read(register: str) -> ir.Value:
    (number,) = assembly(f"mov.u32 $0, {register};", ["=r"], [], ["i32"])
    return number

"""The ops of the `tile` dialect by which kernels of several GPUs wait for each other: flags in memory that
all of them can access.
"""

from typing import Any

from weft.dialects.op import Op, build
from weft.dialects.tile_types import Tile, index_complaint
from weft.mlir import ext, ir, strides

PROXIES = ("generic", "async")


class AwaitFlagOp(Op, dialect=Tile, name="await_flag"):
    """A thread waits until `flags[index] - value`, of 32 bits with a sign, isn't negative.

    Then it sees what was written before another GPU, or a stream, raised the flag: with proxy "generic" in
    its loads and stores, with "async" also in its copies by TMA. Other threads see it after a barrier with
    this one, in loads and stores. A wait of more than `limit` milliseconds (i32) ends the kernel with an
    error, by `trap`.
    """

    flags: ext.Operand[Any]
    index: ext.Operand[Any]
    value: ext.Operand[Any]
    limit: ext.Operand[Any]
    proxy: ir.StringAttr

    def check(self) -> str | None:
        if wrong := flags_complaint(self.flags):
            return wrong
        if (proxy := ir.StringAttr(self.proxy).value) not in PROXIES:
            return f"proxy must be {' or '.join(PROXIES)}, got '{proxy}'"
        return index_complaint([self.index, self.value, self.limit])


def flags_complaint(flags: Any) -> str | None:
    """Why a value isn't memory of flags."""
    kind = flags.type
    if not isinstance(kind, ir.MemRefType) or kind.rank != 1 or str(kind.element_type) != "i32":
        return f"expects flags in a memref of rank 1 of i32, got {kind}"
    if (known := strides(kind)) is None or known[0] != [1]:
        return f"expects contiguous flags, got {kind}"
    return None


def await_flag(flags: Any, index: Any, value: Any, limit: Any, *, proxy: str = "generic") -> None:
    """Builds `tile.await_flag`."""
    build(AwaitFlagOp, operands=[flags, index, value, limit], attributes={"proxy": proxy})

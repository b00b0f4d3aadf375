"""The ops of the `tile` dialect by which kernels of several GPUs wait for each other: flags in memory that
all of them can access.
"""

from weft.dialects.effects import ORDERS, Pure
from weft.dialects.op import Op, Operand, Result, build
from weft.dialects.tile_types import Tile, index_complaint, is_buffer
from weft.errors import WeftError, shown
from weft.mlir import MLIRError, ir, strides

PROXIES = ("generic", "async")


class AwaitFlagOp(Op, dialect=Tile, name="await_flag", traits=[ORDERS]):
    """A thread waits until `flags[index]` has reached `value`: until the difference of the two, a signed
    32-bit integer, isn't negative.

    Afterwards it sees what another GPU, or a stream, wrote before it set the flag. With proxy "generic", this
    applies to its loads and stores; with "async", also to its TMA copies. Other threads see it in loads and
    stores after a barrier with this thread. A wait of more than `limit` milliseconds (i32) ends the kernel
    with an error, by `trap`.
    """

    flags: Operand
    index: Operand
    value: Operand
    limit: Operand
    proxy: ir.StringAttr

    def check(self) -> str | None:
        if wrong := flags_complaint(self.flags):
            return wrong
        if (proxy := ir.StringAttr(self.proxy).value) not in PROXIES:
            return f"proxy must be {' or '.join(PROXIES)}, got '{proxy}'"
        return index_complaint([self.index, self.value, self.limit])


def flags_complaint(flags: ir.Value, what: str = "flags") -> str | None:
    """Why a value isn't memory of flags, or of counters."""
    kind = flags.type
    if not isinstance(kind, ir.MemRefType) or kind.rank != 1 or str(kind.element_type) != "i32":
        return f"expects {what} in a memref of rank 1 of i32, got {kind}"
    if (known := strides(kind)) is None or known[0] != [1]:
        return f"expects contiguous {what}, got {kind}"
    return None


def await_flag(
    flags: ir.Value, index: ir.Value, value: ir.Value, limit: ir.Value, *, proxy: str = "generic"
) -> None:
    """Builds `tile.await_flag`."""
    build(AwaitFlagOp, operands=[flags, index, value, limit], attributes={"proxy": proxy})


class SignalOp(Op, dialect=Tile, name="signal", traits=[ORDERS]):
    """A thread sets `flags[index]` to `value`, after all that it has written, and all that other threads have
    written before a barrier with it, is visible to the system. The flags may be another GPU's.
    """

    flags: Operand
    index: Operand
    value: Operand

    def check(self) -> str | None:
        return flags_complaint(self.flags) or index_complaint([self.index, self.value])


class IsLastOp(Op, dialect=Tile, name="is_last", traits=[ORDERS]):
    """A thread arrives at `counters[index]`, together with others: `count` threads of this GPU in all.

    The result (i1) is whether it is the last of them to arrive. The last thread sees what the others have
    written before they arrived, also to other GPUs, and the counter is 0 again. Counters must be 0 before the
    first launch.
    """

    counters: Operand
    index: Operand
    count: Operand
    last: Result
    returns = ("i1",)

    def check(self) -> str | None:
        if str(self.last.type) != "i1":
            return f"expects to return i1, got {self.last.type}"
        return flags_complaint(self.counters, "counters") or index_complaint([self.index, self.count])


class RemoteOp(Op, dialect=Tile, name="remote", traits=[Pure]):
    """Memory of another GPU that this GPU can access, from an address (i64) on: a contiguous memref of rank
    1, of unknown size, in global memory. A kernel stores to it, and sets flags there; loads are slow.
    """

    address: Operand
    memory: Result

    @staticmethod
    def returns(element: ir.Type) -> list[ir.Type]:
        return [remote_type(element)]

    def check(self) -> str | None:
        if str(self.address.type) != "i64":
            return f"expects an address of i64, got {self.address.type}"
        kind = self.memory.type
        if not isinstance(kind, ir.MemRefType) or kind != remote_type(kind.element_type):
            return f"expects to return memref<?xT, 1>, got {kind}"
        return None


class SendAsyncOp(Op, dialect=Tile, name="send_async", traits=[ORDERS]):
    """One thread starts a copy of a buffer, as it is in shared memory, to elements from `index` on of memory
    of another GPU. Both must begin at multiples of 16 bytes.

    Writes to the buffer need a fence for the async proxy before the copy.
    `nvvm.cp.async.bulk.commit.group` and `nvvm.cp.async.bulk.wait_group` wait until the buffer has been read,
    or the memory written: only then may a flag be raised.
    """

    tile: Operand
    memory: Operand
    index: Operand

    def check(self) -> str | None:
        if not is_buffer(self.tile):
            return f"expects a tile.buffer, got {self.tile.type}"
        element = self.tile.type.element_type
        if self.memory.type != remote_type(element):
            return f"expects memory of type {remote_type(element)}, got {self.memory.type}"
        return index_complaint([self.index])


def remote_type(element: ir.Type) -> ir.Type:
    """The type of memory of another GPU, for elements of a type. Raises WeftError if it can't have them."""
    space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1)
    try:
        return ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element, None, space)
    except (MLIRError, TypeError):
        got = str(element) if isinstance(element, ir.Type) else shown(element)
        raise WeftError(f"element must be an MLIR type that memory can have, got {got}") from None

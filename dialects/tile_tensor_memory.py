"""The ops of the `tile` dialect on tensor memory: its allocation, and copies from shared memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from weft.dialects.effects import ORDERS
from weft.dialects.op import Op, Operand, check_in_a_module, refuse
from weft.dialects.tile_buffers import TENSOR_MEMORY, AllocOp
from weft.dialects.tile_roles import MOST_WARPS, in_region
from weft.dialects.tile_types import (
    TMEM,
    Tile,
    element_complaint,
    group_complaint,
    is_buffer,
    is_tensor_buffer,
)
from weft.errors import WeftError, shown
from weft.isa.tcgen05.control import ALLOC, COLUMNS
from weft.mlir import ext, ir


class TensorMemoryOp(Op, dialect=Tile, name="tensor_memory", traits=[ir.NoTerminatorTrait, ORDERS]):
    """Allocates tensor memory for the buffers of its region, and frees it after the region. All threads of
    the CTA must reach it together. A kernel has at most one.

    Warp number `warp` of the CTA allocates and frees. With `cta_group` 2, both CTAs of each pair must reach
    it, and every `tcgen05` operation of the kernel has that `cta_group`.

    It begins with a barrier of the CTA (with `cta_group` 2, of the cluster), so rings that were made before
    it can be used in the region. It ends with the same barrier. When a thread leaves the region, its own
    accesses to tensor memory must be complete, and so must all MMAs.

    With `reload`, the address is read from shared memory again to free it. So no register has to hold it
    throughout the region, where roles may have few registers.
    """

    body: ext.Region
    optional = {"warp": 0, "cta_group": 1, "reload": False}  # noqa: RUF012

    @property
    def buffers(self) -> list[AllocOp]:
        """The ops that allocate buffers of tensor memory, in order. Those that their own check refuses are
        left out.
        """
        allocs = (op for op in self.body.blocks[0].operations if isinstance(op, AllocOp))
        return [
            op
            for op in allocs
            if len(op.operation.results) == 1
            and is_tensor_buffer(op.buffer)
            and not op.buffer.type.complaint()
        ]

    @property
    def starts(self) -> dict[ir.Value, int]:
        """The first column of each buffer, counted from the first one of the allocation."""
        starts: dict[ir.Value, int] = {}
        total = 0
        for op in self.buffers:
            starts[op.buffer] = next((starts.get(below, 0) for below in op.over), total)
            total = max(total, starts[op.buffer] + op.buffer.type.columns)
        return starts

    @property
    def columns(self) -> int:
        """The columns that the buffers need."""
        return max((start + buffer.type.columns for buffer, start in self.starts.items()), default=0)

    @property
    def allocated(self) -> int:
        """The columns that are allocated: as many as the buffers need, rounded up to a legal number."""
        return next((each for each in COLUMNS if each >= self.columns), COLUMNS[-1])

    def check(self) -> str | None:
        if not 0 <= self.attribute("warp") < MOST_WARPS:
            return f"warp must be in 0..{MOST_WARPS - 1}, got {self.attribute('warp')}"
        if wrong := group_complaint(self):
            return wrong
        if len(self.body.blocks) != 1 or len(self.body.blocks[0].arguments):
            return "expects a region of one block without arguments"
        outer = self.operation.parent
        while outer is not None and outer.name not in (TENSOR_MEMORY, "tile.role"):
            outer = outer.parent
        if outer is not None:
            return f"expects to be reached by all threads of the CTA, got it inside a '{outer.name}'"
        if self.target is not None and self.target.chip.name not in ALLOC.chips():
            chips = ", ".join(sorted(ALLOC.chips()))
            return f"expects a chip with tensor memory ({chips}), got {self.target.chip.name}"
        if self.columns > COLUMNS[-1]:
            each = (f"{op.buffer.type.columns}{' over another' * (len(op.over) > 0)}" for op in self.buffers)
            got = f"{self.columns} ({' + '.join(each)})"
            return f"expects buffers of at most {COLUMNS[-1]} columns, got {got}"
        return None


class CopyTmemOp(Op, dialect=Tile, name="copy_tmem", traits=[ORDERS]):
    """One thread, or a warp that elects one, copies a buffer from shared to tensor memory (`tcgen05.cp`).

    The source must be visible to the async proxy: copied by TMA, or followed by a proxy fence. An MMA that
    the same thread issues later sees the copy; for other threads, and before the source is overwritten, a
    `tile.commit` or `tcgen05.commit` must complete.

    The layouts select the instructions: scales have `weft.isa.tcgen05.tensor_layouts.scales`, and 16 bytes
    for each of 32 rows in shared memory. With `cta_group` 2, both CTAs of a pair copy their own source, which
    has the same address in both; one of them issues.
    """

    source: Operand
    destination: Operand
    optional = {"cta_group": 1}  # noqa: RUF012

    def check(self) -> str | None:
        if not is_buffer(self.source) or not is_buffer(self.destination):
            got = f"{self.source.type} and {self.destination.type}"
            return f"expects a source and a destination that are tile.buffer, got {got}"
        source, destination = self.source.type, self.destination.type
        if source.space != "shared" or destination.space != TMEM:
            spaces = f"'{source.space}' and '{destination.space}'"
            return f"expects a source in 'shared' and a destination in '{TMEM}' memory, got {spaces}"
        if source.shape != destination.shape:
            shapes = f"{list(source.shape)} and {list(destination.shape)}"
            return f"expects a source and a destination of the same shape, got {shapes}"
        if wrong := element_complaint(self.source, self.destination):
            return wrong
        return group_complaint(self)


@contextmanager
def tensor_memory(*, warp: int = 0, cta_group: int = 1) -> Iterator[None]:
    """Builds `tile.tensor_memory`; in the block, ops are built in its region.

    Raises WeftError for attributes that the op doesn't take, and where its buffers don't fit.
    """
    check_in_a_module(TensorMemoryOp)
    stated = {"warp": warp, "cta_group": cta_group}
    for name, value in stated.items():
        if not isinstance(value, int) or abs(value) >= 1 << 31:
            raise WeftError(f"'{TENSOR_MEMORY}' op {name} must be an integer, got {shown(value)}")
    optional = TensorMemoryOp.optional
    chosen = {name: value for name, value in stated.items() if value != optional[name]}
    with in_region(TensorMemoryOp, chosen) as op:
        yield
    if wrong := op.opview.check():
        failure = refuse(op.opview, wrong)
        op.erase()
        raise failure

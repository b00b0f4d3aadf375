"""Products by `tcgen05.mma`, with sums in tensor memory.

Each product has a *region*: columns of tensor memory, for every warpgroup of its role. One thread of a
warpgroup issues the product, and commits it to an mbarrier that all threads of the warpgroup wait for. What a
fragment contributes, as left operand or as sums, is stored to a region before; finished sums are loaded.

A region may be used again when the product that writes, or reads, it was waited for in the loop that started
it. All products of a warpgroup are issued by one thread and end in order, so that it is enough to wait for
the latest of those that must have ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from weft.dialects import tcgen05, tile
from weft.dialects.op import as_attribute
from weft.dialects.tile import BufferType
from weft.errors import Diagnostic, Location, WeftError
from weft.ir import callers
from weft.isa.chips import WARPS, describe
from weft.isa.tcgen05 import tensor_layouts
from weft.isa.tcgen05.mma_rows import I8_CHIPS
from weft.isa.tcgen05.tensor_layouts import COLUMN_BITS, COLUMNS, LANES, PART, SCALES_OF_COLUMN, SHAPE_LANES
from weft.language.capture import trace
from weft.language.messages.mistakes import at, mistake
from weft.language.operations.multipliers import Left, Multiplier, Product, Scales, Sums, check_order
from weft.language.operations.roles import one_thread, warpgroup_barrier
from weft.language.values.buffers import Buffer, Memory, is_packed
from weft.language.values.dtypes import f32
from weft.language.values.fragments import Fragment
from weft.layout import Iter, Layout
from weft.mlir import arith, ir
from weft.passes.builders import emit, registers

MOST_PENDING = 8
"""The barriers of a warpgroup: as many of its latest products can be waited for."""


@dataclass(eq=False)
class Region:
    """Columns of tensor memory of each warpgroup of a role, and the buffers of different types in them."""

    role: trace.Role
    columns: int
    where: Location | None
    first: ir.Value | None = None  # the buffer that allocates them
    buffers: dict[ir.Type, ir.Value] = field(default_factory=dict)
    holder: Product | None = None  # the pending product whose sums are in them


class _Count(trace.Positions):
    """The number of products that the warpgroup has started, which loops and branches carry like the position
    of a ring.
    """

    name = "products"

    def begin(self) -> None:
        self.filled = (emit.value(0),)

    @property
    def number(self) -> ir.Value:
        """How many there are."""
        return self.filled[0]


class TensorProducts(Multiplier):
    """Products by `tcgen05.mma`."""

    row_block = registers.LANE_ROWS

    def __init__(self, current: trace.Trace) -> None:
        self._trace, self._count = current, _Count()
        current.rings.append(self._count)
        reload = {"reload": as_attribute(True)}
        name = tile.TensorMemoryOp.OPERATION_NAME
        self._memory = ir.Operation.create(name, attributes=reload, regions=1, ip=False)  # begin() inserts it
        with ir.InsertionPoint(self._memory.regions[0].blocks.append()):
            self._marker = arith.constant(emit.i32(), 0).owner  # before which its buffers are
        self._point: ir.InsertionPoint | None = None  # from begin() on
        self._rings = dict[int, ir.Value]()  # of products that end, by the first warpgroup of a role
        self._free = list[Region]()
        self._operands = list[tuple[int, int, Region]]()  # that products read: their groups, and loops
        self._regions = list[Region]()
        self._scales = dict[object, ir.Value]()  # the buffers of block scales

    # The memory of the kernel

    def begin(self) -> None:
        if self._trace.cta_group > 1:
            self._memory.attributes["cta_group"] = as_attribute(self._trace.cta_group)
        ir.InsertionPoint.current.insert(self._memory)
        self._point = self._trace.enter(self._memory.regions[0].blocks[0])

    def finish(self) -> None:
        if self._point is None:
            return
        self._trace.leave(self._point)
        columns = self.columns
        if columns > COLUMNS:
            message = (
                f"the products of a CTA have {COLUMNS} columns of tensor memory, got {columns}: use tiles of "
                "fewer columns, or wait for products before others start"
            )
            raise WeftError(Diagnostic(message, self._regions[-1].where))

    @property
    def columns(self) -> int:
        return int(self._memory.opview.columns)

    def allocate(self, kind: ir.Type, over: ir.Value | None) -> ir.Value:
        self.rows_in_threads = True
        with ir.InsertionPoint(self._marker):
            return tile.alloc(kind, over=over)

    def _taken(self, shape: Sequence[int], element: ir.Type) -> tuple[Region, ir.Value]:
        """A region that nothing uses, and the buffer of this shape and type in it."""
        role = self._trace.role
        assert role is not None
        # Blocks of rows lie beside each other.
        blocks = shape[0] // (LANES if shape[0] % LANES == 0 else LANES // 2)
        columns = shape[1] * element.width // COLUMN_BITS * blocks
        if columns > COLUMNS:
            raise mistake(
                f"{shape[0]} x {shape[1]} numbers of {element} take {columns} columns of tensor memory, and "
                f"a CTA has {COLUMNS}: use smaller tiles"
            )
        fitting = [each for each in self._free if each.role is role and each.columns >= columns]
        if fitting:
            region = min(reversed(fitting), key=lambda each: each.columns)
            self._free.remove(region)
        else:
            region = Region(role, columns, callers.here())
            self._regions.append(region)
        return region, self.buffer(region, shape, element)

    def buffer(self, region: Region, shape: Sequence[int], element: ir.Type) -> ir.Value:
        """The buffer of this shape and type in a region, for the warpgroup."""
        kind = _buffer_type(region, shape, element)
        if kind not in region.buffers:
            with ir.InsertionPoint(self._marker):
                region.buffers[kind] = tile.alloc(kind, over=region.first)
            region.first = region.first or region.buffers[kind]
        return tile.stage(region.buffers[kind], region.role.number)

    # Products

    def start(
        self, a: Left, b: Buffer, sums: Sums, kind: ir.Type, scales: Scales = None
    ) -> tuple[None, Region]:
        if self._trace.cta_group > 1:
            raise mistake(
                "products of pairs are started by one thread: write w.gemm(a, b, sums), with sums in tensor "
                "memory, in 'with w.one_thread(pair=True):'"
            )
        check_operands(a, b, scales)
        if sums is not None and not isinstance(sums, Fragment):
            _check_held(sums)
            region = sums.region
            d = self.buffer(region, kind.shape, kind.element_type)
        else:
            region, d = self._taken(kind.shape, kind.element_type)
            if sums is not None:
                _store(sums, d)
        stores = isinstance(a, Fragment) or isinstance(sums, Fragment)
        left = self._operand(a) if isinstance(a, Fragment) else a.value
        if stores:
            tcgen05.fence(kind="before_thread_sync")
            warpgroup_barrier()
        with one_thread():
            if stores:
                tcgen05.fence(kind="after_thread_sync")
            accumulates = arith.constant(emit.i1(), int(sums is not None))
            tile.gemm_async(
                *(left, b.value, d, accumulates, *self.load_scales(scales)),
                transpose_a=isinstance(a, Buffer) and a.transposed,
                transpose_b=b.transposed,
            )
            tile.commit(self._ring(), self._slot(self._count.number)[0])
        self._count.filled = (emit.value(emit.add(self._count.number, 1)),)
        return None, region

    def load_scales(self, scales: Scales) -> list[ir.Value]:
        """Block scales that the thread copies to tensor memory for its next product, after its last one."""
        loaded = list[ir.Value]()
        for number, each in enumerate(scales or ()):
            role, kind = self._trace.role, each.value.type
            assert role is not None
            key = role.first, self._trace.warp, number, kind
            if key not in self._scales:
                layout = Layout.parse(tensor_layouts.scales(*kind.shape))
                step = prod(kind.shape) // LANES * SCALES_OF_COLUMN
                of_all = replace(layout, shard=(Iter(role.warpgroups, step, "TCol"), *layout.shard))
                with ir.InsertionPoint(self._marker):
                    self._scales[key] = tile.alloc(
                        BufferType.of((role.warpgroups, *kind.shape), kind.element_type, of_all, "tmem")
                    )
            buffer = tile.stage(self._scales[key], role.number)
            tile.copy_tmem(each.value, buffer, cta_group=self._trace.cta_group)
            loaded.append(each.part(buffer))
        return loaded

    def _operand(self, a: Fragment) -> ir.Value:
        """The buffer with a fragment as left operand of the next product."""
        region, buffer = self._taken(a.shape, a.dtype.type)
        region.holder = None
        _store(a, buffer)
        self._operands.append((self._trace.groups + 1, self._trace.loops, region))
        return buffer

    def wait(self, products: list[Product], pending: int) -> list[ir.Value]:
        self._trace.check_whole_in_role("w.wait")
        if pending >= MOST_PENDING:
            raise mistake(f"pending must be less than {MOST_PENDING} on this chip, got {pending}")
        for each in products:
            _check_held(each)
        self._await(pending)
        loaded, zero = list[ir.Value](), emit.value(0)
        for each in products:
            d = self.buffer(each.region, each.kind.shape, each.kind.element_type)
            loaded.append(tile.load(d, zero, zero, each.kind))
        if products:
            tcgen05.fence(kind="before_thread_sync")
        # One thread issues later products, which may overwrite what all have loaded. One thread releases
        # stages, which could be full again before the last warp has waited for them.
        warpgroup_barrier()
        if products:
            tcgen05.fence(kind="after_thread_sync")
        loops, groups = self._trace.loops, self._trace.groups
        free = [each.region for each in products if each.loops == loops]
        self._free += [each for each in free if each not in self._free]
        self._release([each for each in self._operands if each[1] == loops and groups - each[0] >= pending])
        return loaded

    def _release(self, operands: list[tuple[int, int, Region]]) -> None:
        """Lets the regions of operands be used again."""
        self._operands = [each for each in self._operands if each not in operands]
        self._free += [region for _, _, region in operands]

    def _await(self, pending: int) -> None:
        number = emit.sub(self._count.number, 1 + pending)
        tile.await_(self._ring(), *self._slot(number))

    def _slot(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The stage and the phase of a product in the ring of those that end."""
        role = self._trace.role
        assert role is not None
        stage = emit.add(emit.mul(role.number, MOST_PENDING), emit.bit_and(number, MOST_PENDING - 1))
        turn = arith.shrsi(emit.value(number), emit.value(MOST_PENDING.bit_length() - 1))
        return emit.value(stage), emit.bit_and(turn, 1)

    def _ring(self) -> ir.Value:
        role = self._trace.role
        assert role is not None
        if role.first not in self._rings:
            with self._trace.before_roles():
                self._rings[role.first] = tile.make_ring(
                    MOST_PENDING * role.warpgroups, consumers=1, filled_by="mma", emptied_by="warps"
                )
        return self._rings[role.first]

    # What is known

    def end_body(self) -> None:
        """The next iteration may store to what products of this one still read."""
        unfinished = [each for each in self._operands if each[1] >= self._trace.loops]
        if unfinished:
            self._await(0)
        self._release(unfinished)

    def known(self) -> object:
        holders = {each: each.holder for each in self._regions}
        return list(self._free), list(self._operands), holders

    def restore(self, known: Any) -> None:
        free, operands, holders = known
        self._free, self._operands = list(free), list(operands)
        for region in self._regions:
            region.holder = holders.get(region)

    def merge(self, other: Any) -> None:
        free, operands, holders = other
        self._free = [each for each in self._free if each in free or each not in holders]
        self._operands += [each for each in operands if each not in self._operands]
        for region, holder in holders.items():
            region.holder = holder if region.holder is holder else None


def check_operands(a: Left | Memory, b: Buffer, scales: Scales = None) -> None:
    """Raises WeftError for operands that no product on this chip has."""
    if b.dtype == f32 or min(a.dtype.bits, b.dtype.bits) < 8:
        check_order(a, b)
    if scales is None and is_packed(b):
        raise mistake(
            f"w.gemm of {b.dtype} and {b.dtype} needs a_scales and b_scales: w.block_scales makes their "
            "buffers in the ring"
        )
    chip = trace.current().chip
    if not b.dtype.is_float and chip not in I8_CHIPS:
        raise mistake(
            f"w.gemm of {b.dtype} needs {describe(I8_CHIPS)} among chips with tcgen05, got {chip}: use "
            "w.warp_gemm"
        )


def _check_held(product: Product) -> None:
    """Raises WeftError for a product whose sums were overwritten."""
    if product.region.holder is not product:
        raise mistake(
            f"later products were added to the sums of this one{at(product.where)}, or overwrote them: use "
            "the latest, or wait for this one before they start",
            ("the product starts here", product.where),
        )


def _store(fragment: Fragment, buffer: ir.Value) -> None:
    tile.store(fragment.value, buffer, emit.value(0), emit.value(0))


def _buffer_type(region: Region, shape: Sequence[int], element: ir.Type) -> ir.Type:
    """The type of the tiles of a region's warpgroups. Two of them with 64 rows each share columns, as each
    needs only half of the lanes.
    """
    (rows, columns), count = shape, region.role.warpgroups
    of_column = COLUMN_BITS // element.width
    if rows % LANES == 0:
        lanes, block = [Iter(LANES, 1, "TLane")], LANES
    else:
        lanes, block = [Iter(WARPS, PART, "TLane"), Iter(SHAPE_LANES, 1, "TLane")], LANES // 2
    if block < LANES and count == 2:
        warpgroup = Iter(count, SHAPE_LANES, "TLane")
    else:
        warpgroup = Iter(count, region.columns * of_column, "TCol")
    down = [Iter(rows // block, columns, "TCol")] if rows > block else []
    layout = Layout((warpgroup, *down, *lanes, Iter(columns, 1, "TCol")))
    return BufferType.of((count, rows, columns), element, layout, "tmem")

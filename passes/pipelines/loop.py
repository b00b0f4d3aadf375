"""A plain loop with products, and whether it can be pipelined."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any

from weft import mlir
from weft.dialects import launch_contract as contract
from weft.dialects import tile
from weft.dialects.element_types import PTX_INPUTS
from weft.dialects.op import Related, refuse
from weft.dialects.schedule import SWIZZLES
from weft.dialects.tile import BroadcastOp, GemmOp, LoadOp, ReduceOp, StoreOp, is_fragment, is_free
from weft.dialects.tile_copies import BOTH, ZERO
from weft.dialects.tile_types import is_memref
from weft.isa.async_copy import CP_ASYNC
from weft.isa.chips import CHIPS, describe
from weft.isa.tcgen05.pairs import PAIR
from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, ir, memref, operations, scf
from weft.passes.analysis.factors import factor
from weft.passes.assign_layouts import same_layout
from weft.passes.builders import emit, thread_ids

_MOST_STAGES = 4
"""The stages of a loop without the attribute `stages`. Any loop has fewer where they don't fit."""
_DEEPEST = 12
"""How far values are followed: each may be an operand of many others."""
_OTHER_BYTES = 1024
"""Shared memory for barriers and alignment."""
_STEP_BYTES = 32
"""Bytes of a row of A that an instruction multiplies."""
_DIVISIBLE = (
    *("arith.", "math.", "scf.", "tensor.splat", emit.SIGN_CAST, "tile.gemm", "tile.load", "tile.store"),
    *("tile.broadcast", "tile.coordinate", "tile.yield", "memref.dim", "memref.load", "memref.subview"),
    *("gpu.block_id", "gpu.grid_dim", "gpu.func", "gpu.return"),
)
"""Operations, or beginnings of their names, of which any number of agents can do a part each."""


class Load:
    """A load whose tiles are A or B of products, and go through stages."""

    buffer: ir.Value
    """The stages."""
    map: ir.Value
    """The matrix, for TMA."""
    aligned: bool
    """Whether the matrix's rows begin at multiples of 16 bytes."""
    first: tuple[ir.Value | int, ir.Value | int] = (0, 0)
    """Where in the tile the part begins that the CTA loads."""

    def __init__(self, op: LoadOp, is_b: bool) -> None:
        self.op, self.transposed = op, bool(op.attribute("transpose"))
        self.matrix, self.indices = _member(op.source)  # an array, and which of its matrices
        self.number, self.k_major = int(is_b), self.transposed == is_b
        self.element = op.fragment.type.element_type
        self.shape = op.fragment.type.shape[:: -1 if self.transposed else 1]  # in the matrix
        self.bytes = prod(self.shape) * self.element.width // 8
        self.edges = [ZERO if _is_natural(each) else BOTH for each in (op.row, op.column)]

    @property
    def by_vectors(self) -> bool:
        """Whether the parts of rows in a tile begin at multiples of 16 bytes."""
        return self.aligned and factor(self.op.column) * self.element.width % (8 * ROW_BYTES) == 0

    def complaints(self) -> Iterator[tuple[ir.OpView, str]]:
        """What keeps tiles from going through stages."""
        if not is_free(self.op.fragment):
            yield self.op, "loads a tile with a layout, and products of loaded tiles decide on theirs"
        unit = 8 * min(SWIZZLES) // self.element.width
        if self.shape[1] % unit:
            what = f"loads {self.shape[1]} columns of an array, which must be a multiple of {unit}"
            yield self.op, f"{what}: use {-(-self.shape[1] // unit) * unit}"
        for each in self.op.fragment.uses:
            if not isinstance(each.owner.opview, GemmOp) or each.operand_number != self.number:
                what = "reads a tile that a product reads from shared memory: load it a second time"
                yield each.owner.opview, what

    def stage(self, number: ir.Value) -> ir.Value:
        """The tile in a stage."""
        return tile.stage(self.buffer, number)


class Loop:
    """A loop in a kernel, with its products and the loads for them."""

    def __init__(self, kernel: Any, op: Any, products: list[GemmOp]) -> None:
        self.kernel, self.op, self.products = kernel, op, products
        self.chip = products[0].target.chip.name if products[0].target else ""
        body, right = [each.operation for each in op.body.operations], {each.b for each in products}
        read = {each.a for each in products} | right
        found = [each.opview for each in body if isinstance(each.opview, LoadOp) and each.results[0] in read]
        self.loads = {each.fragment: Load(each, each.fragment in right) for each in found}
        arguments = list(kernel.body.blocks[0].arguments)
        bytes_ = contract.ALIGNED.of(kernel) or [ROW_BYTES] * len(arguments)
        aligned = [each for each, known in zip(arguments, bytes_, strict=False) if known % ROW_BYTES == 0]
        for load in self.loads.values():
            load.aligned = load.matrix in aligned
        self.bytes = sum(each.bytes for each in self.loads.values())  # of a stage
        self.needed = {value for each in found for value in (each.source, each.row, each.column)}
        self.coordinates = _slice(body, self.needed)
        """The operations of the body that compute where tiles are in their matrices."""
        outer = op.operation.parent.opview
        self.around = outer if isinstance(outer, scf.ForOp) else None
        """A loop over tiles of sums around it."""
        self.needed |= set(op.operands[:3]) if self.around else set()
        around = self.around.body.operations if self.around else ()
        self.before = _slice([each.operation for each in around], self.needed)
        """The operations of that loop's body by which the bounds and the coordinates are computed."""
        self.of_rows = _vectors_of_rows(mlir.within(kernel))

    @staticmethod
    def of(kernel: Any, products: list[GemmOp]) -> "Loop":
        """The loop of a kernel with these products of tiles without layouts. Raises WeftError for one that
        can't be pipelined.
        """
        op = products[0].operation.parent.opview
        if not isinstance(op, scf.ForOp):
            raise refuse(products[0], "multiplies loaded tiles, which must be in a loop: w.range(0, K, …)")
        loop = Loop(kernel, op, products)
        for wrong, what in loop._complaints():
            note = "the product of loaded tiles, which --pipeline-loops divides"
            raise refuse(wrong, Related(what, products[0], note))
        return loop

    def _complaints(self) -> Iterator[tuple[ir.OpView, str]]:
        """What keeps the loop from being pipelined, and why."""
        op = self.op
        if self.chip not in CP_ASYNC.chips():
            chip = self.chip or "a gpu.module without a target"
            needed = describe(CP_ASYNC.chips())
            yield self.products[0], f"needs cp.async, {needed}, got {chip}: multiply buffers in a role"
        for each in (op, self.holder):
            if each.induction_variable.type != emit.i32():
                yield each, "must count in i32, as its tiles' coordinates do"
        if self.holder.operation.parent != self.kernel.operation or (self.around and self.around.results):
            yield (
                op,
                "has products of loaded tiles, but is neither in the kernel itself nor in a loop over tiles: "
                "take it out of roles and branches, or multiply stages of a ring",
            )
        for each in self.products:
            if each.operation.parent != op.operation:
                what = "multiplies loaded tiles outside of the kernel's first loop that does"
                yield each, f"{what}: join the loops, or multiply stages of a ring in a role"
            if each.b not in self.loads:
                yield (
                    each,
                    "multiplies by a tile that the loop doesn't load from an array: only A may be computed; "
                    "or store B to a stage of a ring, in a role",
                )
            if each.attribute("alpha") != 1.0:
                yield each, f"must have alpha 1.0, got {each.attribute('alpha')}"
        for load in self.loads.values():
            yield from load.complaints()
        if self.needed & set(op.inner_iter_args):
            yield (
                op,
                "carries a value by which it computes where tiles are: compute that from the loop's number",
            )
        if any(list(each.regions) for each in (*self.coordinates, *self.before)):
            yield op, "computes where tiles are by branches or loops"
        for each in mlir.within(self.kernel):
            if not self._may_divide(each):
                what = "can't be divided among the warps of a product of loaded tiles, as loads, stores and"
                yield each.opview, f"{what} operations by element and by row can: write roles"
        if self.stages < 2:
            text = f"loads {self.bytes} bytes in an iteration, and {self.room} of shared memory must hold two"
            yield op, f"{text}: use smaller tiles"

    def share_columns(self) -> None:
        """Lets each CTA of a pair load half of the columns of B."""
        for each in self.loads.values():
            if each.number == 0:
                continue
            half, along = each.op.fragment.type.shape[1] // PAIR, int(not each.transposed)
            each.shape = tuple(half if axis == along else size for axis, size in enumerate(each.shape))
            first = emit.mul(emit.rem(thread_ids.cluster_rank(), PAIR), half)
            each.first = (0, first) if along else (first, 0)
            self.bytes -= each.bytes // PAIR
            each.bytes //= PAIR
        for name in ("stages", "reserved"):
            self.__dict__.pop(name, None)

    @property
    def holder(self) -> Any:
        """The loop directly in the kernel."""
        return self.around or self.op

    def _may_divide(self, op: ir.Operation) -> bool:
        """Whether any number of threads can each do an operation for a part of its tiles."""
        view = op.opview
        if any(map(is_fragment, op.results)):
            return False
        if isinstance(view, arith.ConstantOp):
            return not is_free(view.result) or view.value.is_splat
        if isinstance(view, ReduceOp):
            return bool(view.attribute("axis") == 1)
        if isinstance(view, StoreOp):
            read = [each.matrix for each in self.loads.values()]
            return is_memref(view.destination) and _member(view.destination)[0] not in read
        if isinstance(view, LoadOp) and view.fragment not in self.loads:
            return is_memref(view.source) and not view.attribute("transpose")
        return op.name.startswith(_DIVISIBLE)

    @staticmethod
    def adds(product: GemmOp) -> bool:
        """Whether a product is added to something other than zeros."""
        return product.attribute("beta") != 0.0 and mlir.splat(product.c[0]) != 0

    def adds_to(self, product: GemmOp) -> int | None:
        """The number of the carried sums to which a product is added, if nothing else uses them, and they are
        zeros before the loop; otherwise None.
        """
        for number, sums in enumerate(self.op.inner_iter_args):
            if product.attribute("beta") and product.c[0] == sums and len(list(sums.uses)) == 1:
                uses = [(use.owner.name, use.operand_number) for use in product.d.uses]
                zeros = mlir.splat(self.op.operands[3 + number]) == 0
                return number if zeros and uses == [("scf.yield", number)] else None
        return None

    def computes(self, value: ir.Value) -> bool:
        """Whether the loop computes a value, so that the next iteration overwrites its registers."""
        home = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
        return bool(home == self.op.body)

    def loads_of(self, product: GemmOp) -> list[Load]:
        """The loads of the tiles of a product."""
        return [self.loads[each] for each in (product.a, product.b) if each in self.loads]

    def reads(self, product: GemmOp) -> bool:
        """Whether TMA can load the tiles of a product, and `wgmma` and `tcgen05.mma` can read them where they
        are: stages of K-major tiles, and with elements of 16 bits any stages, or A in registers.
        """
        loads = [self.loads.get(each) for each in (product.a, product.b)]
        wide = product.a.type.element_type.width == 16
        return all(each.by_vectors for each in loads if each is not None) and (
            wide or all(each is not None and each.k_major for each in loads)
        )

    def divides(self, m: int, n: int, across: int) -> bool:
        """Whether all tiles, except for those in stages, can be divided as those of m x n are: they have m
        rows, and n columns or any if they aren't divided `across`. Then rows can be reduced.
        """
        ops = mlir.within(self.kernel)
        tiles = [each for op in ops for each in tiles_of(op) if each not in self.loads]
        shapes = [tuple(each.type.shape) for each in tiles if len(each.type.shape) > 1]
        vectors = [each for each in tiles if len(each.type.shape) == 1]
        beside = {
            op.opview.vector for op in ops if isinstance(op.opview, BroadcastOp) and op.opview.axis.value == 0
        }
        return (
            all(shape[0] == m and (across == 1 or shape[1] == n) for shape in shapes)
            and all(each.type.shape[0] == m for each in vectors if each in self.of_rows)
            and not self.of_rows & beside
            and (across == 1 or not operations(self.kernel, ReduceOp))
        )

    @property
    def room(self) -> int:
        """Bytes of shared memory for tiles."""
        return CHIPS[self.chip].shared_bytes - _OTHER_BYTES

    @cached_property
    def stages(self) -> int:
        """How many stages there are."""
        asked = self.op.attributes["stages"].value if "stages" in self.op.attributes else _MOST_STAGES
        return int(min(asked, (self.room - self.reserved) // self.bytes))

    @property
    def stores(self) -> list[StoreOp]:
        """The stores of tiles that come after the loop."""
        ops = [each.operation for each in self.kernel.body.blocks[0].operations]
        inside = [each.operation for each in operations(self.op, StoreOp)]
        found = [each for op in ops[ops.index(self.holder.operation) :] for each in operations(op, StoreOp)]
        return [each for each in found if each.operation not in inside]

    @cached_property
    def reserved(self) -> int:
        """Bytes for tiles that are stored while stages are filled; 0 if there is too little memory."""
        kinds = [each.fragment.type for each in self.stores if self.around]
        bytes_ = sum(prod(kind.shape) * kind.element_type.width // 8 for kind in kinds)
        return bytes_ if bytes_ + 2 * self.bytes <= self.room else 0

    def places(self, k: ir.Value, outer: dict[ir.Value, ir.Value]) -> list[tuple[Load, list[Any]]]:
        """Where the tiles of the loads are in the iteration of a number: the matrix, the row, the column, and
        the indices of the matrix in its array. `outer` has values of the loop around.
        """
        values = outer | {self.op.induction_variable: k}
        for op in self.coordinates:
            mlir.clone(op, values)
        places = [(each, [*list(each.op.operands)[:3], *each.indices]) for each in self.loads.values()]
        return [(each, [values.get(value, value) for value in place]) for each, place in places]


def _slice(ops: Sequence[ir.Operation], needed: set[ir.Value]) -> list[ir.Operation]:
    """Those of the operations by which values are computed. What they take is added to the values."""
    found = list[ir.Operation]()
    for each in reversed(ops):
        if needed & set(each.results):
            found.insert(0, each)
            needed |= set(each.operands)
    return found


def _member(matrix: ir.Value) -> tuple[ir.Value, list[ir.Value | int]]:
    """The array of which this is one matrix, and its indices there; a matrix that is no such part, itself."""
    view = None if isinstance(matrix.owner, ir.Block) else matrix.owner.opview
    if not isinstance(view, memref.SubViewOp):
        return matrix, []
    outer, any_ = view.source.type.rank - 2, ir.ShapedType.get_dynamic_size()
    sizes = [each.owner.opview for each in view.sizes if not isinstance(each.owner, ir.Block)]
    whole = [(each.source, mlir.constant(each.index)) for each in sizes if isinstance(each, memref.DimOp)]
    is_member = (
        list(view.static_offsets)[outer:] == [0, 0]
        and list(view.static_sizes) == [*[1] * outer, any_, any_]
        and set(view.static_strides) == {1}
        and whole == [(view.source, outer), (view.source, outer + 1)]
    )
    given = iter(view.offsets)
    indices = [next(given) if each == any_ else each for each in list(view.static_offsets)[:outer]]
    return (view.source, indices) if is_member else (matrix, [])


def _vectors_of_rows(ops: Sequence[ir.Operation]) -> set[ir.Value]:
    """The vectors with an element for each row of tiles; others have one for each column."""
    views = [op.opview for op in ops]
    known = [each for each in views if isinstance(each, ReduceOp | BroadcastOp)]
    found, before = {each.vector for each in known if each.axis.value == 1}, -1
    groups = [set(filter(is_free, values)) for each in views for values in same_layout(each)]
    while len(found) > before:
        before = len(found)
        for values in groups:
            if values & found:
                found |= values
    return found


def _is_natural(number: ir.Value, depth: int = _DEEPEST) -> bool:
    """Whether a number is known to be at least 0, by sums and the like of at most this depth."""
    owner = number.owner
    if isinstance(owner, ir.Block):  # that of a loop is at least its first one
        loop, is_first = owner.owner.opview, ir.BlockArgument(number).arg_number == 0
        return isinstance(loop, scf.ForOp) and is_first and _is_natural(loop.operands[0], depth)
    if (constant := mlir.constant(number)) is not None:
        return constant >= 0
    return owner.name in ("gpu.block_id", "memref.dim") or (
        depth > 0
        and owner.name in ("arith.addi", "arith.muli", "arith.divui", "arith.remui", "arith.index_cast")
        and all(_is_natural(each, depth - 1) for each in owner.operands)
    )


def tiles_of(op: ir.Operation) -> list[ir.Value]:
    """The tiles that an operation returns or passes to its regions."""
    passed = [each for region in op.regions for block in region.blocks for each in block.arguments]
    return [each for each in (*op.results, *passed) if is_free(each)]


def touches_tiles(op: ir.Operation) -> bool:
    """Whether an operation, or one in it, takes or returns tiles."""
    return any(any(map(is_free, (*each.operands, *tiles_of(each)))) for each in mlir.within(op))


def types_of(product: GemmOp) -> tuple[str, str, str, int]:
    """The types of A, B and the sums of an instruction that multiplies such tiles, and its K."""
    a, b = (PTX_INPUTS.get(name, name) for name in product.elements)
    sums = str(product.d.type.element_type).replace("i32", "s32")
    return a, b, sums, 8 * _STEP_BYTES // product.a.type.element_type.width

"""`tile.epilogue`: what a `tile.matmul` does to its sums, as a function of one element."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.dialects.effects import Pure, reads, writes
from weft.dialects.op import Op, Operand, Result, Within, build, check_in_a_module
from weft.dialects.operand_roles import ADDED_TYPES, OUTPUT_TYPES
from weft.dialects.tile_types import Tile, matrix_complaint
from weft.errors import WeftError, shown
from weft.isa.family import choice
from weft.isa.mma.fragments import REGISTER_BITS
from weft.mlir import ext, ir

EPILOGUE = "tile.epilogue"
REDUCE = "tile.reduce"
SUMS = ("f32", "i32", "f64")
KINDS = ("#vector.kind<add>", "#vector.kind<maximumf>")
AT_ONCE = 16
"""Elements of D that a lane computes at a time, at most if its fragment allows it."""
NUMBERS = (*SUMS, "f16", "bf16", "index", "i1", "i8", "i16", "i64")
_DIALECTS = ("arith", "math")
_APPROXIMATIONS = tuple(
    f"nvvm.{name}" for name in ("ex2", "rcp.approx.ftz.f", "sqrt", "sqrt.approx", "rsqrt", "sin", "cos")
)


class FunctionType(Tile.Type, name="function"):
    """The function of a `tile.epilogue`."""


@dataclass(frozen=True)
class Needs:
    """What an epilogue needs of a kernel: what it loads, what it stores beside D, and whether it only rounds
    the sums, or only multiplies them by a number that all share.
    """

    loads: "tuple[LoadElementOp, ...]" = ()
    stores: "tuple[StoreElementOp, ...]" = ()
    only_rounds: bool = True
    only_scales: bool = True

    @property
    def matrices(self) -> list[ir.Value]:
        """The matrices from which it loads an element for each one of D."""
        return list(dict.fromkeys(load.source for load in self.loads if load.axes == "MN"))

    @property
    def registers(self) -> int:
        """Registers of a lane for what is loaded, stored and reduced beside D at a time."""
        memrefs = *self.matrices, *(store.destination for store in self.stores)
        return sum(AT_ONCE * int(each.type.element_type.width) // REGISTER_BITS for each in memrefs)


class EpilogueOp(Op, dialect=Tile, name="epilogue", traits=[Pure]):
    """The function that a `tile.matmul` applies to its sums: its operand `epilogue`.

    The region computes one element of D. Its arguments are the element's sum (f32; i32 for integers, f64 for
    f64), which is A @ B, or `alpha * A @ B + beta * C` if the product has an alpha or a C, and its row and
    its column (index). It yields the element in the type of the sum; the kernel rounds it to the type of D.
    Each `tile.store_element` makes a further result.

    The region may use `tile.load_element`, scalar operations of arith and math, and these of nvvm: ex2,
    rcp.approx.ftz.f, sqrt, sqrt.approx, rsqrt, sin and cos. Constants and scalar arguments of the function
    may be outside of it. The kernel computes several elements at a time, with vectors. It loads from each
    matrix at once what a group of elements needs, and computes once for all elements of a tile what depends
    on none of the arguments.
    """

    body: ext.Region
    function: Result

    def check(self) -> str | None:
        if not isinstance(self.function.type, FunctionType):
            return f"expects to return a !tile.function, got {self.function.type}"
        if len(self.body.blocks) != 1:
            return f"expects a region of one block, got {len(self.body.blocks)}"
        kinds = [str(argument.type) for argument in self.block.arguments]
        if len(kinds) != 3 or kinds[0] not in SUMS or kinds[1:] != ["index", "index"]:
            legal = f"the sum ({choice(SUMS)}), the row (index) and the column (index)"
            return f"expects a region of {legal}, got ({', '.join(kinds)})"
        operations = list(self.block.operations)
        if not operations or not isinstance(operations[-1], YieldOp):
            return "expects its region to end with tile.yield"
        return next((Within(wrong, op) for op in operations if (wrong := foreign(op))), None)

    @property
    def block(self) -> ir.Block:
        """The block of the region."""
        return self.body.blocks[0]

    @property
    def sum(self) -> ir.Value:
        """The argument for the sum."""
        return self.block.arguments[0]

    @property
    def result(self) -> ir.Value:
        """The value that the region yields."""
        *_, last = self.block.operations
        return last.element

    @property
    def stores(self) -> "tuple[StoreElementOp, ...]":
        """The stores of further results, in order."""
        return tuple(op for op in self.block.operations if isinstance(op, StoreElementOp))

    @property
    def needs(self) -> Needs:
        """What the epilogue needs of a kernel."""
        loads = tuple(op for op in self.block.operations if isinstance(op, LoadElementOp))
        stores = self.stores
        rounds = not stores and bool(self.result == self.sum)
        return Needs(loads, stores, rounds, rounds or (not stores and self._is_scaled))

    @property
    def _is_scaled(self) -> bool:
        """Whether the result is the sum, multiplied by a number that all elements share."""
        varying, product = self.varying, self.result.owner
        if isinstance(product, ir.Block) or product.name != "arith.mulf" or self.result not in varying:
            return False
        others = [each for each in product.operands if each != self.sum]
        return len(others) == 1 and others[0] not in varying

    @property
    def varying(self) -> set[ir.Value]:
        """The values that differ from element to element."""
        found = set(self.block.arguments)
        for op in self.block.operations:
            if not found.isdisjoint(op.operation.operands):
                found.update(op.operation.results)
        return found


def foreign(op: ir.OpView) -> str | None:
    """Why an operation can't be part of an epilogue."""
    if isinstance(op, LoadElementOp | StoreElementOp | YieldOp):
        return None
    name = op.operation.name
    if name.partition(".")[0] not in _DIALECTS and name not in _APPROXIMATIONS:
        legal = f"tile.load_element, tile.store_element, arith, math, {', '.join(_APPROXIMATIONS)}"
        return f"can't have '{name}' in its region: it computes one element by {legal}"
    for value in (*op.operation.operands, *op.operation.results):
        if str(value.type) not in NUMBERS:
            legal = f"scalars of {choice(NUMBERS)}"
            return f"expects {legal} for '{name}' in its region, got {value.type}"
    return None


class LoadElementOp(Op, dialect=Tile, name="load_element", traits=[reads("source")]):
    """The element of a memref that belongs to the element of D that a `tile.epilogue` computes.

    Indices are arguments of the region: row and column for a matrix as large as D, the row for a vector with
    an element for each row, the column for one with an element for each column. Without indices, it is the
    only element of a `memref<1x...>`. A memref with one more dimension in front has a matrix, a vector or an
    element for each product of a batch (for each B, if rows of A select one).

    The element is converted to the type of the sum. Vectors and single elements can't be of fp8.
    """

    source: Operand
    indices: Sequence[Operand]
    element: Result

    @property
    def axes(self) -> str:
        """The dimensions of the indices: "MN", "M", "N" or "" (the row is of M)."""
        return _axes(self.indices)

    @property
    def is_of_each(self) -> bool:
        """Whether the memref has a part for each product of a batch."""
        kind = self.source.type
        return bool(kind.rank > len(self.axes)) and (len(self.axes) > 0 or list(kind.shape) != [1])

    @property
    def sizes(self) -> list[str]:
        """The names of the memref's sizes: "products", "M", "N"; none for a single element."""
        return ["products"] * self.is_of_each + list(self.axes)

    def check(self) -> str | None:
        if not (arguments := _arguments(self)):
            return f"must be in a {EPILOGUE}"
        if list(self.indices) not in (arguments[1:3], arguments[1:2], arguments[2:3], []):
            return "expects the row and the column of its region as indices, one of them, or none"
        count = len(self.indices)
        legal = OUTPUT_TYPES if count == 2 else ADDED_TYPES
        ranks = (count, count + 1) if count else (1,)
        if wrong := matrix_complaint("the source", self.source, legal, *ranks):
            return wrong
        kind = str(self.element.type)
        if self.element.type != arguments[0].type:
            return f"expects to return {arguments[0].type}, the type of the sum, got {kind}"
        if _sum_of(self.source) != kind:
            return f"expects elements that {kind} holds, got {self.source.type}"
        return None


class StoreElementOp(Op, dialect=Tile, name="store_element", traits=[writes("destination")]):
    """A further result of a product, beside D, from the region of a `tile.epilogue`.

    With the row and the column of the region as indices, the memref has the shape of D, and `value` is its
    element, rounded to its type. With one of them, the memref is a vector of f32 (for each product of a
    batch), and the op has a `kind`: the values of each row, or of each column, are combined with each other
    and with the element that was there before, so that the caller sets it, to 0 or minus infinity, for
    example. The order isn't fixed: sums may differ in their last bits between launches. The kind is
    `#vector.kind<add>` or `#vector.kind<maximumf>`.

    Nothing else of the product uses the memref.
    """

    value: Operand
    destination: Operand
    indices: Sequence[Operand]
    optional = {"kind": None}  # noqa: RUF012

    @property
    def reduced(self) -> int | None:
        """The dimension of D along which values are combined: 0 for rows; None if they aren't."""
        return None if len(self.indices) == 2 else "NM".index(_axes(self.indices))

    @property
    def sizes(self) -> list[str]:
        """The names of the memref's sizes: "products", "M", "N"."""
        axes = _axes(self.indices)
        return ["products"] * (self.destination.type.rank > len(axes)) + list(axes)

    def check(self) -> str | None:
        if not (arguments := _arguments(self)):
            return f"must be in a {EPILOGUE}"
        if list(self.indices) not in (arguments[1:3], arguments[1:2], arguments[2:3]):
            return "expects the row and the column of its region as indices, or one of them"
        count, kind = len(self.indices), self.attribute("kind")
        if kind is None and count == 1:
            return f"expects a kind of {choice(KINDS)} with one index, which reduces rows or columns"
        if kind is not None and (count == 2 or str(kind) not in KINDS):
            legal = "absent with two indices" if count == 2 else choice(KINDS)
            return f"kind must be {legal}, got {kind}"
        elements = OUTPUT_TYPES if count == 2 else ("f32",)
        if wrong := matrix_complaint("the destination", self.destination, elements, count, count + 1):
            return wrong
        if self.value.type != arguments[0].type:
            return f"expects a value of the type of the sum, {arguments[0].type}, got {self.value.type}"
        if (wanted := _sum_of(self.destination)) != str(self.value.type):
            return f"expects a sum of {wanted} for elements of {self.destination.type}, got {self.value.type}"
        return None


def _arguments(op: Op) -> list[ir.Value]:
    """The arguments of the region around an operation; none outside of a `tile.epilogue`."""
    holder = op.operation.parent
    return [] if holder is None or holder.name != EPILOGUE else list(holder.regions[0].blocks[0].arguments)


def _axes(indices: Sequence[ir.Value]) -> str:
    """The dimensions of indices that are arguments of a region."""
    return "".join(" MN"[ir.BlockArgument(each).arg_number] for each in indices)


def _sum_of(memref: ir.Value) -> str:
    """The type of the sums that a memref's elements are loaded to, or rounded from."""
    element = str(memref.type.element_type)
    return element if element in ("i32", "f64") else "f32"


class YieldOp(Op, dialect=Tile, name="yield", traits=[ir.IsTerminatorTrait, Pure]):
    """Ends the region of a `tile.epilogue` with the element of D, or that of a `tile.reduce`."""

    element: Operand

    def check(self) -> str | None:
        if self.operation.parent is not None and self.operation.parent.name == REDUCE:
            return None
        if not (arguments := _arguments(self)):
            return f"must be in a {EPILOGUE} or {REDUCE}"
        wanted = arguments[0].type
        if self.element.type != wanted:
            return f"expects a value of the type of the sum, {wanted}, got {self.element.type}"
        return None


def epilogue(kind: ir.Type, element: Callable[[ir.Value, ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """Builds `tile.epilogue` for sums of type `kind`, and returns its result, an operand of `matmul`.
    `element` takes the sum, the row and the column of an element of D, and returns the element.
    """
    check_in_a_module(EpilogueOp)
    if not isinstance(kind, ir.Type):
        raise WeftError(f"kind must be an MLIR type, got {shown(kind)}")
    op = ir.Operation.create(EPILOGUE, results=[FunctionType.get()], regions=1)
    index = ir.IndexType.get()
    block = op.regions[0].blocks.append(kind, index, index)
    with ir.InsertionPoint(block):
        build(YieldOp, operands=[element(*block.arguments)])
    return op.result


def load_element(source: ir.Value, *indices: ir.Value) -> ir.Value:
    """Builds `tile.load_element` in a region of `epilogue`, and returns the element."""
    check_in_a_module(LoadElementOp)
    arguments = ir.InsertionPoint.current.block.arguments
    if not len(arguments):
        raise WeftError("'tile.load_element' op must be built in the region of a tile.epilogue")
    kind = arguments[0].type
    return build(LoadElementOp, operands=[source, *indices], results=[kind]).element


def store_element(
    value: ir.Value, destination: ir.Value, *indices: ir.Value, kind: str | None = None
) -> StoreElementOp:
    """Builds `tile.store_element` in a region of `epilogue`. `kind` is that of a reduction: "add" or
    "maximumf".
    """
    attribute = kind and ir.Attribute.parse(f"#vector.kind<{kind}>")
    operands = [value, destination, *indices]
    made: StoreElementOp = build(StoreElementOp, operands=operands, attributes={"kind": attribute})
    return made

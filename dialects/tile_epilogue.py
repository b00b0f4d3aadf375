"""`tile.epilogue`: what a `tile.matmul` does to its sums, as a function of one element."""

from collections.abc import Callable, Sequence

from weft.dialects.effects import Pure, reads
from weft.dialects.op import Op, Operand, Result, Within, build, check_in_a_module
from weft.dialects.operand_roles import ADDED_TYPES, OUTPUT_TYPES
from weft.dialects.tile_types import Tile, matrix_complaint
from weft.errors import WeftError, shown
from weft.isa.family import choice
from weft.mlir import ext, ir

EPILOGUE = "tile.epilogue"
SUMS = ("f32", "i32", "f64")
_NUMBERS = (*SUMS, "f16", "bf16", "index", "i1", "i8", "i16", "i64")
_DIALECTS = ("arith", "math")
_APPROXIMATIONS = tuple(
    f"nvvm.{name}" for name in ("ex2", "rcp.approx.ftz.f", "sqrt", "sqrt.approx", "rsqrt", "sin", "cos")
)


class FunctionType(Tile.Type, name="function"):
    """The function of a `tile.epilogue`."""


class EpilogueOp(Op, dialect=Tile, name="epilogue", traits=[Pure]):
    """The function that a `tile.matmul` applies to its sums: its operand `epilogue`.

    The region computes one element of D. Its arguments are the element's sum (f32; i32 for integers, f64 for
    f64), which is A @ B, or `alpha * A @ B + beta * C` if the product has an alpha or a C, and its row and
    its column (index). It yields the element in the type of the sum; the kernel rounds it to the type of D.

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
        return next((Within(wrong, op) for op in operations if (wrong := _foreign(op))), None)

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
    def loads(self) -> "list[LoadElementOp]":
        """The loads, in order."""
        return [op for op in self.block.operations if isinstance(op, LoadElementOp)]

    @property
    def varying(self) -> set[ir.Value]:
        """The values that differ from element to element."""
        found = set(self.block.arguments)
        for op in self.block.operations:
            if not found.isdisjoint(op.operation.operands):
                found.update(op.operation.results)
        return found


def _foreign(op: ir.OpView) -> str | None:
    """Why an operation can't be part of an epilogue."""
    if isinstance(op, LoadElementOp | YieldOp):
        return None
    name = op.operation.name
    if name.partition(".")[0] not in _DIALECTS and name not in _APPROXIMATIONS:
        legal = f"tile.load_element, arith, math, {', '.join(_APPROXIMATIONS)}"
        return f"can't have '{name}' in its region: it computes one element by {legal}"
    for value in (*op.operation.operands, *op.operation.results):
        if str(value.type) not in _NUMBERS:
            legal = f"scalars of {choice(_NUMBERS)}"
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
        return "".join(" MN"[ir.BlockArgument(each).arg_number] for each in self.indices)

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
        holder = self.operation.parent
        if holder is None or holder.name != EPILOGUE:
            return f"must be in a {EPILOGUE}"
        arguments = list(holder.regions[0].blocks[0].arguments)
        if list(self.indices) not in (arguments[1:3], arguments[1:2], arguments[2:3], []):
            return "expects the row and the column of its region as indices, one of them, or none"
        count = len(self.indices)
        legal = OUTPUT_TYPES if count == 2 else ADDED_TYPES
        ranks = (count, count + 1) if count else (1,)
        if wrong := matrix_complaint("the source", self.source, legal, *ranks):
            return wrong
        kind, element = str(self.element.type), str(self.source.type.element_type)
        if self.element.type != arguments[0].type:
            return f"expects to return {arguments[0].type}, the type of the sum, got {kind}"
        if (element if element in ("i32", "f64") else "f32") != kind:
            return f"expects elements that {kind} holds, got {self.source.type}"
        return None


class YieldOp(Op, dialect=Tile, name="yield", traits=[ir.IsTerminatorTrait, Pure]):
    """Ends the region of a `tile.epilogue` with the element of D."""

    element: Operand

    def check(self) -> str | None:
        holder = self.operation.parent
        if holder is None or holder.name != EPILOGUE:
            return f"must be in a {EPILOGUE}"
        wanted = holder.regions[0].blocks[0].arguments[0].type
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

"""Sums of `wgmma` in named registers. As values, LLVM would carry each of them through the loop over K
blocks, and into and out of inline PTX: a fifth of its time for a large tile.
"""

from dataclasses import dataclass

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_sums import AddProductsOp, ClearSumsOp, ReadSumsOp, sum_registers
from weft.mlir import func, gpu, ir, llvm, operations
from weft.passes.builders.instructions import LETTERS, assembly, sum_name

_DECLARATION = f".reg .b32 {sum_name()}<"


def drop_unused(module: ir.Operation) -> None:
    """Erases reads whose values nothing uses."""
    for op in operations(module, ReadSumsOp):
        if not len(list(op.sums.uses)):
            op.operation.erase()


def declare(module: ir.Operation) -> None:
    """Declares the named registers of each kernel. Raises WeftError for those of another function, and where
    anything uses the result of a product whose sums they are.
    """
    for function in operations(module, gpu.GPUFuncOp, func.FuncOp, llvm.LLVMFuncOp):
        if not (total := _end(function)):
            continue
        if "kernel" not in function.operation.attributes or not isinstance(function, gpu.GPUFuncOp):
            raise refuse(function, "expects to be a kernel, since it has sums in named registers")
        for product in operations(function, GemmAsyncOp):
            if product.attribute("first_sum") >= 0 and len(list(product.d.uses)):
                raise refuse(product, "expects no use of D with first_sum: tile.read_sums returns the sums")
        start = function.operation.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(start), function.location:
            assembly(f"{_DECLARATION}{total}>;", [], [], [])


def are_declared(llvm_ir: str) -> bool:
    """Whether a kernel in LLVM's IR has named sums."""
    return _DECLARATION in llvm_ir


def rounding(store: ir.OpView) -> ReadSumsOp | None:
    """The `tile.read_sums` that rounds the elements of the fragment of a store, if the store may read them
    itself: it's the only use, and nothing changes sums before it.
    """
    read = tile.reading(store.fragment)
    if read is None or not read.attribute("rounds") or len(list(store.fragment.uses)) != 1:
        return None
    return None if _change_between(read.operation, store.operation) else read


def _change_between(first: ir.Operation, last: ir.Operation) -> bool:
    """Whether an operation between two changes sums, or may: if they aren't in one block."""
    if first.block != last.block:
        return True
    changes = operations(first.parent, GemmAsyncOp, ClearSumsOp, AddProductsOp)
    around = (_around(op.operation, first) for op in changes if op.attribute("first_sum") >= 0)
    return any(op and first.is_before_in_block(op) and op.is_before_in_block(last) for op in around)


def _around(op: ir.Operation, other: ir.Operation) -> ir.Operation | None:
    """`op`, or what contains it in the block of another operation; None if it's in another region of the same
    parent.
    """
    while op.block != other.block:
        if op.parent == other.parent:
            return None
        op = op.parent.operation
    return op


@dataclass(frozen=True)
class Reading:
    """How the elements of a `tile.read_sums` are read from named registers, two in a word where they have 16
    bits: the instruction, its operands for each, and the type of the words.
    """

    instruction: str
    sources: list[str]
    kind: str

    @classmethod
    def of(cls, op: ReadSumsOp) -> "Reading":
        """That of an operation."""
        element, start = str(op.sums.type.element_type), op.attribute("first_sum")
        names = [sum_name(start + number) for number in op.order]
        kind = "i32" if element in ("f16", "bf16") else element
        if not op.attribute("rounds"):
            return cls("mov.b32", names, kind)
        pairs = zip(names[1::2], names[::2], strict=True)  # the first operand becomes the upper half
        return cls(f"cvt.rn.{element}x2.f32", [f"{high}, {low}" for high, low in pairs], kind)

    def words(self, first: int, count: int) -> list[ir.Value]:
        """So many words from number `first` on."""
        chosen = self.sources[first : first + count]
        lines = [f"{self.instruction} ${i}, {source};" for i, source in enumerate(chosen)]
        letters = [f"={LETTERS[self.kind]}"] * len(lines)
        return assembly("\n\t".join(lines), letters, [], [self.kind] * len(lines))


def read(op: ReadSumsOp) -> list[ir.Value]:
    """All words of a `tile.read_sums`."""
    reading = Reading.of(op)
    return reading.words(0, len(reading.sources))


def clear(op: ClearSumsOp) -> None:
    """Lowers `tile.clear_sums`."""
    first, count = op.attribute("first_sum"), op.attribute("count")
    lines = [f"mov.b32 {sum_name(first + number)}, 0;" for number in range(count)]
    assembly("\n\t".join(lines), [], [], [])


def add(op: AddProductsOp) -> None:
    """Lowers `tile.add_products`."""
    first, product, numbers = op.attribute("first_sum"), op.attribute("first_product"), op.numbers
    lines = []
    for i in range(op.attribute("count")):
        total, added = sum_name(first + i), sum_name(product + i)
        if numbers:
            lines.append(f"fma.rn.f32 {total}, {added}, ${numbers[i]}, {total};")
        else:
            lines.append(f"add.rn.f32 {total}, {total}, {added};")
    factors = list(op.operation.operands)
    assembly("\n\t".join(lines), [LETTERS["f32"]] * len(factors), factors, [])


def _end(function: ir.OpView) -> int:
    """The number after the last named register of a function."""
    end = 0
    for op in operations(function, GemmAsyncOp, ClearSumsOp, AddProductsOp, ReadSumsOp):
        if (first := op.attribute("first_sum")) < 0:
            continue
        if isinstance(op, ReadSumsOp):
            count = max(op.order) + 1
        elif isinstance(op, GemmAsyncOp):
            count = sum_registers(op.d.type)
        else:
            count = op.attribute("count")
        end = max(
            end, first + count, op.attribute("first_product") + count if isinstance(op, AddProductsOp) else 0
        )
    return end

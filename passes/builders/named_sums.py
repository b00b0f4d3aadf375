"""Sums of `wgmma` in named registers. As values, LLVM would carry each of them through the loop over K
blocks, and into and out of inline PTX: a fifth of its time for a large tile.
"""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import FromLaneOp
from weft.dialects.tile_async import GemmAsyncOp, WaitGemmOp
from weft.dialects.tile_sums import AddProductsOp, ClearSumsOp, ReadSumsOp, sum_registers
from weft.mlir import func, gpu, ir, llvm, operations, scf
from weft.passes.builders.instructions import LETTERS, assembly, sum_name

_C = 2  # the operand of tile.gemm_async
_BEFORE_CARRIED = 3  # operands of scf.for


def assign(module: Any) -> None:
    """Gives names to sums that only products of a loop update, and that a wait after the loop returns. The
    loop no longer carries them.
    """
    for kernel in operations(module, gpu.GPUFuncOp):
        # LLVM may inline another function in several places.
        if "kernel" in kernel.operation.attributes:
            taken = _end(kernel)
            for wait in operations(kernel, WaitGemmOp):
                taken = _assign(wait, taken)


def drop_unused(module: Any) -> None:
    """Erases reads whose values nothing uses."""
    for op in operations(module, ReadSumsOp):
        if not len(list(op.sums.uses)):
            op.operation.erase()


def declare(module: Any) -> None:
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
            assembly(f".reg .b32 {sum_name()}<{total}>;", [], [], [])


def rounding(store: Any) -> ReadSumsOp | None:
    """The `tile.read_sums` that rounds the elements of the fragment of a store, if the store may read them
    itself: it's the only use, and nothing changes sums before it.
    """
    read = tile.reading(store.fragment)
    if read is None or not read.attribute("rounds") or not _used_once(store.fragment):
        return None
    return None if _change_between(read.operation, store.operation) else read


def _change_between(first: Any, last: Any) -> bool:
    """Whether an operation between two changes sums, or may: if they aren't in one block."""
    if first.block != last.block:
        return True
    changes = operations(first.parent, GemmAsyncOp, ClearSumsOp, AddProductsOp)
    around = (_around(op.operation, first) for op in changes if op.attribute("first_sum") >= 0)
    return any(op and first.is_before_in_block(op) and op.is_before_in_block(last) for op in around)


def _around(op: Any, other: Any) -> Any:
    """`op`, or what contains it in the block of another operation; None if it's in another region of the same
    parent.
    """
    while op.block != other.block:
        if op.parent == other.parent:
            return None
        op = op.parent.operation
    return op


def read(op: ReadSumsOp, first: int = 0, count: int | None = None) -> list[Any]:
    """The elements of `tile.read_sums`, two in a word where they have 16 bits: so many from number `first`
    on, or all.
    """
    element, names = (
        str(op.sums.type.element_type),
        [sum_name(op.attribute("first_sum") + i) for i in op.order],
    )
    kind = "i32" if element in ("f16", "bf16") else element
    if op.attribute("rounds"):
        pairs = zip(names[1::2], names[::2], strict=True)  # the first operand becomes the upper half
        instruction, sources = f"cvt.rn.{element}x2.f32", [f"{high}, {low}" for high, low in pairs]
    else:
        instruction, sources = "mov.b32", names
    chosen = sources[first:] if count is None else sources[first : first + count]
    lines = [f"{instruction} ${i}, {source};" for i, source in enumerate(chosen)]
    return assembly("\n\t".join(lines), [f"={LETTERS[kind]}"] * len(lines), [], [kind] * len(lines))


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


def _end(function: Any) -> int:
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


def _assign(wait: Any, taken: int) -> int:
    """Gives names to the sums that a wait returns, where that is possible, from number `taken` on. Returns
    the next number.
    """
    named = dict[int, int]()
    for number in range(len(wait.fragments)):
        fragment = wait.operation.operands[number]
        if (chain := _Chain.of(fragment)) is not None:
            named[number], taken = taken, taken + sum_registers(fragment.type)
            chain.name(named[number])
    if named:
        results = list(wait.operation.results)
        others = [value for number, value in enumerate(wait.fragments) if number not in named]
        with ir.InsertionPoint(wait.operation), wait.location:
            rest = iter(tile.wait_gemm(*others, pending=wait.attribute("pending")))
            for number, result in enumerate(results):
                first = named.get(number)
                new = next(rest) if first is None else tile.read_sums(result.type, first)
                result.replace_all_uses_with(new)
        wait.operation.erase()
    return taken


@dataclass(frozen=True)
class _Chain:
    """Sums that a loop carries, under a `number`, from product to product; undefined at first."""

    loop: Any
    number: int
    undefined: Any
    products: list[Any]

    @classmethod
    def of(cls, sums: Any) -> "_Chain | None":
        """That of a loop's result, if there is one use of it, and only products use the sums before."""
        loop = _made_by(sums, scf.ForOp)
        if loop is None or not _used_once(sums):
            return None
        number = list(loop.results).index(sums)
        body, undefined = loop.regions[0].blocks[0], loop.operands[_BEFORE_CARRIED + number]
        carried, value = body.arguments[1 + number], body.operations[-1].operands[number]
        products = list[Any]()
        while value != carried:
            product = _made_by(value, GemmAsyncOp)
            if product is None or product.block != body or not _used_once(value):
                return None
            products.append(product)
            value = product.opview.c
        if not products or not _used_once(carried) or not _is_undefined(undefined):
            return None
        return cls(loop, number, undefined, products)

    def name(self, first: int) -> None:
        """Gives the sums names, from this number on."""
        for product in self.products:
            product.attributes["first_sum"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), first)
            product.operands[_C] = self.undefined
        old, block = self.loop, self.loop.regions[0].blocks[0]
        kept = [number for number in range(len(old.results)) if number != self.number]
        inits = list(old.operands)[_BEFORE_CARRIED:]
        with ir.InsertionPoint(old), old.location:
            new = ir.Operation.create(
                old.name,
                results=[old.results[number].type for number in kept],
                operands=[*list(old.operands)[:_BEFORE_CARRIED], *(inits[number] for number in kept)],
                attributes=dict(old.attributes),
                regions=1,
            )
        block.append_to(new.regions[0])
        end = block.operations[-1].operation
        with ir.InsertionPoint(end), end.location:
            scf.yield_([end.operands[number] for number in kept])
        end.erase()
        block.erase_argument(1 + self.number)
        old.results[self.number].replace_all_uses_with(self.undefined)
        for number, result in zip(kept, new.results, strict=True):
            old.results[number].replace_all_uses_with(result)
        old.erase()


def _used_once(value: Any) -> bool:
    return len(list(value.uses)) == 1


def _is_undefined(fragment: Any) -> bool:
    made = _made_by(fragment, FromLaneOp)
    return made is not None and _made_by(made.operands[0], llvm.UndefOp) is not None


def _made_by(value: Any, kind: Any) -> Any:
    """The operation of this class that has the value as a result; None if another one has."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != kind.OPERATION_NAME:
        return None
    return owner.operation

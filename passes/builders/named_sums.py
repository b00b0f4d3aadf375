"""Sums of `wgmma` in registers with names. LLVM would carry each sum as a value through the loop over K
blocks, and into and out of inline PTX: a fifth of its time for a large tile.
"""

from dataclasses import dataclass
from typing import Any

from weft.dialects.tile import FromLaneOp
from weft.dialects.tile_async import GemmAsyncOp, WaitGemmOp
from weft.isa.mma.fragments import REGISTER_BITS
from weft.mlir import gpu, ir, llvm, operations, scf
from weft.passes.builders.instructions import FIRST_SUM, LETTERS, assembly, sum_name

_C = 2  # the operand of tile.gemm_async
_BEFORE_CARRIED = 3  # operands of scf.for


def assign(module: Any) -> None:
    """Gives names to sums that only products of a loop update, and that a wait after the loop returns. The
    loop no longer carries them.
    """
    for function in operations(module, gpu.GPUFuncOp):
        # LLVM may inline other functions than kernels, in several places.
        is_kernel = "kernel" in function.operation.attributes
        if is_kernel and (total := _assign(function)):
            start = function.operation.regions[0].blocks[0]
            with ir.InsertionPoint.at_block_begin(start), function.location:
                assembly(f".reg .b32 {sum_name()}<{total}>;", [], [], [])


def _assign(kernel: Any) -> int:
    """The same for one kernel, without the declaration of the registers; their number."""
    total = 0
    for wait in operations(kernel, WaitGemmOp):
        firsts = list[int]()
        for number in range(len(wait.fragments)):
            fragment = wait.operation.operands[number]
            chain = _Chain.of(fragment)
            firsts.append(-1 if chain is None else total)
            if chain is not None:
                total += count(fragment.type)
                chain.name(firsts[-1])
        if any(first >= 0 for first in firsts):
            wait.operation.attributes[FIRST_SUM] = ir.DenseI64ArrayAttr.get(firsts)
    return total


def first_of(op: Any, number: int | None = None) -> int | None:
    """The number of the first named register of a product's sums, or of those of a wait's fragment `number`.
    None if they have no names.
    """
    if FIRST_SUM not in op.operation.attributes:
        return None
    attribute = op.operation.attributes[FIRST_SUM]
    first = attribute.value if number is None else attribute[number]
    return first if first >= 0 else None


def mark(product: Any, first: int) -> None:
    """Records that a product's sums have names from this number on."""
    product.attributes[FIRST_SUM] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), first)


def read(first: int, kinds: list[str]) -> list[Any]:
    """The values of named registers, from the `first` on, as these types."""
    lines = [f"mov.b32 ${number}, {sum_name(first + number)};" for number in range(len(kinds))]
    return assembly("\n\t".join(lines), [f"={LETTERS[kind]}" for kind in kinds], [], kinds)


def count(kind: Any) -> int:
    """The registers of a lane's sums."""
    return int(kind.registers * kind.element_type.width // REGISTER_BITS)


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
            mark(product, first)
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

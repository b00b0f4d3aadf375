"""Kernels that execute one matrix instruction each, built from the dialects' operations, and their
launches.
"""

from collections.abc import Callable, Sequence
from typing import Any

from weft import mlir
from weft.compiler import stages
from weft.dialects import context
from weft.dialects.instruction import struct_of
from weft.isa.family import Registers
from weft.launch.kernel import Kernel
from weft.mlir import arith, gpu, ir, llvm, memref

CHIP = "sm_90a"
WARPGROUP = 128
Body = Callable[["Thread"], None]


class Kernels:
    """A module of kernels for one chip. `add` each, then `compile` them all."""

    def __init__(self) -> None:
        self.context = context()
        with self.context, ir.Location.unknown():
            self.module = ir.Module.create()
            with ir.InsertionPoint(self.module.body):
                self.holder = gpu.GPUModuleOp("rows")
            target = ir.Attribute.parse(f'#nvvm.target<chip = "{CHIP}">')
            self.holder.operation.attributes["targets"] = ir.ArrayAttr.get([target])
            self.holder.bodyRegion.blocks.append()

    def add(
        self, name: str, words: Sequence[int], threads: int, body: Body, shared: int = 0, ctas: int = 1
    ) -> None:
        """A kernel of so many CTAs whose arguments are arrays of so many 32-bit words, with `shared` bytes in
        each CTA.
        """
        block = self.holder.bodyRegion.blocks[0]
        with self.context, ir.Location.unknown(), ir.InsertionPoint(block):
            i32 = ir.IntegerType.get_signless(32)
            if shared:
                _shared(f"{name}_memory", shared)
            made = mlir.kernel(name, [ir.MemRefType.get([count], i32) for count in words])
            attributes = made.operation.attributes
            attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([threads, 1, 1])
            grid = [ir.AffineExpr.get_constant(extent) for extent in (ctas, 1, 1)]
            attributes["weft.grid"] = ir.AffineMapAttr.get(ir.AffineMap.get(len(words), 0, grid))
            entry = made.body.blocks[0]
            with ir.InsertionPoint(entry):
                body(Thread(list(entry.arguments), f"{name}_memory", threads))
                gpu.return_([])

    def compile(self) -> dict[str, Kernel]:
        """The kernels by name, of one cubin."""
        compiled = stages.compile_module(self.module)
        return {name: Kernel(compiled, launch) for name, launch in compiled.launches.items()}


def _shared(name: str, size: int) -> None:
    """Static shared memory, aligned as every swizzle wants it."""
    kind = ir.Type.parse(f"!llvm.array<{size} x i8>")
    linkage = ir.Attribute.parse("#llvm.linkage<internal>")
    made = llvm.GlobalOp(kind, name, linkage, alignment=1024, addr_space=3)
    assert len(made.operation.regions) == 1


class Thread:
    """What one thread can do: arguments are read and written register by register, thread after thread of the
    grid.
    """

    def __init__(self, arguments: Sequence[Any], memory: str, threads: int) -> None:
        self.i64 = ir.IntegerType.get_signless(64)
        self.bases = [
            arith.index_cast(self.i64, memref.extract_aligned_pointer_as_index(argument))
            for argument in arguments
        ]
        self.cta = arith.index_cast(self.i64, gpu.block_id(gpu.Dimension.x))
        inside = arith.index_cast(self.i64, gpu.thread_id(gpu.Dimension.x))
        self.inside = inside
        self.number = arith.addi(self._times(self.cta, threads), inside)
        self.memory, self.threads = memory, threads

    def pointer(self, argument: int, space: int = 1) -> Any:
        """The start of an argument, in global memory or as a generic address (space 0)."""
        return llvm.inttoptr(_pointer(space), self.bases[argument])

    def shared(self, offset: int = 0) -> Any:
        """A place in the kernel's shared memory."""
        start = llvm.mlir_addressof(_pointer(3), self.memory)
        if not offset:
            return start
        return llvm.inttoptr(_pointer(3), self._plus(llvm.ptrtoint(self.i64, start), offset))

    def load(self, argument: int, operand: Registers) -> list[Any]:
        """The thread's registers of an operand."""
        kind = ir.Type.parse(operand.type)
        places = self._places(argument, operand)
        return [llvm.load(kind, place) for place in places]

    def load_struct(self, argument: int, operand: Registers) -> Any:
        """The thread's registers of an operand as one value."""
        registers = self.load(argument, operand)
        if operand.count == 1:
            return registers[0]
        packed = llvm.mlir_undef(struct_of(operand))
        for i, register in enumerate(registers):
            packed = llvm.insertvalue(packed, register, [i])
        return packed

    def store(self, argument: int, operand: Registers, value: Any) -> None:
        """The thread's registers of a result."""
        for place, register in zip(self._places(argument, operand), self.split(value, operand), strict=True):
            llvm.store(register, place)

    @staticmethod
    def split(value: Any, operand: Registers) -> list[Any]:
        """The registers of a result."""
        if operand.count == 1:
            return [value]
        kind = ir.Type.parse(operand.type)
        return [llvm.extractvalue(kind, value, [i]) for i in range(operand.count)]

    def copy_to_shared(self, argument: int, size: int) -> None:
        """All threads copy their CTA's bytes of an argument to shared memory, for the proxies of every thread
        to see.
        """
        kind = ir.Type.parse("vector<4xi32>")
        own = self._times(self.inside, 16)
        source = arith.addi(arith.addi(self.bases[argument], self._times(self.cta, size)), own)
        start = llvm.ptrtoint(self.i64, self.shared())
        target = arith.addi(start, own)
        for offset in range(0, size, 16 * self.threads):
            value = llvm.load(kind, llvm.inttoptr(_pointer(1), self._plus(source, offset)), alignment=16)
            llvm.store(value, llvm.inttoptr(_pointer(3), self._plus(target, offset)), alignment=16)
        llvm.inline_asm(
            None,
            [],
            "fence.proxy.async.shared::cta;",
            "~{memory}",
            has_side_effects=True,
            is_align_stack=False,
        )
        gpu.barrier()

    def _places(self, argument: int, operand: Registers) -> list[Any]:
        size = 8 if operand.type == "f64" else 4
        own = arith.addi(self.bases[argument], self._times(self.number, size * operand.count))
        return [llvm.inttoptr(_pointer(1), self._plus(own, size * i)) for i in range(operand.count)]

    def _plus(self, value: Any, number: int) -> Any:
        return arith.addi(value, arith.constant(self.i64, number)) if number else value

    def _times(self, value: Any, number: int) -> Any:
        return arith.muli(value, arith.constant(self.i64, number))


def _pointer(space: int) -> Any:
    return ir.Type.parse(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")


def axes(operation: Any, form: Any) -> dict[str, Any]:
    """The attributes of a form."""
    return {a: getattr(form, a) for a in operation.family.axes if a not in operation.derived}

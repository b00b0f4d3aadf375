"""The kernels of gated products: H = activation(G) U of Z = [G U], and the gradient of Z from that of H.

A thread has 16 bytes of each matrix. Both directions read and write every element once.
"""

import functools

from weft.construction.module import Module
from weft.dialects.product_types import ceil_div
from weft.launch import kernel
from weft.mlir import arith, gpu, ir, llvm
from weft.passes.builders import addresses, emit
from weft.passes.kernels import activations

_THREADS = 256
_BYTES = 16  # of a vector
_MOST = 2**31 - _THREADS  # vectors that i32 numbers


@functools.lru_cache(maxsize=64)
def kernel_of(activation: str, element: str, width: int, backward: bool, chip: str) -> kernel.Kernel:
    """The kernel for vectors of `width` elements: `(h, z, rows, columns)`, or `(dz, dh, z, rows, columns)`.
    `rows` x `columns` is the shape of H in vectors.
    """
    with Module() as module:
        pointer, i32 = ir.Type.parse("!llvm.ptr"), emit.i32()
        kinds = [pointer] * (3 if backward else 2) + [i32, i32]
        with module.kernel("gate_gradient" if backward else "gate", kinds, block=(_THREADS, 1, 1)) as values:
            *pointers, rows, columns = values
            thread = _Thread(
                activation, ir.VectorType.get([width], ir.Type.parse(element)), pointers, rows, columns
            )
            with emit.when(thread.exists):
                (thread.gradient if backward else thread.product)()
    return kernel.compile_shared(module, chip)


def grid(rows: int, columns: int) -> tuple[int, int, int]:
    """The grid of its launch."""
    return ceil_div(rows * columns, _THREADS), 1, 1


def width_of(columns: int, itemsize: int, aligned: bool) -> int:
    """The elements of a vector."""
    width = _BYTES // itemsize
    return width if aligned and columns % width == 0 else 1


def fits(vectors: int) -> bool:
    """Whether one launch takes so many vectors."""
    return vectors <= _MOST


class _Thread:
    """A thread's vectors of H, G and U."""

    def __init__(
        self,
        activation: str,
        kind: ir.VectorType,
        pointers: list[ir.Value],
        rows: ir.Value,
        columns: ir.Value,
    ) -> None:
        cta = emit.as_i32(gpu.block_id(gpu.Dimension.x))
        index = emit.add(emit.mul(cta, _THREADS), emit.thread())
        self.exists = emit.less(index, emit.mul(rows, columns))
        row = emit.div(index, columns)
        gate = emit.add(emit.mul(row, columns), index)  # 2 * row * columns + column
        self.of_h, self.of_gate, self.of_up = (
            _scaled(offset, kind) for offset in (index, gate, emit.add(gate, columns))
        )
        self.activation, self.kind = activation, kind
        self.wide = ir.VectorType.get(kind.shape, ir.F32Type.get())
        self.pointers = [llvm.addrspacecast(addresses.pointer_type(1), each) for each in pointers]

    def product(self) -> None:
        h, z = self.pointers
        gate, up = self._load(z, self.of_gate), self._load(z, self.of_up)
        self._store(arith.mulf(activations.apply(self.activation, gate), up), h, self.of_h)

    def gradient(self) -> None:
        dz, dh, z = self.pointers
        gate, up, of_h = (self._load(z, self.of_gate), self._load(z, self.of_up), self._load(dh, self.of_h))
        slope = activations.derivative(self.activation, gate)
        self._store(arith.mulf(arith.mulf(of_h, up), slope), dz, self.of_gate)
        self._store(arith.mulf(of_h, activations.apply(self.activation, gate)), dz, self.of_up)

    def _load(self, matrix: ir.Value, offset: ir.Value) -> ir.Value:
        vector = llvm.load(self.kind, addresses.offset(matrix, offset))
        return vector if self.kind == self.wide else arith.extf(self.wide, vector)

    def _store(self, result: ir.Value, matrix: ir.Value, offset: ir.Value) -> None:
        rounded = result if self.kind == self.wide else arith.truncf(self.kind, result)
        llvm.store(rounded, addresses.offset(matrix, offset))


def _scaled(index: ir.Value, kind: ir.VectorType) -> ir.Value:
    """The offset in bytes of a vector, as an i64."""
    bytes_ = kind.shape[0] * kind.element_type.width // 8
    i64 = ir.IntegerType.get_signless(64)
    return arith.muli(arith.extui(i64, index), arith.constant(i64, bytes_))

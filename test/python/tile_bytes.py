"""What kernels of tests do to show the bytes of a buffer."""

from weft.dialects import tile
from weft.mlir import llvm, memref
from weft.passes.builders import addresses, emit


def copy_bytes_out(buffer, out, threads):
    """Builds a loop in which `threads` threads of the CTA copy the bytes of a buffer in shared memory to
    `out`, a memref of i32, as they are.
    """

    def store(number, _):
        word = llvm.load(emit.i32(), addresses.offset(tile.address(buffer), emit.mul(number, 4)))
        memref.store(word, out, [emit.as_index(number)])
        return []

    emit.loop(emit.thread(), buffer.type.bytes // 4, threads, [], store)

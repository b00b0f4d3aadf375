"""Kernels of a few threads that products over several GPUs need in addition to their own."""

import functools
from functools import partial

from weft.construction.module import Module, memref
from weft.dialects import tile
from weft.dialects.launch_contract import DEPENDENT
from weft.distributed.teams import HALVES
from weft.launch import kernel
from weft.mlir import arith, gpu, ir, nvvm, vector
from weft.mlir import memref as memory
from weft.passes.builders import emit
from weft.passes.kernels.cluster import await_previous_launch
from weft.passes.kernels.team import ARRIVED, CALL, DATA, FLAGS, LIMIT, RANK, each_other
from weft.passes.kernels.tile_order import element

PUSH_THREADS = 256
_VECTORS = 4  # that a thread has in flight
_WORDS = 4  # of 4 bytes in a vector
PUSHED = PUSH_THREADS * _VECTORS * _WORDS * 4  # bytes that a CTA copies at once


@functools.lru_cache(maxsize=8)
def meeting(chip: str) -> kernel.Kernel:
    """The kernel that ends when all ranks have begun it: what precedes it on each has ended, and is visible.
    Takes this rank's flags, all addresses of flags, and the state, in which it counts calls.
    """
    with Module() as module:
        kinds = [memref("?", "i32"), memref("?x?", "i64"), memref("?", "i32")]
        with module.kernel("meet_ranks", kinds, block=(128, 1, 1), grid=(1, 1, 1)) as (flags, peers, state):
            _begin()
            rank, call, limit = (element(state, number) for number in (RANK, CALL, LIMIT))
            member = emit.thread()
            different = emit.negate(emit.equal(member, rank))
            is_other = arith.andi(emit.less(member, emit.as_i32(memory.dim(peers, _index(0)))), different)
            with emit.when(is_other):
                _signal(peers, rank, call, member)
                tile.await_flag(flags, member, call, limit)
            gpu.barrier()
            with emit.when(emit.equal(member, 0)):
                memory.store(emit.add(call, 1), state, [_index(CALL)])
    return kernel.compile_shared(module, chip)


@functools.lru_cache(maxsize=64)
def push(ctas: int, chip: str, matrices: int = 1) -> kernel.Kernel:
    """The kernel that copies this rank's rows to all others: to matrix `rank` of the half of their memory
    that the call selects. Then it sets flag `rank` of each to the number of the call, which it counts first.
    Takes the rows as words of 4 bytes, in multiples of four, and with `matrices` 2 also their scales, whose
    two halves follow those of rows; then the addresses of memory and flags, and the state.
    """
    with Module() as module:
        kinds = [memref("?", "i32")] * matrices + [memref("?x?", "i64"), memref("?", "i32")]
        block, grid = (PUSH_THREADS, 1, 1), (ctas, 1, 1)
        with module.kernel("push_rows", kinds, block=block, grid=grid) as (*sources, peers, state):
            _begin()
            rank, call = element(state, RANK), emit.add(element(state, CALL), 1)
            ranks = emit.as_i32(memory.dim(peers, _index(0)))
            matrix = emit.add(emit.mul(emit.bit_and(call, 1), ranks), rank)
            begin = emit.value(0)
            for source in sources:
                words = emit.as_i32(memory.dim(source, _index(0)))
                first = emit.add(begin, emit.mul(matrix, words))
                each_other(rank, ranks, partial(_copy, source, words, peers, first, ctas))
                begin = emit.add(begin, emit.mul(emit.mul(words, ranks), HALVES))
            gpu.barrier()
            with emit.when(emit.equal(emit.thread(), 0)):
                last = tile.is_last(state, emit.value(ARRIVED), emit.value(ctas))
                with emit.when(last):
                    memory.store(call, state, [_index(CALL)])
                    each_other(rank, ranks, partial(_signal, peers, rank, call))
    return kernel.compile_shared(module, chip)


def _signal(peers: ir.Value, rank: ir.Value, call: ir.Value, member: ir.Value) -> None:
    """Sets this rank's flag of another one."""
    tile.signal(_remote(peers, member, FLAGS), rank, call)


def _begin() -> None:
    """Waits for the launch before; the next one may begin to start."""
    DEPENDENT.set(ir.InsertionPoint.current.block.owner, ir.UnitAttr.get())
    await_previous_launch()
    nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)


def _copy(
    rows: ir.Value, words: ir.Value, peers: ir.Value, first: ir.Value, ctas: int, member: ir.Value
) -> None:
    """Copies rows to a rank, several vectors of each thread at a time."""
    to, last = _remote(peers, member, DATA), emit.sub(words, _WORDS)
    kind = ir.VectorType.get([_WORDS], emit.i32())
    at_once = PUSH_THREADS * _WORDS
    own = emit.add(
        emit.mul(emit.as_i32(gpu.block_id(gpu.Dimension.x)), at_once * _VECTORS),
        emit.mul(emit.thread(), _WORDS),
    )

    def some(start: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        places = [emit.add(start, number * at_once) for number in range(_VECTORS)]
        vectors = [
            vector.LoadOp(kind, rows, [emit.as_index(emit.minimum(at, last))], alignment=16).result
            for at in places
        ]
        for at, value in zip(places, vectors, strict=True):
            with emit.when(emit.less(at, words)):
                vector.StoreOp(value, to, [emit.as_index(emit.add(first, at))], alignment=16)
        return carried

    emit.loop(own, words, ctas * at_once * _VECTORS, [], some)


def _remote(peers: ir.Value, member: ir.Value, which: int) -> ir.Value:
    return tile.remote(memory.load(peers, [emit.as_index(member), _index(which)]), emit.i32())


def _index(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)

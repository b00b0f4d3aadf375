"""`wgmma.mma_async` and the instructions that order it. A product is computed when it is issued, 16 rows for
each warp, once the four warps of the warpgroup have arrived; the sanitizer reports missing waits.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.steps import notify
from weft.emulator.decoding.table import Collective, Table
from weft.emulator.errors import Fault
from weft.emulator.instructions import shared_operand
from weft.emulator.instructions.fragments import Fragment, elements
from weft.emulator.instructions.mma import legal_form
from weft.emulator.instructions.sparse import Sparse
from weft.emulator.numerics.arithmetic import multiply_accumulate
from weft.emulator.reading.syntax import Operand
from weft.emulator.reading.types import U64, Array
from weft.emulator.running.lanes import Lanes
from weft.isa import accumulation, wgmma
from weft.isa.family import Registers
from weft.isa.mma import fragments as mma_fragments
from weft.isa.types import ELEMENT_TYPES
from weft.isa.wgmma.descriptors import MatrixDescriptor

table = Table()
_ROWS = 16
"""The rows of a warp."""
_FAMILIES = (wgmma.MMA_ASYNC, wgmma.MMA_ASYNC_SPARSE)


@table.collective("wgmma.mma_async")
def mma_async(op: Op) -> Collective:
    form = _form(op)
    names = [r.name for r in form.operands]
    op.count(len(names))
    placed = {name: op.operand(i) for i, name in enumerate(names)}
    registers = {r.name: _of_a_warp(r) for r in form.operands}
    immediates = {r.name: _flag(op, placed[r.name], r) for r in form.operands if r.role == "immediate"}
    bits = {name: ELEMENT_TYPES[getattr(form, f"{name}_type")].bits for name in "abd"}
    _, n, k = mma_fragments.mnk(form.shape)
    stored_k = k // 2 if form.sparse else k
    d_in = Fragment(op, placed["d"], registers["d"], bits["d"], writes=False)
    d_out = Fragment(op, placed["d"], registers["d"], bits["d"], writes=True)
    a = _left(op, form, placed["a"], registers["a"], bits["a"], stored_k, bool(immediates.get("trans_a")))
    b = _from_shared(op, placed["b"], n, k, bits["b"], bool(immediates.get("trans_b")))
    chunk = mma_fragments.chunk(form.a_type)
    sparse = Sparse(op, placed, registers, k, chunk) if form.sparse else None
    keeps = op.predicate(placed["scale_d"])
    signs = [_sign(form.a_type) if immediates.get(f"scale_{s}") == -1 else 0 for s in "ab"]
    rule = accumulation.of("wgmma", form, op.chip)
    types = (form.a_type, form.b_type, form.d_type, form.d_type)

    def run(lanes: Lanes) -> None:
        how = rule if lanes.wave.launch.arithmetic == "hardware" else None
        left, absent = a(lanes), None
        if sparse is not None:
            left, absent = sparse.expanded(lanes, left)
        right = b(lanes).transpose(0, 2, 1)
        left, right = (x ^ x.dtype.type(s) if s else x for x, s in zip((left, right), signs, strict=True))
        total = d_in.read(lanes)
        kept = lanes.read(keeps[0])[:, :1, None] ^ keeps[1]
        total = np.where(kept, total, total.dtype.type(0))
        flags = {"satfinite": form.satfinite, "bit_op": form.bit_op}
        result = multiply_accumulate(left, right, total, types, how, absent=absent, **flags)
        d_out.write(lanes, result)

    return Collective(run, warpgroup=True)


def _form(op: Op) -> Any:
    listed = len(op.operands) > 1 and len(op.items(1)) > 1
    return legal_form(op, _FAMILIES, ("", "{") if listed else ())


def _of_a_warp(registers: Registers) -> Registers:
    """A warpgroup's operand for each of its warps: the first digit of its layout is the warp."""
    if not registers.layout:
        return registers
    layout = re.sub(r"^S\[\(4,(.*):\(1@warpid,", r"S[(\1:(", registers.layout)
    return replace(registers, layout=layout, shape=(_ROWS, *registers.shape[1:]))


def _flag(op: Op, operand: Operand, registers: Registers) -> int:
    value = op.immediate(operand)
    if registers.values and value not in registers.values:
        op.fail(f"{registers.name} must be one of {registers.values}, got {value}", operand.location)
    return value


def _sign(name: str) -> int:
    return 1 << (ELEMENT_TYPES[name].bits - 1)


def _left(
    op: Op, form: Any, operand: Operand, registers: Registers, bits: int, k: int, transposed: bool
) -> Callable[[Lanes], Array]:
    """How to read the 16 rows of A of each warp, `[warps, 16, k]`."""
    if form.a_registers:
        return Fragment(op, operand, registers, bits, writes=False).read
    whole = _from_shared(op, operand, wgmma.M, k, bits, transposed)

    def read(lanes: Lanes) -> Array:
        warp = lanes.wave.warp_of_row[lanes.row_numbers()] % 4
        rows = warp[:, None] * _ROWS + np.arange(_ROWS)
        return np.take_along_axis(whole(lanes), rows[:, :, None], axis=1)

    return read


def _from_shared(
    op: Op, operand: Operand, rows: int, k: int, bits: int, transposed: bool
) -> Callable[[Lanes], Array]:
    """How to read a matrix of M or N rows and K columns through the descriptor of each warp."""
    slot, line = op.source(operand, U64), op.line

    def read(lanes: Lanes) -> Array:
        words = lanes.read(slot)[:, 0]
        ctas = lanes.wave.cta_of_row[lanes.row_numbers()]
        matrices: dict[tuple[int, int], Array] = {}
        for key in zip(ctas.tolist(), words.tolist(), strict=True):
            if key not in matrices:
                same = (ctas == key[0]) & (words == np.uint64(key[1]))
                reading = lanes.narrowed(lanes.enabled() & same[:, None])
                matrices[key] = _matrix(reading, *key, rows, k, bits, transposed, line)
        return np.stack([matrices[key] for key in zip(ctas.tolist(), words.tolist(), strict=True)])

    return read


def _matrix(
    lanes: Lanes, cta: int, word: int, rows: int, k: int, bits: int, transposed: bool, line: int
) -> Array:
    """The elements of one matrix, `[rows, k]`."""
    try:
        descriptor = MatrixDescriptor.decode(word)
    except ValueError as error:
        raise Fault(str(error), line, None, None, "descriptor") from None
    outer, row_bytes = (k, rows * bits // 8) if transposed else (rows, k * bits // 8)
    shared_operand.check_rows(descriptor, row_bytes, transposed, line)
    offsets = shared_operand.chunk_offsets(descriptor, outer, row_bytes, transposed)
    data = shared_operand.read(lanes, "wgmma", cta, offsets, line)
    matrix = elements(np.ascontiguousarray(data[:, :row_bytes]), bits).reshape(outer, -1)
    return matrix.T if transposed else matrix


@table.collective("wgmma.fence")
def fence(op: Op) -> Collective:
    op.flag("sync", "aligned")
    op.count(0)
    return Collective(notify(lambda watch, threads: watch.fence("wgmma", threads, op.line)))


@table.collective("wgmma.commit_group")
def commit_group(op: Op) -> Collective:
    op.flag("sync", "aligned")
    op.count(0)
    return Collective(notify(lambda watch, threads: watch.async_commit("wgmma", threads, op.line)))


@table.collective("wgmma.wait_group")
def wait_group(op: Op) -> Collective:
    op.flag("sync", "aligned")
    op.count(1)
    pending = op.immediate(0)
    if pending < 0:
        op.fail(f"the number of pending groups must be at least 0, got {pending}")
    return Collective(notify(lambda watch, threads: watch.async_done("wgmma", threads, op.line, pending)))

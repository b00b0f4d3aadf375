"""`wgmma.mma_async` and the instructions that order it. A product is computed when it is issued, 16 rows for
each warp, once the four warps of the warpgroup have arrived; the sanitizer reports missing waits.

`wgmma.mma_async` by code of the host: where the operands of a warpgroup are.
"""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from weft.emulator.compiled.products import Lists, Products
from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, Table, notify
from weft.emulator.errors import Fault
from weft.emulator.instructions import shared_operand
from weft.emulator.instructions.fragments import Fragment, Sparse
from weft.emulator.instructions.mma import legal_form
from weft.emulator.memory.segments import Threads
from weft.emulator.numerics.native_sums import multiply_accumulate
from weft.emulator.reading.syntax import STORAGE, U64, Array, Bools, Operand
from weft.emulator.running.function_code import (
    Job,
    Numbers,
    Places,
    ProductKind,
    Read,
    RegisterBlock,
    Run,
)
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import Marks
from weft.isa import accumulation, wgmma
from weft.isa.family import Registers
from weft.isa.mma import fragments as mma_fragments
from weft.isa.types import ELEMENT_TYPES
from weft.isa.wgmma.descriptors import MatrixDescriptor

_WARPS = 4
"""The warps of a warpgroup."""
_ROWS = 16
"""The rows of a warp."""
_LANES = 32
_MOST_KNOWN = 1024


@dataclass(frozen=True)
class InShared:
    """A matrix of M or N rows and K columns in shared memory: the register with its descriptor."""

    slot: int
    rows: int
    k: int
    bits: int
    transposed: bool
    line: int

    def places(self, word: int, *, by_row: bool) -> Places:
        """The places of the matrix, or of its transpose. Fault if the descriptor is wrong."""
        return _shared_places(word, (self.rows, self.k), self.bits, self.transposed, by_row, self.line)

    def uniform(self, lanes: Lanes) -> bool:
        """Whether the warps of each warpgroup have the same descriptor."""
        return _of_warpgroups(lanes, self.slot) is not None

    def marked(self, lanes: Lanes, marks: Callable[[int], Bools], data: Array, *, own: bool = False) -> Bools:
        """The rows with a marked element, `[warps, rows]`; `own`: only the 16 of each warp."""
        numbers, found = lanes.row_numbers(), []
        for cta, word in zip(lanes.wave.cta_of_row[numbers], lanes.read(self.slot)[:, 0], strict=True):
            places = self.places(int(word), by_row=True)
            marked = shared_operand.gathered(data[cta, None], places)[0]
            found.append(np.logical_or.reduce(marked, axis=1) != 0)
        every: Bools = np.stack(found)
        if not own:
            return every
        warp = lanes.wave.warp_of_row[numbers] % _WARPS
        return np.take_along_axis(every, warp[:, None] * _ROWS + np.arange(_ROWS), axis=1)

    def of_warps(self, lanes: Lanes, step: int) -> Array:
        """The 16 rows of each warp, `[warps, 16, k]`, with `step` as in `matrices`."""
        whole = self.matrices(lanes, step)
        if step == _WARPS:
            return whole.reshape(lanes.warps, _ROWS, -1)
        warp = lanes.wave.warp_of_row[lanes.row_numbers()] % _WARPS
        rows = warp[:, None] * _ROWS + np.arange(_ROWS)
        return np.take_along_axis(whole, rows[:, :, None], axis=1)

    def matrices(self, lanes: Lanes, step: int) -> Array:
        """The matrix of every warp (`step` 1) or warpgroup (`step` 4), `[warps / step, rows, k]`."""
        words = lanes.read(self.slot)[::step, 0]
        ctas = lanes.wave.cta_of_row[lanes.row_numbers()[::step]]
        whole = np.empty((len(words), self.rows, self.k), STORAGE[max(8, self.bits)])
        for word in dict.fromkeys(words.tolist()):
            places, mine = self.places(word, by_row=True), words == np.uint64(word)
            if places.end > lanes.wave.memory.shared_size:  # which faults for the first CTA
                mine &= ctas == ctas[mine][0]
            every = mine.all()
            reading = lanes if every else lanes.narrowed(lanes.enabled() & np.repeat(mine, step)[:, None])
            each, index = np.unique(ctas[mine], return_inverse=True)
            matrices = shared_operand.matrices(reading, "wgmma", each.tolist(), places, self.line)
            whole[mine] = matrices[index]
        return whole


@lru_cache(1024)
def _shared_places(
    word: int, shape: tuple[int, int], bits: int, transposed: bool, by_row: bool, line: int
) -> Places:
    try:
        descriptor = MatrixDescriptor.decode(word)
    except ValueError as error:
        raise Fault(str(error), line, None, None, "descriptor") from None
    return shared_operand.matrix_places(descriptor, shape, (bits, bits), transposed, by_row, line)


@dataclass(eq=False)
class _Prepared:
    """The products of some warpgroups with the same operands as before. `lists` is what the sanitizer needs
    of `reads`. `places` are those that `jobs` has addresses of, in addition to those of `reads`.
    """

    jobs: Numbers
    reads: tuple[Read, ...]
    lists: Lists | None
    places: tuple[Places, ...]
    rows: Numbers
    block: RegisterBlock | None = None
    left: Array | None = None

    def __post_init__(self) -> None:
        self.address: int = self.jobs.ctypes.data


@dataclass(eq=False)
class Quick:
    """One instruction; `a` is a matrix in shared memory or in registers. `keeps` is the register that selects
    whether D is added, and whether it is negated.
    """

    kind: ProductKind
    a: InShared | Fragment
    b: InShared
    d: Fragment
    keeps: tuple[int, bool]

    def run(self, lanes: Lanes) -> bool:
        """Computes products of whole warpgroups. False, and nothing has changed, if the interpreter must."""
        wave = lanes.wave
        code: Products | None = wave.jobs.get(Products)
        if code is None or lanes.mask is not None:
            return False
        mine: tuple[Run, dict[Hashable, _Prepared]] | None = wave.jobs.get(self)
        if mine is None:
            if self.kind.how is not None and wave.launch.arithmetic != "hardware":
                return False
            compiled = code.product(self.kind, lanes.warps // _WARPS)
            if compiled is None:
                return False
            mine = wave.jobs[self] = compiled, {}
        run, known = mine
        key = self._key(lanes)
        prepared = known.get(key)
        if prepared is None:
            prepared = self._prepared(code, lanes)
            if prepared is None:
                return False
            if len(known) > _MOST_KNOWN:
                known.clear()
            known[key] = prepared
        if not code.reads(prepared.lists, self.b.line):
            return False
        block = self.d.block(wave)
        if block is not prepared.block:
            prepared.jobs[:, Job.D] = block.address + 4 * _LANES * prepared.rows
            prepared.block = block
        if prepared.left is not None and isinstance(self.a, Fragment):
            np.stack([lanes.read(slot) for slot in self.a.slots], out=prepared.left)
        run(prepared.address, len(prepared.reads))
        return True

    def _key(self, lanes: Lanes) -> Hashable:
        """What decides where the operands are."""
        rows, regs = lanes.rows, lanes.regs
        there: Any = rows
        if isinstance(rows, slice):
            there = rows.start, rows.stop
        elif rows is not None:
            there = rows.tobytes()
        chosen = slice(None) if rows is None else rows
        slots = (self.b.slot, self.keeps[0], *((self.a.slot,) if isinstance(self.a, InShared) else ()))
        return there, *(regs[slot][chosen, 0].tobytes() for slot in slots)

    def _prepared(self, code: Products, lanes: Lanes) -> _Prepared | None:
        wave, memory = lanes.wave, lanes.wave.memory
        rows = lanes.row_numbers()[::_WARPS]
        ctas = wave.cta_of_row[rows]
        kept = _of_warpgroups(lanes, self.keeps[0])
        right = self._matrices(lanes, self.b, by_row=False)
        if kept is None or right is None:
            return None
        jobs = np.zeros((len(rows), len(Job)), np.int64)
        begins = memory.shared.data.ctypes.data + ctas * memory.shared_stride
        jobs[:, Job.KEEP] = kept ^ self.keeps[1]
        jobs[:, Job.B], jobs[:, Job.B_INDEX] = begins, [each.address for each in right]
        places = [self.d.places(wave.warps, _WARPS)]
        jobs[:, Job.D_INDEX] = places[0].address
        matrices, buffer = [right], None
        if isinstance(self.a, InShared):
            left = self._matrices(lanes, self.a, by_row=True)
            if left is None:
                return None
            jobs[:, Job.A], jobs[:, Job.A_INDEX] = begins, [each.address for each in left]
            matrices = [left, right]
        else:
            buffer = np.zeros((len(self.a.slots), lanes.warps, _LANES), np.uint32)
            jobs[:, Job.A] = buffer.ctypes.data + 4 * _LANES * _WARPS * np.arange(len(rows))
            places.append(self.a.places(lanes.warps, _WARPS))
            jobs[:, Job.A_INDEX] = places[1].address
        read = zip(rows.tolist(), ctas.tolist(), zip(*matrices, strict=True), strict=True)
        reads = tuple(Read(*each) for each in read)
        return _Prepared(jobs, reads, code.prepared("wgmma", reads), tuple(places), rows, None, buffer)

    def _matrices(self, lanes: Lanes, operand: InShared, *, by_row: bool) -> list[Places] | None:
        """The places of an operand of each warpgroup; None if the interpreter must find what is wrong."""
        words = _of_warpgroups(lanes, operand.slot)
        if words is None:
            return None
        try:
            found = [operand.places(word, by_row=by_row) for word in words.tolist()]
        except Fault:
            return None
        return found if all(each.end <= lanes.wave.memory.shared_size for each in found) else None


def _of_warpgroups(lanes: Lanes, slot: int) -> Array | None:
    """The value of a register in each warpgroup; None if its warps differ."""
    values = lanes.read(slot)[:, 0].reshape(-1, _WARPS)
    first: Array = values[:, 0]
    return first if (values == values[:, :1]).all() else None


table = Table()
_FAMILIES = (wgmma.MMA_ASYNC, wgmma.MMA_ASYNC_SPARSE)


@table.collective("wgmma.mma_async")
def mma_async(op: Op) -> Collective:
    listed = len(op.operands) > 1 and len(op.items(1)) > 1
    form = legal_form(op, _FAMILIES, ("", "{") if listed else ())
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
    trans_a, trans_b = (bool(immediates.get(f"trans_{side}")) for side in "ab")
    a = (
        _InRegisters(Fragment(op, placed["a"], registers["a"], bits["a"], writes=False))
        if form.a_registers
        else InShared(op.source(placed["a"], U64), wgmma.M, stored_k, bits["a"], trans_a, op.line)
    )
    b = InShared(op.source(placed["b"], U64), n, k, bits["b"], trans_b, op.line)
    chunk = mma_fragments.chunk(form.a_type)
    sparse = Sparse(op, placed, registers, k, chunk) if form.sparse else None
    keeps = op.predicate(placed["scale_d"])
    signs = [1 << bits["a"] - 1 if immediates.get(f"scale_{s}") == -1 else 0 for s in "ab"]
    rule = accumulation.of("wgmma", form, op.chip)
    types = (form.a_type, form.b_type, form.d_type, form.d_type)
    quick = None
    if not form.sparse and bits["a"] >= 8:
        how = rule if ELEMENT_TYPES[form.a_type].kind == "float" else None
        negated = bool(signs[0]), bool(signs[1])
        product = types[:3], (bits["a"], bits["b"]), wgmma.M, n, k, how
        kind = ProductKind(*product, negated=negated, satfinite=form.satfinite)
        quick = Quick(kind, a if isinstance(a, InShared) else a.fragment, b, d_in, keeps)

    def spread(threads: Threads, marks: Callable[[int], Bools], octets: Array) -> Marks:
        assert isinstance(threads, Lanes)
        kept = threads.read(keeps[0])[:, :1, None] ^ keeps[1]
        rows, columns = a.marked(threads, marks, octets, own=True), b.marked(threads, marks, octets)
        return d_out.marks(rows[:, :, None] | columns[:, None, :] | (d_in.marked(marks) & kept))

    op.spread_shared = spread

    def run(lanes: Lanes) -> None:
        if quick is not None and quick.run(lanes):
            return
        how = rule if lanes.wave.launch.arithmetic == "hardware" else None
        # The warps of a warpgroup multiply the same B, unless a program breaks the rules.
        step = _WARPS if a.uniform(lanes) and b.uniform(lanes) else 1
        left, absent = a.of_warps(lanes, step), None
        if sparse is not None:
            left, absent = sparse.expanded(lanes, left)
            absent = absent.reshape(-1, _ROWS * step, absent.shape[2])
        left = left.reshape(-1, _ROWS * step, left.shape[2])
        right = b.matrices(lanes, step).transpose(0, 2, 1)
        left, right = (x ^ x.dtype.type(s) if s else x for x, s in zip((left, right), signs, strict=True))
        kept = lanes.read(keeps[0])[:, 0] ^ keeps[1]
        if kept.any():
            total = d_in.read(lanes)
            total = total if kept.all() else np.where(kept[:, None, None], total, total.dtype.type(0))
        else:
            total = np.zeros((lanes.warps, *d_in.shape), d_in.storage)
        total = total.reshape(-1, _ROWS * step, n)
        flags = {"satfinite": form.satfinite, "bit_op": form.bit_op}
        result = multiply_accumulate(left, right, total, types, how, absent=absent, **flags)
        d_out.write(lanes, result.reshape(lanes.warps, _ROWS, n))

    return Collective(run, warpgroup=True)


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


class _InRegisters:
    """A in the registers of each warp."""

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment

    def uniform(self, lanes: Lanes) -> bool:
        return True

    def marked(self, lanes: Lanes, marks: Callable[[int], Bools], data: Array, *, own: bool = False) -> Bools:
        """Each warp's rows with an element in marked registers, `[warps, 16]`."""
        found: Bools = np.logical_or.reduce(self.fragment.marked(marks), axis=2)
        return found

    def of_warps(self, lanes: Lanes, step: int) -> Array:
        """The 16 rows of each warp, `[warps, 16, k]`."""
        return self.fragment.read(lanes)


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

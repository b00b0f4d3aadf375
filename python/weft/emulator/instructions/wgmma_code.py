"""`wgmma.mma_async` by code of the host: where the operands of a warpgroup are."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from weft.emulator.errors import Fault
from weft.emulator.instructions import shared_operand
from weft.emulator.instructions.fragments import Fragment
from weft.emulator.reading.types import Array
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.product_code import Job, Numbers, Places, ProductCode, ProductKind, Read, Run
from weft.emulator.running.register_block import RegisterBlock
from weft.isa.wgmma.descriptors import MatrixDescriptor

_WARPS = 4
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
    lists: Any
    places: tuple[Places, ...]
    rows: Numbers
    block: RegisterBlock | None = None
    left: Array | None = None

    def __post_init__(self) -> None:
        self.address: int = self.jobs.ctypes.data


@dataclass(eq=False)
class _OfWave:
    """An instruction's code, and what it has prepared for one wave."""

    run: Run
    prepared: dict[Hashable, _Prepared]


@dataclass(eq=False)
class Quick:
    """One instruction; `a` is a matrix in shared memory or in registers. `keeps` is the register that selects
    whether D is added, and whether it is negated.
    """

    kind: ProductKind
    a: "InShared | Fragment"
    b: InShared
    d: Fragment
    keeps: tuple[int, bool]

    def run(self, lanes: Lanes) -> bool:
        """Computes the products of whole warpgroups. False, and nothing has changed, if the interpreter must
        do it.
        """
        wave = lanes.wave
        code = wave.products
        if code is None or lanes.mask is not None:
            return False
        mine = wave.jobs.get(self)
        if mine is None:
            mine = self._of_wave(code, lanes)
            if mine is None:
                return False
            wave.jobs[self] = mine
        key = self._key(lanes)
        prepared = mine.prepared.get(key)
        if prepared is None:
            prepared = self._prepared(code, lanes)
            if prepared is None:
                return False
            if len(mine.prepared) > _MOST_KNOWN:
                mine.prepared.clear()
            mine.prepared[key] = prepared
        if not code.reads(prepared.lists, self.b.line):
            return False
        self._place_registers(prepared, lanes)
        mine.run(prepared.address, len(prepared.reads), 1)
        return True

    def _of_wave(self, code: ProductCode, lanes: Lanes) -> "_OfWave | None":
        if self.kind.how is not None and lanes.wave.launch.arithmetic != "hardware":
            return None
        run = code.product(self.kind, lanes.warps // _WARPS)
        return None if run is None else _OfWave(run, {})

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

    def _prepared(self, code: ProductCode, lanes: Lanes) -> _Prepared | None:
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

    def _place_registers(self, prepared: _Prepared, lanes: Lanes) -> None:
        block = self.d.block(lanes.wave)
        if block is not prepared.block:
            prepared.jobs[:, Job.D] = block.address + 4 * _LANES * prepared.rows
            prepared.block = block
        if prepared.left is not None and isinstance(self.a, Fragment):
            np.stack([lanes.read(slot) for slot in self.a.slots], out=prepared.left)


def _of_warpgroups(lanes: Lanes, slot: int) -> Array | None:
    """The value of a register in each warpgroup; None if its warps differ."""
    values = lanes.read(slot)[:, 0].reshape(-1, _WARPS)
    first: Array = values[:, 0]
    return first if (values == values[:, :1]).all() else None

"""`tcgen05.mma` by code of the host: where the operands of one instruction are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from weft.emulator.errors import Fault
from weft.emulator.instructions import shared_operand
from weft.emulator.instructions.tcgen05_matrices import Matrices
from weft.emulator.instructions.tcgen05_operands import PROXY, descriptor_of
from weft.emulator.numerics.arithmetic import powers
from weft.emulator.numerics.floats import Doubles
from weft.emulator.reading.types import Array
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.product_code import Job, Numbers, Places, ProductCode, ProductKind, Read, Run
from weft.emulator.watch import CHUNK, Cells
from weft.isa.accumulation import Accumulation
from weft.isa.tcgen05.descriptors import BlockScaledDescriptor
from weft.isa.tcgen05.pipelining import D
from weft.isa.tcgen05.shared_descriptor import swizzle_complaint
from weft.isa.tcgen05.tensor_layouts import COLUMNS
from weft.isa.types import ELEMENT_TYPES

_MOST_KNOWN = 4096
_WORD = 4


@dataclass(frozen=True)
class Decoded:
    """An instruction of one thread of warp `row`, with the values of its operands."""

    source: Matrices
    pair: tuple[int, ...]
    how: Accumulation | None
    d_type: str
    satfinite: bool
    row: int


@dataclass(eq=False)
class _Prepared:
    """Its products: those of each CTA of `blocks`, with the cells of D there, one after the other. `scales`:
    the scales of A and B in each product, if they have any.
    """

    run: Run
    jobs: Numbers
    reads: tuple[Read, ...]
    blocks: tuple[tuple[int, Cells], ...]
    source: Matrices
    kept: bool
    scales: tuple[tuple[Doubles, Doubles], ...]

    def __post_init__(self) -> None:
        self.address: int = self.jobs.ctypes.data
        self.count = len(self.jobs) // len(self.blocks)
        idesc = self.source.idesc
        self.use = self.source.use(D)
        self._first = self.blocks[0][0]
        self.scale_blocks = idesc.scales if isinstance(idesc, BlockScaledDescriptor) else 1

    def moved(self, lanes: Lanes, at: tuple[int, int], row: int) -> "_Prepared":
        """The same instruction of another thread."""
        wave, first = lanes.wave, int(lanes.wave.cta_of_row[row])
        by = (first - first % len(self.blocks) if len(self.blocks) > 1 else first) - self._first
        blocks = tuple((cta + by, cells) for cta, cells in self.blocks)
        jobs, (jobs_by, count) = self.jobs.copy(), (by * wave.memory.shared_stride, self.count)
        jobs[:, (Job.A, Job.B)] += jobs_by
        cells = wave.tensor_memory.cells
        for rank, (cta, _) in enumerate(blocks):
            mine = jobs[rank * count : (rank + 1) * count]
            mine[:, Job.D] += cells(cta).ctypes.data - cells(cta - by).ctypes.data
        reads = tuple(Read(row, read.cta + by, read.matrices) for read in self.reads)
        source = replace(self.source, one=lanes.single(at))
        return _Prepared(self.run, jobs, reads, blocks, source, self.kept, _room(jobs, self.scales))


def _room(jobs: Numbers, like: "Sequence[tuple[Doubles, Doubles]]") -> tuple[tuple[Doubles, Doubles], ...]:
    """Memory for the scales of each product."""
    scales = tuple((np.zeros_like(of_a), np.zeros_like(of_b)) for of_a, of_b in like)
    for job, (of_a, of_b) in zip(jobs, scales, strict=False):
        job[Job.A_SCALES], job[Job.B_SCALES] = of_a.ctypes.data, of_b.ctypes.data
    return scales


@dataclass(eq=False)
class Quick:
    """One instruction. `decode` reads the operands of a thread; None: the interpreter must do it."""

    decode: Callable[[Lanes, tuple[int, int], int, dict[str, Array]], Decoded | None]
    line: int

    def run(self, lanes: Lanes, at: tuple[int, int], row: int, values: dict[str, Array]) -> bool:
        """Computes the product of one thread. False, and nothing has changed, if the interpreter must do
        it.
        """
        code = lanes.wave.products
        if code is None:
            return False
        known = lanes.wave.jobs.setdefault(self, {})
        key = tuple([_value(value, at) for value in values.values()])
        prepared: _Prepared | None = known.get((row, key))
        if prepared is None:
            # Another CTA has prepared the same, most of the time.
            like: _Prepared | None = known.get(key)
            prepared = self._prepared(lanes, at, row, values) if like is None else like.moved(lanes, at, row)
            if prepared is None:
                return False
            if len(known) > _MOST_KNOWN:
                known.clear()
            known[row, key] = known[key] = prepared
        if not code.reads(PROXY, prepared.reads, self.line):
            return False
        self._notify(code, prepared, row)
        prepared.run(prepared.address, len(prepared.jobs), prepared.scale_blocks)
        return True

    def _prepared(
        self, lanes: Lanes, at: tuple[int, int], row: int, values: dict[str, Array]
    ) -> _Prepared | None:
        try:
            decoded = self.decode(lanes, at, row, values)
            return None if decoded is None else _prepared(decoded)
        except Fault:
            return None

    def _notify(self, code: ProductCode, prepared: _Prepared, row: int) -> None:
        """Reports the uses of tensor memory, and reads the scales."""
        use = prepared.use
        for rank, (cta, cells) in enumerate(prepared.blocks):
            if prepared.kept:
                code.cells("load", cta, cells, row, self.line, use)
            if prepared.scales:
                begin = rank * prepared.count
                _read_scales(prepared.source, cta, prepared.scales[begin : begin + prepared.count])
            code.cells("store", cta, cells, row, self.line, use)


def _value(value: Array, at: tuple[int, int]) -> Any:
    return value.item(at) if value.ndim == 2 else value[at].tobytes()


def _read_scales(source: Matrices, cta: int, scales: tuple[tuple[Doubles, Doubles], ...]) -> None:
    """Puts the scales of a CTA, and their exponents, where the products of each bank want them."""
    of_a, of_b = source.scales(cta)
    for bank, (left, right) in enumerate(scales):
        for to, values in ((left, of_a[bank]), (right, of_b[bank])):
            to[0], to[1] = values, powers(np.ascontiguousarray(values))


def _prepared(decoded: Decoded) -> _Prepared | None:
    """The products of an instruction, if there is code for them."""
    source, pair = decoded.source, decoded.pair
    idesc, path, wave = source.idesc, source.path, source.one.wave
    found = [source.block(rank) for rank in range(len(pair))]
    blocks = tuple((cta, block) for cta, block in zip(pair, found, strict=True) if block is not None)
    if len(blocks) < len(pair) or wave.products is None:
        return None
    left, right = _left(source), _right(source, len(pair))
    if max(left.end, right[0].end) > wave.memory.shared_size:
        return None
    scaled = isinstance(idesc, BlockScaledDescriptor)
    kind = ProductKind(
        (idesc.a_type, idesc.b_type, decoded.d_type),
        (_bits(source, idesc.a_type), _bits(source, idesc.b_type)),
        *(path.rows, idesc.n // path.banks, source.depth(), decoded.how),
        *(True, (idesc.negate_a, idesc.negate_b), decoded.satfinite, scaled),
    )
    run = wave.products.product(kind, len(pair) * path.banks)
    if run is None:
        return None
    jobs = _jobs(source, blocks, left, right)
    scales: tuple[tuple[Doubles, Doubles], ...] = ()
    if isinstance(idesc, BlockScaledDescriptor):
        sizes = (2, kind.m, idesc.scales), (2, idesc.scales, kind.n)
        scales = _room(jobs, [(np.zeros(sizes[0]), np.zeros(sizes[1]))] * len(jobs))
    # A CTA of a pair has a part of B.
    reads = [Read(decoded.row, cta, (operand,)) for operand in (right[0], left) for cta in pair]
    kept = bool(source.values["enable_input_d"])
    return _Prepared(run, jobs, tuple(reads), blocks, source, kept, scales)


def _jobs(
    source: Matrices, blocks: tuple[tuple[int, Cells], ...], left: Places, right: tuple[Places, ...]
) -> Numbers:
    """The products of each CTA and bank."""
    wave, path = source.one.wave, source.path
    jobs = np.zeros((len(blocks), path.banks, len(Job)), np.int64)
    begin, stride = wave.memory.shared.data.ctypes.data, wave.memory.shared_stride
    ctas = np.array([cta for cta, _ in blocks])
    jobs[:, :, Job.A], jobs[:, :, Job.A_INDEX] = (begin + ctas * stride)[:, None], left.address
    jobs[:, :, Job.B], jobs[:, :, Job.B_INDEX] = begin + ctas[0] * stride, [each.address for each in right]
    jobs[:, :, Job.KEEP] = bool(source.values["enable_input_d"])
    jobs[:, :, Job.D_INDEX] = _rows(path.rows).address
    for rank, (cta, cells) in enumerate(blocks):
        lanes = cells.lane + path.rows * np.arange(path.banks)
        memory = wave.tensor_memory.cells(cta).ctypes.data
        jobs[rank, :, Job.D] = memory + _WORD * (COLUMNS * lanes + cells.column)
    return jobs.reshape(-1, len(Job))


def _bits(source: Matrices, name: str) -> int:
    """The bits between elements in shared memory, where some that have fewer than 8 are packed."""
    bits, container = ELEMENT_TYPES[name].bits, source.container(name)
    return bits if bits < container == 8 else container


def _left(source: Matrices) -> Places:
    idesc = source.idesc
    shape = source.path.rows, source.depth()
    return _shared(*_operand(source, "a", idesc.a_type, idesc.transpose_a), *shape, True, 1, 0, 1)[0]


def _right(source: Matrices, parts: int) -> tuple[Places, ...]:
    """B's places for each bank; each CTA of a pair has a part of its columns."""
    idesc, stride = source.idesc, source.one.wave.memory.shared_stride
    shape = idesc.n // parts, source.depth()
    operand = _operand(source, "b", idesc.b_type, idesc.transpose_b)
    return _shared(*operand, *shape, False, parts, stride, source.path.banks)


def _operand(source: Matrices, name: str, element: str, transposed: bool) -> tuple[int, str, int, int, bool]:
    word, container = int(source.values[name]), source.container(element)
    return word, source.idesc.kind, _bits(source, element), container, transposed


@lru_cache(1024)
def _shared(
    word: int,
    kind: str,
    bits: int,
    container: int,
    transposed: bool,
    rows: int,
    k: int,
    by_row: bool,
    parts: int,
    stride: int,
    banks: int,
) -> tuple[Places, ...]:
    """The places of a matrix `[rows, k]`, or if not `by_row` of the transposed matrices of each bank, of
    which the CTAs of a pair, `stride` bytes apart, have `parts`. Raises Fault if a descriptor is wrong.
    """
    descriptor = descriptor_of(word, 0)
    if (verdict := swizzle_complaint(kind, descriptor.swizzle, transposed=transposed)) is not None:
        raise Fault(str(verdict), 0)
    outer, inner = (k, rows) if transposed else (rows, k)
    row_bytes = inner * container // 8
    shared_operand.check_rows(descriptor, row_bytes, transposed, 0)
    offsets = shared_operand.chunk_offsets(descriptor, outer, row_bytes, transposed)
    packed = bits < container == 8
    part = shared_operand.places_of(offsets, inner, bits, transposed=transposed == by_row, packed=packed)
    step = 8 * stride // bits if bits >= 8 else 8 * stride
    every = [part.elements.astype(np.intp) + at * step for at in range(parts)]
    whole = np.concatenate(every, axis=1) if parts > 1 else every[0]
    used = 2 * bits if packed else CHUNK
    return tuple(Places(bank, offsets, used) for bank in np.split(whole, banks, axis=1))


@lru_cache(16)
def _rows(rows: int) -> Places:
    """The first cell of each row of D."""
    return Places(COLUMNS * np.arange(rows))

"""`tcgen05.mma` by code of the host: where the operands of one instruction are."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.instructions.tcgen05_matrices import PARTS, Product
from weft.emulator.instructions.tcgen05_order import PROXY
from weft.emulator.memory.tensor_memory import Calls, Touch
from weft.emulator.numerics.arithmetic import decode, powers
from weft.emulator.numerics.floats import Doubles
from weft.emulator.reading.syntax import Array
from weft.emulator.running.function_code import Job, Numbers, Places, ProductCode, ProductKind, Read, Run
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.watch import Cells
from weft.isa.tcgen05.descriptors import BlockScaledDescriptor
from weft.isa.tcgen05.pipelining import SCALE, D, Use
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANES

_T = TypeVar("_T")
Octets = npt.NDArray[np.uint8]
Thread = tuple[tuple[int, int], tuple[int, ...]]
"""A lane's index, and the row of its warp with the values of the registers that have its operands."""
_MOST_KNOWN = 4096
_WORD = 4


@dataclass(frozen=True, eq=False)
class _Scales:
    """Where the codes of the scales of one matrix are in tensor memory, as bytes: `[copies, …]` in the order
    of a product's scales, of which all copies must be the same. `cells` are the rectangles that have them.
    """

    places: Numbers
    type: str
    cells: tuple[Cells, ...]

    def read(self, octets: Octets) -> Doubles | None:
        """The scales, and their exponents. None if copies differ."""
        codes = octets[self.places]
        if (codes != codes[0]).any():
            return None
        values: Doubles = _table(self.type)[:, codes[0]]
        return values


@dataclass(frozen=True, eq=False)
class _Template:
    """The products of an instruction in any thread: those of each CTA of a pair, one after the other.
    `jobs` have offsets where addresses of the wave's memory belong, and addresses of `places`. `reads` are
    the matrices in shared memory, by the rank of their CTA, and `block` are the cells of D in each CTA.
    `scales` are those of A and B in the products of a CTA.
    """

    kind: ProductKind
    ranks: int
    jobs: Numbers
    places: tuple[Places, ...]
    reads: tuple[tuple[int, Places], ...]
    block: Cells
    kept: bool
    use: Use
    scale_use: Use
    scales: tuple[tuple[_Scales, _Scales], ...]
    scale_blocks: int

    def bound(self, wave: Wave, firsts: tuple[int, ...]) -> Numbers:
        """The products of pairs that begin with these CTAs, `[pairs, products, len(Job)]`."""
        key = _Template, firsts, self.ranks, len(self.jobs)
        addresses = wave.jobs.get(key)
        if addresses is None:
            addresses, address = (
                np.zeros((len(firsts), *self.jobs.shape), np.int64),
                wave.tensor_memory.address,
            )
            shared = wave.memory.shared.data.ctypes.data + np.array(firsts) * wave.memory.shared_stride
            addresses[:, :, Job.A] = addresses[:, :, Job.B] = shared[:, None]
            memory = np.array([[address(first + rank) for rank in range(self.ranks)] for first in firsts])
            addresses.reshape(len(firsts), self.ranks, -1, len(Job))[..., Job.D] = memory[:, :, None]
            wave.jobs[key] = addresses
        jobs: Numbers = self.jobs + addresses
        return jobs

    def scales_of(self, wave: Wave, first: int, jobs: Numbers) -> Iterator[tuple[_Scales, Octets, Doubles]]:
        """The scales of its products in `jobs`, which get memory for them."""
        each = [(rank, scales) for rank in range(self.ranks) for scales in self.scales]
        for (rank, scales), job in zip(each, jobs, strict=False):
            octets = wave.tensor_memory.cells(first + rank).view(np.uint8).reshape(-1)
            for at, operand in zip((Job.A_SCALES, Job.B_SCALES), scales, strict=True):
                room = np.zeros((2, *operand.places.shape[1:]))
                job[at] = room.ctypes.data
                yield operand, octets, room

    def touches(self, firsts: Sequence[int], rows: Sequence[int]) -> Iterator[Touch]:
        """Its accesses to tensor memory in pairs that begin with these CTAs, for these warps."""
        scales = dict.fromkeys(cells for each in self.scales for operand in each for cells in operand.cells)
        ctas = (np.array(firsts)[:, None] + np.arange(self.ranks)).reshape(-1)
        every = np.repeat(rows, self.ranks)
        for cells in scales:
            yield Touch("load", PROXY, ctas, cells, every, self.scale_use)
        yield Touch("reduce" if self.kept else "store", PROXY, ctas, self.block, every, self.use)


@dataclass(eq=False)
class _Batch:
    """The products of one instruction in some threads, at a time. `places` are those that the products have
    addresses of. `lists` is what the sanitizer needs of `reads`. `scaled`: the scales of each product, the
    tensor memory of its CTA, and where the product wants them.
    """

    runs: tuple[tuple[Run, int, Numbers, int], ...]
    places: tuple[tuple[Places, ...], ...]
    reads: tuple[Read, ...]
    lists: Any
    touches: tuple[Touch, ...]
    scaled: tuple[tuple[_Scales, Octets, Doubles], ...]

    def run(self, code: ProductCode, calls: Calls | None, line: int) -> bool:
        """Computes the products. False, and nothing has changed, if the interpreter must do it."""
        for scales, octets, to in self.scaled:
            values = scales.read(octets)
            if values is None:
                return False
            to[...] = values
        if not code.reads(self.lists, line):
            return False
        if calls is not None and not calls.record(self.touches, line):
            return False
        for run, address, jobs, blocks in self.runs:
            run(address, len(jobs), blocks)
        return True


@dataclass(eq=False)
class Quick:
    """One instruction. `decode` reads the operands of a thread."""

    decode: Callable[[Lanes, tuple[int, int], int, dict[str, Array]], Product]
    line: int
    _templates: dict[Hashable, _Template] = field(default_factory=dict)

    def run(self, lanes: Lanes, threads: Sequence[Thread], values: Callable[[], dict[str, Array]]) -> bool:
        """Computes the products of some threads; `values` returns the operands of all lanes. False, and
        nothing has changed, if the interpreter must do it.
        """
        wave = lanes.wave
        code, calls = wave.products, wave.tensor_memory.calls
        if code is None or (calls is None and wave.watch is not None):
            return False
        known: dict[Hashable, _Batch] = wave.jobs.setdefault(self, {})
        key = tuple([held for _, held in threads])
        batch = known.get(key)
        if batch is None:
            batch = self._batch(lanes, threads, values())
            if batch is None:
                return False
            _put(known, key, batch)
        return batch.run(code, calls, self.line)

    def _batch(self, lanes: Lanes, threads: Sequence[Thread], values: dict[str, Array]) -> _Batch | None:
        wave, found = lanes.wave, dict[_Template, list[int]]()
        memory = wave.memory
        shape = memory.shared_size, memory.shared_stride, wave.launch.arithmetic, wave.launch.cluster_size
        for at, (row, *held) in threads:
            key = shape, *held
            template = self._templates.get(key)
            if template is None:
                try:
                    template = _template(self.decode(lanes, at, row, values))
                except Fault:
                    return None
                if template is None:
                    return None
                _put(self._templates, key, template)
            found.setdefault(template, []).append(row)
        return _batch(wave, found)


def _put(known: dict[Hashable, _T], key: Hashable, value: _T) -> None:
    if len(known) > _MOST_KNOWN:
        known.clear()
    known[key] = value


def _batch(wave: Wave, found: Mapping[_Template, Sequence[int]]) -> _Batch | None:
    """The products of warps in a wave. None if they aren't worth code, or may depend on each other."""
    ctas, code = wave.cta_of_row, wave.products
    assert code is not None
    firsts = {
        each: tuple([cta - cta % each.ranks for cta in ctas[rows].tolist()]) for each, rows in found.items()
    }
    used = [first + rank for each, some in firsts.items() for first in some for rank in range(each.ranks)]
    if len(set(used)) < len(used):
        return None
    jobs, scaled = dict[ProductKind, list[Numbers]](), list[tuple[_Scales, Octets, Doubles]]()
    reads, touches = list[Read](), list[Touch]()
    blocks = {each.kind: each.scale_blocks for each in found}
    for each, rows in found.items():
        mine = each.bound(wave, firsts[each])
        jobs.setdefault(each.kind, []).append(mine.reshape(-1, len(Job)))
        for first, row, its in zip(firsts[each], rows, mine, strict=True):
            scaled += each.scales_of(wave, first, its)
            reads += [Read(row, first + rank, (places,)) for rank, places in each.reads]
        touches += each.touches(firsts[each], rows)
    runs = []
    for kind, parts in jobs.items():
        together = np.concatenate(parts)
        run = code.product(kind, len(together))
        if run is None:
            return None
        runs.append((run, together.ctypes.data, together, blocks[kind]))
    lists = code.prepared(PROXY, tuple(reads))
    places = tuple(each.places for each in found)
    return _Batch(tuple(runs), places, tuple(reads), lists, tuple(touches), tuple(scaled))


def _template(source: Product) -> _Template | None:
    """The products of an instruction, if there may be code for them."""
    if not source.is_plain:
        return None
    ranks, idesc, path, memory = len(source.pair), source.idesc, source.path, source.one.wave.memory
    block, *others = (source.block(rank) for rank in range(ranks))
    if block is None or None in others:
        return None
    left = source.places("a", path.rows, source.depth, by_row=True)
    part = source.places("b", idesc.n // ranks, source.depth, by_row=False)
    right = _banks(part, ranks, memory.shared_stride, path.banks)
    if max(left.end, right[0].end) > memory.shared_size:
        return None
    scaled = isinstance(idesc, BlockScaledDescriptor)
    kind = ProductKind(
        (idesc.a_type, idesc.b_type, source.d_type),
        (left.bits, part.bits),
        *(path.rows, idesc.n // path.banks, source.depth, source.how),
        *(True, (idesc.negate_a, idesc.negate_b), source.clamped, scaled),
    )
    # A CTA of a pair has a part of B.
    reads = tuple((rank, operand) for operand in (right[0], left) for rank in range(ranks))
    scales = tuple(_scales(source, bank) for bank in range(path.banks)) if scaled else ()
    places = _rows(path.rows), left, *right
    jobs = _jobs(source, block, ranks, *places)
    uses = source.use(D), source.use(SCALE)
    count = idesc.scales if isinstance(idesc, BlockScaledDescriptor) else 1
    return _Template(kind, ranks, jobs, places, reads, block, source.keeps, *uses, scales, count)


def _jobs(source: Product, block: Cells, ranks: int, rows: Places, left: Places, *right: Places) -> Numbers:
    """The products of each CTA and bank, with the offsets of A, B and D in the pair's shared memory, and in
    the CTA's tensor memory.
    """
    path = source.path
    jobs = np.zeros((ranks, path.banks, len(Job)), np.int64)
    jobs[:, :, Job.A] = source.one.wave.memory.shared_stride * np.arange(ranks)[:, None]
    jobs[:, :, Job.A_INDEX], jobs[:, :, Job.B_INDEX] = left.address, [each.address for each in right]
    jobs[:, :, Job.KEEP] = source.keeps
    jobs[:, :, Job.D_INDEX] = rows.address
    lanes = block.lane + path.rows * np.arange(path.banks)
    jobs[:, :, Job.D] = _WORD * (COLUMNS * lanes + block.column)
    return jobs.reshape(-1, len(Job))


def _scales(source: Product, bank: int) -> tuple[_Scales, _Scales]:
    """The scales of A, `[rows, scales]`, and of a bank's columns of B, `[scales, columns]`."""
    idesc, banks = source.idesc, source.path.banks
    assert isinstance(idesc, BlockScaledDescriptor)
    parts = PARTS.reshape(banks, -1)[bank]
    of_a = source.scale_cells("scale_a", PARTS, source.path.rows, idesc.a_scale_id)
    of_b = source.scale_cells("scale_b", parts, idesc.n // banks, idesc.b_scale_id)
    places = [_WORD * (COLUMNS * lane + column) + byte for lane, column, byte in (of_a, of_b)]
    each = (places[0], of_a), (places[1].transpose(0, 2, 1), of_b)
    left, right = (_Scales(at, idesc.scale_type, _rectangles(*cells[:2])) for at, cells in each)
    return left, right


def _rectangles(lane: npt.NDArray[np.intp], column: npt.NDArray[np.intp]) -> tuple[Cells, ...]:
    """Rectangles of some cells, each of adjacent columns of contiguous lanes."""
    ends = dict[tuple[int, int, int], int]()
    """The column after a rectangle, by its first lane, the lane after it and its first column."""
    for each in np.unique(column).tolist():
        used = np.zeros(LANES + 2, np.int8)
        used[lane[column == each] + 1] = 1
        for a, b in np.flatnonzero(np.diff(used)).reshape(-1, 2).tolist():
            first = next((c for (*lanes, c), end in ends.items() if lanes == [a, b] and end == each), each)
            ends[a, b, first] = each + 1
    return tuple(Cells(a, b - a, first, end - first) for (a, b, first), end in ends.items())


@lru_cache(8)
def _table(name: str) -> Doubles:
    """The values of all scales of a type, and their exponents as integers."""
    values = decode(np.arange(256, dtype=np.uint8), name)
    return np.stack([values, powers(values).astype(np.int64).view(np.float64)])


@lru_cache(1024)
def _banks(part: Places, parts: int, stride: int, banks: int) -> tuple[Places, ...]:
    """B's places for each bank; each of `parts` CTAs, `stride` bytes apart, has a part of its columns."""
    step = 8 * stride // (part.bits if part.bits >= 8 else 1)
    whole = np.concatenate([part.elements.astype(np.intp) + at * step for at in range(parts)], axis=1)
    return tuple(Places(bank, part.chunks, part.used, part.bits) for bank in np.split(whole, banks, axis=1))


@lru_cache(16)
def _rows(rows: int) -> Places:
    """The first cell of each row of D."""
    return Places(COLUMNS * np.arange(rows))

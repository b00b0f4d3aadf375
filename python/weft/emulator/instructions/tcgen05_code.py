"""`tcgen05.mma` by code of the host: where the operands of one instruction are."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import TypeVar

import numpy as np

from weft.emulator.compiled.products import Lists, Products
from weft.emulator.errors import Fault
from weft.emulator.instructions.tcgen05_matrices import Product, Scales
from weft.emulator.instructions.tcgen05_order import PROXY
from weft.emulator.memory.tensor_memory import Touch
from weft.emulator.numerics.arithmetic import decode, powers
from weft.emulator.numerics.floats import Doubles
from weft.emulator.reading.syntax import Array
from weft.emulator.running.function_code import Job, Numbers, Places, ProductKind, Read, Run
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.watch import Cells
from weft.isa.tcgen05.descriptors import BlockScaledDescriptor
from weft.isa.tcgen05.pipelining import SCALE, D, Use
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANES

_T = TypeVar("_T")
Thread = tuple[tuple[int, int], tuple[int, ...]]
"""A lane's index, and the row of its warp with the values of the registers that have its operands."""
_MOST_KNOWN = 4096
_WORD = 4


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
    scales: tuple[tuple[Scales, Scales], ...]

    def bound(self, wave: Wave, firsts: Sequence[int]) -> Numbers:
        """The products of pairs that begin with these CTAs, `[pairs, products, len(Job)]`."""
        memory, tensor, at = wave.memory, wave.tensor_memory.data, np.array(firsts)
        jobs = np.repeat(self.jobs[None], len(firsts), axis=0)
        shared = memory.shared.data.ctypes.data + at * memory.shared_stride
        jobs[:, :, (Job.A, Job.B)] += shared[:, None, None]
        jobs[:, :, Job.D] += (tensor.ctypes.data + at * tensor.strides[0])[:, None]
        return jobs

    def scales_of(self, wave: Wave, first: int, jobs: Numbers) -> Iterator[tuple[Scales, Array, Doubles]]:
        """The scales of its products in `jobs`, which get memory for them."""
        each = [(rank, scales) for rank in range(self.ranks) for scales in self.scales]
        for (rank, scales), job in zip(each, jobs, strict=False):
            for at, operand in zip((Job.A_SCALES, Job.B_SCALES), scales, strict=True):
                room = np.zeros((2, *operand.lane.shape[1:]))
                job[at] = room.ctypes.data
                yield operand, wave.tensor_memory.cells(first + rank), room

    def touches(self, firsts: Sequence[int], rows: Sequence[int]) -> Iterator[Touch]:
        """Its accesses to tensor memory in pairs that begin with these CTAs, for these warps."""
        scales = [operand.rectangles for each in self.scales for operand in each]
        ctas = (np.array(firsts)[:, None] + np.arange(self.ranks)).reshape(-1)
        every = np.repeat(rows, self.ranks)
        for cells in dict.fromkeys(chain(*scales)):
            yield Touch("load", PROXY, ctas, cells, every, self.scale_use)
        yield Touch("reduce" if self.kept else "store", PROXY, ctas, self.block, every, self.use)


@dataclass(eq=False)
class _Batch:
    """The products of one instruction in some threads, at a time. `places` are those that the products have
    addresses of. `lists` is what the sanitizer needs of `reads`. `scaled`: the scales of each product, the
    tensor memory of its CTA, and where the product wants them.
    """

    runs: tuple[tuple[Run, int, Numbers], ...]
    places: tuple[tuple[Places, ...], ...]
    reads: tuple[Read, ...]
    lists: Lists | None
    touches: tuple[Touch, ...]
    scaled: tuple[tuple[Scales, Array, Doubles], ...]

    def run(self, code: Products, watch: Sanitizer | None, line: int) -> bool:
        """Computes the products. False, and nothing has changed, if the interpreter must do it."""
        for scales, memory, to in self.scaled:
            codes = scales.codes(memory)
            if (codes != codes[0]).any():
                return False
            to[...] = _table(scales.type)[:, codes[0]]
        if not code.reads(self.lists, line):
            return False
        if watch is not None and not watch.tensor.record(self.touches, line):
            return False
        for run, address, jobs in self.runs:
            run(address, len(jobs))
        return True


@dataclass(eq=False)
class Quick:
    """One instruction. `decode` reads the operands of a thread."""

    decode: Callable[[Lanes, tuple[int, int], int, dict[str, Array]], Product]
    line: int
    _templates: dict[Hashable, _Template] = field(default_factory=dict)

    def run(self, lanes: Lanes, threads: Sequence[Thread], values: Callable[[], dict[str, Array]]) -> bool:
        """Computes products of some threads. False, and nothing has changed, if the interpreter must."""
        wave = lanes.wave
        code: Products | None = wave.jobs.get(Products)
        watch = wave.watch if isinstance(wave.watch, Sanitizer) else None
        if code is None or watch is not wave.watch:
            return False
        known: dict[Hashable, _Batch] = wave.jobs.setdefault(self, {})
        key = tuple([held for _, held in threads])
        batch = known.get(key)
        if batch is None:
            batch = self._batch(code, lanes, threads, values())
            if batch is None:
                return False
            _put(known, key, batch)
        return batch.run(code, watch, self.line)

    def _batch(
        self, code: Products, lanes: Lanes, threads: Sequence[Thread], values: dict[str, Array]
    ) -> _Batch | None:
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
        return _batch(code, wave, found)


def _put(known: dict[Hashable, _T], key: Hashable, value: _T) -> None:
    if len(known) > _MOST_KNOWN:
        known.clear()
    known[key] = value


def _batch(code: Products, wave: Wave, found: Mapping[_Template, Sequence[int]]) -> _Batch | None:
    """The products of warps in a wave. None if they aren't worth code, or may depend on each other."""
    ctas = wave.cta_of_row
    firsts = {
        each: tuple([cta - cta % each.ranks for cta in ctas[rows].tolist()]) for each, rows in found.items()
    }
    used = [first + rank for each, some in firsts.items() for first in some for rank in range(each.ranks)]
    if len(set(used)) < len(used):
        return None
    jobs, scaled = dict[ProductKind, list[Numbers]](), list[tuple[Scales, Array, Doubles]]()
    reads, touches = list[Read](), list[Touch]()
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
        runs.append((run, together.ctypes.data, together))
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
    scaled = idesc.scales if isinstance(idesc, BlockScaledDescriptor) else 0
    kind = ProductKind(
        (idesc.a_type, idesc.b_type, source.d_type),
        (left.bits, part.bits),
        *(path.rows, idesc.n // path.banks, source.depth, source.how),
        *(True, (idesc.negate_a, idesc.negate_b), source.clamped, scaled),
    )
    # A CTA of a pair has a part of B.
    reads = tuple((rank, operand) for operand in (right[0], left) for rank in range(ranks))
    scales = tuple(map(source.scales, range(path.banks))) if scaled else ()
    places = _rows(path.rows), left, *right
    jobs = _jobs(source, block, ranks, *places)
    uses = source.use(D), source.use(SCALE)
    return _Template(kind, ranks, jobs, places, reads, block, source.keeps, *uses, scales)


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
    jobs[:, :, Job.D] = _WORD * (COLUMNS * (LANES * np.arange(ranks)[:, None] + lanes) + block.column)
    return jobs.reshape(-1, len(Job))


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

"""`cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`: boxes, rows and pixels of a tensor by its map.

`tensormap.replace` and `tensormap.cp_fenceproxy`: tensor maps that a kernel builds or changes.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.boxes import Boxes
from weft.emulator.decoding.decode import AddressOf, Op
from weft.emulator.decoding.table import Collective, Step, Table
from weft.emulator.instructions import cp_async_bulk
from weft.emulator.instructions.cp_async_bulk import (
    Ends,
    Octets,
    SharedAddress,
    Write,
    aligned,
    arrive,
    checked_mask,
    fault,
    notify_global,
    notify_shared,
    reduction,
    reduction_name,
)
from weft.emulator.instructions.one_thread import address, by_code, marks_of, may_signal
from weft.emulator.instructions.tcgen05_order import pair_of
from weft.emulator.memory import tensor_map
from weft.emulator.memory.segments import WINDOWS
from weft.emulator.memory.tensor_map import Box, Numbers, Taken
from weft.emulator.reading.syntax import TYPES, U32, U64, Address, Array, Integer, Vector
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.watch import CHUNK, Chunks
from weft.isa.tcgen05.pairs import PAIR
from weft.isa.tensor_map import BYTES, ELEMENT_TYPES, FIELDS, OOB_FILLS, TensorMap

table = Table()
_SPACES = {"global": "global", "shared::cta": "shared", "": "generic"}
_WORD = 8


@table.step("tensormap.replace")
def replace(op: Op) -> Step:
    """`tensormap.replace.tile.field{.space}.b1024.type [map]{, ordinal}, value`."""
    op.choice(["tile"])
    name = op.choice([name for name in FIELDS if name != "l2_promotion"])
    field = FIELDS[name]
    space = _SPACES[op.choice(["global", "shared::cta"], "")]
    op.choice(["b1024"])
    kind = U64 if op.choice(["b32", "b64"]) == "b64" else U32
    if kind.bits != field.bits:
        op.fail(f".{name} must have the type .b{field.bits}, got .b{kind.bits}")
    counted = field.counts != 1
    op.count(3 if counted else 2)
    ordinal = op.immediate(1) if counted else 0
    if not 0 <= ordinal < field.counts:
        op.fail(
            f"the ordinal of .{name} must be in 0..{field.counts - 1}, got {ordinal}", op.operand(1).location
        )
    address, line = op.address(0, space), op.line
    last = op.operand(len(op.operands) - 1)
    if field.codes and (not isinstance(last, Integer) or not 0 <= last.value < len(ELEMENT_TYPES)):
        op.fail(f"the element type must be in 0..{len(ELEMENT_TYPES) - 1}", last.location)
    code = field.stored(last.value) if field.codes and isinstance(last, Integer) else 0
    value = op.source(last, kind)
    sets = [(slot, True) for slot in field.slots_of(ordinal)] + [(slot, False) for slot in field.clears]

    def run(lanes: Lanes) -> None:
        memory, begin = lanes.wave.memory, address(lanes)
        values = lanes.read(value).astype(np.uint64) - np.uint64(field.less)
        new = np.full_like(values, code) if field.codes else values
        for slot, is_set in sets:
            at = begin + np.uint64(_WORD * slot.word)
            mask = np.uint64(((1 << slot.bits) - 1) << slot.low)
            word = memory.load(lanes, address.space, at, _WORD, line) & ~mask
            if is_set:
                word |= (new >> np.uint64(slot.drop)) << np.uint64(slot.low) & mask
            memory.store(lanes, address.space, at, word, _WORD, line)

    return run


@table.collective("tensormap.cp_fenceproxy")
def copy_and_fence(op: Op) -> Collective:
    """`tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [to], [from],
    128`: a warp copies a map, and later copies through it see the new one.
    """
    for words in (["global"], ["shared::cta"], ["tensormap::generic"], ["release"]):
        op.choice(words)
    scope = op.choice(["cta", "cluster", "gpu", "sys"])
    op.choice(["sync"])
    op.choice(["aligned"])
    op.count(3)
    if op.immediate(2) != BYTES:
        op.fail(f"the size must be {BYTES}, got {op.immediate(2)}", op.operand(2).location)
    target, source, line = op.address(0, "global"), op.address(1, "shared"), op.line

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        leaders = lanes.enabled() & (np.cumsum(lanes.enabled(), axis=1) == 1)
        one = lanes.narrowed(leaders)
        to, begin = target(lanes), source(lanes)
        for offset in range(0, BYTES, CHUNK):
            data = memory.load(one, source.space, begin + np.uint64(offset), CHUNK, line)
            memory.store(one, target.space, to + np.uint64(offset), data, CHUNK, line)
        if lanes.wave.watch is not None:
            lanes.wave.watch.fence(f"proxy.tensormap::generic.release.{scope}", lanes.threads(), line)

    return Collective(run)


_LOADED = ("tile", "tile::gather4", "im2col", "im2col::w", "im2col::w::128")
_STORED = ("tile", "tile::scatter4", "im2col_no_offs")
_NO_OFFSETS = np.zeros(0, np.int64)
_BOX_ALIGN = 128
_ROWS = 4
_PADDED_STEP = 128
"""The innermost coordinate of a padded type must be a multiple of this number of elements."""
_SIX = 6
_NAN = np.uint16(0x7FF7)
"""The fill value of each 16 bits out of bounds, as on an H200."""
_KINDS = {f"UINT{n}": f"u{n}" for n in (8, 16, 32, 64)} | {f"INT{n}": f"s{n}" for n in (32, 64)}
_KINDS |= {f"FLOAT{n}": f"f{n}" for n in (16, 32, 64)} | {"FLOAT32_FTZ": "f32", "BFLOAT16": "bf16"}


class MapOperand:
    """The operand `[map, {coordinates}]` of a copy in one of these modes."""

    def __init__(self, op: Op, index: int, modes: tuple[str, ...] = _LOADED) -> None:
        operand = op.operand(index)
        self.address: AddressOf = op.address(index, "generic")
        self.line = op.line
        rank = op.choice([f"{n}d" for n in range(1, 6)])
        self.mode = op.choice([*_LOADED, *_STORED], "tile")
        if self.mode not in modes:
            op.fail(f"the mode must be one of {', '.join(modes)}, got {self.mode}")
        if self.mode.startswith("im2col::w"):
            op.fail(f"isn't emulated in .{self.mode} mode: the bits of its maps are not published")
        listed = operand.more[0] if isinstance(operand, Address) and operand.more else None
        self.rank = int(rank[0])
        rows = self.mode in ("tile::gather4", "tile::scatter4")
        if rows and self.rank != 2:
            op.fail(f".{self.mode} must be used with .2d, got .{rank}")
        count = 1 + _ROWS if rows else self.rank
        items = listed.items if isinstance(listed, Vector) else (listed,) if listed is not None else ()
        if len(items) != count:
            op.fail(f"expects {count} coordinates, got {len(items)}", operand.location)
        self._slots = [op.source(item, U32) for item in items]
        self._how = self.rank, self.mode

    def coordinates(self, lanes: Lanes) -> Array:
        """`[warps, 32, coordinates]`."""
        return np.stack([lanes.read(slot).view(np.int32) for slot in self._slots], axis=-1)

    def box(self, copies: Boxes, wave: Wave, row: int, lane: int) -> Box | None:
        """The box of one thread's map, if code of the host may copy it."""
        return copies.box(address(self.address, wave, row, lane), self._how)

    def where(self, box: Box, wave: Wave, row: int, lane: int) -> list[int] | None:
        """The coordinates of one thread, without signs; None if the hardware rejects them."""
        regs = wave.regs
        where = [regs[slot].item(row, lane) for slot in self._slots]
        return None if where[0] % box.aligned else where

    def map(self, one: Lanes, at: tuple[int, int], addresses: Array) -> TensorMap:
        """The map of one thread, read and checked."""
        address = addresses[at]
        aligned(one, "tensor map at", int(address), 64, self.line)
        try:
            map_ = tensor_map.decoded(self._bytes(one, at, address))
        except ValueError as error:
            raise fault(one, str(error), self.line, int(address), "descriptor") from None
        if map_.rank != self.rank or map_.is_im2col != self.mode.startswith("im2col"):
            kind = "im2col" if map_.is_im2col else "tile"
            what = f"a copy in {self.rank}d {self.mode} mode needs such a map, got {map_.rank}d {kind}"
            raise fault(one, what, self.line, int(address), "descriptor")
        if one.wave.watch is not None and one.wave.memory.device.has(int(address)):
            one.wave.watch.tensor_map(int(address), one.threads(), self.line)
        return map_

    def _bytes(self, one: Lanes, at: tuple[int, int], address: np.uint64) -> bytes:
        """The bytes of a thread's map. A parameter's, which nothing changes, need no check of each access."""
        memory = one.wave.memory
        begin = int(address) - WINDOWS["param"]
        if 0 <= begin <= memory.device.params.size - BYTES:
            memory.bytes["param"] += BYTES
            return memory.device.params.data[begin : begin + BYTES].tobytes()
        words = []
        for offset in range(0, BYTES, CHUNK):
            part = np.full((one.warps, 32), address + np.uint64(offset))
            words.append(memory.load(one, self.address.space, part, CHUNK, self.line)[at])
        return np.array(words).tobytes()


def _offsets(op: Op, index: int, count: int) -> Callable[[Lanes], Array]:
    """How to read the operand with the im2col offsets, `[warps, 32, offsets]`, if there is one."""
    items = op.items(index) if count else ()
    if len(items) != count:
        op.fail(f"expects {count} im2col offsets, got {len(items)}", op.operand(index).location)
    slots = [op.source(item, TYPES["u16"]) for item in items]

    def offsets(lanes: Lanes) -> Array:
        found = np.zeros((lanes.warps, 32, count), np.int64)
        for at, slot in enumerate(slots):
            found[..., at] = lanes.read(slot)
        return found

    return offsets


def read_map(wave: Wave) -> bool:
    """Counts the bytes of a map among the parameters."""
    wave.memory.bytes["param"] += BYTES
    return True


def _check_aligned(one: Lanes, map_: TensorMap, where: tuple[int, ...], line: int) -> None:
    """Faults if the hardware rejects the innermost coordinate."""
    if map_.element.packed_bytes:
        step = _PADDED_STEP if map_.element.packed_bytes == CHUNK else CHUNK
        aligned(one, "innermost coordinate", where[0], step, line)
    elif map_.interleave == "none":
        aligned(one, "innermost coordinate, in bytes,", where[0] * map_.unit_bytes, CHUNK, line)


def _taken(
    one: Lanes,
    map_: TensorMap,
    mode: str,
    coordinates: Array,
    moved: Array,
    line: int,
    *,
    in_chunks: bool = True,
) -> Taken:
    """The units that a copy at these coordinates accesses. Fault if the hardware rejects them."""
    where = tuple(coordinates.tolist())
    _check_aligned(one, map_, where, line)
    if mode in ("tile::gather4", "tile::scatter4"):
        if map_.box[1] != 1:
            what = f"the box of a map for a copy of rows must have 1 row, got {map_.box[1]}"
            raise fault(one, what, line, map_.address, "descriptor")
        return tensor_map.of_rows(map_, where[0], where[1:])
    if mode == "tile":
        return tensor_map.of_box(map_, where, in_chunks=in_chunks)
    for at in range(map_.rank - 2):
        low, last = map_.lower_corner[at], map_.dims[at + 1] - 1 + map_.upper_corner[at]
        if not low <= where[at + 1] <= last:
            what = f"coordinate {at + 1} of an im2col copy must be in {low}..{last}, got {where[at + 1]}"
            raise fault(one, what, line, 0, "descriptor")
    return tensor_map.of_pixels(map_, where, tuple(moved.tolist()))


def _check_barrier(one: Lanes, owner: int, barrier: int, pair: bool, line: int) -> None:
    """Faults unless the mbarrier is in the CTA that gets the data, or with `pair` in either of its pair."""
    if barrier in (pair_of(one, owner, PAIR, line) if pair else (owner,)):
        return
    where = "the pair of the CTA" if pair else "the CTA"
    group = "with .cta_group::2" if pair else "without .cta_group::2"
    what = f"the mbarrier of a copy {group} must be in {where} that gets the data, {owner}, got CTA {barrier}"
    raise fault(one, what, line, barrier, "fault")


def _check_store(one: Lanes, map_: TensorMap, line: int) -> None:
    """Faults for what the ISA defines for loads only."""
    if map_.type == "16U4_ALIGN16B" or map_.atom == "32B_FLIP_8B":
        what = map_.type if map_.type == "16U4_ALIGN16B" else f"swizzle atoms of {map_.atom}"
        raise fault(one, f"a copy out of shared memory must not use {what}", line, map_.address, "descriptor")


def _packed(octets: Octets) -> Octets:
    """The low six bits of each of 16 bytes, as 12 bytes."""
    bits = np.unpackbits(octets.reshape(-1, CHUNK, 1), axis=2, bitorder="little")[..., :_SIX]
    return np.packbits(bits.reshape(len(octets), -1), axis=1, bitorder="little")


def _spots(map_: TensorMap, taken: Taken, begin: int, width: int) -> Numbers | Chunks:
    """The bytes of a copy in a CTA's shared memory, `width` of each unit, in order."""
    first = begin + taken.goes
    if taken.in_chunks:
        return Chunks(tensor_map.swizzled(map_, first).reshape(-1))
    return tensor_map.swizzled(map_, first[..., None] + np.arange(width)).reshape(-1)


def _global(
    one: Lanes,
    map_: TensorMap,
    taken: Taken,
    some: npt.NDArray[np.bool_],
    line: int,
    kind: str,
    barrier: tuple[int, int] | None = None,
    data: Octets | None = None,
) -> tuple[Octets, Numbers | Chunks]:
    """The bytes of the buffer, and where in it the units in `some` are. Observers are notified."""
    inside = taken.bytes[some]
    if not len(inside):
        return np.zeros(0, np.uint8), np.zeros((0, taken.unit), np.int64)
    last = int(inside.max()) + taken.unit
    first = int(inside.min())
    writes = kind != "load"
    segment = cp_async_bulk.global_segment(one, map_.address, first, last, line, writes=writes)
    begins = inside + map_.address
    if taken.in_chunks:
        chunks = Chunks(begins)
        notify_global(one, kind, chunks, line, barrier, data)
        return segment.data, chunks.moved(-segment.base)
    addresses: Numbers = begins[:, None] + np.arange(taken.unit)
    notify_global(one, kind, addresses, line, barrier, data)
    return segment.data, addresses - segment.base


def _loaded(one: Lanes, map_: TensorMap, taken: Taken, line: int, barrier: tuple[int, int] | None) -> Octets:
    """The bytes of a load, with fill values out of bounds."""
    memory, spots = _global(one, map_, taken, taken.inside, line, "load", barrier)
    octets = cp_async_bulk.get(memory, spots)
    if map_.type.startswith("TFLOAT32"):  # rounded to nearest, ties to even, as on an H200
        words = np.ascontiguousarray(octets).view(np.uint32)
        special = words & np.uint32(0x7F800000) == np.uint32(0x7F800000)
        kept = np.where(words & np.uint32(0x7FFFFF), np.uint32(0x7FFFE000), words)
        odd = words >> np.uint32(13) & np.uint32(1)
        rounded = words + np.uint32(0xFFF) + odd & np.uint32(0xFFFFE000)
        octets = np.where(special, kept, rounded).view(np.uint8)
    data = octets.reshape(-1, taken.unit)
    if len(data) == taken.inside.size:
        return data.reshape(-1)
    out = np.zeros((*taken.bytes.shape, taken.unit), np.uint8)
    if map_.oob_fill == OOB_FILLS[1]:
        out.reshape(-1).view(np.uint16)[:] = _NAN
    out[taken.inside] = data
    return out.reshape(-1)


@table.step("cp.async.bulk.tensor")
def copy(op: Op) -> Step:
    """`cp.async.bulk.tensor.dim.target.source… [to], [map, {coordinates}], [mbarrier]{, {offsets}}{, mask}…`
    into shared memory, `… [map, {coordinates}], [from]{, policy}` out of it.
    """
    ends = Ends(op)
    if not ends.loads:
        return _store(op, MapOperand(op, 0, _STORED), lambda map_: None)
    hinted, multicast = "L2::cache_hint" in op.opcode, op.flag("multicast::cluster")
    pair = op.flag("cta_group::2")
    op.flag("cta_group::1")
    tensor, target, barrier = MapOperand(op, 1), SharedAddress(op, 0), SharedAddress(op, 2)
    shifted = tensor.mode.startswith("im2col")
    op.count(3 + shifted + multicast + hinted)
    offsets = _offsets(op, 3, tensor.rank - 2 if shifted else 0)
    ctas = op.source(3 + shifted, TYPES["u16"]) if multicast else 0
    line = op.line

    def quick(copies: Boxes, wave: Wave, row: int, lane: int) -> bool:
        box, place = tensor.box(copies, wave, row, lane), target.of_one(wave, row, lane)
        mark = barrier.of_one(wave, row, lane)
        if box is None or place is None or mark is None or place[1] % _BOX_ALIGN:
            return False
        where, mask = tensor.where(box, wave, row, lane), wave.regs[ctas].item(row, lane) if ctas else None
        marks = marks_of(wave, wave.cta_of_row.item(row), place[0], mark, mask, pair=pair)
        if where is None or not marks or not may_signal(wave, place[0], mark, pair=pair):
            return False
        loaded = copies.load(row, box, where, place[1], marks, line, awaited=mask is None)
        return loaded and read_map(wave)

    def run(lanes: Lanes) -> None:
        maps, where, marks = tensor.address(lanes), tensor.coordinates(lanes), barrier.of(lanes)
        targets = target.of(lanes)
        moved = offsets(lanes)
        masks = lanes.read(ctas) if ctas else None
        stride = lanes.wave.memory.shared_stride
        for one, at, cta in lanes.singles():
            map_ = tensor.map(one, at, maps)
            taken = _taken(one, map_, tensor.mode, where[at], moved[at], line)
            owner, begin = divmod(int(targets[at]), stride)
            aligned(one, "box in shared memory at", begin, _BOX_ALIGN, line)
            mark = divmod(int(marks[at]), stride)
            _check_barrier(one, owner, mark[0], pair, line)
            # A multicast signals several mbarriers.
            awaited = mark if masks is None else None
            data = _loaded(one, map_, taken, line, awaited)
            spots = _spots(map_, taken, begin, taken.unit)
            mask = None if masks is None else checked_mask(one, int(masks[at]), line)
            arrive(one, data, marks_of(one.wave, cta, owner, mark, mask, pair=pair), spots, line)

    return by_code(quick, run)


@table.step("cp.reduce.async.bulk.tensor")
def reduce(op: Op) -> Step:
    """`cp.reduce.async.bulk.tensor.dim.global.shared::cta.op… [map, {coordinates}], [from]{, policy}`."""
    ends = Ends(op)
    if ends.loads:
        op.fail("must reduce into .global")
    name = reduction_name(op)

    @lru_cache(16)
    def writer(type_: str) -> Write | None:
        if type_ not in _KINDS:
            return None
        return reduction(op, name, TYPES[_KINDS[type_]], in_l2=type_ == "FLOAT32_FTZ")

    return _store(op, MapOperand(op, 0, _STORED), lambda map_: writer(map_.type), reduces=True)


def _store(
    op: Op, tensor: MapOperand, writer: Callable[[TensorMap], Write | None], reduces: bool = False
) -> Step:
    hinted = "L2::cache_hint" in op.opcode
    op.count(2 + hinted)
    source, line = SharedAddress(op, 1), op.line

    def quick(copies: Boxes, wave: Wave, row: int, lane: int) -> bool:
        box, place = tensor.box(copies, wave, row, lane), source.of_one(wave, row, lane)
        if box is None or place is None or place[1] % _BOX_ALIGN:
            return False
        where = tensor.where(box, wave, row, lane)
        return where is not None and copies.store(row, box, where, *place, line) and read_map(wave)

    def run(lanes: Lanes) -> None:
        maps, where = tensor.address(lanes), tensor.coordinates(lanes)
        begins = source.of(lanes)
        for one, at, _ in lanes.singles():
            map_ = tensor.map(one, at, maps)
            taken = _taken(one, map_, tensor.mode, where[at], _NO_OFFSETS, line, in_chunks=not reduces)
            _check_store(one, map_, line)
            write = writer(map_)
            if reduces and write is None:
                what = f"can't reduce elements of type {map_.type}"
                raise fault(one, what, line, map_.address, "descriptor")
            cta, begin = divmod(int(begins[at]), lanes.wave.memory.shared_stride)
            aligned(one, "box in shared memory at", begin, _BOX_ALIGN, line)
            width = map_.shared_unit_bytes if map_.element.bits == _SIX else taken.unit
            sources = _spots(map_, taken, begin, width)
            shared = cp_async_bulk.bounded(one, cta, sources, line)
            some, used = taken.inside if reduces else taken.written, None
            if not some.all():
                octets = sources.octets() if isinstance(sources, Chunks) else sources
                used = octets.reshape(*some.shape, width)[some]
            notify_shared(one, "load", cta, sources, line, used=used)
            data = cp_async_bulk.get(shared, sources).reshape(*some.shape, width)[some]
            if map_.element.bits == _SIX:
                data = _packed(data)
            kind = "reduce" if write else "store"
            memory, spots = _global(one, map_, taken, some, line, kind, data=data)
            if write is None:
                cp_async_bulk.put(memory, spots, data)
            elif not isinstance(spots, Chunks):
                write(memory, spots, data)

    return run if reduces else by_code(quick, run)


@table.step("cp.async.bulk.prefetch.tensor")
def prefetch(op: Op) -> Step:
    """`cp.async.bulk.prefetch.tensor.dim.L2.src… [map, {coordinates}]…`: a hint, with checked operands."""
    op.flag("L2")
    op.choice(["global"])
    hinted = op.flag("L2::cache_hint")
    tensor = MapOperand(op, 0)
    shifted = tensor.mode.startswith("im2col")
    op.count(1 + shifted + hinted)
    offsets = _offsets(op, 1, tensor.rank - 2 if shifted else 0)
    line = op.line

    def run(lanes: Lanes) -> None:
        maps = tensor.address(lanes)
        where = tensor.coordinates(lanes)
        moved = offsets(lanes)
        for one, at, _ in lanes.singles():
            map_ = tensor.map(one, at, maps)
            if tensor.mode == "tile":
                _check_aligned(one, map_, tuple(where[at].tolist()), line)
                continue
            _taken(one, map_, tensor.mode, where[at], moved[at], line)

    return run

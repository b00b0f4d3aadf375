"""`tensormap.replace` and `tensormap.cp_fenceproxy`: tensor maps that a kernel builds or changes."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, Step, Table
from weft.emulator.reading.syntax import Integer
from weft.emulator.reading.types import U32, U64
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import CHUNK
from weft.isa.tensor_map import BYTES, ELEMENT_TYPES, FIELDS

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
    places = field.slots_of(ordinal)

    def run(lanes: Lanes) -> None:
        memory, begin = lanes.wave.memory, address(lanes)
        values = lanes.read(value).astype(np.uint64) - np.uint64(field.less)
        new = np.full_like(values, code) if field.codes else values
        for slot in places:
            at = begin + np.uint64(_WORD * slot.word)
            mask = np.uint64(((1 << slot.bits) - 1) << slot.low)
            old = memory.load(lanes, address.space, at, _WORD, line)
            put = (new >> np.uint64(slot.drop)) << np.uint64(slot.low) & mask
            memory.store(lanes, address.space, at, old & ~mask | put, _WORD, line)
        for slot in field.clears:
            at = begin + np.uint64(_WORD * slot.word)
            mask = np.uint64(((1 << slot.bits) - 1) << slot.low)
            memory.store(
                lanes,
                address.space,
                at,
                memory.load(lanes, address.space, at, _WORD, line) & ~mask,
                _WORD,
                line,
            )

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

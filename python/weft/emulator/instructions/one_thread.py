"""The operands of one thread as Python's numbers, and copies that code of the host makes for one thread."""

from collections.abc import Callable

from weft.emulator.compiled.boxes import Boxes
from weft.emulator.decoding.decode import AddressOf
from weft.emulator.decoding.table import Step
from weft.emulator.memory.mbarrier import Key
from weft.emulator.memory.segments import RANK_SHIFT, WINDOWS
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave

Quick = Callable[[Boxes, Wave, int, int], bool]
"""Copies for a thread, by its row and lane. False: it has changed nothing, and the interpreter must copy."""
_MASKS = {True: (1 << 32) - 1, False: (1 << 64) - 1}
_OFFSET = (1 << RANK_SHIFT) - 1
_PEER = 1


def by_code(quick: Quick, step: Step) -> Step:
    """`step`, a copy for each thread, with code of the host where there is some."""

    def run(lanes: Lanes) -> None:
        wave = lanes.wave
        copies: Boxes | None = wave.jobs.get(Boxes)
        if copies is None:
            step(lanes)
            return
        for at, row in lanes.places():
            if not quick(copies, wave, row, at[1]):
                step(lanes.single(at))

    return run


def address(of: AddressOf, wave: Wave, row: int, lane: int) -> int:
    """An address in its space."""
    value: int = wave.regs[of.base].item(row, lane)
    if of.offset:
        value = value + wave.regs[of.offset].item(row, lane) & _MASKS[of.narrow]
    return value


def in_shared(of: AddressOf, wave: Wave, row: int, lane: int) -> Key | None:
    """The CTA and the offset of an address of shared memory; None if it is illegal."""
    value, memory = address(of, wave, row, lane), wave.memory
    if of.space == "generic":
        value -= WINDOWS["shared"]
    rank, offset = value >> RANK_SHIFT, value & _OFFSET
    if not 0 <= rank < memory.cluster or offset >= memory.shared_size:
        return None
    cta: int = wave.cta_of_row.item(row)
    return cta - cta % memory.cluster + rank, offset


def may_signal(wave: Wave, owner: int, mark: Key, *, pair: bool) -> bool:
    """Whether the mbarrier is in the CTA that gets the data, or with `pair` in either of its pair."""
    if not pair:
        return mark[0] == owner
    return mark[0] | _PEER == owner | _PEER and wave.launch.cluster_size % 2 == 0


def ctas_of(wave: Wave, cta: int, mask: int) -> list[int]:
    """The CTAs of a CTA's cluster that a multicast mask selects."""
    return [each for rank, each in enumerate(wave.cluster_ctas(cta)) if mask >> rank & 1]


def marks_of(
    wave: Wave, cta: int, owner: int, mark: Key, mask: int | None, *, pair: bool = False
) -> list[tuple[int, Key]]:
    """The CTAs that a load of a CTA writes, each with the mbarrier that it signals: with a mask those of its
    cluster, and the mbarrier at the same offset of each, or with `pair` that of the CTA of its pair with the
    given one's rank. Empty if the mask is illegal.
    """
    if mask is None:
        return [(owner, mark)]
    if mask >> wave.launch.cluster_size:
        return []
    chosen = ctas_of(wave, cta, mask)
    if pair:
        return [(each, (each & ~_PEER | mark[0] & _PEER, mark[1])) for each in chosen]
    return [(each, (each, mark[1])) for each in chosen]

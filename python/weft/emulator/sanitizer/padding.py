"""Padding: bytes of structures and packed elements that a copy reads though nothing has written them."""

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from weft.emulator.decoding.program import Program
from weft.emulator.memory.access import Access
from weft.emulator.reading.types import Bools
from weft.emulator.sanitizer.dataflow import is_copy
from weft.emulator.sanitizer.discards import lines_of_loads
from weft.emulator.sanitizer.shadow import Index
from weft.emulator.watch import CHUNK, Traffic

_KEPT = 32
_COPIES = ("cp.async", "tensormap.cp_fenceproxy")
_OBJECT = ("tensormap.cp_fenceproxy",)
"""Instructions that copy an object in several accesses, some of which may be all padding."""


@lru_cache(_KEPT)
def needed_elements(program: Program) -> dict[int, Bools]:
    """The lines of loads and copies, and which of their elements they need: a program only stores what it has
    read of the others, if anything. In programs with functions, none is found.
    """
    if len(program.codes) > 1:
        return {}
    every = [traffic for block in program.blocks for traffic in block.traffic]
    lines, readers = lines_of_loads(program), defaultdict(list)
    for traffic in every:
        for slot in {*traffic.reads, *(traffic.guard or ())[:1]}:
            readers[slot].append(traffic)
    needed: dict[int, Bools] = {}
    for traffic in every:
        if traffic.prefix in ("ld", "ldu") and traffic.line in lines:
            needed[traffic.line] = np.array([_is_needed(slot, readers) for slot in traffic.writes])
        elif traffic.prefix in _COPIES:
            needed[traffic.line] = np.zeros(0 if traffic.prefix in _OBJECT else 1, np.bool_)
    return needed


def _is_needed(slot: int, readers: Mapping[int, list[Traffic]]) -> bool:
    """Whether an instruction computes with a register, or with a copy of it."""
    waiting, seen = [slot], {slot}
    while waiting:
        slot = waiting.pop()
        for traffic in readers.get(slot, ()):
            if is_copy(traffic):
                waiting += [each for each in traffic.writes if each not in seen]
                seen.update(traffic.writes)
            elif slot in (traffic.guard or ())[:1] or traffic.reads.count(slot) > traffic.stores.count(slot):
                return True
    return False


def is_padding(needed: Mapping[int, Bools], access: Access, empty: Bools) -> Bools:
    """Which of the empty parts of a load, `[lanes, parts of an access]`, are padding: other parts have been
    written, and the program doesn't need these.
    """
    elements = needed.get(access.line)
    if access.kind != "load" or elements is None:
        return np.zeros_like(empty)
    if not len(elements):
        return empty
    count = empty.shape[1]
    if count % len(elements):
        return np.zeros_like(empty)
    useful = np.repeat(elements, count // len(elements))
    padding: Bools = empty & ~empty.all(axis=1, keepdims=True) & ~useful
    return padding


def in_chunks(offsets: Index, empty: Bools) -> Bools:
    """Which of the empty parts of what a copy reads are padding: others of the same 16 bytes have been
    written.
    """
    chunks = offsets // CHUNK
    padding: Bools = empty & np.isin(chunks, chunks[~empty])
    return padding

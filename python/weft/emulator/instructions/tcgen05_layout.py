"""The positions of `tcgen05.mma`'s operands in tensor memory (PTX ISA, "Data Path Layout Organization",
"Block Scaling", "Sparse Matrices").

Lanes and columns are those of one CTA; each CTA of a pair has half of the rows.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from weft.emulator.memory.tensor_memory import Numbers
from weft.isa.tcgen05.descriptors import BlockScaledDescriptor, InstructionDescriptor

Descriptor = InstructionDescriptor | BlockScaledDescriptor
_PART = 32
"""The lanes of a part, which one warp can access."""


@dataclass(frozen=True)
class DataPath:
    """How the rows of one CTA are distributed over the lanes.

    There are `banks`, which divide the columns of D among them; each has all of A. `lanes` are those of the
    first bank's rows. If only `half` of the lanes are used, an address may begin at lane 16.
    """

    banks: int
    rows: int
    half: bool

    @property
    def lanes(self) -> Numbers:
        row = np.arange(self.rows)
        return row % 16 + row // 16 * _PART if self.half else row

    def bank_lanes(self) -> Numbers:
        """`[banks, rows]`."""
        first: Numbers = np.arange(self.banks)[:, None] * self.rows
        return first + self.lanes


@cache
def data_path(m: int, cta_group: int, *, sparse: bool, ws: bool) -> DataPath:
    """The data path of an instruction with this M, which is the pair's if `cta_group` is 2."""
    rows = m // cta_group
    if rows == 128:
        return DataPath(1, rows, half=False)
    if ws or (cta_group == 2 and not sparse):
        return DataPath(128 // rows, rows, half=False)
    return DataPath(1, rows, half=True)


def scale_cells(parts: Numbers, rows: int, first: int, scales: int) -> tuple[Numbers, Numbers, Numbers]:
    """Lane, column and byte of each scale of `rows` rows, `[parts, rows, scales]`, from byte `first` on.

    A word has four scales of a row. The next four follow after as many columns as 128-row tiles take.
    """
    row = np.arange(rows)[:, None]
    byte = first + np.arange(scales)
    lane = parts[:, None, None] * _PART + row % _PART
    column = row // _PART + byte // 4 * (-(-rows // 128) * 4)
    shape = (len(parts), rows, scales)
    return np.broadcast_to(lane, shape), np.broadcast_to(column, shape), np.broadcast_to(byte % 4, shape)


def metadata_cells(lanes: Numbers, chunks: int, kind: str, selector: int) -> tuple[Numbers, Numbers, Numbers]:
    """Lane, column and number of the four bits of each chunk, `[..., chunks]`, for rows at these lanes."""
    lane, chunk = np.broadcast_arrays(lanes[..., None], np.arange(chunks))
    if kind not in ("f16", "tf32"):
        return lane, chunk // 8, chunk % 8
    # Rows i and i + 8 share two lanes: four chunks of both are in one word.
    split = lane // 16 * 16 + lane % 8 + chunk // 4 * 8
    return split, np.full_like(lane, selector), lane % 16 // 8 * 4 + chunk % 4

"""`tcgen05.cp` and `shift`: copies from shared to tensor memory, and moves of rows in it."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.errors import Fault
from weft.emulator.instructions import shared_operand
from weft.emulator.instructions.mma import legal_form
from weft.emulator.instructions.shared_operand import PACKED
from weft.emulator.instructions.tcgen05_order import PROXY, descriptor_of, notify_tensor, pair_of
from weft.emulator.memory.tensor_memory import COLUMN_MASK, Numbers, check
from weft.emulator.reading.syntax import U64
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import CHUNK, Cells
from weft.isa.tcgen05 import copy as tcgen05_copy
from weft.isa.tcgen05.pipelining import SOURCE, TARGET, Use
from weft.isa.tcgen05.tensor_layouts import LANE_SHIFT, LANES

table = Table()
_PART = 32
"""The lanes that a warp can access."""
_SHIFTED_COLUMNS = 8


@table.step("tcgen05.cp")
def copy(op: Op) -> Step:
    """`tcgen05.cp… [address], descriptor`."""
    form = legal_form(op, (tcgen05_copy.CP,))
    op.count(2)
    address, word, line = op.address(0, "tensor"), op.source(1, U64), op.line
    lanes_of = np.array(tcgen05_copy.copied_lanes(form.shape, form.multicast))
    whole = np.unique(lanes_of)
    is_rectangle = int(whole[-1]) - int(whole[0]) < len(whole)
    rows, row_bytes = len(lanes_of), int(form.shape.partition("x")[2].rstrip("b")) // 8
    words, use = np.arange(row_bytes // 4), Use("cp", (form.shape,))
    # 16 elements of fewer than 8 bits leave the rest of their 16 bytes unused.
    used = 2 * PACKED[form.source_format][0] if form.source_format else CHUNK

    def run(lanes: Lanes) -> None:
        addresses, descriptors = address(lanes), lanes.read(word)
        for one, at, cta in lanes.singles():
            descriptor = descriptor_of(int(descriptors[at]), line)
            begin = int(addresses[at])
            lane = (begin >> LANE_SHIFT) + lanes_of[:, :, None]
            column = (begin & COLUMN_MASK) + words
            check(lane, column, line)
            shared_operand.check_rows(descriptor, row_bytes, False, line)
            offsets = shared_operand.chunk_offsets(descriptor, rows, row_bytes, False)
            for each in pair_of(lanes, cta, form.cta_group, line):
                data = shared_operand.read(one, PROXY, each, offsets, line, used)
                if form.source_format:
                    data = shared_operand.unpacked(data, *PACKED[form.source_format])
                cells = Cells(lane.min().item(), len(whole), int(column[0]), len(words))
                notify_tensor(one, "store", each, cells if is_rectangle else (lane, column), line, use)
                lanes.wave.tensor_memory.cells(each)[lane, column] = data.view(np.uint32)[:, None]

    return run


@table.step("tcgen05.shift")
def shift(op: Op) -> Step:
    """`tcgen05.shift….down [address]`: each lane gets the next one's 32 bytes, except the last of 32 lanes.

    The move ends within a warp's part, as has been reported of a B200; the ISA mentions the last row only.
    """
    form = legal_form(op, (tcgen05_copy.SHIFT,))
    op.count(1)
    address, line = op.address(0, "tensor"), op.line
    reads, writes = Use("shift", operand=SOURCE), Use("shift", operand=TARGET)

    def run(lanes: Lanes) -> None:
        addresses = address(lanes)
        for one, at, cta in lanes.singles():
            begin = int(addresses[at])
            first, column = begin >> LANE_SHIFT, (begin & COLUMN_MASK) + np.arange(_SHIFTED_COLUMNS)
            if first % _PART:
                what = f"the lane of tcgen05.shift's address must be a multiple of {_PART}, got {first}"
                raise Fault(what, line, address=begin, rule="tmem-access")
            target = np.arange(first, LANES)[:, None]
            check(target, column, line)
            source = shifted(target)
            for each in pair_of(lanes, cta, form.cta_group, line):
                notify_tensor(one, "load", each, (source, column), line, reads)
                notify_tensor(one, "store", each, (target, column), line, writes)
                cells = lanes.wave.tensor_memory.cells(each)
                cells[target, column] = cells[source, column]

    return run


def shifted(row: Numbers) -> Numbers:
    """The row that replaces each row when rows move down by one."""
    return np.where(row % _PART == _PART - 1, row, row + 1)

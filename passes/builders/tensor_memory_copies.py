"""The `tcgen05.cp` that copy a buffer from shared to tensor memory: the widest that its layouts allow."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.dialects import tcgen05, tile
from weft.dialects.op import refuse
from weft.isa.tcgen05 import copy as isa
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor
from weft.isa.tcgen05.tensor_layouts import COLUMN_BITS, COLUMNS, LANES
from weft.isa.wgmma.descriptors import UNIT as DESCRIPTOR_UNIT
from weft.layout import AXES, Layout
from weft.layout.iterators import point_table
from weft.mlir import ir
from weft.passes.analysis import active_threads
from weft.passes.builders import addresses, matrix_descriptors, thread_ids
from weft.passes.builders.tcgen05_operands import CanonicalLayout
from weft.passes.registry import remarks

Table = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_UNIT = 8 * DESCRIPTOR_UNIT
"""The bits that a copy moves at once: 16 bytes of shared memory, which become four columns."""
_UNIT_COLUMNS = _UNIT // COLUMN_BITS
_UNITS = COLUMNS // _UNIT_COLUMNS
_EXPANDED = 16  # the elements of fewer than 8 bits that 16 bytes hold, before and after they are expanded
_FORMATS = {"f6E2M3FN": "b6x16_p32", "f6E3M2FN": "b6x16_p32", "f4E2M1FN": "b4x16_p64"}
"""How elements that the copy expands to bytes are packed in 16 bytes of shared memory."""


@dataclass(frozen=True)
class Copy:
    """One instruction: its form without cta_group, its first column, where its source begins, in units of 16
    bytes, and the bits from panel to panel and from group to group of rows there, 0 if there is only one.
    """

    shape: str
    multicast: str
    column: int
    units: int
    strides: tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """The instructions of a copy, each with the descriptor of the source's start, and why wider ones don't
    fit.
    """

    copies: tuple[tuple[Copy, SharedMemoryDescriptor], ...]
    source_format: str
    others: tuple[tuple[str, str], ...]


def copy(op: ir.OpView) -> None:
    """A `tile.copy_tmem`."""
    scope = active_threads.scope_of(op, op.destination)
    if scope not in ("thread", "warp"):
        raise refuse(op, f"expects one thread or a warp, got exec_scope {scope}")
    found = plan(op.source.type, op.destination.type)
    if isinstance(found, str):
        raise refuse(op, f"expects {found}")
    remarks.explain(op, lambda: _path(found))
    starts = {
        record: matrix_descriptors.start(op.source, tcgen05.shared_memory_descriptor, record)
        for record in dict.fromkeys(record for _, record in found.copies)
    }
    target = tile.address(op.destination)
    with thread_ids.elected_if(scope == "warp"):
        for each, record in found.copies:
            tcgen05.cp(
                address=addresses.offset(target, each.column),
                descriptor=matrix_descriptors.advance(starts[record], each.units),
                shape=each.shape,
                multicast=each.multicast,
                source_format=found.source_format or "",
                cta_group=op.attribute("cta_group"),
            )


def plan(source: ir.Type, destination: ir.Type) -> Plan | str:
    """How a buffer is copied to another of the same shape and elements; a complaint, to follow "expects", if
    no instruction does.
    """
    name, bits = str(source.element_type), source.element_bits
    return _plan(source.layout, destination.layout, bits, _FORMATS.get(name, ""))


@lru_cache(maxsize=256)
def _plan(source: Layout, destination: Layout, bits: int, packed_format: str) -> Plan | str:
    units = _units(source, destination, bits, bool(packed_format))
    if isinstance(units, str):
        return units
    table, expanded = units
    mode = source.swizzle.name if source.swizzle else "none"
    canonical = CanonicalLayout(mode, False, _EXPANDED if expanded else _UNIT // bits, bits)
    refused = dict[str, str]()
    copies = _copies(table, canonical, refused)
    if copies is None:
        reasons = "; ".join(f"{name} {reason}" for name, reason in refused.items())
        return f"layouts between which an instruction copies: {reasons}"
    # An instruction that doesn't use a stride takes another's, so that they share a descriptor.
    across, down = (next((each.strides[i] for each in copies if each.strides[i]), 0) for i in range(2))
    described = tuple(
        (each, canonical.descriptor(each.strides[0] or across, each.strides[1] or down)) for each in copies
    )
    taken = {_name(each.shape, each.multicast) for each in copies}
    wider = tuple((name, reason) for name, reason in refused.items() if name not in taken)
    return Plan(described, packed_format if expanded else "", wider)


def _copies(table: Table, canonical: CanonicalLayout, refused: dict[str, str]) -> list[Copy] | None:
    """The instructions that copy all units, from the first column on the widest that fits; None where none
    does. Why others don't is added to `refused`.
    """
    left, copies = table >= 0, list[Copy]()
    while left.any():
        unit = int(left.any(axis=0).argmax())
        for shape, multicast in _WIDEST_FIRST:
            found = _strides(table, left, unit, shape, multicast, canonical)
            if not isinstance(found, str):
                break
            refused.setdefault(_name(shape, multicast), found)
        else:
            return None
        lanes = np.array(isa.copied_lanes(shape, multicast))
        begin = int(table[lanes[0, 0], unit])
        copies.append(Copy(shape, multicast, unit * _UNIT_COLUMNS, begin, found))
        left[lanes, unit : unit + _width(shape)] = False
    return copies


def _name(shape: str, multicast: str) -> str:
    return f"{shape}.{multicast}" if multicast else shape


def _width(shape: str) -> int:
    """The units that each row of a shape has."""
    return int(shape.partition("x")[2].rstrip("b")) // _UNIT


_WIDEST_FIRST = sorted(isa.CP_SHAPES, key=lambda form: -np.size(isa.copied_lanes(*form)) * _width(form[0]))


def _positions(layout: Layout, axis: str) -> Table:
    """The position on an axis of each element in row-major order."""
    return point_table(layout.shard)[:, AXES.index(axis)]


def _units(source: Layout, destination: Layout, bits: int, expands: bool) -> tuple[Table, bool] | str:
    """For each lane and unit of columns of the destination, the unit of the source that it is a copy of, -1
    where nothing is copied to; and whether elements are expanded to bytes.
    """
    begin = _positions(source, "m") * bits
    lane, end = _positions(destination, "TLane"), _positions(destination, "TCol") * bits
    unit, inside = end // _UNIT, end % _UNIT
    expanded = expands and (bits == 8 or _has_bytes(unit, lane))
    step = 8 if expanded else bits
    # The position in the source of the unit that has an element.
    first = begin - inside // step * bits
    full = _EXPANDED if expanded else _UNIT // bits
    key = lane * _UNITS + unit
    order = np.lexsort((inside, key))
    counts = np.unique(key, return_counts=True)[1]
    if (counts != full).any():
        return f"whole units of {_UNIT // 8} bytes in each lane, got layout {destination}"
    groups, places = (each[order].reshape(-1, full) for each in (first, inside))
    aligned = (groups == groups[:, :1]).all() and (places == np.arange(full) * step).all()
    if not aligned or (groups % _UNIT).any():
        what = f"elements in units of {_UNIT // 8} bytes in both buffers, in the same order"
        return f"{what}, got layouts {source} and {destination}"
    table = np.full((LANES, _UNITS), -1, np.int64)
    shifts = point_table(destination.replica)[:, [AXES.index("TLane"), AXES.index("TCol")]]
    for down, across in shifts.tolist():
        at = unit + across * bits // _UNIT
        table[lane + down, at] = first // _UNIT
    return table, expanded


def _has_bytes(unit: Table, lane: Table) -> bool:
    """Whether a unit has 16 elements, a byte each."""
    return int(np.count_nonzero((unit == unit[0]) & (lane == lane[0]))) == _EXPANDED


def _strides(
    table: Table,
    left: npt.NDArray[np.bool_],
    unit: int,
    shape: str,
    multicast: str,
    canonical: CanonicalLayout,
) -> tuple[int, int] | str:
    """The strides, in bits, of the source of an instruction whose destination begins at a unit of columns; or
    why there is no such instruction.
    """
    lanes, width = np.array(isa.copied_lanes(shape, multicast)), _width(shape)
    if unit + width > _UNITS or (table[lanes, unit : unit + width] < 0).any():
        return f"needs lanes {_listed(lanes)} of {width * _UNIT_COLUMNS} columns"
    if not left[lanes, unit : unit + width].all():
        return f"would copy to columns from {unit * _UNIT_COLUMNS} on again"
    units = table[lanes, unit : unit + width]
    if (units != units[:, :1]).any():
        return "needs the same rows in each of its copies"
    rows = units[:, 0] * _UNIT
    if (rows - rows[:, :1] != rows[0] - rows[0, 0]).any():
        return "needs rows that are alike in the source"
    elements = (rows[0, :, None] + canonical.bits * np.arange(canonical.unit)).ravel()
    found = canonical.strides(elements, rows[:, 0] - rows[0, 0])
    return found if found is not None else f"needs a source of {canonical}"


def _listed(lanes: Table) -> str:
    """The lanes of an instruction, as ranges."""
    numbers = np.unique(lanes)
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(f"{part[0]}..{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _path(chosen: Plan) -> remarks.Path:
    """Which instructions copy a buffer, and why there are no wider ones."""
    suffix = f".b8x16.{chosen.source_format}" if chosen.source_format else ""
    taken = Counter(f"tcgen05.cp.{_name(each.shape, each.multicast)}{suffix}" for each, _ in chosen.copies)
    listed = " and ".join(f"{count} x {name}" for name, count in taken.items())
    return listed, [f"tcgen05.cp.{name} {reason}" for name, reason in chosen.others]

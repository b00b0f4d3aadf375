"""The special registers. Those in CLOCKS change while a program runs and can only be moved."""

from collections.abc import Callable

import numpy as np

from weft.emulator.memory.segments import RANK_SHIFT
from weft.emulator.reading.syntax import STORAGE, Array
from weft.emulator.running.ctas import Ctas

CLOCKS = frozenset(["%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"])
_LANE = np.arange(32, dtype=np.uint64)
_ONE = np.uint64(1)


def _axis(values: Callable[[Ctas], Array], axis: int) -> Callable[[Ctas], object]:
    return lambda ctas: values(ctas)[..., axis]


def _warp(value: object) -> Callable[[Ctas], object]:
    return lambda ctas: value


_FIXED: dict[str, Callable[[Ctas], object]] = {
    "%laneid": _warp(_LANE),
    "%lanemask_eq": _warp(_ONE << _LANE),
    "%lanemask_lt": _warp((_ONE << _LANE) - _ONE),
    "%lanemask_le": _warp((_ONE << (_LANE + _ONE)) - _ONE),
    "%lanemask_gt": _warp(np.uint64(0xFFFFFFFF) - ((_ONE << (_LANE + _ONE)) - _ONE)),
    "%lanemask_ge": _warp(np.uint64(0xFFFFFFFF) - ((_ONE << _LANE) - _ONE)),
    "%warpid": lambda ctas: ctas.warp_of_row[:, None],
    "%nwarpid": lambda ctas: ctas.launch.warps,
    "%smid": lambda ctas: ctas.cta_numbers[ctas.cta_of_row][:, None],
    "%nsmid": lambda ctas: ctas.launch.total_ctas,
    "%gridid": _warp(1),
    "%dynamic_smem_size": lambda ctas: ctas.launch.dynamic_shared,
    "%total_smem_size": lambda ctas: ctas.launch.shared_bytes,
    "%aggr_smem_size": lambda ctas: ctas.launch.shared_bytes,
    **dict.fromkeys(("%reserved_smem_offset_begin", "%reserved_smem_offset_end"), _warp(0)),
    "%reserved_smem_offset_cap": _warp(0),
    # There is no reserved memory: accesses at its parts must fault, not reach the program's own.
    **dict.fromkeys(("%reserved_smem_offset_0", "%reserved_smem_offset_1"), _warp((1 << RANK_SHIFT) - 1024)),
    "%is_explicit_cluster": lambda ctas: int(ctas.launch.explicit_cluster),
    "%cluster_ctarank": lambda ctas: (ctas.cta_of_row % ctas.launch.cluster_size)[:, None],
    "%cluster_nctarank": lambda ctas: ctas.launch.cluster_size,
    "%current_graph_exec": _warp(0),
}
for _i, _name in enumerate("xyzw"):
    _FIXED[f"%tid.{_name}"] = _axis(lambda ctas: ctas.tid, _i)
    _FIXED[f"%ntid.{_name}"] = _axis(lambda ctas: ctas.ntid, _i)
    _FIXED[f"%ctaid.{_name}"] = _axis(lambda ctas: ctas.ctaid, _i)
    _FIXED[f"%nctaid.{_name}"] = _axis(lambda ctas: ctas.nctaid, _i)
    # Without clusters every CTA is a cluster of its own.
    _FIXED[f"%clusterid.{_name}"] = _axis(lambda ctas: ctas.ctaid // ctas.cluster_nctaid, _i)
    _FIXED[f"%nclusterid.{_name}"] = _axis(lambda ctas: ctas.nctaid // ctas.cluster_nctaid, _i)
    _FIXED[f"%cluster_ctaid.{_name}"] = _axis(lambda ctas: ctas.ctaid % ctas.cluster_nctaid, _i)
    _FIXED[f"%cluster_nctaid.{_name}"] = _axis(lambda ctas: ctas.cluster_nctaid, _i)
_FIXED |= {f"%envreg{i}": _warp(0) for i in range(32)}
_FIXED |= {f"%pm{i}{wide}": _warp(0) for i in range(8) for wide in ("", "_64")}  # nothing is counted
# The driver's interface to cooperative launches: the workspace's address, high half first.
_FIXED["%envreg1"] = lambda ctas: ctas.device.workspace >> 32
_FIXED["%envreg2"] = lambda ctas: ctas.device.workspace & 0xFFFFFFFF

REGISTERS = CLOCKS | _FIXED.keys()
VECTORS = {name.removesuffix(".x") for name in _FIXED if name.endswith(".x")}
"""The special registers that are vectors of four."""


def fixed(ctas: Ctas, name: str, bits: int) -> Array:
    """The value of a special register for every lane, as an unsigned integer of `bits`."""
    value = np.asarray(_FIXED[name](ctas))
    return np.ascontiguousarray(np.broadcast_to(value, (ctas.warps, 32))).astype(STORAGE[bits])


def clock(ticks: int, name: str) -> int:
    """The value of a clock after `ticks` instructions of the wave."""
    if name.endswith("_hi"):
        return ticks >> 32
    wide = "64" in name or name == "%globaltimer"
    return ticks & ((1 << (64 if wide else 32)) - 1)

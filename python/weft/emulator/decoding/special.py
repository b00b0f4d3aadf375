"""The special registers. Those of CLOCKS change as a program runs and can only be moved."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from weft.emulator.reading.types import STORAGE, Array

if TYPE_CHECKING:
    from weft.emulator.running.wave import Wave

CLOCKS = frozenset(["%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"])
_LANE = np.arange(32, dtype=np.uint64)
_ONE = np.uint64(1)


def _axis(values: Callable[["Wave"], Array], axis: int) -> Callable[["Wave"], object]:
    return lambda wave: values(wave)[..., axis]


def _warp(value: object) -> Callable[["Wave"], object]:
    return lambda wave: value


_FIXED: dict[str, Callable[["Wave"], object]] = {
    "%laneid": _warp(_LANE),
    "%lanemask_eq": _warp(_ONE << _LANE),
    "%lanemask_lt": _warp((_ONE << _LANE) - _ONE),
    "%lanemask_le": _warp((_ONE << (_LANE + _ONE)) - _ONE),
    "%lanemask_gt": _warp(np.uint64(0xFFFFFFFF) - ((_ONE << (_LANE + _ONE)) - _ONE)),
    "%lanemask_ge": _warp(np.uint64(0xFFFFFFFF) - ((_ONE << _LANE) - _ONE)),
    "%warpid": lambda wave: wave.warp_of_row[:, None],
    "%nwarpid": lambda wave: wave.launch.warps,
    "%smid": lambda wave: wave.cta_numbers[wave.cta_of_row][:, None],
    "%nsmid": lambda wave: wave.launch.total_ctas,
    "%gridid": _warp(1),
    "%dynamic_smem_size": lambda wave: wave.launch.dynamic_shared,
    "%total_smem_size": lambda wave: wave.launch.shared_bytes,
    "%aggr_smem_size": lambda wave: wave.launch.shared_bytes,
    "%reserved_smem_offset_begin": _warp(0),
    "%reserved_smem_offset_end": _warp(0),
    "%is_explicit_cluster": lambda wave: int(wave.launch.explicit_cluster),
    "%cluster_ctarank": lambda wave: (wave.cta_of_row % wave.launch.cluster_size)[:, None],
    "%cluster_nctarank": lambda wave: wave.launch.cluster_size,
    "%current_graph_exec": _warp(0),
}
for _i, _name in enumerate("xyzw"):
    _FIXED[f"%tid.{_name}"] = _axis(lambda wave: wave.tid, _i)
    _FIXED[f"%ntid.{_name}"] = _axis(lambda wave: wave.ntid, _i)
    _FIXED[f"%ctaid.{_name}"] = _axis(lambda wave: wave.ctaid, _i)
    _FIXED[f"%nctaid.{_name}"] = _axis(lambda wave: wave.nctaid, _i)
    # Without clusters every CTA is a cluster of its own.
    _FIXED[f"%clusterid.{_name}"] = _axis(lambda wave: wave.ctaid // wave.cluster_nctaid, _i)
    _FIXED[f"%nclusterid.{_name}"] = _axis(lambda wave: wave.nctaid // wave.cluster_nctaid, _i)
    _FIXED[f"%cluster_ctaid.{_name}"] = _axis(lambda wave: wave.ctaid % wave.cluster_nctaid, _i)
    _FIXED[f"%cluster_nctaid.{_name}"] = _axis(lambda wave: wave.cluster_nctaid, _i)
_FIXED |= {f"%envreg{i}": _warp(0) for i in range(32)}
# The driver's interface to cooperative launches: the workspace's address, high half first.
_FIXED["%envreg1"] = lambda wave: wave.memory.device.workspace >> 32
_FIXED["%envreg2"] = lambda wave: wave.memory.device.workspace & 0xFFFFFFFF

REGISTERS = CLOCKS | _FIXED.keys()


def fixed(wave: "Wave", name: str, bits: int) -> Array:
    """The value of a special register for every lane of a wave, as an unsigned integer of `bits`."""
    value = np.asarray(_FIXED[name](wave))
    return np.ascontiguousarray(np.broadcast_to(value, (wave.warps, 32))).astype(STORAGE[bits])


def clock(wave: "Wave", name: str) -> int:
    """A clock's value: it counts the instructions that the wave has executed."""
    ticks = wave.ticks
    return (
        ticks >> 32
        if name.endswith("_hi")
        else ticks & ((1 << 64) - 1 if "64" in name or name == "%globaltimer" else (1 << 32) - 1)
    )

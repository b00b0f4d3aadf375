"""Modifiers of copies and launch control among CTAs that not every chip has (PTX ISA, "Data Movement and
Conversion Instructions: cp.async.bulk.tensor", "clusterlaunchcontrol.try_cancel"; chips as ptxas 13.0 takes
them).
"""

from dataclasses import dataclass

from weft.isa.chips import ChipSet, describe, only, since
from weft.isa.family import Verdict
from weft.isa.tcgen05.family import ALL as WITH_TENSOR_MEMORY


@dataclass(frozen=True)
class Feature:
    """A modifier, or a form of an instruction, and the chips that have it."""

    name: str
    chips: ChipSet

    def complaint(self, chip: str) -> Verdict | None:
        """Why it can't be used on a chip."""
        if chip in self.chips:
            return None
        return Verdict("target", f"needs {describe(self.chips)}, got {chip}")


_OF_A_FAMILY = WITH_TENSOR_MEMORY | only("sm_120f", "sm_120a", "sm_121f", "sm_121a")

COPY_OF_PAIR = Feature("cp.async.bulk.tensor with .cta_group::2", WITH_TENSOR_MEMORY)
GATHER = Feature("cp.async.bulk.tensor with .tile::gather4", since("sm_100"))
GATHER_TO_CLUSTER = Feature(
    "cp.async.bulk.tensor with .tile::gather4 to .shared::cluster", WITH_TENSOR_MEMORY
)
CANCEL = Feature("clusterlaunchcontrol.try_cancel", since("sm_100"))
CANCEL_FOR_CLUSTER = Feature("clusterlaunchcontrol.try_cancel with .multicast::cluster::all", _OF_A_FAMILY)
ANSWER_BYTES = 16
"""Shared memory that `clusterlaunchcontrol.try_cancel` writes."""
FEATURES = (COPY_OF_PAIR, GATHER, GATHER_TO_CLUSTER, CANCEL, CANCEL_FOR_CLUSTER)

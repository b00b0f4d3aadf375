"""How a whole product is mapped to a chip: the attribute `schedule` of `tile.matmul`.

`family` has what all schedules share, `families` the registered ones, and there is a file for each family.
"""

from weft.dialects.product_types import GROUP_ROWS, PROMOTED, Types, ceil_div
from weft.dialects.schedule.direct import DirectSchedule
from weft.dialects.schedule.families import FAMILIES, needed_chips, read_schedule, schedule_of
from weft.dialects.schedule.family import SWIZZLES, AnySchedule
from weft.dialects.schedule.mma_sync import COPY, Schedule
from weft.dialects.schedule.staging import STAGING_PARTS, Staging
from weft.dialects.schedule.tcgen05 import TensorMemorySchedule
from weft.dialects.schedule.tma_mma import TmaMmaSchedule
from weft.dialects.schedule.wgmma import (
    MOST_RUNS,
    OTHER_REGISTERS,
    WarpgroupSchedule,
    added_pieces,
    barrier_bytes,
)
from weft.dialects.schedule.wmma import WmmaSchedule

"""Products of i8 by `dp4a`, on every chip: an extension of Weft."""

import weft
from weft_dp4a import dialect, lowering, schedule


def register() -> None:
    """Registers everything. Weft calls this function, which the entry point names."""
    weft.register_dialect(dialect.Dot)
    weft.register_pass(lowering.LOWER_DOT, after="lower-mma")
    weft.register_candidate("tile.gemm", lowering.CANDIDATE)
    weft.register_schedule(schedule.DotSchedule, expand=schedule.expand, chooser=schedule.CHOOSER)

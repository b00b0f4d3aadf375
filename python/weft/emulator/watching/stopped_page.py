"""A stopped wave, as notebooks show it."""

from typing import Any

from weft.display.html import Html
from weft.emulator.running.words import lanes_in_words


def of(stopped: Any) -> str:
    """HTML of a `Stopped`: where it is, its warps, and the mbarriers of the first CTA."""
    row, _ = stopped.first()
    cta = int(stopped.wave.cta_of_row[row])
    source = stopped.source
    made = Html(f"{stopped.function} has stopped", str(source) if source else f"PTX line {stopped.line}")
    rows = []
    for state in stopped.warps():
        place = state.source or state.line or ""
        rows.append((state.cta, state.warp, lanes_in_words(state.lanes), place, state.waits))
    made.table(["CTA", "warp", "lanes", "line", "waits"], rows)
    mbarriers = stopped.mbarriers(cta)
    if mbarriers:
        columns = ["mbarrier", "phase", "arrived", "bytes pending", "warps that wait"]
        made.table(
            columns,
            [
                (
                    f"0x{each.offset:x}",
                    each.state.parity,
                    f"{each.state.expected - each.state.pending} of {each.state.expected}",
                    each.state.tx,
                    len(each.waiting),
                )
                for each in mbarriers
            ],
        )
    return made.text()

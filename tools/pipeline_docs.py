"""Draws docs/pipeline-sm_90a.svg, the pipeline of a CTA that computes two tiles as the emulator runs it:
`python -m weft.tools.pipeline_docs [FILE]`.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.isa.chips import WARPS
from weft.launch.kernel import Kernel
from weft.svg import Svg

SCHEDULE = WarpgroupSchedule((128, 128, 64), warpgroups=2, stages=4)
TILES, BLOCKS = 2, 8  # tiles of D that the CTA computes, and K blocks of each

# Of each tile: what a stage holds, what is read of it and what is done to sums, and what is done with stages.
_COLOURS = (("#ffe8cc", "#ffc078", "#e8590c"), ("#d0ebff", "#74c0fc", "#1971c2"))
_SHADES = {"held": 0, "read": 1, "epilogue": 1, "copy": 2, "products": 2}
_WAITS = "#dee2e6"
_SEED = 1  # warps take turns; otherwise one runs until it has to wait
_LEFT, _TOP, _LANE, _GAP, _WIDTH = 110, 58, 24, 8, 1000
_ISSUE = 24  # steps in which a block's copies are issued
_STEPS = 500  # from line to line
_FIGURE = 7  # the width of a bar that a figure fits into


@dataclass(frozen=True)
class Span:
    """What a lane of the picture shows from one step of the emulator to another.

    `kind` is copy, held (by a stage, from the copy on), read (until the last warpgroup gives the stage back),
    products, epilogue or waits (the warp does: for a barrier, or for its turn). `block` counts K blocks
    over all tiles.
    """

    lane: str
    kind: str
    first: int
    last: int
    tile: int = 0
    block: int = -1


def kernel() -> Kernel:
    """The kernel of the picture: D = A Bᵀ in bf16."""
    with weft.Module() as module, module.func("matmul", [weft.memref("?x?", "bf16")] * 3) as (a, b, d):
        tile.matmul(a, b, d, transpose_b=True, schedule=SCHEDULE)
    return weft.compile(module, arch="sm_90a")


def traced(kernel: Kernel) -> list[dict[str, Any]]:
    """The events of the emulator's trace, each with the opcode of its line as `opcode`."""
    m, n, k = SCHEDULE.block
    a, b, d = (
        np.ones(size, weft.launch.arrays.numpy_dtype("bf16"))
        for size in ((TILES * m, BLOCKS * k), (n, BLOCKS * k), (TILES * m, n))
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        report = kernel.emulate(a, b, d, grid=(1, 1, 1), seed=_SEED, trace=str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert not report.findings and (d == BLOCKS * k).all()
    lines = [line.split("//")[0].strip() for line in kernel.ptx.splitlines()]
    for event in events:
        event["opcode"] = lines[event["args"].get("line", 1) - 1].partition(" ")[0]
    return list(events)


def timeline(events: list[dict[str, Any]]) -> list[Span]:
    """What each lane does: the warp that copies, the stages, the first warp of each warpgroup."""
    phases = [(e["args"]["offset"], e["ts"]) for e in events if e["name"] == "mbarrier phase"]
    seen = [(e["args"]["offset"], e["ts"]) for e in events if e["name"] == "mbarrier observe"]
    # First those that say full, then those that say empty, of one stage after the other.
    barriers = sorted({offset for offset, _ in phases})
    full, empty = barriers[: SCHEDULE.stages], barriers[SCHEDULE.stages :]
    issued = [e["ts"] for e in events if e["name"] == "bulk load" and e["tid"] == 0]
    issued = issued[:: len(issued) // (TILES * BLOCKS)]  # A's of each K block
    spans = [Span("copies", "waits", *span) for span in _spans(events, 0, "wait") if span[0] > issued[0]]
    for stage in range(SCHEDULE.stages):
        phases_of = (_times(phases, each[stage]) for each in (full, empty))
        turns = zip(issued[stage :: SCHEDULE.stages], *phases_of, strict=True)
        for block, (at, filled, freed) in zip(
            range(stage, TILES * BLOCKS, SCHEDULE.stages), turns, strict=True
        ):
            number, lane = block // BLOCKS, f"stage {stage}"
            begun = next(ts for ts in _times(seen, full[stage]) if ts >= filled)
            spans.append(Span("copies", "copy", at, at + _ISSUE, number, block))
            spans.append(Span(lane, "held", filled, begun, number, block))
            spans.append(Span(lane, "read", begun, freed, number, block))
    for number in range(SCHEDULE.warpgroups):
        spans += _warpgroup(events, f"warpgroup {number + 1}", WARPS * (number + 1), full)
    return spans


def _times(events: list[tuple[int, int]], offset: int) -> list[int]:
    """When they were, of those of one barrier."""
    return [ts for at, ts in events if at == offset]


def _spans(events: list[dict[str, Any]], warp: int, name: str) -> list[tuple[int, int]]:
    events_of = [e for e in events if e["ph"] == "X" and e["tid"] == warp and e["name"] == name]
    return [(e["ts"], e["ts"] + e["dur"]) for e in events_of]


def _warpgroup(events: list[dict[str, Any]], lane: str, warp: int, full: list[int]) -> Iterator[Span]:
    """Those of a warpgroup whose first warp is `warp`; `full` are the barriers that say a stage is full."""
    yield from (Span(lane, "waits", *span) for span in _spans(events, warp, "wait"))
    begun, block, multiplied, pending = 0, 0, 0, False
    for event in (e for e in events if e["ph"] == "i" and e["tid"] == warp):
        name, at = event["name"], event["ts"]
        if name == "mbarrier observe" and event["args"]["offset"] in full:
            begun = at
        elif name == "wgmma load":
            pending = True
        elif name == "wgmma waited" and pending:
            yield Span(lane, "products", begun, at, block // BLOCKS, block)
            block, multiplied, pending = block + 1, at, False
        elif name == "bulk store" and event["args"]["space"] == "global" and multiplied:
            yield Span(lane, "epilogue", multiplied, at, block // BLOCKS - 1)
            multiplied = 0


def draw(spans: list[Span]) -> str:
    """The SVG of a timeline."""
    lanes = ["copies", *(f"stage {n}" for n in range(SCHEDULE.stages))]
    lanes += [f"warpgroup {n + 1}" for n in range(SCHEDULE.warpgroups)]
    bottom = _TOP + len(lanes) * (_LANE + _GAP)
    svg = Svg(_LEFT + _WIDTH + 20, bottom + 46)
    first = min(span.first for span in spans if span.kind == "copy")
    scale = _WIDTH / (max(span.last for span in spans) - first)

    def x(step: int) -> float:
        return _LEFT + (max(step, first) - first) * scale

    _heading(svg)
    for step in range(-(-first // _STEPS) * _STEPS, max(span.last for span in spans), _STEPS):
        svg.line(x(step), _TOP - 4, x(step), bottom, "#f1f3f5")
        svg.add("text", str(step), x=x(step), y=bottom + 14, text_anchor="middle")
    said = "steps of the emulator, which runs one instruction at a time: an order, not a duration"
    svg.add("text", said, x=_LEFT + _WIDTH / 2, y=bottom + 34, text_anchor="middle")
    for number, lane in enumerate(lanes):
        top = _TOP + number * (_LANE + _GAP)
        svg.add("text", lane, x=_LEFT - 10, y=top + 16, text_anchor="end")
        for span in (span for span in spans if span.lane == lane and span.last > first):
            _bar(svg, span, x(span.first), x(span.last), top)
    return svg.text()


def _heading(svg: Svg) -> None:
    m, n, k = SCHEDULE.block
    title = f"One CTA, {TILES} tiles of {m}x{n}, each with {BLOCKS} K blocks of {k}; {SCHEDULE}"
    svg.add("text", title, x=_LEFT, y=18, font_weight="bold")
    legend = [("waits, or another warp runs", _WAITS)]
    for number, (held, read, busy) in enumerate(_COLOURS, 1):
        legend += [(f"tile {number}: copies, products", busy), ("in a stage", held)]
        legend += [("being read; epilogue (E)", read)]
    left = _LEFT
    for text, colour in legend:
        svg.add("rect", x=left, y=30, width=9, height=9, fill=colour)
        svg.add("text", text, x=left + 13, y=38)
        left += 24 + 6 * len(text)


def _bar(svg: Svg, span: Span, left: float, right: float, top: float) -> None:
    waits = span.kind == "waits"
    block = f", K block {span.block % BLOCKS}" if span.block >= 0 else ""
    title = span.kind if waits else f"{span.kind}: tile {span.tile + 1}{block}"
    height = _LANE // 3 if waits else _LANE
    svg.add(
        "rect",
        title=f"{title}, steps {span.first} to {span.last}",
        class_=span.kind,
        x=left,
        y=top + (_LANE - height) / 2,
        width=right - left,
        height=height,
        fill=_WAITS if waits else _COLOURS[span.tile][_SHADES[span.kind]],
    )
    if span.kind in ("waits", "read") or right - left < _FIGURE:
        return
    text = "E" if span.kind == "epilogue" else str(span.block % BLOCKS)
    ink = "white" if span.kind in ("copy", "products") else "#212529"
    middle, base = (left + right) / 2, top + _LANE - 8
    svg.add("text", text, x=middle, y=base, text_anchor="middle", fill=ink, pointer_events="none")


def main(arguments: list[str]) -> int:
    """Writes the picture, to docs/pipeline-sm_90a.svg of the checkout unless a file is named."""
    path = Path(arguments[0] if arguments else "docs/pipeline-sm_90a.svg")
    path.write_text(draw(timeline(traced(kernel()))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

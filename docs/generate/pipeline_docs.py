"""Draws the pictures of pipelines in docs/, each of a CTA that computes some tiles as the emulator runs it:
`python docs/generate/pipeline_docs.py [FOLDER]`.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.dialects import tile
from weft.dialects.schedule import AnySchedule, TensorMemorySchedule, WarpgroupSchedule
from weft.display.svg import Svg
from weft.isa.chips import WARPS
from weft.launch.kernel import Kernel

# Of each tile: what a stage holds, what is read of it and what is done to sums, and what is done with stages.
_COLORS = (
    ("#ffe8cc", "#ffc078", "#e8590c"),
    ("#d0ebff", "#74c0fc", "#1971c2"),
    ("#d3f9d8", "#8ce99a", "#2f9e44"),
)
_SHADES = {"held": 0, "read": 1, "epilogue": 1, "copy": 2, "products": 2}
_WAITS = "#dee2e6"
COPYING, MULTIPLYING = 0, 1  # the warps that copy, and issue products of tensor memory
_SEED = 1  # warps take turns; otherwise one runs until it has to wait
_LEFT, _TOP, _LANE, _GAP, _WIDTH = 110, 58, 24, 8, 1000
_ISSUE = 24  # steps in which a block's copies are issued
_STEPS = 500  # from line to line
_FIGURE = 7  # the width of a bar that a figure fits into


Events = list[dict[str, Any]]


@dataclass(frozen=True)
class Span:
    """What a lane of the picture shows from one step of the emulator to another.

    `kind` is copy, held (by a stage or an accumulator, while nobody reads it), read (until the last reader
    gives it back), products, epilogue or waits (the warp does: for a barrier, or for its turn). `block`
    counts K blocks over all tiles.
    """

    lane: str
    kind: str
    first: int
    last: int
    tile: int = 0
    block: int = -1


@dataclass(frozen=True)
class Picture:
    """A CTA that computes `tiles` tiles of D, of `blocks` K blocks each.

    `readers` yields what is shown of the warps that multiply and finish: in the lanes `reader_lanes`.
    """

    arch: str
    schedule: AnySchedule
    tiles: int
    blocks: int
    reader_lanes: tuple[str, ...]
    readers: Callable[["Picture", Events, "Barriers"], Iterator[Span]]

    @property
    def lanes(self) -> list[str]:
        return ["copies", *(f"stage {n}" for n in range(self.schedule.stages)), *self.reader_lanes]

    def kernel(self) -> Kernel:
        """The kernel: D = A Bᵀ in bf16."""
        with weft.Module() as module, module.func("matmul", [weft.memref("?x?", "bf16")] * 3) as (a, b, d):
            tile.matmul(a, b, d, transpose_b=True, schedule=self.schedule)
        return weft.compile(module, arch=self.arch)

    def traced(self) -> Events:
        """The events of the emulator's trace, each with the opcode of its line as `opcode`."""
        (m, n, k), kernel = self.schedule.block, self.kernel()
        a, b, d = (
            np.ones(size, weft.launch.arrays.numpy_dtype("bf16"))
            for size in ((self.tiles * m, self.blocks * k), (n, self.blocks * k), (self.tiles * m, n))
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            report = kernel.emulate(a, b, d, grid=(1, 1, 1), seed=_SEED, trace=str(path))
            events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        assert not report.findings and (d == self.blocks * k).all()
        lines = [line.split("//")[0].strip() for line in kernel.ptx.splitlines()]
        for event in events:
            event["opcode"] = lines[event["args"].get("line", 1) - 1].partition(" ")[0]
        return list(events)

    def timeline(self, events: Events) -> list[Span]:
        """What each lane does: the warp that copies, the stages, and the readers. Raises ValueError for
        events of which some are missing.
        """
        barriers, count = Barriers(events), self.tiles * self.blocks
        full, empty = barriers.ring(0, self.schedule.stages)
        if any(sum(len(barriers.phases(each)) for each in some) != count for some in (full, empty)):
            raise ValueError(f"a trace must have {count} phases of full and of empty stages")
        issued = [e["ts"] for e in events if e["name"] == "bulk load" and e["tid"] == COPYING]
        issued = issued[:: len(issued) // count]  # A's of each K block
        waits = _spans(events, COPYING, "wait")
        spans = [Span("copies", "waits", *span) for span in waits if span[0] > issued[0]]
        for block, at in enumerate(issued):
            turn, stage = divmod(block, self.schedule.stages)
            number, lane = block // self.blocks, f"stage {stage}"
            filled, freed = barriers.phases(full[stage])[turn], barriers.phases(empty[stage])[turn]
            begun = barriers.observed(full[stage], filled)
            spans.append(Span("copies", "copy", at, at + _ISSUE, number, block))
            spans.append(Span(lane, "held", filled, begun, number, block))
            spans.append(Span(lane, "read", begun, freed, number, block))
        return [*spans, *self.readers(self, events, barriers)]


class Barriers:
    """The mbarriers of a trace, by their addresses."""

    def __init__(self, events: Events) -> None:
        named = {
            name: [e for e in events if e["name"] == f"mbarrier {name}"] for name in ("phase", "observe")
        }
        self._at: dict[str, list[tuple[int, int]]] = {
            name: [(e["args"]["offset"], e["ts"]) for e in several] for name, several in named.items()
        }
        self._all = sorted({offset for offset, _ in self._at["phase"]})

    def ring(self, before: int, stages: int) -> tuple[list[int], list[int]]:
        """The full and the empty barriers of a ring after `before` stages of other rings."""
        own = self._all[2 * before : 2 * (before + stages)]
        return own[:stages], own[stages:]

    def phases(self, barrier: int) -> list[int]:
        """When its phases completed."""
        return [ts for at, ts in self._at["phase"] if at == barrier]

    def observed(self, barrier: int, completed: int) -> int:
        """When a warp first saw that a phase had completed."""
        times = (ts for at, ts in self._at["observe"] if at == barrier)
        return next(ts for ts in times if ts >= completed)


def _spans(events: Events, warp: int, name: str) -> list[tuple[int, int]]:
    events_of = [e for e in events if e["ph"] == "X" and e["tid"] == warp and e["name"] == name]
    return [(e["ts"], e["ts"] + e["dur"]) for e in events_of]


def _warpgroups(picture: Picture, events: Events, barriers: Barriers) -> Iterator[Span]:
    """What the warpgroups of a `wgmma` kernel do, as their first warps do it."""
    for number, lane in enumerate(picture.reader_lanes, 1):
        yield from _warpgroup(picture, events, lane, WARPS * number, barriers)


def _warpgroup(picture: Picture, events: Events, lane: str, warp: int, barriers: Barriers) -> Iterator[Span]:
    full, _ = barriers.ring(0, picture.schedule.stages)
    yield from (Span(lane, "waits", *span) for span in _spans(events, warp, "wait"))
    begun, block, multiplied, pending = 0, 0, 0, False
    for event in (e for e in events if e["ph"] == "i" and e["tid"] == warp):
        name, at = event["name"], event["ts"]
        if name == "mbarrier observe" and event["args"]["offset"] in full:
            begun = at
        elif name == "wgmma load":
            pending = True
        elif name == "wgmma waited" and pending:
            yield Span(lane, "products", begun, at, block // picture.blocks, block)
            block, multiplied, pending = block + 1, at, False
        elif name == "bulk store" and event["args"]["space"] == "global" and multiplied:
            yield Span(lane, "epilogue", multiplied, at, block // picture.blocks - 1)
            multiplied = 0


def _tensor_memory(picture: Picture, events: Events, barriers: Barriers) -> Iterator[Span]:
    """What the warp that issues products, the accumulators and the epilogue's first warp of a `tcgen05`
    kernel do.
    """
    schedule = picture.schedule
    assert isinstance(schedule, TensorMemorySchedule)
    stages, slots = schedule.stages, schedule.accumulators
    full, empty = barriers.ring(0, stages)
    finished, freed = barriers.ring(stages, slots)
    stores = [
        e["ts"]
        for e in events
        if e["name"] == "bulk store" and e["tid"] == WARPS and e["args"]["space"] == "global"
    ]
    for lane, warp in (("products", MULTIPLYING), ("epilogue", WARPS)):
        yield from (Span(lane, "waits", *span) for span in _spans(events, warp, "wait"))
    for number in range(picture.tiles):
        begun = []
        for block in range(number * picture.blocks, (number + 1) * picture.blocks):
            turn, stage = divmod(block, stages)
            begun.append(barriers.observed(full[stage], barriers.phases(full[stage])[turn]))
            done = barriers.phases(empty[stage])[turn]
            yield Span("products", "products", begun[-1], done, number, block)
        turn, slot = divmod(number, slots)
        lane, done = f"accumulator {slot}", barriers.phases(finished[slot])[turn]
        read, free = barriers.observed(finished[slot], done), barriers.phases(freed[slot])[turn]
        yield Span(lane, "held", begun[0], read, number)
        yield Span(lane, "read", read, free, number)
        each = len(stores) // picture.tiles
        yield Span("epilogue", "epilogue", read, stores[(number + 1) * each - 1], number)


PICTURES = {
    "sm_90a": Picture(
        *("sm_90a", WarpgroupSchedule((128, 128, 64), warpgroups=2, stages=4), 2, 8),
        *(("warpgroup 1", "warpgroup 2"), _warpgroups),
    ),
    "sm_100a": Picture(
        *("sm_100a", TensorMemorySchedule((128, 128, 64), accumulators=2, stages=4), 3, 6),
        *(("products", "accumulator 0", "accumulator 1", "epilogue"), _tensor_memory),
    ),
}


def draw(picture: Picture, spans: list[Span]) -> str:
    """The SVG of a timeline."""
    lanes = picture.lanes
    bottom = _TOP + len(lanes) * (_LANE + _GAP)
    svg = Svg(_LEFT + _WIDTH + 20, bottom + 46)
    first = min(span.first for span in spans if span.kind == "copy")
    scale = _WIDTH / (max(span.last for span in spans) - first)

    def x(step: int) -> float:
        return _LEFT + (max(step, first) - first) * scale

    _heading(svg, picture)
    for step in range(-(-first // _STEPS) * _STEPS, max(span.last for span in spans), _STEPS):
        svg.line(x(step), _TOP - 4, x(step), bottom, "#f1f3f5")
        svg.add("text", str(step), x=x(step), y=bottom + 14, text_anchor="middle")
    said = "steps of the emulator, which runs one instruction at a time: an order, not a duration"
    svg.add("text", said, x=_LEFT + _WIDTH / 2, y=bottom + 34, text_anchor="middle")
    for number, lane in enumerate(lanes):
        top = _TOP + number * (_LANE + _GAP)
        svg.add("text", lane, x=_LEFT - 10, y=top + 16, text_anchor="end")
        for span in (span for span in spans if span.lane == lane and span.last > first):
            _bar(svg, picture, span, x(span.first), x(span.last), top)
    return svg.text()


def _heading(svg: Svg, picture: Picture) -> None:
    m, n, k = picture.schedule.block
    tiles, blocks = picture.tiles, picture.blocks
    title = f"One CTA, {tiles} tiles of {m}x{n}, each with {blocks} K blocks of {k}; {picture.schedule}"
    svg.add("text", title, x=_LEFT, y=18, font_weight="bold")
    legend = [("waits, or another warp runs", _WAITS)]
    for number, (held, read, busy) in enumerate(_COLORS[: picture.tiles], 1):
        legend += [(f"tile {number}: copies, products", busy), ("in a stage", held)]
        legend += [("being read; epilogue (E)", read)]
    left = _LEFT
    for text, color in legend:
        svg.add("rect", x=left, y=30, width=9, height=9, fill=color)
        svg.add("text", text, x=left + 13, y=38)
        left += 24 + 6 * len(text)


def _bar(svg: Svg, picture: Picture, span: Span, left: float, right: float, top: float) -> None:
    waits = span.kind == "waits"
    block = f", K block {span.block % picture.blocks}" if span.block >= 0 else ""
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
        fill=_WAITS if waits else _COLORS[span.tile][_SHADES[span.kind]],
    )
    if span.kind in ("waits", "read") or (span.kind == "held" and span.block < 0) or right - left < _FIGURE:
        return
    text = "E" if span.kind == "epilogue" else str(span.block % picture.blocks)
    ink = "white" if span.kind in ("copy", "products") else "#212529"
    middle, base = (left + right) / 2, top + _LANE - 8
    svg.add("text", text, x=middle, y=base, text_anchor="middle", fill=ink, pointer_events="none")


def main(arguments: list[str]) -> int:
    """Writes the pictures, to docs/ of the checkout unless a folder is named."""
    folder = Path(arguments[0] if arguments else "docs")
    for name, picture in PICTURES.items():
        path = folder / f"pipeline-{name}.svg"
        path.write_text(draw(picture, picture.timeline(picture.traced())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

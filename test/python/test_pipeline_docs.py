"""docs/pipeline-sm_90a.svg, and the timeline from which it is drawn."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from weft.tools import pipeline_docs
from weft.tools.pipeline_docs import BLOCKS, SCHEDULE, TILES

PICTURE = Path(__file__).parents[2] / "docs" / "pipeline-sm_90a.svg"
PAGE = PICTURE.with_name("walkthrough-sm_90a.md")


@pytest.fixture(scope="module")
def spans():
    return pipeline_docs.timeline(pipeline_docs.traced(pipeline_docs.kernel()))


def of(spans, kind, lane=""):
    return sorted((s for s in spans if s.kind == kind and lane in s.lane), key=lambda s: s.first)


def test_the_picture_is_what_the_emulator_does(spans):
    assert PICTURE.read_text("utf-8") == pipeline_docs.draw(spans), "run python -m weft.tools.pipeline_docs"


def test_the_picture_has_a_bar_for_every_span():
    bars = [e.get("class") for e in ElementTree.parse(PICTURE).iter() if e.get("class")]
    assert {kind: bars.count(kind) for kind in ("copy", "held", "read", "products", "epilogue")} == {
        "copy": TILES * BLOCKS,
        "held": TILES * BLOCKS,
        "read": TILES * BLOCKS,
        "products": TILES * BLOCKS * SCHEDULE.warpgroups,
        "epilogue": TILES * SCHEDULE.warpgroups,
    }


def test_a_stage_holds_one_block_at_a_time_and_all_are_multiplied(spans):
    for number in range(SCHEDULE.stages):
        held, read = (of(spans, kind, f"stage {number}") for kind in ("held", "read"))
        assert [s.block for s in held] == [s.block for s in read]
        assert [s.block for s in held] == list(range(number, TILES * BLOCKS, SCHEDULE.stages))
        assert all(a.last == b.first for a, b in zip(held, read, strict=True))
        assert all(a.last <= b.first for a, b in zip(read, held[1:], strict=False))
    for number in range(SCHEDULE.warpgroups):
        products = of(spans, "products", f"warpgroup {number + 1}")
        assert [s.block for s in products] == list(range(TILES * BLOCKS))
        for each in products:
            (read,) = (s for s in of(spans, "read") if s.block == each.block)
            assert read.first <= each.first <= each.last <= read.last


def test_the_page_describes_the_picture(spans):
    assert f"`emulate(…, seed={pipeline_docs._SEED})`" in PAGE.read_text("utf-8")
    filled = [s.first for s in of(spans, "held") if s.block < SCHEDULE.stages]
    assert max(filled) < min(s.first for s in of(spans, "products"))


def test_the_next_tile_is_copied_before_the_epilogue_of_this_one_is_done(spans):
    end = max(s.last for s in of(spans, "epilogue") if s.tile == 0)
    there = {s.block for s in of(spans, "held") if s.first < end} & {
        s.block for s in of(spans, "read") if s.last > end
    }
    assert there == {BLOCKS + n for n in range(SCHEDULE.stages)}


def ahead(spans):
    """How many blocks at most are copied and not read to the end."""
    return max(
        sum(s.first <= copy.first for s in of(spans, "copy"))
        - sum(s.last <= copy.first for s in of(spans, "read"))
        for copy in of(spans, "copy")
    )


@pytest.mark.slow
def test_copies_run_as_far_ahead_as_there_are_stages(spans, monkeypatch):
    assert ahead(spans) == SCHEDULE.stages
    monkeypatch.setattr(pipeline_docs, "SCHEDULE", replace(SCHEDULE, stages=2))
    assert ahead(pipeline_docs.timeline(pipeline_docs.traced(pipeline_docs.kernel()))) == 2


@pytest.mark.slow
def test_a_stage_that_is_never_given_back_is_noticed():
    """Planted: a trace without one of the phases that end when a stage is free."""
    events = pipeline_docs.traced(pipeline_docs.kernel())
    lost = next(e for e in events if e["name"] == "mbarrier phase" and "arrive" in e["opcode"])
    with pytest.raises(ValueError, match="shorter"):
        pipeline_docs.timeline([e for e in events if e is not lost])

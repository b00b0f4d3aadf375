"""The pictures of pipelines in docs/, and the timelines from which they are drawn."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pipeline_docs
import pytest
from pipeline_docs import PICTURES

DOCS = Path(__file__).parents[2] / "docs"
WGMMA, TENSOR_MEMORY = PICTURES["sm_90a"], PICTURES["sm_100a"]


@pytest.fixture(scope="module")
def drawn():
    return {name: picture.timeline(picture.traced()) for name, picture in PICTURES.items()}


def of(spans, kind, lane=""):
    return sorted((s for s in spans if s.kind == kind and lane in s.lane), key=lambda s: s.first)


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_what_the_emulator_does(name, drawn):
    text = pipeline_docs.draw(PICTURES[name], drawn[name])
    file = DOCS / f"pipeline-{name}.svg"
    assert file.read_text("utf-8") == text, "run python docs/generate/pipeline_docs.py"


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_has_a_bar_for_every_span(name):
    picture = PICTURES[name]
    bars = [e.get("class") for e in ElementTree.parse(DOCS / f"pipeline-{name}.svg").iter() if e.get("class")]
    blocks, warpgroups = picture.tiles * picture.blocks, 2 if picture is WGMMA else 1
    accumulators = 0 if picture is WGMMA else picture.tiles
    assert {kind: bars.count(kind) for kind in ("copy", "held", "read", "products", "epilogue")} == {
        "copy": blocks,
        "held": blocks + accumulators,
        "read": blocks + accumulators,
        "products": blocks * warpgroups,
        "epilogue": picture.tiles * warpgroups,
    }


@pytest.mark.parametrize("name", PICTURES)
def test_a_stage_holds_one_block_at_a_time_and_all_are_multiplied(name, drawn):
    picture, spans = PICTURES[name], drawn[name]
    blocks = picture.tiles * picture.blocks
    for number in range(picture.schedule.stages):
        held, read = (of(spans, kind, f"stage {number}") for kind in ("held", "read"))
        assert [s.block for s in held] == [s.block for s in read]
        assert [s.block for s in held] == list(range(number, blocks, picture.schedule.stages))
        assert all(a.last == b.first for a, b in zip(held, read, strict=True))
        assert all(a.last <= b.first for a, b in zip(read, held[1:], strict=False))
    for lane in dict.fromkeys(s.lane for s in of(spans, "products")):
        products = of(spans, "products", lane)
        assert [s.block for s in products] == list(range(blocks))
        for each in products:
            (read,) = (s for s in of(spans, "read", "stage") if s.block == each.block)
            assert read.first <= each.first <= each.last <= read.last


@pytest.mark.parametrize("name", PICTURES)
def test_the_page_describes_the_picture(name, drawn):
    page = (DOCS / f"walkthrough-{name}.md").read_text("utf-8")
    assert f"`emulate(…, seed={pipeline_docs._SEED})`" in page
    assert "up to four K blocks ahead" in page
    assert ahead(drawn[name]) == PICTURES[name].schedule.stages == 4


@pytest.mark.parametrize("name", PICTURES)
def test_the_next_tile_is_copied_before_the_epilogue_of_this_one_is_done(name, drawn):
    picture, spans = PICTURES[name], drawn[name]
    end = max(s.last for s in of(spans, "epilogue") if s.tile == 0)
    copied = {s.block for s in of(spans, "held", "stage") if s.first < end}
    assert {picture.blocks + n for n in range(picture.schedule.stages)} <= copied


def test_the_next_tile_is_multiplied_during_the_epilogue_of_this_one(drawn):
    spans = drawn["sm_100a"]
    for number in range(TENSOR_MEMORY.tiles - 1):
        (epilogue,) = (s for s in of(spans, "epilogue") if s.tile == number)
        following = [s for s in of(spans, "products") if s.tile == number + 1]
        assert any(epilogue.first < s.first < epilogue.last for s in following)


def test_an_accumulator_holds_one_tile_at_a_time(drawn):
    for number in range(TENSOR_MEMORY.schedule.accumulators):
        held, read = (of(drawn["sm_100a"], kind, f"accumulator {number}") for kind in ("held", "read"))
        assert [s.tile for s in held] == list(range(number, TENSOR_MEMORY.tiles, 2))
        assert all(a.last <= b.first for a, b in zip(read, held[1:], strict=False))


def ahead(spans):
    """How many blocks at most are copied and not read to the end."""
    return max(
        sum(s.first <= copy.first for s in of(spans, "copy"))
        - sum(s.last <= copy.first for s in of(spans, "read", "stage"))
        for copy in of(spans, "copy")
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_copies_run_as_far_ahead_as_there_are_stages(name):
    picture = PICTURES[name]
    shorter = replace(picture, schedule=replace(picture.schedule, stages=2))
    assert ahead(shorter.timeline(shorter.traced())) == 2


@pytest.mark.slow
def test_a_stage_that_is_never_given_back_is_noticed():
    """Planted: a trace without one of the phases that end when a stage is free."""
    events = WGMMA.traced()
    lost = next(e for e in events if e["name"] == "mbarrier phase" and "arrive" in e["opcode"])
    with pytest.raises(ValueError, match="phases"):
        WGMMA.timeline([e for e in events if e is not lost])

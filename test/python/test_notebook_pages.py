"""What notebooks show of objects: well-formed, escaped, small."""

from xml.etree import ElementTree

import pytest
from language_kernels import control

import weft
from weft import emulator
from weft.compiler.ptxas import Resources
from weft.dialects import tile
from weft.dialects.schedule import DirectSchedule, Schedule, TensorMemorySchedule, WarpgroupSchedule
from weft.display.html import Html
from weft.emulator.sanitizer import Finding
from weft.language.calls.kernels import KernelFunction
from weft.layout import Layout, LayoutError

SVG = "{http://www.w3.org/2000/svg}"
RACE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry race() {
  .shared .align 4 .b32 s[64];
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x;
  mov.u64 %rd1, s;
  st.shared.u32 [%rd1], %r1;
  ret;
}"""


def parsed(page):
    """The elements of a page, which must be well-formed XML and small."""
    assert len(page) < 100_000 and "<script" not in page
    return ElementTree.fromstring(page)


def text(page):
    return "\n".join(parsed(page).itertext())


def facts(page):
    return {row[0].text: row[1].text for row in parsed(page).iter("tr")}


@pytest.fixture(scope="module")
def module():
    with weft.Module() as made, made.func("matmul", [weft.memref("?x?", "bf16")] * 3) as (a, b, d):
        tile.matmul(a, b, d, transpose_b=True, schedule=WarpgroupSchedule((128, 128, 64), 2, 3))
    return made


def test_a_kernel_shows_its_resources_launch_and_levels(module):
    kernel = weft.compile(module, arch="sm_90a")
    page = kernel._repr_html_()
    found = facts(page)
    assert found["registers of a thread"] == str(kernel.resources.registers)
    assert found["shared memory of a CTA"] == f"{kernel.resources.shared_bytes:,} bytes"
    assert found["block"] == "384 x 1 x 1" and "ceildiv 128" in found["tiles"]
    summaries = [each.text for each in parsed(page).iter("summary")]
    assert summaries == ["source", "IR after expand-matmul", f"PTX, {len(kernel.ptx.splitlines())} lines"]
    assert '"tile.matmul"' in text(page) and "more lines" in text(page)
    assert facts(kernel.resources._repr_html_())["spilled"] == "nothing"


def test_a_kernel_that_ptxas_refuses_is_shown_with_its_complaint(module, monkeypatch):
    kernel = weft.compile(module, arch="sm_90a")

    def refuse(_):
        raise weft.WeftError("ptxas is missing <here>")

    monkeypatch.setattr(type(kernel), "resources", property(refuse))
    assert facts(kernel._repr_html_())["resources"] == "ptxas is missing <here>"


def test_a_program_shows_its_kernels_in_their_order():
    kind = "tensor<16x16xf16>"
    product = f"linalg.matmul ins(%a, %b : {kind}, {kind}) outs(%a : {kind}) -> {kind}"
    twice = product.replace("%a,", "%c,", 1)
    program = weft.from_linalg(
        f"func.func @chain(%a: {kind}, %b: {kind}) -> {kind} {{\n %c = {product}\n %d = {twice}\n"
        f" return %d : {kind}\n}}",
        arch="sm_80",
    )
    found = [row[0].text for row in parsed(program._repr_html_()).iter("tr")]
    assert found == ["kernel", *(step.kernel.name for step in program.steps)] and len(found) == 3
    assert "2 kernels, one after the other" in text(program._repr_html_())


def test_a_kernel_of_the_language_shows_what_is_compiled():
    kernel = KernelFunction(control.__wrapped__, control._options, None)
    assert "Not compiled yet" in text(kernel._repr_html_())
    compiled = kernel.compile(arch="sm_80")
    assert facts(kernel._repr_html_())["meta-parameters"] == "unroll"
    rows = [[cell.text for cell in row] for row in parsed(kernel._repr_html_()).iter("tr")]
    assert rows[-1] == [compiled.name, "sm_80", "32 x 1 x 1"]


def test_spills_are_shown():
    found = facts(Resources(255, 1024, 8, 16, 32)._repr_html_())
    assert found["spilled"] == "8 bytes stored, 16 loaded" and found["stack of a thread"] == "32 bytes"


def test_a_module_shows_its_ir_escaped(module):
    page = module._repr_html_()
    assert "memref<?x?xbf16>" in text(page) and "memref<?x?xbf16" not in page


SCHEDULES = [
    Schedule((128, 128, 32), (2, 2), 3),
    WarpgroupSchedule((128, 256, 64), 2, 3, cluster=(2, 1)),
    WarpgroupSchedule((128, 8, 128), 1, 12, swap=True),
    TensorMemorySchedule((128, 256, 64), accumulators=2, stages=4),
    DirectSchedule((1, 4, 512), (1, 2)),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: type(each).__name__)
def test_a_schedule_shows_its_fields_and_tiles(schedule):
    page = schedule._repr_html_()
    found = facts(page)
    assert found["block"] == " x ".join(map(str, schedule.block)) and schedule.key in found
    words = [each.text for each in parsed(page).iter(f"{SVG}text")]
    m, n, k = schedule.block
    row, column = ("N", "M") if schedule.swap else ("M", "N")
    assert {f"{row} {m}", f"{column} {n}", f"K {k}", "A", "B", "D"} <= set(words)
    boxes = [
        {k: float(each.get(k, 0)) for k in ("x", "y", "width", "height")}
        for each in parsed(page).iter(f"{SVG}rect")
    ]
    outer, *inner = boxes[0], *boxes[1:]
    assert len(inner) == 1 + 2 * min(schedule.stages, 8)
    for box in inner:
        assert box["x"] >= 0 and box["y"] >= 0
        assert box["x"] + box["width"] <= outer["width"] and box["y"] + box["height"] <= outer["height"]


def cells(drawing):
    root = ElementTree.fromstring(drawing)
    return [each.text for each in root.iter(f"{SVG}text") if each.get("font-size") == "10"]


def test_a_layout_shows_who_holds_each_element():
    layout = Layout.parse("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
    found = cells(layout._repr_svg_())
    assert len(found) == 16 * 8 and found[:3] == ["T0:0", "T0:1", "T1:0"]
    assert found[8 * 8] == "T0:2"  # row 8
    assert cells(layout.drawn((8, 16))._repr_svg_())[16] == layout_text(layout, 16)
    with pytest.raises(LayoutError, match="doesn't have the 128 elements"):
        layout.drawn((8, 8))


def layout_text(layout, index):
    position = layout.apply(index)
    return f"T{position['laneid']}:{position['m']}"


@pytest.mark.parametrize(
    ("layout", "said", "count"),
    [
        (
            "S[(8,64):(64,1)] xor 128B",
            "8 x 64, the number of the element in memory, the first 8 x 32, elements of 16",
            256,
        ),
        ("S[(4,8):(8,1)] + R[(2):(1@warpid)]", "the first of 2 copies", 32),
        ("S[(128,64):(1@TLane,1@TCol)]", "L: lane of tensor memory, C: column of tensor memory", 1024),
        ("S[(1):(1)]", "1 x 1", 1),
    ],
)
def test_drawings_say_what_they_leave_out(layout, said, count):
    drawn = Layout.parse(layout)._repr_svg_()
    root = ElementTree.fromstring(drawn)
    words = " ".join(each.text or "" for each in root.iter(f"{SVG}text"))
    assert said in words and len(cells(drawn)) == count and len(drawn) < 400_000


def test_a_report_shows_findings_and_counters():
    report = emulator.Module(RACE).launch("race", block=64)
    page = report._repr_html_()
    assert "shared-race" in text(page) and "10 (" not in text(page)
    assert report.findings._repr_html_() and "shared-race" in text(report.findings._repr_html_())
    assert "bytes.shared" in text(page)
    clean = emulator.Module(RACE).launch("race", block=1)
    assert "The sanitizer found nothing." in text(clean._repr_html_())


def test_an_exploration_shows_the_seeds():
    module = emulator.Module(RACE)
    explored = emulator.explore(lambda seed, _: module.launch("race", block=64, seed=seed), [], 2)
    page = explored._repr_html_()
    assert "and with 2 seeds" in text(page) and "shared-race" in text(page)
    seeded = emulator.explore(
        lambda seed, _: module.launch("race", block=1 if seed is None else 64, seed=seed), [], 1
    )
    assert [each.text for each in parsed(seeded._repr_html_()).iter("th")][-1] == "seed"


def test_text_is_escaped_whatever_it_contains():
    nasty = "<script>alert('x')</script> & \x00 \x1b \ud800 \"quoted\""
    finding = Finding("fault", nasty, 3, source=nasty)
    for page in (finding._repr_html_(), emulator.Report(1, {nasty: 2}, (finding,), nasty)._repr_html_()):
        assert "<script>alert('x')</script> & \ufffd" in text(page)
    made = Html(nasty, nasty)
    made.facts([(nasty, nasty)])
    made.table([nasty], [[nasty]] * 50)
    made.note(nasty)
    made.code(nasty * 2, nasty)
    assert text(made.text()).count("alert('x')") == 49 and "and 10 more" in text(made.text())

"""`weft bench` on groups: shapes, rows, buffers, implementations and checks."""

import json
import math
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from bench_fakes import RIGHT, SMALL

from weft.bench import implementations, problem, suites
from weft.bench.drawing import draw
from weft.bench.implementation import Refusal
from weft.bench.implementations import PEERS
from weft.bench.implementations import weft as our
from weft.bench.measure import Result, Timing
from weft.bench.problem import INPUTS, Buffers, Problem
from weft.bench.report import Report, table
from weft.bench.suites import Shape
from weft.errors import WeftError

CONTIGUOUS = replace(SMALL, m=150, n=72, k=256, groups=3)
MASKED = replace(CONTIGUOUS, most=192)
BOTH = pytest.mark.parametrize("made", [CONTIGUOUS, MASKED], ids=["contiguous", "masked"])


# Shapes


WRITTEN = ("4096x512x64", "4@8192x4096x7168", "1@256/4096x4096x7168", "4096@1/1x1x1", "1x2x3+4", "1x2x3+4~5")


@pytest.mark.parametrize("text", WRITTEN)
def test_a_problem_is_written_as_its_shape_is_read(text: str) -> None:
    (shape,) = suites.shapes(text)
    assert Problem(**shape._asdict(), inputs="bf16", output="bf16").shape == text


def test_groups_are_read() -> None:
    assert suites.shapes("4@8192X4096x7168") == (Shape(8192, 4096, 7168, 4),)
    assert suites.shapes("2@256/4096x7168x2048") == (Shape(256, 7168, 2048, 2, 4096),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@1x1x1", "shape must be MxNxK, .*4@8192x4096x7168 for 4 groups.*, got '@1x1x1'"),
        ("4@1/x1x1", "shape must be MxNxK"),
        ("4@1x1", "shape must be MxNxK"),
        ("4@1/0x1x1", "shape must be MxNxK"),
        ("4@2147483648x1x1", "shape must be MxNxK"),
        ("1/2x3x4", r"shape '1/2x3x4': groups must precede rows with room, such as 4@1/2x3x4"),
        ("0@1x1x1", "shape '0@1x1x1': groups must be in 1..4096, got 0"),
        ("4097@1x1x1", "groups must be in 1..4096, got 4097"),
        ("4@1x1x1+1", "must be without groups, got 4"),
        ("4@65/64x1x1", "the room of a group must be at least its rows, 65, got 64"),
    ],
)
def test_what_is_no_group(text: str, message: str) -> None:
    with pytest.raises(WeftError, match=message):
        suites.shapes(text)


def test_the_suite_has_both_kinds() -> None:
    found = suites.SUITES["deepgemm-grouped"]
    assert [(s.groups, s.m, s.most) for s in found[::2]] == [
        (4, 8192, None),
        (8, 4096, None),
        (1, 1024, 4096),
        (2, 512, 4096),
        (4, 256, 4096),
    ]
    assert {(s.n, s.k) for s in found} == {(4096, 7168), (7168, 2048)}


# Rows


@BOTH
def test_rows_are_around_the_expected_and_always_the_same(made: Problem) -> None:
    many = replace(made, groups=1000)
    assert len(many.counts) == 1000
    assert many.counts[:4] == (180, 173, 142, 128)
    assert set(many.counts) == set(range(105, 193 if made.most else 195))
    assert 145 < sum(many.counts) / 1000 < 155


def test_no_group_is_empty() -> None:
    assert set(replace(CONTIGUOUS, m=1, groups=100).counts) == {1}


def test_groups_of_one_matrix_begin_at_multiples_of_128() -> None:
    made = replace(CONTIGUOUS, groups=50)
    end = 0
    for (first, room), count in zip(made.row_ranges, made.counts, strict=True):
        assert first == end and first % 128 == room % 128 == 0 and 0 <= room - count < 128
        end += room
    assert made.height == end
    assert {room for _, room in made.row_ranges} == {128, 256}


def test_only_rows_of_a_group_count() -> None:
    made = replace(MASKED, inputs="e4m3")
    rows = sum(made.counts)
    assert made.counts != (150, 150, 150) and made.height == 192
    assert made.flops == 2 * rows * 72 * 256
    assert made.input_bytes == (rows + 3 * 72) * 256
    assert made.moved_bytes == made.input_bytes + rows * 72 * 2
    contiguous = replace(made, most=None, groups=4)
    assert contiguous.flops == 2 * sum(contiguous.counts) * 72 * 256


# Buffers and checks on PyTorch's CPU


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = pytest.importorskip("torch", reason="needs PyTorch, for its arrays")
    monkeypatch.setattr(problem, "_INPUT_BYTES", 1)
    monkeypatch.setattr(found.cuda, "current_stream", lambda: None)
    return found


def multiply(torch: Any, made: Problem, each: Buffers) -> None:
    """D in float64, group by group from `groups`, which is what a kernel knows."""
    for number in range(made.groups or 0):
        rows = each.groups == number if made.most is None else slice(0, int(each.groups[number]))
        of_a = rows if made.most is None else (number, rows)
        a, b = each.a[of_a].double(), each.b[number].double()
        b = b.t() if made.transpose_b else b
        if each.scale_a is not None:
            block = torch.arange(made.k) // 128
            a = a * each.scale_a[of_a].double()[:, block]
            b = b * each.scale_b[number].double()[torch.arange(made.n) // 128][:, block].t()
        each.d[of_a] = (a @ b).to(each.d.dtype)


@BOTH
def test_groups_say_which_rows_there_are(made: Problem, torch: Any) -> None:
    (each, *_) = problem.buffers(made, "cpu")
    assert each.groups.dtype == torch.int32
    if made.most is not None:
        assert tuple(each.groups.tolist()) == made.counts
        assert [*each.a.shape] == [3, 192, 256] and [*each.d.shape] == [3, 192, 72]
        return
    assert [*each.a.shape] == [made.height, 256] and [*each.d.shape] == [made.height, 72]
    assert tuple(int((each.groups == number).sum()) for number in range(3)) == made.counts
    assert [int(each.groups[first]) for first, _ in made.row_ranges] == [0, 1, 2]
    assert int((each.groups == -1).sum()) == made.height - sum(made.counts)


@BOTH
@pytest.mark.each_value
@pytest.mark.parametrize("inputs", [name for name, row in INPUTS.items() if not row.format])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_a_wrong_row_of_any_group_is_caught(
    made: Problem, inputs: str, transpose_b: bool, torch: Any
) -> None:
    made = replace(made, inputs=inputs, output=INPUTS[inputs].output, transpose_b=transpose_b, k=300)
    sets = problem.buffers(made, "cpu")
    assert problem.check(made, sets).error is None
    for each in sets:
        multiply(torch, made, each)
    assert problem.check(made, sets).passed
    for number, ((first, room), count) in enumerate(zip(made.row_ranges, made.counts, strict=True)):
        inside = () if made.most is None else (number,)
        last, beyond = (*inside, first + count - 1, 71), (*inside, slice(first + count, first + room))
        assert bool((sets[1].d[beyond].float().isnan() | (sets[1].d[beyond] == 0x7F7F7F7F)).all())
        for value in (1 << 20, 0x7F7F7F7F if inputs == "s8" else math.nan):
            kept = sets[1].d[last].clone()
            sets[1].d[last] = value
            assert not problem.check(made, sets).passed
            sets[1].d[last] = kept
    assert problem.check(made, sets).passed


# Implementations


@pytest.mark.sampled(2)
@BOTH
@pytest.mark.parametrize("inputs", ["bf16", "e4m3-block"])
def test_ours_multiplies_groups(made: Problem, inputs: str, torch: Any) -> None:
    made = replace(made, inputs=inputs, groups=2)
    sets = problem.buffers(made, "cpu")
    for call in our().prepare(made, sets):
        call()
    assert problem.check(made, sets).passed


@pytest.mark.sampled(3)
@BOTH
@pytest.mark.parametrize(
    "inputs", [name for name, row in INPUTS.items() if not (row.format or row.block_scales)]
)
def test_cublas_multiplies_group_after_group(made: Problem, inputs: str, torch: Any) -> None:
    made = replace(made, inputs=inputs, output=INPUTS[inputs].output)
    sets = problem.buffers(made, "cpu")
    calls = PEERS["cublas"][0].prepare(made, sets)
    assert len(calls) == len(sets) and problem.check(made, sets).error is None
    for call in calls:
        call()
    assert problem.check(made, sets).passed


@BOTH
def test_cublas_gets_scales_as_it_takes_them(
    made: Problem, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(made, inputs="e4m3-block", n=264, k=512)
    asked: list[int] = []

    def scaled_mm(a: Any, b: Any, scale_a: Any, scale_b: Any, *, out: Any, **options: Any) -> None:
        assert options == {"out_dtype": torch.bfloat16, "use_fast_accum": False}
        (m, k), (_, n) = a.shape, b.shape
        assert (a.stride(), b.stride()) == ((k, 1), (1, k)) and out.is_contiguous()
        assert ([*scale_a.shape], scale_a.stride()) == ([m, 4], (1, m)) and m % 4 == 0
        assert ([*scale_b.shape], scale_b.stride()) == ([4, 3], (1, 4))
        left = a.double() * scale_a.double().repeat_interleave(128, 1)
        scales = scale_b.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
        out.copy_(left @ (b.double() * scales[:, :n]))
        asked.append(m)

    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    sets = problem.buffers(made, "cpu")
    for call in PEERS["cublas"][0].prepare(made, sets):
        call()
    assert problem.check(made, sets).passed
    assert asked == [math.ceil(count / 4) * 4 for count in made.counts] * len(sets)


@pytest.mark.parametrize("k", [384, 600])
def test_cublas_gets_no_scales_that_it_would_read_beyond(k: int, torch: Any) -> None:
    made = Problem(64, 128, k, "e4m3-block", "bf16")
    message = rf"^K must have a multiple of 4 blocks of 128 for cuBLAS, .*, got {-(-k // 128)}$"
    with pytest.raises(Refusal, match=message):
        PEERS["cublas"][0].prepare(made, problem.buffers(made, "cpu"))


@BOTH
@pytest.mark.parametrize(("inputs", "name"), [("bf16", "bf16_gemm_nt"), ("e4m3-block", "fp8_gemm_nt")])
def test_deepgemm_gets_groups_as_its_own_tests_give_them(
    made: Problem, inputs: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    full = f"m_grouped_{name}_{'contiguous' if made.most is None else 'masked'}"
    library = SimpleNamespace(**{full: lambda *given: asked.append(given)})
    monkeypatch.setitem(sys.modules, "deep_gemm", library)
    monkeypatch.setattr(implementations, "find_spec", lambda package: True)
    scales = ("of a", "of b") if inputs == "e4m3-block" else (None, None)
    made = replace(made, inputs=inputs)
    (call,) = PEERS["deepgemm"][0].prepare(made, [Buffers("a", "b", "d", *scales, "groups")])
    call()
    operands = (("a", "of a"), ("b", "of b")) if inputs == "e4m3-block" else ("a", "b")
    assert asked == [(*operands, "d", "groups", *([150] if made.most else []))]
    delattr(library, full)
    with pytest.raises(Refusal, match=f"this DeepGEMM has no {full}"):
        PEERS["deepgemm"][0].prepare(made, [])


def test_deepgemm_still_multiplies_single_products(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    library = SimpleNamespace(
        bf16_gemm_nt=lambda *given: asked.append(given), fp8_gemm_nt=lambda *given: asked.append(given)
    )
    monkeypatch.setitem(sys.modules, "deep_gemm", library)
    monkeypatch.setattr(implementations, "find_spec", lambda package: True)
    for inputs, scales in (("bf16", ()), ("e4m3-block", ("of a", "of b"))):
        made = replace(SMALL, inputs=inputs)
        (call,) = PEERS["deepgemm"][0].prepare(made, [Buffers("a", "b", "d", *scales)])
        call()
    assert asked == [("a", "b", "d"), (("a", "of a"), ("b", "of b"), "d")]
    with pytest.raises(Refusal, match="types must be bf16 or e4m3-block"):
        PEERS["deepgemm"][0].prepare(replace(SMALL, inputs="e4m3"), [])


def test_triton_reports_that_it_has_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementations, "find_spec", lambda package: True)
    with pytest.raises(Refusal, match="without promoted sums or groups"):
        PEERS["triton"][0].prepare(CONTIGUOUS, [])


# Reports


def timed(name: str, milliseconds: float, made: Problem) -> Result:
    return Result(made, name, burst=Timing(1, (milliseconds,) * 3), check=RIGHT)


RESULTS = [
    timed(name, milliseconds, made)
    for made in (SMALL, CONTIGUOUS, MASKED)
    for name, milliseconds in (("weft", 1.0), ("cublas", 2.0))
]
REPORT = Report(["weft", "bench"], "2026-11-21T08:00:00+00:00", "cublas", {}, {}, RESULTS)


def test_groups_have_means_and_drawings_of_their_own() -> None:
    assert [line.partition(" is ")[0] for line in REPORT.means()] == [
        "bf16 to bf16, burst: weft",
        "bf16 to bf16, groups, burst: weft",
        "bf16 to bf16, masked groups, burst: weft",
    ]
    drawn = draw(REPORT)
    assert "bf16 to bf16, masked groups: speed over cublas" in drawn
    assert "3@150/192x72x256" in drawn


def test_groups_are_kept_and_shown() -> None:
    kept = Report.of_json(REPORT.json())
    assert kept == REPORT
    widest = replace(MASKED, m=192, groups=32, most=4096, n=7168, k=3072)
    first, second = (table(REPORT, [timed("weft", 1.0, made)], heading=False) for made in (SMALL, widest))
    assert second.startswith("32@192/4096x7168x3072  bf16")
    assert first.index("bf16") == second.index("bf16")


def test_runs_from_before_groups_are_read() -> None:
    kept = json.loads(REPORT.json())
    for result in kept["results"]:
        del result["problem"]["groups"], result["problem"]["most"]
    found = Report.of_json(json.dumps(kept))
    assert {(r.problem.groups, r.problem.most) for r in found.results} == {(None, None)}


def test_sets_are_as_many_as_exceed_the_cache() -> None:
    assert CONTIGUOUS.sets == 64
    assert Problem(8192, 4096, 7168, "e4m3-block", "bf16", groups=4).sets == 2
    few = Problem(1024, 7168, 2048, "e4m3-block", "bf16", groups=1, most=4096)
    assert few.sets * few.input_bytes >= 180e6 > (few.sets - 1) * few.input_bytes

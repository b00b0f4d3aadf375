"""The method of `weft bench`, on a fake GPU and with a fake PyTorch."""

import math
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench_fakes import SMALL, Call, FakeGpu, refusing

from weft.bench import compiling, gpu, measure, problem, suites
from weft.bench.implementation import Implementation, Refusal, milliseconds
from weft.bench.implementations import PEERS
from weft.bench.implementations import weft as our
from weft.bench.measure import Result, Timing
from weft.bench.problem import INPUTS, LAYOUTS, OUTPUTS, Buffers, Check, Problem
from weft.bench.suites import Shape
from weft.compiler import ptxas
from weft.dialects.schedule import Types, WarpgroupSchedule, read_schedule
from weft.errors import WeftError
from weft.launch import runtime
from weft.multiply import product_kernel
from weft.schedules import choice


def run(fake: FakeGpu, *implementations: Implementation, samples: int = 3, **more: Any) -> list[Result]:
    given = {"samples": samples, "sustained": False, "progress": lambda done, total: None} | more
    return measure.run(SMALL, implementations, fake, **given)


# Suites and problems


def test_suites_hold_what_their_names_promise() -> None:
    assert {name: len(shapes) for name, shapes in suites.SUITES.items()} == {
        "square": 6,
        "llm": 21,
        "deepgemm": 24,
        "odd": 36,
        "deepgemm-grouped": 10,
    }
    assert all(len(set(shapes)) == len(shapes) for shapes in suites.SUITES.values())
    assert {s.m for s in suites.SUITES["llm"] if (s.n, s.k) == (4096, 14336)} == {1, 16, 64, 128, 256}
    assert suites.SUITES["square"][-1] == Shape(16384, 16384, 16384)
    assert Shape(8192, 2112, 7168) in suites.SUITES["deepgemm"]
    for shape in suites.SUITES["odd"]:  # with both operands K-major, in elements of 2 bytes
        sizes = shape.k + shape.gap, shape.n + shape.gap, shape.shift
        assert any(size % 8 for size in sizes), shape


def test_a_shape_or_a_suite() -> None:
    assert suites.shapes("1x23X456") == (Shape(1, 23, 456),)
    assert suites.shapes("square") == suites.SUITES["square"]
    assert suites.shapes("1x2x3+4~5") == (Shape(1, 2, 3, shift=4, gap=5),)


def test_random_shapes_are_uniform_in_their_logarithms() -> None:
    drawn = suites.random_shapes(7, 400)
    assert drawn == suites.random_shapes(7, 400) != suites.random_shapes(8, 400)
    assert drawn[:9] == suites.random_shapes(7, 9)
    for sizes, least, most, unit in (
        ([s.m for s in drawn], 1, 16384, 1),
        ([s.n for s in drawn], 256, 32768, 8),
        ([s.k for s in drawn], 256, 32768, 8),
    ):
        assert min(sizes) >= least and max(sizes) <= most and not any(size % unit for size in sizes)
        middle = sorted(sizes)[200] / math.sqrt(least * most)
        assert 0.6 < middle < 1.7
    rounded = suites.random_shapes(7, 400, 128, 8)
    assert not any(s.m % 8 or s.n % 128 or s.k % 128 for s in rounded)


@pytest.mark.parametrize("text", ["", "1x2", "1x2x3x4", "0x1x1", "1x-1x1", "squares", "1x1x2147483648"])
def test_what_is_neither(text: str) -> None:
    with pytest.raises(WeftError, match=r"shape must be .* or one of square, llm.*, got '.*'"):
        suites.shapes(text)


@pytest.mark.parametrize(
    ("shape", "inputs", "sets"),
    [
        ((512, 512, 512), "bf16", 64),
        ((1024, 1024, 1024), "e4m3", 64),
        ((1024, 1024, 1024), "bf16", 43),
        ((4096, 4096, 4096), "bf16", 3),
        ((4096, 4096, 4096), "e4m3", 6),
        ((4096, 4096, 4096), "tf32", 2),
        ((16384, 16384, 16384), "s8", 2),
    ],
)
def test_inputs_exceed_three_times_the_cache(shape: tuple[int, int, int], inputs: str, sets: int) -> None:
    made = Problem(*shape, inputs, INPUTS[inputs].output)
    assert made.sets == sets
    assert made.sets == 64 or made.sets * made.input_bytes >= 180e6


def test_what_a_problem_takes() -> None:
    made = Problem(64, 128, 256, "e4m3", "bf16")
    assert (made.flops, made.input_bytes) == (2 * 64 * 128 * 256, (64 + 128) * 256)
    assert made.moved_bytes == made.input_bytes + 2 * 64 * 128
    assert (made.shape, made.types) == ("64x128x256", "e4m3 to bf16")
    assert replace(made, transpose_b=False).types == "e4m3 to bf16 nn"
    assert replace(made, transpose_a=True).types == "e4m3 to bf16 tt"


def test_a_type_without_another_for_d_has_a_known_one() -> None:
    assert {row.output for row in INPUTS.values()} <= set(OUTPUTS)


@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (0.01, True), (0.011, False), (None, False)])
def test_a_check_passes_up_to_what_is_allowed(error: float | None, passed: bool) -> None:
    assert Check(error, 0.01).passed is passed


# The method


def test_median_and_interquartile_range() -> None:
    timing = Timing(10, (1.0, 2.0, 3.0, 4.0, 100.0))
    assert timing.microseconds == pytest.approx(300.0)
    assert timing.spread == pytest.approx((4.0 - 2.0) / 3.0)
    assert Timing(1, (2.0, 2.0)).spread == 0.0


@pytest.mark.parametrize(("milliseconds", "rounds"), [(0.001, 24), (0.01, 3), (0.0234375, 1), (1.0, 1)])
def test_a_graph_rotates_over_all_sets_until_it_is_long_enough(milliseconds: float, rounds: int) -> None:
    fake = FakeGpu()
    (result,) = run(fake, fake.implementation("a", milliseconds))
    assert result.burst is not None
    assert result.burst.calls == rounds * SMALL.sets
    assert fake.ran == [("a", place) for place in range(SMALL.sets)] * rounds
    assert result.burst.microseconds == pytest.approx(1000 * milliseconds)
    assert result.burst.replays == pytest.approx([milliseconds * rounds * SMALL.sets] * 3)


def test_burst_takes_turns_and_rests_before_each_sample() -> None:
    fake = FakeGpu()
    graphs = {
        "a": measure.Captured([Call(fake, "a", 0, 2.0)], 1, 2.0),
        "b": measure.Captured([Call(fake, "b", 0, 6.0)], 1, 6.0),
    }
    steps: list[None] = []
    found = measure.burst(fake, graphs, 2, lambda: steps.append(None))
    turn = [("idle", 12.0), ("replay", "a", 1, 1), ("idle", 18.0), ("replay", "b", 0, 1)]
    assert fake.log == turn * 2
    assert found == {"a": Timing(1, (2.0, 2.0)), "b": Timing(1, (6.0, 6.0))}
    assert len(steps) == 4


def test_sustained_takes_turns_under_load() -> None:
    fake = FakeGpu()
    graphs = {
        "a": measure.Captured([Call(fake, "a", 0, 1.0)], 1, 1.0),
        "b": measure.Captured([Call(fake, "b", 0, 4.0)], 1, 4.0),
        "c": measure.Captured([Call(fake, "c", 0, 30.0)], 1, 30.0),
    }
    found = measure.sustain(fake, graphs, lambda: None)
    turn = [("replay", "a", 1, 10), ("replay", "b", 1, 5), ("replay", "c", 1, 4)]
    assert fake.log == [("replay", "c", 0, 10), *(turn * 7)]
    assert [len(timing.replays) for timing in found.values()] == [70, 35, 28]


def test_an_implementation_that_refuses_is_omitted_with_a_reason() -> None:
    fake, seen = FakeGpu(), list[tuple[int, int]]()
    quick, slow = fake.implementation("quick", 0.1), fake.implementation("slow", 0.2)
    found = run(
        fake, quick, refusing("other"), slow, sustained=True, progress=lambda *step: seen.append(step)
    )
    assert [result.implementation for result in found] == ["quick", "other", "slow"]
    assert [result.right for result in found] == [True, False, True]
    assert found[1] == Result(SMALL, "other", "takes other shapes")
    assert seen == [(done, 2 * (3 + 7)) for done in range(1, 21)]


def test_results_name_the_schedule_of_their_kernels() -> None:
    fake = FakeGpu()
    own = replace(fake.implementation("weft", 0.1), schedule=lambda problem, sets: f"of {len(sets)} sets")
    found = run(fake, own, fake.implementation("cublas", 0.1), replace(refusing("x"), schedule=own.schedule))
    assert [result.schedule for result in found] == [f"of {len(fake.buffers(SMALL))} sets", "", ""]


def test_the_schedule_is_that_of_the_kernel_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs PyTorch, for its arrays")
    monkeypatch.setattr(problem, "_INPUT_BYTES", 1)
    products = Types("f8E4M3FN", "f8E4M3FN", "bf16", (False, False))
    copied = Problem(2048, 2048, 2048, "e4m3", "bf16", transpose_b=False)  # weft.matmul copies B
    for made, types in ((replace(copied, transpose_b=True), products), (copied, products)):
        own = our().schedule(made, problem.buffers(made, "cpu"))
        assert read_schedule(own) == choice.choose(2048, 2048, 2048, types, "sm_90a")
    aligned = Problem(512, 512, 4096, "bf16", "bf16")
    rows = replace(aligned, k=4095)  # which TMA can't copy
    schedules = {our().schedule(each, problem.buffers(each, "cpu")) for each in (aligned, rows)}
    assert len(schedules) == 2
    written = "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 4}"
    assert our(written).schedule(aligned, []) == written


def test_memory_of_calls_lasts_as_long_as_their_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, seen = FakeGpu(), list[weakref.ref[Call]]()
    monkeypatch.setattr(fake, "capture", lambda calls: [Call(fake, "graph", 0, 1.0)])
    monkeypatch.setattr(fake, "check", lambda *_: Check(float(seen[0]() is None), 0.5))

    def prepare(problem: Problem, sets: list[Buffers]) -> list[Call]:
        calls = [Call(fake, "owner", 0, 1.0)]
        seen.append(weakref.ref(calls[0]))
        return calls

    assert run(fake, Implementation("owner", prepare))[0].right


def test_nobody_may_be_left() -> None:
    assert run(FakeGpu(), refusing("a"), sustained=True)[0].reason == "takes other shapes"


def test_a_problem_that_the_memory_is_too_small_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def buffers(problem: Problem) -> list[Buffers]:
        raise Refusal("out of memory")

    fake = FakeGpu()
    monkeypatch.setattr(fake, "buffers", buffers)
    assert [result.reason for result in run(fake, refusing("a"), refusing("b"))] == ["out of memory"] * 2


# Implementations


def test_ours_gets_the_operands_the_schedule_and_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    import weft as package

    asked: list[Any] = []
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda: "now"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(package, "matmul", lambda *a, **k: asked.append((a, k)), raising=False)
    text = "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3}"
    (call,) = our(text).prepare(SMALL, [Buffers("a", "b", "d")])
    assert asked == []
    call()
    chosen = WarpgroupSchedule((64, 64, 64), 1, 3)
    same = {"out": "d", "transpose_b": True, "groups": None, "stream": "now"}
    assert asked == [(("a", "b"), {**same, "schedule": chosen, "scales": None, "promote": False})]
    (call,) = our().prepare(replace(SMALL, inputs="e4m3-block"), [Buffers("a", "b", "d", "of a", "of b")])
    call()
    scaled = {**same, "schedule": None, "scales": ("of a", "of b"), "promote": True}
    assert asked[1:] == [(("a", "b"), scaled)]


@pytest.mark.parametrize("name", ["triton", "deepgemm"])
def test_a_library_that_is_not_installed_is_a_refusal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.bench.implementations.find_spec", lambda package: None)
    with pytest.raises(Refusal, match="isn't installed"):
        PEERS[name][0].prepare(SMALL, [])


# PyTorch's side, with a PyTorch that is none


class Context:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def fake_torch(log: list[str], faulty: bool = False) -> Any:
    """As much of PyTorch as TorchGpu uses; graphs and events note what they do."""

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.time = 0.0

        def record(self) -> None:
            log.append("event")
            self.time = float(log.count("replay"))

        def synchronize(self) -> None:
            log.append("wait")

        def elapsed_time(self, end: "Event") -> float:
            return end.time - self.time

    def synchronize() -> None:
        if faulty:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    stream = SimpleNamespace(synchronize=lambda: log.append("wait"))
    cuda = SimpleNamespace(
        Stream=lambda: stream, stream=Context, graph=Context, Event=Event, synchronize=synchronize
    )
    cuda.CUDAGraph = lambda: SimpleNamespace(replay=lambda: log.append("replay"))
    cuda.current_stream = lambda: stream
    return SimpleNamespace(cuda=cuda)


def test_replays_are_queued_before_any_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(log))
    device = gpu.TorchGpu()
    graph = device.capture([lambda: log.append("call")] * 2)
    assert device.replay(graph, 1, 2) == [1.0, 1.0]
    assert log == ["call", "call", "replay", "event", "replay", "event", "replay", "event", "wait"]


def test_configurations_are_compared_without_the_host_time_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(log))
    assert milliseconds([lambda: log.append("call")] * 2) == 1.0
    assert log == ["call"] * 4 + ["event", "replay", "event", "wait"] * 4


def test_what_a_library_raises_is_a_refusal_and_a_fault_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> None:
        raise RuntimeError("needs more than 16 rows\nat line 3")

    calls = Implementation("a", lambda problem, sets: [call])
    monkeypatch.setitem(sys.modules, "torch", fake_torch([]))
    with pytest.raises(Refusal) as caught:
        gpu.TorchGpu().prepare(calls, SMALL, [])
    assert caught.value.diagnostics[0].message == "needs more than 16 rows"
    with pytest.raises(Refusal, match="needs more"):
        gpu.TorchGpu().capture([call])
    monkeypatch.setitem(sys.modules, "torch", fake_torch([], faulty=True))
    with pytest.raises(WeftError, match="the GPU doesn't recover from a fault: needs more") as caught:
        gpu.TorchGpu().prepare(calls, SMALL, [])
    assert not isinstance(caught.value, Refusal)


def test_the_machine_is_asked_by_its_own_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = fake_torch([])
    torch.cuda.get_device_properties = lambda _: SimpleNamespace(uuid="12-34")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.TorchGpu().reading() == {"nvidia-smi": "not installed"}
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\ntest "$1" = --id=GPU-12-34 && echo "1980 MHz, 3201 MHz, 690.1 W, 61"\n')
    tool.chmod(0o755)
    assert gpu.TorchGpu().reading() == {
        "clocks.sm": "1980 MHz",
        "clocks.mem": "3201 MHz",
        "power.draw": "690.1 W",
        "temperature.gpu": "61",
    }
    tool.write_text("#!/bin/sh\necho no such GPU\nexit 6\n")
    assert gpu.TorchGpu().reading() == {"nvidia-smi": "no such GPU"}


def test_without_a_gpu_or_pytorch_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "available", lambda: "no GPU")
    assert gpu.unavailable() == "weft bench needs a GPU: no GPU"
    monkeypatch.setattr(runtime, "available", lambda: None)
    monkeypatch.setattr(gpu, "find_spec", lambda package: None)
    assert gpu.unavailable() == "weft bench needs PyTorch: pip install 'weft[gpu]'"


def test_versions_are_those_that_are_installed() -> None:
    assert {"python", "weft"} <= set(gpu.versions())


# Buffers and checks on PyTorch's CPU


@pytest.mark.each_value
@pytest.mark.parametrize("inputs", [name for name, row in INPUTS.items() if not row.format])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_right_result_passes_and_a_wrong_one_is_caught(
    inputs: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch, for its arrays")
    monkeypatch.setattr(problem, "_INPUT_BYTES", 1)
    monkeypatch.setattr(problem, "_CHECKED_ELEMENTS", 100_000)  # B in three parts
    of_a, of_b = (side == "t" for side in layout)
    made = Problem(300, 330, 500, inputs, INPUTS[inputs].output, of_b, transpose_a=of_a)
    assert made.layout == layout
    sets = problem.buffers(made, "cpu")
    assert problem.check(made, sets).error is None
    for each in sets:
        assert each.a.mT.is_contiguous() == of_a
        a, b = each.a.double(), (each.b.t() if of_b else each.b).double()
        if each.scale_a is not None:
            block = torch.arange(made.k) // 128
            a = a * each.scale_a.double()[:, block]
            b = b * each.scale_b.double()[torch.arange(made.n) // 128][:, block].t()
        each.d.copy_((a @ b).to(each.d.dtype))
    assert problem.check(made, sets).passed
    assert (problem.check(made, sets).error == 0.0) == (inputs == "s8")
    kept = sets[1].d[299, 329].clone()
    sets[1].d[299, 329] = 1 << 20
    assert not problem.check(made, sets).passed
    sets[1].d[299, 329] = kept
    sets[0].d[1, 2] = 0x7F7F7F7F if inputs == "s8" else math.nan
    assert problem.check(made, sets).error is None


# Compiling


@pytest.mark.slow
def test_what_will_be_measured_is_compiled_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    small = [Problem(64, 64, 64, each, each) for each in ("bf16", "f16")]
    groups = Problem(64, 64, 128, "bf16", "bf16", groups=2)
    done = []
    compiling.compile_ahead([*small, *small, groups], "sm_90a", None, lambda *steps: done.append(steps))
    assert done == [(1, 2), (2, 2)]
    monkeypatch.setattr(ptxas, "assemble", None)
    for product in (compiling.product_of(each, "sm_90a") for each in small):
        chosen = choice.choose(product.m, product.n, product.k, product.types, product.chip)
        assert product_kernel.plain(product.types, chosen, product.chip).cubin


def test_one_product_and_products_without_a_cache_are_not_precompiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling, "Compiler", None)
    compiling.compile_ahead([SMALL], "sm_90a", None, lambda *steps: None)
    monkeypatch.setenv("WEFT_CACHE", "0")
    compiling.compile_ahead([SMALL, replace(SMALL, m=64)], "sm_90a", None, lambda *steps: None)


def test_what_cannot_be_compiled_is_left_to_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    odd = [Problem(m, 64, 64, "e4m3", "bf16", transpose_b=False) for m in (64, 128)]
    compiling.compile_ahead(odd, "sm_90a", None, lambda *steps: done.append(steps))
    compiling.compile_ahead(odd, "sm_80", None, lambda *steps: done.append(steps))
    assert not done

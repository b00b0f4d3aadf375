"""Showing, exporting and tuning kernels of `weft.language`, and what is printed of them."""

import json
import re
import sys

import numpy as np
import pytest
from language_kernels import add

import weft
import weft.language as w
from weft.launch import runtime


@w.kernel(grid=lambda x, *, N: w.ceil_div(x.rows, N), threads=32)
def double(x: w.In["n", w.f32], y: w.Out["n", w.f32], *, N=32, by=2):
    for i in w.range(w.cta() * N + w.thread(), w.minimum(w.cta() * N + N, x.rows), 32):
        y[i] = x[i] * float(by)
    if N == 7:
        w.shared(3, 3, w.f32)


def instructions(kernel, *args):
    return kernel.emulate(*args, sanitize=False).instructions


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


@pytest.fixture
def arrays():
    return np.arange(256, dtype=np.float32), np.zeros(256, np.float32)


def test_show_prints_a_stage(capsys):
    add.show()
    assert "gpu.func @add" in capsys.readouterr().out
    add.show(stage="ptx", arch="sm_80")
    assert re.search(r"\.target sm_80", capsys.readouterr().out)
    with pytest.raises(
        weft.WeftError, match=r"stage must be one of source, .*sass, got 'ptxx'; did you mean 'ptx'"
    ):
        add.show(stage="ptxx")


def test_export_writes_what_a_launch_needs(tmp_path):
    cubin, ptx, launch = add.export(tmp_path / "add.v1")
    assert cubin.name == "add.v1.cubin"
    assert cubin.read_bytes().startswith(b"\x7fELF")
    described = json.loads(launch.read_text())
    assert (described["name"], described["chip"], described["block"]) == ("add", "sm_90a", [256, 1, 1])
    assert len(described["parameters"]) == ptx.read_text().count(".param .")
    assert described["parameters"][0] == "argument 'x': pointer"
    with pytest.raises(weft.WeftError, match="must be a directory"):
        add.export(tmp_path / "none" / "add")
    for path in ("", None, b"add"):
        with pytest.raises(weft.WeftError, match="path must be the files' path without a suffix, got"):
            add.export(path)
    (tmp_path / "taken.ptx").mkdir()
    with pytest.raises(weft.WeftError, match=r"cannot write '.*taken\.ptx': Is a directory"):
        add.export(tmp_path / "taken")
    names = {"add.v1.cubin", "add.v1.ptx", "add.v1.json", "taken.ptx"}
    assert {each.name for each in tmp_path.iterdir()} == names  # none of the others is written


def test_tune_finds_the_fastest_and_keeps_it(cache, arrays):
    x, y = arrays
    seen = []

    def measure(kernel, *args):
        seen.append(kernel)
        return instructions(kernel, *args)

    space = {"N": (32, 64, 256)}
    assert double.tune(x, y, space=space, measure=measure) == {"N": 256}
    assert len(seen) == 3
    assert np.array_equal(y, 2 * x)
    assert double.tune(x, y, space=space, measure=measure) == {"N": 256}
    assert len(seen) == 3
    double.tune(x, y, space=space, measure=measure, again=True)
    double.tune(x[:128], y[:128], space=space, measure=measure)
    double.tune(x, y, space=space, measure=measure, by=3)
    assert len(seen) == 12


def test_choices_that_fail_are_skipped(cache, arrays):
    x, y = arrays
    with pytest.warns(UserWarning, match=r"2 of 3 choices are skipped: .*'N': 7.*'by': 3.*check returned"):
        best = double.tune(
            *arrays,
            space=[{"N": 7}, {"N": 32}, {"N": 256, "by": 3}],
            measure=instructions,
            check=lambda: np.array_equal(y, 2 * x),
        )
    assert best == {"N": 32}
    with pytest.raises(weft.WeftError, match=r"no choice can run: .*columns of a buffer"):
        double.tune(*arrays, space={"N": (7,)}, measure=instructions)


@pytest.mark.parametrize("space", [{}, {"N": 3}, {"M": (1,)}, [], [{"N": 1}, {"M": 2}], "N", {"x": (1,)}])
def test_spaces_that_dont_fit(space, arrays):
    with pytest.raises(weft.WeftError, match="space"):
        double.tune(*arrays, space=space, measure=instructions)


def test_tune_refuses_functions_that_are_none_and_times_that_are_no_numbers(cache, arrays):
    for name in ("measure", "check"):
        with pytest.raises(weft.WeftError, match=f"{name} must be a function, got 3"):
            double.tune(*arrays, space={"N": (32,)}, **{"measure": instructions, name: 3})
    for time in (None, "1", float("nan")):
        with pytest.raises(weft.WeftError, match=r"no choice can run.*measure must return a time, got"):
            double.tune(*arrays, space={"N": (32,)}, measure=lambda *_, time=time: time)
    with pytest.raises(weft.WeftError, match="'N' must be one of the meta-parameters by without a value"):
        double.tune(*arrays, space={"N": (32,)}, N=64, measure=instructions)


def test_without_a_gpu_tune_asks_once_for_a_measure(cache, arrays, monkeypatch):
    monkeypatch.setattr(runtime, "available", lambda: "no GPU here\nnote: about it")
    with pytest.raises(weft.WeftError) as caught:
        double.tune(*arrays, space={"N": (32, 64)})
    text = "tune measures on a GPU (no GPU here): pass measure=, a function of a kernel and arguments"
    assert str(caught.value) == text


def test_operators_need_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"^w\.torch_op needs the package torch, .*'weft\[gpu\]'$"):
        w.torch_op("weft_language_test::double", double)


@pytest.mark.parametrize("name, chip", [("h100", "sm_90a"), ("RTX 5090", "sm_120a"), ("A100", "sm_80")])
def test_names_of_gpus_lead_to_their_chips(name, chip):
    with pytest.raises(weft.WeftError, match=f"got '{name}'; the chip of that GPU is '{chip}'"):
        double.compile(arch=name)


@pytest.mark.parametrize("call", [double.compile, double.module, double.emulate])
def test_unknown_chips_are_named_with_the_known_ones(call, arrays):
    kernel = w.kernel(grid=1, threads=32, arch="sm_90b")(double.__wrapped__)
    call = getattr(kernel, call.__name__)
    message = r"^arch must be a known chip \(sm_70, .*\), got 'sm_90b'; did you mean 'sm_90'"
    with pytest.raises(weft.WeftError, match=message):
        call(*arrays)


def test_what_is_printed_of_kernels_and_reports(arrays):
    assert repr(double) == "<kernel double(x, y, *, N=32, by=2)>"
    assert repr(add) == "<kernel add(x, y, z)>"
    assert repr(double.compile(arch="sm_80")) == "<kernel double for sm_80>"
    report = double.emulate(*arrays)
    assert str(report) == f"{report.instructions:,} warp instructions, no findings"

    @w.kernel(threads=64)
    def raced(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        i = w.thread()
        if i == 0:
            w.print("x is", x[0])
        y[0] = x[i]

    report = raced.emulate(*arrays)
    assert re.fullmatch(
        r"\d+ warp instructions, \d+ findings?:\n(.*race: .*\n)+printed:\nx is 0.*", str(report)
    ), str(report)


def test_calls_name_the_parameters(arrays):
    with pytest.raises(weft.WeftError, match=r"takes 2 .*, got 3: pass meta-parameters by name, as N=…"):
        double.compile(*arrays, 64)
    with pytest.raises(weft.WeftError, match=r"has no parameter 'BLOCK': it has x, y, N, by$"):
        double.compile(*arrays, BLOCK=64)


def test_compile_needs_what_the_annotations_leave_open():
    @w.kernel(threads=32)
    def scaled(x: w.In["n"], y: w.Out["n", w.f32], by: w.f32, z: w.Out["n"], step: w.i32 = 1):
        y[w.thread()] = x[w.thread() * step].to(w.f32) * by
        z[w.thread()] = x[w.thread()].to(z.dtype)

    assert "ld.global" in scaled.compile("f16", z="f32").ptx
    assert scaled.compile("f16", z="f32") is scaled.compile("f16", "f32", 2.0, "f32")
    with pytest.raises(weft.WeftError, match="'x' must be an array, or the element type"):
        scaled.compile()
    with pytest.raises(weft.WeftError, match="takes 4 to 5 arguments, got no 'z'"):
        scaled.compile("f16")

"""A lowered module is cached for later processes, with a key of everything that determines it."""

import json

import numpy as np
import pytest
from one_product import MAPS, SCHEDULES, text

import weft
from weft import mlir
from weft.compiler import apart, cache_keys, stages
from weft.compiler.launch_record import Launch
from weft.dialects import context
from weft.schedules import tuned_files


@pytest.fixture
def kept(tmp_path, patch):
    """Names the entries that there are of what modules were lowered to."""
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    return lambda: sorted(path.name for path in tmp_path.glob("llvm-*"))


def not_again(*_):
    raise AssertionError("is lowered once more")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_passes_run_once(schedule, kept, patch):
    first = weft.compile(text(schedule), arch="sm_90a")
    with patch.context() as within:
        within.setattr(stages, "_lowered", not_again)
        again = weft.compile(text(schedule), arch="sm_90a")
    assert len(kept()) == 1
    assert again.launch == first.launch and again.compiled == first.compiled
    a, b = np.random.default_rng(0).standard_normal((2, 72, 64)).astype(np.float16)
    d = np.full((72, 72), np.nan, np.float32)
    again.emulate(a, b, d)
    np.testing.assert_allclose(d, a.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-4, atol=1e-4)
    assert again.stages == first.stages and again.ir("lower-gemm") == first.ir("lower-gemm")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_launch_comes_back_from_json_as_it_was(schedule):
    launch = weft.compile(text(schedule), arch="sm_90a").launch
    back = Launch.of_record(json.loads(json.dumps(launch.record())))
    assert back == launch
    for sizes in ([72, 64, 72, 64, 72, 72], [1000, 8, 9, 8, 1000, 9], [5, 8, 9, 7, 5, 9]):
        assert launch.grid is not None and back.grid is not None and back.grid(sizes) == launch.grid(sizes)
        assert launch.requires is not None and back.requires is not None
        assert back.requires(sizes) == launch.requires(sizes)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "other",
    [
        {"module": "\n" + text()},  # other lines, which LLVM IR has
        {"module": text(MAPS)},
        {"arch": "sm_80"},
        {"rows": "any"},
        {"name": "other.mlir"},
    ],
    ids=str,
)
def test_what_decides_is_in_the_key(other, kept):
    first = {"module": text(), "arch": "sm_90a", "rows": "aligned", "name": "-"}
    stages.compile_module(**first)
    stages.compile_module(**(first | other))
    assert len(kept()) == 2


def test_other_code_lowers_anew(kept, patch):
    weft.compile(text(), arch="sm_90a")
    patch.setattr(cache_keys, "lowering", lambda: ["another version"])
    weft.compile(text(), arch="sm_90a")
    assert len(kept()) == 2


def test_a_file_that_only_shows_as_the_same_text_is_another(kept, tmp_path):
    path = tmp_path / "x.mlir"
    path.write_text(text().replace("return", 'return loc("\ufffd":1:1)'), "utf-8")
    weft.compile(path, arch="sm_80")
    path.write_bytes(path.read_bytes().replace("\ufffd".encode(), b"\xff"))  # which is replaced by that
    with pytest.raises(weft.WeftError, match="isn't UTF-8 text"):
        weft.compile(path, arch="sm_80")
    assert len(kept()) == 1


def test_a_file_that_changes_while_it_is_compiled_is_not_kept(kept, tmp_path, patch):
    path, asked = tmp_path / "x.mlir", apart._asked
    path.write_text(text())

    def changed(*given):
        path.write_text(text(MAPS))
        return asked(*given)

    patch.setattr(apart, "_asked", changed)
    assert weft.compile(path, arch="sm_90a").compiled.llvm
    assert not kept()


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("module", [text(None), mlir.parse(text(None), context())], ids=["text", "module"])
def test_a_product_that_files_decide_about_is_not_kept(module, kept, patch, tmp_path):
    patch.chdir(tmp_path)  # where a reproducer goes
    patch.setenv(tuned_files.VARIABLE, str(tmp_path / "schedules"))
    weft.compile(module, arch="sm_90a")
    assert not kept()
    # Without files the model decides, and what it chose isn't taken where there are files.
    patch.setenv(tuned_files.VARIABLE, "")
    weft.compile(module, arch="sm_90a")
    assert len(kept()) == 1
    with patch.context() as within:
        within.setattr(stages, "_lowered", not_again)
        within.setattr(apart, "_asked", not_again)
        weft.compile(module, arch="sm_90a")
        within.setenv(tuned_files.VARIABLE, str(tmp_path / "schedules"))
        with pytest.raises((AssertionError, weft.WeftError), match="is lowered once more"):
            weft.compile(module, arch="sm_90a")


def test_nothing_is_kept_of_what_is_refused(kept):
    with pytest.raises(weft.WeftError):
        weft.compile("module {}", arch="sm_90a")
    assert not kept()

"""`weft.compile` lowers text in another process, so that a crash there doesn't end the caller."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import weft
from weft.cache import loaded
from weft.compiler import apart, cache_keys, stages
from weft.errors import WeftError, WeftInternalError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "matmul.mlir"
TUNED = ROOT / "test" / "passes" / "Inputs" / "schedules.jsonl"
CRASHES_IN_PARSER = """\
func.func @f(%s: !llvm.struct<(i32, i32)>) {
  %r = llvm.extractvalue %s[1099511627776] : !llvm.struct<(i32, i32)>
  return
}
"""
# MLIR's verifier asks for the MMA type of each member of the result.
CRASHES_IN_VERIFIER = """\
func.func @f(%a: vector<2xf16>, %c: f32) {
  %r = nvvm.mma.sync A[%a, %a, %a, %a] B[%a, %a] C[%c, %c, %c, %c] {
      layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>,
      shape = #nvvm.shape<m = 16, n = 8, k = 16>
    } : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(index, f32, f32, f32)>
  return
}
"""
PRODUCT = """\
func.func @f(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {{
  "tile.matmul"(%A, %B, %D) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    {}}} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}}
"""
SCHEDULE = "block = array<i64: 64, 64, 64>, warps = array<i64: 2, 2>, stages = 3"


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cache_keys, "lowering", lambda: ["this code"])
    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.chdir(tmp_path)  # reproducers go there


def works() -> bool:
    return weft.compile(PRODUCT.format(f"schedule = {{{SCHEDULE}}}"), arch="sm_80").name == "f"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [CRASHES_IN_PARSER, CRASHES_IN_VERIFIER], ids=["parser", "verifier"])
def test_a_crash_is_an_error_with_a_reproducer(text: str, tmp_path: Path) -> None:
    with pytest.raises(WeftInternalError, match=r"MLIR crashed \(SIG\w+\) while parsing -;") as caught:
        weft.compile(text, arch="sm_80")
    (reproducer,) = tmp_path.glob("weft-crash-*.mlir")
    assert str(reproducer) in str(caught.value)
    assert reproducer.read_text().endswith(text)
    assert works()


def test_a_crash_on_a_file_names_it(tmp_path: Path) -> None:
    Path("bad.mlir").write_text(CRASHES_IN_PARSER)
    with pytest.raises(WeftInternalError, match=r"while parsing bad\.mlir"):
        weft.compile(Path("bad.mlir"), arch="sm_80")


@pytest.mark.slow
def test_a_crash_on_linalg_is_an_error() -> None:
    with pytest.raises(WeftInternalError, match=r"MLIR crashed \(SIG\w+\) while parsing"):
        weft.from_linalg(CRASHES_IN_PARSER)
    with pytest.raises(weft.WeftError, match="-:1:1: error: custom op 'x' is unknown"):
        weft.from_linalg("x")


@pytest.mark.each_value(3)
@pytest.mark.parametrize("kind", ["si32", "ui64", "si8", "f16", "i128"])
def test_arrays_without_a_class_are_refused(kind: str) -> None:
    number = "1.0" if kind == "f16" else "64"
    block = f"array<{kind}: {number}, {number}, {number}>"
    text = PRODUCT.format(f"schedule = {{block = {block}, warps = array<i64: 2, 2>, stages = 3}}")
    with pytest.raises(WeftError, match=rf"'block' must be an array<i64> of 3, got array<{kind}: "):
        weft.compile(text, arch="sm_80")
    with pytest.raises(WeftError, match=rf"'block' must be an array<i64> of 3, got array<{kind}: "):
        stages.compile_module(text, arch="sm_80")
    schedule = f"{{block = {block}, warps = array<i64: 2, 2>, stages = 3}}"
    a = weft_array()
    with pytest.raises(WeftError, match=rf"'block' must be an array<i64> of 3, got array<{kind}: "):
        weft.matmul(a, a, schedule=schedule)


def weft_array() -> object:
    import numpy as np

    return np.zeros((64, 64), np.float16)


WRONG = [
    PRODUCT.format("transpose_b = 1"),
    PRODUCT.format("schedule = {block = 1}"),
    PRODUCT.format("transpose_b = false") + "junk",
    "tile.matmul",
    "",
    "func.func @f(%a: i32) {\n  %b = arith.addi %a, %c : i32\n  return\n}",
    'gpu.module @m [#nvvm.target<chip = "sm_999">] {}',
]


@pytest.mark.parametrize("text", WRONG)
def test_errors_are_those_of_this_process(text: str) -> None:
    found = []
    for compiles in (weft.compile, stages.compile_module):
        with pytest.raises(WeftError) as caught:
            compiles(text, arch="sm_80")
        found.append((type(caught.value), caught.value.diagnostics))
    assert found[0] == found[1]


def test_results_are_those_of_this_process() -> None:
    made, wanted = weft.compile(EXAMPLE, arch="sm_80").compiled, stages.compile_module(EXAMPLE, "sm_80")
    assert made == wanted


def test_paths_are_relative_to_the_directory_of_the_call(tmp_path: Path) -> None:
    assert works()
    (tmp_path / "below").mkdir()
    os.chdir(tmp_path / "below")
    Path("x.mlir").write_text(PRODUCT.format("transpose_b = false"))
    assert weft.compile(Path("x.mlir"), arch="sm_80").compiled.name == "x.mlir"


@pytest.mark.slow
def test_settings_of_the_environment_count(monkeypatch: pytest.MonkeyPatch) -> None:
    apart._worker.stop()
    assert weft.compile(PRODUCT.format("transpose_b = false"), arch="sm_90a")
    monkeypatch.setenv("WEFT_SCHEDULES", str(TUNED))
    with pytest.warns(UserWarning, match=r"schedules\.jsonl:3: ignored"):
        weft.compile(PRODUCT.format("transpose_b = false"), arch="sm_90a")


@pytest.mark.slow
def test_a_cached_entry_starts_no_process(tmp_path: Path) -> None:
    code = f"""
import weft
from weft.compiler import apart
weft.compile({PRODUCT.format(f"schedule = {{{SCHEDULE}}}")!r}, arch="sm_80")
print(apart._worker.process is None)
"""
    environment = os.environ | {"WEFT_CACHE_DIR": str(tmp_path / "cache")}
    del environment["WEFT_CACHE"]
    for expected in ("False", "True"):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, text=True, capture_output=True, timeout=120
        )
        assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert works()
    assert apart._worker.process is not None
    pid = apart._worker.process.pid
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(apart, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(WeftError, match=r"-: MLIR didn't finish within 0\.2 s"):
        works()
    monkeypatch.undo()
    assert not Path(f"/proc/{pid}").exists()
    assert works()


def test_this_process_compiles_where_another_one_would_load_other_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loaded, "unchanged", lambda: False)
    monkeypatch.setattr(apart, "_asked", lambda *_: pytest.fail("another process was asked"))
    assert works()


def test_an_unforeseen_exception_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cache_keys, "lowering", lambda: None)
    monkeypatch.setattr(stages.checks, "names", lambda module: {}["k"])
    with pytest.raises(WeftInternalError, match=r"internal error while .*KeyError: 'k'; this is a defect"):
        weft.compile(EXAMPLE, arch="sm_80")
    (reproducer,) = tmp_path.glob("weft-crash-*.mlir")
    assert "Traceback" in reproducer.read_text()


@pytest.mark.slow
def test_threads_and_forked_processes_get_their_answers() -> None:
    names: dict[int, str] = {}

    def make(number: int) -> None:
        names[number] = weft.compile(
            PRODUCT.format("transpose_b = false").replace("@f", f"@f{number}"), arch="sm_80"
        ).name

    threads = [threading.Thread(target=make, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == {number: f"f{number}" for number in range(3)}
    child = os.fork()
    if child == 0:
        os._exit(0 if works() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert works()

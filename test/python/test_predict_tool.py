"""`weft predict`: what it prints, its JSON, and what it refuses."""

import json
from pathlib import Path

import pytest

from weft.schedules.gpus import GPUS
from weft.tools import weft

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PRODUCT = """
func.func @f(%A: memref<?x?x{type}>, %B: memref<?x?x{type}>, %D: memref<?x?x{out}>) {{
  "tile.matmul"(%A, %B, %D) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    transpose_b = true{more}}}
    : (memref<?x?x{type}>, memref<?x?x{type}>, memref<?x?x{out}>) -> ()
  return
}}
"""
BATCH = """
func.func @f(%A: memref<4x64x128xbf16>, %B: memref<4x96x128xbf16>, %D: memref<4x64x96xbf16>) {
  "tile.matmul"(%A, %B, %D) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (memref<4x64x128xbf16>, memref<4x96x128xbf16>, memref<4x64x96xbf16>) -> ()
  return
}
"""
SMALL = "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 4}"
DEEP = SMALL.replace("stages = 4", "stages = 40")
LARGE = "{block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "product.mlir"
    path.write_text(PRODUCT.format(type="bf16", out="bf16", more=""))
    return path


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert weft.main(["predict", *map(str, words)]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert weft.main(["predict", *map(str, words)]) == 1
    return capsys.readouterr().err


def test_json_has_every_prediction(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--arch", "sm_90a", "--shape", "4096x4096x4096", "--schedule", SMALL, "--schedule", LARGE
    report = json.loads(said(capsys, file, *words, "--json"))
    assert (report["gpu"], report["chip"], report["shape"]) == ("H200", "sm_90a", [4096, 4096, 4096])
    small, large = report["predictions"]
    assert small["schedule"].startswith("block 64x64x64") and large["microseconds"] < small["microseconds"]
    assert large["bound"] == "power" and large["parts"]["power"] == large["microseconds"]
    assert large["counts"]["tiles"] == 512
    assert large["tflops"] == pytest.approx(2 * 4096**3 / large["microseconds"] / 1e6)
    burst = json.loads(said(capsys, file, *words, "--burst", "--json"))["predictions"]
    assert burst[1]["microseconds"] < large["microseconds"]


def test_the_schedule_in_the_file_is_predicted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(PRODUCT.format(type="bf16", out="f32", more=f", schedule = {SMALL}"))
    out = said(capsys, file, "--arch", "sm_90a", "--shape", "512x512x512")
    assert out.startswith(
        "product    D[512,512] f32 = A[512,512] bf16 * B[512,512]ᵀ bf16\ngpu        H200: 132"
    )
    assert "\nschedule   block 64x64x64, 1 warpgroups, 4 stages, group 8\n" in out
    assert "\nkernel     64 tiles in 1 wave, 8 K blocks each; 2,048 instructions; " in out


def test_a_batch_is_predicted_as_a_whole(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(BATCH)
    report = json.loads(said(capsys, file, "--arch", "sm_90a", "--schedule", SMALL, "--json"))
    assert report["shape"] == [64, 96, 128]
    assert report["predictions"][0]["counts"]["tiles"] == 4 * 2
    assert report["predictions"][0]["flops"] == 4 * 2 * 64 * 96 * 128


@pytest.mark.parametrize("name", ["RTX 5090", "rtx pro 6000"])
def test_gpus_of_one_chip_are_told_apart(file: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--arch", "sm_120a", "--shape", "4096x4096x4096", "--gpu", name
    gpu = next(gpu for gpu in GPUS.values() if gpu.name.lower() == name.lower())
    assert f"\ngpu        {gpu.name}: {gpu.multiprocessors} multiprocessors" in said(capsys, file, *words)


def test_measured_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = json.loads((BENCHMARKS / "h200-bf16.json").read_text())
    kept["results"] = kept["results"][:2]
    few = tmp_path / "few.json"
    few.write_text(json.dumps(kept))
    heading, *rows, _, last, note = said(capsys, "--measured", few).splitlines()
    assert heading.split()[-7:] == ["mode", "measured", "predicted", "error", "by", "from", "schedule"]
    assert [row.split()[:5] for row in rows] == [
        ["512x512x512", "bf16", "to", "bf16", mode] for mode in ("burst", "sustained")
    ]
    assert last.startswith("bf16 to bf16, sustained: ")
    assert note == "schedules of 2 of 2 times are those that Weft chooses now: the file has none"
    burst, sustained = json.loads(said(capsys, "--measured", few, "--json"))
    assert (burst["shape"], burst["mode"], sustained["mode"]) == ("512x512x512", "burst", "sustained")
    assert burst["error"] == pytest.approx(burst["predicted"] / burst["microseconds"] - 1)
    assert not burst["recorded"]


def test_files_that_cannot_be_compared_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = BENCHMARKS / "h200-e4m3-block-grouped.json"
    message = "a measured file must have results of weft without groups, got none"
    assert message in refused(capsys, "--measured", groups)
    other = tmp_path / "other.json"
    for text in ("{}", "[]", "null", "[" * 100_000):
        other.write_text(text)
        message = f"cannot read '{other}': must be a file from weft bench --json"
        assert message in refused(capsys, "--measured", other)
    missing = tmp_path / "missing.json"
    message = f"error: cannot read '{missing}': No such file or directory"
    assert message in refused(capsys, "--measured", missing)


def test_mistakes_are_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arch = "--arch", "sm_90a"
    sized = (*arch, "--shape", "64x64x64")
    for words, message in (
        ((file,), "weft predict needs --arch, or --measured with files of weft bench --json"),
        ((file, *arch), "'tile.matmul' op leaves M open: set it with --shape MxNxK"),
        ((file, *arch, "--shape", "4x4"), "--shape expects MxNxK, three sizes"),
        ((file, *sized, "--gpu", "B200"), "gpu must be H200 for sm_90a, got 'B200'"),
        ((file, *sized, "--schedule", "{}"), "--schedule '{}': schedule must have one of"),
        ((file, *sized, "--schedule", DEEP), "shared memory must be at most 232448"),
        ((file, "--measured", "x.json"), "--measured can't be used with FILE.mlir"),
    ):  # fmt: skip
        assert message in refused(capsys, *words)
    file.write_text(BATCH)
    assert "M must be 64, as in its types, got 65 in --shape" in refused(
        capsys, file, *arch, "--shape", "65x96x128"
    )
    ptx = file.with_suffix(".ptx")
    ptx.write_text(".version 8.4")
    message = f"'{ptx}' is PTX, not MLIR: weft emulate runs it, and weft lint checks it"
    assert message in refused(capsys, ptx, *arch)
    file.write_text("func.func @f() { return }")
    assert "must have one tile.matmul, got 0" in refused(capsys, file, *arch)

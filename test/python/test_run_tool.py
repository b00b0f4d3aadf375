"""`weft run` and `weft emulate` of kernels of every level: arguments and results."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from weft.tools import values
from weft.tools import weft as tool

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """!AB = memref<?x?xbf16>
!D = memref<?x?xf32, strided<[40, 1]>>
func.func @small(%A: !AB, %B: !AB, %D: !D) {
  "tile.matmul"(%A, %B, %D) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    schedule = {block = array<i64: 32, 32, 32>, warps = array<i64: 1, 1>, stages = 2}} : (!AB, !AB, !D) -> ()
  return
}"""
SCALE = """gpu.module @m {
  gpu.func @scale(%x: !llvm.ptr, %n: i8, %y: memref<?xi32>) kernel
      attributes {BLOCK weft.writes = array<i32: 2>} {
    %t = gpu.thread_id x
    %i = arith.index_cast %t : index to i32
    %w = arith.extsi %n : i8 to i32
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i32) -> !llvm.ptr, i32
    %v = llvm.load %from : !llvm.ptr -> i32
    %s = arith.muli %v, %w : i32
    memref.store %s, %y[%t] : memref<?xi32>
    gpu.return
  }
}"""
BLOCK = "known_block_size = array<i32: 32, 1, 1>, "


@pytest.fixture
def weft(tmp_path, patch, capfd):
    """Runs `weft COMMAND k.mlir …` without a GPU, and gives its status and what it prints."""
    patch.chdir(tmp_path)
    patch.setenv("CUDA_VISIBLE_DEVICES", "")

    def run(command, text, *arguments, arch="sm_80"):
        Path("k.mlir").write_text(text)
        chip = ["--arch", arch] if arch else []
        status = tool.main([command, "k.mlir", *chip, *arguments])
        found = capfd.readouterr()
        assert "Traceback" not in found.err
        return status, found.out, found.err

    return run


def args(*texts):
    return [part for text in texts for part in ("--arg", text)]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("command", ["run", "emulate"])
def test_tile_operations_by_hand_run_with_one_command(weft, command):
    text = (EXAMPLES / "tma_gemm.mlir").read_text()
    status, out, err = weft(command, text, "--save", "2=d.npy", arch=None)
    assert (status, err) == (0, "") and "argument 2  64x64 float32, changed: from -" in out
    a, b = (values.filled("random", "f16", (64, 256), seed).astype(np.float64) for seed in (0, 1))
    np.testing.assert_allclose(np.load("d.npy"), a @ b.T, atol=1e-3)


@pytest.mark.slow
def test_arrays_of_a_product_may_be_given_and_are_still_checked(weft):
    a = np.random.default_rng(0).standard_normal((24, 16)).astype(ml_dtypes.bfloat16)
    np.save("a.npy", a)
    options = args("1=random:16x40xbf16", "0=a.npy")
    status, out, err = weft("run", SMALL, *options, "--on", "emulator", "--json", "--save", "2=d.npy")
    told = json.loads(out)
    assert (status, err) == (0, "") and told["passed"] and told["error"] <= told["bound"]
    assert told["product"].startswith("D[24,40] f32 = A[24,16] bf16 * B[16,40] bf16")
    assert [each["changed"] for each in told["arguments"]] == [False, False, True]
    b = values.filled("random", "bf16", (16, 40), 1).astype(np.float64)
    np.testing.assert_allclose(np.load("d.npy"), a.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)
    status, _, err = weft("run", SMALL, *args("random:24x16", "random:17x40"))
    assert status == 1 and "expects argument 0 of 24x17, got an array of 24x16" in err


@pytest.mark.slow
def test_a_lowered_product_takes_the_same_arrays(weft):
    status, lowered, _ = weft("compile", SMALL, "--emit", "mlir")
    assert status == 0 and "llvm.func" in lowered
    status, out, err = weft(
        "emulate", lowered, *args("random:24x16", "random:16x40", "zeros:24x40"), "--json"
    )
    told = json.loads(out)
    assert (status, err) == (0, "") and told["findings"] == [] and told["instructions"] > 0
    assert told["arguments"][2]["shape"] == [24, 40] and told["arguments"][2]["changed"]
    status, _, err = weft("run", lowered)
    assert status == 1
    assert "argument 0 of small is memref<?x?xbf16>: give its sizes, --arg 0=random:64x64, say" in err


@pytest.mark.parametrize("command", ["run", "emulate"])
def test_pointers_numbers_and_files(weft, command):
    x = np.arange(32, dtype=np.int32)
    np.save("x.npy", x)
    np.save("y.npy", np.zeros(32, np.int32))
    options = [*args("x.npy", "-3", "y.npy"), "--grid", "1", "--out", "made"]
    status, out, err = weft(command, SCALE.replace("BLOCK", BLOCK), *options)
    assert (status, err) == (0, "") and "argument 2  32 int32, changed: from -93 to 0" in out
    np.testing.assert_array_equal(np.load("made/y.npy"), -3 * x)
    assert not np.load("y.npy").any() and not Path("made/x.npy").exists()
    status, _, _ = weft(command, SCALE.replace("BLOCK", ""), *options, "--block", "32,1")
    assert status == 0


MISTAKES = {
    "": "argument 0 of scale is a pointer: give an array, --arg 0=random:128xf32",
    "random:32xi32": "argument 1 of scale is a number of type i8: give it, --arg 1=1, say",
    "random:32xi32 2": "argument 2 of scale is memref<?xi32>: give its sizes, --arg 2=random:64, say",
    "random:32xi32 2 random:32 5": "kernel scale has 3 arguments, got a value for argument 3",
    "0=random:32xi32 0=3": "argument 0 has two values, the first is random:32xi32",
    "random:32 2 random:32": "name the type of its elements too: random:32xf32, say",
    "random:32xi33 2": "got i33",
    "random:0xi32 2": "expected sizes from 1 to 2**31 - 1 such as random:128x64",
    "zeros:2000000000x2000000000xi32": "takes too much memory",
    "random:32xi32 2.5": "argument 1 of scale has type i8: expected an integer",
    "random:32xi32 300": "argument 1 of scale has type i8: expected a number in -128..255",
    "random:32xi32 2 random:32xf32": "the kernel's argument has elements of i32, not of f32",
    "random:32xi32 2 7": "argument 2 of scale is memref<?xi32>: expected FILE.npy, random:",
    "random:32xi32 2 random:4x8": "kernel scale, argument 2: expects an array of shape ?, got 4x8",
    "random:32xi32 2 random:32": "kernel scale doesn't set its grid: pass grid=(x, y, z), or --grid X,Y,Z",
    "-1 2 random:32": "argument 0 of scale is a pointer: expected an array, or an address from 0",
}


@pytest.mark.each_value(8)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["run", "emulate"])
@pytest.mark.parametrize("given", MISTAKES)
def test_mistakes_in_arguments_are_one_message(weft, command, given):
    status, out, err = weft(command, SCALE.replace("BLOCK", BLOCK), *args(*given.split()))
    assert status in (1, 2) and MISTAKES[given] in err and err.count("error:") == 1, err
    assert "RAN" not in out


OPTIONS = {
    ("--save", "d.npy"): "--save expects the number of an argument and a file, 2=d.npy, got 'd.npy'",
    ("--save", "1=d.npy"): "--save 1=d.npy: the kernel has no array as argument 1",
    ("--save", "9=d.npy"): "--save 9=d.npy: the kernel has no array as argument 9",
    ("--save", "2=none/d.npy"): "cannot write 'none/d.npy'",
    ("--grid", "a"): "--grid expects one to three numbers such as 4,2,1, got 'a'",
    ("--shape", "8x8x8"): "--shape sets the sizes of a tile.matmul, and k.mlir has none: use --arg",
}


@pytest.mark.each_value(5)
@pytest.mark.parametrize("options", OPTIONS)
def test_mistakes_in_options_are_one_message(weft, options):
    given = args("random:32xi32", "2", "random:32")
    for command in ("run", "emulate"):
        status, _, err = weft(command, SCALE.replace("BLOCK", BLOCK), *given, *options)
        assert status in (1, 2) and OPTIONS[options] in err, err


@pytest.mark.slow
def test_remarks_tell_why_another_kernel_runs_for_unaligned_rows(weft):
    text = (EXAMPLES / "matmul.mlir").read_text()
    options = ["--tile-explain-dispatch", "--shape", "8x8x4"]
    status, out, err = weft("run", text, *options, arch="sm_100a")
    assert status == 0 and out.splitlines()[-1] == "PASS"
    said = [line for line in err.splitlines() if "'tile.matmul' op" in line]
    assert len(said) == 2
    assert said[0].startswith("k.mlir:13:3: remark: 'tile.matmul' op is lowered to tcgen05, ")
    assert said[1].startswith("weft: remark: 'tile.matmul' op is lowered to mma.sync, ")
    assert "note: a schedule of tcgen05 needs rows of matrices at multiples of 16 bytes" in err


def test_a_fault_is_told_as_json(weft):
    """The kernel reads past the array of its first argument."""
    text = SCALE.replace("BLOCK", BLOCK)
    given = args("random:16xi32", "2", "random:32")
    for command in ("run", "emulate"):
        status, out, err = weft(command, text, *given, "--grid", "1", "--json")
        told = json.loads(out)
        assert status == 1 and not told["passed"] and "error: out-of-bounds global access" in err
        assert told["error"].startswith("out-of-bounds global access")
        assert [finding["rule"] for finding in told["findings"]] == ["out-of-bounds"]


def test_options_of_ptx_are_not_for_programs_nor_the_other_way_round(weft, tmp_path):
    status, _, err = weft("emulate", SMALL, "--shared", "3")
    assert status == 2 and "--shared is for PTX: a .mlir file's kernel sets it itself" in err
    (tmp_path / "k.ptx").write_text(".version 8.4\n.target sm_80\n.address_size 64\n")
    assert tool.main(["emulate", "k.ptx", "--arch", "sm_80"]) == 2


def test_ptx_takes_new_arrays(weft, tmp_path, capfd):
    _, ptx, _ = weft("compile", SCALE.replace("BLOCK", BLOCK))
    (tmp_path / "k.ptx").write_text(ptx)
    y = ("2=zeros:32xi32", "zeros:32xi32", "0", "32", "1")
    options = [*args("random:32xi32", "s8:2", *y), "--block", "32", "--json", "--save", "2=y.npy"]
    assert tool.main(["emulate", "k.ptx", *options]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["findings"] == [] and told["arguments"][2]["type"] == "int32"
    assert tool.main(["emulate", "k.ptx", *args("0=1", "2=3")]) == 2
    assert "argument 1 has no value, but argument 2 has" in capfd.readouterr().err


def test_arrays_go_to_a_gpu_with_their_rows_as_far_apart(monkeypatch):
    from weft.launch import runtime
    from weft.tools import run

    monkeypatch.setattr(runtime.DeviceArray, "from_numpy", lambda array: array)
    plain = np.arange(12, dtype=np.float32).reshape(3, 4)
    gaps = np.full((3, 8), np.nan, np.float32)
    strided = values.filled("random", "bf16", (3, 4), 0, (40, 1))
    for array, pitch in ((plain, 4), (plain[:2], 4), (gaps[:, :4], 8), (strided, 40)):
        view = run._resident(array)
        assert (view.shape, view.strides) == (array.shape, (pitch, 1))
        np.testing.assert_array_equal(view.numpy().astype(np.float64), array.astype(np.float64))
    assert run._resident(gaps[:, :4]).owner is gaps
    assert run._resident(np.zeros(5)).shape == (5,)

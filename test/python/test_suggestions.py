"""Every message about a misspelled name suggests the intended name."""

import subprocess
import sys

import pytest

import weft
from weft import emulator
from weft.errors import WeftError
from weft.isa.chips import CHIPS
from weft.isa.suggest import did_you_mean
from weft.multiply.product import checked_activation
from weft.tools import weft as tool
from weft.tools import weft_opt

KERNEL = "gpu.module @m { gpu.func @kernel() kernel { gpu.return } }"
TWO = "gpu.module @m { gpu.func @a() kernel { gpu.return } gpu.func @other() kernel { gpu.return } }"
PRODUCT = """func.func @product(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {{
  "tile.matmul"(%a, %a, %d) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    {}}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}}"""
LINES = {
    "complie x": "'compile'",
    "compile k.mlir --emt ptx": "'--emit'",
    "compile k.mlir --emit pxt": "'ptx'",
    "compile k.mlir --arch sm90a": "'sm_90a'",
    "compile k.mlir --arch 90a": "'sm_90a'",
    "compile k.mlir --arch SM_90A": "'sm_90a'",
    "compile k.mlir --arch sm_80 --emit mlir --after lower-gem": "'lower-gemm'",
    "compile k.mlir --kernel kernle": "'kernel'",
    "run k.mlir --on emulater": "'emulator'",
    "isa wgmm": "'wgmma'",
    "isa mma.snyc": "'mma.sync'",
    "isa --arch sm_90b": "'sm_90",
    "lint k.mlir --arch sm80": "'sm_80'",
    "bench --against cublass": "'cublas'",
    "bench --types bf61": "'bf16'",
    "bench deepgem": "'deepgemm'",
    "emulate k.ptx --kernel kernle": "'kernel'",
    "emulate k.ptx --arg f23:1": "'f32'",
}
OPT_LINES = {
    "--loer-mma": "'--lower-mma'",
    "--canonicalise": "'--canonicalize'",
    "--mlir-timin": "'--mlir-timing'",
    "--pass-pipeline=builtin.module(canonicalise)": "'canonicalize'",
    "--pass-pipeline=gpu.module(convert-gpu-to-nvm)": "'convert-gpu-to-nvvm'",
    "--weft=chips=sm_80": "'chip'",
    "--select-schedule=chp=sm_80": "'chip'",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(KERNEL)
    entry = ".visible .entry kernel(.param .f32 x) { ret; }\n"
    (tmp_path / "k.ptx").write_text(f".version 8.4\n.target sm_80\n.address_size 64\n{entry}")


@pytest.mark.parametrize("line", LINES)
def test_command_lines(line, files, capsys):
    assert tool.main(line.split()) in (1, 2)
    said = capsys.readouterr().err
    assert f"; did you mean {LINES[line]}" in said and said.count("did you mean") == 1


@pytest.mark.parametrize("line", OPT_LINES)
def test_passes_and_their_options(line, files, capsys):
    assert weft_opt.main(["k.mlir", line]) == 1
    assert f"; did you mean {OPT_LINES[line]}?" in capsys.readouterr().err


def test_an_option_that_an_upstream_pass_lacks_is_told_with_the_pass(files, capsys):
    assert weft_opt.main(["k.mlir", "--canonicalize=top-dwn=1"]) == 1
    assert "pass 'canonicalize' has no option 'top-dwn'" in capsys.readouterr().err


PROGRAMS = {
    '"tile.matmull"() : () -> ()': "'tile.matmul'",
    "gpu.fnc @x": "'gpu.func'",
    "tile.matmull": "'tile.matmul'",
    "tyle.matmul": "'tile.matmul'",
    '"tyle.matmul"() : () -> ()': "'tile.matmul'",
    "!R = !tile.rng<3>": "'ring'",
    "!R = !tyle.ring<3>": "'tile'",
    '#l = #tile.layot<"S[(8):(1)]">': "'layout'",
    '#l = #tyle.layout<"S[(8):(1)]">': "'tile'",
    PRODUCT.format("transpoze_a = true"): "'transpose_a'",
    PRODUCT.format("schedule = {blok = array<i64: 1>}"): "'block'",
    KERNEL.replace(" kernel {", " kernel attributes {weft.gird = 3 : i32} {"): "'weft.grid'",
    KERNEL.replace("@m", '@m [#nvvm.target<chip = "sm_90b">]'): "'sm_90",
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_operations_attributes_and_fields(text):
    with pytest.raises(WeftError) as caught:
        weft.compile(text, arch=None if "sm_90b" in text else "sm_90a")
    assert f"; did you mean {PROGRAMS[text]}" in str(caught.value)


def test_kernels_and_stages_from_python():
    with pytest.raises(WeftError, match="kernel must be one of a, other, got 'othr'; did you mean 'other'"):
        weft.compile(TWO, arch="sm_80", kernel="othr")
    kernel = weft.compile(KERNEL, arch="sm_80")
    with pytest.raises(WeftError, match="did you mean 'expand-matmul'"):
        kernel.ir("expand_matmul")
    with pytest.raises(WeftError, match="did you mean 'kernel'"):
        emulator.Module(kernel.ptx).launch("kernal")


def test_an_operation_of_the_same_dialect_is_suggested_first():
    text = "func.func @f(%a: tensor<4x4xf32>) {{\n  {}\n  return\n}}"
    for wrong, meant in (("linalg.matmull", "linalg.matmul"), ("arith.adf", "arith.addf")):
        with pytest.raises(WeftError, match=f"custom op '{wrong}' is unknown; did you mean '{meant}'"):
            weft.compile(text.format(wrong), arch="sm_80")


def test_names_of_the_package():
    code = "import weft; weft.matmull"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Did you mean: 'matmul'?" in done.stderr


ALLOWED = "unregistered dialect. If this is intended, please "
UNKNOWN = {
    '\n  %0 = "foo.bar"() : () -> i32': f"2:8: error: operation being parsed with an {ALLOWED}use "
    "-allow-unregistered-dialect with the MLIR tool used: no dialect has an operation 'foo.bar'",
    "func.func @f() { foo.bar }": "1:18: error: Dialect `foo' not found for custom op 'foo.bar'",
    "func.func @f() { aritx.addf }": "1:18: error: Dialect `aritx' not found for custom op 'aritx.addf'; "
    "did you mean 'arith.addf'?",
    "!T = !til.buffer": f'1:11: error: `!"til"<"buffer">` type created with {ALLOWED}call '
    "allowUnregisteredDialects() on the MLIRContext, or use -allow-unregistered-dialect with the MLIR opt "
    "tool used; did you mean 'tile'?",
    "!T = !tile.nothing": "1:12: error: expected dynamic type: dialect 'tile' has no type 'nothing': its "
    "types are buffer, exchange, function, map, ring",
    "!T = !mma.fragment": "1:11: error: expected dynamic type: dialect 'mma' has no type 'fragment': it "
    "has no types",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_names_of_no_dialect(text):
    """MLIR's own messages name neither the operation nor the type; they come first, as other tools print
    them.
    """
    with pytest.raises(WeftError) as caught:
        weft.compile(text, arch="sm_90a")
    assert str(caught.value).partition("\n")[0] == f"-:{UNKNOWN[text]}"


def test_of_equally_similar_names_the_one_with_the_same_letters_is_suggested():
    assert did_you_mean("layout_a", ["a_layout", "b_layout"]) == "; did you mean 'a_layout'?"
    assert did_you_mean("layout_b", ["a_layout", "b_layout"]) == "; did you mean 'b_layout'?"


def test_nothing_near_is_no_suggestion():
    assert did_you_mean("hopper", CHIPS) == did_you_mean("", CHIPS) == did_you_mean("x", []) == ""
    assert did_you_mean("sm_80", CHIPS) == ""  # known, but not there


def test_a_misspelled_activation_is_suggested():
    with pytest.raises(WeftError, match="got 'gleu'; did you mean 'gelu'"):
        weft.compile(PRODUCT.format('activation = "gleu"'), arch="sm_90a")
    with pytest.raises(WeftError, match="got 'sliu'; did you mean 'silu'"):
        checked_activation("sliu")

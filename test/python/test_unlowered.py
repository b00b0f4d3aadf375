"""Operations that no pass lowers, and numbers that are too large, are reported with locations at every
entry.
"""

from pathlib import Path

import pytest

import weft
from weft.errors import Location, WeftError
from weft.tools import weft as tool
from weft.tools import weft_opt

MATMUL = "linalg.matmul ins(%A, %A : memref<16x16xf32>, memref<16x16xf32>) outs(%A : memref<16x16xf32>)"
FUNCTION = f"func.func @f(%A: memref<16x16xf32>) {{\n  {MATMUL}\n  return\n}}\n"
KERNEL = f"""\
gpu.module @m {{
  gpu.func @f(%A: memref<16x16xf32>) kernel {{
    {MATMUL}
    gpu.return
  }}
}}
"""
OTHERS = {
    "tosa": '"tosa.const"() {values = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>',
    "tensor": "tensor.empty() : tensor<4xf32>",
    "complex": "complex.constant [1.0 : f32, 2.0 : f32] : complex<f32>",
}


@pytest.mark.parametrize(("text", "line"), [(FUNCTION, 2), (KERNEL, 3)], ids=["function", "kernel"])
@pytest.mark.parametrize("entry", ["compile", "run", "emulate", "weft.compile"])
def test_an_operation_that_nothing_lowers_is_named(
    entry: str, text: str, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.mlir"
    file.write_text(text)
    told = "'linalg.matmul' op isn't lowered by any pass of Weft: write \"tile.matmul\""
    if text == FUNCTION:  # which would be raised if it were legal
        told = "'linalg.matmul' op isn't raised to tile.matmul: it can't become a tile.matmul, which expects"
    if entry == "weft.compile":
        with pytest.raises(WeftError, match=told) as caught:
            weft.compile(file, arch="sm_80")
        assert caught.value.diagnostics[0].location == Location(str(file), line, 2 * line - 1)
        return
    assert tool.main([entry, str(file), "--arch", "sm_80"]) == (2 if entry == "emulate" else 1)
    assert f"{file}:{line}:{2 * line - 1}: error: {told}" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "line"), [(FUNCTION, 2), (KERNEL, 3)], ids=["function", "kernel"])
@pytest.mark.parametrize("flag", ["--weft", "--weft-to-llvm"])
def test_weft_opt_names_it_where_all_is_to_be_lowered(
    flag: str, text: str, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.mlir"
    file.write_text(text)
    assert weft_opt.main([str(file), flag]) == 1
    told = "'linalg.matmul' op isn't lowered by any pass of Weft: write \"tile.matmul\""
    assert capsys.readouterr().err.startswith(f"{file}:{line}:{2 * line - 1}: error: {told}")


@pytest.mark.parametrize("dialect", OTHERS)
def test_each_dialect_that_nothing_lowers_is_named(dialect: str) -> None:
    text = KERNEL.replace(MATMUL, f"%x = {OTHERS[dialect]}")
    with pytest.raises(WeftError, match=rf"-:3:10: error: '{dialect}\.\w+' op isn't lowered by any pass"):
        weft.compile(text, arch="sm_80")


MMA = """\
func.func @f(%a: vector<2xf16>, %c: f32) {{
  %r = nvvm.mma.sync A[%a, %a, %a, %a] B[%a, %a] C[%c, %c, %c, %c] {{
      layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<{}>
    }} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}}
"""


@pytest.mark.parametrize(
    ("shape", "number"),
    [
        ("m = 16, n = 2147483647, k = 16", "2147483647"),
        ("k=0x7fffffff, m=16, n=8", "0x7fffffff"),
        ("m = 16, n = -8, k = 16", "-8"),
    ],
)
def test_shapes_for_which_mlir_takes_all_memory_are_refused(
    shape: str, number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.mlir").write_text("// <m = 1, n = 99999, k = 1>\n" + MMA.format(shape))
    assert weft_opt.main([str(tmp_path / "x.mlir")]) == 1
    column = MMA.splitlines()[2].index("#nvvm.shape") + len("#nvvm.shape<") + shape.index(number) + 1
    told = f":4:{column}: error: "
    told += f"m, n and k of a shape must be in 0..4096, got {number}"
    assert told in capsys.readouterr().err


def test_stages_that_no_chip_holds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = "schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 65536}"
    kind = "memref<?x?xbf16>"
    sizes = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>"
    (tmp_path / "x.mlir").write_text(
        f"func.func @f(%A: {kind}, %B: {kind}, %D: memref<?x?xf32>) {{\n"
        f'  "tile.matmul"(%A, %B, %D) {{{sizes}, {schedule}}} : ({kind}, {kind}, memref<?x?xf32>) -> ()\n'
        "  return\n}\n"
    )
    assert weft_opt.main([str(tmp_path / "x.mlir"), "--outline-matmul", "--expand-matmul"]) == 1
    told = "shared memory must be at most 232448 bytes on any chip, got 134217728 (65536 stages of 2048)"
    assert told in capsys.readouterr().err

"""The warp-scope demonstration: one warp, one `tile.gemm`, from .mlir and from Python."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.mlir import arith, ir
from weft.passes.builders.fragment_registers import FragmentRegisters

EXAMPLES = Path(__file__).parents[2] / "examples"
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def example():
    spec = importlib.util.spec_from_file_location("warp_gemm", EXAMPLES / "warp_gemm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def instructions(ptx: str) -> list[tuple[str, list[int]]]:
    """Every mma.sync: its opcode, and how many registers its operands D, A, B and C have."""
    found = re.findall(r"(mma\.sync[\w.]+)\s+([^;]*);", ptx)
    return [(op, [len(group.split(",")) for group in re.findall(r"{([^}]*)}", text)]) for op, text in found]


def arrays(m: int, n: int, k: int, element: str = "f16"):
    """A and B whose every element counts: no symmetry hides a transposed or swapped one. Exact in f32."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-64, 64, shape).astype(TYPES[element]) for shape in ((m, k), (k, n)))
    return a, b, rng.integers(-9, 9, (m, n)).astype(np.float32)


def wrong(kernel, m: int, n: int, k: int, element: str = "f16", accumulate: bool = False) -> int:
    """How many elements of D differ from NumPy's; sums of such integers have one right value."""
    a, b, c = arrays(m, n, k, element)
    d = np.full((m, n), np.nan, np.float32)
    kernel(a, b, d, *([c] if accumulate else []), on="emulator")
    want = a.astype(np.float64) @ b.astype(np.float64) + (c if accumulate else 0)
    return int((d != want).sum())


def test_the_mlir_example_is_one_mma_with_its_registers_and_gives_numpys_numbers():
    kernel = weft.compile(EXAMPLES / "warp_gemm.mlir", arch="sm_80")
    assert instructions(kernel.ptx) == [("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [4, 4, 2, 4])]
    assert not wrong(kernel, 16, 8, 16)


def test_the_python_example_runs(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["warp_gemm.py"])
    runpy.run_path(str(EXAMPLES / "warp_gemm.py"), run_name="__main__")
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    assert float(shown[1].removeprefix("largest error: ")) < 1e-5


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "m, n, k, element, accumulate, shape",
    [
        (16, 8, 16, "f16", False, "m16n8k16"),
        (16, 8, 16, "bf16", False, "m16n8k16"),
        (16, 8, 8, "f16", True, "m16n8k8"),
        (16, 8, 24, "bf16", True, "m16n8k8"),
        (32, 24, 48, "f16", True, "m16n8k16"),
        (48, 16, 40, "bf16", False, "m16n8k8"),
    ],
)
def test_a_gemm_is_the_unrolled_nest_of_one_mma_for_each_tile_of_m_n_and_k(
    m, n, k, element, accumulate, shape
):
    kernel = weft.compile(example().build(m, n, k, element, accumulate), arch="sm_80")
    depth, registers = (16, [4, 4, 2, 4]) if shape == "m16n8k16" else (8, [4, 2, 1, 4])
    opcode = f"mma.sync.aligned.{shape}.row.col.f32.{element}.{element}.f32"
    assert instructions(kernel.ptx) == [(opcode, registers)] * (m // 16 * (n // 8) * (k // depth))
    assert not wrong(kernel, m, n, k, element, accumulate)


def test_products_along_k_go_from_one_mma_to_the_next():
    """In place: the C registers of each mma but the first are the D registers of the one before."""
    ptx = weft.compile(example().build(16, 8, 48), arch="sm_80").ptx
    groups = [re.findall(r"{([^}]*)}", text) for text in re.findall(r"mma\.sync[\w.]+\s+([^;]*);", ptx)]
    strip = [[[register.strip() for register in group.split(",")] for group in each] for each in groups]
    assert len(strip) == 3
    assert [each[3] for each in strip[1:]] == [each[0] for each in strip[:-1]]


def test_the_whole_nest_runs_with_the_older_form_on_the_older_chip():
    kernel = weft.compile(example().build(16, 8, 16), arch="sm_75")
    assert (
        instructions(kernel.ptx) == [("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", [4, 2, 1, 4])] * 2
    )
    assert not wrong(kernel, 16, 8, 16)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_the_demonstration_assembles(arch):
    kernel = weft.compile(EXAMPLES / "warp_gemm.mlir", arch=arch)
    assert kernel.cubin.startswith(b"\x7fELF") and kernel.resources.spill_stores == 0


def test_exchanged_registers_are_caught(monkeypatch):
    """Planted: A's two register pairs swapped, which symmetric data would hide."""
    found = FragmentRegisters.atom

    def swapped(self, first, second):
        registers = found(self, first, second)
        return [registers[i] for i in (0, 2, 1, 3)] if self.registers.name == "a" else registers

    monkeypatch.setattr(FragmentRegisters, "atom", swapped)
    assert wrong(weft.compile(example().build(), arch="sm_80"), 16, 8, 16)


@pytest.mark.parametrize(
    "m, n, k, said",
    [(16, 8, 4, "extents: needs K % 8 == 0, got K = 4"), (8, 8, 16, "extents: needs M % 16 == 0, got M = 8")],
)
def test_what_no_mma_fits_is_refused_at_the_line_that_built_it(m, n, k, said):
    with weft.Module() as module, module.kernel("k", [], block=(32, 1, 1)) as _:
        kinds = [fragment(*shape) for shape in ((m, k, "f16"), (k, n, "f16"), (m, n, "f32"))]
        a, b = (made(kind) for kind in kinds[:2])
        tile.pin(tile.gemm(a, b, None, kinds[2]))  # or nothing would need it
    with pytest.raises(weft.WeftError) as caught:
        weft.compile(module, arch="sm_80")
    place = caught.value.diagnostics[0].location
    assert said in str(caught.value) and place is not None and place.file == __file__


def fragment(rows: int, columns: int, element: str):
    """Rows of 32 elements or their parts, spread over the lanes."""
    each = rows * columns // 32
    return FragmentType.of((rows, columns), ir.Type.parse(element), f"S[(32,{each}):(1@laneid,1)]")


def made(kind):
    zeros = ir.DenseElementsAttr.get_splat(kind.lane_type, ir.FloatAttr.get(kind.element_type, 0.0))
    return tile.from_lane(arith.constant(kind.lane_type, zeros), kind)


def test_a_beta_of_two_is_refused():
    text = (EXAMPLES / "warp_gemm.mlir").read_text()
    zeros = "%zeros = arith.constant dense<0.0> : vector<4xf32>"
    c = '%c = "tile.from_lane"(%zeros) : (vector<4xf32>) -> !D'
    gemm = '%d = "tile.gemm"(%a, %b, %c) {beta = 2.0 : f32} : (!A, !B, !D) -> !D'
    given = text.replace('%d = "tile.gemm"(%a, %b) : (!A, !B) -> !D', f"{zeros}\n{c}\n{gemm}")
    with pytest.raises(weft.WeftError, match=r"beta: needs beta 0\.0 or 1\.0, got 2\.0"):
        weft.compile(given, arch="sm_80")

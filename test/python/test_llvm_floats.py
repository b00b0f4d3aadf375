"""Floating-point constants in text, from MLIR's LLVM to the older LLVM that writes PTX."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import mlir
from weft.compiler import codegen, llvm_floats, translation
from weft.dialects import context, tile
from weft.dialects.schedule import Schedule

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
FLT_MAX = float(np.finfo(np.float32).max)
VALUES = [0.1, 0.3, 1 / 3, 1e-3, 1e-5, 1e20, 1e38, FLT_MAX, 1e-37, 1e-40, 1e-45, 0.7071, 16777217.0]


def of(kind: str, values) -> np.ndarray:
    """Numbers as their type has them; those beyond it are left out."""
    with np.errstate(over="ignore"):
        found = np.array(values).astype(TYPES[kind])
    return found[np.isfinite(found)]


def bits(values: np.ndarray) -> np.ndarray:
    """What is compared: -0.0 isn't 0.0."""
    return values.view(f"u{values.itemsize}")


def words(values: np.ndarray) -> list[str]:
    """The numbers as MLIR's text has them bit by bit."""
    return [f"0x{int(word):0{2 * values.itemsize}X}" for word in bits(values)]


def through_llvm(kind: str, values: np.ndarray) -> np.ndarray:
    """The bits of a constant array in the PTX that LLVM makes of it."""
    data, count = values.tobytes().hex().upper(), len(values)
    module = f"""llvm.mlir.global external @a(dense<"0x{data}"> : tensor<{count}x{kind}>)
      {{addr_space = 1 : i32}} : !llvm.array<{count} x {kind}>"""
    ptx = codegen.to_ptx(translation.translate(mlir.parse(module, context())), "sm_80", (8, 4)).ptx
    found = re.search(r"\ba\[\d+\] = \{(.*)\}", ptx)
    written = bytes(map(int, found[1].split(","))).ljust(
        values.nbytes, b"\0"
    )  # LLVM leaves out zeros at the end
    return np.frombuffer(written, bits(values).dtype)


def patterns(kind: str) -> np.ndarray:
    """Numbers of a type by their bits: all of 16, and of more some with every exponent, NaNs among them."""
    dtype = np.dtype(TYPES[kind])
    if dtype.itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    fraction = np.finfo(dtype).nmant
    top = np.arange(1 << (8 * dtype.itemsize - fraction), dtype=f"u{dtype.itemsize}") << fraction
    random = np.random.default_rng(0).integers(0, 1 << fraction, (4, len(top)), dtype=top.dtype)
    few = [top, top + 1, top + (1 << fraction) - 1, *(top + random)]
    return np.concatenate(few).view(dtype)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", list(TYPES))
def test_every_constant_keeps_its_bits(kind):
    values = patterns(kind)
    np.testing.assert_array_equal(through_llvm(kind, values), bits(values))


def test_a_constant_that_is_rounded_twice_is_caught(monkeypatch):
    """Planted: a decimal goes to its type by way of a format that is a bit too short."""
    right = llvm_floats._nearest
    monkeypatch.setattr(
        llvm_floats, "_nearest", lambda value, width, fraction: right(value, width, fraction - 1) << 1
    )
    llvm_floats._spelled.cache_clear()
    values = of("f32", VALUES)
    assert (through_llvm("f32", values) != bits(values)).any()
    llvm_floats._spelled.cache_clear()


def stored(kind: str, count: int, body: str, *others: np.ndarray) -> np.ndarray:
    """What a kernel of one thread leaves in `%d`; each of `others` is an array argument `%a0`, `%a1`."""
    arguments = "".join(f", %a{i}: memref<{len(other)}x{kind}>" for i, other in enumerate(others))
    sizes = ", ".join(f"d{i}" for i in range(len(others) + 1))
    places = "\n".join(f"%i{i} = arith.constant {i} : index" for i in range(count))
    kernel = weft.compile(
        f"""gpu.module @m {{
          gpu.func @k(%d: memref<{count}x{kind}>{arguments}) kernel attributes {{
              known_block_size = array<i32: 1, 1, 1>, weft.grid = affine_map<({sizes}) -> (1, 1, 1)>}} {{
            {places}
            {body}
            gpu.return
          }}
        }}""",
        arch="sm_80",
    )
    out = np.zeros(count, TYPES[kind])
    kernel.emulate(out, *others)
    return out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", list(TYPES))
def test_constants_of_a_kernel_are_the_nearest_numbers(kind):
    values = [v for value in (0.0, *VALUES) if len(of(kind, [value])) for v in (value, -value)]
    matrix = f"memref<{len(values)}x{kind}>"
    body = "\n".join(
        f"%v{i} = arith.constant {value:e} : {kind} memref.store %v{i}, %d[%i{i}] : {matrix}"
        for i, value in enumerate(values)
    )
    wanted = of(kind, [float(f"{value:e}") for value in values])
    np.testing.assert_array_equal(bits(stored(kind, len(values), body)), bits(wanted))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", list(TYPES))
@pytest.mark.parametrize("splat", [True, False])
def test_constants_of_vectors_are_the_nearest_numbers(kind, splat):
    wanted = of(kind, [0.1, 0.1, 0.1, 0.1] if splat else [1 / 3, -1e-5, 0.5, 1e-40])
    text = "0.1" if splat else f"[{', '.join(words(wanted))}]"
    body = f"""%v = arith.constant dense<{text}> : vector<4x{kind}>
      vector.store %v, %d[%i0] : memref<4x{kind}>, vector<4x{kind}>"""
    np.testing.assert_array_equal(bits(stored(kind, 4, body)), bits(wanted))


@pytest.mark.parametrize("kind", list(TYPES))
def test_constants_are_read_where_their_type_does_not_precede_them(kind):
    """Second operands, comparisons, and what a block's argument is in each way to it."""
    body = f"""
      %x = memref.load %a0[%i0] : memref<1x{kind}>
      %tenth = arith.constant 0.1 : {kind}
      %third = arith.constant {words(of(kind, [1 / 3]))[0]} : {kind}
      %second = arith.mulf %x, %tenth : {kind}
      %first = arith.subf %third, %x : {kind}
      %less = arith.cmpf olt, %x, %third : {kind}
      %chosen = arith.select %less, %third, %tenth : {kind}
      %way = scf.if %less -> {kind} {{
        memref.store %x, %d[%i4] : memref<5x{kind}>
        scf.yield %tenth : {kind}
      }} else {{
        memref.store %tenth, %d[%i4] : memref<5x{kind}>
        scf.yield %third : {kind}
      }}
      memref.store %second, %d[%i0] : memref<5x{kind}>
      memref.store %first, %d[%i1] : memref<5x{kind}>
      memref.store %chosen, %d[%i2] : memref<5x{kind}>
      memref.store %way, %d[%i3] : memref<5x{kind}>"""
    x, (tenth, third) = of(kind, [2.0]), of(kind, [0.1, 1 / 3])
    wanted = of(kind, [x[0] * tenth, third - x[0], tenth, third, tenth])
    np.testing.assert_array_equal(bits(stored(kind, 5, body, x)), bits(wanted))


PLACES = """
llvm.mlir.global internal constant @"float 1.0e-1"("a float 1.000000e-01, f0x3EAAAAAB") {addr_space = 4 : i32}
llvm.mlir.global external @rows(dense<[[0.1, 0.2], [0.3, 0.5]]> : tensor<2x2xbf16>) {addr_space = 1 : i32}
  : !llvm.array<2 x array<2 x bf16>>
llvm.mlir.global external @mixed() {addr_space = 1 : i32} : !llvm.struct<(f32, i32, f64)> {
  %0 = llvm.mlir.undef : !llvm.struct<(f32, i32, f64)>
  %1 = llvm.mlir.constant(0.1 : f32) : f32
  %2 = llvm.mlir.constant(7 : i32) : i32
  %3 = llvm.mlir.constant(0.3 : f64) : f64
  %4 = llvm.insertvalue %1, %0[0] : !llvm.struct<(f32, i32, f64)>
  %5 = llvm.insertvalue %2, %4[1] : !llvm.struct<(f32, i32, f64)>
  %6 = llvm.insertvalue %3, %5[2] : !llvm.struct<(f32, i32, f64)>
  llvm.return %6 : !llvm.struct<(f32, i32, f64)>
}
llvm.func @way(%i: i32, %h: f16, %p: !llvm.ptr) -> f32 {
  %0 = llvm.mlir.constant(0.1 : f32) : f32
  %1 = llvm.mlir.constant(0x7F800000 : f32) : f32
  %2 = llvm.mlir.constant(0.1 : f16) : f16
  %3 = llvm.fadd %h, %2 {fastmathFlags = #llvm.fastmath<fast>} : f16
  llvm.store %3, %p : f16, !llvm.ptr
  %4 = llvm.inline_asm "// float 1.000000e-01 $0, $1;", "=f,f" %0 : (f32) -> f32
  %5 = llvm.fadd %4, %1 : f32
  llvm.switch %i : i32, ^bb1(%5 : f32) [1: ^bb1(%0 : f32), 2: ^bb1(%1 : f32)]
^bb1(%6: f32):
  llvm.return %0 : f32
}
"""


def test_constants_are_found_everywhere_and_nothing_else_is():
    text = translation.translate(mlir.parse(PLACES, context()))
    assert "f0x" not in text.replace('c"a float 1.000000e-01, f0x3EAAAAAB"', "")
    assert '@"float 1.0e-1" =' in text and 'asm "// float 1.000000e-01 $0, $1;"' in text
    assert "[2 x bfloat] [bfloat 0xR3DCD, bfloat 0xR3E4D]" in text and "bfloat 5.000000e-01" in text
    assert "{ float 0x3FB99999A0000000, i32 7, double 3.000000e-01 }" in text
    assert "ret float 0x3FB99999A0000000" in text and re.search(r"phi float .*\[ 0x7FF0000000000000, ", text)
    assert ".visible .func" in codegen.to_ptx(text, "sm_80", (8, 4)).ptx


@pytest.mark.sampled(32)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_any_alpha_and_beta_scale_a_product(name, value):
    kinds = ("f16", "f16", "f32", "f32")
    alpha, beta = (value, 1.0) if name == "alpha" else (1.0, value)
    schedule = Schedule((16, 16, 32), (1, 1), 2)
    with weft.Module() as module, module.func("f", [weft.memref("?x?", kind) for kind in kinds]) as matrices:
        tile.matmul(*matrices, alpha=alpha, beta=beta, schedule=schedule)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (16, 16)).astype(np.float16) for _ in range(2))
    c, d = rng.integers(-4, 5, (16, 16)).astype(np.float32), np.zeros((16, 16), np.float32)
    (a if name == "beta" else c)[...] = 0  # one term, so that the result is rounded once
    weft.compile(module, arch="sm_80").emulate(a, b, d, c)
    with np.errstate(over="ignore"):
        wanted = np.float32(value) * (c if name == "beta" else a.astype(np.float32) @ b.astype(np.float32))
    np.testing.assert_array_equal(d, wanted)

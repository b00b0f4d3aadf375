"""Products of CUTLASS's kernels in the emulator, with the parameters that CUTLASS's host code makes for them.

nvcc compiles each in one to three minutes; build/other_compilers keeps what it made.
"""

import ctypes
import os
import sys

import ml_dtypes
import numpy as np
import pytest
from other_compilers import DRIVER_TYPES, SOURCES, made, nvcc

from weft import emulator
from weft.errors import WeftError
from weft.isa import tensor_map as isa

sys.path.insert(0, str(SOURCES / "cutlass"))

from cutlass_cases import BF16, CASES, E4M3, F16, MXF8, NVF4, S8

pytestmark = pytest.mark.slow
TYPES = {BF16: ml_dtypes.bfloat16, E4M3: ml_dtypes.float8_e4m3fn, S8: np.int8}
TYPES |= {"float": np.float32, "int32_t": np.int32, F16: np.float16}
# The elements and their scales, and how many elements have one.
SCALED = {
    MXF8: (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, 32),
    NVF4: (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, 16),
}
MARK = 0x1A50_0000_0000
"""Stands for the address of an array in the parameters; that of the next one is larger by STEP."""
STEP = 1 << 32


def expected(name):
    """The rules that the sanitizer may find broken, and why that is so."""
    if name.startswith("two_sm"):
        # The kernel initializes the mbarrier by which a pair frees tensor memory after its
        # fence.mbarrier_init, and the barrier of the cluster that follows is relaxed: no rule of PTX orders
        # the other CTA's use after that. In some sizes, other steps of the two CTAs do.
        return {"mbarrier-race"}
    return set()


class Launch(ctypes.Structure):
    """As in host.h."""

    _fields_ = [
        *((name, ctypes.c_uint32 * 3) for name in ("grid", "block", "cluster")),
        ("shared_bytes", ctypes.c_uint32),
        ("parameter_bytes", ctypes.c_uint32),
        ("workspace_bytes", ctypes.c_uint64),
    ]


_U64, _U32 = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)


@ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64),
    *(_U64, _U64, _U32, _U32),
    *4 * [ctypes.c_int],
)
def encode(out, kind, rank, address, dims, strides, box, steps, interleave, swizzle, l2, fill):
    """What CUTLASS calls instead of cuTensorMapEncodeTiled."""
    try:
        made_map = emulator.TensorMap.tiled(
            address,
            dtype=DRIVER_TYPES[kind],
            dims=tuple(dims[:rank]),
            strides_bytes=tuple(strides[: rank - 1]),
            box=tuple(box[:rank]),
            element_strides=tuple(steps[:rank]),
            interleave=isa.INTERLEAVES[interleave],
            swizzle=isa.SWIZZLE_NAMES[swizzle],
            l2_promotion=isa.L2_PROMOTIONS[l2],
            oob_fill=isa.OOB_FILLS[fill],
        )
        ctypes.memmove(out, made_map.encode(address), 128)
    except WeftError:
        return 1
    return 0


def built(name):
    """The PTX and the host code of a case."""
    compiler, cutlass = nvcc(), os.environ.get("WEFT_CUTLASS")
    if cutlass is None:
        pytest.skip("needs WEFT_CUTLASS, a checkout of CUTLASS")
    library = made("compile_cutlass.py", name, f"{name}.so", tool=f"{compiler} {cutlass}")
    host = ctypes.CDLL(str(library))
    host.use_encoder(encode)
    return library.with_suffix(".ptx").read_text(), host


def structure(data, arrays):
    """The parameters, with the arrays in place of the marks."""
    fields, at = {}, 0
    for offset in range(0, len(data) - 7, 8):
        number, inside = divmod(int.from_bytes(data[offset : offset + 8], "little") - MARK, STEP)
        if 0 <= number < len(arrays) and inside <= arrays[number].nbytes:
            if offset > at:
                fields[at] = data[at:offset]
            fields[offset] = arrays[number].reshape(-1).view(np.uint8)[inside:]
            at = offset + 8
    return emulator.Struct(len(data), fields | ({at: data[at:]} if at < len(data) else {}))


def launch(name, sizes, arrays, alpha, beta, multiprocessors):
    """Runs the kernel of a case as CUTLASS's host code would. The arrays are A, B, C, D and any scales."""
    ptx, host = built(name)
    numbers = (ctypes.c_int * 4)(*sizes, 1)
    marks = (ctypes.c_void_p * 7)(*(MARK + at * STEP for at in range(7)))
    found = Launch()
    arguments = (numbers, marks, ctypes.c_float(alpha), ctypes.c_float(beta), multiprocessors)
    assert host.prepare(*arguments, ctypes.byref(found), None) == 0, "CUTLASS can't multiply these sizes"
    data = ctypes.create_string_buffer(found.parameter_bytes)
    assert host.prepare(*arguments, ctypes.byref(found), data) == 0
    workspace = np.zeros(max(found.workspace_bytes, 1), np.uint8)
    module = emulator.Module(ptx)
    (kernel,) = module.kernels
    return module.launch(
        kernel,
        grid=tuple(found.grid),
        block=tuple(found.block),
        cluster=tuple(found.cluster),
        args=[structure(data.raw, [*arrays[:4], workspace, *arrays[4:]])],
        shared_bytes=found.shared_bytes,
    )


def operand(rng, shape, kind, major):
    """A random matrix; contiguous along its rows, or along its columns."""
    if kind is np.int8:
        values = rng.integers(-128, 128, shape, kind)
    else:
        values = rng.uniform(-1, 1, shape).astype(kind)
    return values if major == "RowMajor" else np.asfortranarray(values)


def tolerance(inputs, result, k):
    """The error of sums of k products of numbers below 1, by these tensor cores, and of their rounding."""
    if inputs is np.int8:
        return 0, 0
    # The sums of wgmma's fp8 have 13 bits after the largest exponent.
    sums = k * 2.0 ** (-11 if inputs is ml_dtypes.float8_e4m3fn else -21)
    return float(ml_dtypes.finfo(result).eps), sums


@pytest.mark.parametrize("sizes", [(328, 264, 272), (600, 520, 144)])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "SCALED" not in case[2]])
def test_products(name, sizes):
    m, n, k = sizes
    _, _, macros = CASES[name]
    inputs, result = TYPES[macros["ELEMENT_A"]], TYPES[macros["ELEMENT_D"]]
    rng = np.random.default_rng(22)
    a = operand(rng, (m, k), inputs, macros["LAYOUT_A"])
    b = operand(rng, (k, n), inputs, macros["LAYOUT_B"])
    c = operand(rng, (m, n), result, "RowMajor") if result is not np.int32 else np.zeros((m, n), result)
    alpha, beta = (1, 0) if inputs is np.int8 else (0.5, 2)
    check(name, sizes, [a, b, c], [], (alpha, beta), tolerance(inputs, result, k))


def check(name, sizes, operands, scales, scalars, errors):
    """Compares a product with NumPy's. `operands`: A, B and C as numbers; packed: the bytes of A and B."""
    alpha, beta = scalars
    a, b, c = (x.astype(np.float64) for x in operands)
    d = np.zeros(operands[2].shape, operands[2].dtype)
    flat = [packed(x) for x in (*operands, d)]
    report = launch(name, sizes, [*flat, *(scale.reshape(-1) for scale in scales)], alpha, beta, 8)
    if scales:
        group = SCALED[CASES[name][2]["ELEMENT_A"]][2]
        a = a * np.repeat(unblocked(scales[0], *a.shape, group), group, axis=1)[:, : a.shape[1]]
        b = b * np.repeat(unblocked(scales[1], *b.T.shape, group), group, axis=1)[:, : len(b)].T
    want = alpha * (a @ b) + beta * c
    got = flat[3].view(d.dtype).reshape(d.shape).astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=errors[0], atol=errors[1])
    assert {finding.rule for finding in report.findings} <= expected(name)


def packed(x):
    """The elements in the order of memory; two of 4 bits in a byte."""
    flat = x.reshape(-1, order="A")
    if x.dtype != ml_dtypes.float4_e2m1fn:
        return flat
    codes = flat.view(np.uint8)
    return codes[0::2] | codes[1::2] << 4


def unblocked(scales, rows, columns, group):
    """The scales of an operand by row and K group, from the order in which tensor cores take them: blocks of
    128 rows and 4 groups, in which rows 32 apart are adjacent.
    """
    across = (columns + 4 * group - 1) // (4 * group)
    blocks = scales.reshape(-(-rows // 128), across, 32, 4, 4).astype(np.float64)
    return blocks.transpose(0, 3, 2, 1, 4).reshape(-1, 4 * across)[:rows]


@pytest.mark.parametrize("sizes", [(328, 264, 384), (600, 520, 256)])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "SCALED" in case[2]])
def test_block_scaled_products(name, sizes):
    m, n, k = sizes
    kind, scale, group = SCALED[CASES[name][2]["ELEMENT_A"]]
    rng = np.random.default_rng(23)
    a = rng.uniform(-4, 4, (m, k)).astype(kind)
    b = np.asfortranarray(rng.uniform(-4, 4, (k, n)).astype(kind))
    c = rng.uniform(-1, 1, (m, n)).astype(ml_dtypes.bfloat16)
    scales = [
        (2.0 ** rng.integers(-3, 4, (-(-rows // 128), (k + 4 * group - 1) // (4 * group), 512))).astype(scale)
        for rows in (m, n)
    ]
    check(name, sizes, [a, b, c], scales, (0.5, 2), (2.0**-8, k * 2.0**-12))

"""MN-major operands that are copied to K-major ones, since `wgmma` reads their types no other way."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from fake_driver import GpuArray, two_gpus
from machine_code import local_memory
from test_padded_rows import queued  # noqa: F401
from test_row_copies import copied, some

import weft
from weft.bench import compiling
from weft.bench.problem import Problem
from weft.dialects.schedule import Schedule, Types
from weft.launch import arrays
from weft.multiply import launches
from weft.multiply.kernels import copies as copies_
from weft.multiply.launches import Rows
from weft.schedules import transposing
from weft.schedules.database import Product

RNG = np.random.default_rng(5)
F8 = ml_dtypes.float8_e4m3fn
BYTE, WORD = np.uint8, np.uint32


CASES = [
    ([some(200, 304, dtype=BYTE)], [1]),
    ([some(131, 68, dtype=WORD), some(1, 4, dtype=WORD)], [1, 1]),
    ([some(2, 9, 48, dtype=BYTE)[:, :, :37]], [1]),
    ([some(131, 67, dtype=BYTE)[:, 3:], some(1, 1, dtype=BYTE)], [1, 1]),
    ([some(3, 131, 67, dtype=BYTE)[:, 2:, 3:], some(1, 5, dtype=BYTE)], [1, 1]),
    ([some(140, 26, dtype=BYTE)[:, 2:]], [1]),
    ([some(131, 67, dtype=WORD), some(129, 41, dtype=WORD)], [1, 0]),
    ([some(131, 67, dtype=WORD), some(3, 129, 41, dtype=WORD)], [0, 1]),
    ([some(130, 67, dtype=BYTE), some(131, 29, dtype=BYTE)], [0, 1]),
]


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("matrices", "transposed"), CASES, ids=map(str, range(len(CASES))))
def test_columns_become_rows(matrices, transposed):
    kernel, same = copied(matrices, transposed)
    assert all(same) and not local_memory(kernel)


def test_columns_of_a_batch_with_one_row_each():
    view = arrays.view(np.zeros((3, 1, 20), np.float32))
    of = Rows.transposing(view)
    assert of.source.shape == (3, 1, 80) and of.source.strides[0] == 80
    assert (of.pitch, of.size, of.nbytes) == (16, 4, 3 * 20 * 16)
    assert of.copy.strides == (80, 4, 1)
    assert Rows.transposing(arrays.view(np.zeros((600, 7), np.int8))).pitch == 640


@pytest.mark.parametrize("size", launches.ELEMENTS)
def test_banks_of_shared_memory_have_no_conflicts(size):
    """Of 32 lanes, in as many parts as have 128 bytes, by the layouts."""
    blocks = copies_.blocks_of(size)
    rows, columns = blocks.shape

    def accesses(layout, shape, bytes_):
        """The addresses that the lanes of a warp access at once."""
        count = bytes_ // size
        for lanes in zip(*(layout.lane_elements(lane, shape)[::count] for lane in range(32)), strict=True):
            yield [blocks.memory.apply(at, (columns, 2 * rows), 8 * size)["m"] * size for at in lanes]

    for part, bytes_ in (
        (accesses(blocks.turned, (columns, rows), 4 * size), 4 * size),
        (accesses(blocks.lines, (columns // 2, 2 * rows), 16), 16),
    ):
        for access in part:
            for first in range(0, 32, 128 // bytes_):
                own = access[first : first + 128 // bytes_]
                assert len({at % 128 // bytes_ for at in own}) == len(own)


@pytest.fixture
def copies(monkeypatch):
    """The kernel and the copies of each product on the CPU, all of which are worth copies."""
    monkeypatch.setattr(transposing.tma_mma, "measured_us", lambda *_: 1e9)
    run, found = launches.run_with_copies, []

    def watch(kernel, views, copies, on):
        found.append((kernel, [of.size for of in copies.values()]))
        run(kernel, views, copies, on)

    monkeypatch.setattr(launches, "run_with_copies", watch)
    return found


def small(*shape, dtype=F8):
    """Integers whose sums are exact."""
    return RNG.integers(0, 2, shape).astype(dtype)


def doubles(a):
    return a.astype(np.float64)


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float32, F8, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("layout", [(False, False), (True, True), (True, False)])
def test_products_with_mn_major_operands(copies, dtype, layout):
    a, b = small(33, 67, dtype=dtype), small(67, 41, dtype=dtype)
    want = doubles(a) @ doubles(b)
    a, b = (x.T.copy() if flipped else x for x, flipped in zip((a, b), layout, strict=True))
    found = weft.matmul(a, b, transpose_a=layout[0], transpose_b=layout[1], arch="sm_90a")
    assert (doubles(found) == want).all()
    ((kernel, sizes),) = copies
    assert "wgmma" in kernel.ptx
    assert sizes == [np.dtype(dtype).itemsize * mn for mn in (layout[0], not layout[1])]


@pytest.mark.slow
def test_strides_may_transpose_as_well_as_flags(copies):
    a, b, out = small(32, 48, dtype=np.int8), small(16, 48, dtype=np.int8).T, np.zeros((32, 16), np.int32)
    weft.matmul(a, b, out=out, arch="sm_90a")
    weft.matmul(a.T.copy(), b.T, out=out, transpose_a=True, transpose_b=True, beta=1.0, arch="sm_90a")
    assert (out == 2 * (doubles(a) @ doubles(b))).all()
    assert [sizes for _, sizes in copies] == [[], [1]]


@pytest.mark.slow
def test_batches_and_epilogues(copies):
    a, b = small(3, 35, 67, dtype=np.float32), small(3, 67, 41, dtype=np.float32)
    bias, residual = small(41, dtype=np.float32), small(35, 41, dtype=np.float32)
    epilogue = weft.Epilogue(bias=bias, residual=residual, activation="relu")
    found = weft.matmul(a, b, alpha=2.0, epilogue=epilogue, arch="sm_90a")
    assert (found == residual + np.maximum(2 * doubles(a) @ doubles(b) + bias, 0)).all()
    assert (weft.matmul(a, b[1], arch="sm_90a") == doubles(a) @ doubles(b[1])).all()
    swapped = a.transpose(2, 0, 1).copy().transpose(1, 0, 2)  # batches between the rows
    assert (weft.matmul(swapped, b, transpose_a=True, arch="sm_90a") == doubles(a) @ doubles(b)).all()


@pytest.mark.slow
def test_scales_and_promotion(copies):
    a, b = small(9, 259), small(259, 131)
    of_a, of_b = (np.exp2(RNG.integers(-1, 2, shape)).astype(np.float32) for shape in ((3, 9), (2, 3)))
    found = weft.matmul(a, b, scales=(of_a.T, of_b), out_dtype="f32", arch="sm_90a")
    left = doubles(a) * np.repeat(of_a.T, 128, 1)[:, :259]
    right = doubles(b) * np.repeat(np.repeat(of_b.T, 128, 0)[:259], 128, 1)[:, :131]
    assert (found == left @ right).all()
    assert (weft.matmul(a, b, promote=True, out_dtype="f32", arch="sm_90a") == doubles(a) @ doubles(b)).all()
    assert all("wgmma" in kernel.ptx and sizes[1] == 1 for kernel, sizes in copies)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [F8, np.float32, np.int8])
def test_groups(copies, dtype):
    a, b = small(256, 35, dtype=dtype), small(2, 35, 21, dtype=dtype)
    kind = np.int32 if dtype is np.int8 else np.float32
    out = np.full((256, 21), 7, kind)
    groups = np.repeat([1, -1], 128).astype(np.int32)
    weft.matmul(a, b, groups=groups, out=out, arch="sm_90a")
    assert (out[:128] == doubles(a[:128]) @ doubles(b[1])).all() and (out[128:] == 7).all()
    ends = weft.matmul(
        a, b, row_ends=np.array([5, 250], np.int32), out=np.zeros((256, 21), kind), arch="sm_90a"
    )
    assert (ends[:5] == doubles(a[:5]) @ doubles(b[0])).all()
    assert (ends[128:250] == doubles(a[128:250]) @ doubles(b[1])).all()
    rows = np.array([9, 3], np.int32)
    many = weft.matmul(a.reshape(2, 128, 35), b, groups=rows, out_dtype=None, arch="sm_90a")
    for number, count in enumerate(rows):
        part = a.reshape(2, 128, 35)[number, :count]
        assert (doubles(many[number, :count]) == doubles(part) @ doubles(b[number])).all()
    k_ends = np.array([100, 256], np.int32)
    first, second = small(256, 37, dtype=dtype), small(256, 21, dtype=dtype)
    first[100:128] = second[100:128] = 0
    found = weft.matmul(first, second, transpose_a=True, k_ends=k_ends, arch="sm_90a")
    for number, (start, end) in enumerate(((0, 100), (128, 256))):
        assert (doubles(found[number]) == doubles(first[start:end]).T @ doubles(second[start:end])).all()
    assert len(copies) == 4 and all("wgmma" in kernel.ptx and any(sizes) for kernel, sizes in copies)


@pytest.mark.slow
def test_a_named_schedule_has_no_copies(copies):
    a, b = small(32, 64, dtype=np.int8), small(64, 48, dtype=np.int8)
    weft.matmul(a, b, schedule=Schedule((64, 64, 64), (2, 2), 2), arch="sm_90a")
    ((kernel, sizes),) = copies
    assert not sizes and "mma.sync" in kernel.ptx


def test_one_launch_transposes(monkeypatch, queued):  # noqa: F811
    monkeypatch.setattr(transposing.tma_mma, "measured_us", lambda *_: 1e9)
    with two_gpus(monkeypatch) as driver:
        a, b, out = (GpuArray(driver, 1, *shape) for shape in ((48, 32), (48, 64), (32, 64)))
        for array in (a, b):
            array.__cuda_array_interface__["typestr"] = "|i1"
        out.__cuda_array_interface__["typestr"] = "<i4"
        for _ in range(2):
            queued.clear()
            weft.matmul(a, b, transpose_a=True, out=out, stream=5)
            (of_a, to_a, of_b, to_b), given = queued
            assert (of_a, of_b) == (arrays.view(a).address, arrays.view(b).address)
            assert given == (to_a, to_b, arrays.view(out).address)
        assert set(driver.launched) == {(1, 5)} and len(driver.launched) == 4


NN, NT = (False, True), (False, False)
S8, TF32 = Types("i8", "i8", "i32", NN), Types("f32", "f32", "f32", NN)


def transposes(m, n, k, types, chip="sm_90a", members=1):
    return transposing.transposes(m, n, k, types, chip, members, (m * k * members, n * k * members))


def test_large_products_are_worth_copies():
    both = Types("f8E4M3FN", "f8E5M2", "bf16", (True, True))
    assert transposes(4096, 4096, 4096, S8) == NN
    assert transposes(4096, 4096, 4096, TF32) == NN
    assert transposes(4096, 4096, 4096, both) == (True, True)
    assert transposes(16, 8192, 8192, S8) == transposes(256, 256, 256, TF32) == NT


def test_rows_that_are_copied_in_any_case_may_as_well_be_transposed():
    sizes, elements = (1024, 1024, 1024), (1024 * 1024,) * 2
    assert transposing.transposes(*sizes, TF32, "sm_90a", 1, elements) == NT
    assert transposing.transposes(*sizes, TF32, "sm_90a", 1, elements, (False, True)) == NN
    assert transposing.transposes(*sizes, TF32, "sm_90a", 1, elements, (True, False)) == NN


def test_kernels_of_products_with_copies_multiply_k_major_operands(monkeypatch):
    large, small = (Product(m, 4096, 4096, S8, "sm_90a") for m in (4096, 64))
    assert transposing.multiplied(large) == replace(large, types=replace(S8, transposed=NT))
    assert transposing.multiplied(small) is small
    asked = []
    monkeypatch.setattr(compiling.Compiler, "ahead", lambda self, product, texts: asked.append(product))
    monkeypatch.setattr(compiling.Compiler, "complaint", lambda *_: None)
    problems = [Problem(m, 4096, 4096, "s8", "s32", transpose_b=False) for m in (4096, 64)]
    compiling.compile_ahead(problems, "sm_90a", None, lambda *_: None)
    assert [product.types.transposed for product in asked] == [NT, NN]


def test_no_copies_where_wgmma_reads_the_operands_or_there_is_none():
    assert transposes(4096, 4096, 4096, Types("bf16", "bf16", "bf16", NN)) == NT
    assert transposes(4096, 4096, 4096, Types("i8", "i8", "i32")) == NT
    assert transposes(4096, 4096, 4096, Types("f64", "f64", "f64", NN)) == NT
    assert transposes(4096, 4096, 4096, Types("i4", "i4", "i32", NN)) == NT
    assert transposes(4096, 4096, 4096, S8, chip="sm_80") == NT
    assert transposes(4096, 4096, 4096, S8, chip="sm_100a") == NT

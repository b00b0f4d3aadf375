"""`weft.matmul` with rows of A and B that TMA can't take: in the emulator, and on a driver that is none."""

import gc
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
from fake_driver import GpuArray, two_gpus

import weft
from weft.launch import arrays, runtime
from weft.multiply import launches
from weft.schedules import loading


@pytest.fixture(autouse=True)
def no_loaders(monkeypatch):
    """Without kernels that load rows which begin at any element."""
    monkeypatch.setattr(loading, "schedule", lambda *_: None)


RNG = np.random.default_rng(2)
F8 = ml_dtypes.float8_e4m3fn
BF16 = ml_dtypes.bfloat16


def small(*shape, dtype=F8):
    """Integers whose sums are exact."""
    return RNG.integers(-1, 2, shape).astype(dtype)


def doubles(a):
    return a.astype(np.float64)


def scales(*shape):
    """Powers of two, by which sums stay exact."""
    return np.exp2(RNG.integers(-1, 2, shape)).astype(np.float32)


@pytest.mark.each_value(1)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [F8, np.int8, np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(33, 41, 67), (1, 1, 1), (5, 48, 64), (64, 3, 16), (7, 16, 31)])
def test_sizes_of_any_number(dtype, shape):
    m, n, k = shape
    a, b = np.abs(small(m, k, dtype=np.int8)).astype(dtype), np.abs(small(n, k, dtype=np.int8)).astype(dtype)
    assert (weft.matmul(a, b, transpose_b=True) == doubles(a) @ doubles(b).T).all()


def test_rows_of_arrays_that_must_not_be_written_are_copied():
    a, b = small(5, 67), small(7, 67)
    a.flags.writeable = b.flags.writeable = False
    assert (weft.matmul(a, b, transpose_b=True) == doubles(a) @ doubles(b).T).all()


@pytest.mark.slow
def test_batches_of_any_size():
    a, b, c = small(3, 5, 67), small(3, 7, 67), small(3, 5, 7, dtype=np.float32)
    product = doubles(a) @ doubles(b).transpose(0, 2, 1)
    assert (weft.matmul(a, b, transpose_b=True) == product).all()
    epilogue = weft.Epilogue(bias=small(7, dtype=np.float32), residual=small(5, 7, dtype=BF16))
    found = weft.matmul(a, b, transpose_b=True, c=c, beta=2.0, epilogue=epilogue)
    assert found.dtype == BF16
    assert (found == product + 2 * doubles(c) + epilogue.bias + doubles(epilogue.residual)).all()
    swapped = a.transpose(1, 0, 2).copy().transpose(1, 0, 2)
    assert (weft.matmul(swapped, b[1], transpose_b=True) == doubles(a) @ doubles(b[1]).T).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("beta", [None, 1.0])
def test_nothing_but_the_result_is_written(beta):
    a, b, memory = small(20, 32), small(21, 32), small(22, 43, dtype=BF16)
    before, out = memory.copy(), memory[1:21, 20:41]
    weft.matmul(a, b, transpose_b=True, out=out, beta=beta)
    before[1:21, 20:41] = (doubles(a) @ doubles(b).T + (beta or 0.0) * doubles(before[1:21, 20:41])).astype(
        BF16
    )
    assert (memory == before).all()


@pytest.mark.slow
def test_scales_of_any_size():
    a, b, of_a, of_b = small(9, 259), small(131, 259), scales(3, 9).T, scales(2, 3)
    found = weft.matmul(a, b, transpose_b=True, scales=(of_a, of_b), out_dtype="f32")
    left = doubles(a) * np.repeat(of_a, 128, 1)[:, :259]
    right = doubles(b) * np.repeat(np.repeat(of_b, 128, 0)[:131], 128, 1)[:, :259]
    assert (found == left @ right.T).all()
    with_others = weft.matmul(a, b, transpose_b=True, promote=True, out_dtype="f32")
    assert (with_others == doubles(a) @ doubles(b).T).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [F8, np.float16, BF16])
def test_groups_of_any_size(dtype):
    a, b = small(256, 35, dtype=dtype), small(2, 21, 35, dtype=dtype)
    groups = np.repeat([1, -1], 128).astype(np.int32)
    out = np.full((256, 21), 7, BF16)
    weft.matmul(a, b, transpose_b=True, groups=groups, out=out)
    assert (out[:128] == doubles(a[:128]) @ doubles(b[1]).T).all()
    assert (out[128:] == 7).all()
    rows = np.array([9, 3], np.int32)
    many = weft.matmul(a.reshape(2, 128, 35), b, transpose_b=True, groups=rows)
    for number, count in enumerate(rows):
        want = doubles(a.reshape(2, 128, 35)[number, :count]) @ doubles(b[number]).T
        assert (many[number, :count] == want).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_with_m_major_rows_of_any_size(transpose_b):
    a, b = small(37, 21, dtype=np.float16), small(*((19, 37) if transpose_b else (37, 19)), dtype=np.float16)
    found = weft.matmul(a, b, transpose_a=True, transpose_b=transpose_b)
    assert (found == doubles(a).T @ doubles(b.T if transpose_b else b)).all()


class F8Array(GpuArray):
    """Bytes, which stand for others' fp8: of any size that TMA doesn't take."""

    def __init__(self, driver, gpu, *shape, typestr="|u1"):
        super().__init__(driver, gpu, *shape)
        self.__cuda_array_interface__["typestr"] = typestr


@pytest.fixture
def queued(patch):
    """The addresses of each launch from Python."""
    made, launch = [], runtime.Prepared.launch

    def record(self, stream, *addresses):
        made.append(addresses)
        launch(self, stream, *addresses)

    patch.setattr(runtime.Prepared, "launch", record)
    return made


@pytest.mark.sampled(2)
@pytest.mark.parametrize("before", [[], [101]])
def test_one_launch_copies_all_rows(patch, queued, before):
    with two_gpus(patch) as driver:
        a, b, c = (F8Array(driver, 1, *shape) for shape in ((33, 67), (41, 67), (48, 64)))
        out, aligned = (F8Array(driver, 1, *shape, typestr="<i4") for shape in ((33, 41), (48, 48)))
        for _ in range(2):
            driver.stack = list(before)
            queued.clear()
            weft.matmul(a, b, transpose_b=True, out=out, stream=5)
            (of_a, to_a, of_b, to_b), given = queued
            assert (of_a, of_b) == (arrays.view(a).address, arrays.view(b).address)
            assert given == (to_a, to_b, arrays.view(out).address)
            assert to_a % 128 == to_b % 128 == 0 and not {of_a, of_b} & {to_a, to_b}
        assert driver.stack == before and set(driver.launched) == {(1, 5)}
        count = len(driver.launched)
        weft.matmul(a, b, transpose_b=True, out=out, beta=1.0)
        assert len(driver.launched) == count + 2
        weft.matmul(c, c, transpose_b=True, out=aligned)
        weft.matmul(
            c, F8Array(driver, 1, 41, 64), transpose_b=True, out=F8Array(driver, 1, 48, 41, typestr="<i4")
        )
        assert len(driver.launched) == count + 4


@pytest.mark.slow
def test_calls_of_one_kernel_may_copy_other_arguments_and_keep_none(patch, queued):
    with two_gpus(patch) as driver:
        a, b, whole = (F8Array(driver, 1, *shape) for shape in ((33, 67), (48, 67), (33, 67)))
        out = F8Array(driver, 1, 33, 48, typestr="<i4")
        whole.__cuda_array_interface__["strides"] = (80, 1)
        weft.matmul(a, b, transpose_b=True, out=out, stream=5)
        weft.matmul(whole, b, transpose_b=True, out=out, stream=5)
        assert [len(addresses) for addresses in queued] == [4, 3, 4, 3]
        gone = weakref.ref(b)
        del b
        gc.collect()
        assert gone() is None


def test_halves_are_copied_for_wgmma_too(monkeypatch):
    run, kernels = launches.run_with_copies, []

    def watch(kernel, views, numbers, on):
        kernels.append((kernel, numbers))
        run(kernel, views, numbers, on)

    monkeypatch.setattr(launches, "run_with_copies", watch)
    a, b = small(37, 67, dtype=np.float16), small(21, 67, dtype=np.float16)
    assert (weft.matmul(a, b, transpose_b=True, arch="sm_90a") == doubles(a) @ doubles(b).T).all()
    ((kernel, numbers),) = kernels
    assert "wgmma" in kernel.ptx and tuple(numbers) == (0, 1)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "error", [None, weft.WeftError("ptxas: no"), OSError("no space left"), MemoryError()]
)
def test_a_product_compiles_beside_the_kernel_that_copies(error):
    begun, copies = threading.Event(), threading.Event()

    class Product:
        @property
        def cubin(self):
            begun.set()
            assert copies.wait(10)
            if error:  # it is also raised when the kernel is loaded
                raise error
            return b""

    before = threading.active_count()
    with launches._compiling(Product()):
        assert begun.wait(10)
        copies.set()
    assert threading.active_count() == before

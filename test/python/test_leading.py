"""`weft.matmul` on vectors, empty arrays and any number of leading dimensions, as NumPy has them."""

import ml_dtypes
import numpy as np
import pytest
from fake_driver import GpuArray, two_gpus

import weft
from weft.dialects.schedule import WarpgroupSchedule
from weft.launch import arrays
from weft.multiply import launches, plans
from weft.multiply.operands import Operands
from weft.multiply.product import Product

RNG = np.random.default_rng(1)


def small(*shape, dtype=np.float16):
    """Integers whose sums are exact."""
    return RNG.integers(-2, 3, shape).astype(dtype)


def doubles(a):
    return a.astype(np.float64)


def compare(a, b, **options):
    found, want = weft.matmul(a, b, **options), np.matmul(doubles(a), doubles(b))
    assert found.shape == want.shape and (found == want).all()


def operands(a, b, out=None, **added):
    return Operands.of(a, b, out, added, Product(tuple(added), beta=1.0 if "c" in added else None))


@pytest.mark.each_value(1)
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((16,), (16, 24)),
        ((8, 16), (16,)),
        ((16,), (16,)),
        ((16,), (2, 3, 16, 8)),
        ((2, 3, 8, 16), (16,)),
        ((1,), (1, 8)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_vectors_are_rows_of_a_and_columns_of_b(of_a, of_b, dtype):
    compare(small(*of_a, dtype=dtype), small(*of_b, dtype=dtype))


@pytest.mark.slow
def test_elements_of_vectors_may_lie_apart():
    compare(small(64)[::2], small(32, 3)[:, 1])


@pytest.mark.slow
def test_what_is_added_to_a_product_of_vectors_has_its_shape():
    v, b, c = small(16), small(2, 16, 24), small(2, 24)
    out = np.empty((2, 24), np.float32)
    epilogue = weft.Epilogue(bias=small(24), residual=c)
    assert weft.matmul(v, b, c=c, beta=2.0, out=out, epilogue=epilogue) is out
    assert (out == doubles(v) @ doubles(b) + 3 * doubles(c) + doubles(epilogue.bias)).all()
    c = small(3, dtype=np.float32)
    assert (weft.matmul(small(3, 16) * 0, v, c=c, beta=-1.0, out_dtype="f32") == -c).all()
    number = np.array(2.0, np.float32)
    assert weft.matmul(v * 0, v, c=number, beta=3.0, out_dtype="f32") == 6


@pytest.mark.each_value(1)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((2, 3, 8, 16), (16, 24)),
        ((2, 3, 8, 16), (3, 16, 8)),
        ((2, 3, 8, 16), (2, 1, 16, 8)),
        ((2, 1, 8, 16), (1, 3, 16, 8)),
        ((8, 16), (2, 2, 2, 16, 8)),
        ((1, 1, 8, 16), (1, 16, 8)),
    ],
)
def test_leading_dimensions_broadcast_as_in_numpy(of_a, of_b):
    compare(small(*of_a), small(*of_b))


@pytest.mark.parametrize(
    ("of_a", "of_b", "rows", "members", "turns"),
    [
        ((2, 3, 8, 16), (16, 24), 48, None, 1),
        ((3, 8, 16), (16, 24), 24, None, 1),
        ((2, 3, 8, 16), (2, 3, 16, 24), 8, 6, 1),
        ((2, 3, 8, 16), (2, 1, 16, 24), 24, 2, 1),
        ((8, 16), (2, 3, 16, 24), 8, 6, 1),
        ((5, 1, 8, 16), (1, 3, 16, 24), 8, 5, 3),
        ((2, 3, 8, 16), (1, 3, 16, 24), 8, 3, 2),
        ((4, 2, 1, 16), (16, 24), 8, None, 1),
    ],
)
def test_leading_dimensions_become_rows_or_one_batch_where_memory_allows_it(of_a, of_b, rows, members, turns):
    found = operands(small(*of_a), small(*of_b))
    assert (found.sizes.m, found.sizes.members, len(found.turns)) == (rows, members, turns)
    assert found.views[0].address == found.whole[0].address


@pytest.mark.slow
def test_what_does_not_lie_like_rows_is_a_batch():
    repeated, b = np.broadcast_to(small(1, 16), (4, 1, 16)), small(16, 24)
    assert (operands(repeated, b).sizes.m, operands(repeated, b).sizes.members) == (1, 4)
    compare(repeated, b)
    compare(small(3, 16, 16).swapaxes(-1, -2), b)


def test_c_may_be_the_one_matrix_of_out():
    a, b, out = small(8, 16), small(1, 16, 24), np.ones((1, 8, 24), np.float32)
    weft.matmul(a, b, c=out[0], beta=2.0, out=out)
    assert (out == doubles(a) @ doubles(b) + 2).all()


def test_heads_between_rows_are_multiplied_in_turn_without_copies():
    q, k = small(2, 8, 3, 16).transpose(0, 2, 1, 3), small(2, 8, 3, 16).transpose(0, 2, 3, 1)
    assert len(operands(q, k).turns) == 2
    compare(q, k)
    out = np.zeros((2, 8, 3, 8), np.float32).transpose(0, 2, 1, 3)
    weft.matmul(q, k, out=out)
    assert (out == doubles(q) @ doubles(k)).all()


def test_what_is_added_broadcasts_to_leading_dimensions():
    a, b, c = small(2, 3, 8, 16), small(16, 24), small(3, 8, 24)
    residual = small(2, 1, 8, 24)
    found = weft.matmul(a, b, c=c, beta=2.0, epilogue=weft.Epilogue(residual=residual), out_dtype="f32")
    assert (found == doubles(a) @ doubles(b) + 2 * doubles(c) + doubles(residual)).all()


@pytest.mark.slow
def test_each_product_of_several_dimensions_may_have_an_alpha():
    a, b = small(2, 3, 8, 16), small(2, 1, 16, 24)
    alpha = np.arange(6, dtype=np.float32).reshape(2, 3)
    others = small(5, 1, 8, 16), small(1, 3, 16, 24)
    found = weft.matmul(*others, alpha=np.arange(15, dtype=np.float32), out_dtype="f32")
    assert (found == (doubles(others[0]) @ doubles(others[1])) * np.arange(15).reshape(5, 3, 1, 1)).all()
    for given in (alpha, alpha.reshape(-1)):
        found = weft.matmul(a, b, alpha=given, out_dtype="f32")
        assert (found == (doubles(a) @ doubles(b)) * alpha[..., None, None]).all()


def test_scales_of_several_dimensions():
    f8 = ml_dtypes.float8_e4m3fn
    a, b = small(2, 2, 8, 32, dtype=f8), small(2, 2, 16, 32, dtype=f8)
    of_a = np.exp2(RNG.integers(-1, 2, (2, 2, 1, 8))).astype(np.float32).swapaxes(-1, -2)
    of_b = np.exp2(RNG.integers(-1, 2, (2, 1, 1))).astype(np.float32)
    found = weft.matmul(a, b, transpose_b=True, scales=(of_a, of_b), out_dtype="f32")
    assert (found == (doubles(a) @ doubles(b).swapaxes(-1, -2)) * of_a * of_b).all()


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(("of_a", "of_b"), [((2, 2), (2, 2)), ((2, 2), ())])
def test_block_scales_of_a_batch_of_several_dimensions(of_a, of_b):
    f8 = ml_dtypes.float8_e4m3fn
    a, b = small(*of_a, 32, 64, dtype=f8), small(*of_b, 32, 64, dtype=f8)
    of_each = np.exp2(RNG.integers(-1, 2, (2, 2, 1, 1)))
    scales = np.broadcast_to(of_each.reshape(2, 2, 1), (2, 2, 512)).astype(ml_dtypes.float8_e8m0fnu)
    ones = np.ones((4, 512), ml_dtypes.float8_e8m0fnu)
    options = {"transpose_b": True, "kind": "mxfp8", "out_dtype": "f32"}
    found = weft.matmul(a, b, scales=(scales, ones), **options)
    assert (found == doubles(a) @ doubles(b).swapaxes(-1, -2) * of_each).all()


@pytest.mark.slow
def test_scales_of_an_empty_k():
    f8 = ml_dtypes.float8_e4m3fn
    a, b = small(32, 0, dtype=f8), small(24, 0, dtype=f8)
    none = np.ones((0, 32), np.float32).T, np.ones((1, 0), np.float32)
    of_blocks = np.ones(0, ml_dtypes.float8_e8m0fnu)
    for scales, kind in ((none, None), ((of_blocks, of_blocks), "mxfp8")):
        assert not weft.matmul(a, b, transpose_b=True, scales=scales, kind=kind).any()


@pytest.mark.slow
def test_groups_of_an_empty_k_and_of_no_product():
    groups, out = np.repeat([1, 0], 128).astype(np.int32), np.ones((256, 24), np.float32)
    weft.matmul(small(256, 0), small(2, 0, 24), groups=groups, out=out)
    assert not out.any()
    assert weft.matmul(small(8, 0), small(0, 24), k_ends=np.zeros(3, np.int32)).shape == (3, 8, 24)
    assert weft.matmul(small(8, 16), small(16, 24), k_ends=np.zeros(0, np.int32)).shape == (0, 8, 24)


@pytest.mark.slow
def test_more_dimensions_than_numpy_broadcasts():
    assert weft.matmul(small(*[1] * 60, 4, 8), small(8, 4)).shape == (1,) * 60 + (4, 4)


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((0, 8), (8, 4)),
        ((8, 8), (8, 0)),
        ((0, 8, 8), (8, 4)),
        ((2, 0, 3, 8), (8, 4)),
        ((0, 0), (0, 0)),
        ((2, 0, 8), (2, 8, 4)),
        ((0, 8), (8,)),
    ],
)
def test_results_without_elements_are_not_computed(of_a, of_b):
    a, b = small(*of_a), small(*of_b)
    found, want = weft.matmul(a, b), a @ b
    assert found.shape == want.shape and found.dtype == want.dtype
    out = np.empty(want.shape, np.float32)
    assert weft.matmul(a, b, out=out) is out


@pytest.mark.each_value(1)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize(("of_a", "of_b"), [((4, 0), (0, 8)), ((2, 3, 4, 0), (3, 0, 8)), ((0,), (0,))])
def test_the_product_of_an_empty_k_is_zero(of_a, of_b, dtype):
    compare(small(*of_a, dtype=dtype), small(*of_b, dtype=dtype))


@pytest.mark.slow
def test_what_is_added_to_the_product_of_an_empty_k():
    a, b, c, bias = small(2, 8, 0), small(0, 24), small(2, 8, 24, dtype=np.float32), small(24)
    residual = small(8, 24)
    epilogue = weft.Epilogue(bias, "relu", residual)
    found = weft.matmul(a, b, c=c, beta=2.0, alpha=5.0, epilogue=epilogue, out_dtype="f32")
    assert (found == doubles(residual) + np.maximum(2 * doubles(c) + doubles(bias), 0)).all()
    out = c.copy()
    weft.matmul(a, b, out=out, beta=3.0)
    assert (out == 3 * c).all()
    fp8 = a.astype(ml_dtypes.float8_e4m3fn), b.astype(ml_dtypes.float8_e4m3fn)
    weft.matmul(*fp8, out=out, beta=2.0, promote=True, schedule=WarpgroupSchedule((64, 64, 256), 1, 2))
    assert (out == 6 * c).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: weft.matmul(small(), small(4, 4)),
            "a must have at least one dimension, got a single number",
        ),
        (
            lambda: weft.matmul(small(4), small(4, 4), transpose_a=True),
            "transpose_a must be False for a vector, got a of 4 elements",
        ),
        (
            lambda: weft.matmul(small(4, 2, 8, 16), small(3, 2, 16, 8)),
            "leading dimensions of a and b must be equal or 1, got 4 x 2 and 3 x 2",
        ),
        (
            lambda: weft.matmul(small(2, 3, 8, 16), small(16, 8), out=small(6, 8, 8)),
            "out must be 2 x 3 x 8 x 8, got 6 x 8 x 8",
        ),
        (
            lambda: weft.matmul(small(2, 3, 8, 16), small(16, 8), out=small(1, 3, 8, 8)),
            "out must be 2 x 3 x 8 x 8, got 1 x 3 x 8 x 8",
        ),
        (
            lambda: weft.matmul(small(2, 3, 8, 16), small(16, 8), c=small(2, 1, 1, 8), beta=1.0),
            "c must be 2 x 3 x 8 x 8, got 2 x 1 x 1 x 8",
        ),
        (
            lambda: weft.matmul(small(3, 8, 16), small(16, 8), c=small(2, 8, 8), beta=1.0),
            "c must be 3 x 8 x 8, got 2 x 8 x 8",
        ),
        (
            lambda: weft.matmul(small(128, 16), small(0, 16, 8), groups=np.full(128, -1, np.int32)),
            "b must have at least one matrix with groups, got 0",
        ),
        (lambda: weft.matmul(small(8), small(8, 4), out=small(1, 4)), "out must be 4 elements, got 1 x 4"),
        (lambda: weft.matmul(small(8), small(8), out=small(1)), "out must be a single number, got 1"),
        (
            lambda: weft.matmul(small(2, 3, 8, 16), small(16, 8), alpha=np.ones(5, np.float32)),
            "alpha must be a number or 1 element or 6, one for each product, got 5",
        ),
        (
            lambda: weft.matmul(
                small(5, 1, 32, 16, dtype=np.uint8),
                small(1, 3, 32, 16, dtype=np.uint8),
                transpose_b=True,
                kind="mxfp4",
                scales=(np.ones((15, 512), ml_dtypes.float8_e8m0fnu),) * 2,
            ),
            "leading dimensions of 5 x 3 must be one batch in memory with block scales: copy a and b",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(weft.WeftError) as refused:
        call()
    assert message in str(refused.value)


def test_an_out_that_overlaps_a_later_part_is_refused():
    memory = small(5, 3, 8, 16)
    a, b = memory[:, :1], small(1, 3, 16, 16)
    with pytest.raises(weft.WeftError, match="out must not overlap a"):
        weft.matmul(a, b, out=memory)


@pytest.fixture
def driver(patch):
    with two_gpus(patch) as fake:
        yield fake


@pytest.mark.slow
def test_launches_in_turn_get_the_addresses_of_their_parts(driver, patch):
    queued = []
    patch.setattr(launches.Prepared, "launch", lambda self, stream, *given: queued.append((self, given)))
    a, b, out = (GpuArray(driver, 0, *shape) for shape in ((5, 1, 8, 16), (1, 3, 16, 24), (5, 3, 8, 24)))
    starts = [arrays.view(each).address for each in (a, b, out)]
    for _ in range(2):  # planned, then from the plan
        queued.clear()
        assert weft.matmul(a, b, out=out) is out
        assert [given for _, given in queued] == [
            (starts[0], starts[1] + turn * 16 * 24 * 2, starts[2] + turn * 8 * 24 * 2) for turn in range(3)
        ]
    assert len({id(launch) for launch, _ in queued}) == 1


def test_an_out_that_overlaps_is_refused_with_a_plan_too(driver):
    a, b, out = (GpuArray(driver, 0, *shape) for shape in ((5, 1, 8, 16), (1, 3, 16, 24), (5, 3, 8, 24)))
    weft.matmul(a, b, out=out)
    address = arrays.view(out).address + 4 * 3 * 8 * 24 * 2  # of the last part
    a.__cuda_array_interface__["data"] = (address, False)
    with pytest.raises(weft.WeftError, match="out must not overlap a"):
        weft.matmul(a, b, out=out)
    assert len(driver.launched) == 3


@pytest.mark.slow
def test_planned_results_have_all_dimensions(driver):
    a, b = GpuArray(driver, 0, 2, 3, 8, 16), GpuArray(driver, 0, 16, 24)
    assert [weft.matmul(a, b).shape for _ in range(2)] == [(2, 3, 8, 24)] * 2
    assert len(driver.launched) == 2
    v = GpuArray(driver, 0, 16)
    assert [weft.matmul(a, v).shape for _ in range(2)] == [(2, 3, 8)] * 2


def test_results_without_elements_are_planned_on_a_gpu(driver):
    a, b = GpuArray(driver, 0, 2, 0, 64), GpuArray(driver, 0, 64, 24)
    for _ in range(2):
        made = weft.matmul(a, b)
        assert made.shape == (2, 0, 24) and arrays.view(made).device == "cuda"
    empty, out = GpuArray(driver, 0, 0, 64), GpuArray(driver, 0, 0, 24)
    for each in (empty, out):
        each.__cuda_array_interface__["data"] = (0, False)
    assert weft.matmul(empty, b, out=out) is out
    assert not driver.launched
    assert [type(plan.launch) for plan in plans.kept._known.values()] == [launches.Nothing]


def test_arrays_of_an_empty_k_may_have_no_address(driver):
    a, b = GpuArray(driver, 0, 8, 0), GpuArray(driver, 0, 0, 24)
    for each in (a, b):
        each.__cuda_array_interface__["data"] = (0, False)
    assert weft.matmul(a, b).shape == (8, 24) and len(driver.launched) == 1


def test_an_empty_k_on_a_gpu_reads_zeros(driver, patch):
    queued = []
    patch.setattr(launches.Prepared, "launch", lambda self, stream, *given: queued.append(given))
    patch.setattr(launches.Prepared, "__init__", _keep_for_launch(launches.Prepared.__init__))
    a, b, out = (GpuArray(driver, 0, *shape) for shape in ((8, 0), (0, 24), (8, 24)))
    for _ in range(2):
        weft.matmul(a, b, out=out)
    own = arrays.view(out).address
    assert len(queued) == 2 and queued[0] == queued[1] and queued[0][2] == own
    assert not {0, own} & set(queued[0][:2]) and driver.cleared


def _keep_for_launch(made):
    """Makes prepared launches queue through `launch`, which a test watches."""

    def init(self, *given):
        made(self, *given)
        self.queue_apart = lambda stream, *addresses: self.launch(stream, *addresses) or 0

    return init


@pytest.mark.filterwarnings("error")
@pytest.mark.each_value(1)
@pytest.mark.parametrize(("arch", "pitch"), [("sm_89", 16), ("sm_100a", 18), ("sm_120a", 16)])
def test_d_of_bytes_may_be_c(arch, pitch):
    """Rows are masked as packed words, which the sanitizer must follow: a finding is a warning."""
    rng, kind = np.random.default_rng(0), ml_dtypes.float8_e4m3fn
    a, b = (rng.integers(-2, 3, shape).astype(kind) for shape in ((65, 64), (64, 16)))
    out = rng.integers(-2, 3, (65, pitch)).astype(kind)[:, :16]
    want = (a.astype(np.float32) @ b.astype(np.float32) + 0.5 * out.astype(np.float32)).astype(kind)
    weft.matmul(a, b, c=out, beta=0.5, out=out, arch=arch)
    assert np.array_equal(out, want)

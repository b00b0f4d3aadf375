"""Definitions of kernels and arguments of their calls: annotations, grids, and arrays with any strides."""

import sys

import fake_driver
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft.language.calls import plans as calls
from weft.launch.runtime import DeviceArray


def counted(grid):
    @w.kernel(grid=grid, threads=32)
    def kernel(x: w.In["m n", w.f32], count: w.Out["one", w.i32], *, N=64):
        if w.thread() == 0:
            w.atomic_add(count[0], 1)

    return kernel


@pytest.mark.parametrize(
    "grid, count",
    [(lambda x: -(-x.rows // 64), 2), (lambda x, N: 3 - -x.columns // N, 5), (lambda x: -x.rows + 73, 3)],
)
def test_grids_take_operators_of_integers(grid, count):
    found = np.zeros(1, np.int32)
    assert not counted(grid).emulate(np.zeros((70, 100), np.float32), found).findings
    assert found[0] == count


@pytest.mark.parametrize(
    "grid, message",
    [
        (lambda x: int(x.rows), r"sizes of a grid are integers .*: leave int\(\) out$"),
        (lambda x: range(x.rows)[0], r"sizes of a grid are integers .*: leave int\(\) out$"),
        (
            lambda x: w.maximum(x.rows, 1),
            "a grid has sums and products of sizes, // and w.ceil_div, and no other",
        ),
        (lambda x: max(x.rows, 1), "a grid can't depend on a comparison of sizes"),
    ],
)
def test_grids_have_no_other_functions(grid, message):
    with pytest.raises(weft.WeftError, match=message) as raised:
        counted(grid).compile()
    assert raised.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: w.In["m n", np.float32],
            r"w\.In: the element type must be one of w, got float32: write w\.f32$",
        ),
        (
            lambda: w.Out["m n", "bf16"],
            r"w\.Out: the element type must be one of w, got 'bf16': write w\.bf16$",
        ),
        (lambda: w.In["m n", "b16"], r"must be one of w, got 'b16': there are w\.f64, w\.f32, "),
        (lambda: w.In["m, n", w.f32], "a size must be a name or .*, got 'm,': separate sizes by spaces$"),
        (lambda: w.In["m*n", w.f32], r"a size must be a name or a positive number, got 'm\*n'$"),
    ],
)
def test_annotations_name_types_and_sizes(make, message):
    with pytest.raises(weft.WeftError, match=message):
        make()


def test_types_of_python_lead_to_types_of_the_language():
    def scaled(x: w.In["n", w.f32], by: float):
        x[0] = by

    with pytest.raises(
        weft.WeftError, match=r"'by' must be annotated .*, got float: write w\.f32; meta-para"
    ):
        w.kernel(scaled)
    with pytest.raises(
        AttributeError, match=r"no 'InOut': use w\.Out, whose elements a kernel may read, too"
    ):
        getattr(w, "InOut")  # noqa: B009


def test_axes_count_from_the_last_one():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 32))
            total = w.sum(t, axis=-1) + w.max(t, axis=-2)
            w.store(total + w.argmax(t, -1).to(w.f32) + w.cumsum(t, axis=-1), y[0, 0])

    x = np.random.default_rng(0).permutation(64 * 32).reshape(64, 32).astype(np.float32)
    y = np.zeros_like(x)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, x.sum(1)[:, None] + x.max(0) + x.argmax(1)[:, None] + x.cumsum(1))


@w.kernel(grid=lambda x, *, N: w.ceil_div(x.rows, N), threads=32)
def double(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, N=4):
    for row in w.range(w.cta() * N, w.minimum(w.cta() * N + N, x.rows)):
        for column in w.range(w.thread(), x.columns, 32):
            y[row, column] = 2.0 * x[row, column]


def numbers(*shape):
    return np.random.default_rng(0).random(shape).astype(np.float32)


@pytest.mark.parametrize(
    "part",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[::2, ::3],
        lambda a: a[::-2],
        lambda a: np.broadcast_to(a[0], a.shape),
        lambda a: np.broadcast_to(a[:, :1], a.shape),
    ],
)
def test_arrays_have_any_strides(part):
    x = part(numbers(12, 12))
    y = np.zeros_like(x)
    assert not double.emulate(x, y).findings
    assert np.array_equal(y, 2 * x)
    double(x, y, on="emulator", N=2)
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize("part", [np.s_[::-1], np.s_[:, ::2], np.s_[::2, ::-3]])
def test_results_have_any_strides(part):
    whole = np.full((12, 12), -1, np.float32)
    expected = whole.copy()
    x = numbers(12, 12)[part].copy()
    expected[part] = 2 * x
    double(x, whole[part], on="emulator")
    assert np.array_equal(whole, expected)


def test_an_array_that_is_read_and_written_is_copied_once():
    x = numbers(8, 8)
    expected = np.where(np.arange(8) % 2, x, 2 * x)
    double(x[:, ::2], x[:, ::2], on="emulator")
    assert np.array_equal(x, expected)


def test_elements_that_share_memory_arent_written():
    y = np.broadcast_to(numbers(8)[:, None], (8, 8))
    with pytest.raises(weft.WeftError, match=r"argument 'y': .*(read-only|share memory)"):
        double(numbers(8, 8), y, on="emulator")


def test_a_vector_whose_elements_share_memory_isnt_written():
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(8), torch.zeros(1).expand(8)
    with pytest.raises(weft.WeftError, match=r"argument 'y': is written .* but elements share memory"):
        chosen(x, torch.ones(8, dtype=torch.bool), y, torch.zeros(8, dtype=torch.bool))


def test_an_empty_grid_computes_nothing():
    x = numbers(0, 8)
    assert double.emulate(x, x.copy()).instructions == 0
    double(x, x.copy())
    double(x, x.copy(), N=2)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("persistent", [None, 1])
@pytest.mark.parametrize("dtype", [w.i32, w.u32, w.i64])
def test_grids_are_computed_from_numbers(dtype, persistent, arch):
    @w.kernel(grid=lambda y, n, N: (w.ceil_div(n, N), y.rows), threads=32, persistent=persistent)
    def kernel(y: w.Out["m columns", w.f32], scale: w.f32, n: dtype, *, N=32):
        for x, row in w.tiles():
            i = x * N + w.thread()
            if i < n.to(w.i32):
                y[row, i] = scale

    for n in (70, np.int16(33), 0):  # with 0, nothing is launched
        y = np.zeros((20, 100), np.float32)
        assert not kernel.emulate(y, 2.0, n, arch=arch).findings
        assert (y[:, :n] == 2.0).all() and not y[:, n:].any()
    assert kernel.compile(arch=arch).launch.grid.texts == ["(s2 ceildiv 32)", "s0", "1"]
    if dtype.is_signed and persistent is None:
        with pytest.raises(weft.WeftError, match=r"grid must be in 1\.\..* on x, got -2"):
            kernel.emulate(y, 2.0, -70, arch=arch)


def test_grids_are_not_computed_from_floats():
    @w.kernel(grid=lambda scale: scale, threads=32)
    def kernel(y: w.Out["n", w.f32], scale: w.f32):
        y[0] = scale

    with pytest.raises(weft.WeftError, match=r"grid has a parameter 'scale', which must be one of y"):
        kernel.compile()


def test_empty_arrays_with_a_grid_are_refused():
    x = numbers(8, 0)
    with pytest.raises(weft.WeftError, match=r"'x' has no elements .*don't call the kernel"):
        double(x, x.copy())
    with pytest.raises(weft.WeftError, match="don't fit together"):
        double(numbers(0, 8), numbers(0, 9))


def test_later_calls_with_tensors_only_fill_in_addresses():
    torch = pytest.importorskip("torch")
    plans = calls.Plans([w.In["m n"], w.Out["m n"], w.f32])
    a, b = torch.zeros(2, 4, 16)
    key, addresses, _ = plans.found([a, b, 0.0], {"N": 1})
    assert list(addresses) == [a.data_ptr(), b.data_ptr()]
    assert plans.found([torch.ones(4, 16), b, 0.0], {"N": 1})[0] == key
    others = [
        [a, b, -0.0],
        [a, b, 0],
        [a, b, False],
        [a, torch.zeros(4, 8), 0.0],
        [a, torch.zeros(16, 4).T, 0.0],
        [a, b.half(), 0.0],
    ]
    assert all(plans.found(args, {"N": 1})[0] != key for args in others)
    assert all(plans.found([a, b, 0.0], {"N": each})[0] != key for each in (2, 1.0, True, (1,)))
    assert plans.found([a, b, 1], {"N": 1})[0] != plans.found([a, b, 1.0], {"N": 1})[0]
    without = calls.Plans([w.In["m n"], w.Out["m n"]])
    assert without.found([a, b], {})[0] == without.found([b, a], {})[0] != without.found([a, b], {"N": 1})[0]
    assert plans.found([a, b], {"N": 1}) is None
    assert plans.found([a.numpy(), b, 0.0], {"N": 1}) is None
    queued, counted = [], []
    plan = calls.Plan(lambda *args: queued.append(args), lambda s: s, (1,), counted.append)
    plans._known.add(key, plan)
    assert plans.queue(plans.found([a, b, 0.0], {"N": 1}), [a, b, 0.0], 7)
    assert queued == [(7, *addresses)]
    assert counted[0] is b
    assert not plans.queue((key, addresses, plan), [a, b, 0.0], None)  # PyTorch records the call


def test_a_call_that_is_prepared_takes_few_steps():
    """As a profiler counts calls of functions of Python and of C."""
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(2, 4, 16)
    kernel = w.kernel(grid=1, threads=32)(double.__wrapped__)
    key, *_ = kernel._plans.found((x, y), {})
    queued = []
    plan = calls.Plan(lambda *args: queued.append(args), lambda s: 0, (1,), lambda tensor: None)
    kernel._plans._known.add(key, plan)
    steps = []
    sys.setprofile(lambda frame, event, _: steps.append(frame.f_code.co_name) if "call" in event else None)
    try:
        kernel(x, y)
    finally:
        sys.setprofile(None)
    assert queued == [(0, x.data_ptr(), y.data_ptr())]
    assert len(steps) <= 12, steps


@pytest.fixture
def driver(monkeypatch):
    with fake_driver.two_gpus(monkeypatch) as fake:
        yield fake


def test_a_planned_launch_takes_addresses_in_the_order_of_arguments(driver):
    kernel = w.kernel(grid=1, threads=32)(double.__wrapped__)
    x, y = (DeviceArray((4, 16), "f32") for _ in range(2))
    launch = kernel.planned(x, y, N=2)
    driver.sizes = [8] * len(kernel.compile(x, y, N=2).launch.parameters)
    first, second = fake_driver.MEMORY, fake_driver.MEMORY + 4096
    launch.launch(5, first, second)
    assert driver.launched == [(0, 5)]
    given = [int.from_bytes(each[:8], "little") for each in driver.given[-1]]
    assert [each for each in given if each in (first, second)] == [first, first, second, second]


def test_a_call_without_a_cta_has_no_planned_launch():
    kernel = w.kernel(grid=lambda x, *, N: w.ceil_div(x.rows, N), threads=32)(double.__wrapped__)
    assert kernel.planned(numbers(0, 8), numbers(0, 8)) is None


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 32), threads=32)
def chosen(x: w.In["n", w.f32], mask: w.In["n"], y: w.Out["n", w.f32], positive: w.Out["n"]):
    i = w.cta() * 32 + w.thread()
    if i < x.rows:
        y[i] = x[i] if mask[i] != 0 else 0.0
        positive[i] = (x[i] > 0.5).to(positive.dtype)


@pytest.mark.parametrize("framework", ["numpy", "strided", "torch", "jax"])
def test_arrays_of_bool_have_bytes(framework):
    x = numbers(100)
    mask, y, positive = x > 0.25, np.zeros_like(x), np.zeros(200, bool)[::2]
    given, written = mask, positive
    if framework == "strided":
        given = np.repeat(mask, 3)[::3]
    elif framework == "torch":
        torch = pytest.importorskip("torch")
        given, written = torch.from_numpy(mask), torch.from_numpy(positive)
    elif framework == "jax":
        given = pytest.importorskip("jax.numpy").asarray(mask)
    assert not chosen.emulate(x, given, y, written).findings
    assert np.array_equal(y, np.where(mask, x, 0))
    assert np.array_equal(positive, x > 0.5)
    chosen(x, given, y, written, on="emulator")


def test_a_tile_of_a_mask_has_bytes():
    @w.kernel
    def masked(x: w.In["m n", w.f32], mask: w.In["m n"], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 32))
            w.store(w.where(w.load(mask[0, 0], (64, 32)) != 0, t, 0.0), y[0, 0])

    x = numbers(50, 30)
    y = np.zeros_like(x)
    assert not masked.emulate(x, x > 0.5, y).findings
    assert np.array_equal(y, np.where(x > 0.5, x, 0))


def test_types_without_elements_are_refused_by_argument():
    x, y = numbers(8), np.zeros(8, bool)
    with pytest.raises(weft.WeftError, match=r"'mask' must have .*w\.i8, w\.u64, .*w\.u8, got int4"):
        chosen(x, np.zeros(8, ml_dtypes.int4), x, y)
    with pytest.raises(weft.WeftError, match=r"'x' must have elements of w\.f32, got w\.u64"):
        chosen(x.astype(np.uint64), y, x, y)
    with pytest.raises(weft.WeftError, match=r"'mask' must be an array, or the element type"):
        chosen(x, None, x, y)
    with pytest.raises(weft.WeftError, match=r"'mask' can't have elements of w\.i1: those of bool are w\.i8"):
        chosen.compile("f32", "i1", "f32", "i8")
    with pytest.raises(
        weft.WeftError, match=r"dtype must be one of f64, .*, u8, i1, got 'uint8': pass 'u8'$"
    ):
        chosen.compile("f32", "uint8", "f32", "i8")
    with pytest.raises(weft.WeftError, match=r"w\.In: the element type can't be w\.i1"):
        w.In["n", w.i1]


@w.kernel(threads=32)
def scaled(x: w.In["n", w.f32], y: w.Out["n", w.f32], factor: w.f32 = 2.0, shift: w.i32 = 1):
    y[w.thread()] = x[w.thread()] * factor + shift.to(w.f32)


@pytest.mark.parametrize(
    ("args", "named", "factor", "shift"),
    [((), {}, 2, 1), ((3.0,), {}, 3, 1), ((), {"shift": 5}, 2, 5), ((0.5, 2), {}, 0.5, 2)],
)
def test_numbers_have_defaults(args, named, factor, shift):
    x, y = numbers(32), np.zeros(32, np.float32)
    scaled(x, y, *args, **named, on="emulator")
    assert np.allclose(y, x * factor + shift)


def test_arrays_of_one_number_arent_numbers():
    x = numbers(32)
    with pytest.raises(weft.WeftError, match=r"argument 'factor': .* got ndarray: x\.item\(\) is the number"):
        scaled(x, x.copy(), np.array(1.0), on="emulator")
    with pytest.raises(weft.WeftError, match=r"argument 'factor': expects a number of type f32, got str$"):
        scaled(x, x.copy(), "1.0", on="emulator")


def test_operators_of_pytorch_have_the_defaults_of_numbers():
    torch = pytest.importorskip("torch")
    operator = w.torch_op("weft_tests::scaled", scaled)
    x, y = torch.rand(32), torch.zeros(32)
    operator(x, y)
    assert torch.allclose(y, 2 * x + 1)
    operator(x, y, shift=3)
    assert torch.allclose(y, 2 * x + 3)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        *((w.f32, float("inf")), (w.f64, float("-inf")), (w.f32, float("nan")), (w.i32, True)),
        *((w.i1, True), (w.i64, -(2**63)), (w.f32, np.float32(1e-10)), (w.f64, 3)),
    ],
    ids=str,
)
def test_operators_of_pytorch_have_any_default(kind, default):
    torch = pytest.importorskip("torch")

    @w.kernel(threads=32, grid=lambda y: 1)
    def kernel(y: w.Out["32", w.f64], number: kind = default):
        y[w.thread()] = number.to(w.f64)

    operator = w.torch_op(f"weft_tests::of_{kind.name}_{hash(default) % 2**32}", kernel)
    y, other = torch.zeros((2, 32), dtype=torch.float64)
    operator(y)
    operator(other, number=1)
    np.testing.assert_array_equal(y, np.full(32, float(default)), strict=False)
    assert (other == 1).all()


@pytest.mark.parametrize(
    ("kind", "default", "message"),
    [
        (w.i32, 1.5, r"expects an integer in -2147483648\.\.2147483647, got 1\.5"),
        (w.i32, 2**40, r"expects an integer in .*, got 1099511627776"),
        (w.f32, None, "expects a number of type f32, got NoneType"),
        (w.f32, "1", "expects a number of type f32, got str"),
        (w.f16, 70000.0, "70000.0 doesn't fit into f16, whose largest number is 65504"),
    ],
)
def test_defaults_are_checked_where_the_kernel_is_defined(kind, default, message):
    with pytest.raises(weft.WeftError, match=rf"kernel: the default of 'number': {message}"):

        @w.kernel
        def kernel(y: w.Out["n", w.f64], number: kind = default):
            pass


def test_arrays_have_no_defaults():
    with pytest.raises(weft.WeftError, match="'y' is an array, so it can't have a default"):

        @w.kernel
        def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32] = None):
            pass

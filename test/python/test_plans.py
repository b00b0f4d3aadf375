"""Plans of `weft.matmul` depend on properties of arrays, not on the objects."""

import functools
import gc
import threading
import weakref
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from fake_driver import MEMORY, GpuArray, two_gpus
from one_product import MAPS, PARTS, PLAIN, text

import weft
from weft.errors import WeftError
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.plans import Plans
from weft.multiply import plans, product_kernel


@pytest.fixture
def driver(patch):
    with two_gpus(patch) as fake:
        yield fake


def word(value):
    return value.to_bytes(8, "little")


def address(array):
    return array.__cuda_array_interface__["data"][0]


def new(driver, *shape, gpu=0, strides=None, offset=0):
    """A new array in memory of its own."""
    made = GpuArray(driver, gpu, *shape)
    made.__cuda_array_interface__["data"] = (address(made) + offset, False)
    if strides is not None:
        made.__cuda_array_interface__["strides"] = tuple(2 * s for s in strides)
    return made


def test_new_arrays_of_the_same_kind_take_the_same_plan(driver, patch):
    planned = []
    of = plans.Plan.of
    patch.setattr(plans.Plan, "of", lambda *given: planned.append(given) or of(*given))
    for _ in range(5):
        a, b, out = new(driver, 64, 128), new(driver, 128, 96), new(driver, 64, 96)
        assert weft.matmul(a, b, out=out) is out
    assert len(planned) == 1 and len(driver.launched) == 5


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("schedule", "chip"), [(PLAIN, "sm_80"), (MAPS, "sm_90a"), (PARTS, "sm_90a")])
def test_a_launch_gets_the_addresses_of_its_own_arrays(driver, schedule, chip):
    kernel = weft.compile(text(schedule), arch=chip)
    names = kernel.launch.parameters
    driver.sizes = [128 if name.startswith("map") else 8 for name in names]
    views = [ArrayView(MEMORY, (64, 64), (64, 1), t, "cuda", 0, False, None) for t in ("f16", "f16", "f32")]
    plan = kernel.plan(views)
    for number in range(3):
        addresses = [MEMORY + 1024 * (3 * number + i) for i in range(3)]
        plan.launch(5, *addresses)
        given = dict(zip(names, driver.given[-1], strict=True))
        pointers = [
            value
            for name, value in zip(names, driver.given[-1], strict=True)
            if name.startswith("argument") and name.endswith(": pointer")
        ]
        assert pointers == [word(each) for each in addresses for _ in range(2)]
        maps = [value for name, value in given.items() if name.startswith("map")]
        assert {value[:8] for value in maps} <= set(pointers) and bool(maps) == (chip == "sm_90a")
        workspaces = [value for name, value in given.items() if name.startswith("workspace")]
        assert bool(workspaces) == (schedule == PARTS)
        assert given["argument 0: size 0"] == word(64) and given["argument 2: stride 1"] == word(1)


def test_results_are_new_and_of_their_own(driver):
    a, b = new(driver, 64, 128), new(driver, 128, 96)
    found = [weft.matmul(a, b) for _ in range(3)]
    assert len({made.address for made in found}) == 3 and len(plans.kept) == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "other",
    [
        {"offset": 8},
        {"strides": (256, 1)},
        {"strides": (1, 64)},
        {"gpu": 1},
    ],
    ids=str,
)
def test_what_a_kernel_depends_on_makes_another_plan(driver, other):
    gpu = other.get("gpu", 0)
    weft.matmul(new(driver, 64, 128), new(driver, 128, 96), out=new(driver, 64, 96))
    a = new(driver, 64, 128, **other)
    weft.matmul(a, new(driver, 128, 96, gpu=gpu), out=new(driver, 64, 96, gpu=gpu))
    assert len(plans.kept) == 2 and [g for g, _ in driver.launched] == [0, gpu]


@pytest.mark.slow
def test_options_make_plans_and_flags_are_no_numbers(driver):
    a, b = new(driver, 64, 64), new(driver, 64, 64)
    for options in (
        {},
        {"transpose_a": True},
        {"transpose_b": True},
        {"alpha": 2.0},
        {"alpha": 0.0},
        {"alpha": -0.0},
        {"out_dtype": "f32"},
        {"schedule": "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3}"},
    ):
        known = len(plans.kept)
        for _ in range(2):
            weft.matmul(a, b, **options)
        assert len(plans.kept) == known + 1, options
    for wrong in (1, 0, 1.0, "yes", None, [True]):
        with pytest.raises(WeftError, match="transpose_b must be True or False"):
            weft.matmul(a, b, transpose_b=wrong)


def test_a_result_over_an_operand_is_refused_each_time(driver):
    memory = new(driver, 128, 128)

    def part(row, column):
        made = new(driver, 64, 64, strides=(128, 1))
        made.__cuda_array_interface__["data"] = (address(memory) + 2 * (128 * row + column), False)
        return made

    for _ in range(2):
        a, b = part(0, 0), part(64, 0)
        weft.matmul(a, b, out=part(0, 64))  # beside a, and its ends lie over those of a
        weft.matmul(a, b, out=new(driver, 64, 64, strides=(128, 1)))
        with pytest.raises(WeftError, match="out must not overlap a, which is read while out is written"):
            weft.matmul(a, b, out=part(0, 32))
        with pytest.raises(WeftError, match="out must not overlap b"):
            weft.matmul(a, b, out=part(64, 0))


@pytest.mark.slow
def test_the_result_may_be_what_is_added_at_the_same_address_alone(driver):
    a, b, c = (new(driver, 64, 64) for _ in range(3))
    for _ in range(2):
        weft.matmul(a, b, c=c, beta=1.0, out=c)
        weft.matmul(a, b, out=c, epilogue=weft.Epilogue(residual=c))
        moved = new(driver, 64, 64)
        moved.__cuda_array_interface__["data"] = (address(c) + 128, False)
        with pytest.raises(WeftError, match=r"out must not overlap c, .* element for element"):
            weft.matmul(a, b, c=c, beta=1.0, out=moved)
    assert len(driver.launched) == 4


@pytest.mark.sampled(12)
@pytest.mark.parametrize("number", [Decimal(1), 1 + 0j, np.True_, np.complex64(1), "0.0"], ids=repr)
@pytest.mark.parametrize("option", ["alpha", "beta"])
def test_what_equals_a_number_of_a_plan_is_not_taken_for_it(driver, option, number):
    a, b, c = (new(driver, 64, 64) for _ in range(3))
    for known in (1.0, 0.0):
        weft.matmul(a, b, c=c, **{"beta": 1.0, option: known})
    with pytest.raises(WeftError, match=f"{option} must be a real number"):
        weft.matmul(a, b, c=c, **{"beta": 1.0, option: number})


def test_what_looks_like_an_epilogue_or_scales_is_refused_with_a_plan_too(driver):
    a, b, bias = new(driver, 64, 64), new(driver, 64, 64), new(driver, 64)
    weft.matmul(a, b, epilogue=weft.Epilogue(bias=bias))
    with pytest.raises(WeftError, match=r"epilogue must be a weft\.Epilogue, or .* got SimpleNamespace"):
        weft.matmul(a, b, epilogue=SimpleNamespace(bias=bias, activation=None, residual=None))
    for scales in (iter([None, None]), {1: None, 2: None}, "ab"):
        with pytest.raises(WeftError, match="scales must be a pair"):
            weft.matmul(a, b, scales=scales)


def test_functions_of_one_code_share_a_plan_until_what_they_read_changes(driver):
    a, b, bias, factors = new(driver, 64, 64), new(driver, 64, 64), new(driver, 64), [2.0]

    def product(number, **options):
        return weft.matmul(
            a, b, epilogue=lambda x, row, column, bias: (x * number * factors[0] + bias, x), **options
        )

    for _ in range(3):
        first, second = product(3.0, extra={"bias": bias})
        assert first.address != second.address and first.shape == second.shape == (64, 64)
    assert len(plans.kept) == 1 and len(driver.launched) == 3
    ((key, plan),) = plans.kept._known.items()
    queued = []
    plans.kept.add(key, replace(plan, queue=lambda _, *addresses: queued.append(addresses) or 0))
    first, second = product(3.0, extra={"bias": bias})
    assert queued == [(address(a), address(b), first.address, address(bias), second.address)]
    product(3, extra={"bias": new(driver, 64)})
    product(3.0, extra={"bias": bias}, out_dtype="f32")
    factors[0] = 1.0
    product(3.0, extra={"bias": bias})
    assert len(plans.kept) == 4
    for _ in range(2):  # results of the caller are checked each time
        out = new(driver, 64, 64), new(driver, 64, 64)
        assert product(3.0, extra=(bias,), out=out) == out
        with pytest.raises(WeftError, match=r"out must not overlap out\[1\], which is written, too"):
            product(3.0, extra=(bias,), out=(out[0], out[0]))


def test_plans_keep_nothing_that_a_function_holds(driver):
    a, b, held = new(driver, 64, 64), new(driver, 64, 64), np.ones(3)

    def made(array):
        return lambda x, row, column, other=array: x * array.shape[0] * other.shape[0]

    function = made(held)
    for each in (function, function, functools.wraps(function)(lambda x, row, column: x)):
        weft.matmul(a, b, epilogue=each)
    assert len(plans.kept) == 2
    before = weakref.ref(held)
    del held, function, each
    gc.collect()
    assert before() is None


@pytest.mark.slow
def test_zeros_of_either_sign_have_kernels_of_their_own(driver):
    a, b = new(driver, 64, 64), new(driver, 64, 64)
    for alpha in (0.0, -0.0):
        weft.matmul(a, b, alpha=alpha)
    assert product_kernel.compiled.cache_info().currsize == 2


class Handle:
    """An object that tells a stream, or tries."""

    def __init__(self, **told):
        vars(self).update(told)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "stream",
    [
        -1,
        2**64,
        10**5000,
        True,
        Handle(cuda_stream="x"),
        Handle(cuda_stream=-1),
        Handle(ptr=None),
        Handle(__cuda_stream__=3),
        Handle(__cuda_stream__=lambda: (0,)),
    ],
    ids=lambda stream: type(stream).__name__,
)
def test_an_object_that_is_not_a_stream_is_refused_with_and_without_a_plan(driver, stream):
    a, b = new(driver, 64, 64), new(driver, 64, 64)
    for _ in range(2):
        with pytest.raises(WeftError, match=r"stream must (be a stream|have a)"):
            weft.matmul(a, b, stream=stream)
        weft.matmul(a, b)


class Raises:
    """Equals nothing, is neither true nor false, and has no hash."""

    def __hash__(self):
        raise KeyError("hash")

    def __bool__(self):
        raise KeyError("bool")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("option", ["alpha", "beta", "out_dtype", "schedule", "transpose_a", "stream", "c"])
def test_options_that_raise_are_refused(driver, option):
    with pytest.raises(WeftError):
        weft.matmul(new(driver, 64, 64), new(driver, 64, 64), **{option: Raises()})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("module", ["torch", "jax", "jaxlib.array", "cupy", None, 5])
def test_a_type_of_any_module_is_refused(driver, module):
    kind = type("ndarray", (), {"__module__": module, "data": 1, "device": 2, "__dlpack__": 3})
    b = new(driver, 64, 64)
    for a, other in ((kind(), b), (b, kind()), (kind(), kind())):
        with pytest.raises(WeftError, match=r"weft\.matmul: [ab]: "):
            weft.matmul(a, other)


def test_types_that_come_and_go_are_not_kept(driver):
    def call():
        kind = type("Passing", (GpuArray,), {})
        a, b = kind(driver, 0, 64, 64), kind(driver, 0, 64, 64)
        weft.matmul(a, b)
        return weakref.ref(kind)

    gone = call()
    gc.collect()
    assert gone() is None


def test_a_result_for_views_has_memory(driver):
    given = [new(driver, 64, 64) for _ in range(2)]
    found = [weft.matmul(*map(arrays.view, given)) for _ in range(2)]
    assert all(address >= MEMORY for address in (made.address for made in found))


@pytest.mark.slow
def test_epilogues_are_told_apart_by_what_they_add(driver):
    a, b = new(driver, 64, 64), new(driver, 64, 64)
    given = [
        {},
        {"bias": new(driver, 64)},
        {"bias": new(driver, 64), "activation": "relu"},
        {"residual": new(driver, 64, 64)},
        {"activation": "relu"},
    ]
    for number, each in enumerate(given, 1):
        for _ in range(2):
            weft.matmul(a, b, epilogue=weft.Epilogue(**each))
        assert len(plans.kept) == number
    weft.matmul(a, b, epilogue=weft.Epilogue(bias=new(driver, 64)))
    assert len(plans.kept) == len(given)


def test_plans_are_bounded_and_the_newest_stay():
    known = Plans(most=8)
    for number in range(100):
        known.add(number, SimpleNamespace(number=number))
        assert len(known) <= 8 and known.get(number).number == number
    assert known.get(0) is None


def test_threads_multiply_at_the_same_time(driver):
    failed = []

    def work(number):
        try:
            for _ in range(50):
                a, b = new(driver, 64, 128), new(driver, 128, 96)
                assert weft.matmul(a, b, stream=number).shape == (64, 96)
        except (WeftError, AssertionError) as error:
            failed.append(error)

    weft.matmul(new(driver, 64, 128), new(driver, 128, 96))
    driver.stack = [100]
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(driver.launched) == 201 and len(plans.kept) == 1


def alpha_on(driver, gpu=0, *shape, offset=0):
    """A new array of f32."""
    made = new(driver, *(shape or (1,)), gpu=gpu, offset=offset)
    made.__cuda_array_interface__["typestr"] = "<f4"
    return made


def test_an_alpha_in_memory_is_part_of_a_plan_by_its_kind(driver, patch):
    keys = []
    add = plans.kept.add
    patch.setattr(plans.kept, "add", lambda key, plan: keys.append(key) or add(key, plan))
    a, b, out = new(driver, 64, 128), new(driver, 128, 96), new(driver, 64, 96)
    for _ in range(3):  # other arrays of the same kind
        weft.matmul(a, b, out=out, alpha=alpha_on(driver))
    assert len(plans.kept) == 1
    for alpha in (1.0, 2.0, 2):
        weft.matmul(a, b, out=out, alpha=alpha)
    assert [len(key[0]) for key in keys] == [12, 3, 3, 3]
    weft.matmul(a, b, out=out, alpha=alpha_on(driver, offset=4))
    assert len(plans.kept) == 5 and len(driver.launched) == 7


def test_a_kernel_gets_the_address_of_its_alpha(driver, monkeypatch):
    kernels, of = [], product_kernel.of
    monkeypatch.setattr(
        product_kernel, "of", lambda *args, **rest: kernels.append(of(*args, **rest)) or kernels[-1]
    )
    a, b, out = (new(driver, 64, 64) for _ in range(3))
    weft.matmul(a, b, out=out, alpha=alpha_on(driver))
    (kernel,) = kernels
    names = kernel.launch.parameters
    driver.sizes = [128 if name.startswith("map") else 8 for name in names]
    alpha = alpha_on(driver)
    weft.matmul(a, b, out=out, alpha=alpha)
    given = dict(zip(names, driver.given[-1], strict=True))
    assert given["argument 3: pointer"] == word(address(alpha)) and len(plans.kept) == 1


def test_an_alpha_of_another_device_is_refused(driver):
    a, b = new(driver, 64, 128), new(driver, 128, 96)
    for alpha in (alpha_on(driver, 1), np.ones(1, np.float32)):
        with pytest.raises(WeftError, match="arrays must be on one"):
            weft.matmul(a, b, alpha=alpha)

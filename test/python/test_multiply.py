"""`weft.matmul` on arrays on the CPU, in the emulator if there is no GPU."""

import sys
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects import tile
from weft.dialects.schedule import Schedule, Types, WarpgroupSchedule
from weft.launch import libraries
from weft.multiply import product_kernel

OWN = WarpgroupSchedule((64, 16, 64), 1, 3)
RNG = np.random.default_rng(0)


def small(*shape: int, dtype: object = np.float16) -> np.ndarray:
    """Integers whose sums are exact."""
    return RNG.integers(-1, 2, shape).astype(dtype)


def doubles(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float64)


def with_epilogue(**given: object) -> np.ndarray:
    return weft.matmul(small(4, 8), small(8, 4), epilogue=weft.Epilogue(**given))


def told(**given: object) -> np.ndarray:
    return weft.matmul(small(8, 8), small(8, 8), **given)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_100a", "sm_120a"])
def test_a_named_chip_multiplies_arrays_on_the_cpu(arch, monkeypatch):
    chips = []
    compiled = product_kernel.compiled
    monkeypatch.setattr(
        product_kernel, "compiled", lambda *given: chips.append(given[-1]) or compiled(*given)
    )
    a, b = small(24, 16, dtype=ml_dtypes.bfloat16), small(16, 8, dtype=ml_dtypes.bfloat16)
    np.testing.assert_array_equal(doubles(weft.matmul(a, b, arch=arch)), doubles(a) @ doubles(b))
    assert chips == [arch]


@pytest.mark.parametrize(
    ("arch", "said"),
    [
        ("sm_101a", r"arch must be a known chip \(sm_70, .* PTX 9.0 renamed it to 'sm_110a'"),
        (90, r"arch must be a known chip \(sm_70, .*, got '90'"),
        (["sm_90a"], r"arch must be a known chip \(sm_70, "),
    ],
)
def test_a_chip_that_there_is_not_is_refused(arch, said):
    with pytest.raises(weft.WeftError, match=f"weft.matmul: {said}"):
        told(arch=arch)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("transpose_a", [False, np.True_])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_transposes_come_from_arguments_and_from_strides(transpose_a, transpose_b):
    a, b = small(24, 40), small(40, 56)
    want = a.astype(np.float64) @ b.astype(np.float64)
    given = a.T if transpose_a else a, b.T if transpose_b else b
    for each in (given, tuple(np.ascontiguousarray(x) for x in given)):
        found = weft.matmul(*each, transpose_a=transpose_a, transpose_b=transpose_b)
        assert found.dtype == np.float16 and (found == want).all()


def test_out_is_written_and_returned():
    a, b, out = small(16, 32), small(32, 24), np.full((16, 24), np.nan, np.float32)
    assert weft.matmul(a, b, out=out) is out
    assert (out == a.astype(np.float64) @ b.astype(np.float64)).all()


@pytest.mark.slow
def test_alpha_beta_and_what_they_scale():
    a, b = small(16, 32), small(32, 24)
    c, out = small(16, 24, dtype=np.float32), small(16, 24, dtype=np.float32)
    product, before = a.astype(np.float64) @ b.astype(np.float64), out.copy()
    found = weft.matmul(a, b, c=c, alpha=0.5, beta=2.0, out_dtype="f32")
    assert (found == 0.5 * product + 2 * c).all()
    assert (weft.matmul(a, b, out=out, beta=1.0) == product + before).all()
    assert (weft.matmul(a, b, c=c, beta=0, alpha=np.float32(0.5)) == 0.5 * product).all()


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (np.float16, np.float16),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
        (np.float32, np.float32),
        (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16),
        (np.int8, np.int32),
    ],
)
def test_what_a_product_of_each_type_has(dtype, result):
    a, b = small(32, 64, dtype=dtype), small(48, 64, dtype=dtype)
    found = weft.matmul(a, b, transpose_b=True)
    assert found.dtype == result
    assert (found.astype(np.float64) == a.astype(np.float64) @ b.T.astype(np.float64)).all()


def test_an_epilogue_of_everything():
    a, b, c = small(24, 40), small(40, 56), small(24, 56)
    bias, residual = small(56, dtype=np.float32), small(24, 56, dtype=ml_dtypes.bfloat16)
    epilogue = weft.Epilogue(bias=bias, activation="relu", residual=residual)
    found = weft.matmul(a, b, c=c, beta=2.0, epilogue=epilogue, out_dtype="f32")
    total = a.astype(np.float64) @ b.astype(np.float64) + 2.0 * c.astype(np.float64) + bias
    assert (found == np.maximum(total, 0) + residual.astype(np.float64)).all()


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("given", [{"bias": 16}, {"activation": "relu"}, {"residual": (8, 16)}])
def test_an_epilogue_of_one_thing(given):
    a, b = small(8, 32, dtype=np.int8), small(16, 32, dtype=np.uint8)
    b = np.abs(b).astype(np.uint8)
    arrays = {
        k: v if k == "activation" else small(*np.atleast_1d(v), dtype=np.int32) for k, v in given.items()
    }
    found = weft.matmul(a, b, transpose_b=True, epilogue=weft.Epilogue(**arrays))
    total = a.astype(np.int64) @ b.T.astype(np.int64) + arrays.get("bias", 0)
    total = np.maximum(total, 0) if "activation" in given else total
    assert found.dtype == np.int32 and (found == total + arrays.get("residual", 0)).all()


def test_a_result_of_fp8():
    a, b = small(16, 32, dtype=ml_dtypes.float8_e4m3fn), small(32, 32, dtype=ml_dtypes.float8_e4m3fn)
    found = weft.matmul(a, b, transpose_b=True, out_dtype="f8E4M3FN")
    assert found.dtype == ml_dtypes.float8_e4m3fn
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    assert (found == want.astype(np.float32).astype(ml_dtypes.float8_e4m3fn)).all()


def test_out_may_be_what_is_added_but_overlap_nothing_else():
    a, b, c = small(32, 32), small(32, 32), small(32, 32, dtype=np.float32)
    want = doubles(a) @ doubles(b) + c
    assert (weft.matmul(a, b, c=c, beta=1.0, out=c) == want).all()
    want = doubles(a) @ doubles(b) + c
    assert (weft.matmul(a, b, out=c, epilogue=weft.Epilogue(residual=c)) == want).all()
    memory = small(64, 96)
    a, out = memory[:32, :32], memory[:32, 32:64]
    assert (weft.matmul(a, b, out=out) == doubles(a) @ doubles(b)).all()
    for shared in (memory[:32, 31:63], memory[31:63, 32:64], out, out.T):
        for name, given in {"a": (shared, b), "b": (b, shared)}.items():
            with pytest.raises(
                weft.WeftError, match=f"out must not overlap {name}, which is read while out is"
            ):
                weft.matmul(*given, out=out)
    with pytest.raises(weft.WeftError, match=r"out must not overlap c, .* element for element"):
        weft.matmul(a, b, c=memory[1:33, 32:64], beta=1.0, out=out)
    many = small(3, 32, 32)
    with pytest.raises(weft.WeftError, match="out must not overlap c"):
        weft.matmul(small(3, 32, 32), b, c=many[0], beta=1.0, out=many)
    with pytest.raises(weft.WeftError, match="out must not overlap bias"):
        weft.matmul(a, b, out=out, epilogue=weft.Epilogue(bias=out[0]))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
def test_vectors_as_matrices_need_no_transpose(dtype):
    a, x, y = small(24, 40, dtype=dtype), small(40, 1, dtype=dtype), small(1, 9, dtype=dtype)
    for left, right in ((a, x), (x, y), (y.T, x.T), (y, y.T), (x.T, a.T), (x.T, a.T[:, :1]), (y[:, :1], y)):
        assert (weft.matmul(left, right) == doubles(left) @ doubles(right)).all()
    assert (weft.matmul(x, a.T, transpose_a=True) == doubles(x).T @ doubles(a).T).all()


@pytest.mark.parametrize("enabled", [True, False])
def test_gradients_that_would_be_lost_are_refused(monkeypatch, enabled):
    class Tensor(np.ndarray):
        requires_grad = True

    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: enabled))
    weights = small(8, 8).view(Tensor)
    assert libraries.of(weights).wants_gradients(weights) is enabled
    assert not libraries.of(small(8, 8)).wants_gradients(small(8, 8))
    if enabled:
        with pytest.raises(weft.WeftError, match=r"b must not require gradients, .* b\.detach\(\)"):
            weft.matmul(small(8, 8), weights)


def test_a_single_row_may_have_any_stride():
    a, b = small(1, 64), small(64, 32)
    assert a[::-1].strides[0] < 0
    assert (weft.matmul(a[::-1], b) == doubles(a) @ doubles(b)).all()


def test_a_schedule_of_ones_own():
    a, b = small(40, 64), small(64, 32)
    assert (weft.matmul(a, b, schedule=OWN) == doubles(a) @ doubles(b)).all()


def test_a_schedule_as_text():
    text = "{block = array<i64: 64, 16, 64>, warpgroups = 1, stages = 3}"
    a, b = small(40, 64), small(64, 32)
    assert (weft.matmul(a, b, schedule=text) == doubles(a) @ doubles(b)).all()
    with (
        weft.Module() as module,
        module.func("f", [weft.memref("?x?", t) for t in ("f16", "f16", "f32")]) as matrices,
    ):
        tile.matmul(*matrices, schedule=text)
    assert "array<i64: 64, 16, 64>" in str(module)
    numbers = WarpgroupSchedule((np.int64(64), 16, 64), np.int32(1), 3)
    assert (weft.matmul(a, b, schedule=numbers) == doubles(a) @ doubles(b)).all()


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("{block = 3", "expected '}'"),
        ("{stages = 3, warpgroups = 1}", "schedule must have the field 'block'"),
        (
            {"stages": 3},
            'or text ("{block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3}"), got dict',
        ),
        (
            3,
            "schedule must be a WmmaSchedule, a Schedule, a DirectSchedule, a TmaMmaSchedule",
        ),
        (
            WarpgroupSchedule((64, 64, 64), 1, 2.5),
            "schedule field 'stages' must be an integer, got 2.5",
        ),
        (WarpgroupSchedule((64, 64, 64), 1, "1"), "field 'stages' must be an integer, got '1'"),
        (WarpgroupSchedule((64, 64, 64), True, 2), "field 'warpgroups' must be an integer, got True"),
        (WarpgroupSchedule((64, 64, 64), 1, 2**70), "field 'stages' must be an integer, got 118059"),
        (WarpgroupSchedule((64, 64, 64), 1, 2, swap="no"), "field 'swap' must be True or False, got 'no'"),
        (
            WarpgroupSchedule([64, 64, 64], 1, 2),
            "field 'block' must be a tuple of 3 integers, got [64, 64, 64]",
        ),
        (WarpgroupSchedule((64.0, 64, 64), 1, 2), "field 'block' must be a tuple of 3 integers, got (64.0,"),
        (WarpgroupSchedule((64, 64), 1, 2), "field 'block' must be a tuple of 3 integers, got (64, 64)"),
        (Schedule((64, 64, 64), 4, 3), "field 'warps' must be a tuple of 2 integers, got 4"),
    ],
)
def test_what_is_no_schedule_is_refused(schedule, message):
    with pytest.raises(weft.WeftError) as refused:
        told(schedule=schedule)
    assert message in str(refused.value)
    with (
        weft.Module() as module,
        module.func("f", [weft.memref("?x?", t) for t in ("f16", "f16", "f32")]) as matrices,
        pytest.raises(weft.WeftError) as refused,
    ):
        tile.matmul(*matrices, schedule=schedule)
    assert message in str(refused.value)


def test_kernels_are_compiled_once(monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", "0")  # where another process may have left it
    made = []
    compile_ = product_kernel.kernel.compile_shared
    monkeypatch.setattr(product_kernel.kernel, "compile_shared", lambda *a: made.append(1) or compile_(*a))
    product_kernel.compiled.cache_clear()
    for _ in range(3):
        weft.matmul(small(24, 32), small(32, 16))
    assert len(made) == 1


def test_who_asks_for_a_kernel_does_not_show_in_it():
    """So that other programs find it in the cache."""
    made, types = [], Types("bf16", "bf16", "bf16")
    schedule = WarpgroupSchedule((64, 32, 64), 1, 2)
    for _ in range(2):
        product_kernel.compiled.cache_clear()
        made.append(product_kernel.plain(types, schedule, "sm_90a").ptx)
    product_kernel.compiled.cache_clear()
    made.append(product_kernel.plain(types, schedule, "sm_90a").ptx)
    assert made[0] == made[1] == made[2]
    assert Path(__file__).name not in made[0]


def test_who_asks_for_a_kernel_that_there_is_not_is_told_where():
    too_deep = WarpgroupSchedule((64, 32, 64), 1, 40)
    with pytest.raises(weft.WeftError, match="shared memory") as refused:
        product_kernel.plain(Types("bf16", "bf16", "bf16"), too_deep, "sm_90a")
    assert refused.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weft.matmul(small(4, 8), small(9, 4)), "a and b must have the same K, got 4 x 8 and 9 x 4"),
        (lambda: weft.matmul(small(4, 8), small(9, 8)), ": pass transpose_b=True"),
        (
            lambda: weft.matmul(small(), small(4, 4)),
            "a must have at least one dimension, got a single number",
        ),
        (lambda: weft.matmul(small(4, 8), small(8, 4), out=small(4, 5)), "out must be 4 x 4, got 4 x 5"),
        (lambda: weft.matmul(small(4, 8), small(8, 4), beta=1.0), "beta must have a c or an out to scale"),
        (lambda: weft.matmul(small(4, 8), small(8, 4, dtype=np.float32)), "must have one element type"),
        (lambda: weft.matmul(small(8, 8)[::2, ::2], small(4, 4)), "a must have contiguous rows or columns"),
        (lambda: weft.matmul([[1.0]], small(1, 1)), "expected an array"),
        (lambda: weft.matmul(small(4, 8), small(8, 4), out=small(4, 4), out_dtype="f32"), "of out_dtype f32"),
        (
            lambda: told(out_dtype="float33"),
            "out_dtype must be one of f32, f16, bf16, i32, f64, f8E4M3FN, f8E5M2, got 'float33'",
        ),
        (lambda: told(out_dtype="i16"), "out_dtype must be one of f32, "),
        (lambda: told(out_dtype=np.complex64), "got <class 'numpy.complex64'>"),
        (lambda: told(out=small(8, 0)), "out must be 8 x 8, got 8 x 0"),
        (
            lambda: weft.matmul(small(8, 8)[::-1], small(8, 8)),
            "weft.matmul: strides of a must not be negative, got (-8, 1): copy it",
        ),
        (lambda: told(out=small(8, 8)[::-1]), "strides of out must not be negative"),
        (lambda: weft.matmul(small(4, 8), small(8, 4), alpha=np.inf), "alpha must be finite"),
        (lambda: weft.matmul(small(4, 8), small(8, 4), c=small(4, 4)), "beta must be given with c"),
        (lambda: told(alpha="2"), "alpha must be a real number or an array of f32, got '2'"),
        (lambda: told(alpha=None), "alpha must be a real number or an array of f32, got None"),
        (lambda: told(beta=1j), "beta must be a real number, got 1j"),
        (lambda: told(beta=np.ones(3)), "beta must be a real number, got ndarray"),
        (lambda: told(alpha=10**400), "alpha must be finite in f32, got 1000"),
        (lambda: told(alpha=float("nan")), "weft.matmul: alpha must be finite in f32, got nan"),
        (lambda: told(transpose_b="yes"), "transpose_b must be True or False, got 'yes'"),
        (lambda: told(transpose_a=1), "transpose_a must be True or False, got 1"),
        (lambda: told(promote=None), "promote must be True or False, got None"),
        (lambda: told(stream="x"), "stream must be a stream of PyTorch or CuPy, or a handle, got str"),
        (lambda: with_epilogue(bias=small(5)), "bias must be 4 elements, got 5"),
        (lambda: with_epilogue(bias=small(1, 4)), "bias must be 4 elements, got 1 x 4"),
        (
            lambda: with_epilogue(bias=small(8)[::2]),
            "bias must have contiguous elements, got strides (2,): copy it",
        ),
        (lambda: with_epilogue(residual=small(4)), "residual must be 4 x 4, got 4"),
        (lambda: with_epilogue(bias=small(4, dtype=np.int16)), "bias must have elements of f32, f16, "),
        (lambda: with_epilogue(activation="swish"), "one of relu, gelu, gelu_tanh, silu, got 'swish'"),
        (lambda: weft.matmul(small(4, 8), small(8, 4), epilogue="relu"), "a weft.Epilogue, or a function"),
        (lambda: weft.matmul(*(small(8, 8, dtype=np.int16),) * 2), "got i16: convert it to i8"),
        (
            lambda: weft.matmul(*(small(8, 8),) * 2, out=small(8, 8, dtype=np.int16)),
            "out must have elements of",
        ),
        (
            lambda: weft.matmul(small(8, 8, dtype=ml_dtypes.float8_e4m3fn), small(8, 64, dtype=np.bool_)),
            "a and b must have one element type",
        ),
        (
            lambda: weft.matmul(
                *(small(32, 16, dtype=np.uint8),) * 2,
                scales=(np.ones(512, ml_dtypes.float8_e8m0fnu),) * 2,
                kind="mxfp4",
                arch="sm_120a",
            ),
            "b must be N x K with contiguous rows (transpose_b=True), since tensor cores read f4E2M1FN "
            "K-major only, got 32 x 16 with strides (16, 1)",
        ),
        (
            lambda: weft.matmul(
                *(small(32, 32, dtype=np.int8),) * 2, transpose_a=True, transpose_b=True, schedule=OWN
            ),
            "A must be K-major (transpose_a = false), as wgmma reads i8, got an MN-major one",
        ),
        (lambda: with_epilogue(bias=[1.0] * 4), "weft.matmul: bias: expected an array"),
    ],
)
def test_what_makes_no_product_is_refused(call, message):
    with pytest.raises(weft.WeftError) as refused:
        call()
    assert message in str(refused.value)


def test_operands_of_two_types_are_refused_by_their_types():
    a, b = np.ones((64, 64), np.float16), np.ones((64, 64), np.int8)
    with pytest.raises(weft.WeftError, match="a and b must have one element type, got f16 and i8: convert"):
        weft.matmul(a, b)

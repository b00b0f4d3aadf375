"""Misuse of roles, rings, buffers and functions that is refused at the line that makes it."""

import inspect
import re

import numpy as np
import pytest
from language_mistakes import Mistakes, refused

import weft
import weft.language as w

case = Mistakes()


@case("a role can't be in a loop or branch of the GPU: put the loop or branch into the role")
def a_role_in_a_loop(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    for _ in w.range(2):
        with w.role():  # here
            ring.fill(a=a[0, 0])


@case("a ring must be filled by one thread, and each of the 2 warpgroups of this role has one")
def a_ring_that_two_warpgroups_fill(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role(warpgroups=2) as me:
        if me == 1:
            ring.fill(a=a[0, 0])
        ring.fill(a=a[0, 0])  # here


@case("ring 'a' is taken and never filled: call its fill")
def a_ring_that_nobody_fills(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role(), ring.take() as stage:  # here
        w.store(w.load(stage.a), d[0, 0])


@case("waits must be True or False, got 'no'")
def a_flag_that_is_none(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        ring.fill(a=a[0, 0])
    with w.role():
        ring.take(waits="no")  # here


@case("warpgroups of all roles must be at most 8, got 4 after 5")
def roles_of_too_many_warpgroups(y: w.Out["m n", w.f32]):
    with w.role(warpgroups=5):
        pass
    with w.role(warpgroups=4):  # here
        pass


@case("warp must be in 0..3, got 1.0")
def a_warp_that_is_no_integer(y: w.Out["m n", w.f32]):
    with w.role(), w.one_thread(warp=1.0):  # here
        pass


@case("like must be a fragment, got 3")
def a_like_that_is_a_number(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    with w.role():
        w.store(w.load(x[0, 0], like=3), y[0, 0])  # here


@case("a part of all 64 rows must begin at 0, got 64")
def a_part_after_the_end(y: w.Out["m n", w.f32]):
    buffer = w.shared(64, 32, w.f32)
    with w.role():
        w.store(w.zeros((64, 32)), buffer.rows(64, 64))  # here


@case(r"a part of a buffer of 64 x 64 w\.f16 must have a multiple of 64 columns, .* swizzled, got 32")
def a_part_of_a_swizzled_line(x: w.In["m n", w.f16]):
    w.shared(64, 64, w.f16).columns(32, 32)  # here


@case(r"a part of a buffer of 64 x 64 w\.f16 must have a multiple of 8 columns, .* swizzled, got 4")
def a_part_of_a_transposed_buffer(x: w.In["m n", w.f16]):
    w.shared(64, 64, w.f16).T.columns(4, 4)  # here


@case(r"a vector of 64 rows in layout .* \(line \d+\) doesn't fit to a tile of 128 x 64 in S\[")
def a_vector_of_fewer_rows(x: w.In["m n", w.f32]):
    with w.role():
        v = w.sum(w.load(x[0, 0], (64, 64)), axis=1)
        w.load(x[0, 0], (128, 64)) * v  # here


@case("a part must divide the 64 rows of the tile, got 65")
def a_part_of_a_transposed_tile(y: w.Out["m n", w.f32]):
    buffer = w.shared(32, 64, w.f16)
    with w.role():
        buffer.T.rows(0, 65)  # here


@case(r"10+ \.\.\. doesn't fit into w.f32")
def a_number_that_no_float_has(y: w.Out["m n", w.f32]):
    with w.role():
        w.store(w.full((64, 32), 10**400), y[0, 0])  # here


@case(r"70000\.0 doesn't fit into w\.f16, whose largest number is 65504")
def a_float_beyond_the_range_of_a_tile(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    with w.role():
        w.store(w.load(x[0, 0], (64, 64)) + 70000.0, y[0, 0])  # here


@case(r"inf doesn't fit into w\.e4m3, whose largest number is 448")
def an_infinity_of_e4m3(y: w.Out["m n", w.e4m3]):
    y[0, 0] = -w.inf  # here


@case("a size of 'y' must be one of m, n, or a number in 0..1, got 2")
def a_size_that_an_array_does_not_have(y: w.Out["m n", w.f32]):
    y.size(2)  # here


@case("Ring.ready takes 1 positional argument but 2 were given: write Ring.ready()")
def a_call_of_a_method_that_two_types_have(y: w.Out["m n", w.f32]):
    w.ring(2, a=(64, 64, w.f16)).ready(1)  # here


@case(r"an exponent must be 1, 2, 3 or 4, got .* array .*: use w.exp2\(w.log2\(x\) \* exponent\)")
def an_exponent_that_the_gpu_computes(y: w.Out["m n", w.f32]):
    y[0, 0] ** y[0, 1]  # here


@pytest.mark.parametrize("function, message", case.cases)
def test_misuse_is_refused_at_its_line(function, message):
    refused(function, message)


def an_empty_one(y: w.Out["m n", w.f32]):
    with w.role():
        pass


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("log", (-1.0,), "w.log has no result for -1.0 that a float can be"),
        ("exp", (1e4,), "w.exp has no result for 10000.0"),
        ("rcp", (0,), "w.rcp has no result for 0"),
        ("sigmoid", ("x",), "expects a number, got 'x'"),
        ("abs", ([1],), r"expects a number, got \[1\]"),
        ("ceil_div", (3, 0), "w.ceil_div expects a positive integer to divide by, got 0"),
        ("ceil_div", ((1,), 2), r"w.ceil_div expects integers, got \(1,\) and 2"),
        ("where", ("x", 1, 2), "w.where expects a condition, such as x < y, got 'x'"),
        ("from_lanes", ("x", (64, 64)), "w.from_lanes expects what w.by_lanes makes, got 'x'"),
        ("last", (1.5,), "axis must be 0, 1 or 2, got 1.5"),
        ("warp_any", (np.zeros(2),), "w.warp_any expects a condition of the GPU, got ndarray"),
        ("f32", (), r"w.f32 missing 1 required positional argument: 'value': write w.f32\(value\)"),
        ("zeros", ((64, 64), np.zeros((2, 2))), "expects an element type of w, got ndarray: there are w.f64"),
        ("Scalar", (3,), r"w.Scalar is a type for annotations, .*: w.i32\(value\) makes a number"),
        ("Buffer", (64,), "w.Buffer is a type for annotations, which can't be called: w.shared"),
        ("Buffer", (64, 64, w.f16), "w.Buffer is a type for annotations, which can't be called: w.shared"),
        ("Fragment", (1, (64, 64), w.f32), "w.Fragment is a type for annotations, .*: w.zeros, w.full"),
        ("Ring", (2,), "w.Ring is a type for annotations, which can't be called: w.ring"),
        ("Slot", (), "w.Slot is a type for annotations, which can't be called$"),
    ],
)
def test_values_that_functions_dont_take(name, arguments, message):
    @w.kernel
    def kernel(y: w.Out["m", w.i32]):
        with w.role():
            getattr(w, name)(*arguments)

    with pytest.raises(weft.WeftError, match=message) as raised:
        kernel.compile()
    assert raised.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize(
    "options, message",
    [
        ({"persistent": "x"}, "persistent must be a positive number of CTAs .*, or None, got 'x'"),
        ({"persistent": lambda: 0}, "persistent must be a positive number of CTAs .*, or None, got 0"),
        ({"grid": (1, 2, 3, 4)}, "a grid must have one to three numbers, got 4"),
        ({"grid": None}, "a grid must be computed from sizes and integers, got None"),
    ],
)
def test_wrong_options_have_the_line_of_the_kernel(options, message):
    with pytest.raises(weft.WeftError, match=message) as raised:
        w.kernel(**options)(an_empty_one).compile()
    where, lines = raised.value.diagnostics[0].location, inspect.getsourcelines(an_empty_one)
    assert (where.file, where.line) == (__file__, lines[1])


@pytest.mark.parametrize("given", ["x", 2, None, ["early"]])
def test_dependent_has_three_values(given):
    message = re.escape(f"dependent must be True, False or 'early', got {given!r}")
    with pytest.raises(weft.WeftError, match=message):
        w.kernel(dependent=given)(an_empty_one)


@pytest.mark.parametrize("use", [lambda: w.f32(1), lambda: w.sum(1.0), w.thread])
def test_values_of_the_gpu_are_made_in_kernels_only(use):
    """Not as the default of an argument, for example."""
    with pytest.raises(weft.WeftError, match="this can be called in a kernel only, while it is traced"):
        use()


def test_meta_parameters_that_are_sizes_fit():
    @w.kernel()
    def kernel(x: w.In["m N", w.f32], y: w.Out["m n", w.f32], *, N=64):
        with w.role():
            w.store(w.load(x[0, 0], (64, N)), y[0, 0])

    x = np.zeros((64, 8), np.float32)
    assert not kernel.emulate(x, x.copy(), N=8).findings
    message = "'N' is a size of 'x', 8, got N=16: leave it out, or give the size another name"
    with pytest.raises(weft.WeftError, match=message):
        kernel.emulate(x, x.copy(), N=16)


def test_conditions_of_tiles_are_checked():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.check((t < 9.0) & (w.sum(t, axis=1) < 9.0), "too large")

    x = np.zeros((64, 8), np.float32)
    assert not kernel.emulate(x).findings
    x[40, 3] = 9
    with pytest.raises(weft.WeftError, match="'too large' failed"):
        kernel.emulate(x)


@w.kernel
def copied(a: w.In["m k", w.f16], d: w.Out["m k", w.f16], *, by_threads=False):
    ring = w.ring(2, a=(64, 80, w.f16))
    with w.role(), ring.take() as stage:
        w.store(w.load(stage.a), d[0, 0])
    with w.role():
        if by_threads:
            with ring.write() as stage:
                w.store(w.load(a[0, 0], (64, 80)), stage.a)
        else:
            with w.one_thread():
                ring.fill(a=a[0, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch, by", [("sm_90a", "TMA"), ("sm_80", "cp.async")])
def test_rows_that_rings_cant_copy_need_a_wider_array_or_threads(arch, by):
    whole, d = np.arange(64 * 72).reshape(64, 72).astype(np.float16), np.zeros((64, 67), np.float16)
    a = whole[:, :67].copy()
    message = (
        rf"multiples of 16 bytes for {by}: make the array wider, to a multiple of 8 elements of w\.f16, and"
    )
    with pytest.raises(weft.WeftError, match=message):
        copied.emulate(a, d, arch=arch)
    for source, by_threads in ((whole[:, :67], False), (a, True)):
        d[:] = 0
        assert not copied.emulate(source, d, by_threads=by_threads, arch=arch).findings
        assert np.array_equal(d, a)


def test_tiles_and_vectors_are_printed_by_element():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.print("t", t, "of", w.cta())
            w.print("rows", w.max(t, axis=1))
            w.print("columns", w.argmax(t, axis=0))

    x = np.random.default_rng(0).integers(0, 99, (64, 8)).astype(np.float32)
    printed = kernel.emulate(x).printed.splitlines()
    assert sorted(printed) == sorted(
        [f"t [{i}, {j}] {x[i, j]:g} of 0" for i in range(64) for j in range(8)]
        + [f"rows [{i}] {x[i].max():g}" for i in range(64)]
        + [f"columns [{j}] {x[:, j].argmax()}" for j in range(8)]
    )


@pytest.mark.parametrize("by, arch", [("TMA", "sm_90a"), ("cp.async", "sm_80")])
def test_tiles_that_rings_copy_begin_at_multiples_of_16_bytes(by, arch):
    @w.kernel()
    def kernel(x: w.In["m n", w.f16], *, column=3):
        ring = w.ring(1, x=(64, 64, w.f16))
        with w.role(), ring.take():
            pass
        with w.role(), w.one_thread():
            ring.fill(x=x[0, column])

    message = rf"{by} copies tiles whose first column .* 8 elements of w\.f16, got column 3: copy by w\.load"
    with pytest.raises(weft.WeftError, match=message):
        kernel.compile(arch=arch)
    kernel.compile(arch=arch, column=8)


def test_tiles_that_tma_stores_begin_at_multiples_of_16_bytes():
    @w.kernel()
    def kernel(y: w.Out["m n", w.f32]):
        via = w.shared(64, 32, w.f32)
        with w.role():
            w.store(w.zeros((64, 32)), y[0, 6], via=via)

    with pytest.raises(weft.WeftError, match=r"TMA copies .* 4 elements of w\.f32, got column 6"):
        kernel.compile(arch="sm_90a")
    kernel.compile(arch="sm_80")

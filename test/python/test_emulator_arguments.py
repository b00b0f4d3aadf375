"""Arguments of launches in the emulator: anything illegal is refused with one sentence."""

import gc
import subprocess

import ml_dtypes
import numpy as np
import pytest
import warm_tools
from emulator_ptx import module

from weft import emulator
from weft.errors import WeftError
from weft.isa.chips import can_run
from weft.launch import arrays

KERNEL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .f32 f, .param .b8 s[16], .param .u32 u,
.param .align 64 .b8 m[128]) {
.reg .b64 %d<4>; ld.param.u64 %d1, [a]; st.global.u32 [%d1], 7; ret; }"""
MAP = {"dtype": "FLOAT16", "dims": (64, 64), "strides_bytes": (128,), "box": (16, 16)}


MAP_OPTIONS = ("dtype", "dims", "box", "swizzle", "interleave", "oob_fill", "l2_promotion")


def launch(number=None, value=None, **options):
    args = [np.zeros(16, np.int32), 1.0, bytes(16), 3, bytes(128)]
    if number is not None:
        args[number] = value
    emulator.Module(KERNEL).launch("k", **{"block": 32, "args": args} | options)


def refused(*given, **options):
    with pytest.raises(WeftError) as caught:
        launch(*given, **options)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    return str(caught.value)


OBJECT = object()
ARRAYS = {
    "objects": (np.array([OBJECT] * 16), "is an array of object, which"),
    "a structure of objects": (np.zeros(16, "O,i4"), "which isn't a numeric type"),
    "dates": (np.zeros(16, "M8[s]"), "which isn't a numeric type"),
    "text": (np.zeros(16, "U3"), "which isn't a numeric type"),
    "long text": (np.array(["a" * 100], np.dtypes.StringDType()), "which isn't a numeric type"),
    "the other order of bytes": (
        np.zeros(16, ">i4"),
        "is an array of >i4, whose bytes are swapped",
    ),
    "a mask": (np.ma.zeros(16), "is a masked array"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_are_no_numbers_are_refused(case):
    array, said = ARRAYS[case]
    assert said in refused(0, array)
    if case != "a mask":
        with pytest.raises(WeftError, match="field 8 of a Struct is an array"):
            emulator.Struct(16, {8: array})
    assert said in refused(4, emulator.TensorMap.tiled(array, **MAP))


def test_an_array_of_objects_keeps_its_objects():
    """In a process of its own, which the kernel's number in place of a pointer would end."""
    script = (
        "import gc, numpy as np; from weft import emulator, WeftError; a = np.array([object()])\n"
        "try: emulator.Module('''" + KERNEL.replace("st.global.u32", "st.global.u64") + "''').launch('k', "
        "args=[a, 1.0, bytes(16), 3, bytes(128)])\nexcept WeftError: pass\nprint(a); del a; gc.collect()"
    )
    done = subprocess.run(
        [warm_tools.folder() / "warm-python", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and "object object" in done.stdout, done.stderr[-2000:]


@pytest.mark.parametrize("dtype", ["f4,i4", ml_dtypes.bfloat16, np.complex64, "V4"])
def test_arrays_of_plain_bits_are_buffers(dtype):
    array = np.zeros(16, dtype)
    launch(0, array)
    assert array.view("i4")[0] == 7 and not array.view("i4")[1:].any()


@pytest.mark.parametrize("strides", [(2**40, 4), (16, 2**30), (-16, 4), (16, -4), (20, 4)])
def test_strides_that_leave_the_memory_are_refused(strides):
    """Their memory is no one's, or another's: the kernel would end the process."""
    array = np.lib.stride_tricks.as_strided(np.zeros((4, 4), np.int32), strides=strides)
    assert "reach beyond its memory" in refused(0, array)
    with pytest.raises(WeftError, match="reach beyond its memory"):
        launch(0, arrays.view(array).numpy())


@pytest.mark.parametrize("cut", [np.s_[::-1], np.s_[:, ::-2], np.s_[1:3, 1:], np.s_[:]])
def test_parts_of_an_array_are_buffers(cut):
    launch(0, np.zeros((4, 4), np.int32)[cut])
    launch(0, np.frombuffer(bytearray(64), np.int32))


def test_a_read_only_array_stays_as_it_is():
    array = np.zeros(16, np.int32)
    array.flags.writeable = False
    assert "read-only" in refused(0, array)


OTHERS = {
    "none": None,
    "text": "x",
    "a list": [1],
    "a dictionary": {1: 2},
    "an object": OBJECT,
    "a complex number": 1j,
    "a date": np.datetime64("2020"),
    "text of NumPy's": np.str_("abcd"),
    "a structure": np.void((1, OBJECT), "i4,O"),
    "a long number": 10**5000,
    "a function": refused,
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_values_are_refused_for_every_argument(case):
    value = OTHERS[case]
    for number in range(5):
        refused(number, value)
    matrix = np.zeros((64, 64), np.float16)
    calls = [
        lambda: emulator.Struct(value, {}),
        lambda: emulator.Struct(16, {0: value}),
        lambda: emulator.TensorMap(value, np.zeros(4)),
        *(lambda o=option: emulator.TensorMap.tiled(matrix, **MAP | {o: value}) for option in MAP_OPTIONS),
    ]
    for call in calls:
        with pytest.raises(WeftError) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": (-1, 1, 1)}, "grid must be in 1..2147483647 on x, got -1"),
        ({"grid": 2**40}, "grid must be in 1..2147483647 on x, got 1099511627776"),
        ({"grid": (1, 2**16, 1)}, "grid must be in 1..65535 on y, got 65536"),
        pytest.param(
            {"grid": 10**5000},
            "grid must be one to three whole numbers, got a number too long",
            id="long",
        ),
        ({"grid": (1.5, 1, 1)}, r"grid must be one to three whole numbers, got (1.5, 1, 1)"),
        ({"grid": "12"}, "grid must be one to three whole numbers, got '12'"),
        ({"grid": None}, "grid must be one to three whole numbers"),
        ({"block": 2**20}, "block must be in 1..1024 on x, got 1048576"),
        ({"block": (32, -32, 1)}, "block must be in 1..1024 on y, got -32"),
        ({"block": (1, 1, 1, 1)}, "block must be one to three whole numbers"),
        ({"cluster": 2**40}, "cluster must have 1..16 blocks"),
        ({"cluster": "x"}, "cluster must be one to three whole numbers"),
        ({"shared_bytes": -1}, "shared_bytes must be a whole number in 0..9223372036854775807, got -1"),
        ({"shared_bytes": 2**40}, "needs 1099511627776 bytes of shared memory"),
        ({"shared_bytes": 1.5}, "shared_bytes must be a whole number in 0..9223372036854775807, got 1.5"),
        (
            {"max_instructions": "many"},
            "max_instructions must be a whole number in 0..",
        ),
        ({"seed": -1}, "seed must be a whole number in 0..9223372036854775807, got -1"),
        ({"arithmetic": np.zeros(2)}, "arithmetic must be 'hardware' or 'exact', got ndarray"),
        ({"sanitize": np.zeros(2)}, "sanitize must be True or False, got ndarray"),
        ({"dependent": "no"}, "dependent must be True or False, got 'no'"),
        ({"ignore": "shared-race"}, "ignore must be a list of rules, got 'shared-race'"),
        ({"ignore": 3}, "ignore must be a list of rules, got 3"),
        ({"ignore": [3]}, "ignore must name rules of the sanitizer, got 3"),
        ({"ignore": ["shared-rage"]}, "got 'shared-rage'; did you mean 'shared-race'?"),
        ({"progress": 3}, "progress must be a function of two numbers, got 3"),
        ({"trace": 3}, "trace must be a path, got 3"),
        ({"trace": "/none/x.json"}, "cannot write the trace '/none/x.json': No such file or directory"),
        ({"args": None}, "args must be a list or a tuple, got NoneType"),
        ({"args": 3}, "args must be a list or a tuple, got int"),
    ],
)
def test_options_of_a_launch_that_cannot_be_are_refused(options, said):
    assert said in refused(**options)


def test_numbers_of_numpy_are_numbers():
    launch(grid=np.int64(2), block=np.array([32, 1, 1]), cluster=np.uint8(1), sanitize=np.bool_(False))


@pytest.mark.parametrize("name", [None, 3, ["k"], "x\ud800"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(WeftError):
        emulator.Module(KERNEL).launch(name)


@pytest.mark.parametrize("text", [None, 3, b"x", ["k"]])
def test_text_that_is_none_is_refused(text):
    with pytest.raises(WeftError, match="ptx must be text, got"):
        emulator.Module(text)
    gc.collect()


@pytest.mark.parametrize("value", [1.5, np.float32(1.5), np.float64(1.5), np.float16(1)])
def test_a_float_is_no_pointer_and_no_integer(value):
    for number in (0, 3):
        assert "is a float, but its parameter is an integer or a pointer, .u" in refused(number, value)


def test_an_array_is_no_number():
    text = KERNEL.replace(".param .f32 f", ".param .f64 f")
    with pytest.raises(
        WeftError, match=r"argument 1 of kernel 'k' is an array, but its parameter is a \.f64"
    ):
        emulator.Module(text).launch("k", args=[np.zeros(4), np.zeros(4), bytes(16), 3, bytes(128)])
    with pytest.raises(
        WeftError, match="argument 1 of kernel 'k' is an array, but its parameter has 4 bytes"
    ):
        emulator.Module(KERNEL).launch("k", args=[np.zeros(4), np.zeros(4), bytes(16), 3, bytes(128)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": 1.5}, "grid must be one to three whole numbers, got 1.5"),
        ({"block": 1.5}, "block must be one to three whole numbers, got 1.5"),
        ({"shared_bytes": 1.5}, "shared_bytes must be a whole number in 0.."),
        ({"max_instructions": -1}, "max_instructions must be a whole number in 0.."),
        ({"chip": "sm_999"}, "chip must be a known chip (sm_70,"),
        ({"chip": 90}, "chip must be a known chip (sm_70,"),
        ({"chip": "sm_90"}, "chip must be one that runs PTX for sm_100a, got sm_90"),
        ({"chip": "sm_103a"}, "chip must be one that runs PTX for sm_100a, got sm_103a"),
    ],
    ids=str,
)
def test_options_of_a_launch(options, said):
    assert said in refused(**options)


@pytest.mark.parametrize("given", [None, b"x"])
def test_a_module_is_text(given):
    with pytest.raises(WeftError, match="ptx must be text, got"):
        emulator.Module(given)


def test_which_chips_run_which_ptx():
    runs = {
        "sm_80": ("sm_80", "sm_90", "sm_90a", "sm_121a"),
        "sm_61": ("sm_70", "sm_90a"),
        "sm_90a": ("sm_90", "sm_90a"),
        "sm_100f": ("sm_100", "sm_100a", "sm_103", "sm_103a"),
        "sm_120f": ("sm_120", "sm_121"),
    }
    for target, chips in runs.items():
        assert all(can_run(chip, target) for chip in chips)
    for chip, target in (
        ("sm_80", "sm_86"),
        ("sm_120", "sm_100f"),
        ("sm_103", "sm_100a"),
        ("sm_100", "sm_103f"),
    ):
        assert not can_run(chip, target)


@pytest.mark.parametrize(
    "given, said",
    [
        ((None, [], 1), "run must be a function"),
        ((lambda seed, left: None, [], 1), "run must return the report of its launch, got None"),
        ((print, None, 1), "arrays must be a list of arrays"),
        ((print, [1], 1), "arrays must be a list of arrays"),
        ((print, [], 1.5), "seeds must be a whole number"),
        ((print, [], -1), "seeds must be a whole number"),
        ((print, [], 1, "x"), "max_seconds must be a number"),
        ((print, [], 1, float("nan")), "max_seconds must be a number"),
    ],
)
def test_what_explore_cannot_take_is_refused(given, said):
    with pytest.raises(WeftError, match=said):
        emulator.explore(*given)


def test_explore_takes_arrays_that_nothing_may_write():
    text = """.visible .entry k(.param .u64 x, .param .u64 y) {
      .reg .b32 %r; .reg .b64 %a<2>; ld.param.u64 %a0, [x]; ld.param.u64 %a1, [y];
      ld.global.u32 %r, [%a0]; atom.global.add.u32 %r, [%a1], %r; ret;
    }"""
    x, y = np.broadcast_to(np.uint32(7), 4), np.zeros(4, np.uint32)
    kernel = emulator.Module(f".version 8.4\n.target sm_80\n.address_size 64\n{text}")
    explored = emulator.explore(lambda seed, _: kernel.launch("k", args=[x, y], seed=seed), [x, y], 2)
    assert (explored.seeds, explored.error, explored.findings, y[0]) == (2, None, (), 7)


def test_rules_are_ignored_by_their_old_names_too():
    text = module(
        ".visible .entry k(.param .u64 x) { .reg .b32 %r; .reg .b64 %a;"
        " ld.param.u64 %a, [x]; st.global.u32 [%a], %r; ret; }"
    )
    x = np.zeros(1, np.uint32)
    assert [finding.rule for finding in text.launch("k", args=[x]).findings] == ["uninitialized-register"]
    assert not text.launch("k", args=[x], ignore=["uninitialised-register"]).findings

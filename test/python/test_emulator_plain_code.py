"""Functions that `plain_code` compiles compute what Python does."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from weft.emulator import native
from weft.emulator.compiled import plain_code
from weft.emulator.compiled.plain_code import Value, bit_count, set_bits
from weft.emulator.records import Record


class Numbers(Record):
    COUNT = ""
    SMALL = "i1"
    WORDS = "u4"
    LONG = "i8"
    PAIR = "", 2
    RESULT = ""


STEP = 3


def compiled(function, fields):
    """The result of a function of host code, with arrays and numbers as the fields of a record."""
    numbers = np.zeros(sum(each.count for each in Numbers), np.int64)
    for name, value in fields.items():
        array = isinstance(value, np.ndarray)
        numbers[Numbers[name] : Numbers[name] + Numbers[name].count] = value.ctypes.data if array else value
    made = native.addresses(plain_code.text({"f": function}, Numbers), ["f"], code=2, whole=True)["f"]
    result = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(made)(numbers.ctypes.data)
    return result, int(numbers[Numbers.RESULT])


def _rest(s: Value, at: int) -> Value:
    return s.LONG[at:]


def _first(s: Value, least: int) -> int:
    for at in range(s.COUNT):
        if s.SMALL[at] < 0:
            continue
        if s.SMALL[at] >= least:
            return at
    return -1


def _swap(s: Value, a: int, b: int) -> None:
    if a == b:
        return
    s.LONG[a], s.LONG[b] = s.LONG[b], s.LONG[a]


def arithmetic(s: Value) -> int:
    total = 0
    for at in range(1, s.COUNT):
        a, b = s.SMALL[at], s.WORDS[at]
        total += a // STEP - a % STEP + (a * b >> 2 ^ ~a) + min(a, b - 5) + max(-a, 1) + bit_count(b)
        total += (a < b) + (-3 <= a < 9) << (b & 7)
        s.WORDS[at] += a
    s.RESULT = total
    return _first(s, 40)


def control(s: Value) -> int:
    seen, at = False, 0
    while at < s.COUNT:
        if s.WORDS[at] & 1 or (seen and s.SMALL[at] > 100):
            seen = not seen
            at += 1
            continue
        rest = _rest(s, at)
        rest[0] = rest[0] + (at if seen else -at)
        if s.SMALL[at] == 77:
            break
        for bit in set_bits(s.WORDS[at] & 31):
            _swap(s, at, bit % s.COUNT)
        at += STEP - 2
    s.RESULT = s.PAIR[0] * 1000 + s.PAIR[1]
    return at


@pytest.mark.parametrize("function", [arithmetic, control])
def test_numbers_arrays_and_control(function):
    rng = np.random.default_rng(0)
    for _ in range(20):
        count = int(rng.integers(2, 40))
        arrays = {
            "SMALL": rng.integers(-128, 128, count).astype(np.int8),
            "WORDS": rng.integers(0, 1 << 20, count).astype(np.uint32),
            "LONG": rng.integers(-1000, 1000, count),
        }
        copies = {name: array.astype(np.int64).tolist() for name, array in arrays.items()}
        plain = SimpleNamespace(COUNT=count, PAIR=[3, 4], RESULT=0, **copies)
        if function is control:  # a slice of a list is a copy
            plain.LONG = np.array(plain.LONG)
        expected = function(plain), plain.RESULT
        assert compiled(function, {"COUNT": count, "PAIR": [3, 4], **arrays}) == expected
        for name, array in arrays.items():
            assert array.tolist() == list(getattr(plain, name))


def test_other_statements_are_refused():
    def raising(s: Value) -> int:
        with s:
            return 1

    with pytest.raises(AttributeError, match="_do_with"):
        plain_code.text({"f": raising}, Numbers)

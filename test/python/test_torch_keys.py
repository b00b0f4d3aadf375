"""The compiled function that computes the key of a launch from PyTorch's tensors, and its fallback."""

import importlib.util
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch isn't installed")
SCRIPT = """
import gc, sys
import torch
from weft.launch import libraries, plans

describe = plans.describer()

def key(tensor):
    found = describe(tensor, tensor, None)
    return found and found[0]

def refused(tensor):
    try:
        return describe(tensor, tensor, None) is None and plans.one_by_one(tensor, tensor, None) is None
    except RuntimeError:
        return True

# Types that DLPack doesn't tell apart, some of which only newer releases have.
every = {kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}
keys = {}
for kind in every:
    try:
        tensor = torch.empty((4, 4), dtype=kind)
    except RuntimeError:
        continue
    if key(tensor) is not None:
        assert keys.setdefault(key(tensor), kind) is kind, (kind, keys[key(tensor)])
assert {torch.int8, torch.uint8, torch.bfloat16, torch.float16, torch.float8_e4m3fn} <= set(keys.values())

whole = torch.zeros(128, 64)
part = whole[64:]
assert key(whole) is not None and key(part) is not None
assert plans.one_by_one(whole, part, None)
whole.untyped_storage().resize_(0)
assert refused(whole) and refused(part)

# Memory below any that most programs have.
import ctypes, mmap
find = ctypes.CDLL(None, use_errno=True).mmap
find.restype = ctypes.c_void_p
find.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
low = find(1 << 36, 1 << 16, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
assert low == 1 << 36
memory = torch.frombuffer((ctypes.c_byte * (1 << 16)).from_address(low), dtype=torch.bfloat16).view(256, 128)
assert describe(memory[100:], memory, None)[1:] == (low + 100 * 128 * 2, low, 0)
assert refused(torch._efficientzerotensor((4, 4)))
assert key(torch.view_as_complex(torch.ones(4, 4, 2)).conj().imag) is None

a = torch.zeros(4, 4)
for given in ((a, a, None), (a, a, a, None, a, None), (a, 5, None), (a, a.bool(), None)):
    before = [sys.getrefcount(each) for each in (a, torch.Tensor, torch.float32)]
    for _ in range(5000):
        describe(*given)
    after = [sys.getrefcount(each) for each in (a, torch.Tensor, torch.float32)]
    assert all(abs(x - y) < 10 for x, y in zip(before, after)), given

# Each size and stride of up to seven dimensions counts, for as many arrays as a call has.
deep = torch.zeros(2, 3, 4, 5, 2, 3, 4)
seven = {key(deep.transpose(i, i + 1)) for i in range(6)} | {key(deep), key(deep.flatten(5))}
assert None not in seven and len(seven) == 8
assert len(describe(*[deep] * 13)[0]) == 13 * 8 * (2 + 2 * 7)
assert key(deep[None]) is None and plans.one_by_one(deep[None], deep, None)
assert plans.one_by_one(torch.empty(0, 4), torch.empty(4, 0), None)

# A tensor that wants gradients beside an `a` of another library.
find = libraries.stream_finder([object(), torch.zeros(4, requires_grad=True)], 0)
assert find(5) is None
with torch.no_grad():
    assert find(5) == 5
"""


def test_tensors_that_differ_have_other_keys_and_those_without_memory_none():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr

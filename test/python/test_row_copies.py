"""The kernel that copies rows anywhere to rows that TMA takes, in the emulator with its sanitizer."""

import numpy as np
import pytest
from machine_code import local_memory

from weft.launch import arrays
from weft.multiply import copy_kernels, row_copies
from weft.multiply.row_copies import Rows

RNG = np.random.default_rng(3)


def some(*shape, dtype=np.uint16):
    return RNG.integers(0, 255, shape).astype(dtype)


def copied(unit, *matrices):
    """The kernel, and whether each copy has the elements of its matrix."""
    rows = [Rows.of(arrays.view(each)) for each in matrices]
    sources = [
        np.lib.stride_tricks.as_strided(each.view(np.uint8), (of.span,), (1,))
        for each, of in zip(matrices, rows, strict=True)
    ]
    targets = [np.full(of.nbytes, 77, np.uint8) for of in rows]
    kernel = copy_kernels.kernel_of(rows, unit, "sm_90a")
    report = kernel.emulate(*row_copies.arguments(rows, sources, targets), grid=row_copies.grid(rows))
    assert not report.findings
    same = []
    for each, of, target in zip(matrices, rows, targets, strict=True):
        to = of.padded(arrays.view(each), 0)
        assert all(stride * to.bits // 8 % 16 == 0 for stride in to.strides[:-1])
        found = arrays.strided(target.view(each.dtype), to.shape, to.strides)
        same.append(bool((found == each).all()))
    return kernel, same


CASES = [
    (2, [some(33, 67)]),
    (2, [some(130, 333), some(57, 333)]),
    (2, [some(3, 5, 67), some(7, 67)]),
    (2, [some(40, 71)[3:, 3:60], some(2, 20, 31)[:, :, :29]]),
    (2, [some(1, 1)]),
    (2, [some(9, 3, 5).transpose(1, 0, 2)]),
    (1, [some(33, 67, dtype=np.uint8), some(3, 1, dtype=np.uint8), some(5, 600, dtype=np.uint8)]),
    (4, [some(33, 67, dtype=np.uint32), some(5, 261, dtype=np.uint32)]),
]


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("unit", "matrices"), CASES, ids=map(str, range(len(CASES))))
def test_every_row_is_copied(unit, matrices):
    kernel, same = copied(unit, *matrices)
    assert all(same) and not local_memory(kernel)


def test_vectors_beyond_i32_are_numbered_too(monkeypatch):
    monkeypatch.setattr(copy_kernels, "_MOST_NUMBERED", 10)
    kernel, same = copied(2, some(2, 33, 67), some(41, 67))
    assert all(same) and "div.u64" in kernel.ptx


def test_rows_far_apart_and_in_batches():
    view = arrays.view(np.zeros((3, 4, 300), np.float16)[:, :, :299])
    assert Rows.of(view) == Rows(11 * 600 + 598, 2400, 600, 3, 4, 598, 640)
    assert Rows.of(view).ctas == 1 and Rows.of(view).vectors == 12 * 38
    narrow = arrays.view(np.zeros((4, 3), np.float16))
    assert Rows.of(narrow) == Rows(24, 0, 6, 1, 4, 6, 16)
    assert row_copies.grid([Rows.of(view), Rows.of(narrow)]) == (2, 1, 1)


def test_matrices_of_one_launch_share_ctas_out():
    first, second = some(260, 75), some(300, 75)  # several CTAs each
    kernel, same = copied(2, first, second, some(5, 7))
    assert all(same) and kernel.launch.dependent

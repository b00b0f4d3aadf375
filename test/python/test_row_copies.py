"""The kernel that copies rows anywhere to rows that TMA takes, in the emulator with its sanitizer."""

import numpy as np
import pytest
from machine_code import local_memory

from weft.launch import arrays
from weft.multiply import launches
from weft.multiply.kernels.copies import copy_rows
from weft.multiply.launches import Rows

RNG = np.random.default_rng(3)


def some(*shape, dtype=np.uint16):
    return RNG.integers(0, 255, shape).astype(dtype)


def copied(matrices, transposed=(0, 0), **meta):
    """The kernel that copies one matrix or two, and whether each copy has the elements of its matrix."""
    kinds = zip(map(arrays.view, matrices), transposed, strict=False)
    rows = [Rows.transposing(view) if transposes else Rows.of(view) for view, transposes in kinds]
    arguments, made = launches.copy_arguments(rows)
    targets = [np.full(of.target.shape, 77, np.uint8) for of in rows]
    for number, target in ((1, targets[0]), (3, targets[-1])):
        arguments[number] = target.view(f"u{arguments[number].bits // 8}")
    report = copy_rows.emulate(*arguments, arch="sm_90a", **made | meta)
    assert not report.findings
    same = []
    for each, of, target in zip(matrices, rows, targets, strict=True):
        to = of.copy
        assert all(stride * to.bits // 8 % 16 == 0 for stride in to.strides[:-1])
        found = arrays.strided(target.reshape(-1).view(each.dtype), to.shape, to.strides)
        same.append(bool((found == (each.swapaxes(-1, -2) if of.size else each)).all()))
    return copy_rows.compile(*arguments, arch="sm_90a", **made | meta), same


CASES = [
    [some(33, 67)],
    [some(130, 333), some(57, 333)],
    [some(3, 5, 67), some(7, 67)],
    [some(40, 71)[3:, 3:60], some(2, 20, 31)[:, :, :29]],
    [some(1, 1)],
    [some(9, 3, 5).transpose(1, 0, 2)],
    [some(33, 67, dtype=np.uint8), some(3, 1, dtype=np.uint8)],
    [some(5, 600, dtype=np.uint8)],
    [some(33, 67, dtype=np.uint32), some(5, 261, dtype=np.uint32)],
]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("matrices", CASES, ids=map(str, range(len(CASES))))
def test_every_row_is_copied(matrices):
    kernel, same = copied(matrices)
    assert all(same) and not local_memory(kernel)


def test_vectors_beyond_i32_are_numbered_too():
    kernel, same = copied([some(2, 33, 67), some(41, 67)], wide=True)
    assert all(same) and "div.u64" in kernel.ptx


def test_rows_far_apart_and_in_batches():
    memory = np.zeros((3, 4, 300), np.float16)
    of = Rows.of(arrays.view(memory[:, :, :299]))
    assert of.source.shape == (3, 4, 598) and of.source.strides == (2400, 600, 1)
    assert (of.pitch, of.vectors, of.target.shape) == (640, 12 * 38, (3, 4, 640))
    narrow = Rows.of(arrays.view(memory[0, :, :3]))
    assert narrow.source.shape == (1, 4, 6) and (narrow.pitch, narrow.vectors) == (16, 4)
    arguments, meta = launches.copy_arguments([of, narrow])
    assert len(arguments) == 4
    assert meta == {"elements": (2, 2), "transposed": (False, False), "batched": True, "wide": False}
    assert [each.shape for each in arguments] == [(3, 4, 299), (3, 4, 320), (1, 4, 3), (1, 4, 8)]
    assert arguments[0].strides == (1200, 300, 1) and arguments[2].dtype == "ui16"
    alone, _ = launches.copy_arguments([narrow])
    assert alone[:2] == alone[2:] == arguments[2:]


def test_matrices_of_one_launch_share_ctas_out():
    kernel, same = copied([some(260, 75), some(300, 75)])  # several CTAs each
    assert all(same) and kernel.launch.dependent

"""Changes by one thread, and conversions that round once, of `weft.language` on the GPU."""

import pytest
from gpu_marks import FP8, GPU, with_marks
from test_language_conversions import check_conversions, converted
from test_language_one_thread import check_once, once


def on_gpu(kernel):
    return lambda *arrays, **options: kernel(*arrays, **options, on="gpu")


@with_marks(GPU)
@pytest.mark.parametrize("fills", [False, True])
def test_one_thread_changes_elements_once(fills):
    check_once(on_gpu(once), fills)


@with_marks(GPU)
@pytest.mark.parametrize("target", ["f32", "f16", "bf16"])
def test_conversions_round_once(target):
    check_conversions(on_gpu(converted), target)


@with_marks(FP8)
@pytest.mark.parametrize("target", ["e4m3", "e5m2"])
def test_conversions_to_fp8_round_once(target):
    check_conversions(on_gpu(converted), target)

"""Operands of test_blackwell_gpu.py in the emulator, by `weft.matmul`."""

import pytest
from gpu_marks import CHIP
from test_blackwell_gpu import FORMATS, wrong


@pytest.mark.slow
@pytest.mark.skipif(bool(CHIP), reason="weft.matmul uses the emulator only without a GPU")
@pytest.mark.parametrize("case", FORMATS[:2], ids=str)
def test_block_scaled_products(case):
    assert wrong(case, case.fitted) is None

"""Every product of the matrix that a GPU of sm_90a runs: its own, and those of older chips, whose PTX ptxas
assembles for it.
"""

import pytest
from gpu_marks import SM_90A
from matrix_cases import Stated, every

import weft
from weft.compiler import ptxas

pytestmark = SM_90A

CHIP = "sm_90a"
OLDER = ("sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90")


def assembled_here(kernel: weft.Kernel) -> None:
    """Makes the kernel's machine code that of this GPU."""
    if kernel.chip != CHIP:
        kernel.compiled.__dict__["assembled"] = ptxas.assemble(kernel.ptx, CHIP)


def wrong(stated: Stated) -> str | None:
    """What is wrong with a product on the chips whose PTX runs here."""
    return stated.wrong("gpu", [chip for chip in stated.chips if chip in (CHIP, *OLDER)], assembled_here)


@pytest.mark.parametrize("stated", list(every()), ids=str)
def test_each_product_that_a_gpu_runs(stated: Stated) -> None:
    assert wrong(stated) is None

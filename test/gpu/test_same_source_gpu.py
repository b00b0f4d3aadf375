"""The products that `test_tcgen05_kernels.py` multiplies for sm_100a in the emulator, from the same source on
a GPU of sm_90a: the chip's own schedule, and the same bounds.
"""

from dataclasses import replace

import pytest
from gpu_marks import SM_90A
from launches import complaint
from products import Case, Product
from test_tcgen05_kernels import ALL

from weft.dialects.schedule import FAMILIES, Types

pytestmark = SM_90A


def without_schedule(made: Product) -> Product:
    """The product as a user writes it for any chip."""
    return replace(made, schedule=None)


def is_legal(types: Types) -> bool:
    """Whether a kernel of sm_90a reads A and B as they are stored."""
    return any("sm_90a" in each.chips(types) and each.layout_complaint(types) is None for each in FAMILIES)


PRODUCTS = list(dict.fromkeys((without_schedule(made), case) for made, case in ALL))
LEGAL = [each for each in PRODUCTS if is_legal(each[0].types)]


@pytest.mark.parametrize(("made", "case"), LEGAL, ids=str)
def test_the_same_product_is_right_on_sm_90a(made: Product, case: Case) -> None:
    assert complaint(made, case, made.compiled(), "gpu") is None

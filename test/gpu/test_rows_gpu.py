"""Every shape and type that an H200 multiplies, in wmma, mma.sync, mma.sp and wgmma: each runs in a kernel of
its own and gives NumPy's numbers. test/python/test_rows.py checks what needs no GPU.
"""

import pytest
from gpu_marks import SM_90A, with_marks
from row_cases import GROUPS, compiled


@with_marks(SM_90A)
@pytest.mark.parametrize("group", GROUPS)
def test_the_numbers_are_those_of_numpy(group):
    faults = []
    for number, case in enumerate(GROUPS[group]()):
        arrays = case.arrays()
        compiled(group)[f"k{number}"](*arrays, on="gpu")
        faults.append(case.fault(arrays))
    assert [fault for fault in faults if fault] == []

"""Products of every kind on a GPU against float64: odd shapes, operands that look for faults, results that
are poisoned before each run, and memory around them that must stay as it was. `weft.reference` states the
bounds.
"""

import multiprocessing
import os

import pytest
from gpu_marks import SM_90A
from launches import examined
from product_cases import cases

pytestmark = SM_90A

CASES = dict(cases())
_MOST_PROCESSES = 16
_SECONDS = 120  # of one product, beyond which a kernel waits for ever
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.fixture(scope="module")
def outcomes(request):
    """What is wrong with each product that is asked for: processes beside this one compile and run them."""
    asked = [
        item.callspec.params["product"] for item in request.session.items if item.module is request.module
    ]
    count = min(os.cpu_count() or 1, _MOST_PROCESSES, len(asked))
    with pytest.MonkeyPatch.context() as patch:
        for name in _THREADS:  # of NumPy, which would take all cores in each process
            patch.setenv(name, "1")
        with multiprocessing.get_context("spawn").Pool(count) as pool:
            yield {each: pool.apply_async(examined, (each, CASES[each], "gpu")) for each in asked}


@pytest.mark.parametrize("product", CASES, ids=str)
def test_results_agree_with_float64(product, outcomes):
    wrong = outcomes[product].get(timeout=_SECONDS)
    assert not wrong, "\n".join(wrong)

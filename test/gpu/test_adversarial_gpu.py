"""Products of every kind on a GPU against float64: odd shapes, operands that look for faults, results that
are poisoned before each run, and memory around them that must stay as it was. `weft.reference` states the
bounds.
"""

import functools
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
    """What is wrong with a product: processes beside this one compile and run all that are asked for. Where
    workers of pytest-xdist share the tests, each has a share of the processes, and begins with a product
    when its test does: processes for all of them would not fit in the memory of a GPU.
    """
    asked = [
        item.callspec.params["product"] for item in request.session.items if item.module is request.module
    ]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    count = max(min(os.cpu_count() or 1, _MOST_PROCESSES, len(asked)) // workers, 1)
    with pytest.MonkeyPatch.context() as patch:
        for name in _THREADS:  # of NumPy, which would take all cores in each process
            patch.setenv(name, "1")
        with multiprocessing.get_context("spawn").Pool(count) as pool:

            @functools.cache
            def begun(product):
                return pool.apply_async(examined, (product, CASES[product], "gpu"))

            for product in asked if workers == 1 else ():
                begun(product)
            yield begun


@pytest.mark.parametrize("product", CASES, ids=str)
def test_results_agree_with_float64(product, outcomes):
    wrong = outcomes(product).get(timeout=_SECONDS)
    assert not wrong, "\n".join(wrong)

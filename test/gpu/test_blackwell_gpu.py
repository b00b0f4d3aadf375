"""The products that tests multiply for chips of Blackwell in the emulator, on a GPU of such a chip: the same
schedules and bounds.
"""

import numpy as np
import pytest
import test_language_tensor_memory as tensor_memory
import test_shared_accumulators
import test_tcgen05_block_scales as block_scaled
from gpu_marks import BLACKWELL, CHIP, TENSOR_MEMORY, with_marks
from launches import complaint
from products import Case, Product
from test_tcgen05_kernels import ALL

import weft
from weft import reference
from weft.dialects.schedule import AnySchedule, TensorMemorySchedule
from weft.launch import arrays
from weft.target import Target

SCALED = [*block_scaled.cases(), *(case for case, _ in test_shared_accumulators.cases())]
FORMATS = [case for case in block_scaled.cases() if case.schedule == block_scaled.SCHEDULES[0]]


@with_marks(TENSOR_MEMORY)
@pytest.mark.parametrize(("made", "case"), ALL, ids=str)
def test_products(made: Product, case: Case) -> None:
    assert isinstance(made.schedule, TensorMemorySchedule)
    if (reason := made.schedule.complaint(made.types, Target.of(CHIP))) is not None:
        pytest.skip(f"{CHIP}: {reason}")
    assert complaint(made, case, weft.compile(made.module(), CHIP), "gpu") is None


@with_marks(TENSOR_MEMORY)
@pytest.mark.parametrize("case", SCALED, ids=str)
def test_block_scaled_products(case: block_scaled.Case) -> None:
    assert wrong(case, case.fitted) is None


@with_marks(BLACKWELL)
@pytest.mark.parametrize("case", FORMATS, ids=str)
def test_block_scaled_products_with_the_schedule_that_is_chosen(case: block_scaled.Case) -> None:
    assert wrong(case, None) is None


@with_marks(TENSOR_MEMORY)
def test_a_kernel_of_the_language_with_tensor_memory() -> None:
    a, b = tensor_memory.random(1000, 1096), tensor_memory.random(520, 1096)
    d = np.zeros((1000, 520), np.float32)
    tensor_memory.gemm(a, b, d, N=256, stages=4, on="gpu")
    assert np.allclose(d, a.astype(float) @ b.astype(float).T, atol=1e-2)


@with_marks(TENSOR_MEMORY)
@pytest.mark.skipif(CHIP not in ("", "sm_100a"), reason="the example is for sm_100a")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(130, 300), (1, 5), (2100, 4000)])
def test_attention_with_a_role_for_each_step(queries: int, keys: int, causal: bool) -> None:
    q, k, v = tensor_memory.attended(queries, keys)
    for _ in range(3):  # the roles may run in any order
        o = np.zeros_like(q)
        tensor_memory.ATTENTION(q, k, v, o, 128**-0.5, causal=causal, on="gpu")
        assert tensor_memory.is_attention(o, q, k, v, causal)


def wrong(case: block_scaled.Case, schedule: AnySchedule | None) -> str | None:
    """What is wrong with a block-scaled product of `weft.matmul`."""
    a, b = case.operands()
    out = np.full((*case.batch, *case.shape[:2]), np.nan, arrays.numpy_dtype(case.d))
    scales = a.tiled_scales, b.tiled_scales
    weft.matmul(a.elements, b.elements, out=out, transpose_b=True, scales=scales, schedule=schedule)
    for at in np.ndindex(*case.batch):
        given = {"scale_a": scales[0][at], "scale_b": scales[1][at]}
        expected = reference.product(
            a.elements[at], b.elements[at], transpose_b=True, dtype=out.dtype, **given
        )
        if not (compared := expected.compare(out[at])).passed:
            return str(compared)
    return None

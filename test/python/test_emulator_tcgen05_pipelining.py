"""Which operations of tensor memory run in order although their thread waits for none of them."""

import emulator_tensor as tensor
import numpy as np
import planted_faults
import pytest

from weft import emulator
from weft.isa.tcgen05.pipelining import METADATA, SCALE, SOURCE, TARGET, A, D, Use, in_order

SUM, OTHER, ELSEWHERE = (Use("mma", (128, n, at), D) for n, at in ((64, 0), (32, 0), (64, 32)))
READS = [Use("mma", (128, 64, 0), operand) for operand in (A, SCALE, METADATA)]
COPY, ROWS = Use("cp", ("32x128b",)), Use("cp", ("4x256b",))
MOVED_FROM, MOVED_TO = Use("shift", operand=SOURCE), Use("shift", operand=TARGET)

PAIRS = [
    *[(SUM, SUM, True), (SUM, OTHER, False), (SUM, ELSEWHERE, False)],
    *[(SUM, read, False) for read in READS],
    *[(read, SUM, True) for read in READS],
    *[(read, COPY, True) for read in READS],
    *[(first, use, True) for first in (COPY, ROWS, MOVED_TO) for use in (SUM, *READS)],
    *[(SUM, COPY, False), (SUM, ROWS, False), (COPY, COPY, True)],
    *[(SUM, MOVED_FROM, True), (SUM, MOVED_TO, True), (COPY, MOVED_FROM, False), (COPY, MOVED_TO, False)],
    *[(MOVED_TO, ROWS, True), (MOVED_TO, COPY, False)],
    *[(MOVED_FROM, MOVED_TO, True), (MOVED_TO, MOVED_FROM, False)],
]


@pytest.mark.parametrize(("first", "second", "ordered"), PAIRS)
def test_order_of_two_operations_of_a_thread(first, second, ordered):
    assert in_order(first, second) is ordered


MMA = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%t], %d1, %d2, %r5, %p3;"
SMALLER = "mov.u32 %r11, 0x08020490; @%p1 tcgen05.mma.cta_group::1.kind::f16 [%t], %d1, %d2, %r11, %p3;"
SHIFTED_SUM = "add.u32 %r11, %t, 8; @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r11], %d1, %d2, %r5, %p3;"
CP = "@%p1 tcgen05.cp.cta_group::1.128x256b [%t], %d1;"
SHIFT = "@%p1 tcgen05.shift.cta_group::1.down [%t];"


def rules(before):
    """What the sanitizer finds if these instructions are issued before the product."""
    text = planted_faults.source("accumulate.sm_100a")
    assert text.count(MMA) == 1
    module = emulator.Module(text.replace(MMA, f"{before} {MMA}"))
    launch = planted_faults.launch_options("accumulate.sm_100a")
    return {f.rule for f in module.launch("k", args=[np.zeros(128, np.uint32)], **launch).findings}


@pytest.mark.parametrize(
    ("before", "found"),
    [
        (MMA, set()),
        (SMALLER, {"tmem-race"}),
        (SHIFTED_SUM, {"tmem-race"}),
        (CP, set()),
        (f"{MMA} {CP}", {"tmem-race"}),
        (f"{CP} {MMA} {SHIFT}", set()),
        (f"{CP} {SHIFT}", {"tmem-race"}),
        (f"{MMA} {SHIFT}", set()),
        (f"{MMA} {SHIFT} {SHIFT}", {"tmem-race"}),
    ],
)
def test_operations_before_a_product(before, found):
    assert rules(before) == found


def test_an_operation_that_was_awaited_may_have_any_shape():
    commit = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"
    body = f"""
      mov.u32 %r5, 0; mov.pred %p3, 0;
      add.u32 %r299, %t, %b; mov.u32 %r0, 7;
      tcgen05.st.sync.aligned.32x32b.x8.b32 [%r299], {{%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0}};
      tcgen05.wait::st.sync.aligned;
      tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
      {SHIFT} {commit}
    W:
      mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 0;
      @!%p6 bra W;
      tcgen05.fence::after_thread_sync;
      {SHIFT} {commit}
    V:
      mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 1;
      @!%p6 bra V;
      tcgen05.fence::after_thread_sync;"""
    tensor.launch(body, {})

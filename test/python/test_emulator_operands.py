"""Every instruction of the emulator refuses additional operands."""

import pytest
from emulator_ptx import HEAD

from weft import emulator

OPENING = """.visible .entry k() { .shared .align 16 .b8 s[64];
.reg .pred %p<3>; .reg .b16 %h<3>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b64 %l<3>; .reg .f64 %d<3>;
.reg .b128 %q;
L: T: .branchtargets L;
"""
# One instruction of each kind, except products.
EXAMPLES = """
abs.s32 %r1, %r1; add.u32 %r1, %r1, %r1; add.f32 %f1, %f1, %f1; addc.u32 %r1, %r1, %r1; and.b32 %r1, %r1, %r1
activemask.b32 %r1; alloca.u64 %l1, %l1, 16; applypriority.global.L2::evict_normal [%l1], 128
atom.global.add.u32 %r1, [%l1], %r1; bar.arrive 1, 64; bar.cta.arrive 1, 64; bar.cta.red.popc.u32 %r1, 0, %p1
bar.cta.sync 0; bar.red.popc.u32 %r1, 0, %p1; bar.sync 0; bar.warp.sync -1; barrier.arrive 1, 64
barrier.cluster.arrive; barrier.cluster.wait; barrier.cta.arrive 1, 64; barrier.cta.red.popc.u32 %r1, 0, %p1
barrier.cta.sync 0; barrier.red.popc.u32 %r1, 0, %p1; barrier.sync 0; bfe.u32 %r1, %r1, 1, 2
bfi.b32 %r1, %r1, %r1, 1, 2; bfind.u32 %r1, %r1; bmsk.clamp.b32 %r1, 1, 2; bra L; brev.b32 %r1, %r1; brkpt
brx.idx %r1, T; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [s], [s+16]
clz.b32 %r1, %r1; cnot.b32 %r1, %r1; copysign.f32 %f1, %f1, %f1; cos.approx.f32 %f1, %f1
cp.async.ca.shared.global [s], [%l1], 4; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%l1], 16, [s+16]
cp.async.bulk.prefetch.L2.global [%l1], 16; cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%l1, {%r1}]
cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%l1, {%r1}], [s]
cp.async.commit_group; cp.async.mbarrier.arrive.shared.b64 [s]; cp.async.wait_all; cp.async.wait_group 0
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%l1], [s], 16
cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%l1, {%r1}], [s]
createpolicy.fractional.L2::evict_last.b64 %l1; cvt.u64.u32 %l1, %r1; cvt.pack.sat.s16.s32 %r1, %r1, %r1
cvta.global.u64 %l1, %l1; discard.global.L2 [%l1], 128; div.u32 %r1, %r1, %r1
dp2a.lo.u32.u32 %r1, %r1, %r1, %r1
dp4a.u32.u32 %r1, %r1, %r1, %r1; elect.sync %r1|%p1, -1; ex2.approx.f32 %f1, %f1; exit; fence.acq_rel.gpu
fma.rn.f32 %f1, %f1, %f1, %f1; fns.b32 %r1, %r1, 1, 2; getctarank.u64 %r1, %l1; griddepcontrol.wait
isspacep.global %p1, %l1; ldu.global.u32 %r1, [%l1]; lg2.approx.f32 %f1, %f1
lop3.b32 %r1, %r1, %r1, %r1, 3; mad.lo.u32 %r1, %r1, %r1, %r1; mad24.lo.u32 %r1, %r1, %r1, %r1
madc.lo.u32 %r1, %r1, %r1, %r1; mapa.u64 %l1, %l1, 0; match.all.sync.b32 %r1|%p1, %r1, -1
match.any.sync.b32 %r1, %r1, -1; max.u32 %r1, %r1, %r1; mbarrier.arrive.shared.b64 %l1, [s]
mbarrier.arrive_drop.shared.b64 %l1, [s]; mbarrier.complete_tx.shared::cta.b64 [s], 4
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [s], 4; mbarrier.init.shared.b64 [s], 1
mbarrier.inval.shared.b64 [s]; mbarrier.pending_count.b64 %r1, %l1
mbarrier.test_wait.shared.b64 %p1, [s], %l1
mbarrier.try_wait.shared.b64 %p1, [s], %l1; membar.gl; min.u32 %r1, %r1, %r1; mov.u32 %r1, %r1
mul.lo.u32 %r1, %r1, %r1; mul24.lo.u32 %r1, %r1, %r1; nanosleep.u32 1; neg.s32 %r1, %r1; not.b32 %r1, %r1
or.b32 %r1, %r1, %r1; pmevent 1; popc.b32 %r1, %r1; prefetch.global.L2 [%l1]; prefetchu.L1 [%l1]
prmt.b32 %r1, %r1, %r1, %r1; rcp.rn.f32 %f1, %f1; red.global.add.u32 [%l1], %r1
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [s], %r1, [s+16]
redux.sync.add.u32 %r1, %r1, -1; rem.u32 %r1, %r1, %r1; rsqrt.approx.f32 %f1, %f1; sad.u32 %r1, %r1, %r1, %r1
selp.b32 %r1, %r1, %r1, %p1; set.eq.u32.u32 %r1, %r1, %r1; setmaxnreg.inc.sync.aligned.u32 64
shf.l.clamp.b32 %r1, %r1, %r1, 1; shfl.sync.idx.b32 %r1, %r1, 0, 31, -1; shl.b32 %r1, %r1, 1
shr.u32 %r1, %r1, 1; sin.approx.f32 %f1, %f1; slct.u32.s32 %r1, %r1, %r1, %r1; sqrt.rn.f32 %f1, %f1
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [s], %r1, [s+16]; stackrestore.u64 %l1
stacksave.u64 %l1
sub.u32 %r1, %r1, %r1; subc.u32 %r1, %r1, %r1; szext.clamp.u32 %r1, %r1, 1; tanh.approx.f32 %f1, %f1
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%l1], [s], 128
tensormap.replace.tile.rank.global.b1024.b32 [%l1], 1; testp.finite.f32 %p1, %f1; trap
vadd.u32.u32.u32 %r1, %r1, %r1; vset.u32.u32.eq %r1, %r1, %r1; vshl.u32.u32.u32.clamp %r1, %r1, %r1
vadd2.u32.u32.u32 %r1, %r1, %r1, %r1; vset4.u32.u32.eq %r1, %r1, %r1, %r1; vmad.u32.u32.u32 %r1, %r1, %r1, %r1
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32; tcgen05.wait::ld.sync.aligned
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned
tcgen05.cp.cta_group::1.128x256b [%r1], %l1; tcgen05.shift.cta_group::1.down [%r1]
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [s]; tcgen05.fence::before_thread_sync
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r1]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r1}
vote.sync.any.pred %p1, %p1, -1; xor.b32 %r1, %r1, %r1; ld.global.u32 %r1, [%l1]; st.global.u32 [%l1], %r1
setp.eq.u32 %p1, %r1, %r1; ret
wmma.load.a.sync.aligned.row.m8n8k4.f64 {%d1}, [%l1]
wmma.load.c.sync.aligned.row.m8n8k4.f64 {%d1, %d2}, [%l1]
wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%d1, %d2}, {%d1}, {%d1}, {%d1, %d2}
wmma.store.d.sync.aligned.row.m8n8k4.f64 [%l1], {%d1, %d2}
"""
LINES = [line.strip() for line in EXAMPLES.replace("\n", ";").split(";") if line.strip()]


def decode(instruction):
    text = HEAD.format(target="sm_100a") + OPENING + f"{instruction};\nret; }}"
    emulator.Module(text)._program("k", "sm_100a")


@pytest.mark.parametrize("line", LINES)
def test_more_operands_are_refused(line):
    decode(line)
    more = ", ".join(["%r8"] * 6)
    with pytest.raises(emulator.PtxError, match="operand"):
        decode(f"{line}{', ' if ' ' in line else ' '}{more}")

"""`tcgen05.alloc`, the order of work in tensor memory, and findings where the order is missing."""

import re

import emulator_tensor as tensor
import numpy as np
import planted_faults
import pytest
from emulator_ptx import module

from weft import emulator

HEAD = """
.visible .entry k(.param .u64 p_out)
{
  .reg .pred %p<8>; .reg .b32 %r<32>, %t, %i, %w; .reg .b64 %rd<8>; .shared .align 8 .b64 bar;
  .shared .align 4 .b32 slots[8];
  ld.param.u64 %rd0, [p_out]; mov.u32 %i, %tid.x; shr.u32 %w, %i, 5;
"""


def run(body, *, block=128, grid=1, findings=False, out=None, **more):
    out = np.zeros(8, np.uint32) if out is None else out
    report = module(HEAD + body + "\nret;\n}", tensor.TARGET).launch(
        "k", grid=grid, block=block, args=[out], **more
    )
    if not findings:
        assert not report.findings, report.findings
    return report, out


def rules(body, **more):
    report, _ = run(body, findings=True, **more)
    return [finding.rule for finding in report.findings]


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{}], {};\n"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 {}, {};\n"
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"


def test_columns_are_given_out_once():
    body = "".join(ALLOC.format(f"slots+{4 * n}", 128) for n in range(4)) + RELINQUISH
    body += "".join(
        f"ld.shared.u32 %r{n}, [slots+{4 * n}]; st.global.u32 [%rd0+{4 * n}], %r{n};" for n in range(4)
    )
    body += "".join(DEALLOC.format(f"%r{n}", 128) for n in range(4))
    _, out = run(body, block=32)
    assert sorted(out[:4].tolist()) == [0, 128, 256, 384]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_warp_waits_until_another_gives_columns_back(seed):
    body = f"""
      setp.eq.u32 %p0, %w, 0;
      @!%p0 bra SECOND;
      {ALLOC.format("slots", 512)}
      ld.shared.u32 %r0, [slots];
      bar.sync 1, 64;
      nanosleep.u32 1000;
      {DEALLOC.format("%r0", 512)}
      bra DONE;
    SECOND:
      bar.sync 1, 64;
      {ALLOC.format("slots+4", 256)}
      ld.shared.u32 %r1, [slots+4]; st.global.u32 [%rd0], 1;
      {RELINQUISH}
      {DEALLOC.format("%r1", 256)}
    DONE:"""
    _, out = run(body, block=64, seed=seed)
    assert out[0] == 1


def test_a_wait_for_columns_that_no_one_gives_back_is_told():
    body = ALLOC.format("slots", 512) + ALLOC.format("slots+4", 32)
    with pytest.raises(emulator.Deadlock, match=r"tcgen05.alloc.* for free columns of tensor memory"):
        run(body, block=32)


@pytest.mark.parametrize(
    ("exclusive", "wrong", "wanted"),
    [
        ("", (0, 16, 96, 1024), "a power of two in 32..512"),
        (".exclusive", (0, 16, 48, 544), "a multiple of 32 in 32..512"),
    ],
)
def test_counts_of_columns_that_cannot_be(exclusive, wrong, wanted):
    alloc = ALLOC.replace(".alloc", f".alloc{exclusive}")
    for count in wrong:
        message = rf"columns must be {wanted}, got {count}"
        with pytest.raises(emulator.PtxError, match=message):
            run(alloc.format("slots", count), block=32)
        with pytest.raises(emulator.Fault, match=message):
            run(f"mov.u32 %r0, {count};" + alloc.format("slots", "%r0"), block=32)


def test_alloc_after_the_permit_was_given_up():
    with pytest.raises(emulator.Fault, match="after tcgen05"):
        run(RELINQUISH + ALLOC.format("slots", 32), block=32)


def test_dealloc_of_what_was_not_allocated():
    with pytest.raises(emulator.Fault, match="the allocations are none"):
        run("mov.u32 %r0, 64;" + DEALLOC.format("%r0", 32), block=32)


def test_leaks_and_permits():
    assert rules(ALLOC.format("slots", 32) + RELINQUISH, block=32) == ["tmem-leaked"]
    kept = ALLOC.format("slots", 32) + "ld.shared.u32 %r0, [slots];" + DEALLOC.format("%r0", 32)
    assert rules(kept, block=32) == ["tmem-permit-kept"]


def test_use_without_an_allocation():
    body = (
        "mov.u32 %r1, 0; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r1}; tcgen05.wait::st.sync.aligned;"
    )
    assert rules(body, block=32) == ["tmem-unallocated"]


def test_reads_of_what_was_never_written():
    body = "add.u32 %r299, %t, %b;" + LOADED
    report = tensor.launch(body, {}, findings=True)
    assert [f.rule for f in report.findings] == ["uninitialized-tensor"]


STORED = """
  add.u32 %r299, %t, %b; mov.u32 %r0, 7;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r299], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
"""
SHIFTED = """
  @%p1 tcgen05.shift.cta_group::1.down [%t];
  @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
"""
AWAITED = """
W:
  mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 0;
  @!%p6 bra W;
  tcgen05.fence::after_thread_sync;
"""
LOADED = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r299]; tcgen05.wait::ld.sync.aligned;"


def test_a_load_after_the_commit_was_seen():
    tensor.launch(STORED + SHIFTED + AWAITED + LOADED, {})


def test_a_load_before_the_work_was_committed():
    report = tensor.launch(STORED + SHIFTED + LOADED, {}, findings=True)
    read, dealloc = [f for f in report.findings if f.rule == "tmem-race"]
    assert "is read before anything waits for line" in read.message
    assert "is deallocated before anything waits for line" in dealloc.message


def test_work_on_what_a_warp_stores_without_waiting():
    stored = STORED.replace("tcgen05.wait::st.sync.aligned;", "")
    report = tensor.launch(stored + SHIFTED + AWAITED, {}, findings=True)
    assert "tmem-race" in [f.rule for f in report.findings]


def test_work_on_what_other_warps_store_without_a_barrier():
    stored = STORED.replace("bar.sync 0;", "")
    report = tensor.launch(stored + SHIFTED + AWAITED, {}, findings=True)
    assert "tmem-race" in [f.rule for f in report.findings]


USES = [("mov.u32 %r1, 7;", {"tmem-race"}), ("add.u32 %r1, %r2, 7;", {"tmem-race", "tcgen05-in-flight"})]


@pytest.mark.parametrize(("use", "rules"), USES)
def test_a_store_after_a_load_without_a_wait(use, rules):
    loaded = LOADED.replace("tcgen05.wait::ld.sync.aligned;", "")
    again = f"{loaded} {use} tcgen05.st.sync.aligned.32x32b.x1.b32 [%r299], {{%r1}};"
    body = f"{STORED} {again} tcgen05.wait::st.sync.aligned; bar.sync 0;"
    report = tensor.launch(body, {}, findings=True)
    assert {f.rule for f in report.findings} == rules


def test_copies_of_loaded_registers_are_no_uses():
    """LLVM packs registers before the wait for them."""
    early = LOADED.replace("tcgen05.wait::ld", "mov.b64 %rd9, {%r2, %r2}; tcgen05.wait::ld")
    tensor.launch(f"{STORED} {early} add.u64 %rd9, %rd9, 1;", {})
    copied = early.replace("tcgen05.wait::ld", "add.u64 %rd9, %rd9, 1; tcgen05.wait::ld")
    (finding,) = tensor.launch(STORED + copied, {}, findings=True).findings
    assert finding.rule == "tcgen05-in-flight" and "add uses registers of the tcgen05.ld" in finding.message


@pytest.mark.parametrize(
    ("use", "rules"), [("add.u32 %r8, %r7, 1;", set()), ("mov.u32 %r8, %r7;", {"tmem-race"})]
)
def test_a_use_waits_for_its_load_in_kernels_without_fences(use, rules):
    """Triton and CuTe DSL emit such kernels."""
    text = planted_faults.source("accumulate.sm_100a").replace("add.u32 %r8, %r7, 1;", use)
    bare = re.sub(r"tcgen05\.(wait|fence|st)[.:].*;", "", text)
    report = emulator.Module(bare).launch("k", grid=1, block=128, args=[np.zeros(128, np.uint32)])
    assert {f.rule for f in report.findings} == rules


SHIFTED_BY_A_PAIR = """
  add.u32 %r299, %t, %b; mov.u32 %r0, 7; mov.u16 %h0, 3; setp.eq.and.u32 %p2, %c, 0, %p1;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r299], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  tcgen05.fence::after_thread_sync;
  @%p2 tcgen05.shift.cta_group::2.down [%t];
  @%p2 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], %h0;
"""


def pair_kernel():
    """Both CTAs of a pair load what one thread has shifted."""
    cluster = ".explicitcluster .reqnctapercluster 2"
    body = SHIFTED_BY_A_PAIR + AWAITED + LOADED
    return tensor.kernel(body, columns=32, params=(), cluster=cluster, group=2)


def pair_findings(text):
    return module(text, tensor.TARGET).launch("k", grid=2, block=128, args=[]).findings


def test_a_pair_deallocates_after_both_ctas_are_done():
    text = pair_kernel()
    assert not pair_findings(text)
    before, handshake, after = text.rpartition(
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    )
    assert handshake
    assert {f.rule for f in pair_findings(before + after)} == {"tmem-race"}


def test_a_cta_uses_no_columns_that_its_peer_deallocates():
    """The second CTA is late: the first has deallocated by then."""
    handshake = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    before, _, after = pair_kernel().rpartition(handshake)
    assert before.count("W:") == after.count("DONE:") == 1
    text = before.replace("W:", f"setp.eq.u32 %p7, %c, 0; @%p7 bra W; {handshake}\nW:")
    text += after.replace("DONE:", f"DONE: @!%p7 bra END; {handshake}\nEND:")
    found = pair_findings(text)
    assert any("of the other CTA of the pair deallocates it" in f.message for f in found)


@pytest.mark.parametrize("name", ["shift", "commit", "dealloc"])
def test_a_kernel_has_one_cta_group(name):
    text = pair_kernel()
    assert text.count(f"tcgen05.{name}.cta_group::2") == 1
    mixed = text.replace(f"tcgen05.{name}.cta_group::2", f"tcgen05.{name}.cta_group::1")
    with pytest.raises(
        emulator.PtxError, match=r"must have the same \.cta_group; got tcgen05\.alloc.* in line"
    ):
        pair_findings(mixed)


def test_a_commit_signals_the_ctas_of_its_mask():
    body = """
      mov.u16 %h0, 2; setp.eq.and.u32 %p2, %c, 0, %p1;
      @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
        [bar], %h0;
      setp.eq.u32 %p3, %c, 1;
    W:
      mbarrier.test_wait.parity.shared::cta.b64 %p6, [bar], 0;
      @%p3 bra SECOND;
      selp.u32 %r0, 1, 0, %p6;
      bra OUT;
    SECOND:
      @!%p6 bra W;
      mov.u32 %r0, 2;
    OUT:
      mad.wide.u32 %rd0, %c, 4, %out; st.global.u32 [%rd0], %r0;"""
    out = np.zeros(2, np.uint32)
    tensor.launch(body, {"out": out}, grid=2, cluster=(2, 1, 1))
    assert out.tolist() == [0, 2]


@pytest.mark.parametrize("counts", [(96, 416), (32, 480), (480, 32), (160, 352)])
def test_exclusive_allocations_of_any_multiple_of_32(counts):
    alloc = "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [{}], {};\n"
    dealloc = "tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 {}, {};\n"
    body = "".join(alloc.format(f"slots+{4 * n}", count) for n, count in enumerate(counts)) + RELINQUISH
    for n, count in enumerate(counts):
        body += f"ld.shared.u32 %r{n}, [slots+{4 * n}]; st.global.u32 [%rd0+{4 * n}], %r{n};"
        body += dealloc.format(f"%r{n}", count)
    _, out = run(body, block=32)
    assert out[:2].tolist() == [0, counts[0]]


def test_dealloc_of_two_allocations_at_once():
    body = ALLOC.format("slots", 32) + ALLOC.format("slots+4", 32) + "mov.u32 %r0, 0;"
    with pytest.raises(emulator.Fault, match="the allocations are 32 at 0x0, 32 at 0x20"):
        run(body + DEALLOC.format("%r0", 64), block=32)

"""Bulk copies and reductions without a tensor map, against NumPy."""

import numpy as np
import pytest
from bulk_kernels import (
    ARRIVED,
    EXPECT,
    SIZE,
    TYPES,
    WAIT,
    octets,
    out_of_shared,
    reduced,
    run,
    values,
)
from emulator_ptx import module

from weft import emulator


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("target", ["shared::cluster", "shared::cta"])
@pytest.mark.parametrize("size", [16, 528, SIZE])
def test_load(size, target, seed):
    a, out = octets(2 * SIZE), np.zeros(SIZE, np.uint8)
    body = f"""
      {EXPECT.format(size)}
      add.u64 %a, %a, 32;
      @%l cp.async.bulk.{target}.global.mbarrier::complete_tx::bytes [%s], [%a], {size}, [bar];
      {ARRIVED}
      {out_of_shared(size)}"""
    run(body, {"a": a, "out": out}, target="sm_100a", seed=seed)
    np.testing.assert_array_equal(out[:size], a[32 : 32 + size])
    assert not out[size:].any()


def test_load_that_ignores_what_there_is_not():
    a, out = octets(64), np.zeros(SIZE, np.uint8)
    # Sixteen bytes before the buffer, of which four at its end are ignored, can't be had; five past it can.
    body = f"""
      {EXPECT.format(80)}
      mov.u32 %r4, 0; mov.u32 %r5, 11;
      @%l cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob
        [%s], [%a], 80, %r4, %r5, [bar];
      {ARRIVED}
      {out_of_shared(64)}"""
    with pytest.raises(emulator.Fault, match="out-of-bounds"):
        run(body, {"a": a, "out": out}, target="sm_100a")
    padded = octets(69)
    run(body, {"a": padded, "out": out}, target="sm_100a")
    np.testing.assert_array_equal(out[:64], padded[:64])


@pytest.mark.parametrize(("size", "at", "what"), [(24, 0, "size"), (32, 8, "source")])
def test_misaligned(size, at, what):
    body = f"""
      add.u64 %a, %a, {at};
      @%l cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%a], {size}, [bar];"""
    with pytest.raises(emulator.Fault, match=f"misaligned {what}"):
        run(body, {"a": octets()})


def test_store():
    a, out = octets(), np.zeros(2 * SIZE, np.uint8)
    body = f"""
      add.u64 %out, %out, 16;
      @%l cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], {SIZE};
      {WAIT}"""
    run(body, {"a": a, "out": out}, fill="a")
    np.testing.assert_array_equal(out[16 : 16 + SIZE], a)
    assert not out[:16].any() and not out[16 + SIZE :].any()


def test_store_of_some_bytes_of_each_sixteen():
    a, out = octets(), octets()
    expected = np.where(0x8421 >> np.arange(SIZE) % 16 & 1, a, out)
    body = f"""
      mov.u16 %h0, 0x8421;
      @%l cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%out], [%s], {SIZE}, %h0;
      {WAIT}"""
    run(body, {"a": a, "out": out}, fill="a", target="sm_100a")
    np.testing.assert_array_equal(out, expected)


REDUCTIONS = [
    *(("add", kind) for kind in ("u32", "s32", "u64", "f16", "bf16", "f32", "f64")),
    *((op, kind) for op in ("min", "max") for kind in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    ("inc", "u32"),
    ("dec", "u32"),
    *((op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")),
]


@pytest.mark.parametrize(("op", "kind"), REDUCTIONS)
def test_reduce_in_global_memory(op, kind):
    count = SIZE // np.dtype(TYPES[kind]).itemsize
    a, out = values(kind, count), values(kind, count)
    expected = reduced(op, out, a)
    flag = ".noftz" if op == "add" and kind in ("f16", "bf16") else ""
    body = f"""
      @%l cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{flag}.{kind} [%out], [%s], {SIZE};
      {WAIT}"""
    run(body, {"a": a, "out": out}, fill="a")
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("op", "kind"),
    [("add", "u32"), ("add", "s32"), ("min", "s32"), ("inc", "u32"), ("xor", "b32"), ("add", "u64")],
)
def test_reduce_in_the_other_blocks_shared_memory(op, kind):
    half = SIZE // 2
    count = SIZE // np.dtype(TYPES[kind]).itemsize
    a, out = values(kind, count), np.zeros((2, SIZE), np.uint8)
    body = f"""
      mad.wide.u32 %out, %c, {SIZE}, %out;
      xor.b32 %r2, %c, 1;
      mapa.shared::cluster.u32 %r3, %s, %r2;
      mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, %r2;
      add.u32 %r5, %s, {half};
      {EXPECT.format(half)}
      @%l cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{kind}
        [%r3], [%r5], {half}, [%r4];
      {ARRIVED}
      {out_of_shared()}"""
    run(body, {"a": a, "out": out}, fill="a", cluster=2)
    first, second = a[: count // 2], a[count // 2 :]
    for block in out:
        np.testing.assert_array_equal(block.view(a.dtype)[: count // 2], reduced(op, first, second))


def test_copy_to_the_other_blocks_shared_memory():
    a, out = octets(), np.zeros((2, SIZE), np.uint8)
    body = f"""
      mad.wide.u32 %out, %c, {SIZE}, %out;
      xor.b32 %r2, %c, 1;
      add.u32 %r5, %s, {SIZE}; mapa.shared::cluster.u32 %r3, %r5, %r2;
      mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, %r2;
      {EXPECT.format(SIZE)}
      @%l cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%s], {SIZE}, [%r4];
      {ARRIVED}
      mov.u32 %s, %r5;
      {out_of_shared()}"""
    run(body, {"a": a, "out": out}, fill="a", cluster=2)
    np.testing.assert_array_equal(out, [a, a])


def test_multicast():
    a, out = octets(), np.zeros((4, SIZE), np.uint8)
    body = f"""
      mad.wide.u32 %out, %c, {SIZE}, %out;
      setp.eq.u32 %p0, %c, 1; setp.eq.u32 %p1, %c, 3; or.pred %p0, %p0, %p1;
      setp.eq.and.u32 %p2, %c, 2, %l;
      @%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 512;
      @%l mbarrier.arrive.shared::cta.b64 _, [bar];
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      mov.u16 %h0, 10;
      @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%s], [%a], 512, [bar], %h0;
      {ARRIVED}
      @!%p0 bra OUT;
      {out_of_shared(512)}
    OUT:"""
    body = body.replace("@%p0 mbarrier.expect_tx", "and.pred %p1, %p0, %l;\n@%p1 mbarrier.expect_tx")
    run(body, {"a": a, "out": out}, cluster=4)
    np.testing.assert_array_equal(out[[1, 3], :512], [a[:512]] * 2)
    assert not out[[0, 2]].any()
    with pytest.raises(emulator.Fault, match="the mask 0x1a names CTA 4, but the cluster has 4 CTAs"):
        run(body.replace("%h0, 10;", "%h0, 26;"), {"a": a, "out": out}, cluster=4)


def test_a_load_that_nothing_waits_for_may_go_on_when_its_block_ends():
    body = f"""
      {EXPECT.format(64)}
      @%l cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%a], 64, [bar];"""
    found = run(body, {"a": octets()}, target="sm_100a", findings=True).findings
    (finding,) = (f for f in found if f.rule == "async-at-exit")
    assert "may still be written by an asynchronous unit when its CTA ends" in finding.message


@pytest.mark.parametrize("threads", [1, 31, 32])
def test_a_store_that_nothing_waits_for_may_go_on_when_its_block_ends(threads):
    text = """
.visible .entry k(.param .u64 p)
{
  .shared .align 16 .b8 s[16]; .reg .b64 %a; .reg .b32 %r; .reg .pred %first;
  ld.param.u64 %a, [p]; mov.u32 %r, %tid.x; setp.eq.u32 %first, %r, 0;
  @%first st.shared.v4.b32 [s], {%r, %r, %r, %r};
  fence.proxy.async.shared::cta;
  @%first cp.async.bulk.global.shared::cta.bulk_group [%a], [s], 16;
  @%first cp.async.bulk.commit_group;
  ret;
}"""
    (finding,) = module(text, "sm_90a").launch("k", block=threads, args=[octets(16)]).findings
    assert finding.rule == "async-at-exit"
    assert "may still be read by an asynchronous unit when its CTA ends" in finding.message

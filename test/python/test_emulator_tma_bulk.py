"""Bulk copies without tensors, multicast, and their completion on mbarriers and groups."""

import numpy as np
import pytest
import tma_reference as tma
from tma_reference import Form, Tiled

from weft import emulator

RNG = np.random.default_rng(13)
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def pair(count=2):
    return f".explicitcluster .reqnctapercluster {count}"


def words(count, high=1 << 32):
    return RNG.integers(0, high, count, dtype=np.uint64).astype(np.uint32)


@pytest.mark.parametrize("state", ["shared::cluster", "shared::cta"])
@pytest.mark.parametrize(
    ("source", "target", "size"), [(0, 0, 1024), (16, 48, 16), (32, 0, 992), (48, 512, 512)]
)
def test_global_to_shared(state, source, target, size):
    data, out = words(512), np.zeros(256, np.uint32)
    text = f"""{tma.head(1024, tensor=False)}
      {tma.copy_shared(1024, "%rd2", None)}
      {tma.INIT}
      @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};
      @%p1 cp.async.bulk.{state}.global.mbarrier::complete_tx::bytes
        [tile+{target}], [%rd1+{source}], {size}, [bar];
      {tma.WAIT}
      {tma.copy_shared(1024, "%rd2", True)}
      ret; }}"""
    tma.run(text, "sm_90a", [data, out])
    want = np.full(1024, tma.UNTOUCHED, np.uint8)
    want[target : target + size] = data.view(np.uint8)[source : source + size]
    np.testing.assert_array_equal(out.view(np.uint8), want)


def bulk_store(copy, data, out, target="sm_90a", **options):
    """`copy` moves from `tile`, which holds 1024 bytes of `data` for each block, to %rd2."""
    text = f"""{tma.head(1024, tensor=False)}
      {tma.copy_shared(1024, "%rd1", False)}
      fence.proxy.async.shared::cta;
      bar.sync 0;
      @!%p1 bra DONE;
      {copy}
      {tma.BULK_WAIT}
    DONE: ret; }}"""
    return tma.run(text, target, [data, out], **options)


@pytest.mark.parametrize(("source", "target", "size"), [(0, 0, 1024), (16, 48, 16), (512, 496, 512)])
def test_shared_to_global(source, target, size):
    data, out = words(256), words(256)
    want = out.copy()
    want.view(np.uint8)[target : target + size] = data.view(np.uint8)[source : source + size]
    bulk_store(f"{STORE} [%rd2+{target}], [tile+{source}], {size};", data, out)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("mask", [0, 1, 0x8000, 0x5A3C, 0xFFFF])
def test_bytes_that_a_mask_leaves_out(mask):
    data, out = words(256), words(256)
    keep = np.resize([bool(mask >> n & 1) for n in range(16)], 256)
    want = out.copy()
    want.view(np.uint8)[:256][keep] = data.view(np.uint8)[:256][keep]
    copy = f"mov.b16 %h0, {mask}; {STORE}.cp_mask [%rd2], [tile], 256, %h0;"
    bulk_store(copy, data, out, "sm_100a")
    np.testing.assert_array_equal(out, want)


def prefetches(body):
    """Runs a body with a map of three dimensions; memory stays what it was."""
    spec = Tiled("UINT16", (16, 6, 5), (8, 3, 2))
    memory, other = tma.memory_of(RNG, spec), np.zeros(256, np.uint32)
    copy = memory.copy()
    text = f"""{tma.head(1024)}
      {tma.POLICY}
      mov.u32 %r10, -8; mov.u32 %r11, 100; mov.u32 %r12, 0;
      {body}
      ret; }}"""
    tma.run(text, "sm_90a", [spec.map(memory), memory, other])
    np.testing.assert_array_equal(memory, copy)
    assert not other.any()


def test_prefetches_change_nothing():
    prefetches(f"""
      prefetch.tensormap [%rd0];
      @%p1 cp.async.bulk.prefetch.L2.global [%rd1], 256;
      @%p1 cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%rd0, {tma.vector(3)}];
      @%p1 cp.async.bulk.prefetch.tensor.3d.L2.global [%rd0, {tma.vector(3)}];""")


@pytest.mark.parametrize(
    "prefetch",
    [
        "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1+16], 32, %rd7;",
        f"cp.async.bulk.prefetch.tensor.3d.L2.global.tile.L2::cache_hint [%rd0, {tma.vector(3)}], %rd7;",
    ],
)
def test_prefetches_with_a_cache_hint(prefetch):
    prefetches(f"@%p1 {prefetch}")


def test_cache_hints_change_nothing():
    data, out = words(256), np.zeros(256, np.uint32)
    bulk_store(f"{tma.POLICY} {STORE}.L2::cache_hint [%rd2], [tile], 1024, %rd7;", data, out)
    np.testing.assert_array_equal(out, data)


def test_shared_to_the_shared_memory_of_another_block():
    """Both blocks of a pair send their data to each other and wait on their own barrier."""
    data, out = words(512), np.zeros(512, np.uint32)
    text = f"""{tma.head(2048, pair(), tensor=False)}
      {tma.copy_shared(1024, "%rd1", False)}
      {tma.INIT}
      {SYNC}
      @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
      xor.b32 %r20, %r1, 1; add.u32 %r21, %r2, 1024; mov.u32 %r22, bar;
      mapa.shared::cluster.u32 %r21, %r21, %r20; mapa.shared::cluster.u32 %r22, %r22, %r20;
      @%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
        [%r21], [tile], 1024, [%r22];
      {tma.WAIT}
      add.u32 %r2, %r2, 1024;
      {tma.copy_shared(1024, "%rd2", True)}
      {SYNC}
      ret; }}"""
    tma.run(text, "sm_90a", [data, out], grid=2, cluster=(2, 1, 1))
    np.testing.assert_array_equal(out, np.concatenate([data[256:], data[:256]]))


REMOTE = [
    *(("add", kind) for kind in ("u32", "s32", "u64")),
    *((op, kind) for op in ("min", "max") for kind in ("u32", "s32")),
    ("inc", "u32"),
    ("dec", "u32"),
    *((op, "b32") for op in ("and", "or", "xor")),
]
GLOBAL = [
    *(("add", kind) for kind in ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16")),
    *((op, kind) for op in ("min", "max") for kind in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    ("inc", "u32"),
    ("dec", "u32"),
    *((op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")),
]
TYPES = {
    "u32": "UINT32",
    "b32": "UINT32",
    "s32": "INT32",
    "u64": "UINT64",
    "b64": "UINT64",
    "s64": "INT64",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
}


def operands(kind):
    """Old and new values of 1024 bytes; a quarter of them are equal."""
    dtype = TYPES[kind.removeprefix("noftz.")]
    count = 1024 // tma.SIZES[dtype]
    old, new = (tma.numbers(RNG, dtype, count) for _ in range(2))
    new[: count // 4] = old[: count // 4]
    return dtype, old, new


def _flushed(value):
    return np.where(np.abs(value) < 2.0**-126, np.copysign(np.float32(0), value), value)


@pytest.mark.parametrize(("operation", "kind"), GLOBAL)
def test_reductions_in_global_memory(operation, kind):
    dtype, old, new = operands(kind)
    parts = [_flushed(part) for part in (old, new)] if kind == "f32" else [old, new]
    want = tma.reduced(operation, dtype, *parts)
    want = _flushed(want) if kind == "f32" else want
    copy = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{kind} [%rd2], [tile], 1024;"
    bulk_store(copy, new, old)
    np.testing.assert_array_equal(old.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize(("operation", "kind"), REMOTE)
def test_reductions_in_the_shared_memory_of_another_block(operation, kind):
    dtype, old, new = operands(kind)
    want = tma.reduced(operation, dtype, old, new)
    data, out = np.concatenate([old, new]), np.zeros(512, np.uint32)
    text = f"""{tma.head(1024, pair(), tensor=False)}
      {tma.copy_shared(1024, "%rd1", False)}
      {tma.INIT}
      {SYNC}
      setp.eq.u32 %p4, %r1, 0; and.pred %p5, %p4, %p1;
      @%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
      @%p4 bra RECEIVE;
      mov.u32 %r20, 0; mov.u32 %r22, bar;
      mapa.shared::cluster.u32 %r21, %r2, %r20; mapa.shared::cluster.u32 %r22, %r22, %r20;
      @%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}.{kind}
        [%r21], [tile], 1024, [%r22];
      bra END;
    RECEIVE:
      {tma.WAIT}
      {tma.copy_shared(1024, "%rd2", True)}
    END:
      {SYNC}
      ret; }}"""
    tma.run(text, "sm_90a", [data, out], grid=2, cluster=(2, 1, 1))
    np.testing.assert_array_equal(out[:256].view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("mask", [0b0001, 0b1010, 0b1111, 0b0110])
@pytest.mark.parametrize("plain", [True, False])
def test_multicast(plain, mask):
    """The second of four blocks sends; each block of the mask hears of all bytes at its own barrier."""
    spec = Tiled("UINT16", (64, 16), (32, 8), swizzle="64B")
    memory = tma.memory_of(RNG, spec)
    out = np.zeros((4, 1024), np.uint8)
    args = [np.zeros(1, np.uint32), out]
    if plain:
        copy = f"{LOAD}.multicast::cluster"
        copy += " [tile+128], [%rd1], 512, [bar], %h0;"
        args[0] = memory
        box, base = memory[:512], 128
    else:
        copy = "mov.u32 %r10, 32; mov.u32 %r11, 5;"
        copy += "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        copy += f".multicast::cluster [tile+128], [%rd0, {tma.vector(2)}], [bar], %h0;"
        args.insert(0, spec.map(memory))
        box, base = tma.loaded(spec, memory, spec.elements((32, 5))), 128
    text = f"""{tma.head(1024, pair(4), tensor=not plain)}
      {tma.copy_shared(1024, "%rd2", None)}
      {tma.INIT}
      {SYNC}
      mov.b16 %h0, {mask}; mov.u32 %r20, {mask}; shr.u32 %r20, %r20, %r1; and.b32 %r20, %r20, 1;
      setp.eq.u32 %p4, %r20, 1; and.pred %p5, %p4, %p1;
      @%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
      setp.ne.u32 %p6, %r1, 1; not.pred %p7, %p1; or.pred %p6, %p6, %p7;
      @%p6 bra SENT;
      {copy}
    SENT:
      @!%p4 bra SKIP;
      {tma.WAIT}
    SKIP:
      {tma.copy_shared(1024, "%rd2", True)}
      {SYNC}
      ret; }}"""
    tma.run(text, "sm_90a", args, grid=4, cluster=(4, 1, 1))
    sent = tma.in_shared(box, "none" if plain else "64B", base, 1024)
    for rank in range(4):
        want = sent if mask >> rank & 1 else np.full(1024, tma.UNTOUCHED, np.uint8)
        np.testing.assert_array_equal(out[rank], want)


@pytest.mark.parametrize("leader", [0, 1])
def test_both_blocks_of_a_pair_signal_the_one_with_the_barrier(leader):
    """With .cta_group::2 a block may name its peer's barrier."""
    spec = Tiled("UINT16", (32, 16), (32, 8))
    memory = tma.memory_of(RNG, spec)
    out = np.zeros((2, 1024), np.uint8)
    text = f"""{tma.head(1024, pair())}
      {tma.copy_shared(1024, "%rd2", None)}
      {tma.INIT}
      {SYNC}
      setp.eq.u32 %p4, %r1, {leader}; and.pred %p5, %p4, %p1;
      @%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
      mov.u32 %r20, {leader}; mov.u32 %r21, bar; mapa.shared::cluster.u32 %r21, %r21, %r20;
      mov.u32 %r10, 0; shl.b32 %r11, %r1, 3;
      @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2
        [tile], [%rd0, {tma.vector(2)}], [%r21];
      @!%p4 bra SKIP;
      {tma.WAIT}
    SKIP:
      {SYNC}
      {tma.copy_shared(1024, "%rd2", True)}
      ret; }}"""
    args = [spec.map(memory), np.zeros(1, np.uint32), out]
    tma.run(text, "sm_100a", args, grid=2, cluster=(2, 1, 1), findings=True)
    np.testing.assert_array_equal(out[:, :512].reshape(-1), memory)


@pytest.mark.parametrize(
    ("group", "owner", "message"),
    [
        ("", 1, "without .cta_group::2 must be in the CTA that gets the data, 0, got CTA 1"),
        (".cta_group::1", 1, "without .cta_group::2 must be in the CTA that gets the data, 0, got CTA 1"),
        (
            ".cta_group::2",
            2,
            "with .cta_group::2 must be in the pair of the CTA that gets the data, 0, got CTA 2",
        ),
    ],
)
def test_a_barrier_of_another_block_is_a_fault(group, owner, message):
    spec = Tiled("UINT16", (32, 16), (32, 8))
    text = f"""{tma.head(1024, ".explicitcluster .reqnctapercluster 4")}
      {tma.INIT}
      {SYNC}
      mov.u32 %r20, {owner}; mov.u32 %r21, bar; mapa.shared::cluster.u32 %r21, %r21, %r20;
      mov.u32 %r10, 0; mov.u32 %r11, 0;
      @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{group}
        [tile], [%rd0, {tma.vector(2)}], [%r21];
      {SYNC}
      ret; }}"""
    args = [spec.map(tma.memory_of(RNG, spec)), np.zeros(1, np.uint32), np.zeros((4, 1024), np.uint8)]
    with pytest.raises(emulator.Fault, match=message):
        tma.run(text, "sm_100a", args, grid=4, cluster=(4, 1, 1))


def transactions(expected, start=(0, 0)):
    """Whether the barrier's phase completes when so many bytes are expected of a box of 128."""
    spec = Tiled("UINT16", (16, 6), (16, 4))
    out = np.zeros(1024, np.uint8)
    text = tma.load_text(Form(2), 128, 0, expect=expected)
    args = [spec.map(tma.memory_of(RNG, spec)), np.array([start], np.int32), out]
    return tma.run(text, "sm_90a", args, findings=True)


@pytest.mark.parametrize("start", [(0, 0), (8, 4), (-16, 0), (0, 100)])
def test_bytes_out_of_bounds_count(start):
    assert not transactions(128, start).findings
    with pytest.raises(emulator.Deadlock):
        transactions(144, start)


def test_more_bytes_than_expected():
    with pytest.raises((emulator.Deadlock, emulator.Fault)):
        transactions(112)


def test_several_copies_share_a_barrier():
    data, out = words(256), np.zeros(256, np.uint32)
    text = f"""{tma.head(1024, tensor=False)}
      {tma.INIT}
      @%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 256;
      @%p1 {LOAD} [tile], [%rd1], 256, [bar];
      @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 768;
      @%p1 {LOAD} [tile+256], [%rd1+256], 512, [bar];
      @%p1 {LOAD} [tile+768], [%rd1+768], 256, [bar];
      {tma.WAIT}
      {tma.copy_shared(1024, "%rd2", True)}
      ret; }}"""
    for seed in (None, 1, 2):
        out[:] = 0
        tma.run(text, "sm_90a", [data, out], seed=seed)
        np.testing.assert_array_equal(out, data)


def test_a_ring_of_two_stages():
    """One warp loads sixteen boxes into two buffers, the others add them up and give them back."""
    data = words(16 * 256, 1 << 20).reshape(16, 256)
    out = np.zeros(256, np.uint32)
    text = f"""{tma.head(2048, tensor=False)}
      .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];
      @!%p1 bra READY;
      mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [full+8], 1;
      mbarrier.init.shared::cta.b64 [empty], 128; mbarrier.init.shared::cta.b64 [empty+8], 128;
      fence.mbarrier_init.release.cluster;
    READY:
      bar.sync 0;
      mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0;
      setp.ge.u32 %p3, %r0, 128;
    LOOP:
      and.b32 %r13, %r10, 1; shr.u32 %r14, %r10, 1; and.b32 %r14, %r14, 1;
      mov.u32 %r15, full; shl.b32 %r16, %r13, 3; add.u32 %r15, %r15, %r16;
      mov.u32 %r17, empty; add.u32 %r17, %r17, %r16;
      shl.b32 %r18, %r13, 10; add.u32 %r18, %r18, %r2;
      @!%p3 bra CONSUME;
      setp.ne.u32 %p4, %r0, 128;
      @%p4 bra NEXT;
      xor.b32 %r19, %r14, 1;
    FREE:
      mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r17], %r19; @!%p5 bra FREE;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 1024;
      mad.wide.u32 %rd6, %r10, 1024, %rd1;
      {LOAD} [%r18], [%rd6], 1024, [%r15];
      bra NEXT;
    CONSUME:
      mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r15], %r14; @!%p5 bra CONSUME;
      shl.b32 %r20, %r0, 3; add.u32 %r20, %r20, %r18;
      ld.shared.v2.u32 {{%r21, %r22}}, [%r20];
      add.u32 %r11, %r11, %r21; add.u32 %r12, %r12, %r22;
      fence.proxy.async.shared::cta;
      mbarrier.arrive.shared::cta.b64 _, [%r17];
    NEXT:
      add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 16; @%p4 bra LOOP;
      @%p3 bra DONE;
      mad.wide.u32 %rd6, %r0, 8, %rd2; st.global.v2.u32 [%rd6], {{%r11, %r12}};
    DONE: ret; }}"""
    for seed in (None, 3):
        tma.run(text, "sm_90a", [data, out], block=160, seed=seed)
        np.testing.assert_array_equal(out, data.sum(0))

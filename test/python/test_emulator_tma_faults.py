"""Bulk copies that break a rule: faults, and the sanitizer's findings."""

import numpy as np
import pytest
import tma_reference as tma
from tma_reference import Form, Tiled

from weft import emulator

RNG = np.random.default_rng(15)
SPEC = Tiled("UINT16", (32, 12), (16, 8))
BLACKWELL = Form(2, target="sm_100a")
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


def plain(body, target="sm_90a", findings=False, **options):
    """A body with 4 KiB of zeros at %rd1, 4 KiB at %rd2 and, initialized, `tile` and [bar]."""
    text = f"""{tma.head(1024, tensor=False)}
      {tma.copy_shared(1024, "%rd2", None)}
      {tma.INIT}
      {body}
      ret; }}"""
    return tma.run(text, target, [np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)], findings, **options)


def tensor(body, spec=SPEC, findings=False, target="sm_90a", **options):
    """The same with a tensor map, its memory at %rd1, and zeros as coordinates."""
    text = f"""{tma.head(1024)}
      {tma.copy_shared(1024, "%rd2", None)}
      {tma.INIT}
      mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0; mov.u32 %r14, 0;
      {body}
      ret; }}"""
    memory = tma.memory_of(RNG, spec)
    args = [spec.map(memory), memory, np.zeros(1024, np.uint32)]
    return tma.run(text, target, args, findings, **options)


def rules(report):
    return {found.rule for found in report.findings}


def expect(size):
    return f"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};"


TENSOR = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
LOAD = f"{expect(256)} @%p1 {TENSOR} [tile], [%rd0, {{%r10, %r11}}], [bar];"
PLAIN_LOAD = f"{expect(256)} @%p1 {BULK} [tile], [%rd1], 256, [bar];"
PLAIN_STORE = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile], 256;"
REDUCE = "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [tile], 256;"


@pytest.mark.parametrize(
    "copy",
    [
        f"@%p1 {BULK} [tile+8], [%rd1], 64, [bar];",
        f"@%p1 {BULK} [tile], [%rd1+8], 64, [bar];",
        f"mov.u32 %r20, 40; @%p1 {BULK} [tile], [%rd1], %r20, [bar];",
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2+4], [tile], 64;",
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile+4], 64;",
        "mov.u32 %r20, 8; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile], %r20;",
        "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2+8], [tile], 64;",
    ],
)
def test_bulk_copies_are_aligned_to_16_bytes(copy):
    with pytest.raises(emulator.Fault, match=r"16|align"):
        plain(expect(64) + copy)


@pytest.mark.parametrize(
    "copy",
    [
        f"{expect(2048)} @%p1 {BULK} [tile], [%rd1], 2048, [bar];",
        f"{expect(64)} @%p1 {BULK} [tile], [%rd1+4064], 64, [bar];",
        f"{expect(64)} mov.u64 %rd5, 0; @%p1 {BULK} [tile], [%rd5], 64, [bar];",
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2+4080], [tile], 64;",
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile+1024], 1024;",
        "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [%rd2+-64], [tile], 64;",
    ],
)
def test_bulk_copies_outside_memory_are_faults(copy):
    with pytest.raises(emulator.Fault, match="out-of-bounds"):
        plain(copy)


@pytest.mark.parametrize("offset", [8, 16, 64])
def test_the_shared_address_of_a_tensor_copy_is_aligned_to_128_bytes(offset):
    with pytest.raises(emulator.Fault, match=r"128|align"):
        tensor(f"{expect(256)} @%p1 {TENSOR} [tile+{offset}], [%rd0, {{%r10, %r11}}], [bar];")
    with pytest.raises(emulator.Fault, match=r"128|align"):
        tensor(f"@%p1 {STORE} [%rd0, {{%r10, %r11}}], [tile+{offset}]; {tma.BULK_WAIT}")


@pytest.mark.parametrize(("swizzle", "align"), [("128B_ATOM_32B", 16), ("128B_ATOM_64B", 32)])
def test_wider_atoms_are_aligned(swizzle, align):
    spec = Tiled("UINT16", (64, 4), (64, 4), swizzle=swizzle)
    copy = f"{expect(512)} @%p1 {TENSOR} [tile+{align}], [%rd0, {{%r10, %r11}}], [bar];"
    with pytest.raises(emulator.Fault):
        tensor(copy, spec, target="sm_100a")


def test_a_box_beyond_shared_memory():
    spec = Tiled("UINT16", (64, 64), (64, 64))
    with pytest.raises(emulator.Fault):
        tensor(f"{expect(8192)} @%p1 {TENSOR} [tile], [%rd0, {{%r10, %r11}}], [bar];", spec)


@pytest.mark.parametrize("rank", [1, 3])
def test_the_rank_of_the_map(rank):
    copy = TENSOR.replace("2d", f"{rank}d")
    with pytest.raises(emulator.Fault):
        tensor(f"{expect(256)} @%p1 {copy} [tile], [%rd0, {tma.vector(rank)}], [bar];")


def test_a_flip_is_for_loads_only():
    spec = Tiled("FLOAT32", (32, 8), (32, 4), swizzle="128B_ATOM_32B_FLIP_8B")
    with pytest.raises(
        emulator.Fault, match="a copy out of shared memory must not use swizzle atoms of 32B_FLIP_8B"
    ):
        tensor(f"@%p1 {STORE} [%rd0, {{%r10, %r11}}], [tile]; {tma.BULK_WAIT}", spec, target="sm_100a")


def packed(dtype):
    memory = np.zeros((8, 192), np.uint8)
    shape = {"dims": (256, 8), "strides_bytes": (192,), "box": (128, 2), "element_strides": (1, 1)}
    return emulator.TensorMap.tiled(memory, dtype=dtype, **shape)


@pytest.mark.parametrize("dtype", ["16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B"])
def test_packed_types_are_not_reduced(dtype):
    with pytest.raises(emulator.Fault):
        tma.store(packed(dtype), (0, 0), np.zeros(1024, np.uint8), BLACKWELL, 256, operation=".add")


def test_padded_elements_of_four_bits_are_not_stored():
    with pytest.raises(emulator.Fault, match="a copy out of shared memory must not use 16U4_ALIGN16B"):
        tma.store(packed("16U4_ALIGN16B"), (0, 0), np.zeros(1024, np.uint8), BLACKWELL, 256)


@pytest.mark.parametrize(("dtype", "count"), [("16U4_ALIGN16B", 128), ("16U6_ALIGN16B", 192)])
def test_padded_elements_begin_at_a_multiple_of_128(dtype, count):
    out = np.zeros((1, 1024), np.uint8)
    text = tma.load_text(BLACKWELL, 256, 0, expect=count)
    with pytest.raises(emulator.Fault):
        tma.run(text, "sm_100a", [packed(dtype), np.array([[64, 0]], np.int32), out])


def test_a_map_that_is_none():
    text = tma.load_text(Form(2), 256)
    args = [b"\x5a" * 128, np.zeros((1, 2), np.int32), np.zeros(1024, np.uint8)]
    with pytest.raises(emulator.Fault):
        tma.run(text, "sm_90a", args)


def test_a_map_is_aligned_to_64_bytes():
    with pytest.raises(emulator.Fault):
        tensor(f"{expect(256)} add.u64 %rd5, %rd1, 16; @%p1 {TENSOR} [tile], [%rd5, {{%r10, %r11}}], [bar];")


def test_the_innermost_coordinate_is_a_multiple_of_16_bytes():
    with pytest.raises(emulator.Fault):
        tensor(f"mov.u32 %r10, 3; {LOAD}")


def test_an_mbarrier_is_initialized():
    text = f"""{tma.head(1024, tensor=False)}
      @%p1 {BULK} [tile], [%rd1], 64, [bar];
      ret; }}"""
    with pytest.raises(emulator.Fault) as caught:
        tma.run(text, "sm_90a", [np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)])
    assert "mbarrier" in str(caught.value)


def test_maps_of_memory_that_is_smaller():
    """The tensor may be larger than its memory; a copy from beyond the end faults."""
    spec = Tiled("UINT16", (32, 12), (16, 8))
    memory = np.zeros(32 * 6, np.uint16)
    text = tma.load_text(Form(2), 256)
    out = np.zeros(1024, np.uint8)
    with pytest.raises(emulator.Fault, match="out-of-bounds"):
        tma.run(text, "sm_90a", [spec.map(memory), np.array([[0, 4]], np.int32), out])


READ = "ld.shared.u32 %r20, [tile]; st.global.u32 [%rd2], %r20;"
WRITE = "st.shared.u32 [tile+4], %r0;"
FENCE = "fence.proxy.async.shared::cta; bar.sync 0;"


@pytest.mark.parametrize("load", ["plain", "tensor"])
def test_a_right_load_has_no_findings(load):
    run, copy = (plain, PLAIN_LOAD) if load == "plain" else (tensor, LOAD)
    run(f"{copy} {tma.WAIT} {READ}")


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("load", ["plain", "tensor"])
def test_shared_memory_read_before_the_wait(load, seed):
    run, copy = (plain, PLAIN_LOAD) if load == "plain" else (tensor, LOAD)
    report = run(f"{copy} {READ} {tma.WAIT}", findings=True, seed=seed)
    assert "async-not-awaited" in rules(report)
    report = run(f"{copy} {WRITE} {tma.WAIT}", findings=True, seed=seed)
    assert "async-not-awaited" in rules(report)


def test_only_those_who_wait_may_read():
    half = f"setp.ge.u32 %p4, %r0, 64; @%p4 bra SKIP; {tma.WAIT} SKIP: {READ}"
    assert "async-not-awaited" in rules(plain(f"{PLAIN_LOAD} {half}", findings=True))
    handed_on = f"setp.ge.u32 %p4, %r0, 64; @%p4 bra SKIP; {tma.WAIT} SKIP: bar.sync 0; {READ}"
    assert not rules(plain(f"{PLAIN_LOAD} {handed_on}", findings=True))


@pytest.mark.parametrize("store", ["plain", "tensor", "reduce"])
def test_a_store_of_what_no_fence_has_shown(store):
    """Threads write shared memory and meet; only then the copy reads it, through another proxy."""
    copies = {
        "plain": (plain, PLAIN_STORE),
        "tensor": (tensor, f"@%p1 {STORE} [%rd0, {{%r10, %r11}}], [tile];"),
        "reduce": (plain, REDUCE),
    }
    run, copy = copies[store]
    write = "shl.b32 %r20, %r0, 2; add.u32 %r20, %r20, %r2; st.shared.u32 [%r20], %r0;"
    run(f"{write} {FENCE} {copy} {tma.BULK_WAIT}")
    run(f"{write} fence.proxy.async; bar.sync 0; {copy} {tma.BULK_WAIT}")
    run(f"{write} bar.sync 0; fence.proxy.async; {copy} {tma.BULK_WAIT}")
    report = run(f"{write} bar.sync 0; {copy} {tma.BULK_WAIT}", findings=True)
    assert rules(report) == {"missing-proxy-fence"}


def test_a_fence_for_global_memory_shows_nothing_of_shared_memory():
    body = f"@%p1 {WRITE} fence.proxy.async.global; bar.sync 0; {PLAIN_STORE} {tma.BULK_WAIT}"
    assert "missing-proxy-fence" in rules(plain(body, findings=True))


@pytest.mark.parametrize("store", ["plain", "tensor"])
def test_a_source_overwritten_before_it_was_read(store):
    run, copy = (plain, PLAIN_STORE)
    if store == "tensor":
        run, copy = tensor, f"@%p1 {STORE} [%rd0, {{%r10, %r11}}], [tile];"
    commit = "cp.async.bulk.commit_group;"
    write = "@%p1 st.shared.u32 [tile], %r0;"
    for wait in ("cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"):
        run(f"{copy} {commit} {wait} {write}")
    for wait in ("", "cp.async.bulk.wait_group.read 1;"):
        report = run(f"{copy} {commit} {wait} {write} cp.async.bulk.wait_group 0;", findings=True)
        assert rules(report) == {"async-source-overwritten"}
    report = run(f"{copy} cp.async.bulk.wait_group.read 0; {write} {tma.BULK_WAIT}", findings=True)
    assert rules(report) == {"async-source-overwritten"}


def test_others_overwrite_after_a_barrier():
    body = f"""{PLAIN_STORE} cp.async.bulk.commit_group; WAITED bar.sync 0;
      setp.eq.u32 %p4, %r0, 99; @%p4 st.shared.u32 [tile], %r0; cp.async.bulk.wait_group 0;"""
    plain(body.replace("WAITED", "cp.async.bulk.wait_group.read 0;"))
    report = plain(body.replace("WAITED", ""), findings=True)
    assert rules(report) & {"async-source-overwritten", "shared-race"}


READ_EACH = (
    "and.b32 %r20, %r0, 63; shl.b32 %r20, %r20, 2; add.u32 %r20, %r20, %r2; ld.shared.u32 %r21, [%r20];"
)


def test_a_load_over_what_others_still_read():
    plain(f"{READ_EACH} {FENCE} {PLAIN_LOAD} {tma.WAIT}")
    plain(f"{READ_EACH} bar.sync 0; fence.proxy.async; {PLAIN_LOAD} {tma.WAIT}")
    report = plain(f"{READ_EACH} {PLAIN_LOAD} {tma.WAIT}", findings=True)
    assert "shared-race" in rules(report)


@pytest.mark.parametrize("fence", ["", "fence.proxy.async.global;", "fence.acq_rel.cta;"])
def test_a_load_over_what_no_fence_has_ordered(fence):
    """Threads read shared memory and meet; the copy may still write it before their data arrive."""
    report = plain(f"{READ_EACH} {fence} bar.sync 0; {PLAIN_LOAD} {tma.WAIT}", findings=True)
    assert rules(report) == {"missing-proxy-fence"}
    assert "is overwritten without a fence.proxy.async after its read at line" in str(report.findings[0])


def test_a_kernel_that_ends_with_bytes_outstanding():
    report = plain("@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 64;", findings=True)
    assert "mbarrier-transactions" in rules(report)


def test_the_rules_of_faults():
    text = f"""{tma.head(1024, tensor=False)}
      {tma.INIT} @%p1 {BULK} [tile+8], [%rd1], 64, [bar]; ret; }}"""
    with pytest.raises(emulator.Fault) as caught:
        tma.run(text, "sm_90a", [np.zeros(64, np.uint32), np.zeros(64, np.uint32)])
    assert "(0, 0, 0)" in str(caught.value)


@pytest.mark.parametrize(("row", "written", "found"), [(0, 20, True), (24, 16, False), (24, 10, True)])
def test_rows_beyond_the_tensor_need_not_be_written(row, written, found):
    """A box of 32 rows is stored, of which the tensor ends after 40 rows."""
    text = f"""{tma.head(1024)}
      mov.u32 %r10, 0; mov.u32 %r11, {row}; mov.u32 %r12, tile;
      mov.u32 %r13, %tid.x; mad.lo.u32 %r12, %r13, 32, %r12; setp.lt.u32 %p1, %r13, {written};
      @%p1 st.shared.v4.u32 [%r12], {{%r10, %r10, %r10, %r10}};
      @%p1 st.shared.v4.u32 [%r12+16], {{%r10, %r10, %r10, %r10}};
      fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %r13, 0; @%p1 ret;
      cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {{%r10, %r11}}], [tile];
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
      ret; }}"""
    spec = Tiled("UINT16", (16, 40), (16, 32))
    memory = tma.memory_of(RNG, spec)
    args = [spec.map(memory), memory, np.zeros(1024, np.uint32)]
    report = tma.run(text, "sm_90a", args, True, block=32)
    assert rules(report) == ({"uninitialized-shared"} if found else set())

"""Bulk copies and reductions with a tensor map, against NumPy."""

import numpy as np
import pytest
from bulk_kernels import (
    ARRIVED,
    EXPECT,
    RNG,
    SIZE,
    TYPES,
    WAIT,
    map_of,
    octets,
    out_of_shared,
    reduced,
    run,
    values,
)

from weft import emulator
from weft.isa.tensor_map import FIELDS

COLUMNS, ROWS = 32, 24


def image():
    return RNG.integers(1, 1 << 16, (ROWS, COLUMNS), dtype=np.uint16)


def swizzled(row, byte, width):
    offset = row * width + byte
    return offset ^ (offset >> 7 & (width // 16 - 1)) << 4


@pytest.mark.parametrize(("x", "y"), [(0, 0), (8, 5), (24, 20), (-8, -3), (64, 0)])
@pytest.mark.parametrize("width", [32, 64, 128])
def test_store_of_a_box(width, x, y):
    columns = width // 2
    a, out = RNG.integers(1, 1 << 16, SIZE // 2, dtype=np.uint16), np.zeros((40, 64), np.uint16)
    box = np.zeros((SIZE // width, columns), np.uint16)
    for row, column in np.ndindex(box.shape):
        box[row, column] = a[swizzled(row, 2 * column, width) // 2]
    expected = out.copy()
    for row, column in np.ndindex(box.shape):
        if 0 <= y + row < 40 and 0 <= x + column < 64:
            expected[y + row, x + column] = box[row, column]
    tensor = map_of(out, (columns, SIZE // width), swizzle=f"{width}B")
    body = f"""
      @%l cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%tensor, {{{x}, {y}}}], [%s];
      {WAIT}"""
    run(body, {"a": a, "tensor": tensor}, fill="a")
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("columns", "written"), [(16, 16), (17, 24), (23, 24), (24, 24)])
def test_a_store_writes_rows_up_to_16_bytes(columns, written):
    """What an H200 does, which no document says."""
    a, out = RNG.integers(1, 1 << 16, SIZE // 2, dtype=np.uint16), np.zeros((40, 64), np.uint16)
    tensor = emulator.TensorMap.tiled(
        out, dtype="UINT16", dims=(columns, 39), strides_bytes=(128,), box=(32, SIZE // 64)
    )
    body = f"""
      @%l cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%tensor, {{0, 0}}], [%s];
      {WAIT}"""
    run(body, {"a": a, "tensor": tensor}, fill="a")
    expected = np.zeros_like(out)
    box, rows = a.reshape(-1, 32), min(39, SIZE // 64)
    expected[:rows, :written] = box[:rows, :written]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("op", "kind", "name"),
    [
        ("add", "u32", "UINT32"),
        ("min", "s32", "INT32"),
        ("max", "u64", "UINT64"),
        ("add", "f16", "FLOAT16"),
        ("max", "bf16", "BFLOAT16"),
        ("add", "f32", "FLOAT32"),
        ("add", "f64", "FLOAT64"),
        ("inc", "u32", "UINT32"),
        ("xor", "b32", "UINT32"),
    ],
)
def test_reduce_a_box(op, kind, name):
    size = np.dtype(TYPES[kind]).itemsize
    columns = 64 // size
    a, out = values(kind, SIZE // size), values(kind, 20 * 2 * columns).reshape(20, 2 * columns)
    expected = out.copy()
    part = expected[8:20, columns:]
    part[:] = reduced(op, part, a.reshape(16, columns)[:12])
    tensor = map_of(out, (columns, 16), dtype=name)
    body = f"""
      @%l cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.bulk_group [%tensor, {{{columns}, 8}}], [%s];
      {WAIT}"""
    run(body, {"a": a, "tensor": tensor}, fill="a")
    np.testing.assert_array_equal(out, expected)


def test_gather_and_scatter_of_rows():
    a, b, out = image(), np.zeros((ROWS, COLUMNS), np.uint16), np.zeros(SIZE, np.uint8)
    body = f"""
      {EXPECT.format(128)}
      @%l cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
        [%s], [%x, {{8, 3, 23, 0, 40}}], [bar];
      {ARRIVED}
      {out_of_shared(128)}
      fence.proxy.async.shared::cta;
      bar.sync 0;
      @%l cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group
        [%y, {{16, 1, 30, 5, 2}}], [%s];
      {WAIT}"""
    run(body, {"x": map_of(a, (16, 1)), "y": map_of(b, (16, 1)), "out": out}, target="sm_100a")
    rows = np.concatenate([a[[3, 23, 0], 8:24], np.zeros((1, 16), np.uint16)])
    np.testing.assert_array_equal(out[:128].view(np.uint16).reshape(4, 16), rows)
    expected = np.zeros_like(b)
    expected[[1, 5, 2], 16:32] = rows[[0, 2, 3]]
    np.testing.assert_array_equal(b, expected)


def test_a_load_for_a_pair_of_ctas_signals_the_first():
    a, out = image(), np.zeros((2, SIZE), np.uint8)
    body = f"""
      mad.wide.u32 %out, %c, {SIZE}, %out;
      mov.u32 %r2, 0; mov.u32 %r3, bar; mapa.shared::cluster.u32 %r3, %r3, %r2;
      setp.eq.and.u32 %p0, %c, 0, %l;
      @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
      shl.b32 %r4, %c, 3;
      @%l cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2
        [%s], [%x, {{0, %r4}}], [%r3];
      setp.eq.u32 %p1, %c, 0;
      @!%p1 bra BOTH;
      {ARRIVED}
    BOTH:
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      {out_of_shared(512)}"""
    run(body, {"x": map_of(a, (32, 8)), "out": out}, target="sm_100a", cluster=2)
    for rank in range(2):
        np.testing.assert_array_equal(
            out[rank, :512].view(np.uint16).reshape(8, 32), a[8 * rank : 8 * rank + 8]
        )


PACKED = [("16U4_ALIGN8B", 4, 8, 8), ("16U4_ALIGN16B", 4, 8, 16), ("16U6_ALIGN16B", 6, 12, 16)]


@pytest.mark.parametrize(("name", "bits", "unit", "room"), PACKED)
def test_packed_types(name, bits, unit, room):
    columns = 256
    pitch = columns * bits // 8
    a, out = octets(6 * pitch).reshape(6, pitch), np.zeros(SIZE, np.uint8)
    tensor = emulator.TensorMap.tiled(a, dtype=name, dims=(columns, 6), strides_bytes=(pitch,), box=(128, 4))
    body = f"""
      mov.u64 %d2, 0; mad.wide.u32 %d0, %t, 8, %d2; cvt.u32.u64 %r1, %d0; add.u32 %r1, %r1, %s;
      st.shared.b64 [%r1], %d2; fence.proxy.async.shared::cta; bar.sync 0;
      {EXPECT.format(4 * 8 * unit)}
      @%l cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%s], [%tensor, {{128, 1}}], [bar];
      {ARRIVED}
      {out_of_shared(32 * room)}"""
    run(body, {"tensor": tensor, "out": out}, target="sm_100a")
    expected = np.zeros((4, 8, room), np.uint8)
    expected[:, :, :unit] = a[1:5, 8 * unit :].reshape(4, 8, unit)
    np.testing.assert_array_equal(out[: 32 * room], expected.reshape(-1))


def test_rows_of_pairs_of_elements_end_at_a_byte():
    """What follows the 17 bytes of 34 elements is zero; after the last row it isn't even allocated."""
    a, out = octets(5 * 32 + 17), np.zeros(SIZE, np.uint8)
    tensor = emulator.TensorMap.tiled(a, dtype="16U4_ALIGN8B", dims=(34, 6), strides_bytes=(32,), box=(64, 6))
    body = f"""
      {EXPECT.format(6 * 32)}
      @%l cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%s], [%tensor, {{0, 0}}], [bar];
      {ARRIVED}
      {out_of_shared(6 * 32)}"""
    run(body, {"tensor": tensor, "out": out}, target="sm_100a")
    expected = np.zeros((6, 32), np.uint8)
    expected[:, :17] = np.append(a, np.zeros(15, np.uint8)).reshape(6, 32)[:, :17]
    np.testing.assert_array_equal(out[: 6 * 32], expected.reshape(-1))


def replaced(name, ordinal, value, wide=False):
    at = f"{ordinal}, " if FIELDS[name].counts > 1 else ""
    return f"@%l tensormap.replace.tile.{name}.shared::cta.b1024.b{64 if wide else 32} [%s], {at}{value};"


def test_a_map_that_a_kernel_makes():
    a, out, space = image(), np.zeros(SIZE, np.uint8), np.zeros(128, np.uint8)
    fields = [
        replaced("global_address", 0, "%a", wide=True),
        replaced("rank", 0, 1),
        *(replaced("box_dim", i, v) for i, v in enumerate((16, 8))),
        *(replaced("global_dim", i, v) for i, v in enumerate((COLUMNS, ROWS))),
        replaced("global_stride", 0, "%d5", wide=True),
        *(replaced("element_stride", i, 1) for i in range(2)),
        replaced("elemtype", 0, 1),
        replaced("interleave_layout", 0, 0),
        replaced("swizzle_mode", 0, 1),
        replaced("fill_mode", 0, 0),
    ]
    made = emulator.TensorMap.tiled(
        a, dtype="UINT16", dims=(COLUMNS, ROWS), strides_bytes=(64,), box=(16, 8), swizzle="32B"
    )
    body = f"""
      mov.u64 %d5, 64; mov.u64 %d2, 0; shl.b32 %r1, %t, 3; setp.lt.u32 %p0, %r1, 128; add.u32 %r1, %r1, %s;
      @%p0 st.shared.b64 [%r1], %d2;
      bar.sync 0;
      {" ".join(fields)}
      bar.sync 0;
      setp.lt.u32 %p1, %t, 32;
      @%p1 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%map], [%s], 128;
      bar.sync 0;
      @%l fence.proxy.tensormap::generic.acquire.gpu [%map], 128;
      {EXPECT.format(256)}
      add.u32 %r6, %s, 1024;
      @%l cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r6], [%map, {{8, 4}}], [bar];
      {ARRIVED}
      mov.u32 %s, %r6;
      {out_of_shared(256)}"""
    run(body, {"a": a, "map": space, "out": out})
    for row, column in np.ndindex(8, 16):
        at = swizzled(row, 2 * column, 32)
        assert out[at : at + 2].view(np.uint16)[0] == a[4 + row, 8 + column]
    # But for the address and two words that only a driver writes, it is the driver's.
    words = space.view(np.uint64)
    np.testing.assert_array_equal(words[1:8], np.frombuffer(made.encode(1 << 20), np.uint64)[1:8])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tensormap.replace.tile.rank.shared::cta.b1024.b64 [%s], %d0;",
            ".rank must have the type .b32, got .b64",
        ),
        (
            "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%s], 5, %r0;",
            "the ordinal of .box_dim must be in 0..4, got 5",
        ),
        (
            "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%s], 16;",
            "the element type must be in 0..",
        ),
        (
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
            " [%s], [%a, {0, 0, 0, 0}], [bar], {%h0};",
            "expects 2 im2col offsets, got 1",
        ),
        (
            "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes"
            " [%s], [%a, {0, 0, 0, 0}], [bar], {%h0, %h1};",
            "isn't emulated in .im2col::w mode",
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%s], [%a, {0}], [bar];",
            "expects 2 coordinates, got 1",
        ),
        *(
            (
                f"cp.async.bulk.tensor.{mode}.bulk_group [%a, {{{at}}}], [%s]{more};",
                "the mode must be one of tile, tile::",
            )
            for mode, at, more in (
                ("3d.global.shared::cta.im2col", "0, 0, 0", ", {%h0}"),
                ("2d.global.shared::cta.tile::gather4", "0, 0, 0, 0, 0", ""),
            )
        ),
        *(
            (
                f"cp.async.bulk.tensor.{mode}.mbarrier::complete_tx::bytes [%s], [%a, {{{at}}}], [bar];",
                "the mode must be one of tile, tile::",
            )
            for mode, at in (
                ("3d.shared::cta.global.im2col_no_offs", "0, 0, 0"),
                ("2d.shared::cta.global.tile::scatter4", "0, 0, 0, 0, 0"),
            )
        ),
        ("cp.async.bulk.global.global.bulk_group [%a], [%a], 16;", "can't copy from .global to .global"),
    ],
)
def test_text_that_is_wrong(text, message):
    with pytest.raises(emulator.PtxError, match=message.replace("(", r"\(")):
        run(text, {"a": octets()}, target="sm_100a")


def test_a_map_of_another_mode():
    body = """
      @%l cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%s], [%x, {0, 0, 0}], [bar];"""
    with pytest.raises(
        emulator.Fault, match="a copy in 3d tile mode needs such a map, got 2d tile"
    ) as caught:
        run(body, {"x": map_of(image(), (16, 8))})
    assert caught.value.rule == "descriptor"


def test_bytes_that_are_no_map():
    body = """
      @%l cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%s], [%a, {0, 0}], [bar];"""
    with pytest.raises(emulator.Fault, match="a tensor map"):
        run(body, {"a": np.full(128, 0xFF, np.uint8)})


def test_prefetches_change_nothing():
    a = image()
    before = a.copy()
    body = """
      @%l cp.async.bulk.prefetch.L2.global [%a], 64;
      @%l cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%x, {0, 0}];
      @%l prefetch.tensormap [%x];"""
    run(body, {"a": a, "x": map_of(a, (16, 8))})
    np.testing.assert_array_equal(a, before)


# Planted faults

LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
ROUND = f"""
  {EXPECT.format(512)}
  @%l {LOAD} [%s], [%x, {{0, 0}}], [bar];
  {ARRIVED}
  shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; ld.shared.u32 %r2, [%r1]; add.u32 %r2, %r2, 1;
  bar.sync 0;
  st.shared.u32 [%r1], %r2;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%l cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%y, {{0, 0}}], [%s];
  @%l cp.async.bulk.commit_group;
  @%l cp.async.bulk.wait_group.read 0;
  bar.sync 0;
  st.shared.u32 [%r1], %t;
"""


def tile_round(text):
    a, b = image(), np.zeros((ROWS, COLUMNS), np.uint16)
    report = run(text, {"x": map_of(a, (32, 8)), "y": map_of(b, (32, 8))}, findings=True)
    return {finding.rule for finding in report.findings}


def test_a_right_round_has_no_finding():
    assert tile_round(ROUND) == set()


@pytest.mark.parametrize(
    ("removed", "rule"),
    [
        (ARRIVED, "async-not-awaited"),
        ("fence.proxy.async.shared::cta;", "missing-proxy-fence"),
        ("@%l cp.async.bulk.wait_group.read 0;", "async-source-overwritten"),
    ],
)
def test_a_missing_step_of_a_round_is_found(removed, rule):
    assert ROUND.count(removed) == 1
    assert rule in tile_round(ROUND.replace(removed, ""))


def test_a_transaction_count_that_is_not_met():
    text = ROUND.replace("[bar], 512;", "[bar], 528;")
    with pytest.raises(emulator.Deadlock, match="transaction count 16: 16 bytes are missing"):
        tile_round(text)

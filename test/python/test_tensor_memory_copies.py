"""Copies from shared to tensor memory by tcgen05.cp, in the emulator."""

import re

import numpy as np
import pytest

import weft
from weft.isa.tcgen05.tensor_layouts import operand_a, scales, scales_of_b
from weft.layout import AXES, Layout
from weft.layout.iterators import point_table
from weft.mlir import ir
from weft.passes.builders.tensor_memory_copies import plan

TYPES = {"f16": np.uint16, "i8": np.uint8, "f32": np.uint32}
ARGUMENTS = {"f16": np.float16, "i8": np.int8, "f32": np.float32}
PROGRAM = """
!Stored = !tile.buffer<array<i64: {rows}, {columns}>, {element}, #tile.layout<"{source}">, "shared">
!Source = !Stored
!Target = !tile.buffer<array<i64: {rows}, {columns}>, {element}, #tile.layout<"{target}">, "tmem">
!Raw = !tile.buffer<array<i64: 128, {width}>, i32, #tile.layout<"S[(128,{width}):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x{width}xi32, #tile.layout<"S[(4,32,{width}):(1@warpid,1@laneid,1)]">>
!Ring = !tile.ring<1 : i64>
#grid = affine_map<(d0, d1, d2, d3) -> ({group}, 1, 1)>
gpu.module @m [#nvvm.target<chip = "sm_100a">] {{
  gpu.func @copy(%x: memref<{all_rows}x{columns}x{element}>, %y: memref<{lanes}x{width}xi32>) kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>, weft.grid = #grid, {cluster}}} {{
    %c0 = arith.constant 0 : i32
    %n = arith.constant {rows} : i32
    %128 = arith.constant 128 : i32
    %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
    %row = arith.muli %rank, %n : i32
    %lane = arith.muli %rank, %128 : i32
    %stored = "tile.alloc"() : () -> !Stored
    %source = "tile.alloc"(%stored) : (!Stored) -> !Source
    %ring = "tile.make_ring"()
        {{filled_by = "mma", emptied_by = "threads", consumers = 1 : i64{ring}}} : () -> !Ring
    "tile.copy"(%x, %row, %c0, %stored) : (memref<{all_rows}x{columns}x{element}>, i32, i32, !Stored) -> ()
    nvvm.fence.proxy {{kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}}
    "tile.tensor_memory"() ({{
      %target = "tile.alloc"() : () -> !Target
      %raw = "tile.alloc"(%target) : (!Target) -> !Raw
      %leads = arith.cmpi eq, %rank, %c0 : i32
      "tile.role"() ({{
      ^bb0(%number: i32):
        %one = nvvm.elect.sync -> i1
        scf.if %one {{
          scf.if %leads {{
            "tile.copy_tmem"(%source, %target) {{cta_group = {group} : i64}} : (!Source, !Target) -> ()
            "tile.commit"(%ring, %c0) : (!Ring, i32) -> ()
          }}
        }}
      }}) {{first = 0 : i64, warps = 1 : i64}} : () -> ()
      "tile.await"(%ring, %c0, %c0) : (!Ring, i32, i32) -> ()
      %words = "tile.load"(%raw, %c0, %c0) : (!Raw, i32, i32) -> !Rows
      "tile.store"(%words, %y, %lane, %c0) : (!Rows, memref<{lanes}x{width}xi32>, i32, i32) -> ()
    }}) {{cta_group = {group} : i64}} : () -> ()
    gpu.return
  }}
}}
"""


def copied(source, target, shape, element="i8", group=1):
    """The instructions that copy a buffer, after a check of what they leave in tensor memory."""
    kernel, x, y = compiled(source, target, shape, element, group)
    run(kernel, x.view(ARGUMENTS[element]), y)
    layout = Layout.parse(target)
    points = (point_table(layout.replica)[:, None] + point_table(layout.shard)).reshape(-1, len(AXES))
    lane, column = points[:, AXES.index("TLane")], points[:, AXES.index("TCol")]
    for part, got in zip(np.split(x, group), np.split(y, group), strict=True):
        assert (got.view(x.dtype)[lane, column].reshape(-1, part.size) == part.ravel()).all()
    return instructions(kernel)


def instructions(kernel):
    """The copies of a kernel, each with its number."""
    forms = re.findall(r"tcgen05\.cp\.cta_group::\d\.(\S+)", kernel.ptx)
    return {form: forms.count(form) for form in dict.fromkeys(forms)}


def run(kernel, x, y):
    """Emulates a copy. One to fewer than 128 lanes leaves others as they are; only this test reads them."""
    findings = kernel.emulate(x, y).findings
    assert not [each for each in findings if each.rule != "uninitialized-tensor"]


def compiled(source, target, shape, element, group=1, change=lambda text: text):
    """A kernel that copies a buffer, what it copies, and room for all columns."""
    (rows, columns), kind = shape, TYPES[element]
    width = -(-Layout.parse(target).span("TCol") * np.dtype(kind).itemsize // 4)
    text = PROGRAM.format(
        source=source,
        target=target,
        rows=rows,
        columns=columns,
        element=element,
        width=width,
        group=group,
        all_rows=rows * group,
        lanes=128 * group,
        cluster="known_cluster_size = array<i32: 2, 1, 1>" if group == 2 else "weft.writes = array<i32: 1>",
        ring=", cta_group = 2 : i64" if group == 2 else "",
    )
    x = np.random.default_rng(1).integers(1, 200, (rows * group, columns)).astype(kind)
    return weft.compile(change(text), arch="sm_100a"), x, np.zeros((128 * group, width), np.int32)


SCALES = "S[({0},4,32,{1},4):({2},4,16,512,1)]".format


@pytest.mark.parametrize("group", [1, 2])
def test_scales_go_to_all_warps(group):
    assert copied(SCALES(1, 1, 0), scales(128, 4), (128, 4), group=group) == {"32x128b.warpx4": 1}


def test_each_tile_of_scales_takes_an_instruction():
    assert copied(SCALES(2, 2, 1024), scales(256, 8), (256, 8)) == {"32x128b.warpx4": 4}


def test_the_parts_of_a_pairs_d_get_scales_of_their_own():
    source = "S[(2,4,32,4):(512,4,16,1)]"
    assert copied(source, scales_of_b(256, 4, 128, 2), (256, 4)) == {"64x128b.warpx2::01_23": 1}


@pytest.mark.each_value(2)
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("source", "target", "rows", "columns", "element", "forms"),
    [
        ("S[(128,64):(64,1)] xor 128B", operand_a(128, 64), 128, 64, "f16", {"128x256b": 4}),
        ("S[(128,32):(32,1)] xor 64B", operand_a(128, 32), 128, 32, "f16", {"128x256b": 2}),
        ("S[(128,16):(16,1)] xor 32B", operand_a(128, 16), 128, 16, "f16", {"128x256b": 1}),
        ("S[(128,4,8):(8,1024,1)]", operand_a(128, 32), 128, 32, "f16", {"128x256b": 2}),
        ("S[(128,2,4):(4,512,1)]", operand_a(128, 8), 128, 8, "f32", {"128x256b": 1}),
        ("S[(128,8):(8,1)]", operand_a(128, 8), 128, 8, "f16", {"128x128b": 1}),
        (
            "S[(128,3,8):(8,1024,1)]",
            "S[(128,24):(1@TLane,1@TCol)]",
            128,
            24,
            "f16",
            {"128x256b": 1, "128x128b": 1},
        ),
        ("S[(128,2,3,8):(8,8192,1024,1)]", operand_a(128, 48), 128, 48, "f16", {"128x256b": 3}),
        ("S[(64,64):(64,1)] xor 128B", operand_a(128, 64, 2), 64, 64, "f16", {"64x128b.warpx2::02_13": 8}),
        ("S[(32,8):(8,1)]", operand_a(32, 8, weight_stationary=True), 32, 8, "f16", {"32x128b.warpx4": 1}),
        ("S[(4,2,8):(8,64,1)]", "S[(4,16):(32@TLane,1@TCol)]", 4, 16, "f16", {"4x256b": 1}),
    ],
)
def test_copies_take_the_widest_instructions(source, target, rows, columns, element, forms):
    assert copied(source, target, (rows, columns), element) == forms


@pytest.mark.parametrize(
    ("element", "bits", "shift", "source", "target", "form"),
    [
        ("f6E2M3FN", 6, 0, "S[(128,32):(32,1)] xor 32B", operand_a(128, 32), "128x256b.b8x16.b6x16_p32"),
        (
            "f4E2M1FN",
            4,
            2,
            "S[(128,2,16):(64,32,1)] xor 32B",
            operand_a(128, 32, spacing=2),
            "128x256b.b8x16.b4x16_p64",
        ),
    ],
)
def test_elements_that_a_byte_has_in_tensor_memory_are_expanded(element, bits, shift, source, target, form):
    def narrow(text):
        types = "".join(
            f'!{name} = !tile.buffer<array<i64: 128, 32>, {element}, #tile.layout<"{layout}">, "{space}">\n'
            for name, layout, space in (("Source", source, "shared"), ("Target", target, "tmem"))
        )
        return types + "".join(
            line for line in text.splitlines(True) if not line.startswith(("!Source =", "!Target ="))
        )

    raw = "S[(128,32):(32,1)] xor 32B"
    kernel, x, y = compiled(raw, "S[(128,32):(1@TLane,1@TCol)]", (128, 32), "i8", change=narrow)
    run(kernel, x.view(np.int8), y)
    assert instructions(kernel) == {form: 1}
    stream = np.unpackbits(x.reshape(-1, 16)[:, : 2 * bits], axis=1, bitorder="little").reshape(-1, bits)
    values = np.packbits(stream, axis=1, bitorder="little")[:, 0] << shift
    assert (y.view(np.uint8).ravel() == values).all()


def test_packed_elements_are_copied_as_they_are():
    source, target = "S[(128,64):(64,1)] xor 32B", operand_a(128, 64)
    kind = '!tile.buffer<array<i64: 128, 64>, f4E2M1FN, #tile.layout<"{}">, "{}">'.format
    module = weft.Module()
    with module:
        found = plan(*(ir.Type.parse(kind(*each)) for each in ((source, "shared"), (target, "tmem"))))
    assert [(each.shape, each.column) for each, _ in found.copies] == [("128x256b", 0)]
    assert not found.source_format

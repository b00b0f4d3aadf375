"""Kernels that modify tensor maps and copy through them, and maps that the driver refuses."""

import dataclasses

import numpy as np
import pytest
import tma_reference as tma
from tma_reference import Form, Im2col, Interleaved, Tiled

from weft import emulator
from weft.errors import WeftError
from weft.isa import tensor_map as isa

RNG = np.random.default_rng(14)
MEMORY = 1024
BEFORE = Tiled("UINT16", (24, 10, 4), (16, 4, 2), pad=1)


def changed(**fields):
    return dataclasses.replace(BEFORE, **fields)


def strided(spec, strides):
    class Strided(type(spec)):
        pass

    Strided.strides = property(lambda self: strides)
    return Strided(**{field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)})


# What is replaced (field, ordinal, type, value), a map before it and one that has the new field.
FIELDS = {
    "global_address": ([("global_address", None, "b64", "%rd10")], BEFORE, BEFORE),
    "rank": ([("rank", None, "b32", 1)], BEFORE, changed(dims=(24, 10), box=(16, 4))),
    "box_dim 0": ([("box_dim", 0, "b32", 8)], BEFORE, changed(box=(8, 4, 2))),
    "box_dim 2": ([("box_dim", 2, "b32", 3)], BEFORE, changed(box=(16, 4, 3))),
    "global_dim 0": (
        [("global_dim", 0, "b32", 20)],
        BEFORE,
        strided(changed(dims=(20, 10, 4)), BEFORE.strides),
    ),
    "global_dim 1": (
        [("global_dim", 1, "b32", 3)],
        BEFORE,
        strided(changed(dims=(24, 3, 4)), BEFORE.strides),
    ),
    "global_dim 2": ([("global_dim", 2, "b32", 2)], BEFORE, changed(dims=(24, 10, 2))),
    "global_stride 0": (
        [("global_stride", 0, "b64", 48)],
        BEFORE,
        strided(BEFORE, (48, BEFORE.strides[1])),
    ),
    "global_stride 1": (
        [("global_stride", 1, "b64", 320)],
        BEFORE,
        strided(BEFORE, (BEFORE.strides[0], 320)),
    ),
    "element_stride": ([("element_stride", 1, "b32", 3)], BEFORE, changed(steps=(1, 3, 1))),
    "elemtype": (
        [("elemtype", None, "b32", 2), ("global_dim", 0, "b32", 12), ("box_dim", 0, "b32", 8)],
        BEFORE,
        changed(dtype="UINT32", dims=(12, 10, 4), box=(8, 4, 2)),
    ),
    "fill_mode": (
        [("fill_mode", None, "b32", 1)],
        changed(dtype="BFLOAT16"),
        changed(dtype="BFLOAT16", fill="nan"),
    ),
    "elemtype and fill_mode": (
        [("elemtype", None, "b32", 6), ("fill_mode", None, "b32", 1)],
        BEFORE,
        changed(dtype="FLOAT16", fill="nan"),
    ),
    "swizzle_mode 1": ([("swizzle_mode", None, "b32", 1)], BEFORE, changed(swizzle="32B")),
    "swizzle_mode 2": (
        [("swizzle_mode", None, "b32", 2)],
        Tiled("UINT16", (40, 10, 4), (32, 4, 2)),
        Tiled("UINT16", (40, 10, 4), (32, 4, 2), swizzle="64B"),
    ),
    "swizzle_mode 3": (
        [("swizzle_mode", None, "b32", 3)],
        Tiled("UINT16", (72, 10, 4), (64, 4, 2)),
        Tiled("UINT16", (72, 10, 4), (64, 4, 2), swizzle="128B"),
    ),
    "swizzle_mode 0": ([("swizzle_mode", None, "b32", 0)], changed(swizzle="32B"), BEFORE),
    **{
        f"swizzle_atomicity {number}": (
            [("swizzle_atomicity", None, "b32", number)],
            Tiled("UINT16", (72, 10, 4), (64, 4, 2), swizzle="128B"),
            Tiled("UINT16", (72, 10, 4), (64, 4, 2), swizzle=swizzle),
        )
        for number, swizzle in enumerate(("128B", *tma.ATOMS))
    },
    "interleave_layout": (
        [("interleave_layout", None, "b32", 1), ("global_dim", 0, "b32", 1), ("box_dim", 0, "b32", 1)],
        Tiled("UINT16", (8, 7, 4, 3), (8, 3, 2, 2)),
        Interleaved("UINT16", (1, 7, 4, 3), (1, 3, 2, 2)),
    ),
}
START = {2: (8, 8), 3: (8, 8, 1), 4: (0, 5, 1, 1)}


def replaces(fields, space, where):
    lines = []
    for name, ordinal, kind, value in fields:
        ordinal = "" if ordinal is None else f"{ordinal}, "
        lines.append(f"@%p1 tensormap.replace.tile.{name}{space}.b1024.{kind} [{where}], {ordinal}{value};")
    return "\n".join(lines)


def copied_map(to):
    """The first warp's lanes each move a word of the map to shared memory (`desc`) or to %rd8."""
    store = "st.shared.u32 [%r20], %r21;" if to == "shared" else "st.global.u32 [%rd9], %r21;"
    return f"""
      .shared .align 128 .b8 desc[128];
      setp.lt.u32 %p3, %r0, 32;
      mov.u64 %rd8, %rd1;
      mul.wide.u32 %rd9, %r0, 4; add.u64 %rd7, %rd0, %rd9; add.u64 %rd9, %rd9, %rd8;
      mov.u32 %r20, desc; shl.b32 %r21, %r0, 2; add.u32 %r20, %r20, %r21;
      @!%p3 bra COPIED;
      ld.u32 %r21, [%rd7]; {store}
      bar.warp.sync 0xffffffff;
    COPIED:
    """


def kernel(fields, after, space):
    rank = len(after.dims)
    start = START[rank]
    if space == ".global":
        edit = f"""{copied_map("global")}
      {replaces(fields, space, "%rd8")}
      @%p1 fence.proxy.tensormap::generic.release.gpu;"""
    else:
        where = "desc" if space else "%rd11"
        edit = f"""{copied_map("shared")}
      mov.u64 %rd11, desc; cvta.shared.u64 %rd11, %rd11;
      {replaces(fields, space, where)}
      @!%p3 bra FENCED;
      bar.warp.sync 0xffffffff;
      tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%rd8], [desc], 128;
    FENCED:"""
    moves = "".join(f"mov.u32 %r{10 + n}, {at}; " for n, at in enumerate(start))
    region = tma.region_of(after.bytes)
    return f"""{tma.head(region)}
      {tma.copy_shared(region, "%rd2", None)}
      add.u64 %rd10, %rd1, {MEMORY};
      {edit}
      {tma.INIT}
      {moves}
      @!%p1 bra WAIT;
      fence.proxy.tensormap::generic.acquire.gpu [%rd8], 128;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {after.bytes};
      cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes
        [tile], [%rd8, {tma.vector(rank)}], [bar];
      {tma.WAIT}
      {tma.copy_shared(region, "%rd2", True)}
      ret; }}"""


@pytest.mark.each_value(14)
@pytest.mark.sampled(4)
@pytest.mark.parametrize("space", [".shared::cta", ".global", ""])
@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_replaced(name, space):
    fields, before, after = FIELDS[name]
    extent = max(before.extent, after.extent)
    first, second = (RNG.integers(1, 120, extent, dtype=np.uint8) for _ in range(2))
    scratch = np.zeros(MEMORY + extent, np.uint8)
    scratch[MEMORY:] = second
    out = np.zeros(tma.region_of(after.bytes), np.uint8)
    target = "sm_100a" if "atomicity" in name else "sm_90a"
    tma.run(kernel(fields, after, space), target, [before.map(first), scratch, out])
    memory = second if name == "global_address" else first
    box = tma.loaded(after, memory, after.elements(START[len(after.dims)]))
    np.testing.assert_array_equal(out, tma.in_shared(box, after.swizzle, 0, len(out)))
    if name != "swizzle_atomicity 0":
        old = before.elements(START[len(before.dims)])
        image = tma.in_shared(tma.loaded(before, first, old), before.swizzle, 0, 4096)[: len(out)]
        assert (out != image[: len(out)]).any(), "the change must show"


@pytest.mark.parametrize(
    "spec", [BEFORE, changed(swizzle="32B", fill="nan", dtype="FLOAT16", steps=(1, 2, 1))]
)
def test_a_map_that_a_kernel_writes_equals_the_drivers(spec):
    """From 128 bytes of zeros, as Triton makes its maps."""
    kinds = {"UINT16": 1, "FLOAT16": 6}
    fields = [("global_address", None, "b64", "%rd10"), ("rank", None, "b32", 2)]
    for n in range(3):
        fields += [("box_dim", n, "b32", spec.box[n]), ("global_dim", n, "b32", spec.dims[n])]
        fields += [("element_stride", n, "b32", spec.steps[n] if spec.steps else 1)]
    fields += [("global_stride", n, "b64", stride) for n, stride in enumerate(spec.strides)]
    fields += [("elemtype", None, "b32", kinds[spec.dtype]), ("interleave_layout", None, "b32", 0)]
    fields += [("swizzle_mode", None, "b32", tma.SWIZZLES.index(spec.swizzle))]
    fields += [("fill_mode", None, "b32", int(spec.fill == "nan"))]
    memory = RNG.integers(1, 120, spec.extent, dtype=np.uint8)
    scratch = np.concatenate([np.zeros(MEMORY, np.uint8), memory])
    out = np.zeros(tma.region_of(spec.bytes), np.uint8)
    tma.run(kernel(fields, spec, ".shared::cta"), "sm_90a", [bytes(128), scratch, out])
    box = tma.loaded(spec, memory, spec.elements(START[3]))
    np.testing.assert_array_equal(out, tma.in_shared(box, spec.swizzle, 0, len(out)))


def test_maps_in_constant_and_global_memory():
    """A map may also be in memory that the launch gives; its bytes are those of the argument."""
    spec = BEFORE
    memory = tma.memory_of(RNG, spec)
    region = tma.region_of(spec.bytes)
    out = np.zeros(region, np.uint8)
    text = kernel([], spec, ".global")
    tma.run(text, "sm_90a", [spec.map(memory), np.zeros(MEMORY, np.uint8), out])
    box = tma.loaded(spec, memory, spec.elements(START[3]))
    np.testing.assert_array_equal(out, tma.in_shared(box, "none", 0, region))


def test_a_map_of_a_large_tensor():
    """Encoders set bit 21 of the second word for tensors of 128 KiB and more, CuTe's on every chip; code
    that ptxas makes of a new address clears it.
    """
    spec = BEFORE
    memory = tma.memory_of(RNG, spec)
    words = np.frombuffer(spec.map(memory).encode(0x7F0000000000), np.uint64).copy()
    plain = isa.TensorMap.decode(words.tobytes())
    words[1] |= np.uint64(1 << 21)
    assert isa.TensorMap.decode(words.tobytes()) == plain
    region = tma.region_of(spec.bytes)
    scratch, out = np.zeros(MEMORY + len(memory), np.uint8), np.zeros(region, np.uint8)
    scratch[MEMORY:] = memory
    # The kernel replaces the address, as the launch doesn't know that of its buffer.
    fields = [("global_address", None, "b64", "%rd10")]
    tma.run(kernel(fields, spec, ".global"), "sm_90a", [words.tobytes(), scratch, out])
    box = tma.loaded(spec, memory, spec.elements(START[3]))
    np.testing.assert_array_equal(out, tma.in_shared(box, "none", 0, region))
    assert not scratch[:128].view(np.uint64)[1] & np.uint64(1 << 21)


def test_maps_that_say_nothing():
    """The third bit of the swizzle mode is where ptxas's code for sm_103a puts it."""
    words = np.frombuffer(BEFORE.map(np.zeros(BEFORE.extent, np.uint8)).encode(0), np.uint64).copy()
    for word, bits, complaint in (
        (1, 1 << 22, "swizzle mode must be in 0..3, got 4"),
        (1, 7 << 4, "rank must be in 1..5, got 8"),
        (1, 15 << 7, "element type must be one of UINT8, "),
        (1, 3 << 11, "interleave must be in 0..2, got 3"),
    ):
        wrong = words.copy()
        wrong[word] |= np.uint64(bits)
        with pytest.raises(ValueError, match=complaint):
            isa.TensorMap.decode(wrong.tobytes())


TILED = {
    "dtype": "UINT16",
    "dims": (64, 32, 8),
    "strides_bytes": (128, 4096),
    "box": (32, 8, 2),
    "element_strides": (1, 1, 1),
    "interleave": "none",
    "swizzle": "none",
    "l2_promotion": "none",
    "oob_fill": "zero",
}
REFUSED = [
    {"dims": (0, 32, 8)},
    {"dims": (64, (1 << 32) + 1, 8)},
    {"strides_bytes": (120, 4096)},
    {"strides_bytes": (136, 4096)},
    {"strides_bytes": (128, 1 << 40)},
    {"box": (0, 8, 2)},
    {"box": (32, 257, 2)},
    {"box": (7, 8, 2)},
    {"element_strides": (1, 0, 1)},
    {"element_strides": (1, 9, 1)},
    {"swizzle": "32B"},
    {"swizzle": "64B", "box": (40, 8, 2)},
    {"swizzle": "128B", "box": (72, 8, 2)},
    {
        "interleave": "16B",
        "dims": (64, 32),
        "strides_bytes": (128,),
        "box": (32, 8),
        "element_strides": (1, 1),
    },
    {"interleave": "32B", "swizzle": "32B", "strides_bytes": (144, 9216)},
    {"oob_fill": "nan"},
    {"oob_fill": "nan", "dtype": "INT32", "dims": (32, 32, 8), "box": (16, 8, 2)},
    {"dims": (64,) * 6, "strides_bytes": (128,) * 5, "box": (8,) * 6, "element_strides": (1,) * 6},
    {"dtype": "FLOAT8"},
    {"swizzle": "96B"},
    {"box": (32, 8)},
    {"dtype": "16U4_ALIGN16B", "dims": (192, 32, 8), "box": (128, 8, 2)},
    {"dtype": "16U4_ALIGN16B", "dims": (256, 32, 8), "box": (64, 8, 2)},
    {"dtype": "16U4_ALIGN16B", "dims": (256, 32, 8), "box": (128, 8, 2), "swizzle": "32B"},
    {"dtype": "16U6_ALIGN16B", "dims": (128, 32, 8), "box": (128, 8, 2), "swizzle": "64B"},
    {"dtype": "16U6_ALIGN16B", "dims": (128, 32, 8), "box": (128, 8, 2), "strides_bytes": (112, 3584)},
    {"dtype": "16U4_ALIGN8B", "dims": (63, 32, 8), "box": (32, 8, 2)},
    {"dtype": "16U4_ALIGN8B", "dims": (64, 32, 8), "box": (32, 8, 2), "oob_fill": "nan"},
]


@pytest.mark.parametrize("fields", REFUSED, ids=str)
def test_what_the_driver_refuses(fields):
    memory = np.zeros(1 << 16, np.uint8)
    emulator.TensorMap.tiled(memory, **TILED)
    with pytest.raises(WeftError):
        emulator.TensorMap.tiled(memory, **(TILED | fields))


COLUMNS = {
    "dtype": "FLOAT16",
    "dims": (64, 9, 8, 2),
    "strides_bytes": (128, 1152, 9216),
    "lower_corner": (-1, -1),
    "upper_corner": (-1, -1),
    "channels_per_pixel": 32,
    "pixels_per_column": 64,
    "element_strides": (1, 1, 1, 1),
    "interleave": "none",
    "swizzle": "64B",
    "l2_promotion": "none",
    "oob_fill": "zero",
}
REFUSED_COLUMNS = [
    {"lower_corner": (-129, 0)},
    {"upper_corner": (0, 128)},
    {"lower_corner": (-1,)},
    {"lower_corner": (8, 0), "upper_corner": (-8, 0)},
    {"channels_per_pixel": 257},
    {"channels_per_pixel": 64},
    {"pixels_per_column": 1025},
    {"element_strides": (1, 9, 1, 1)},
    {
        "dims": (64, 9),
        "strides_bytes": (128,),
        "lower_corner": (),
        "upper_corner": (),
        "element_strides": (1, 1),
    },
]


@pytest.mark.parametrize("fields", REFUSED_COLUMNS, ids=str)
def test_what_the_driver_refuses_of_im2col(fields):
    memory = np.zeros(1 << 16, np.uint8)
    emulator.TensorMap.im2col(memory, **COLUMNS)
    with pytest.raises(WeftError):
        emulator.TensorMap.im2col(memory, **(COLUMNS | fields))


@pytest.mark.parametrize("promotion", ["none", "64B", "128B", "256B"])
def test_promotion_changes_nothing(promotion):
    memory = tma.memory_of(RNG, BEFORE)
    out = tma.load(BEFORE, BEFORE.map(memory, l2_promotion=promotion), [(8, 8, 1)], Form(3))
    box = tma.loaded(BEFORE, memory, BEFORE.elements((8, 8, 1)))
    np.testing.assert_array_equal(out[0, : len(box)], box)


def test_maps_of_two_arrays_and_of_parts_of_one():
    memory = tma.memory_of(RNG, BEFORE)
    spec = Im2col("UINT16", (8, 3, 2), (0,), (0,), 8, 6)
    part = memory[64 : 64 + spec.extent]
    out = tma.load(spec, spec.map(part), [(0, 0, 0, 0)], Form(3, ".im2col", offsets=1))
    np.testing.assert_array_equal(out[0, : spec.bytes], part[: spec.bytes])

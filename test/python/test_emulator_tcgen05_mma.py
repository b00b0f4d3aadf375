"""`tcgen05.mma` in every kind and layout, against float64 products with exact sums."""

import emulator_tensor as tensor
import numpy as np
import pytest
import tcgen05_reference as reference
from tcgen05_case import RNG, SCALE_B, Case, check, small
from tcgen05_reference import codes

from weft import emulator

SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
DENSE = [
    *(("f16", a, a, d) for a, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"))),
    ("f16", "f16", "bf16", "f32"),
    ("tf32", "tf32", "tf32", "f32"),
    *(
        ("f8f6f4", a, b, "f32")
        for a in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
        for b in ("e4m3", "e3m2", "e2m1")
    ),
    ("f8f6f4", "e5m2", "e2m3", "f16"),
    *(("i8", a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")),
]
SHAPES = [(1, 64, 16), (1, 128, 16), (1, 128, 48), (2, 128, 64), (2, 256, 64)]


@pytest.mark.each_value(1)
@pytest.mark.sampled(24)
@pytest.mark.parametrize("a", ["shared", "tensor"])
@pytest.mark.parametrize(("kind", "a_type", "b_type", "d_type"), DENSE)
def test_types(kind, a_type, b_type, d_type, a):
    check(Case(kind, 128, 32, a_type=a_type, b_type=b_type, d_type=d_type, a=a))


@pytest.mark.each_value(1)
@pytest.mark.sampled(24)
@pytest.mark.parametrize("a", ["shared", "tensor"])
@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4", "i8"])
@pytest.mark.parametrize(("group", "m", "n"), SHAPES)
def test_shapes(kind, group, m, n, a):
    name = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}[kind]
    check(Case(kind, m, n, a_type=name, d_type="s32" if kind == "i8" else "f32", group=group, a=a))


def test_the_largest_shape():
    check(Case("f16", 128, 256, a_type="f16", swizzle=("32B", "32B")))


@pytest.mark.each_value(1)
@pytest.mark.sampled(24)
@pytest.mark.parametrize("transpose", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize(
    ("kind", "name"), [("f16", "f16"), ("f8f6f4", "e4m3"), ("f8f6f4", "e2m1"), ("i8", "s8")]
)
def test_layouts(kind, name, swizzle, transpose):
    d_type = "s32" if kind == "i8" else "f32"
    check(Case(kind, 128, 64, a_type=name, d_type=d_type, swizzle=(swizzle, swizzle), transpose=transpose))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transpose", [(True, False), (False, True), (True, True)])
def test_wide_atoms(transpose):
    swizzle = tuple("128B_32B" if t else "128B" for t in transpose)
    check(Case("tf32", 128, 64, a_type="tf32", swizzle=swizzle, transpose=transpose))


def test_atoms_of_32_bytes_are_for_transposed_tf32():
    case = Case("tf32", 128, 64, a_type="tf32", swizzle=("128B", "128B"), transpose=(True, False))
    with pytest.raises(emulator.Fault, match="128B_32B") as caught:
        case.run()
    assert caught.value.rule == "descriptor"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", [0, 16])
@pytest.mark.parametrize(("group", "m", "sparse"), [(1, 64, False), (1, 64, True), (2, 128, True)])
def test_half_of_the_lanes(group, m, sparse, base):
    check(Case("f16", m, 32, a_type="f16", group=group, a="tensor", sparse=sparse, half_base=base))


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("negate", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("kind", "name"), [("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e2m3")])
def test_negation(kind, name, negate):
    check(Case(kind, 128, 32, a_type=name, negate=negate))


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("group", "m"), [(1, 64), (1, 128), (2, 128), (2, 256)])
def test_without_the_old_d(group, m):
    check(Case("f16", m, 32, a_type="f16", group=group), keeps=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("power", [1, 5, 15])
@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_scaled_input(kind, power):
    case = Case(kind, 128, 32, a_type=kind)
    found, _ = case.run(after=f", {power}")
    np.testing.assert_array_equal(found, case.expected(factor=2.0**-power))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("group", "m"), [(1, 64), (1, 128), (2, 128), (2, 256)])
def test_lanes_that_are_not_written(group, m):
    case = Case("f16", m, 32, a_type="f16", group=group)
    masks = RNG.integers(0, 1 << 32, 4 * group, dtype=np.uint64)
    names = ", ".join(f"%r{210 + i}" for i in range(4 * group))
    moves = " ".join(f"mov.u32 %r{210 + i}, {mask};" for i, mask in enumerate(masks))
    found, _ = case.run(lanes=f", {{{names}}}", commands=moves)
    lane, _ = case.d_cells()
    bits = np.array([[int(masks[4 * r + i // 32]) >> i % 32 & 1 for i in range(128)] for r in range(group)])
    masked = np.concatenate([bits[rank][lane] for rank in range(group)]) == 1
    np.testing.assert_array_equal(found, np.where(masked, case.before, case.expected()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("use", ["discard", "lastuse", "fill", "use"])
def test_collectors_change_no_number(use):
    check(Case("f16", 128, 32, a_type="f16"), modifiers=f".collector::a::{use}")


@pytest.mark.parametrize(("group", "m"), [(1, 128), (2, 256)])
def test_shifted_rows(group, m):
    case = Case("f16", m, 32, a_type="f16", a="tensor", group=group)
    found, _ = case.run(modifiers=".ashift")
    row = np.arange(m)
    case.left = case.left[np.where(row % 32 == 31, row, row + 1)]
    np.testing.assert_array_equal(found, case.expected())


def test_saturated_integers():
    for saturate in (False, True):
        case = Case("i8", 128, 16, a_type="s8", d_type="s32")
        case.saturate = saturate
        case.before = np.full((128, 16), 2.0**31 - 2)
        case._put_d(0, case.before)
        found, _ = case.run()
        exact = case.left @ case.right + case.before
        wrapped = (exact.astype(np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)
        np.testing.assert_array_equal(found, np.minimum(exact, 2.0**31 - 1) if saturate else wrapped)


# Block scales

SCALED = [
    *(
        ("mxf8f6f4", a, b, vec, 1, "ue8m0")
        for a, b in (("e4m3", "e5m2"), ("e2m1", "e3m2"))
        for vec in ("", "1X", "block32")
    ),
    *(("mxf4", "e2m1", "e2m1", vec, 2, "ue8m0") for vec in ("", "2X", "block32")),
    *(("mxf4nvf4", "e2m1", "e2m1", vec, 2, "ue8m0") for vec in ("2X", "block32")),
    *(("mxf4nvf4", "e2m1", "e2m1", vec, 4, kind) for vec in ("4X", "block16") for kind in ("ue8m0", "ue4m3")),
]


@pytest.mark.each_value(1)
@pytest.mark.sampled(32)
@pytest.mark.parametrize(("kind", "a_type", "b_type", "vec", "blocks", "name"), SCALED)
@pytest.mark.parametrize(("group", "m", "n"), [(1, 128, 32), (1, 128, 256), (2, 128, 64), (2, 256, 64)])
def test_block_scales(kind, a_type, b_type, vec, blocks, name, group, m, n):
    scale = {"vec": vec, "blocks": blocks, "type": name}
    check(Case(kind, m, n, a_type=a_type, b_type=b_type, group=group, scale=scale))


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "vec", "blocks", "ids"),
    [
        *(("mxf8f6f4", "block32", 1, (i, 3 - i)) for i in range(4)),
        ("mxf4", "block32", 2, (2, 0)),
        ("mxf4", "", 2, (0, 2)),
    ],
)
def test_scale_ids(kind, vec, blocks, ids):
    name = "e4m3" if kind == "mxf8f6f4" else "e2m1"
    scale = {"vec": vec, "blocks": blocks, "type": "ue8m0", "ids": ids}
    check(Case(kind, 128, 64, a_type=name, scale=scale))


def test_scale_addresses_with_the_scale_id_on_top():
    """CUTLASS keeps the byte of a scale in the two upper bits of its address, and passes them on."""
    scale = {"vec": "block32", "blocks": 1, "type": "ue8m0", "ids": (1, 2), "high": (1, 2)}
    check(Case("mxf8f6f4", 128, 64, a_type="e4m3", scale=scale))


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("a", ["shared", "tensor"])
@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
def test_scaled_operands_in_tensor_memory(kind, a):
    blocks, vec = (1, "block32") if kind == "mxf8f6f4" else (2, "block32")
    name = "e2m3" if kind == "mxf8f6f4" else "e2m1"
    check(Case(kind, 128, 32, a_type=name, a=a, scale={"vec": vec, "blocks": blocks, "type": "ue8m0"}))


@pytest.mark.each_value(1)
@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("kind", "vec", "blocks", "ids"),
    [
        *(("mxf4", "block32", 3, (i, 3 - i)) for i in range(4)),
        ("mxf4nvf4", "block16", 6, (0, 2)),
        ("mxf4nvf4", "block16", 6, (2, 0)),
    ],
)
@pytest.mark.parametrize(("group", "m", "n"), [(2, 256, 64), (2, 256, 256), (1, 128, 64), (2, 128, 64)])
def test_long_k(kind, vec, blocks, ids, group, m, n):
    scale = {"vec": vec, "blocks": blocks, "type": "ue8m0", "ids": ids}
    check(Case(kind, m, n, a_type="e2m1", group=group, k=96, scale=scale, target="sm_103a"))


def test_long_k_in_one_cta():
    """CUTLASS's SM103_MXF4_ULTRA_SS_VS."""
    scale = {"vec": "block16", "blocks": 6, "type": "ue4m3"}
    check(Case("mxf4nvf4", 128, 64, a_type="e2m1", k=96, scale=scale, target="sm_103a"))


def test_scales_must_be_copied_to_all_parts():
    case = Case("mxf4", 128, 32, a_type="e2m1", scale={"vec": "2X", "blocks": 2, "type": "ue8m0"})
    case.memory[0, SCALE_B, 69] ^= 1
    with pytest.raises(emulator.Fault, match=r"lanes 64\.\.95 must have the same scales"):
        case.run()


# Sparse A

SPARSE = [
    ("f16", "f16", "f32", (0, 1)),
    ("f16", "bf16", "f32", (0,)),
    ("tf32", "tf32", "f32", (0, 1)),
    ("f8f6f4", "e4m3", "f32", (0,)),
    ("f8f6f4", "e2m1", "f32", (0,)),
    ("i8", "s8", "s32", (0,)),
    ("i8", "u8", "s32", (0,)),
]


@pytest.mark.each_value(1)
@pytest.mark.sampled(30)
@pytest.mark.parametrize("a", ["shared", "tensor"])
@pytest.mark.parametrize(("kind", "name", "d_type", "selectors"), SPARSE)
@pytest.mark.parametrize(("group", "m"), [(1, 64), (1, 128), (2, 128), (2, 256)])
def test_sparse(kind, name, d_type, selectors, group, m, a):
    for selector in selectors:
        case = Case(kind, m, 32, a_type=name, d_type=d_type, group=group, a=a, sparse=True, selector=selector)
        check(case)


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
@pytest.mark.parametrize(("group", "m"), [(1, 128), (2, 256)])
def test_sparse_with_scales(kind, group, m):
    name, blocks = ("e4m3", 1) if kind == "mxf8f6f4" else ("e2m1", 2 if kind == "mxf4" else 4)
    vec = {"mxf8f6f4": "1X", "mxf4": "2X", "mxf4nvf4": "4X"}[kind]
    scale = {"vec": vec, "blocks": blocks, "type": "ue8m0"}
    check(Case(kind, m, 32, a_type=name, group=group, sparse=True, scale=scale))


# Weight stationary


@pytest.mark.each_value(1)
@pytest.mark.sampled(60)
@pytest.mark.parametrize("a", ["shared", "tensor"])
@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("n", [64, 128])
@pytest.mark.parametrize(
    ("kind", "name", "d_type"),
    [("f16", "f16", "f32"), ("tf32", "tf32", "f32"), ("f8f6f4", "e5m2", "f16"), ("i8", "s8", "s32")],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_weight_stationary(kind, name, d_type, m, n, a, sparse):
    check(Case(kind, m, n, a_type=name, d_type=d_type, a=a, ws=True, sparse=sparse))


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("use", ["b0::fill", "b1::use", "b2::lastuse", "b3::discard"])
def test_buffers_change_no_number(use):
    check(Case("f16", 64, 64, a_type="f16", ws=True), modifiers=f".collector::{use}")


def mask_word(starts, firsts, skip, use, shift=0, non_zero=1):
    word = sum(s << 8 * i for i, s in enumerate(starts)) | sum(f << 32 + i for i, f in enumerate(firsts))
    return word | non_zero << 39 | skip << 40 | use << 48 | shift << 56


def mask_bits(count, start, first, skip, use):
    """The ISA's examples: runs of use + 1 zeros and skip + 1 ones, from the lowest bit."""
    run = [1] * (skip + 1) + [0] * (use + 1) if first else [0] * (use + 1) + [1] * (skip + 1)
    return (run * (count + len(run)))[start : start + count]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("m", "starts", "firsts"),
    [(128, (0, 0, 0, 0), (0, 0, 0, 0)), (64, (0, 0, 0, 0), (1, 0, 0, 0)), (32, (0, 1, 2, 1), (1, 1, 0, 0))],
)
@pytest.mark.parametrize("shift", [0, 2])
def test_zero_columns(m, starts, firsts, shift):
    n = 64
    case = Case("f16", m, n, a_type="f16", ws=True)
    case.max_shift = 8
    if shift:
        # Columns beyond N are B's too: its image has them.
        more = small((case.depth, n + 8), "f16")
        case.right = more[:, shift : shift + n]
        case.image_b = case._image(codes(more.T, "f16"), "f16", 1)
        case.images[0, case.offset_b : case.offset_b + case.image_b.data.size] = case.image_b.data
    parts = 128 // m
    bits = [b for i in range(parts) for b in mask_bits(n // parts, starts[i], firsts[i], 2, 3)]
    case.right = np.where(bits, 0.0, case.right)
    word = mask_word(starts, firsts, 2, 3, shift)
    found, _ = case.run(commands=f"mov.u64 %rd12, {word};", after=", %rd12")
    np.testing.assert_array_equal(found, case.expected())


def test_a_mask_that_leaves_all_columns():
    case = Case("f16", 128, 64, a_type="f16", ws=True)
    word = mask_word((0,) * 4, (0,) * 4, 4, 3, non_zero=0)
    found, _ = case.run(commands=f"mov.u64 %rd12, {word};", after=", %rd12")
    np.testing.assert_array_equal(found, case.expected())


# What is wrong


def test_an_illegal_descriptor_is_a_fault():
    case = Case("f16", 128, 32, a_type="f16")
    case.idesc = lambda: 7 << 7
    with pytest.raises(emulator.Fault, match="a_type 7 names nothing") as caught:
        case.run()
    assert caught.value.rule == "descriptor"


def test_a_descriptor_of_a_sparse_a():
    case = Case("f16", 128, 32, a_type="f16")
    word = case.idesc() | 4
    case.idesc = lambda: word
    with pytest.raises(emulator.Fault, match="specifies a sparse A"):
        case.run()


def test_a_pair_of_one():
    case = Case("f16", 256, 32, a_type="f16", group=2)
    case.group = 1
    word = case.idesc
    case.idesc = lambda: setattr(case, "group", 2) or word()
    body = "@%p1 tcgen05.shift.cta_group::2.down [%t];"
    with pytest.raises(emulator.Fault, match="a pair of CTAs, but the cluster has 1"):
        tensor.launch(body, {}, group=2)


def test_d_at_a_lane_where_it_can_not_begin():
    case = Case("f16", 128, 32, a_type="f16")
    case.base = 16
    with pytest.raises(emulator.Fault, match="must begin at lane 0 of tensor memory with this M"):
        case.run()


def test_random_numbers_are_near():
    for kind, name, tolerance in (("f16", "f16", 1e-5), ("tf32", "tf32", 1e-5), ("f8f6f4", "e4m3", 1e-5)):
        case = Case(kind, 128, 32, a_type=name)
        values = RNG.standard_normal((128, case.depth)).astype(np.float16).astype(reference.DTYPES[name])
        case.left = values.astype(np.float64)
        case._put_a(0, codes(case.left, name))
        found, _ = case.run()
        # Each of the products and D lose less than 2**-24 of the largest, the result 2**-23 of itself.
        np.testing.assert_allclose(found, case.expected(), rtol=tolerance, atol=tolerance)

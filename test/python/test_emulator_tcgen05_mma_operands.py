"""How `tcgen05.mma` finds its operands in shared memory, and what goes wrong there: strides with gaps, steps
along K within a swizzle's pattern, pairs, and what the sanitizer says.
"""

import emulator_tensor as tensor
import ml_dtypes
import numpy as np
import pytest
from tcgen05_operands import B_AT, COLUMNS, ROOM, Operand, descriptor, exact, multiply, product, small

from weft import emulator
from weft.isa.tcgen05.descriptors import BlockScaledDescriptor

SWIZZLES = ("none", "32B", "64B", "128B")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("major", ["kk", "km", "mk", "mm"])
@pytest.mark.parametrize(("of_a", "of_b"), [(a, b) for a in SWIZZLES for b in SWIZZLES if a != b])
def test_operands_with_swizzles_of_their_own(of_a, of_b, major):
    a, b = small((128, 16)), small((64, 16))
    left = Operand(a, 0, of_a, major[0], gap=0 if of_a != "none" else 128)
    right = Operand(b, B_AT, of_b, major[1], gap=0 if of_b != "none" else 48)
    image = np.zeros(ROOM, np.uint8)
    left.fill(image)
    right.fill(image)
    idesc = descriptor(n=64, transpose_a=major[0] == "m", transpose_b=major[1] == "m")
    out, _ = product(multiply(left, right, idesc), image, columns=64)
    np.testing.assert_array_equal(out[0].view(np.float32).T, exact(a, b))


@pytest.mark.parametrize("major", ["k", "m"])
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_groups_that_lie_apart(swizzle, major):
    """Twice the pattern's size between groups and between panels keeps the pattern."""
    gap = 8 * (16 if swizzle == "none" else int(swizzle[:-1]))
    a, b = small((128, 16)), small((32, 16))
    left, right = Operand(a, 0, swizzle, major, gap), Operand(b, B_AT, swizzle, major, gap)
    image = np.full(ROOM, 0x5A, np.uint8)
    left.fill(image)
    right.fill(image)
    idesc = descriptor(transpose_a=major == "m", transpose_b=major == "m")
    out, _ = product(multiply(left, right, idesc), image)
    np.testing.assert_array_equal(out[0].view(np.float32).T, exact(a, b))


@pytest.mark.each_value(5)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "name", "dtype"),
    [("f16", "bf16", ml_dtypes.bfloat16), ("tf32", "tf32", np.float32), ("i8", "s8", np.int8)],
)
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_steps_along_k(swizzle, kind, name, dtype):
    """Each step begins 32 bytes further in the same pattern, which the address's bits swizzle."""
    width = 128 if swizzle == "none" else int(swizzle[:-1])
    size = np.dtype(dtype).itemsize
    depth, steps = 32 // size, width // 32
    a, b = small((128, depth * steps), dtype), small((32, depth * steps), dtype)
    left, right = Operand(a, 0, swizzle), Operand(b, B_AT, swizzle)
    image = np.zeros(ROOM, np.uint8)
    left.fill(image)
    right.fill(image)
    text = multiply(left, right, descriptor(kind, name), steps=steps, depth=depth, kind=kind)
    out, _ = product(text, image)
    found = out[0].view(np.int32 if kind == "i8" else np.float32)
    np.testing.assert_array_equal(found.T, exact(a, b))


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_steps_along_k_of_matrices_whose_rows_run_fastest(swizzle):
    a, b = small((128, 64)), small((64, 64))
    left, right = Operand(a, 0, swizzle, "m"), Operand(b, B_AT, swizzle, "m")
    image = np.zeros(ROOM, np.uint8)
    left.fill(image)
    right.fill(image)
    idesc = descriptor(n=64, transpose_a=True, transpose_b=True)
    out, _ = product(multiply(left, right, idesc, steps=4, depth=16), image, columns=64)
    np.testing.assert_array_equal(out[0].view(np.float32).T, exact(a, b))


@pytest.mark.each_value(3)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("swizzle", ["32B", "128B"])
@pytest.mark.parametrize("major", ["k", "m"])
@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_of_ctas_shares_both(m, major, swizzle):
    n = 128
    a, b = small((m, 16)), small((n, 16))
    image = np.zeros((2, ROOM), np.uint8)
    for rank in range(2):
        left = Operand(a[rank * m // 2 :][: m // 2], 0, swizzle, major)
        right = Operand(b[rank * n // 2 :][: n // 2], B_AT, swizzle, major)
        left.fill(image[rank])
        right.fill(image[rank])
    idesc = descriptor(m=m, n=n, cta_group=2, transpose_a=major == "m", transpose_b=major == "m")
    out, _ = product(multiply(left, right, idesc, group=2), image, group=2, columns=n * m // 256)
    found, wanted = out.view(np.float32), exact(a, b)
    for rank in range(2):
        rows = wanted[rank * m // 2 :][: m // 2]
        if m == 256:
            np.testing.assert_array_equal(found[rank].T, rows)
            continue
        # 64 rows each: the lanes from 64 on hold the columns from N/2 on.
        np.testing.assert_array_equal(found[rank, : n // 2, :64].T, rows[:, : n // 2])
        np.testing.assert_array_equal(found[rank, : n // 2, 64:].T, rows[:, n // 2 :])


def ordinary(**more):
    a, b = small((128, 16)), small((32, 16))
    left, right = Operand(a, 0), Operand(b, B_AT)
    image = np.zeros(ROOM, np.uint8)
    left.fill(image)
    right.fill(image)
    return multiply(left, right, descriptor(), **more), image, exact(a, b)


def test_d_at_another_column():
    text, image, wanted = ordinary(column=96)
    after = tensor.cells(96, 32, "out", load=False)
    out, _ = product(text, image, after=after)
    np.testing.assert_array_equal(out[0].view(np.float32).T, wanted)


def test_infinities_and_what_is_no_number():
    a, b = small((128, 16)), small((32, 16))
    a[3, 2], a[5, 7], b[4, 2], b[9] = np.inf, np.nan, 0, 1
    a[7, 0], a[7, 1], b[6, :2] = np.inf, -np.inf, 1
    left, right = Operand(a, 0), Operand(b, B_AT)
    image = np.zeros(ROOM, np.uint8)
    left.fill(image)
    right.fill(image)
    out, _ = product(multiply(left, right, descriptor()), image)
    with np.errstate(invalid="ignore"):
        wanted = exact(a, b)
    np.testing.assert_array_equal(out[0].view(np.float32).T, wanted)


# What is wrong


def rules(*args, **more):
    _, report = product(*args, findings=True, **more)
    return {finding.rule for finding in report.findings}


def test_a_right_product_has_no_finding():
    text, image, _ = ordinary()
    assert rules(text, image) == set()


def test_no_proxy_fence_before():
    text, image, _ = ordinary()
    assert rules(text, image, fence=False) == {"missing-proxy-fence"}


def test_operands_that_nothing_wrote():
    text, image, _ = ordinary()
    assert rules(text, image, copy=False) == {"uninitialized-shared"}


def test_d_that_nothing_wrote():
    text, image, _ = ordinary()
    text = text.replace("setp.ne.u32 %p7, 0, 0;", "setp.eq.u32 %p7, 0, 0;")
    assert "uninitialized-tensor" in rules(text, image)


def test_d_beyond_what_was_allocated():
    text, image, _ = ordinary(column=COLUMNS - 16)
    assert "tmem-unallocated" in rules(text, image, after="bar.sync 0;")


def test_a_read_of_d_before_the_commit_was_seen():
    text, image, _ = ordinary()
    early = f"""
      add.u32 %r299, %t, %b; bar.sync 0; @!%p1 bra PAST;
      cvt.u64.u32 %rd7, %r200; shr.u64 %rd7, %rd7, 4;
      {text}
    PAST:
      bar.warp.sync -1;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1}}, [%r299]; tcgen05.wait::ld.sync.aligned;"""
    assert "tmem-race" in rules("", image, before=early)


def test_shared_memory_that_ends_too_early():
    _, image, _ = ordinary()
    far = Operand(small((128, 16)), B_AT)
    far.start = (1 << 18) - 64
    near = Operand(small((32, 16)), B_AT)
    with pytest.raises(emulator.Fault) as caught:
        product(multiply(far, near, descriptor()), image)
    assert caught.value.rule in ("out-of-bounds", "descriptor")


def test_d_beyond_tensor_memory():
    text, image, _ = ordinary(column=500)
    with pytest.raises(emulator.Fault, match=r"tensor memory has lanes 0\.\.127 and columns 0\.\.511"):
        product(text, image, findings=True)


@pytest.mark.parametrize("bit", [46, 61])
def test_an_illegal_shared_descriptor_is_a_fault(bit):
    """Without the 1 in bits 46 to 48; with 1 + 6 as swizzle."""
    text, image, _ = ordinary()
    wrong = text.replace("tcgen05.mma", f"xor.b64 %rd8, %rd8, {(7 if bit == 61 else 1) << bit}; tcgen05.mma")
    with pytest.raises(emulator.Fault) as caught:
        product(wrong, image)
    assert caught.value.rule == "descriptor"


def test_a_pair_without_a_peer():
    with pytest.raises(emulator.Fault, match="pair"):
        tensor.launch("", {}, group=2)


@pytest.mark.parametrize(
    ("field", "value"), [("m", 3 << 24), ("n", 0x3F << 17), ("d", 2 << 4), ("saturate", 1 << 3)]
)
def test_an_illegal_instruction_descriptor_is_a_fault(field, value):
    text, image, _ = ordinary()
    good = descriptor()
    text = text.replace(f"mov.u32 %r244, {good}", f"mov.u32 %r244, {good ^ value}")
    with pytest.raises(emulator.Fault) as caught:
        product(text, image)
    assert caught.value.rule == "descriptor"


SPARSE = descriptor(sparse=True)
SCALED = BlockScaledDescriptor("mxf8f6f4", 128, 32, "e4m3", "e4m3", scale_vec="block32").encode()
UNWRITTEN = {
    "a": f"kind::f16 [%t], [%r240], %rd9, {descriptor(a='tensor')}, %p7;",
    "metadata": f"kind::f16 [%t], %rd8, %rd9, [%r240], {SPARSE}, %p7;",
    "scale_a": f"kind::mxf8f6f4.block_scale.block32 [%t], %rd8, %rd9, {SCALED}, [%r240], [%r241], %p7;",
    "scale_b": f"kind::mxf8f6f4.block_scale.block32 [%t], %rd8, %rd9, {SCALED}, [%r241], [%r240], %p7;",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("operand", list(UNWRITTEN))
def test_operands_in_tensor_memory_that_nothing_wrote(operand, written):
    image = np.zeros(ROOM, np.uint8)
    left, right = Operand(small((128, 32)), 0), Operand(small((32, 32)), B_AT)
    sp = ".sp" if operand == "metadata" else ""
    text = f"""
      add.u64 %rd8, %rd7, {left.descriptor()}; add.u64 %rd9, %rd7, {right.descriptor()};
      setp.ne.u32 %p7, 0, 0; add.u32 %r240, %t, 64; add.u32 %r241, %t, 96;
      tcgen05.mma{sp}.cta_group::1.{UNWRITTEN[operand]}"""
    words = np.full((64, 128), 0x44444444, np.uint32)
    # All from column 64 on, or only what begins at column 96.
    before = tensor.cells(64, 64, "words") if written else tensor.cells(96, 32, "words")
    found = rules(text, image, before=before, words=words)
    assert found == (set() if written else {"uninitialized-tensor"})


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_a_sparse_a_with_a_longer_b(swizzle):
    """A's rows have 32 bytes and B's 64; each chunk of four keeps its elements 1 and 3."""
    wide = "64B" if swizzle == "32B" else swizzle
    a, b = small((128, 16)), small((32, 32))
    left, right = Operand(a, 0, swizzle), Operand(b, B_AT, wide)
    image = np.zeros(ROOM, np.uint8)
    left.fill(image)
    right.fill(image)
    text = f"""
      add.u64 %rd8, %rd7, {left.descriptor()}; add.u64 %rd9, %rd7, {right.descriptor()};
      setp.ne.u32 %p7, 0, 0; add.u32 %r240, %t, 64;
      tcgen05.mma.sp.cta_group::1.kind::f16 [%t], %rd8, %rd9, [%r240], {SPARSE}, %p7;"""
    words = np.full((4, 128), 0xDDDDDDDD, np.uint32)
    out, _ = product(text, image, before=tensor.cells(64, 4, "words"), words=words)
    dense = np.zeros((128, 32))
    dense[:, 1::4], dense[:, 3::4] = a[:, ::2], a[:, 1::2]
    np.testing.assert_array_equal(out[0].view(np.float32).T, exact(dense, b))

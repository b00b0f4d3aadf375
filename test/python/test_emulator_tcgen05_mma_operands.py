"""How `tcgen05.mma` finds its operands in shared memory, and what goes wrong there, by the PTX ISA's canonical
layouts: strides with gaps, steps along K inside of a swizzle's pattern, and what the sanitizer says.
"""

import emulator_tensor as tensor
import ml_dtypes
import numpy as np
import pytest

from weft import emulator
from weft.isa.tcgen05_descriptors import InstructionDescriptor, SharedMemoryDescriptor

RNG = np.random.default_rng(11)
ROOM, B_AT, COLUMNS = 65536, 32768, 256
SWIZZLES = ("none", "32B", "64B", "128B")


class Operand:
    """A matrix `[rows, depth]` at `start` of shared memory, whose bytes `address` places one by one."""

    def __init__(self, values, start, swizzle="none", fastest="k", gap=0):
        self.values, self.start, self.swizzle, self.fastest = values, start, swizzle, fastest
        self.size = values.dtype.itemsize
        rows, depth = values.shape
        width = 16 if swizzle == "none" else int(swizzle[:-1])
        across = depth if fastest == "k" else rows
        down = rows if fastest == "k" else depth
        self.width, self.group = width, 8 * width + gap
        self.panel = self.group * (down // 8) + gap
        if across * self.size <= width:
            self.panel = 16
        swapped = swizzle == "none" and fastest != "k"
        self.leading, self.stride = (self.group, self.panel) if swapped else (self.panel, self.group)

    def address(self, row, k):
        fast, slow = (k, row) if self.fastest == "k" else (row, k)
        byte = fast * self.size
        at = self.start + byte % self.width + byte // self.width * self.panel
        at += slow % 8 * self.width + slow // 8 * self.group
        bits = {"none": 0, "32B": 1, "64B": 3, "128B": 7}[self.swizzle]
        return at ^ (at >> 7 & bits) << 4

    def fill(self, image):
        octets = np.ascontiguousarray(self.values).view(np.uint8).reshape(*self.values.shape, self.size)
        row, k = np.indices(self.values.shape)
        at = self.address(row, k)
        for byte in range(self.size):
            image[at + byte] = octets[..., byte]

    def descriptor(self, k=0):
        """That of what begins at `k`."""
        start = self.start
        if self.fastest == "k" and self.swizzle != "none":
            start += k * self.size
        elif self.fastest == "k":
            start += k * self.size // 16 * self.panel
        else:
            start += k // 8 * self.group
        return SharedMemoryDescriptor(start, self.leading, self.stride, 0, self.swizzle).encode()


def product(text, image, *, columns=32, before="", after="", group=1, findings=False, fence=True, copy=True):
    """Runs `text`, which thread 0 of the first CTA issues; D of `columns` columns, and the report."""
    out = np.zeros((group, columns, 128), np.uint32)
    data = np.ascontiguousarray(image).reshape(group, ROOM)
    copied = f"""
      mov.u32 %r201, %i;
    COPY:
      mad.wide.u32 %rd6, %r201, 16, %image; ld.global.v4.u32 {{%r202, %r203, %r204, %r205}}, [%rd6];
      mad.lo.u32 %r206, %r201, 16, %r200; st.shared.v4.u32 [%r206], {{%r202, %r203, %r204, %r205}};
      add.u32 %r201, %r201, 128; setp.lt.u32 %p5, %r201, {ROOM // 16}; @%p5 bra COPY;"""
    told = "multicast::cluster.b64 [bar], %h0" if group == 2 else "b64 [bar]"
    body = f"""
      mad.wide.u32 %image, %c, {ROOM}, %image; mad.wide.u32 %out, %c, {columns * 512}, %out;
      mov.u32 %r200, smem;
      {copied if copy else ""}
      {"fence.proxy.async.shared::cta;" if fence else ""}
      {before}
      tcgen05.fence::before_thread_sync;
      bar.sync 0;
      {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else ""}
      tcgen05.fence::after_thread_sync;
      cvt.u64.u32 %rd7, %r200; shr.u64 %rd7, %rd7, 4; mov.u16 %h0, 3;
      setp.eq.and.u32 %p2, %c, 0, %p1;
      @!%p2 bra ISSUED;
      {text}
      tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.{told};
    ISSUED:
      mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 0; @!%p6 bra ISSUED;
      tcgen05.fence::after_thread_sync;
      {after or tensor.cells(0, columns, "out", load=False)}"""
    report = tensor.launch(
        body,
        {"image": data, "out": out},
        columns=COLUMNS,
        declare=f".shared .align 1024 .b8 smem[{ROOM}];",
        grid=group,
        cluster=(group, 1, 1),
        group=group,
        findings=findings,
    )
    return out, report


def multiply(a, b, idesc, *, steps=1, depth=0, kind="f16", group=1, column=0, first=0):
    """The instructions of some steps along K; the first doesn't read D."""
    lines = [f"add.u32 %r239, %t, {column}; mov.u32 %r244, {idesc};"]
    for step in range(first, first + steps):
        lines.append(
            f"add.u64 %rd8, %rd7, {a.descriptor(step * depth)};"
            f"add.u64 %rd9, %rd7, {b.descriptor(step * depth)};"
            f"setp.ne.u32 %p7, {step - first}, 0;"
            f"tcgen05.mma.cta_group::{group}.kind::{kind} [%r239], %rd8, %rd9, %r244, %p7;"
        )
    return "\n".join(lines)


def small(shape, dtype=np.float16):
    return RNG.integers(-3, 4, shape).astype(dtype)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64).T


def descriptor(kind="f16", name="f16", m=128, n=32, **more):
    return InstructionDescriptor(kind, m, n, name, name, "s32" if kind == "i8" else "f32", **more).encode()


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
    out, _ = product(multiply(left, right, idesc, group=2), image, group=2, columns=n)
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
    assert rules(text, image, copy=False) == {"uninitialised-shared"}


def test_d_that_nothing_wrote():
    text, image, _ = ordinary()
    text = text.replace("setp.ne.u32 %p7, 0, 0;", "setp.eq.u32 %p7, 0, 0;")
    assert "uninitialised-tensor" in rules(text, image)


def test_d_beyond_what_was_allocated():
    text, image, _ = ordinary(column=COLUMNS - 16)
    assert "tmem-unallocated" in rules(text, image, after="bar.sync 0;")


def test_a_read_of_d_before_the_commit_was_seen():
    text, image, _ = ordinary()
    early = f"{text}\nadd.u32 %r298, %t, 0;"
    body = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%t]; tcgen05.wait::ld.sync.aligned;"
    _, report = product("", image, before=f"@%p1 bra GO; bra PAST;\nGO:\n{early_issue(early)}\nPAST:\nbar.warp.sync -1;\n"
                        f"add.u32 %r299, %t, %b;{body.replace('[%t]', '[%r299]')}", findings=True)
    assert "tmem-race" in {finding.rule for finding in report.findings}


def early_issue(text):
    return f"cvt.u64.u32 %rd7, %r200; shr.u64 %rd7, %rd7, 4;\n{text}"


def test_shared_memory_that_ends_too_early():
    text, image, _ = ordinary()
    far = Operand(small((128, 16)), B_AT)
    far.start = (1 << 18) - 64
    near = Operand(small((32, 16)), B_AT)
    with pytest.raises(emulator.Fault) as caught:
        product(multiply(far, near, descriptor()), image)
    assert caught.value.rule in ("out-of-bounds", "descriptor")


def test_d_beyond_tensor_memory():
    text, image, _ = ordinary(column=500)
    with pytest.raises(emulator.Fault, match="128 lanes of 512 columns"):
        product(text, image, findings=True)


@pytest.mark.parametrize("bit", [46, 61])
def test_a_shared_descriptor_that_says_nothing_legal(bit):
    """Without the 1 in bits 46 to 48; with 1 + 6 as swizzle."""
    text, image, _ = ordinary()
    wrong = text.replace("tcgen05.mma", f"xor.b64 %rd8, %rd8, {(7 if bit == 61 else 1) << bit}; tcgen05.mma")
    with pytest.raises(emulator.Fault) as caught:
        product(wrong, image)
    assert caught.value.rule == "descriptor"


def test_a_pair_without_a_peer():
    text, image, _ = ordinary()
    wrong = text.replace("cta_group::1", "cta_group::2")
    with pytest.raises(emulator.Fault, match="pair"):
        product(wrong, image)


@pytest.mark.parametrize(
    ("field", "value"), [("m", 3 << 24), ("n", 0x3F << 17), ("d", 2 << 4), ("saturate", 1 << 3)]
)
def test_an_instruction_descriptor_that_says_nothing_legal(field, value):
    text, image, _ = ordinary()
    good = descriptor()
    text = text.replace(f"mov.u32 %r244, {good}", f"mov.u32 %r244, {good ^ value}")
    with pytest.raises(emulator.Fault) as caught:
        product(text, image)
    assert caught.value.rule == "descriptor"

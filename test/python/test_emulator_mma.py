"""Matrix instructions that only newer chips have, against NumPy, from fragments as the ISA's figures show
them: lane 4g + t holds rows g and g + 8 of A and column g of B.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
from emulator_ptx import module

CHIP = "sm_120a"
KINDS = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
SCALES = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}


def codes(matrix, name):
    """The bytes that a register holds of elements a byte each: e2m1 in bits 5 to 2."""
    found = matrix.astype(KINDS[name]).view(np.uint8)
    return found << 2 if name == "e2m1" else found


def a_words(rows):
    """A of bytes, `[16, 32]`, as four words a lane: rows g and g + 8 of its t-th four k, then 16 k on."""
    words = np.ascontiguousarray(rows).view(np.uint32)
    lanes = [(lane // 4, lane % 4) for lane in range(32)]
    return np.array([[words[g, t], words[g + 8, t], words[g, t + 4], words[g + 8, t + 4]] for g, t in lanes])


def b_words(columns):
    """B of bytes, `[8, k]` by columns, as words of four k: the t-th, and each 16 k on."""
    words = np.ascontiguousarray(columns).view(np.uint32)
    steps = range(0, words.shape[1], 4)
    return np.array([[words[lane // 4, lane % 4 + s] for s in steps] for lane in range(32)])


def c_words(matrix):
    return np.array(
        [
            [matrix[g + 8 * d, 2 * t + e] for d in (0, 1) for e in (0, 1)]
            for g, t in (divmod(lane, 4) for lane in range(32))
        ],
        np.float32,
    ).view(np.uint32)


def run(opcode, words, tail="", outs=4, target=CHIP, chip=None):
    """One warp's D, `[32, outs]` words: `words` are its registers, operand after operand."""
    given = np.concatenate([np.asarray(w, np.uint32).reshape(32, -1) for w in words], axis=1)
    count = given.shape[1]
    loads = "".join(f"ld.global.b32 %r{i}, [%rd3+{4 * i}];" for i in range(count))
    at, lists = 0, []
    for word in words:
        size = np.asarray(word).reshape(32, -1).shape[1]
        lists.append("{" + ", ".join(f"%r{i}" for i in range(at, at + size)) + "}")
        at += size
    results = ", ".join(f"%d{i}" for i in range(outs))
    stores = "".join(f"st.global.b32 [%rd4+{4 * i}], %d{i};" for i in range(outs))
    text = f"""
    .visible .entry k(.param .u64 p, .param .u64 q) {{
      .reg .b32 %r<40>; .reg .b32 %d<16>; .reg .b64 %rd<8>;
      ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; mov.u32 %r39, %tid.x;
      mad.wide.u32 %rd3, %r39, {4 * count}, %rd1; mad.wide.u32 %rd4, %r39, {4 * outs}, %rd2;
      {loads}
      {opcode} {{{results}}}, {", ".join(lists[:3])}{tail.format(*lists[3:])};
      {stores}
      ret;
    }}"""
    out = np.zeros((32, outs), np.uint32)
    module(text, target).launch("k", block=32, args=[np.ascontiguousarray(given), out], chip=chip)
    return out


def d_matrix(out):
    d = np.zeros((16, 8), np.float32)
    for lane in range(32):
        g, t = divmod(lane, 4)
        d[g, 2 * t : 2 * t + 2], d[g + 8, 2 * t : 2 * t + 2] = out.view(np.float32)[lane].reshape(2, 2)
    return d


@pytest.mark.parametrize(
    ("chip", "total"), [(None, 1), ("sm_80", 1), ("sm_86", 1), ("sm_90a", 1 + 2**-23), ("sm_120", 1 + 2**-23)]
)
def test_the_chip_that_runs_it_decides_on_sums(chip, total):
    """Four products of 2**-25 beside 1: chips before sm_90 keep one bit less of each."""
    a, b = np.zeros((16, 16), np.float16), np.zeros((8, 16), np.float16)
    a[:, :4], b[:, :4] = 2.0**-12, 2.0**-13
    # Every lane's registers hold k 2t and 2t + 1, then those plus 8.
    lanes = np.arange(32) % 4 < 2
    words_a, words_b = np.zeros((32, 4), np.uint32), np.zeros((32, 2), np.uint32)
    words_a[lanes, :2] = a[0, :2].view(np.uint32)
    words_b[lanes, 0] = b[0, :2].view(np.uint32)
    out = run(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        [words_a, words_b, np.ones((32, 4), np.float32).view(np.uint32)],
        target="sm_80",
        chip=chip,
    )
    assert (d_matrix(out) == np.float32(total)).all()


def small(rng, shape):
    """Numbers that every format has, and whose sums are exact."""
    return rng.choice([-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2], shape)


@pytest.mark.parametrize(("a_type", "b_type"), list(itertools.product(KINDS, KINDS)))
def test_narrow_floats(a_type, b_type):
    rng = np.random.default_rng(1)
    a, b, c = small(rng, (16, 32)), small(rng, (32, 8)), small(rng, (16, 8))
    out = run(
        f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{a_type}.{b_type}.f32",
        [a_words(codes(a, a_type)), b_words(codes(b.T, b_type)), c_words(c)],
    )
    np.testing.assert_array_equal(d_matrix(out), a @ b + c)


@pytest.mark.parametrize(
    ("byte_a", "thread_a", "byte_b", "thread_b"), [(0, 0, 0, 0), (2, 1, 3, 2), (1, 0, 1, 3)]
)
@pytest.mark.parametrize(("a_type", "b_type"), [("e4m3", "e5m2"), ("e2m1", "e3m2"), ("e2m3", "e2m1")])
def test_scales_of_rows_and_columns(a_type, b_type, byte_a, thread_a, byte_b, thread_b):
    """mxf8f6f4: one scale a row of A, from lanes 2 * thread id and the next; one a column of B."""
    rng = np.random.default_rng(2)
    a, b, c = small(rng, (16, 32)), small(rng, (32, 8)), small(rng, (16, 8))
    scale_a, scale_b = 2.0 ** rng.integers(-3, 4, 16), 2.0 ** rng.integers(-3, 4, 8)
    words_a, words_b = (rng.integers(0, 1 << 32, 32, np.uint64).astype(np.uint32) for _ in range(2))
    octets_a, octets_b = words_a.view(np.uint8).reshape(32, 4), words_b.view(np.uint8).reshape(32, 4)
    bits_a, bits_b = (s.astype(SCALES["ue8m0"]).view(np.uint8) for s in (scale_a, scale_b))
    for g in range(8):
        octets_a[4 * g + 2 * thread_a, byte_a] = bits_a[g]
        octets_a[4 * g + 2 * thread_a + 1, byte_a] = bits_a[g + 8]
        octets_b[4 * g + thread_b, byte_b] = bits_b[g]
    out = run(
        f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{a_type}.{b_type}.f32.ue8m0",
        [a_words(codes(a, a_type)), b_words(codes(b.T, b_type)), c_words(c), words_a, words_b],
        f", {{0}}, {{{{{byte_a}, {thread_a}}}}}, {{1}}, {{{{{byte_b}, {thread_b}}}}}",
    )
    np.testing.assert_array_equal(d_matrix(out), scale_a[:, None] * (a @ b) * scale_b + c)


def nibbles(matrix):
    found = matrix.astype(KINDS["e2m1"]).view(np.uint8)
    return found[:, ::2] | found[:, 1::2] << 4


@pytest.mark.parametrize(
    ("kind", "vector", "scale_type", "byte"),
    [
        ("mxf4", "2X", "ue8m0", 0),
        ("mxf4", "2X", "ue8m0", 2),
        ("mxf4nvf4", "2X", "ue8m0", 2),
        ("mxf4nvf4", "4X", "ue4m3", 0),
    ],
)
def test_packed_fp4_with_scales(kind, vector, scale_type, byte):
    """Two elements a byte, and 2 or 4 scales a row from byte `byte` on."""
    rng = np.random.default_rng(3)
    blocks = int(vector[0])
    a, b, c = small(rng, (16, 64)), small(rng, (64, 8)), small(rng, (16, 8))
    scale_a, scale_b = 2.0 ** rng.integers(-3, 4, (16, blocks)), 2.0 ** rng.integers(-3, 4, (blocks, 8))
    words_a, words_b = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    octets_a, octets_b = words_a.view(np.uint8).reshape(32, 4), words_b.view(np.uint8).reshape(32, 4)
    bits_a, bits_b = (s.astype(SCALES[scale_type]).view(np.uint8) for s in (scale_a, scale_b))
    for g in range(8):
        octets_a[4 * g, byte : byte + blocks] = bits_a[g]
        octets_a[4 * g + 1, byte : byte + blocks] = bits_a[g + 8]
        octets_b[4 * g, byte : byte + blocks] = bits_b[:, g]
    out = run(
        f"mma.sync.aligned.m16n8k64.row.col.kind::{kind}.block_scale.scale_vec::{vector}.f32.e2m1.e2m1.f32.{scale_type}",
        [a_words(nibbles(a)), b_words(nibbles(b.T)), c_words(c), words_a, words_b],
        f", {{0}}, {{{{{byte}, 0}}}}, {{1}}, {{{{{byte}, 0}}}}",
    )
    left, right = a * np.repeat(scale_a, 64 // blocks, axis=1), b * np.repeat(scale_b, 64 // blocks, axis=0)
    np.testing.assert_array_equal(d_matrix(out), left @ right + c)


@pytest.mark.parametrize(("format", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
def test_ldmatrix_makes_bytes_of_small_elements(format, bits):
    """Rows of sixteen elements in the low bytes of sixteen; lane 4g + t gets those from 4t on of row g, each
    in the low bits of its byte: CUTLASS shifts e2m1 by two itself before `mma.sync`.
    """
    rng = np.random.default_rng(4)
    values = rng.integers(0, 1 << bits, (8, 16), np.uint8)
    stream = np.unpackbits(values[..., None], axis=-1, bitorder="little")[..., :bits].reshape(8, -1)
    rows = np.zeros((8, 16), np.uint8)
    rows[:, : 2 * bits] = np.packbits(stream, axis=1, bitorder="little")
    text = f"""
    .visible .entry k(.param .u64 p, .param .u64 q) {{
      .reg .b32 %r<8>; .reg .b64 %rd<8>; .shared .align 16 .b8 s[128];
      ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;
      mad.wide.u32 %rd3, %r1, 4, %rd1; ld.global.b32 %r3, [%rd3]; mad.lo.u32 %r4, %r1, 4, %r2;
      st.shared.b32 [%r4], %r3; bar.sync 0;
      and.b32 %r5, %r1, 7; mad.lo.u32 %r4, %r5, 16, %r2;
      ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.{format} {{%r6}}, [%r4];
      mad.wide.u32 %rd4, %r1, 4, %rd2; st.global.b32 [%rd4], %r6; ret;
    }}"""
    out = np.zeros((8, 16), np.uint8)
    module(text, CHIP).launch("k", block=32, args=[rows, out])
    np.testing.assert_array_equal(out, values)

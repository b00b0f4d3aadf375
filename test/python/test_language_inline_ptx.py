"""Instructions of PTX in a kernel, and values of other lanes."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

CHIPS = ["sm_75", "sm_80", "sm_90a", "sm_100a"]


@w.kernel(threads=64)
def numbers(x: w.In["n", w.i32], y: w.Out["m n", w.i32]):
    i, own = w.thread(), w.shared(1, 64, w.i32)
    y[0, i] = w.ptx("popc.b32 $0, $1;", x[i], result=w.i32)
    low, high = w.ptx(
        "{ .reg .b64 t; mul.wide.s32 t, $2, $3; mov.b64 {$0, $1}, t; }", x[i], -1, result=(w.i32, w.i32)
    )
    y[1, i], y[2, i] = low, high
    w.ptx("st.shared.b32 [$0], $1;", own[i], x[i])
    y[3, i] = w.ptx("ld.shared.b32 $0, [$1+4];", own[i // 32 * 32], result=w.i32)
    w.ptx("{ .reg .b32 t; mov.b32 t, %laneid; st.global.b32 [$0], t; }", y[4, i])
    y[5, i] = w.ptx("cvt.rzi.s32.f16 $0, $1;", x[i].to(w.f16), result=w.i32)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", CHIPS)
def test_instructions_have_numbers_and_addresses(arch):
    x, y = np.arange(1, 65, dtype=np.int32), np.zeros((6, 64), np.int32)
    assert not numbers.emulate(x, y, arch=arch).findings
    lane = np.arange(64) % 32
    wanted = [[n.bit_count() for n in map(int, x)], -x, -np.ones(64), np.repeat([2, 34], 32), lane, x]
    assert np.array_equal(y, wanted)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_instructions_have_elements_of_fragments(arch):
    @w.kernel
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], z: w.Out["m n", w.bf16]):
        with w.role():
            t = w.load(x[0, 0], (64, 64))
            w.store(w.ptx("fma.rn.f32 $0, $1, $2, $3;", t, w.sum(t, axis=1), 2.0, result=w.f32), y[0, 0])
            one, two = w.ptx("{ neg.f32 $0, $2; cvt.rn.bf16.f32 $1, $2; }", t, result=(w.f32, w.bf16))
            w.store(one.to(w.bf16) + two, z[0, 0])

    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    y, z = np.zeros_like(x), np.ones((64, 64), ml_dtypes.bfloat16)
    assert not kernel.emulate(x, y, z, arch=arch).findings
    assert np.allclose(y, x * x.sum(1)[:, None] + 2, atol=1e-5) and not z.astype(np.float32).any()


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_one_thread_executes_instructions_once(arch):
    @w.kernel
    def kernel(x: w.In["m n", w.f32], y: w.Out["2", w.i32]):
        ring = w.ring(1, x=(64, 32, x.dtype))
        with w.role(), w.one_thread():
            ring.fill(x=x[0, 0])
            y[1] = w.ptx("atom.global.add.u32 $0, [$1], 1;", y[0], result=w.i32)
        with w.role(), ring.take() as stage:
            w.load(stage.x)

    y = np.zeros(2, np.int32)
    assert not kernel.emulate(np.zeros((64, 32), np.float32), y, arch=arch).findings
    assert [*y] == [1, 0]


@pytest.mark.parametrize(
    ("text", "count", "result", "message"),
    [
        ("popc.b32 $0, $1", 1, w.i32, "must end with a semicolon"),
        (
            "popcount.b32 $0, $1;",
            1,
            w.i32,
            "'popcount.b32' isn't an instruction of PTX; did you mean 'popc'?",
        ),
        ("popc.b33 $0, $1;", 1, w.i32, "popc.b33: needs a type"),
        ("popc.b32 $0;", 1, w.i32, "w.ptx must have $0..$1, the results and then the operands"),
        ("mov.b32 $0, $1; add.s32 $0, $0, $x;", 1, w.i32, "w.ptx must have $0..$1"),
        ("add.s32 $0, $1;", 1, w.i32, "add.s32: expects 3 operands, got 2"),
        ("min.xorsign.abs.f32 $0, $1, $2;", 2, w.f32, "needs sm_86 or later, got sm_80"),
        ("mov.b64 $0, $1;", 1, w.i64, "expects 64 bits, '$1' is .b32"),
        ("mov.b32 $0, $1;", 1, w.i8, "registers of PTX have 16, 32 or 64 bits, got w.i8"),
        ("tex.1d.v4.s32.s32 {$0, _, _, _}, [t, {$1}];", 1, w.i32, "textures and surfaces aren't emulated"),
        (
            "mma.sync.aligned.m16n8k15.row.col.s32.s8.s8.s32 {$0, $1, $2, $3}, {$4, $4}, {$4}, "
            "{$4, $4, $4, $4};",
            1,
            (w.i32,) * 4,
            "nearest legal: mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {$0, $1, $2, $3}, {$4, $4}",
        ),
    ],
)
def test_mistakes_have_the_line_and_what_is_legal(text, count, result, message):
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32]):
        w.ptx(text, *[x[w.thread()]] * count, result=result)

    with pytest.raises(weft.WeftError, match=re.escape(message)) as raised:
        kernel.compile(arch="sm_80")
    assert raised.value.diagnostics[0].location.line == kernel.__wrapped__.__code__.co_firstlineno + 2


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", CHIPS)
def test_lanes_have_values_of_other_lanes(arch):
    @w.kernel(threads=64)
    def kernel(x: w.In["n", w.i32], y: w.Out["m n", w.i32]):
        i = w.thread()
        v = x[i]
        y[0, i], y[1, i] = w.shuffle(v, 3), w.shuffle(v, i % 7)
        y[2, i], y[3, i], y[4, i] = w.shuffle(v, xor=5), w.shuffle(v, up=2), w.shuffle(v, down=4)
        for row, dtype in enumerate((w.f16, w.i64, w.f64, w.u8)):
            y[5 + row, i] = w.shuffle(v.to(dtype), xor=1).to(w.i32)
        y[9, i] = w.shuffle(v > 5, xor=1).to(w.i32)

    i, y = np.arange(64, dtype=np.int32), np.zeros((10, 64), np.int32)
    assert not kernel.emulate(i, y, arch=arch).findings
    lane, warp = i % 32, i // 32 * 32
    wanted = [warp + 3, warp + i % 7, i ^ 5, np.where(lane < 2, i, i - 2), np.where(lane > 27, i, i + 4)]
    assert np.array_equal(y, [*wanted, *[i ^ 1] * 4, (i ^ 1) > 5])


def test_lanes_have_elements_of_fragments_of_other_lanes():
    @w.kernel
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        with w.role():
            w.store(w.shuffle(w.load(x[0], 512), xor=1), y[0])

    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, x.reshape(-1, 2, 4)[:, ::-1].ravel())  # four elements a lane


@pytest.mark.parametrize(
    ("lanes", "message"),
    [
        ({}, "w.shuffle expects one of lane, xor, up and down"),
        ({"xor": 1, "up": 1}, "w.shuffle expects one of lane, xor, up and down"),
        ({"lane": 32}, "lanes of w.shuffle are in 0..31, got 32"),
        ({"down": 1.0}, "expects an integer"),
    ],
)
def test_mistakes_in_lanes(lanes, message):
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32]):
        w.shuffle(x[0], **lanes)

    with pytest.raises(weft.WeftError, match=re.escape(message)):
        kernel.compile()

"""Loads, stores, atomics, address spaces, cp.async, and faults."""

import numpy as np
import pytest
from emulator_ptx import module, run

from weft import emulator
from weft.errors import WeftError


def launch(body, *args, block=32, grid=1, before="", params=None, **options):
    names = [f"p{i}" for i in range(len(args))]
    formals = params or ", ".join(f".param .u64 {n}" for n in names)
    text = f"""{before}
    .visible .entry k({formals})
    {{
      .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<32>;
      .reg .b64 %rd<32>; .reg .f32 %f<8>; .reg .b128 %q<4>;
      mov.u32 %r0, %tid.x;
      {"".join(f"ld.param.u64 %rd{i + 20}, [p{i}];" for i in range(len(args)) if params is None)}
      {body}
      ret;
    }}"""
    return module(text, options.pop("target", "sm_80")).launch(
        "k", grid=grid, block=block, args=list(args), **options
    )


def test_loads_extend_by_their_type():
    data = np.arange(-16, 16, dtype=np.int8)
    out = np.zeros((32, 4), np.int64)
    body = """
      cvt.u64.u32 %rd0, %r0; add.u64 %rd1, %rd20, %rd0;
      mad.wide.u32 %rd2, %r0, 32, %rd21;
      ld.global.s8 %rd3, [%rd1]; st.global.u64 [%rd2], %rd3;
      ld.global.u8 %rd3, [%rd1]; st.global.u64 [%rd2+8], %rd3;
      ld.global.s8 %h1, [%rd1]; cvt.s64.s16 %rd3, %h1; st.global.u64 [%rd2+16], %rd3;
      ld.global.u8 %r1, [%rd1]; cvt.u64.u32 %rd3, %r1; st.global.u64 [%rd2+24], %rd3;
    """
    launch(body, data, out)
    assert (out == np.stack([data, data.view(np.uint8), data, data.view(np.uint8)], axis=1)).all()


def test_stores_write_the_low_bits():
    out = np.zeros(32, np.uint16)
    launch("mad.wide.u32 %rd0, %r0, 2, %rd20; mov.u64 %rd1, 0x123456789; st.global.b16 [%rd0], %rd1;", out)
    assert (out == 0x6789).all()


@pytest.mark.parametrize(
    ("vector", "bits", "count"),
    [
        ("v2", 8, 2),
        ("v4", 8, 4),
        ("v2", 16, 2),
        ("v4", 16, 4),
        ("v2", 32, 2),
        ("v4", 32, 4),
        ("v2", 64, 2),
        ("v4", 64, 4),
        ("v8", 32, 8),
    ],
)
def test_vector_loads_and_stores(vector, bits, count):
    width = bits // 8 * count
    data = np.random.default_rng(0).integers(0, 256, 32 * width, np.uint8)
    out = np.zeros_like(data)
    letter = {8: "%h", 16: "%h", 32: "%r", 64: "%rd"}[bits]
    first = 10 if bits == 32 else 5
    registers = ", ".join(f"{letter}{first + i}" for i in range(count))
    body = f"""
      mul.wide.u32 %rd0, %r0, {width}; add.u64 %rd1, %rd20, %rd0; add.u64 %rd2, %rd21, %rd0;
      ld.global.{vector}.b{bits} {{{registers}}}, [%rd1];
      st.global.{vector}.b{bits} [%rd2], {{{registers}}};
    """
    launch(body, data, out, target="sm_100")
    assert (out == data).all()


def test_a_vector_is_loaded_in_order_and_sinks_are_skipped():
    data = np.arange(128, dtype=np.uint32)
    out = np.zeros((32, 2), np.uint32)
    body = """
      mad.wide.u32 %rd0, %r0, 16, %rd20; mad.wide.u32 %rd1, %r0, 8, %rd21;
      ld.global.v4.u32 {%r1, _, %r2, _}, [%rd0];
      st.global.v2.u32 [%rd1], {%r2, %r1};
    """
    launch(body, data, out)
    assert (out[:, 1] == np.arange(0, 128, 4)).all()
    assert (out[:, 0] == np.arange(2, 128, 4)).all()


def test_shared_local_const_and_generic_addresses():
    before = """
    .const .align 4 .u32 table[4] = {10, 20, 30, 40};
    .global .align 8 .u64 pointer = generic(table);
    .global .align 4 .b8 text[4] = {1, 2, 3};
    """
    body = """
      .shared .align 8 .b8 block[256];
      .local .align 8 .b8 mine[16];
      and.b32 %r1, %r0, 3; shl.b32 %r2, %r1, 2; cvt.u64.u32 %rd0, %r2;
      mov.u64 %rd1, table; add.u64 %rd2, %rd1, %rd0; ld.const.u32 %r3, [%rd2];
      cvta.const.u64 %rd2, %rd2; ld.u32 %r4, [%rd2];
      ld.global.u64 %rd3, [pointer]; ld.u32 %r5, [%rd3+8];
      mov.u64 %rd4, mine+8; cvta.local.u64 %rd5, %rd4; st.u32 [%rd5-4], %r0; ld.local.u32 %r6, [mine+4];
      mov.u64 %rd6, block; cvta.shared.u64 %rd7, %rd6; mul.wide.u32 %rd8, %r0, 8; add.u64 %rd7, %rd7, %rd8;
      st.u32 [%rd7], %r0; cvta.to.shared.u64 %rd9, %rd7; cvt.u32.u64 %r8, %rd9; ld.shared.u32 %r7, [%r8];
      isspacep.shared %p1, %rd7; isspacep.global %p2, %rd20; isspacep.local %p3, %rd7;
      selp.u32 %r9, 1, 0, %p1; selp.u32 %r10, 2, 0, %p2; selp.u32 %r11, 4, 0, %p3;
      or.b32 %r9, %r9, %r10; or.b32 %r9, %r9, %r11;
      ld.global.u32 %r12, [text];
      mad.wide.u32 %rd10, %r0, 32, %rd20;
      st.global.v4.u32 [%rd10], {%r3, %r4, %r5, %r6};
      st.global.v4.u32 [%rd10+16], {%r7, %r9, %r12, 0};
    """
    out = np.zeros((32, 8), np.uint32)
    launch(body, out, before=before)
    i = np.arange(32)
    assert (out[:, 0] == 10 * (i % 4 + 1)).all()
    assert (out[:, 1] == out[:, 0]).all()
    assert (out[:, 2] == 30).all()
    assert (out[:, 3] == i).all()
    assert (out[:, 4] == i).all()
    assert (out[:, 5] == 3).all()
    assert (out[:, 6] == 0x030201).all()


def test_one_generic_access_may_reach_several_spaces():
    before = ".const .align 4 .u32 c = 77;"
    body = """
      .shared .align 4 .b8 block[128]; .local .align 4 .u32 mine;
      shl.b32 %r1, %r0, 2; mov.u32 %r2, block; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], 5;
      cvt.u64.u32 %rd0, %r2; cvta.shared.u64 %rd0, %rd0;
      st.local.u32 [mine], 6; mov.u64 %rd1, mine; cvta.local.u64 %rd1, %rd1;
      mov.u64 %rd2, c; cvta.const.u64 %rd2, %rd2;
      mad.wide.u32 %rd3, %r0, 4, %rd21;
      and.b32 %r3, %r0, 3;
      setp.eq.u32 %p1, %r3, 0; selp.b64 %rd4, %rd0, %rd1, %p1;
      setp.eq.u32 %p1, %r3, 2; selp.b64 %rd4, %rd2, %rd4, %p1;
      setp.eq.u32 %p1, %r3, 3; selp.b64 %rd4, %rd3, %rd4, %p1;
      ld.u32 %r4, [%rd4];
      mad.wide.u32 %rd5, %r0, 4, %rd20; st.global.u32 [%rd5], %r4;
      setp.ne.u32 %p2, %r3, 2;
      @%p2 st.u32 [%rd4], 9;
      ld.shared.u32 %r5, [%r2]; ld.local.u32 %r6, [mine];
      add.u32 %r5, %r5, %r6; st.global.u32 [%rd5+128], %r5;
    """
    out, data = np.zeros(64, np.uint32), np.arange(100, 132, dtype=np.uint32)
    launch(body, out, data, before=before)
    assert out[:32].tolist() == [[5, 6, 77, 100 + i][i % 4] for i in range(32)]
    assert out[32:].tolist() == [[15, 14, 11, 11][i % 4] for i in range(32)]
    assert data.tolist() == [9 if i % 4 == 3 else 100 + i for i in range(32)]


def test_dynamic_shared_memory_follows_the_static():
    before = ".extern .shared .align 16 .b8 dynamic[];"
    body = """
      .shared .align 4 .b8 fixed[20];
      mov.u32 %r1, dynamic; mov.u32 %r2, fixed;
      mov.u32 %r3, %dynamic_smem_size; mov.u32 %r4, %total_smem_size;
      st.global.v4.u32 [%rd20], {%r1, %r2, %r3, %r4};
      st.shared.u32 [dynamic+60], %r0;
    """
    out = np.zeros(4, np.uint32)
    launch(body, out, before=before, shared_bytes=64)
    assert out.tolist() == [32, 0, 76, 96]
    with pytest.raises(emulator.Fault, match="out-of-bounds shared access of 4 bytes"):
        launch(body, out, before=before, shared_bytes=32)


def test_dynamic_arrays_are_aligned_each_by_itself():
    """As on an H200."""
    before = ".extern .shared .align 16 .b8 one[]; .extern .shared .align 128 .b8 other[];"
    body = """
      .shared .align 4 .b8 fixed[20];
      mov.u32 %r1, one; mov.u32 %r2, other; mov.u32 %r3, fixed;
      st.global.v4.u32 [%rd20], {%r1, %r2, %r3, %r3};
    """
    out = np.zeros(4, np.uint32)
    launch(body, out, before=before, shared_bytes=64)
    assert out.tolist() == [32, 128, 0, 0]


def test_parameters_of_every_kind():
    params = (
        ".param .u8 a, .param .s16 b, .param .f32 c, "
        ".param .f64 d, .param .align 8 .b8 e[16], .param .u64 p, .param .b16 h"
    )
    body = """
      ld.param.u64 %rd0, [p];
      ld.param.u8 %r1, [a]; ld.param.s16 %r2, [b]; ld.param.b32 %r3, [c]; ld.param.b64 %rd1, [d];
      ld.param.v2.u32 {%r4, %r5}, [e+8]; ld.param.b16 %h1, [h]; cvt.u32.u16 %r6, %h1;
      mov.b64 %rd2, e; cvta.param.u64 %rd2, %rd2; ld.u32 %r7, [%rd2+4];
      st.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r4}; st.global.v4.u32 [%rd0+16], {%r5, %r6, %r7, 0};
      st.global.u64 [%rd0+32], %rd1;
    """
    out = np.zeros(10, np.uint32)
    launch(
        body, 200, -3, 1.5, 2.25, np.arange(4, dtype=np.uint32).tobytes(), out, np.float16(1.5), params=params
    )
    assert out[:7].tolist() == [200, 2**32 - 3, 0x3FC00000, 2, 3, 0x3E00, 1]
    assert out[8:].view(np.float64)[0] == 2.25


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([np.zeros(4)], "has 2 parameters, got 1 argument$"),
        ([np.zeros(4), np.zeros(4)], "argument 1 of kernel 'k' is an array, but its parameter has 4 bytes"),
        ([np.zeros(4), 1 << 40], "is 1099511627776, which doesn't fit 32 bits"),
        ([np.zeros(4), bytes(5)], "has 5 bytes, but its parameter has 4"),
        ([np.zeros(4), "text"], "must be an array, a number or bytes, got str"),
    ],
)
def test_arguments_are_checked(args, message):
    text = ".visible .entry k(.param .u64 a, .param .u32 b) { ret; }"
    with pytest.raises(WeftError, match=message.replace("(", r"\(")):
        module(text).launch("k", args=args)


@pytest.mark.parametrize(
    ("target", "most"), [("sm_90a", 227), ("sm_120a", 99), ("sm_120", 227), ("sm_75", 227)]
)
def test_a_block_has_the_shared_memory_of_the_chips_that_run_it(target, most):
    made = module(".visible .entry k() { ret; }", target)
    made.launch("k", shared_bytes=most << 10)
    with pytest.raises(
        WeftError, match=f"needs {(most << 10) + 1} bytes of shared memory, but a block has {most << 10}"
    ):
        made.launch("k", shared_bytes=(most << 10) + 1)


def test_launches_are_checked():
    m = module(".visible .entry k() .reqntid 32 { ret; } .visible .entry j() .maxntid 64, 2 { ret; }")
    assert m.kernels == ("k", "j")
    for options, message in (
        ({"block": 64}, "block must be"),
        ({"block": 32, "grid": (0, 1, 1)}, "grid"),
        ({"block": 32, "arithmetic": "fast"}, "arithmetic"),
        ({"block": 32, "shared_bytes": 1 << 20}, "shared memory"),
    ):
        with pytest.raises(WeftError, match=message):
            m.launch("k", **options)
    for required, block in (("8", (8, 1, 1)), ("8, 2", (8, 2, 1)), ("8, 2, 3", (8, 2, 3))):
        fixed = module(f".visible .entry k() .reqntid {required} {{ ret; }}")
        fixed.launch("k", block=block)
        assert fixed.launch("k").instructions == fixed.launch("k", block=block).instructions
        with pytest.raises(WeftError, match=rf"block must be \({block[0]}, {block[1]}, {block[2]}\), got"):
            fixed.launch("k", block=(block[0], block[1], block[2] + 1))
    with pytest.raises(WeftError, match="block must have at most 128 threads"):
        m.launch("j", block=(129, 1, 1))
    with pytest.raises(WeftError, match="no kernel 'x': it has k, j"):
        m.launch("x")


def test_the_size_of_dynamic_shared_memory_that_a_launch_leaves_out_is_named():
    store = ".visible .entry k() { st.shared.u32 [all+64], 1; ret; }"
    for made, size, message in (
        (
            module(f".extern .shared .align 16 .b8 all[]; {store}"),
            0,
            r"0 bytes, and the launch adds none.*--shared",
        ),
        (module(f".extern .shared .align 16 .b8 all[]; {store}"), 64, r"the block has 64 bytes in thread"),
        (module(f".shared .align 16 .b8 all[64]; {store}"), 0, r"the block has 64 bytes in thread"),
    ):
        with pytest.raises(emulator.Fault, match=message):
            made.launch("k", shared_bytes=size)


def test_a_chip_limits_the_shared_memory_of_a_block():
    # A module for sm_80 may run on any later chip, one for sm_120a on that alone.
    text = ".extern .shared .b8 all[]; .visible .entry k() { .reg .b32 %r; mov.u32 %r, all; ret; }"
    for target, most in (("sm_80", 227), ("sm_90a", 227), ("sm_120a", 99)):
        m = module(text, target)
        m.launch("k", shared_bytes=most * 1024)
        with pytest.raises(WeftError, match=f"needs {most * 1024 + 1} bytes of shared memory"):
            m.launch("k", shared_bytes=most * 1024 + 1)


def test_strided_read_only_and_overlapping_arrays():
    base = np.zeros((8, 8), np.uint32)
    view = base[::-1, 2:6]
    launch("mad.wide.u32 %rd0, %r0, 4, %rd20; setp.lt.u32 %p1, %r0, 4; @%p1 st.global.u32 [%rd0], 7;", view)
    assert (base[7, 2:6] == 7).all()
    assert base.sum() == 28
    whole = np.zeros(64, np.uint32)
    launch(
        "st.global.u32 [%rd20], 1; sub.u64 %rd0, %rd21, %rd20; st.global.u64 [%rd20+8], %rd0;",
        whole,
        whole[10:],
    )
    assert whole[0] == 1
    assert whole[2] == 40
    odd = np.zeros(129, np.uint8)[1:].view(np.uint32)
    launch("mad.wide.u32 %rd0, %r0, 4, %rd20; st.global.u32 [%rd0], %r0;", odd)
    assert (odd == np.arange(32)).all()
    constant = np.zeros(32, np.uint32)
    constant.flags.writeable = False
    with pytest.raises(emulator.Fault, match=r"read-only global access of 4 bytes at 0x2\d+, 0 bytes into "):
        launch("st.global.u32 [%rd20], 1;", constant)


def test_faults_name_line_thread_and_address():
    data = np.zeros(31, np.uint32)
    body = "mad.wide.u32 %rd0, %r0, 4, %rd20;\n ld.global.u32 %r1, [%rd0];"
    with pytest.raises(emulator.Fault) as caught:
        launch(body, data)
    fault = caught.value
    assert fault.line == 12
    assert fault.thread == emulator.Thread((0, 0, 0), (31, 0, 0))
    assert fault.address % 256 == 124
    assert "out-of-bounds global access of 4 bytes" in str(fault)
    assert "0 bytes past the end of argument 0 of 124 bytes in thread (31, 0, 0) of block (0, 0, 0)" in str(
        fault
    )
    with pytest.raises(emulator.Fault) as placed:
        launch(f'.file 1 "k.mlir"\n.loc 1 7 3\n{body}', data)
    assert str(placed.value).startswith("k.mlir:7:3: error: out-of-bounds global access of 4 bytes")
    assert str(placed.value).endswith("of block (0, 0, 0) (line 14 of the PTX)")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ld.global.u32 %r1, [%rd20+2];", "misaligned global access of 4 bytes"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd20+8];", "misaligned global access of 16 bytes"),
        ("ld.global.u32 %r1, [%rd20+-4];", "out-of-bounds global"),
        ("mov.u64 %rd0, 0; ld.u32 %r1, [%rd0];", "out-of-bounds generic access of 4 bytes at 0x0"),
        ("st.shared.u32 [0], 1;", "out-of-bounds shared access of 4 bytes at 0x0, the block has 0 bytes"),
        ("mov.u32 %r1, block; st.shared.u32 [%r1+2], 1;", "misaligned shared"),
        ("mov.u32 %r1, block; st.shared.u32 [%r1+64], 1;", "out-of-bounds shared access of 4 bytes at 0x40"),
        ("mov.u64 %rd0, block; cvta.shared.u64 %rd0, %rd0; st.u32 [%rd0+64], 1;", "out-of-bounds shared"),
        ("ld.local.u32 %r1, [%rd20];", "out-of-bounds local"),
        (".local .b8 own[40]; ld.local.u32 %r1, [own+48];", "out-of-bounds local access of 4 bytes at 0x30"),
        ("mov.u64 %rd0, c; cvta.const.u64 %rd0, %rd0; st.u32 [%rd0], 1;", "read-only const"),
        ("atom.global.add.u32 %r1, [%rd20+1], 1;", "misaligned"),
    ],
)
def test_what_a_gpu_faults_on(body, message):
    shared = ".shared .align 16 .b8 block[64];" if "block" in body else ""
    with pytest.raises(emulator.Fault, match=message):
        launch(shared + body, np.zeros(64, np.uint32), before=".const .u32 c = 1;")


def test_a_guarded_access_checks_only_its_lanes():
    data = np.arange(8, dtype=np.uint32)
    out = np.zeros(32, np.uint32)
    body = """
      setp.lt.u32 %p1, %r0, 8; mad.wide.u32 %rd0, %r0, 4, %rd20;
      mad.wide.u32 %rd1, %r0, 4, %rd21; mov.u32 %r1, 99;
      @%p1 ld.global.u32 %r1, [%rd0];
      st.global.u32 [%rd1], %r1;
    """
    launch(body, data, out)
    assert out.tolist() == [*range(8)] + [99] * 24


def test_module_variables_keep_their_values():
    m = module("""
    .visible .global .align 4 .u32 counter = 5;
    .visible .entry k(.param .u64 p) {
      .reg .b32 %r<4>; .reg .b64 %rd<4>;
      ld.param.u64 %rd1, [p]; atom.global.add.u32 %r1, [counter], 1; st.global.u32 [%rd1], %r1; ret;
    }""")
    out = np.zeros(1, np.uint32)
    for want in (5, 6, 7):
        m.launch("k", args=[out])
        assert out[0] == want


@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_on_one_address_are_serialized(space):
    old, final = np.zeros((128, 9), np.int64), np.zeros(9, np.uint32)
    operations = [
        ("add.u32", "%r0"),
        ("min.s32", "%r1"),
        ("max.u32", "%r0"),
        ("and.b32", "%r2"),
        ("or.b32", "%r3"),
        ("xor.b32", "%r0"),
        ("inc.u32", "10"),
        ("dec.u32", "10"),
        ("exch.b32", "%r0"),
    ]
    start = [5, 0, 3, 0xFFFFFFFF, 0, 0, 0, 4, 9]
    body = """
      .shared .align 4 .b8 block[64];
      sub.u32 %r1, 20, %r0; not.b32 %r2, %r0; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r0;
      mad.wide.u32 %rd1, %r0, 72, %rd20;
      mov.u64 %rd2, block;
    """
    where = "%rd2" if space == "shared" else "%rd21"
    if space == "shared":
        for i, value in enumerate(start):
            body += f"st.shared.u32 [%rd2+{4 * i}], {value};"
    else:
        final[:] = start
    body += "bar.sync 0;\n"
    for i, (name, value) in enumerate(operations):
        body += (
            f"atom.{space}.{name} %r5, [{where}+{4 * i}], {value}; "
            f"cvt.u64.u32 %rd3, %r5; st.global.u64 [%rd1+{8 * i}], %rd3;\n"
        )
    body += "bar.sync 0;\n"
    if space == "shared":
        body += "".join(
            f"ld.shared.u32 %r6, [%rd2+{4 * i}]; st.global.u32 [%rd21+{4 * i}], %r6;" for i in range(9)
        )
    launch(body, old, final, block=128)

    def signed(x):
        return x - (1 << 32) if x >> 31 else x

    steps = [
        lambda v, t: v + t,
        lambda v, t: min(signed(v), 20 - t) & 0xFFFFFFFF,
        lambda v, t: max(v, t),
        lambda v, t: v & ~t & 0xFFFFFFFF,
        lambda v, t: v | (1 << t if t < 32 else 0),
        lambda v, t: v ^ t,
        lambda v, t: 0 if v >= 10 else v + 1,
        lambda v, t: 10 if v == 0 or v > 10 else v - 1,
        lambda v, t: t,
    ]
    for i, step in enumerate(steps):
        value = start[i]
        for t in range(128):
            assert old[t, i] == value, operations[i]
            value = step(value, t)
        assert final[i] == value


def test_compare_and_swap_and_wide_atomics():
    data, out = np.zeros(4, np.uint64), np.zeros(32, np.uint64)
    body = """
      cvt.u64.u32 %rd0, %r0; add.u64 %rd1, %rd0, 1;
      atom.global.cas.b64 %rd2, [%rd20], %rd0, %rd1;
      atom.global.add.u64 %rd3, [%rd20+8], 0x100000000;
      red.global.add.u64 [%rd20+16], %rd0;
      atom.acq_rel.gpu.global.max.s64 %rd4, [%rd20+24], %rd0;
      mad.wide.u32 %rd5, %r0, 8, %rd21; st.global.u64 [%rd5], %rd2;
    """
    launch(body, data, out)
    assert data.tolist() == [32, 32 << 32, 496, 31]
    assert out.tolist() == list(range(32))


def test_floating_point_atomics():
    data = np.zeros(8, np.uint32)
    data[2:4] = np.array([1.0], np.float64).view(np.uint32)
    body = """
      cvt.rn.f32.u32 %f0, %r0; red.global.add.f32 [%rd20], %f0;
      mov.b32 %r1, 0x3C003800; atom.global.add.noftz.f16x2 %r2, [%rd20+4], %r1;
      cvt.f64.f32 %rd0, %f0; red.global.add.f64 [%rd20+8], %rd0;
      mov.b32 %r1, 0x3F803F00; red.global.add.noftz.bf16x2 [%rd20+16], %r1;
      mov.b16 %h0, 0x3C00; atom.global.add.noftz.f16 %h1, [%rd20+20], %h0;
    """
    launch(body, data, target="sm_90")
    assert data[0:1].view(np.float32)[0] == 496
    assert data[1:2].view(np.float16).tolist() == [16, 32]
    assert data[2:4].view(np.float64)[0] == 497
    assert data[4:5].view(np.uint16).tolist() == [0x4180, 0x4200]
    assert data[5:6].view(np.float16)[0] == 32


def test_128_bit_registers_move_whole():
    data, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    body = """
      mul.wide.u32 %rd0, %r0, 16; add.u64 %rd1, %rd20, %rd0; add.u64 %rd2, %rd21, %rd0;
      ld.global.b128 %q1, [%rd1]; mov.b128 {%rd3, %rd4}, %q1;
      mov.b128 %q2, {%rd4, %rd3}; st.global.b128 [%rd2], %q2;
    """
    launch(body, data, out)
    assert (out.reshape(-1, 4) == data.reshape(-1, 4)[:, [2, 3, 0, 1]]).all()


def test_elementwise_runs_over_many_blocks():
    a = np.arange(128 * 100, dtype=np.uint32)
    assert (run("add.u32 %d0, %a0, 1;", a, out=np.uint32) == a + 1).all()


def test_addresses_of_32_bits_stay_as_they_are():
    places = np.arange(0, 256, 8, np.uint32)
    for to in ("", ".to"):
        for space in ("shared", "global", "local"):
            assert (run(f"cvta{to}.{space}.u32 %d0, %a0;", places, out=np.uint32) == places).all()

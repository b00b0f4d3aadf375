"""The parser of PTX text: accepted text, errors with locations, and arbitrary text."""

import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
from emulator_gemm import Gemm, to_ptx
from emulator_ptx import module

from weft import emulator
from weft.emulator.reading import parser
from weft.errors import WeftError

HEAD = ".version 8.6\n.target sm_80, texmode_independent\n.address_size 64\n"


def error(text, launch=True):
    with pytest.raises(emulator.PtxError) as caught:
        m = emulator.Module(text)
        if launch:
            m.launch("k")
    return caught.value


def test_everything_around_instructions():
    text = """//
// Generated
//
.version 8.4
.target sm_90a, debug
.address_size 64
\t.file\t1 "/tmp/a \\"b.cu" , 1, 2
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.extern .func plain
(
  .param .b64 a
)
;
.visible .global .align 4 .f32 table[2][2] = {{1.0, 0f40000000}, {3.0, -4.5}};
.global .align 8 .f64 one = 0d3FF0000000000000;
.global .align 1 .b8 text[6] = {104, 101, 0x6c, 108, 111};
.global .texref t;
.const .align 4 .b8 empty[16];
.extern .shared .align 16 .b8 dynamic[];
.weak .global .align 4 .u32 weak;
.common .global .align 4 .u32 common;
.visible .entry k(
  .param .align 8 .b8 k_param_0[24],
  .param .u64 .ptr .global .align 16 k_param_1,
  .param .u32 k_param_2
)
.maxntid 128, 1, 1
.minnctapersm 2
.maxnreg 64
.pragma "nounroll";
{
  .reg .pred %p<2>;
  .reg .b32 %r<10>, %extra<3>;
  .reg .v4 .f32 %v;
  .reg .b64 %rd<5>;
  .reg .b16 h;
  .pragma "nounroll";
  .loc 1 3 5
$L__func_begin0:
  .loc 1 4 1, function_name $L__info_string0, inlined_at 1 3 5
  ld.param.u64 %rd1, [ k_param_1 + 0 ];
  { .reg .b32 %r<4>; // hides the outer one
    mov.u32 %r1, 5;
    bra $inner;
    mov.u32 %r1, 6;
  $inner:
    st.global.u32 [%rd1+4], %r1;
  }
  { .reg .b32 tmp; bra $inner; $inner: mov.u32 tmp, 7; st.global.u32 [%rd1 + 8], tmp; }
  mov.u32 %r1, 1; /* a comment
  over lines */ mov.u32 %extra2, 2;
  add.s32 %r2, %r1, %extra2;
  st.global.u32 [%rd1], %r2;
  ld.global.v4.f32 {%v.x, %v.y, %v.z, %v.w}, [table];
  st.global.v4.f32 [%rd1+16], %v;
  mov.u64 %rd2, text + 1;
  ld.global.u8 %r3, [%rd2+-1];
  st.global.u32 [%rd1+12], %r3;
  ret;
$L__func_end0:
}
.section .debug_abbrev
{
.b8 1 // Abbreviation
.b8 17
.b64 $L__func_begin0
}
.section .debug_str { $L__info_string0: .b8 0 }
"""
    out = np.zeros(8, np.uint32)
    emulator.Module(text).launch("k", args=[bytes(24), out, 3])
    assert out[:4].tolist() == [3, 5, 7, 104]
    assert out[4:].view(np.float32).tolist() == [1.0, 2.0, 3.0, -4.5]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 4, 1, None),
        (".visible .entry k() { ret }", 4, 27, "expected an operand, got '}'"),
        (".visible .entry k() {\n  foo.bar.u32 %r1, 2;\n}", 5, 3, "unsupported instruction 'foo.bar.u32'"),
        (
            ".visible .entry k() {\n .reg .b32 %r<2>;\n  mov.u32 %r2, 2;\n}",
            6,
            11,
            "expects a register to write to",
        ),
        (".visible .entry k() {\n .reg .b32 %r<2>;\n  mov.u32 %r1, %x;\n}", 6, 16, "'%x' is not declared"),
        (
            ".visible .entry k() {\n .reg .b32 %r<2>; .reg .b64 %d;\n  add.u64 %d, %d, %r1;\n}",
            6,
            19,
            "expects 64 bits, '%r1' is .b32",
        ),
        (
            ".visible .entry k() {\n .reg .b32 %r<2>;\n  add.foo.u32 %r1, %r1, 2;\n}",
            6,
            3,
            "unsupported modifier .foo",
        ),
        (
            ".visible .entry k() {\n .reg .b32 %r<2>;\n  add.u32 %r1, %r1;\n}",
            6,
            3,
            "expects 3 operands, got 2",
        ),
        (".visible .entry k() {\n bra NOWHERE;\n}", 5, 6, "expects a label"),
        (".visible .entry k() {\n .reg .b32 a; .reg .b32 a;\n}", 5, 25, "'a' is declared twice"),
        (".visible .entry k() {\n .reg .b99 a;\n}", 5, 7, "expected a type, got '.b99'"),
        (".visible .entry k() {\n mov.u32 `;\n}", 5, 10, "unexpected '`'"),
        (".visible .entry k() {\n { { ret;\n}", 6, 2, "expected '}', got the end of the text"),
        (
            ".visible .entry k() { ret; }\n.visible .entry k() { ret; }",
            5,
            17,
            "function 'k' is defined twice",
        ),
        (".visible .entry k() {\n .reg .b32 r; ld.global.u32 r, [r;\n}", 5, 34, "expected ']'"),
        (
            ".visible .entry k() {\n .reg .f32 f; cvt.u32.f32 f, f;\n}",
            5,
            15,
            "needs .rni, .rzi, .rmi or .rpi",
        ),
        (".global .align 3 .u32 x;", 4, 16, "expected a power of two"),
        (".global .u32 x[1] = {1, 2};", 4, 14, "'x' has 4 bytes, but its initializer has 8"),
        (".global .u64 x = nothing;", 4, 18, "'nothing' has no address here"),
        (".visible .entry k() {\n call missing, ();\n}", 5, 7, "'missing' is not declared"),
        (".func f(); .visible .entry k() {\n call f, ();\n}", 5, 2, "'f' has no body"),
    ],
)
def test_errors_say_where(text, line, column, message):
    if message is None:
        with pytest.raises(WeftError, match="no kernel 'k': it has none"):
            emulator.Module(HEAD + text).launch("k")
        return
    found = error(HEAD + text)
    assert (found.line, found.column) == (line, column), found
    assert message in str(found)
    assert str(found).startswith(f"<ptx>:{line}:{column}: error: ")


def test_a_module_needs_a_target():
    found = error(".version 8.0\n", launch=False)
    assert "expected a .target directive" in str(found)
    assert "expected .address_size 64" in str(
        error(".version 8.0\n.target sm_80\n.address_size 32\n", launch=False)
    )


def test_only_the_launched_kernel_has_to_be_supported():
    m = module(".visible .entry good() { ret; } .visible .entry bad() { unheard.of; }")
    assert m.launch("good").instructions == 1
    with pytest.raises(emulator.PtxError, match=r"unsupported instruction 'unheard.of'"):
        m.launch("bad")


SMALL = """
.global .align 4 .u32 counter[4] = {1, 2, 3, 4};
.func (.param .b32 r) half(.param .b32 a) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [a]; shr.u32 %r1, %r1, 1; st.param.b32 [r], %r1; ret;
}
.visible .entry k(.param .u64 p, .param .u32 n)
{
  .reg .pred %p<4>; .reg .b16 %h<6>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .f32 %f<6>;
  .shared .align 16 .b8 block[1024];
  .local .align 8 .b8 mine[32];
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; shl.b32 %r4, %r2, 4;
  mov.u32 %r5, block; add.u32 %r5, %r5, %r4;
  cvt.u64.u32 %rd2, %r4; add.u64 %rd3, %rd1, %rd2;
  cp.async.cg.shared.global [%r5], [%rd3], 16; cp.async.commit_group; cp.async.wait_group 0;
  bar.sync 0;
  ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r5];
  mov.u32 %r10, 0;
LOOP:
  add.u32 %r10, %r10, 1; mad.lo.s32 %r6, %r6, 3, %r10;
  setp.lt.and.u32 %p1, %r10, %r2, %p0;
  @%p1 bra LOOP;
  cvt.rn.f32.u32 %f1, %r6; fma.rn.f32 %f2, %f1, 0f3F000000, %f1; cvt.rzi.s32.f32 %r7, %f2;
  cvt.rn.bf16x2.f32 %r8, %f1, %f2; mov.b32 {%h1, %h2}, %r8; add.rn.f16 %h1, %h1, %h2;
  shfl.sync.bfly.b32 %r9|%p2, %r6, 4, 31, -1;
  vote.sync.ballot.b32 %r11, %p2, 0xffffffff;
  atom.global.add.u32 %r12, [counter+4], 1; red.shared.max.s32 [block], %r9;
  st.local.u32 [mine+8], %r9; ld.local.u32 %r9, [mine+8];
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r9; call.uni (y), half, (x); ld.param.b32 %r9, [y]; }
  and.b32 %r13, %r2, 1;
targets: .branchtargets A, B;
  brx.idx %r13, targets;
A: prmt.b32 %r9, %r9, %r6, 0x5410; bra.uni JOIN;
B: lop3.b32 %r9, %r9, %r6, %r7, 0x96;
JOIN:
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r5];
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4},
    {%r6, %r7, %r8, %r9}, {%r6, %r7}, {%f1, %f2, %f3, %f4};
  bar.sync 0;
  st.global.v4.f32 [%rd3], {%f1, %f2, %f3, %f4};
  ret;
}
"""


def mutate(text, rng):
    """One to three small changes: characters, tokens and lines dropped, doubled, swapped or replaced."""
    for _ in range(rng.randrange(1, 4)):
        kind = rng.randrange(6)
        spans = [m.span() for m in re.finditer(r"[\w.%$:]+|[^\w\s]", text)]
        a, b = (text[slice(*rng.choice(spans))] for _ in range(2))
        begin, end = rng.choice(spans)
        if kind == 0:
            text = text[:begin] + text[end:]
        elif kind == 1:
            text = text[:begin] + b + text[end:]
        elif kind == 2:
            text = text[:begin] + a + " " + text[begin:]
        elif kind == 3:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice('{}[]();,.%@!|_-+0x9fZ~"\n') + text[at + rng.randrange(2) :]
        elif kind == 4:
            number = rng.choice(
                ["0", "-1", "4294967295", "0x7fffffff", "99999999999999999999", "3", "0f7FC00000"]
            )
            numbers = [m.span() for m in re.finditer(r"(?<![\w%])\d+(?!\w)", text)]
            begin, end = rng.choice(numbers)
            text = text[:begin] + number + text[end:]
        else:
            lines = text.split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
    return text


def outcome(text, kernel, args, **launch):
    try:
        emulator.Module(text).launch(kernel, args=args, max_instructions=20_000, **launch)
    except (emulator.PtxError, emulator.Fault, emulator.Deadlock) as caught:
        return type(caught).__name__
    except WeftError:
        return "WeftError"
    return "ran"


def fuzz(seeds):
    gemm = Gemm((1, 2), (16, 16))
    texts = [
        (HEAD + SMALL, "k", [np.ones(256, np.uint32), 3], {"block": 64}),
        (
            to_ptx(gemm.ir()),
            "gemm",
            [
                np.ones((16, 64), np.uint16),
                np.ones((32, 64), np.uint16),
                np.zeros((16, 32), np.float32),
                32,
                64,
            ],
            {"block": 64, "shared_bytes": gemm.shared_bytes},
        ),
    ]
    seen = {}
    for seed in seeds:
        rng = random.Random(seed)
        text, kernel, args, launch = texts[seed % 2]
        mutated = mutate(text, rng)
        begun = time.perf_counter()
        found = outcome(
            mutated, kernel, [a.copy() if isinstance(a, np.ndarray) else a for a in args], **launch
        )
        assert time.perf_counter() - begun < 10, seed
        seen[found] = seen.get(found, 0) + 1
    return seen


def test_the_fuzzed_text_runs_unmutated():
    report = module(SMALL).launch("k", block=64, args=[np.ones(256, np.uint32), 3])
    assert report.counters["mma"] == 2


@pytest.mark.slow
def test_mutated_text_gives_an_error_or_a_result():
    seen = fuzz(range(160))
    assert {"PtxError", "ran"} <= seen.keys()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sm_80", "sm_999", r"<ptx>:2:9: error: \.target must be a known chip \(sm_70, .*, got 'sm_999'"),
        ("sm_80", "sm_80, foo", "expected one of debug, .* after the chip, got 'foo'"),
        ("8.6", "99.9", r"<ptx>:1:10: error: unknown PTX version 99\.9: the newest known version is 9\.5"),
        ("8.6", "7.9", r"unknown PTX version 7\.9"),
        ("sm_80", "sm_120f", r"\.target sm_120f needs \.version 8\.8 or later, got 8\.6"),
        ("NUMBER", "12345678901234567890123456789012", "a constant must have at most 64 bits, got '1234"),
        ("NUMBER", "18446744073709551616", "a constant must have at most 64 bits"),
        ("NUMBER", "1" * 80, "a constant must have at most 64 bits"),
    ],
)
def test_what_no_assembler_takes_is_refused(old, new, said):
    text = """.version 8.6
.target sm_80
.address_size 64
.visible .entry k() { .reg .b64 %rd1; mov.b64 %rd1, NUMBER; ret; }"""
    assert emulator.Module(text.replace("NUMBER", "18446744073709551615")).kernels == ("k",)
    with pytest.raises(emulator.PtxError, match=said):
        emulator.Module(text.replace(old, new).replace("NUMBER", "1"))


@pytest.mark.parametrize("target", ["sm_52", "sm_70", "sm_90", "sm_75, debug", "compute_80"])
def test_older_chips_are_targets(target):
    emulator.Module(f".version 8.0\n.target {target}\n.address_size 64\n")


def test_an_opcode_is_looked_up_once(monkeypatch):
    looked_up = []
    monkeypatch.setattr(parser, "reason", looked_up.append)
    text = HEAD + ".visible .entry k() { .reg .b32 %r; " + "mov.b32 %r, 1; add.s32 %r, %r, 1; " * 9 + "ret; }"
    emulator.Module(text).launch("k")
    assert sorted(looked_up) == ["add.s32", "mov.b32", "ret"]


def test_blanks_and_comments_hide_no_mistake():
    for before in ("  ", "// x\n", "/* \n */ ", "\t// .version\n  /**/"):
        with pytest.raises(emulator.PtxError) as caught:
            emulator.Module(before + "`")
        last = before.rpartition("\n")[2]
        where = before.count("\n") + 1, len(last) + 1
        assert (caught.value.line, caught.value.column) == where and "unexpected '`'" in str(caught.value)
    with pytest.raises(emulator.PtxError, match="got the end of the text"):
        emulator.Module(".version // 8.6")
    with pytest.raises(emulator.PtxError, match="1:1: error: text must not begin with a byte order mark"):
        emulator.Module("\ufeff.version 8.6")


def test_what_is_left_out_is_listed():
    """Each is refused with its reason, which the documentation has, too."""
    page = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text(encoding="utf-8")
    for name, why in parser.UNSUPPORTED.items():
        assert f"`{name}`" in page and why in page
    for opcode, why in {
        "tex.2d.v4.f32.s32": "textures and surfaces aren't emulated",
        "suld.b.1d.b32.trap": "textures and surfaces aren't emulated",
        "istypep.texref": "textures and surfaces aren't emulated",
        "multimem.cp.async.bulk.global.shared::cta.bulk_group": "copies to multicast objects",
        "fma.rn.oob.f16": "operands out of bounds",
        "shfl.up.b32": r"must have \.sync",
    }.items():
        text = f".version 8.6\n.target sm_100a\n.visible .entry k() {{ .reg .b32 %r; {opcode} %r; ret; }}"
        with pytest.raises(emulator.PtxError, match=f"{re.escape(opcode)}: .*{why}"):
            emulator.Module(text).launch("k")

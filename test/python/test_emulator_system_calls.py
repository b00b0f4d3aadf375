"""Functions of the system that kernels call, such as vprintf and malloc, and calls through pointers."""

import numpy as np
import pytest
from emulator_ptx import HEAD, module

from weft import emulator

CALLS = """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 text[] = {37, 53, 100, 124, 37, 45, 54, 46, 50, 102, 124, 37, 115, 124, 37, 120,
  37, 37, 10, 0};
.global .align 1 .b8 word[4] = {111, 107, 33, 0};
"""


def call(body, args, params, block=1):
    registers = ".reg .b64 %l<8>; .reg .b32 %r<8>; .reg .pred %p;"
    text = f"{CALLS} .visible .entry k({params}) {{ {registers} {body} ret; }}"
    return module(text).launch("k", block=block, args=args)


def test_vprintf_formats_what_it_is_given():
    body = """
    .local .align 8 .b8 box[32];
    mov.u32 %r1, %tid.x; sub.s32 %r1, %r1, 1;
    mov.u64 %l1, box; cvta.local.u64 %l1, %l1;
    st.u32 [%l1], %r1; st.f64 [%l1+8], 0d3FF8000000000000;
    mov.u64 %l2, word; cvta.global.u64 %l2, %l2; st.u64 [%l1+16], %l2; st.u32 [%l1+24], 255;
    mov.u64 %l3, text; cvta.global.u64 %l3, %l3;
    { .param .b64 p0; .param .b64 p1; .param .b32 ret;
      st.param.b64 [p0], %l3; st.param.b64 [p1], %l1;
      call.uni (ret), vprintf, (p0, p1);
      ld.param.b32 %r2, [ret]; }
    ld.param.u64 %l4, [o]; cvt.s64.s32 %l5, %r1; shl.b64 %l5, %l5, 2; add.s64 %l4, %l4, %l5;
    st.global.u32 [%l4+4], %r2;
    """
    out = np.zeros(2, np.uint32)
    report = call(body, [out], ".param .u64 o", block=2)
    assert report.printed == "   -1|1.50  |ok!|ff%\n    0|1.50  |ok!|ff%\n"
    assert out.tolist() == [4, 4]


def test_malloc_and_free():
    take = """{ .param .b64 n; .param .b64 r; st.param.b64 [n], 16;
      call.uni (r), malloc, (n); ld.param.b64 %l1, [r]; }
    st.u32 [%l1+12], 77; ld.u32 %r1, [%l1+12]; ld.param.u64 %l2, [o]; st.global.u32 [%l2], %r1;
    """
    give = "{ .param .b64 p; st.param.b64 [p], %l1; call.uni free, (p); }"
    out = np.zeros(1, np.uint32)
    call(take + give, [out], ".param .u64 o")
    assert out[0] == 77
    with pytest.raises(emulator.Fault, match=r"out-of-bounds generic access of 4 bytes.* malloc of 16 bytes"):
        call(take + "st.u32 [%l1+16], 1;", [out], ".param .u64 o")
    with pytest.raises(emulator.Fault, match="which malloc did not return"):
        call(take + give + give, [out], ".param .u64 o")


def test_failed_assertions_say_where():
    body = """mov.u64 %l1, word; cvta.global.u64 %l1, %l1;
    { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
      st.param.b64 [a], %l1; st.param.b64 [b], %l1; st.param.b32 [c], 12;
      st.param.b64 [d], %l1; st.param.b64 [e], 1;
      call.uni __assertfail, (a, b, c, d, e); }"""
    with pytest.raises(emulator.Fault, match="assertion 'ok!' failed at ok!:12"):
        call(body, [], "")


def test_unknown_functions_have_no_body():
    text = ".extern .func f; .visible .entry k() { call.uni f; ret; }"
    with pytest.raises(emulator.PtxError, match="'f' has no body"):
        module(text).launch("k")


def test_calls_through_pointers():
    text = (
        HEAD.format(target="sm_80")
        + """
.func (.param .b32 r) twice(.param .b32 x) {
  .reg .b32 %r<2>; ld.param.b32 %r1, [x]; shl.b32 %r1, %r1, 1; st.param.b32 [r], %r1; ret; }
.func (.param .b32 r) less(.param .b32 x) {
  .reg .b32 %r<2>; ld.param.b32 %r1, [x]; sub.u32 %r1, %r1, 1; st.param.b32 [r], %r1; ret; }
.global .align 8 .u64 list[3] = {twice, less, 0};
.visible .entry k(.param .u64 o, .param .u32 n) {
  .reg .b32 %r<4>; .reg .b64 %l<4>; .reg .pred %p;
  mov.u32 %r1, %tid.x; ld.param.u32 %r3, [n]; rem.u32 %r2, %r1, %r3;
  mov.u64 %l1, list; mad.wide.u32 %l1, %r2, 8, %l1; ld.global.u64 %l2, [%l1];
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;
    shape: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (b), %l2, (a), shape;
    ld.param.b32 %r1, [b]; }
  ld.param.u64 %l3, [o]; mov.u32 %r2, %tid.x; mad.wide.u32 %l3, %r2, 4, %l3; st.global.u32 [%l3], %r1;
  mov.u64 %l2, twice;
  ret;
}
"""
    )
    out = np.zeros(64, np.uint32)
    emulator.Module(text).launch("k", block=64, args=[out, 2])
    assert out.tolist() == [i - 1 if i & 1 else 2 * i for i in range(64)]
    with pytest.raises(
        emulator.Fault, match="calls 0x0, which must be the address of a function of that prototype"
    ):
        emulator.Module(text).launch("k", block=64, args=[out, 3])

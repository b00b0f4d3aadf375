"""How much code the emulator makes of a program."""

from weft import emulator
from weft.emulator.compiled import pieces, plan

HEAD = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {
  .reg .b32 %r<90>; .reg .f32 %f<90>; .reg .b64 %rd<90>; .reg .pred %p<9>;
  .shared .align 16 .b8 s[4096];
"""


def functions(body):
    """The LLVM IR of the functions of a kernel."""
    module = emulator.Module(HEAD + body + "ret; }")
    return pieces.module(plan.planned(module._program("k", module.target))[1])


def test_accesses_that_differ_in_registers_and_offsets_share_code():
    one, many = (
        functions(
            "\n".join(
                f"ld.global.u32 %r{i}, [%rd{i + 1}+{4 * i}]; add.u32 %r{i}, %r{i}, %r{i + 20};"
                f"st.shared.u32 [%r{i + 40}+{8 * i}], %r{i};"
                for i in range(1, count)
            )
        )
        for count in (3, 16)
    )
    assert many.count("define ") == one.count("define ") == 4


def test_words_of_128_bits_need_no_wide_shuffles():
    code = functions("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]; st.shared.u32 [%r2], %r1;")
    assert code.count("shufflevector") >= 12 and "<32 x i32>" not in code


def test_short_code_is_optimised_and_long_code_is_not():
    assert plan.level("x\n" * 100) == 1
    assert plan.level("x\n" * 20_000) == 0

"""`where` in `weft debug`: the callers of functions that the compiler has put into the kernel."""

from test_debug_tool import answers, session

__all__ = ["session"]  # a fixture

INLINED = """.version 8.6
.target sm_80
.address_size 64
.visible .entry total(.param .u64 p)
{
  .reg .b32 %r<4>; .reg .b64 %d<2>;
  .loc 1 20 3
  ld.param.u64 %d1, [p];
  .loc 1 11 5, function_name $L__info_string1, inlined_at 1 21 9
  mov.u32 %r1, 7;
  .loc 1 5 4, function_name $L__info_string0, inlined_at 1 11 5
  add.u32 %r1, %r1, 1;
  .loc 1 22 3
  st.global.u32 [%d1], %r1;
  ret;
}
.file 1 "total.cu"
.section .debug_str
{
$L__info_string0:
.b8 97,100,100,0
$L__info_string1:
.b8 109,111,114,101
.b8 0
}
"""


def test_inlined_functions_have_callers(session):
    commands = ["break total.cu:5", "continue", "where", "quit"]
    text, _ = session("inlined.ptx", INLINED, commands, "--arg", "zeros:1xu32")
    frames = "add in total at total.cu:5:5, PTX line 12", "more at total.cu:11:5", "total at total.cu:21:9"
    assert answers(text)["where"].endswith("".join(f"#{at}  {each}\n" for at, each in enumerate(frames)))


CALLING = """import numpy as np
import weft.language as w


def twice(x):
    y = x + x
    return y


def more(x):
    if {}:
        return twice(x)
    return twice(x) + 1


@w.kernel(threads=32)
def counting(y: w.Out["n", w.i32]):
    y[w.thread()] = more(w.thread())


counting(np.zeros(32, np.int32))
"""


def test_functions_of_a_kernel_have_callers(session):
    commands = ["break 6", "continue", "where", "quit"]
    text, _ = session("calling.py", CALLING.format(False), commands)
    where = answers(text)["where"]
    assert "#0  twice in counting at calling.py:6:" in where
    assert where.endswith("#1  more at calling.py:12 or calling.py:13\n#2  counting at calling.py:18\n")

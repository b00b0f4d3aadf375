"""The sanitizer's analysis of registers that an asynchronous instruction may still read."""

import pytest
from emulator_ptx import module

from weft.emulator.sanitizer.dataflow import ignored_waits

HEAD = """.visible .entry k() { .shared .align 8 .b64 s; .reg .pred %p<4>; .reg .b32 %r<4>;
mov.u32 %r1, %tid.x; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r1, 1;
mbarrier.test_wait.parity.shared.b64 %p1, [s], 0;
"""


@pytest.mark.parametrize(
    ("after", "ignored"),
    [
        ("", True),
        ("mov.u32 %r2, 1;", True),
        ("@%p2 mov.u32 %r2, 1;", True),
        ("setp.eq.u32 %p1, %r1, 2; selp.u32 %r2, 1, 0, %p1;", True),
        ("@%p2 setp.eq.u32 %p1, %r1, 2; selp.u32 %r2, 1, 0, %p1;", False),
        ("selp.u32 %r2, 1, 0, %p1;", False),
        ("@%p1 mov.u32 %r2, 1;", False),
        ("@!%p1 bra END;", False),
        ("@%p2 bra END; bra END;", True),
        ("@%p2 bra END; @%p3 bra END; selp.u32 %r2, 1, 0, %p1;", False),
        ("L: add.u32 %r2, %r2, 1; @%p2 bra L; mov.u32 %r3, 1;", True),
        ("bra N; M: @%p1 bra END; N: @%p2 bra M;", False),
    ],
)
def test_a_wait_is_ignored_when_no_path_reads_its_result(after, ignored):
    made = module(HEAD + f"{after}\nEND: ret; }}", "sm_90a")
    assert bool(ignored_waits(made._program("k", "sm_90a"))) == ignored

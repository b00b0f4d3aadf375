"""Times scalar kernels in the emulator: nanoseconds for each warp instruction, with the sanitizer.

    python benchmarks/emulator/scalar.py > benchmarks/emulator/scalar.json

Each line has the medians of `RUNS` launches, in CPU time: by the interpreter, and in code that was compiled
before. `compiling_s` is the time of a first launch, the first of all with an empty cache.
"""

import json
import os
import statistics
import tempfile
import time

import numpy as np

from weft import emulator
from weft.bench import scripts

RUNS = 5
SHAPES = {"one warp": (1, 32), "64 warps": (16, 128)}
HEAD = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n) {
  .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;
  .shared .align 16 .b8 s[4096];
  ld.param.u64 %rd1, [data]; ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.u32 %r2, %r4, %r5, %r1;
  mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2;
  mov.u32 %r3, s; shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r3;
  mov.u32 %r7, 0; mov.u32 %r15, 0; mov.f32 %f1, 0f3F800100; mov.f32 %f2, 0f3F000000;
L:
"""
TAIL = """add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, %r9; @%p1 bra L;
  st.global.f32 [%rd3], %f1; st.global.u32 [%rd3], %r15; ret; }"""
BODIES = {
    "integers": """xor.b32 %r8, %r7, %r2; shl.b32 %r10, %r8, 3; and.b32 %r10, %r10, 255;
      mad.lo.u32 %r11, %r10, %r2, %r8; shr.u32 %r12, %r11, 5; add.u32 %r13, %r12, %r10;
      min.u32 %r14, %r13, %r2; add.u32 %r15, %r15, %r14;""",
    "floats": """fma.rn.f32 %f1, %f1, %f1, %f2; add.f32 %f3, %f1, %f2; mul.f32 %f4, %f3, %f1;
      max.f32 %f1, %f4, %f2; cvt.rn.f32.u32 %f5, %r7; sub.f32 %f1, %f1, %f5; min.f32 %f1, %f1, %f2;""",
    "global memory": "ld.global.f32 %f3, [%rd3]; add.f32 %f3, %f3, %f2; st.global.f32 [%rd3], %f3;",
    "shared memory": "st.shared.f32 [%r6], %f1; ld.shared.f32 %f3, [%r6]; add.f32 %f1, %f3, %f2;",
}


def nanoseconds(module: emulator.Module, shape: tuple[int, int], n: int, compiled: bool) -> float:
    """The time of a warp instruction."""
    grid, block = shape
    data = np.ones(grid * block, np.float32)
    begin = time.process_time()
    report = module.launch("k", grid=grid, block=block, args=[data, n], compiled=compiled, threads=1)
    return (time.process_time() - begin) / report.instructions * 1e9


def main() -> None:
    load = os.getloadavg()[0]
    for body, text in BODIES.items():
        module = emulator.Module(HEAD + text + TAIL)
        for name, shape in SHAPES.items():
            slow = [nanoseconds(module, shape, 200, False) for _ in range(RUNS)]
            begin = time.process_time()
            nanoseconds(module, shape, 1, True)
            compiling = time.process_time() - begin
            fast = [nanoseconds(module, shape, 20_000, True) for _ in range(RUNS)]
            line = {
                "kernel": body,
                "warps": name,
                "interpreter_ns": round(statistics.median(slow), 1),
                "compiled_ns": round(statistics.median(fast), 1),
                "times": round(statistics.median(slow) / statistics.median(fast)),
                "compiling_s": round(compiling, 2),
                "load": round(load, 1),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    scripts.parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WEFT_CACHE_DIR"] = cache
        main()

"""Times how the emulator compiles kernels: the seconds of each step, in CPU time, with nothing cached.

    python benchmarks/emulator/compiling.py > benchmarks/emulator/compiling.json

The kernels named `mixed` are generated: of their instructions, one in 20 is a branch, and the given share
accesses memory. The others are kernels of CuTe DSL. Each line has the best of `RUNS` compilations.

| field | what takes the time |
|---|---|
| `planning` | tracing the interpreter's steps, and writing LLVM IR |
| `parsing` | reading the IR |
| `generating` | LLVM's code generator |
| `linking` | making the code executable |
| `total`, `wall` | all of these, in CPU time and in wall time |
"""

import json
import lzma
import os
import random
import time
from pathlib import Path

import llvmlite.binding as llvm

from weft import emulator
from weft.bench import scripts
from weft.emulator import native
from weft.emulator.compiled import pieces, plan
from weft.emulator.decoding.program import Program
from weft.emulator.launch import Shape

RUNS = 5
TESTS = Path(__file__).parents[2] / "test" / "emulator"
CUTE = ("dense.sm_80", "dense.sm_90a", "persistent.sm_90a", "transpose.sm_100a", "nvf4_pair.sm_100a")
HEAD = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {
  .reg .b32 %r<64>; .reg .f32 %f<64>; .reg .b64 %rd<16>; .reg .pred %p<8>;
  .shared .align 16 .b8 s[8192];
  ld.param.u64 %rd1, [data];
"""
ARITHMETIC = """add.u32 R, R, R;
mad.lo.s32 R, R, R, R;|fma.rn.f32 F, F, F, F;|shl.b32 R, R, 5;|and.b32 R, R, 4095;
xor.b32 R, R, R;|setp.lt.s32 P, R, R;|selp.b32 R, R, R, P;|mul.f32 F, F, F;|cvt.rn.f32.s32 F, R;|mov.b32 R, F;
@P add.s32 R, R, 1;|max.f32 F, F, F;|cvt.u64.u32 D, R;|shr.u32 R, R, 3;|add.s64 D, D, D;"""
ACCESSES = """ld.shared.f32 F, [s+N];|st.shared.f32 [s+N], F;|ld.global.u32 R, [D+N];|st.global.u32 [D+N], R;
ld.shared.v4.f32 {F, F, F, F}, [s+N];|@P ld.global.u32 R, [D+N];"""


def mixed(count: int, memory: float) -> str:
    """A kernel with so many instructions."""
    draw = random.Random(0)
    registers = {"R": (10, 60), "F": (0, 60), "D": (2, 14), "P": (0, 8)}
    kinds = [each.replace("\n", "|").split("|") for each in (ARITHMETIC, ACCESSES)]
    lines = []
    for at in range(count):
        if at % 20 == 19:
            lines.append(f"@%p{draw.randrange(8)} bra L{at}; L{at}:")
            continue
        text = draw.choice(kinds[draw.random() < memory])
        words = []
        for letter in text:
            if letter in registers and (not words or not words[-1].isalpha()):
                letter = f"%{'rd' if letter == 'D' else letter.lower()}{draw.randrange(*registers[letter])}"
            elif letter == "N":
                letter = str(16 * draw.randrange(400))
            words.append(letter)
        lines.append("".join(words))
    return HEAD + "\n".join(lines) + "\nret; }"


def seconds(program: Program) -> dict[str, float]:
    """The times of one compilation."""
    wall, times = time.perf_counter(), [time.process_time()]
    made, found = plan.planned(program)
    plan.find_needs(made)
    text = pieces.module(found)
    times.append(time.process_time())
    module = llvm.parse_assembly(text)
    times.append(time.process_time())
    machine = native.machine(plan.level(text))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    data = machine.emit_object(module)
    times.append(time.process_time())
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), native.machine(plan.level(text)))
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    times.append(time.process_time())
    names = "planning", "parsing", "generating", "linking"
    steps = {name: after - before for name, before, after in zip(names, times, times[1:], strict=False)}
    return {**steps, "total": times[-1] - times[0], "wall": time.perf_counter() - wall}


def kernels() -> list[tuple[str, Program]]:
    """What is compiled."""
    found = []
    for count, memory in ((100, 0.25), (1000, 0.25), (3000, 0.0), (3000, 0.25), (3000, 0.5)):
        module = emulator.Module(mixed(count, memory))
        found.append((f"mixed {memory}", module.prepared("k", Shape(1, 32, 1, 0))[0]))
    for name in CUTE:
        case = json.loads(lzma.decompress((TESTS / "cute" / f"{name}.json.xz").read_bytes()))
        module = emulator.Module(case["ptx"])
        shape = Shape(case["grid"], case["block"], case["cluster"], case["shared_bytes"])
        found.append((name, module.prepared(module.kernels[0], shape)[0]))
    return found


def main() -> None:
    load = os.getloadavg()[0]
    for name, program in kernels():
        best = min((seconds(program) for _ in range(RUNS)), key=lambda times: times["total"])
        line = {"kernel": name, "instructions": sum(len(block.opcodes) for block in program.blocks)}
        line |= {step: round(value, 3) for step, value in best.items()} | {"load": round(load, 1)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    scripts.parser(__doc__).parse_args()
    main()

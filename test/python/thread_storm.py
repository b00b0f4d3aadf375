"""Threads that compile, multiply, build and fork at once, in a process of its own that may die of it.

Usage: thread_storm.py THREADS TURNS. Nothing is made before the threads run, so that all of them are first.
What they made is compared afterwards with what one thread makes.
"""

import faulthandler
import os
import signal
import sys
import threading

import numpy as np

import weft
from weft.dialects import tile
from weft.mlir import arith, ir

faulthandler.enable()
QUICK = "{block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}"
PATIENCE_SECONDS = 100


def compiled(number):
    """The LLVM IR and the PTX of a product, with its debug information."""
    kind = ("bf16", "f16")[number % 2]
    with weft.Module() as module:
        matrices = [weft.memref("?x?", t) for t in (kind, kind, "f32")]
        with module.func("matmul", matrices) as (a, b, d):
            tile.matmul(a, b, d, schedule=QUICK)
    kernel = weft.compile(module, arch="sm_80")
    return f"{kernel.llvm}{kernel.ptx}"


def multiplied(number):
    """A product of arrays, in the emulator."""
    a = (np.arange(16 * 16, dtype=np.float16).reshape(16, 16) + number) / 512
    return weft.matmul(a, a, schedule=QUICK).tobytes()


def built(number):
    """A module of upstream's operations, with the line that asked for each."""
    with weft.Module() as module, module.kernel("numbers", [weft.memref("?", "f32")], block=(32, 1, 1)):
        for each in range(50 + number):
            arith.constant(ir.IntegerType.get_signless(32), each)
            arith.constant(ir.IntegerType.get_signless(64), each)
    return module.mlir.operation.get_asm(enable_debug_info=True)


def forked(number):
    """What a child makes that was forked while other threads were anywhere."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_SECONDS)
        try:
            made = f"{built(number)}{compiled(number)}"
            with os.fdopen(writing, "w") as pipe:
                pipe.write(made)
            os._exit(0)
        finally:
            faulthandler.dump_traceback()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        made = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "a forked child failed"
    return made


TASKS = (compiled, multiplied, built, forked)


def main(threads, turns):
    made, failures, ready = [], [], threading.Barrier(threads)

    def work(first):
        ready.wait()
        try:
            for turn in range(first, first + turns):
                task, number = TASKS[turn % len(TASKS)], turn // len(TASKS) % 3
                made.append((task, number, task(number)))
        except BaseException as failure:
            failures.append(failure)
            raise

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    alone = {(task, number): task(number) for task in (compiled, multiplied, built) for number in range(3)}
    for number in range(3):
        alone[forked, number] = alone[built, number] + alone[compiled, number]
    for task, number, found in made:
        if found != alone[task, number]:
            failures.append(f"{task.__name__}({number}) differs from what one thread makes")
            print(failures[-1])
    print(f"{len(made)} made, {len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))

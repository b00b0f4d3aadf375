"""Mutated PTX of other compilers ends with a result or one of the emulator's errors, in bounded time."""

import random
import re
import time

import numpy as np
import pytest
from emulator_corpus import PTX, text
from test_emulator_text import mutate

from weft import emulator
from weft.errors import WeftError

LIMIT = 3000
FILES = sorted(tuple(path.name.removesuffix(".ptx.xz").rsplit(".", 1)) for path in PTX.glob("*.xz"))


def kernels(source):
    """The entries of a file and the types and sizes of their parameters, by a reading of their own."""
    for name, formals in re.findall(r"\.entry (\w+)\(([^)]*)\)", source):
        kinds = [line for line in re.split(r",\s*\n", formals) if ".param" in line]
        yield (
            name,
            [re.search(r"\.(b8|[usbf]\d+)\s.*?(?:\[(\d+)\])?$", kind.strip()).groups() for kind in kinds],
        )


def stand_in(kind, count):
    """An argument that fits a parameter: some memory for 64 bits."""
    if count:
        return bytes(int(count))
    if kind in ("u64", "b64"):
        return np.zeros(4096, np.uint8)
    return {"f32": 1.0, "f64": 1.0}.get(kind, 3)


def attempt(seed):
    """Mutates one kernel of one file and runs it; what came of it, as a word."""
    rng = random.Random(seed)
    source = text(*rng.choice(FILES))
    chosen, formals = rng.choice(list(kernels(source)))
    begin = source.index(f".entry {chosen}(")
    end = source.find("\n}", begin)
    mutated = source[:begin] + mutate(source[begin:end], rng) + source[end:]
    options = {"seed": rng.randrange(100)} if rng.random() < 0.3 else {}
    required = re.search(r"\.reqntid (\d+)", source[begin:])
    block = int(required.group(1)) if required else rng.choice([1, 32, 64])
    try:
        emulator.Module(mutated).launch(
            chosen,
            grid=2,
            block=block,
            args=[stand_in(*formal) for formal in formals],
            shared_bytes=rng.choice([0, 1024, 65536]),
            max_instructions=LIMIT,
            **options,
        )
    except WeftError as error:
        return type(error).__name__
    return "ran"


@pytest.mark.slow
def test_the_reading_finds_every_kernel():
    for name, chip in FILES:
        source = text(name, chip)
        try:
            known = emulator.Module(source).kernels
        except emulator.PtxError as error:
            raise AssertionError(f"{name}.{chip}: {error}") from error
        assert [found for found, _ in kernels(source)] == list(known)


@pytest.mark.slow
def test_mutated_kernels_give_an_error_or_a_result():
    seen = {}
    for seed in range(70):
        begun = time.perf_counter()
        found = attempt(seed)
        assert time.perf_counter() - begun < 20, seed
        seen[found] = seen.get(found, 0) + 1
    assert {"PtxError", "Fault"} <= seen.keys(), seen

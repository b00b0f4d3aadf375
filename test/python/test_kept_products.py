"""What a process finds on disk of the products of earlier processes: their schedules, and their kernels."""

import inspect
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn

from weft.bench.compiling import written
from weft.construction import module
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.multiply import product_kernel
from weft.multiply.operands import Operands
from weft.multiply.product import Product
from weft.schedules import choice, database, transposing, tuned_files, wgmma
from weft.schedules.h200 import H200

TYPES, CHIP = Types("bf16", "bf16", "bf16", (False, True)), "sm_90a"
SCHEDULE = WarpgroupSchedule((64, 64, 64), 1, 4)
SIZES = 1000, 1008, 1016


@pytest.fixture
def folder(tmp_path, patch):
    """An empty cache; nothing is known to this process."""
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    patch.setenv("WEFT_SCHEDULES", str(tmp_path / "own.jsonl"))
    forget_files()
    yield tmp_path
    forget_files()


def forget() -> None:
    product_kernel.compiled.cache_clear()
    product_kernel._loaded.cache_clear()
    choice._chosen.cache_clear()


def forget_files() -> None:
    """What this process has read of tuned schedules."""
    forget()
    database._index.cache_clear()
    tuned_files.first_digest.cache_clear()


def not_again(*of, **named):
    raise AssertionError("is done once more")


def entries(folder: Path, kind: str) -> list[Path]:
    return list(folder.glob(f"{kind}-*"))


def operands(m, n, k, **options):
    """Those of a product of `TYPES`."""
    a, b = np.zeros((m, k), bfloat16), np.zeros((k, n), bfloat16)
    return Operands.of(a, b, None, {}, Product(**{"arch": CHIP} | options))


def schedule_of(kernel):
    return re.search(r"schedule = ({[^}]*})", kernel.ir())[1]


def test_the_kernel_of_a_product_is_chosen_once(folder, patch):
    first, numbers = product_kernel.with_copies(operands(*SIZES))
    assert schedule_of(first) == written(choice.choose(*SIZES, TYPES, CHIP)) and numbers == ()
    forget()
    with patch.context() as within:
        within.setattr(wgmma, "_all_kernels", not_again)
        within.setattr(module, "context", not_again)
        again, numbers = product_kernel.with_copies(operands(*SIZES))
        assert again.compiled == first.compiled and numbers == ()
        assert product_kernel.with_copies(operands(*SIZES))[0] is again
        with pytest.raises(AssertionError):
            product_kernel.with_copies(operands(*SIZES, alpha=2.0))
    assert len(entries(folder, "product")) == 1


def test_the_copies_of_a_product_are_chosen_once(folder, patch):
    a, b = np.zeros((2, 1024, 1024), float8_e4m3fn)
    # A product without copies takes no time of the CPU.
    patch.setitem(transposing.FITTED_GPUS, CHIP, replace(H200, two_launches_us=0.0))

    def numbers(**options):
        return product_kernel.with_copies(Operands.of(a, b, None, {}, Product(arch=CHIP)), **options)[1]

    assert numbers() == (1,)
    forget()
    patch.setattr(transposing, "transposes", not_again)
    assert numbers() == (1,)
    assert numbers(transposes=False) == ()


def test_a_file_of_tuned_schedules_decides(folder):
    own, other = folder / "own.jsonl", WarpgroupSchedule((128, 64, 64), 2, 4)

    def chosen(*sizes):
        return schedule_of(product_kernel.with_copies(operands(*sizes))[0])

    by_model = chosen(*SIZES)
    entry = database.Entry(database.Product(*SIZES, TYPES, CHIP), written(other), 1.0, {})
    own.write_text(entry.line() + "\n")
    forget()  # but this process has read the file
    assert chosen(*SIZES) == by_model != written(other)
    assert chosen(SIZES[0], 504, 512) != written(other)
    assert len(entries(folder, "product")) == 1, "a choice by a file that has changed must not be kept"
    forget_files()
    assert chosen(*SIZES) == written(other)
    own.unlink()
    forget_files()
    assert chosen(*SIZES) == by_model


def test_no_module_is_built_for_a_kernel_that_is_on_disk(folder, patch):
    first = product_kernel.plain(TYPES, SCHEDULE, CHIP)
    forget()
    with patch.context() as within:
        within.setattr(module, "context", not_again)
        again = product_kernel.plain(TYPES, SCHEDULE, CHIP)
    assert again.compiled == first.compiled and again.launch == first.launch
    assert len(entries(folder, "module")) == 1


def test_a_kernel_is_compiled_again_if_its_entry_is_gone(folder):
    first = product_kernel.plain(TYPES, SCHEDULE, CHIP)
    for entry in entries(folder, "llvm"):
        entry.unlink()
    forget()
    assert product_kernel.plain(TYPES, SCHEDULE, CHIP).compiled == first.compiled
    assert entries(folder, "llvm")


def test_nothing_is_kept_without_a_cache(folder, patch):
    patch.setenv("WEFT_CACHE", "0")
    product_kernel.with_copies(operands(*SIZES))
    product_kernel.plain(TYPES, SCHEDULE, CHIP)
    assert not list(folder.iterdir())


def test_a_call_imports_what_it_needs(folder):
    """First what chooses and writes kernels of one family, without masked arrays, which take 50 ms
    and which `np.unique` imports. The next process has the kernel on disk.
    """
    program = """
        import sys
        import numpy as np
        import weft
        from weft.multiply import product_kernel
        from weft.multiply.operands import Operands
        from weft.multiply.product import Product

        weft.matmul
        a = np.zeros((512, 512), np.float16)
        kernel, _ = product_kernel.with_copies(Operands.of(a, a, None, {}, Product(arch="sm_90a")))
        kernel.cubin
        print(*sorted(sys.modules))
    """
    command = [sys.executable, "-c", inspect.cleandoc(program)]
    first, second = (set(subprocess.check_output(command, text=True).split()) for _ in range(2))
    compiling = {"weft.mlir", "weft.passes", "weft.dialects.tile", "weft.isa.wgmma"}
    choosing = {"weft.dialects.schedule", "weft.schedules.choice", "weft.schedules.wgmma"}
    kernels = "weft.passes.kernels"
    assert compiling | choosing | {f"{kernels}.wgmma_kernel", f"{kernels}.epilogue"} <= first
    assert not {f"{kernels}.tcgen05_kernel", "numpy.ma"} & first
    assert not (compiling | choosing | {"numpy.ma", "weft.isa.mma", "weft.isa.tcgen05", "llvmlite"}) & second

"""What a process finds on disk of the products of earlier processes: their schedules, and their kernels."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from weft import builder
from weft.bench.compiling import written
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.multiply import kept_choices, product_kernel
from weft.schedules import choice, database, time_model

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
    choice._chosen.cache_clear()


def forget_files() -> None:
    """What this process has read of tuned schedules."""
    forget()
    database._index.cache_clear()
    database._first_digest.cache_clear()


def not_again(*of, **named):
    raise AssertionError("is done once more")


def entries(folder: Path, kind: str) -> list[Path]:
    return list(folder.glob(f"{kind}-*"))


def test_a_schedule_is_chosen_once(folder, patch):
    first = kept_choices.choose(*SIZES, TYPES, CHIP, 1)
    assert first == choice.choose(*SIZES, TYPES, CHIP)
    forget()
    with patch.context() as within:
        within.setattr(time_model, "_all_kernels", not_again)
        # A function that isn't Weft's would be a part of the key.
        within.setattr("weft.compiler.identity.replaced", lambda packages: [])
        assert kept_choices.choose(*SIZES, TYPES, CHIP, 1) == first
        with pytest.raises(AssertionError):
            kept_choices.choose(*SIZES, TYPES, CHIP, 2)
    assert len(entries(folder, "choice")) == 1


def test_a_file_of_tuned_schedules_decides(folder):
    own, other = folder / "own.jsonl", WarpgroupSchedule((128, 64, 64), 2, 4)
    chosen = kept_choices.choose(*SIZES, TYPES, CHIP, 1)
    entry = database.Entry(database.Product(*SIZES, TYPES, CHIP), written(other), 1.0, {})
    own.write_text(entry.line() + "\n")
    forget()  # but this process has read the file
    assert kept_choices.choose(*SIZES, TYPES, CHIP, 1) == chosen != other
    assert kept_choices.choose(SIZES[0], 504, 512, TYPES, CHIP, 1) != other
    assert len(entries(folder, "choice")) == 1, "a choice by a file that has changed must not be kept"
    forget_files()
    assert kept_choices.choose(*SIZES, TYPES, CHIP, 1) == other
    own.unlink()
    forget_files()
    assert kept_choices.choose(*SIZES, TYPES, CHIP, 1) == chosen


def test_no_module_is_built_for_a_kernel_that_is_on_disk(folder, patch):
    first = product_kernel.plain(TYPES, SCHEDULE, CHIP)
    forget()
    with patch.context() as within:
        within.setattr(builder, "context", not_again)
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
    assert kept_choices.choose(*SIZES, TYPES, CHIP, 1) == choice.choose(*SIZES, TYPES, CHIP)
    product_kernel.plain(TYPES, SCHEDULE, CHIP)
    assert not list(folder.iterdir())


def test_a_process_imports_what_writes_kernels_of_its_family(folder):
    """And neither that nor MLIR if its kernel is on disk."""
    product = """
        import sys, weft
        from weft.dialects.schedule import Types, WarpgroupSchedule
        from weft.multiply import product_kernel
        product_kernel.plain(Types("f16", "f16", "f16"), WarpgroupSchedule((64, 64, 64), 1, 4), "sm_90a")
        print(*sorted(sys.modules))
    """
    command = [sys.executable, "-c", inspect.cleandoc(product)]
    first, second = (subprocess.check_output(command, text=True).split() for _ in range(2))
    kernels = "weft.passes.kernels"
    assert {"weft.mlir", f"{kernels}.wgmma_kernel", f"{kernels}.epilogue"} <= set(first)
    assert f"{kernels}.tcgen05_kernel" not in first
    assert not {"weft.mlir", "weft.passes", "weft.dialects.tile", "llvmlite"} & set(second)

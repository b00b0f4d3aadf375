"""The modules of Weft's own kernel functions are on disk after the first trace."""

import inspect
import subprocess
import sys

import pytest

import weft.language as w
from weft.attend.kernels import combine as module
from weft.language.calls import building, kernels
from weft.language.capture import tracing_state

combine = module.combine


@pytest.fixture
def traced(tmp_path, patch):
    """The chips for which kernels are traced, with an empty cache."""
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    chips, build = [], building.build
    patch.setattr(building, "build", lambda *args, **named: chips.append(args[4]) or build(*args, **named))
    combine._forget()
    yield chips
    combine._forget()


def llvm(chip="sm_90a", **meta):
    """The LLVM IR of the kernel, as in another process."""
    combine._forget()
    return combine.compile(None, None, None, w.f16, None, arch=chip, **{"E": 64, "splits": 2} | meta).llvm


def test_a_kernel_of_weft_is_traced_once(traced, tmp_path):
    first = llvm()
    assert llvm() == first and traced == ["sm_90a"]
    assert llvm(splits=3) != first and llvm("sm_80") and traced == ["sm_90a", "sm_90a", "sm_80"]
    assert len([*tmp_path.glob("traced-*")]) == 3


def test_it_is_traced_again_if_its_entry_or_its_llvm_is_gone(traced, tmp_path):
    first = llvm()
    for kind in ("traced", "llvm"):
        next(tmp_path.glob(f"{kind}-*")).unlink()
        assert llvm() == first
    assert len(traced) == 3


def test_what_a_kernel_reads_is_a_part_of_the_key(traced, patch):
    first = llvm()
    patch.setattr(module, "LN2", 0.5)
    assert llvm() != first
    patch.setattr(module, "finite", lambda peak: peak)
    assert llvm() != first
    patch.undo()
    assert llvm() == first


def test_kernels_with_names_of_variables_are_traced(traced):
    with tracing_state.keeping_variables():
        assert [llvm(), llvm()] and len(traced) == 2


def test_the_control_flow_of_wefts_kernels_is_captured_when_they_are_traced():
    made = kernels.KernelFunction(combine.__wrapped__, combine._options, None)
    assert "_function" not in vars(made)
    made.compile(None, None, None, w.f16, None, arch="sm_90a", E=64, splits=2)

    @w.kernel
    def of_a_user(x: w.In["m", w.f32]):
        pass

    assert "_function" in vars(of_a_user)


def test_a_process_with_a_kernel_on_disk_traces_nothing(traced, patch):
    first = llvm()
    patch.setattr(kernels, "captured", None)
    assert llvm() == first


@pytest.mark.slow
def test_a_call_of_attention_from_disk_imports_neither_mlir_nor_the_language(tmp_path, patch):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    program = """
        import sys
        import ml_dtypes, numpy as np
        import weft
        from weft.attend import launches
        from weft.attend.problem import Options

        def compiled(kernel, *arguments, stream, **meta):
            return kernel.compile(*arguments, arch="sm_90a", **meta).cubin

        weft.attention
        q = k = v = np.zeros((1, 1, 64, 64), ml_dtypes.bfloat16)
        launches.run(launches.Call.of({"q": q, "k": k, "v": v}, Options.of(), compiled, 132))
        print(*sys.modules)
    """
    command = [sys.executable, "-c", inspect.cleandoc(program)]
    first, second = (set(subprocess.check_output(command, text=True).split()) for _ in range(2))
    tracing = {
        "weft.mlir",
        "weft.construction.module",
        "weft.language.calls.building",
        "weft.language.values.scalars",
    }
    assert tracing <= first and not (tracing | {"weft.dialects.tile", "weft.isa.tcgen05"}) & second

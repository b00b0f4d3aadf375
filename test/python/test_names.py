"""The names that `import weft` defines."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import weft


@pytest.mark.slow
def test_no_submodule_hides_a_public_name():
    # Importing `weft.x` sets the attribute `x` of the package: a file of that name would replace a function.
    imports = "import weft, weft.launch.kernel, weft.multiply.matmul, weft.construction.module"
    code = f"{imports}; assert callable(weft.compile) and callable(weft.memref) and callable(weft.matmul)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_file_has_the_name_of_a_public_function():
    package = Path(weft.__file__).parent
    functions = [name for name in weft.__all__ if not inspect.ismodule(getattr(weft, name))]
    hidden = [name for name in functions if (package / name).exists() or (package / f"{name}.py").exists()]
    assert hidden == [] and "matmul" in functions


def test_importing_weft_alone_loads_neither_mlir_nor_llvm_nor_cuda():
    heavy = ("torch_mlir", "llvmlite", "cuda")
    code = f"import sys, weft; print([m for m in sys.modules if m.split('.')[0] in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

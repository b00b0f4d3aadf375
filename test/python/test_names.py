"""The names that `import weft` defines."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_no_submodule_hides_a_public_name():
    # Importing `weft.x` sets the attribute `x` of the package: a file of that name would replace a function.
    imports = "import weft, weft.launch.kernel, weft.multiply.matmul, weft.builder"
    code = f"{imports}; assert callable(weft.compile) and callable(weft.memref) and callable(weft.matmul)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_weft_alone_loads_neither_mlir_nor_llvm_nor_cuda():
    heavy = ("torch_mlir", "llvmlite", "cuda")
    code = f"import sys, weft; print([m for m in sys.modules if m.split('.')[0] in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

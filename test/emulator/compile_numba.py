"""Compiles numba/kernels.py to PTX for chips that need not be there: python test/emulator/compile_numba.py"""

import importlib.util
import lzma
from pathlib import Path

from numba import cuda

HERE = Path(__file__).parent
CHIPS = ((7, 5), (8, 0), (9, 0), (10, 0))


def main() -> None:
    # The folder has the name of the package: only by its path can the file be loaded.
    spec = importlib.util.spec_from_file_location("numba_kernels", HERE / "numba" / "kernels.py")
    assert spec and spec.loader
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    for name, signature in kernels.SIGNATURES.items():
        for chip in CHIPS:
            ptx, _ = cuda.compile_ptx(getattr(kernels, name), signature, cc=chip, abi="numba", device=False)
            target = HERE / "ptx" / f"numba.{name}.sm_{chip[0]}{chip[1]}.ptx.xz"
            target.write_bytes(lzma.compress(ptx.encode()))
            print(target.name)


if __name__ == "__main__":
    main()

"""Compiles kernels of CUTLASS, without a GPU: python test/emulator/compile_cutlass.py FOLDER [NAME …]

WEFT_CUTLASS is a checkout of CUTLASS, WEFT_NVCC an nvcc of CUDA 12.8 or later (default: the one in the path).
For each case in cutlass/cutlass_cases.py it writes NAME.ptx, and NAME.so with the host code of a launch.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "cutlass"))

from cutlass_cases import CASES  # noqa: E402

FLAGS = ["-std=c++17", "-O3", "--expt-relaxed-constexpr", "-shared", "-Xcompiler", "-fPIC", "-w", "--keep"]


def nvcc() -> str | None:
    """The compiler; None if there is none."""
    return os.environ.get("WEFT_NVCC") or shutil.which("nvcc")


def compile_case(name: str, folder: Path, compiler: str, cutlass: Path) -> None:
    source, chip, macros = CASES[name]
    toolkit = Path(compiler).resolve().parents[1]
    compute = f"compute_{chip.removeprefix('sm_')}"
    with tempfile.TemporaryDirectory() as work:
        # nvcc splits the values of -D at commas.
        Path(work, "case.h").write_text("".join(f"#define {n} {v}\n" for n, v in macros.items()))
        searched = [
            toolkit / "include" / "cccl",
            cutlass / "include",
            cutlass / "tools" / "util" / "include",
            HERE / "cutlass",
        ]
        subprocess.run(
            [
                compiler,
                *FLAGS,
                f"--keep-dir={work}",
                f"-gencode=arch={compute},code={compute}",
                "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL",
                "-include",
                f"{work}/case.h",
                *(f"-I{path}" for path in searched),
                *(f"-L{toolkit / lib}" for lib in ("lib", "lib64")),
                "-o",
                f"{work}/case.so",
                str(HERE / "cutlass" / source),
            ],
            check=True,
            cwd=work,
        )
        shutil.copy(Path(work, f"{Path(source).stem}.ptx"), folder / f"{name}.ptx")
        shutil.copy(Path(work, "case.so"), folder / f"{name}.so")


def main(folder: str, *names: str) -> None:
    compiler, cutlass = nvcc(), os.environ.get("WEFT_CUTLASS")
    if compiler is None or cutlass is None:
        sys.exit("needs nvcc (WEFT_NVCC) and a checkout of CUTLASS (WEFT_CUTLASS)")
    for name in names or CASES:
        compile_case(name, Path(folder), compiler, Path(cutlass))
        print(name, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

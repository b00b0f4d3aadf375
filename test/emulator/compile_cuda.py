"""Compiles the CUDA C++ files here for every chip: python test/emulator/compile_cuda.py [NVCC] [FILE …]

The PTX lies compressed in ptx/, so that the tests need no compiler.
"""

import lzma
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHIPS = ("75", "80", "89", "90a", "100a", "120a")
FIRST_CHIP = {"clusters": 90, "bulk": 90, "tensor_maps": 90}


def ptx(source: Path, chip: str, nvcc: str) -> str:
    flags = ["-std=c++17", "-O3", "--ptx", "-diag-suppress", "177,550,20054", f"-arch=compute_{chip}"]
    made = subprocess.run(
        [nvcc, *flags, "-o", "-", f"cuda/{source.name}"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        sys.exit(made.stderr)
    return made.stdout


def main(nvcc: str = "nvcc", *names: str) -> None:
    for source in sorted((HERE / "cuda").glob("*.cu")):
        if names and source.stem not in names:
            continue
        for chip in CHIPS:
            if int(chip.rstrip("a")) >= FIRST_CHIP.get(source.stem, 0):
                target = HERE / "ptx" / f"{source.stem}.sm_{chip}.ptx.xz"
                target.write_bytes(lzma.compress(ptx(source, chip, nvcc).encode()))
                print(target.name)


if __name__ == "__main__":
    main(*sys.argv[1:])

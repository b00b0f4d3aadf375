"""Compiles tilelang/kernels.py, without a GPU: python test/emulator/compile_tilelang.py FOLDER [NAME …]

TileLang writes CUDA C++, which nvcc (WEFT_NVCC, by default the one in the path) compiles. For each kernel and
chip, the script writes NAME.CHIP.ptx, and NAME.CHIP.json with the launch of TileLang's host code.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# This folder has one of TileLang's name.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != HERE]

import tilelang  # noqa: E402

sys.path.insert(0, str(HERE / "tilelang"))

import kernels  # noqa: E402

CHIPS = ("sm_80", "sm_90a", "sm_120a")
CASES = {
    "matmul": (kernels.matmul, (328, 264, 200, (128, 64, 32), 3)),
    "matmul_bf16": (kernels.matmul, (328, 264, 200, (64, 128, 64), 2, "bfloat16", "float32")),
    "matmul_int8": (kernels.matmul, (320, 256, 192, (64, 64, 64), 2, "int8", "int32", "int32")),
    "softmax": (kernels.softmax, (37, 768)),
    "attention": (kernels.attention, (3, 320, 64, (64, 64))),
}


def arguments(host: str) -> dict[str, object]:
    """The launch in the text of the host code: arguments, grid, block and shared memory."""
    maps = {}
    made = r'call_packed\("__tvm_tensormap_create_(tiled|im2col)", (\w+), (.*)\)'
    for mode, name, numbers in re.findall(made, host):
        kind, rank, tensor, *rest = (part.strip() for part in numbers.split(","))
        values, rank = [int(value) for value in rest], int(rank)
        lengths = {"dims": rank, "strides": rank}
        if mode == "tiled":
            lengths |= {"box": rank, "steps": rank}
        else:
            lengths |= {"steps": rank, "lower_corner": rank - 2, "upper_corner": rank - 2, "column": 2}
        maps[name] = {"kind": int(kind), "tensor": tensor}
        for key, length in lengths.items():
            maps[name][key], values = values[:length], values[length:]
        names = ("interleave", "swizzle", "l2", "fill")
        maps[name]["options"] = dict(zip(names, values, strict=True))
    (launched,) = re.findall(r'call_packed\("main_kernel", (.*)\)', host)
    parts = [part.strip() for part in launched.split(",")]
    numbers = [int(part) for part in parts if part.isdigit()]
    return {"arguments": [maps.get(part, part) for part in parts if not part.isdigit()], "numbers": numbers}


def lowered(case, chip):
    function, sizes = case
    made = function(*sizes)
    target = {"kind": "cuda", "arch": chip}
    with tilelang.tvm.target.Target(target):
        return tilelang.lower(made, target=target, enable_host_codegen=False, enable_device_compile=False)


def compile_case(folder: Path, name: str, chip: str, nvcc: str) -> None:
    made = lowered(CASES[name], chip)
    source, package = folder / f"{name}.{chip}.cu", Path(tilelang.__file__).parent
    source.write_text(made.kernel_source)
    searched = (Path(nvcc).resolve().parents[1] / "include" / "cccl", package / "src")
    searched += (package / "3rdparty" / "cutlass" / "include",)
    subprocess.run(
        [
            *(nvcc, "-std=c++17", "-O3", "-w", "-ptx", f"-arch=compute_{chip.removeprefix('sm_')}"),
            *(f"-I{path}" for path in searched),
            *("-o", str(source.with_suffix(".ptx")), str(source)),
        ],
        check=True,
    )
    facts = arguments(str(made.host_mod)) | {"producer": f"TileLang {tilelang.__version__}"}
    source.with_suffix(".json").write_text(json.dumps(facts))


def main(folder: str, *names: str) -> None:
    nvcc = os.environ.get("WEFT_NVCC") or shutil.which("nvcc")
    if nvcc is None:
        sys.exit("needs nvcc (WEFT_NVCC)")
    failed = []
    for name in names or CASES:
        for chip in CHIPS:
            try:
                compile_case(Path(folder), name, chip, nvcc)
                print(name, chip, flush=True)
            except Exception as error:  # of whatever the compilers raise
                failed.append(f"{name} {chip}: {str(error)[-300:]}")
    if failed:
        sys.exit("\n".join(["failed:", *failed]))


if __name__ == "__main__":
    main(*sys.argv[1:])

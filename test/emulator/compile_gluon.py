"""Compiles gluon/kernels.py, without a GPU: python test/emulator/compile_gluon.py FOLDER [NAME …]

For each kernel and chip it writes NAME.CHIP.ptx and NAME.CHIP.json with what a launch must know.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "gluon"))

import kernels  # noqa: E402
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.experimental.gluon import GluonASTSource  # noqa: E402
from triton.experimental.gluon.language import NVMMASharedLayout, float16  # noqa: E402

HOPPER, BLACKWELL, ALL = (90,), (100,), (90, 100, 120)
TILE = {"BM": 64, "BN": 128, "BK": 64}
LARGE = {"BM": 128, "BN": 128, "BK": 64}


def _descriptor(rows, columns):
    layout = NVMMASharedLayout.get_default_for([rows, columns], float16)
    return f"tensordesc<fp16[{rows}, {columns}],{layout!r}>"


def _product(BM, BN, BK, **more):
    types = {"a": _descriptor(BM, BK), "b": _descriptor(BN, BK), "c": _descriptor(BM, BN), "K": "i32"}
    return types, {"BM": BM, "BN": BN, "BK": BK, **more}


CASES = {
    "softmax": (ALL, {"x": "*fp32", "y": "*fp32", "columns": "i32"}, {"BLOCK": 1024}),
    "transpose": (ALL, {"x": "*fp16", "y": "*fp16", "rows": "i32", "columns": "i32"}, {"BLOCK": 32}),
    "wgmma_matmul": (HOPPER, *_product(**TILE, STAGES=3)),
    "wgmma_roles": (HOPPER, *_product(**TILE, STAGES=3)),
    "tcgen05_matmul": (BLACKWELL, *_product(**LARGE)),
    "tcgen05_roles": (BLACKWELL, *_product(**LARGE, STAGES=3)),
    "cancelled": (BLACKWELL, {"x": "*i32", "count": "i32"}, {"BLOCK": 128}),
}


def main(folder, *names):
    for name, (chips, types, constants) in CASES.items():
        for chip in chips:
            if names and name not in names:
                continue
            signature = types | dict.fromkeys(constants, "constexpr")
            sixteen = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.values()) if t[0] == "*"}
            source = GluonASTSource(getattr(kernels, name), signature, constants, sixteen)
            made = triton.compile(source, target=GPUTarget("cuda", chip, 32), options={"num_warps": 4})
            facts = {
                "name": made.metadata.name,
                "warps": made.metadata.num_warps,
                "shared": made.metadata.shared,
                "scratch": made.metadata.global_scratch_size,
                "producer": f"Triton {triton.__version__}",
            }
            Path(folder, f"{name}.sm_{chip}.ptx").write_text(made.asm["ptx"])
            Path(folder, f"{name}.sm_{chip}.json").write_text(json.dumps(facts))
            print(name, chip, facts, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The examples of CuTe DSL, which compare themselves with PyTorch. FOREIGN_CHIP is the chip, and
WEFT_CUTLASS the folder with CUTLASS's sources.
"""

import os
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cute_driver
from harness import Case, Results

CHIP = os.environ["FOREIGN_CHIP"]
EXAMPLES = Path(os.environ["WEFT_CUTLASS"], "examples", "python", "CuTeDSL", "cute")
cute_driver.activate(CHIP)

from cutlass import testing as of_cutlass  # noqa: E402
from cutlass.cute import testing  # noqa: E402

SMALL = "--mnkl 256,192,128,1"
# The folder in `cute/*/kernel`, the example, and the arguments of each case, by the chip.
ARGUMENTS = {
    "sm_90a": (
        ("ampere", "elementwise/elementwise_add", "--M 100 --N 96"),
        ("ampere", "elementwise/elementwise_apply", "--M 100 --N 96", "--M 128 --N 256 --op mul"),
        ("ampere", "dense_gemm/sgemm", "--mnk 200,136,40", "--mnk 128,128,64 --a_major k --b_major k"),
        (
            "ampere",
            "dense_gemm/tensorop_gemm",
            f"{SMALL} --atom_layout_mnk 2,2,1 --ab_dtype Float16 --c_dtype Float16 --acc_dtype Float32",
        ),
        (
            "ampere",
            "attention/flash_attention_v2",
            *(f"--batch_size 1 --seqlen_q 100 --seqlen_k 136 --num_head 2 {x}" for x in ("", "--is_causal")),
        ),
        ("ampere", "attention/hstu_attention", "--batch_size 1 --seqlen_q 128 --seqlen_kv 128 --num_head 1"),
        ("hopper", "dense_gemm/dense_gemm", SMALL, f"{SMALL} --cluster_shape_mn 2,1 --a_major m --b_major n"),
        ("hopper", "dense_gemm/dense_gemm_persistent", f"{SMALL} --tile_shape_mn 128,128"),
        ("hopper", "dense_gemm/dense_gemm_fp8_2xacc", SMALL),
        ("hopper", "dense_gemm/dense_gemm_fp8_gelu_persistent", SMALL),
        (
            "hopper",
            "attention/fmha",
            *(
                f"--q_shape 1,128,2,64 --k_shape 1,256,1,64 {x}"
                for x in ("", "--is_causal", "--is_persistent")
            ),
        ),
        ("hopper", "cta_norm/cta_norm", "--M 8 --N 1024"),
    ),
    "sm_100a": (
        (
            "blackwell",
            "dense_gemm/dense_gemm",
            f"{SMALL} --use_tma_store",
            f"{SMALL} --use_2cta_instrs --cluster_shape_mn 2,1 --mma_tiler_mn 256,64",
        ),
        ("blackwell", "dense_gemm/dense_gemm_persistent", f"{SMALL} --use_tma_store"),
        ("blackwell", "dense_gemm/dense_gemm_persistent_prefetch", f"{SMALL} --use_tma_store"),
        ("blackwell", "dense_gemm/dense_gemm_persistent_dynamic", f"{SMALL} --use_tma_store"),
        ("blackwell", "dense_gemm/dense_gemm_software_pipeline", f"{SMALL} --use_tma_store"),
        (
            "blackwell",
            "blockscaled_gemm/dense_blockscaled_gemm_persistent",
            "--mnkl 256,256,256,1 --mma_tiler_mn 128,128 --cluster_shape_mn 1,1",
        ),
        ("blackwell", "rmsnorm/rmsnorm", "--M 8 --N 1024"),
        (
            "blackwell",
            "attention/fmha/fmha",
            *(f"--q_shape 1,256,2,64 --k_shape 1,256,1,64 {x}" for x in ("", "--is_causal")),
        ),
        (
            "blackwell",
            "attention/fmha/fmha_bwd",
            "--b 1 --s_q 128 --s_k 128 --h_q 1 --h_k 1 --d 64",
        ),
    ),
    "sm_120a": (
        ("blackwell_geforce", "dense_gemm/dense_gemm", SMALL),
        *(
            (
                "blackwell_geforce",
                f"blockscaled_gemm/dense_blockscaled_gemm_persistent_{how}",
                "--mnkl 256,256,256,1",
            )
            for how in ("cooperative", "pingpong")
        ),
    ),
}


def example(path: Path, arguments: str) -> Callable[[], Results]:
    """Runs an example. It raises AssertionError where its results aren't right."""

    def case() -> Results:
        sys.argv = [str(path), *shlex.split(arguments)]
        sys.path.insert(0, str(path.parent))
        try:
            runpy.run_path(str(path), run_name="__main__")
        finally:
            sys.path.remove(str(path.parent))
        yield from ()

    return case


def cases() -> Iterator[Case]:
    of_cutlass.benchmark = testing.benchmark = lambda *args, **options: 1.0
    for folder, name, *each in ARGUMENTS[CHIP]:
        path = EXAMPLES / folder / "kernel" / f"{name}.py"
        for arguments in each:
            yield f"{path.stem} {arguments}".strip(), example(path, arguments)

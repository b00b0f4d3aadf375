"""The kernels of CUTLASS that compile_cutlass.py makes: a source file, a chip, and the file's macros."""

BF16, E4M3, S8 = "cutlass::bfloat16_t", "cutlass::float_e4m3_t", "int8_t"
F16 = "cutlass::half_t"
MXF8, NVF4 = "cutlass::mx_float8_t<cutlass::float_e4m3_t>", "cutlass::nv_float4_t<cutlass::float_e2m1_t>"
STATIC, STREAM_K = "cutlass::gemm::PersistentScheduler", "cutlass::gemm::StreamKScheduler"
PINGPONG, COOPERATIVE = "KernelTmaWarpSpecializedPingpong", "KernelTmaWarpSpecializedCooperative"
ONE_SM, TWO_SM = "KernelTmaWarpSpecialized1SmSm100", "KernelTmaWarpSpecialized2SmSm100"
EPILOGUES = {
    PINGPONG: "TmaWarpSpecialized",
    COOPERATIVE: "TmaWarpSpecializedCooperative",
    ONE_SM: "TmaWarpSpecialized1Sm",
    TWO_SM: "TmaWarpSpecialized2Sm",
}


def product(chip, mainloop, tile, cluster, inputs=BF16, result=BF16, layouts="tn", **more):
    """`layouts` as BLAS spells them: A and B are K-major as "tn", and MN-major as "nt"; D is row-major."""
    number = "".join(c for c in chip if c.isdigit())
    base = mainloop.replace("FP8FastAccum", "")
    return (
        "gemm.cu",
        chip,
        {
            "ARCH": f"Sm{number}",
            "TILE": ", ".join(f"_{size}" for size in tile),
            "CLUSTER": ", ".join(f"_{size}" for size in (*cluster, 1)),
            "LAYOUT_A": "RowMajor" if layouts[0] == "t" else "ColumnMajor",
            "LAYOUT_B": "ColumnMajor" if layouts[1] == "n" else "RowMajor",
            "LAYOUT_D": "RowMajor",
            "ELEMENT_A": inputs,
            "ELEMENT_B": inputs,
            "ELEMENT_D": result,
            "ACCUMULATOR": "int32_t" if inputs == S8 else "float",
            "OPERATION": "OpClassTensorOp",
            "ALIGNMENT": "alignment<ELEMENT_A>",
            "MAINLOOP": mainloop,
            "EPILOGUE": more.get("epilogue", EPILOGUES.get(base)),
            "SCHEDULER": more.get("scheduler", STATIC),
        },
    )


def scaled(chip, mainloop, tile, cluster, inputs, **more):
    """A and B have a scale for each 32 (mxf8) or 16 (nvf4) elements of K."""
    source, _, macros = product(chip, mainloop, tile, cluster, inputs, **more)
    alignment = {"ALIGNMENT": "16" if inputs == MXF8 else "32", "OPERATION": "OpClassBlockScaledTensorOp"}
    return source, chip, {**macros, **alignment, "SCALED": ""}


def older(inputs, result, instruction, k, layouts="tn", slices=1):
    """A kernel of CUTLASS 2."""
    _, chip, macros = product("sm_80", "", (), (), inputs, result, layouts)
    names = ("LAYOUT_A", "LAYOUT_B", "LAYOUT_D", "ELEMENT_A", "ELEMENT_B", "ELEMENT_D", "ACCUMULATOR")
    sizes = {"TILE": f"128, 64, {k}", "WARP_TILE": f"64, 32, {k}", "INSTRUCTION": instruction}
    return (
        "sm_80.cu",
        chip,
        {name: macros[name] for name in names} | sizes | {"STAGES": "3", "SLICES": slices},
    )


CASES = {
    "pingpong": product("sm_90a", PINGPONG, (64, 128, 64), (2, 1)),
    "cooperative": product("sm_90a", COOPERATIVE, (128, 128, 64), (1, 2)),
    "stream_k": product("sm_90a", COOPERATIVE, (128, 128, 64), (2, 1), layouts="nt", scheduler=STREAM_K),
    "fp8": product("sm_90a", PINGPONG, (64, 128, 128), (1, 1), E4M3),
    "fp8_fast": product("sm_90a", f"{COOPERATIVE}FP8FastAccum", (128, 128, 128), (1, 2), E4M3),
    "int8": product("sm_90a", COOPERATIVE, (128, 128, 128), (1, 1), S8, "int32_t"),
    "one_sm": product("sm_100a", ONE_SM, (128, 128, 64), (2, 1)),
    "two_sm": product("sm_100a", TWO_SM, (256, 128, 64), (2, 1)),
    "two_sm_fp8": product("sm_100a", TWO_SM, (256, 128, 128), (2, 2), E4M3),
    "one_sm_mxf8": scaled(
        "sm_100a",
        f"{ONE_SM[:-5]}Mxf8f6f4Sm100",
        (128, 128, 128),
        (1, 1),
        MXF8,
        epilogue="TmaWarpSpecialized1Sm",
    ),
    "two_sm_nvf4": scaled(
        "sm_100a", f"{TWO_SM[:-5]}Nvf4Sm100", (256, 128, 256), (2, 1), NVF4, epilogue="TmaWarpSpecialized2Sm"
    ),
    "nvf4_sm_120": scaled(
        "sm_120a", COOPERATIVE, (128, 128, 128), (1, 1), NVF4, epilogue="TmaWarpSpecialized"
    ),
    "f16_sm_80": older(F16, F16, "16, 8, 16", 32, "nt"),
    "bf16_slices_sm_80": older(BF16, "float", "16, 8, 16", 32, slices=3),
    "fp8_sm_120": product(
        "sm_120a", COOPERATIVE, (128, 128, 128), (1, 1), E4M3, epilogue="TmaWarpSpecialized"
    ),
}

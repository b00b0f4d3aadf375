"""Compiles triton/kernels.py for chips that need not be there: python …/compile_triton.py [NAME …]

The PTX lies compressed in ptx/, with what a launch must know (warps, shared memory, descriptors) in front.
"""

import json
import lzma
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "triton"))

import kernels  # noqa: E402
import more_kernels  # noqa: E402
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

tl = triton.language
ALL, TMA, BLACKWELL = (80, 90, 100, 120), (90, 100, 120), (100,)
TILE = {"BM": 64, "BN": 64, "BK": 32}
LARGE = {"BM": 128, "BN": 64, "BK": 64}


def _matmul(kind, out, **tile):
    types = dict(zip("abcMNK", [f"*{kind}", f"*{kind}", f"*{out[0]}", "i32", "i32", "i32"], strict=True))
    return (
        kernels.matmul,
        types | dict.fromkeys(("sam", "sbk", "scm"), "i32"),
        {**TILE, **tile, "OUT": out[1]},
    )


def _described(**more):
    blocks = {"a": "[128, 64]", "b": "[64, 64]", "c": "[128, 64]"}
    return {n: f"tensordesc<fp16{b}>" for n, b in blocks.items()} | {"K": "i32"}, LARGE | more


def _scaled(kind, scale, group):
    types = {"a": kind, "sa": scale, "b": kind, "sb": scale, "c": "*fp32", "K": "i32"}
    form = "e4m3" if kind == "*fp8e4nv" else "e2m1"
    return kernels.scaled_matmul, types, {"BM": 128, "BN": 64, "BK": 128, "KIND": form, "GROUP": group}


POINTERS = {
    "softmax": ({"x": "*fp32", "y": "*fp32", "columns": "i32", "stride": "i32"}, {"BLOCK": 256}),
    "layer_norm": ({"x": "*fp16", "w": "*fp32", "y": "*fp16", "columns": "i32"}, {"BLOCK": 256}),
    "attention": (
        {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp16", "scale": "fp32", "N": "i32"},
        {"BM": 64, "BN": 32, "D": 64},
    ),
    "atomics": ({"x": "*i32", "out": "*fp32", "bins": "*i32", "lock": "*i32", "n": "i32"}, {"BLOCK": 128}),
    "half_atomics": ({"x": "*fp16", "out": "*fp16", "n": "i32"}, {"BLOCK": 128}),
    "scans": ({"x": "*i32", "y": "*i32", "z": "*i32", "w": "*fp32"}, {"BLOCK": 256}),
    "statistics": ({"x": "*i32", "h": "*i32", "best": "*i32", "index": "*i32"}, {"BLOCK": 256, "BINS": 32}),
    "gathers": ({"x": "*fp32", "at": "*i32", "y": "*fp32"}, {"BLOCK": 32, "WIDTH": 16}),
    "casts": (
        {
            "x": "*fp32",
            "half": "*fp16",
            "brain": "*bf16",
            "e4m3": "*fp8e4nv",
            "e5m2": "*fp8e5",
            "back": "*fp32",
        },
        {"BLOCK": 256},
    ),
    "functions": ({"x": "*fp32", "y": "*fp32"}, {"BLOCK": 128}),
    "seeded": ({"seed": "i32", "y": "*fp32", "z": "*i32"}, {"BLOCK": 128}),
    "transpose": ({"x": "*fp16", "y": "*fp16", "N": "i32"}, {"BLOCK": 32}),
}


def _desc(*blocks):
    return {n: f"tensordesc<fp16[{b[0]}, {b[1]}]>" for n, b in blocks}


def _pointers(text, **constants):
    """A signature from `x:*i32 n:i32`, with the constants."""
    return dict(part.split(":") for part in text.split()), constants


MORE = {
    "transposed_matmul": (ALL, *_pointers("a:*fp16 b:*fp16 c:*fp32 K:i32", BM=64, BN=64, BK=64)),
    "mixed_scaled": (ALL, *_pointers("a:*u8 sa:*u8 b:*bf16 c:*fp32", BM=128, BN=64, BK=64)),
    "descriptor_extras": ((100,), *_pointers("x:*fp32 y:*fp32 z:*fp32 at:*i32", ROWS=32, COLUMNS=64)),
    "reduce_descriptor": (TMA, *_pointers("x:*fp16 y:*fp16", BLOCK=32)),
    "custom": (ALL, *_pointers("x:*fp32 best:*fp32 where:*i32 y:*fp32 z:*fp32", ROWS=16, COLUMNS=64)),
    "shapes": (ALL, *_pointers("x:*i16 y:*i16", BLOCK=128)),
    "wide": (ALL, *_pointers("x:*i64 y:*i64 z:*fp64 n:i32", BLOCK=128)),
    "bytes_and_halves": (ALL, *_pointers("x:*i8 y:*u8 z:*bf16", BLOCK=256)),
    "loops": (ALL, *_pointers("x:*i32 y:*i32", BLOCK=1)),
    "said": (ALL, *_pointers("x:*i32", BLOCK=32)),
    "assembly": (ALL, *_pointers("x:*i32 y:*i32", BLOCK=256)),
    "batched": (ALL, *_pointers("a:*fp16 b:*fp16 c:*fp32", B=4, BM=16, BN=16, BK=32)),
    "half_sums": (ALL, *_pointers("a:*fp16 b:*fp16 c:*fp16", BM=64, BN=64, BK=64)),
    "typed_atomics": (ALL, *_pointers("x:*i32 i:*i64 f:*fp32 d:*fp64 b:*i32 n:i32", BLOCK=128)),
}


def cases():
    """Name, chips, kernel, signature, constants, options."""
    for name, (types, constants) in POINTERS.items():
        chips = TMA if name == "casts" else ALL
        yield name, chips, getattr(kernels, name), types, constants, {}
    for name, kind, out in (
        ("f16", "fp16", ("fp16", tl.float16)),
        ("bf16", "bf16", ("fp32", tl.float32)),
        ("tf32", "fp32", ("fp32", tl.float32)),
        ("i8", "i8", ("i32", tl.int32)),
    ):
        yield f"matmul_{name}", ALL, *_matmul(kind, out), {}
    yield "matmul_fp8", (90, 100, 120), *_matmul("fp8e4nv", ("fp32", tl.float32)), {}
    yield "matmul_large", (90, 100), *_matmul("fp16", ("fp16", tl.float16), **LARGE), {}
    for ws in (False, True):
        types, constants = _described(WS=ws)
        yield f"descriptor_matmul{'_ws' * ws}", TMA, kernels.descriptor_matmul, types, constants, {}
        types = dict.fromkeys("abc", "*fp16") | dict.fromkeys("MNK", "i32")
        constants = LARGE | {"PROGRAMS": 2, "WS": ws}
        yield f"persistent_matmul{'_ws' * ws}", TMA, kernels.persistent_matmul, types, constants, {}
    for name, (chips, types, constants) in MORE.items():
        options = {"num_warps": 1 if name in ("loops", "said") else 4, "debug": name == "said"}
        yield name, chips, getattr(more_kernels, name), types, constants, options
    for precision in ("ieee", "tf32x3", "bf16x3"):
        types, constants = _pointers("a:*fp32 b:*fp32 c:*fp32", BM=32, BN=32, BK=32, PRECISION=precision)
        yield f"exact_{precision}", (80, 90, 100), more_kernels.exact_matmul, types, constants, {}
    types, constants = _described(WS=False)
    two = {"num_ctas": 2}
    yield "matmul_two_ctas", (90,), *_matmul("fp16", ("fp16", tl.float16), **LARGE), two
    yield "matmul_eight_warps", (80, 90), *_matmul("fp16", ("fp16", tl.float16), **LARGE), {"num_warps": 8}
    types = _desc(("q", (128, 64)), ("k", (64, 64)), ("v", (64, 64)), ("o", (128, 64)))
    types |= {"scale": "fp32", "N": "i32"}
    yield "attention_ws", (100,), more_kernels.attention_ws, types, {"BM": 128, "BN": 64, "D": 64}, {}
    for kind, group in (("mxfp8", 32), ("nvfp4", 16), ("mxfp4", 32)):
        values = "fp8e4nv[128, 128]" if kind == "mxfp8" else "u8[128, 64]"
        blocks = 128 // group // 4
        scales = f"tensordesc<{'fp8e4nv' if kind == 'nvfp4' else 'u8'}[1, 1, {blocks}, 2, 256]>"
        types = {"a": f"tensordesc<{values}>", "sa": scales, "b": f"tensordesc<{values}>", "sb": scales}
        types |= {"c": "*fp32", "K": "i32"}
        form = "e4m3" if kind == "mxfp8" else "e2m1"
        constants = {"BM": 128, "BN": 128, "BK": 128, "GROUP": group, "KIND": form}
        yield f"tiled_{kind}", (100,), more_kernels.tiled_scales, types, constants, {}
    types = _desc(("a", (128, 64)), ("b", (64, 64)), ("c", (128, 32))) | dict.fromkeys("MNK", "i32")
    yield "split_epilogue", (100,), more_kernels.split_epilogue, types, {**LARGE, "PROGRAMS": 2}, {}
    yield "scaled_mxfp8", (100, 120), *_scaled("*fp8e4nv", "*u8", 32), {}
    yield "scaled_mxfp4", (100, 120), *_scaled("*u8", "*u8", 32), {}
    yield "scaled_nvfp4", (100, 120), *_scaled("*u8", "*fp8e4nv", 16), {}


def main(*names):
    failed = []
    for name, chips, kernel, types, constants, options in cases():
        for chip in chips:
            if names and name not in names:
                continue
            if name == "descriptor_matmul_ws" and chip == 90:
                continue  # Triton 3.9 fails in its own verifier
            signature = types | dict.fromkeys(constants, "constexpr")
            sixteen = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.values()) if t[0] in "*i"}
            source = ASTSource(kernel, signature, constants, sixteen)
            try:
                made = triton.compile(source, target=GPUTarget("cuda", chip, 32), options=options)
            except Exception as error:  # of whatever Triton raises
                failed.append(f"{name} {chip}: {str(error)[:300]}")
                continue
            facts = {
                k: getattr(made.metadata, k, None) for k in ("name", "num_warps", "shared", "tensordesc_meta")
            }
            facts["scratch"] = made.metadata.global_scratch_size
            facts["clusters"] = made.metadata.num_ctas
            ptx = made.asm["ptx"]
            for folder in (HERE.parents[1], Path(triton.__file__).parents[1]):
                ptx = ptx.replace(f"{folder}/", "")
            text = f"// {json.dumps(facts)}\n{ptx}"
            (HERE / "ptx" / f"triton.{name}.sm_{chip}.ptx.xz").write_bytes(lzma.compress(text.encode()))
            print(name, chip, facts, flush=True)
    if failed:
        sys.exit("\n".join(["failed:", *failed]))


if __name__ == "__main__":
    main(*sys.argv[1:])

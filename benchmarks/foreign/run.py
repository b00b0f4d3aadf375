"""Runs other projects' kernels in Weft's emulator: python benchmarks/foreign/run.py [--newest] [PRODUCER …]

Each producer has an environment of its own in build/foreign, with the packages below from PyPI. Prints a
table and the reason of each exception, and exits with 1 if one has none.
"""

import fnmatch
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MADE = ROOT / "build" / "foreign"

# Only the named packages are installed, since some pin others that they don't need here.
EMULATOR = (
    "numpy==2.4.6",
    "ml_dtypes==0.6.0",
    "llvmlite==0.50.0",
    "torch-mlir==20261001",
    "platformdirs==4.14.8",
)
TORCH = (
    *("torch==2.13.0", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec"),
    *("filelock", "packaging", "einops", "expecttest"),
)
CUTE = (
    *(*TORCH, "triton==3.9.0", "apache-tvm-ffi==0.1.15.post2"),
    *("cuda-bindings", "cuda-core", "cuda-pathfinder"),
    "nvidia-cutlass-dsl==4.8.1",
    *(f"nvidia-cutlass-dsl-libs-{part}==4.8.1" for part in ("base", "core", "cu13")),
)
PACKAGES = {
    "liger": (*TORCH, "triton==3.9.0", "liger-kernel==0.8.5"),
    "fla": (*TORCH, "triton==3.9.0", "fla-core==0.6.0"),
    # FlagGems needs block pointers, which Triton 3.8 took away.
    "flaggems": (*TORCH, "triton==3.7.1", "flag-gems==5.0.2", "sqlalchemy==2.0.48", "greenlet", "PyYAML"),
    "numba": (
        *(
            "numba==0.68.1",
            "numba-cuda==0.30.4",
            "cuda-bindings",
            "cuda-core",
            "cuda-pathfinder",
            "packaging",
        ),
        "nvidia-cuda-nvrtc",
    ),
    "cuda": (),
    "warp": ("warp-lang==1.19.0",),
    "tilelang": (
        *(
            *TORCH,
            "tilelang==0.1.15",
            "apache-tvm-ffi==0.1.12",
            "torch-c-dlpack-ext",
            "cloudpickle",
            "psutil",
        ),
        *("tqdm", "z3-solver==4.15.4.0"),
    ),
    "deepgemm": ("sgl-deep-gemm==0.2.5",),  # SGLang's fork: DeepGEMM isn't on PyPI
    "quack": (*CUTE, "quack-kernels==0.6.5"),
    "flash_attention_4": (*CUTE, "quack-kernels==0.6.5", "flash-attn-4==4.0.0b36"),
    "cutedsl": CUTE,
}
CHIPS = dict.fromkeys(("quack", "flash_attention_4", "cutedsl"), ("sm_90a", "sm_100a", "sm_120a"))
# What others need in this version.
FIXED = ("torch", "triton", "torch-mlir", "llvmlite", "sqlalchemy", "apache-tvm-ffi", "z3-solver")

# Why a case, or a finding in it, is no fault of Weft: producer, pattern of cases, part of the outcome.
REASONS = json.loads((HERE / "reasons.json").read_text())


def environment(producer: str, newest: bool) -> Path:
    """The Python that has the producer's packages."""
    folder = MADE / producer / ("newest" if newest else "pinned")
    python = folder / "bin" / "python"
    packages = [*EMULATOR, *PACKAGES[producer]]
    if newest:
        packages = [p if p.split("==")[0] in FIXED else p.split("==")[0] for p in packages]
    mark = folder / "packages.json"
    if not mark.exists() or json.loads(mark.read_text()) != packages or newest:
        venv.create(folder, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", *packages]
        subprocess.run(install, check=True)
        mark.write_text(json.dumps(packages))
    return python


def cutlass() -> Path:
    """CUTLASS's sources, from GitHub if WEFT_CUTLASS has none."""
    folder = Path(os.environ.get("WEFT_CUTLASS", MADE / "cutlass"))
    if not folder.exists():
        clone = ["git", "clone", "--quiet", "--depth", "1", "https://github.com/NVIDIA/cutlass", folder]
        subprocess.run(clone, check=True)
    return folder


def outcomes(producer: str, newest: bool) -> list[dict]:
    """What came of the producer's cases, on each of its chips."""
    if producer not in CHIPS:
        return on_chip(producer, newest, "")
    each = {chip: on_chip(producer, newest, chip) for chip in CHIPS[producer]}
    return [o | {"case": f"{chip} {o['case']}"} for chip, made in each.items() for o in made]


def on_chip(producer: str, newest: bool, chip: str) -> list[dict]:
    """What came of the producer's cases; also in build/foreign/PRODUCER.jsonl."""
    python, file = environment(producer, newest), MADE / f"{producer}{chip and f'-{chip}'}.jsonl"
    variables = {
        "FOREIGN_CHIP": chip,
        "PYTHONPATH": str(ROOT / "python"),
        "FOREIGN_CACHE": str(MADE / producer),
        "FLAGGEMS_CACHE_DIR": str(MADE / producer / "gems"),
        "GEMS_VENDOR": "nvidia",
    }
    if producer == "cutedsl":
        variables["WEFT_CUTLASS"] = str(cutlass())
    with file.open("w") as out:
        command = [python, "-W", "ignore", HERE / "harness.py", f"{producer}_cases"]
        ran = subprocess.run(command, stdout=out, env=os.environ | variables, cwd=HERE, check=False)
    made = [json.loads(line) for line in file.read_text().splitlines() if line.startswith('{"case"')]
    if ran.returncode:
        made.append({"case": "all", "launches": [], "wrong": "", "failed": f"exit status {ran.returncode}"})
    return made


def complaints(outcome: dict) -> list[str]:
    """What isn't as it should be in a case."""
    launches = outcome["launches"]
    found = {f"{rule} in {x['kernel']}" for x in launches for rule in x["findings"]}
    errors = [x["error"] for x in launches if x["error"]]
    wrong = [f"wrong: {outcome['wrong']}"] if outcome["wrong"] else []
    failed = [f"failed: {outcome['failed']}"] if outcome["failed"] and not errors else []
    none = ["no launch"] if not (launches or failed) else []
    return [*sorted(found), *errors, *wrong, *failed, *none]


def reason(producer: str, case: str, complaint: str) -> str | None:
    for known, pattern, part, why in REASONS:
        if known == producer and fnmatch.fnmatch(case, pattern) and part in complaint:
            return why
    return None


def row(producer: str, made: list[dict]) -> str:
    """The producer's line of the table."""
    launches = [(x, outcome) for outcome in made for x in outcome["launches"]]
    ran = sum(not x["error"] for x, _ in launches)
    right = sum(not (x["error"] or o["wrong"] or o["failed"]) for x, o in launches)
    silent = sum(not (x["error"] or x["findings"]) for x, _ in launches)
    return f"| {producer} | {len(made)} | {len(launches)} | {ran} | {right} | {silent} |"


def main(*arguments: str) -> int:
    newest = "--newest" in arguments
    chosen = [a for a in arguments if not a.startswith("--")] or list(PACKAGES)
    results = {producer: outcomes(producer, newest) for producer in chosen}
    return report(results)


def report(results: dict[str, list[dict]]) -> int:
    print("| producer | cases | launches | ran | right | silent |\n|---|---|---|---|---|---|")
    for producer, made in results.items():
        print(row(producer, made))
    reasons: dict[tuple[str, str], list[str]] = {}
    for producer, made in results.items():
        for outcome in made:
            for complaint in complaints(outcome):
                why = reason(producer, outcome["case"], complaint) or f"UNEXPLAINED: {complaint[:300]}"
                cases = reasons.setdefault((producer, why), [])
                if outcome["case"] not in cases:
                    cases.append(outcome["case"])
    print("\n| producer | cases | reason |\n|---|---|---|")
    for (producer, why), cases in reasons.items():
        named = ", ".join(cases) if len(cases) <= 6 else f"{', '.join(cases[:5])} and {len(cases) - 5} others"
        print(f"| {producer} | {named} | {why} |")
    return any(why.startswith("UNEXPLAINED") for _, why in reasons)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

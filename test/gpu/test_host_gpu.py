"""Host functions that launch kernels, on a GPU."""

from pathlib import Path

import pytest

from weft import mlir
from weft.dialects import context
from weft.host import entry, lowering
from weft.launch import runtime

ROOT = Path(__file__).parents[2]
PRINTED = {
    "examples/host.mlir": "[4,  4,  4,  4]\n",
    "test/host/mma_sync.mlir": "0\n",
    "test/host/wgmma.mlir": "798\n",
    "test/host/operations.mlir": "[2,  2,  2,  2]\ndone\n",
    "test/host/launches.mlir": "[30,  31,  20,  21]\n2000\n",
}


@pytest.mark.parametrize("file", PRINTED)
def test_programs_print_what_they_print_in_the_emulator(file: str) -> None:
    chip = runtime.default_chip()
    if chip != "sm_90a" and file.endswith(("wgmma.mlir", "launches.mlir")):
        pytest.skip("a program for sm_90a")
    module = mlir.parse_file(ROOT / file, context())
    lowered = lowering.lower(module, "main", None, chip, file, machine_code=True)
    said: list[str] = []
    entry.run(lowered, "gpu", said.append)
    assert "".join(said).endswith(PRINTED[file])

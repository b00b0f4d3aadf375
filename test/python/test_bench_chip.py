"""`weft bench --chip`: kernels for a chip that isn't the GPU's."""

import re
from argparse import Namespace
from types import SimpleNamespace

import pytest

from weft.bench import chip_kernels
from weft.bench.implementation import Refusal
from weft.bench.problem import Problem
from weft.dialects.schedule import Schedule, Types
from weft.errors import WeftError
from weft.multiply import product_kernel
from weft.tools import bench

BF16 = Types("bf16", "bf16", "bf16", (False, False))
FP8 = Types("f8E4M3FN", "f8E4M3FN", "bf16", (False, False))
SMALL = Schedule((64, 64, 64), (2, 2), 3)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chip_kernels.runtime, "current", lambda: SimpleNamespace(chip="sm_90a"))


@pytest.mark.slow
def test_ptx_of_older_chips_is_assembled_for_the_gpu() -> None:
    plain = product_kernel.plain(BF16, SMALL, "sm_80")
    kernel = chip_kernels.ForGpu(plain.compiled, plain.launch)
    assert kernel.chip == "sm_80" and ".target sm_80" in kernel.ptx
    assert kernel.cubin.startswith(b"\x7fELF") and kernel.cubin != plain.cubin


def test_ptx_of_later_chips_is_refused() -> None:
    ptx = product_kernel.plain(BF16, SMALL, "sm_120").ptx
    with pytest.raises(Refusal, match="ptxas doesn't assemble PTX of sm_120 for sm_90a: "):
        chip_kernels._assembled(ptx, "sm_120")


@pytest.mark.parametrize(
    "given", [{"inputs": "e4m3-block"}, {"inputs": "mxfp8"}, {"inputs": "bf16", "groups": 4}]
)
def test_products_with_groups_and_scales_are_refused(given: dict[str, object]) -> None:
    problem = Problem(256, 256, 256, **{"output": "bf16"} | given)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="must be without groups and scales"):
        chip_kernels.weft("sm_89").prepare(problem, [])


def test_the_chip_replaces_kernels_of_weft_and_triton() -> None:
    given = Namespace(against="cublas,triton", schedule=None, chip="sm_80")
    made, plain = (bench._implementations(Namespace(**vars(given) | {"chip": c})) for c in ("sm_80", None))
    assert [each.name for each in made] == [each.name for each in plain] == ["weft", "cublas", "triton"]
    assert [a == b for a, b in zip(made, plain, strict=True)] == [False, True, False]
    given.chip = "sm_81"
    with pytest.raises(WeftError, match="sm_81"):
        bench._implementations(given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("types", "schedule"),
    [(BF16, Schedule((128, 128, 32), (2, 2), 4)), (FP8, Schedule((128, 128, 128), (2, 4), 3))],
)
def test_kernels_of_sm_120_are_those_of_sm_89(types: Types, schedule: Schedule) -> None:
    ptx = [product_kernel.plain(types, schedule, chip).ptx for chip in ("sm_89", "sm_120")]
    assert ptx[0] != ptx[1]
    first, second = (re.sub(r"\.(target|version) .*", "", each) for each in ptx)
    assert first == second

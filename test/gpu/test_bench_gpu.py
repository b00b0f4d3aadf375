"""`weft bench` on a GPU: every installed implementation is correct, and times agree with plain events."""

from pathlib import Path

import pytest

from weft.bench import gpu
from weft.bench.implementations import PEERS
from weft.bench.measure import run
from weft.bench.problem import INPUTS, LAYOUTS, Problem
from weft.bench.report import Report
from weft.launch import runtime
from weft.tools import weft

_reason = gpu.unavailable()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(_reason is not None, reason=str(_reason))]


def test_every_result_is_right_and_cublas_has_one_for_each_type(tmp_path: Path) -> None:
    kept, drawn = tmp_path / "kept.json", tmp_path / "drawn.svg"
    shapes = "512x512x512 200x264x1024 3@150x256x1024 3@150/192x256x1024"
    given = f"bench {shapes} --types {','.join(INPUTS)} --against cublas,triton,deepgemm"
    files = ["--json", str(kept), "--svg", str(drawn)]
    assert weft.main([*given.split(), "--samples", "2", "--sustained", *files]) == 0
    report = Report.of_json(kept.read_text())
    assert all(result.right or result.reason for result in report.results)
    right = {(r.implementation, r.problem.inputs, r.problem.groups) for r in report.results if r.right}
    plain = [name for name, row in INPUTS.items() if not row.format]  # only some GPUs multiply the others
    assert {("cublas", inputs, groups) for inputs in plain for groups in (None, 3)} <= right
    assert {("weft", "bf16", 3), ("weft", "e4m3-block", 3)} <= right
    assert report.device["copy_gb_s"] > 0
    assert "driver_version" in report.device["settings"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_algorithms_that_are_chosen_by_their_times_are_right(layout: str, tmp_path: Path) -> None:
    shapes, types = "512x512x512 200x264x1024 200x264x1024+1~3", "bf16,f16,tf32,e4m3,e4m3-promoted,s8"
    given = f"bench {shapes} --types {types} --layout {layout} --against cublaslt-tuned --samples 2"
    assert weft.main([*given.split(), "--json", str(tmp_path / "kept.json")]) == 0
    results = Report.of_json((tmp_path / "kept.json").read_text()).results
    found = [result for result in results if result.implementation == "cublaslt-tuned"]
    assert len(found) == 18 and all(result.right or result.reason for result in found)
    right = {r.problem.inputs for r in found if r.right and r.problem.shape == "512x512x512"}
    # Before Blackwell, fp8 must be K-major for cuBLASLt.
    assert right >= set(types.split(",") if layout == "nt" else ("bf16", "f16", "tf32"))


def test_times_agree_with_those_of_plain_events() -> None:
    import torch

    problem = Problem(4096, 4096, 4096, "bf16", "bf16")
    (result,) = run(
        problem,
        PEERS["cublas"][:1],
        gpu.TorchGpu(),
        samples=5,
        sustained=False,
        progress=lambda done, total: None,
    )
    assert result.burst is not None
    a, b = (torch.randn(4096, 4096, device="cuda").bfloat16() for _ in range(2))
    plain = 1000 * runtime.time(lambda: torch.mm(a, b.t()), stream=torch.cuda.current_stream())
    assert 0.7 < result.burst.microseconds / plain < 1.3

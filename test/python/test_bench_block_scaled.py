"""Buffers and checks of weft bench for operands whose scales the tensor cores apply, on PyTorch's CPU."""

import math
import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from weft import reference
from weft.bench import block_scaled, compiling, problem
from weft.bench.implementation import Refusal
from weft.bench.implementations import PEERS, weft
from weft.bench.problem import INPUTS, Buffers, Problem
from weft.errors import WeftError
from weft.isa.block_scales import FORMATS

NAMES = [row.name for row in INPUTS.values() if row.format]
NAMED = Buffers("a", "b", "d", "scales of a", "scales of b")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs PyTorch, for its arrays")


def made(name: str, **fields: Any) -> Problem:
    return Problem(140, 130, 384, name, "bf16", **fields)


def dense(torch: Any, name: str, elements: Any, scales: Any) -> Any:
    """A matrix in float64, from every element and scale on its own."""
    format_, raw = FORMATS[name], elements.view(torch.uint8).numpy()
    element, rows = format_.elements[0], raw.shape[0]
    plain = raw.view(ml_dtypes.float8_e4m3fn) if element == "e4m3" else reference.unpack(raw, element)
    scale = ml_dtypes.float8_e8m0fnu if format_.scale == "ue8m0" else ml_dtypes.float8_e4m3fn
    groups = plain.shape[1] // format_.group
    tiles = scales.view(torch.uint8).numpy().view(scale).astype(np.float64)
    across = -(-groups // 4)
    row, g = np.arange(rows)[:, None], np.arange(groups)[None]
    place = (row // 128 * across + g // 4) * 512 + row % 32 * 16 + row // 32 % 4 * 4 + g % 4
    return torch.from_numpy(plain.astype(np.float64) * np.repeat(tiles[place], format_.group, axis=1))


@pytest.mark.parametrize("name", NAMES)
def test_a_right_result_passes_and_a_wrong_one_is_caught(
    name: str, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem, "_INPUT_BYTES", 1)
    monkeypatch.setattr(problem, "_CHECKED_ELEMENTS", 50_000)  # B in two parts
    sets = problem.buffers(made(name), "cpu")
    assert problem.check(made(name), sets).error is None
    for each in sets:
        a, b = dense(torch, name, each.a, each.scale_a), dense(torch, name, each.b, each.scale_b)
        each.d.copy_(a @ b.t())
    assert problem.check(made(name), sets).passed
    sets[1].d[139, 129] = 1 << 20
    assert not problem.check(made(name), sets).passed
    sets[1].d[139, 129] = math.nan
    assert problem.check(made(name), sets).error is None


@pytest.mark.parametrize("name", NAMES)
def test_scales_and_elements_of_all_values_are_drawn(name: str, torch: Any) -> None:
    (each, *_) = problem.buffers(made(name), "cpu")
    drawn = torch.unique(each.scale_a.view(torch.uint8)).numel()
    assert drawn == 5 if FORMATS[name].scale == "ue8m0" else drawn > 10
    assert torch.unique(each.a.view(torch.uint8)).numel() > 100


def test_groups_b_of_k_by_n_and_broken_bytes_are_refused(torch: Any) -> None:
    for fields in ({"transpose_b": False}, {"groups": 2}):
        with pytest.raises(WeftError, match="mxfp4 must have the layout nt, and no groups, with weft bench"):
            problem.buffers(made("mxfp4", **fields), "cpu")
    with pytest.raises(WeftError, match="K must be whole bytes of nvfp4, got 3"):
        block_scaled.operand("nvfp4", 4, 3, torch.Generator())


@pytest.mark.parametrize(
    ("name", "kind"), [("mxfp8", "mxfp8"), ("mxfp6", "mxfp6_e2m3"), ("mxfp4", "mxfp4"), ("nvfp4", "nvfp4")]
)
def test_weft_gets_the_kind(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("weft.matmul", lambda *_, **options: asked.append(options))
    cuda = SimpleNamespace(current_stream=lambda: "now")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    weft().prepare(made(name), [NAMED])[0]()
    assert asked[0]["kind"] == kind and asked[0]["scales"] == ("scales of a", "scales of b")
    assert asked[0]["stream"] == "now"
    scale = compiling.product_of(made(name), "sm_100a").types.scale
    assert scale == ("f8E4M3FN" if name == "nvfp4" else "f8E8M0FNU")


@pytest.mark.parametrize("name", ["mxfp6", "mxfp4"])
def test_cublas_has_no_product_of_other_formats(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(set_float32_matmul_precision=lambda precision: None)
    monkeypatch.setitem(sys.modules, "torch", fake)
    with pytest.raises(Refusal, match=f"PyTorch has no product of {name} by cuBLAS"):
        PEERS["cublas"][0].prepare(made(name, transpose_b=False), [NAMED])


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_cublas_multiplies_the_formats_that_pytorch_has(
    name: str, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = problem.buffers(made(name), "cpu")
    asked: list[Any] = []
    monkeypatch.setattr(torch, "_scaled_mm", lambda *given, **_: asked.extend(given))
    PEERS["cublas"][0].prepare(made(name), sets)[0]()
    a, b, scale_a, scale_b = asked
    assert a is sets[0].a and tuple(b.shape) == (a.shape[1], 130)
    assert scale_a is sets[0].scale_a and scale_b is sets[0].scale_b

"""`tile.gemm_async` in tensor memory refuses each M, N, K and chip that no instruction of a kind has."""

import re
from dataclasses import fields

import pytest
from gemm_async_case import LANES, Case

import weft
from weft.errors import WeftError
from weft.isa.tcgen05.descriptors import KINDS, legal_m, legal_n

OF_KIND = {
    "f16": Case(),
    "tf32": Case(a_type="f32", k=32),
    "f8f6f4": Case(a_type="f8E4M3FN", k=128),
    "i8": Case(a_type="i8", sums="i32", k=128),
    "mxf8f6f4": Case(a_type="f8E4M3FN", k=128, n=128, scale_type="f8E8M0FNU"),
    "mxf4": Case(a_type="f4E2M1FN", k=256, n=128, scale_type="f8E8M0FNU"),
    "mxf4nvf4": Case(a_type="f4E2M1FN", k=256, n=128, scale_type="f8E4M3FN", scale_size=16),
}


class Refused(Case):
    """A product whose layouts have any size, and whose scales are those of a legal M: what its shape must be
    is checked before them.
    """

    @classmethod
    def of(cls, kind: str, **changes: int) -> "Refused":
        case = cls(**vars(OF_KIND[kind]) | changes)
        rows, columns = case.m // case.group, case.n // case.group
        case.a_layout = f"S[({rows},{case.k}):({case.k},1)]"
        case.b_layout = f"S[({columns},{case.k}):({case.k},1)]"
        case.c_layout = f"S[({rows},{case.n}):(1@TLane,1@TCol)]"
        return case

    def _scales(self):
        legal = {field.name: getattr(self, field.name) for field in fields(self)} | {"m": LANES * self.group}
        return Case(**legal)._scales()


def refusal(case: Case, chip: str = "sm_100a") -> str:
    with pytest.raises(WeftError) as refused:
        weft.compile(case.module(), arch=chip)
    return str(refused.value)


def test_every_kind_is_here() -> None:
    assert set(OF_KIND) == set(KINDS)


@pytest.mark.each_value(5)
@pytest.mark.parametrize("kind", OF_KIND)
def test_k_must_be_whole_steps(kind: str) -> None:
    step = KINDS[kind].k
    case = Refused.of(kind, k=3 * step + step // 2)
    assert f"k: needs K % {step} == 0 for kind {kind}, got K = {case.k}" in refusal(case)


@pytest.mark.each_value(5)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kind", OF_KIND)
def test_m_must_be_whole_instructions(kind: str, group: int) -> None:
    step = min(legal_m(kind, group))
    case = Refused.of(kind, m=step // 2, group=group)
    assert f"m: needs M % {step} == 0 with cta_group {group}, got M = {step // 2}" in refusal(case)


@pytest.mark.each_value(6)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kind", OF_KIND)
def test_n_must_be_whole_instructions(kind: str, group: int) -> None:
    step = min(legal_n(kind, group))
    case = Refused.of(kind, m=LANES * group, n=step + step // 2, group=group)
    assert f"n: needs N % {step} == 0 with cta_group {group}, got N = {case.n}" in refusal(case)


@pytest.mark.each_value(5)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_100", "sm_120a"])
@pytest.mark.parametrize("kind", OF_KIND)
def test_a_chip_without_the_instruction_is_named(kind: str, chip: str) -> None:
    assert re.search(rf"needs sm_100f.*{chip}|legal on sm_100a.*got {chip}", refusal(OF_KIND[kind], chip))


@pytest.mark.each_value(2)
@pytest.mark.parametrize("kind", OF_KIND)
def test_the_products_themselves_compile(kind: str) -> None:
    assert "tcgen05.mma" in weft.compile(OF_KIND[kind].module(), arch="sm_100a").ptx

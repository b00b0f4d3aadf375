"""Dispatch chooses the first candidate whose predicates are true, and explains its choice."""

import pytest

from weft import mlir
from weft.dialects import context
from weft.errors import WeftError
from weft.mlir import func, operations
from weft.passes import lower_gemm_async
from weft.passes.lower_gemm import CANDIDATES, SCALED_CANDIDATES
from weft.passes.registry.candidates import Candidate, Predicate, dispatch


@pytest.fixture
def op():
    module = mlir.parse("func.func @f() {\n  return\n}", context())
    with module.context:
        yield operations(module, func.ReturnOp)[0]


def candidate(name: str, priority: int, *reasons: str | None) -> Candidate:
    """A candidate whose predicates p0, p1, … say `reasons`, and which lowers to its own name."""
    predicates = tuple(Predicate(f"p{i}", lambda _, said=said: said) for i, said in enumerate(reasons))
    return Candidate(name, priority, predicates, lambda _: name)


def test_the_first_candidate_by_priority_whose_predicates_all_hold_lowers(op):
    candidates = [
        candidate("low", 1, None),
        candidate("high", 9, None, "no"),
        candidate("middle", 5, None, None),
    ]
    assert dispatch(op, candidates) == "middle"
    assert dispatch(op, [candidate("any", 0)]) == "any"


def test_a_refusal_lists_every_candidate_and_the_first_predicate_that_refused_it(op):
    candidates = [candidate("low", 1, "needs 2, got 1"), candidate("high", 9, None, "needs 4, got 3", "no")]
    with pytest.raises(WeftError) as caught:
        dispatch(op, candidates)
    assert str(caught.value) == (
        "-:2:3: error: 'func.return' op has no candidate that lowers it: "
        "high (p1: needs 4, got 3); low (p0: needs 2, got 1)"
    )


def test_a_predicates_own_mistake_is_not_taken_for_a_refusal(op):
    broken = Candidate("broken", 9, (Predicate("p", lambda _: 1 / 0),), lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        dispatch(op, [broken, candidate("other", 1)])


def test_the_candidates_of_gemm_are_named_after_their_instruction_and_the_deeper_comes_first():
    by_priority = sorted(CANDIDATES, key=lambda each: -each.priority)
    shapes = ("m16n8k32", "m16n8k16", "m16n8k8", "m8n8k16", "m16n8k4", "m8n8k4")
    assert [each.name for each in by_priority] == [f"mma.sync {shape}" for shape in shapes]
    names = (
        "register_scope",
        "full_active_lanes",
        "no_replica",
        "types",
        "alpha",
        "beta",
        "extents",
        "fragments",
    )
    assert all(tuple(p.name for p in each.predicates) == names for each in CANDIDATES)


def test_the_candidates_of_gemm_scaled_are_named_after_their_kind():
    names = [each.name for each in SCALED_CANDIDATES]
    assert names == ["mma.sync m16n8k64 mxf4nvf4", "mma.sync m16n8k64 mxf4", "mma.sync m16n8k32 mxf8f6f4"]


def test_the_candidates_of_gemm_async_are_named_after_their_instructions():
    named = {each.name: each for each in lower_gemm_async.CANDIDATES}
    assert list(named) == ["tcgen05.mma", "tcgen05.mma.block_scale", "tcgen05.mma.ws", "wgmma.mma_async"]
    assert [predicate.name for predicate in named["wgmma.mma_async"].predicates] == [
        "accumulator_in_registers",
        "full_active_threads",
        "types",
        "extents",
        "own_memory",
        "major",
        "accumulator",
        "operand_a",
        "operand_b",
    ]

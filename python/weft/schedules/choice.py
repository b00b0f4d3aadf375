"""Which schedule a product gets: one that was tuned, where there is one, otherwise its family's choice.

All callers ask `choose`: `--select-schedule`, `weft.matmul`, `weft bench` and `weft tune`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypeVar

from weft.dialects.product_types import GROUP_ROWS, Types, ceil_div
from weft.dialects.schedule import (
    AnySchedule,
    DirectSchedule,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    WarpgroupSchedule,
    WmmaSchedule,
    needed_chips,
)
from weft.dialects.schedule.families import FAMILIES, families_named, family_name
from weft.dialects.schedule.family import Order
from weft.dialects.schedule.nearest import nearest
from weft.errors import WeftError, shown
from weft.isa.chips import ChipSet, describe
from weft.registry import extensions
from weft.schedules import database, direct, mma_sync, tcgen05, tma_mma, tuned_files, wgmma, wmma
from weft.schedules.database import Product
from weft.schedules.h200 import fitted_gpu
from weft.schedules.similar_products import product_text, unsupported
from weft.target import Target

REUSED = 1.03
"""The factor between the predicted times of two schedules up to which the compiled one replaces the chosen
one. The model's own errors are larger.
"""
_T = TypeVar("_T")
_SEVENTHS_OF_MEAN = (1, 3, 5, 7, 9, 11, 13)
"""Rows of groups, in sevenths of the mean, for which `choose_for_groups` adds up predicted times."""
_TRIED = 8  # candidates for each of these
_BETTER = 0.98  # a smaller gain is within the model's errors
UNKNOWN_SIZE = 4096
"""The value that is assumed for a size that isn't known."""


@dataclass(frozen=True)
class Request:
    """`members` products of M x N x K of some types on a chip. A size that isn't known is None. The epilogue
    needs so many `registers` of a thread beside the sums. `batch_invariant`: the order of sums must be that
    for any M.
    """

    m: int | None
    n: int | None
    k: int | None
    types: Types
    chip: str
    members: int = 1
    family: str = ""
    registers: int = 0
    batch_invariant: bool = False

    @property
    def mnk(self) -> tuple[int, int, int]:
        """M, N and K, assumed where they aren't known."""
        return self.m or UNKNOWN_SIZE, self.n or UNKNOWN_SIZE, self.k or UNKNOWN_SIZE


def _of_wgmma(request: Request, schedules: Callable[..., _T]) -> _T:
    """What a function of the model of `wgmma` returns for a request."""
    gpu, known_k = fitted_gpu(request.chip), request.k is not None
    return schedules(*request.mnk, request.types, gpu, members=request.members, known_k=known_k)


@dataclass(frozen=True)
class Chooser:
    """What chooses schedules of one family.

    `choose` returns the best schedule that it knows, or None to leave the product to other families.
    `candidates` returns what a tuner tries, the most promising first: where there is a prediction, by its
    time. `predicted` are the times of schedules, in any unit; without it, no other kernel is used in place of
    the chosen one.
    """

    choose: Callable[[Request], AnySchedule | None]
    candidates: Callable[[Request], Iterable[AnySchedule]] = lambda _: ()
    predicted: Callable[[Request, tuple[Any, ...]], list[float]] | None = None


CHOOSERS: dict[type[AnySchedule], Chooser] = {
    WmmaSchedule: Chooser(lambda r: wmma.choose(r.m, r.n, r.types)),
    Schedule: Chooser(lambda r: mma_sync.choose(r.m, r.n, r.types, r.chip, members=r.members)),
    DirectSchedule: Chooser(lambda r: direct.choose(r.m, r.n, r.types, r.chip, r.members)),
    TmaMmaSchedule: Chooser(
        lambda r: tma_mma.choose(*r.mnk, r.types, r.chip, r.members),
        lambda r: tma_mma.ranked(*r.mnk, r.types, r.chip),
    ),
    WarpgroupSchedule: Chooser(
        lambda r: _of_wgmma(r, wgmma.choose),
        lambda r: _of_wgmma(r, wgmma.ranked),
        lambda r, each: wgmma.modeled(each, *r.mnk, r.types, fitted_gpu(r.chip), members=r.members),
    ),
    TensorMemorySchedule: Chooser(
        lambda r: tcgen05.choose(*r.mnk, r.types, r.chip, members=r.members),
        lambda r: tcgen05.ranked(*r.mnk, r.types, r.chip),
    ),
}


def choose(
    m: int | None,
    n: int | None,
    k: int | None,
    types: Types,
    chip: str,
    members: int = 1,
    *,
    any_rows: bool = False,
    tuned: bool = True,
    family: str = "",
    registers: int = 0,
    batch_invariant: bool = False,
) -> AnySchedule:
    """The schedule for an M x N x K product, or for a batch of `members`. A size that isn't known is None.

    `any_rows`: one whose kernel takes rows of any alignment. `tuned`: from the database, where it has one.
    `family`: one of the families with this name. `registers`: one whose threads have so many for the
    epilogue, if a candidate has. `batch_invariant`: one that adds products in an order which depends on N, K,
    the types and the chip, but not on M. Raises WeftError where no schedule is legal.
    """
    if refusal := complaint(types, chip, any_rows=any_rows) or layout_complaint(types, chip):
        raise WeftError(refusal)
    request = Request(m, n, k, types, chip, members, family, registers, batch_invariant)
    if refusal := family_complaint(request, any_rows=any_rows):
        raise WeftError(refusal)
    # Products are tuned one at a time: for a batch the model decides.
    files = tuned_files.sources(chip) if tuned and members == 1 and not any_rows else ()
    return _chosen(request, any_rows, files, tuple(FAMILIES))


@lru_cache(maxsize=256)
def choose_for_groups(
    mean: int, n: int, k: int, types: Types, chip: str, members: int, *, batch_invariant: bool = False
) -> AnySchedule:
    """The schedule for `members` products whose rows are between none and twice their `mean`: the one with
    the shortest predicted time for all. A tile that the mean fills exactly would be half empty in most.
    """
    # While B takes the time, a larger tile costs nothing, and a larger group would read B once for each tile.
    m = max(mean, min(2 * mean, GROUP_ROWS))
    alike = choose(m, n, k, types, chip, members, batch_invariant=batch_invariant)
    if (predicted := CHOOSERS[type(alike)].predicted) is None:
        return alike
    requests = [Request(ceil_div(mean * part, 7), n, k, types, chip, members) for part in _SEVENTHS_OF_MEAN]
    found = [each for one in requests for each in islice(CHOOSERS[type(alike)].candidates(one), _TRIED)]
    # No kernel of groups divides K, so all of a family have one order.
    schedules = tuple(dict.fromkeys([alike, *found]))
    times = [predicted(each, schedules) for each in requests]
    totals = dict(zip(schedules, map(sum, zip(*times, strict=True)), strict=True))
    best = min(schedules, key=totals.__getitem__)
    return best if totals[best] < _BETTER * totals[alike] else alike


def compiled_instead(
    chosen: AnySchedule,
    compiled: Collection[AnySchedule],
    m: int,
    n: int,
    k: int,
    types: Types,
    chip: str,
    members: int = 1,
) -> AnySchedule:
    """The schedule whose kernel a product gets, from the `chosen` one and those that are `compiled`.

    It is the chosen one if that is compiled or tuned, or if no other one has the same results and takes as
    long, as far as the model can tell.
    """
    if chosen in compiled:
        return chosen
    request = Request(m, n, k, types, chip, members)
    able = [s for s in compiled if s.same_results(chosen) and _grouped_alike(s, chosen, m, n)]
    if not able or (members == 1 and _tuned(request, tuned_files.sources(chip)) is not None):
        return chosen
    # The times of all are computed, also of those that aren't able: the model keeps what it knows of them.
    family = tuple(s for s in compiled if type(s) is type(chosen))
    if (predicted := CHOOSERS[type(chosen)].predicted) is None:
        return chosen
    took = dict(zip(family, predicted(request, family), strict=True))
    best = min(able, key=took.__getitem__)
    return best if took[best] <= predicted(request, (chosen,))[0] * REUSED else chosen


def _grouped_alike(one: AnySchedule, other: AnySchedule, m: int, n: int) -> bool:
    """Whether both schedules have groups of as many rows of tiles, or the first one has a single group. The
    model of `wgmma` doesn't tell groups apart.
    """
    down, _ = one.swapped(m, n)
    rows = ceil_div(down, one.block[0] * one.cluster[0])
    return one.group == other.group or rows <= min(one.group, other.group)


def candidates(product: Product) -> list[AnySchedule]:
    """What a tuner tries for a product, the most promising first."""
    return list(by_promise(Request(product.m, product.n, product.k, product.types, product.chip)))


def by_promise(request: Request) -> Iterator[AnySchedule]:
    """The candidates of all families, in the order of `candidates`, each made when it is asked for."""
    for family in _able(request, False):
        yield from CHOOSERS[family].candidates(request)


def passed_over(
    m: int | None,
    n: int | None,
    k: int | None,
    types: Types,
    chip: str,
    chosen: AnySchedule,
    *,
    any_rows: bool = False,
) -> list[str]:
    """For each family that is preferred to that of the `chosen` schedule, why it has none for the product."""
    request = Request(m, n, k, types, chip)
    better = takewhile(lambda family: not isinstance(chosen, family), reversed(tuple(FAMILIES)))
    return [f"a schedule of {each.instruction} {_refusal(each, request, any_rows)}" for each in better]


def _refusal(family: type[AnySchedule], request: Request, any_rows: bool) -> str:
    """Why the schedule of a product isn't one of this family, to follow its name."""
    types, able = request.types, family.chips(request.types)
    if not able:
        scales = f" with scales of {types.scale}" if types.scale else ""
        return f"has no instruction for {types.a} and {types.b}{scales} and D of {types.d}"
    if request.chip not in able:
        return f"needs {describe(able)}, got {request.chip}"
    if wrong := family.layout_complaint(types):
        return f"can't read the operands: {wrong}"
    if any_rows and not family.takes_any_rows:
        return "needs rows of matrices at multiples of 16 bytes"
    if family not in CHOOSERS:
        return "is used only where the product names one"
    if _chosen_by(family, request) is not None:
        return "was slower when the product was tuned"
    sizes = " x ".join(map(str, request.mnk))
    return f"must be legal for {sizes} and have a model of its time on {request.chip}, got none"


def complaint(types: Types, chip: str, *, any_rows: bool = False) -> str | None:
    """Why no family multiplies these types on a chip; with `any_rows`, none that takes rows anywhere."""
    if wrong := unsupported(types, chip):
        return wrong
    needed = needed_chips(types, any_rows=any_rows)
    if not needed:
        what = "groups" if types.grouped else f"elements of {types.a}"
        if any(chip in family.chips(types) for family in FAMILIES if family.takes_any_result):
            return f"rows of A and B must begin at multiples of 16 bytes with {what}"
        wide = " (rows of D in f32 or i32 at multiples of two elements)"
        return f"rows must begin at multiples of 16 bytes with {what}{wide}"
    if chip not in needed:
        return f"rows must begin at multiples of 16 bytes on {chip}: other rows need {describe(needed)}"
    return None


def layout_complaint(types: Types, chip: str) -> str | None:
    """Why no family that multiplies these types on a chip can read A and B as they are stored."""
    complaints = [family.layout_complaint(types) for family in FAMILIES if chip in family.chips(types)]
    if not complaints or not all(complaints):
        return None
    able = (family.chips(types) for family in FAMILIES if family.layout_complaint(types) is None)
    needed: ChipSet = frozenset().union(*able)
    what = f": it needs {describe(needed)}" if needed else ""
    return f"{complaints[0]} on {chip}{what}"


def family_complaint(request: Request, *, any_rows: bool = False) -> str | None:
    """Why no family with the name that a request has multiplies its product."""
    named = families_named(request.family)
    able = _able(replace(request, family=""), any_rows)
    if not request.family or set(named) & set(able):
        return None
    could = " or ".join(dict.fromkeys(map(family_name, able))) or "left out"
    what = f"family must be {could} for {request.types.a} and {request.types.b} on {request.chip}"
    why = "; ".join(f"{each.instruction} {_refusal(each, request, any_rows)}" for each in named)
    return f"{what}, got {request.family}: {why}"


@lru_cache(maxsize=4096)
def _chosen(
    request: Request, any_rows: bool, files: tuple[Path, ...], families: tuple[type[AnySchedule], ...]
) -> AnySchedule:
    found = _preferred(request, any_rows, files)
    if request.batch_invariant:
        others = _preferred(replace(request, m=None, members=1), any_rows, ())
        whole = next((s for s in others if (order := _order(s, request)) and not order.divided), None)
        if whole is not None:
            order = _order(whole, request)
            return next((s for s in found if _order(s, request) == order), whole)
    elif (chosen := next(found, None)) is not None:
        return _with_room(request, chosen)
    able = [family for family in reversed(families) if request.chip in family.chips(request.types)]
    named = " or ".join(family.instruction for family in able)
    raise WeftError(
        f"has no schedule for {request.chip} that is chosen for {product_text(request.types)} without being "
        f"named: name a schedule of {named}"
    )


def _preferred(request: Request, any_rows: bool, files: tuple[Path, ...]) -> Iterator[AnySchedule]:
    """The schedules for a product, the best first: a tuned one, then the choice of each family; for another
    order of sums, also their candidates.
    """
    tuned = _tuned(request, files)
    if tuned is not None and isinstance(tuned, families_named(request.family)):
        yield tuned
    for family in _able(request, any_rows):
        if (chosen := _chosen_by(family, request)) is not None:
            yield chosen
            yield from CHOOSERS[family].candidates(request) if request.batch_invariant else ()


def _order(schedule: AnySchedule, request: Request) -> Order | None:
    return schedule.order(request.types, request.chip)


def order_complaint(schedule: AnySchedule, m: int, n: int, k: int, types: Types, chip: str) -> str | None:
    """Why a schedule doesn't add products in the order of batch-invariant ones, with the nearest that do.
    None where it's illegal.
    """
    target = Target.of(chip)
    chosen = choose(m, n, k, types, chip, batch_invariant=True)
    order, wanted = schedule.order(types, chip), chosen.order(types, chip)
    if schedule.complaint(types, target) is not None or order == wanted:
        return None
    near = nearest(schedule, lambda s: s.complaint(types, target) is None and s.order(types, chip) == wanted)
    got = ", ".join(order.divided if order else ()) or schedule.instruction
    rule = f"schedule must add products by {chosen.instruction} in the order of K with batch_invariant"
    return f"{rule}, got {got}; nearest legal: {', '.join(near) or chosen}"


def _with_room(request: Request, chosen: AnySchedule) -> AnySchedule:
    """The chosen schedule, or if its threads lack registers for the epilogue, the first candidate of its
    family whose threads have them, if there is one.
    """
    if chosen.has_room(request.registers):
        return chosen
    others = CHOOSERS[type(chosen)].candidates(request)
    return next((each for each in others if each.has_room(request.registers)), chosen)


def _tuned(request: Request, files: tuple[Path, ...]) -> AnySchedule | None:
    return database.tuned(Product(*request.mnk, request.types, request.chip), files)


def _chosen_by(family: type[AnySchedule], request: Request) -> AnySchedule | None:
    """What a family chooses. Raises WeftError where another package's choice isn't a legal schedule of it."""
    name = f"the chooser of schedule '{family.key}'"
    source = extensions.source("schedule", family.key)
    with extensions.blamed(name, source):
        chosen = CHOOSERS[family].choose(request)
    if chosen is None or source is None:  # the operation's verifier names what is wrong with its types
        return chosen
    if not isinstance(chosen, family):
        raise WeftError(f"needs a {family.__name__} or None from {name}; got {shown(chosen)}")
    if refusal := chosen.complaint(request.types, Target.of(request.chip)):
        raise WeftError(f"needs a legal schedule from {name}: {refusal}")
    return chosen


def _able(request: Request, any_rows: bool) -> list[type[AnySchedule]]:
    """The families that multiply a product, the preferred one first."""
    return [
        family
        for family in reversed(families_named(request.family))
        if family in CHOOSERS
        and request.chip in family.chips(request.types)
        and family.layout_complaint(request.types) is None
        and (family.takes_any_rows or not any_rows)
    ]

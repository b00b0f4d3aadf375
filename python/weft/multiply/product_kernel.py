"""The kernel behind a product of arrays: a module of one `tile.matmul`, compiled."""

import functools
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.compiler import kept_kernels
from weft.dialects.operand_roles import FACTORS, TEAM, TEAM_ROLES
from weft.dialects.product_types import HALF, Types, ceil_div
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import kernel, runtime
from weft.launch.arrays import ArrayView
from weft.multiply import compiled_schedules
from weft.multiply.array_views import refuse
from weft.multiply.operands import Operands
from weft.multiply.product import Traced, kind_of
from weft.schedules import tuned_files

if TYPE_CHECKING:
    from weft.dialects.schedule import AnySchedule


_WithCopies = tuple[kernel.Kernel, tuple[int, ...]]


def with_copies(operands: Operands, *, transposes: bool = True) -> _WithCopies:
    """The kernel of a call's product, and the numbers of a and b that it reads K-major copies of, which are
    none without `transposes`. Raises WeftError where there is no kernel.

    What an earlier process chose for arrays like these is on disk: the choice takes 60 ms in each process.
    """
    chip = chip_of(operands)
    views = [(v.dtype, v.shape, v.strides, v.packed, v.address % ROW_BYTES) for v in operands.views]
    types = operands.types, operands.transposed, operands.axes
    reuse = operands.ordinal is not None and compiled_schedules.are_reused()
    # What decides about the kernel, in addition to Weft and files of schedules.
    product = operands.names, views, types, operands.sizes, operands.product
    described, schedules = repr((transposes, *product, chip, reuse)), tuned_files.contents(chip, False)

    def load(entry: bytes) -> _WithCopies | None:
        found = _from_disk(entry[1:], chip)
        return None if found is None else (found, tuple(n for n in range(2) if entry[0] >> n & 1))

    def make() -> _WithCopies:
        numbers = transposed(operands, chip) if transposes else ()
        return of(operands.k_major(numbers), chip, copies=bool(numbers)), numbers

    def entry_of(made: _WithCopies) -> bytes:
        return bytes([sum(1 << number for number in made[1])]) + made[0].compiled.bytecode

    return kept_kernels.found_or_made(
        "product",
        [described, *schedules],
        load=load,
        make=make,
        entry_of=entry_of,
        same=lambda: tuned_files.contents(chip) == schedules,
    )


def of(operands: Operands, chip: str, *, copies: bool = False) -> kernel.Kernel:
    """The kernel of a call's product, compiled once. `copies`: it reads copies of A or B, whose rows are
    aligned. Raises WeftError where there is none.
    """
    from weft.schedules import choice

    if choice.layout_complaint(operands.types, chip):
        operands.refuse_layout()
    return compiled(_asked_of(operands), schedule_of(operands, chip, copies=copies), chip)


def schedule_of(operands: Operands, chip: str, *, copies: bool = False) -> "AnySchedule | None":
    """The schedule of a product's kernel, which reads `copies` of A or B. None where there is no kernel."""
    from weft.schedules import choice, loading

    types = operands.types
    sizes = operands.sizes
    invariant = operands.product.batch_invariant
    schedule = operands.product.schedule
    assert not isinstance(schedule, str)  # as `Product.checked` has it
    if schedule is not None or choice.complaint(types, chip) is not None:
        if schedule is not None and invariant:
            m, _, k = _of_each(operands)
            if wrong := choice.order_complaint(schedule, m, sizes.n, k, types, chip):
                raise refuse(wrong)
        return schedule
    a, b, *_ = operands.views
    m, members, k = _of_each(operands)
    chooser = choice.choose_for_groups if "row_ends" in operands.names else choice.choose
    schedule = chooser(m, sizes.n, k, types, chip, members, batch_invariant=invariant)
    # TMA can't copy some rows. Kernels that read them divide or shift K, so invariant ones read copies.
    if not (copies or invariant) and any(view.row_alignment % ROW_BYTES for view in (a, b)):
        skewed = loading.skewed(schedule, types, chip) if _alike(a, b) else None
        schedule = skewed or loading.schedule(m, sizes.n, k, types, chip, members) or schedule
    # In the emulator, a program's earlier products shouldn't select what it runs.
    if operands.ordinal is not None:
        having = compiled_schedules.of((*_asked_of(operands), chip))
        schedule = choice.compiled_instead(schedule, having, m, sizes.n, k, types, chip, members)
    return schedule


class Asked(NamedTuple):
    """What a kernel is compiled for besides its schedule and chip: `ranks` of A, B and D, the (role, type,
    rank) of each of the `added` arrays (rank 0: one element), `alpha` (1 where it's an array) and `beta` as
    `float.hex` writes them, since -0.0 equals 0.0. In place of the names of a function's extra arrays and
    further results, roles have their axes.
    """

    types: Types
    ranks: tuple[int, int, int] = (2, 2, 2)
    added: tuple[tuple[str, str, int], ...] = ()
    transposed: tuple[bool, bool] = (False, False)
    alpha: str = (1.0).hex()
    beta: str = (0.0).hex()
    promote: bool = False
    activation: str | None = None
    function: Traced | None = None


def _asked_of(operands: Operands) -> Asked:
    (a, b, d, *rest), product = operands.views, operands.product
    assert product.beta is not None  # as `Product.checked` has it
    roles = [f"extra[{operands.axes[n]}" if n in operands.axes else n for n in operands.names[3:]]
    added = tuple((role, v.dtype, _rank(role, v)) for role, v in zip(roles, rest, strict=True))
    ranks = len(a.shape), len(b.shape), len(d.shape)
    options = product.alpha.hex(), product.beta.hex(), product.promote, product.activation, product.traced
    return Asked(operands.types, ranks, added, operands.transposed, *options)


def transposed(operands: Operands, chip: str) -> tuple[int, ...]:
    """The numbers of a and b that are copied to K-major matrices first. None if the call names a schedule."""
    types, sizes = operands.types, operands.sizes
    if operands.product.schedule is not None or not any(types.transposed):
        return ()
    from weft.schedules import transposing

    a, b = operands.views[:2]
    elements = prod(a.shape), prod(b.shape)
    padded = a.row_alignment % ROW_BYTES != 0, b.row_alignment % ROW_BYTES != 0
    m, members, k = _of_each(operands)
    wanted = transposing.transposes(m, sizes.n, k, types, chip, members, elements, padded)
    if operands.product.batch_invariant and transposing.reads_copies(types, chip):
        wanted = types.transposed  # whatever takes less time for this M
    return tuple(number for number, each in enumerate(wanted) if each)


def _of_each(operands: Operands) -> tuple[int, int, int]:
    """M of each product of a batch or of groups, their number, and K of each. Where ends divide M or K, it
    is their mean; that of M is rounded up to three significant bits, so that calls with a few rows more
    or less have the same kernel.
    """
    sizes, k = operands.sizes, operands.sizes.k
    if "row_ends" in operands.names:
        members = sizes.matrices or 1
        mean = ceil_div(sizes.m, members)
        unit = 1 << max(mean.bit_length() - 3, 0)
        return ceil_div(mean, unit) * unit, members, k
    members = sizes.members or 1
    return sizes.m, members, ceil_div(k, members) if operands.types.k_groups else k


def _alike(*views: ArrayView) -> bool:
    """Whether matrices begin at the same distance from a multiple of 16 bytes, and have rows at multiples of
    16 bytes from each other.
    """
    apart = any(replace(view, address=0).row_alignment % ROW_BYTES for view in views)
    return not apart and len({view.address % ROW_BYTES for view in views}) == 1


_EMULATED = ("sm_90a", "sm_100a", "sm_120a")


def chip_of(operands: Operands) -> str:
    """The chip that multiplies a call's arrays. Raises WeftError for an `arch` with arrays on a GPU."""
    arch = operands.product.arch
    return runtime.chip_of(operands.ordinal, arch, "weft.matmul", lambda: emulated_chip(operands.types))


def emulated_chip(types: Types) -> str:
    """The chip that is emulated unless one is named: the first that multiplies elements of these types."""
    from weft.schedules import choice

    able = (chip for chip in _EMULATED if choice.complaint(types, chip) is None)
    return next(able, _EMULATED[0])


def plain(types: Types, schedule: "AnySchedule", chip: str) -> kernel.Kernel:
    """The kernel of `a @ b` without an epilogue, with scales if the types have them. Raises WeftError if
    there is none.
    """
    transposed = types.transposed[0], not types.transposed[1]
    scales = (("scale_a", "f32", 2), ("scale_b", "f32", 2)) if types.scaled else ()
    promote = types.promoted and not types.scaled
    return compiled(Asked(types, (2, 2, 2), scales, transposed, promote=promote), schedule, chip)


@functools.lru_cache(maxsize=1024)
def compiled(asked: Asked, schedule: "AnySchedule | None", chip: str) -> kernel.Kernel:
    """The kernel of a product, compiled once. Raises WeftError, with the caller's line, if there is none."""
    if schedule is None:
        return kernel.compile_shared(_module(asked, schedule), chip)
    made = kept_kernels.found_or_made(  # the module is built only if nobody has compiled it before
        "module",
        [repr((*asked, schedule))],
        load=lambda bytecode: _from_disk(bytecode, chip),
        make=lambda: kernel.compile_shared(_module(asked, schedule), chip),
        entry_of=lambda made: made.compiled.bytecode,
    )
    compiled_schedules.add((*asked, chip), schedule)
    return made


class _NotKeptError(Exception):
    """A kernel isn't on disk."""


def _from_disk(bytecode: bytes, chip: str) -> kernel.Kernel | None:
    """The kernel of a module that was compiled before, if it is on disk: one for all that have it."""
    try:
        return _loaded(bytecode, chip)
    except _NotKeptError:  # which isn't remembered, since it may be compiled later
        return None


@functools.lru_cache(maxsize=1024)
def _loaded(bytecode: bytes, chip: str) -> kernel.Kernel:
    if (made := kernel.compiled_before(bytecode, chip)) is None:
        raise _NotKeptError
    return made


def _module(asked: Asked, schedule: "AnySchedule | None") -> Any:
    from weft.construction.module import Module, memref
    from weft.dialects import tile

    types, ranks, added, transposed, alpha, beta, promote, activation, function = asked
    with Module() as module:
        kinds = [*zip((types.a, types.b, types.d), ranks, strict=True), *((t, rank) for _, t, rank in added)]
        matrices = [memref("x".join("?" * rank) or "1", t, strides=_strides(rank)) for t, rank in kinds]
        with module.func("matmul", matrices) as (a, b, d, *rest):
            named = [(role, value) for (role, *_), value in zip(added, rest, strict=True)]
            roles = {role: value for role, value in named if kind_of(role) == role}
            epilogue = None
            if function is not None:
                from weft.multiply import element_functions

                epilogue = element_functions.epilogue(function, named)
            factor = roles.pop("alpha", float.fromhex(alpha))
            if TEAM in roles:
                of_team = {role: roles.pop(role) for role in TEAM_ROLES if role in roles}
                roles[TEAM] = tile.team(of_team.pop(TEAM), **of_team)
            tile.matmul(
                a,
                b,
                d,
                **roles,
                activation=activation,
                epilogue=epilogue,
                transpose_a=transposed[0],
                transpose_b=transposed[1],
                alpha=factor,
                beta=float.fromhex(beta),
                promote=promote,
                accumulate=HALF if types.half_sums else None,
                bit_op=types.bit_op or None,
                scale_block=types.words,
                scale_columns=types.scale_columns,
                schedule=schedule,
            )
    return module


def _rank(role: str, view: ArrayView) -> int:
    """The rank of an array; 0 for one number for all elements."""
    return 0 if role in ("alpha", "extra[", *FACTORS) and view.shape == (1,) else len(view.shape)


def _strides(rank: int) -> tuple[int | str, ...] | None:
    """The strides of a matrix or batch with rows at any distance; None for a vector or one element."""
    return None if rank < 2 else (*["?"] * (rank - 1), 1)

"""The checks of the operands and attributes of `tile.matmul`."""

from ctypes import c_float
from dataclasses import replace
from math import isfinite

from weft.dialects.activations import ACTIVATIONS, GATES, activation_complaint
from weft.dialects.element_types import FP8_TYPES, PTX_INPUTS, PTX_SCALES, may_be_mixed
from weft.dialects.op import Within
from weft.dialects.operand_roles import (
    EPILOGUE,
    FACTORS,
    GATED_COLUMNS,
    GROUPINGS,
    ROLES,
    TEAM,
    WORD,
    element_types,
    extents,
    title,
)
from weft.dialects.product_types import Types, accumulate_complaint, bit_op_complaint, ceil_div
from weft.dialects.schedule import (
    AnySchedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    WarpgroupSchedule,
    schedule_of,
)
from weft.dialects.schedule.nearest import refusal
from weft.dialects.tile_epilogue import EpilogueOp, StoreElementOp
from weft.dialects.tile_team import TeamOp
from weft.dialects.tile_types import matrix_complaint
from weft.errors import WeftError
from weft.isa.block_scales import WORD_BLOCKS, elements_with
from weft.isa.chips import describe
from weft.isa.conversion import FP8_ROUNDING
from weft.mlir import ir, shape_of
from weft.target import Target

_MADE = {EPILOGUE: EpilogueOp, TEAM: TeamOp}
"""The operations that return operands which are no memrefs, by their names."""


def role_complaint(given: dict[str, ir.Value]) -> str | None:
    """Why an operand after D isn't what its name needs."""
    for name, value in given.items():
        if (made := _MADE.get(name)) is None:
            if wrong := matrix_complaint(title(name), value, element_types(name), *ROLES[name].ranks):
                return wrong
        elif isinstance(value.owner, ir.Block) or not isinstance(value.owner.opview, made):
            return f"expects {name} to be the result of a {made.OPERATION_NAME}, got {value.type}"
    return None


def type_complaint(op: ir.OpView) -> str | None:
    """Why the element types are illegal, or what only some of them have."""
    types = op.types
    if not may_be_mixed(types.a, types.b):
        return f"expects A and B of one element type, got {op.a.type} and {op.b.type}"
    rest = [op.d, *(value for role, value in op.roles.items() if ROLES[role].is_added)]
    if wrong := _scale_complaint(op, types) or conversion_complaint(op, op.target):
        return wrong
    for only, inputs in (("i32", "integers"), ("f64", "f64")):
        if len({types.sums == only, *(str(value.type.element_type) == only for value in rest)}) > 1:
            got = f"{op.a.type}, {' and '.join(str(value.type) for value in rest)}"
            which = f"{only} if and only if A and B are {inputs}"
            return f"expects D and what is added to it to be {which}, got {got}"
    return None


def short_form_complaint(op: ir.OpView) -> str | None:
    """Why operands and attributes aren't legal short forms for these sums."""
    types, given = op.types, op.given
    alpha, beta, activation = (op.attribute(name) for name in ("alpha", "beta", "activation"))
    doubles, integers = is_f64(op.d), types.sums == "i32"
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isfinite(value if doubles else c_float(value).value):
            return f"{name} must be finite in {'f64' if doubles else 'f32'}, got {value}"
    if types.sums != "f32" and "alpha" in given:
        legal = "1 where A and B are integers" if integers else "a number where A and B are f64"
        return f"expects alpha {legal}, got an operand 'alpha' and A of {op.a.type}"
    if integers and (alpha != 1.0 or beta not in (0.0, 1.0)):
        return f"expects alpha 1 and beta 0 or 1 where A and B are integers, got {alpha} and {beta}"
    if factors := [name for name in FACTORS if name in given]:
        if types.sums != "f32":
            return f"expects no {factors[0]} where sums are {types.sums}, got A of {op.a.type}"
        if op.grouping:
            return f"expects no {factors[0]} with {op.grouping}: use alpha, with a factor for each product"
    if op.function is not None:
        others = [name for name in ("bias", "residual") if name in given]
        if others := [*others, *(["activation"] if activation is not None else [])]:
            return f"expects no {others[0]} with an epilogue: compute it there"
    if wrong := activation_complaint(activation, types.sums, (*ACTIVATIONS, *GATES)):
        return wrong
    if op.gate and (op.changes_sums or "partials" in given):
        return f"expects nothing that is added or multiplied with {activation}"
    return None


def conversion_complaint(op: ir.OpView, target: Target | None) -> str | None:
    """Why the target can't convert elements of C, or of what the epilogue loads or stores."""
    loaded = (*([] if op.added is None else [op.added]), *(load.source for load in op.needs.loads))
    stored = (store.destination for store in op.needs.stores)
    for verb, value in (*(("load", each) for each in loaded), *(("store", each) for each in stored)):
        element = str(value.type.element_type)
        if element in FP8_TYPES and target is not None and target.chip.name not in FP8_ROUNDING:
            needed = f"needs {describe(FP8_ROUNDING)} to {verb} {element} in its epilogue"
            return f"{needed}, got {target}: use f16"
    return None


def epilogue_complaint(op: ir.OpView) -> str | None:
    """Why the sums can't be what the function of the epilogue takes, or it can't load what it does."""
    if op.function is None:
        return None
    if (kind := str(op.function.sum.type)) != op.types.sums:
        return f"expects an epilogue of sums of {op.types.sums}, got one of {kind}"
    needs = op.needs
    for load in needs.loads:
        if load.source == op.d and (load.axes != "MN" or load.is_of_each != (op.d.type.rank == 3)):
            return "expects an epilogue that loads from D the element which it computes"
    used = [op.a, op.b, op.d, *op.roles.values(), *(load.source for load in needs.loads)]
    for store in needs.stores:
        if wrong := _store_complaint(op, store, used):
            return Within(f"expects {wrong}", store)
        used.append(store.destination)
    return None


def _store_complaint(op: ir.OpView, store: StoreElementOp, used: list[ir.Value]) -> str | None:
    """Why a product can't have a further result, to follow "expects"; its operands are `used` otherwise."""
    destination, rank = store.destination, op.d.type.rank - (store.reduced is not None)
    if op.role(TEAM) is not None:
        return "no tile.store_element with a team: store from a tile.matmul of its own"
    if store.reduced is not None and op.grouping is not None:
        return f"no reduction by tile.store_element with {op.grouping}: store each element, and reduce those"
    if destination.type.rank != rank:
        return f"a destination of rank {rank} where D is of {op.d.type}, got {destination.type}"
    if destination in used:
        return f"a destination that nothing else of the product uses, got {destination.type} again"
    return None


def _scale_complaint(op: ir.OpView, types: Types) -> str | None:
    """Why there are no products with these scales, or with promoted sums."""
    scale_a, scale_b = op.role("scale_a"), op.role("scale_b")
    if wrong := accumulate_complaint(op.attribute("accumulate"), types):
        return wrong
    if wrong := bit_op_complaint(op.attribute("bit_op"), types):
        return wrong
    if types.promoted and not {types.a, types.b} <= set(FP8_TYPES):
        what = "there are scales of f32" if types.scaled else "promote is true"
        got = op.a.type if types.a not in FP8_TYPES else op.b.type
        return f"expects A and B of fp8 where {what}, got {got}"
    if (scale_a is None) != (scale_b is None):
        only = "scale_b" if scale_a is None else "scale_a"
        return f"expects scale_a and scale_b together, got only {only}"
    if wrong := _block_complaint(op, types):
        return wrong
    if types.scale_columns and not types.scaled:
        got = "none" if scale_b is None else str(scale_b.type)
        return f"scale_columns must be false unless scales are of f32, got scale_b of {got}"
    if not types.scale:
        return None
    elements = [str(value.type.element_type) for value in (scale_a, scale_b) if value is not None]
    if elements[0] != elements[1]:
        return f"expects scale_a and scale_b of one element type, got {' and '.join(elements)}"
    if types.promoted:
        return "promote must be false with block scales, whose products are added in f32"
    if types.block_scaling is None:
        of_type = elements_with(PTX_SCALES[types.scale])
        legal = " or ".join(name for name, ptx in PTX_INPUTS.items() if ptx in of_type)
        others = (s for s in PTX_SCALES if replace(types, scale=s).block_scaling is not None)
        near = "".join(f": these have scales of {scale}" for scale in others)
        return f"expects A and B of {legal} with scales of {types.scale}, got {types.a} and {types.b}{near}"
    return None


def _block_complaint(op: ir.OpView, types: Types) -> str | None:
    """Why so many elements can't share a scale."""
    block, scales = op.attribute("scale_block"), (op.role("scale_a"), op.role("scale_b"))
    kinds = [str(scale.type.element_type) for scale in scales if scale is not None]
    if WORD not in kinds:
        got = f"{kinds[0]}" if kinds else "none"
        return f"scale_block must be 0 unless scales are of i32, got {block} with {got}" if block else None
    if block not in WORD_BLOCKS:
        return f"scale_block must be {' or '.join(map(str, WORD_BLOCKS))} with scales of i32, got {block}"
    scaling = types.block_scaling
    if scaling is not None and scaling.packed and block > scaling.group:
        got = f"{types.a} and {types.b}"
        return f"scale_block must be {scaling.group} for A and B of {got}, got {block}"
    return None


def batch_complaint(op: ir.OpView) -> str | None:
    """Why batches and groups are illegal."""
    roles = ((title(role), value) for role, value in op.roles.items())
    named = [("A", op.a), ("B", op.b), ("D", op.d), *roles]  # as messages name them
    batches = [(name, v) for name, v in named if v.type.rank == 3]
    if wrong := _grouped_complaint(op, [name for name, _ in batches]):
        return wrong
    if not batches or op.selects_b:
        return None
    if op.d.type.rank != 3 and not op.is_scattered:
        return f"expects D of rank 3, because {batches[0][0]} is a batch, got {op.d.type}"
    known = {
        name: v.type.shape[0]
        for name, v in batches
        if not v.type.is_dynamic_dim(0) and "gathered" not in name  # these may have two halves
    }
    if len(set(known.values())) > 1:
        sizes = " and ".join(f"{count} in {name}" for name, count in known.items())
        return f"expects batches of one size, got {sizes}"
    return None


def team_complaint(op: ir.OpView) -> str | None:
    """Why the GPUs of a team can't exchange these operands."""
    if op.role(TEAM) is None:
        return None
    if (gathered := op.role("gathered")) is None:
        return _scattered_complaint(op)
    if (op.role("gathered_scales") is not None) != op.types.scaled:
        return "expects gathered_scales if and only if there are scales of f32"
    if (str(gathered.type.element_type), gathered.type.rank) != (str(op.a.type.element_type), 3):
        return f"expects gathered to be a batch of matrices like A, of {op.a.type}, got {gathered.type}"
    if (op.a.type.rank, op.d.type.rank) != (2, 3):
        return f"expects A of rank 2 and D of rank 3 with gathered, got {op.a.type} and {op.d.type}"
    if op.attribute("transpose_a"):
        return "transpose_a must be false with gathered, got true"
    if op.grouping is not None:
        return f"expects no {op.grouping} with gathered"
    if op.is_sending and (op.types.scaled or op.a.type.element_type.width != 16):
        return f"expects A of 16 bits without scales with gathered and peers, got {op.a.type}"
    return None


def _scattered_complaint(op: ir.OpView) -> str | None:
    """Why sums can't be added up over several GPUs."""
    if op.a.type.rank not in (2, 3) or (op.b.type.rank, op.d.type.rank) != (2, 2):
        kinds = f"{op.a.type}, {op.b.type} and {op.d.type}"
        return f"expects A of rank 2 or 3, and B and D of rank 2, with partials, got {kinds}"
    if op.types.sums != "f32":
        return f"expects sums of f32 with partials, got A of {op.a.type}"
    if op.role("bands") is not None and op.a.type.rank != 3:
        return f"expects A of rank 3 with bands, got {op.a.type}"
    return None if op.grouping is None else f"expects no {op.grouping} with partials"


def _grouped_complaint(op: ir.OpView, batches: list[str]) -> str | None:
    """Why the ranks are illegal, where products have different sizes."""
    grouping, rank_3 = op.grouping, " and ".join(batches) or "none"
    if len(given := [name for name in GROUPINGS if op.role(name) is not None]) > 1:
        return f"expects at most one of {', '.join(GROUPINGS)}, got {' and '.join(given)}"
    if grouping == "k_ends":
        if "D" not in batches or {"A", "B", "scale_a", "scale_b"} & set(batches):
            legal = "D of rank 3, but A, B and their scales of rank 2, where k_ends divide K"
            return f"expects {legal}, got {rank_3} of rank 3"
        return "k_ends must not come with block scales of groups along K" if op.types.scale else None
    if grouping != "row_ends" and not op.selects_b:
        return None
    wanted = ["B", *(["scale_b"] if op.role("scale_b") is not None else [])]
    if batches != wanted:
        return f"expects exactly {' and '.join(wanted)} of rank 3 where {grouping} select a B, got {rank_3}"
    return None


def shape_complaint(op: ir.OpView) -> str | None:
    """Which sizes of operands differ, or are no multiple of what the types need."""
    (m, k), (k_b, n), (m_d, n_d) = op.sizes("a"), op.sizes("b"), dims(op.d)
    if op.gate is not None:
        if n and n_d and n != 2 * n_d:
            name = op.attribute("activation")
            return f"expects B to have twice the columns of D with {name}, got {n} and {n_d}"
        n = n_d
    pairs = [("M", "A", m, "D", m_d), ("N", "B", n, "D", n_d), ("K", "A", k, "B", k_b)]
    for dim, x, x_size, y, y_size in pairs:
        if x_size and y_size and x_size != y_size:
            sizes = f"{dim} is {x_size} in {x} and {y_size} in {y}"
            return f"expects A ({_written_a(op)}), B ({_written_b(op)}) and D (M x N) to agree: {sizes}"
    if (k or k_b) and (depth := k or k_b or 0) % (unit := op.types.multiple_of_k):
        kinds = f"{op.types.a} and {op.types.b}"
        return f"K must be a multiple of {unit} for A and B of {kinds}, got {depth}"
    for name, size, unit in zip("MN", (m or m_d, n or n_d), op.types.multiples_of_mn, strict=True):
        if size and size % unit:
            what = f"{name} must be a multiple of {unit} for an MN-major operand of {op.types.a}"
            return f"{what}, which is packed along {name}, got {size}"
    return _role_shape_complaint(op, m_d, n_d, k or k_b)


def _role_shape_complaint(op: ir.OpView, m: int | None, n: int | None, k: int | None) -> str | None:
    """Why a size of an operand after D isn't that of D, or that of A for sizes that follow from K."""
    batched = op.d.type.rank == 3
    of_groups = "batch" if batched else "M"  # groups are of rows of D, or of a batch's products
    products = 1 if op.batch is None else shape_of(op.batch.type)[0]
    groups = shape_of(op.d.type)[0]
    columns = op.columns_of_b
    wanted = extents(m, n, k, groups, lambda size, block: size and ceil_div(size, block), products, columns)
    shapes = {
        "A": _written_a(op),
        "B": f"batch x {_written_b(op)}",
        "D": "batch x M x N" if batched else "M x N",
    }
    for this, value, sizes in op.read:
        named = {"groups": of_groups, "products": "batch"}
        names = [named.get(size, size) for size in sizes]
        if this == "alpha":
            (size,) = shape_of(value.type)  # an element for each product, or one for all
            if size not in (None, 1) and products not in (None, size):
                legal = "1 element" if products == 1 else f"1 element or {products}, one for each product"
                return f"expects alpha of {legal}, got {value.type}"
            continue
        for key, name, actual in zip(sizes, names, shape_of(value.type)[-len(sizes) :], strict=False):
            if wanted[key] and actual and wanted[key] != actual:
                of_b = key == "products" and op.selects_b
                other = "A" if "K" in key else "B" if of_b else "D"
                return (
                    f"expects {other} ({shapes[other]}) and {this} ({' x '.join(names)}) to agree: "
                    f"{name} is {wanted[key]} in {other} and {actual} in {this}"
                )
    return None


def _written_a(op: ir.OpView) -> str:
    """The sizes of A in messages."""
    return "K x M" if op.attribute("transpose_a") else "M x K"


def _written_b(op: ir.OpView) -> str:
    """The sizes of one B in messages."""
    return "N x K" if op.attribute("transpose_b") else "K x N"


def schedule_complaint(op: ir.OpView) -> str | None:
    """Why kernels of the schedule can't compute this product."""
    attribute = op.attribute("schedule")
    if attribute is None:
        return None
    try:
        schedule = schedule_of(attribute)
    except WeftError as error:
        return error.diagnostics[0].message
    if wrong := refusal(schedule, op.types, op.target) or _team_schedule_complaint(op, schedule):
        return wrong
    if op.gate is None:
        return None
    plain = isinstance(schedule, WarpgroupSchedule) and schedule.splits == schedule.global_splits == 1
    if plain and not (schedule.swap or schedule.stream_k) and schedule.block[1] % GATED_COLUMNS == 0:
        return None
    return (
        f"schedule must be one of wgmma without swap and splits, and with columns in multiples of "
        f"{GATED_COLUMNS}, with {op.attribute('activation')}, got {schedule}"
    )


def _team_schedule_complaint(op: ir.OpView, schedule: AnySchedule) -> str | None:
    """Why kernels of this schedule can't work with those of other GPUs."""
    if op.role("team") is None:
        return None
    if op.is_scattered or op.is_all_reduced or op.is_sending:
        able = isinstance(schedule, WarpgroupSchedule) and schedule.splits == schedule.global_splits == 1
        able = able and not (schedule.stream_k or schedule.alternating)
        if able and not (op.is_sending and schedule.loaders):
            return None
        return f"schedule must be one of wgmma without splits with peers, got {schedule}"
    copies = isinstance(schedule, WarpgroupSchedule | TensorMemorySchedule | TmaMmaSchedule)
    other = schedule.loaders or schedule.skewed or schedule.joined or schedule.alternating
    if copies and not other:
        return None
    return f"schedule must copy A by TMA (wgmma, tcgen05) with a team, got {schedule}"


def is_f64(matrix: ir.Value) -> bool:
    """Whether a value is a memref of f64."""
    return isinstance(matrix.type, ir.MemRefType) and isinstance(matrix.type.element_type, ir.F64Type)


def dims(value: ir.Value) -> tuple[int | None, ...]:
    """The sizes of the last two dimensions."""
    return shape_of(value.type)[-2:]

"""`w.ring`: checks the arguments of rings."""

from weft.errors import shown
from weft.isa.async_copy import CP_ASYNC
from weft.isa.chips import describe
from weft.isa.suggest import did_you_mean
from weft.isa.tensor_map import SWIZZLED_ROWS
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations import clusters
from weft.language.values.block_scales import ScaleKind, check_chip
from weft.language.values.dtypes import COPIED, e8m0
from weft.language.values.rings import Kind, Ring
from weft.language.values.stages import Slot
from weft.language.values.tensor_rings import TensorRing

_TAKEN_NAMES = ("ring", "stage", "where", "held", "taken")  # of a stage's own attributes


def ring(
    stages: int,
    *,
    takers: int = 1,
    shared: object = None,
    over: Ring | None = None,
    memory: str = "shared",
    **buffers: Kind,
) -> Ring:
    """A ring of stages, each with buffers of these names: `w.ring(4, a=(rows, columns, w.bf16))`.

    `takers` warpgroups take, and release, each stage. Make it before the first role.

    In a kernel with clusters, `shared={"b": 0}` states that the CTAs of a cluster along axis 0 of the grid
    fill `b` from the same elements. Each of them then copies a part of the rows to all of them. These CTAs
    must fill and take the same number of stages.

    `over=other` makes a ring in the memory of another one, which has as many stages and takers and buffers
    of the same sizes. A role takes stages of the other ring, and changes them in place: `write(block)`.

    `memory="tensor"` makes a ring in tensor memory. Its stages are written by the products that one thread
    starts, or by warpgroups for the products of one thread: see `TensorRing`.
    """
    current = trace.current()
    current.check_before_roles("a ring")
    if current.chip not in CP_ASYNC.chips():
        needed = describe(CP_ASYNC.chips())
        raise mistake(f"a ring needs {needed}, got {current.chip}: load tiles by w.load there")
    for name, value in (("stages", stages), ("takers", takers)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise mistake(f"{name} of a ring must be a positive number that Python knows, got {shown(value)}")
    if memory not in ("shared", "tensor"):
        raise mistake(f"memory of a ring must be 'shared' or 'tensor', got {shown(memory)}")
    kind = TensorRing if memory == "tensor" else Ring
    if not buffers and kind is Ring:
        raise mistake("a ring needs at least one buffer: w.ring(4, a=(rows, columns, w.bf16))")
    for name, each in buffers.items():
        if not isinstance(each, tuple) or len(each) != 3:
            raise mistake(f"'{name}' must be (rows, columns, type), got {shown(each)}")
        if each[2] == e8m0 and not isinstance(each, ScaleKind):
            raise mistake(f"'{name}' must be w.block_scales(rows, depth, {e8m0}), got {each}")
        if each[2] in COPIED:
            check_chip(f"elements of {each[2]}")
        if hasattr(Slot, name) or name in _TAKEN_NAMES or name.startswith("_"):
            raise mistake(f"a buffer can't be called '{name}', which stages have already")
    _check_over(over, kind, stages, takers, buffers, shared)
    ring_ = kind(stages, takers, buffers, _sharing(shared, buffers), over)
    current.rings.append(ring_)
    return ring_


def _check_over(
    over: Ring | None, kind: type[Ring], stages: int, takers: int, buffers: dict[str, Kind], shared: object
) -> None:
    """Raises WeftError for a ring in whose memory another one can't be."""
    if over is None:
        return
    if not isinstance(over, Ring) or over.over is not None:
        raise mistake(f"over must be a ring with its own memory, got {shown(over)}")
    if type(over) is not kind:
        raise mistake(f"a ring and ring '{over.name}', over which it is, must have the same memory=")
    if shared:
        raise mistake("a ring over another one isn't filled by copies: shared is for the other ring")
    sizes, others = (
        [rows * columns * dtype.bits for rows, columns, dtype in each.values()]
        for each in (buffers, over.kinds)
    )
    fits = all(map(int.__le__, sizes, others)) if kind is TensorRing else sizes == others
    if (stages, takers) != (over.stages, over.takers) or len(sizes) != len(others) or not fits:
        raise mistake(
            f"a ring over ring '{over.name}' must have its {over.stages} stages, {over.takers} takers, and "
            f"buffers of {', '.join(str(bits // 8) for bits in others)} bytes, got {stages}, {takers} and "
            f"{', '.join(str(bits // 8) for bits in sizes)}"
        )


def _sharing(shared: object, buffers: dict[str, Kind]) -> dict[str, int]:
    """The buffers that CTAs copy for each other, each with the axis along which these are in the cluster."""
    if shared is not None and not isinstance(shared, dict):
        raise mistake(f'shared must be a dictionary such as {{"b": 0}}, got {shown(shared)}')
    if shared and trace.current().cluster is None:
        raise mistake("only CTAs of a cluster can share copies: write @w.kernel(cluster=2, …)")
    result = dict[str, int]()
    for name, axis in (shared or {}).items():
        if name not in buffers:
            meant = did_you_mean(name, buffers)
            raise mistake(f"shared must name buffers of the ring, {', '.join(buffers)}, got '{name}'{meant}")
        if axis not in (0, 1, 2) or isinstance(axis, bool):
            raise mistake(f"an axis of shared must be 0, 1 or 2, got {shown(axis)}")
        count, rows = clusters.size(axis), buffers[name][0]
        if rows % (least := count * SWIZZLED_ROWS):
            raise mistake(
                f"'{name}' must have a multiple of {least} rows to be shared by {count} CTAs, got {rows}"
            )
        if count > 1:
            result[name] = axis
    return result

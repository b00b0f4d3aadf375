"""The operands of calls other than A and B, by role."""

from collections.abc import Mapping

from weft.distributed.devices import Array
from weft.errors import WeftError, shown
from weft.launch import arrays
from weft.multiply.matmul import Epilogue
from weft.multiply.product import checked_pair

Scales = tuple[Array, Array]
SCALES = ("scale_a", "scale_b")
_ELEMENTS = ("f32", "f16", "bf16")  # of a bias and a residual


def added_to(epilogue: Epilogue | None, scales: Scales | None = None) -> dict[str, Array]:
    """The scales, and what an epilogue reads, by role."""
    added = {}
    if not isinstance(epilogue, Epilogue | None):
        raise WeftError(f"weft.distributed: epilogue must be a weft.Epilogue or None, got {shown(epilogue)}")
    if scales is not None:
        added = dict(zip(SCALES, checked_pair("weft.distributed", scales), strict=True))
    if epilogue is not None:
        by_role = {"bias": epilogue.bias, "residual": epilogue.residual}
        added |= {role: array for role, array in by_role.items() if array is not None}
    return added


def check_added(name: str, added: Mapping[str, Array], shape: tuple[int, int]) -> None:
    """Raises WeftError for a bias or a residual that doesn't fit a result of this shape."""
    rows, columns = shape
    for role, array in added.items():
        if role in SCALES:
            continue
        view = arrays.view(array)
        if view.dtype not in _ELEMENTS:
            wanted = f"{', '.join(_ELEMENTS[:-1])} or {_ELEMENTS[-1]}"
            raise WeftError(f"{name}: {role} must be of {wanted}, got {view.dtype}")
        if role == "bias" and view.shape != (columns,):
            raise WeftError(
                f"{name}: bias must have {columns} elements, one for each column, got shape {view.shape}"
            )
        if role == "residual" and view.shape != shape:
            raise WeftError(
                f"{name}: residual must be {rows} x {columns}, the shape of this rank's result, "
                f"got shape {view.shape}"
            )
        if view.shape[-1] > 1 and view.strides[-1] != 1:
            raise WeftError(f"{name}: rows of {role} must be contiguous, got strides {view.strides}")

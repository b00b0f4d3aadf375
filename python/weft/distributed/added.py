"""What calls read beside A and B, by role."""

from typing import Any

from weft.errors import WeftError
from weft.multiply.matmul import Epilogue

SCALES = ("scale_a", "scale_b")


def added_to(epilogue: Epilogue | None, scales: Any = None) -> dict[str, Any]:
    """The scales, and what an epilogue reads, by role."""
    added = {}
    if scales is not None:
        if not (isinstance(scales, list | tuple) and len(scales) == 2):
            raise WeftError("weft.distributed: scales must be a pair, of a and of b")
        added = dict(zip(SCALES, scales, strict=True))
    if epilogue is not None:
        given = {"bias": epilogue.bias, "residual": epilogue.residual}
        added |= {role: array for role, array in given.items() if array is not None}
    return added

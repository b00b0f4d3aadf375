"""What calls read beside A and B, by role."""

from typing import Any

from weft.multiply.matmul import Epilogue
from weft.multiply.options import checked_pair

SCALES = ("scale_a", "scale_b")


def added_to(epilogue: Epilogue | None, scales: Any = None) -> dict[str, Any]:
    """The scales, and what an epilogue reads, by role."""
    added = {}
    if scales is not None:
        added = dict(zip(SCALES, checked_pair("weft.distributed", scales), strict=True))
    if epilogue is not None:
        given = {"bias": epilogue.bias, "residual": epilogue.residual}
        added |= {role: array for role, array in given.items() if array is not None}
    return added

"""The options and the result of `weft.quantize`."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.launch import arrays

LARGEST = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}
"""The largest finite number of each type of fp8."""
SCALES = ("tensor", "row", "column", "group", "block")
"""What shares a scale."""
GRADIENTS = (
    "x must not require gradients, which weft.quantize doesn't compute: call it under torch.no_grad(), or "
    "pass x.detach()"
)


def refuse(message: str) -> WeftError:
    """The error of a call with a mistake."""
    return WeftError(f"weft.quantize: {message}")


class Quantized(NamedTuple):
    """A matrix in fp8 and its scales: element i, j is `values[i, j]` times its scale."""

    values: Any
    """The matrix, M x K with contiguous rows; None without `values`."""
    scales: Any
    """f32: [1], M x 1, 1 x K, M x ceil(K / 128) with contiguous columns, or ceil(M / 128) x ceil(K / 128)."""
    transposed: Any
    """The transposed matrix, K x M with contiguous rows; None without `transposed`."""
    transposed_scales: Any
    """Its scales: those of groups are K x ceil(M / 128), others the transpose of `scales`."""


@dataclass(frozen=True)
class Options:
    """Those of a call, by the names of its parameters."""

    dtype: Any = "f8E4M3FN"
    scales: str = "tensor"
    values: bool = True
    transposed: bool = False
    powers_of_two: bool = False
    arch: str | None = None

    def checked(self) -> "Options":
        """The same with MLIR's name of the type. Raises WeftError for options of other types or values."""
        dtype = arrays.type_name(self.dtype) or self.dtype
        for name, given, legal in (("dtype", dtype, tuple(LARGEST)), ("scales", self.scales, SCALES)):
            if not (isinstance(given, str) and given in legal):
                hint = did_you_mean(given, legal) if isinstance(given, str) else ""
                raise refuse(f"{name} must be one of {', '.join(legal)}, got {shown(given)}{hint}")
        for name in ("values", "transposed", "powers_of_two"):
            if not isinstance(given := getattr(self, name), bool):
                raise refuse(f"{name} must be True or False, got {shown(given)}")
        if not (self.values or self.transposed):
            raise refuse("values or transposed must be True, got False for both")
        if self.arch is not None and not isinstance(self.arch, str):
            raise refuse(f"arch must be the name of a chip, such as 'sm_90a', got {shown(self.arch)}")
        return self if dtype is self.dtype else replace(self, dtype=dtype)

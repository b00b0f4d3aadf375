"""Runs products on a GPU or in the emulator, and describes what is wrong with their results."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from products import Case, Placed, Product, Wanted

import weft
from weft.errors import WeftError
from weft.launch import runtime
from weft.launch.arrays import PACKED_BITS, mlir_type


def run(kernel: weft.Kernel, operands: dict[str, Placed], on: str) -> None:
    """Launches a kernel on "gpu" or in the "emulator"; what it writes is in the operands' memory then. Raises
    WeftError for what the emulator's sanitizer finds.
    """
    if on == "emulator":
        findings = kernel.emulate(*(placed.values for placed in operands.values())).findings
        if findings:
            raise WeftError(f"{findings[0].rule}: {findings[0]}")
        return
    if any(mlir_type(placed.dtype) in PACKED_BITS for placed in operands.values()):
        kernel(*(placed.values for placed in operands.values()), on="gpu")  # which packs them
        return
    held = [runtime.DeviceArray.from_numpy(placed.memory) for placed in operands.values()]
    views = [placed.view(memory) for placed, memory in zip(operands.values(), held, strict=True)]
    kernel(*views, on="gpu")
    for placed, memory in zip(operands.values(), held, strict=True):
        placed.memory[:] = memory.to_numpy()


def complaint(product: Product, case: Case, kernel: weft.Kernel, on: str) -> str | None:
    """What is wrong with what a kernel makes of a case."""
    operands = product.operands(case)
    wanted = product.wanted(case, operands)
    try:
        run(kernel, operands, on)
    except WeftError as error:
        return f"{product}: {case}: {error}"
    found = _wrong(product, operands, wanted)
    return f"{product}: {case}: {found}" if found else None


def _wrong(product: Product, operands: dict[str, Placed], wanted: Wanted) -> str | None:
    for role, placed in operands.items():
        if count := placed.touched_around():
            return f"{count} bytes around {role} were written"
        if role != "d" and not placed.same().all():
            return f"{role} was written"
    d = operands["d"]
    if not d.same()[wanted.alone].all():
        return "rows without a product were written"
    got = d.values.astype(np.float64)
    if product.poisons_d and np.isnan(got[d.same() & wanted.written]).any():
        return f"{int((d.same() & wanted.written).sum())} elements of D weren't written"
    right = _right(got, wanted, d.dtype) | ~wanted.written
    if right.all():
        return None
    at = np.unravel_index(int(right.argmin()), right.shape)
    bound = "exactly" if wanted.exact else f"within {wanted.bound[at]:.3g}"
    return (
        f"{int((~right).sum())} of {right.size} elements are wrong, the first at {[int(i) for i in at]}: "
        f"{got[at]!r}, not {wanted.values[at]!r} {bound}"
    )


def _right(got: Any, wanted: Wanted, dtype: Any) -> Any:
    """Which elements of D are what they must be. What may be beyond the range may be infinite, and what must
    be beyond it must.
    """
    values = wanted.values
    with np.errstate(invalid="ignore", over="ignore"):
        if wanted.exact:
            values = values.astype(dtype).astype(np.float64)
            near = got == values
        else:
            near = np.abs(got - values) <= wanted.bound
            largest = _largest(dtype)
            beyond = np.abs(values) + wanted.bound > largest
            near |= np.isinf(got) & beyond & (np.sign(got) == np.sign(values))
    return np.where(np.isnan(values), np.isnan(got), np.where(np.isinf(values), got == values, near))


def _largest(dtype: Any) -> float:
    """The largest number of a type of D; infinity for integers and fp8, which never become infinite."""
    if np.issubdtype(dtype, np.integer) or np.dtype(dtype).itemsize == 1:
        return np.inf
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def examined(product: Product, cases: Sequence[Case], on: str) -> list[str]:
    """What is wrong with any of some cases, which one kernel multiplies."""
    kernel = product.compiled()
    found = (complaint(product, case, kernel, on) for case in cases)
    return [each for each in found if each is not None]

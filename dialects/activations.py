"""The activations of products: their functions in float64, and bounds on the errors of their kernels, which
`weft.passes.kernels.activations` has.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.errors import shown
from weft.isa.family import choice
from weft.isa.suggest import did_you_mean

Doubles = npt.NDArray[np.float64]

UNIT = 2.0**-24
"""Half an ulp of f32, relative."""


@dataclass(frozen=True)
class Activation:
    """A function in float64, and a bound on the error of its f32 implementation.

    `slope` is the largest slope, rounded up to cover second-order errors. `own(x, y)` is the error of the
    implementation at x, where the function is y. Let u = 2**-24. The relative errors of `ex2.approx.ftz` and
    `rcp.approx.ftz` are at most 4 u (2 ulp) and 2 u (1 ulp).

    - x / (1 + 2**t): t has a relative error of a few u (two roundings for silu, five for gelu_tanh), so 2**t
      has that error times its natural logarithm w, plus 4 u. The sum has 2**t / (1 + 2**t) of this error and
      adds u, the reciprocal adds 2 u, the product adds u. If 2**t exceeds 2**126, the result is 0, with an
      error below 2**-119.
    - max(x, 0) - a * Phi(-a): the polynomial of the second term has an error of at most 4e-9. Its argument
      has one of 5 u, which it multiplies by at most 10. It has fewer than 12 roundings, of up to 2.5 times
      its value. The power's argument has an error of 1.5 u a**2; the power and three products add 7 u.
    """

    function: Callable[[Doubles], Doubles]
    slope: float
    own: Callable[[Doubles, Doubles], Doubles]
    exact: bool = False  # without an error, so that it may be one of integers and f64

    def of(self, x: Doubles, error: Doubles) -> tuple[Doubles, Doubles]:
        """The function's values, and their error if x has an error of `error`."""
        y = self.function(x)
        return y, self.slope * error + self.own(x, y)


def _gated(w: Doubles) -> Doubles:
    """1 / (1 + exp(-w)), computed without overflow."""
    small = np.exp(-np.abs(w))
    return np.asarray(np.where(w >= 0, 1.0, small) / (1.0 + small))


def _gated_error(roundings: int, w: Doubles, y: Doubles) -> Doubles:
    part = _gated(-w)
    return ((roundings * np.abs(w) + 4) * part + 4) * UNIT * np.abs(y) + 2.0**-119


def _tanh_argument(x: Doubles) -> Doubles:
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def _normal_below(x: Doubles) -> Doubles:
    """Phi(x), accurate for small values."""
    values = [0.5 * math.erfc(-each / math.sqrt(2)) for each in x.ravel()]
    return np.array(values).reshape(x.shape)


def _gelu_error(x: Doubles, y: Doubles) -> Doubles:
    a = np.abs(x)
    return UNIT * np.abs(y) + (5 * 10 + 12 * 2.5 + 1.5 * a**2 + 7) * UNIT * a * _normal_below(-a) + 4e-9


ACTIVATIONS = {
    "relu": Activation(lambda x: np.maximum(x, 0), 1.0, lambda x, y: np.zeros_like(y), exact=True),
    "gelu": Activation(lambda x: x * _normal_below(x), 1.14, _gelu_error),
    "gelu_tanh": Activation(
        lambda x: x * _gated(_tanh_argument(x)), 1.14, lambda x, y: _gated_error(5, _tanh_argument(x), y)
    ),
    "silu": Activation(lambda x: x * _gated(x), 1.11, lambda x, y: _gated_error(2, x, y)),
}
"""max(x, 0); x * Phi(x), exactly and by tanh; x / (1 + exp(-x))."""
GATES = {"swiglu": "silu"}
"""Functions of two columns, by the activation of the first one, by which the second one is multiplied."""


def activation_complaint(
    activation: object, sums: str = "f32", legal: Iterable[str] = ACTIVATIONS
) -> str | None:
    """Why an activation is none of the legal ones: without sums of f32, the exact ones. None is legal."""
    exact = [name for name, each in ACTIVATIONS.items() if each.exact]
    names, only = (list(legal), "") if sums == "f32" else (exact, f" where D is {sums}")
    if activation is None or (isinstance(activation, str) and activation in names):
        return None
    if only and activation in ACTIVATIONS:
        meant = ": apply it to D instead"
    else:
        meant = did_you_mean(activation, names) if isinstance(activation, str) else ""
    return f"activation must be {choice(names)}{only}, got {shown(activation)}{meant}"

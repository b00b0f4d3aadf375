"""float64 in directed roundings, against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from emulator_ptx import run

MODES = ("rz", "rm", "rp")
RNG = np.random.default_rng(3)
TINY, HUGE = 5e-324, 1.7976931348623157e308
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1 / 3,
    TINY,
    -TINY,
    HUGE,
    -HUGE,
    3e-308,
    -3e-308,
    math.inf,
    -math.inf,
    math.nan,
]
EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
}


def rounded(value, mode):
    """The float64 of a fraction other than 0."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    down = mode == "rm" or (mode == "rz" and value > 0)
    past = math.isinf(nearest) or Fraction(nearest) != value
    if past and down and nearest > value:
        nearest = math.nextafter(nearest, -math.inf)
    if past and not down and nearest < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest if nearest else math.copysign(0.0, 1 if value > 0 else -1)


def wanted(name, mode, operands):
    with np.errstate(all="ignore"):
        x, y, *z = map(np.float64, operands)
        plain = {"add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "div": lambda: x / y}
        nearest = float(x * y + z[0] if name == "fma" else plain[name]())
    if name == "fma" and math.isinf(z[0]) and math.isfinite(x) and math.isfinite(y):
        return float(z[0])
    if not all(map(math.isfinite, operands)) or (name == "div" and y == 0):
        return nearest
    exact = EXACT[name](*map(Fraction, operands))
    if exact:
        return rounded(exact, mode)
    if name in ("mul", "div"):
        return nearest
    # A sum of zero is negative where both parts are, or in .rm where they differ in sign.
    parts = (x * y, z[0]) if name == "fma" else (x, y if name == "add" else -y)
    signs = {math.copysign(1, part) for part in parts}
    return -0.0 if signs == {-1.0} or (mode == "rm" and len(signs) == 2) else 0.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EXACT)
def test_results_are_the_next_on_their_side(name, mode):
    pairs = [(x, y) for x in SPECIAL for y in SPECIAL]
    x, y = (np.array([pair[i] for pair in pairs] + [0.0] * 28) for i in (0, 1))
    x[-28:], y[-28:] = RNG.standard_normal((2, 28))
    z = np.resize([0.0, -0.0, -1.0, 1.0, TINY, 1 / 3, -math.inf, math.inf, -HUGE], len(x))
    inputs = (x, y, z) if name == "fma" else (x, y)
    operands = ", ".join(f"%a{n}" for n in range(len(inputs)))
    got = run(f"{name}.{mode}.f64 %d0, {operands};", *inputs, out=np.float64)
    for at, each in enumerate(zip(*(array.tolist() for array in inputs), strict=True)):
        want = wanted(name, mode, each)
        same = np.array([got[at], want]).view(np.uint64)
        assert (math.isnan(want) and math.isnan(got[at])) or same[0] == same[1], (each, got[at], want)


@pytest.mark.parametrize("mode", MODES)
def test_roots_are_the_next_on_their_side(mode):
    x = np.concatenate([[0.0, -0.0, 1.0, 4.0, 2.25, TINY, HUGE, 3e-308, math.inf], RNG.random(23)])
    got = run(f"sqrt.{mode}.f64 %d0, %a0;", x, out=np.float64)
    for value, root in zip(x.tolist(), got.tolist(), strict=True):
        if value == 0 or math.isinf(value):
            assert math.copysign(1, root) == math.copysign(1, value)
            assert root == value
            continue
        other = math.nextafter(root, math.inf if mode != "rp" else 0.0)
        low, high = sorted((Fraction(root), Fraction(other)))
        exact = Fraction(root) ** 2 == Fraction(value)
        assert exact or low**2 < Fraction(value) < high**2

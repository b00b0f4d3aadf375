"""Random products of small integers, with random options and schedules, are exact.

A line of an input is an option of the product; without it, there is a default.
"""

import itertools
import os
import random
from typing import Any

import everywhere
from everywhere import begin

__all__ = ["attempt", "begin", "make"]

# NumPy's and ml_dtypes' names of A and B, MLIR's, and those of D.
ELEMENTS = {
    "float16": ("f16", ("f16", "f32")),
    "bfloat16": ("bf16", ("bf16", "f32")),
    "float32": ("f32", ("f32",)),
    "float64": ("f64", ("f64",)),
    "int8": ("i8", ("i32",)),
    "float8_e4m3fn": ("f8E4M3FN", ("bf16", "f32")),
    "float8_e5m2": ("f8E5M2", ("f16", "f32")),
}
RESULTS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i32": "int32"}
SCHEDULES = 400
"""The most candidates of a product that are tried."""
_MULTIPLIED = 3_000_000
"""The multiply-adds of a product at most."""


def make(number: int) -> str:
    """The input of this number."""
    chance = random.Random(number)
    element = chance.choice([*ELEMENTS])
    unit = 16 if chance.random() < 0.8 else 1
    lines = [everywhere.chip_line(chance), f"element = {element}"]
    for name, most in (("m", 8), ("n", 8), ("k", 9)):
        lines.append(f"{name} = {max(1, int(2 ** chance.uniform(0, most)) // unit) * unit}")
    lines.append(f"out = {chance.choice(ELEMENTS[element][1])}")
    for name, value in (("transpose_a", 1), ("transpose_b", 1), ("c", 1), ("bias", 1), ("residual", 1)):
        if chance.random() < 0.35:
            lines.append(f"{name} = {value}")
    if chance.random() < 0.3:
        lines.append("activation = relu")
    if chance.random() < 0.3:
        lines.append(f"batch = {chance.randint(2, 3)}")
    if chance.random() < 0.7:
        lines.append(f"schedule = {chance.randrange(SCHEDULES)}")
    return "\n".join(lines)


def attempt(text: str) -> str:
    """Multiplies in the emulator, and on the GPU if there is one."""
    import ml_dtypes
    import numpy as np

    import weft
    from weft.errors import WeftError
    from weft.launch import runtime

    options = dict(line.split(" = ") for line in text.splitlines() if " = " in line)
    size = {name: int(options.get(name, 16)) for name in "mnk"}
    m, n, k = size.values()
    if m * n * k * int(options.get("batch", 1)) > _MULTIPLIED:
        return "too large"
    element, out = options.get("element", "float16"), options.get("out", "f32")
    rng, turned = np.random.default_rng(m * n * k), ["transpose_a" in options, "transpose_b" in options]

    def whole(kind: str, *shape: int) -> Any:
        numbers = rng.integers(-3, 4, shape)
        return numbers.astype(getattr(ml_dtypes, kind) if "fl" in kind and hasattr(ml_dtypes, kind) else kind)

    batch = (int(options["batch"]),) if "batch" in options else ()
    a = whole(element, *batch, *((k, m) if turned[0] else (m, k)))
    b = whole(element, *batch, *((n, k) if turned[1] else (k, n)))
    exact = np.float64(a.swapaxes(-1, -2) if turned[0] else a) @ np.float64(
        b.swapaxes(-1, -2) if turned[1] else b
    )
    given: dict[str, Any] = {"transpose_a": turned[0], "transpose_b": turned[1], "out_dtype": out}
    if "c" in options:
        given |= {"c": whole(RESULTS[out], *batch, m, n), "beta": 1.0}
        exact += np.float64(given["c"])
    added: dict[str, Any] = {}
    if "bias" in options:
        added["bias"] = whole(RESULTS[out], n)
        exact += np.float64(added["bias"])
    if "activation" in options:
        added["activation"] = "relu"
        exact = np.maximum(exact, 0)
    if "residual" in options:
        added["residual"] = whole(RESULTS[out], *batch, m, n)
        exact += np.float64(added["residual"])
    given |= {"epilogue": weft.Epilogue(**added)} if added else {}
    chip = text.partition("\n")[0].removeprefix("# ").partition(", ")[0]
    schedule = _schedule(options, (m, n, k), element, out, turned, chip)
    ways: list[tuple[str, dict[str, Any]]] = [
        ("0", {"arch": chip, "schedule": schedule}),
        ("1", {"arch": chip, "schedule": schedule}),
    ]
    if everywhere.has_gpu():
        ways.append(("GPU", {"schedule": schedule if runtime.current().chip == chip else None}))
    for way, where in ways:
        os.environ["WEFT_EMULATOR_COMPILED"] = way if way in "01" else "1"
        try:
            found = weft.matmul(a, b, **given, **where)
        except WeftError as error:
            assert error.diagnostics
            return "refused"
        wrong = np.argwhere(np.float64(found) != np.float64(exact.astype(found.dtype)))
        assert not len(wrong), f"way {way}: {len(wrong)} elements, first {wrong[0]}, with {schedule}"
    return "agreed"


def _schedule(
    options: dict[str, str], size: tuple[int, int, int], element: str, out: str, turned: list[bool], chip: str
) -> Any:
    """One of the candidates of a tuner."""
    from weft.dialects.schedule import Types
    from weft.errors import WeftError
    from weft.schedules import choice

    if "schedule" not in options:
        return None
    kind = ELEMENTS[element][0]
    request = choice.Request(*size, Types(kind, kind, out, (turned[0], not turned[1])), chip)
    try:
        known = list(itertools.islice(choice.by_promise(request), SCHEDULES))
    except WeftError:
        return None
    return known[int(options["schedule"]) % len(known)] if known else None

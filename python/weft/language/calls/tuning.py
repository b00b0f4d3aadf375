"""`kernel.tune`: the fastest values of meta-parameters, which the cache on disk keeps."""

import inspect
import itertools
import json
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.cache import disk_cache
from weft.errors import WeftError, shown, warn
from weft.launch import arrays, runtime
from weft.launch.kernel import Kernel
from weft.version import VERSION

Choice = dict[str, object]
_KIND = "tuned"


def choices(space: object, names: Sequence[str]) -> list[Choice]:
    """All combinations of values for each name, or a list of choices. Raises WeftError for another space."""
    if isinstance(space, Mapping):
        for name, values in space.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise WeftError(f"space: '{name}' must have a list of values, got {shown(values)}")
        combinations = [
            dict(zip(space, values, strict=True)) for values in itertools.product(*map(tuple, space.values()))
        ]
    else:
        combinations = list(space) if isinstance(space, (list, tuple)) else []
    if not combinations or not all(isinstance(each, dict) and each for each in combinations):
        raise WeftError(
            'space must be values for meta-parameters, such as {"stages": (2, 3)}, or a list of dictionaries '
            f"with one value for each, got {shown(space)}"
        )
    for name in (name for each in combinations for name in each):
        if name not in names:
            legal = f"one of the meta-parameters {', '.join(names)}" if names else "a meta-parameter"
            raise WeftError(f"space: '{name}' must be {legal} without a value in the call")
    return combinations


def key(
    function: Callable[..., object], values: Sequence[object], meta: Choice, options: list[Choice], chip: str
) -> list[str]:
    """The key of the fastest choice: the function's source, types and sizes, other meta-parameters, the
    choices and the GPU.
    """
    described = []
    for value in values:
        try:
            view = arrays.view(value)
            described.append(f"{view.dtype} {view.shape} {view.strides}")
        except WeftError:
            described.append(repr(value))
    gpu = runtime.current().name if runtime.available() is None else ""
    parts = [VERSION, inspect.getsource(function), *described, repr(sorted(meta.items())), repr(options)]
    return [*parts, chip, gpu]


def known(parts: list[str], options: list[Choice]) -> Choice | None:
    """The fastest choice as the cache has it; None where it has none."""
    data = disk_cache.default().find(_KIND, parts)
    number = None if data is None else json.loads(data)
    return options[number] if isinstance(number, int) and 0 <= number < len(options) else None


def fastest(
    name: str,
    options: list[Choice],
    compiled: Callable[[Choice], Kernel],
    values: Sequence[object],
    measure: Callable[..., float],
    check: Callable[[], object] | None,
) -> Choice:
    """The choice with the least time. Those that fail are skipped, with one warning that names them. Raises
    WeftError if all do.
    """
    times, reasons = list[tuple[float, int]](), list[str]()
    for number, choice in enumerate(options):
        try:
            kernel = compiled(choice)
            time = measure(kernel, *values)
            if not isinstance(time, numbers.Real) or math.isnan(time):
                raise WeftError(f"measure must return a time, got {shown(time)}")
            if check is not None and not check():
                raise WeftError("check returned false")
            times.append((time, number))
        except WeftError as error:
            reasons.append(f"{choice}: {str(error).splitlines()[0]}")
    if not times:
        raise WeftError(f"kernel {name}: no choice can run: {'; '.join(reasons)}")
    if reasons:
        warn(f"kernel {name}: {len(reasons)} of {len(options)} choices are skipped: {'; '.join(reasons)}")
    return options[min(times)[1]]


def keep(parts: list[str], options: list[Choice], choice: Choice) -> None:
    """Keeps a choice for later processes."""
    data = json.dumps(options.index(choice)).encode()
    disk_cache.default().change(_KIND, parts, lambda _: data)


def milliseconds(kernel: Kernel, *values: Any) -> float:
    """The median time of a launch on the GPU."""
    launch = kernel.prepare(*values)
    handle = runtime.stream_handle(None)
    return runtime.time(lambda: launch.launch(handle), 20)
